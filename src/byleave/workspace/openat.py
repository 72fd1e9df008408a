"""Ways to open a path below a directory without following a link: the kernel's own, and a walk where it has none.

Each is an `Opener`: a directory's descriptor, a canonical relative path and flags in, a descriptor out. What may be
opened, and what an error means, is `opening`'s.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from struct import Struct
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Opener(Protocol):
    """Opens a relative path below a directory's descriptor without following any link."""

    def __call__(self, directory: int, relative: str, flags: int, mode: int = 0, /) -> int: ...


_O_PATH: int = getattr(os, "O_PATH", 0)  # Linux only; elsewhere what is held is opened for reading
# Neither wait for the other end of a FIFO, nor take a terminal as the controlling one.
OPEN_FILE = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
HOLD = _O_PATH | os.O_CLOEXEC if _O_PATH else OPEN_FILE
HOLD_DIRECTORY = HOLD | os.O_DIRECTORY


_OPEN_HOW = Struct("=QQQ")  # linux/openat2.h: flags, mode, resolve


class _Openat2:
    """The kernel resolves the whole path at once, and refuses every link and every way out (Linux 5.6)."""

    __slots__ = ("_syscall",)

    NUMBER = 437  # asm-generic/unistd.h; where it has another number (mips) the answer is ENOSYS
    RESOLVE = 0x02 | 0x04 | 0x08  # linux/openat2.h: NO_MAGICLINKS, NO_SYMLINKS, BENEATH
    ATTEMPTS = 64  # openat2(2) asks to try again on EAGAIN; another process must not be able to delay that for ever

    def __init__(self) -> None:
        self._syscall: Callable[..., int] | None = None

    def __call__(self, directory: int, relative: str, flags: int, mode: int = 0, /) -> int:
        packed = _OPEN_HOW.pack(flags, mode if flags & os.O_CREAT else 0, self.RESOLVE)
        arguments = (self.NUMBER, directory, os.fsencode(relative), packed, len(packed))
        for _ in range(self.ATTEMPTS - 1):
            try:
                return self._ask(*arguments)
            except (BlockingIOError, InterruptedError):
                continue
        return self._ask(*arguments)

    def _ask(self, *arguments: int | bytes) -> int:
        if self._syscall is None:
            if sys.platform != "linux":
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
            self._syscall = libc("syscall", "c_long", "c_long", "c_char_p", "c_char_p", "c_size_t")
        return self._syscall(*arguments)


def walk(directory: int, relative: str, flags: int, mode: int = 0, /) -> int:
    """Open one name after the other, each from the directory before it, and none of them if it is a link."""
    *above, last = relative.split("/")
    held = directory
    try:
        for name in above:
            below = _step(held, name, HOLD_DIRECTORY)
            held, left = below, held
            if left != directory:
                os.close(left)
        return _step(held, last, flags, mode)
    finally:
        if held != directory:
            os.close(held)


def _step(directory: int, name: str, flags: int, mode: int = 0) -> int:
    try:
        descriptor = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=directory)
    except NotADirectoryError:
        # O_DIRECTORY calls a link no directory. What is a directory by now was a link a moment ago.
        found = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISLNK(found) or stat.S_ISDIR(found):
            raise link_found() from None
        raise
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):  # O_PATH opens the link itself
        os.close(descriptor)
        raise link_found()
    return descriptor


class FirstThatWorks:
    """Opens by `first`; once the kernel turns out not to have that, by `second` for good."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Opener, second: Opener) -> None:
        self._first = first
        self._second = second

    def __call__(self, directory: int, relative: str, flags: int, mode: int = 0, /) -> int:
        try:
            return self._first(directory, relative, flags, mode)
        except OSError as error:
            # Seccomp filters answer either. EPERM may be the file's own answer, too: immutable files give it.
            if error.errno not in (errno.ENOSYS, errno.EPERM) or works(self._first):
                raise
        self._first = self._second
        return self._second(directory, relative, flags, mode)


def works(opener: Opener) -> bool:
    """Say whether `opener` can open the root directory, which every user may open."""
    with Closing(os.open("/", HOLD_DIRECTORY)) as root:
        try:
            with Closing(opener(root, ".", HOLD_DIRECTORY)) as again:
                return identity_of(again) == identity_of(root)
        except OSError:
            return False


openat2 = _Openat2()
beneath = FirstThatWorks(openat2, walk)


class Closing:
    """A descriptor for the length of a `with`."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_raised: object) -> None:
        os.close(self._descriptor)


def libc(name: str, *types: str) -> Callable[..., int]:
    """Return a function of the C library that raises OSError when it fails, as it does when there is none."""
    try:
        import ctypes  # here, because many a run opens nothing

        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (ImportError, AttributeError, OSError):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    function.argtypes = [getattr(ctypes, each) for each in types]
    function.restype = ctypes.c_long if name == "syscall" else ctypes.c_int

    def call(*arguments: int | bytes) -> int:
        result: int = function(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    return call


def identity_of(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def link_found() -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP))
