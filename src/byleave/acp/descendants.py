"""What runs below a process, whoever started it there. Linux: elsewhere nobody tells, and nothing is found."""

import os
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_SET_PDEATHSIG = 1
_SET_NAME = 15


def adopt_orphans() -> None:
    """Become the parent of whatever is orphaned below this process: nothing down there gets away by forking twice."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends. SIGKILL: nobody will be left to insist."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before that
        os._exit(1)


def name_process(name: str) -> None:
    """Have `ps` and `top` show this process by a name of at most 15 characters."""
    _prctl(_SET_NAME, name.encode() + b"\0")


def _prctl(option: int, argument: int | bytes) -> None:
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux has it
    if prctl is not None:
        word = ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)
        prctl(option, word, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def descendants(ancestor: int) -> list[int]:
    """Return every process below `ancestor` that has not ended."""
    children: dict[int, list[int]] = {}
    ended: set[int] = set()
    for process, parent, state in _processes():
        children.setdefault(parent, []).append(process)
        if state in (b"Z", b"X"):
            ended.add(process)
    found: list[int] = []
    ahead = [ancestor]
    while ahead:
        below = children.pop(ahead.pop(), [])
        found += below
        ahead += below
    return [process for process in found if process not in ended]


def send(process: int, number: int) -> None:
    """Send a signal to a process, if it is still there and ours."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def send_group(group: int, number: int) -> None:
    """Send a signal to a process group, if there is one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _processes() -> "Iterator[tuple[int, int, bytes]]":
    """Yield the number of each process, its parent's, and its state."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdecimal():
            # It may end while we look. Its name may hold anything, parentheses too; the rest is behind the last one.
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                yield int(name), int(parent), state
