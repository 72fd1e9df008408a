"""Read what a TLS client says in the clear: which server does it name?

Sans-IO: feed it what the client sent, and it answers as soon as a greeting is whole. It decides nothing, and it
believes nothing it cannot follow to the last byte: a server would look for the name where we did not.

Start at `HelloReader`. What comes behind the greeting: `RecordGuard`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

LONGEST_HELLO = 1 << 16  # real ones have 200 to 2,000 bytes
MOST_BYTES = 2 * LONGEST_HELLO  # on the wire, with the heads of records

# RFC 8446, sections 5.1 and 4; RFC 6066, section 3
_RECORD_START = b"\x16\x03"  # a handshake, of some version of TLS
_KINDS = range(20, 25)  # of records
_HANDSHAKE = 22
_CLIENT_HELLO = 1
_LONGEST_STATED = 0x02_FFFF  # the longest greeting that any server reads (OpenSSL), rounded up
_RECORD_HEAD = 5
_LONGEST_RECORD = 1 << 14  # in the clear
_LONGEST_ENCRYPTED = _LONGEST_RECORD + 2048
_SERVER_NAME = 0
_HOST_NAME = 0

# encrypted_client_hello (RFC 9849), and what its drafts used: they hide the name that counts.
_ENCRYPTED = frozenset({0xFE0D, 0xFE0C, 0xFE0B, 0xFE0A, 0xFE09, 0xFE08, 0xFFCE})


class ClientHello(Struct, frozen=True):
    """What a client asks for. `encrypted`: it may ask for another server, in a part that only the server can read."""

    server_name: str | None
    encrypted: bool


class BadHello(Struct, frozen=True):
    """Why the bytes are no ClientHello: one sentence."""

    problem: str


class _RefusedError(Exception):
    """Carries the problem from the place that finds it to the function that answers."""


class HelloReader:
    """Collects records until they hold the whole ClientHello."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._at = 0
        self._message = bytearray()

    @property
    def sent(self) -> bytes:
        """The records that the ClientHello came in."""
        return bytes(self._raw[: self._at])

    @property
    def rest(self) -> bytes:
        """What came behind it."""
        return bytes(self._raw[self._at :])

    def feed(self, data: bytes) -> ClientHello | BadHello | None:
        """Return the ClientHello, why there is none, or None while it is not complete. Never raises."""
        self._raw += data
        try:
            while (fragment := self._record()) is not None:
                self._message += fragment
                if _is_whole(self._message):
                    return _hello(_Vector(bytes(self._message[4:])))
        except _RefusedError as refusal:
            return BadHello(str(refusal))
        return None

    def _record(self) -> bytes | None:
        """Return what the next record holds, None if it has not arrived whole."""
        head = self._raw[self._at : self._at + _RECORD_HEAD]
        if not _RECORD_START.startswith(head[:2]):
            _refuse("what was sent is not TLS")
        if len(head) < _RECORD_HEAD:
            return None
        length = int.from_bytes(head[3:])
        end = self._at + _RECORD_HEAD + length
        if not 0 < length <= _LONGEST_RECORD or end > MOST_BYTES:
            _refuse("a record of the TLS greeting is empty or too long")
        if len(self._raw) < end:
            return None
        fragment = bytes(self._raw[self._at + _RECORD_HEAD : end])
        self._at = end
        return fragment


class RecordGuard:
    """Follows the records of a client behind its greeting, and finds every further greeting.

    A server of TLS 1.3 may ask for a second one (RFC 8446, section 4.1.4), and some believe the name in that. With any
    other handshake message in the clear, or an encrypted one, the time for greetings is over.
    """

    def __init__(self) -> None:
        self._held = b""
        self._inside = 0
        self._over = False
        self._reader: HelloReader | None = None

    def feed(self, data: bytes) -> Iterator[bytes | ClientHello | BadHello]:
        """Yield what may be sent on, each greeting before its own bytes; nothing follows a BadHello. Never raises."""
        data, self._held = self._held + data, b""
        while data:
            if self._reader is not None:
                found = self._reader.feed(data)
                if found is None:
                    return
                yield found
                if isinstance(found, BadHello):
                    return
                yield self._reader.sent
                data, self._reader = self._reader.rest, None
            elif self._over or self._inside:
                count = len(data) if self._over else min(self._inside, len(data))
                yield data[:count]
                data, self._inside = data[count:], max(0, self._inside - count)
            elif len(data) < _RECORD_HEAD or len(data) < _RECORD_HEAD + min(4, _length(data)):
                self._held = data
                return
            elif data[0] not in _KINDS or data[1] != 3 or _length(data) > _LONGEST_ENCRYPTED:
                yield BadHello("what follows the TLS greeting is not TLS")
                return
            elif data[0] != _HANDSHAKE:
                self._inside = _RECORD_HEAD + _length(data)
            elif _may_be_hello(data[_RECORD_HEAD : _RECORD_HEAD + min(4, _length(data))]):
                self._reader = HelloReader()
            else:
                self._over = True


class _Vector:
    """Bytes that are taken from the front; taking what is not there refuses the message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            _refuse("the TLS greeting is cut off")
        self._at += count
        return piece

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def inner(self, width: int) -> _Vector:
        """Return the bytes behind a length of `width` bytes."""
        return _Vector(self.take(self.number(width)))


def _length(record: bytes) -> int:
    return int.from_bytes(record[3:_RECORD_HEAD])


def _may_be_hello(start: bytes) -> bool:
    """Whether a handshake record that starts like this may be in the clear, and hold a ClientHello or its start."""
    return start[:1] in (b"", bytes([_CLIENT_HELLO])) and int.from_bytes(start[1:4].ljust(3, b"\0")) <= _LONGEST_STATED


def _is_whole(message: bytearray) -> bool:
    """Whether the message is complete; a record that goes on behind it is no greeting."""
    if message[0] != _CLIENT_HELLO:
        _refuse("the first TLS message is no ClientHello")
    if len(message) < 4:
        return False
    end = 4 + int.from_bytes(message[1:4])
    if end > LONGEST_HELLO or len(message) > end:
        _refuse("the TLS greeting is too long")
    return len(message) == end


def _hello(body: _Vector) -> ClientHello:
    if body.take(2)[0] != 3:
        _refuse("the TLS greeting is of an unknown version")
    body.take(32)  # random
    body.inner(1)  # session
    body.inner(2)  # cipher suites
    body.inner(1)  # compression methods
    extensions = _extensions(body.inner(2)) if body else {}
    if body:
        _refuse("the TLS greeting goes on behind its extensions")
    name = _server_name(extensions[_SERVER_NAME]) if _SERVER_NAME in extensions else None
    return ClientHello(name, not _ENCRYPTED.isdisjoint(extensions))


def _extensions(listed: _Vector) -> dict[int, _Vector]:
    found: dict[int, _Vector] = {}
    while listed:
        kind = listed.number(2)
        if kind in found:  # servers differ in which of the two they read
            _refuse("the TLS greeting has an extension twice")
        found[kind] = listed.inner(2)
    return found


def _server_name(extension: _Vector) -> str:
    names = extension.inner(2)
    kind = names.number(1)
    name = names.inner(2)
    text = name.take(len(name))
    if extension or names or kind != _HOST_NAME or not text or not text.isascii():
        _refuse("the TLS greeting does not name one server")
    return text.decode("ascii").lower()


def _refuse(problem: str) -> NoReturn:
    raise _RefusedError(problem)
