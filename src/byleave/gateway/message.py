"""One JSON-RPC message, read no further than its business goes. Sans-IO.

What comes from a client is read strictly: two readers of one message must not see two different calls, so a name that
is given twice, or that differs from a known one only in case, is refused. What a server answers is only told apart; its
result goes back to the client as the bytes that came.

Start at `read_client_message` and `read_server_message`.

One message on one line: what a server may spread over several, and what stands for nothing.

A message goes on to clients that read lines. One with a line end inside could be taken for several messages, of which
nobody has judged the second, so it is written anew.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from byleave.protocol.json_members import leading_members, members
from byleave.protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Members = dict[str, Raw]


REQUEST, NOTIFICATION, RESPONSE = "request", "notification", "response"
NO_ID = b"null"
MOST_VALUES = 50_000  # in one message
_LONG = MOST_VALUES  # bytes; a shorter message cannot hold so many
_LONGEST_ID = 256  # characters
_OUTSIDE = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_PARAMS = frozenset(
    {
        *("name", "arguments", "_meta", "uri", "cursor", "ref", "argument", "context", "level"),
        *("inputResponses", "requestState", "notifications"),
        *("protocolVersion", "capabilities", "clientInfo", "requestId", "reason", "progressToken", "progress"),
    }
)
_FOLDED = {name.casefold(): name for name in (*_OUTSIDE, *_PARAMS)}
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_members = msgspec.json.Decoder(dict[str, Raw])
_elements = msgspec.json.Decoder(list[Raw])
_any = msgspec.json.Decoder()
encode = msgspec.json.Encoder().encode


class ServerMessage(msgspec.Struct):
    """What a server said, told apart and no more."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_SAID = frozenset({"id", "params", "result", "error"})
_server = msgspec.json.Decoder(ServerMessage)


class RefusedMessage(Struct, frozen=True):
    """A message of a client that is not taken, and the error that says so."""

    id: bytes
    number: int
    problem: str


class ClientMessage:
    """What a client said: one kind of message, its id as it was written, and its parameters, each as it was written."""

    __slots__ = ("answer", "error", "id", "kind", "method", "params")  # no record: one is made for every call

    def __init__(self, kind: str, id_: bytes, method: str, params: Members) -> None:
        self.kind = kind
        self.id = id_
        self.method = method
        self.params = params
        self.answer: Raw | None = None
        self.error: Raw | None = None


def read_client_message(message: bytes) -> ClientMessage | RefusedMessage:
    """Return what a client says, or why it is not taken."""
    if len(message) > _LONG and _is_crowded(message):
        return RefusedMessage(NO_ID, INVALID_REQUEST, f"the message holds more than {MOST_VALUES} values")
    try:
        found = _members.decode(message)
        tree = _any.decode(message)  # by what the judge reads: nothing is sent on that it could not see
        twice = _repeats_a_name(message, tree)
    except RecursionError:
        return RefusedMessage(NO_ID, INVALID_REQUEST, "the message is nested too deeply")
    except ValueError:  # the decoder's words quote the message, which may hold anything
        return _no_object(message)
    id_ = _id(found)
    if id_ is None:
        return RefusedMessage(NO_ID, INVALID_REQUEST, "an id is a text or a whole number")
    if twice:
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, "a name is given twice in one object")
    problem = _misspelt(found, _OUTSIDE) or _unversioned(found)
    if problem:
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, problem)
    return _answer(found, id_) if "method" not in found else _asked(found, id_)


def _is_crowded(message: bytes) -> bool:
    """Whether a message holds so many values that looking at each would keep everybody else waiting."""
    return message.count(b",") > MOST_VALUES and _TEXTS.sub(b"", message).count(b",") > MOST_VALUES


def _repeats_a_name(message: bytes, tree: Any) -> bool:
    """Whether any object in this JSON, which was read as `tree`, gives a name twice.

    As many colons as names stand in JSON outside of texts, and of two equal names only one was read.
    """
    names = _count_names(tree)
    return message.count(b":") != names and _TEXTS.sub(b"", message).count(b":") != names


def _count_names(tree: Any) -> int:
    count, waiting = 0, [tree]
    for each in waiting:  # which grows meanwhile
        if type(each) is dict:
            count += len(each)
            waiting += each.values()
        elif type(each) is list:
            waiting += each
    return count


def _no_object(message: bytes) -> RefusedMessage:
    try:
        tree = _any.decode(message)
    except (ValueError, RecursionError):
        return RefusedMessage(NO_ID, PARSE_ERROR, "the message is not JSON")
    what = "a list: there are no batches" if isinstance(tree, list) else "not one"
    return RefusedMessage(NO_ID, INVALID_REQUEST, f"a message is an object, and this is {what}")


def _id(found: Members) -> bytes | None:
    """Return the id as it is written, empty if there is none; None if it is no id."""
    raw = found.get("id")
    if raw is None:
        return b""
    value = decoded(raw)
    if isinstance(value, str) and len(value) <= _LONGEST_ID:
        return bytes(raw)
    return bytes(raw) if type(value) is int else None


def _misspelt(found: Iterable[str], known: frozenset[str]) -> str:
    for name in found:
        if name not in known and _FOLDED.get(name.casefold()) in known:
            return "a name differs from a known one only in case"
    return ""


def _unversioned(found: Members) -> str:
    version = found.get("jsonrpc")
    return "" if version is not None and bytes(version) == b'"2.0"' else 'a message says "jsonrpc": "2.0"'


def _asked(found: Members, id_: bytes) -> ClientMessage | RefusedMessage:
    method = decoded(found["method"])
    if not isinstance(method, str) or "result" in found or "error" in found:
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, "a request has a method, which is a text, and no result")
    try:
        params = _members.decode(found["params"]) if "params" in found else {}
    except ValueError:
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, "params are an object")
    problem = _misspelt(params, _PARAMS)
    if problem:
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, problem)
    return ClientMessage(REQUEST if id_ else NOTIFICATION, id_, method, params)


def _answer(found: Members, id_: bytes) -> ClientMessage | RefusedMessage:
    result, error = found.get("result"), found.get("error")
    if not id_ or (result is None) == (error is None):
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, "the message has no method, and is no answer either")
    message = ClientMessage(RESPONSE, id_, "", {})
    message.answer, message.error = result, error
    return message


def in_utf8(message: bytes) -> bytes:
    """Return a message that every client can decode; what is no UTF-8 in it is replaced."""
    if message.isascii():
        return message
    try:
        message.decode()
    except UnicodeDecodeError:
        return message.decode(errors="replace").encode()
    return message


def read_server_message(message: bytes) -> ServerMessage | None:
    """Return what a server says; None if it is no message at all."""
    try:
        return _server.decode(message)
    except (ValueError, RecursionError):
        pass
    found = _read_slowly(message)
    method = text_of(found.get("method"))
    if not found or ("method" in found and method is None):
        return None
    said = ServerMessage(method=UNSET if method is None else method)
    for name in _SAID & found.keys():
        setattr(said, name, found[name])
    return said


def _read_slowly(text: Raw | bytes) -> Members:
    """Return the members of an object that the fast decoder refuses: an escape for half of a character is JSON, too."""
    try:
        return {name: Raw(each.encode()) for name, each in members(bytes(text).decode())}
    except (ValueError, RecursionError):
        return {}


def elements_of(raw: Raw | bytes | None) -> list[Raw | None]:
    """Return the elements of a list, each as it is written; None for one that holds half of a character."""
    try:
        return [] if raw is None else [*_elements.decode(raw)]
    except (ValueError, RecursionError):
        pass
    try:
        found = json.loads(bytes(raw or b"[]"))
    except (ValueError, RecursionError):
        return [None]
    return [_written(each) for each in found] if isinstance(found, list) else [None]


def _written(tree: Any) -> Raw | None:
    try:
        return Raw(encode(tree))
    except (ValueError, RecursionError):
        return None


def first_id(message: bytes) -> str | None:
    """Return the id of a message that cannot be read, if it stands at its beginning."""
    for name, value in leading_members(message.decode(errors="replace")):
        if name == "id":
            return value if isinstance(value, str) else None
    return None


def decoded(raw: Raw | bytes) -> Any:
    """Return what a piece of JSON says; None for what cannot be read, as for null."""
    try:
        return _any.decode(raw)
    except (ValueError, RecursionError):
        return None


def members_of(raw: Raw | bytes | None) -> Members:
    """Return the members of an object, each as it is written; none of what is no object."""
    try:
        return {} if raw is None else _members.decode(raw)
    except (ValueError, RecursionError):
        return {} if raw is None else _read_slowly(raw)


def text_of(raw: Raw | bytes | None) -> str | None:
    """Return the text that a piece of JSON is, None if it is something else."""
    value = None if raw is None else decoded(raw)
    return value if isinstance(value, str) else None


def request(id_: bytes, method: str, params: Mapping[str, Any]) -> bytes:
    """Return a request; values that are `Raw` stand in it as they were written."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (id_, encode(method), encode(params))


def notification(method: str, params: Mapping[str, Any] | Raw | None = None) -> bytes:
    """Return a notification."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def answer_parts(id_: bytes, result: bytes | Raw | memoryview) -> tuple[bytes, Any, bytes]:
    """Return the parts of an answer; the result, which may be long, is not copied."""
    return b'{"jsonrpc":"2.0","id":%b,"result":' % id_, result, b"}"


def error_parts(id_: bytes, error: bytes | Raw) -> tuple[bytes, Any, bytes]:
    """Return the parts of an answer that is an error."""
    return b'{"jsonrpc":"2.0","id":%b,"error":' % id_, error, b"}"


def error_tree(number: int, message: str, data: Any = None) -> bytes:
    """Return an error object."""
    tree = {"code": number, "message": message}
    return encode(tree if data is None else {**tree, "data": data})


HIDDEN = "[REDACTED]"
_BLANKS = b" \t\r\n"
_LARGE = 1 << 16
_BEGINNING = 512


def one_line(message: bytes) -> bytes | None:
    """Return a JSON text without line ends; None if it has some and is no JSON."""
    if b"\n" not in message and b"\r" not in message:
        return message
    message = message.strip(_BLANKS)
    if b"\n" not in message and b"\r" not in message:
        return message
    try:
        return msgspec.json.format(message, indent=-1)
    except (msgspec.MsgspecError, RecursionError):
        return None


class _Envelope(msgspec.Struct):
    """As much of a message as tells an answer from a request."""

    id: msgspec.Raw = msgspec.Raw()
    method: msgspec.Raw = msgspec.Raw()


_ENVELOPES = msgspec.json.Decoder(_Envelope)


def answers(message: bytes, id_: str) -> bool:
    """Whether a message is the answer to our request of that id. Of a large one, no more is read than it takes."""
    if len(message) > _LARGE:
        known = dict(leading_members(message[:_BEGINNING].decode(errors="ignore")))
        if "id" in known or "method" in known:
            return known.get("id") == id_ and "method" not in known
    try:
        found = _ENVELOPES.decode(message)
        return bool(found.id) and not found.method and msgspec.json.decode(found.id) == id_
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False


def excerpt(said: bytes, secrets: Iterable[str], *, most: int) -> str:
    """Return the end of what a server said on the side, in one line that people can be shown."""
    return shown(_last_lines(hide(said.decode(errors="replace"), secrets), most))


def _last_lines(text: str, most: int) -> str:
    """Return as many whole lines of the end as fit; of one that does not, its beginning."""
    kept: list[str] = []
    for line in reversed(text.splitlines()):
        words = " ".join(line.split())
        if not words:
            continue
        if len(words) + sum(len(each) + 3 for each in kept) > most:
            return " / ".join(reversed(kept)) if kept else words[:most]
        kept.append(words)
    return " / ".join(reversed(kept))


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text of a server without what was sent to it: it may say that back, and agents read errors."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN) if secret else text
    return text
