"""Have a thread that waits for descriptors wake up for signals, and for other threads."""

import os
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Waking:
    """A descriptor that can be read from as soon as one of these signals came, or somebody called `wake`.

    To be made in the main thread. What a signal means is done by whoever reads, where there are no surprises.
    """

    def __init__(self, numbers: "Sequence[int]") -> None:
        self.descriptor, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in numbers}

    def wake(self) -> None:
        """Wake the thread that waits."""
        with suppress(BlockingIOError):  # it has a lot to read already
            os.write(self._writing, b"\0")

    def signals(self) -> list[int]:
        """Return the signals that came since the last time. They are in the pipe: a handler may run only later."""
        try:
            return [number for number in os.read(self.descriptor, 4096) if number]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """Let signals do again what they did before."""
        signal.set_wakeup_fd(-1)
        for number, before in self._before.items():
            signal.signal(number, before)


def _nothing(_number: int, _frame: object) -> None:
    """Do nothing here: the number of the signal is in the pipe by now."""
