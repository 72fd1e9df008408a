"""What changes when byleave, or the interpreter that runs it, is installed anew or edited.

A service has its code in memory. When a file of it changes, a command that starts by itself runs the new code, so the
service ends. Every directory of the package, every module that is loaded and the interpreter are looked at: all of them
at most once in a while, the directories and the interpreter before every request.

A module that is loaded for the first time may be written beside its source as bytecode, which is no change.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

    Stamp = tuple[int, ...]

_OFTEN = 0.25  # seconds between two looks at single files
_NO_CODE = "__pycache__"  # written while modules are loaded


class InstallationStamp:
    """An installation as it was when the service started."""

    def __init__(self, directories: tuple[str, ...], files: tuple[str, ...]) -> None:
        self._directories = directories
        self._files = files
        self._known = self._look(directories)
        self._known_names = [_names_in(path) for path in directories]
        self._known_files = self._look(files)
        self._looked = 0.0

    @classmethod
    def take(cls, package: str) -> Self:
        """Return the installation whose code is in a directory."""
        directories = sorted(place for place, _names, _files in os.walk(package) if _NO_CODE not in place.split("/"))
        loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        files = sorted(path for path in loaded if path and not path.startswith("<"))
        return cls((*directories, sys.executable), tuple(files))

    def has_changed(self) -> bool:
        """Whether anything of it is another than it was."""
        found = self._look(self._directories)
        if found != self._known:
            if [_names_in(path) for path in self._directories] != self._known_names:
                return True
            self._known = found
        now = time.monotonic()
        if now - self._looked < _OFTEN:
            return False
        self._looked = now
        return self._look(self._files) != self._known_files

    @staticmethod
    def _look(paths: tuple[str, ...]) -> tuple[Stamp, ...]:
        return tuple([_stamp(path) for path in paths])


def _stamp(path: str) -> Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _names_in(path: str) -> dict[str, Stamp]:
    """Return what is in a directory, but for bytecode; of directories in it, which they are. A file is in itself."""
    if not os.path.isdir(path):
        return {"": _stamp(path)}
    try:
        with os.scandir(path) as entries:
            return {
                each.name: _stamp(each.path)[: 2 if each.is_dir() else None]
                for each in entries
                if each.name != _NO_CODE
            }
    except OSError:
        return {}
