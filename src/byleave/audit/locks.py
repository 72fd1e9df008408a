"""Locks between folders: a file whose descriptor holds the lock, so that a child can inherit it."""

import fcntl
import os

from byleave.audit.journal import cannot_write


def hold_file(path: str, *, patient: bool) -> int | None:
    """Return a descriptor that holds a lock until it is closed; None if another holds it and we are not patient."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
