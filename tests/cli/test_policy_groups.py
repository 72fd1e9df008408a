"""`byleave policy groups` shows everything that a group contains."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from byleave.cli.commands import GROUPS as COMPLETED
from byleave.cli.policy_groups_command import ABOUT, described
from byleave.core.command_groups import GROUPS
from command import byleave


def words_of(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from words_of(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from words_of(value)


def test_every_group_is_described_and_completed() -> None:
    assert tuple(GROUPS) == COMPLETED == tuple(ABOUT)


@pytest.mark.parametrize("name", GROUPS)
def test_no_word_of_a_group_is_left_out(name: str) -> None:
    text = "\n".join(described(GROUPS[name]))
    places = {word for word in words_of(GROUPS[name]) if word not in ("**", ".", ":")}
    assert [word for word in places if word not in text] == []


def test_one_group_is_shown_for_people_and_for_programs() -> None:
    done = byleave("policy", "groups", "read_only_git")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "read_only_git: looking at a repository and its history"
    assert any(line.startswith("  git status|log|diff|show|") for line in lines)
    assert any(line.startswith("  git branch (without operands) or git branch --list or") for line in lines)
    tree = json.loads(byleave("policy", "groups", "read_only_git", "--json").out)
    assert tree["read_only_git"]["table"] == GROUPS["read_only_git"]
    assert list(json.loads(byleave("policy", "groups", "--json").out)) == list(GROUPS)


def test_an_unknown_group_is_refused_with_the_names_there_are() -> None:
    done = byleave("policy", "groups", "read_only")
    assert done.code == 2
    assert "read_only_git" in done.err


def test_a_broken_configuration_does_not_keep_groups_from_being_shown(tmp_path: Any) -> None:
    (tmp_path / "byleave.toml").write_text("[[")
    assert byleave("policy", "groups", cwd=tmp_path).code == 0
