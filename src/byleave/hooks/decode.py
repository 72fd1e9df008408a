"""Read one hook event: a JSON object, strictly, or not at all. Pure.

Uses the scanner in C directly: the `json` package would load `re`, and a hook runs before every tool call.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LARGEST = 32 << 20  # bytes of one event; a file that is written goes along whole
_FEW = 1 << 20  # bytes that cannot hold too many values
_BLANKS = " \t\n\r"


class UnreadableError(ValueError):
    """An event, or a part of one, that cannot be read in one way only. Its text is a sentence for people."""


def read_object(data: bytes) -> "dict[str, Any]":
    """Return the object that these bytes are; names given twice, NaN and anything around the object are refused."""
    if len(data) > LARGEST:
        raise UnreadableError(f"the event is larger than {LARGEST >> 20} MB")
    if len(data) > _FEW:
        from byleave.wire.lines import has_too_many_values

        if has_too_many_values(data):
            raise UnreadableError("the event holds too many values")
    try:
        text = data.decode().strip(_BLANKS)
    except UnicodeDecodeError:
        raise UnreadableError("the event is not UTF-8") from None
    return read_text(text)


def read_text(text: str) -> "dict[str, Any]":
    """Do the same for a text without blanks around it."""
    if not text:
        raise UnreadableError("there is no event on standard input")
    try:
        tree, end = _scanner()(text, 0)
    except UnreadableError:
        raise
    except (ValueError, StopIteration, SystemError):  # the last where `json`, which has the error, is not loaded
        raise UnreadableError("the event is not JSON") from None
    except RecursionError:
        raise UnreadableError("the event is nested too deeply") from None
    if end != len(text) or not isinstance(tree, dict):
        raise UnreadableError("the event is not one JSON object")
    return tree


class _Ways:
    """How the scanner makes values of what it reads."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def object_pairs_hook(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
        read = dict(pairs)
        if len(read) != len(pairs):
            raise UnreadableError("the event gives a name twice")
        return read

    @staticmethod
    def parse_constant(name: str) -> None:
        raise UnreadableError(f"the event holds {name}, which is no JSON")


def _scanner() -> "Callable[[str, int], tuple[Any, int]]":
    try:
        from _json import make_scanner
    except ImportError:
        from json import JSONDecoder

        return JSONDecoder(object_pairs_hook=_Ways.object_pairs_hook, parse_constant=_Ways.parse_constant).raw_decode
    ways: Any = _Ways
    scan: Callable[[str, int], tuple[Any, int]] = make_scanner(ways)
    return scan
