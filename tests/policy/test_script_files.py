"""A yes that is remembered covers the content of the scripts that the command runs, and never a wrapper alone."""

import os
from pathlib import Path

import pytest

from byleave.guard.evaluation import FOR_GOOD, FOR_SESSION, Question, Who
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.policy.script_files import LARGEST, content_mark

pytestmark = pytest.mark.long

WHO = Who("claude", "claimed")


class Yes:
    """Says yes to everything, and keeps the questions."""

    name = "test"

    def __init__(self, reply: str = FOR_SESSION) -> None:
        self.reply = reply
        self.asked: list[Question] = []

    def ask(self, question: Question, _patience: float) -> str:
        self.asked.append(question)
        return self.reply


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BYLEAVE_HOME", str(tmp_path / "home"))
    workspace = tmp_path / "ws"
    (workspace / "sub").mkdir(parents=True)
    for name in ("run.sh", "x.py", "y.js", "Makefile", "package.json", "sub/run.sh", "justfile"):
        (workspace / name).write_text("first")
    (workspace / "run.sh").chmod(0o755)
    return workspace


def _times_asked(root: Path, command: str, change: "list[str]") -> int:
    """Ask twice, with the files changed in between; return how often a person was asked."""
    asker = Yes()
    for _ in range(2):
        with guard_for(Workspace(str(root)), "test", asker=asker, client_approves=None) as guard:
            assert guard.check({"kind": "command", "command": command}, WHO).allowed
        for name in change:
            (root / name).write_text("second")
    return len(asker.asked)


SCRIPTS = [
    ("bash run.sh", "run.sh"),
    ("bash -x ./run.sh a", "run.sh"),
    ("sh < run.sh", "run.sh"),
    ("./run.sh", "run.sh"),
    (". ./run.sh", "run.sh"),
    ("source run.sh", "run.sh"),
    ("python3 x.py", "x.py"),
    ("python3.12 -u x.py --fast", "x.py"),
    ("python3 -W ignore x.py", "x.py"),
    ("node y.js", "y.js"),
    ("sudo ./run.sh", "run.sh"),
    ("env A=b bash run.sh", "run.sh"),
    ("timeout 5 ./run.sh", "run.sh"),
    ("bash -c ./run.sh", "run.sh"),
    ("uv run x.py", "x.py"),
    ("cd sub && ./run.sh", "sub/run.sh"),
    ("make", "Makefile"),
    ("make test", "Makefile"),
    ("make -f x.py", "x.py"),
    ("make --file=x.py", "x.py"),
    ("npm run build", "package.json"),
    ("just build", "justfile"),
]


@pytest.mark.parametrize(("command", "script"), SCRIPTS)
def test_a_yes_dies_with_another_content_of_the_script(command: str, script: str, root: Path) -> None:
    assert _times_asked(root, command, [script]) == 2


@pytest.mark.parametrize(("command", "script"), SCRIPTS)
def test_a_yes_holds_while_the_script_is_the_same(command: str, script: str, root: Path) -> None:
    others = [name for name in ("run.sh", "x.py", "y.js", "sub/run.sh") if name != script]
    assert _times_asked(root, command, others) == 1


def test_a_script_that_appears_is_another_content(root: Path) -> None:
    assert _times_asked(root, "bash new.sh", ["new.sh"]) == 2


def test_a_link_to_another_script_is_another_content(root: Path) -> None:
    (root / "link.sh").symlink_to("run.sh")
    asker = Yes()
    for target in ("run.sh", "x.py"):
        (root / "link.sh").unlink()
        (root / "link.sh").symlink_to(target)
        with guard_for(Workspace(str(root)), "test", asker=asker, client_approves=None) as guard:
            guard.check({"kind": "command", "command": "bash link.sh"}, WHO)
    assert len(asker.asked) == 2


def test_a_script_changed_while_the_person_thinks_is_not_what_they_allowed(root: Path) -> None:
    class Slow(Yes):
        def ask(self, question: Question, patience: float) -> str:
            (root / "run.sh").write_text("second")
            return super().ask(question, patience)

    with guard_for(Workspace(str(root)), "test", asker=Slow(), client_approves=None) as guard:
        assert not guard.check({"kind": "command", "command": "bash run.sh"}, WHO).allowed


def test_a_file_too_large_to_read_is_known_by_how_it_last_changed(root: Path) -> None:
    large = root / "large"
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)
    before = content_mark(str(large))
    os.utime(large, (1, 1))
    assert before != content_mark(str(large))


def test_a_pipe_in_the_place_of_a_script_keeps_no_one_waiting(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert content_mark(str(root / "pipe"))


@pytest.mark.parametrize("command", ["bash run.sh", "./run.sh", "sudo id", "xargs id", "ssh host id", "npx cowsay"])
def test_no_rule_for_good_stands_for_a_script_or_for_a_wrapper(command: str, root: Path) -> None:
    asker = Yes()
    with guard_for(Workspace(str(root)), "test", asker=asker, client_approves=None) as guard:
        guard.check({"kind": "command", "command": command}, WHO)
    assert [question.rule for question in asker.asked] == [None]


def test_a_plain_command_is_still_offered_a_rule(root: Path) -> None:
    asker = Yes()
    with guard_for(Workspace(str(root)), "test", asker=asker, client_approves=None) as guard:
        guard.check({"kind": "command", "command": "timeout 5 git push"}, WHO)
    cautions = (
        "# Caution: others see what it publishes.\n# Caution: it reaches other machines, and may send files there.\n"
    )
    rule = '[[rules]]\nallow = { command = "git", args = ["push"] }'
    assert [question.rule for question in asker.asked] == [f"{cautions}{rule}"]


def test_a_yes_for_good_to_a_script_is_kept_with_its_content(root: Path) -> None:
    asker = Yes(FOR_GOOD)
    for content in ("first", "first", "second"):
        (root / "run.sh").write_text(content)
        with guard_for(Workspace(str(root)), "test", asker=asker, client_approves=None) as guard:
            guard.check({"kind": "command", "command": "bash run.sh"}, WHO)
    assert len(asker.asked) == 2


def test_a_yes_to_a_wrapped_command_is_for_that_command_alone(root: Path) -> None:
    asker = Yes()
    with guard_for(Workspace(str(root)), "test", asker=asker, client_approves=None) as guard:
        for command in ("sudo id", "sudo id", "sudo whoami", "id"):
            guard.check({"kind": "command", "command": command}, WHO)
    assert len(asker.asked) == 3
