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
from byleave.cli.arguments import CommandSpec
from byleave.cli.commands import ROOT

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
# `generate_program_options` is no part of the package at run time: it turns the package's data into its table, by hand.
EXCUSED = {
    ("shell/knowledge/generate_program_options.py", "os"),
    ("shell/knowledge/generate_program_options.py", "open"),
}

# What a check or a hook needs in rare cases only, and takes long to load: a cold `check` may take 120 ms
# (docs/decisions/0013). Modules that use one of these import it inside a function.
HEAVY = frozenset(
    {"argparse", "asyncio", "concurrent.futures", "ctypes", "dataclasses", "email", "hashlib", "http", "idna", "jwt"}
    | {"logging", "multiprocessing", "pathlib", "re2", "shutil", "socket", "sqlite3", "ssl", "subprocess", "tempfile"}
    | {"tomllib", "unittest", "urllib.request"}
)
HEAVY_PACKAGES = tuple(
    f"byleave.{name}." for name in ("acp", "gateway", "launch", "mounts", "net", "service", "toolhost")
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


def heavy_among(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name in HEAVY or name.startswith(HEAVY_PACKAGES)}


EVENT = '{"hook_event_name":"PreToolUse","session_id":"s","cwd":".","tool_name":"Bash","tool_input":{"command":"ls"}}'
STARTS = {
    "a file": ["check", "--policy", "p.toml", "read", "src/x", "--tool", "t"],
    "a URL": ["check", "--policy", "p.toml", "url", "https://example.com/a", "--tool", "t"],
    "a variable": ["check", "--policy", "p.toml", "env", "HOME", "--tool", "t"],
    "a program": ["check", "--policy", "p.toml", "spawn", "--tool", "t", "--", "ls"],
    "a command": ["check", "--policy", "p.toml", "command", "ls -la | sort > x"],
    "a hook": ["hook", "claude-code"],
    "help": ["--help"],
}


@pytest.mark.parametrize("words", STARTS.values(), ids=STARTS.keys())
def test_a_cold_start_loads_nothing_that_only_rare_cases_need(words: list[str], tmp_path: Path) -> None:
    rules = '[[tools.t.access.fs]]\npath = "src"\nread = true\n[[rules]]\nallow = { command = "ls" }\n'
    (tmp_path / "p.toml").write_text(f'[tools.t]\nsource = "local"\n{rules}')
    loaded_by_start(words, tmp_path)  # the first time, a configuration file is parsed
    loaded = loaded_by_start(words, tmp_path)
    assert "byleave.cli.main" in loaded
    assert heavy_among(loaded) == set()


def test_a_trusted_project_file_adds_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[tools.t]\nsource = "local"\n')
    trust = f"from byleave.cli.main import main; main(['trust', '--yes', '-q', '--root', {str(tmp_path)!r}])"
    check = "from byleave.cli.main import main; assert main(['check', 'read', 'x', '--tool', 't']) == 0"
    for code in (trust, check):
        loaded_by(code, cwd=tmp_path)
    assert heavy_among(loaded_by(check, cwd=tmp_path)) == set()


@pytest.mark.parametrize("module", ["byleave.sdk", "byleave.sdk.vfs", "byleave.sdk.tool"])
def test_the_sdk_loads_nothing_that_only_some_tools_need(module: str, tmp_path: Path) -> None:
    assert heavy_among(loaded_by(f"import {module}", cwd=tmp_path)) == set()


EXTRAS = ("jwt", "opentelemetry", "psycopg", "psycopg_pool", "uvloop")
WITHOUT_EXTRAS = f"sys.modules.update(dict.fromkeys({EXTRAS!r}))"  # importing one of them is an error then


def command_modules(command: CommandSpec = ROOT) -> set[str]:
    own = {f"byleave.cli.{command.module}_command"} if command.module else set()
    return own.union(*map(command_modules, command.subcommands))


def test_every_command_loads_where_no_optional_package_is_installed(tmp_path: Path) -> None:
    wanted = command_modules()
    assert "byleave.cli.mcp_command" in wanted
    assert loaded_by(f"{WITHOUT_EXTRAS}\nimport {', '.join(sorted(wanted))}", cwd=tmp_path) >= wanted


def test_the_test_of_optional_packages_can_fail(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        loaded_by(f"{WITHOUT_EXTRAS}\nimport byleave.store.postgres.database", cwd=tmp_path)
    assert "psycopg" in failed.value.stderr


def test_the_test_of_what_is_loaded_can_fail(tmp_path: Path) -> None:
    assert heavy_among(loaded_by("import sqlite3, byleave.net.proxy", cwd=tmp_path)) >= {"sqlite3", "byleave.net.proxy"}


def test_no_module_has_a_flag_of_its_own_for_type_checkers() -> None:
    """Annotations and imports for types are written as everywhere: docs/decisions/0013."""
    texts = {file.relative_to(SOURCE): file.read_text() for file in SOURCE.rglob("*.py")}
    assert [str(file) for file, text in texts.items() if "TYPE_CHECKING = False" in text] == []
    checked = [text for text in texts.values() if "if TYPE_CHECKING:" in text]
    assert [text for text in checked if "from __future__ import annotations\n" not in text] == []


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
    made = {".venv", ".venv-docs", ".git", "build"}
    kept = [file for file in files if made.isdisjoint(file.relative_to(checkout).parts[:1])]
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
