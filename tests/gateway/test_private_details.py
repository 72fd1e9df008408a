"""Paths of the machine, what servers write to standard error, and the values of `env` are the operator's alone."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from byleave.gateway.interfaces import DownError
from fakes.mcp_sdk import Place
from fakes.mcp_talk import OPEN, FakeServer, Talk, Tree
from sandbox.machine import needs_sandbox

SECRET = "literal-value-of-env"
PRIVATE = "/home/someone/private/place"


def said_to(client: Any, *answers: Tree) -> str:
    """Return all that a client got to read."""
    return json.dumps([*answers, *client.aside.messages])


def test_an_error_without_words_for_agents_tells_them_only_which_server(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        talk.servers["shop"].on_call = lambda link, _request: link.receiver.lost(None, f"it fell over: {PRIVATE}")
        client = talk.client()
        await client.begin()
        answer = await client.call("shop__price")
        assert (PRIVATE in said_to(client, answer), '"shop"' in answer["error"]["message"]) == (False, True)
        assert any(PRIVATE in note for note in talk.notes)
        assert any(PRIVATE in each.get("outcome", "") for each in talk.records())

    play(scene)


def test_a_down_error_is_private_unless_its_author_says_otherwise() -> None:
    error = DownError(f"no {PRIVATE}", hint=f"make {PRIVATE}")
    assert error.for_agents("shop") == 'the server "shop" cannot be used; the operator of byleave is shown why'
    assert error.is_private
    assert not DownError("it is late", hint="", public="it is late").is_private


REFUSALS: dict[str, Callable[[FakeServer], None]] = {
    "the handshake": lambda server: server.__dict__.update(
        _made=lambda _method, _params: {"code": -32000, "message": f"ENOENT {PRIVATE}"}
    ),
    "a list": lambda server: server.__dict__.update(
        _made=lambda method, _params: (
            {"code": -32000, "message": f"ENOENT {PRIVATE}"}
            if method.endswith("/list")
            else {"protocolVersion": "2025-11-25", "capabilities": server.abilities, "serverInfo": {}}
        )
    ),
    "the revision": lambda server: server.__dict__.update(
        _made=lambda _method, _params: {"protocolVersion": PRIVATE, "capabilities": {}, "serverInfo": {}}
    ),
}


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
def test_a_servers_words_on_why_it_cannot_be_used_stay_with_the_operator(
    play: Callable[..., None], refuse: Callable[[FakeServer], None]
) -> None:
    async def scene(talk: Talk) -> None:
        refuse(talk.servers["shop"])
        client = talk.client()
        await client.begin()
        listed = await client.ask("tools/list")
        answers = [
            listed,
            await client.ask("prompts/list"),
            await client.call("list_servers"),
            await client.call("get_server_tools", {"server": "shop"}),
            await client.call("shop__price"),
        ]
        why = listed["result"]["_meta"]["byleave/unavailable"]["shop"]
        assert why.startswith('the server "shop" cannot be used: it ')
        assert why.endswith(("refused the handshake", "with an error", "another revision of the protocol"))
        assert PRIVATE not in said_to(client, *answers)
        assert any(PRIVATE in note for note in talk.notes)

    play(scene, {**OPEN, "gateway": {"expose": "both"}})


def test_a_verdict_names_files_without_where_they_lie(tmp_path: Path) -> None:
    place = Place(
        tmp_path / "place",
        '[agents.ops]\nallow.servers = ["*"]\ndeny.tools.s = ["t"]\n[servers.s]\nurl = "http://127.0.0.1:9/"\n',
    )
    called = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "s__t", "arguments": {}}}
    out = over_stdio(place, called)
    (ref, *_more) = out[1]["result"]["_meta"]["byleave/verdict"]["because"]
    assert ref["source"].rpartition(":")[0] == place.policy.name
    assert str(tmp_path) not in json.dumps(out)


FAILING: dict[str, list[str]] = {
    "a program that is not there": ["no/such/program"],
    "one that ends at once": [sys.executable, "-c", "import sys, os; sys.exit(os.environ['MODE'] + ' ' + os.getcwd())"],
    "one that is no program": ["./words.txt"],
}


@needs_sandbox
@pytest.mark.parametrize("command", FAILING.values(), ids=FAILING)
def test_a_server_that_does_not_start_tells_agents_nothing_of_the_machine(tmp_path: Path, command: list[str]) -> None:
    table = f'[servers.s]\ncommand = {json.dumps(command)}\nenv = {{ MODE = "{SECRET}" }}\n'
    place = Place(tmp_path / "place", f'{table}[gateway]\nexpose = "both"\n[agents.ops]\nallow.servers = ["*"]\n')
    (place.root / "words.txt").write_text("no program")
    asked = [
        {"method": "tools/list", "params": {}},
        {"method": "tools/call", "params": {"name": "list_servers", "arguments": {}}},
        {"method": "tools/call", "params": {"name": "get_server_tools", "arguments": {"server": "s"}}},
        {"method": "tools/call", "params": {"name": "s__t", "arguments": {}}},
        {"method": "resources/read", "params": {"uri": "x://y"}},
    ]
    out = over_stdio(place, *({"jsonrpc": "2.0", "id": number + 2, **each} for number, each in enumerate(asked)))
    told = json.dumps(out)
    for private in (str(tmp_path), sys.executable, SECRET, *([] if len(command) > 1 else command)):
        assert private not in told
    assert "s" in out[1]["result"]["_meta"]["byleave/unavailable"]
    checked = place.byleave("mcp", "--check", "--policy", str(place.policy))
    wanted = SECRET if len(command) > 1 else command[0].removeprefix("./")
    assert wanted in checked.out + checked.err


def over_stdio(place: Place, *messages: Tree) -> list[Tree]:
    """Return what a gateway on standard input answers, in order."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}

    async def talk() -> list[Tree]:
        words = [str(Path(sys.executable).with_name("byleave")), *place.words("--agent", "ops")]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *words, cwd=place.root, env=place.env, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        async with asyncio.timeout(60):
            for message in (begin, *messages):
                process.stdin.write(json.dumps(message).encode() + b"\n")
                answers.append(json.loads(await process.stdout.readline()))
            process.stdin.close()
            await process.wait()
        return answers

    return asyncio.run(talk())
