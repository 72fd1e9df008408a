"""What an editor and an agent hear through the real proxy when the policy, or a person, has something to say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command import byleave
from fakes.acp_parties import OPTIONS, PERMISSION, SESSION, Proxy, Scene, chosen, eventually, line_of, picked, proxy

POLICY = """
[[rules]]
allow = { command = "ls" }
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { path = "src/**" }
[[rules]]
deny = { path = "secret/**" }
"""
DENIED = -32001


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Proxy]]:
    """One proxy for all who need nothing special."""
    base = tmp_path_factory.mktemp("answers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BYLEAVE_HOME", str(base / "home"))
        scene = Scene(base, POLICY)
        with proxy(scene) as running:
            running.begin(scene)
            yield scene, running


@pytest.fixture
def between(house: tuple[Scene, Proxy]) -> Proxy:
    house[1].drain()
    return house[1]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, POLICY)


def options(*kinds: str) -> list[dict[str, str]]:
    return [
        {"optionId": f"{number}", "name": kind.replace("_", " "), "kind": kind} for number, kind in enumerate(kinds)
    ]


# A person's answer.


@pytest.mark.parametrize("option", ["yes", "no", None])
def test_a_persons_answer_reaches_the_agent_as_it_was_given(between: Proxy, option: str | None) -> None:
    id_ = between.runs("touch once")
    between.is_asked(id_)
    said = json.dumps({**chosen(id_, option), "_meta": {"x": None}}).encode() + b" \n"
    between.client.say(said)
    assert between.agent.line() == said
    between.nothing_came()


@pytest.mark.parametrize(("always", "once"), [("yes-for-ever", "yes"), ("no-for-ever", "no")])
def test_an_answer_for_always_is_one_for_once_to_the_agent_and_remembered_by_us(
    between: Proxy, always: str, once: str
) -> None:
    command = f"touch {always}"
    first = between.runs(command)
    between.is_asked(first)
    between.answers(first, always)
    assert between.agent.hears() == chosen(first, once)
    second = between.runs(command)
    assert picked(between.agent.hears()) == once
    other = between.runs(f"{command} more")
    between.is_asked(other)
    between.answers(other, None)
    assert between.agent.hears() == chosen(other, None)
    between.nothing_came()
    assert second != first


def test_an_answer_for_always_stays_one_where_the_agent_offers_no_other(between: Proxy) -> None:
    id_ = between.runs("touch only-always", options=options("allow_always", "reject_once"))
    between.is_asked(id_)
    between.answers(id_, "0")
    assert between.agent.hears() == chosen(id_, "0")


# Which option answers.


@pytest.mark.parametrize(
    ("command", "kinds", "answer"),
    [
        ("ls", ("allow_always", "allow_once", "reject_once"), "1"),
        ("rm x", ("allow_always", "allow_once", "reject_once"), "2"),
        ("rm x", ("allow_once", "allow_always"), None),
        ("rm x", ("allow_once", "reject_always"), None),
        ("rm x", (), None),
    ],
)
def test_an_option_is_chosen_by_its_kind_and_never_one_for_always(
    between: Proxy, command: str, kinds: tuple[str, ...], answer: str | None
) -> None:
    id_ = between.runs(command, options=options(*kinds))
    heard = between.agent.hears()
    assert (heard["id"], picked(heard)) == (id_, answer)
    between.nothing_came()


@pytest.mark.parametrize("kinds", [("allow_always", "reject_once"), ("reject_once",), (), ("allow_once", "allow_once")])
def test_without_one_plain_option_to_allow_with_a_person_is_asked(between: Proxy, kinds: tuple[str, ...]) -> None:
    id_ = between.runs("ls", options=options(*kinds))
    between.is_asked(id_)
    between.answers(id_, None)
    assert between.agent.hears() == chosen(id_, None)


def test_of_two_options_to_allow_once_the_plain_one_is_taken(between: Proxy) -> None:
    offered = [
        {"optionId": "b", "name": "Yes, and auto-accept edits", "kind": "allow_once"},
        {"optionId": "a", "name": "Yes", "kind": "allow_once"},
        {"optionId": "c", "name": "No", "kind": "reject_once"},
    ]
    id_ = between.runs("ls -l", options=offered)
    assert between.agent.hears() == chosen(id_, "a")


# What an agent does through the editor.


def test_a_file_that_may_not_be_touched_is_refused_and_the_editor_hears_nothing(between: Proxy, house: Any) -> None:
    root = house[0].root
    for method, params in (
        ("fs/read_text_file", {"path": f"{root}/secret/key"}),
        ("fs/write_text_file", {"path": f"{root}/src/../secret/key", "content": "x"}),
        ("terminal/create", {"command": "rm", "args": ["-rf", "x"]}),
        ("terminal/create", {"command": "bash", "args": ["-lc", "ls; rm x"]}),
    ):
        id_ = between.requests(method, params)
        heard = between.agent.hears()
        assert (heard["id"], heard["error"]["code"], bool(heard["error"]["message"])) == (id_, DENIED, True)
    between.nothing_came()


def test_what_nobody_was_asked_about_passes_and_is_recorded_as_unasked(scene: Scene) -> None:
    with proxy(scene) as between:
        between.begin(scene)
        for method, params in (
            ("fs/write_text_file", {"path": f"{scene.root}/new.txt", "content": "x"}),
            ("terminal/create", {"command": "make"}),
            ("terminal/output", {"terminalId": "t"}),
            ("terminal/kill", {"terminalId": "t"}),
        ):
            between.is_asked(between.requests(method, params))
        assert between.ends() == 0
    first, second = scene.audited()
    assert first["action"] == {"kind": "create", "path": "new.txt"}
    assert (second["action"]["kind"], second["action"]["command"]) == ("command", "make")
    assert (first["unasked"], second["unasked"]) == (True, True)
    assert [each["method"] for each in scene.logged()] == ["fs/write_text_file", "terminal/create"]


def test_what_an_agent_did_without_asking_is_recorded_as_far_as_it_told(scene: Scene) -> None:
    with proxy(scene) as between:
        between.begin(scene)
        for said in (
            {"sessionUpdate": "tool_call", "kind": "execute", "title": "Terminal", "status": "pending", "rawInput": {}},
            {"sessionUpdate": "tool_call_update", "rawInput": {"command": "make install"}},
            {"sessionUpdate": "tool_call_update", "status": "completed"},
        ):
            params = {"sessionId": SESSION, "update": {"toolCallId": "c", **said}}
            line = line_of({"jsonrpc": "2.0", "method": "session/update", "params": params})
            between.agent.say(line)
            assert between.client.line() == line
        assert between.ends() == 0
    [record] = scene.audited()
    assert (record["action"]["command"], record["unasked"], record["event"]) == ("make install", True, "observed")


# --strict


@pytest.fixture
def strict(scene: Scene) -> Iterator[tuple[Scene, Proxy]]:
    with proxy(scene, "--strict") as running:
        running.begin(scene)
        yield scene, running


def test_a_strict_proxy_asks_about_what_nobody_was_asked(strict: tuple[Scene, Proxy]) -> None:
    scene, between = strict
    line = line_of(
        {"jsonrpc": "2.0", "id": 7, "method": "fs/write_text_file", "params": write_of(scene, "a.txt")}
    )  # fmt: skip
    between.agent.say(line)
    question = between.client.hears()
    assert (question["method"], question["params"]["sessionId"]) == (PERMISSION, SESSION)
    assert isinstance(question["id"], str)
    kinds = {option["kind"]: option["optionId"] for option in question["params"]["options"]}
    assert sorted(kinds) == ["allow_once", "reject_once"]
    between.answers(question["id"], kinds["allow_once"])
    assert between.client.line() == line
    between.nothing_came()  # the agent's answer is the editor's to give
    refused = between.requests("fs/write_text_file", write_of(scene, "b.txt"))
    question = between.client.hears()
    between.answers(question["id"], kinds["reject_once"])
    heard = between.agent.hears()
    assert (heard["id"], heard["error"]["code"]) == (refused, DENIED)
    between.nothing_came()
    assert between.ends() == 0
    assert [(each["action"]["path"], each["answer"]["choice"]) for each in scene.audited()] == [
        ("a.txt", "once"),
        ("b.txt", "no"),
    ]


def test_a_strict_proxy_does_not_ask_again_about_what_was_just_allowed(strict: tuple[Scene, Proxy]) -> None:
    scene, between = strict
    path = f"{scene.root}/a.txt"
    diff = {"type": "diff", "path": path, "newText": "x"}
    asked = between.asks(title="Write a.txt", kind="edit", content=[diff], locations=[{"path": path}])
    between.is_asked(asked)
    between.answers(asked, "yes")
    assert between.agent.hears() == chosen(asked, "yes")
    between.is_asked(between.requests("fs/write_text_file", write_of(scene, "a.txt")))
    between.requests("fs/write_text_file", write_of(scene, "other.txt"))
    assert between.client.hears()["method"] == PERMISSION


def test_a_strict_proxy_answers_its_own_question_when_it_is_cancelled(strict: tuple[Scene, Proxy]) -> None:
    scene, between = strict
    id_ = between.requests("fs/write_text_file", write_of(scene, "a.txt"))
    question = between.client.hears()
    cancel(between)
    heard = between.agent.hears()
    assert (heard["id"], "error" in heard) == (id_, True)
    between.answers(question["id"], None)
    between.client.say({"jsonrpc": "2.0", "method": "_end"})
    assert between.agent.hears()["method"] == "_end"


def write_of(scene: Scene, name: str) -> dict[str, str]:
    return {"sessionId": SESSION, "path": f"{scene.root}/{name}", "content": "x"}


def cancel(between: Proxy) -> None:
    between.client.say({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}})
    assert between.agent.hears()["method"] == "session/cancel"


# Cancelling.


@pytest.mark.parametrize("option", [None, "yes", "yes-for-ever"])
def test_after_a_cancel_the_agent_hears_cancelled_whatever_the_editor_picks(between: Proxy, option: str | None) -> None:
    id_ = between.runs("touch cancelled")
    between.is_asked(id_)
    cancel(between)
    between.answers(id_, option)
    assert between.agent.hears() == chosen(id_, None)
    between.nothing_came()


def test_a_request_that_its_agent_withdraws_is_answered_once(between: Proxy) -> None:
    id_ = between.runs("touch withdrawn")
    between.is_asked(id_)
    withdrawal = line_of({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id_}})
    between.agent.say(withdrawal)
    assert between.client.line() == withdrawal
    heard = between.agent.hears()
    assert heard["id"] == id_
    assert "error" in heard or picked(heard) is None
    between.answers(id_, None)
    between.nothing_came()


# Who is at work, and what the policy says now.


def test_each_agent_has_rules_of_its_own(scene: Scene) -> None:
    scene.policy.write_text('[[rules]]\nallow = { command = "touch", agent = "careful-*" }\n')
    for profile, allowed in (("careful-one", True), ("reckless", False)):
        with proxy(scene, "--agent-profile", profile) as between:
            between.begin(scene)
            id_ = between.runs("touch a")
            if not allowed:
                between.is_asked(id_)
                between.answers(id_, "no")
            assert between.agent.hears() == chosen(id_, "yes" if allowed else "no")
            assert between.ends() == 0
    assert [(each["agent"], each["identity"], each["verdict"]["decision"]) for each in scene.audited()] == [
        ("careful-one", "verified", "allow"),
        ("reckless", "verified", "deny"),
    ]


def test_a_call_of_an_mcp_server_is_judged_for_the_agent_that_makes_it(scene: Scene) -> None:
    rule = 'deny = { call = { server = "db", tool = "drop_*" }, agent = "careful" }'
    scene.policy.write_text(f"[[rules]]\n{rule}\n")
    with proxy(scene, "--agent-profile", "careful") as between:
        between.begin(scene)
        meta = {"claudeCode": {"toolName": "mcp__db__drop_table"}}
        between.asks(title="mcp__db__drop_table", kind="other", rawInput={"name": "users"}, _meta=meta)
        assert picked(between.agent.hears()) == "no"
        between.nothing_came()
        assert between.ends() == 0
    [record] = scene.audited()
    assert (record["action"]["server"], record["action"]["tool"], record["agent"]) == ("db", "drop_table", "careful")


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
def test_each_session_is_judged_by_the_policy_of_its_own_workspace(scene: Scene, method: str) -> None:
    other = scene.base.resolve() / "other"
    other.mkdir()
    for root, decision in ((scene.root, "deny"), (other, "allow")):
        (root / "byleave.toml").write_text(f'[[rules]]\n{decision} = {{ command = "make" }}\n')
        assert byleave("trust", "byleave.toml", "--yes", "--root", str(root), cwd=root).code == 0
    with proxy(scene, is_found=True) as between:
        between.begin(scene)
        params = {"cwd": str(other), "mcpServers": []}
        named = {} if method == "session/new" else {"sessionId": "s2"}
        between.client.say({"jsonrpc": "2.0", "id": 5, "method": method, "params": {**params, **named}})
        between.agent.hears()
        between.agent.say({"jsonrpc": "2.0", "id": 5, "result": {"sessionId": "s2"}})
        between.client.hears()
        call = {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "make"}}
        for session, option in ((SESSION, "no"), ("s2", "yes"), (SESSION, "no")):
            between.requests(PERMISSION, {"sessionId": session, "toolCall": call, "options": OPTIONS})
            assert picked(between.agent.hears()) == option
        between.nothing_came()


def test_a_root_that_was_named_holds_for_every_session(scene: Scene) -> None:
    with proxy(scene, "--root", str(scene.out)) as between:
        between.begin(scene)
        id_ = between.requests("fs/read_text_file", {"path": f"{scene.root}/src/a"})
        between.is_asked(id_)  # `src` below the root that was named is another
        assert scene.logged()[-1]["action"]["path"] == f"{scene.root}/src/a"


def test_an_edited_policy_holds_without_a_restart_and_a_broken_one_changes_nothing(scene: Scene) -> None:
    with proxy(scene) as between:
        between.begin(scene)
        assert becomes_of(between, "make") == "asked"
        scene.policy.write_text(POLICY + '[[rules]]\nallow = { command = "make" }\n')
        eventually(lambda: becomes_of(between, "make") == "yes", "the edited policy never held")
        scene.policy.write_text("[[rules]]\nallow = { command = ")
        between.warned(scene.policy.name)
        told = between.errors.read_text()
        assert [becomes_of(between, "make") for _ in range(3)] == ["yes"] * 3
        scene.policy.write_text('[[rules]]\ndeny = { command = "make" }\n')
        eventually(lambda: becomes_of(between, "make") == "no", "the mended policy never held")
        assert between.ends() == 0
        assert between.errors.read_text() == told
    assert told.count("byleave: ") == 1


def becomes_of(between: Proxy, command: str) -> str | None:
    """Return the option that answers a request to run this, or that the editor was asked."""
    id_ = between.runs(command)
    between.agent.say({"jsonrpc": "2.0", "method": "_mark"})
    is_asked = between.client.hears().get("method") == PERMISSION
    if is_asked:
        assert between.client.hears()["method"] == "_mark"
        between.answers(id_, None)
    answer = picked(between.agent.hears())
    return "asked" if is_asked else answer


# What cannot be read for certain.

CALL = '{"toolCallId":"c","kind":"execute","rawInput":{"command":"ls"}}'
REQUEST = f'{{"sessionId":"s1","toolCall":{CALL},"options":[]}}'
TWO_COMMANDS = REQUEST.replace('"ls"', '"ls","command":"rm x"')
ASKING = '"method":"session/request_permission"'
SAME_ID = '[{"optionId":"a","name":"A","kind":"allow_once"},{"optionId":"a","name":"B","kind":"reject_once"}]'


@pytest.mark.parametrize(
    "written",
    [
        f'{ASKING},"params":{REQUEST},"params":{REQUEST}',
        f'{ASKING},"Params":{REQUEST},"params":{REQUEST}',
        f'{ASKING},"method":"session/update","params":{REQUEST}',
        f'"method":"session/update","method":"fs/read_text_file","params":{REQUEST}',
        f'"METHOD":"fs/read_text_file","params":{REQUEST}',
        f'{ASKING},"params":{{"sessionId":"s1","SessionID":"s2","toolCall":{CALL},"options":[]}}',
        f'{ASKING},"params":{{"sessionId":"s1","toolCall":{CALL},"options":{SAME_ID}}}',
        f'{ASKING},"params":{TWO_COMMANDS}',
        f'{ASKING},"params":{REQUEST.replace("rawInput", "rawinput")}',
        f"{ASKING}",
        '"method":"fs\\/write_text_file","params":{"sessionId":"s1","path":"/a","path":"/b","content":""}',
        '"method":"terminal/create","params":{"sessionId":"s1","command":"ls","Command":"rm"}',
        '"method":"terminal\\u002fcreate","params":{"sessionId":"s1"}',
    ],
)
def test_what_two_readers_could_read_differently_is_refused(between: Proxy, written: str) -> None:
    between.agent.say(f'{{"jsonrpc":"2.0","id":90,{written}}}\n'.encode())
    heard = between.agent.hears()
    assert heard["id"] == 90
    assert "error" in heard
    between.nothing_came()


def test_two_requests_under_one_id_are_not_both_asked(between: Proxy) -> None:
    id_ = between.runs("touch first")
    between.is_asked(id_)
    second = {"toolCallId": "d", "kind": "execute", "rawInput": {"command": "touch second"}}
    params = {"sessionId": SESSION, "toolCall": second, "options": OPTIONS}
    between.agent.say({"jsonrpc": "2.0", "id": id_, "method": PERMISSION, "params": params})
    assert "error" in between.agent.hears()
    between.answers(id_, "yes")
    assert between.agent.hears() == chosen(id_, "yes")
    between.nothing_came()


# What is not ours.


def test_the_same_id_under_way_in_both_directions_is_no_confusion(between: Proxy) -> None:
    id_ = between.runs("touch both")
    between.is_asked(id_)
    prompt = line_of({"jsonrpc": "2.0", "id": id_, "method": "session/prompt", "params": {"sessionId": SESSION}})
    between.client.say(prompt)
    assert between.agent.line() == prompt
    done = line_of({"jsonrpc": "2.0", "id": id_, "result": {"stopReason": "end_turn"}})
    between.agent.say(done)
    assert between.client.line() == done
    between.answers(id_, "yes")
    assert between.agent.hears() == chosen(id_, "yes")
    between.nothing_came()


@pytest.mark.parametrize("wanted", [1, 2])
def test_what_agrees_on_version_1_is_judged(scene: Scene, wanted: int) -> None:
    with proxy(scene, code=7) as between:
        between.begin(scene, version=wanted, agreed=1)
        between.runs("rm x")
        assert picked(between.agent.hears()) == "no"
        between.nothing_came()
        assert between.ends() == 7


def test_an_agent_that_insists_on_version_2_is_refused(scene: Scene) -> None:
    with proxy(scene, code=7) as between:
        between.client.say(
            line_of({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 2}})
        )
        assert between.agent.hears()["params"] == {"protocolVersion": 1}
        between.agent.say(line_of({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}}))
        assert "supports version 1" in between.client.hears()["error"]["message"]
        between.runs("rm x")
        assert between.agent.hears()["error"]["code"] == -32600
        between.warned("nothing passes any more")
        assert between.ends() == 7
