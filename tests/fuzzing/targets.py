"""What is fuzzed in this process: readers of bytes that others send. Each target raises where a promise is broken."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from byleave.core.action import parse_action
from byleave.errors import ByleaveError, ConfigErrors
from byleave.policy.load import Workspace
from byleave.policy.parse import parse_file
from byleave.protocol.http_body import ChunkedBody, MalformedBodyError
from byleave.protocol.http_head import BadHead, read_request, read_response, request_head
from byleave.protocol.json_codec import PLAIN
from byleave.protocol.jsonrpc import Malformed, Request, read_message, write_request
from byleave.protocol.sse import EventReader
from byleave.shell.reader import read_command
from byleave.shell.syntax import cursor
from byleave.toolhost.codec import TOOLS

CHECKOUT = Path(__file__).parents[2]
CASES = CHECKOUT / "tests" / "cases"
Target = Callable[[bytes], None]


class BrokenPromiseError(AssertionError):
    """A reader did what it promises not to do."""


def command(data: bytes) -> None:
    """A text is read in every dialect without an error, and what is understood names every command's words."""
    text = data.decode("utf-8", "surrogateescape")
    for dialect in (cursor.BASH, cursor.POSIX, cursor.ZSH):
        reading = read_command(text, dialect=dialect)
        bare = [each for each in reading.commands if not (each.words or each.assignments or each.redirects)]
        if reading.understood and bare:
            raise BrokenPromiseError(f"{dialect}: {bare!r}")


def jsonrpc(data: bytes) -> None:
    """Both decoders find the same message; what was read can be written, and is then read as the same."""
    first, second = read_message(data, PLAIN), read_message(data, TOOLS)
    if isinstance(first, Malformed) != isinstance(second, Malformed) or type(first) is not type(second):
        raise BrokenPromiseError(f"{first!r} and {second!r}")
    if isinstance(first, Request) and first.params is not None:
        again = read_message(write_request(PLAIN, first.id, first.method, first.params).rstrip(b"\n"), PLAIN)
        if repr(again) != repr(first):
            raise BrokenPromiseError(f"{first!r} became {again!r}")


def http(data: bytes) -> None:
    """A head that is taken has one length, no line end in a field, and is read as the same after it is written."""
    request = read_request(data)
    if not isinstance(request, BadHead):
        for name, value in request.fields:
            if set("\r\n\0") & set(name + value):
                raise BrokenPromiseError(f"{name!r}: {value!r}")
        framing = request.body
        again = read_request(request_head(request, path="/", authority="host.example"))
        if isinstance(again, BadHead) or again.body != framing:
            raise BrokenPromiseError(f"{request!r} became {again!r}")
    read_response(data, "GET")
    body = ChunkedBody()
    events = EventReader(limit=1000)
    for at in range(0, len(data), 7):
        list(events.feed(data[at : at + 7]))
    try:
        for at in range(0, len(data), 7):
            body.take(data[at : at + 7])
        body.end()
    except MalformedBodyError:
        pass


def configuration(data: bytes) -> None:
    """A file is taken, or refused with an error of ours; a policy that was taken answers every action."""
    try:
        tree = parse_file(data, "byleave.toml")
    except (ByleaveError, ConfigErrors) as error:
        if "\x1b" in str(error):
            raise BrokenPromiseError(str(error)) from error
        return
    try:
        raw = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        raw = None
    if raw is None or not tree:
        return
    try:
        policy = Workspace(str(CHECKOUT)).compile_tree(raw)
    except (ByleaveError, ConfigErrors):
        return
    for action in ACTIONS:
        policy.decide(action)


ACTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "command", "command": "git push -f; rm -rf x"},
    {"kind": "update", "path": ".git/config"},
    {"kind": "url", "url": "https://example.org/x"},
    {"kind": "call", "server": "shop", "tool": "price", "arguments": {"a": 1}},
)


def action(data: bytes) -> None:
    """An action is read, or refused with an error of ours."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        parse_action(tree)
    except ByleaveError:
        return


def seeds_of_commands() -> list[bytes]:
    lines = [json.loads(line) for line in (CASES / "command_bypasses.jsonl").read_text().splitlines()[::3]]
    lines += [json.loads(line) for line in (CASES / "everyday.jsonl").read_text().splitlines()[::5]]
    return [(line.get("command") or line["action"]["command"]).encode() for line in lines]


def seeds_of_messages() -> list[bytes]:
    trees: list[Any] = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "x", "arguments": {"a": [1, 2.5, None]}},
        },
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": "x", "reason": "é\ud83d\ude00"},
        },
        {"jsonrpc": "2.0", "id": "x", "result": {"content": [{"type": "text", "text": "a" * 50}]}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no", "data": {}}},
        [{"jsonrpc": "2.0", "id": 9007199254740993, "method": "ping"}],
    ]
    return [json.dumps(tree).encode() for tree in trees]


SEEDS_OF_HEADS = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 12\r\nContent-Type: application/json\r\n\r\n",
    b"GET /mcp?x=%2e HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\nMcp-Session-Id: a\r\nConnection: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nExpect: 100-continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
    b"event: message\nid: 7\nretry: 10\ndata: {}\n\n: comment\r\rdata\r\n\r\n",
    b"CONNECT host.example:443 HTTP/1.1\r\nHost: host.example:443\r\nProxy-Authorization: Basic eA==\r\n\r\n",
)


def seeds_of_files() -> list[bytes]:
    pages = [page.read_text().split("```toml\n")[1:] for page in sorted((CHECKOUT / "docs").glob("*.md"))]
    return [block.split("```")[0].encode() for page in pages for block in page]


def seeds_of_actions() -> list[bytes]:
    return [json.dumps(each).encode() for each in ACTIONS]


TARGETS: dict[str, tuple[Target, Callable[[], list[bytes]]]] = {
    "command": (command, seeds_of_commands),
    "jsonrpc": (jsonrpc, seeds_of_messages),
    "http": (http, lambda: list(SEEDS_OF_HEADS)),
    "configuration": (configuration, seeds_of_files),
    "action": (action, seeds_of_actions),
}
os.environ.setdefault("BYLEAVE_SERVICE", "off")
