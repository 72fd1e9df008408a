"""Requests that two readers could read differently, and what byleave and h11 make of each: the tables of record 0008.

`.venv/bin/python tests/protocol/smuggling.py` writes the tables into the record.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import h11

from byleave.net.http_server_exchange import BadRequest, CallerConnection, ServerExchange, ServerRequestHead, read_head
from byleave.protocol.http_body import MalformedBodyError, body_reader
from byleave.protocol.http_head import END, end_of_head

RECORD = Path(__file__).parents[2] / "docs/decisions/0008-own-http-reader.md"
BEGIN, FINISH = "<!-- the table is written by tests/protocol/smuggling.py -->", "<!-- end of the table -->"
LONGEST_HEAD = 1 << 15


def post(*lines: str, body: str = "", line: str = "POST / HTTP/1.1", host: str = "Host: h") -> bytes:
    return ("\r\n".join([line, *([host] if host else []), *lines, "", ""]) + body).encode("latin-1")


CHUNKED = "Transfer-Encoding: chunked"
LENGTH = "Content-Length: 5"
REQUESTS = {
    "a plain length": post(LENGTH, body="hello"),
    "plain chunks": post(CHUNKED, body="5\r\nhello\r\n0\r\n\r\n"),
    "CL.TE: a length, then chunks": post(LENGTH, CHUNKED, body="0\r\n\r\nX"),
    "TE.CL: chunks, then a length": post(CHUNKED, "Content-Length: 3", body="1\r\nZ\r\n0\r\n\r\n"),
    "TE.TE: chunked twice": post(CHUNKED, CHUNKED, body="0\r\n\r\n"),
    "TE.TE: chunked, identity": post(CHUNKED, "Transfer-Encoding: identity", body="0\r\n\r\n"),
    "Transfer-Encoding: xchunked": post("Transfer-Encoding: xchunked", body="0\r\n\r\n"),
    "Transfer-Encoding: gzip, chunked": post("Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"),
    "Transfer-Encoding: CHUNKED": post("Transfer-Encoding: CHUNKED", body="0\r\n\r\n"),
    "Transfer_Encoding: chunked": post("Transfer_Encoding: chunked", body="0\r\n\r\n"),
    "chunks in HTTP/1.0": post(CHUNKED, body="0\r\n\r\n", line="POST / HTTP/1.0"),
    "the same length twice": post(LENGTH, LENGTH, body="hello"),
    "two lengths": post(LENGTH, "Content-Length: 6", body="hello!"),
    "Content-Length: 5, 5": post("Content-Length: 5, 5", body="hello"),
    "Content-Length: 5, 6": post("Content-Length: 5, 6", body="hello!"),
    "Content-Length: +5": post("Content-Length: +5", body="hello"),
    "Content-Length: -5": post("Content-Length: -5", body="hello"),
    "Content-Length: 0x5": post("Content-Length: 0x5", body="hello"),
    "Content-Length: 5_0": post("Content-Length: 5_0", body="hello"),
    "Content-Length: 5 (blanks around it)": post("Content-Length: \t 5 \t", body="hello"),
    "Content-Length: 1 0": post("Content-Length: 1 0", body="hello"),
    "Content-Length: 005": post("Content-Length: 005", body="hello"),
    "Content-Length, empty": post("Content-Length:", body=""),
    "Content-Length of 19 digits": post("Content-Length: " + "9" * 19),
    "Content_Length: 5": post("Content_Length: 5", body="hello"),
    "a blank before the colon": post("Content-Length : 5", body="hello"),
    "a tab before the colon": post("Transfer-Encoding\t: chunked", body="0\r\n\r\n"),
    "a folded line (obs-fold)": post("X: a", " Content-Length: 5", body="hello"),
    "a folded Transfer-Encoding": post("Transfer-Encoding:", " chunked", body="0\r\n\r\n"),
    "a blank before the first field": post("GET / HTTP/1.1", host=" Host: h"),
    "bare LF everywhere": b"GET / HTTP/1.1\nHost: h\n\n",
    "bare LF in one line": b"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n",
    "bare LF at the end of the head": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\nhello",
    "bare CR in a field": post("X: a\rContent-Length: 5"),
    "NUL in a field": post("X: a\0b"),
    "NUL in the name of a field": post("X\0: a"),
    "a control character in a field": post("X: a\x08b"),
    "bytes above 127 in a field": post("X: \xfc"),
    "a name that is no token": post("X(y): a"),
    "a field without a name": post(": a"),
    "a field without a colon": post("Host2"),
    "a chunk extension": post(CHUNKED, body="5;a=b\r\nhello\r\n0\r\n\r\n"),
    "a chunk extension with a bare LF": post(CHUNKED, body="5;a\nb\r\nhello\r\n0\r\n\r\n"),
    "a chunk line of 5000 bytes": post(CHUNKED, body="5;" + "a" * 5000 + "\r\nhello\r\n0\r\n\r\n"),
    "a chunk of size 0x5": post(CHUNKED, body="0x5\r\nhello\r\n0\r\n\r\n"),
    "a chunk of size +5": post(CHUNKED, body="+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk of size -5": post(CHUNKED, body="-5\r\nhello\r\n0\r\n\r\n"),
    "a blank before a chunk's size": post(CHUNKED, body=" 5\r\nhello\r\n0\r\n\r\n"),
    "a blank after a chunk's size": post(CHUNKED, body="5 \r\nhello\r\n0\r\n\r\n"),
    "a chunk of size 5 that ends in bare LF": post(CHUNKED, body="5\nhello\r\n0\r\n\r\n"),
    "a chunk of 18 hexadecimal digits": post(CHUNKED, body="f" * 18 + "\r\nhello\r\n0\r\n\r\n"),
    "a chunk longer than its size": post(CHUNKED, body="4\r\nhello\r\n0\r\n\r\n"),
    "a chunk without CR LF behind it": post(CHUNKED, body="5\r\nhelloXX0\r\n\r\n"),
    "a trailer": post(CHUNKED, body="0\r\nX: y\r\n\r\n"),
    "a Content-Length as a trailer": post(CHUNKED, body="0\r\nContent-Length: 9\r\n\r\n"),
    "a trailer that is no field": post(CHUNKED, body="0\r\nno field\r\n\r\n"),
    "a body that breaks off": post(LENGTH, body="hel"),
    "chunks that break off": post(CHUNKED, body="5\r\nhel"),
    "a body without a length": post(body="GET /evil HTTP/1.1\r\nHost: h\r\n\r\n"),
    "GET with a body": post(LENGTH, body="hello", line="GET / HTTP/1.1"),
    "a request behind the body": post(LENGTH, body="helloGET /next HTTP/1.1\r\nHost: h\r\n\r\n"),
    "an empty line before the request": b"\r\n" + post(LENGTH, body="hello"),
    "a blank line before the request": b" \r\n" + post(LENGTH, body="hello"),
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/1.2": post(line="GET / HTTP/1.2"),
    "HTTP/2.0": post(line="GET / HTTP/2.0"),
    "http/1.1": post(line="GET / http/1.1"),
    "two blanks in the first line": post(line="GET  / HTTP/1.1"),
    "a tab in the first line": post(line="GET\t/ HTTP/1.1"),
    "a blank in the target": post(line="GET /a b HTTP/1.1"),
    "a blank behind the version": post(line="GET / HTTP/1.1 "),
    "NUL in the target": post(line="GET /\0 HTTP/1.1"),
    "bytes above 127 in the target": post(line="GET /\xfc HTTP/1.1"),
    "a fragment in the target": post(line="GET /#a HTTP/1.1"),
    "a method that is no token": post(line="GE(T / HTTP/1.1"),
    "a method in small letters": post(line="get / HTTP/1.1"),
    "absolute form, the same host": post(line="GET http://h/ HTTP/1.1"),
    "absolute form, another host": post(line="GET http://other/ HTTP/1.1"),
    "authority form": post(line="CONNECT h:443 HTTP/1.1"),
    "asterisk form": post(line="OPTIONS * HTTP/1.1"),
    "no Host": post(line="GET / HTTP/1.1", host=""),
    "two Hosts": post("Host: other", line="GET / HTTP/1.1"),
    "an empty Host": post(line="GET / HTTP/1.1", host="Host:"),
    "Host: h, other": post(line="GET / HTTP/1.1", host="Host: h, other"),
    "two Authorizations": post("Authorization: a", "Authorization: b", line="GET / HTTP/1.1"),
    "Expect: something": post("Expect: something", line="GET / HTTP/1.1"),
    "Upgrade: websocket": post("Upgrade: websocket", "Connection: upgrade", line="GET / HTTP/1.1"),
    "a head of 40,000 bytes": post("X: " + "a" * 40_000),
    "300 fields": post(*["X: y"] * 300),
}


class Plain:
    """An application that adds nothing to what the server reads."""

    def read_head(self, head: ServerRequestHead, _repeated: Sequence[str]) -> ServerRequestHead | BadRequest:
        return head

    def admit(self, _connection: CallerConnection) -> BadRequest | None:
        return None

    def screen(self, exchange: ServerExchange[ServerRequestHead], length: int | None) -> None: ...

    def handle(self, _exchange: ServerExchange[ServerRequestHead]) -> None:
        return None

    def error_parts(self, _problem: BadRequest, _id: bytes) -> Sequence[bytes]:
        return ()

    def failure(self) -> BadRequest:
        return BadRequest("")

    def refused(self, problem: BadRequest) -> None: ...

    def tick(self, now: float) -> None: ...


def ours(sent: bytes) -> str:
    """Return what byleave makes of a request, after which the client closes."""
    end = sent.find(END) + len(END)
    if end < len(END):
        return "refused: the head has no end" if end_of_head(sent) else "refused: it breaks off"
    if end > LONGEST_HEAD:
        return "refused: the head is too long"
    read = read_head(sent[:end], Plain())
    if isinstance(read, BadRequest):
        return f"refused: {read.problem}"
    head, framing = read
    body, whole = body_reader(framing), b""
    rest = sent[end:]
    try:
        if not body.done:
            whole = body.take(rest)
            rest = body.rest
        body.end()
    except MalformedBodyError as problem:
        return f"refused: {problem}"
    return accepted(head.method, head.path, whole, rest)


def theirs(sent: bytes) -> str:
    """Return what h11 makes of a request, after which the client closes."""
    connection = h11.Connection(h11.SERVER)
    request, body = None, b""
    try:
        connection.receive_data(sent)
        connection.receive_data(b"")
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                method, target = request.method.decode("latin-1"), request.target.decode("latin-1")
                return accepted(method, target, body, connection.trailing_data[0])
            else:
                return "refused: it breaks off"
    except h11.RemoteProtocolError as problem:
        return f"refused: {re.split(r'[:({]', str(problem))[0].strip()}"


def accepted(method: str, target: str, body: bytes, rest: bytes) -> str:
    more = f", {len(rest)} bytes behind it" if rest else ""
    return f"**{method} {ascii(target)[1:-1]}**, body {body.decode('latin-1')!a}{more}"


REFUSED = "refused: "
GROUPS = (
    ("byleave refuses what h11 reads", (True, False), ("request", "why byleave refuses it", "what h11 reads")),
    ("Both refuse", (True, True), ("request", "why byleave refuses it", "why h11 refuses it")),
    ("Both read the same", (False, False), ("request", "byleave", "h11")),
)


def table() -> str:
    """Return the tables as the record has them: one for each way in which the two readers agree or differ."""
    answers = [(name, ours(sent), theirs(sent)) for name, sent in REQUESTS.items()]
    parts = []
    for title, refusing, head in GROUPS:
        rows = [
            (name, *both) for name, *both in answers if tuple(each.startswith(REFUSED) for each in both) == refusing
        ]
        lines = [_row(head), "|---|---|---|", *(_row([cell.removeprefix(REFUSED) for cell in row]) for row in rows)]
        parts.append(f"### {title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def with_table(text: str) -> str:
    before, _begin, rest = text.partition(BEGIN)
    _old, _finish, after = rest.partition(FINISH)
    return f"{before}{BEGIN}\n\n{table()}\n\n{FINISH}{after}"


if __name__ == "__main__":
    RECORD.write_text(with_table(RECORD.read_text()))
    sys.stdout.write(f"{RECORD} is written\n")
