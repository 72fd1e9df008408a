"""How long a request may take, and the way to end it from outside."""

from threading import Event, Lock, Thread
from time import monotonic

from byleave.errors import RequestError
from byleave.wire.codes import CANCELLED, TIMED_OUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    Resolve = Callable[[str, int], Sequence[str]]

    class Shuttable(Protocol):
        """Something that can be made to fail for whoever waits for it, from another thread."""

        def shut(self) -> None: ...


class Patience:
    """The time that one request has. `end` may be called from any thread, at any time, and more than once."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._lock = Lock()
        self._woken = Event()
        self._ended = False
        self._held: Shuttable | None = None

    def end(self) -> None:
        """Give the request up: whatever it waits for fails now."""
        with self._lock:
            self._ended = True
            if self._held is not None:
                self._held.shut()
        self._woken.set()

    def hold(self, waiting: "Shuttable") -> None:
        """Have `waiting` shut when the request is given up; at once, if it has been."""
        with self._lock:
            self._held = waiting
            if self._ended:
                waiting.shut()

    def let_go(self) -> None:
        """Leave alone what was held: from here on it belongs to somebody else, or is closed."""
        with self._lock:
            self._held = None

    def left(self) -> float:
        """Return how many seconds there are, always some; a RequestError if there are none."""
        if self._ended:
            raise RequestError("the request was cancelled", hint="ask again if it is still wanted", number=CANCELLED)
        left = self._deadline - monotonic()
        if left <= 0:
            raise RequestError("the request took too long", hint="ask for less, or try again later", number=TIMED_OUT)
        return left

    def look_up(self, resolve: "Resolve", host: str, port: int) -> "Sequence[str]":
        """Return what `resolve` finds; OSError if it finds nothing.

        It has a thread of its own, which nobody waits for in the end: a question to a resolver cannot be taken back.
        """
        self._woken.clear()
        answer = _Answer()
        Thread(target=answer.find, args=(resolve, host, port, self._woken), name="byleave-lookup", daemon=True).start()
        while answer.found is None:
            self._woken.wait(self.left())
        if isinstance(answer.found, OSError):
            raise answer.found
        self.left()
        return answer.found


class _Answer:
    """What a thread has found, once it has."""

    found: "Sequence[str] | OSError | None" = None

    def find(self, resolve: "Resolve", host: str, port: int, told: Event) -> None:
        try:
            self.found = tuple(resolve(host, port))
        except OSError as problem:
            self.found = problem
        except Exception as problem:  # noqa: BLE001 -- whoever waits must hear of it, whatever it was
            self.found = OSError(f"it could not be looked up ({type(problem).__name__})")
        finally:
            told.set()
