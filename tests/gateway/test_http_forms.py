"""Requests as an attacker writes them: each form gets the one answer that it deserves, and never a caller's place."""

import asyncio
import re
from hashlib import sha256

import pytest

from fakes.mcp_front import Scene, run, scene

TOKENS = {name: ("sha256:" + sha256(f"t-{name}".encode()).hexdigest(),) for name in ("a", "b")}
PROOF = "Authorization: Bearer t-a"
OURS = "Host: 127.0.0.1:{port}"

# What is sent (the first line, the fields, the body), and the statuses that come back before the connection ends.
FORMS: dict[str, tuple[str, tuple[str, ...], str, list[int]]] = {
    "a plain request": ("GET /metrics", (OURS,), "", [200]),
    "a token in the address": ("GET /metrics?access_token=t-a", ("Host: x",), "", [401]),
    "a token in a cookie": ("GET /metrics", ("Host: x", "Cookie: token=t-a"), "", [401]),
    "a token for a proxy": ("GET /metrics", ("Host: x", "Proxy-Authorization: Bearer t-a"), "", [401]),
    "a token under a similar name": ("GET /metrics", ("Host: x", "X-Authorization: Bearer t-a"), "", [401]),
    "a token in a list": ("GET /metrics", (OURS, f"{PROOF}, Bearer t-b"), "", [401]),
    "an empty proof": ("GET /metrics", (OURS, "Authorization:"), "", [401]),
    "two proofs": ("GET /metrics", (OURS, PROOF, "Authorization: Bearer t-b"), "", [400]),
    "an absolute address": ("GET http://127.0.0.1:{port}/metrics", (OURS,), "", [400]),
    "an address of another host": ("GET http://evil.example/metrics", (OURS, PROOF), "", [400]),
    "the whole server": ("OPTIONS *", (OURS,), "", [400]),
    "a tunnel": ("CONNECT 127.0.0.1:22", (OURS, PROOF), "", [400]),
    "an echo of what was sent": ("TRACE /mcp", (OURS, PROOF), "", [405]),
    "a change to HTTP/2": ("GET /metrics", (OURS, "Upgrade: h2c", "Connection: Upgrade, close"), "", [200]),
    "a change to a websocket": ("GET /mcp", (OURS, "Upgrade: websocket", "Connection: Upgrade"), "", [400]),
    "an escaped path": ("GET /%6detrics", (OURS,), "", [404]),
    "a path that climbs": ("GET /health/../metrics", (OURS,), "", [404]),
    "a path with parameters": ("GET /metrics;x=1", (OURS,), "", [404]),
    "a path with a null": ("GET /metrics%00", (OURS,), "", [404]),
    "a backslash": ("GET /health\\..\\metrics", (OURS,), "", [404]),
    "another method in a field": ("GET /metrics", (OURS, "X-HTTP-Method-Override: DELETE"), "", [401]),
    "another path in a field": ("GET /health", ("Host: x", "X-Original-URL: /metrics"), "", [200]),
    "a host in a list": ("GET /metrics", ("Host: 127.0.0.1:{port}, evil.example",), "", [401]),
    "a host behind a name": ("GET /metrics", ("Host: evil.example@127.0.0.1:{port}",), "", [401]),
    "a host as a number": ("GET /metrics", ("Host: 2130706433:{port}",), "", [401]),
    "a host cut short": ("GET /metrics", ("Host: 127.1:{port}",), "", [401]),
    "a host in octal": ("GET /metrics", ("Host: 0177.0.0.1:{port}",), "", [401]),
    "a host of IPv4 in IPv6": ("GET /metrics", ("Host: [::ffff:127.0.0.1]:{port}",), "", [401]),
    "a host of every address": ("GET /metrics", ("Host: 0.0.0.0:{port}",), "", [401]),
    "a host of every address of IPv6": ("GET /metrics", ("Host: [::]:{port}",), "", [401]),
    "a host that ends in a dot": ("GET /metrics", ("Host: localhost.:{port}",), "", [401]),
    "a name that leads here": ("GET /metrics", ("Host: rebound.example:{port}",), "", [401]),
    "a host on another port": ("GET /metrics", ("Host: localhost:1",), "", [401]),
    "a host without an end": ("GET /metrics", ("Host: [::1:{port}",), "", [401]),
    "no host in HTTP/1.0": ("GET /metrics HTTP/1.0", (), "", [401]),
    "no host": ("GET /metrics", (), "", [400]),
    "a folded host": ("GET /metrics", (OURS, " evil.example"), "", [400]),
    "an origin without a name": ("GET /metrics", (OURS, PROOF, "Origin: null"), "", [403]),
    "an empty origin": ("GET /metrics", (OURS, PROOF, "Origin:"), "", [403]),
    "an origin of two": ("GET /metrics", (OURS, PROOF, "Origin: http://localhost http://evil.example"), "", [403]),
    "an origin in another case": ("GET /metrics", (OURS, PROOF, "oRiGiN: HTTP://EVIL.EXAMPLE"), "", [403]),
    "an origin with our name before it": ("GET /metrics", (OURS, "Origin: http://localhost.evil.example"), "", [403]),
    "an origin with a user": ("GET /metrics", (OURS, "Origin: http://localhost:1@evil.example"), "", [403]),
    "an origin of another scheme": ("GET /metrics", (OURS, "Origin: ftp://localhost"), "", [403]),
    "an origin in IPv4 in IPv6": ("GET /metrics", (OURS, "Origin: http://[::ffff:127.0.0.1]"), "", [403]),
    "no length, but chunks of another name": ("POST /mcp", (OURS, "Transfer-Encoding: xchunked"), "", [400]),
    "chunks, and then not": ("POST /mcp", (OURS, "Transfer-Encoding: chunked, identity"), "0\r\n\r\n", [400]),
    "chunks twice": ("POST /mcp", (OURS, *["Transfer-Encoding: chunked"] * 2), "0\r\n\r\n", [400]),
    "chunks behind a control character": ("POST /mcp", (OURS, "Transfer-Encoding:\x0bchunked"), "0\r\n\r\n", [400]),
    "chunks in HTTP/1.0": ("POST /mcp HTTP/1.0", (OURS, "Transfer-Encoding: chunked"), "0\r\n\r\n", [400]),
    "a length in hex": ("POST /mcp", (OURS, "Content-Length: 0x5"), "hello", [400]),
    "a length with a line in it": ("POST /mcp", (OURS, "Content-Length: 1_0"), "hello", [400]),
    "a length below nothing": ("POST /mcp", (OURS, "Content-Length: -1"), "hello", [400]),
    "a length in other digits": ("POST /mcp", (OURS, "Content-Length: \xb2"), "hello", [400]),
    "a length that is empty": ("POST /mcp", (OURS, "Content-Length:"), "hello", [400]),
    "an empty line first": ("\r\nGET /metrics", (OURS,), "", [400]),
    "no request at all": ("\x16\x03\x01\x02", (), "", [400]),
    "a request inside of a body that is refused": (
        "POST /mcp",
        ("Host: x", "Content-Length: 300000"),
        "GET /metrics HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n",
        [401],
    ),
    "a request behind one that is refused for its form": (
        "POST /mcp",
        (OURS, "Content-Length: 5", "Transfer-Encoding: chunked"),
        "0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n",
        [400],
    ),
    "a session that is nobody's": ("DELETE /mcp", (OURS, PROOF, "Mcp-Session-Id: ' OR 1=1"), "", [404]),
    "a session by a stranger": ("DELETE /mcp", ("Host: x", "Mcp-Session-Id: {session}"), "", [401]),
    "a session of another agent": (
        "DELETE /mcp",
        (OURS, "Authorization: Bearer t-b", "Mcp-Session-Id: {session}"),
        "",
        [404],
    ),
    "a session of another agent in the address": (
        "POST /messages?session_id={session}",
        (OURS, "Authorization: Bearer t-b", "Content-Length: 2", "Content-Type: application/json"),
        "{{}}",
        [404],
    ),
}


async def statuses(opened: Scene, data: bytes) -> list[int]:
    client = await opened.client()
    await client.send(data)
    found = b""
    async with asyncio.timeout(10):
        try:
            while piece := await client.reader.read(1 << 16):
                found += piece
        except ConnectionResetError:
            pass
    return [int(each) for each in re.findall(rb"HTTP/1\.1 ([0-9]+) ", found)]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_gets_its_one_answer(form: str) -> None:
    line, fields, body, expected = FORMS[form]

    async def scenario() -> None:
        async with scene(tokens=TOKENS) as opened:
            client = await opened.client()
            session = await client.initialize(authorization="Bearer t-a")
            first = line if line.endswith("HTTP/1.0") else f"{line} HTTP/1.1"
            last = () if any(each.startswith("Connection") for each in fields) else ("Connection: close",)
            head = "\r\n".join([first, *last, *fields, "", ""])
            whole = head + body if "{" not in head + body else (head + body).format(port=opened.port, session=session)
            assert await statuses(opened, whole.encode("latin-1")) == expected
            echo = b'{"jsonrpc":"2.0","id":5,"method":"echo"}'
            still = await client.post(echo, mcp_session_id=session, authorization="Bearer t-a")
            assert still.status == 200, "the session is there as before"

    run(scenario)
