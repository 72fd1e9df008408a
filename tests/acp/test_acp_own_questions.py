"""What an agent asks its user in its own name reaches the editor, and the user's own answer reaches the agent."""

from pathlib import Path
from typing import Any

import pytest

from fakes.acp_talk import OPTIONS, Talk, answer, update

PERMISSIVE = '[[rules]]\nallow = { operation = ["think", "switch_mode", "other"] }\n'
PLAN = [
    {"optionId": "acceptEdits", "name": "Yes, and auto-accept edits", "kind": "allow_always"},
    {"optionId": "default", "name": "Yes", "kind": "allow_once"},
    {"optionId": "plan", "name": "No, keep planning", "kind": "reject_once"},
]
QUESTIONS: list[dict[str, Any]] = [
    {"kind": "switch_mode", "title": "Ready to code?", "rawInput": {"plan": "p"}},
    {"kind": "switch_mode", "title": "Ready to code?"},
    {"kind": "think", "title": "Plan", "rawInput": {"plan": "p"}},
    {"kind": "think", "rawInput": {"questions": [{"q": "which?"}]}},
    {"kind": "think", "title": "ExitPlanMode"},
    {"kind": "other", "title": "exit_plan_mode", "_meta": {"tool_name": "exit_plan_mode"}},
    {"kind": "think", "title": "x", "_meta": {"claudeCode": {"toolName": "AskUserQuestion"}}},
    {"kind": "other", "title": "q", "_meta": {"tool_name": "ask_user_question"}},
    {"title": "ExitPlanMode: leave plan mode", "content": []},
    {"kind": "think", "title": "question"},
    {"kind": "think", "title": "Shall I drop the database?"},
]


@pytest.mark.parametrize("fields", QUESTIONS)
def test_a_question_of_the_agent_s_own_is_the_user_s_to_answer(tmp_path: Path, fields: dict[str, Any]) -> None:
    talk = Talk(tmp_path, PERMISSIVE)
    asked = talk.permission(options=PLAN, **fields)
    talk.agent(asked)
    assert (talk.to_client(), talk.to_agent()) == ([asked], [])
    talk.client(answer("acceptEdits"))
    assert talk.to_agent() == [answer("acceptEdits")]  # the mode that was chosen, not another one
    talk.agent(talk.permission(2, call="d", options=PLAN, **fields))
    assert len(talk.to_client()) == 1  # nothing was remembered


def test_the_tool_of_an_earlier_update_tells_that_it_is_a_question(tmp_path: Path) -> None:
    talk = Talk(tmp_path, PERMISSIVE)
    talk.agent(update(kind="think", title="Thinking", _meta={"tool_name": "exit_plan_mode"}))
    talk.forget()
    talk.agent(talk.permission(status="pending"))
    assert len(talk.to_client()) == 1


def test_the_id_of_a_call_tells_that_it_is_a_question(tmp_path: Path) -> None:
    talk = Talk(tmp_path, PERMISSIVE)
    talk.agent(talk.permission(call="exit_plan_mode__exit_plan_mode_17_0", kind="other", title="Plan"))
    assert len(talk.to_client()) == 1


def test_a_command_is_judged_though_it_is_called_a_question(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.agent(talk.permission(kind="switch_mode", title="ExitPlanMode", rawInput={"command": "rm x"}, options=OPTIONS))
    assert talk.to_client() == []
    assert talk.to_agent()[0]["result"]["outcome"]["optionId"] == "no"


def test_a_rule_can_deny_a_question_of_the_agent_s_own(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[[rules]]\ndeny = { operation = "switch_mode" }\n')
    talk.agent(talk.permission(kind="switch_mode", options=PLAN))
    assert talk.to_client() == []
    assert talk.to_agent()[0]["result"]["outcome"]["optionId"] == "plan"
