"""Read a JSON text strictly without the `json` package, which would load `re`: a hook reads some before every call.

Names that are given twice, NaN and anything behind the value are refused. `without_comments` takes comments and commas
at the end of a list out, as the settings files of several agents have them. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_BLANKS = " \t\r\n"


class JsonTextError(ValueError):
    """A text that is no JSON, or that can be read in two ways. Its text goes on behind the name of what was read."""


def read_json(text: str) -> Any:
    """Return the one value that a text without blanks around it is."""
    try:
        tree, end = _scanner()(text, 0)
    except JsonTextError:
        raise
    except (ValueError, StopIteration, SystemError):  # the last where `json`, which has the error, is not loaded
        raise JsonTextError("is not JSON") from None
    except RecursionError:
        raise JsonTextError("is nested too deeply") from None
    if end != len(text):
        raise JsonTextError("is not one JSON object")
    return tree


class _Ways:
    """How the scanner makes values of what it reads."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int

    @staticmethod
    def object_pairs_hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) != len(pairs):
            raise JsonTextError("gives a name twice")
        return read

    @staticmethod
    def parse_constant(name: str) -> None:
        raise JsonTextError(f"holds {name}, which is no JSON")


def _scanner() -> Callable[[str, int], tuple[Any, int]]:
    try:
        from _json import make_scanner
    except ImportError:
        from json import JSONDecoder

        return JSONDecoder(object_pairs_hook=_Ways.object_pairs_hook, parse_constant=_Ways.parse_constant).raw_decode
    ways: Any = _Ways
    scan: Callable[[str, int], tuple[Any, int]] = make_scanner(ways)
    return scan


def without_comments(text: str) -> str:
    """Return the text without `// ...`, `/* ... */`, and commas before a closing bracket; texts and lines stay."""
    kept: list[str] = []
    comma = -1  # where in `kept` a comma stands that only blanks follow
    at = 0
    while at < len(text):
        two, one = text[at : at + 2], text[at]
        if two in ("//", "/*"):
            end = text.find("\n" if two == "//" else "*/", at + 2)
            end = len(text) if end < 0 else end + (0 if two == "//" else 2)
            kept.append(" " + "\n" * text.count("\n", at, end))
            at = end
            continue
        end = _end_of_text(text, at) if one == '"' else at + 1
        if one in "}]" and comma >= 0:
            kept[comma] = " "
        if one not in _BLANKS:
            comma = len(kept) if one == "," else -1
        kept.append(text[at:end])
        at = end
    return "".join(kept)


def _end_of_text(text: str, at: int) -> int:
    """Return where the text that begins at a quote ends."""
    end = at + 1
    while end < len(text) and text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    return min(end + 1, len(text))
