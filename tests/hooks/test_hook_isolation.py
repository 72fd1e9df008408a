"""A workspace can neither put code of its own in the hook's way, nor move what it reads."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from byleave.hooks.install import our_words
from byleave.policy.dirs import own_front, own_packages
from hooks.hook_scene import ENTRY, PATIENCE, SOURCE, HookScene, claude
from test_structure import heavy_among

EVIL = "import os; os.write(1, b'{\"evil\": 1}'); os._exit(0)\n"
# Names that the hook, or Python for it, might look for where it is started.
MODULES = ("sitecustomize", "usercustomize", "byleave", "os", "re", "json", "encodings", "_json", "msgspec", "tomllib")


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    return HookScene.build(tmp_path)


def run_installed(scene: HookScene, command: str, env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run what `--install` writes, in the workspace."""
    return subprocess.run(
        our_words("claude-code", ["--home", str(scene.home)]),
        input=json.dumps(claude("Bash", {"command": command}, scene.root)).encode(),
        capture_output=True,
        check=False,
        timeout=PATIENCE,
        cwd=scene.root,
        env={"BYLEAVE_SERVICE": "off", **env},
    )


def test_modules_in_the_workspace_and_variables_that_name_them_are_not_loaded(scene: HookScene) -> None:
    for name in MODULES:
        (scene.root / f"{name}.py").write_text(EVIL)
    (scene.root / "evil.pth").write_text(f"import sys; {EVIL}")
    variables = {
        "PYTHONPATH": str(scene.root),
        "PYTHONHOME": "",
        "PYTHONSTARTUP": str(scene.root / "os.py"),
        "PYTHONUSERBASE": str(scene.root),
        "PYTHONWARNINGS": "error",
        "PYTHONINSPECT": "1",
        "PYTHONVERBOSE": "1",
        "PATH": str(scene.root),
    }
    done = run_installed(scene, "touch allowed", variables)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_variables_of_byleave_and_of_xdg_do_not_move_what_is_read(scene: HookScene, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    (evil / "byleave").mkdir(parents=True, mode=0o700)
    rule = '[[rules]]\nallow = { command = "touch" }\n'
    for file in (evil / "config.toml", evil / "byleave" / "config.toml"):
        file.write_text(rule)
    variables = dict.fromkeys(
        ("BYLEAVE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"), str(evil)
    )
    done = run_installed(scene, "touch denied", variables)
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert len(scene.records()) == 1
    assert sorted(each.name for each in evil.iterdir()) == ["byleave", "config.toml"]


def test_a_project_file_of_the_workspace_can_only_tighten(scene: HookScene) -> None:
    (scene.root / "byleave.toml").write_text(
        '[[rules]]\nallow = { any_command = true }\n[[rules]]\ndeny = { command = "touch", args = ["allowed"] }\n'
    )
    denied, allowed = (run_installed(scene, command, {}) for command in ("touch denied", "touch asked"))
    assert json.loads(denied.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert json.loads(allowed.stdout)["hookSpecificOutput"]["permissionDecision"] == "ask"


def test_what_is_installed_is_absolute_and_isolated(tmp_path: Path) -> None:
    words = our_words("claude-code", ["--home", str(tmp_path)])
    front, *cold = words
    assert front == own_front("/nowhere")
    assert cold[0] == sys.executable
    assert cold[1:6] == ["-I", "-S", str(ENTRY), "hook", "claude-code"]
    assert all(word.startswith("/") for word in (front, cold[0], cold[3]))


def test_an_empty_list_of_packages_does_not_mean_the_working_directory(scene: HookScene) -> None:
    (scene.root / "msgspec.py").write_text(EVIL)
    (scene.root / "byleave.toml").write_text(
        '[[rules]]\ndeny = { command = "ls" }\n'
    )  # to be parsed for the first time
    done = scene.runs("claude-code", "--packages", "", feed=claude("Bash", {"command": "ls"}, scene.root))
    assert b"evil" not in done.stdout
    relative = scene.runs("claude-code", "--packages", ".", feed=claude("Bash", {"command": "ls"}, scene.root))
    assert b"evil" not in relative.stdout


def loaded_by(scene: HookScene, event: dict[str, object]) -> set[str]:
    """Return the modules that are loaded once the answer is out."""
    code = (
        f"import os, sys; sys.path += {[str(SOURCE), *own_packages().split(':')]!r}\n"
        "from byleave.hooks import hook\n"
        "def leave(said): os.write(2, '\\n'.join(sys.modules).encode()); os._exit(0)\n"
        "hook._leave = leave\n"
        f"hook.serve(hook.Hook('claude-code', {str(scene.home)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        input=json.dumps(event).encode(),
        capture_output=True,
        check=True,
        timeout=PATIENCE,
        cwd=scene.root,
    )
    return set(done.stderr.decode().splitlines())


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "an allowed command": ("Bash", {"command": "touch allowed"}),
    "a denied command": ("Bash", {"command": "touch denied"}),
    "bookkeeping": ("TodoWrite", {"todos": []}),
    "a question": ("Bash", {"command": "touch asked"}),
    "a file": ("Read", {"file_path": "src/a"}),
    "an MCP call": ("mcp__db__query", {"sql": "select 1"}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CALLS)
def test_a_call_loads_nothing_heavy(case: str, scene: HookScene) -> None:
    scene.runs("claude-code", feed=claude("Bash", {"command": "touch allowed"}, scene.root))  # parses the files
    tool, given = CALLS[case]
    assert heavy_among(loaded_by(scene, claude(tool, given, scene.root))) == set()


def test_a_confined_call_loads_nothing_heavy(tmp_path: Path) -> None:
    rules = '[shell]\nconfine = "auto"\n[[rules]]\nallow = { command = "touch" }\nsandbox = true\n'
    scene = HookScene.build(tmp_path, rules)
    scene.runs("claude-code", feed=claude("Bash", {"command": "touch a"}, scene.root))  # finds out what is remembered
    assert heavy_among(loaded_by(scene, claude("Bash", {"command": "touch a"}, scene.root))) == set()


def test_an_event_of_no_interest_loads_hardly_anything(scene: HookScene) -> None:
    loaded = loaded_by(scene, {"hook_event_name": "PostToolUse"})
    assert {name for name in loaded if name.startswith("byleave.")} <= {
        *(
            "byleave.caller",
            "byleave.errors",
            "byleave.record",
            "byleave.text",
            "byleave.hooks",
            "byleave.core",
            "byleave.core.decision",
        ),
        *(f"byleave.hooks.{name}" for name in ("agents", "event_reader", "hook")),
        *("byleave.store", "byleave.store.audit", "byleave.store.audit.records"),
        *("byleave.protocol", "byleave.protocol.json_text", "byleave.protocol.lines"),
    }
