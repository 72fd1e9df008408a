"""Editor and agent speak a version of the protocol that is judged, or they do not speak through byleave."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.acp_talk import Talk


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def initialize(version: Any = 2, id_: Any = 9, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": "initialize", "params": {"protocolVersion": version, **more}}


def initialized(version: Any, id_: Any = 9, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": {"protocolVersion": version, **more}}


def is_refused(reply: Any, id_: Any = 9) -> bool:
    return (reply["id"], reply["error"]["code"], "result" in reply) == (id_, -32600, False)


@pytest.mark.parametrize(
    "version", [2, 3, 65535, 2**70, -1, 1.0, 2.0, 1.5, 1e300, "1", "2", "2.0", True, None, [2], {}]
)
def test_the_editor_asks_for_version_1_whatever_it_wrote(talk: Talk, version: Any) -> None:
    talk.client(initialize(version, clientCapabilities={"fs": {"readTextFile": True}}, _meta={"a": 1e-3}))
    assert talk.to_agent() == [initialize(1, clientCapabilities={"fs": {"readTextFile": True}}, _meta={"a": 1e-3})]


def test_an_editor_that_names_no_version_is_told_no_other_than_version_1(talk: Talk) -> None:
    asked = {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"clientInfo": {}}}
    talk.client(asked)
    assert talk.to_agent() == [asked]
    talk.agent(initialized(2))
    assert is_refused(talk.to_client()[0])


@pytest.mark.parametrize("version", [0, 1])
def test_a_version_that_is_judged_passes_as_the_bytes_it_came_as(talk: Talk, version: int) -> None:
    asked = b'{ "id":9,"method":"initialize" , "jsonrpc":"2.0","params":{"protocolVersion": %d,"x":1.50}}\n' % version
    said = b'{"result" :{"agentCapabilities":{},"protocolVersion": %d},"id":9,"jsonrpc":"2.0"}\n' % version
    assert talk.relay.from_client(asked)[0].data == asked  # type: ignore[index]
    assert talk.relay.from_agent(said)[0].data == said  # type: ignore[index]


def test_an_agent_that_agrees_on_version_1_is_judged(talk: Talk) -> None:
    talk.client(initialize(2))
    talk.agent(initialized(1))
    assert talk.to_client() == [initialized(1)]
    talk.forget()
    talk.agent(talk.command("rm x"))
    assert talk.to_client() == []
    assert talk.to_agent()[0]["result"]["outcome"]["optionId"] == "no"


@pytest.mark.parametrize(("version", "seen"), [(1.0, 1), ("1", 1), (0.0, 0), (None, 1)])
def test_another_spelling_of_a_version_that_is_judged_reaches_the_editor_as_that_number(
    talk: Talk, version: Any, seen: int
) -> None:
    talk.client(initialize(2))
    talk.agent(initialized(version, agentInfo={"name": "a"}))
    assert talk.to_client() == [initialized(seen, agentInfo={"name": "a"})]


def test_an_agent_that_names_no_version_has_taken_the_one_it_was_asked_for(talk: Talk) -> None:
    talk.client(initialize(2))
    talk.agent({"jsonrpc": "2.0", "id": 9, "result": {}})
    assert talk.to_client() == [initialized(1)]


@pytest.mark.parametrize("version", [2, 65535, 2**70, -1, 2.0, 1.5, "2", "v1", "2025-06-18", True, [1], {"a": 1}])
@pytest.mark.parametrize("asked", [1, 2])
def test_an_agent_that_insists_on_another_version_is_refused_and_nothing_passes(
    talk: Talk, asked: int, version: Any
) -> None:
    talk.client(initialize(asked))
    talk.forget()
    talk.agent(initialized(version))
    [reply] = talk.to_client()
    assert is_refused(reply)
    assert "byleave supports version 1" in reply["error"]["message"]
    talk.agent(talk.command("ls"))
    talk.agent(talk.write("src/a"))
    talk.agent({"jsonrpc": "2.0", "method": "session/update", "params": {}})
    talk.agent({"jsonrpc": "2.0", "id": "n", "method": "fs/v2_write", "params": {"path": "/etc/passwd"}})
    assert talk.to_client() == []
    assert [is_refused(each, id_) for each, id_ in zip(talk.to_agent(), (1, 7, "n"), strict=True)] == [True] * 3
    talk.client({"jsonrpc": "2.0", "id": 10, "method": "session/new", "params": {"cwd": talk.root}})
    talk.client({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})
    assert talk.to_agent() == []
    assert is_refused(talk.to_client()[0], 10)
    assert any("nothing passes any more" in notice for notice in talk.relay.notices())


def test_an_agent_that_was_refused_may_be_asked_again(talk: Talk) -> None:
    talk.client(initialize(2))
    talk.agent(initialized(2))
    talk.client(initialize(1, id_=10))
    assert talk.to_agent()[1:] == [initialize(1, id_=10)]
    talk.agent(initialized(1, id_=10))
    talk.forget()
    talk.agent(talk.command("ls"))
    assert talk.to_agent()[0]["result"]["outcome"]["optionId"] == "yes"


def test_a_later_initialize_cannot_raise_the_version(talk: Talk) -> None:
    talk.client(initialize(1))
    talk.agent(initialized(1))
    talk.agent(talk.permission(5))
    talk.forget()
    talk.client(initialize(2, id_=10))
    assert talk.to_agent() == [initialize(1, id_=10)]
    talk.agent(initialized(2, id_=10))
    assert is_refused(talk.to_client()[0], 10)
    assert is_refused(talk.to_agent()[0], 5)  # the question that was open is over
    talk.client({"jsonrpc": "2.0", "id": 5, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}})
    assert talk.to_agent() == []


ANSWERS_THAT_READERS_READ_DIFFERENTLY = [
    b'{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":1,"protocolVersion":2}}\n',
    b'{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":1},"result":{"protocolVersion":2}}\n',
    b'{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":1,"ProtocolVersion":2}}\n',
    b'{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":1},"Result":{"protocolVersion":2}}\n',
    b'{"jsonrpc":"2.0","id":"9","result":{"protocolVersion":2}}\n',
    b'{"jsonrpc":"2.0","id":9.5,"result":{"protocolVersion":2}}\n',
    b'{"jsonrpc":"2.0",\r"id":9,"result":{"protocolVersion":2}}\n',
    b'[{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":2}}]\n',
    b'{"jsonrpc":"2.0","id":9,"method":"x","result":{"protocol\\u0056ersion":2}}\n',
    b'{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":2},"error":{"code":1,"message":""}}\n',
    b'{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":NaN}}\n',
    b'{"jsonrpc":"2.0","id":9,"result":[{"protocolVersion":2}]}\n',
    '{"jsonrpc":"2.0","id":9,"result":{"protocolVersion":2}}\n'.encode("utf-16"),
]


@pytest.mark.parametrize("line", ANSWERS_THAT_READERS_READ_DIFFERENTLY)
def test_no_reader_finds_another_version_in_an_answer_that_passes(talk: Talk, line: bytes) -> None:
    talk.client(initialize(2))
    talk.forget()
    talk.agent(line)
    assert [is_refused(reply) for reply in talk.to_client()] == [True]
    talk.agent(talk.command("ls"))
    assert talk.to_client() == []


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":1,"protocolVersion":2}}\n',
        b'{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":1,"ProtocolVersion":2}}\n',
        b'{"jsonrpc":"2.0","id":9,"method":"initialize","method":"x","params":{"protocolVersion":2}}\n',
        b'[{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":2}}]\n',
    ],
)
def test_an_initialize_that_readers_read_differently_goes_back_to_the_editor(talk: Talk, line: bytes) -> None:
    talk.client(line)
    assert talk.to_agent() == []
    assert [is_refused(reply) for reply in talk.to_client()] == [True]


def test_an_error_of_the_agent_passes_and_the_editor_may_try_again(talk: Talk) -> None:
    talk.client(initialize(2))
    failed = {"jsonrpc": "2.0", "id": 9, "error": {"code": -32602, "message": "unsupported protocolVersion"}}
    talk.agent(failed)
    assert talk.to_client() == [failed]
    talk.agent(talk.command("ls"))
    assert json.dumps(talk.to_agent()[-1]).count("yes") == 1


def test_the_refusal_is_in_the_records(talk: Talk) -> None:
    talk.client(initialize(2))
    talk.agent(initialized(2))
    [record] = talk.records()
    assert (record["action"]["name"], record["verdict"]["decision"]) == ("initialize", "deny")
