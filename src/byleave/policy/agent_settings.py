"""Where the agents keep their permissions, and the reading of those files: JSON with comments, TOML, prefix rules.

Files of the user, of a project and of the machine. They are read whole, up to a size, through links as the agents read
them. What cannot be read in one way only is an `UnreadableSettingsError`, whose text goes on behind the file's name.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from byleave.protocol.json_text import JsonTextError, read_json, without_comments
from byleave.record import Record
from byleave.user_files import read_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


class UnreadableSettingsError(Exception):
    """Settings that cannot be read in one way only."""


class SettingsSource(Record):
    """One settings file. `directory` is what its paths that begin with a slash start from, `root` the workspace."""

    scope: str
    path: str
    directory: str = ""
    root: str = "/"


class PrefixRule(Record):
    """A rule of Codex: each word of the pattern is one of several."""

    pattern: tuple[tuple[str, ...], ...]
    decision: str
    why: str = ""


def settings_sources(agent: str, home: str, root: str) -> list[SettingsSource]:
    """Return the files that hold permissions of an agent, the weakest first; some may not exist."""
    found: list[SettingsSource] = []
    for scope, place in _PLACES.get(agent, ()):
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
    text = _read(source.path)
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


def _read(path: str) -> str | None:
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


def read_prefix_rules(source: SettingsSource) -> Iterator[PrefixRule]:
    """Yield the prefix rules of a file; only plain calls with literal values are read."""
    text = _read(source.path)
    tokens = _tokens(text or "")
    while tokens:
        name = tokens.pop(0)
        if name == "\n":
            continue
        given = _call(tokens)
        if name in ("host_executable", "network_rule"):  # where a program may lie; which hosts its proxy lets through
            continue
        if name != "prefix_rule":
            raise UnreadableSettingsError("holds more than plain calls of prefix_rule")
        yield _prefix_rule(given)


def _prefix_rule(given: Mapping[str, Any]) -> PrefixRule:
    pattern = given.get("pattern")
    words = [(word,) if isinstance(word, str) else tuple(word) for word in pattern] if isinstance(pattern, list) else []
    if not words or not all(words) or not all(isinstance(each, str) for word in words for each in word):
        raise UnreadableSettingsError("has a prefix_rule without a plain pattern")
    decision, why = given.get("decision", "allow"), given.get("justification", "")
    if not isinstance(decision, str) or not isinstance(why, str):
        raise UnreadableSettingsError("has a prefix_rule whose decision is no text")
    return PrefixRule(tuple(words), decision, why)


_MARKS = frozenset("()[],=")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "\n": ""}


def _tokens(text: str) -> list[str]:
    """Return names, marks and ends of lines as they are, and texts behind a quote."""
    found: list[str] = []
    at = depth = 0
    while at < len(text):
        one = text[at]
        if one == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif one in "\"'":
            value, at = _literal(text, at)
            found.append(f'"{value}')
        elif one in _MARKS or one == "\n":
            depth += (one in "([") - (one in ")]")
            if one != "\n" or depth == 0:
                found.append(one)
            at += 1
        elif one.isspace():
            at += 1
        elif one.isalpha() or one == "_":
            end = at
            while end < len(text) and (text[end].isalnum() or text[end] == "_"):
                end += 1
            found.append(text[at:end])
            at = end
        else:  # no plain call has it
            found.append(one)
            at += 1
    return found


def _literal(text: str, at: int) -> tuple[str, int]:
    """Return a text between quotes, and where it ends."""
    quote = text[at : at + 3] if text[at : at + 3] in ('"""', "'''") else text[at]
    at += len(quote)
    kept: list[str] = []
    while at < len(text) and not text.startswith(quote, at):
        if text[at] == "\\":
            if text[at + 1 : at + 2] not in _ESCAPES:
                raise UnreadableSettingsError("holds a text with an escape that byleave does not know")
            kept.append(_ESCAPES[text[at + 1]])
            at += 2
        elif text[at] == "\n" and len(quote) == 1:
            break
        else:
            kept.append(text[at])
            at += 1
    if not text.startswith(quote, at):
        raise UnreadableSettingsError("holds a text without an end")
    return "".join(kept), at + len(quote)


def _call(tokens: list[str]) -> dict[str, Any]:
    """Take `(name = value, ...)` from the tokens."""
    given: dict[str, Any] = {}
    _take(tokens, "(")
    while _next(tokens) != ")":
        name = _take(tokens)
        _take(tokens, "=")
        if name in given:
            raise UnreadableSettingsError("gives a name twice")
        given[name] = _value(tokens, 0)
        if _next(tokens) != ")":
            _take(tokens, ",")
    _take(tokens, ")")
    return given


def _value(tokens: list[str], depth: int) -> Any:
    first = _take(tokens)
    if first.startswith('"'):
        return first[1:]
    if first != "[" or depth > 2:
        raise UnreadableSettingsError("holds more than plain calls of prefix_rule")
    values: list[Any] = []
    while _next(tokens) != "]":
        values.append(_value(tokens, depth + 1))
        if _next(tokens) != "]":
            _take(tokens, ",")
    _take(tokens, "]")
    return values


def _next(tokens: list[str]) -> str:
    return tokens[0] if tokens else ""


def _take(tokens: list[str], expected: str = "") -> str:
    if not tokens or (expected and tokens[0] != expected):
        raise UnreadableSettingsError("holds more than plain calls of prefix_rule")
    return tokens.pop(0)
