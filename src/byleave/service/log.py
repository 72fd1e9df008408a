"""The service's log: short lines about its life, in the state directory, bounded."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from byleave.errors import StateError
from byleave.user_files import make_private_directory

NAME = "service.log"
_LARGEST = 256 << 10  # bytes; then the older half goes


class ServiceLog:
    """Writes lines to a file of a directory; without one, nowhere."""

    def __init__(self, directory: str | None) -> None:
        self._path = None if directory is None else os.path.join(directory, NAME)

    def write(self, what: str) -> None:
        """Add a line. What cannot be written is lost: the service has more important things to do."""
        if self._path is None:
            return
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {os.getpid()} {what}\n"
        with suppress(OSError, StateError):
            make_private_directory(os.path.dirname(self._path))
            descriptor = os.open(
                self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600
            )
            try:
                self._shorten(descriptor)
                os.write(descriptor, line.encode("utf-8", "backslashreplace"))
            finally:
                os.close(descriptor)

    def _shorten(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size > _LARGEST:
            kept = os.pread(descriptor, _LARGEST // 2, size - _LARGEST // 2)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, kept[kept.find(b"\n") + 1 :])
