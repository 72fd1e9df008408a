"""What is known of the shell between two commands: where it stands and what its variables hold. Pure text.

A `Flow` is the state after success and the state after failure. A place is a directory as text, to be resolved with
symlinks before `..`. Bash's `cd` takes `..` textually and, where that fails, as the system does; so a `cd` through `..`
leads to two places unless both are sure to be the same. The starting directory is taken to be canonical, and CDPATH to
be unset.

Of variables, only what the line itself sets is known; one that it has not surely set is unknown. Their values are used
to find the files that a command names (`knowledge.named_files`), never to allow anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.record import Record
from byleave.shell.syntax.tree import Arithmetic, AssignmentNode, Function, Loop, Piece, Sets, Simple, Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Form = tuple[Piece, ...]
    Forms = tuple[Form, ...]
    Values = Mapping[str, Forms]
    Places = tuple[str, ...] | None
    Flow = tuple["ShellState | None", "ShellState | None"]


MOST_FORMS = 16  # of one word: more are not followed
MOST_PIECES = 256  # of one form
LONGEST = 1 << 16  # characters of one form: `a=$a$a` doubles each time
NOTHING_KNOWN: Values = {}
EVERYTHING = None  # every variable may have been set

# Builtins that set the variables they name.
SETTERS = frozenset(
    [
        *("read", "mapfile", "readarray", "printf", "getopts", "unset", "let", "wait", "select"),
        *("declare", "typeset", "local", "readonly", "export"),
    ]
)
# What may set any variable at all.
ANYTHING = frozenset(["eval", "source", ".", "trap", "builtin", "command", "enable", "set", "shift"])


def forms_of(word: Word, values: Values) -> Forms:
    """Return what a word may be put together from; nothing where that is not known."""
    if word.text is not None:
        return ((Piece("literal", word.text),),)
    return filled(word.pieces, values)


def filled(pieces: Form, values: Values) -> Forms:
    """Fill the values of variables into the pieces of a word."""
    forms: list[list[Piece]] = [[]]
    for number, piece in enumerate(pieces):
        if piece.kind == "unknown":
            return ()
        if piece.kind == "variable" and pieces[number + 1 : number + 2] and pieces[number + 1].text.startswith("{"):
            return ()  # braces come first: in `$X{a,b}` the variables are Xa and Xb
        choices: Forms = ((piece,),)
        if piece.kind == "variable":
            choices = _used(piece, values)
        if not choices or len(forms) * len(choices) > MOST_FORMS:
            return ()
        if piece.kind == "variable" and any(_is_too_long(form, choice) for form in forms for choice in choices):
            return ()
        forms = [[*form, *choice] for form in forms for choice in choices]
    return tuple([tuple(form) for form in forms]) if pieces else ()


def _is_too_long(first: Sequence[Piece], second: Sequence[Piece]) -> bool:
    """Whether two values together are longer than what is followed."""
    if len(first) + len(second) > MOST_PIECES:
        return True
    return sum([len(piece.text) for piece in (*first, *second)]) > LONGEST


def _used(piece: Piece, values: Values) -> Forms:
    """Return what the use of a variable stands for."""
    known = values.get(piece.text)
    if known is None:
        kind = {"HOME": "home", "PWD": "here"}.get(piece.text)
        return () if kind is None else ((Piece(kind),),)
    if piece.quoted:
        return tuple([tuple([_quoted(each) for each in form]) for form in known])
    if any(each.kind == "whole" for form in known for each in form):
        return ()
    return tuple([tuple([_unquoted(each) for each in form]) for form in known])


def looped(form: Form) -> Form:
    """Return a word of a loop as its variable holds it: one at a time (`each`), its tilde expanded where it stood."""
    first = form[0] if form else None
    if first is not None and first.kind == "raw" and (first.text == "~" or first.text.startswith("~/")):
        return (Piece("each"), Piece("home"), Piece("raw", first.text[1:]), *form[1:])
    if first is not None and first.kind == "raw" and first.text.startswith("~"):
        return (Piece("tilde"),)  # of another user, or of another directory: not followed
    return (Piece("each"), *form)


def pinned(forms: Forms, places: Places) -> Forms:
    """Return values with the working directory that they were made in; nothing where that is not known."""
    if not any(piece.kind == "here" and not piece.text for form in forms for piece in form):
        return forms
    made = [
        tuple([piece.replace(text=place) if piece.kind == "here" and not piece.text else piece for piece in form])
        for form in forms
        for place in places or ()
    ]
    return tuple(made) if len(made) <= MOST_FORMS else ()


def relative_value(name: str, word: Word) -> str | None:
    """Return a list of directories with `.` for `$PWD` and for what the variable held before; None for another value.

    `word` is the value, or the whole assignment.
    """
    if word.text is not None or not word.pieces or word.effects:
        return None
    texts: list[str] = []
    for piece in word.pieces:
        if piece.kind == "variable" and piece.text in ("PWD", name):
            texts.append(_HERE)
        elif piece.kind in ("literal", "raw") and _HERE not in piece.text and not _SPECIAL.intersection(piece.text):
            texts.append(piece.text)
        else:
            return None
    value = "".join(texts).removeprefix(f"{name}=")
    if any(_HERE in part and (part[0] != _HERE or part[1:2] not in ("", "/")) for part in value.split(":")):
        return None
    return value.replace(_HERE, ".")


_HERE = "\0"
_SPECIAL = frozenset("~*?[]{}\\")


def unsplit(forms: Forms) -> Forms:
    """Return values of which it is not known how the shell splits them where they are not quoted."""
    return tuple(
        [tuple([each.replace(kind="whole") if each.kind == "literal" else each for each in form]) for form in forms]
    )


def _quoted(piece: Piece) -> Piece:
    return Piece("literal", piece.text) if piece.kind == "whole" else piece


def _unquoted(piece: Piece) -> Piece:
    return Piece("value", piece.text) if piece.kind == "literal" else piece


def splits_oddly(text: str) -> bool:
    """Whether a text may change how values are split: it names IFS, and not only for one `read`."""
    return "IFS" in text and any(
        not rest.partition("=")[2].lstrip("\"'$\\,:;|/nt \t").startswith("read ") for rest in text.split("IFS")[1:]
    )


def assigned_forms(node: AssignmentNode, values: Values) -> Forms:
    """Return what a variable may hold behind a plain assignment: no pattern works in it, but a leading tilde does."""
    if node.values is not None or node.effects:
        return ()
    word = node.value
    if word.text is not None:
        forms: Forms = ((Piece("literal", word.text),),)
    else:
        forms = tuple([tuple(_held(form)) for form in filled(word.pieces, values)])
    if any(piece.kind == "tilde" for form in forms for piece in form):
        return ()
    if node.append:
        before = values.get(node.name, ())
        if any(_is_too_long(old, new) for old in before for new in forms):
            return ()
        joined = tuple([(*old, *new) for old in before for new in forms])
        return joined if 0 < len(joined) <= MOST_FORMS else ()
    return forms


def _held(form: Form) -> Iterator[Piece]:
    for number, piece in enumerate(form):
        if piece.kind == "value":
            yield Piece("literal", piece.text)
        elif piece.kind != "raw":
            yield piece
        elif "~" not in piece.text:
            yield Piece("literal", piece.text)
        elif number == 0 and piece.text.count("~") == 1 and (piece.text == "~" or piece.text.startswith("~/")):
            yield Piece("home")
            yield Piece("literal", piece.text[1:])
        else:
            yield Piece("tilde")


def assigned_in(node: object) -> frozenset[str] | None:
    """Return the variables that a part of the tree may set; None where it may set any."""
    names: set[str] = set()
    return frozenset(names) if _collect(node, names) else EVERYTHING


def _collect(node: object, names: set[str]) -> bool:
    """Add the names that are set; False where any may be."""
    if isinstance(node, tuple | list):
        return all([_collect(each, names) for each in node])
    if not isinstance(node, Record) or isinstance(node, Piece):
        return True
    if isinstance(node, AssignmentNode | Sets | Function):
        names.add(node.name)
    elif isinstance(node, Arithmetic):
        names.update(node.sets)
    elif isinstance(node, Loop) and node.name is not None:
        names.add(node.name)
    elif isinstance(node, Simple) and node.words:
        first = node.words[0].text
        if first is None or first in ANYTHING:
            return False
        if first in SETTERS:
            if any(word.text is None and "=" not in word.prefix for word in node.words):
                return False
            names.update([word.prefix.partition("=")[0].removesuffix("+") for word in node.words[1:]])
    return all([_collect(getattr(node, name), names) for name in node.field_names()])


def without(values: Values, names: frozenset[str] | None) -> Values:
    """Return the values that are still known once these variables may have been set."""
    if not values or names is EVERYTHING:
        return NOTHING_KNOWN
    if names.isdisjoint(values):
        return values
    return {name: forms for name, forms in values.items() if name not in names}


def either(first: Values, second: Values) -> Values:
    """Return what is known whichever of the two is the case."""
    if first is second or not first or not second:
        return first if first is second else NOTHING_KNOWN
    joined = {name: tuple(dict.fromkeys((*first[name], *second[name]))) for name in first if name in second}
    return {name: forms for name, forms in joined.items() if len(forms) <= MOST_FORMS}


MOST_PLACES = 8
# Before a place that is reached by a word which is not literal: it is used to find files, never to allow anything. The
# sign behind the NUL, which no word can hold, says where it starts: at home, or like any other place.
AT_HOME, FOLLOWED = "\0~", "\0."


def is_followed(place: str) -> bool:
    """Whether a place is known only by following words that are not literal."""
    return place.startswith("\0")


def followed(places: Places) -> Places:
    """Return places as they are noted where a word that is not literal leads there."""
    return None if places is None else tuple([each if is_followed(each) else f"{FOLLOWED}{each}" for each in places])


def plain(places: Places) -> Places:
    """Return places that literal words lead to; nothing is known where others lead there."""
    return None if places is None or any(is_followed(place) for place in places) else places


def located(place: str, home: str | None) -> str | None:
    """Return a place as a path; None for one at home where that is not known."""
    if place.startswith(AT_HOME):
        return None if home is None else f"{home}{place[len(AT_HOME) :]}"
    return place.removeprefix(FOLLOWED)


def moved(places: Places, operand: str, start: str) -> Places:
    """Return where a successful `cd operand` leads from `places`; `start` is where the text started."""
    if places is None and not operand.startswith("/"):
        return None
    found: list[str] = []
    for place in places if places is not None else ("/",):
        for reached in _reached(place, operand, start):
            if reached not in found:
                found.append(reached)
    return tuple(found) if len(found) <= MOST_PLACES else None


def entered(places: Places, operand: str) -> Places:
    """Return where a program stands that changed to `operand` by the system's own rules (`git -C`)."""
    if operand.startswith("/"):
        return (operand,)
    if places is None:
        return None
    return tuple([_join(place, operand) for place in places])


def united(first: Places, second: Places) -> Places:
    """Return the places of both, unknown if one of them is."""
    if first == second:
        return first
    if first is None or second is None:
        return None
    found = first + tuple([place for place in second if place not in first])
    return found if len(found) <= MOST_PLACES else None


def _reached(place: str, operand: str, start: str) -> list[str]:
    if is_followed(place) and not operand.startswith("/"):
        if place.startswith(AT_HOME):
            return [_join(place, operand)]
        return [f"{FOLLOWED}{each}" for each in _reached(place.removeprefix(FOLLOWED), operand, start)]
    raw = _join(place, operand)
    if ".." not in operand.split("/"):
        return [_textual(raw)]
    parts = [part for part in operand.split("/") if part not in ("", ".")]
    climbs = len(parts) - len([part for part in parts if part != ".."])
    only_leading = ".." not in parts[climbs:] and not operand.startswith("/")
    if only_leading and place == start:
        return [_textual(raw)]
    return [_textual(raw), raw]


def _join(place: str, operand: str) -> str:
    if operand.startswith("/"):
        return operand
    return operand if place == "." else f"{place.rstrip('/')}/{operand}"


def _textual(path: str) -> str:
    """Return the path with `.` and, as text, `..` taken out."""
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not rooted:
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


class ShellState(Record):
    """Where the shell stands, which variables surely hold numbers, which functions are surely defined.

    `values` are what the variables may hold that the line has surely set.
    """

    places: Places
    previous: Places
    numeric: frozenset[str]
    functions: frozenset[str]
    values: Values = NOTHING_KNOWN

    def at(self, places: Places, previous: Places) -> ShellState:
        return ShellState(places, previous, self.numeric, self.functions, self.values)

    def counting(self, name: str) -> ShellState:
        return ShellState(self.places, self.previous, self.numeric | {name}, self.functions, self.values)

    def knowing(self, values: Values) -> ShellState:
        if values is self.values:
            return self
        return ShellState(self.places, self.previous, self.numeric, self.functions, values)

    def lost(self) -> ShellState:
        """Return the state after something that may have changed directory and variables at will."""
        return ShellState(None, None, frozenset(), self.functions)


UNKNOWN = ShellState(None, None, frozenset(), frozenset())


def merged(first: ShellState | None, second: ShellState | None) -> ShellState | None:
    """Return what holds whichever of the two is the case."""
    if first is second or second is None:
        return first
    if first is None:
        return second
    return ShellState(
        united(first.places, second.places),
        united(first.previous, second.previous),
        first.numeric & second.numeric,
        first.functions & second.functions,
        either(first.values, second.values),
    )
