"""An agent that tries to get a request past the relay which the editor would then carry out."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.acp_talk import OPTIONS, Talk, answer


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


ODD_UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",'
    b'"toolCallId":"c","kind":[],"title":{},"rawInput":7,"content":"x","locations":{"a":1},"_meta":[],"status":[]}}}\n'
)


def write(talk: Talk) -> str:
    return json.dumps(talk.write("secret/a"))


SMUGGLED = {
    "method given twice, the wish last": '{"method": "x", %s',
    "method in another case": '{"Method": "x", %s',
    "a carriage return before it": "junk\r{%s",
    "a carriage return inside a message": '{"jsonrpc": "2.0", "method": "_x", "params":\r{%s\r}',
    "a byte order mark": "\ufeff{%s",
    "a byte order mark behind a line end of others": "x\u2028\ufeff{%s",
    "a separator that some take for a line end": "x\x1e{%s",
    "a number that JSON does not have": '{"_n": NaN, %s',
    "an escaped name": '{"\\u006dethod": "x", %s',
    "blanks": "  {   %s",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_a_denied_wish_does_not_get_past(talk: Talk, name: str) -> None:
    line = SMUGGLED[name] % write(talk)[1:]
    talk.agent(line.encode() + b"\n")
    assert talk.heard["client"] == []


def test_a_wish_with_its_method_first_and_another_after_it_does_not_get_past(talk: Talk) -> None:
    talk.agent(write(talk)[:-1].encode() + b', "method": "x"}\n')
    talk.agent(write(talk)[:-1].encode() + b', "METHOD": "x"}\n')
    talk.agent(write(talk)[:-1].encode() + b',"\\u004dethod":"x"}\n')
    assert talk.to_client() == []
    assert [reply["error"]["code"] for reply in talk.to_agent()] == [-32600] * 3


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-16", "utf-32", "utf-8-sig"])
def test_another_encoding_does_not_hide_a_wish(talk: Talk, encoding: str) -> None:
    talk.agent(write(talk).encode(encoding) + b"\n")
    assert talk.heard["client"] == []


def test_the_fields_of_a_wish_in_a_list_do_not_get_past(talk: Talk) -> None:
    talk.agent(b'[7, "fs/write_text_file", {"sessionId": "s", "path": "/x", "content": ""}, null, null]\n')
    talk.agent(b"{jsonrpc:2.0,id:7,method:fs/write_text_file,params:{sessionId:s,path:/x,content:y}}\n")
    talk.agent(write(talk).encode().replace(b"write_text_file", b"write_text\xff_file") + b"\n")
    assert talk.heard["client"] == []


@pytest.mark.parametrize("spelled", ["\\x66s/write_text_file", "f\\s/write_text_file", "fs/write_\\text_file"])
def test_escapes_that_json_does_not_have_hide_nothing(talk: Talk, spelled: str) -> None:
    talk.agent(write(talk).replace("fs/write_text_file", spelled).encode() + b"\n")
    assert talk.heard["client"] == []


@pytest.mark.parametrize(
    "method", ["fs/Write_text_file", "FS/write_text_file", " fs/write_text_file", "fs/write_text_file\u200b", "/fs/x"]
)
def test_a_method_in_another_spelling_does_not_get_past(talk: Talk, method: str) -> None:
    talk.agent(json.dumps({**talk.write("secret/a"), "method": method}).encode() + b"\n")
    assert talk.to_client() == []
    [reply] = talk.to_agent()
    assert reply["error"]["code"] == (-32001 if method.startswith("fs/") else -32600)  # denied, or refused unread


@pytest.mark.parametrize("method", ["_x/Fs", "terminal/Output", "Session/Other", "fsx/write"])
def test_other_methods_pass_in_any_spelling(talk: Talk, method: str) -> None:
    line = json.dumps({**talk.write("secret/a"), "method": method}).encode() + b"\n"
    talk.agent(line)
    assert talk.heard["client"] == [line]


def test_a_wish_in_several_lines_does_not_get_past_whole(talk: Talk) -> None:
    for line in (b'{"jsonrpc":"2.0","id":1,\n', b'"method":"fs/write_text_file",\n', b'"params":{}}\n'):
        talk.agent(line)
    assert not any(b"write_text_file" in line for line in talk.heard["client"])


def test_a_refused_batch_is_answered_so_that_nobody_waits(talk: Talk) -> None:
    batch = [talk.write("secret/a", 7), talk.write("secret/b", "x"), {"jsonrpc": "2.0", "method": "_x"}]
    talk.agent(batch)
    assert [(reply["id"], reply["error"]["code"]) for reply in talk.to_agent()] == [(7, -32600), ("x", -32600)]


def test_bytes_that_some_repair_do_not_hide_a_wish(talk: Talk) -> None:
    talk.agent(write(talk).replace('"content": "x"', '"content": "x?"').encode().replace(b"?", b"\xff") + b"\n")
    assert talk.to_client() == []


@pytest.mark.parametrize("method", ["fs\\/write_text_file", "\\u0066s/write_text_file", "fs\\u002fwrite_text_file"])
def test_an_escaped_method_is_the_method(talk: Talk, method: str) -> None:
    talk.agent(write(talk).replace("fs/write_text_file", method).encode() + b"\n")
    assert talk.to_client() == []


MALFORMED = {
    "a path twice": ('"path":', '"path": "/x", "path":'),
    "a path in another case": ('"path":', '"Path": "/x", "path":'),
    "a session in another case": ('"sessionId":', '"sessionID": "t", "sessionId":'),
    "params twice": ('"params":', '"params": {}, "params":'),
    "an id twice": ('"id":', '"id": 8, "id":'),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_can_be_read_in_two_ways_is_refused(talk: Talk, name: str) -> None:
    old, new = MALFORMED[name]
    talk.agent(json.dumps(talk.write("src/a")).replace(old, new, 1).encode() + b"\n")
    assert talk.to_client() == []
    assert [reply["error"]["code"] for reply in talk.to_agent()] == [-32600]
    assert talk.logged[-1]["verdict"]["decision"] == "deny"
    assert len(talk.relay.notices()) == 1


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sessionId": "s"},
        {"sessionId": "s", "toolCall": {"toolCallId": 5}, "options": OPTIONS},
        {"sessionId": "s", "toolCall": {"toolCallId": "c", "RawInput": {}}, "options": OPTIONS},
        {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": [OPTIONS[1], {**OPTIONS[0], "optionId": "yes"}]},
        {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": {"optionId": "yes"}},
        {"sessionId": "s", "toolCall": {"toolCallId": "c", "content": {"type": "diff"}}, "options": OPTIONS},
        [],
        None,
    ],
)
def test_a_request_for_permission_that_cannot_be_read_is_refused(talk: Talk, params: Any) -> None:
    talk.agent({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params})
    assert talk.to_client() == []
    assert [reply["error"]["code"] for reply in talk.to_agent()] == [-32600]


@pytest.mark.parametrize("id_", [None, 2**53, -(2**60), 1.5, True, [1], {"a": 1}])
def test_an_id_that_not_every_reader_gives_back_is_refused(talk: Talk, id_: Any) -> None:
    talk.agent(talk.permission(id_))
    assert talk.to_client() == []


def test_an_id_that_is_still_open_is_refused(talk: Talk) -> None:
    talk.agent(talk.permission(1))
    talk.agent(talk.command("make install", 1))
    talk.agent(talk.command("make install", 1.0))
    talk.agent(talk.command("make install", "1"))
    assert [request["id"] for request in talk.to_client()] == [1, "1"]
    assert [reply["error"]["code"] for reply in talk.to_agent()] == [-32600, -32600]
    talk.client(answer("yes", 1))
    assert talk.to_agent() == [answer("yes", 1)]


def test_a_wish_without_an_id_is_judged_all_the_same(talk: Talk) -> None:
    request = talk.write("secret/a")
    del request["id"]
    talk.agent(request)
    assert (talk.to_client(), talk.to_agent()) == ([], [])


def test_what_nobody_understands_is_asked_whatever_is_allowed(tmp_path: Path) -> None:
    talk = Talk(
        tmp_path, "[[rules]]\nallow = { any_command = true }\n[[rules]]\nallow = { operation = ['other', 'fetch'] }\n"
    )
    talk.agent(talk.permission(1, call="unknown", status="pending"))
    talk.agent(talk.permission(2, kind="fetch", title="fetch https://example.com/"))
    assert [request["id"] for request in talk.to_client()] == [1, 2]
    talk.client(answer("always", 1))
    talk.agent(talk.permission(3, call="unknown", status="pending"))
    assert [request["id"] for request in talk.to_client()] == [3]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"\r\n",
        b"not json\n",
        b"[1, 2]\n",
        b'[{"method": "x"}]\n',
        b'{"jsonrpc":"2.0","method":"_x","method":"_y"}\n',
        b'{"jsonrpc":"2.0","Method":"_x"}\r\n',
        b'{"jsonrpc":"2.0","id":1,"method":5}\n',
        b'{"a":\r1}\n',
        b'{"jsonrpc":"2.0","id":99999999999999999999,"result":{}}\n',
        b"\xff\xfe\x00\n",
        b'{"deep":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call"}}}\n',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","t":"\xff"}}}\n',
        ODD_UPDATE,
        b'{"jsonrpc":"2.0","method":"session/update","params":[]}\n',
        b'{"jsonrpc":"2.0","method":"session/update"}\n',
    ],
)
def test_everything_else_passes_as_it_came(talk: Talk, line: bytes) -> None:
    assert talk.relay.from_agent(line) is None
    assert talk.relay.from_client(line) is None


def test_what_is_kept_of_calls_is_bounded(talk: Talk) -> None:
    from byleave.acp import tracked_calls

    known = talk.relay._sessions.get("s").calls  # noqa: SLF001
    for number in range(3 * tracked_calls.MOST_CALLS):
        known.hear({"toolCallId": str(number), "rawInput": {"command": "ls"}}, 10)
        known.get(f"new {number}")
    known.hear({"toolCallId": "huge"}, 2 * tracked_calls.MOST_BYTES)
    assert len(known._known) <= tracked_calls.MOST_CALLS  # noqa: SLF001
