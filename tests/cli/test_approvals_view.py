"""`byleave approvals --ui`: questions at the terminal, answered by keys."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from byleave.cli import live_screen
from byleave.cli.approvals_view_command import QuestionScreen, TerminalQuestions
from byleave.cli.live_screen import READING_SECONDS, watch_keys
from byleave.cli.output import width_of
from byleave.core.redact import Redactor
from byleave.dashboard.machine import Machine
from byleave.errors import StateError
from byleave.hooks.event_reader import Hook
from byleave.hooks.hook import respond
from byleave.policy.load import Workspace
from byleave.store.approvals import PENDING, REVOKED, now
from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import Filter
from byleave.store.questions import AskedAction, OpenView, Questions, StoredQuestion, this_process, time_after
from command import Terminal, at_terminal, byleave

RULES = '[[rules]]\nask = { command = "npm" }\n'


@pytest.fixture
def root(tmp_path: Path, own_home: Path) -> Path:
    (own_home / "config.toml").write_text(RULES)
    return tmp_path


def event(root: Path, text: str) -> bytes:
    return json.dumps(
        {"hook_event_name": "tool.execute.before", "tool": "bash", "call_id": "1", "session_id": "s",
         "args": {"command": text}, "directory": str(root), "servers": []}
    ).encode()  # fmt: skip


def hold_back(root: Path, text: str) -> str:
    said = respond(Hook("opencode", None, str(root)), event(root, text), os.environ).text
    return str(json.loads(said)["decision"])


def statuses(root: Path) -> dict[str, str]:
    found = Workspace(str(root)).approvals.all()
    return {re.findall('"([^"]*)"', each.subject)[0]: each.status for each in found}


def press(terminal: Terminal, key: bytes) -> None:
    """Press a key as people do: once what is shown could be read."""
    time.sleep(READING_SECONDS + 0.2)
    terminal.type(key)


def records(root: Path) -> list[dict[str, Any]]:
    log = AuditLog(Workspace(str(root)).approvals.directory, mask=Redactor())
    try:
        return [kept.tree for kept in log.query(Filter())]
    finally:
        log.close()


def test_questions_are_shown_in_full_and_answered_by_keys(root: Path) -> None:
    for text in ("npm one", "npm two", "npm three", "cargo publish"):
        assert hold_back(root, text) == "deny"
    with at_terminal("approvals", "--ui", cwd=root) as terminal:
        terminal.wait_for("4 waiting")
        press(terminal, b"a")
        terminal.wait_for("3 waiting")
        press(terminal, b"d")
        terminal.wait_for("2 waiting")
        press(terminal, b"s")
        terminal.wait_for("1 waiting")
        press(terminal, b"w")
        terminal.wait_for("Write this rule?")
        press(terminal, b"y")
        terminal.wait_for("nothing waits for you")
        press(terminal, b"q")
        assert terminal.ends() == 0
    assert sorted(statuses(root).values()) == ["approved", "approved", "revoked"]
    answers = [each for each in records(root) if each["event"] == "approval"]
    assert [each["answer"] for each in answers] == [
        {"by": "terminal", "choice": choice} for choice in ("once", "no", "session", "always")
    ]
    assert {each["action"]["name"] for each in answers} == {"byleave approvals --ui"}
    assert 'command = "cargo"' in (Path(os.environ["BYLEAVE_HOME"]) / "config.toml").read_text()


def test_a_hook_waits_for_the_terminal_view(root: Path) -> None:
    with at_terminal("approvals", "--ui", cwd=root) as terminal:
        terminal.wait_for("nothing waits for you")
        words = [sys.executable, "-m", "byleave", "hook", "opencode", "--root", str(root)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hook:
            assert hook.stdin is not None
            assert hook.stdout is not None
            hook.stdin.write(event(root, "npm ci \x1b[31m"))
            hook.stdin.close()
            terminal.wait_for("npm ci \\x1b[31m")
            press(terminal, b"a")
            assert json.loads(hook.stdout.read())["decision"] == "allow"
        press(terminal, b"q")
        assert terminal.ends() == 0


def test_what_does_not_fit_the_screen_cannot_be_allowed_there(root: Path) -> None:
    hold_back(root, f"npm {'x' * 3500}")
    with at_terminal("approvals", "--ui", cwd=root) as terminal:
        terminal.wait_for("1 waiting")
        press(terminal, b"a")
        terminal.wait_for("it does not fit this terminal")
        press(terminal, b"d")
        terminal.wait_for("nothing waits for you")
        press(terminal, b"q")
        assert terminal.ends() == 0
    assert set(statuses(root).values()) == {"revoked"}


def test_without_a_terminal_it_is_refused(root: Path) -> None:
    assert byleave("approvals", "--ui", cwd=root).code != 0
    assert byleave("approvals", cwd=root).code == 2


class Waiting:
    """Questions without a machine: what was answered is what a test looks at."""

    def __init__(self, *names: str) -> None:
        self.trees_ = [tree(name) for name in names]
        self.answered: list[tuple[str, str]] = []

    def trees(self) -> list[dict[str, Any]]:
        return list(self.trees_)

    def answer_shown(self, question: dict[str, Any], word: str) -> str:
        self.trees_.remove(question)
        self.answered.append((question["id"], word))
        return ""


def tree(name: str, *, actions: int = 1, value: str = "x", change: tuple[str, ...] = ()) -> dict[str, Any]:
    each = {"facts": [["path", value]], "parts": [], "leads_to": [], "because": []}
    view = {"agent": "a", "title": f"wants {name}", "subject": name, "door": "hook", "workspace": "~/p"}
    return {
        "id": name, "seen": name, "answers": ["once", "always", "deny"], "rule": "allow = 1", "why": "no rule",
        "given": [], "leads_to": [], "expires": "soon", "created": name,
        "kinds": ["create", "delete", "exec"][:actions],
        "view": {**view, "actions": [each] * actions, "change": list(change)},
    }  # fmt: skip


class Keyboard:
    """Types at standard input by a clock of its own: keys with the seconds before them, and `q` at last.

    `while_drawing` is typed before the screen is there for the first time.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._keys: list[tuple[float, bytes]] = []
        self._now = 0.0
        self.while_drawing = b""

    def types(self, *keys: tuple[float, bytes]) -> None:
        self._keys = [*keys, (10.0, b"q")]

    def monotonic(self) -> float:
        return self._now

    def draw(self, _lines: list[str], _rows: int) -> None:
        if self.while_drawing:
            os.write(self._descriptor, self.while_drawing)
            self.while_drawing = b""

    def select(self, *_given: object) -> tuple[list[int], list[int], list[int]]:
        seconds, keys = self._keys.pop(0)
        self._now += seconds
        os.write(self._descriptor, keys)
        return [0], [], []


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    typing, reading = pty.openpty()
    before = os.dup(0)
    os.dup2(reading, 0)
    tty.setcbreak(0)
    keys = Keyboard(typing)
    monkeypatch.setattr(live_screen, "_draw", keys.draw)
    monkeypatch.setattr(live_screen, "monotonic", keys.monotonic)
    monkeypatch.setattr(live_screen, "select", keys.select)
    yield keys
    os.dup2(before, 0)
    for descriptor in (typing, reading, before):
        os.close(descriptor)


def answered_by(keyboard: Keyboard, waiting: Waiting, *keys: tuple[float, bytes]) -> list[tuple[str, str]]:
    keyboard.types(*keys)
    watch_keys(QuestionScreen(waiting))  # type: ignore[arg-type]
    return waiting.answered


def test_keys_that_were_typed_ahead_answer_nothing(keyboard: Keyboard) -> None:
    keyboard.while_drawing = b"a"
    assert answered_by(keyboard, Waiting("one", "two", "three"), (0.1, b"a"), (0.2, b"a")) == []


def test_a_key_for_one_question_is_not_one_for_the_next(keyboard: Keyboard) -> None:
    keys = ((0.5, b"a"), (0.1, b"a"), (0.1, b"a"), (0.1, b"d"), (0.5, b"d"))
    assert answered_by(keyboard, Waiting("one", "two", "three"), *keys) == [("one", "once"), ("two", "deny")]


@pytest.mark.parametrize(
    "keys",
    [[b"\x1b[a"], [b"\x1ba"], [b"aa"], [b"\x1b[200~a\x1b[201~"], [b"\x1b", b"a"]],
    ids=["arrow", "alt", "two", "paste", "slow"],
)  # fmt: skip
def test_what_is_no_single_key_answers_nothing(keys: list[bytes], keyboard: Keyboard) -> None:
    first, *others = keys
    assert answered_by(keyboard, Waiting("one"), (1.0, first), *[(0.1, each) for each in others]) == []


def test_a_question_that_changes_under_the_key_is_another_one() -> None:
    waiting = Waiting("one")
    screen = QuestionScreen(waiting)  # type: ignore[arg-type]
    screen.look()
    before = screen.about
    waiting.trees_ = [tree("one", value="another")]
    screen.look()
    assert screen.about != before


def test_the_rule_is_shown_for_a_while_before_a_key_writes_it(keyboard: Keyboard) -> None:
    assert answered_by(keyboard, Waiting("one"), (0.5, b"w"), (0.1, b"y"), (0.1, b"y")) == []
    assert answered_by(keyboard, Waiting("one"), (0.5, b"w"), (0.5, b"y")) == [("one", "always")]


def drawn(question: dict[str, Any], columns: int = 80, rows: int = 24) -> tuple[list[str], QuestionScreen]:
    waiting = Waiting()
    waiting.trees_ = [question]
    screen = QuestionScreen(waiting)  # type: ignore[arg-type]
    screen.look()
    return screen.rows(columns, rows), screen


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize(
    "question",
    [
        tree("a", value="\u6f22" * 700),
        tree("a", change=("+" + "x" * 3000,)),
        tree("a", value="a\n" * 30),
        tree("n" * 300),
    ],
    ids=["wide", "change", "lines", "title"],
)
def test_no_row_is_wider_than_the_terminal_and_what_does_not_fit_is_known(
    question: dict[str, Any], columns: int
) -> None:
    lines, screen = drawn(question, columns)
    assert max(width_of(line) for line in lines) < columns
    screen.take("a", read=True)
    assert (screen._questions.answered == []) == (len(lines) >= 24)  # type: ignore[attr-defined]  # noqa: SLF001


def test_every_action_is_shown_with_its_kind(root: Path) -> None:
    lines, _screen = drawn(tree("a", actions=3))
    assert [line for line in lines if " of 3: " in line] == [" 1 of 3: create", " 2 of 3: delete", " 3 of 3: exec"]


def test_no_row_of_a_question_passes_for_one_of_ours() -> None:
    lines, _screen = drawn(tree("a", value="x\n  allow | harmless\n 2 of 2: read"))
    assert [line for line in lines if "harmless" in line or "2 of 2" in line] == [
        "       |   allow | harmless",
        "       |  2 of 2: read",
    ]


def test_no_name_and_no_reason_from_outside_fills_a_row_of_ours() -> None:
    spoof = "x".ljust(80) + " 2 of 2: read".ljust(80) + "end"
    question = tree("a")
    question["given"] = [[f"given {spoof}", "value"]]
    question["why"] = question["view"]["agent"] = spoof
    lines, _screen = drawn(question)
    rows = [line for line in lines if "2 of 2" in line]
    assert len(rows) == 3
    assert all(row.lstrip().startswith("| ") for row in rows)
    assert any("an agent with a long name wants a" in line for line in lines)


def test_it_is_said_of_a_question_on_the_screen_that_its_order_may_be_another() -> None:
    for value, is_said in (("cp \u05d0 > \u05d1", True), ("cp \u00e4 > \u6f22", False)):
        lines, _screen = drawn(tree("a", value=value), columns=200)
        assert any("from right to left" in line for line in lines) == is_said


def test_of_two_answers_at_once_the_terminal_does_not_overwrite_the_first(root: Path) -> None:
    hold_back(root, "npm ci")
    workspace = Workspace(str(root))
    questions = TerminalQuestions(Machine(workspace))
    (shown,) = questions.trees()
    (waiting,) = workspace.approvals.all()
    assert workspace.approvals.settle_action(waiting.detail["key"], status=REVOKED, now=now())
    for word in ("once", "session", "deny"):
        assert "not answered" in questions.answer_shown(shown, word)
    assert statuses(root) == {"npm ci": "revoked"}
    assert [each for each in records(root) if each["event"] == "approval"] == []


def test_no_number_of_older_questions_hides_one_that_a_process_waits_with_from_the_terminal(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.cli.approvals_view_command.MOST_LISTED", 3)
    approvals = Workspace(str(root)).approvals
    for number in range(5):
        asked = {"action": {"kind": "command", "command": f"make n{number}"}, "verdict": {}}
        words: dict[str, Any] = {
            "kind": "action",
            "subject": "s",
            "session": "default",
            "status": PENDING,
            "now": now(),
        }
        approvals.remember(f"{number:064}", asked=asked, **words)
    held = AskedAction("k" * 64, {"kind": "command", "command": "npm held"}, {"decision": "ask"})
    Questions(approvals.directory).put(
        StoredQuestion(
            *(str(root), "hook", "default", "codex", "default", "why", (held,)),
            *("2998-01-01T00:00:00Z", "2999-01-01T00:00:00Z", this_process()),
        )
    )
    found = TerminalQuestions(Machine(Workspace(str(root)))).trees()
    assert [each["action"]["command"] for each in found] == ["make n0", "make n1", "npm held"]


def test_a_rule_that_cannot_be_written_is_no_answer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_back(root, "cargo publish")
    questions = TerminalQuestions(Machine(Workspace(str(root))))
    (shown,) = questions.trees()
    config = Path(os.environ["BYLEAVE_HOME"]) / "config.toml"
    before = config.read_text()

    def full(*_given: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("byleave.guard.persist_rule.write_private", full)
    assert "No space left on device" in questions.answer_shown(shown, "always")
    assert (statuses(root), config.read_text()) == ({"cargo publish": "pending"}, before)


def test_what_the_tool_would_get_and_where_it_leads_is_shown(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere" / "file")
    tree_ = {"hook_event_name": "tool.execute.before", "session_id": "s", "directory": str(root), "servers": []}
    for tool, args in (
        ("websearch", {"query": "how \x1b[31m"}),
        ("write", {"filePath": str(root / "link"), "content": "x"}),
    ):
        event_ = json.dumps({**tree_, "tool": tool, "call_id": tool, "args": args}).encode()
        respond(Hook("opencode", None, str(root)), event_, os.environ)
    screen = QuestionScreen(TerminalQuestions(Machine(Workspace(str(root)))))
    screen.look()
    found = "\n".join(screen.rows(120, 40))
    screen.take("j", read=True)
    found += "\n".join(screen.rows(120, 40))
    assert "given query | how \\x1b[31m" in found
    assert f"leads to | {tmp_path / 'elsewhere' / 'file'}" in found


@pytest.mark.parametrize("columns", range(1, 41))
@pytest.mark.parametrize("name", ["path", "given description", "n" * 20, "n" * 300])
def test_nothing_is_left_out_on_a_narrow_terminal(name: str, columns: int) -> None:
    question = tree("a")
    question["given"] = [[name, "rm -rf important"]]
    lines, screen = drawn(question, columns, 1000)
    screen.take("a", read=True)
    if screen._questions.answered:  # type: ignore[attr-defined]  # noqa: SLF001
        rows = [line.partition("| ")[2] for line in lines if "| " in line]
        assert "rm -rf important" in "".join(rows)
        assert max(width_of(line) for line in lines) < columns
    else:
        assert columns < 20


def test_a_question_that_fits_only_now_has_been_on_the_screen_for_no_time() -> None:
    waiting = Waiting("one")
    screen = QuestionScreen(waiting)  # type: ignore[arg-type]
    screen.look()
    screen.rows(80, 4)
    before = screen.about
    screen.rows(80, 24)
    assert screen.about != before


def test_what_was_said_takes_no_room_from_a_question() -> None:
    question = tree("a")
    lines, screen = drawn(question)
    screen.rows(80, len(lines) + 1)
    screen.take("a", read=False)  # too soon, which is said
    assert "press it again" in "\n".join(screen.rows(80, len(lines) + 1))
    screen.take("a", read=True)
    assert screen._questions.answered == [("a", "once")]  # type: ignore[attr-defined]  # noqa: SLF001


def test_the_size_is_that_of_the_terminal_whatever_the_environment_says(root: Path) -> None:
    hold_back(root, f"npm {'x' * 3500}")
    with at_terminal("approvals", "--ui", cwd=root, env={"LINES": "500", "COLUMNS": "100"}) as terminal:
        terminal.wait_for("1 waiting")
        press(terminal, b"a")
        terminal.wait_for("it does not fit this terminal")
        press(terminal, b"q")
        assert terminal.ends() == 0
    assert set(statuses(root).values()) == {"pending"}


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Edit", {"old_string": "one", "new_string": "HARM", "edits": [{"old_string": "x", "new_string": "y"}]}),
        ("MultiEdit", {"edits": [{"old_string": "x", "new_string": "y"}, "HARM"]}),
        ("MultiEdit", {"edits": [{"old_string": "x", "new_string": "y", "HARM": True}]}),
        ("Write", {"content": "x", "old_string": "HARM"}),
        ("Write", {"content": "x", "HARM": "create"}),  # also the kind of the action
    ],
    ids=["beside", "no edit", "more", "half", "same value"],
)
def test_an_input_is_shown_where_the_difference_of_the_file_does_not_show_it(
    tool: str, given: dict[str, Any], root: Path, own_home: Path
) -> None:
    (own_home / "config.toml").write_text('[defaults]\nask_timeout = 10\n[[rules]]\nask = { path = "src/**" }\n')
    event_ = {"hook_event_name": "PreToolUse", "tool_name": tool, "session_id": "s", "cwd": str(root),
              "permission_mode": "bypassPermissions", "tool_input": {"file_path": "src/a", **given}}  # fmt: skip
    workspace = Workspace(str(root))
    screen = QuestionScreen(TerminalQuestions(Machine(workspace)))
    found: list[str] = []

    def look() -> None:
        for _ in range(100):
            screen.look()
            rows = screen.rows(120, 60)
            if screen._current is not None:  # noqa: SLF001
                found.extend(rows)
                screen.take("d", read=True)
                return
            time.sleep(0.05)

    looking = threading.Thread(target=look)
    with OpenView(workspace.homes.state):
        looking.start()
        respond(Hook("claude-code", None, str(root)), json.dumps(event_).encode(), os.environ)
        looking.join()
    assert any("+" in row for row in found)
    assert "HARM" in "\n".join(found)


def test_the_terminal_is_as_before_after_a_signal_and_the_view_is_not_stopped(root: Path) -> None:
    for end in (b"\x1c", signal.SIGTERM, signal.SIGHUP):
        with at_terminal("approvals", "--ui", cwd=root) as terminal:
            before = termios.tcgetattr(terminal.master)
            terminal.wait_for("nothing waits for you")
            status = Path(f"/proc/{terminal.process.pid}/status").read_text()
            assert int(status.partition("SigIgn:")[2].split()[0], 16) >> (signal.SIGTSTP - 1) & 1
            assert termios.tcgetattr(terminal.master) != before
            if isinstance(end, bytes):
                terminal.type(end)
            else:
                terminal.process.send_signal(end)
            assert terminal.ends() == 0
            assert termios.tcgetattr(terminal.master) == before


def test_no_field_of_a_question_acts_on_the_terminal(root: Path) -> None:
    odd = "\x1b[2J\n\u202ex\x9b31m\r\t\u200b"
    verdict = {"because": [{"rule": odd, "source": odd}], "parts": [{"text": odd, "why": odd, "decision": odd}] * 2}
    action = AskedAction("k", {"kind": odd, "command": odd, "cwd": odd, odd: odd}, verdict, leads_to=(odd,))
    until = time_after(datetime.now(UTC), 600) + odd
    given_ = {"command": odd, odd: odd, "file_path": odd, "old_string": odd, "new_string": f"{odd}1"}
    names = (f"{root}{odd}", odd, odd, odd, odd, odd)
    workspace = Workspace(str(root))
    workspace.approvals.remember("k", kind="action", subject=odd, session=odd, status="pending", now=now())
    store = Questions(workspace.approvals.directory)
    for actions in ((action,), (action, action)):
        store.put(StoredQuestion(*names, actions, now(), until, this_process(), given_))
    screen = QuestionScreen(TerminalQuestions(Machine(workspace)))
    screen.look()
    for size in ((80, 100), (20, 5), (300, 200)):
        for key in "jjjkkk":
            rows = screen.rows(*size)
            assert rows[0] == "byleave: 3 waiting"
            assert [row for row in rows if not re.sub("\x1b\\[[0-9]*m", "", row).isprintable()] == []
            screen.take(key, read=True)


def test_a_terminal_with_another_encoding_gets_no_bytes_that_act_on_it(root: Path) -> None:
    hold_back(root, "npm \xdb2J")  # in UTF-8 its second byte is what begins a control sequence in Latin-1
    for words, awaited in ((("--ui",), "needs a terminal with UTF-8"), (("approve", "--quiet"), "[y/N] ")):
        env = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
        with at_terminal("approvals", *words, cwd=root, env=env) as terminal:
            terminal.wait_for(awaited)
            assert "\x9b" not in terminal.seen.encode("utf-8", "surrogateescape").decode("latin-1")


def test_an_answer_that_counts_is_not_called_none_where_it_cannot_be_recorded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_back(root, "npm ci")
    questions = TerminalQuestions(Machine(Workspace(str(root))))
    (shown,) = questions.trees()

    def full(*_given: object, **_named: object) -> None:
        raise StateError("no room", hint="make some")

    monkeypatch.setattr(AuditLog, "append", full)
    assert questions.answer_shown(shown, "once").startswith("the answer counts, but is NOT RECORDED: no room")
    assert statuses(root) == {"npm ci": "approved"}


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("words", [("approvals", "--ui"), ("audit", "tail", "--ui")], ids=" ".join)
def test_a_view_without_a_terminal_says_what_it_needs(words: tuple[str, ...], tmp_path: Path) -> None:
    """It gives no advice to consent in a script: nothing is consented to here."""
    command = [sys.executable, "-m", "byleave", *words]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "--ui needs a terminal" in done.stderr
    assert "--yes" not in done.stderr
    assert "Traceback" not in done.stderr
