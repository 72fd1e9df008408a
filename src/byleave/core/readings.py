"""How a server may read a value that a call gives it: as it is written, or as another type. Pure.

Servers on the official SDKs parse JSON inside of texts, and take texts for numbers and truth values ("yes", "1e3", 1).
A rule about an argument is judged on every such reading, or it would be walked round by another spelling.

A reading is *sure* where common servers read so, and not sure where only some do: then a rule that refuses asks.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEEPEST_TEXT = 4  # levels of JSON inside of a text inside of JSON; what lies deeper may be anything
UNREADABLE = object()  # JSON in a text that nests too deeply to be read
_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "off", "f", "n", "0"), False),
}  # what pydantic takes for truth values, in any case of letters
_LONGEST_NUMBER = 4000  # digits; Python refuses to read some more than that
_NUMBER_STARTS = frozenset("+-.0123456789")
_NUMBER_WORDS = frozenset({"inf", "infinity", "nan"})
_LONGEST_LIST = 4096  # characters of a text that may be a list with commas
_WIDEST = 1 << 62  # a float beyond that is no whole number anybody counts with


def readings_of_text(text: str) -> "Iterator[Any]":
    """Yield what a text may be read as: a truth value, a number, null, or the JSON it holds.

    UNREADABLE stands for JSON that is too deep.
    """
    bare = text.strip()
    if not bare:
        return
    if bare[0] in '[{"':
        yield from _json_in(bare)
        return
    if len(bare) <= 5 and (word := _WORDS.get(bare.lower())) is not None:
        yield word
    if bare == "null":
        yield None
    if not bare[0].isalpha() or bare.lower() in _NUMBER_WORDS:
        number = _number_in(bare)
        if number is not None:
            yield number


def readings_of_value(value: "Any") -> "Iterator[tuple[Any, bool]]":
    """Yield what a number or a truth value may be read as, and whether that is sure where no schema says so."""
    if isinstance(value, bool):
        yield int(value), False
        return
    if not isinstance(value, int | float):
        return
    if value in (0, 1):
        yield bool(value), True
    if isinstance(value, float) and value.is_integer() and abs(value) < _WIDEST:
        yield int(value), True
        yield str(int(value)), False
    elif isinstance(value, float) or abs(value) < _WIDEST:
        yield str(value), False


def listed_in(text: str) -> "list[str]":
    """Return the elements of a text that some servers take for a list with commas; none if it is no such text."""
    if "," not in text or len(text) > _LONGEST_LIST:
        return []
    return [each.strip() for each in text.split(",")]


def is_numbered(tree: "dict[str, Any]") -> bool:
    """Whether an object is a list to some servers: all of its names are numbers."""
    return bool(tree) and all(name.isascii() and name.isdecimal() for name in tree)


def plain_name(name: str) -> str:
    """Return a name as forgiving readers compare it: `filePath`, `FilePath` and `file_path` are one."""
    return name.casefold().replace("_", "").replace("-", "")


def _number_in(text: str) -> "Any":
    """Return the number that a text is, for any of the usual readers; None if it is none."""
    if len(text) > _LONGEST_NUMBER:
        return None if text.strip("+-0123456789._eE") else UNREADABLE
    for read in (int, _with_base, float):
        try:
            number = read(text)
        except (ValueError, OverflowError):
            continue
        whole = isinstance(number, float) and number.is_integer() and abs(number) < _WIDEST
        return int(number) if whole else number
    return None


def _with_base(text: str) -> int:
    """Read `0x10` as JavaScript does."""
    return int(text, 0)


def _json_in(text: str) -> "Iterator[Any]":
    """Yield what the JSON in a text holds. Of a name that is given twice some take the first value, some the last."""
    import json

    twice = False

    def last(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
        nonlocal twice
        made = dict(pairs)
        twice = twice or len(made) != len(pairs)
        return made

    def first(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
        return dict(reversed(pairs))

    try:
        yield json.loads(text, object_pairs_hook=last, parse_int=_moderate, strict=False)
        if twice:
            yield json.loads(text, object_pairs_hook=first, parse_int=_moderate, strict=False)
    except RecursionError:
        yield UNREADABLE
    except ValueError:
        return


def _moderate(digits: str) -> "int | float":
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float("inf")
