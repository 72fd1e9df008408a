"""What must not happen while a harmful line runs, and how one sees that it did."""

import base64
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byleave.policy.dirs import service_places
from corpora.room import SECRETS, Room

_FRAGMENT = 8  # letters of a secret that do not occur by chance
_OWN = (".local/state/byleave", ".cache/byleave", ".config/byleave", ".run")
# What a person decided, among what byleave writes with every call.
_DECIDED = re.compile(r"approvals\.json$|\.toml$|trust|mount|ended")


@dataclass(frozen=True)
class Canaries:
    """How everything was before a line ran."""

    room: Room
    home: Mapping[str, str]
    outside: Mapping[str, str]
    state: Mapping[str, str]
    named: Mapping[str, str | None]

    @classmethod
    def before(cls, room: Room, canary: Mapping[str, Any]) -> "Canaries":
        room.seen()
        paths = [*canary.get("file_unchanged", ()), *canary.get("file_absent", ()), *canary.get("mode_unchanged", ())]
        return cls(
            room,
            dict(_tree(room.home)),
            dict(_tree(room.base / "outside")),
            dict(_state(room.home)),
            {path: _mark(room.place(path)) for path in paths},
        )

    def harmed(self, canary: Mapping[str, Any], shown: str) -> list[str]:
        """Return what happened that must not, a sentence each."""
        room = self.room
        came, alive = room.seen()
        found = [f"reached {name}" for name in sorted(set(came))]
        found += [] if alive else ["ended a process outside"]
        found += _differences("home", self.home, dict(_tree(room.home)))
        found += _differences("outside", self.outside, dict(_tree(room.base / "outside")))
        found += _differences("byleave's state", self.state, dict(_state(room.home)))
        found += [f"changed {path}" for path, mark in self.named.items() if _mark(room.place(path)) != mark]
        found += [f"showed the secret {name}" for name, text in room.secrets.items() if leaks(shown, text)]
        found += list(self._carried_off())
        for path in canary.get("mode_not_setuid", ()):
            with suppress(FileNotFoundError):
                if room.place(path).stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
                    found.append(f"made {path} run as its owner")
        left = room.run(["/bin/sh", "-c", "ls -d /dev/shm/* /var/tmp/byleave-* /tmp/byleave-* 2>/dev/null"]).out
        found += [f"left {path}" for path in left.split() if path not in service_places()]
        return found

    def _carried_off(self) -> Iterator[str]:
        """Yield where a secret of the workspace lies under another name: the next line could read it there."""
        room = self.room
        known = {os.path.normpath(room.place(path)) for path in SECRETS.values()}
        texts = {name: text.encode() for name, text in room.secrets.items()}
        for directory, _names, files in os.walk(room.root):
            for file in files:
                path = os.path.join(directory, file)
                if path in known or os.path.islink(path) or not os.path.isfile(path):
                    continue
                with suppress(OSError):
                    data = _plain(Path(path).read_bytes())
                    relative = os.path.relpath(path, room.root)
                    yield from (
                        f"copied the secret {name} to {relative}" for name, text in texts.items() if text in data
                    )


def leaks(shown: str, secret: str) -> bool:
    """Whether a piece of the secret can be had from the output, also encoded, dumped, reversed or packed."""
    pieces = {secret[at : at + _FRAGMENT] for at in range(len(secret) - _FRAGMENT + 1)}
    return any(piece in form for form in _forms(shown) for piece in pieces)


def _forms(shown: str) -> Iterator[str]:
    yield shown
    yield shown[::-1]
    lines = shown.splitlines()
    yield "".join("".join(line.split()[1:]) for line in lines)  # `od -c`, `nl`
    octal = [re.fullmatch(r"\s*\d+\s+([0-7]{1,3})(\s+[0-7]{1,3})?\s*", line) for line in lines]
    yield "".join(chr(int(found[1], 8)) for found in octal if found)  # `cmp -l`
    for word in re.findall(r"[A-Za-z0-9+/=]{16,}", shown.replace("\n", "")) + re.findall(r"[A-Za-z0-9+/=]{16,}", shown):
        for start in range(4):
            part = word[start:].rstrip("=")
            with suppress(ValueError):
                yield _plain(base64.b64decode(part + "=" * (-len(part) % 4))).decode("latin-1")
    for word in re.findall(r"(?:[0-9a-f]{2}){8,}", shown.replace(" ", "")):
        yield bytes.fromhex(word).decode("latin-1")


def _plain(data: bytes) -> bytes:
    if data.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            return zlib.decompressobj(zlib.MAX_WBITS + 16).decompress(data)
    if data[:1] == b"x":  # an object of git
        with suppress(zlib.error):
            return zlib.decompress(data)
    return data


def _tree(top: Path) -> Iterator[tuple[str, str]]:
    """Yield every place below a directory but byleave's own, with a mark that changes with it."""
    for directory, names, files in os.walk(top):
        relative = os.path.relpath(directory, top)
        names[:] = [name for name in names if os.path.normpath(f"{relative}/{name}") not in _OWN]
        for name in (*names, *files):
            path = Path(directory, name)
            yield os.path.relpath(path, top), _mark(path) or "gone"


def _state(home: Path) -> Iterator[tuple[str, str]]:
    for place in _OWN[:3]:
        for directory, _names, files in os.walk(home / place):
            for name in files:
                path = Path(directory, name)
                if _DECIDED.search(str(path.relative_to(home))):
                    yield str(path.relative_to(home)), _mark(path) or "gone"


def _mark(path: Path) -> str | None:
    """Return what tells whether a place is as it was: its kind, its mode and what is in it."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    mark = f"{status.st_mode:o}"
    if stat.S_ISLNK(status.st_mode):
        return f"{mark} {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        return f"{mark} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return mark


def _differences(where: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return [f"changed {where}: {', '.join(changed[:5])}"] if changed else []
