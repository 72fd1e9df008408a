"""Empty directories for a program that cannot have private ones: made for one sandbox, removed with it.

Whoever has one holds a lock on it. So what a killed process left is known by its lock being free, and the next one that
makes a directory removes it.
"""

import fcntl
import os
import stat

from byleave.errors import SandboxError

_BASES = ("/tmp", "/var/tmp")  # noqa: S108 -- a directory with an unguessable name, of the user's own
_PREFIX = "byleave-"
_LENGTH = len(_PREFIX) + 24
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ScratchDirectory:
    """A new directory, closed to everybody else, with `tmp` and `home` in it. Close it in the end."""

    def __init__(self) -> None:
        self.path, self._lock = _made()
        for name in ("tmp", "home"):
            os.mkdir(os.path.join(self.path, name), 0o700)

    def close(self) -> None:
        """Remove it with everything in it; what cannot be removed stays."""
        _remove(self.path)
        os.close(self._lock)


def _made() -> tuple[str, int]:
    for base in _BASES:
        real = os.path.realpath(base)
        path = os.path.join(real, f"{_PREFIX}{os.urandom(12).hex()}")
        try:
            _sweep(real)
            os.mkdir(path, 0o700)
            lock = os.open(path, _OPEN)
        except OSError:  # not here; or another one swept it away before it was locked
            continue
        if _is_free(lock) and os.path.isdir(path):
            return path, lock
        os.close(lock)
    raise SandboxError("there is no place for temporary files", hint="make /tmp writable, or /var/tmp")


def _sweep(base: str) -> None:
    """Remove what killed processes of ours left."""
    for name in os.listdir(base):
        if name.startswith(_PREFIX) and len(name) == _LENGTH:
            _remove_if_left(os.path.join(base, name))


def _remove_if_left(path: str) -> None:
    try:
        lock = os.open(path, _OPEN)
    except OSError:
        return
    try:
        found = os.fstat(lock)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700 and _is_free(lock):
            _remove(path)
    finally:
        os.close(lock)


def _is_free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
