"""The structure of the code: which packages are pure, what a start loads, and which names the public may rely on."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import byleave
import byleave.sdk

SOURCE = Path(byleave.__file__).parent
PURE_PACKAGES = ("core", "shell", "protocol", "translate")
PURE_MODULES = (
    *("record.py", "text.py", "errors.py", "policy/normalize.py", "net/client_hello.py"),
    *(f"sandbox/plan/{name}.py" for name in ("plan", "filesystem_view")),
    *(f"sandbox/linux/{name}.py" for name in ("steps", "seccomp", "program", "landlock")),
)
IMPURE_NAMES = frozenset({"open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint"})
IMPURE_MODULES = frozenset(
    {"os", "io", "sys", "time", "datetime", "random", "secrets", "socket", "subprocess", "pathlib", "logging", "shutil"}
    | {"tempfile", "threading", "asyncio", "signal", "urllib", "http", "ctypes", "fcntl", "platform", "locale"}
)
# `record` writes the `__init__` of value classes out as source, from the names of their fields.
# `generate_program_options` is no part of the package at run time: it turns the package's data into its table, by hand.
EXCUSED = {
    ("record.py", "exec"),
    ("shell/knowledge/generate_program_options.py", "os"),
    ("shell/knowledge/generate_program_options.py", "open"),
}

# Each costs a third of an interpreter's start or more; `check` runs before every tool call.
HEAVY = frozenset(
    {"argparse", "asyncio", "ctypes", "dataclasses", "enum", "hashlib", "inspect", "json", "logging", "msgspec"}
    | {"pathlib", "re", "rich", "shlex", "subprocess", "tempfile", "tomllib", "typing", "urllib.parse"}
)


def pure_files() -> Iterator[Path]:
    for package in PURE_PACKAGES:
        yield from sorted((SOURCE / package).rglob("*.py"))
    yield from (SOURCE / name for name in PURE_MODULES)


def impurities(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] in IMPURE_MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in IMPURE_MODULES:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_NAMES:
                yield name


@pytest.mark.parametrize("file", list(pure_files()), ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_pure_package_opens_prints_and_looks_at_nothing(file: Path) -> None:
    name = str(file.relative_to(SOURCE))
    assert [found for found in impurities(file) if (name, found) not in EXCUSED] == []


def test_the_purity_test_can_fail(tmp_path: Path) -> None:
    sinner = tmp_path / "sinner.py"
    sinner.write_text("import os\nfrom time import time\nprint(open('x'))\n")
    assert sorted(impurities(sinner)) == ["open", "os", "print", "time"]


def loaded_by(code: str, *, cwd: Path) -> set[str]:
    """Return the modules that are loaded after `code` ran in a fresh, isolated interpreter."""
    script = f"import sys\n{code}\nsys.stderr.write('\\n'.join(sys.modules))"
    argv = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {[str(SOURCE.parent)]!r}\n{script}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=cwd, timeout=60)
    return set(done.stderr.splitlines())


CHECKS = {
    "a file": ["read", "src/x", "--tool", "t"],
    "a URL": ["url", "https://example.com/a", "--tool", "t"],
    "a variable": ["env", "HOME", "--tool", "t"],
    "a program": ["spawn", "--tool", "t", "--", "ls"],
}


@pytest.mark.parametrize("words", CHECKS.values(), ids=CHECKS.keys())
def test_checking_something_a_second_time_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    argv = ["check", "--policy", "p.toml", *words]
    code = f"from byleave.cli.main import main; main({argv!r})"
    loaded_by(code, cwd=tmp_path)
    assert loaded_by(code, cwd=tmp_path) & HEAVY == set()


def test_a_trusted_project_file_loads_nothing_heavy_either(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[tools.t]\nsource = "local"\n')
    trust = f"from byleave.cli.main import main; main(['trust', '--yes', '-q', '--root', {str(tmp_path)!r}])"
    check = "from byleave.cli.main import main; assert main(['check', 'read', 'x', '--tool', 't']) == 0"
    for code in (trust, check):
        loaded_by(code, cwd=tmp_path)
    assert loaded_by(check, cwd=tmp_path) & HEAVY == set()


def test_help_and_the_sdk_load_nothing_heavy(tmp_path: Path) -> None:
    assert loaded_by("from byleave.cli.main import main; main(['--help'])", cwd=tmp_path) & HEAVY == set()
    assert loaded_by("import byleave.sdk", cwd=tmp_path) & HEAVY == set()


# Modules with the idiom of docs/decisions/0001 that the starts below do not load, and why they have it.
ALSO_COLD = {
    "byleave.core.calls": "a check of a call",
    "byleave.core.search": "a check of a search",
    "byleave.hooks.__main__": "the entry of a hook",
    "byleave.hooks.agent_process": "a hook that may confine",
    "byleave.hooks.changed_call": "the same",
    "byleave.hooks.confining": "the same",
    "byleave.hooks.other_hooks": "the same",
    "byleave.hooks.own_lists": "the same",
    "byleave.hooks.pausing": "a hook while confined commands run",
    "byleave.hooks.unredeemed": "the same",
    "byleave.policy.agent_patterns": "a hook that reads what its agent denies",
    "byleave.policy.agent_permissions": "the same",
    "byleave.policy.agent_settings": "the same",
    "byleave.policy.codex_rules": "the same",
    "byleave.policy.mcp_json": "a project with .mcp.json",
    "byleave.policy.permission_lists": "a hook that reads what its agent denies",
    "byleave.policy.permission_patterns": "the same",
    "byleave.sandbox": "a hook that may confine",
    "byleave.sandbox.can_confine": "the same",
    "byleave.sandbox.machine_stamp": "the same",
    "byleave.sandbox.stopping": "a hook while confined commands run",
    "byleave.shell.knowledge.generate_program_options": "writes a module that has it",
    "byleave.store.audit.table": "a hook that folds the audit log",
    "byleave.store.audit.table_writer": "the same",
    "byleave.store.live_runs": "a hook while confined commands run",
    "byleave.store.tickets": "a hook that may confine",
    "byleave.translate.ticketed_command": "the same",
    "byleave.workspace.openat": "a trusted project file",
    "byleave.workspace.safe_open": "the same",
    "byleave.workspace.replacing": "the same",
}
COLD_PACKAGES = ("byleave.protocol.", "byleave.sdk", "byleave.tools")  # tools are started for each call
STARTS = {
    **{name: ["check", "--policy", "p.toml", *words] for name, words in CHECKS.items()},
    "a command": ["check", "--policy", "p.toml", "command", "ls -la | sort > x"],
    "a hook": ["hook", "claude-code"],
}
EVENT = '{"hook_event_name":"PreToolUse","session_id":"s","cwd":".","tool_name":"Bash","tool_input":{"command":"ls"}}'


def loaded_by_start(words: list[str], cwd: Path) -> set[str]:
    """Return the modules that a command has loaded at its end, also where it ends without cleaning up."""
    script = (
        "import os, sys\nleave = os._exit\n"
        "def report(code=0):\n    os.write(2, ('\\n@' + ' '.join(sys.modules)).encode())\n    leave(code)\n"
        f"os._exit = report\nfrom byleave.cli.main import main\ntry:\n    main({words!r})\nfinally:\n    report()\n"
    )
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, input=EVENT, capture_output=True, text=True, check=False, cwd=cwd, timeout=60)
    return set(done.stderr.rpartition("\n@")[2].split())


def test_the_start_up_idiom_is_where_a_cold_start_loads_it(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[tools.t]\nsource = "local"\n[[rules]]\nallow = { command = "ls" }\n')
    loaded = loaded_by("import byleave.sdk", cwd=tmp_path)
    for words in STARTS.values():
        loaded_by_start(words, tmp_path)
        loaded |= loaded_by_start(words, tmp_path)
    modules = {
        ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): file.read_text()
        for file in SOURCE.rglob("*.py")
    }
    idiom = {name for name, text in modules.items() if "\nTYPE_CHECKING = False\n" in text}
    assert {name for name in idiom - loaded - set(ALSO_COLD) if not name.startswith(COLD_PACKAGES)} == set()
    assert set(ALSO_COLD) - idiom == set()


def test_importing_the_package_loads_none_of_its_packages(tmp_path: Path) -> None:
    assert {name for name in loaded_by("import byleave", cwd=tmp_path) if name.startswith("byleave.")} == set()


def test_the_public_names_are_these() -> None:
    assert set(byleave.__all__) == {
        "Action",
        "Answer",
        "ByleaveError",
        "ConfigError",
        "ConfigErrors",
        "Decision",
        "Guard",
        "InputError",
        "Matcher",
        "Operation",
        "Outcome",
        "Policy",
        "Rule",
        "RuleRef",
        "Ruleset",
        "TerminalAsker",
        "Verdict",
        "Who",
        "compile_policy",
        "explain",
        "load_policy",
        "open_guard",
        "read_command",
    }
    assert all(getattr(byleave, name) is not None for name in byleave.__all__)
    assert dir(byleave) == sorted([*byleave.__all__, "__version__"])


def test_the_public_names_of_the_sdk_are_these() -> None:
    assert set(byleave.sdk.__all__) == {"Context", "FsAccessError"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = byleave.nonsense


def test_the_package_says_that_it_is_typed_and_which_version_it_is() -> None:
    assert (SOURCE / "py.typed").exists()
    pyproject = SOURCE.parent.parent / "pyproject.toml"
    if not pyproject.exists():
        pytest.skip("not run from a checkout")
    assert f'version = "{byleave.__version__}"' in pyproject.read_text()


def test_no_file_names_a_place_on_the_machine_it_was_written_on() -> None:
    checkout = SOURCE.parent.parent
    if not (checkout / "pyproject.toml").exists():
        pytest.skip("not run from a checkout")
    own = os.sep.join(["", "work", "main"])
    files = [file for suffix in ("py", "md", "toml", "json", "jsonl", "sh") for file in checkout.rglob(f"*.{suffix}")]
    kept = [file for file in files if ".venv" not in file.parts and ".git" not in file.parts]
    assert [str(file) for file in kept if own in file.read_text(errors="replace")] == []


def import_graph() -> dict[str, set[str]]:
    """Return what each module imports: at its top, in a function, and for types alone, however that is spelled."""
    source = Path(byleave.__file__).parent
    files = {".".join(file.relative_to(source).with_suffix("").parts): file for file in source.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): file for name, file in files.items() if name != "__init__"}
    graph: dict[str, set[str]] = {}
    for module, file in modules.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                is_module = {name: full.removeprefix("byleave.") in modules for name, full in inner.items()}
                named |= {full if is_module[name] else node.module for name, full in inner.items()}
        graph[module] = {name for each in named if (name := each.removeprefix("byleave.")) in modules} - {module}
    return graph


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def test_no_modules_import_each_other_not_even_for_types() -> None:
    graph = import_graph()
    assert "core.action" in graph["guard.guard"]
    assert "policy.live_policy" in graph["guard.persist_rule"]  # imported for types alone
    below = {module: reachable(graph, module) for module in graph}
    cycles = {frozenset(other for other in below[module] if module in below[other]) for module in graph}
    assert [sorted(cycle) for cycle in cycles if cycle] == []
