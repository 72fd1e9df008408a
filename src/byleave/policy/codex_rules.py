"""Read the `.rules` files of Codex: plain calls of its functions with literal values, and nothing else of Starlark.

A file that computes anything is refused whole, because what stands behind a condition is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.policy.agent_settings import UnreadableSettingsError, read_settings_text
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_NOT_PLAIN = "holds more than plain calls of prefix_rule"


class PrefixRule(Record):
    """Commands that begin with these words; each word of the pattern is one of several."""

    pattern: tuple[tuple[str, ...], ...]
    decision: str
    why: str = ""
    line: int = 0


class NetworkRule(Record):
    """What Codex's proxy lets through to a host."""

    host: str
    protocol: str
    decision: str
    why: str = ""
    line: int = 0


class HostExecutable(Record):
    """Where a program of this name may lie, for rules that name it without a path."""

    name: str
    line: int = 0


CodexRule = PrefixRule | NetworkRule | HostExecutable


def read_codex_rules(path: str) -> Iterator[CodexRule]:
    """Yield the rules of a file in their order."""
    tokens = _Tokens(read_settings_text(path) or "")
    while (name := tokens.next_name()) is not None:
        line = tokens.line
        given = _call(tokens)
        if name == "prefix_rule":
            yield _prefix_rule(given, line)
        elif name == "network_rule":
            host, protocol, decision, why = _texts(given, "host", "protocol", "decision", "justification")
            yield NetworkRule(host, protocol, decision, why, line)
        elif name == "host_executable":
            yield HostExecutable(_texts(given, "name")[0], line)
        else:
            raise UnreadableSettingsError(_NOT_PLAIN)


def _texts(given: Mapping[str, Any], *names: str) -> list[str]:
    values = [given.get(name, "") for name in names]
    if not all(isinstance(value, str) for value in values):
        raise UnreadableSettingsError("has a rule with a value that is no text")
    return values


def _prefix_rule(given: Mapping[str, Any], line: int) -> PrefixRule:
    pattern = given.get("pattern")
    words = [(word,) if isinstance(word, str) else tuple(word) for word in pattern] if isinstance(pattern, list) else []
    if not words or not all(words) or not all(isinstance(each, str) for word in words for each in word):
        raise UnreadableSettingsError("has a prefix_rule without a plain pattern")
    decision, why = _texts({"decision": "allow", **given}, "decision", "justification")
    return PrefixRule(tuple(words), decision, why, line)


_MARKS = frozenset("()[],=")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "\n": ""}


class _Tokens:
    """The names and marks of a text as they are, texts behind a quote, and ends of lines outside of brackets."""

    def __init__(self, text: str) -> None:
        self._found = _tokens(text.replace("\r\n", "\n"))
        self._at = 0
        self.line = 0

    def next_name(self) -> str | None:
        """Take what a statement begins with, None at the end; `line` is where."""
        while self.ahead == "\n":
            self.take()
        return self.take() if self.ahead else None

    @property
    def ahead(self) -> str:
        return self._found[self._at][0] if self._at < len(self._found) else ""

    def take(self, expected: str = "") -> str:
        if not self.ahead or (expected and self.ahead != expected):
            raise UnreadableSettingsError(_NOT_PLAIN)
        token, self.line = self._found[self._at]
        self._at += 1
        return token


def _tokens(text: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    at = depth = 0
    line = 1
    while at < len(text):
        one, start = text[at], at
        if one == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif one in "\"'":
            value, at = _literal(text, at)
            found.append((f'"{value}', line))
        elif one in _MARKS or one == "\n":
            depth += (one in "([") - (one in ")]")
            if one != "\n" or depth == 0:
                found.append((one, line))
            at += 1
        elif one.isspace():
            at += 1
        elif one.isalpha() or one == "_":
            while at < len(text) and (text[at].isalnum() or text[at] == "_"):
                at += 1
            found.append((text[start:at], line))
        else:  # no plain call has it
            found.append((one, line))
            at += 1
        line += text.count("\n", start, at)
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


def _call(tokens: _Tokens) -> dict[str, Any]:
    """Take `(name = value, ...)` from the tokens."""
    given: dict[str, Any] = {}
    tokens.take("(")
    while tokens.ahead != ")":
        name = tokens.take()
        tokens.take("=")
        if name in given:
            raise UnreadableSettingsError("gives a name twice")
        given[name] = _value(tokens, 0)
        if tokens.ahead != ")":
            tokens.take(",")
    tokens.take(")")
    return given


def _value(tokens: _Tokens, depth: int) -> Any:
    first = tokens.take()
    if first.startswith('"'):
        return first[1:]
    if first != "[" or depth > 2:
        raise UnreadableSettingsError(_NOT_PLAIN)
    values: list[Any] = []
    while tokens.ahead != "]":
        values.append(_value(tokens, depth + 1))
        if tokens.ahead != "]":
            tokens.take(",")
    tokens.take("]")
    return values
