"""What a program meant to do by a system call that failed, in the words of `byleave check`. Pure."""

import os

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from byleave.sandbox.watched import Observed

    Exists = Callable[[str], bool]

READ, CREATE, UPDATE, DELETE, EXEC, OWN = "read", "create", "update", "delete", "exec", "own"
_PATH_ONLY = 0o10000000  # O_PATH


class Attempt(Record):
    """One thing that a program tried at one path. A `look` asks about a place, and does nothing there."""

    op: str
    path: str
    look: bool = False
    follows: bool = True  # whether a link in the last name is followed


_LOOKS = frozenset({"access", "faccessat", "faccessat2", "lstat", "newfstatat", "stat", "statx"})
_OPS = {
    **dict.fromkeys(_LOOKS, READ),
    **dict.fromkeys(("mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat"), CREATE),
    **dict.fromkeys(("rmdir", "unlink", "unlinkat"), DELETE),
    **dict.fromkeys(("chmod", "fchmodat", "fchmodat2", "truncate", "setxattr", "lsetxattr"), UPDATE),
    **dict.fromkeys(("futimesat", "utime", "utimensat", "utimes"), UPDATE),
    **dict.fromkeys(("chown", "fchownat", "lchown"), OWN),
    **dict.fromkeys(("execve", "execveat"), EXEC),
    "chdir": READ,
}
_NOT_FOLLOWED = frozenset({CREATE, DELETE})
_ASKED = ((os.W_OK, UPDATE), (os.X_OK, EXEC))


def attempts_of(observed: "Observed", exists: "Exists") -> "Iterator[Attempt]":
    """Yield what a call tried; nothing if it named no path. `exists` says whether a path is there outside."""
    call, paths = observed.call, observed.paths
    if not paths or not all(paths):
        return
    if call in ("open", "openat", "openat2"):
        yield from _opened(paths[0], observed.flags, exists)
    elif call == "creat":
        yield Attempt(UPDATE if exists(paths[0]) else CREATE, paths[0])
    elif call.startswith("rename"):
        yield Attempt(DELETE, paths[0], follows=False)
        yield Attempt(CREATE, paths[-1], follows=False)
    elif call.startswith("link"):
        yield Attempt(CREATE, paths[-1], follows=False)
        yield Attempt(READ, paths[0], follows=False)
    elif call in _OPS:
        op = _asked(call, observed.flags)
        yield Attempt(op, paths[0], look=call in _LOOKS, follows=op not in _NOT_FOLLOWED and not call.startswith("l"))


def _opened(path: str, flags: int, exists: "Exists") -> "Iterator[Attempt]":
    follows = not flags & os.O_NOFOLLOW
    if flags & _PATH_ONLY:
        yield Attempt(READ, path, look=True, follows=follows)
        return
    mode = flags & os.O_ACCMODE
    if mode or flags & os.O_TRUNC:
        missing = bool(flags & os.O_CREAT) and not exists(path)
        yield Attempt(CREATE if missing else UPDATE, path, follows=follows)
    if mode != os.O_WRONLY:
        yield Attempt(READ, path, follows=follows)


def _asked(call: str, flags: int) -> str:
    """Return what a call is about; `access` asks whether something else would be allowed."""
    if not call.startswith(("access", "faccessat")):
        return _OPS[call]
    return next((op for bit, op in _ASKED if flags & bit), READ)
