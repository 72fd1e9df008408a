"""An agent that keeps one shell for a session and never says where it stands: a command is judged in all of them."""

from pathlib import Path
from typing import Any

import pytest

from fakes.acp_talk import Talk, update

POLICY = """
[[rules]]
deny = { path = "secret/**" }
[[rules]]
allow = { command = ["echo", "ls", "cd"] }
[[rules]]
allow = { path = "*" }
[[rules]]
allow = { command = "make", within = "src" }
"""
WRITES = "echo evil > post-commit"


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    talk = Talk(tmp_path, POLICY)
    for name in ("secret", "src", "src/deep"):
        (talk.scene.root / name).mkdir()
    return talk


def decided(talk: Talk, command: str, **fields: Any) -> str:
    talk.agent(talk.permission(call=command, kind="execute", rawInput={"command": command, **fields}))
    decision: str = talk.logged[-1]["verdict"]["decision"]
    talk.relay.from_client(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}\n')
    return decision


def ran(talk: Talk, command: str, call: str = "before", **fields: Any) -> None:
    """The agent runs a command without asking."""
    talk.agent(update(call, kind="execute", rawInput={"command": command, **fields}))
    talk.agent(update(call, status="completed"))


def test_without_a_move_a_command_runs_where_the_session_does(talk: Talk) -> None:
    ran(talk, "ls secret")
    ran(talk, "(cd secret)", "other")
    assert decided(talk, WRITES) == "allow"


@pytest.mark.parametrize(
    "move", ["cd secret", "cd secret && ls", "ls; cd ./secret", "pushd secret", "if ls; then cd secret; fi"]
)
def test_a_move_that_nobody_was_asked_about_counts(talk: Talk, move: str) -> None:
    ran(talk, move)
    assert decided(talk, WRITES) == "deny"


def test_a_move_that_is_still_running_counts(talk: Talk) -> None:
    talk.agent(update("before", kind="execute", rawInput={"command": "cd secret"}, status="in_progress"))
    assert decided(talk, WRITES) == "deny"


def test_a_move_that_was_asked_about_counts(talk: Talk) -> None:
    assert decided(talk, "cd secret") == "allow"
    assert decided(talk, WRITES) == "deny"


def test_moves_add_up(talk: Talk) -> None:
    (talk.scene.root / "secret/inner").mkdir()
    ran(talk, "cd src/deep", "a")
    ran(talk, "cd ../..", "b")
    ran(talk, "cd secret", "c")
    assert decided(talk, WRITES) == "deny"


@pytest.mark.parametrize("move", ['cd "$X"', "cd -", "popd", "source env.sh", "eval $(cat x)", "cd ${A:-secret} <<<<"])
def test_where_nobody_can_tell_where_it_would_run_it_is_asked(talk: Talk, move: str) -> None:
    ran(talk, move)
    assert decided(talk, "ls") == "ask"
    assert talk.logged[-1]["understood"] is False


def test_a_command_that_moves_is_not_judged_where_it_leads_itself(talk: Talk) -> None:
    talk.agent(update("cd src && make", kind="execute", rawInput={"command": "cd src && make"}))
    assert decided(talk, "cd src && make") == "allow"
    assert decided(talk, "ls") == "allow"


def test_a_directory_that_the_agent_names_is_the_directory(talk: Talk) -> None:
    ran(talk, 'cd "$X"')
    assert decided(talk, WRITES, cwd=talk.root) == "allow"


def test_the_moves_of_one_session_are_not_those_of_another(talk: Talk) -> None:
    moved = update("before", kind="execute", rawInput={"command": "cd secret"})
    moved["params"]["sessionId"] = "another"
    talk.agent(moved)
    assert decided(talk, WRITES) == "allow"


def test_an_endless_walk_is_asked(talk: Talk) -> None:
    for number in range(50):
        ran(talk, f"cd src/{number}/..", str(number))
    assert decided(talk, "ls") == "ask"


def test_a_directory_that_the_agent_does_not_heed_is_no_directory(talk: Talk) -> None:
    claude = {"_meta": {"claudeCode": {"toolName": "Bash"}}}
    strays: list[dict[str, Any]] = [{"cwd": f"{talk.root}/src"}, {"args": ["x"]}, {"dir_path": "src"}]
    for number, fields in enumerate(strays):
        talk.agent(update(f"c{number}", kind="execute", rawInput={}, **claude))
        talk.agent(talk.permission(number, call=f"c{number}", rawInput={"command": "make", **fields}))
        assert talk.logged[-1]["verdict"]["decision"] == "ask"


def test_an_id_that_is_used_again_does_not_hide_where_it_led_before(talk: Talk) -> None:
    ran(talk, "cd secret", WRITES)
    assert decided(talk, WRITES) == "deny"


def test_a_call_that_never_ended_and_now_has_another_command_counts(talk: Talk) -> None:
    talk.agent(update(WRITES, kind="execute", rawInput={"command": "cd secret"}))
    assert decided(talk, WRITES) == "deny"


def test_a_move_that_is_made_twice_leads_on(talk: Talk) -> None:
    (talk.scene.root / "secret/secret").mkdir()
    talk.scene.say("user", POLICY.replace("secret/**", "secret/secret/**"))
    talk.relay._authorizer.look_again()  # noqa: SLF001 -- as time passing would do
    assert decided(talk, WRITES) == "allow"
    ran(talk, "cd secret", "a")
    ran(talk, "cd secret", "b")
    assert decided(talk, WRITES) == "deny"


def test_moves_count_in_whatever_order_they_were_made(talk: Talk) -> None:
    ran(talk, "cd deep/../../secret", "a")
    ran(talk, "cd src", "b")
    assert decided(talk, WRITES) == "deny"


def test_a_move_back_from_behind_a_link_leads_where_the_link_stands(talk: Talk) -> None:
    (talk.scene.root.parent / "far/off").mkdir(parents=True)
    (talk.scene.root / "link").symlink_to(talk.scene.root.parent / "far/off")
    ran(talk, "cd link", "a")
    ran(talk, "cd ../secret", "b")
    assert decided(talk, WRITES) == "deny"
