"""`byleave policy replay`: recorded actions against another policy."""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.analysis.replay import CUT, DAMAGED, GONE, MASKED, NO_TOOL, NOT_THE_RULES, replay
from byleave.core.action import Action, CallAction, CommandAction, EnvAction, FileAction, UrlAction
from byleave.guard.evaluation import FOR_SESSION, NO, ONCE, Question
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.store.audit.table import StoredRecord
from command import byleave

POLICY = """
[[rules]]
allow = { command = "git", subcommand = "status" }

[[rules]]
deny = { path = "secrets/**" }

[tools.t]
source = "local"

[[tools.t.access.fs]]
path = "src"
read = true
"""
ACTIONS: list[Action] = [
    CommandAction("git status"),
    CommandAction("make test"),
    CommandAction("cat secrets/key"),
    FileAction("read", "src/a", "t"),
    FileAction("create", "src/new", "t"),
    FileAction("read", "secrets/key"),
    UrlAction("https://example.org/"),
    EnvAction("HOME", "t"),
    CallAction("server", "tool", {"q": 1}),
]


class Person:
    """Answers what they were told to."""

    name = "person"

    def __init__(self, reply: str) -> None:
        self.reply = reply

    def ask(self, _question: Question, _patience: float) -> str:
        return self.reply


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("src/a", "secrets/key"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "byleave.toml").write_text(POLICY)
    assert byleave("trust", "--yes", "--root", str(root)).code == 0
    return root


def act(root: Path, actions: list[Action], reply: str = NO, times: int = 1) -> None:
    with guard_for(Workspace(str(root)), "acp", asker=Person(reply), client_approves=None) as guard:
        for action in actions * times:
            guard.check(action)


def replayed(root: Path, *words: str) -> dict[str, Any]:
    done = byleave("policy", "replay", "--json", "--root", str(root), *words)
    assert (done.code, done.err) == (0, "")
    tree: dict[str, Any] = json.loads(done.out)
    return tree


@pytest.mark.parametrize("reply", [NO, ONCE, FOR_SESSION])
def test_an_unchanged_policy_changes_nothing_whatever_the_person_said(reply: str, project: Path) -> None:
    act(project, ACTIONS, reply, times=2)
    tree = replayed(project)
    assert (tree["changed"], tree["unreplayable"]) == ([], [])
    assert tree["records"] == tree["replayed"] == 2 * len(ACTIONS)
    assert tree["questions"]["old"] == tree["questions"]["new"] > 0


def test_questions_that_another_policy_spares_are_counted(project: Path) -> None:
    act(project, ACTIONS, ONCE, times=3)
    other = project.parent / "other.toml"
    other.write_text(POLICY + '\n[[rules]]\nallow = { command = "make" }\n')
    tree = replayed(project, "--policy", str(other))
    assert [(each["action"]["command"], each["old"], each["new"]) for each in tree["changed"]] == [
        ("make test", "ask", "allow")
    ] * 3
    assert tree["changed"][0]["rule"] == {"rule": "allow make", "source": f"{other}:15", "decision": "allow"}
    assert tree["questions"]["old"] - tree["questions"]["new"] == 3
    text = byleave("policy", "replay", "--root", str(project), "--policy", str(other)).out
    assert "ask -> allow  3 times, by allow make" in text
    assert "3.0 a day fewer" in text
    assert max(len(line) for line in text.splitlines() if str(other) not in line) <= 80


def test_what_was_denied_and_would_be_allowed_shows(project: Path) -> None:
    act(project, ACTIONS)
    (project.parent / "other.toml").write_text(POLICY.replace("deny", "allow"))
    tree = replayed(project, "--policy", str(project.parent / "other.toml"))
    assert ("read", "deny", "allow") in [(each["action"]["kind"], each["old"], each["new"]) for each in tree["changed"]]


def test_what_cannot_be_replayed_is_counted_and_said(project: Path) -> None:
    act(project, ACTIONS)
    (project / "src" / "a").unlink()
    (project.parent / "other.toml").write_text("")
    tree = replayed(project, "--policy", str(project.parent / "other.toml"))
    reasons = [each["why"] for each in tree["unreplayable"]]
    assert sorted(set(reasons)) == [NO_TOOL]
    assert [each["why"] for each in replayed(project)["unreplayable"]] == [GONE]
    assert f"1 were not: {GONE}" in byleave("policy", "replay", "--root", str(project)).out
    assert tree["replayed"] + len(reasons) == tree["records"] == len(ACTIONS)


def test_records_since_a_time_are_replayed(project: Path) -> None:
    act(project, ACTIONS)
    assert replayed(project, "--since", "2999-01-01")["records"] == 0
    assert "no recorded decisions" in byleave("policy", "replay", "--root", str(project), "--since", "2999-01-01").out


UNREADABLE = "what byleave cannot read needs approval"


def recorded(command: str, rule: str = "x") -> str:
    verdict = {"decision": "ask", "because": [{"rule": rule}]}
    return json.dumps({"action": {"kind": "command", "command": command}, "verdict": verdict})


ODD = [
    (recorded("curl [REDACTED]"), MASKED),
    (recorded("[cut]"), CUT),
    ("not json", DAMAGED),
    ('{"verdict": {"decision": "ask", "because": [{"rule": "x"}]}}', DAMAGED),
    (recorded("ls", UNREADABLE), NOT_THE_RULES),
    ('{"action": {"kind": "command", "command": "ls"}, "verdict": 7}', DAMAGED),
]


@pytest.mark.parametrize(("text", "why"), ODD, ids=[str(number) for number in range(len(ODD))])
def test_an_odd_record_says_why_it_cannot_be_replayed(text: str, why: str, project: Path) -> None:
    found = replay([StoredRecord(7, "", text)], Workspace(str(project)).load())
    assert (found.unreplayable, found.replayed) == ([(7, why)], 0)
