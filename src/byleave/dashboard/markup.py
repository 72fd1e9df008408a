"""HTML that is written by functions: whatever is not `Markup` is text, and text is escaped. Pure.

Control, bidirectional and invisible characters are written out as escapes as well, so that no name of a file, an agent
or a server can pass for something else.
"""

from __future__ import annotations

from html import escape

from byleave.text import shown_lines

_VOID = frozenset({"meta", "link", "input", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str | bool | None) -> Markup:
    """Return an element. An underscore at the end of an attribute is left out, one inside is a hyphen."""
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written.append(f" {attribute}" if value is True else f' {attribute}="{escape(shown_lines(str(value)))}"')
    start = f"<{name}{''.join(written)}>"
    return Markup(start) if name in _VOID else Markup(f"{start}{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """Return several pieces as one."""
    return Markup("".join([each if isinstance(each, Markup) else text(each) for each in children]))


def text(value: str) -> Markup:
    """Return text as HTML that shows it."""
    return Markup(escape(shown_lines(value)))


def cut(value: str, length: int) -> str:
    """Return the beginning of a text that may be very long; the cut is seen."""
    return value if len(value) <= length else f"{value[: length - 1]}…"
