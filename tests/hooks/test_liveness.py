"""Whether an agent really asks byleave: what `doctor` says about its settings, and about calls that came without."""

import json
import os
from pathlib import Path

import pytest

from byleave.hooks.install import carry_out, our_words, plan_install, settings_file
from byleave.hooks.last_event import last_event, note_event
from byleave.hooks.liveness import hook_findings, silent_agents
from byleave.hooks.snippets import item
from byleave.policy.dirs import find_homes
from command import byleave
from hooks.hook_scene import HookScene, claude

DAY = 86_400.0
NOW = 1_900_000_000.0


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    return HookScene.build(tmp_path)


def install(scene: HookScene, agent: str) -> Path:
    file = Path(settings_file(agent, str(scene.home)))
    carry_out(plan_install(agent, str(file), our_words(agent, ["--home", str(scene.home)])))
    os.utime(file, (NOW - 10 * DAY, NOW - 10 * DAY))
    return file


def state(scene: HookScene) -> str:
    return find_homes({"HOME": str(scene.home)}).state


def findings(scene: HookScene) -> list[tuple[str, str, str]]:
    found = hook_findings(str(scene.home), state(scene), str(scene.root), "", now=NOW)
    return [(each.agent, each.state, each.text) for each in found]


def only(scene: HookScene) -> tuple[str, str]:
    (found,) = findings(scene)
    return found[1:]


def session(scene: HookScene, place: str, content: str, at: float) -> None:
    file = scene.home / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    os.utime(file, (at, at))


def heard(scene: HookScene, agent: str, at: float) -> None:
    note_event(state(scene), agent)
    os.utime(Path(state(scene)) / "asked" / agent, (at, at))


CLAUDE_SESSION = ".claude/projects/-ws/a.jsonl"
CALL = '{"type": "assistant", "content": [{"type": "tool_use", "name": "Bash"}]}\n'


def test_a_user_without_agents_hears_nothing(scene: HookScene) -> None:
    assert findings(scene) == []


def test_an_agent_without_the_hook_is_named_with_what_to_do(scene: HookScene) -> None:
    (scene.home / ".claude").mkdir()
    assert only(scene) == ("note", "it does not ask byleave: run `byleave hook --install claude-code` yourself")


def test_an_installed_hook_is_good(scene: HookScene) -> None:
    install(scene, "claude-code")
    assert only(scene) == ("ok", "it asks byleave before every call; it has made none so far")
    heard(scene, "claude-code", NOW - 3 * DAY)
    assert only(scene) == ("ok", "it asks byleave before every call, the last time 3 days ago")


def test_a_call_through_the_hook_is_noted(scene: HookScene) -> None:
    assert last_event(state(scene), "claude-code") is None
    scene.says("claude-code", claude("Bash", {"command": "touch allowed"}, scene.root))
    assert last_event(state(scene), "claude-code") is not None


def test_an_older_install_is_told_from_one_that_reports(scene: HookScene) -> None:
    file = Path(settings_file("claude-code", str(scene.home)))
    file.parent.mkdir()
    ours = item("claude-code", our_words("claude-code", ["--home", str(scene.home)]))
    file.write_text(json.dumps({"hooks": {"PreToolUse": [ours]}}))
    assert only(scene)[0] == "note"
    assert "does not report what came of its calls" in only(scene)[1]


@pytest.mark.parametrize("place", ["home", "project"])
def test_hooks_that_are_switched_off_are_bad(scene: HookScene, place: str) -> None:
    file = install(scene, "claude-code")
    if place == "project":
        (scene.root / ".claude").mkdir()
        file = scene.root / ".claude/settings.json"
    tree = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**tree, "disableAllHooks": True}))
    assert only(scene) == (
        "bad",
        f"its hooks are switched off in {file}, so it does not ask byleave: switch them on there",
    )


def test_gemini_cli_says_off_in_its_own_way_and_does_not_trust_some_folders(scene: HookScene) -> None:
    file = install(scene, "gemini")
    file.write_text(json.dumps({**json.loads(file.read_text()), "hooksConfig": {"enabled": False}}))
    (scene.home / ".gemini/trustedFolders.json").write_text(json.dumps({str(scene.root.parent): "DO_NOT_TRUST"}))
    assert [found[1] for found in findings(scene)] == ["bad", "bad"]
    (scene.home / ".gemini/trustedFolders.json").write_text(
        json.dumps({str(scene.root.parent): "DO_NOT_TRUST", str(scene.root): "TRUST_FOLDER"})
    )
    assert [found[1] for found in findings(scene)] == ["bad"]


def test_a_hook_whose_program_is_gone_is_bad(scene: HookScene) -> None:
    file = install(scene, "claude-code")
    file.write_text(file.read_text().replace("/byleave/hooks/__main__.py", "/gone/byleave/hooks/__main__.py"))
    assert only(scene)[0] == "bad"
    assert "which is not there, so every call is blocked" in only(scene)[1]


def test_calls_without_an_event_are_bad(scene: HookScene) -> None:
    install(scene, "claude-code")
    session(scene, CLAUDE_SESSION, CALL, NOW - DAY)
    assert only(scene)[0] == "bad"
    assert "byleave was asked about none so far" in only(scene)[1]
    heard(scene, "claude-code", NOW - 5 * DAY)
    assert "byleave was asked about none since" in only(scene)[1]
    (sentence,) = silent_agents(str(scene.home), state(scene), "", now=NOW)
    assert sentence.startswith("Claude Code: it has made calls")


def test_codex_that_was_not_told_to_trust_the_hook_is_bad(scene: HookScene) -> None:
    install(scene, "codex")
    session(scene, ".codex/sessions/2030/01/01/a.jsonl", '{"type":"function_call"}', NOW - DAY)
    assert "start `codex` and trust the hook, in /hooks" in only(scene)[1]


def test_what_is_no_evidence_says_nothing(scene: HookScene) -> None:
    install(scene, "claude-code")
    session(scene, CLAUDE_SESSION, CALL, NOW - 20 * DAY)  # before the hook was installed
    assert only(scene)[0] == "ok"
    session(scene, CLAUDE_SESSION, '{"type": "user"}\n', NOW - DAY)  # no tool call
    assert only(scene)[0] == "ok"
    session(scene, CLAUDE_SESSION, CALL, NOW + 100 * DAY)  # a clock that is wrong
    assert only(scene)[0] == "ok"
    session(scene, CLAUDE_SESSION, CALL, NOW - DAY)
    heard(scene, "claude-code", NOW - DAY - 3600)  # the session goes on after its last call
    assert only(scene)[0] == "ok"
    (scene.home / CLAUDE_SESSION).unlink()
    os.mkfifo(scene.home / CLAUDE_SESSION)
    assert only(scene)[0] == "ok"


def test_settings_that_cannot_be_read_are_said_to_be(scene: HookScene) -> None:
    file = install(scene, "claude-code")
    file.write_text("{ // mine\n}")
    assert only(scene)[0] == "note"
    assert "it is not known whether it asks byleave" in only(scene)[1]


def test_doctor_shows_it(scene: HookScene) -> None:
    (scene.home / ".claude").mkdir()
    done = byleave("doctor", "--json", cwd=scene.root, env={"HOME": str(scene.home), "BYLEAVE_HOME": None})
    found = [one for one in json.loads(done.out)["findings"] if one["what"] == "Claude Code"]
    assert [one["state"] for one in found] == ["note"]
