"""A service that is wrong, late, or gone: before `G` the cold command runs, after it nothing runs a second time.

Each answer is given to the front as it is shipped, and to one with sanitizers, which exits with 99 at an error.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import amounts
from byleave.sandbox.native import build
from sandbox.front_scene import PATIENCE, Scene, Talk, built_front, compile_front, eventually, reported
from sandbox.test_front import BLOCKED, COMMANDS, HOOK, RUN, UNANSWERED, ended

pytestmark = [
    pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler"),
    pytest.mark.sampled(2),
]


@pytest.fixture(scope="module", params=["shipped", "sanitized"])
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return both fronts, one after the other."""
    return built_front(request.param, tmp_path_factory.mktemp("front"))


@pytest.fixture
def served(tmp_path: Path, front: str) -> Iterator[Scene]:
    """Yield an installation with a service that listens."""
    scene = Scene.build(tmp_path, front)
    scene.listen()
    yield scene
    scene.close()


NO_MASK = b"L-0000000000000000\0"  # what stands in front of the launcher's words

BEFORE_GO: dict[str, tuple[bytes | None, int]] = {
    "an end": (None, 0),
    "an empty packet": (b"", 0),
    "no": (b"N", 0),
    "an unknown kind": (b"B", 0),
    "a zero": (b"\0", 0),
    "an acknowledgement with more": (b"AA", 0),
    "an acknowledgement with a zero": (b"A\0", 0),
    "an acknowledgement with a descriptor": (b"A", 1),
    "an acknowledgement with too many": (b"A", 60),
    "an exit code": (b"X0", 0),
    "a launcher": (NO_MASK + b"/bin/true\0", 2),
    "a packet that is too long": (b"A" * 70_000, 0),
}


@pytest.mark.parametrize(("answer", "count"), BEFORE_GO.values(), ids=BEFORE_GO.keys())
def test_whatever_else_comes_before_go_the_cold_command_runs(served: Scene, answer: bytes | None, count: int) -> None:
    process = served.start(*HOOK)
    talk = served.accept()
    talk.receive()
    if answer is None:
        talk.close()
    else:
        talk.send(answer, [0] * count)
        assert talk.is_ended()  # it let go of us first
        talk.let_go()
    found = reported(process)
    assert sorted(found["descriptors"]) == ["0", "1", "2"]


def test_a_service_that_is_silent_is_left_after_a_second(served: Scene) -> None:
    began = time.monotonic()
    process = served.start(*HOOK)
    talk = served.accept()
    talk.receive()
    assert talk.is_ended()
    talk.let_go()
    assert time.monotonic() - began > 0.9
    reported(process)


def test_a_service_that_accepts_nothing_is_left_as_well(served: Scene) -> None:
    """It has no stream, so who waits for the end of the output does not wait for it."""
    assert reported(served.start(*HOOK))["parent"] == os.getpid()
    assert served.accept().receive().body.startswith(b"Q")


def test_a_service_that_ends_between_its_answer_and_go_has_run_nothing(served: Scene) -> None:
    process = served.start(*HOOK)
    talk = served.accept()
    talk.receive()
    os.kill(process.pid, 19)  # so that the end is there before the front can go on
    talk.send(b"A")
    talk.close()
    os.kill(process.pid, 18)
    assert reported(process)["parent"] == os.getpid()


AFTER_GO: dict[str, tuple[bytes | None, int]] = {
    "an end": (None, 0),
    "an empty packet": (b"", 0),
    "no code": (b"X", 0),
    "a code that is too large": (b"X256", 0),
    "a code that is far too large": (b"X" + b"1" * 60_000, 0),
    "a code that is negative": (b"X-1", 0),
    "a code with a blank": (b"X 1", 0),
    "a code with a line": (b"X1\n", 0),
    "a code with a zero": (b"X1\0", 0),
    "a code that is none": (b"Xabc", 0),
    "a code with a descriptor": (b"X0", 1),
    "another answer": (b"A", 0),
    "no": (b"N", 0),
    "our own go": (b"G", 0),
    "a word that is not known": (b"K", 0),
    "an end without a child": (b"E0", 0),
    "a packet that is too long": (b"X" * 70_000, 0),
    "a launcher without a zero": (NO_MASK + b"/bin/true", 2),
    "a launcher that is relative": (NO_MASK + b"bin/true\0", 2),
    "a launcher without a name": (NO_MASK + b"\0", 2),
    "a launcher without flags": (b"L", 2),
    "a launcher without words": (NO_MASK, 2),
    "a launcher without a mask": (b"L-/bin/true\0", 2),
    "a launcher with a short mask": (b"L-00\0/bin/true\0", 2),
    "a launcher with a long mask": (b"L-00000000000000000\0/bin/true\0", 2),
    "a launcher with a mask of other digits": (b"L-000000000000000G\0/bin/true\0", 2),
    "a launcher with a mask of zeros": (b"L-" + b"\0" * 17 + b"/bin/true\0", 2),
    "a launcher with an unknown flag": (b"Lx0000000000000000\0/bin/true\0", 2),
    "a launcher without descriptors": (NO_MASK + b"/bin/true\0", 0),
    "a launcher with one": (NO_MASK + b"/bin/true\0", 1),
    "a launcher with four": (NO_MASK + b"/bin/true\0", 4),
    "a launcher with fifty": (NO_MASK + b"/bin/true\0", 50),
    "a launcher with too many words": (NO_MASK + b"/bin/true\0" + b"x\0" * 1024, 2),
}


# Each answer with one or two of the four commands, in turn.
ANSWERED = amounts.some([(answer, name) for answer in AFTER_GO for name in COMMANDS], every=3)


@pytest.mark.parametrize(("what", "name"), ANSWERED)
def test_after_go_nothing_but_an_exit_code_is_an_answer(served: Scene, what: str, name: str) -> None:
    answer, count = AFTER_GO[what]
    process = served.start(*COMMANDS[name])
    talk = served.accept()
    talk.until_go()
    if answer is None:
        talk.close()
    else:
        talk.send(answer, [0] * count)
    code, text = UNANSWERED[name]
    assert ended(process, talk) == (code, b"", text)


@pytest.mark.parametrize("name", ["hook", "check", "call"])
def test_only_a_run_starts_a_launcher(served: Scene, name: str) -> None:
    process = served.start(*COMMANDS[name])
    talk = served.accept()
    talk.until_go()
    served.launch(talk, "report")
    code, text = UNANSWERED[name]
    assert ended(process, talk) == (code, b"", text)


ONLY = {
    "as it is installed": (("--only", "outcome"), 0),
    "the last of two": (("--only", "x", "--only", "outcome"), 0),
    "not the last of two": (("--only", "outcome", "--only", "x"), 2),
    "a value of another option": (("--session", "--only", "outcome", "x"), 2),
    "without a value": (("--only",), 2),
}


@pytest.mark.parametrize(("words", "code"), ONLY.values(), ids=ONLY.keys())
def test_only_what_reports_an_outcome_lets_the_agent_go_on(served: Scene, words: tuple[str, ...], code: int) -> None:
    process = served.start(*HOOK, *words)
    talk = served.accept()
    talk.until_go()
    talk.close()
    assert ended(process) == (code, b"", b"" if code == 0 else BLOCKED)


def test_a_hook_blocks_although_nobody_reads_why(served: Scene) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = served.start(*HOOK, stderr=writing)
    os.close(writing)
    talk = served.accept()
    talk.until_go()
    talk.close()
    assert process.wait(PATIENCE) == 2


def test_a_hook_blocks_although_its_error_output_is_full(served: Scene) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    process = served.start(*HOOK, stderr=writing)
    talk = served.accept()
    talk.until_go()
    talk.close()
    assert process.wait(PATIENCE) == 2
    os.close(reading)
    os.close(writing)


def test_a_flood_ends_the_conversation_at_its_first_packet(served: Scene) -> None:
    process = served.start(*RUN)
    talk = served.accept()
    talk.until_go()
    with suppress(BrokenPipeError, ConnectionResetError):
        while True:
            talk.send(b"L" + b"x" * 20_000, [0, 1, 2])
    assert ended(process, talk)[0] == 125


@pytest.mark.parametrize("seed", range(25))
def test_random_packets_have_one_of_the_known_ends(served: Scene, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 -- the same packets every time
    process = served.start(*COMMANDS[dice.choice(list(COMMANDS))], stdin=subprocess.DEVNULL)
    talk = served.accept()
    talk.receive()
    if dice.random() < 0.9:
        talk.send(b"A")
        talk.receive()
    for _ in range(dice.randrange(4)):
        kind = dice.choice(b"AXLKNPEFG\0")
        body = (
            bytes([kind])
            + dice.choice([b"", b"s" + NO_MASK[2:] + b"/bin/true\0", NO_MASK[1:] + b"/nowhere\0", b"\xff" * 9])
            + dice.randbytes(3)
        )
        try:
            talk.send(body, [0] * dice.randrange(4))
        except (BrokenPipeError, ConnectionResetError):
            break
    talk.close()
    process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, 1, 2, 125)


def test_half_an_answer_is_none(served: Scene) -> None:
    """A packet is whole or not there; an end after a launcher was started ends that."""
    process = served.start(*RUN)
    talk = served.accept()
    talk.until_go()
    control = served.launch(talk)
    assert control.recv(64) == b"ready"
    child = int(talk.receive().body[1:])
    talk.send(b"X")
    assert ended(process, talk) == (125, b"", UNANSWERED["run"][1])
    assert control.recv(64) == b""  # it was killed
    assert not os.path.exists(f"/proc/{child}")


# ---- Deadlines, of a build in which a second is shorter --------------------------------------------------------------


@pytest.fixture(scope="module")
def hasty_front(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a front that waits for an answer for a tenth of the time."""
    return compile_front(tmp_path_factory.mktemp("hasty") / "front", "-DFRONT_SECOND=20")


@pytest.fixture
def hasty(tmp_path: Path, hasty_front: str) -> Iterator[Scene]:
    """Yield an installation with such a front."""
    scene = Scene.build(tmp_path, hasty_front)
    scene.listen()
    yield scene
    scene.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_silent_service_is_not_waited_for_without_end(hasty: Scene, name: str) -> None:
    began = time.monotonic()
    process = hasty.start(*COMMANDS[name])
    talk: Talk = hasty.accept()
    talk.until_go()
    talk.let_go()
    code, text = UNANSWERED[name]
    assert ended(process) == (code, b"", text)
    assert time.monotonic() - began > (0.24 if name == "hook" else 1.2)


def test_a_run_that_has_started_has_no_deadline(hasty: Scene) -> None:
    process = hasty.start(*RUN)
    talk = hasty.accept()
    talk.until_go()
    control = hasty.launch(talk)
    assert control.recv(64) == b"ready"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    talk.send(b"X0")
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_to_a_call(served: Scene, number: signal.Signals) -> None:
    process = served.start(*COMMANDS["call"])
    talk = served.accept()
    talk.until_go()
    talk.send(b"B")
    eventually(lambda: _is_blocked(process.pid, number))
    process.send_signal(number)
    assert talk.receive().body == b"S%d" % number
    talk.send(b"X130")
    assert ended(process, talk) == (130, b"", b"")


def test_a_signal_before_a_call_listens_ends_the_front(served: Scene) -> None:
    """As it ends a command that runs by itself: else it would be a signal that a call without any handler ignores."""
    process = served.start(*COMMANDS["call"])
    talk = served.accept()
    talk.until_go()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == -signal.SIGTERM
    assert talk.is_ended()
    talk.let_go()


def _is_blocked(process: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{process}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_a_call_that_goes_on_has_no_deadline(hasty: Scene) -> None:
    process = hasty.start(*COMMANDS["call"])
    talk = hasty.accept()
    talk.until_go()
    for _ in range(4):
        time.sleep(0.5)
        talk.send(b"B")
    talk.send(b"X0")
    assert ended(process, talk) == (0, b"", b"")


def test_the_deadlines_are_those_of_the_design() -> None:
    text = (Path(build.__file__).parent / "front.h").read_text()
    assert "TAKEN_WITHIN = 1000, HOOK_WITHIN = 22 * FRONT_SECOND, OTHERS_WITHIN = 60 * FRONT_SECOND" in text
    assert "#define FRONT_SECOND 1000" in text
