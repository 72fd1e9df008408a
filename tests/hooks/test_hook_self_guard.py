"""An agent cannot take its own hook away: neither by our commands nor by writing its settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.hooks.agents import AGENTS
from byleave.hooks.install import settings_file
from hooks.hook_scene import HookScene, claude

ANYTHING = '[[rules]]\nallow = { any_command = true, options = "any" }\n[[rules]]\nallow = { path = "**" }\n'


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    made = HookScene.build(tmp_path, ANYTHING + '[[rules]]\nallow = { path = "~/**" }\n')
    (made.root / "byleave.toml").unlink()
    return made


def decision(scene: HookScene, tool: str, given: dict[str, Any]) -> str:
    text = scene.says("claude-code", claude(tool, given, scene.root))
    return str(json.loads(text)["hookSpecificOutput"]["permissionDecision"])


COMMANDS = [
    "byleave hook --install claude-code --yes",
    "byleave hook --uninstall claude-code --yes",
    "byleave --no-input hook --uninstall claude-code --yes",
    "python -I -m byleave hook --uninstall claude-code --yes",
    "sh -c 'byleave hook --uninstall claude-code --yes'",
    "echo {} | byleave hook claude-code",
    "echo {} | /venv/bin/python -I -S /venv/lib/byleave/hooks/__main__.py hook claude-code --home /tmp",
    "timeout 5 env byleave hook --uninstall codex",
    "byleave trust --yes",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_agent_may_not_run_our_own_commands_whatever_the_rules_say(command: str, scene: HookScene) -> None:
    assert decision(scene, "Bash", {"command": "ls"}) == "allow"
    assert decision(scene, "Bash", {"command": command}) == "deny"


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_may_not_write_the_settings_that_hold_a_hook(agent: str, scene: HookScene) -> None:
    file = settings_file(agent, str(scene.home))
    assert decision(scene, "Write", {"file_path": file, "content": "{}"}) == "deny"
    assert decision(scene, "Bash", {"command": f"echo '{{}}' > {file}"}) == "deny"


@pytest.mark.parametrize(
    "name", [".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json", ".gemini/settings.json"]
)
def test_an_agent_may_not_switch_its_hooks_off_in_the_workspace(name: str, scene: HookScene) -> None:
    assert decision(scene, "Write", {"file_path": str(scene.root / "a.txt"), "content": "x"}) == "allow"
    assert (
        decision(scene, "Write", {"file_path": str(scene.root / name), "content": '{"disableAllHooks": true}'})
        == "deny"
    )
    assert decision(scene, "Bash", {"command": f"mkdir -p x && echo x > {name}"}) == "deny"


def test_an_agent_may_not_write_byleaves_own_files(scene: HookScene) -> None:
    for path in (
        scene.home / ".config/byleave/config.toml",
        scene.home / ".local/state/byleave/x",
        scene.root / "byleave.toml",
    ):
        assert decision(scene, "Write", {"file_path": str(path), "content": "x"}) == "deny"
