"""What an agent did by itself has happened: no record and no list says that it was denied."""

from pathlib import Path
from typing import Any

import pytest

from byleave.acp.editor_setup import setup_for
from byleave.store.audit.wording import said, what
from command import byleave
from fakes.acp_talk import Talk, update


def told(talk: Talk, status: str, **fields: Any) -> None:
    talk.agent(update(**fields))
    talk.agent(update(status=status))


@pytest.mark.parametrize(("status", "word"), [("completed", "done"), ("failed", "failed")])
def test_a_read_that_happened_against_a_rule_is_not_called_denied(tmp_path: Path, status: str, word: str) -> None:
    talk = Talk(tmp_path)
    told(talk, status, kind="read", rawInput={"file_path": f"{talk.root}/secret/key"})
    [record] = talk.records()
    assert (said(record), what(record)) == (word, "read secret/key (unasked) (against a rule)")
    assert record["verdict"]["decision"] == "deny"  # what the policy would have said
    assert "it was done before byleave saw it" in record["verdict"]["reason"]


def test_a_list_names_it_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(tmp_path)
    told(talk, "completed", kind="execute", rawInput={"command": "rm -rf x"})
    told(talk, "completed", kind="read", rawInput={"file_path": f"{talk.root}/secret/key"})
    talk.relay.close()
    monkeypatch.setenv("BYLEAVE_HOME", talk.scene.homes.config)
    listed = byleave("audit", "list", "--root", talk.root)
    assert "deny" not in listed.out
    assert "denied" not in listed.out


def test_what_it_may_do_stays_an_allow(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    told(talk, "completed", kind="read", rawInput={"file_path": f"{talk.root}/src/a"})
    [record] = talk.records()
    assert (record["verdict"]["decision"], said(record), what(record)) == ("allow", "done", "read src/a (unasked)")


def test_a_call_with_several_actions_claims_no_deny_either(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    diff = [{"type": "diff", "path": f"{talk.root}/{name}", "newText": "x"} for name in ("src/a", "secret/b")]
    told(talk, "completed", kind="edit", content=diff)
    assert [record["request"] for record in talk.records()] == [{"actions": 2}] * 2
    assert [said(record) for record in talk.records()] == ["done", "done"]


@pytest.mark.parametrize(
    "agent", [["npx", "-y", "@agentclientprotocol/claude-agent-acp"], ["/opt/claude-code-acp"], []]
)
def test_a_setup_of_claude_recommends_its_hook_beside_the_proxy(agent: list[str]) -> None:
    advice = setup_for("zed", ["byleave", "acp"], agent).advice
    assert advice.endswith("its own hook does: use both")


def test_the_advice_is_said_beside_the_settings(tmp_path: Path) -> None:
    done = byleave("acp", "--setup", "zed", "--", "claude-agent-acp", cwd=tmp_path)
    assert "byleave hook --install claude-code" in done.err
    assert "byleave hook" not in done.out
