"""Writing byleave's own files, or a protected place, by naming it to a program that may run."""

from pathlib import Path

import pytest

import byleave

PROGRAMS = ["cp", "mv", "rm", "tee", "ln", "dd", "touch", "truncate", "chmod", "install", "cd", "cat", "git"]
RULES = [
    {"allow": {"command": PROGRAMS}},
    {"allow": {"command": "sed", "flags": ["-i"]}},
    {"allow": {"command": "sort", "options": "any"}},
]


def decision(root: Path, command: str, rules: list[dict[str, object]] | None = None) -> str:
    (root / "src").mkdir(exist_ok=True)
    (root / ".git" / "hooks").mkdir(parents=True, exist_ok=True)
    policy = byleave.compile_policy({"rules": RULES if rules is None else rules}, root=str(root))
    return str(policy.decide({"kind": "command", "command": command}).decision)


@pytest.mark.parametrize(
    "command",
    [
        "cp evil byleave.toml",
        "cp evil/byleave.toml .",
        "cp -t . evil/byleave.toml",
        "cp -r evil/.byleave .",
        "mv byleave.toml away",
        "mv evil ./BYLEAVE.toml",
        "rm -rf .byleave",
        "tee -a .byleave/local.toml",
        "ln -sf evil byleave.toml",
        "dd if=evil of=byleave.toml",
        "truncate -s 0 byleave.toml",
        "install -m 600 evil .claude/settings.json",
        "sed -i s/deny/allow/ byleave.toml",
        "sort -o byleave.toml evil",
        "cd src && cp evil ../byleave.toml",
        "env cp evil byleave.toml",
        "sh -c 'cp evil byleave.toml'",
        "touch src/../byleave.toml",
    ],
)
def test_no_allowed_program_writes_what_byleave_obeys(command: str, tmp_path: Path) -> None:
    assert decision(tmp_path, command) == "deny"


@pytest.mark.parametrize(
    "command", ["cp evil .git/hooks/pre-commit", "rm -r .git", "rm -rf .", "tee .vscode/tasks.json", "mv x .envrc"]
)
def test_a_protected_place_asks_although_the_program_is_allowed(command: str, tmp_path: Path) -> None:
    assert decision(tmp_path, command) == "ask"


@pytest.mark.parametrize(
    "command",
    ["cp byleave.toml copy", "cat byleave.toml", "cp a b", "rm -r src", "cp x src", "tee out", "git log .git"],
)
def test_reading_them_and_writing_elsewhere_stay_allowed(command: str, tmp_path: Path) -> None:
    assert decision(tmp_path, command) == "allow"


def test_a_rule_that_spells_the_command_out_opens_a_protected_place_but_not_our_own(tmp_path: Path) -> None:
    spelled: list[dict[str, object]] = [{"allow": {"command": "cp", "args": ["x", ".envrc"]}}]
    assert decision(tmp_path, "cp x .envrc", spelled) == "allow"
    own: list[dict[str, object]] = [{"allow": {"command": "cp", "args": ["x", "byleave.toml"]}}]
    assert decision(tmp_path, "cp x byleave.toml", own) == "deny"


def test_a_users_own_configuration_is_closed_to_programs_as_well(tmp_path: Path, own_home: Path) -> None:
    assert decision(tmp_path, f"cp evil {own_home}/config.toml") == "deny"
