"""The deadline of one request of a tool, and its cancellation.

While a person is asked for approval, the clock stops, and the tool receives a notice that its reply takes a while
(`announced`).
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock, local
from time import monotonic
from typing import TYPE_CHECKING

from byleave.errors import RequestError
from byleave.guard.evaluation import SILENCE
from byleave.protocol.jsonrpc import CANCELLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from byleave.guard.evaluation import Asker, Question


class Deadline:
    """One request of a tool while it is served. `deadline` is a time of the monotonic clock; None is none.

    The code that serves the request registers how to stop with `on_cancel`; any thread may call `cancel`.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self._lock = Lock()
        self._cancelled = False
        self._stops: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def on_cancel(self, stop: Callable[[], object]) -> None:
        """Have `stop` called when the request is cancelled; at once, if it has been."""
        with self._lock:
            if not self._cancelled:
                self._stops.append(stop)
                return
        stop()

    def cancel(self) -> None:
        """Stop what is being done; the second call changes nothing."""
        with self._lock:
            self._cancelled = True
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def go_on(self) -> None:
        """Return unless the request was cancelled, which is a RequestError."""
        if self._cancelled:
            raise RequestError(
                "the request was cancelled", hint="send it again if it is still needed", number=CANCELLED
            )


REASON = "awaiting user approval"
_here = local()


@contextmanager
def announced(turn: Deadline, announce: Callable[[str], object], resume: Callable[[], object]) -> Iterator[None]:
    """Have questions that this thread asks be announced, and their time not counted; `resume` when it counts again."""
    _here.turn, _here.announce, _here.resume = turn, announce, resume
    try:
        yield
    finally:
        _here.turn = _here.announce = _here.resume = None


@contextmanager
def _no_clock(turn: Deadline | None) -> Iterator[None]:
    """Stop the clock of a turn: it has as much time afterwards as it had before."""
    if turn is None:
        yield
        return
    left = None if turn.deadline is None else turn.deadline - monotonic()
    turn.deadline = None
    _here.announce(REASON)
    try:
        yield
    finally:
        turn.deadline = None if left is None else monotonic() + left
        _here.resume()


def current_deadline() -> Deadline | None:
    """Return the turn that this thread serves, None if it serves none."""
    turn: Deadline | None = getattr(_here, "turn", None)
    return turn


class AnnouncingAsker:
    """Asks as another asker does, one question at a time, and has each announced to the tool that waits."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._one_at_a_time = Lock()

    @property
    def name(self) -> str:
        return self._asker.name

    def ask(self, question: Question, patience: float) -> str:
        """Return what the person says."""
        turn = current_deadline()
        with _no_clock(turn), self._one_at_a_time:
            if turn is not None and turn.cancelled:  # the tool no longer wants the result
                return SILENCE
            return self._asker.ask(question, patience)
