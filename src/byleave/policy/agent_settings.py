"""Where the agents keep their permissions, and the reading of those files: JSON with comments, TOML.

Files of the user, of a project and of the machine. They are read whole, up to a size, through links as the agents read
them. What cannot be read in one way only is an `UnreadableSettingsError`, whose text goes on behind the file's name.
The rules of Codex: `codex_rules`.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from byleave.protocol.json_text import JsonTextError, read_json, without_comments
from byleave.record import Record
from byleave.user_files import read_all

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LARGEST = 1 << 20  # bytes; the settings of a user who says yes a lot have some ten thousand
USER, PROJECT, LOCAL, MANAGED = "user", "project", "local", "managed"
_MOST_FILES = 64  # in a directory of rules

# In each: the scope, and a file or a directory with the ending of the files in it. `~` is the user's home, `.` the
# workspace.
_PLACES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "claude-code": (
        (USER, "~/.claude/settings.json"),
        (PROJECT, "./.claude/settings.json"),
        (LOCAL, "./.claude/settings.local.json"),
        (MANAGED, "/etc/claude-code/managed-settings.json"),
        (MANAGED, "/etc/claude-code/managed-settings.d/*.json"),
    ),
    "codex": (
        (USER, "~/.codex/rules/*.rules"),
        (PROJECT, "./.codex/rules/*.rules"),
        (MANAGED, "/etc/codex/rules/*.rules"),
    ),
    "gemini": (
        (MANAGED, "/etc/gemini-cli/system-defaults.json"),
        (USER, "~/.gemini/settings.json"),
        (PROJECT, "./.gemini/settings.json"),
        (MANAGED, "/etc/gemini-cli/settings.json"),
        (USER, "~/.gemini/policies/*.toml"),
        (PROJECT, "./.gemini/policies/*.toml"),
        (MANAGED, "/etc/gemini-cli/policies/*.toml"),
    ),
    "cursor": (
        (USER, "~/.cursor/cli-config.json"),
        (USER, "~/.config/cursor/cli-config.json"),
        (USER, "~/.cursor/permissions.json"),
        (PROJECT, "./.cursor/cli.json"),
    ),
    "opencode": (
        (USER, "~/.config/opencode/config.json"),
        (USER, "~/.config/opencode/opencode.json"),
        (USER, "~/.config/opencode/opencode.jsonc"),
        (PROJECT, "./opencode.json"),
        (PROJECT, "./opencode.jsonc"),
        (PROJECT, "./.opencode/opencode.json"),
        (PROJECT, "./.opencode/opencode.jsonc"),
    ),
}

# What only an import reads: no call of a hook depends on it.
_FURTHER_PLACES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "codex": ((USER, "~/.codex/config.toml"), (MANAGED, "/etc/codex/requirements.toml")),
}


class UnreadableSettingsError(Exception):
    """Settings that cannot be read in one way only."""


class SettingsSource(Record):
    """One settings file. `directory` is what its paths that begin with a slash start from, `root` the workspace."""

    scope: str
    path: str
    directory: str = ""
    root: str = "/"


def settings_sources(agent: str, home: str, root: str, *, further: bool = False) -> list[SettingsSource]:
    """Return the files that hold permissions of an agent, the weakest first; some may not exist."""
    found: list[SettingsSource] = []
    for scope, place in (*_PLACES.get(agent, ()), *(_FURTHER_PLACES.get(agent, ()) if further else ())):
        base = {"~": home, ".": root}.get(place[0])
        if base == "":
            continue
        path = place if base is None else f"{base.rstrip('/')}{place[1:]}"
        directory = root if scope in (PROJECT, LOCAL) else os.path.dirname(path)
        found += [SettingsSource(scope, each, directory, root) for each in _files(path)]
    return found


def _files(path: str) -> list[str]:
    directory, star, ending = path.partition("/*")
    if not star:
        return [path]
    try:
        names = sorted([name for name in os.listdir(directory) if name.endswith(ending) and not name.startswith(".")])
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return [directory]  # reading it says what is wrong
    if len(names) > _MOST_FILES:
        return [directory]
    return [f"{directory}/{name}" for name in names]


def read_settings(source: SettingsSource) -> dict[str, Any]:
    """Return the tree of a settings file, an empty one if there is no file."""
    text = read_settings_text(source.path)
    if text is None or not text.strip():
        return {}
    if source.path.endswith(".toml"):
        return _toml(text)
    try:
        try:
            tree = read_json(text.strip())
        except JsonTextError:
            tree = read_json(without_comments(text).strip())
    except JsonTextError as error:
        raise UnreadableSettingsError(str(error)) from None
    if not isinstance(tree, dict):
        raise UnreadableSettingsError("is not one JSON object")
    return tree


def _toml(text: str) -> dict[str, Any]:
    import tomllib  # slow to load, and only where there are policy files of Gemini CLI

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableSettingsError("is not TOML") from None


def read_settings_text(path: str) -> str | None:
    """Return the text of a file, None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UnreadableSettingsError(f"cannot be read: {getattr(error, 'strerror', error)}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableSettingsError("is no plain file, or a directory with too many files")
        content = read_all(descriptor, LARGEST + 1)
    except OSError as error:
        raise UnreadableSettingsError(f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(content) > LARGEST:
        raise UnreadableSettingsError(f"is larger than {LARGEST >> 20} MB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableSettingsError("is not UTF-8") from None
