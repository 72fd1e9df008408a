"""What a launcher said last is heard, although it left without waiting for our answer. No launcher is started here."""

import os
import socket
from collections.abc import Iterator

import pytest

from byleave.errors import SandboxError
from byleave.sandbox.process import Process

QUESTION, ANSWER = b"Q1 /bin/sh", b"A1"
LAST_WORDS = b"E125 116 exchanged /x"


class Started(Process):
    """A process whose launcher is the test."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._ended_early = -1
        self.problem = None
        self.asked: list[tuple[bytes, int]] = []
        self.failures: list[OSError] = []

    def answer(self, control: socket.socket, message: bytes, descriptor: int) -> None:
        self.asked.append((message, descriptor))
        try:
            control.send(ANSWER)
        except OSError as error:
            self.failures.append(error)
            raise

    def say(self, message: bytes) -> None:
        self._control.send(message)

    def hears(self) -> list[bytes]:
        heard: list[bytes] = []
        self._hear_all(heard.append, self.answer)
        return heard

    def said(self) -> SandboxError | None:
        return self._said()


Pair = tuple[Started, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield Started(ours), theirs


def ask(launcher: socket.socket) -> None:
    with open(os.devnull, "rb") as thing:
        socket.send_fds(launcher, [QUESTION], [thing.fileno()])


def leave_unread(process: Started, launcher: socket.socket) -> None:
    """The kernel tells us of a reset before it gives us what is still there to read."""
    process.say(ANSWER)
    launcher.send(LAST_WORDS)
    launcher.close()


def is_the_exchange(problem: SandboxError | None) -> bool:
    return problem is not None and problem.exit_code == 125 and "replaced" in str(problem) and "/x" in str(problem)


def test_what_is_said_behind_a_question_is_heard_when_the_answer_finds_nobody(pair: Pair) -> None:
    process, launcher = pair
    ask(launcher)
    launcher.send(LAST_WORDS)
    launcher.close()
    assert process.hears() == [LAST_WORDS]
    assert [type(error) for error in process.failures] == [BrokenPipeError]
    assert is_the_exchange(process.problem)


def test_the_descriptor_of_a_question_is_closed_although_the_answer_failed(pair: Pair) -> None:
    process, launcher = pair
    ask(launcher)
    launcher.close()
    assert process.hears() == []
    ((message, descriptor),) = process.asked
    assert message == QUESTION
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_launcher_that_left_without_reading_our_answer_is_heard(pair: Pair) -> None:
    process, launcher = pair
    leave_unread(process, launcher)
    assert process.hears() == [LAST_WORDS]
    assert is_the_exchange(process.problem)


def test_the_last_words_are_also_there_for_whoever_never_listened(pair: Pair) -> None:
    process, launcher = pair
    leave_unread(process, launcher)
    assert is_the_exchange(process.said())


def test_a_launcher_that_only_left_has_said_nothing(pair: Pair) -> None:
    process, launcher = pair
    launcher.close()
    assert process.hears() == []
    assert process.said() is None
    assert process.problem is None
