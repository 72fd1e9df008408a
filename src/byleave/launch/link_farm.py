"""Links from a directory that programs in a sandbox write to, to files that they only read.

The directory is shared with programs that are not trusted, and some may run right now: no name in it is followed. Every
step goes by the descriptor of a real directory, and nothing that is there is changed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST = 20_000  # names in one directory; what is beyond is downloaded again
_LARGEST = 1 << 16  # bytes of a copied file


class LinkFarm(Struct, frozen=True):
    """The directory in which links are made; it and what is above it belong to the user alone."""

    top: str

    def link_all(self, place: str, source: str, *, copied: Sequence[str] = ()) -> None:
        """Link every name of the directory `source` into `place`, a path below the top; some files are `copied`.

        What cannot be linked is left out: the program then does without.
        """
        with suppress(OSError):
            names = _names(source)
            directory = self._open(place)
            try:
                there = set(os.listdir(directory))
                for name in names:
                    if name in there:
                        continue
                    with suppress(OSError):
                        if name in copied:
                            _copy(f"{source}/{name}", name, directory)
                        else:
                            os.symlink(f"{source}/{name}", name, dir_fd=directory)
            finally:
                os.close(directory)

    def _open(self, place: str) -> int:
        """Return a descriptor of a directory below the top, made if it is missing."""
        directory = os.open(self.top, _DIRECTORY)
        for name in place.split("/"):
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=directory)
                inner = os.open(name, _DIRECTORY, dir_fd=directory)
            finally:
                os.close(directory)
            directory = inner
        return directory


def _names(source: str) -> list[str]:
    with os.scandir(source) as entries:
        return [entry.name for entry, _ in zip(entries, range(_MOST), strict=False) if not _is_lock(entry.name)]


def _is_lock(name: str) -> bool:
    """Whether a file is one that programs lock, and so open for writing."""
    return name.endswith((".lock", ".lck")) or name == "gc.properties"


def _copy(source: str, name: str, directory: int) -> None:
    with open(source, "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        return
    made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    with open(made, "wb") as file:
        file.write(content)
