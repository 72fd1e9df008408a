"""In observe mode the ACP proxy decides nothing: the editor is asked as without it, and records say what would be."""

from pathlib import Path

import pytest

from fakes.acp_talk import POLICY, Talk, answer

OBSERVE = f'[defaults]\nmode = "observe"\n{POLICY}'


@pytest.mark.parametrize(("command", "would"), [("ls", "allow"), ("rm x", "deny"), ("make", "ask")])
@pytest.mark.parametrize(("option", "choice"), [("yes", "once"), ("no", "no")])
def test_every_question_reaches_the_editor_and_its_answer_the_agent(
    command: str, would: str, option: str, choice: str, tmp_path: Path
) -> None:
    talk = Talk(tmp_path, OBSERVE)
    request = talk.command(command)
    talk.agent(request)
    assert (talk.to_client(), talk.to_agent()) == ([request], [])
    talk.client(answer(option))
    assert talk.to_agent() == [answer(option)]
    [record] = talk.records()
    assert (record["verdict"]["decision"], record["mode"], record["answer"]["choice"]) == (would, "observe", choice)


def test_an_answer_for_always_is_one_for_once_and_is_not_remembered(tmp_path: Path) -> None:
    talk = Talk(tmp_path, OBSERVE)
    talk.agent(talk.command("make"))
    talk.client(answer("always"))
    assert talk.to_agent() == [answer("yes")]
    talk.forget()
    talk.agent(talk.command("make", 2))
    assert len(talk.to_client()) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_requests_of_the_agent_pass_and_are_recorded(strict: bool, tmp_path: Path) -> None:  # noqa: FBT001 -- a parameter of pytest
    talk = Talk(tmp_path, OBSERVE, strict=strict)
    request = talk.write("secret/x")
    talk.agent(request)
    assert (talk.to_client(), talk.to_agent()) == ([request], [])
    [record] = talk.records()
    assert (record["verdict"]["decision"], record["mode"]) == ("deny", "observe")


def test_what_byleave_denies_by_itself_is_denied(tmp_path: Path) -> None:
    talk = Talk(tmp_path, OBSERVE)
    talk.agent(talk.command("byleave trust"))
    assert talk.to_client() == []
    [refused] = talk.to_agent()
    assert refused["result"]["outcome"] == answer("no")["result"]["outcome"]
