"""Read a tool's structured input: what its names mean is `names`, how each is read `values`.

All of it counts. Two names for one thing are two things to judge, a value of an unexpected type is a doubt, and so is
what lies deeper than agents put it.
"""

from itertools import islice

from byleave.text import shown
from byleave.translate.deep import RUNNING, hides_something
from byleave.translate.names import ARGS, COMMAND, DIRECTORY, ENV, INPUT, PATH, URL, WRAPPER, role_of
from byleave.translate.told import Said, is_empty
from byleave.translate.values import READERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.translate.told import Told

MOST_NAMES = 10_000  # of one object
LONGEST_JSON = 1 << 20  # characters of arguments as JSON text
_LONGEST_LABEL = 80
_LONGEST_PATH = 4096


def read_input(told: "Told", tree: "Mapping[Any, Any]", source: str, *, nested: bool = False) -> None:
    """Take in one object of arguments; one inside it that only wraps them is read as well."""
    told.structured = True
    if len(tree) > MOST_NAMES:
        told.doubt(f"its input has more than {MOST_NAMES} names")
    for key, value in islice(tree.items(), MOST_NAMES):
        if not isinstance(key, str):
            told.doubt("its input has a name that is no text")
        elif not is_empty(value):
            _read_member(told, key, value, source, nested=nested)


def read_json(text: str) -> "dict[str, Any]":
    """Return the object that a text is; `ValueError` if it is none, too long, or gives a name twice."""
    import json

    if len(text) > LONGEST_JSON:
        raise ValueError("too long")
    try:
        tree = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(tree, dict):
        raise ValueError("no object")  # noqa: TRY004 -- it is the text that is wrong
    return tree


def _once(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name is given twice")
    return read


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _read_member(told: "Told", key: str, value: "Any", source: str, *, nested: bool) -> None:
    role, guessed = role_of(key)
    place = f"{source}.{shown(key[:_LONGEST_LABEL])}"
    if guessed and role != ENV:
        _guess(told, role, value, place)
    elif role in (ARGS, INPUT, WRAPPER) and _is_wrapped(value):
        _unwrap(told, value, place, nested=nested)
    elif role in READERS:
        READERS[role](told, value, Said(key, place))
    elif role is None:
        if hides_something(value):
            told.doubt(f"{place} holds more than is understood")
        if hides_something(value, RUNNING):
            told.doubts_of_running.append(f"{place} may change what runs")


def _is_wrapped(value: "Any") -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))


def _unwrap(told: "Told", value: "Any", place: str, *, nested: bool) -> None:
    try:
        tree = value if isinstance(value, dict) else read_json(value)
    except ValueError:
        told.doubt(f"{place} cannot be read")
        return
    if not nested:
        read_input(told, tree, place, nested=True)
    elif hides_something(tree):
        told.doubt(f"{place} holds more than is understood")


def _guess(told: "Told", role: str | None, value: "Any", place: str) -> None:
    """Take in what a name seems to mean by its end; only texts count, and one of several lines is no path."""
    if hides_something(value):
        told.doubt(f"{place} holds more than is understood")
    texts = value if isinstance(value, list) else [value]
    for text in [each for each in islice(texts, MOST_NAMES) if isinstance(each, str) and each]:
        if role == COMMAND:
            told.doubt(f"{place} may be a command of its own")
        elif "\n" in text or len(text) > _LONGEST_PATH:
            told.doubt(f"{place} may be a path, and cannot be one")
            continue
        said = Said(text, place, anywhere=role == PATH)
        if role == DIRECTORY:
            told.keep(told.roots, said)
        if not told.keep(_GUESSED[role](told), said):
            return


_GUESSED: "Mapping[str | None, Callable[[Told], list[Said]]]" = {
    COMMAND: lambda told: told.commands,
    PATH: lambda told: told.paths,
    DIRECTORY: lambda told: told.directories,
    URL: lambda told: told.urls,
}
