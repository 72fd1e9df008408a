"""What the shell makes of a word: braces, tildes and splitting, done as text. Patterns are left to who sees the disk.

Pure. A word becomes `Expanded` words: plain text, or a pattern by its names. What cannot be followed exactly is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.record import Record

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Piece

    Cell = tuple[str, bool]  # one character, and whether it may be special
    Cells = tuple[Cell, ...]

MOST_BRACES = 32  # in one word: more are not followed
MOST_WORDS = 256  # that one word may become before the disk is asked
_BLANKS = " \t\n"
_WILD = frozenset("*?[")


class ExpandedWord(Record):
    """One word that the shell makes. `pattern` holds one pattern a name where the disk decides what it becomes.

    A name of a pattern is in the syntax of `core.patterns`, what was quoted made literal.
    """

    text: str
    pattern: tuple[str, ...] = ()


def expanded(form: tuple[Piece, ...], home: str | None, here: str | None) -> tuple[ExpandedWord, ...] | None:
    """Return the words that a form becomes; None where that cannot be known."""
    cells: list[Cell] = []
    breaks: set[int] = set()  # where a value is split
    form = tuple([piece for piece in form if piece.kind != "each"])
    for number, piece in enumerate(form):
        if piece.kind in ("home", "here"):
            place = home if piece.kind == "home" else here
            if place is None:
                return None
            cells.extend((char, False) for char in place)
        elif piece.kind == "literal":
            cells.extend((char, False) for char in piece.text)
        elif piece.kind == "value":
            for char in piece.text:
                if char in _BLANKS:
                    breaks.add(len(cells))
                cells.append((char, char in "*?[]\\"))
        elif piece.kind == "raw":
            text = piece.text
            if number == 0 and text.startswith("~"):
                end = text.find("/") if "/" in text else len(text)
                place = {"~": home, "~+": here}.get(text[:end])
                if place is None or (end == len(text) and len(form) > 1):
                    return None
                cells.extend((char, False) for char in place)
                text = text[end:]
            if "~" in text and _has_braces(form):
                return None  # a tilde that begins a word only once braces are expanded
            if "=~" in text or ":~" in text:
                name = text.partition("=")[0]
                if home is None or (name.isidentifier() and "=~/" not in text):
                    return None
                if name.isidentifier():  # it looks like an assignment, and bash expands it as one
                    text = text.replace("=~/", f"={home}/").replace(":~/", f":{home}/")
            cells.extend((char, True) for char in text)
        else:
            return None
    if breaks:
        if any(active and char == "{" for char, active in cells):
            return None  # braces come before values are split: not followed together
        return _finished(_split(cells, breaks))
    words = _braces(tuple(cells)) if cells.count(("{", True)) <= MOST_BRACES else None
    if words is None:
        return None
    quoted = any(piece.kind == "literal" for piece in form)
    return _finished([word for word in words if word or quoted])  # an empty word goes unless something is quoted


def _has_braces(form: tuple[Piece, ...]) -> bool:
    return any("{" in piece.text for piece in form if piece.kind == "raw")


def _split(cells: list[Cell], breaks: set[int]) -> list[Cells]:
    words: list[Cells] = []
    current: list[Cell] = []
    for place, cell in enumerate(cells):
        if place in breaks:
            if current:
                words.append(tuple(current))
            current = []
        else:
            current.append(cell)
    return [*words, tuple(current)] if current else words


def _braces(cells: Cells) -> list[Cells] | None:
    """Expand the first pair of braces, then what comes of it. Sequences such as `{1..9}` are not followed."""
    opening = _opening(cells)
    if opening is None:
        return [cells]
    begin, ends = opening
    if ends is None:
        return None
    words: list[Cells] = []
    starts = [begin, *ends[:-1]]
    for start, end in zip(starts, ends, strict=True):
        made = _braces((*cells[:begin], *cells[start + 1 : end], *cells[ends[-1] + 1 :]))
        if made is None or len(words) + len(made) > MOST_WORDS:
            return None
        words.extend(made)
    return words


def _opening(cells: Cells) -> tuple[int, list[int] | None] | None:
    """Return the first brace that expands: where it stands, and where its commas and its end are.

    None without one; no list of ends for a sequence, or for braces whose reading differs between shells.
    """
    for begin, cell in enumerate(cells):
        if cell != ("{", True):
            continue
        depth, ends = 0, list[int]()
        for place in range(begin + 1, len(cells)):
            inner = cells[place]
            if inner == ("{", True):
                depth += 1
            elif inner == ("}", True):
                if depth == 0:
                    inside = "".join([char for char, _ in cells[begin + 1 : place]])
                    if ends:
                        return begin, [*ends, place]
                    if ".." in inside:
                        return begin, None
                    break
                depth -= 1
            elif inner == (",", True) and depth == 0:
                ends.append(place)
        else:
            if ends or depth:
                return begin, None  # not closed: shells differ
    return None


def _finished(words: list[Cells]) -> tuple[ExpandedWord, ...] | None:
    made: list[ExpandedWord] = []
    for cells in words:
        text = "".join([char for char, _ in cells])
        if any(active and char in _WILD for char, active in cells):
            pattern = _pattern(cells)
            if pattern is None:
                return None
            made.append(ExpandedWord(text, pattern))
        else:
            made.append(ExpandedWord(text))
    return tuple(made)


def _pattern(cells: Cells) -> tuple[str, ...] | None:
    """Return the patterns of the names; None for a form of brackets that is not plain, or that shells differ about."""
    names: list[str] = []
    name: list[str] = []
    place = 0
    while place < len(cells):
        char, active = cells[place]
        if char == "/":
            names.append("".join(name))
            name = []
        elif char in "*?[" and not active:
            name.append(f"[{char}]")
        elif active and char == "\\":
            return None  # an escape inside a value
        elif active and char == "[":
            inside = _bracket(cells, place + 1)
            if inside is None:
                return None
            name.append(f"[{inside}]")
            place += len(inside) + 1
        else:
            name.append(char)
        place += 1
    return (*names, "".join(name))


def _bracket(cells: Cells, begin: int) -> str | None:
    """Return what stands between brackets: letters, digits and ranges of them, perhaps negated."""
    text = "".join([char for char, _ in cells[begin:]])
    inside, closing, _ = text.partition("]")
    plain = inside.removeprefix("!").replace("-", "").replace("_", "").replace(".", "")
    if not closing or not plain.isalnum() or not cells[begin + len(inside)][1]:
        return None
    return inside if inside[:1] != "!" or cells[begin][1] else None
