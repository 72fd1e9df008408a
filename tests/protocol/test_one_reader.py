"""Every integration reads a message alike, and both codecs do: what one refuses, all refuse."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from byleave.gateway.message import RefusedMessage, read_client_message
from byleave.protocol.json_codec import PLAIN
from byleave.protocol.json_fast import FAST, open_parts
from byleave.protocol.jsonrpc import (
    MOST_DEPTH,
    Envelope,
    Malformed,
    Message,
    RepeatedNameError,
    read_envelope,
    read_message,
)
from byleave.toolhost.codec import TOOLS

CALL = '"jsonrpc":"2.0","id":1,"method":"tools/call"'
DEEP = f"{'[' * MOST_DEPTH}{']' * MOST_DEPTH}"
REFUSED = {
    "a name given twice": f'{{{CALL},"method":"ping"}}',
    "an id given twice": '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    "an id given twice, as long as blanks would be": '{"jsonrpc":"2.0","id":1,"id":2,"method":"m","params":{}}',
    "a name given twice with an escape": f'{{{CALL},"m\\u0065thod":"ping"}}',
    "a name given twice in the params": f'{{{CALL},"params":{{"name":"a","name":"b"}}}}',
    "a name given twice far inside": f'{{{CALL},"params":{{"name":"a","arguments":{{"x":[{{"y":1,"y":1}}]}}}}}}',
    "a name in another case": f'{{{CALL},"Params":{{}}}}',
    "no version": '{"id":1,"method":"ping"}',
    "another version, in a message of a usual shape": '{"jsonrpc":"1.0","id":1,"method":"m","params":{}}',
    "another version": '{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "an id that is a fraction": '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "an id that is a fraction, in a message of a usual shape": (
        '{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"a"}}'
    ),
    "an object that holds nothing": "{}",
    "a name with a colon given twice": '{"jsonrpc":"2.0","id":1,"method":"ping","a:b":1,"a:b":2}',
    "a name given twice in an error": (
        '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"a":1,"a":2}}}'
    ),
    "an id that is too deep": f'{{"jsonrpc":"2.0","id":{DEEP},"method":"ping"}}',
    "a version that is too deep": f'{{"jsonrpc":{DEEP},"id":1,"method":"ping"}}',
    "an id that is a float": '{"jsonrpc":"2.0","id":1.0,"method":"ping"}',
    "an id that some readers round": '{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}',
    "an id that is true": '{"jsonrpc":"2.0","id":true,"method":"ping"}',
    "an id that is null": '{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "an id that is too long": f'{{"jsonrpc":"2.0","id":"{"x" * 257}","method":"ping"}}',
    "a method that is a number": '{"jsonrpc":"2.0","id":1,"method":1}',
    "a request with a result": f'{{{CALL},"result":{{}}}}',
    "params that are null": f'{{{CALL},"params":null}}',
    "params that are a text": f'{{{CALL},"params":"p"}}',
    "an answer that is an error and a result": '{"jsonrpc":"2.0","id":1,"result":{},"error":null}',
    "an error without a code": '{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}',
    "an answer without an id": '{"jsonrpc":"2.0","result":{}}',
    "a batch": f"[{{{CALL}}}]",
    "a number": "1",
    "no JSON": "ping",
    "a number out of range": f'{{{CALL},"params":{{"name":"a","arguments":{{"x":1e999}}}}}}',
    "nesting that is too deep": f'{{{CALL},"params":{{"name":"a","arguments":{DEEP}}}}}',
}
TAKEN = {
    "a request": f'{{{CALL},"params":{{"name":"a","arguments":{{"x":[1]}}}}}}',
    "a request with blanks": '{ "jsonrpc" : "2.0" ,\t"id" : 1, "method" : "ping" }',
    "a notification": '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    "a result": '{"jsonrpc":"2.0","id":"x","result":null}',
    "a result with blanks": '{ "jsonrpc": "2.0", "id": 1, "result": {"a": 1} }',
    "an error": '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}',
    "names of one kind in two objects": f'{{{CALL},"params":{{"name":"a","arguments":{{"name":{{"name":1}}}}}}}}',
    "colons in texts and names": f'{{{CALL},"params":{{"name":"a:b","arguments":{{"c:":"\\":\\\\"}}}}}}',
    "a member that the protocol does not have, in a usual shape": f'{{{CALL},"params":{{"name":"a"}},"x":{{"b":1}}}}',
    "members that the protocol does not have": '{"jsonrpc":"2.0","id":1,"method":"ping","a:b":{"c":1}}',
}


def readers_that_refuse(line: bytes) -> set[str]:
    """Return which integrations refuse a message; the ACP proxy reads its envelope, then the params it evaluates."""
    found = {
        "the tool host": isinstance(read_message(line, TOOLS), Malformed),
        "a tool": isinstance(read_message(line, PLAIN), Malformed),
        "the MCP gateway": isinstance(read_client_message(line), RefusedMessage),
        "the ACP proxy": _is_refused_in_parts(line),
    }
    return {name for name, is_refused in found.items() if is_refused}


def _is_refused_in_parts(line: bytes) -> bool:
    envelope = read_envelope(line, FAST)
    if isinstance(envelope, Malformed):
        return True
    try:
        if envelope.params is not None:
            FAST.value(envelope.params)
    except (ValueError, RecursionError):
        return True
    return False


@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED.keys())
def test_what_not_every_reader_reads_alike_is_refused_by_every_integration(line: str) -> None:
    assert readers_that_refuse(line.encode()) == {"the tool host", "a tool", "the MCP gateway", "the ACP proxy"}


@pytest.mark.parametrize("line", TAKEN.values(), ids=TAKEN.keys())
def test_what_every_reader_reads_alike_is_taken_by_every_integration(line: str) -> None:
    assert readers_that_refuse(line.encode()) == set()


NAMES = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "Method", "a", "a:", "\u00e9", ""])
PIECES = st.sampled_from(
    [
        *('"2.0"', "1", "-7", "1.0", "1e400", "9007199254740992", "null", "true", '"x"', '"m"', '""', "[]", "{}"),
        *('{"a":1}', '{"a":1,"a":2}', '{"a:":"::\\"","b":[{"c":1}]}', '{"code":1,"message":"no"}', "[1,", "NaN"),
        *('"\\u00e9:"', '"\\ud83d\\ude00"', '"\\ud800"', f"{'[' * 499}{']' * 499}", f"{'[' * 500}{']' * 500}"),
        *('{"a":"' + "x:" * 4000 + '"}', '{"a":"' + "x:" * 4000 + '","a":1}', '"' + ":" * 5000 + '"', "-0", "01"),
    ]
)
BLANKS = st.sampled_from(["", "", "", " ", "\t"])


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    start = draw(
        st.sampled_from(['"jsonrpc":"2.0","id":1,"method":"m"', '"jsonrpc":"2.0","id":1', '"jsonrpc":"2.0"', ""])
    )
    drawn = draw(st.lists(st.tuples(NAMES, PIECES, BLANKS), max_size=4))
    given = [start] if start else []
    given += [
        f"{blank}{json.dumps(name, ensure_ascii=draw(st.booleans()))}:{blank}{piece}" for name, piece, blank in drawn
    ]
    return f"{{{','.join(given)}}}".encode()


@given(lines())
@example(b'{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {}}')
@example(b'{"jsonrpc":"2.0","method":"m","params":{"a":"\xff"}}')
@example(b'{"jsonrpc":"2.0","method":"m","x":{"a":"\xff"}}')
def test_both_codecs_read_the_same(line: bytes) -> None:
    assert seen(read_message(line, PLAIN)) == seen(read_message(line, TOOLS))


@given(lines())
def test_the_envelope_is_the_outside_of_the_message(line: bytes) -> None:
    whole, outside = read_message(line, PLAIN), read_envelope(line, PLAIN)
    assert isinstance(whole, Malformed) == isinstance(outside, Malformed)
    if not isinstance(outside, Malformed):
        assert (getattr(whole, "id", None), getattr(whole, "method", None)) == (outside.id, outside.method)
    if not isinstance(whole, Malformed) and b"\\ud800" not in line:
        quick = read_envelope(line, FAST)
        assert not isinstance(quick, Malformed)
        for name in ("params", "result", "error"):
            part = getattr(quick, name)
            assert (None if part is None else FAST.value(part)) == getattr(whole, name, None)


def seen(message: Message) -> Any:
    return (message.id, message.number) if isinstance(message, Malformed) else message


@pytest.mark.parametrize("codec", [FAST, PLAIN], ids=["the fast one", "the plain one"])
def test_a_message_of_too_many_values_is_refused_before_it_is_read(codec: Any) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[%s]}' % b",".join([b"1"] * 50)
    assert isinstance(read_envelope(line, codec), Envelope)
    refused = read_envelope(line, codec, most_values=20)
    assert isinstance(refused, Malformed)
    assert refused.problem == "the message holds more than 20 values"
    few = read_envelope(
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"%s"}}' % (b"x" * 90), codec, most_values=20
    )
    assert isinstance(few, Envelope)


def test_a_long_object_is_read_part_by_part_and_only_as_far_as_it_is_asked_for() -> None:
    text = b'{"a":{"x":1},"b":[%s]}' % (b"[" * 500 + b"]" * 500)
    assert open_parts(text, only=frozenset(["a"])) == {"a": {"x": 1}}
    with pytest.raises(RecursionError):
        open_parts(text)
    for repeated in (b'{"a":{"x":1,"x":2},"b":1}', b'{"b":1,"a":{"x":2},"a":{"x":2}}'):
        with pytest.raises(RepeatedNameError) as caught:
            open_parts(repeated)
        assert caught.value.read == {"a": {"x": 2}, "b": 1}
    both = b'{"a":{"x":1,"x":2},"b":[%s]}' % (b"[" * 500 + b"]" * 500)
    with pytest.raises(RecursionError):  # before two names
        open_parts(both)
