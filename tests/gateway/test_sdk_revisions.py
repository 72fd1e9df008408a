"""Revisions that the SDK's client does not choose by itself, over both fronts; a server that knows no handshake."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from amounts import SLOW
from command import COMMAND
from fakes.mcp_sdk import (
    DOWNSTREAM,
    LEGACY,
    MODERN,
    PATIENCE,
    SHOP,
    Person,
    Place,
    at,
    by_pipe,
    over_http,
    talking,
    words,
)
from sandbox.machine import needs_sandbox

pytestmark = needs_sandbox

OLDER = ("2024-11-05", "2025-03-26", "2025-06-18")
POLICY = f"""
[gateway]
default_agent = "ops"
[servers.shop]
command = {json.dumps(SHOP)}
[agents.ops]
allow.servers = ["*"]
"""


class Pipe:
    """A client that writes lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._out, self._in = process.stdin, process.stdout

    def say(self, **message: Any) -> None:
        self._out.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._out.flush()

    def hear(self) -> Any:
        return json.loads(self._in.readline())

    def ask(self, method: str, **params: Any) -> Any:
        self.say(id=method, method=method, params=params)
        while (heard := self.hear()).get("id") != method:
            pass
        return heard


@contextmanager
def piped(place: Place) -> Iterator[Pipe]:
    argv = [*COMMAND, *place.words("--stdio")]
    with subprocess.Popen(
        argv, env=place.env, cwd=place.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Pipe(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


class Posts:
    """A client that posts, as a revision's transport wants it."""

    def __init__(self, client: httpx2.Client, url: str) -> None:
        self._client, self._url = client, url
        self._headers = {"Accept": "application/json, text/event-stream"}

    def begin(self, revision: str) -> None:
        if revision not in ("2024-11-05", "2025-03-26"):  # those did not know the header
            self._headers["MCP-Protocol-Version"] = revision

    def say(self, **message: Any) -> None:
        assert self._post(message).status_code == 202

    def ask(self, method: str, **params: Any) -> Any:
        said = self._post({"id": 1, "method": method, "params": params})
        assert said.status_code == 200, said.text
        if "mcp-session-id" in said.headers:
            self._headers["Mcp-Session-Id"] = said.headers["mcp-session-id"]
        if said.headers["content-type"].startswith("application/json"):
            return said.json()
        events = [
            json.loads(line[5:]) for line in said.text.splitlines() if line.startswith("data:") and line[5:].strip()
        ]
        return next(event for event in events if event.get("id") == 1)

    def _post(self, message: Any) -> httpx2.Response:
        return self._client.post(self._url, json={"jsonrpc": "2.0", **message}, headers=self._headers)


@contextmanager
def posting(url: str) -> Iterator[Posts]:
    with httpx2.Client(trust_env=False, timeout=PATIENCE) as client:
        yield Posts(client, url)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"), POLICY)


@pytest.fixture(scope="module")
def url(place: Place) -> Iterator[str]:
    with over_http(place) as running:
        yield running.url


def goes_through(client: Any, revision: str, expected: str) -> None:
    begin = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "older", "version": "1"}}
    begun = client.ask("initialize", **begin)["result"]
    assert begun["protocolVersion"] == expected
    assert begun["serverInfo"]["name"] == "byleave"
    if isinstance(client, Posts):
        client.begin(expected)
    client.say(method="notifications/initialized")
    assert client.ask("ping")["result"] == {}
    tools = client.ask("tools/list")["result"]["tools"]
    assert "shop__price" in [tool["name"] for tool in tools]
    done = client.ask("tools/call", name="shop__price", arguments={"article": "x"})["result"]
    assert done["structuredContent"] == {"cents": 250}
    assert client.ask("no/such")["error"]["code"] == -32601
    assert client.ask("server/discover")["error"]["code"] == -32601


@pytest.mark.parametrize("revision", OLDER)
def test_an_older_client_works_over_a_pipe(place: Place, revision: str) -> None:
    with piped(place) as client:
        goes_through(client, revision, revision)


@pytest.mark.parametrize("revision", [*OLDER, "2025-11-25"])
def test_an_older_client_works_over_http(url: str, revision: str) -> None:
    with posting(url) as client:
        goes_through(client, revision, revision)


@pytest.mark.parametrize("revision", ["2023-01-01", "2099-12-31", "rubbish"])
def test_a_revision_that_nobody_knows_gets_the_latest(url: str, revision: str) -> None:
    with posting(url) as client:
        goes_through(client, revision, "2025-11-25")


def test_the_question_has_no_mode_where_the_revision_has_none(tmp_path: Path) -> None:
    place = Place(tmp_path, POLICY + '[[rules]]\nask = { call = { server = "shop", tool = "query" } }\n')
    capabilities: Any = {"elicitation": {}}
    with piped(place) as client:
        begin = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {}}
        client.ask("initialize", **begin)
        client.say(id=5, method="tools/call", params={"name": "shop__query", "arguments": {"sql": "x"}})
        asked = client.hear()
        assert asked["method"] == "elicitation/create"
        assert asked["params"].keys() == {"message", "requestedSchema"}
        client.say(id=asked["id"], result={"action": "accept", "content": {}})
        assert client.hear()["result"]["content"][0]["text"] == "shop: query done"


@pytest.mark.parametrize("mode", [LEGACY, MODERN] if SLOW else [LEGACY])
def test_a_server_on_a_pipe_may_know_the_latest_revision_alone(tmp_path: Path, mode: str) -> None:
    command = json.dumps([sys.executable, DOWNSTREAM, "stdio", "modern"])
    place = Place(tmp_path, f'[servers.modern]\ncommand = {command}\n[agents.ops]\nallow.servers = ["*"]\n')
    with talking(by_pipe(place, "--agent", "ops"), mode, Person()) as talk:
        assert "modern__add" in talk.tools()
        assert words(talk.call("modern__add", {"a": 1, "b": 2})) == "3"
        assert "a fish" in words(talk.call("modern__sample"))
        assert words(talk.call("modern__loop")) == "round 4"


def test_a_client_finds_out_by_itself(url: str) -> None:
    with talking(at(url), "auto") as talk:
        assert talk.client.protocol_version == MODERN
        assert "shop__price" in talk.tools()


@pytest.mark.parametrize("modern", [False, True] if SLOW else [False])
def test_a_server_is_told_what_the_client_of_each_request_can_do(tmp_path: Path, *, modern: bool) -> None:
    command = json.dumps([sys.executable, DOWNSTREAM, "stdio", *(["modern"] if modern else [])])
    place = Place(tmp_path, f'[servers.s]\ncommand = {command}\n[agents.default]\nallow.servers = ["*"]\n')
    with (
        over_http(place) as running,
        talking(at(running.url), MODERN) as unable,
        talking(at(running.url), MODERN, Person()) as able,
    ):
        for _ in (1, 2):
            assert unable.call("s__abilities").structured_content == {"able": []}
            assert able.call("s__abilities").structured_content == {"able": ["elicitation", "roots", "sampling"]}
