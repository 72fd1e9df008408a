"""What a tool sends and receives as JSON: parameters read, data and errors encoded.

`TOOLS` is the codec of a conversation: msgspec, and names of files that are not UTF-8. A parameter that is missing,
or has a wrong type, is an error that goes back to the tool.
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from typing import TYPE_CHECKING

from byleave.core.decision import named_path
from byleave.errors import ByleaveError, RequestError, TooLargeError, UnsafePathError
from byleave.protocol.json_codec import PLAIN
from byleave.protocol.json_fast import FAST, decode, open_parts, value
from byleave.protocol.jsonrpc import (
    ACCESS_DENIED,
    ALREADY_EXISTS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    NOT_FOUND,
    OUTER_NAMES,
    RepeatedNameError,
)
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from msgspec import Raw

    from byleave.core.decision import Verdict


_HINT = "see docs/protocol.md"
_MOST_GRANTS = 20


class RequestErrors:
    """Turns what goes wrong with files into the protocol's numbers."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, RequestError) or not isinstance(error, OSError | ByleaveError):
            return
        if isinstance(error, TooLargeError):
            raise RequestError(
                error.problem, hint=error.hint, number=INVALID_PARAMS, data={"limit": error.limit}
            ) from None
        if isinstance(error, ByleaveError):
            number = ACCESS_DENIED if isinstance(error, UnsafePathError) else INTERNAL_ERROR
            raise RequestError(error.problem, hint=error.hint, number=number) from None
        raise _os_error(error) from None


_NUMBERS: tuple[tuple[type[OSError], int, str], ...] = (
    (FileNotFoundError, NOT_FOUND, "does not exist"),
    (FileExistsError, ALREADY_EXISTS, "exists already"),
    (IsADirectoryError, INVALID_PARAMS, "is a directory"),
    (NotADirectoryError, INVALID_PARAMS, "is not a directory"),
    (PermissionError, ACCESS_DENIED, "cannot be accessed: the system refuses it"),
)


def _os_error(error: OSError) -> RequestError:
    name = quoted(str(error.filename)) if error.filename is not None else "it"
    for kind, number, said in _NUMBERS:
        if isinstance(error, kind):
            return RequestError(f"{name} {said}", hint=_HINT, number=number)
    return RequestError(f"{name}: {error.strerror or 'failed'}", hint=_HINT, number=INTERNAL_ERROR)


def first_grants(grants: tuple[str, ...]) -> list[str]:
    """Return the first places where something is granted."""
    return [named_path("path", path)["path"] for path in grants[:_MOST_GRANTS]]


def denied(verdict: Verdict, capability: str | None = None) -> RequestError:
    """Return the error of a denied request: the capability that is missing, and where it is granted."""
    number = NOT_FOUND if verdict.code == "not_a_directory" else ACCESS_DENIED
    data: dict[str, Any] = {"code": verdict.code}
    if capability is not None:
        data["capability"] = capability
    if verdict.grants is not None:
        data["grants"] = first_grants(verdict.grants)
    return RequestError(verdict.reason, hint="the user can add a rule", number=number, data=data)


def content_fields(name: str, data: bytes) -> dict[str, str]:
    """Return data as JSON holds it: as text if it is UTF-8, else in base64 with a word that says so."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        from binascii import b2a_base64

        return {name: b2a_base64(data, newline=False).decode(), "encoding": "base64"}


_MOST = 1000  # entries of a list
_PARAMS_HINT = "see docs/protocol.md"


class Params:
    """Reads what a method needs, and ignores fields that it does not know."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text that must be there, unless there is a default."""
        value = self._tree.get(name, default)
        if not isinstance(value, str):
            raise bad(f"{name} {'is missing' if value is None else 'is not text'}")
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
            raise bad(f"{name} is not a list of texts")
        if len(value) > _MOST:
            raise bad(f"{name} has more than {_MOST} entries", limit=_MOST)
        return value

    def flag(self, name: str) -> bool:
        """Return a flag; false if it is not there."""
        value = self._tree.get(name, False)
        if not isinstance(value, bool):
            raise bad(f"{name} must be true or false")
        return value

    def number(self, name: str, *, most: int) -> int:
        """Return a whole number from 0 to `most`; 0 if it is not there."""
        value = self._tree.get(name, 0)
        if type(value) is not int or not 0 <= value <= most:
            raise bad(f"{name} must be a number from 0 to {most}")
        return value

    def data(self, name: str, *, limit: int, default: str | None = None) -> bytes:
        """Return content: a text, or with `"encoding": "base64"` any bytes."""
        text, encoding = self.text(name, default), self._tree.get("encoding")
        if encoding not in (None, "utf-8", "base64"):
            raise bad(f"the encoding {quoted(str(encoding))} is not known", hint='leave it out, or write "base64"')
        data = _decoded(text, name) if encoding == "base64" else _encoded(text, name)
        if len(data) > limit:
            raise bad(f"{name} is longer than {limit} bytes", limit=limit)
        return data


def bad(problem: str, *, hint: str = _PARAMS_HINT, limit: int | None = None) -> RequestError:
    """Return the error of parameters that cannot be used."""
    return RequestError(problem, hint=hint, number=INVALID_PARAMS, data=None if limit is None else {"limit": limit})


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise bad(f"{name} holds half of a character") from None


def _decoded(text: str, name: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except (Error, ValueError):
        raise bad(f"{name} is not base64") from None


_LONG = 1 << 20  # bytes from which on a line is read with care
_LONGEST_REST = 16 << 20  # bytes of anything that is no content: a result with all its blocks
_CONTENT_METHODS = frozenset({b'"fs.write"', b'"write"', b'"http.post"', b'"http.put"', b'"http.patch"'})  # as written
_CONTENTS = frozenset({"content", "body"})
_CONTENT_PARAMS = frozenset({"path", "path_b64", "encoding", "exclusive", "url", "headers", *_CONTENTS})


def _decode(line: bytes) -> Any:
    try:
        return decode(line) if len(line) <= _LONG else _decode_long(line)
    except RepeatedNameError:
        raise
    except ValueError:
        # Half of a character, as names that are no UTF-8 hold them, is JSON that msgspec refuses.
        if len(line) > _LONGEST_REST or b"\\ud" not in line.lower():
            raise
        return PLAIN.decode(line)


def _decode_long(line: bytes) -> Any:
    """Read a long message; a ValueError if it is long where there is no need to be.

    What a tool writes may take many times its length in memory once it is read: two brackets become a list. So of a
    long message only what may be long is read at any length: the content of a file, the body of a request.
    """
    if line[:_LONG].lstrip()[:1] != b"{":
        raise ValueError("a long message is an object")
    return open_parts(line, _outer_member)


def _outer_member(name: str, parts: dict[str, Raw]) -> Any:
    if name not in OUTER_NAMES:
        return None  # its name alone counts
    if name == "params" and "method" in parts and bytes(parts["method"]) in _CONTENT_METHODS:
        return open_parts(parts[name], _content_param, only=_CONTENT_PARAMS)
    return _bounded(parts[name], _LONGEST_REST)


def _content_param(name: str, parts: dict[str, Raw]) -> Any:
    part = parts[name]
    return value(part) if name in _CONTENTS and bytes(memoryview(part)[:1]) == b'"' else _bounded(part, _LONG)


def _bounded(part: Raw, limit: int) -> Any:
    if len(part) > limit:
        raise ValueError("a part of the message is longer than it may be")
    return value(part)


def _encode(tree: Any) -> bytes:
    try:
        return FAST.encode(tree)
    except UnicodeEncodeError:  # half of a character: only escapes can write it
        return PLAIN.encode(tree)


TOOLS = FAST.replace(decode=_decode, encode=_encode)
