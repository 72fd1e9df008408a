"""Change a JSON text in one place, and leave every other character as it is. Pure.

People keep their settings as they like them: what is added takes the look of its surroundings, what is removed leaves
no trace. A text that is not plain JSON (comments, names given twice) is not touched at all.
"""

from __future__ import annotations

from json import JSONDecoder, dumps
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from typing import Any

_BLANKS = " \t\r\n"
_DECODER = JSONDecoder()
_DEEPEST = 200


class NotPlainError(ValueError):
    """A text that is not JSON, or that can be read in two ways."""


class Node(Struct, frozen=True):
    """A value and where it stands. `parts` are the values in it; `names` theirs, if it is an object."""

    start: int
    end: int
    parts: tuple[Node, ...] = ()
    names: tuple[str, ...] | None = None
    starts: tuple[int, ...] = ()  # where each part begins: with its name, if it has one
    array: bool = False

    def part(self, name: str) -> Node | None:
        """Return the value of a member."""
        return dict(zip(self.names or (), self.parts, strict=True)).get(name) if self.names is not None else None


def read_node(text: str) -> Node:
    """Return the one value that a text is."""
    try:
        node = _read(text, _skip(text, 0), 0)
    except NotPlainError:
        raise
    except (ValueError, IndexError, StopIteration, RecursionError):
        raise NotPlainError("it is not plain JSON") from None
    if _skip(text, node.end) != len(text):
        raise NotPlainError("something stands behind its end")
    return node


def add_member(text: str, container: Node, name: str, value: Any) -> str:
    """Return the text with a further member of an object, at its end."""
    return _add(text, container, f"{dumps(name)}: ", value)


def add_item(text: str, container: Node, value: Any) -> str:
    """Return the text with a further item of an array, at its end."""
    return _add(text, container, "", value)


def cut_part(text: str, container: Node, number: int) -> str:
    """Return the text without one part of an object or an array."""
    starts, parts = container.starts, container.parts
    if number > 0:
        return text[: parts[number - 1].end] + text[parts[number].end :]
    if len(parts) > 1:
        return text[: starts[0]] + text[starts[1] :]
    return text[: container.start + 1] + text[container.end - 1 :]


def _add(text: str, container: Node, label: str, value: Any) -> str:
    """Add a part behind the others, on a line of its own if they are on lines of their own."""
    if container.parts:
        end = container.parts[-1].end
        indent = _indent_before(text, container.starts[-1])
        return f"{text[:end]},{indent or ' '}{label}{_written(value, indent, _step(text))}{text[end:]}"
    before, behind = text[: container.start + 1], text[container.end - 1 :]
    outer = _line_indent(text, container.start)
    if outer is None:
        return f"{before}{label}{_written(value, '', '')}{behind}"
    inner = outer + _step(text)
    return f"{before}{inner}{label}{_written(value, inner, _step(text))}{outer}{behind}"


def _written(value: Any, indent: str, step: str) -> str:
    """Return a value as it is written behind this indent; in one line where there is none."""
    return dumps(value, indent=step).replace("\n", indent) if indent else dumps(value)


def _step(text: str) -> str:
    """Return what the first indented line begins with: each level is indented by so much."""
    margins = [line[: len(line) - len(line.lstrip(" \t"))] for line in text.split("\n") if line.strip()]
    return next((margin for margin in margins if margin), "  ")


def _indent_before(text: str, start: int) -> str:
    """Return the line's end and the blanks that stand before a part, "" if it does not begin a line."""
    at = start
    while at > 0 and text[at - 1] in " \t":
        at -= 1
    if at == 0 or text[at - 1] != "\n":
        return ""
    return text[at - (2 if text[at - 2 : at] == "\r\n" else 1) : start]


def _line_indent(text: str, at: int) -> str | None:
    """Return the line's end and the blanks that the line of this place begins with; None if all is one line."""
    if "\n" not in text and text.strip(_BLANKS) != "{}":
        return None
    newline = "\r\n" if "\r\n" in text else "\n"
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:at]
    return newline + line[: len(line) - len(line.lstrip(" \t"))]


def _read(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise NotPlainError("it is nested too deeply")
    if text[at] in "{[":
        return _read_parts(text, at, depth, is_object=text[at] == "{")
    _value, end = _DECODER.raw_decode(text, at)
    return Node(at, end)


def _read_parts(text: str, begin: int, depth: int, *, is_object: bool) -> Node:
    closing = "}" if is_object else "]"
    parts: list[Node] = []
    names: list[str] = []
    starts: list[int] = []
    at = _skip(text, begin + 1)
    while text[at] != closing or parts:
        starts.append(at)
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            if not isinstance(name, str) or name in names:
                raise NotPlainError("a name is given twice")
            names.append(name)
            at = _skip(text, _expect(text, _skip(text, at), ":"))
        part = _read(text, at, depth + 1)
        parts.append(part)
        at = _skip(text, part.end)
        if text[at] == closing:
            break
        at = _skip(text, _expect(text, at, ","))
    return Node(begin, at + 1, tuple(parts), tuple(names) if is_object else None, tuple(starts), not is_object)


def _expect(text: str, at: int, mark: str) -> int:
    if text[at] != mark:
        raise NotPlainError("it is not plain JSON")
    return at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at
