"""Who commits: `user.name` and `user.email` of the user's git configuration, for a program that does not see the rest.

Read without git: a program of that name may lie in the workspace, and starting one costs as much as the sandbox.
Files that `include.path` names are read, and those of `includeIf` with `gitdir`. What cannot be read is left out.

The identity reaches the program as git's system configuration (`GIT_CONFIG_SYSTEM`), the weakest there is: the
repository's own configuration, and what a program configures inside, stand above it as they do outside.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.core.patterns import compile_glob
from byleave.errors import StateError
from byleave.user_files import digest, first_bytes, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEYS = ("name", "email")
_LARGEST = 1 << 20  # bytes of one file
_DEEPEST = 10  # includes in includes, as git has it
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_SYSTEM = "/etc/gitconfig"


def identity_file(home: str, environ: Mapping[str, str], root: str, directory: str) -> str | None:
    """Return a file with the user's identity, for a program to read; None if there is none, or no place for it."""
    identity = read_identity(home, environ, root)
    if not identity:
        return None
    content = identity_text(identity).encode("utf-8", "surrogateescape")
    path = os.path.join(directory, "git", f"{digest(content)[:16]}.gitconfig")
    try:
        if read_private(path, limit=_LARGEST) != content:
            make_private_directory(os.path.dirname(path))
            write_private(path, content)
    except (OSError, StateError):
        return None
    return path


def read_identity(home: str, environ: Mapping[str, str], root: str) -> dict[str, str]:
    """Return the name and the address that git would take from the user's own files, for a repository at `root`."""
    if not home:
        return {}
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    found: dict[str, str] = {}
    for path in (os.path.join(base, "git", "config"), os.path.join(home, ".gitconfig")):
        if not is_under(os.path.realpath(path), root):  # what agents write in the workspace is not the user's
            found |= _ConfigReader(home, root).read(path)
    return {key: value for key, value in found.items() if value and not any(char < " " for char in value)}


def identity_text(identity: Mapping[str, str]) -> str:
    """Return a configuration file with the identity, and with what the machine's own file says."""
    lines = [f"[include]\n\tpath = {_SYSTEM}"] if os.path.exists(_SYSTEM) else []
    lines += ["[user]", *(f"\t{key} = {_quoted(identity[key])}" for key in _KEYS if key in identity)]
    return "\n".join([*lines, ""])


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _ConfigReader:
    """Reads files of git's configuration, one included by another."""

    def __init__(self, home: str, root: str) -> None:
        self._home = home
        self._root = root

    def read(self, path: str, depth: int = 0) -> dict[str, str]:
        found: dict[str, str] = {}
        text = first_bytes(path, _LARGEST).decode("utf-8", "surrogateescape")
        for section, key, value in _entries(text):
            name, _, condition = section.partition(" ")
            if section == "user" and key in _KEYS:
                found[key] = value
            elif key == "path" and depth < _DEEPEST and (section == "include" or self._holds(name, condition, path)):
                found |= self.read(self._absolute(value, path), depth + 1)
        return found

    def _absolute(self, value: str, path: str) -> str:
        if value.startswith("~/"):
            return os.path.join(self._home, value[2:])
        return os.path.join(os.path.dirname(path), value)

    def _holds(self, name: str, condition: str, path: str) -> bool:
        """Whether a condition holds for this repository; one that is not known does not."""
        kind, _, pattern = condition.partition(":")
        if name != "includeif" or kind not in ("gitdir", "gitdir/i") or not pattern:
            return False
        if pattern.startswith("./"):
            pattern = os.path.join(os.path.dirname(path), pattern[2:])
        elif pattern.startswith("~/"):
            pattern = os.path.join(self._home, pattern[2:])
        elif not pattern.startswith("/"):
            pattern = f"**/{pattern}"
        pattern = f"{pattern}**" if pattern.endswith("/") else pattern
        place = os.path.join(self._root, ".git")
        if kind == "gitdir/i":
            pattern, place = pattern.lower(), place.lower()
        return compile_glob(pattern.strip("/")).matches(place.strip("/"))


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield section (in small letters, with its subsection behind a space), key and value of each entry."""
    section = ""
    lines = iter(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"))
    for line in lines:
        rest = line.strip()
        if rest.startswith("["):
            head, _, rest = rest[1:].partition("]")
            name, _, subsection = head.partition(" ")
            section = f"{name.lower()} {subsection.strip().strip(chr(34))}".strip()
            rest = rest.strip()
        if not rest or rest.startswith(("#", ";")):
            continue
        key, _, value = rest.partition("=")
        while _goes_on(value):
            value = value[:-1] + next(lines, "")
        yield section, key.strip().lower(), _value(value)


def _goes_on(value: str) -> bool:
    return (len(value) - len(value.rstrip("\\"))) % 2 == 1


def _value(text: str) -> str:
    """Return a value as git reads it: quotes taken off, escapes read, a comment and the blanks around left out."""
    made: list[str] = []
    quoted, kept = False, 0  # how much of what was made ends in no blank, or stands in quotes
    letters = iter(text.strip())
    for letter in letters:
        if letter == '"':
            quoted = not quoted
            kept = len(made)
        elif letter in "#;" and not quoted:
            break
        else:
            made.append(_ESCAPES.get(next(letters, ""), "") if letter == "\\" else letter)
            kept = len(made) if quoted or letter not in " \t" else kept
    return "".join(made[:kept])
