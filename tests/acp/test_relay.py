"""What the relay does with every kind of message: judged, answered, asked, remembered, or passed on as it came."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.acp_talk import OPTIONS, Talk, answer, update

CANCELLED = {"outcome": {"outcome": "cancelled"}}


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def chosen(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


# What the policy answers.


def test_what_is_allowed_is_answered_once_and_the_editor_hears_nothing(talk: Talk) -> None:
    talk.agent(talk.command("ls -la"))
    assert talk.to_agent() == [{"jsonrpc": "2.0", "id": 1, "result": chosen("yes")}]
    assert talk.to_client() == []
    [record] = talk.records()
    assert (record["action"]["command"], record["verdict"]["decision"]) == ("ls -la", "allow")
    assert record["sources"]["command"] == "rawInput.command"


def test_what_is_denied_is_rejected_and_the_agent_can_read_why(talk: Talk) -> None:
    talk.agent(talk.command("rm -rf /"))
    [reply] = talk.to_agent()
    assert reply["result"]["outcome"] == chosen("no")["outcome"]
    assert "rm" in reply["result"]["_meta"]["byleave"]["reason"]
    assert talk.to_client() == []


def test_what_nobody_decided_goes_to_the_editor_unchanged(talk: Talk) -> None:
    request = talk.permission()
    talk.agent(request)
    assert (talk.to_client(), talk.to_agent()) == ([request], [])
    talk.client(answer("yes"))
    assert talk.to_agent() == [answer("yes")]
    [record] = talk.records()
    assert (record["verdict"]["decision"], record["answer"]) == ("allow", {"by": "editor", "choice": "once"})


def test_a_request_that_says_nothing_is_understood_from_what_was_told_before(talk: Talk) -> None:
    talk.agent(update(kind="execute", title="Terminal", rawInput={}))
    talk.agent(update(rawInput={"command": "ls"}))
    talk.agent(update(rawInput=None, title="", kind=None))
    talk.forget()
    talk.agent(talk.permission(status="pending"))
    assert talk.to_agent() == [answer("yes")]


def test_calls_with_the_same_id_in_two_sessions_are_two_calls(talk: Talk) -> None:
    other = update(kind="execute", rawInput={"command": "ls"})
    other["params"]["sessionId"] = "another"
    talk.agent(other)
    talk.forget()
    talk.agent(talk.permission(status="pending"))
    assert len(talk.to_client()) == 1
    assert talk.logged[0]["understood"] is False


def test_every_path_of_an_edit_counts(talk: Talk) -> None:
    diff = [{"type": "diff", "path": f"{talk.root}/{name}", "newText": "x"} for name in ("src/a", "secret/b")]
    talk.agent(talk.permission(kind="edit", content=diff))
    assert talk.to_agent()[0]["result"]["outcome"] == chosen("no")["outcome"]
    assert [record["action"]["path"] for record in talk.records()] == ["src/a", "secret/b"]


@pytest.mark.parametrize(
    ("options", "command", "expected"),
    [
        ([OPTIONS[0], OPTIONS[2]], "ls", None),
        ([OPTIONS[0]], "rm x", CANCELLED),
        ([], "rm x", CANCELLED),
        ([*OPTIONS, {"optionId": "plan", "name": "Yes, and switch to auto mode", "kind": "allow_once"}], "ls", "yes"),
        ([{"optionId": "x", "name": "Yes, and accept all edits", "kind": "allow_once"}], "ls", None),
        ([{"optionId": n, "name": "", "kind": "allow_once"} for n in "ab"], "ls", None),
        ([{"optionId": "cancel", "name": "Reject", "kind": "reject_once"}], "rm x", "cancel"),
        ([{"optionId": "a", "name": "No, and tell it what to do", "kind": "reject_once"}], "rm x", "a"),
        ([{"optionId": "allow", "name": "Allow", "kind": "reject_once"}], "rm x", "allow"),
    ],
)
def test_only_a_plain_option_answers(talk: Talk, options: Any, command: str, expected: Any) -> None:
    talk.agent(talk.command(command, options=options))
    if expected is None:
        assert (len(talk.to_client()), talk.to_agent()) == (1, [])
    else:
        wanted = expected if isinstance(expected, dict) else chosen(expected)
        assert talk.to_agent()[0]["result"]["outcome"] == wanted["outcome"]
        assert talk.to_client() == []


def test_an_allow_that_cannot_be_given_once_is_the_editor_s_to_give_and_stays_recorded(talk: Talk) -> None:
    talk.agent(talk.command("ls", options=[OPTIONS[0], OPTIONS[2]]))
    talk.client(answer("no"))
    assert talk.to_agent() == [answer("no")]
    assert [record["verdict"]["decision"] for record in talk.records()] == ["deny"]


def test_another_command_than_the_call_told_before_is_judged_together_with_it(talk: Talk) -> None:
    talk.agent(update(kind="execute", rawInput={"command": "rm -rf x; echo 'y'"}))
    talk.agent(talk.command("'rm -rf x; echo '\\''y'\\'"))
    assert talk.to_agent()[0]["result"]["outcome"] == chosen("no")["outcome"]
    talk.forget()
    talk.agent(update("d", kind="execute", rawInput={"command": "make"}))
    talk.agent(talk.permission(2, call="d", kind="execute", rawInput={"command": "ls"}))
    assert talk.to_client()[1:] == [talk.permission(2, call="d", kind="execute", rawInput={"command": "ls"})]


def test_a_question_to_the_user_is_not_answered_for_them(talk: Talk) -> None:
    submit = [{"optionId": "s", "name": "Submit", "kind": "allow_once"}, OPTIONS[2]]
    talk.agent(talk.permission(1, kind="think", rawInput={"questions": [{"q": "which?"}]}))
    talk.agent(talk.permission(2, call="d", kind="think", options=submit))
    assert [request["id"] for request in talk.to_client()] == [1, 2]
    talk.agent(talk.permission(3, call="e", kind="think"))
    assert [reply["id"] for reply in talk.to_agent()] == [3]


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("mcp_db_drop_it__mcp_db_drop_it_17_0", {"kind": "other"}),
        ("c", {"title": "drop", "kind": "other", "_meta": {"tool_name": "db_drop_it"}}),
        ("c", {"title": "drop", "_meta": {"claudeCode": {"toolName": "mcp__db__drop_it"}}}),
    ],
)
def test_a_call_to_an_mcp_server_is_known_by_the_server_s_name(tmp_path: Path, call: str, fields: Any) -> None:
    talk = Talk(tmp_path, '[[rules]]\ndeny = { call = { server = "db", tool = "drop_*" } }\n')
    load = {"sessionId": "s", "cwd": talk.root, "mcpServers": [{"name": "db"}, {"name": "other"}]}
    talk.client({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": load})
    talk.forget()
    talk.agent(talk.permission(call=call, rawInput={"table": "t"}, **fields))
    assert talk.to_agent()[0]["result"]["outcome"] == chosen("no")["outcome"]


def test_a_call_without_arguments_is_a_call(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[[rules]]\nallow = { call = { server = "db", tool = "list" } }\n')
    meta = {"claudeCode": {"toolName": "mcp__db__list"}}
    talk.agent(update(kind="other", rawInput={}, _meta=meta))
    talk.agent(talk.permission(1, rawInput={}))
    assert talk.to_agent() == [answer("yes")]


def test_a_title_does_not_make_a_call_to_a_server_of_a_command(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[[rules]]\nallow = { call = { server = "db" } }\n[[rules]]\ndeny = { command = "rm" }\n')
    load = {"sessionId": "s", "cwd": talk.root, "mcpServers": [{"name": "db"}]}
    talk.client({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": load})
    for number, more in enumerate(({}, {"_meta": {"toolName": "bash"}})):
        talk.agent(
            talk.permission(number, f"c{number}", kind="other", title="db_x", rawInput={"command": "rm"}, **more)
        )
        assert talk.logged[-1]["verdict"]["decision"] == "deny"


# What the user answers.


@pytest.mark.parametrize(("picked", "sent"), [("always", "yes"), ("never", "no")])
def test_an_answer_for_always_becomes_one_for_once_and_is_remembered(talk: Talk, picked: str, sent: str) -> None:
    talk.agent(talk.permission(1))
    talk.client(answer(picked))
    assert [reply["result"]["outcome"] for reply in talk.to_agent()] == [chosen(sent)["outcome"]]
    talk.to_client()
    talk.agent(talk.permission(2))
    assert [reply["result"]["outcome"] for reply in talk.to_agent()] == [chosen(sent)["outcome"]]
    assert talk.to_client() == []
    talk.agent(talk.command("make all", 3))
    assert len(talk.to_client()) == 1


def test_an_always_that_has_no_once_is_passed_on(talk: Talk) -> None:
    talk.agent(talk.permission(options=[OPTIONS[0]]))
    talk.client(answer("always"))
    assert talk.to_agent() == [answer("always")]


@pytest.mark.parametrize(
    "reply",
    [
        {"outcome": {"outcome": "selected", "optionId": "unknown"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": "selected"},
        {"outcome": {"Outcome": "selected", "outcome": "cancelled", "optionId": "yes"}},
        None,
        [],
    ],
)
def test_an_answer_that_cannot_be_read_is_no_yes(talk: Talk, reply: Any) -> None:
    talk.agent(talk.permission())
    talk.client({"jsonrpc": "2.0", "id": 1, "result": reply})
    assert [heard["result"] for heard in talk.to_agent()] == [CANCELLED]
    assert [record["verdict"]["decision"] for record in talk.records()] == ["deny"]


def test_an_error_is_passed_on_and_counts_as_a_no(talk: Talk) -> None:
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no dialog"}}
    talk.agent(talk.permission())
    talk.client(error)
    assert talk.to_agent() == [error]
    assert [record["verdict"]["decision"] for record in talk.records()] == ["deny"]


def test_a_second_answer_is_dropped(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.client(answer("no"))
    talk.client(answer("yes"))
    assert talk.to_agent() == [answer("no")]
    talk.agent({"jsonrpc": "2.0", "id": 1, "method": "_other", "params": {}})
    talk.client({"jsonrpc": "2.0", "id": 1, "result": "of the other"})
    assert talk.to_agent() == [{"jsonrpc": "2.0", "id": 1, "result": "of the other"}]


def test_a_yes_for_what_a_rule_denies_by_now_is_a_no(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.scene.say("user", '[[rules]]\ndeny = { command = "make" }\n')
    talk.relay._authorizer.look_again()  # noqa: SLF001 -- as time passing would do
    talk.client(answer("yes"))
    assert [reply["result"]["outcome"] for reply in talk.to_agent()] == [chosen("no")["outcome"]]


# Cancelling.


def cancel(session: str = "s") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}


def test_after_a_cancel_the_editor_s_answer_is_passed_on_as_it_is(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.client(cancel())
    assert talk.relay.is_waiting
    reply = {**answer(None), "_meta": {"x": None}}
    talk.client(reply)
    talk.wait(5)
    assert talk.to_agent() == [cancel(), reply]
    assert [record["answer"]["choice"] for record in talk.records()] == ["cancelled"]


def test_after_a_cancel_a_silent_editor_is_answered_for_once(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.client(cancel())
    talk.wait(0.5)
    assert talk.to_agent() == [cancel()]
    talk.wait(0.6)
    talk.client(answer("yes"))
    talk.wait(5)
    assert talk.to_agent() == [answer(None)]
    assert not talk.relay.is_waiting


def test_after_a_cancel_a_yes_is_none(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.client(cancel())
    talk.client(answer("always"))
    assert talk.to_agent() == [cancel(), answer(None)]


def test_a_cancel_is_for_its_own_session(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.client(cancel("another"))
    talk.wait(5)
    talk.client(answer("yes"))
    assert talk.to_agent() == [cancel("another"), answer("yes")]


def test_a_request_that_the_agent_withdraws_is_answered_once(talk: Talk) -> None:
    withdraw = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}
    talk.agent(talk.permission())
    talk.agent(withdraw)
    assert talk.to_client()[1:] == [withdraw]
    talk.wait(2)
    talk.client({"jsonrpc": "2.0", "id": 1, "error": {"code": -32800, "message": "cancelled"}})
    assert talk.to_agent() == [answer(None)]


def test_what_is_open_when_everybody_goes_is_recorded_as_unanswered(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.relay.close()
    assert [record["answer"]["choice"] for record in talk.records()] == ["nobody"]


# Files and terminals.


def test_a_denied_file_never_reaches_the_editor(talk: Talk) -> None:
    talk.agent(talk.write("secret/a"))
    [reply] = talk.to_agent()
    assert (reply["id"], reply["error"]["code"]) == (7, -32001)
    assert "secret" in reply["error"]["message"]
    assert reply["error"]["data"]["decision"] == "deny"
    assert "suggestion" not in reply["error"]["data"]
    assert talk.to_client() == []


@pytest.mark.parametrize(("path", "decision"), [("src/a", "allow"), ("other", "ask")])
def test_a_file_that_nobody_asked_about_goes_on_and_is_recorded_as_unasked(
    talk: Talk, path: str, decision: str
) -> None:
    request = talk.write(path)
    talk.agent(request)
    assert (talk.to_client(), talk.to_agent()) == ([request], [])
    [record] = talk.records()
    assert (record["verdict"]["decision"], record["unasked"], record["action"]["kind"]) == (decision, True, "create")


@pytest.mark.parametrize("picked", ["yes", "always"])
def test_what_was_asked_in_the_same_call_is_not_unasked(talk: Talk, picked: str) -> None:
    talk.agent(talk.permission(kind="edit", locations=[{"path": f"{talk.root}/other"}]))
    talk.client(answer(picked))
    talk.agent(talk.write("other"))
    assert "unasked" not in talk.records()[-1]
    assert picked == "always" or talk.records()[-1]["answer"] == {"by": "editor", "choice": "elsewhere"}
    talk.agent(talk.write("another", 8))
    assert talk.records()[-1]["unasked"]
    talk.agent(update(status="completed"))
    talk.agent(talk.write("other", 9))
    assert picked == "always" or talk.records()[-1]["unasked"]


def test_a_command_in_a_terminal_is_judged_by_its_arguments(talk: Talk) -> None:
    def create(id_: int, **fields: Any) -> dict[str, Any]:
        params = {"sessionId": "s", "cwd": talk.root, **fields}
        return {"jsonrpc": "2.0", "id": id_, "method": "terminal/create", "params": params}

    talk.agent(create(1, command="rm", args=["-rf", "/"]))
    talk.agent(create(2, command="bash", args=["-lc", "ls && rm x"]))
    talk.agent(create(3, command="ls; rm -rf ~"))
    talk.agent(create(4, command="echo", args=["a", ";", "rm", "x"]))  # as an editor that asks a shell runs it
    assert [(reply["id"], reply["error"]["code"]) for reply in talk.to_agent()] == [(n, -32001) for n in (1, 2, 3, 4)]
    talk.agent(create(5, command="ls", args=["-la"]))
    talk.agent(create(6, command="bash", args=["-c", "ls && echo x"]))
    talk.agent(create(7, command="ls", env=[{"name": "LD_PRELOAD", "value": "./x.so"}]))
    assert [request["id"] for request in talk.to_client()] == [5, 6, 7]
    assert [record["verdict"]["decision"] for record in talk.records()[-3:]] == ["allow", "allow", "ask"]


def test_other_requests_about_terminals_pass(talk: Talk) -> None:
    for method in ("terminal/output", "terminal/kill", "terminal/release", "terminal/wait_for_exit"):
        talk.agent({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"sessionId": "s", "terminalId": "t"}})
    assert len(talk.to_client()) == 4
    assert talk.records() == []


# Strict.


def test_strictly_what_nobody_asked_about_is_asked_by_us(tmp_path: Path) -> None:
    talk = Talk(tmp_path, strict=True)
    request = talk.write("other")
    talk.agent(request)
    [question] = talk.to_client()
    assert question["method"] == "session/request_permission"
    assert question["params"]["sessionId"] == "s"
    assert [option["kind"] for option in question["params"]["options"]] == ["allow_once", "reject_once"]
    talk.client(answer(question["params"]["options"][0]["optionId"], question["id"]))
    assert (talk.to_client(), talk.to_agent()) == ([request], [])
    [record] = talk.records()
    assert (record["verdict"]["decision"], record.get("unasked")) == ("allow", None)


def test_strictly_a_no_is_an_error_and_a_second_answer_nothing(tmp_path: Path) -> None:
    talk = Talk(tmp_path, strict=True)
    talk.agent(talk.write("other"))
    [question] = talk.to_client()
    talk.client(answer("reject", question["id"]))
    talk.client(answer("allow", question["id"]))
    assert [(reply["id"], reply["error"]["code"]) for reply in talk.to_agent()] == [(7, -32001)]
    assert talk.to_client() == []


def test_strictly_what_is_allowed_or_was_asked_is_not_asked_again(tmp_path: Path) -> None:
    talk = Talk(tmp_path, strict=True)
    talk.agent(talk.write("src/a"))
    talk.agent(talk.permission(kind="edit", locations=[{"path": f"{talk.root}/other"}]))
    talk.client(answer("yes"))
    talk.agent(talk.write("other", 8))
    assert [request["method"] for request in talk.to_client()] == [
        "fs/write_text_file",
        "session/request_permission",
        "fs/write_text_file",
    ]


@pytest.mark.parametrize("how", ["session", "request"])
def test_strictly_a_held_request_can_be_cancelled(tmp_path: Path, how: str) -> None:
    talk = Talk(tmp_path, strict=True)
    talk.agent(talk.write("other"))
    [question] = talk.to_client()
    if how == "session":
        talk.client(cancel())
        assert talk.heard["agent"].pop(0) == json.dumps(cancel()).encode() + b"\n"
    else:
        talk.agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}})
    assert [(reply["id"], reply["error"]["code"]) for reply in talk.to_agent()] == [(7, -32800)]
    assert talk.to_client() == [
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": question["id"]}}
    ]
    talk.client(answer("allow", question["id"]))
    talk.wait(5)
    assert talk.to_client() == []


# What an agent did by itself.


def test_what_an_agent_did_without_asking_is_recorded_when_it_is_done(talk: Talk) -> None:
    talk.agent(update(kind="execute", rawInput={"command": "rm x"}, status="in_progress"))
    assert talk.records() == []
    talk.agent(update(status="completed"))
    [record] = talk.records()
    assert (record["event"], record["unasked"], record["outcome"]) == ("observed", True, "completed")
    assert (record["action"]["command"], record["verdict"]["decision"]) == ("rm x", "deny")


def test_what_was_asked_or_only_thought_is_not_recorded_again(talk: Talk) -> None:
    talk.agent(talk.command("ls"))
    talk.agent(update(status="completed"))
    talk.agent(update("d", kind="think", status="completed"))
    assert len(talk.records()) == 1


def test_what_is_done_in_spite_of_a_no_is_recorded(talk: Talk) -> None:
    talk.agent(talk.command("rm x"))
    talk.agent(update(status="completed"))
    assert [record.get("refused_before") for record in talk.records()] == [None, True]


# Versions, profiles, workspaces.


@pytest.mark.parametrize(("asked", "answered"), [(1, 2), (2, 1), (1, 1), (2, "2"), (2, None)])
def test_one_side_alone_does_not_switch_us_off(talk: Talk, asked: Any, answered: Any) -> None:
    talk.client({"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": asked}})
    talk.agent({"jsonrpc": "2.0", "id": 9, "result": {"protocolVersion": answered}})
    talk.forget()
    talk.agent(talk.command("rm x"))
    assert talk.to_client() == []


def test_a_profile_has_rules_of_its_own(tmp_path: Path) -> None:
    rules = '[[rules]]\nallow = { command = "make", agent = "claude" }\n'
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name, base, answered in (("claude", "a", 1), ("other", "b", 0)):
        talk = Talk(tmp_path / base, rules, agent=name)
        talk.agent(talk.permission())
        assert len(talk.to_agent()) == answered
        talk.relay.close()
        assert {(record["agent"], record["identity"]) for record in talk.records()} == {(name, "verified")}


def test_a_session_in_another_workspace_is_judged_by_its_own_policy(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "byleave.toml").write_text('[[rules]]\ndeny = { command = "make" }\n')
    talk.client({"jsonrpc": "2.0", "id": 5, "method": "session/load", "params": {"sessionId": "t", "cwd": str(other)}})
    talk.forget()
    request = talk.permission()
    request["params"]["sessionId"] = "t"
    talk.agent(request)
    assert talk.to_agent()[0]["result"]["outcome"] == chosen("no")["outcome"]
    (other / "byleave.toml").write_text("[[rules]\n")
    for name in ("a", "b"):
        other = tmp_path / name
        other.mkdir()
        (other / "byleave.toml").write_text("[[rules]\n")
        load = {"sessionId": name, "cwd": str(other)}
        talk.client({"jsonrpc": "2.0", "id": 6, "method": "session/load", "params": load})
        talk.forget()
        request = talk.command("ls", 10)
        request["params"]["sessionId"] = name
        request["id"] = name
        talk.agent(request)
        assert len(talk.to_client()) == 1  # what its own rules say cannot be known, so nothing is allowed


def test_a_policy_that_becomes_unusable_keeps_the_old_one_and_says_so_once(talk: Talk) -> None:
    talk.scene.say("user", "[[rules]\n")
    for _ in range(3):
        talk.wait(1.5)
    notices = [notice for notice in talk.relay.notices() if "config.toml" in notice]
    assert len(notices) == 1
    talk.agent(talk.command("ls"))
    assert talk.to_agent() == [answer("yes")]
    assert talk.relay.notices() == []


def test_the_log_has_one_object_for_each_request_that_was_judged(talk: Talk) -> None:
    talk.agent(talk.command("ls", 1))
    talk.agent(talk.command("make", 2))
    talk.agent(talk.write("secret/x", 3))
    talk.agent(update("z", kind="execute", rawInput={"command": "ls"}, status="completed"))
    talk.client(answer("yes", 2))
    assert [(entry["id"], entry["verdict"]["decision"]) for entry in talk.logged] == [
        (1, "allow"),
        (2, "ask"),
        (3, "deny"),
    ]
    json.dumps(talk.logged)


# What came of attacks.


def test_an_update_that_cannot_be_read_leaves_no_older_one_in_force(tmp_path: Path) -> None:
    told = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}'
    inner = '{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":{"command":"rm -rf / %s"}}'
    forms = [
        told % (inner % "\\ud83d"),
        told % (inner % "\udcff"),
        told % inner.replace("%s", '","n":1e999,"x":"'),
        told % (inner % "")[:-1] + "}",
        (told % (inner % ""))[:-1] + ',"METHOD":"x"}',
        (told % (inner % "")).replace('"params":', '\r"params":'),
        "[" + told % (inner % "") + "]",
        (told % (inner % "")).replace('"update"', '"_deep":' + "[" * 3000 + "]" * 3000 + ',"update"'),
    ]
    for number, form in enumerate(forms):
        (tmp_path / str(number)).mkdir()
        talk = Talk(tmp_path / str(number))
        talk.agent(update(kind="execute", rawInput={"command": "ls"}))
        talk.agent(form.encode("utf-8", "surrogateescape") + b"\n")
        talk.agent(talk.permission(status="pending"))
        assert talk.logged[-1]["verdict"]["decision"] != "allow", form


def test_a_session_that_nobody_opened_is_held_to_every_workspace(tmp_path: Path) -> None:
    talk = Talk(tmp_path, "")
    project = tmp_path / "proj"
    (project / "secret").mkdir(parents=True)
    (project / "byleave.toml").write_text('[[rules]]\ndeny = { path = "secret/**" }\n')
    load = {"sessionId": "p", "cwd": str(project), "mcpServers": []}
    talk.client({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": load})
    for number in range(1100):
        invented = update(rawInput={"command": "ls"})
        invented["params"]["sessionId"] = f"invented {number}"
        talk.agent(invented)
    talk.forget()
    for session in ("p", "bogus", "s"):
        params = {"sessionId": session, "path": f"{project}/secret/a", "content": ""}
        talk.agent({"jsonrpc": "2.0", "id": session, "method": "fs/write_text_file", "params": params})
    assert [(reply["id"], reply["error"]["code"]) for reply in talk.to_agent()] == [
        ("p", -32001),
        ("bogus", -32001),
        ("s", -32001),
    ]
    talk.relay.close()


@pytest.mark.parametrize("change", ["a workspace in the workspace", "no directory any more"])
def test_whose_policy_holds_is_settled_when_the_session_is_opened(tmp_path: Path, change: str) -> None:
    talk = Talk(tmp_path, '[[rules]]\nallow = { command = "make" }\n')
    project = tmp_path / "proj"
    (project / "sub").mkdir(parents=True)
    (project / "byleave.toml").write_text('[[rules]]\ndeny = { command = "make" }\n')
    load = {"sessionId": "p", "cwd": str(project / "sub"), "mcpServers": []}
    talk.client({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": load})
    if change == "no directory any more":
        (project / "sub").rmdir()
    else:
        (project / "sub/.byleave").mkdir()
    request = talk.permission()
    request["params"]["sessionId"] = "p"
    talk.agent(request)
    assert talk.logged[-1]["verdict"]["decision"] == "deny"


def test_an_always_for_a_tool_known_by_its_name_is_for_that_input(talk: Talk) -> None:
    meta = {"toolName": "deploy"}
    talk.agent(talk.permission(1, "a", title="Deploy", rawInput={"where": "staging"}, _meta=meta))
    talk.client(answer("always"))
    talk.forget()
    talk.agent(talk.permission(2, "b", title="Deploy", rawInput={"where": "production"}, _meta=meta))
    talk.agent(talk.permission(3, "c", title="Deploy", rawInput={"where": "staging"}, _meta=meta))
    assert [request["id"] for request in talk.to_client()] == [2]
    assert [reply["id"] for reply in talk.to_agent()] == [3]


def test_strictly_another_environment_is_another_command(tmp_path: Path) -> None:
    talk = Talk(tmp_path, strict=True)
    talk.agent(talk.permission())
    talk.client(answer("yes"))
    talk.forget()
    params: dict[str, Any] = {"sessionId": "s", "command": "make", "cwd": talk.root}
    evil = {**params, "env": [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]}
    talk.agent({"jsonrpc": "2.0", "id": 8, "method": "terminal/create", "params": evil})
    assert [request["method"] for request in talk.to_client()] == ["session/request_permission"]
    talk.agent({"jsonrpc": "2.0", "id": 9, "method": "terminal/create", "params": params})
    assert [request["method"] for request in talk.to_client()] == ["terminal/create"]


def test_words_that_a_shell_would_read_otherwise_are_judged_so_too(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[[rules]]\nallow = { command = "grep" }\n[[rules]]\ndeny = { command = "rm" }\n')
    for args in (["-c", "x; rm -rf ~"], ["-e", "x; rm -rf ~"]):
        params = {"sessionId": "s", "command": "grep", "args": args, "cwd": talk.root}
        talk.agent({"jsonrpc": "2.0", "id": 8, "method": "terminal/create", "params": params})
    params = {"sessionId": "s", "command": "bash", "args": ["-c", "'rm -rf x'"], "cwd": talk.root}
    talk.agent({"jsonrpc": "2.0", "id": 8, "method": "terminal/create", "params": params})
    assert [reply["error"]["code"] for reply in talk.to_agent()] == [-32001] * 3


def test_a_wish_of_a_kind_that_nobody_knows_is_held_to_the_rules_for_its_path(talk: Talk) -> None:
    params = {"sessionId": "s", "path": f"{talk.root}/secret/a"}
    talk.agent({"jsonrpc": "2.0", "id": 8, "method": "fs/delete_file", "params": params})
    assert [reply["error"]["code"] for reply in talk.to_agent()] == [-32001]


def test_a_path_that_is_not_absolute_is_allowed_by_no_rule(talk: Talk) -> None:
    params: dict[str, Any] = {"sessionId": "s", "path": "src/a", "content": ""}
    talk.agent({"jsonrpc": "2.0", "id": 8, "method": "fs/write_text_file", "params": params})
    params = {"sessionId": "s", "command": "ls", "cwd": "src"}
    talk.agent({"jsonrpc": "2.0", "id": 9, "method": "terminal/create", "params": params})
    assert [entry["verdict"]["decision"] for entry in talk.logged] == ["ask", "ask"]


def marks(talk: Talk) -> list[list[str]]:
    words = ("unasked", "unanswered", "another_than_asked", "refused_before")
    return [[word for word in words if record.get(word)] for record in talk.records()]


def test_what_is_done_before_anybody_answered_is_recorded(talk: Talk) -> None:
    talk.agent(talk.permission())
    talk.agent(update(status="completed"))
    talk.client(answer("no"))
    assert marks(talk) == [["unanswered"], []]


def test_what_is_done_instead_of_what_was_asked_is_recorded(talk: Talk) -> None:
    talk.agent(talk.command("ls"))
    talk.agent(update(rawInput={"command": "rm -rf /"}, status="completed"))
    assert marks(talk) == [[], ["another_than_asked"]]
    assert talk.records()[-1]["action"]["command"] == "rm -rf /"


def test_what_was_asked_about_is_never_recorded_as_unasked(talk: Talk) -> None:
    talk.agent(talk.command("ls"))
    for number in range(1100):
        talk.agent(update(f"other {number}", kind="think"))
    talk.agent(update(status="completed"))
    talk.agent(update("other 1099", status="completed"))
    talk.agent(update("other 1099", status="completed", kind="execute", rawInput={"command": "ls"}))
    assert marks(talk) == [[]]
    again = update("other 1099", status="completed", kind="execute", rawInput={"command": "ls"})
    again["params"]["update"]["sessionUpdate"] = "tool_call"
    talk.agent(again)
    assert marks(talk) == [[], ["unasked"]]


def test_strictly_a_yes_is_for_the_content_that_was_shown_and_for_once(tmp_path: Path) -> None:
    talk = Talk(tmp_path, strict=True)
    diff = [{"type": "diff", "path": f"{talk.root}/other", "newText": "x"}]
    talk.agent(talk.permission(kind="edit", content=diff))
    talk.client(answer("yes"))
    talk.forget()
    evil = talk.write("other", 7)
    evil["params"]["content"] = "evil"
    for request in (evil, talk.write("other", 8), talk.write("other", 9)):
        talk.agent(request)
    assert [request["method"].partition("/")[0] for request in talk.to_client()] == ["session", "fs", "session"]


@pytest.mark.parametrize(
    "name",
    ["Yes, don't ask again", "Allow for this chat", "Allow in this workspace", "Trust this folder", "Until restart"],
)
def test_an_option_for_once_whose_name_says_more_is_not_chosen(talk: Talk, name: str) -> None:
    talk.agent(talk.command("ls", options=[{"optionId": "x", "name": name, "kind": "allow_once"}]))
    assert len(talk.to_client()) == 1


def test_an_always_becomes_the_first_of_several_for_once(talk: Talk) -> None:
    options = [OPTIONS[0], *({"optionId": n, "name": n, "kind": "allow_once"} for n in ("Allow", "Accept"))]
    talk.agent(talk.permission(options=options))
    talk.client(answer("always"))
    assert talk.to_agent() == [answer("Allow")]


def test_an_option_of_a_kind_that_nobody_knows_is_the_user_s_to_choose(talk: Talk) -> None:
    talk.agent(talk.permission(options=[*OPTIONS, {"optionId": "e", "name": "Edit first", "kind": "allow_with_edit"}]))
    talk.client(answer("e"))
    assert talk.to_agent() == [answer("e")]
    assert [(record["verdict"]["decision"], record["answer"]["choice"]) for record in talk.records()] == [
        ("ask", "elsewhere")
    ]


def test_a_notice_is_short_whatever_it_is_about(talk: Talk) -> None:
    for number in range(100):
        talk.agent({"jsonrpc": "2.0", "id": number, "method": f"fs/{'A' * 100_000}", "params": []})
    notices = talk.relay.notices()
    assert len(notices) <= 20
    assert max(len(notice) for notice in notices) < 300


def test_thinking_is_allowed_only_where_nothing_else_comes_with_it(talk: Talk) -> None:
    thoughts: list[dict[str, Any]] = [
        {},
        {"thought": "x"},
        {"todos": [{"content": "x", "status": "done"}]},
        {"prompt": "x"},
    ]
    deeds: list[dict[str, Any]] = [{"bash": "rm -rf /"}, {"exec": ["rm"]}, {"to": "a@b", "body": "x"}, {"run": "x"}]
    for number, raw in enumerate([*thoughts, *deeds]):
        talk.agent(talk.permission(number, f"c{number}", kind="think", rawInput=raw))
    assert [reply["id"] for reply in talk.to_agent()] == [0, 1, 2, 3]
    assert [request["id"] for request in talk.to_client()] == [4, 5, 6, 7]


def test_our_own_question_shows_all_that_a_yes_covers(tmp_path: Path) -> None:
    talk = Talk(tmp_path, "", strict=True)
    env = [{"name": "LD_PRELOAD", "value": "/tmp/evil.so"}]
    command = f"make {'a' * 5000}; rm -rf /elsewhere"
    params = {"sessionId": "s", "command": command, "cwd": "/etc", "env": env}
    talk.agent({"jsonrpc": "2.0", "id": 8, "method": "terminal/create", "params": params})
    [question] = talk.to_client()
    text = question["params"]["toolCall"]["content"][0]["content"]["text"]
    assert all(part in text for part in (command, "/etc", "LD_PRELOAD=/tmp/evil.so"))
    assert question["params"]["toolCall"]["title"].endswith("…")


def test_an_agent_that_gives_two_sessions_one_name_is_asked(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "p2").mkdir()
    params = {"cwd": str(tmp_path / "p2"), "mcpServers": []}
    talk.client({"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": params})
    talk.agent({"jsonrpc": "2.0", "id": 5, "result": {"sessionId": "s"}})
    talk.agent(talk.command("ls"))
    assert talk.logged[-1]["verdict"]["decision"] == "ask"


def test_no_more_questions_are_open_than_anybody_could_answer(talk: Talk) -> None:
    for number in range(1100):
        talk.agent(talk.permission(number, f"c{number}"))
    assert len(talk.to_client()) == 1000
    talk.client(cancel())
    talk.wait(5)
    talk.forget()
    for number in range(1100):
        talk.client(answer("yes", number))
    assert len(talk.to_agent()) == 100  # of those that were never asked: not our business


def test_a_policy_that_breaks_again_is_told_again(talk: Talk) -> None:
    for text in ("[[rules]\n", "", "[[rules]\n"):
        talk.scene.say("user", text)
        talk.wait(1.5)
    assert len([notice for notice in talk.relay.notices() if "config.toml" in notice]) in (1, 2)


def test_a_denial_is_recorded_in_the_workspace_of_its_session(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[[rules]]\ndeny = { command = "rm" }\n')
    inner = talk.scene.root / "inner"
    inner.mkdir()
    (inner / "byleave.toml").write_text("")
    load = {"sessionId": "p", "cwd": str(inner), "mcpServers": []}
    talk.client({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": load})
    request = talk.command("rm x")
    request["params"]["sessionId"] = "p"
    talk.agent(request)
    assert talk.to_agent()[-1]["result"]["outcome"] == chosen("no")["outcome"]
    assert talk.records() == []  # of the workspace that the proxy was started in


@pytest.mark.parametrize("how", ["a later no", "a cancelled turn", "the end of the turn"])
def test_strictly_a_yes_does_not_outlive_its_turn(tmp_path: Path, how: str) -> None:
    talk = Talk(tmp_path, strict=True)
    edit: dict[str, Any] = {"kind": "edit", "locations": [{"path": f"{talk.root}/other"}]}
    talk.client({"jsonrpc": "2.0", "id": 50, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})
    talk.agent(talk.permission(1, **edit))
    talk.client(answer("yes"))
    if how == "a later no":
        talk.agent(talk.permission(2, **edit))
        talk.client(answer("no", 2))
    elif how == "a cancelled turn":
        talk.client(cancel())
    else:
        talk.agent({"jsonrpc": "2.0", "id": 50, "result": {"stopReason": "end_turn"}})
    talk.forget()
    talk.agent(talk.write("other", 9))
    assert [request["method"] for request in talk.to_client()] == ["session/request_permission"]


def test_what_a_loaded_session_did_long_ago_is_not_recorded_as_done_now(talk: Talk) -> None:
    load = {"sessionId": "s", "cwd": talk.root, "mcpServers": []}
    talk.client({"jsonrpc": "2.0", "id": 60, "method": "session/load", "params": load})
    told = update("old", kind="execute", rawInput={"command": "cd secret"}, status="completed")
    talk.agent(told)
    talk.agent({"jsonrpc": "2.0", "id": 60, "result": {}})
    talk.agent(update("old", status="completed"))
    assert talk.records() == []
    talk.agent(talk.command("ls"))
    assert talk.logged[-1]["verdict"]["decision"] == "allow"
    talk.agent(update("new", kind="execute", rawInput={"command": "ls"}, status="completed"))
    assert talk.records()[-1]["unasked"]


def test_a_session_whose_answer_not_every_reader_reads_is_known(talk: Talk) -> None:
    talk.client({"jsonrpc": "2.0", "id": 61, "method": "session/new", "params": {"cwd": talk.root, "mcpServers": []}})
    talk.agent(b'{"jsonrpc":"2.0","id":61,"result":{"sessionId":"odd","_meta":{"x":"\\ud83d"}}}\n')
    request = talk.command("ls")
    request["params"]["sessionId"] = "odd"
    talk.agent(request)
    assert talk.logged[-1]["verdict"]["decision"] == "allow"


def test_a_server_s_tool_that_runs_commands_is_judged_after_a_move(talk: Talk) -> None:
    (talk.scene.root / "src").mkdir()
    talk.agent(update("before", kind="execute", rawInput={"command": "cd src"}, status="completed"))
    meta = {"toolName": "mcp__shell__run"}
    talk.agent(talk.permission(kind="execute", rawInput={"command": "rm x"}, _meta=meta))
    assert talk.logged[-1]["verdict"]["decision"] == "deny"


def test_input_as_deep_as_can_be_read_is_judged(talk: Talk) -> None:
    for depth in range(900, 1010):
        raw = '{"a": ' + "[" * depth + "]" * depth + "}"
        line = json.dumps(talk.permission(depth, f"c{depth}", title="x", rawInput="RAW")).replace('"RAW"', raw)
        talk.relay.from_agent(line.encode() + b"\n")
    talk.agent(talk.command("ls", 1))
    assert talk.to_agent()[-1] == answer("yes")


def test_another_file_than_was_asked_for_is_recorded(talk: Talk) -> None:
    talk.agent(talk.permission(kind="edit", rawInput={"file_path": f"{talk.root}/src/a"}))
    talk.agent(update(kind="edit", rawInput={"file_path": f"{talk.root}/secret/b"}, status="completed"))
    assert marks(talk)[-1] == ["another_than_asked"]


def test_a_wish_of_an_unknown_kind_is_held_to_the_rules_wherever_its_paths_are(talk: Talk) -> None:
    params = {"sessionId": "s", "paths": [{"at": f"{talk.root}/secret/a"}]}
    talk.agent({"jsonrpc": "2.0", "id": 8, "method": "fs/delete_files", "params": params})
    assert [reply["error"]["code"] for reply in talk.to_agent()] == [-32001]


def test_a_defect_of_ours_refuses_one_request_and_not_all(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(talk.relay._authorizer, "authorize", lambda *_given, **_named: 1 / 0)  # noqa: SLF001
        talk.agent(talk.command("ls", 1))
        talk.agent(update(kind="execute", rawInput={"command": "ls"}, status="completed"))
    talk.agent(talk.command("ls", 2))
    assert [("error" in reply, reply["id"]) for reply in talk.to_agent()] == [(True, 1), (False, 2)]
