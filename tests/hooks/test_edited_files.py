"""A project file that was edited since it was trusted: the hook's own reason says so, once for each change."""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from hooks.hook_scene import HookScene, claude, gemini

ALLOWS = '[[rules]]\nallow = {{ command = "touch", args = ["{}"] }}\n'


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    scene = HookScene.build(tmp_path)
    write(scene, ALLOWS.format("x"))
    trust(scene)
    return scene


def write(scene: HookScene, text: str, name: str = "byleave.toml") -> None:
    (scene.root / name).parent.mkdir(exist_ok=True)
    (scene.root / name).write_text(text)


def trust(scene: HookScene, name: str = "byleave.toml") -> None:
    workspace = Workspace(str(scene.root), homes=find_homes({"HOME": str(scene.home)}))
    [layer] = [each for each in workspace.load().compiled.layers if each.file == name]
    workspace.approvals.trust(workspace.print_of(name, layer.content, layer.tree), now="2026-01-01T00:00:00Z")


def said(scene: HookScene, command: str = "touch x") -> tuple[str, str]:
    text = scene.says("claude-code", claude("Bash", {"command": command}, scene.root))
    answer: dict[str, Any] = json.loads(text)["hookSpecificOutput"]
    return answer["permissionDecision"], answer["permissionDecisionReason"]


EDITED = "byleave.toml was changed since you trusted byleave.toml"


def test_an_edited_file_is_said_once(scene: HookScene) -> None:
    assert said(scene)[0] == "allow"
    write(scene, ALLOWS.format("x") + "\n")
    decision, reason = said(scene)
    assert (decision, EDITED in reason, "`byleave trust byleave.toml`" in reason) == ("ask", True, True)
    assert "touch x" in reason
    assert EDITED not in said(scene)[1]


def test_each_change_is_said_and_so_is_the_same_one_after_trust(scene: HookScene) -> None:
    changed = []
    for text in ("# one\n", "# two\n", "# one\n"):
        write(scene, text)
        changed.append([EDITED in said(scene)[1] for _ in range(2)])
    assert changed == [[True, False]] * 3
    write(scene, ALLOWS.format("x"))
    assert said(scene)[0] == "allow"
    assert EDITED not in said(scene, "touch y")[1]
    write(scene, "# one\n")
    assert EDITED in said(scene)[1]
    trust(scene)
    assert EDITED not in said(scene)[1]


def test_an_allow_does_not_use_the_notice_up(scene: HookScene) -> None:
    write(scene, "# other\n")
    assert said(scene, "touch allowed") == ("allow", said(scene, "touch allowed")[1])
    assert EDITED not in said(scene, "touch allowed")[1]
    assert EDITED in said(scene, "touch denied")[1]


def test_a_file_that_is_gone_is_said(scene: HookScene) -> None:
    (scene.root / "byleave.toml").unlink()
    (scene.root / ".git").mkdir()
    assert "byleave.toml, which you trusted, is not read any more" in said(scene)[1]
    assert "not read any more" not in said(scene)[1]


def test_a_changed_script_is_said(scene: HookScene) -> None:
    (scene.root / "tool.sh").write_text("echo 1\n")
    write(scene, ALLOWS.format("x") + '[tools.t]\nsource = "local"\ncommand = ["./tool.sh"]\n')
    trust(scene)
    assert said(scene)[0] == "allow"
    (scene.root / "tool.sh").write_text("echo 2\n")
    assert "a script that it starts was changed since you trusted byleave.toml" in said(scene)[1]


def test_a_file_that_was_never_trusted_is_not_called_edited(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path)
    write(scene, ALLOWS.format("x"))
    assert "since you trusted" not in said(scene)[1]


def test_a_long_command_does_not_cut_the_notice_off(scene: HookScene) -> None:
    write(scene, "# other\n")
    assert EDITED in said(scene, f"touch {'y' * 9000}")[1]


def test_other_agents_hear_it_in_their_own_format(scene: HookScene) -> None:
    write(scene, "# other\n")
    answer = json.loads(scene.says("gemini", gemini("run_shell_command", {"command": "touch x"}, scene.root)))
    assert (answer["decision"], EDITED in answer["systemMessage"]) == ("ask", True)
