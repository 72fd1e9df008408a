"""Locks between folders: a file whose descriptor holds the lock, so that a child can inherit it."""

import fcntl
import os

from byleave.audit.journal import cannot_write, wait_for_lock

_held: set[int] = set()


def hold_file(path: str, *, patient: bool, inherited: bool = False) -> int | None:
    """Return a descriptor that holds a lock until `let_go`; None if another holds it and we are not patient.

    A StateError if it is held for too long. Unless it is to be `inherited`, a child that is forked lets go of it.
    """
    return _hold(path, os.O_RDWR | os.O_CREAT, patient=patient, inherited=inherited)


def hold_directory(path: str, *, patient: bool) -> int | None:
    """Do the same with a directory: unlike a file of its own, it cannot be taken away from under those who wait."""
    return _hold(path, os.O_RDONLY | os.O_DIRECTORY, patient=patient)


def _hold(path: str, flags: int, *, patient: bool, inherited: bool = False) -> int | None:
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        if patient:
            wait_for_lock(descriptor, path)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    if not inherited:
        _held.add(descriptor)
    return descriptor


def let_go(descriptor: int) -> None:
    """Let go of a lock."""
    _held.discard(descriptor)
    os.close(descriptor)


def _leave_to_parent() -> None:
    """After a fork: the lock belongs to the open file, which the child has as well, and would outlive the parent."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_leave_to_parent)
