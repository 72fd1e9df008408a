"""Tools that mean harm, in their real sandboxes: the host bounds them, ends them, keeps nothing of them, goes on."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.protocol.vfs import METHODS
from byleave.toolhost import conversation
from sandbox.machine import needs_sandbox
from toolhost import hostile_tools
from toolhost.hosting import (
    Hosting,
    House,
    Kept,
    ended,
    eventually,
    failed,
    forget_peak,
    memory,
    nothing_left,
    said,
    silent,
    tool,
    tool_processes,
    unread,
)

pytestmark = needs_sandbox

LARGE = amounts.of(1024, 150)  # megabytes
MEGABYTE = 1 << 20
MOST_MEMORY = 400 * MEGABYTE  # a line has at most 64 MB, and is there up to three times while it is put together
LONGEST = 20.0  # seconds of patience
MOST_WORK = 10.0  # seconds of the processor, which are the same on a busy machine; the host takes half of one
SILENT = silent(0.3)
UNREAD = unread(2.0)

# What comes of each; a text is a completed call that says just that.
OUTCOMES: dict[str, dict[str, Any]] = {
    "floods_requests_and_reads_nothing": UNREAD,
    "gives_up_for_ever_and_reads_nothing": SILENT,
    "gives_up_for_ever_and_reads": SILENT,
    "gives_up_all_that_waits": said("True"),
    "floods_garbage_and_reads_nothing": SILENT,
    "floods_garbage_and_reads": SILENT,
    "floods_garbage_after_an_answer": SILENT,
    "floods_blank_lines": SILENT,
    "floods_unknown_notices": SILENT,
    "writes_half_a_line_and_sleeps": SILENT,
    "writes_one_byte_at_a_time": said('{"exists": true}'),
    "closes_its_output": failed("the tool closed its output without a result"),
    "closes_its_output_and_errors": failed("the tool ended without a result, and was ended"),
    "closes_its_input_and_goes_on": said("done"),
    "closes_its_input_while_answers_wait": said("done"),
    "closes_everything": failed("the tool ended without a result, and was ended"),
    "forks_after_the_result": said("done"),
    "forks_before_the_result": said("done"),
    "leaves_a_daemon": said("done"),
    "leaves_a_daemon_without_a_result": failed("it is out there"),
    "writes_after_the_result": said("done"),
    "asks_before_the_result": said("done"),
    "asks_something_slow_before_the_result": said("done"),
    "asks_and_exits": failed("the tool ended without a result, with exit code 7"),
    "has_strange_ids": said("done"),
    "says_what_is_no_message": said("done"),
    "ends_lines_like_windows": said("hello"),
    "ends_without_a_newline": said("done"),
    "ends_with_half_a_result": failed("cut off"),
    "exits_0": failed("the tool ended without a result, with exit code 0"),
    "exits_1_with_words": failed("it went wrong"),
    "exits_3_without_words": failed("the tool ended without a result, with exit code 3"),
    "dies_by_a_signal": failed("the tool ended without a result, by signal 9"),
    "dies_by_a_signal_with_words": failed("last words"),
    "floods_stderr_for_ever": SILENT,
    "never_reads": SILENT,
    "cancels_what_is_not_there": said("hello"),
    "cancels_what_waits_and_what_runs": said("done"),
    "asks_thousands_of_times_at_once": said("True"),
    "says_how_it_stands": said("done"),
    "stands_and_exits": failed("the tool ended without a result, with exit code 5"),
    "asks_a_question": {"outcome": "needs_input", "question": {"id": "q", "text": "Sure?"}},
    "wants_methods_that_are_not_there": said("done"),
}
# What may come of these on a busy machine, where the tool itself is late to read.
LATE = dict.fromkeys(("floods_garbage_and_reads", "floods_garbage_after_an_answer"), unread(0.3))
# What it leaves in the workspace, rightly.
WRITTEN = {
    "asks_before_the_result": {"before.txt"},
    "asks_and_exits": {"before.txt"},
    "closes_its_input_while_answers_wait": {"went-on.txt"},
}
HASTE = {"limits": {"request_timeout": 0.3}}


@pytest.fixture
def hostile(tmp_path: Path, name: str) -> House:
    return House.build(tmp_path, {name: tool(name, **(HASTE if OUTCOMES[name] == SILENT else {}))})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OUTCOMES)
def test_the_host_survives_a_tool_that(hostile: House, name: str) -> None:
    before = set(os.listdir(hostile.root))
    started = time.process_time()
    with hostile.host() as hosting:
        hosting.is_well()
        with nothing_left():
            if OUTCOMES[name] == UNREAD:
                outcome, seconds = hosting.call_in_time(name)
                assert outcome == unread(seconds)
            else:
                assert hosting.call(name) in (OUTCOMES[name], LATE.get(name))
            hosting.is_well()
    assert time.process_time() - started < MOST_WORK
    assert set(os.listdir(hostile.root)) - before == WRITTEN.get(name, set())


@pytest.mark.parametrize("name", ["floods_garbage_and_reads", "floods_garbage_after_an_answer"])
def test_garbage_that_always_waits_does_not_keep_a_tool_alive(
    hostile: House, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_SLICE", 0.0)  # a host that is slower than the tool: its queue is never empty
    with hostile.host() as hosting:
        assert hosting.call(name) in (SILENT, LATE.get(name))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["floods_garbage_and_reads_nothing", "closes_everything", "leaves_a_daemon", "exits_0"]
)
def test_a_kept_host_goes_on_after_a_tool_that(hostile: House, name: str) -> None:
    with ended(hostile.start(name, "--keep", "-q")) as process:
        kept = Kept(process)
        opened = 0
        for call in range(3):
            assert kept.ask() == OUTCOMES[name]
            eventually(lambda: len(os.listdir(f"/proc/{process.pid}/task")) <= 3)
            eventually(lambda: not tool_processes(of=process.pid))
            if call < 2:  # the first calls open what is kept
                opened = max(opened, len(os.listdir(f"/proc/{process.pid}/fd")))
        eventually(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= opened)


@contextmanager
def settled(hosting: Hosting) -> Iterator[None]:
    """Hold the test to leaving nothing, once the host has served somebody."""
    hosting.is_well()
    with nothing_left():
        yield


BOUNDED = {
    "writes_an_endless_line": said("-32600 hello"),
    "writes_an_endless_request": said("7 -32602 ['limit']"),
    "floods_stderr": said("done"),
    "piles_up_large_requests": failed("the tool was ended: it took longer than 2 seconds"),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_the_memory_of_the_host_stays_bounded_whatever_comes(tmp_path: Path, name: str) -> None:
    limits = {"request_timeout": 60.0, **({"wall_time": 2.0} if name.startswith("piles") else {})}
    house = House.build(tmp_path, {name: tool(name, str(LARGE), limits=limits)})
    with house.host() as hosting:
        hosting.is_well()
        forget_peak()
        usual = memory()
        with nothing_left():
            assert hosting.call(name) == BOUNDED[name]
        assert memory(kind="VmHWM") - usual < MOST_MEMORY
        hosting.is_well()


def test_an_init_that_is_never_read_keeps_nobody_waiting(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("never_reads", limits={"request_timeout": 2.0})})
    with house.host() as hosting, settled(hosting):
        assert hosting.call("t", {"much": "x" * (4 * MEGABYTE)}) == UNREAD


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("number", "length", "path"),
    [
        (120, 0, "a.txt"),
        (120, 0, "large.txt"),
        (120, 50_000, "large.txt"),
        (1000, 0, "a.txt"),
        (1000, 1000, "medium.txt"),
        (4000, 0, "medium.txt"),
    ],
)
def test_requests_may_all_be_sent_before_an_answer_is_read(tmp_path: Path, number: int, length: int, path: str) -> None:
    words = ("sends_everything_before_it_reads", str(number), str(length), path)
    house = House.build(tmp_path, {"t": tool(*words)})
    (house.root / "medium.txt").write_text("x" * 5000)
    with house.host() as hosting, settled(hosting):
        forget_peak()
        usual = memory()
        assert hosting.call("t") == said(str(number * (house.root / path).stat().st_size))
        assert memory(kind="VmHWM") - usual < MOST_MEMORY


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [60, 300])
def test_large_requests_may_be_sent_while_large_answers_wait(tmp_path: Path, number: int) -> None:
    house = House.build(tmp_path, {"t": tool("reads_and_writes_before_it_reads_an_answer", str(number))})
    with house.host() as hosting, settled(hosting):
        assert hosting.call("t") == said("[]")
    assert len(os.listdir(house.root / "made")) == number


def test_more_than_may_wait_is_not_taken_in_and_the_tool_is_told_why_it_ended(tmp_path: Path) -> None:
    words = ("sends_everything_before_it_reads", "2000", "20000", "large.txt")
    house = House.build(tmp_path, {"t": tool(*words)})
    with house.host() as hosting, settled(hosting):
        forget_peak()
        usual = memory()
        outcome, seconds = hosting.call_in_time("t")
        assert outcome == unread(seconds)
        assert memory(kind="VmHWM") - usual < MOST_MEMORY


def test_a_tool_that_gives_up_again_and_again_does_not_pile_up_threads(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("gives_up_again_and_again")})
    with house.host() as hosting:
        hosting.is_well()
        with nothing_left():
            assert hosting.call("t") == said("done")


def test_a_tool_that_eats_memory_meets_its_limit(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("eats_memory", limits={"memory": "256 MB", "request_timeout": 20.0})})
    with house.host() as hosting:
        hosting.is_well()
        with nothing_left():
            assert hosting.call("t") == failed("no more memory")
            hosting.is_well()


def test_strange_content_passes_through_as_it_is(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("returns_strange_content")})
    with ended(house.start("t", stderr=None)) as process:
        out, _err = process.communicate(timeout=LONGEST)
    content = json.loads(out)["content"]
    assert content[0] == {"type": "text", "text": "\u202e\x1b[2J\0"}
    assert (content[1]["n"], content[1]["f"]) == (10**40, 1e308)


def test_a_strange_error_is_an_error(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("fails_strangely")})
    with house.host() as hosting, settled(hosting):
        outcome = hosting.call("t")
    assert (outcome["outcome"], outcome["message"], outcome["transient"]) == (
        "error",
        "the tool failed, and did not say why",
        False,
    )


def test_the_methods_under_attack_are_all_there_are() -> None:
    assert set(hostile_tools.METHODS) == set(METHODS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", METHODS)
def test_wrong_params_are_refused_and_the_conversation_goes_on(tmp_path: Path, method: str) -> None:
    house = House.build(tmp_path, {"t": tool("has_wrong_params", method, limits={"request_timeout": 20.0})})
    with house.host() as hosting:
        outcome = hosting.call("t")
        assert outcome["outcome"] == "completed", outcome
        seen = json.loads(outcome["content"][0]["text"])
        assert seen["examples"] == {}
        assert seen["-32602"] > len(hostile_tools.WRONG)
        hosting.is_well()


def test_a_flood_of_heavy_requests_does_not_keep_the_host_from_stopping(tmp_path: Path) -> None:
    """A thousand directories of a thousand entries are asked for in one write; the time that is set still holds."""
    house = House.build(tmp_path, {"t": tool("floods_listings", limits={"wall_time": 1.0})})
    for number in range(1000):
        (house.root / "many" / f"f{number}").parent.mkdir(exist_ok=True)
        (house.root / "many" / f"f{number}").touch()
    with house.host() as hosting, settled(hosting):
        started = time.process_time()
        assert hosting.call("t") == failed("the tool was ended: it took longer than 1 seconds")
        assert time.process_time() - started < MOST_WORK


UNCONFINED = {"defaults": {"os_sandbox": "off"}}


def test_a_tool_without_a_sandbox_that_closes_its_output_is_ended(tmp_path: Path) -> None:
    house = House.build(tmp_path, {"t": tool("closes_its_output")}, **UNCONFINED)
    with house.host() as hosting, settled(hosting):
        assert hosting.call("t") == failed("the tool closed its output without a result")


def test_a_daemon_without_a_sandbox_that_floods_does_not_keep_the_host(tmp_path: Path) -> None:
    """Nothing ends it but the end of its pipe; what counts is that nobody listens to it for ever."""
    house = House.build(tmp_path, {"t": tool("leaves_a_daemon_that_floods")}, **UNCONFINED)
    with house.host() as hosting, settled(hosting):
        outcome = hosting.call("t")
        assert (outcome["outcome"], set(outcome["message"])) == ("error", {"x"})
