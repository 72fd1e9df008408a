"""JSON-RPC 2.0: the one strict reader, the writer and the error numbers of every integration. Sans-IO.

Two readers of one message must not see two different messages. So an object that gives a name twice is refused, and a
name that differs from one of the protocol's only in case, an id that some readers round, a batch, a message that is a
request and an answer at once, one that is nested too deeply or holds too many values. Reading raises nothing: what is
refused is a `Malformed`, which is always the sender's fault and says what the sender has to change. Writing raises
ValueError for a value that JSON cannot hold, which is always ours.

`read_envelope` reads the outside of a message: its id and its method. `params`, `result` and `error` stay parts, as the
codec splits them, so that a proxy passes them on as the very bytes that came; `Codec.value` opens one, as strictly.
`read_message` reads a message as a whole.

How JSON is read and written is a `Codec`: the standard library's (`json_codec.PLAIN`) where starting fast counts, as in
a tool; msgspec's (`json_fast.FAST`) in a process that has it. Both give the same answers.

Not here: cutting a stream into lines (`lines`), what a method means and which params it has (the integrations).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from byleave.protocol.json_members import leading_members
from byleave.protocol.lines import MOST_VALUES, TooLong, has_too_many_values
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Id = int | str


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# Of the protocol of mediated tools.
ACCESS_DENIED = -32001
NOT_FOUND = -32002
ALREADY_EXISTS = -32003
TIMED_OUT = -32004
CANCELLED = -32005

VERSION = "2.0"
OUTER_NAMES = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
MOST_DEPTH = 500  # objects and lists in each other; both codecs can read this, and neither much more
LARGEST_EXACT = 1 << 53  # from here on, half of the world's readers round a number
LONGEST_ID = 256  # characters of an id worth repeating
_REQUEST_MEMBERS = 4  # jsonrpc, id, method, params
_RESULT_MEMBERS = 3  # jsonrpc, id, result
_ABSENT = object()
_BLANKS = b" \t\r"
_TWICE = "the message gives a name twice in one object"


class RepeatedNameError(ValueError):
    """An object gives a name twice. `read` is what a reader sees that takes the last of both."""

    def __init__(self, read: Any = None) -> None:
        super().__init__(_TWICE)
        self.read = read


class Codec(Record):
    """How JSON is read and written.

    `decode` reads a text as a whole, `split` an object into its parts, `value` opens a part. They raise ValueError for
    what is no JSON, `RepeatedNameError` for a name given twice in what they read, RecursionError beyond `MOST_DEPTH`.
    """

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    split: Callable[[bytes], dict[str, Any]]
    value: Callable[[Any], Any]
    is_structure: Callable[[Any], bool]  # whether a part is an object or a list
    envelope: Callable[[bytes], Envelope | None]  # of a message of a usual shape; None if it needs a closer look


class Envelope:
    """The outside of a message. Without a method it is an answer; a request has an id, a notification has none.

    `raw_id` is the id as the codec splits it, None if there is none; the `id` of an answer may be null, so None.
    """

    __slots__ = ("error", "id", "method", "params", "raw_id", "result")  # no record: one is made for every message

    def __init__(  # noqa: PLR0917 -- the members of a message
        self, raw_id: Any, id_: Id | None, method: str | None, params: Any, result: Any, error: Any
    ) -> None:
        self.raw_id = raw_id
        self.id = id_
        self.method = method
        self.params = params
        self.result = result
        self.error = error


class Request(Record):
    """A message that needs an answer under its id."""

    id: Id
    method: str
    params: Any = None


class Notification(Record):
    method: str
    params: Any = None


class Response(Record):
    """An answer: the result, or an error object; never both."""

    id: Id | None
    result: Any = None
    error: dict[str, Any] | None = None


class Malformed(Record):
    """A line that is no message that every reader reads alike. `id` is the one under which to say so, if any."""

    problem: str
    id: Id | None = None
    number: int = INVALID_REQUEST
    limit: int | None = None  # how long a line may be, where it was longer


Message = Request | Notification | Response | Malformed


def read_envelope(line: bytes | TooLong, codec: Codec, *, most_values: int = MOST_VALUES) -> Envelope | Malformed:
    """Return the outside of a message."""
    if type(line) is bytes and len(line) < 2 * most_values:  # a value takes two bytes at least
        envelope = codec.envelope(line)
        if envelope is not None:
            return envelope
    parts = _parts(line, codec.split, most_values)
    return parts if isinstance(parts, Malformed) else _envelope(parts, codec)


def read_message(line: bytes | TooLong, codec: Codec) -> Message:
    """Return a message with all its values."""
    tree = _parts(line, codec.decode, MOST_VALUES)
    if type(tree) is dict and tree.get("jsonrpc") == VERSION and is_id(id_ := tree.get("id")):  # the usual shapes
        if len(tree) == _REQUEST_MEMBERS:
            method, params = tree.get("method"), tree.get("params")
            if type(method) is str and (type(params) is dict or type(params) is list):
                return Request(id_, method, params)
        elif len(tree) == _RESULT_MEMBERS and "result" in tree:
            return Response(id_, tree["result"])
    read = tree if isinstance(tree, Malformed) else _envelope(tree, _OPENED)
    if isinstance(read, Malformed):
        return read
    if read.method is None:
        return Response(read.id, read.result, read.error)
    return Notification(read.method, read.params) if read.id is None else Request(read.id, read.method, read.params)


def is_blank(line: bytes | TooLong) -> bool:
    """Whether a line holds nothing at all."""
    return not isinstance(line, TooLong) and not line.strip(_BLANKS)


def misspelt(names: Iterable[str], known: frozenset[str], folded: frozenset[str]) -> str | None:
    """Return a name that differs from a known one only in case; `folded` are the known ones, case-folded."""
    for name in names:
        if name not in known and name.casefold() in folded:
            return name
    return None


def measure(tree: Any) -> tuple[int, int]:
    """Return how many names the objects of a tree have together, and how deep it is."""
    names, depth, level = 0, 0, [tree] if type(tree) is dict or type(tree) is list else []
    values: Any
    while level:
        depth += 1
        below: list[Any] = []
        for each in level:
            values = each
            if type(each) is dict:
                names += len(each)
                values = each.values()
            below += [value for value in values if type(value) is dict or type(value) is list]
        level = below
    return names, depth


class _Repeated(dict):  # type: ignore[type-arg]
    """The members of a message that gives a name twice somewhere: only its id is of use."""


def _parts(line: bytes | TooLong, split: Callable[[bytes], Any], most_values: int) -> dict[str, Any] | Malformed:
    """Return the members of the object that a line is."""
    if isinstance(line, TooLong):
        known = _first_id(line.beginning)
        number = INVALID_REQUEST if known is None else INVALID_PARAMS
        return Malformed(f"a line is longer than {line.limit} bytes", known, number, line.limit)
    if len(line) > most_values and has_too_many_values(line, most_values):
        return Malformed(f"the message holds more than {most_values} values")
    try:
        parts = split(line)
    except RepeatedNameError as error:
        parts = _Repeated(error.read) if isinstance(error.read, dict) else error.read
    except RecursionError:
        return Malformed("the message is nested too deeply")
    except ValueError:  # the decoder's words quote the line, which may hold anything
        return Malformed("the message is not JSON", number=PARSE_ERROR)
    if isinstance(parts, dict):
        return parts
    what = "a list: there are no batches" if isinstance(parts, list) else "not one"
    return Malformed(f"a message is an object, and this is {what}")


def _envelope(parts: dict[str, Any], codec: Codec) -> Envelope | Malformed:
    try:
        return _checked_envelope(parts, codec)
    except RecursionError:
        return Malformed("the message is nested too deeply")
    except ValueError:
        return Malformed("the message is not JSON", number=PARSE_ERROR)


def _checked_envelope(parts: dict[str, Any], codec: Codec) -> Envelope | Malformed:
    value = codec.value
    raw_id = parts.get("id", _ABSENT)
    id_ = None if raw_id is _ABSENT else value(raw_id)
    if id_ is not None and not is_id(id_):
        return Malformed(f"an id is a whole number, or a text of at most {LONGEST_ID} characters")
    if type(parts) is _Repeated:
        return Malformed(_TWICE, id_)
    if not OUTER_NAMES.issuperset(parts) and misspelt(parts, OUTER_NAMES, OUTER_NAMES):
        return Malformed("a name differs from a known one only in case", id_)
    if "jsonrpc" not in parts or value(parts["jsonrpc"]) != VERSION:
        return Malformed('a message says "jsonrpc": "2.0"', id_)
    if "method" not in parts:
        return _answer(parts, codec, raw_id, id_)
    method = value(parts["method"])
    if type(method) is not str or "result" in parts or "error" in parts:
        return Malformed("a request has a method, which is a text, and no result", id_)
    params = parts.get("params")
    if "params" in parts and not codec.is_structure(params):
        return Malformed("params are an object or a list", id_)
    if raw_id is _ABSENT:
        return Envelope(None, None, method, params, None, None)
    if id_ is None:
        return Malformed("the id of a request is not null")
    return Envelope(raw_id, id_, method, params, None, None)


def _answer(parts: dict[str, Any], codec: Codec, raw_id: Any, id_: Id | None) -> Envelope | Malformed:
    if raw_id is _ABSENT or ("result" in parts) == ("error" in parts) or (id_ is None and "result" in parts):
        return Malformed("the message has no method, and is no answer either", id_)
    if "error" in parts:
        try:
            error = codec.value(parts["error"])
        except RepeatedNameError:
            return Malformed(_TWICE, id_)
        if (
            not isinstance(error, dict)
            or type(error.get("code")) is not int
            or not isinstance(error.get("message"), str)
        ):
            return Malformed("an error has a code and a message", id_)
    return Envelope(raw_id, id_, None, None, parts.get("result"), parts.get("error"))


def is_id(value: Any) -> TypeGuard[Id]:
    """Whether a value is an id that every reader reads alike."""
    if type(value) is str:
        return len(value) <= LONGEST_ID
    return type(value) is int and -LARGEST_EXACT < value < LARGEST_EXACT


def _first_id(beginning: bytes) -> Id | None:
    """Return the id of an object that breaks off, if it comes before the part that made it so long."""
    for name, value in leading_members(beginning.decode(errors="ignore")):
        if name == "id":
            return value if is_id(value) else None
    return None


def _same(part: Any) -> Any:
    return part


def is_structure(value: Any) -> bool:
    """Whether a value is an object or a list."""
    return type(value) is dict or type(value) is list


def _unused(_given: Any) -> Any:
    raise NotImplementedError


_OPENED = Codec(_unused, _unused, _unused, _same, is_structure, _unused)  # for parts that are values already


def _line(codec: Codec, tree: dict[str, Any]) -> bytes:
    return codec.encode({"jsonrpc": VERSION, **tree}) + b"\n"


def write_request(codec: Codec, id_: Id, method: str, params: Any) -> bytes:
    """Return the line of a request."""
    return _line(codec, {"id": id_, "method": method, "params": params})


def write_notification(codec: Codec, method: str, params: Any = None) -> bytes:
    """Return the line of a notification."""
    return _line(codec, {"method": method} if params is None else {"method": method, "params": params})


def write_result(codec: Codec, id_: Id, result: Any) -> bytes:
    """Return the line of an answer."""
    return _line(codec, {"id": id_, "result": result})


def write_error(codec: Codec, id_: Id | None, number: int, message: str, data: Any = None) -> bytes:
    """Return the line that says why there is no answer."""
    error = {"code": number, "message": message}
    return _line(codec, {"id": id_, "error": error if data is None else {**error, "data": data}})
