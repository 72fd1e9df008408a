"""`git init` where a confined run cannot write: at the root, and where a repository is already. It asks, and why."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.decision import Verdict

RULES: list[dict[str, Any]] = [{"allow": {"any_command": True, "options": "any"}, "sandbox": True}]
OUTSIDE = "after your yes it runs outside of the sandbox, as `byleave outside -- {}` does"
AT_ROOT = (
    "git init",
    "git init .",
    "git init -q -b main",
    "git init --bare",
    "git init-db",
    "git -C . init",
    "git -C sub init ..",
    "git init --separate-git-dir=elsewhere",
    "git clone https://example.org/a/b .",
)
ELSEWHERE = (
    "git init sub",
    "git init sub/deeper",
    "git init new",
    "git init --bare sub",
    'git init "$PWD/sub"',
    "git -C sub init",
    "cd sub && git init",
    "cd sub; git init",
    "mkdir new && cd new && git init",
    'git init "$WHERE"',
    "git clone https://example.org/a/b",
    "git clone https://example.org/a/b sub/b",
    "git status",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    return tmp_path


def decided(root: Path, command: str, *, confines: bool = True, rules: list[dict[str, Any]] | None = None) -> Verdict:
    policy = byleave.compile_policy({"shell": {}, "rules": RULES if rules is None else rules}, root=str(root))
    return policy.decide({"kind": "command", "command": command}, confines=confines)


@pytest.mark.parametrize("command", AT_ROOT)
@pytest.mark.parametrize("exists", [False, True], ids=["new", "again"])
def test_a_repository_at_the_root_asks_and_runs_outside_after_a_yes(command: str, root: Path, *, exists: bool) -> None:
    if exists:
        (root / ".git").mkdir()
    verdict = decided(root, command)
    assert (verdict.decision.word, verdict.sandbox) == ("ask", (False, False))
    assert "which are protected: in a confined run it fails" in verdict.reason
    assert OUTSIDE.format(command) in verdict.reason
    assert verdict.suggestion is None  # no rule would help


@pytest.mark.parametrize("command", ELSEWHERE)
def test_a_repository_elsewhere_is_made_confined(command: str, root: Path) -> None:
    verdict = decided(root, command)
    assert (verdict.decision.word, verdict.sandbox) == ("allow", (True, True)), verdict.reason


@pytest.mark.parametrize("command", ["git init sub", "git -C sub init", "cd sub && git init"])
def test_a_repository_that_is_made_anew_below_the_root_asks_too(command: str, root: Path) -> None:
    (root / "sub" / ".git").mkdir()
    assert decided(root, command).decision.word == "ask"


@pytest.mark.parametrize(
    ("line", "outside"),
    [
        ("git init && git add .", "git init"),
        ("git init -q; make", "git init -q"),
        ("sh -c 'git init'", "git init"),
        ("git init > log", "git init"),
        ('git init "$PWD"', "git init"),
        ("LANG=C git init", "git init"),
        ("(git init)", "git init"),
    ],
)
def test_nothing_else_goes_outside_along_with_it(line: str, outside: str, root: Path) -> None:
    verdict = decided(root, line)
    assert (verdict.decision.word, verdict.sandbox) == ("ask", (True, True)), verdict.reason
    assert f"have it run by itself first: `byleave outside -- {outside}`" in verdict.reason


def test_a_deny_stays_one(root: Path) -> None:
    rules = [{"deny": {"command": "git", "subcommand": "init"}}, *RULES]
    assert decided(root, "git init", rules=rules).decision.word == "deny"


def test_a_caller_that_confines_nothing_asks_for_its_own_reason(root: Path) -> None:
    assert "confined run it fails" not in decided(root, "git init", confines=False).reason


def test_what_a_rule_has_run_plainly_is_made_plainly(root: Path) -> None:
    rules = [{"allow": {"command": "git", "options": "any"}, "sandbox": False}]
    verdict = decided(root, "git init", rules=rules)
    assert (verdict.decision.word, verdict.sandbox) == ("allow", (False, False))
