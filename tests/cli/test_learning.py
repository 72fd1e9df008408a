"""What a person has allowed again and again becomes a rule that `byleave policy learn` proposes."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from byleave.core.action import CommandAction
from byleave.guard.evaluation import FOR_SESSION, NO, ONCE, ActionRequest, Pending, Question, Reply
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from command import at_terminal, byleave


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


def learn(root: Path, *words: str) -> list[dict[str, Any]]:
    done = byleave("policy", "learn", "--json", "--root", str(root), *words)
    assert (done.code, done.err) == (0, "")
    tree = json.loads(done.out)
    assert set(tree) == {"proposals"}
    proposals: list[dict[str, Any]] = tree["proposals"]
    return proposals


def test_what_was_allowed_three_times_is_proposed_as_a_rule(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    answer(tmp_path, "make clean", times=2)
    answer(tmp_path, "make install", NO, times=5)
    lessons = learn(tmp_path)
    assert [(lesson["covers"], lesson["examples"]) for lesson in lessons] == [(3, ["make test"])]
    assert set(lessons[0]) == {"toml", "covers", "examples", "over_grant", "caution"}
    assert set(lessons[0]["over_grant"]) == {"tried", "also_allowed", "examples"}
    assert len(learn(tmp_path, "--times", "2")) == 2
    assert learn(tmp_path, "--since", "2999-01-01") == []


def test_what_a_client_answered_by_itself_teaches_nothing(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3, by="elicitation")
    assert learn(tmp_path) == []


def test_the_proposed_rule_spares_the_question(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    rule = str(learn(tmp_path)[0]["toml"])
    (tmp_path / "p.toml").write_text(rule)
    done = byleave("check", "command", "make test", "--root", str(tmp_path), "--policy", str(tmp_path / "p.toml"))
    assert done.code == 0


def test_what_is_allowed_by_now_is_not_proposed(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    (tmp_path / "p.toml").write_text('[[rules]]\nallow = { command = "make" }\n')
    assert learn(tmp_path, "--policy", str(tmp_path / "p.toml")) == []


def test_nothing_to_learn_is_said(tmp_path: Path) -> None:
    assert "a rule takes 3 approvals" in byleave("policy", "learn", "--root", str(tmp_path)).out
    assert "a rule takes 1 approval of" in byleave("policy", "learn", "--times", "1", "--root", str(tmp_path)).out


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
    assert [lesson["covers"] for lesson in learn(tmp_path)] == [3]


def test_a_command_of_several_parts_and_an_approval_for_the_session_count_once(tmp_path: Path) -> None:
    answer(tmp_path, "make a && make b && make c", times=2)
    assert learn(tmp_path) == []
    answer(tmp_path, "make d", FOR_SESSION, times=10)
    assert (learn(tmp_path), [lesson["covers"] for lesson in learn(tmp_path, "--times", "1")]) == ([], [2, 1])


QUESTIONS = ("[q]uit? ", "[y/N] ")
OWN = '[[rules]]\nallow = { command = "ls" }\n'


def test_writing_keeps_what_is_there_and_needs_consent(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    target = tmp_path / "mine.toml"
    target.write_text(OWN)
    words = ("policy", "learn", "--write", "mine.toml")
    unasked = byleave(*words, cwd=tmp_path)
    assert (unasked.code, target.read_text()) == (10, OWN)
    assert 'allow = { command = "make", args = ["test"] }' in unasked.out
    assert byleave(*words, "--yes", cwd=tmp_path).code == 0
    written = target.read_text()
    assert (written.startswith(OWN), written.count("[[rules]]")) == (True, 2)
    assert byleave("check", "command", "make test", "--policy", "mine.toml", cwd=tmp_path).code == 0


def test_a_file_that_would_have_an_error_is_left_alone(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    (tmp_path / "mine.toml").write_text("rules = []\n")
    done = byleave("policy", "learn", "--write", "mine.toml", "--yes", cwd=tmp_path)
    assert (done.code, (tmp_path / "mine.toml").read_text()) == (2, "rules = []\n")


def test_what_is_printed_is_a_file_that_byleave_reads(tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        answer(tmp_path, f"git push origin {name}")
    done = byleave("policy", "learn", cwd=tmp_path)
    (tmp_path / "p.toml").write_text(done.out)
    assert "# would also allow" in done.out
    assert byleave("check", "command", "git push origin beta", "--policy", "p.toml", cwd=tmp_path).code == 0


def reviewed(root: Path, *keys: bytes, env: dict[str, str | None] | None = None) -> str:
    """Type an answer to each question of a review, and return what was shown."""
    with at_terminal("policy", "learn", cwd=root, columns=80, env=env) as terminal:
        for number, key in enumerate(keys):
            terminal.wait_for_more(QUESTIONS, number + 1)
            terminal.type(key + b"\n")
        terminal.ends()
    return terminal.seen


def own_file() -> str:
    path = Path(os.environ["BYLEAVE_HOME"], "config.toml")
    return path.read_text() if path.exists() else ""


def test_an_accepted_rule_is_shown_before_it_is_written(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    shown = reviewed(tmp_path, b"a", b"n")
    assert ("would get:" in shown, own_file()) == (True, "")
    assert max(len(row) for row in shown.replace("\r", "").split("\n")) <= 100
    assert "wrote " in reviewed(tmp_path, b"a", b"y")
    assert 'allow = { command = "make", args = ["test"] }' in own_file()
    assert learn(tmp_path) == []


def test_a_rejected_rule_is_not_proposed_again(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    reviewed(tmp_path, b"r")
    assert (learn(tmp_path), own_file()) == ([], "")


def test_a_deny_takes_the_place_of_the_rule(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    reviewed(tmp_path, b"d", b"y")
    assert 'deny = { command = "make", args = ["test"] }' in own_file()
    assert byleave("check", "command", "make test", cwd=tmp_path).code == 20


def test_a_wide_rule_can_be_narrowed(tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        answer(tmp_path, f"git push origin {name}")
    reviewed(tmp_path, b"n", b"a", b"s", b"q", b"y")
    assert (own_file().count("allow = "), "alpha" in own_file(), "**" in own_file()) == (1, True, False)


def test_a_rule_can_be_edited(tmp_path: Path) -> None:
    answer(tmp_path, "make test", times=3)
    answer(tmp_path, "make all", NO)
    editor = tmp_path / "edit.py"
    editor.write_text("import sys\np = sys.argv[1]\nt = open(p).read()\nopen(p, 'w').write(t.replace('test', 'all'))\n")
    env: dict[str, str | None] = {"EDITOR": f"{sys.executable} {editor}", "VISUAL": None}
    assert "nothing was taken over" in reviewed(tmp_path, b"e", env=env)
    editor.write_text(editor.read_text().replace("'all'", "'lint'"))
    reviewed(tmp_path, b"e", b"y", env=env)
    assert 'args = ["lint"]' in own_file()
