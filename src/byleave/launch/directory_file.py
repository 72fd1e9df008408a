"""A file that receives the name of a directory at the end of a run.

The directory that the file is in is opened before the program runs: what the program does to names meanwhile leads the
write nowhere else. No link is followed, and nothing but an ordinary file with one name is written.
"""

from __future__ import annotations

import errno
import os
import stat

from byleave.errors import InputError
from byleave.text import quoted

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class DirectoryFile:
    """A file by its path; an InputError if it cannot be used."""

    def __init__(self, path: str) -> None:
        self.path = path
        above, self._name = os.path.split(path)
        if self._name in ("", ".", "..") or "\0" in path:
            raise InputError(f"{quoted(path)} names no file", hint="name an ordinary file")
        try:
            self._above = os.open(above or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            found = os.stat(self._name, dir_fd=self._above, follow_symlinks=False)
        except FileNotFoundError:
            if not hasattr(self, "_above"):
                raise InputError(f"the directory of {quoted(path)} does not exist", hint="create it first") from None
            return
        except OSError as error:
            raise InputError(f"{quoted(path)} cannot be used: {error.strerror}", hint="name another file") from None
        if not _is_ordinary(found):
            raise InputError(f"{quoted(path)} is not an ordinary file with one name", hint="name another file")

    def write(self, directory: str) -> None:
        """Write the directory; an OSError if the file is not ordinary, or cannot be written."""
        descriptor = os.open(self._name, _WRITE, 0o600, dir_fd=self._above)
        try:
            if not _is_ordinary(os.fstat(descriptor)):
                raise OSError(errno.EINVAL, "it is not an ordinary file with one name")
            os.ftruncate(descriptor, 0)
            os.write(descriptor, os.fsencode(f"{directory}\n"))
        finally:
            os.close(descriptor)
            os.close(self._above)


def _is_ordinary(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
