"""Lines of a tool, read at speed, and long ones with care."""

import json
import subprocess
import sys
from typing import Any

import pytest

from byleave.protocol.json_codec import PLAIN
from byleave.protocol.jsonrpc import Malformed, Request, read_message
from byleave.toolhost.codec import TOOLS

LONG = "x" * (2 << 20)
MESSAGES: dict[str, dict[str, Any]] = {
    "a write": {"id": 1, "method": "fs.write", "params": {"path": "a", "content": LONG, "exclusive": True}},
    "a write by its other name": {"id": "x", "method": "write", "params": {"path_b64": "YQ==", "content": LONG}},
    "a request with a body": {
        "id": 1.5,
        "method": "http.post",
        "params": {"url": "http://a/", "headers": [{"name": "A", "value": "b"}], "body": LONG, "encoding": None},
    },
    "a result": {"method": "result", "params": {"content": [{"type": "text", "text": LONG, "more": [1]}]}},
    "a message without parameters": {"id": None, "method": LONG},
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_a_long_line_says_what_it_says(message: dict[str, Any]) -> None:
    whole = {"jsonrpc": "2.0", **message}
    assert TOOLS.decode(json.dumps(whole).encode()) == whole


def test_of_a_long_write_only_what_it_needs_is_read() -> None:
    params = {"path": "a", "content": LONG, "other": [[]] * 10}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "fs.write", "params": params}).encode()
    assert TOOLS.decode(line)["params"] == {"path": "a", "content": LONG}


# How a line begins, what is repeated in it and how often, and how it ends: whole, they would stay in memory.
LONG_FOR_NOTHING = {
    "params": (b'{"jsonrpc": "2.0", "id": 1, "method": "fs.read", "params": [', b"[],", 6 << 20, b"1]}"),
    "params of few values": (b'{"id": 1, "method": "fs.read", "params": {"path": "', b"x", 17 << 20, b'"}}'),
    "headers": (b'{"id": 1, "method": "http.post", "params": {"headers": [', b"[],", 1 << 20, b"1]}}"),
    "content that is no text": (b'{"id": 1, "method": "fs.write", "params": {"content": [', b"[],", 1 << 20, b"1]}}"),
    "a result": (b'{"id": 1, "result": [', b"[],", 6 << 20, b"1]}"),
    "half a line": (b'{"id": 1, "method": "fs.write", "params": {"content": "', b"x", 2 << 20, b""),
    "a list": (b"[", b"[],", 1 << 20, b"1]"),
}


@pytest.mark.parametrize("parts", LONG_FOR_NOTHING.values(), ids=LONG_FOR_NOTHING.keys())
def test_what_is_long_for_nothing_is_refused(parts: tuple[bytes, bytes, int, bytes]) -> None:
    begin, repeated, times, end = parts
    line = begin + repeated * times + end
    with pytest.raises(ValueError):
        TOOLS.decode(line)


def test_a_name_given_twice_in_a_long_write_is_refused_under_its_id() -> None:
    line = b'{"jsonrpc":"2.0","id":7,"method":"fs.write","params":{"path":"a","content":"%b","path":"b"}}' % (
        b"x" * (2 << 20)
    )
    read = read_message(line, TOOLS)
    assert isinstance(read, Malformed)
    assert (read.id, read.problem) == (7, "the message gives a name twice in one object")


def test_unknown_members_of_a_long_message_are_not_read() -> None:
    line = b'{"jsonrpc":"2.0","id":7,"method":"fs.write","other":[%b1],"params":{"path":"a"}}' % (b"[]," * (1 << 20))
    read = read_message(line, TOOLS)
    assert isinstance(read, Request)
    assert read.params == {"path": "a"}


def test_a_line_of_brackets_takes_no_more_memory_than_it_is_long() -> None:
    code = (
        "from byleave.protocol.jsonrpc import read_message\n"
        "from byleave.toolhost.codec import TOOLS\n"
        'line = b\'{"id": 1, "method": "fs.grep", "params": {"a": [\' + b"[]," * (20 << 20) + b"1]}}"\n'
        "assert read_message(line, TOOLS).problem == 'the message holds more than 2000000 values'\n"
        "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert int(done.stdout) < 400 << 10  # kilobytes; read as a whole it takes more than a gigabyte


@pytest.mark.parametrize("text", ["plain", "\ud800", "\udcff and \u00e9", "\x00"])
def test_every_text_that_one_codec_writes_the_other_reads(text: str) -> None:
    assert TOOLS.decode(PLAIN.encode({"a": text})) == {"a": text} == PLAIN.decode(TOOLS.encode({"a": text}))
