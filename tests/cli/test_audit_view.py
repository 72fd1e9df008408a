"""`byleave audit tail --ui`: decisions as they come, on the whole screen."""

from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.cli.audit_view_command import MOST_RECORDS, RecordScreen
from byleave.cli.output import width_of
from byleave.core.redact import Redactor
from byleave.policy.load import Workspace
from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import Filter
from byleave.store.audit.table import StoredRecord
from byleave.store.audit.wording import what
from command import at_terminal, byleave


def record(log: AuditLog, command: str, *, decision: str = "allow", agent: str = "codex", door: str = "hook") -> None:
    log.append(
        {
            "event": "decision", "session": "s", "door": door, "agent": agent, "identity": "default",
            "action": {"kind": "command", "command": command},
            "verdict": {"decision": decision, "reason": "r", "because": [{"rule": "a rule", "source": "x:1"}]},
        }
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path, own_home: Path) -> AuditLog:
    return AuditLog(Workspace(str(tmp_path)).approvals.directory, mask=Redactor())


def line(kept: StoredRecord) -> str:
    return what(kept.tree).removeprefix("command ")


def shown_by(screen: RecordScreen, rows: int = 24, columns: int = 80) -> tuple[str, list[str]]:
    screen.look()
    head, _help, _empty, *lines = screen.rows(columns, rows)
    return head, lines


def press(screen: RecordScreen, keys: str) -> None:
    for key in keys:
        screen.take(key, read=False)


def test_new_records_appear_and_a_pause_holds_them_back(log: AuditLog) -> None:
    screen = RecordScreen(log, Filter(), line)
    record(log, "one")
    assert shown_by(screen)[1] == ["one"]
    press(screen, "p")
    record(log, "two")
    head, lines = shown_by(screen)
    assert ("paused, 1 new" in head, lines) == (True, ["one"])
    press(screen, "p")
    assert shown_by(screen)[1] == ["one", "two"]


def test_keys_filter_by_decision_agent_source_and_text(log: AuditLog) -> None:
    record(log, "one", decision="deny", agent="codex")
    record(log, "two", agent="gemini")
    record(log, "three", agent="gemini", door="mcp")
    screen = RecordScreen(log, Filter(), line)
    shown_by(screen)
    found: dict[str, Any] = {}
    for keys in ("d", "d", "d", "a", "a", "s", "c", "/TWO\r", "c", "/twq\x7fo\r"):
        press(screen, keys)
        found[keys + str(len(found))] = shown_by(screen)[1]
    assert list(found.values()) == [
        ["two", "three"], ["one"], ["one", "two", "three"], ["one"], ["two", "three"], ["two"],
        ["one", "two", "three"], ["two"], ["one", "two", "three"], ["two"],
    ]  # fmt: skip


def test_letters_of_a_text_are_no_keys(log: AuditLog) -> None:
    screen = RecordScreen(log, Filter(), line)
    press(screen, "/q")
    assert screen.is_typing
    press(screen, "\r")
    assert not screen.is_typing


def test_the_list_is_bounded_and_fits_the_screen(log: AuditLog) -> None:
    number = amounts.of(MOST_RECORDS + 500, MOST_RECORDS + 50)
    for each in range(number):
        record(log, f"{each} \x1b[31m\u202e{'x' * 300}", agent="\u6f22" * 40)
    screen = RecordScreen(log, Filter(), line)
    head, lines = shown_by(screen)
    assert (f"{MOST_RECORDS} of {MOST_RECORDS} records" in head, len(lines)) == (True, 20)
    press(screen, "a")
    assert width_of(shown_by(screen)[0]) < 80


def test_it_shows_decisions_at_a_terminal_and_ends_by_a_key(tmp_path: Path, own_home: Path) -> None:
    byleave("check", "command", "git status", cwd=tmp_path)
    log = AuditLog(Workspace(str(tmp_path)).approvals.directory, mask=Redactor())
    with at_terminal("audit", "tail", "--ui", cwd=tmp_path) as terminal:
        terminal.wait_for("live")
        record(log, "npm ci \x1b[31m\u202e")
        terminal.wait_for("npm ci \\x1b[31m\\u202e")
        terminal.type(b"q")
        assert terminal.ends() == 0


def test_it_is_for_a_person_at_a_terminal(tmp_path: Path, own_home: Path) -> None:
    assert byleave("audit", "tail", "--ui", cwd=tmp_path).code != 0
    assert byleave("audit", "tail", "--ui", "--json", cwd=tmp_path).code == 2


@pytest.mark.parametrize("words", [("audit", "tail", "--ui"), ("approvals", "--ui")])
def test_below_an_agent_no_screen_is_opened(words: tuple[str, ...], tmp_path: Path, own_home: Path) -> None:
    door = ("bash", "-c", 'exec -a byleave bash -c "\\"\\$@\\"; exit \\$?" acp "$@"', "sh")
    with at_terminal(*words, cwd=tmp_path, before=("/usr/bin/env", *door)) as terminal:
        assert terminal.ends() == 2
        assert "an agent or tool may have started this command" in terminal.seen
