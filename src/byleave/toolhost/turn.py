"""The time that one request of a tool has, and the news that nobody wants it any more."""

from threading import Lock

from byleave.errors import RequestError
from byleave.wire.codes import CANCELLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Turn:
    """One request of a tool while it is served. `deadline` is a time of the monotonic clock; None is none.

    Whoever serves says with `on_cancel` how to stop; whoever called says `cancel`, from any thread.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self._lock = Lock()
        self._cancelled = False
        self._stops: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def on_cancel(self, stop: "Callable[[], object]") -> None:
        """Have `stop` called when the request is cancelled; at once, if it has been."""
        with self._lock:
            if not self._cancelled:
                self._stops.append(stop)
                return
        stop()

    def cancel(self) -> None:
        """Stop what is being done; again, it changes nothing."""
        with self._lock:
            self._cancelled = True
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def go_on(self) -> None:
        """Return if the request is still wanted; a RequestError if it is not."""
        if self._cancelled:
            raise RequestError("the request was cancelled", hint="ask again if it is still wanted", number=CANCELLED)
