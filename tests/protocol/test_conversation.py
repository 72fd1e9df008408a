"""Both sides of the conversation: what is heard is the same however the bytes are cut, and nothing raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.protocol.content import failure_tree, read_content, update_tree
from byleave.protocol.json_codec import PLAIN
from byleave.protocol.vfs import (
    OVER,
    SILENT,
    TALKING,
    Applied,
    BadMessage,
    CancelNotice,
    Failed,
    Finished,
    HostMessage,
    HostSide,
    Init,
    PendingNotice,
    RequestAnswered,
    RequestCancelled,
    RequestRefused,
    StateChanged,
    ToolMessage,
    ToolRequest,
    ToolSide,
    Wrong,
)
from byleave.toolhost.codec import TOOLS
from protocol.vfs_cases import Case, load_conversations

CASES = load_conversations()
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
INIT = b'{"jsonrpc":"2.0","method":"init","params":{"tool":{"name":"t"}}}\n'


def heard(pieces: list[bytes], *, limit: int = 1 << 20, codec: Any = TOOLS) -> list[ToolMessage]:
    side = HostSide(codec, limit=limit)
    side.init({"name": "t"}, {}, ())
    return [*(event for piece in pieces for event in side.receive(piece)), *side.end()]


def told(pieces: list[bytes], *, limit: int = 1 << 20) -> list[HostMessage]:
    side = ToolSide(PLAIN, limit=limit)
    return [event for piece in pieces for event in side.receive(piece)]


@EACH
def test_the_host_hears_the_same_wherever_the_bytes_are_cut(case: Case) -> None:
    whole = case.bytes_to("host")
    expected = heard([whole])
    assert heard([whole[at : at + 1] for at in range(len(whole))]) == expected
    assert all(heard([whole[:cut], whole[cut:]]) == expected for cut in range(len(whole)))


@EACH
def test_the_tool_hears_the_same_wherever_the_bytes_are_cut(case: Case) -> None:
    whole = case.bytes_to("tool")
    expected = told([whole])
    assert told([whole[at : at + 1] for at in range(len(whole))]) == expected
    assert all(told([whole[:cut], whole[cut:]]) == expected for cut in range(len(whole)))


@EACH
def test_the_host_hears_what_the_case_says(case: Case) -> None:
    events = heard([case.bytes_to("host")])
    lines = [line for to, line in case.said if to == "host"]
    assert [described(event) for event in events] == [expected_of_host(line) for line in lines]


def described(event: ToolMessage) -> Any:
    match event:
        case ToolRequest():
            return ("wish", event.id, event.method, event.params)
        case BadMessage():
            reply = json.loads(event.reply)
            return ("bad", reply["id"], reply["error"]["code"])
        case Finished():
            return ("result", event.content)
        case Failed():
            return ("error", failure_tree(event.failure))
        case StateChanged():
            return ("state", update_tree(event.update))
        case RequestCancelled():
            return ("cancel", event.id)


def expected_of_host(line: Any) -> Any:
    if not isinstance(line, dict) or "method" not in line:
        return ("bad", line.get("id") if isinstance(line, dict) else None, -32600)
    params: Any = line.get("params")
    if "id" in line:
        return ("wish", line["id"], line["method"], params)
    return (line["method"], read_content(params["content"]) if line["method"] == "result" else params)


@EACH
def test_the_tool_hears_what_the_case_says(case: Case) -> None:
    lines = [line for to, line in case.said if to == "tool"]
    for event, line in zip(told([case.bytes_to("tool")]), lines, strict=True):
        match event:
            case Init():
                tool = line["params"]["tool"]
                assert (event.name, event.arguments, event.answers) == (
                    tool["name"],
                    tool["arguments"],
                    tool["answers"],
                )
                assert event.protocol_version == "0.1.0"
            case RequestAnswered():
                assert (event.id, event.result) == (line["id"], line["result"])
            case RequestRefused():
                error = line["error"]
                assert (event.id, event.number, event.message) == (line["id"], error["code"], error["message"])
            case Applied():
                assert event.input == line["params"]["input"]
            case _:
                pytest.fail(f"{event} is in no case")


# A stateful tool has its outcomes in between.
ENDED = [case for case in load_conversations() if case.outcome is not None]


@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.name)
def test_the_last_word_of_the_tool_is_the_outcome(case: Case) -> None:
    last = heard([case.bytes_to("host")])[-1]
    if isinstance(last, Finished):
        assert case.outcome == {"outcome": "completed", "content": last.content}
    else:
        assert isinstance(last, Failed)
        assert case.outcome == {"outcome": "error", **failure_tree(last.failure)}


@given(st.lists(st.binary(max_size=60)), st.integers(1, 80))
def test_whatever_a_tool_writes_is_heard_alike_in_any_pieces_and_raises_nothing(
    pieces: list[bytes], limit: int
) -> None:
    whole = b"".join(pieces)
    expected = heard([whole], limit=limit)
    assert heard(pieces, limit=limit) == expected
    assert all(isinstance(event, BadMessage) for event in expected)


@given(st.lists(st.binary(max_size=60)), st.integers(1, 80))
def test_whatever_a_host_writes_is_heard_alike_in_any_pieces_and_raises_nothing(
    pieces: list[bytes], limit: int
) -> None:
    assert told(pieces, limit=limit) == told([b"".join(pieces)], limit=limit)


FRAGMENTS = st.sampled_from(
    [
        *(b'{"jsonrpc":"2.0"', b',"id":1', b',"id":null', b',"method":"fs.read"', b',"method":"result"', b"}", b"\n"),
        *(
            b',"params":{"content":"x"}',
            b',"params":{"request_id":1}',
            b',"method":"cancel"',
            b',"result":{}',
            b"[",
            b" ",
        ),
        *(b',"error":{"code":1,"message":"m"}', b',"method":"state"', b',"params":{"type":"stopped"}', b'"', b"\xff"),
        *(b',"method":"init"', b',"params":{"tool":{"name":"t"}}', b',"method":"pending"', b',"method":"apply"'),
    ]
)


@given(st.lists(FRAGMENTS, max_size=30), st.data())
def test_messages_that_are_almost_right_raise_nothing_on_either_side(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cut = data.draw(st.integers(0, len(whole)))
    assert heard([whole[:cut], whole[cut:]]) == heard([whole]) == heard([whole], codec=PLAIN)
    assert told([whole[:cut], whole[cut:]]) == told([whole])


def test_nothing_is_heard_after_the_result() -> None:
    result = b'{"jsonrpc":"2.0","method":"result","params":{"content":"x"}}\n'
    request = b'{"jsonrpc":"2.0","id":1,"method":"fs.read","params":{"path":"x"}}\n'
    side = HostSide(TOOLS)
    side.init({"name": "t"}, {}, ())
    assert [type(event) for event in side.receive(result + request + b"nonsense\n")] == [Finished]
    assert side.state == OVER
    assert list(side.receive(request)) == []


def test_a_result_without_a_newline_at_the_end_counts() -> None:
    assert heard([b'{"jsonrpc":"2.0","method":"result","params":{"content":"x"}}']) == [
        Finished([{"type": "text", "text": "x"}])
    ]


def test_nothing_is_heard_before_the_host_has_begun() -> None:
    side = HostSide(TOOLS)
    assert list(side.receive(b'{"jsonrpc":"2.0","id":1,"method":"fs.read","params":{}}\n')) == []


def test_the_short_names_of_the_draft_mean_the_long_ones() -> None:
    (event,) = heard([b'{"jsonrpc":"2.0","id":1,"method":"read","params":{"path":"x"}}\n'])
    assert event == ToolRequest(1, "fs.read", {"path": "x"})


NOTICES = {
    "a cancel with request_id": ({"method": "cancel", "params": {"request_id": 3}}, ("cancel", 3)),
    "a cancel with id": ({"method": "cancel", "params": {"id": "x"}}, ("cancel", "x")),
    "a cancel that is itself a request": ({"id": 9, "method": "cancel", "params": {"request_id": 3}}, ("cancel", 3)),
    "a cancel that names nothing": ({"method": "cancel"}, ("bad", None, -32602)),
    "a request to cancel nothing": ({"id": 9, "method": "cancel", "params": {}}, ("bad", 9, -32602)),
    "a cancel of true": ({"method": "cancel", "params": {"id": True}}, ("bad", None, -32602)),
    "a result with an id": ({"id": 1, "method": "result", "params": {"content": ""}}, ("bad", 1, -32600)),
    "a result without content": ({"method": "result", "params": {}}, ("bad", None, -32602)),
    "a result of wrong blocks": (
        {"method": "result", "params": {"content": [{"type": "text"}]}},
        ("bad", None, -32602),
    ),
    "a state that is none": ({"method": "state", "params": {"type": "asleep"}}, ("bad", None, -32602)),
    "a question without text": (
        {"method": "state", "params": {"type": "waiting", "question": {"id": "q"}}},
        ("bad", None, -32602),
    ),
    "a request without id": ({"method": "fs.read", "params": {"path": "x"}}, ("bad", None, -32600)),
    "a request with a list": ({"id": 1, "method": "fs.read", "params": ["x"]}, ("bad", 1, -32602)),
    "an answer to nothing": ({"id": 1, "result": {}}, ("bad", 1, -32600)),
    "an error that says nothing": (
        {"method": "error"},
        ("error", {"message": "the tool failed, and did not say why", "trace": [], "transient": False}),
    ),
}


@pytest.mark.parametrize(("message", "expected"), NOTICES.values(), ids=NOTICES.keys())
def test_what_a_tool_says_is_understood_or_answered(message: dict[str, Any], expected: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    assert [described(event) for event in heard([line])] == [expected]


def test_a_notice_that_nobody_knows_is_passed_over() -> None:
    assert heard([b'{"jsonrpc":"2.0","method":"news","params":{}}\n', b"\n", b" \r\n"]) == []
    assert told([INIT, b'{"jsonrpc":"2.0","method":"news"}\n'])[1:] == []


def test_a_tool_hears_why_an_answer_takes_its_time_and_that_it_should_stop() -> None:
    host = HostSide(TOOLS)
    first = host.init({"name": "t", "arguments": {"a": 1}}, {"action": "run"}, ("fs.read",))
    events = told([first, host.pending(4, "a person is asked"), host.cancel(), host.apply({"x": 1})])
    init = Init("t", {"a": 1}, {}, {}, "0.1.0", ("fs.read",), {"action": "run"})
    assert events == [init, PendingNotice(4, "a person is asked"), CancelNotice(), Applied({"x": 1})]


def test_a_host_that_does_not_keep_to_the_protocol_is_noticed() -> None:
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    assert [
        type(event) for event in told([answer, INIT, INIT, b"x\n", b'{"jsonrpc":"2.0","id":1,"method":"m"}\n'])
    ] == [
        *(Wrong, Init, Wrong, Wrong, Wrong),
    ]


def test_each_side_understands_what_the_other_writes() -> None:
    host, tool = HostSide(TOOLS), ToolSide(PLAIN)
    (init,) = tool.receive(host.init({"name": "t"}, {}, ()))
    assert isinstance(init, Init)
    assert (host.state, tool.state) == (TALKING, TALKING)
    id_, line = tool.request("fs.read", {"path": "ä\n"})
    assert list(host.receive(line)) == [ToolRequest(id_, "fs.read", {"path": "ä\n"})]
    assert list(tool.receive(host.refuse(id_, -32001, "no", {"limit": 1}))) == [
        RequestRefused(id_, -32001, "no", {"limit": 1})
    ]
    assert list(host.receive(tool.give_up(id_))) == [RequestCancelled(id_)]
    waiting = {"type": "waiting", "question": {"id": "q", "text": "?"}}
    (changed,) = host.receive(tool.update(waiting))
    assert isinstance(changed, StateChanged)
    assert (update_tree(changed.update), tool.state, host.state) == (waiting, TALKING, TALKING)
    (failed,) = host.receive(tool.error("no", ["a"], transient=True))
    assert isinstance(failed, Failed)
    assert failure_tree(failed.failure) == {"message": "no", "trace": ["a"], "transient": True}
    assert (tool.state, host.state) == (OVER, OVER)
    assert HostSide(TOOLS).state == ToolSide(PLAIN).state == SILENT


def test_a_state_that_is_stopped_ends_the_conversation_of_both() -> None:
    host, tool = HostSide(TOOLS), ToolSide(PLAIN)
    list(tool.receive(host.init({"name": "t"}, {}, ())))
    list(host.receive(tool.update({"type": "stopped", "result": "x"})))
    assert (host.state, tool.state) == (OVER, OVER)


def test_an_answer_and_a_result_reach_the_other_side() -> None:
    host, tool = HostSide(TOOLS), ToolSide(PLAIN)
    list(tool.receive(host.init({"name": "t"}, {}, ())))
    id_, _line = tool.request("fs.read", {"path": "x"})
    assert list(tool.receive(host.answer(id_, {"content": "a"}))) == [RequestAnswered(id_, {"content": "a"})]
    assert list(host.receive(tool.result("done"))) == [Finished([{"type": "text", "text": "done"}])]
    assert (host.state, tool.state) == (OVER, OVER)


def test_a_result_that_cannot_be_written_ends_nothing() -> None:
    tool = ToolSide(PLAIN)
    list(tool.receive(INIT))
    with pytest.raises(ValueError, match="not JSON compliant"):
        tool.result(float("nan"))
    assert tool.state == TALKING


def test_half_a_character_is_written_as_json_can_write_it() -> None:
    tool, host = ToolSide(PLAIN), HostSide(TOOLS)
    host.init({"name": "t"}, {}, ())
    line = tool.result("a\ud800b")
    assert b"a\\ud800b" in line
    assert json.loads(line)["params"] == {"content": "a\ud800b"}


@pytest.mark.parametrize("last", [b" \r", b'{"jsonrpc":"2.0","method":"news"}'])
def test_a_last_line_without_a_newline_may_say_nothing(last: bytes) -> None:
    assert heard([last]) == []


@pytest.mark.parametrize(
    "params", [{}, {"tool": None}, {"tool": {"name": 7}}, {"tool": {"name": "t", "arguments": []}}, {"tool": ["t"]}]
)
def test_a_tool_that_is_not_named_is_not_begun(params: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", "method": "init", "params": params}).encode() + b"\n"
    assert told([line, INIT]) == [Wrong("init names no tool"), *told([INIT])]
