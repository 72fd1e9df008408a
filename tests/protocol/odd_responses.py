"""Responses of servers, good, odd and wrong, and what every HTTP client of byleave makes of each of them."""

from typing import NamedTuple

from byleave.protocol.http_exchange import LONGEST_HEAD

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Odd(NamedTuple):
    """A response, after which the server closes. `status` is None where it is refused, and then `problem` says why."""

    sent: bytes
    status: int | None
    body: bytes = b""
    reusable: bool = False
    problem: str = ""
    method: str = "GET"


def good(sent: bytes, body: bytes = b"ok", *, status: int = 200, reusable: bool = True, method: str = "GET") -> Odd:
    return Odd(sent, status, body, reusable, method=method)


def wrong(sent: bytes, problem: str) -> Odd:
    return Odd(sent, None, problem=problem)


def head(*fields: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode("latin-1")


def _padded(length: int) -> bytes:
    """Return a head of this length."""
    start = head("Content-Length: 2", "X: ")
    return head("Content-Length: 2", "X: " + "a" * (length - len(start)))


ODD_RESPONSES = {
    "of known length": good(OK),
    "in chunks": good(_CHUNKED + b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n"),
    "in chunks with extensions and trailers": good(_CHUNKED + b"2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n"),
    "until the end of the stream": good(head() + b"ok", reusable=False),
    "of HTTP/1.0": good(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", reusable=False),
    "that closes": good(head("Content-Length: 2", "Connection: x, Close") + b"ok", reusable=False),
    "with more behind it": good(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", reusable=False),
    "without content": good(head(status="204 No Content"), b"", status=204),
    "not modified, with a length": good(head("Content-Length: 9", status="304 Not Modified"), b"", status=304),
    "to HEAD, with a length": good(head("Content-Length: 9"), b"", method="HEAD"),
    "to HEAD, in chunks": good(head("Transfer-Encoding: chunked"), b"", method="HEAD"),
    "the same length twice": good(head("Content-Length: 2", "content-length: 2") + b"ok"),
    "after interim ones": good(_CONTINUE + head("Link: x", status="103 Early Hints") + OK),
    "after fifteen interim ones": good(_CONTINUE * 15 + OK),
    "after sixteen interim ones": wrong(_CONTINUE * 16 + OK, "too many interim responses"),
    "nothing but interim ones": wrong(_CONTINUE, "the head breaks off"),
    "without a phrase": good(b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"),
    "the longest head": good(_padded(LONGEST_HEAD) + b"ok"),
    "a head that is too long": wrong(_padded(LONGEST_HEAD + 1) + b"ok", "its head is too long"),
    "a line without end": wrong(b"HTTP/1.1 200 " + b"a" * LONGEST_HEAD, "its head is too long"),
    "nothing": wrong(b"", "the connection was closed"),
    "half a head": wrong(b"HTTP/1.1 200 OK\r\nContent-Le", "the head breaks off"),
    "no HTTP": wrong(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "the first line is no status"),
    "HTTP/0.9": wrong(b"<html>hello</html>\r\n\r\n", "the first line is no status"),
    "HTTP/2": wrong(b"HTTP/2 200 OK\r\n\r\n", "the first line is no status"),
    "a status of four digits": wrong(head(status="2000 OK"), "the first line is no status"),
    "a status of six hundred": wrong(head(status="600 OK"), "the first line is no status"),
    "blanks before the status line": wrong(b"\r\n" + OK, ""),
    "another protocol": wrong(head("Upgrade: x", status="101 Switching Protocols"), "it changes the protocol"),
    "lines without CR": wrong(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "the head has no end"),
    "one line without CR": wrong(b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok", "the first line is no status"),
    "a folded line": wrong(head("X: a", " b", "Content-Length: 2") + b"ok", "is no field"),
    "a blank before the colon": wrong(head("Content-Length : 2") + b"ok", "is no field"),
    "NUL in a field": wrong(head("X: a\0b", "Content-Length: 2") + b"ok", "is no field"),
    "CR in a field": wrong(head("X: a\rb", "Content-Length: 2") + b"ok", "is no field"),
    "two lengths": wrong(head("Content-Length: 1", "Content-Length: 2") + b"ok", "Content-Length is not one number"),
    "a list of lengths": wrong(head("Content-Length: 2, 2") + b"ok", "Content-Length is not one number"),
    "a negative length": wrong(head("Content-Length: -1"), "Content-Length is not one number"),
    "a length with a sign": wrong(head("Content-Length: +2") + b"ok", "Content-Length is not one number"),
    "a hexadecimal length": wrong(head("Content-Length: 0x2") + b"ok", "Content-Length is not one number"),
    "a length of nineteen digits": wrong(head("Content-Length: " + "9" * 19), "Content-Length is not one number"),
    "a length that servers read": wrong(head("Content_Length: 2") + b"ok", "can be taken for another one"),
    "a length and chunks": wrong(
        head("Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n", "both Content-Length and"
    ),
    "an unknown transfer coding": wrong(head("Transfer-Encoding: gzip"), "unknown transfer coding"),
    "two transfer codings": wrong(head("Transfer-Encoding: gzip, chunked"), "unknown transfer coding"),
    "chunked twice": wrong(head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), "unknown transfer"),
    "a body that breaks off": wrong(head("Content-Length: 9") + b"ok", "the body breaks off"),
    "chunks that break off": wrong(_CHUNKED + b"2\r\nok\r\n", "the body breaks off"),
    "a last chunk that breaks off": wrong(_CHUNKED + b"2\r\nok\r\n0\r\n", "the body breaks off"),
    "a chunk without a size": wrong(_CHUNKED + b"zz\r\nok\r\n0\r\n\r\n", "does not start with its size"),
    "a negative chunk": wrong(_CHUNKED + b"-2\r\nok\r\n0\r\n\r\n", "does not start with its size"),
    "a chunk with 0x": wrong(_CHUNKED + b"0x2\r\nok\r\n0\r\n\r\n", "does not start with its size"),
    "a huge chunk": wrong(_CHUNKED + b"ffffffffffffffffff\r\nok\r\n0\r\n\r\n", "does not start with its size"),
    "a chunk line without CR": wrong(_CHUNKED + b"2\nok\r\n0\r\n\r\n", "does not end in CR LF"),
    "a chunk that is too long": wrong(_CHUNKED + b"1\r\nok\r\n0\r\n\r\n", "longer than its size says"),
    "trailers that are none": wrong(_CHUNKED + b"2\r\nok\r\n0\r\nno trailer\r\n\r\n", "are no trailers"),
}
