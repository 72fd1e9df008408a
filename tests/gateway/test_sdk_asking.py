"""A person is asked: by a form at the client, by a result that wants to know, or in the list of what waits."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from fakes.mcp_sdk import (
    LEGACY,
    MODERN,
    SHOP,
    Person,
    Place,
    Running,
    Talk,
    at,
    by_pipe,
    eventually,
    over_http,
    talking,
    words,
)
from sandbox.machine import needs_sandbox

pytestmark = needs_sandbox

FRONTS = [(front, mode) for front in ("pipe", "http") for mode in (LEGACY, MODERN)]
POLICY = f"""
[gateway]
default_agent = "ops"
ask_timeout = 0.8
approve = "client"
[servers.shop]
command = {json.dumps(SHOP)}
[agents.ops]
allow.servers = ["*"]
[[rules]]
ask = {{ call = {{ server = "shop", tool = "query" }} }}
why = "it may change things"
"""
DONE = "shop: query done"


class Scene:
    def __init__(self, place: Place, stack: ExitStack) -> None:
        self.place = place
        self._stack = stack
        self._talks: dict[tuple[str, str, bool], Talk] = {}
        self._running: Running | None = None

    def talk(self, front: str, mode: str, *, able: bool = True) -> Talk:
        key = (front, mode, able)
        if key not in self._talks:
            if front == "http" and self._running is None:
                self._running = self._stack.enter_context(over_http(self.place))
            http = self._running is not None and front == "http"
            target = at(self._running.url) if http and self._running else by_pipe(self.place, "--agent", "ops")
            self._talks[key] = self._stack.enter_context(talking(target, mode, Person() if able else None))
        return self._talks[key]

    def waiting(self) -> list[dict[str, Any]]:
        done = self.place.byleave("approvals", "list", "--json")
        assert done.code == 0, done
        return [each for each in json.loads(done.out) if each["kind"] == "call"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(Place(tmp_path_factory.mktemp("place"), POLICY), stack)


@pytest.fixture(params=FRONTS, ids="-".join)
def front(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def talk(scene: Scene, front: tuple[str, str]) -> Talk:
    found = scene.talk(*front)
    found.person.forget()
    return found


def said_of(result: types.CallToolResult) -> tuple[str, str]:
    assert result.is_error
    assert isinstance(result.structured_content, dict)
    assert words(result) == result.structured_content["reason"]
    return result.structured_content["decision"], words(result)


def test_accepting_lets_this_one_call_through(talk: Talk) -> None:
    for number in (1, 2):
        assert words(talk.call("shop__query", {"sql": "a\x1b[31m"})) == DONE
        assert len(talk.person.asked) == number
    asked = talk.person.asked[0]
    assert isinstance(asked, types.ElicitRequestFormParams)
    assert all(each in asked.message for each in ("ops", "shop/query", "sql", "it may change things"))
    assert "\x1b" not in asked.message


def test_a_yes_for_the_session_covers_the_same_call_again_and_no_other(talk: Talk, front: tuple[str, str]) -> None:
    talk.person.answer = types.ElicitResult(action="accept", content={"scope": "session"})
    sql = f"session {front}"
    for _ in (1, 2):
        assert words(talk.call("shop__query", {"sql": sql})) == DONE
    assert len(talk.person.asked) == 1
    talk.call("shop__query", {"sql": f"{sql}."})
    assert len(talk.person.asked) == 2


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_anything_but_a_yes_is_a_no(talk: Talk, action: Any) -> None:
    talk.person.answer = types.ElicitResult(action=action)
    assert said_of(talk.call("shop__query", {"sql": "b"}))[0] == "deny"
    assert len(talk.person.asked) == 1


@pytest.mark.parametrize("content", [{"scope": "always"}, {"scope": True}, {"scope": ""}])
def test_an_answer_that_was_not_offered_is_a_no(talk: Talk, content: Any) -> None:
    talk.person.answer = types.ElicitResult(action="accept", content=content)
    assert said_of(talk.call("shop__query", {"sql": "b"}))[0] == "deny"


def test_a_client_that_shows_no_forms_after_all_leaves_the_call_waiting(talk: Talk, scene: Scene) -> None:
    talk.person.answer = types.ErrorData(code=-1, message="no window")
    sql = f"no window {talk.mode}"
    if talk.modern:  # the SDK then gives up the call itself
        with pytest.raises(MCPError, match="no window"):
            talk.call("shop__query", {"sql": sql})
    else:
        assert said_of(talk.call("shop__query", {"sql": sql}))[0] == "ask"
        assert any(sql in json.dumps(each) for each in scene.waiting())


@pytest.mark.parametrize("kind", ["pipe", "http"])
def test_silence_is_a_no(scene: Scene, kind: str) -> None:
    talk = scene.talk(kind, LEGACY)
    talk.person.answer = None
    decision, reason = said_of(talk.call("shop__query", {"sql": "c"}))
    assert decision == "deny"
    assert reason.endswith("no reply came in time")


def stateless(talk: Talk) -> Callable[..., Any]:
    def call(**params: Any) -> Any:
        async def asking(client: Client) -> Any:
            return await client.session.call_tool("shop__query", allow_input_required=True, **params)

        return talk.do(asking)

    return call


ACCEPTED: Any = {"byleave": types.ElicitResult(action="accept", content={})}


@pytest.mark.parametrize("kind", ["pipe", "http"])
def test_a_yes_holds_for_the_call_that_was_asked_about_and_once(scene: Scene, kind: str) -> None:
    call = stateless(scene.talk(kind, MODERN))
    asked = call(arguments={"sql": "d"})
    assert isinstance(asked, types.InputRequiredResult)
    assert list(asked.input_requests or ()) == ["byleave"]
    with pytest.raises(MCPError, match="another"):
        call(arguments={"sql": "e"}, request_state=asked.request_state, input_responses=ACCEPTED)
    done = call(arguments={"sql": "d"}, request_state=asked.request_state, input_responses=ACCEPTED)
    assert words(done) == DONE
    with pytest.raises(MCPError, match="no call that waits"):
        call(arguments={"sql": "d"}, request_state=asked.request_state, input_responses=ACCEPTED)


@pytest.mark.parametrize("kind", ["pipe", "http"])
def test_going_on_without_an_answer_is_a_no(scene: Scene, kind: str) -> None:
    call = stateless(scene.talk(kind, MODERN))
    asked = call(arguments={"sql": "f"})
    assert said_of(call(arguments={"sql": "f"}, request_state=asked.request_state))[0] == "deny"


def test_a_yes_that_comes_too_late_is_none(scene: Scene) -> None:
    call = stateless(scene.talk("http", MODERN))
    asked = call(arguments={"sql": "too late"})

    def expired() -> bool:
        return any(
            record["action"].get("arguments") == {"sql": "too late"} and record["verdict"]["decision"] == "deny"
            for record in scene.place.records()
        )

    eventually(expired, patience=8)
    with pytest.raises(MCPError, match="no call that waits"):
        call(arguments={"sql": "too late"}, request_state=asked.request_state, input_responses=ACCEPTED)


def test_where_nobody_can_be_asked_the_call_waits_for_an_approval(scene: Scene, front: tuple[str, str]) -> None:
    talk = scene.talk(*front, able=False)
    mine, other = {"sql": f"wait {front}"}, {"sql": f"other {front}"}
    decision, reason = said_of(talk.call("shop__query", mine))
    assert (decision, "byleave approvals" in reason) == ("ask", True)
    talk.call("shop__query", mine)  # the same question waits once
    talk.call("shop__query", other)
    (entry,) = [each for each in scene.waiting() if f"wait {front}" in json.dumps(each)]
    assert (entry["kind"], entry["status"]) == ("call", "pending")
    refused = scene.place.byleave("approvals", "approve", entry["id"])
    assert refused.code != 0  # there is no terminal, and nobody said --yes
    assert scene.place.byleave("approvals", "approve", entry["id"], "--yes").code == 0
    eventually(lambda: words(talk.call("shop__query", mine)) == DONE)
    assert said_of(talk.call("shop__query", other))[0] == "ask"
    assert said_of(talk.call("shop__query", {**mine, "more": 1}))[0] == "ask"
    assert scene.place.byleave("approvals", "revoke", entry["id"], "--yes").code == 0
    eventually(lambda: talk.call("shop__query", mine).is_error)
