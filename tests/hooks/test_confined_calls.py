"""A confined allow is answered as a changed call, and is never a plain one: where it cannot be changed, it asks."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from byleave.errors import StateError
from byleave.hooks import confining, unredeemed
from byleave.hooks.agent_process import FoundAgent
from byleave.hooks.confining import SHELL_TOOLS
from byleave.hooks.event_reader import Hook, HookContext
from byleave.hooks.outcomes import note_outcome
from byleave.hooks.unredeemed import UNCONFINED
from byleave.policy.dirs import find_homes
from byleave.store import tickets
from byleave.store.tickets import LIFETIME, Ticket, confining_ended, redeem, resume_confining
from byleave.translate.ticketed_command import ticket_in
from hooks.hook_scene import HookScene, claude, gemini, opencode

RULES = """
[shell]
confine = "auto"
[[rules]]
deny = { command = "rm" }
[[rules]]
ask = { command = "git", subcommand = "push" }
[[rules]]
allow = { command = "cat" }
[[rules]]
allow = { command = ["make", "echo", "cd", "touch"] }
sandbox = true
"""
TEXT = "cd src && echo 'it is' \"$HOME\""


class Room(HookScene):
    """A workspace whose commands run confined."""

    @property
    def state(self) -> str:
        return find_homes({"HOME": str(self.home)}).workspace(str(self.root))

    def event(self, agent: str, command: str, **more: Any) -> dict[str, Any]:
        tool, given = SHELL_TOOLS[agent].name, {"command": command, **more.pop("given", {})}
        if agent == "gemini":
            return gemini(tool, given, self.root, **more)
        if agent == "opencode":
            return opencode(tool, given, self.root, **more)
        return claude(tool, given, self.root, **more)

    def answer(self, agent: str, command: str, **more: Any) -> tuple[str, str, Mapping[str, Any] | None]:
        """Return the decision, the reason, and the changed input."""
        root = self.root if agent == "codex" else None  # which takes it from where it starts its hooks
        said = self.says(agent, self.event(agent, command, **more), root=root)
        tree = json.loads(said or "{}")
        if agent in ("claude-code", "codex"):
            own = tree.get("hookSpecificOutput", {"permissionDecision": "allow", "permissionDecisionReason": ""})
            return own["permissionDecision"], own["permissionDecisionReason"], own.get("updatedInput")
        changed = tree.get("hookSpecificOutput", {}).get("tool_input") if agent == "gemini" else tree.get("args")
        return tree["decision"], tree.get("reason", ""), changed

    def ticket(self, changed: Mapping[str, Any] | None) -> Ticket:
        assert changed is not None
        found = ticket_in(changed["command"])
        assert found is not None
        return redeem(self.state, found)

    def add(self, rules: str) -> None:
        config = self.home / ".config/byleave/config.toml"
        config.write_text(rules + config.read_text())


@pytest.fixture
def agent_process(monkeypatch: pytest.MonkeyPatch) -> dict[str, FoundAgent]:
    """The agent that the hook finds above itself; none, unless a test says so."""
    found = {"agent": FoundAgent()}
    monkeypatch.setattr(confining, "find_agent", lambda *_given: found["agent"])
    monkeypatch.setattr(confining, "_machine_problem", lambda *_given: "")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def room(tmp_path: Path, agent_process: dict[str, FoundAgent]) -> Room:
    built = Room.build(tmp_path, RULES)
    return Room(built.home, built.root)


@pytest.mark.parametrize("agent", SHELL_TOOLS)
def test_a_confined_allow_is_a_changed_call_that_keeps_every_other_field(agent: str, room: Room) -> None:
    decision, _reason, changed = room.answer(agent, TEXT, given={"description": "d", "timeout": 5})
    assert decision == "allow"
    assert changed is not None
    assert {**changed, "command": TEXT} == {"command": TEXT, "description": "d", "timeout": 5}
    ticket = room.ticket(changed)
    assert (ticket.text, ticket.root, ticket.agent) == (TEXT, str(room.root), agent)
    assert os.path.realpath(ticket.cwd) == str(room.root)
    assert ticket.sequence == room.records()[-1]["sequence"]


@pytest.mark.parametrize("agent", SHELL_TOOLS)
def test_what_is_denied_is_denied_and_gets_no_ticket(agent: str, room: Room) -> None:
    decision, _reason, changed = room.answer(agent, "make; rm -rf /")
    assert (decision, changed) == ("deny", None)
    assert not os.path.exists(os.path.join(room.state, "tickets"))


VERSIONS = {
    "as proved": ((0, 0, 0), "allow"),
    "a later one": ((0, 0, 1), "allow"),
    "an earlier one": ((0, 0, -1), "ask"),
    "another major version": ((1, 0, 0), "ask"),
}


@pytest.mark.parametrize("agent", SHELL_TOOLS)
@pytest.mark.parametrize(("step", "expected"), VERSIONS.values(), ids=VERSIONS.keys())
def test_only_proven_versions_are_confined(
    agent: str, step: tuple[int, ...], expected: str, room: Room, agent_process: dict[str, FoundAgent]
) -> None:
    since = SHELL_TOOLS[agent].since
    version = tuple(number + by for number, by in zip(since, step, strict=True))
    if step[2] < 0:
        version = (since[0], since[1] - 1, 999)
    agent_process["agent"] = FoundAgent((1, 2), version, ("agent",))
    decision, reason, changed = room.answer(agent, "make")
    held_back = {"codex": "deny", "opencode": "deny"}
    assert (decision, changed is not None) == (
        expected if expected == "allow" else held_back.get(agent, "ask"),
        expected == "allow",
    )
    assert expected == "allow" or "proved from version" in reason


def test_an_agent_of_an_unknown_version_is_not_confined(room: Room, agent_process: dict[str, FoundAgent]) -> None:
    agent_process["agent"] = FoundAgent((1, 2), (), ("node",), "it is a bare node")
    decision, reason, changed = room.answer("claude-code", "make")
    assert (decision, changed) == ("ask", None)
    assert "version of the agent is not known: it is a bare node" in reason


def test_another_hook_ends_confining(room: Room) -> None:
    settings = room.root / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}}))
    decision, reason, changed = room.answer("claude-code", "make")
    assert (decision, changed) == ("ask", None)
    assert "another hook may answer" in reason


def test_a_machine_that_cannot_confine_asks(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confining, "_machine_problem", lambda *_given: "no namespaces")
    decision, reason, changed = room.answer("claude-code", "make")
    assert (decision, changed) == ("ask", None)
    assert "this machine cannot confine: no namespaces" in reason


def test_where_confinement_is_not_needed_a_command_runs_as_the_agent_would(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert room.answer("claude-code", "cat x")[2] is not None  # `auto`: confined where that is possible
    monkeypatch.setattr(confining, "_machine_problem", lambda *_given: "no namespaces")
    assert (room.answer("claude-code", "cat x")[0], room.answer("claude-code", "cat x")[2]) == ("allow", None)


@pytest.mark.parametrize("table", ["", '[shell]\nconfine = "off"\n'])
def test_without_a_shell_table_nothing_is_changed(table: str, room: Room) -> None:
    config = room.home / ".config/byleave/config.toml"
    config.write_text(RULES.replace('[shell]\nconfine = "auto"\n', table))
    assert (room.answer("claude-code", "make")[0], room.answer("claude-code", "make")[2]) == ("ask", None)
    assert (room.answer("claude-code", "cat x")[0], room.answer("claude-code", "cat x")[2]) == ("allow", None)


def test_another_tool_of_the_agent_is_not_changed(room: Room) -> None:
    said = json.loads(room.says("claude-code", claude("Monitor", {"command": "make"}, room.root)))
    assert said["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert "updatedInput" not in said["hookSpecificOutput"]


@pytest.mark.parametrize("text", ["make \ud800", "make " + "x" * 120_000, "make " + "'" * 20_000])
def test_a_text_that_cannot_be_passed_on_exactly_asks(text: str, room: Room) -> None:
    decision, _reason, changed = room.answer("claude-code", text)
    assert (decision, changed) == ("ask", None)


def test_a_directory_outside_of_the_workspace_asks(room: Room, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (room.root / "link").symlink_to(elsewhere)
    for place in (elsewhere, room.root / "link"):
        variables = {"CLAUDE_PROJECT_DIR": str(room.root)}
        said = json.loads(room.says("claude-code", claude("Bash", {"command": "make"}, place), variables=variables))
        assert said["hookSpecificOutput"]["permissionDecision"] == "ask"
        assert "updatedInput" not in said["hookSpecificOutput"]


PADDED = "cat x #" + "'" * 9_000


@pytest.mark.parametrize("way", ["text", "tool", "directory", "settings", "ended"])
def test_no_agent_chooses_to_run_plainly_what_would_run_confined(way: str, room: Room, tmp_path: Path) -> None:
    """With `auto` a command runs plainly where the agent cannot be confined; an agent that can has no say in that."""
    place, tool, text = room.root, "Bash", "cat x"
    assert room.answer("claude-code", text)[2] is not None
    if way == "text":
        text = PADDED
    elif way == "tool":
        tool = "Monitor"
    elif way == "directory":
        place = tmp_path / "elsewhere"
        place.mkdir()
    elif way == "settings":
        place = room.root / "below"
        (place / ".claude").mkdir(parents=True)
        hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]}
        (place / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))
    else:
        tickets.end_confining(room.state, "claude-code", "a command ran unconfined")
    variables = {"CLAUDE_PROJECT_DIR": str(room.root)}
    said = json.loads(room.says("claude-code", claude(tool, {"command": text}, place), variables=variables))
    assert said["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert "it is not confined, because" in said["hookSpecificOutput"]["permissionDecisionReason"]
    assert "updatedInput" not in said["hookSpecificOutput"]


def test_a_repository_at_the_root_asks_and_is_not_changed(room: Room) -> None:
    room.add('[[rules]]\nallow = { command = "git", subcommand = "init" }\nsandbox = true\n')
    for name in ("codex", "claude-code", "gemini", "opencode"):
        decision, reason, changed = room.answer(name, "git init")
        asks = "ask" if name in ("claude-code", "gemini") else "deny"
        assert (decision, changed) == (asks, None)
        assert "`byleave outside -- git init`" in reason
    decision, _reason, changed = room.answer("claude-code", "git init src")
    assert (decision, room.ticket(changed).text) == ("allow", "git init src")


def test_a_line_that_needs_confinement_is_changed_where_it_asks_as_well(room: Room) -> None:
    decision, _reason, changed = room.answer("claude-code", "make && git push")
    assert decision == "ask"
    assert room.ticket(changed).asked
    decision, _reason, changed = room.answer("claude-code", "git push")
    assert (decision, changed) == ("ask", None)


@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_a_line_that_needs_confinement_is_held_back_where_a_question_loses_it(agent: str, room: Room) -> None:
    decision, reason, changed = room.answer(agent, "make && git push")
    assert (decision, changed) == ("deny", None)
    (waiting,) = [one for one in room.approvals.all() if one.status == "pending"]
    assert "approvals approve" in reason
    room.approvals.settle_action(waiting.detail["key"], status="approved", now="2026-01-01T00:00:00Z")
    decision, _reason, changed = room.answer(agent, "make && git push")
    assert (decision, room.ticket(changed).text) == ("allow", "make && git push")


def test_a_yes_to_a_confined_run_is_none_where_the_hook_cannot_confine_any_more(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.answer("codex", "make && git push")
    (waiting,) = [one for one in room.approvals.all() if one.status == "pending"]
    room.approvals.settle_action(waiting.detail["key"], status="approved", now="2026-01-01T00:00:00Z")
    monkeypatch.setattr(confining, "_machine_problem", lambda *_given: "no namespaces")
    decision, _reason, changed = room.answer("codex", "make && git push")
    assert (decision, changed) == ("deny", None)


def test_a_ticket_that_cannot_be_kept_blocks_the_call(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "MOST", 0)
    monkeypatch.setattr(tickets, "_forget_oldest", lambda _place: False)
    with pytest.raises(StateError, match="waiting to be started"):
        room.answer("claude-code", "make")


def running(agent_process: dict[str, FoundAgent]) -> None:
    agent_process["agent"] = FoundAgent((1, 2), SHELL_TOOLS["claude-code"].since, ("claude",))


def test_an_allowed_call_that_ran_without_its_ticket_ends_confining(
    room: Room, agent_process: dict[str, FoundAgent]
) -> None:
    running(agent_process)
    room.answer("claude-code", "make")
    assert unredeemed.note_outcome(room.state, "claude-code", "s", "toolu_1", patience=0)
    assert [record["event"] for record in room.records()] == ["decision", UNCONFINED]
    decision, reason, changed = room.answer("claude-code", "make")
    assert (decision, changed) == ("ask", None)
    assert "audit record 2 says that a command ran without its confinement" in reason
    assert "byleave hook --resume claude-code" in reason
    agent_process["agent"] = FoundAgent((1, 2), SHELL_TOOLS["codex"].since, ("codex",))
    assert room.answer("codex", "make")[2] is not None  # another agent goes on
    running(agent_process)
    assert resume_confining(room.state, "claude-code")
    assert room.answer("claude-code", "make")[2] is not None


def test_the_event_after_a_call_shows_that_it_ran_without_its_ticket(
    room: Room, agent_process: dict[str, FoundAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unredeemed, "PATIENCE", 0.0)
    running(agent_process)
    changed = room.answer("claude-code", "make")[2]
    done = {**room.event("claude-code", "make"), "hook_event_name": "PostToolUse", "tool_response": {"stdout": ""}}
    hook, around = Hook("claude-code", str(room.home)), HookContext({}, str(room.root), installed=True)
    note_outcome(hook, {**done, "tool_use_id": "toolu_2"}, around)
    assert confining_ended(room.state, "claude-code") is None
    note_outcome(hook, done, around)
    assert confining_ended(room.state, "claude-code") is not None
    with pytest.raises(StateError, match="no such ticket"):
        room.ticket(changed)


def test_a_call_that_ran_with_its_ticket_changes_nothing(room: Room) -> None:
    room.ticket(room.answer("claude-code", "make")[2])
    assert not unredeemed.note_outcome(room.state, "claude-code", "s", "toolu_1")
    assert not unredeemed.note_outcome(room.state, "claude-code", "s", "toolu_2")
    assert confining_ended(room.state, "claude-code") is None


def age(room: Room, seconds: float) -> None:
    for path in (Path(room.state) / "tickets").iterdir():
        tree = json.loads(path.read_text())
        path.write_text(json.dumps({**tree, "created": tree["created"] - seconds}))
        os.utime(path, (time.time() - seconds, time.time() - seconds))


def test_a_ticket_that_is_left_for_ten_minutes_ends_confining_at_the_next_event(
    room: Room, agent_process: dict[str, FoundAgent]
) -> None:
    running(agent_process)
    room.answer("claude-code", "make")
    age(room, LIFETIME + 60)
    room.says("claude-code", claude("Read", {"file_path": str(room.root / "src/old.txt")}, room.root))
    assert confining_ended(room.state, "claude-code") is not None
    assert [record["event"] for record in room.records()] == ["decision", UNCONFINED, "decision"]
    assert list((Path(room.state) / "tickets").iterdir()) == [Path(room.state) / "tickets/ended-claude-code"]


@pytest.mark.parametrize("case", ["a question", "no agent", "an agent that asks by itself"])
def test_a_ticket_that_proves_nothing_is_forgotten(case: str, room: Room, agent_process: dict[str, FoundAgent]) -> None:
    if case != "no agent":
        running(agent_process)
    agent = "claude-code"
    if case == "an agent that asks by itself":
        agent = "codex"
        agent_process["agent"] = FoundAgent((1, 2), SHELL_TOOLS["codex"].since, ("codex",))
    room.answer(agent, "make && git push" if case == "a question" else "make")
    age(room, LIFETIME + 60)
    room.answer(agent, "cat x")
    assert confining_ended(room.state, agent) is None


def settings(room: Room, permissions: Any) -> None:
    file = room.home / ".claude/settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(permissions if isinstance(permissions, str) else json.dumps({"permissions": permissions}))


LISTS = {
    "a prefix": ({"deny": ["Bash(make deploy:*)"]}, "make deploy now", "deny"),
    "a prefix in a line": ({"deny": ["Bash(make deploy:*)"]}, "cd src && make deploy", "deny"),
    "a star": ({"deny": ["Bash(make d*)"]}, "make deploy", "deny"),
    "all of it": ({"deny": ["Bash"]}, "make", "deny"),
    "exact": ({"deny": ["Bash(make)"]}, "make", "deny"),
    "an ask": ({"ask": ["Bash(make deploy:*)"]}, "make deploy", "ask"),
    "another command": ({"deny": ["Bash(make deploy:*)"]}, "make", "allow"),
    "an allow has no say": ({"allow": ["Bash(git push:*)"]}, "git push", "ask"),
    "an ask does not loosen a deny": ({"ask": ["Bash(rm:*)"]}, "rm x", "deny"),
}


@pytest.mark.parametrize(("permissions", "command", "expected"), LISTS.values(), ids=LISTS.keys())
def test_the_agents_own_lists_hold_for_a_changed_call(
    permissions: Any, command: str, expected: str, room: Room
) -> None:
    settings(room, permissions)
    decision, _reason, changed = room.answer("claude-code", command)
    assert decision == expected
    if expected == "deny":
        assert changed is None
    assert room.answer("claude-code", command)[0] == expected  # as it is remembered


def test_lists_that_cannot_be_read_leave_the_call_as_it_is(room: Room) -> None:
    settings(room, {"deny": "Bash"})
    decision, reason, changed = room.answer("claude-code", "make")
    assert (decision, changed) == ("ask", None)
    assert "permissions" in reason
