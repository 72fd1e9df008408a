"""The parameters of one request: a wrong type, or one that is missing, is the tool's mistake, and it is told so."""

from byleave.errors import RequestError
from byleave.text import quoted
from byleave.wire.codes import INVALID_PARAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_MOST = 1000  # entries of a list
_HINT = "see docs/protocol.md"


class Params:
    """Reads what a method needs; fields that it does not know are none of its business."""

    def __init__(self, tree: "Mapping[str, Any]") -> None:
        self._tree = tree

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text that must be there, unless there is a default."""
        value = self._tree.get(name, default)
        if not isinstance(value, str):
            raise bad(f"{name} {'is missing' if value is None else 'is no text'}")
        return value

    def path(self, name: str, default: str | None = None) -> str:
        """Return a path; one that is not UTF-8 is given by its bytes, as `NAME_b64`."""
        if f"{name}_b64" not in self._tree:
            return self.text(name, default)
        return _decoded(self.text(f"{name}_b64"), f"{name}_b64").decode("utf-8", "surrogateescape")

    def paths(self, name: str) -> list[str]:
        """Return a list of paths, empty if it is not there."""
        return self.texts(name)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, empty if it is not there."""
        value = self._tree.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise bad(f"{name} is no list of texts")
        if len(value) > _MOST:
            raise bad(f"{name} has more than {_MOST} entries", limit=_MOST)
        return value

    def flag(self, name: str) -> bool:
        """Return whether something is wanted; false if it is not there."""
        value = self._tree.get(name, False)
        if not isinstance(value, bool):
            raise bad(f"{name} is neither true nor false")
        return value

    def number(self, name: str, *, most: int) -> int:
        """Return a whole number from 0 to `most`; 0 if it is not there."""
        value = self._tree.get(name, 0)
        if type(value) is not int or not 0 <= value <= most:
            raise bad(f"{name} is no number from 0 to {most}")
        return value

    def data(self, name: str, *, limit: int, default: str | None = None) -> bytes:
        """Return content: a text, or with `"encoding": "base64"` any bytes."""
        text, encoding = self.text(name, default), self._tree.get("encoding")
        if encoding not in (None, "utf-8", "base64"):
            raise bad(f"the encoding {quoted(str(encoding))} is not known", hint='leave it out, or say "base64"')
        data = _decoded(text, name) if encoding == "base64" else _encoded(text, name)
        if len(data) > limit:
            raise bad(f"{name} is longer than {limit} bytes", limit=limit)
        return data


def bad(problem: str, *, hint: str = _HINT, limit: int | None = None) -> RequestError:
    """Return how a tool is told that its parameters cannot be used."""
    return RequestError(problem, hint=hint, number=INVALID_PARAMS, data=None if limit is None else {"limit": limit})


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise bad(f"{name} holds half of a character") from None


def _decoded(text: str, name: str) -> bytes:
    from binascii import Error, a2b_base64

    try:
        return a2b_base64(text, strict_mode=True)
    except (Error, ValueError):
        raise bad(f"{name} is not base64") from None
