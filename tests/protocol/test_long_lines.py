"""One long line costs a bounded multiple of its size, in memory and in time, whatever it holds."""

import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

import amounts
from byleave.protocol.lines import MOST_VALUES, LineBuffer, has_too_many_values

pytestmark = pytest.mark.long

MEGABYTE = 1 << 20
RUN = """
import atexit, os, runpy, sys
def most():
    with open("/proc/self/status") as file:
        sys.stderr.write("\\n" + next(line for line in file if line.startswith("VmHWM")))
atexit.register(most)
leave = os._exit
os._exit = lambda code: (most(), sys.stderr.flush(), leave(code))
runpy.run_module("byleave", run_name="__main__", alter_sys=True)
"""


def event(**told: object) -> bytes:
    known = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/", "tool_name": "mcp__s__t"}
    return json.dumps({**known, "tool_input": told}).encode()


def request(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


CALL = {"toolCallId": "t", "rawInput": {"command": "ls", "more": "@"}}
# How byleave is started, and a line with a mark where the long value goes.
DOORS: dict[str, tuple[list[str], bytes]] = {
    "batch": (
        ["check", "--batch"],
        b'{"id":1,"action":{"kind":"call","server":"s","tool":"t","arguments":{"a":"@"}}}\n',
    ),
    "the policy of a batch": (
        ["check", "--batch"],
        b'{"id":1,"policy":{"x":"@"},"action":{"kind":"other","name":"x"}}\n',
    ),
    "hook": (["hook", "claude-code"], event(a="@")),
    "mcp": (["mcp", "--stdio"], request("tools/call", name="s__t", arguments={"a": "@"})),
    "acp": (
        ["acp", "--", "cat"],
        request("session/request_permission", sessionId="s", toolCall=CALL, options=[]),
    ),
}
VALUES = {
    "text": lambda size: b'"' + b"a" * size + b'"',
    "escapes": lambda size: b'"' + b"\\u0061" * (size // 6) + b'"',
    "commas in a text": lambda size: b'"' + b"," * size + b'"',
    "empty lists": lambda size: b"[" + b"[]," * (size // 3) + b"1]",
    "numbers": lambda size: b"[" + b"1," * (size // 2) + b"1]",
    "empty texts": lambda size: b"[" + b'"",' * (size // 3) + b"1]",
}


def cost(door: str, value: str, size: int, root: Path) -> tuple[float, float]:
    """Return how many bytes a process needs for each byte of its line, beside what it needs anyway, and how long."""
    words, line = DOORS[door]
    used, took = [], 0.0
    for wanted in (10, size):
        before = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", RUN, *words],
            input=line.replace(b'"@"', VALUES[value](wanted)),
            capture_output=True,
            cwd=root,
            check=False,
            env={**os.environ, "BYLEAVE_SERVICE": "off"},
            timeout=100,
        )
        took = time.monotonic() - before
        used.append(int(done.stderr.rpartition(b"VmHWM:")[2].split()[0]) * 1024)
    return (used[1] - used[0]) / size, took


@pytest.mark.sampled(3)
@pytest.mark.parametrize("value", ["text", "empty lists"])
@pytest.mark.parametrize("door", DOORS)
def test_a_long_line_costs_at_most_ten_times_its_size(door: str, value: str, tmp_path: Path) -> None:
    memory, _took = cost(door, value, amounts.of(24, 8) * MEGABYTE, tmp_path)
    assert memory < 10


@amounts.slow
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("door", DOORS)
def test_a_line_of_100_megabytes_costs_at_most_ten_times_its_size(door: str, value: str, tmp_path: Path) -> None:
    memory, took = cost(door, value, 100 * MEGABYTE, tmp_path)
    assert (memory < 10, took < 60) == (True, True)


@pytest.mark.parametrize("piece", [1 << 10, 1 << 16])
def test_a_line_that_comes_in_small_pieces_is_held_once(piece: int) -> None:
    size = 8 * MEGABYTE
    buffer = LineBuffer(limit=size)
    data = b"a" * piece
    tracemalloc.start()
    for _ in range(size // piece):
        assert list(buffer.feed(data)) == []
    (line,) = buffer.feed(b"\n")
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (line == b"a" * size, most < 4 * size) == (True, True)


# How a line begins, what is repeated in it and how often, how it ends, and whether it holds too many values.
DENSE = [
    (b"[", b"[],", MOST_VALUES, b"1]", True),
    (b"[", b"1,", 2 * MOST_VALUES, b"1]", True),
    (b"[", b'"",', 2 * MOST_VALUES, b"1]", True),
    (b'["', b",", 3 * MOST_VALUES, b'"]', False),
    (b'["', b'\\",', 2 * MOST_VALUES, b'"]', False),
    (b'["\\\\",', b"1,", 3 * MOST_VALUES, b"1]", True),
    (b'["', b"[", 5 * MOST_VALUES, b"", True),  # a text that does not end is no JSON either
    (b"", b"a", 5 * MOST_VALUES, b"", False),
    (b"[", b"[],", 1, b"[]]", False),
]


@pytest.mark.parametrize(("begin", "repeated", "times", "end", "expect"), DENSE)
def test_values_are_counted_outside_of_texts(
    begin: bytes, repeated: bytes, times: int, end: bytes, *, expect: bool
) -> None:
    assert has_too_many_values(begin + repeated * times + end) is expect
