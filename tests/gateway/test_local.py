"""Local tools behind the gateway: listed, called, asked about, stopped, and kept apart by caller."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import byleave.gateway.local_tools as room
from byleave.errors import InputError
from byleave.gateway.local_tools import LocalTools, answer_in, question_form, result_tree
from byleave.guard.evaluation import NO, ONCE, Who
from byleave.store.approvals import PENDING
from byleave.toolhost.outcome import CancelledOutcome, CompletedOutcome, NeedsInput, broken
from command import byleave
from fakes.mcp_local import ME, Client, Gateway, serving
from sandbox.machine import PYTHON, needs_sandbox
from toolhost.hosting import ACCESS, House, descriptors, tool, tool_processes

pytestmark = needs_sandbox

WAIT = 20.0
PLAIN = {"source": "local", "run": "unattended", "access": {"fs": [{"path": ".", "read": True}]}}
OWN = {"source": "local", "runtime": "vfs", "access": ACCESS, "run": "unattended"}
SLOW = ("waits_for_something_slow", "fs.write", json.dumps({"path": "asked/new.txt", "content": "x"}))


def with_house(
    base: Path, tools: dict[str, dict[str, Any]], use: Callable[[Gateway, House], Awaitable[None]], **more: Any
) -> None:
    """Serve some tools, and hold the test to leaving no process and no descriptor behind."""
    house = House.build(base, tools, **more)

    async def run() -> None:
        async with asyncio.timeout(WAIT), serving(house) as gateway:
            await use(gateway, house)
        assert tool_processes() == []

    before = descriptors()
    asyncio.run(run())
    assert descriptors() == before


async def seen(house: House, name: str) -> None:
    await asyncio.to_thread(house.wait_for, name)


def rename(house: House, old: str, new: str) -> None:
    policy = Path(house.policy)
    policy.write_text(policy.read_text().replace(f'"{old}"', f'"{new}"'))


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


def failed(message: str) -> dict[str, Any]:
    told = {"outcome": "error", "message": message, "trace": [], "transient": False}
    return {"content": [{"type": "text", "text": message}], "structuredContent": told, "isError": True}


def state(**state_: Any) -> dict[str, Any]:
    told = {"outcome": "state", "state": state_}
    return {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told, "isError": False}


def test_tools_are_listed_as_mcp_lists_them(tmp_path: Path) -> None:
    tools = {
        "reader": {**OWN, "command": ["byleave-tool", "fs_read_file"]},
        "remover": {**OWN, "command": ["byleave-tool", "fs_delete_file"], "description": "Mine."},
        "stage": tool("stays", stateful=True, actions=["spawn", "abort"]),
        "typed": tool("well_behaved", parameters={"properties": {"a": {"type": "string"}}}),
        "off": tool("well_behaved", enable=False),
        "never": tool("well_behaved", run="skip"),
        "sometimes": tool("well_behaved", run=[{"arg": "/a", "equals": "x", "mode": "skip"}]),
        "bare": {"source": "local", "access": {}},
    }

    async def use(gateway: Gateway, _house: House) -> None:
        listed = {each["name"]: each for each in await gateway.tools.definitions()}
        assert set(listed) == {"good", "reader", "remover", "stage", "typed", "sometimes"}
        assert all(each["inputSchema"]["type"] == "object" for each in listed.values())
        assert listed["reader"]["description"].startswith("Read a text file, or some of its lines.")
        assert listed["reader"]["annotations"] == {"readOnlyHint": True, "openWorldHint": False}
        assert (listed["remover"]["description"], listed["remover"]["annotations"]["destructiveHint"]) == (
            "Mine.",
            True,
        )
        assert [one["properties"]["action"] for one in listed["stage"]["inputSchema"]["oneOf"]] == [
            {"const": "spawn"},
            {"const": "abort"},
        ]
        assert listed["typed"]["inputSchema"]["properties"] == {"a": {"type": "string"}}
        assert await gateway.tools.definitions() is await gateway.tools.definitions()

    with_house(tmp_path, tools, use)


def test_a_reloaded_policy_lists_anew(tmp_path: Path) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        assert [each["name"] for each in await gateway.tools.definitions()] == ["good"]
        rename(house, "good", "better")
        gateway.guard.policy.look_again()
        assert [each["name"] for each in await gateway.tools.definitions()] == ["better"]
        assert await gateway.call("better") == said("hello")
        assert "good" in (await gateway.call("good"))["content"][0]["text"]

    with_house(tmp_path, {}, use)


def test_the_run_mode_is_part_of_the_verdict(tmp_path: Path) -> None:
    modes = {"unattended": "allow", "ask": "ask", "edit": "ask", "skip": "deny"}
    tools = {mode: tool("well_behaved", run=mode) for mode in modes}
    tools["none"] = {key: value for key, value in tool("well_behaved").items() if key != "run"}
    tools["depends"] = tool("well_behaved", run=[{"arg": "/a", "equals": "x", "mode": "unattended"}])
    tools["denied"] = tool("well_behaved")

    async def use(gateway: Gateway, _house: House) -> None:
        assert {mode: gateway.decision(mode) for mode in modes} == modes
        assert gateway.decision("none") == "ask"
        assert [gateway.decision("depends", {"a": value}) for value in ("x", "y")] == ["allow", "ask"]
        assert gateway.decision("denied") == "deny"

    with_house(tmp_path, tools, use, rules=[{"deny": {"call": {"server": "local", "tool": "denied"}}}])


def test_both_runtimes_answer_and_what_fails_says_so(tmp_path: Path) -> None:
    script = "import sys; sys.stdin.read(); sys.stdout.write('plain')"
    tools = {
        "plain": {**PLAIN, "command": [PYTHON, "-IS", "-c", script]},
        "fails": tool("exits_1_with_words"),
        "reader": {**OWN, "command": ["byleave-tool", "fs_read_file"]},
    }

    async def use(gateway: Gateway, _house: House) -> None:
        good, plain, fails, read, denied, unknown = await asyncio.gather(
            gateway.call("good"),
            gateway.call("plain"),
            gateway.call("fails"),
            gateway.call("reader", {"path": "a.txt"}),
            gateway.call("reader", {"path": "denied.txt"}),
            gateway.call("no\x1bsuch"),
        )
        assert (good, plain, read["content"][0]["text"]) == (said("hello"), said("plain"), "hello")
        assert (fails["isError"], fails["structuredContent"]["outcome"]) == (True, "error")
        assert (denied["isError"], "denied.txt" in denied["content"][0]["text"]) == (True, True)
        assert (unknown["isError"], "\x1b" in unknown["content"][0]["text"]) == (True, False)

    with_house(tmp_path, tools, use)


def test_a_cancelled_call_ends_its_tool_first(tmp_path: Path) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        call = asyncio.create_task(gateway.call("deaf"))
        await seen(house, "ready")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert tool_processes() == []
        assert await gateway.call("good") == said("hello")

    with_house(tmp_path, {"deaf": tool("stops_for_nobody", limits={"cancel_timeout": 0.1})}, use)


def test_a_call_that_was_cancelled_before_its_turn_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MOST_OF_ONE", 1)

    async def use(gateway: Gateway, house: House) -> None:
        first = asyncio.create_task(gateway.call("asked"))
        await seen(house, "ready")
        second = asyncio.create_task(gateway.call("writes"))
        await asyncio.sleep(0)
        other = await gateway.call("good", principal="other")  # whom that does not keep waiting
        assert (other, second.done()) == (said("hello"), False)
        second.cancel()
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert not (house.root / "made.txt").exists()

    writes = tool("waits_for_something_slow", "fs.write", json.dumps({"path": "made.txt", "content": "x"}))
    with_house(tmp_path, {"asked": tool("stops_when_asked"), "writes": writes}, use)


def test_closing_ends_what_runs_and_refuses_what_comes(tmp_path: Path) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        call = asyncio.create_task(gateway.call("asked"))
        assert await gateway.call("stage", {"action": "spawn", "id": "h"}) == state(type="running")
        await seen(house, "ready")
        await gateway.tools.close()
        assert (await call)["isError"] is True
        assert tool_processes() == []
        assert "is ending" in (await gateway.call("good"))["content"][0]["text"]
        with pytest.raises(InputError):
            await gateway.tools.pin("good", ME, principal="p")

    with_house(tmp_path, {"asked": tool("stops_when_asked"), "stage": tool("stays", stateful=True)}, use)


OTHERS: list[dict[str, Any]] = [
    {"principal": "token:other"},
    {"who": Who("frontend", "verified")},
    {"who": Who("backend", "claimed")},
    {"who": Who(None, "default")},
]


def test_a_tool_that_stays_belongs_to_whoever_started_it(tmp_path: Path) -> None:
    async def use(gateway: Gateway, _house: House) -> None:
        assert await gateway.call("stage", {"action": "spawn", "id": "h", "args": {"a": 1}}) == state(type="running")
        for other in OTHERS:
            for action in ({"action": "fetch"}, {"action": "apply", "input": "stop"}, {"action": "abort"}):
                assert await gateway.call("stage", {**action, "id": "h"}, **other) == failed("no handle 'h'")
        found = await gateway.call("stage", {"action": "fetch", "id": "h"})
        assert found["structuredContent"]["state"]["type"] == "running"
        assert (await gateway.call("stage", {"action": "abort", "id": "h"})) == state(
            type="stopped", result="as you wish"
        )

    with_house(tmp_path, {"stage": tool("stays", stateful=True)}, use)


def test_what_tools_do_at_once_is_recorded_for_whoever_called_each(tmp_path: Path) -> None:
    async def use(gateway: Gateway, _house: House) -> None:
        callers = [Who(name, "verified") for name in ("ann", "bob")] * 4
        found = await asyncio.gather(
            *(gateway.call("good", who=who, principal=f"token:{who.agent}") for who in callers)
        )
        assert found == [said("hello")] * 8

    with_house(tmp_path, {}, use)
    lines = byleave("audit", "export", "--json", "--root", str(tmp_path / "ws")).out.splitlines()
    records = [record for record in map(json.loads, lines) if record.get("event") == "decision"]
    agents = Counter(record["agent"] for record in records if record["action"]["kind"] == "read")
    assert agents == {"ann": 4, "bob": 4}


def test_of_two_that_want_one_name_at_once_one_gets_it(tmp_path: Path) -> None:
    async def use(gateway: Gateway, _house: House) -> None:
        spawn = {"action": "spawn", "id": "h"}
        found = await asyncio.gather(*(gateway.call("stage", spawn) for _ in range(4)))
        assert sorted(one["isError"] for one in found) == [False, True, True, True]
        while (
            "content" not in (await gateway.call("stage", {"action": "fetch", "id": "h"}))["structuredContent"]["state"]
        ):
            continue

    with_house(tmp_path, {"stage": tool("stays", stateful=True)}, use)


def test_tools_that_stay_are_bounded_for_all_callers_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_MOST_STAYING", 1)

    async def use(gateway: Gateway, _house: House) -> None:
        spawn = {"action": "spawn", "id": "h"}
        assert await gateway.call("stage", spawn) == state(type="running")
        refused = await gateway.call("stage", spawn, principal="other")
        assert "too many tools" in refused["content"][0]["text"]

    with_house(tmp_path, {"stage": tool("stays", stateful=True)}, use)


def test_callers_beyond_the_bound_take_the_place_of_idle_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_MOST_CALLERS", 2)

    async def use(gateway: Gateway, _house: House) -> None:
        spawn, fetch = {"action": "spawn", "id": "h"}, {"action": "fetch", "id": "h"}
        assert await gateway.call("stage", spawn, principal="stays") == state(type="running")
        for principal in "abc":
            assert await gateway.call("good", principal=principal) == said("hello")
        assert (await gateway.call("stage", fetch, principal="stays"))["isError"] is False
        assert await gateway.call("stage", spawn, principal="c") == state(type="running")
        refused = await gateway.call("good", principal="d")
        assert "too many callers" in refused["content"][0]["text"]
        assert (await gateway.call("stage", fetch, principal="c"))["isError"] is False

    with_house(tmp_path, {"stage": tool("stays", stateful=True)}, use)


def test_what_a_tool_needs_a_person_for_is_put_to_the_client_that_called(tmp_path: Path) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        yes, no = Client(ONCE), Client(NO)
        refused = await gateway.call("slow", asker=no)
        assert json.loads(refused["content"][0]["text"])[0] == ["pending", -32001]
        assert not (house.root / "asked/new.txt").exists()
        allowed = await gateway.call("slow", asker=yes)
        assert json.loads(allowed["content"][0]["text"])[0] == ["pending", "done"]
        assert (house.root / "asked/new.txt").read_text() == "x"
        assert [len(client.asked) for client in (no, yes)] == [1, 1]
        assert (yes.asked[0].who.agent, yes.asked[0].facts["path"]) == ("backend", "asked/new.txt")

    with_house(tmp_path, {"slow": tool(*SLOW)}, use)


def test_without_a_client_to_ask_it_is_denied_and_waits_to_be_approved(tmp_path: Path) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        await gateway.call("slow")
        (waiting,) = [one for one in gateway.workspace.approvals.all() if one.status == PENDING]
        assert "asked/new.txt" in waiting.subject
        assert not (house.root / "asked/new.txt").exists()

    with_house(tmp_path, {"slow": tool(*SLOW)}, use)


def test_a_client_that_thinks_keeps_no_other_caller_waiting_and_is_let_off_when_the_call_is_cancelled(
    tmp_path: Path,
) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        thinks = Client(ONCE)
        thinks.ready.clear()
        call = asyncio.create_task(gateway.call("slow", asker=thinks))
        await thinks.is_asked.wait()
        other = await gateway.call("slow", asker=Client(NO), principal="other")
        assert json.loads(other["content"][0]["text"])[0] == ["pending", -32001]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        thinks.ready.set()
        await asyncio.sleep(0)
        assert not (house.root / "asked/new.txt").exists()

    with_house(tmp_path, {"slow": tool(*SLOW)}, use)


def test_an_asker_that_breaks_has_agreed_to_nothing(tmp_path: Path) -> None:
    class Broken(Client):
        async def ask(self, _question: Any, _patience: float) -> str:
            raise ConnectionError("the client is gone")

    async def use(gateway: Gateway, house: House) -> None:
        await gateway.call("slow", asker=Broken(ONCE))
        assert not (house.root / "asked/new.txt").exists()

    with_house(tmp_path, {"slow": tool(*SLOW)}, use)


def test_a_question_comes_back_and_its_answer_is_handed_in(tmp_path: Path) -> None:
    script = """
import json, sys
told = json.loads(sys.stdin.read())["tool"]
answer = told["answers"].get("sure")
question = {"type": "question", "id": "sure", "text": "Really\\x1b[2J?", "options": ["yes", "no"]}
print(json.dumps({"content": [question] if answer is None else [{"type": "text", "text": answer}]}))
"""

    async def use(gateway: Gateway, _house: House) -> None:
        needs = await gateway.tools.call("asks", {}, ME, principal="p")
        assert isinstance(needs, NeedsInput)
        form = question_form("asks", needs)
        assert form["message"] == 'The local tool "asks" has a question: Really\\x1b[2J?'
        assert form["requestedSchema"]["properties"]["answer"]["enum"] == ["yes", "no"]
        answer = answer_in({"answer": "yes"})
        assert answer is not None
        assert await gateway.call("asks", answers={needs.question["id"]: answer}) == said("yes")
        assert result_tree(needs)["isError"] is True

    with_house(tmp_path, {"asks": {**PLAIN, "command": [PYTHON, "-IS", "-c", script]}}, use)


def test_a_tool_that_changed_since_it_was_agreed_to_does_not_run(tmp_path: Path) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        pin = await gateway.tools.pin("script", ME, principal="p")
        assert await gateway.call("script", pin=pin) == said("one")
        (house.root / "a.txt").write_text("print('two')")
        assert "has changed" in (await gateway.call("script", pin=pin))["content"][0]["text"]

    access = {"fs": [{"path": ".", "read": True}]}
    house_tools = {"script": {"source": "local", "run": "ask", "access": access, "command": [PYTHON, "-IS", "a.txt"]}}

    async def first(gateway: Gateway, house: House) -> None:
        (house.root / "a.txt").write_text("print('one', end='')")
        await use(gateway, house)

    with_house(tmp_path, house_tools, first)


def test_a_call_that_takes_its_time_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_EVERY", 0.01)

    async def use(gateway: Gateway, _house: House) -> None:
        told: list[tuple[float, float | None, str]] = []
        enough = asyncio.Event()

        def progress(done: float, total: float | None, message: str) -> None:
            told.append((done, total, message))
            if len(told) == 3:
                enough.set()

        call = asyncio.create_task(gateway.call("asked", progress=progress))
        await enough.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert [done for done, _total, _message in told] == sorted({done for done, _total, _message in told})
        assert told[0][1:] == (None, "asked has run for 0 s")

    with_house(tmp_path, {"asked": tool("stops_when_asked")}, use)


def test_a_tool_says_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    async def use(gateway: Gateway, house: House) -> None:
        described = await gateway.tools.describe("remover", {"path": "a.txt"}, ME, principal="p")
        assert "a.txt" in described
        assert (house.root / "a.txt").exists()
        assert await gateway.tools.describe("nothing", {}, ME, principal="p") == ""

    with_house(tmp_path, {"remover": {**OWN, "command": ["byleave-tool", "fs_delete_file"]}}, use)


BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": "x", "annotations": {"audience": ["user"]}},
    "image": {"type": "image", "data": "AA==", "mimeType": "image/png"},
    "resource": {"type": "resource", "resource": {"uri": "file:///x", "text": "y"}},
    "link": {"type": "resource_link", "uri": "file:///x", "name": "x"},
}
ODD: list[dict[str, Any]] = [
    {"type": "image", "data": 7},
    {"type": "resource", "resource": {"text": "no uri"}},
    {"type": "chart", "points": [1, 2]},
    {"type": "resource_link", "uri": "file:///x"},
]


def test_blocks_pass_as_they_are_and_what_no_client_could_read_becomes_text() -> None:
    content = [*BLOCKS.values(), *ODD]
    expected = [*BLOCKS.values(), *({"type": "text", "text": json.dumps(block)} for block in ODD)]
    assert result_tree(CompletedOutcome(content)) == {"content": expected, "isError": False}


def test_a_result_can_always_be_written_as_json() -> None:
    for outcome in (CompletedOutcome([{"type": "text", "text": "\ud800"}]), broken("\udcff"), CancelledOutcome()):
        tree = result_tree(outcome)
        assert json.loads(json.dumps(tree, ensure_ascii=False).encode()) == tree


@pytest.mark.parametrize("content", [None, {}, {"answer": 7}, "yes", {"Answer": "yes"}])
def test_what_holds_no_answer_is_none(content: Any) -> None:
    assert answer_in(content) is None


def test_nothing_is_kept_open_before_somebody_calls(tmp_path: Path) -> None:
    async def use(gateway: Gateway, _house: House) -> None:
        assert isinstance(gateway.tools, LocalTools)
        before = descriptors()
        await gateway.tools.definitions()
        assert descriptors() == before

    with_house(tmp_path, {}, use)
