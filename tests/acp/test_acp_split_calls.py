"""Agents that tell a call in pieces: what was told before the request for permission is judged with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes.acp_talk import OPTIONS, Talk, answer, update

POLICY = """
[[rules]]
allow = { command = ["ls", "echo"] }
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { path = "src/**" }
[[rules]]
deny = { path = "secret/**" }
"""


def text(said: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": said}}]


def begins(title: str, args: str, call: str = "turn/1") -> dict[str, Any]:
    """Return how kimi begins a call: its arguments are JSON in the content."""
    told = update(call, title=title, status="in_progress", content=text(args))
    told["params"]["update"]["sessionUpdate"] = "tool_call"
    return told


def asks(talk: Talk, title: str, content: Any, call: str = "turn/1") -> dict[str, Any]:
    """Return how kimi asks for permission: with a sentence, or a diff, in place of the arguments."""
    return talk.permission(1, call=call, title=title, content=content)


def chosen(talk: Talk) -> Any:
    [reply] = talk.to_agent()
    return reply["result"]["outcome"]["optionId"]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path, POLICY)


@pytest.mark.parametrize(("command", "decision"), [("ls -la", "yes"), ("rm -rf x", "no")])
def test_the_arguments_that_kimi_told_before_are_judged(talk: Talk, command: str, decision: str) -> None:
    title = f"Shell: {command}"
    talk.agent(begins("Shell", ""))
    for end in (5, 14, None):  # as they come
        talk.agent(update("turn/1", title=title, content=text(json.dumps({"command": command})[:end])))
    talk.forget()
    talk.agent(asks(talk, title, text(f"Requesting approval to perform: Run command `{command}`")))
    assert (chosen(talk), talk.to_client()) == (decision, [])


def test_what_kimi_asks_about_is_what_it_told_not_what_it_says(talk: Talk) -> None:
    talk.agent(begins("Shell: ls", json.dumps({"command": "rm -rf x"})))
    talk.forget()
    talk.agent(asks(talk, "Shell: ls", text("Requesting approval to perform: Run command `ls`")))
    assert chosen(talk) == "no"


def test_a_command_that_was_told_before_an_innocent_one_is_judged_too(talk: Talk) -> None:
    talk.agent(begins("Shell", json.dumps({"command": "rm x"})))
    talk.forget()
    talk.agent(asks(talk, "Shell", text(json.dumps({"command": "ls"}))))
    assert chosen(talk) == "no"


def test_arguments_that_break_off_are_asked_about(talk: Talk) -> None:
    talk.agent(begins("Shell: ls", '{"command": "ls'))
    talk.forget()
    talk.agent(asks(talk, "Shell: ls", text("Requesting approval to perform: ls")))
    assert (len(talk.to_client()), talk.to_agent()) == (1, [])


def test_the_file_of_the_arguments_counts_beside_the_diff_that_is_shown(talk: Talk) -> None:
    talk.agent(begins("WriteFile", json.dumps({"path": f"{talk.root}/secret/a", "content": "x"})))
    talk.forget()
    talk.agent(asks(talk, "WriteFile", [{"type": "diff", "path": f"{talk.root}/src/a", "newText": "x"}]))
    assert chosen(talk) == "no"


def test_a_diff_that_was_told_before_counts_beside_the_one_that_is_shown(talk: Talk) -> None:
    talk.agent(
        update("turn/1", kind="edit", content=[{"type": "diff", "path": f"{talk.root}/secret/a", "newText": ""}])
    )
    talk.forget()
    talk.agent(talk.permission(call="turn/1", content=[{"type": "diff", "path": f"{talk.root}/src/a", "newText": ""}]))
    assert chosen(talk) == "no"


def test_an_edit_that_kimi_told_and_shows_is_allowed_where_a_rule_does(talk: Talk) -> None:
    path = f"{talk.root}/src/a"
    talk.agent(begins("WriteFile: src/a", json.dumps({"path": path, "content": "x"})))
    talk.forget()
    talk.agent(asks(talk, "WriteFile: src/a", [{"type": "diff", "path": path, "newText": "x"}]))
    assert chosen(talk) == "yes"


@pytest.mark.parametrize("told", [{"rawInput": {"command": "rm x"}}, {"content": text('{"command": "rm x"}')}])
@pytest.mark.parametrize("asked", [{}, {"title": "ls"}, {"title": "ls", "kind": "execute"}, {"status": "pending"}])
def test_a_request_with_hardly_more_than_an_id_is_judged_by_what_was_told(talk: Talk, told: Any, asked: Any) -> None:
    talk.agent(update("c", kind="execute", **told))
    talk.forget()
    request = talk.permission(1)
    request["params"]["toolCall"] = {"toolCallId": "c", **asked}
    talk.agent(request)
    assert chosen(talk) == "no"


SOMETHING_ELSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "another command than in the content": (
        {"content": text('{"command": "rm x"}')},
        {"kind": "execute", "rawInput": {"command": "ls"}},
    ),
    "another command": (
        {"kind": "execute", "rawInput": {"command": "rm x"}},
        {"kind": "execute", "rawInput": {"command": "ls"}},
    ),
    "another file": (
        {"kind": "edit", "rawInput": {"file_path": "$ROOT/secret/a"}},
        {"kind": "edit", "rawInput": {"file_path": "$ROOT/src/a"}},
    ),
    "another file than in the content": (
        {"kind": "edit", "content": text('{"file_path": "$ROOT/secret/a"}')},
        {"kind": "edit", "rawInput": {"file_path": "$ROOT/src/a"}},
    ),
    "another file than in the diff": (
        {"kind": "edit", "content": [{"type": "diff", "path": "$ROOT/secret/a", "newText": "x"}]},
        {"kind": "edit", "rawInput": {"file_path": "$ROOT/src/a"}, "content": text("writes")},
    ),
}


@pytest.mark.parametrize(("told", "asked"), SOMETHING_ELSE.values(), ids=SOMETHING_ELSE.keys())
def test_something_else_than_was_told_before_is_judged_together_with_it(talk: Talk, told: Any, asked: Any) -> None:
    told, asked = [json.loads(json.dumps(each).replace("$ROOT", talk.root)) for each in (told, asked)]
    talk.agent(update("c", **told))
    talk.forget()
    talk.agent(talk.permission(1, **asked))
    assert chosen(talk) == "no"


def test_the_screen_of_kimi_is_the_sentence_that_it_asks_with(talk: Talk) -> None:
    talk.agent(begins("Shell: make", json.dumps({"command": "make"})))
    talk.agent(asks(talk, "Shell: make", text("Requesting approval to perform: make")))
    talk.agent(update("turn/1", title="Shell: make", status="in_progress"))
    talk.forget()
    talk.client(answer("yes"))
    assert talk.to_agent() == [answer("yes")]
    assert OPTIONS[1]["optionId"] == "yes"
