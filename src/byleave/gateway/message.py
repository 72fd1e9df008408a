"""The messages of MCP: what a client sends, what a server sends, and how they are written. Sans-IO.

What a client sends is read by the strict reader (`protocol.jsonrpc`), once: the `ClientParams` of a message hold the
decoded values, which every part of the gateway reads, and are split into members as they are written where those go on
to a server. Of what a server sends only the outside is read, and leniently: the result goes back to the client as the
bytes that came, in a message that we write.

A message goes on to clients that read lines. One with a line end inside could be taken for several messages, of which
all but the first are not evaluated, so it is written anew (`one_line`).

Start at `read_client_message` and `read_server_message`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from byleave.protocol.json_fast import FAST
from byleave.protocol.json_members import leading_members, members
from byleave.protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Malformed, RepeatedNameError, misspelt, read_envelope
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Members = dict[str, Raw]


REQUEST, NOTIFICATION, RESPONSE = "request", "notification", "response"
NO_ID = b"null"
MOST_VALUES = 50_000  # in one message: looking at each must not keep other clients waiting
_PARAMS = frozenset(
    {
        *("name", "arguments", "_meta", "uri", "cursor", "ref", "argument", "context", "level"),
        *("inputResponses", "requestState", "notifications"),
        *("protocolVersion", "capabilities", "clientInfo", "requestId", "reason", "progressToken", "progress"),
    }
)
_FOLDED = frozenset(name.casefold() for name in _PARAMS)
_members = msgspec.json.Decoder(dict[str, Raw])
_elements = msgspec.json.Decoder(list[Raw])
_any = msgspec.json.Decoder()
encode = FAST.encode
_value = FAST.value


class ServerMessage(msgspec.Struct):
    """The members of a message of a server, those with structure as they are written."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_PARTS = frozenset({"id", "params", "result", "error"})
_server = msgspec.json.Decoder(ServerMessage)


class RefusedMessage(Struct, frozen=True):
    """A message of a client that is not taken, and the error that says so."""

    id: bytes
    number: int
    problem: str


class ClientParams:
    """The params of a client's message: `tree` are the decoded values, `written` the members to be passed on."""

    __slots__ = ("_members", "_part", "tree")  # no record: one is made for every call

    def __init__(self, tree: dict[str, Any], part: Raw | None = None) -> None:
        self.tree = tree
        self._part = part
        self._members: Members | None = None

    @property
    def written(self) -> Members:
        """The members, each as it is written. Few requests need them, so they are split when they are asked for."""
        if self._members is None:
            self._members = members_of(self._part)
        return self._members

    @property
    def meta(self) -> Mapping[str, Any]:
        """The decoded `_meta`; empty if there is none, or it is no object."""
        meta = self.tree.get("_meta")
        return meta if type(meta) is dict else {}

    @property
    def written_meta(self) -> Members:
        """The members of `_meta`, each as it is written."""
        return members_of(self.written["_meta"]) if self.meta else {}

    def text(self, name: str) -> str | None:
        """Return a member that is a text, None if it is something else."""
        value = self.tree.get(name)
        return value if type(value) is str else None


_NO_PARAMS = ClientParams({})


class ClientMessage:
    """A message of a client: its kind, its id as it is written, its method and params.

    Of a response: the result as it is written (`answer`) and decoded (`answer_tree`), or the error as it is written.
    """

    __slots__ = ("answer", "answer_tree", "error", "id", "kind", "method", "params")  # no record: one for every call

    def __init__(  # noqa: PLR0917 -- the members of a message
        self,
        kind: str,
        id_: bytes,
        method: str,
        params: ClientParams,
        answer: Raw | None = None,
        answer_tree: Any = None,
        error: Raw | None = None,
    ) -> None:
        self.kind = kind
        self.id = id_
        self.method = method
        self.params = params
        self.answer = answer
        self.answer_tree = answer_tree
        self.error = error


def read_client_message(message: bytes) -> ClientMessage | RefusedMessage:
    """Return the message of a client, or why it is refused."""
    envelope = read_envelope(message, FAST, most_values=MOST_VALUES)
    if isinstance(envelope, Malformed):
        id_ = NO_ID if envelope.id is None else encode(envelope.id)
        return RefusedMessage(id_, envelope.number, envelope.problem)
    id_ = b"" if envelope.id is None else _id_text(envelope.raw_id, envelope.id)
    part = envelope.params
    if envelope.method is None:
        part = envelope.error if envelope.result is None else envelope.result
    try:
        tree = {} if part is None else _value(part)
    except RepeatedNameError as error:
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, str(error))
    except RecursionError:
        return RefusedMessage(NO_ID, INVALID_REQUEST, "the message is nested too deeply")
    except ValueError:
        return RefusedMessage(NO_ID, PARSE_ERROR, "the message is not JSON")
    if envelope.method is None:
        if not id_:
            return RefusedMessage(NO_ID, INVALID_REQUEST, "an answer has the id of the request")
        answer_tree = None if envelope.result is None else tree
        return ClientMessage(RESPONSE, id_, "", _NO_PARAMS, envelope.result, answer_tree, envelope.error)
    if type(tree) is not dict:
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, "params are an object")
    if not _PARAMS.issuperset(tree) and misspelt(tree, _PARAMS, _FOLDED):
        return RefusedMessage(id_ or NO_ID, INVALID_REQUEST, "a name differs from a known one only in case")
    params = ClientParams(tree, part)
    return ClientMessage(REQUEST if id_ else NOTIFICATION, id_, envelope.method, params)


def _id_text(raw: Raw, id_: int | str) -> bytes:
    """Return an id in the one way of writing it, so that two ids are the same where their texts are."""
    written = bytes(raw)
    return encode(id_) if b"\\" in written or written == b"-0" else written


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
    for name in _PARTS & found.keys():
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
    """As much of a message as it takes to know an answer from a request."""

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
