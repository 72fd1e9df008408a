"""The name in a TLS greeting is the one a server would read, however the greeting arrives."""

import ssl
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.net.client_hello import BadHello, ClientHello, HelloReader, RecordGuard

CUT_OFF = BadHello("the TLS greeting is cut off")
NOT_TLS = BadHello("what was sent is not TLS")
NOT_ONE = BadHello("the TLS greeting does not name one server")
TOO_LONG = BadHello("the TLS greeting is too long")
BAD_RECORD = BadHello("a record of the TLS greeting is empty or too long")


def real_hello(name: str | None) -> bytes:
    """Return the greeting that OpenSSL sends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def vector(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width) + data


def extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2) + vector(data, 2)


def server_name(*names: bytes, kind: int = 0) -> bytes:
    return extension(0, vector(b"".join([bytes([kind]) + vector(name, 2) for name in names]), 2))


def body(*extensions: bytes, end: bytes = b"") -> bytes:
    start = b"\3\3" + bytes(32) + vector(bytes(32), 1) + vector(b"\x0a\x0a\x13\x01", 2) + vector(b"\0", 1)
    return start + vector(b"".join(extensions), 2) + end


def message(content: bytes, *, kind: int = 1) -> bytes:
    return bytes([kind]) + vector(content, 3)


def record(fragment: bytes, *, kind: int = 22) -> bytes:
    return bytes([kind, 3, 1]) + vector(fragment, 2)


def hello(*extensions: bytes) -> bytes:
    return record(message(body(*extensions)))


def read(pieces: list[bytes]) -> ClientHello | BadHello | None:
    reader = HelloReader()
    for number, piece in enumerate(pieces, 1):
        if (found := reader.feed(piece)) is not None:
            assert reader.sent + reader.rest == b"".join(pieces[:number])
            return found
    return None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


GREASE = extension(0x0A0A, b"") + extension(0xFAFA, b"\0")
NAME = server_name(b"H.com")
BARE = b"\3\3" + bytes(32) + vector(b"", 1) + vector(b"\x13\x01", 2) + vector(b"\0", 1)
CASES: dict[str, tuple[bytes, ClientHello | BadHello | None]] = {
    "a name": (hello(NAME), ClientHello("h.com", encrypted=False)),
    "no name": (hello(extension(10, b"x")), ClientHello(None, encrypted=False)),
    "no extensions at all": (record(message(BARE)), ClientHello(None, encrypted=False)),
    "GREASE around it": (hello(GREASE, NAME, extension(21, bytes(300))), ClientHello("h.com", encrypted=False)),
    "ECH": (hello(NAME, extension(0xFE0D, b"\0\0\1")), ClientHello("h.com", encrypted=True)),
    "ESNI": (hello(extension(0xFFCE, b"x")), ClientHello(None, encrypted=True)),
    "early data behind it": (hello(NAME) + b"\x14\3\3\0\1\1\x17\3\3", ClientHello("h.com", encrypted=False)),
    "not complete": (hello(NAME)[:-1], None),
    "nothing": (b"", None),
    "plain http": (b"GET / HTTP/1.1\r\n\r\n", NOT_TLS),
    "ssh": (b"SSH-2.0-OpenSSH_9.6\r\n", NOT_TLS),
    "SSL 2": (b"\x80\x2e\x01\x00\x02", NOT_TLS),
    "another version of records": (b"\x16\x02\x00\x00\x05", NOT_TLS),
    "an alert first": (record(b"\1\0", kind=21) + hello(NAME), NOT_TLS),
    "data between two records": (
        record(message(body(NAME))[:50]) + record(b"x", kind=23) + record(message(body(NAME))[50:]),
        NOT_TLS,
    ),
    "another message": (record(message(b"", kind=2)), BadHello("the first TLS message is no ClientHello")),
    "an empty record": (record(b""), BAD_RECORD),
    "a record that is too long": (b"\x16\x03\x01\xff\xff", BAD_RECORD),
    "a greeting that is too long": (record(b"\1\1\0\0"), TOO_LONG),
    "a message behind it in the same record": (record(message(body(NAME)) + b"\x0b"), TOO_LONG),
    "an unknown version": (
        record(message(b"\2" + body(NAME)[1:])),
        BadHello("the TLS greeting is of an unknown version"),
    ),
    "two extensions for names": (hello(NAME, NAME), BadHello("the TLS greeting has an extension twice")),
    "two names": (hello(server_name(b"h.com", b"evil.com")), NOT_ONE),
    "a name of another kind": (hello(server_name(b"h.com", kind=1)), NOT_ONE),
    "an empty name": (hello(server_name(b"")), NOT_ONE),
    "an empty list of names": (hello(extension(0, vector(b"", 2))), CUT_OFF),
    "an empty extension for names": (hello(extension(0, b"")), CUT_OFF),
    "bytes behind the names": (hello(extension(0, vector(b"\0" + vector(b"h.com", 2), 2) + b"x")), NOT_ONE),
    "a name that is not ASCII": (hello(server_name("hé.com".encode())), NOT_ONE),
    "bytes behind the extensions": (
        record(message(body(NAME, end=b"x"))),
        BadHello("the TLS greeting goes on behind its extensions"),
    ),
    "a length that points outside": (record(message(body(NAME)[:-1])), CUT_OFF),
    "a greeting without content": (record(message(b"")), CUT_OFF),
}


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES.keys())
def test_a_greeting_is_read_to_the_last_byte(data: bytes, expected: ClientHello | BadHello | None) -> None:
    assert read([data]) == expected
    assert read([data[at : at + 1] for at in range(len(data))]) == expected


@pytest.mark.parametrize("name", ["api.example.com", None])
def test_what_openssl_sends_is_read(name: str | None) -> None:
    assert read([real_hello(name)]) == ClientHello(name, encrypted=False)


@given(st.lists(st.integers(0, 2000)), st.lists(st.integers(0, 2000)))
def test_records_and_segments_may_split_it_anywhere(records: list[int], segments: list[int]) -> None:
    whole = message(body(GREASE, NAME))
    data = b"".join([record(fragment) for fragment in cut(whole, records) if fragment])
    assert read(cut(data, segments)) == ClientHello("h.com", encrypted=False)


@given(st.binary(), st.lists(st.integers(0, 200)))
def test_reading_never_raises_and_gives_the_same_however_it_is_cut(noise: bytes, places: list[int]) -> None:
    for data in (noise, record(noise) + noise, record(message(noise)), hello(noise), hello(extension(0, noise))):
        assert read(cut(data, places)) == read([data])


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_a_changed_byte_never_raises(place: int, change: bytes) -> None:
    data = bytearray(hello(GREASE, NAME, extension(0xFE0D, b"x")))
    place %= len(data)
    data[place : place + len(change)] = change
    assert read(cut(bytes(data), [place, place + 1])) == read([bytes(data)])


def test_a_greeting_in_tiny_records_does_not_grow_without_bound() -> None:
    reader = HelloReader()
    tiny = record(b"\1") + record(b"\0") + record(b"\xff") + record(b"\0") + record(b"x") * 60_000
    answers = [reader.feed(tiny[at : at + 4096]) for at in range(0, len(tiny), 4096)]
    assert next(answer for answer in answers if answer is not None) == BAD_RECORD


def guarded(pieces: list[bytes]) -> tuple[bytes, list[ClientHello | BadHello]]:
    """Return what is sent on behind a greeting, and the greetings that were found in it."""
    guard, sent = RecordGuard(), b""
    found: list[ClientHello | BadHello] = []
    for piece in pieces:
        for event in guard.feed(piece):
            if isinstance(event, BadHello):
                return sent, [*found, event]
            if isinstance(event, bytes):
                sent += event
            else:
                found.append(event)
    return sent, found


OTHER = server_name(b"evil.com")
CIPHER_CHANGE = record(b"\1", kind=20)
DATA = record(b"\x16\3\1\0\5\1\0\0\1", kind=23)
ENCRYPTED = record(bytes([1, 200, *range(38)]))
BEHIND = {
    "data": (DATA * 3, [], b""),
    "a second greeting": (CIPHER_CHANGE + hello(OTHER) + DATA, [ClientHello("evil.com", encrypted=False)], b""),
    "one behind early data": (DATA + hello(NAME), [ClientHello("h.com", encrypted=False)], b""),
    "one in pieces": (
        b"".join([record(message(body(OTHER))[at : at + 1]) for at in range(len(message(body(OTHER))))]),
        [ClientHello("evil.com", encrypted=False)],
        b"",
    ),
    "two more": (
        hello(NAME) + hello(OTHER),
        [ClientHello("h.com", encrypted=False), ClientHello("evil.com", encrypted=False)],
        b"",
    ),
    "one that never ends": (hello(OTHER)[:-1], [], hello(OTHER)[:-1]),
    "TLS 1.2": (record(message(b"key", kind=16)) + CIPHER_CHANGE + ENCRYPTED + b"anything", [], b""),
    "TLS 1.2, resumed": (CIPHER_CHANGE + ENCRYPTED + DATA, [], b""),
    "half a record": (DATA[:10], [], b""),
    "half a head": (DATA + DATA[:3], [], DATA[:3]),
    "no TLS": (b"GET / HTTP/1.1", [BadHello("what follows the TLS greeting is not TLS")], b"GET / HTTP/1.1"),
    "an empty handshake record": (record(b""), [BAD_RECORD], record(b"")),
}


@pytest.mark.parametrize(("data", "found", "kept"), BEHIND.values(), ids=BEHIND.keys())
def test_a_further_greeting_is_found_wherever_it_stands(
    data: bytes, found: list[ClientHello | BadHello], kept: bytes
) -> None:
    expected = (data.removesuffix(kept), found)
    assert guarded([data]) == expected
    assert guarded([data[at : at + 1] for at in range(len(data))]) == expected


@given(st.lists(st.sampled_from([DATA, CIPHER_CHANGE, hello(OTHER), ENCRYPTED]) | st.binary()), st.lists(st.integers()))
def test_what_is_sent_on_does_not_depend_on_how_it_arrives(records: list[bytes], places: list[int]) -> None:
    data = b"".join(records)
    sent, found = guarded(cut(data, places))
    assert (sent, found) == guarded([data])
    assert data.startswith(sent)
