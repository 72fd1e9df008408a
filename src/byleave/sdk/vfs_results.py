"""What a host answers, as values: read once from the wire, strictly; fields we do not know are passed over.

What can go wrong between a mediated tool and its host, one class for each.

    VfsError                what happened; `code` is the protocol's number, None where the protocol has none
    |-- InvalidRequest      a message that is no request
    |-- MethodNotFound      this host does not serve that method
    |-- InvalidParams       a parameter is missing, or wrong
    |   `-- TooLarge        a file or a message is larger than `limit` bytes
    |-- AccessDenied        the policy, or a person, said no
    |-- NotFound            there is no such file, directory or program
    |-- AlreadyExists       something is there already, and must not be replaced
    |-- TimedOut            it took too long, for the host or for us
    |-- Cancelled           the host wants the tool to stop, or a request was given up
    |-- NotText             the file is not UTF-8: read its bytes
    |-- ProtocolError       the host said something that the protocol does not have, or the tool is over already
    `-- HostGone            the host has closed the connection

They are no `ByleaveError`s: those are for people who run byleave, these for programs that run under it.
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64
from typing import Any

from byleave.protocol import jsonrpc
from byleave.record import Record
from byleave.text import sentence_list


class VfsError(Exception):
    """A request was not done. `message` is the host's sentence, fit to be shown."""

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class InvalidRequest(VfsError): ...  # noqa: N818 -- named as the protocol names them


class MethodNotFound(VfsError): ...  # noqa: N818


class InvalidParams(VfsError): ...  # noqa: N818


class TooLarge(InvalidParams):
    """A file or a message is larger than the host carries."""

    @property
    def limit(self) -> int:
        """How many bytes would do."""
        return int(self.data["limit"])


class AccessDenied(VfsError):  # noqa: N818
    """The policy, or a person, said no. As a text: what was denied, and where it would be granted."""

    @property
    def capability(self) -> str | None:
        """What the tool may not do there, as rules call it; None where the host did not say."""
        named = self.data.get("capability") if isinstance(self.data, dict) else None
        return named if isinstance(named, str) else None

    @property
    def grants(self) -> tuple[str, ...] | None:
        """The paths at which rules grant it; None where no rules of that kind are configured."""
        listed = self.data.get("grants") if isinstance(self.data, dict) else None
        return tuple(str(path) for path in listed) if isinstance(listed, list) else None

    def __str__(self) -> str:
        if self.capability is None or self.grants is None:
            return self.message
        if not self.grants:
            return f"{self.message}; no rule grants {self.capability}"
        return f"{self.message}; {self.capability} is granted at {sentence_list(self.grants)}"


class NotFound(VfsError): ...  # noqa: N818


class AlreadyExists(VfsError): ...  # noqa: N818


class TimedOut(VfsError): ...  # noqa: N818


class Cancelled(VfsError): ...  # noqa: N818


class NotText(VfsError): ...  # noqa: N818


class ProtocolError(VfsError): ...


class HostGone(VfsError): ...  # noqa: N818


_CLASSES: dict[int, type[VfsError]] = {
    jsonrpc.PARSE_ERROR: InvalidRequest,
    jsonrpc.INVALID_REQUEST: InvalidRequest,
    jsonrpc.METHOD_NOT_FOUND: MethodNotFound,
    jsonrpc.INVALID_PARAMS: InvalidParams,
    jsonrpc.ACCESS_DENIED: AccessDenied,
    jsonrpc.NOT_FOUND: NotFound,
    jsonrpc.ALREADY_EXISTS: AlreadyExists,
    jsonrpc.TIMED_OUT: TimedOut,
    jsonrpc.CANCELLED: Cancelled,
}


def error_for(code: int, message: str, data: Any = None) -> VfsError:
    """Return the error that a refusal of the host's is; one with a number we do not know is a plain VfsError."""
    kind = _CLASSES.get(code, VfsError)
    if kind is InvalidParams and isinstance(data, dict) and type(data.get("limit")) is int:
        kind = TooLarge
    return kind(message, code=code, data=data)


class QuestionAsked(SystemExit):
    """The call ended with a question to the user; the tool is started again when there is an answer.

    Not an `Exception`: a tool that catches those must still end. Uncaught, it ends the program with success.
    """

    def __init__(self, id_: str) -> None:
        super().__init__(0)
        self.id = id_


BASE64 = "base64"


class Entry(Record):
    """One name in a directory. `kind` is file, dir or other."""

    path: str
    kind: str


class Listing(Record):
    """What a directory holds, and how many entries were left out because the tool may not read them."""

    entries: tuple[Entry, ...]
    hidden: int = 0


class Metadata(Record):
    """What is at a path: file, dir or other; its size in bytes; when it was last changed, if the host says so."""

    kind: str
    size: int
    modified: float | None = None


class Line(Record):
    """One line, without its end; numbers count from 1. It matches, or stands beside one that does."""

    number: int
    content: str
    is_match: bool


class Match(Record):
    """The lines of one file that a search found, with those around them."""

    path: str
    lines: tuple[Line, ...]


class HttpReply(Record):
    """What a server answered. `body` is a text, or bytes where it is not UTF-8; `url` is where redirects ended."""

    status: int
    body: str | bytes
    headers: tuple[tuple[str, str], ...] = ()
    url: str = ""

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        return self.body.encode() if isinstance(self.body, str) else self.body


class Completed(Record):
    """What a program printed, and how it ended. What is not UTF-8 is bytes."""

    stdout: str | bytes
    stderr: str | bytes
    exit_code: int


def read_file(tree: Any) -> bytes:
    """Return the bytes of a file."""
    content = _carried(tree, "content", "encoding")
    return content.encode(errors="surrogatepass") if isinstance(content, str) else content


def read_text(tree: Any, path: str) -> str:
    """Return the text of a file; NotText if it is binary."""
    content = _carried(tree, "content", "encoding")
    if isinstance(content, bytes):
        raise NotText(f"{path} is not a text in UTF-8; read its bytes instead")
    return content


def read_exists(tree: Any) -> bool:
    """Whether something is there."""
    return _field(tree, "exists", bool) is True


def read_listing(tree: Any) -> Listing:
    """Return the entries of a directory."""
    entries = tuple([Entry(_path(entry), _text(entry, "kind")) for entry in _field(tree, "entries", list)])
    return Listing(entries, _number(tree.get("hidden")) or 0)


def read_metadata(tree: Any) -> Metadata:
    """Return what is known of a path."""
    modified = _field(tree, "modified", int, float) if tree.get("modified") is not None else None
    return Metadata(_text(tree, "kind"), int(_field(tree, "size", int)), modified)


def read_matches(tree: Any) -> list[Match]:
    """Return what a search found."""
    return [_match(found) for found in _field(tree, "matches", list)]


def _match(tree: Any) -> Match:
    return Match(_path(tree), tuple([_line(line) for line in _field(tree, "lines", list)]))


def _line(tree: Any) -> Line:
    return Line(_field(tree, "line_number", int), _text(tree, "content"), _field(tree, "is_match", bool))


def read_reply(tree: Any) -> HttpReply:
    """Return what a server answered."""
    body = _carried(tree, "body", "encoding")
    given = tree.get("headers")
    headers = [(_text(pair, "name"), _text(pair, "value")) for pair in given] if isinstance(given, list) else []
    url = tree.get("url")
    return HttpReply(_field(tree, "status", int), body, tuple(headers), url if isinstance(url, str) else "")


def read_completed(tree: Any) -> Completed:
    """Return how a program ended."""
    said = [_carried(tree, name, f"{name}_encoding") for name in ("stdout", "stderr")]
    return Completed(said[0], said[1], _field(tree, "exit_code", int))


def _carried(tree: Any, name: str, encoding: str) -> str | bytes:
    """Return a text, or the bytes that travelled as base64."""
    text = _text(tree, name)
    if tree.get(encoding) is None:
        return text
    if tree[encoding] != BASE64:
        raise ProtocolError(f"the host sent {name} in an encoding that the protocol does not have")
    return _decoded(text, name)


def _path(tree: Any) -> str:
    """Return a path; one that is not UTF-8 came by its bytes, and is as `os.fsdecode` gives it."""
    if not isinstance(tree, dict) or "path_b64" not in tree:
        return _text(tree, "path")
    return _decoded(_text(tree, "path_b64"), "path_b64").decode(errors="surrogateescape")


def _decoded(text: str, name: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except (Error, ValueError):
        raise ProtocolError(f"the host sent {name} that is not base64") from None


def carry(content: str | bytes) -> tuple[str, str | None]:
    """Return content as it travels: a text as it is, bytes as base64, with the name of the encoding if there is one."""
    if isinstance(content, str):
        return content, None

    return b2a_base64(content, newline=False).decode(), BASE64


def speakable(tree: Any) -> Any:
    r"""Return a tree whose texts are all Unicode: bytes of names that are not UTF-8 are written out, as `\xff`."""
    if isinstance(tree, str):
        return tree if tree.isascii() else _written_out(tree)
    if isinstance(tree, dict):
        return {speakable(name): speakable(value) for name, value in tree.items()}
    return [speakable(each) for each in tree] if isinstance(tree, list | tuple) else tree


def _written_out(text: str) -> str:
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair that stands for no byte
        return text.encode(errors="backslashreplace").decode()


def _text(tree: Any, name: str) -> str:
    return str(_field(tree, name, str))


def _field(tree: Any, name: str, *kinds: type) -> Any:
    value = tree.get(name) if isinstance(tree, dict) else None
    if type(value) not in kinds:
        raise ProtocolError(f"the host's answer has no {name} that can be read")
    return value


def _number(value: object) -> int | None:
    return value if type(value) is int else None
