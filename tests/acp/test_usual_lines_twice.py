"""Two relays hear the same: one lets usual lines pass many at a time, the other looks at each of them.

Both say the same to either side, and know the same afterwards, whatever came and however it was cut.
"""

import json
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import amounts
from byleave.acp.proxy import AcpProxy
from byleave.acp.relay import TO_AGENT, TO_CLIENT
from fakes.acp_talk import Talk, answer, update

KINDS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk", "tool_call_update", "plan")
METHODS = (
    "_x",
    "",
    "session/cancel",
    "session/prompt",
    "session/update",
    "$/cancel_request",
    "Initialize",
    "_x/fs/read",
)
TEXTS = (
    b'"a word"', b'""', b'"\\u0041\\n"', b'"\xc3\xa4"', b'"\xff"', b'"\x00"', b'"\xc2\x85\xe2\x80\xa8"', b'"\\ud800"',
    b"null", b"-0", b"1e5", b'{"a":1,"a":2}', b"[" * 499 + b"]" * 499, b"[" * 500 + b"]" * 500, b"[" * 501 + b"]" * 501,
    b'"protocolVersion"', b'"fs/write_text_file"', b'"\t"', b'"\\\\"', b'"\\q"', b"01",
    b'{"sessionUpdate":"tool_call","toolCallId":"c"}',
)  # fmt: skip
SCRAPS = (
    b"\n", b"\r", b"\r\n", b" ", b"\t", b'"', b"\\", b",", b"{", b"}", b"[", b"]", b"\x00", b"\xff", b"\xef\xbb\xbf",
    b"\xe2\x80\xa8", b"0", b',"id":1', b'"id":1,', b',"result":{}', b',"method":"fs/write_text_file"',
    b',"M\\u0065thod":"x"', b"\\u0061", b"tool_call",
)  # fmt: skip


class Wire:
    """What one side is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def add(self, data: bytes | memoryview) -> None:
        self.sent.append(bytes(data))


class Side:
    """A relay behind the proxy's own way to ask it, with nothing read from or written to a pipe."""

    def __init__(self, base: Path, *, quick: bool) -> None:
        base.mkdir(parents=True)
        self.talk = Talk(base)
        self.base = str(base).encode()
        self._quick = quick
        self._wires = {TO_AGENT: Wire(), TO_CLIENT: Wire()}
        self._proxy = AcpProxy.__new__(AcpProxy)
        self._proxy._lanes = self._wires  # type: ignore[assignment] # noqa: SLF001 -- what the proxy writes to
        self.unread = 0

    def say(self, lines: bytes, *, by_agent: bool) -> dict[str, bytes]:
        """Hand over whole lines; return all that each side is sent."""
        relay = self.talk.relay
        decide = relay.from_agent if by_agent else relay.from_client
        passes = relay.passes_from_agent if by_agent else relay.passes_from_client
        self.unread += passes(lines)
        ahead = self._wires[TO_CLIENT if by_agent else TO_AGENT]
        tokens = count()
        with patch("secrets.token_hex", lambda _size: str(next(tokens))):
            self._proxy._decide(lines, decide, passes if self._quick else lambda _lines: False, ahead)  # type: ignore[arg-type] # noqa: SLF001
        said = {to: b"".join(wire.sent) for to, wire in self._wires.items()}
        for wire in self._wires.values():
            wire.sent.clear()
        return said

    def state(self) -> Any:
        """Return all that the relay knows, but for where its workspace is."""
        relay = self.talk.relay
        known = {name: value for name, value in vars(relay).items() if name not in ("_authorizer", "_log", "_now")}
        return json.loads(json.dumps(plain(known)).replace(self.base.decode(), "BASE"))

    def records(self) -> list[Any]:
        return [(each.get("event"), each.get("decision"), each.get("reason")) for each in self.talk.records()]


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as a tree of JSON: objects of the relay by their members, others by their kind."""
    if depth > 12 or value is None or isinstance(value, bool | int | float | str):
        return value if depth <= 12 else "deep"
    if isinstance(value, dict):
        return [[plain(name, depth + 1), plain(each, depth + 1)] for name, each in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(plain(each, depth + 1)) for each in value)
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value]
    if not type(value).__module__.startswith("byleave.acp"):
        return type(value).__name__
    slots: Any = getattr(value, "__struct_fields__", None) or getattr(value, "__slots__", ())
    members = {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})
    return plain(
        {name: each for name, each in members.items() if name not in ("_authorizer", "_now", "_place_at")}, depth
    )


def piece(chance: Random) -> bytes:
    session = chance.choice((b"s", b"s", b"other", b"\xc3\xa4", b"\\u0073", b""))
    kind = chance.choice(KINDS[:3] if chance.random() < 0.8 else KINDS).encode()
    text = chance.choice(TEXTS)
    content = b'"content":{"type":"text","text":' + text + b"}"
    parts = [b'"sessionUpdate":"' + kind + b'"', content]
    if chance.random() < 0.1:
        parts.reverse()
    params = b'{"sessionId":"' + session + b'","update":{' + b",".join(parts) + b"}}"
    return b'{"jsonrpc":"2.0","method":"session/update","params":' + params + b"}\n"


def of_agent(chance: Random, talk: Talk) -> bytes:
    number = chance.randrange(4)
    others = (
        talk.permission(number, call=f"c{number}"),
        talk.command("ls", number),
        talk.command("rm x", number),
        talk.write("src/a", number + 10),
        talk.write("secret/a", number + 10),
        update(
            f"c{number}", kind="execute", rawInput={"command": "ls"}, status=chance.choice(("pending", "completed"))
        ),
        {"jsonrpc": "2.0", "id": number, "result": {"sessionId": "s2", "protocolVersion": 1, "stopReason": "end_turn"}},
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}},
        {"jsonrpc": "2.0", "method": "_x", "params": {}},
    )
    return piece(chance) if chance.random() < 0.7 else json.dumps(chance.choice(others)).encode() + b"\n"


def of_editor(chance: Random, talk: Talk) -> bytes:
    number = chance.randrange(4)
    if chance.random() < 0.6:
        method = chance.choice(("_x", "_x", "_y", chance.choice(METHODS)))
        params = chance.choice((b"{}", b"[]", b'{"sessionId":"s"}', b'{"a":1,"a":2}', b'"x"', b"null", b'["\xff"]'))
        return b'{"jsonrpc":"2.0","method":"' + method.encode() + b'","params":' + params + b"}\n"
    others = (
        answer("yes", number),
        answer("never", number),
        answer(None, number),
        {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}},
        {"jsonrpc": "2.0", "id": number, "method": "session/new", "params": {"cwd": talk.root, "mcpServers": []}},
        {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}},
    )
    return json.dumps(chance.choice(others)).encode() + b"\n"


def changed(lines: bytes, chance: Random) -> bytes:
    """Return lines with something put in, taken out or doubled; mostly with as many bytes as before."""
    start = chance.randrange(len(lines))
    put = chance.choice((*SCRAPS, lines[start : start + 9]))
    end = start + (len(put) if chance.random() < 0.7 else chance.choice((0, 1, 5)))
    return lines[:start] + put + lines[end:]


def test_whatever_passes_unread_both_relays_say_and_know_the_same(tmp_path: Path) -> None:
    unread = 0
    for seed in range(amounts.of(100, 4)):
        chance = Random(seed)  # noqa: S311 -- no secret: the same in every run
        sides = [Side(tmp_path / f"{seed}-{int(quick)}", quick=quick) for quick in (True, False)]
        for _ in range(60):
            by_agent = chance.random() < 0.7
            make = of_agent if by_agent else of_editor
            lines = b"".join([make(chance, sides[0].talk) for _ in range(chance.choice((1, 1, 2, 3, 8)))])
            if chance.random() < 0.4:
                lines = changed(lines, chance)
            quick, slow = (
                {to: data.replace(side.base, b"BASE") for to, data in side.say(theirs, by_agent=by_agent).items()}
                for side in sides
                if (theirs := lines.replace(sides[0].base, side.base))
            )
            assert quick == slow, lines
            assert sides[0].state() == sides[1].state(), lines
        assert sides[0].records() == sides[1].records()
        unread += sides[0].unread
        assert sides[0].unread == sides[1].unread
    assert unread
