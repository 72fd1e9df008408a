"""Tools that stay: one life from spawn to stopped, whatever happens in it, and nothing after the session."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command import PATIENCE
from sandbox.machine import needs_sandbox
from toolhost.hosting import House, Kept, ended, eventually, failed, tool, tool_processes

pytestmark = needs_sandbox

LIMITS = {"request_timeout": 60.0, "cancel_timeout": 0.3}
MANY = 40


@contextmanager
def keeping(base: Path, **more: Any) -> Iterator[Kept]:
    limits = {**LIMITS, **more.pop("limits", {})}
    house = House.build(base, {"t": tool("stays", stateful=True, limits=limits, **more)})
    with ended(house.start("t", "--keep", "-q")) as process:
        yield Kept(process)


def spawn(kept: Kept, id_: str = "h", **args: Any) -> None:
    assert kept.ask(action="spawn", id=id_, args=args) == running()


def running(content: str | None = None) -> dict[str, Any]:
    state = {"type": "running"} if content is None else {"type": "running", "content": content}
    return {"outcome": "state", "state": state}


def give(kept: Kept, given: Any, id_: str = "h") -> None:
    assert kept.ask(action="apply", id=id_, input=given) == running()


def stopped(message: str) -> dict[str, Any]:
    return {"type": "stopped", "error": {"message": message, "trace": [], "transient": False}}


def test_a_handle_hears_what_it_is_given_and_says_how_it_stands(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        spawn(kept, a=1)
        kept.until({"type": "running", "content": 'started with {"a": 1}'}, id="h")
        give(kept, {"deep": [1, None, "x"]})
        kept.until({"type": "running", "content": 'heard {"deep": [1, null, "x"]}'}, id="h")


def test_a_question_is_answered_by_what_is_applied(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        spawn(kept)
        give(kept, "ask")
        kept.until({"type": "waiting", "content": "hm", "question": {"id": "q", "text": "Go on?"}}, id="h")
        give(kept, "yes")
        kept.until({"type": "running", "content": 'heard "ask"'}, id="h")


def test_a_tool_that_waits_is_not_ended_for_its_silence(tmp_path: Path) -> None:
    with keeping(tmp_path, limits={"request_timeout": 0.5}) as kept:
        spawn(kept, "asks")
        spawn(kept, "hangs")
        give(kept, "ask", "asks")
        give(kept, "hang", "hangs")
        silent = stopped("the tool was ended: it asked for nothing and did not finish for 0.5 seconds")
        kept.until(silent, id="hangs")
        assert kept.ask(action="fetch", id="asks")["state"]["type"] == "waiting"


ENDINGS = {
    "crash": stopped("it broke"),
    "die": stopped("the tool ended without a result, by signal 9"),
    "stop": {"type": "stopped", "result": "the end"},
    "fail": stopped("could not"),
    "result": {"type": "stopped", "result": [{"type": "text", "text": "a plain result"}]},
}


@pytest.mark.parametrize("given", ENDINGS)
def test_the_end_of_a_tool_is_seen_and_its_name_is_free_again(tmp_path: Path, given: str) -> None:
    with keeping(tmp_path) as kept:
        spawn(kept)
        give(kept, given)
        kept.until(ENDINGS[given], id="h")
        assert kept.ask(action="abort", id="h")["state"] == ENDINGS[given]
        late = kept.ask(action="apply", id="h", input="x")
        assert late == failed("it has stopped: nothing can be given to it any more")
        eventually(lambda: not tool_processes(of=kept.process.pid))
        spawn(kept)


def test_abort_asks_first(tmp_path: Path) -> None:
    with keeping(tmp_path, limits={"cancel_timeout": 20.0}) as kept:
        spawn(kept)
        kept.until({"type": "running", "content": "started with {}"}, id="h")
        answer = kept.ask(action="abort", id="h")["state"]
        assert answer["type"] == "stopped"
        eventually(lambda: not tool_processes(of=kept.process.pid))


@pytest.mark.parametrize("given", ["hang", "deaf", "fork"])
def test_abort_ends_what_does_not_listen(tmp_path: Path, given: str) -> None:
    with keeping(tmp_path) as kept:
        spawn(kept)
        give(kept, given)
        assert kept.ask(action="abort", id="h")["state"]["type"] == "stopped"
        eventually(lambda: not tool_processes(of=kept.process.pid))


def test_a_flood_of_states_is_bounded_and_the_last_one_counts(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        spawn(kept)
        give(kept, "flood")
        kept.until({"type": "running", "content": 'heard "flood"'}, id="h")


def test_input_that_a_tool_does_not_read_is_not_piled_up(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        spawn(kept)
        give(kept, "deaf")
        answers = [kept.ask(action="apply", id="h", input="x" * 300_000) for _ in range(20)]
        refused = {**failed("it has not read what it was given before"), "transient": True}
        assert answers[-1] == refused
        assert answers.count(refused) > 10
        assert kept.ask(action="fetch", id="h")["state"]["type"] == "running"


def test_an_id_that_is_taken_is_refused_and_others_are_not_touched(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        spawn(kept, "a")
        spawn(kept, "b")
        assert kept.ask(action="spawn", id="a")["outcome"] == "error"
        assert kept.ask(action="fetch", id="A") == failed("no handle 'A'")
        assert kept.ask(action="abort", id="a")["state"]["type"] == "stopped"
        assert kept.ask(action="fetch", id="b")["state"]["type"] == "running"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "fetch"},
        {"action": "fetch", "id": ""},
        {"action": "fetch", "id": 1},
        {"action": "fetch", "id": None},
        {"action": "fetch", "id": ["a"]},
        {"action": "fetch", "id": "x" * 1000},
        {"action": "fetch", "id": "missing"},
        {"action": "apply", "id": "missing", "input": 1},
        {"action": "abort", "id": "missing"},
        {"action": "dance", "id": "a"},
        {"action": None, "id": "a"},
        {"action": ["spawn"], "id": "a"},
        {"action": {"spawn": 1}, "id": "a"},
        {"action": "spawn"},
        {"action": "spawn", "id": "a", "args": []},
        {"action": "spawn", "id": "a", "args": "x"},
    ],
)
def test_what_makes_no_sense_is_an_error_and_the_session_goes_on(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with keeping(tmp_path) as kept:
        assert kept.ask(**arguments)["outcome"] == "error"
        spawn(kept, "good")
        assert kept.ask(action="apply", id="good")["outcome"] == "error"


def test_an_action_that_the_tool_does_not_support_is_refused(tmp_path: Path) -> None:
    with keeping(tmp_path, actions=["spawn", "fetch"]) as kept:
        spawn(kept)
        for action in ("apply", "abort"):
            assert "does not support" in kept.ask(action=action, id="h", input=1)["message"]


def test_many_tools_stay_side_by_side_up_to_a_bound(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        for number in range(MANY):
            spawn(kept, f"h{number}", n=number)
        for number in range(MANY):
            kept.until({"type": "running", "content": f'started with {{"n": {number}}}'}, id=f"h{number}")
        refused = [kept.ask(action="spawn", id=f"more{number}") for number in range(65 - MANY)]
        assert [answer["outcome"] for answer in refused] == ["state"] * (64 - MANY) + ["error"]
        assert kept.ask(action="fetch", id="h0")["state"]["type"] == "running"


def _end_input(kept: Kept) -> None:
    assert kept.process.stdin is not None
    kept.process.stdin.close()


WAYS: dict[str, Callable[[Kept], None]] = {
    "its input ends": _end_input,
    "it is terminated": lambda kept: kept.process.send_signal(signal.SIGTERM),
    "it is interrupted": lambda kept: kept.process.send_signal(signal.SIGINT),
    "it is killed": lambda kept: kept.process.send_signal(signal.SIGKILL),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_the_session_when(tmp_path: Path, way: str) -> None:
    with keeping(tmp_path, limits={"cancel_timeout": 20.0}) as kept:
        for number, given in enumerate(("deaf", "hang", "fork", "ask")):
            spawn(kept, str(number))
            kept.until({"type": "running", "content": "started with {}"}, id=str(number))
            give(kept, given, str(number))
        eventually(lambda: len(tool_processes(of=kept.process.pid)) >= 4)
        processes = tool_processes(of=kept.process.pid)
        WAYS[way](kept)
        kept.process.wait(PATIENCE)
        eventually(lambda: not any(os.path.exists(f"/proc/{each}") for each in processes))
