"""Lines that are looked at many at a time: whatever passes so, the relay would pass on line by line, unheard."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.acp.unreadable_lines import has_inner_ends, kind_of_update
from byleave.acp.usual_lines import are_notifications, are_pieces_of_text
from byleave.protocol.json_fast import FAST
from byleave.protocol.json_members import repeats_a_name
from byleave.protocol.jsonrpc import MOST_DEPTH, Envelope, read_envelope
from fakes.acp_talk import Talk

KINDS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
HEARD = frozenset({"initialize", "session/prompt"})
ATTACK = b'{"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/x","content":""}}'
CALL = b'{"sessionUpdate":"tool_call","toolCallId":"c","kind":"execute","title":"x"}'
# What is put into lines, or in the place of something there.
SCRAPS = (
    b"\n", b"\r", b" ", b"\t", b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"0", b"1e999", b"NaN", b"-0", b"null",
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"\\/", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8",
    b'"id":1,', b',"id":1', b'"method":"x",', b',"method":"fs/write_text_file"', b',"params":{"update":' + CALL + b"}",
    b',"update":' + CALL, b',"sessionUpdate":"tool_call"', b'"sessionUpdate":"tool_call",', b'"Method":"x",',
    b',"m\\u0065thod":"fs/read_text_file"', b"tool_call", b"fs/write_text_file", b"\n" + ATTACK + b"\n", ATTACK, CALL,
    b"[" * 600 + b"]" * 600, b"9" * 400, b"session/update", b"initialize", b"agent_message_chunk", b"2.0", b"params",
)  # fmt: skip


def piece(text: str = "a word", *, kind: str = KINDS[0], session: str = "s") -> bytes:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return line_of({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})


def line_of(message: object) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def notification(method: str = "_x", params: object = None) -> bytes:
    return line_of({"jsonrpc": "2.0", "method": method, "params": {} if params is None else params})


def changed(lines: bytes, chance: Random) -> bytes:
    """Return lines with something put in, taken out, doubled or exchanged."""
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(lines) + 1)
        end = min(len(lines), start + chance.choice((0, 0, 1, 1, 2, 10, 60)))
        put = chance.choice((*SCRAPS, lines[start:end] * 2, lines[-30:], b""))
        lines = lines[:start] + put + lines[end:]
    return lines


def read_alike(line: bytes) -> Envelope:
    """Return a line as the one reader reads it, which has to find nothing odd in it."""
    read = read_envelope(line, FAST)
    assert isinstance(read, Envelope)
    assert not has_inner_ends(line)
    return read


def check_pieces(lines: bytes) -> bool:
    """Return whether lines are taken for pieces of text; then they are."""
    if not are_pieces_of_text(lines):
        return False
    assert lines.endswith(b"\n")
    for line in lines[:-1].split(b"\n"):
        read = read_alike(line + b"\n")
        assert (read.method, read.id, kind_of_update(read) in KINDS) == ("session/update", None, True)
        assert not repeats_a_name(line.decode("utf-8", "surrogateescape"))
    return True


def check_notifications(lines: bytes) -> bool:
    if not are_notifications(lines, heard=HEARD):
        return False
    assert lines.endswith(b"\n")
    for line in lines[:-1].split(b"\n"):
        read = read_alike(line + b"\n")
        assert read.id is None
        assert read.method is not None
        assert read.method not in HEARD
    return True


@settings(max_examples=amounts.of(3000, 400))
@given(st.integers(0, 2**32).map(Random), st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_what_passes_among_many_is_what_the_reader_passes(chance: Random, texts: list[str]) -> None:
    pieces = b"".join(piece(text, kind=chance.choice(KINDS)) for text in texts)
    assert check_pieces(pieces)
    others = b"".join(notification("_x", {"text": text}) for text in texts)
    assert check_notifications(others)
    for _ in range(8):
        check_pieces(changed(pieces, chance))
        check_notifications(changed(others, chance))


ODD = {
    "a message behind a line end in a part": piece().replace(b'"a word"', b"[\n" + ATTACK + b"\n]"),
    "a message behind a line end in a number's place": piece().replace(b'"a word"', b"\n" + ATTACK),
    "a call behind another update": piece()[:-3] + b',"update":' + CALL + b"}}\n",
    "another kind behind the first": piece().replace(b"}}}}", b'},"sessionUpdate":"tool_call"}}}'),
    "another kind before it": piece().replace(b'{"sessionUpdate"', b'{"sessionUpdate":"tool_call","sessionUpdate"'),
    "an id": piece().replace(b',"method"', b',"id":1,"method"'),
    "an id at the end": piece()[:-2] + b',"id":1}\n',
    "a second method": piece()[:-2] + b',"method":"fs/write_text_file"}\n',
    "a second method with an escape": piece()[:-2] + b',"m\\u0065thod":"fs/write_text_file"}\n',
    "a method in another case": piece()[:-2] + b',"Method":"fs/write_text_file"}\n',
    "a carriage return": piece().replace(b",", b",\r", 1),
    "a carriage return at the end": piece()[:-1] + b"\r\n",
    "a byte order mark": b"\xef\xbb\xbf" + piece(),
    "blanks": piece().replace(b":", b": "),
    "an escape in a name": piece().replace(b"update", b"upd\\u0061te"),
    "a batch": b"[" + piece()[:-1] + b"]\n",
    "two messages in one line": piece()[:-1] + piece(),
    "an empty line": piece() + b"\n",
    "no line end": piece()[:-1],
    "a part that is nested deeply": piece().replace(b'"a word"', b"[" * 600 + b"]" * 600),
    "a number that JSON does not have": piece().replace(b'"a word"', b"NaN"),
    "bytes in a name that are no UTF-8": piece().replace(b'"s"', b'"\xff"'),
    "half of a pair": piece().replace(b"a word", b"\\ud800"),
    "another version": piece().replace(b"2.0", b"1.0"),
    "a request among them": piece() + ATTACK + b"\n" + piece(),
    "a request behind them": piece() + ATTACK + b"\n",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_line_is_left_to_the_relay(name: str) -> None:
    for lines in (ODD[name], piece() + ODD[name], ODD[name] + piece()):
        assert not are_pieces_of_text(lines)
    odd = ODD[name].replace(b"session/update", b"_x")
    assert not are_notifications(odd, heard=HEARD) or check_notifications(odd)


@pytest.mark.parametrize(
    "line",
    [
        notification("initialize"),
        notification("session/prompt"),
        notification("_x").replace(b"{}", b"null"),
        notification("_x").replace(b"{}", b'"initialize protocolVersion"'),
        notification("_x").replace(b"{}", b"[\n" + ATTACK + b"\n]"),
        notification("_x").replace(b"{}", b"[" * MOST_DEPTH + b"]" * MOST_DEPTH),
        notification("_x").replace(b"}}", b'},"method":"initialize"}'),
        notification("_x").replace(b'"_x"', b'"\\u0069nitialize"'),
    ],
)
def test_a_line_of_the_editor_that_matters_is_left_to_the_relay(line: bytes) -> None:
    assert are_notifications(notification(), heard=HEARD)
    for lines in (line, notification() + line, line + notification()):
        assert not are_notifications(lines, heard=HEARD)


def test_an_editor_that_ends_a_turn_is_heard_among_others(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    other, cancel = notification("_x"), notification("session/cancel", {"sessionId": "s"})
    assert talk.relay.passes_from_client(other * 3)
    for method in ("session/new", "session/load", "session/resume", "session/fork", "session/prompt", "initialize"):
        assert not talk.relay.passes_from_client(other + notification(method) + other)
    assert not talk.relay.passes_from_client(other + cancel + other)


def test_nothing_passes_where_no_version_was_agreed_on(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    assert talk.relay.passes_from_agent(piece() * 2)
    talk.client({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"protocolVersion": 1}})
    talk.agent({"jsonrpc": "2.0", "id": 5, "result": {"protocolVersion": 9}})
    assert not talk.relay.passes_from_agent(piece() * 2)
    assert not talk.relay.passes_from_client(notification() * 2)


def test_a_long_text_is_read_once_and_others_are_left_to_the_relay() -> None:
    long = 100_000
    assert are_pieces_of_text(piece("a word " * long))
    assert not are_pieces_of_text(piece().replace(b'"a word"', b'["a"' + b',"b"' * long + b"]"))
    assert not are_notifications(notification("_x", {"text": "x" * long}), heard=HEARD)
