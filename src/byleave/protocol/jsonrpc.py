"""JSON-RPC 2.0, one message a line: the one reader and writer for every door that speaks it.

Sans-IO. A line becomes a `Request`, a `Notification`, a `Response` or a `Malformed`; nothing raises. Batches are
malformed: no protocol we speak has them. What a message means is for whoever asked; here it is only told apart.

How JSON is read and written is a `Codec`: the standard library's (`protocol.json_codec`) where starting fast counts, as
in a tool; the host passes a faster one in.

The numbers by which the protocol of mediated tools says why something was not done.
"""

from byleave.protocol.lines import TooLong, has_too_many_values
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
ACCESS_DENIED = -32001
NOT_FOUND = -32002
ALREADY_EXISTS = -32003
TIMED_OUT = -32004
CANCELLED = -32005

VERSION = "2.0"
_ABSENT = object()
_BLANKS = b" \t\r"
_LONGEST_ID = 256  # characters of an id worth repeating


class Codec(Record):
    """How JSON is read and written. `decode` raises ValueError or RecursionError for what is no JSON."""

    decode: "Callable[[bytes], Any]"
    encode: "Callable[[Any], bytes]"


class Request(Record):
    """Something that wants an answer, under its id: a number or a text."""

    id: int | str | float
    method: str
    params: "Any" = None


class Notification(Record):
    method: str
    params: "Any" = None


class Response(Record):
    """An answer: the result, or an error object; never both."""

    id: int | str | float | None
    result: "Any" = None
    error: "dict[str, Any] | None" = None


class Malformed(Record):
    """A line that is none of them. `id` is what it called itself, if that can be read."""

    problem: str
    id: int | str | float | None = None
    number: int = INVALID_REQUEST
    limit: int | None = None  # how long a line may be, where it was longer


Message = Request | Notification | Response | Malformed


def read_message(line: "bytes | TooLong", codec: Codec) -> Message:
    """Return what one line says."""
    if isinstance(line, TooLong):
        known = _first_id(line.beginning)
        number = INVALID_REQUEST if known is None else INVALID_PARAMS
        return Malformed(f"a line is longer than {line.limit} bytes", known, number, line.limit)
    if has_too_many_values(line):
        return Malformed("the line holds too many values")
    try:
        tree = codec.decode(line)
    except RecursionError:
        return Malformed("the line is nested too deeply")
    except ValueError:  # the decoder's words quote the line, which may hold anything
        return Malformed("the line is not JSON", number=PARSE_ERROR)
    return _message(tree)


def _first_id(beginning: bytes) -> int | str | float | None:
    """Return the id of an object that breaks off, if it comes before whatever made it so long."""
    from byleave.protocol.json_members import leading_members

    for name, value in leading_members(beginning.decode(errors="ignore")):
        if name == "id":
            return value if _is_id(value) else None
    return None


def is_blank(line: "bytes | TooLong") -> bool:
    """Whether a line says nothing at all."""
    return not isinstance(line, TooLong) and not line.strip(_BLANKS)


def _message(tree: "Any") -> Message:
    if not isinstance(tree, dict):
        kind = "a list: there are no batches" if isinstance(tree, list) else "no object"
        return Malformed(f"a message is an object, and this is {kind}")
    id_ = tree.get("id", _ABSENT)
    known = id_ if _is_id(id_) else None
    if id_ is not _ABSENT and id_ is not None and known is None:
        return Malformed(f"an id is a number, or a text of at most {_LONGEST_ID} characters")
    if tree.get("jsonrpc") != VERSION:
        return Malformed('a message says "jsonrpc": "2.0"', known)
    method = tree.get("method", _ABSENT)
    if method is _ABSENT:
        return _response(tree, known, named=id_ is not _ABSENT)
    if not isinstance(method, str):
        return Malformed("a method is a text", known)
    params = tree.get("params")
    if params is not None and not isinstance(params, dict | list):
        return Malformed("params are an object or a list", known)
    if id_ is _ABSENT:
        return Notification(method, params)
    return Malformed("the id of a request is not null") if known is None else Request(known, method, params)


def _response(tree: "dict[str, Any]", known: "int | str | float | None", *, named: bool) -> Message:
    error, has_result = tree.get("error"), "result" in tree
    if not named or has_result == (error is not None):
        return Malformed("the message has no method, and is no answer either", known)
    if error is not None and not _is_error(error):
        return Malformed("an error has a code and a message", known)
    return Response(known, tree.get("result"), error)


def _is_error(error: "Any") -> bool:
    return isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)


def _is_id(value: "Any") -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_ID
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _line(codec: Codec, tree: "dict[str, Any]") -> bytes:
    return codec.encode({"jsonrpc": VERSION, **tree}) + b"\n"


def write_request(codec: Codec, id_: str | float, method: str, params: "Any") -> bytes:
    """Return the line of a request."""
    return _line(codec, {"id": id_, "method": method, "params": params})


def write_notification(codec: Codec, method: str, params: "Any" = None) -> bytes:
    """Return the line of a notification."""
    return _line(codec, {"method": method} if params is None else {"method": method, "params": params})


def write_result(codec: Codec, id_: str | float, result: "Any") -> bytes:
    """Return the line of an answer."""
    return _line(codec, {"id": id_, "result": result})


def write_error(codec: Codec, id_: str | float | None, number: int, message: str, data: "Any" = None) -> bytes:
    """Return the line that says why there is no answer."""
    error = {"code": number, "message": message}
    return _line(codec, {"id": id_, "error": error if data is None else {**error, "data": data}})
