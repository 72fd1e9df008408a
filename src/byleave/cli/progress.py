"""Say on standard error that a call still runs, once it takes more than a second; quietly in a pipe."""

import sys
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Self

    from byleave.cli.arguments import Given
    from byleave.guard.asking import Asker, Question

_FIRST = 1.0  # seconds
_SLOWER = 2.0  # how much longer each wait is, where lines stay: nobody wants a line a second in a log


class Progress:
    """A line that grows old with the call. On a terminal it is written over, and gone in the end."""

    def __init__(self, given: "Given", name: str, count: "Callable[[], int]") -> None:
        self._name = shown(name)
        self._count = count
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._silent = given.flag("quiet") or sys.stderr is None
        self._over = Event()
        self._writing = Lock()
        self._thread: Thread | None = None
        self._shown = False

    def __enter__(self) -> "Self":
        if not self._silent:
            self._thread = Thread(target=self._tell, name="byleave-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown and self._terminal:
            self._write("\r\x1b[K")

    def _tell(self) -> None:
        started, wait = monotonic(), _FIRST
        while not self._over.wait(wait):
            requests = self._count()
            asked = "" if not requests else f", {requests} request{'s' if requests > 1 else ''}"
            line = f"byleave: {self._name} has been running for {monotonic() - started:.0f} s{asked}"
            if self._writing.acquire(blocking=False):
                self._write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
                self._shown = True
                self._writing.release()
            wait = _FIRST if self._terminal else wait * _SLOWER

    @contextmanager
    def silence(self) -> "Iterator[None]":
        """Say nothing for a while: somebody else has the terminal, and our line would be written over theirs."""
        with self._writing:
            if self._shown and self._terminal:
                self._write("\r\x1b[K")
                self._shown = False
            yield

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            return


class SilencingAsker:
    """Asks as another asker does, in the silence that `silence` makes."""

    def __init__(self, asker: "Asker", silence: "Callable[[], AbstractContextManager[object]]") -> None:
        self._asker = asker
        self._silence = silence

    @property
    def name(self) -> str:
        return self._asker.name

    def ask(self, question: "Question", patience: float) -> str:
        """Return what the person says."""
        with self._silence():
            return self._asker.ask(question, patience)
