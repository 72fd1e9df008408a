"""Tell a tool that its answer takes a while, because a person is being asked; and stop the clock meanwhile."""

from contextlib import contextmanager
from threading import Lock, local
from time import monotonic

from byleave.guard.asking import SILENCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from byleave.guard.asking import Asker, Question
    from byleave.toolhost.turn import Turn

REASON = "awaiting user approval"
_here = local()


@contextmanager
def announced(turn: "Turn", announce: "Callable[[str], object]", resume: "Callable[[], object]") -> "Iterator[None]":
    """Have questions that this thread asks be announced, and their time not counted; `resume` when it counts again."""
    _here.turn, _here.announce, _here.resume = turn, announce, resume
    try:
        yield
    finally:
        _here.turn = _here.announce = _here.resume = None


@contextmanager
def _no_clock(turn: "Turn | None") -> "Iterator[None]":
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


def current_turn() -> "Turn | None":
    """Return the turn that this thread serves, None if it serves none."""
    turn: Turn | None = getattr(_here, "turn", None)
    return turn


class AnnouncingAsker:
    """Asks as another asker does, one question at a time, and lets whoever waits for the answer know."""

    def __init__(self, asker: "Asker") -> None:
        self._asker = asker
        self._one_at_a_time = Lock()

    @property
    def name(self) -> str:
        return self._asker.name

    def ask(self, question: "Question", patience: float) -> str:
        """Return what the person says."""
        turn = current_turn()
        with _no_clock(turn), self._one_at_a_time:
            if turn is not None and turn.cancelled:  # nobody is bothered with what nobody wants any more
                return SILENCE
            return self._asker.ask(question, patience)
