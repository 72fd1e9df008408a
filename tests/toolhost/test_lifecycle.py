"""From the first line to the end of a call: signals, time, questions, and what is said meanwhile."""

import gc
import itertools
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from byleave.guard.evaluation import FOR_SESSION, NO, ONCE, Question
from byleave.store.audit.journal import AuditJournal
from byleave.toolhost import conversation
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.process import ToolProcess
from byleave.toolhost.process_methods import ProcessMethods
from command import PATIENCE, at_terminal
from sandbox.machine import needs_sandbox
from toolhost.hosting import (
    ACCESS,
    House,
    Kept,
    done,
    ended,
    eventually,
    failed,
    nothing_left,
    said,
    tool,
    tool_processes,
)
from toolhost.workshop import Workshop

pytestmark = needs_sandbox

CANCELLED = {"outcome": "cancelled"}
LONG = {"limits": {"request_timeout": 60.0, "cancel_timeout": 20.0}}
SHORT = {"limits": {"request_timeout": 60.0, "cancel_timeout": 0.3}}
PENDING, GIVEN_UP, TOO_LATE = "pending", -32005, -32004


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the events of each write of the audit log."""
    gc.collect()  # descriptors that tests before this one have left go now, and not while they are counted
    found: list[list[str]] = []
    write = AuditJournal.append_all

    def noted(journal: AuditJournal, texts: Sequence[str]) -> int:
        first = write(journal, texts)
        found.append([json.loads(text)["event"] for text in texts])
        return first

    monkeypatch.setattr(AuditJournal, "append_all", noted)
    return found


def test_an_outcome_is_written_with_the_next_decision_and_the_last_one_when_the_call_ends(
    tmp_path: Path, writes: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_SOON", 60.0)
    house = House.build(tmp_path, {"t": tool("reads_twice")})
    with house.host() as hosting:
        assert hosting.call("t") == said("done")
        assert writes == [["decision"], ["effect", "decision"], ["effect"]]


def test_outcomes_are_written_before_the_end_of_the_process_is_waited_for(
    tmp_path: Path, writes: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_SOON", 60.0)
    known: list[str] = []
    wait = ToolProcess.exit_code

    def noted(process: ToolProcess) -> int | None:
        known.extend(event for events in writes for event in events)
        return wait(process)

    monkeypatch.setattr(ToolProcess, "exit_code", noted)
    house = House.build(tmp_path, {"t": tool("asks_and_exits")})
    with house.host() as hosting:
        assert hosting.call("t") == failed("the tool ended without a result, with exit code 7")
        assert known == ["decision", "effect"] * 3


@pytest.mark.parametrize(("name", "reads"), [("reads_and_is_idle", 2), ("reads_and_sends_nonsense", 1)])
def test_an_outcome_is_written_while_the_tool_asks_for_nothing_that_is_decided(
    tmp_path: Path, writes: list[list[str]], name: str, reads: int
) -> None:
    house, cancel = House.build(tmp_path, {"t": tool(name, **LONG)}), Deadline()

    def written() -> bool:
        return [event for events in writes for event in events] == ["decision", "effect"] * reads

    def end_it() -> None:  # the tool goes on until then
        eventually(written)
        cancel.cancel()

    ending = threading.Thread(target=end_it)
    with house.host() as hosting:
        ending.start()
        assert hosting.call("t", cancel=cancel) == CANCELLED
        ending.join()
        assert written()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_has_the_tool_asked_to_stop(tmp_path: Path, number: int) -> None:
    house = House.build(tmp_path, {"t": tool("stops_when_asked", **LONG)})
    with ended(house.start("t", "-q")) as process:
        house.wait_for("ready")
        process.send_signal(number)
        how = done(process)
    assert (json.loads(how.out), how.code) == (CANCELLED, 130), how
    assert json.loads((house.root / "told").read_text()) == {"jsonrpc": "2.0", "method": "cancel"}


def test_a_tool_that_does_not_stop_is_terminated(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("stops_when_told", **SHORT)})
    with ended(house.start("t", "-q")) as process:
        house.wait_for("ready")
        process.send_signal(signal.SIGINT)
        how = done(process)
    assert (json.loads(how.out), how.code) == (CANCELLED, 130), how
    assert (house.root / "terminated").exists()


def test_a_tool_that_ignores_that_too_is_ended(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("stops_for_nobody", **SHORT)})
    with ended(house.start("t", "-q")) as process:
        house.wait_for("ready")
        process.send_signal(signal.SIGINT)
        how = done(process)
    assert (json.loads(how.out), how.code) == (CANCELLED, 130), how


def test_a_second_signal_ends_the_tool_at_once(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("stops_for_nobody", **LONG)})
    with ended(house.start("t", "-q")) as process:
        house.wait_for("ready")
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        eventually(lambda: _heeded(process.pid, signal.SIGINT))
        process.send_signal(signal.SIGTERM)
        how = done(process)
        assert time.monotonic() - started < LONG["limits"]["cancel_timeout"]
    assert (json.loads(how.out), how.code) == (CANCELLED, 130), how


def test_a_second_signal_ends_a_plain_tool_at_once(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": _deaf_shell()})
    with ended(house.start("t", "-q")) as process:
        house.wait_for("ready")
        process.send_signal(signal.SIGINT)
        eventually(lambda: _heeded(process.pid, signal.SIGINT))
        process.send_signal(signal.SIGTERM)
        how = done(process)
    assert (json.loads(how.out), how.code) == (CANCELLED, 130), how


def _deaf_shell() -> dict[str, Any]:
    command = ["sh", "-c", "trap '' TERM INT; echo x > ready; while :; do sleep 1; done"]
    return tool(
        "", runtime="stdio", command=command, access={"fs": [{"path": ".", "read": True, "write": True}]}, **LONG
    )


def _heeded(process: int, number: int) -> bool:
    """Whether a signal that was sent to a process waits no more, and the process is at rest again.

    Python notes a signal before it acts on it: another one in between would count for one with the first.
    """
    status = Path(f"/proc/{process}/status").read_text()
    waiting = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("ShdPnd:", "SigPnd:"))]
    rests = "State:\tS" in status
    return rests and not any(mask >> (number - 1) & 1 for mask in waiting)


BUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@BUFFERED
def test_a_third_signal_ends_even_a_call_whose_output_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    house = House.build(tmp_path, {"t": tool("returns_much")})
    with ended(house.start("t", "-q")) as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)  # it has begun to say it, and the pipe is full soon
        for _ in range(3):
            process.send_signal(signal.SIGTERM)
            eventually(lambda: process.poll() is not None or _heeded(process.pid, signal.SIGTERM))
        assert process.wait(PATIENCE) in (130, -signal.SIGTERM)


@BUFFERED
def test_a_signal_while_a_result_is_printed_takes_nothing_off_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    house = House.build(tmp_path, {"t": tool("returns_much")})
    with ended(house.start("t", "-q")) as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGTERM)
        eventually(lambda: process.poll() is not None or _heeded(process.pid, signal.SIGTERM))
        how = done(process)
    assert (json.loads("{" + how.out)["outcome"], how.code) == ("completed", 0)


@pytest.mark.parametrize("name", ["stops_for_nobody", "plain"])
def test_nothing_of_a_tool_outlives_a_killed_byleave(tmp_path: Path, name: str) -> None:
    house = House.build(tmp_path, {"t": _deaf_shell() if name == "plain" else tool(name, **LONG)})
    with ended(house.start("t", "-q")) as process:
        house.wait_for("ready")
        below = _below(process.pid)
        assert below
        process.kill()
        process.wait()
        eventually(lambda: not any(Path(f"/proc/{each}").exists() for each in below))


def _below(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for name in (task / "children").read_text().split():
            found += [int(name), *_below(int(name))]
    return found


def test_a_call_that_was_cancelled_before_it_began_ends_as_cancelled(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("stops_when_asked", limits={"cancel_timeout": 5.0})})
    with house.host() as hosting:
        hosting.is_well()
        cancel = Deadline()
        cancel.cancel()
        with nothing_left():
            assert hosting.call("t", cancel=cancel) == CANCELLED


def test_wall_time_ends_a_tool_whatever_it_does(tmp_path: Path) -> None:
    limits = {"request_timeout": 60.0, "wall_time": 0.5}
    house = House.build(tmp_path, {"t": tool("stops_for_nobody", limits=limits)})
    with house.host() as hosting:
        assert hosting.call("t") == failed("the tool was ended: it took longer than 0.5 seconds")


def test_a_timeout_of_a_year_is_waited_for_in_pieces(tmp_path: Path) -> None:
    limits = {"request_timeout": 365 * 24 * 3600.0}
    house = House.build(tmp_path, {"t": tool("well_behaved", limits=limits)})
    with house.host() as hosting:
        assert hosting.call("t") == said("hello")


@contextmanager
def silent_server() -> Iterator[int]:
    """Accept connections, and never say anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def waiting_tool(method: str, params: dict[str, Any], seconds: float, **more: Any) -> dict[str, Any]:
    return tool("waits_for_something_slow", method, json.dumps(params), limits={"request_timeout": seconds}, **more)


def heard(outcome: dict[str, Any]) -> tuple[list[Any], float]:
    assert outcome["outcome"] == "completed", outcome
    said_, seconds = json.loads(outcome["content"][0]["text"])
    return said_, seconds


def test_a_program_that_takes_too_long_is_answered_with_a_timeout(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": waiting_tool("process.run", {"program": "sleep", "args": ["60"]}, 0.5)})
    with house.host() as hosting:
        hosting.is_well()
        with nothing_left():
            assert heard(hosting.call("t"))[0] == [TOO_LATE]


def test_a_server_that_never_answers_is_a_timeout(tmp_path: Path) -> None:
    with silent_server() as port:
        access = {**ACCESS, "net": [{"host": "127.0.0.1", "port": port, "allow": True}]}
        asked = {"url": f"http://127.0.0.1:{port}/"}
        house = House.build(tmp_path, {"t": waiting_tool("http.get", asked, 0.5, access=access)})
        with house.host() as hosting:
            hosting.is_well()
            with nothing_left():
                assert heard(hosting.call("t"))[0] == [TOO_LATE]


def test_a_tool_is_not_ended_while_it_waits_for_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host takes longer than the tool may be quiet."""

    def serve_late(*_: object) -> dict[str, Any]:
        time.sleep(2.0)
        return {}

    monkeypatch.setattr(ProcessMethods, "serve", serve_late)
    monkeypatch.setattr(conversation, "_GRACE", PATIENCE)  # and is not refused for that
    house = House.build(tmp_path, {"t": waiting_tool("process.run", {}, 1.5)})
    with house.host() as hosting:
        assert heard(hosting.call("t"))[0] == ["done"]


class Thinking:
    """A person who takes their time: until they are told to go on."""

    name = "person"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[Question] = []
        self.go_on = threading.Event()
        self.is_asked = threading.Event()

    def ask(self, question: Question, _patience: float) -> str:
        self.asked.append(question)
        self.is_asked.set()
        assert self.go_on.wait(PATIENCE)
        return self.replies.pop(0)


class Seen(Thinking):
    """A person of whom a tool can see that they are asked: there is a file then."""

    def __init__(self, sign: Path, *replies: str) -> None:
        super().__init__(*replies)
        self.sign = sign

    def ask(self, question: Question, patience: float) -> str:
        self.sign.touch()
        return super().ask(question, patience)


class Prompt(Thinking):
    """A person who answers at once."""

    def __init__(self, *replies: str) -> None:
        super().__init__(*replies)
        self.go_on.set()


ASKED = ("fs.write", {"path": "asked/new.txt", "content": "x"})


@pytest.mark.parametrize(("reply", "answer"), [(ONCE, "done"), (NO, -32001)])
def test_a_tool_hears_that_a_person_is_asked_and_then_the_answer(tmp_path: Path, reply: str, answer: Any) -> None:
    house = House.build(tmp_path, {"t": waiting_tool(*ASKED, 20.0)})
    with house.host(Prompt(reply)) as hosting:
        assert heard(hosting.call("t"))[0] == [PENDING, answer]
    assert (house.root / "asked/new.txt").exists() == (reply == ONCE)


class Slow:
    """A person who says yes, and takes longer than the time of a request and its grace."""

    name = "person"

    def __init__(self) -> None:
        self.limit = 0.0

    def give(self, seconds: float) -> None:
        self.limit = seconds

    def ask(self, _question: Question, _patience: float) -> str:
        time.sleep(self.limit + conversation._GRACE + 0.5)  # noqa: SLF001 -- nothing is to happen meanwhile
        return ONCE


def test_the_time_that_a_person_takes_is_not_the_tool_s(tmp_path: Path) -> None:
    person, house = Slow(), House.build(tmp_path, {"t": waiting_tool(*ASKED, 0.3)})
    with house.host(person) as hosting:
        outcome, _seconds = hosting.call_in_time("t", person.give)
        assert heard(outcome)[0] == [PENDING, "done"]


def test_a_yes_that_comes_after_the_tool_gave_up_does_nothing(tmp_path: Path) -> None:
    person = Seen(tmp_path / "ws" / "is-asked", FOR_SESSION)
    house = House.build(tmp_path, {"t": tool("gives_up_a_question", limits={"request_timeout": 20.0})})
    outcomes: list[dict[str, Any]] = []
    with house.host(person) as hosting:
        call = threading.Thread(target=lambda: outcomes.append(hosting.call("t")))
        call.start()
        assert person.is_asked.wait(PATIENCE)
        house.wait_for("gave-up", "x")
        eventually(lambda: not _is_waiting(hosting.host.running))
        person.go_on.set()
        (house.root / "answered").touch()
        call.join(PATIENCE)
    assert outcomes == [said("done")]
    assert not (house.root / "asked/late.txt").exists()


def _is_waiting(conversation: Any) -> bool:
    """Whether somebody is still being waited for on behalf of the tool."""
    return conversation is None or conversation._slow is not None  # noqa: SLF001 -- no other way to see it


def test_questions_that_nobody_wants_answered_any_more_are_not_asked(tmp_path: Path) -> None:
    person = Thinking(*[NO] * 100)
    house = House.build(tmp_path, {"t": tool("gives_up_many_questions", limits={"request_timeout": 20.0})})
    outcomes: list[dict[str, Any]] = []
    with house.host(person) as hosting:
        hosting.is_well()
        with nothing_left():
            call = threading.Thread(target=lambda: outcomes.append(hosting.call("t")))
            call.start()
            assert person.is_asked.wait(PATIENCE)
            eventually(lambda: _given_up(hosting.host.running) >= 4)
            person.go_on.set()
            call.join(PATIENCE)
            assert outcomes == [said("done")]
    asked = [question.facts["path"] for question in person.asked]
    # Of those that were given up before the person went on, only the one that was shown by then; whichever was first.
    assert len({f"asked/{n}.txt" for n in range(4)} & set(asked)) <= 1


def _given_up(conversation: Any) -> int:
    """How many requests the tool gave up whose question is still under way."""
    return 0 if conversation is None else len(conversation._abandoned)  # noqa: SLF001 -- no other way to see it


def test_without_anybody_to_ask_the_answer_is_no_at_once(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": waiting_tool(*ASKED, 20.0)})
    with ended(house.start("t", "-q")) as process:
        how = done(process)
    assert heard(json.loads(how.out))[0] == [-32001]


def test_an_answer_for_the_session_is_not_asked_for_again(tmp_path: Path) -> None:
    person = Prompt(FOR_SESSION)
    house = House.build(tmp_path, {"t": waiting_tool(*ASKED, 20.0), "u": waiting_tool(*ASKED, 20.0)})
    with house.host(person) as hosting:
        assert heard(hosting.call("t"))[0] == [PENDING, "done"]
        (house.root / "asked/new.txt").unlink()
        assert heard(hosting.call("t"))[0] == ["done"]
    assert len(person.asked) == 1


def test_progress_is_said_in_a_pipe_after_a_second_and_then_less_and_less(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("never_reads", limits={"request_timeout": 2.5})})
    with ended(house.start("t")) as process:
        how = done(process)
    found = re.findall(r"^byleave: t has been running for (\d+) s$", how.err, re.MULTILINE)
    seconds = [int(each) for each in found]
    assert how.err.count("running") == len(seconds) > 0
    waits = [later - earlier for earlier, later in itertools.pairwise([0, *seconds])]
    assert all(wait >= 2**number - 1 for number, wait in enumerate(waits)), seconds  # both are rounded


def test_quiet_is_quiet(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("never_reads", limits={"request_timeout": 1.5})})
    with ended(house.start("t", "-q")) as process:
        assert "running" not in done(process).err


def test_progress_at_a_terminal_is_written_over_and_gone_in_the_end(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("never_reads", limits={"request_timeout": 2.5})})
    with at_terminal("call", "t", *house.flags, cwd=house.root) as terminal:
        assert terminal.ends() == 1
    assert "\r\x1b[Kbyleave: t has been running for 1 s" in terminal.seen
    assert "\r\x1b[Kbyleave: t has been running for 2 s" in terminal.seen
    assert terminal.seen.rpartition("running for")[2].lstrip("0123456789 s").startswith("\r\x1b[K")


def test_progress_does_not_write_over_a_question(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": waiting_tool(*ASKED, 20.0)})
    with at_terminal("call", "t", *house.flags, cwd=house.root) as terminal:
        terminal.wait_for("or [N]o? ")
        asked = terminal.seen.rpartition("or [N]o? ")[0]
        shown = time.monotonic()
        eventually(lambda: time.monotonic() - shown > 1.5)  # it would have been written over by now
        terminal.type(b"o\n")
        assert terminal.ends() == 0
    assert "running" not in terminal.seen[len(asked) :].partition("o\r\n")[0]


def test_an_interrupt_at_a_question_cancels_the_call(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": waiting_tool(*ASKED, 20.0)})
    with at_terminal("call", "t", *house.flags, cwd=house.root) as terminal:
        terminal.wait_for("or [N]o? ")
        terminal.type(b"\x03")
        assert terminal.ends() == 130
    assert not (house.root / "asked/new.txt").exists()


def test_an_interrupt_at_the_question_whether_to_run_cancels_the_call(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("well_behaved", run="ask")})
    with at_terminal("call", "t", *house.flags, cwd=house.root) as terminal:
        terminal.wait_for("or [N]o? ")
        terminal.type(b"\x03")
        assert terminal.ends() == 130


def test_a_kept_host_ends_by_a_signal_while_nothing_runs(tmp_path: Path) -> None:
    house = House.build(tmp_path, {})
    with ended(house.start("good", "--keep", "-q")) as process:
        assert Kept(process).ask() == said("hello")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert tool_processes(of=process.pid) == []


def test_a_cancel_that_has_an_id_is_answered_under_it(tmp_path: Path) -> None:
    script = """
import json, sys
sys.stdin.readline()
def say(tree):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **tree}) + "\\n")
    sys.stdout.flush()
say({"id": 1, "method": "process.run", "params": {"program": "sleep", "args": ["60"]}})
say({"id": 2, "method": "cancel", "params": {"request_id": 1}})
told = [json.loads(sys.stdin.readline()) for _ in range(2)]
text = json.dumps(sorted([answer["id"], answer.get("error", {}).get("code")] for answer in told))
say({"method": "result", "params": {"content": text}})
"""
    tool = {"runtime": "vfs", "command": ["python3", "t.py"], "access": {"commands": {"sleep": {}}}}
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.py": script})
    assert json.loads(shop.outcome("t")["content"][0]["text"]) == [[1, -32005], [2, None]]
