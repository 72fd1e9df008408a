"""What a person has allowed again and again becomes a rule that `byleave policy learn` proposes."""

import json
from pathlib import Path

import pytest

from byleave.core.action import CommandAction
from byleave.guard.evaluation import FOR_SESSION, NO, ONCE, ActionRequest, Pending, Question, Reply
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from command import byleave


class Person:
    """Answers what they were told to."""

    def __init__(self, reply: str, name: str) -> None:
        self.reply = reply
        self.name = name

    def ask(self, _question: Question, _patience: float) -> str:
        return self.reply


def answer(root: Path, command: str, reply: str = ONCE, times: int = 1, by: str = "person") -> None:
    with guard_for(Workspace(str(root)), "acp", asker=Person(reply, by), client_approves=None) as guard:
        for _ in range(times):
            guard.check(CommandAction(command))


def learn(root: Path, *words: str) -> list[dict[str, object]]:
    done = byleave("policy", "learn", "--json", "--root", str(root), *words)
    assert (done.code, done.err) == (0, "")
    lessons: list[dict[str, object]] = json.loads(done.out)
    return lessons


def test_what_was_allowed_three_times_is_proposed_as_a_rule(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    answer(tmp_path, "make clean", times=2)
    answer(tmp_path, "make install", NO, times=5)
    lessons = learn(tmp_path)
    assert [(lesson["times"], lesson["example"]) for lesson in lessons] == [(3, "command make test")]
    assert len(learn(tmp_path, "--times", "2")) == 2
    assert learn(tmp_path, "--since", "2999-01-01") == []


def test_what_a_client_answered_by_itself_teaches_nothing(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3, by="elicitation")
    assert learn(tmp_path) == []


def test_the_proposed_rule_spares_the_question(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    rule = str(learn(tmp_path)[0]["rule"])
    (tmp_path / "p.toml").write_text(rule)
    done = byleave("check", "command", "make test", "--root", str(tmp_path), "--policy", str(tmp_path / "p.toml"))
    assert done.code == 0


def test_what_is_allowed_by_now_is_not_proposed(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    (tmp_path / "p.toml").write_text('[[rules]]\nallow = { command = "make" }\n')
    assert learn(tmp_path, "--policy", str(tmp_path / "p.toml")) == []


def test_nothing_to_learn_is_said(tmp_path: Path) -> None:
    assert "nothing to learn yet" in byleave("policy", "learn", "--root", str(tmp_path)).out


@pytest.mark.parametrize("times", ["0", "-1", "three", "", "9" * 7, "9" * 5000], ids=lambda times: times[:8])
def test_a_number_of_times_that_is_none_is_refused(tmp_path: Path, times: str) -> None:
    done = byleave("policy", "learn", "--root", str(tmp_path), f"--times={times}")
    assert (done.code, done.out) == (2, "")


def test_one_answer_about_several_files_counts_once(tmp_path: Path) -> None:
    def ask() -> None:
        with guard_for(Workspace(str(tmp_path)), "hook", client_approves=None) as guard:
            begun = guard.authorize(
                ActionRequest(tuple(CommandAction("make test", cwd=each) for each in (".", "a", "b", "c")))
            )
            assert isinstance(begun, Pending)
            assert guard.complete(begun, Reply(ONCE, "person")).allowed

    for name in "abc":
        (tmp_path / name).mkdir()
    ask()
    ask()
    assert learn(tmp_path) == []
    ask()
    assert [lesson["times"] for lesson in learn(tmp_path)] == [3]


def test_a_command_of_several_parts_and_an_approval_for_the_session_count_once(tmp_path: Path) -> None:
    answer(tmp_path, "make a && make b && make c", times=2)
    assert learn(tmp_path) == []
    answer(tmp_path, "make d", FOR_SESSION, times=10)
    assert (learn(tmp_path), [lesson["times"] for lesson in learn(tmp_path, "--times", "1")]) == ([], [2, 1])
