"""Which existing places below a directory do path rules close?"""

import os
from pathlib import Path
from typing import Any

import pytest

from byleave.core.closed_places import ClosedPlaces, Covered
from byleave.core.selection import Selection
from byleave.policy.load import Workspace
from byleave.workspace.closed_paths import covered_below


def _covered(root: Path, rules: list[dict[str, Any]], start: str = ".", op: str = "read", **more: Any) -> Covered:
    workspace = Workspace(str(root))
    policy = workspace.compile_tree({"rules": rules})
    closed = ClosedPlaces(policy.compiled.policy, op, root=workspace.root.path, agent=more.pop("agent", None))
    return covered_below(workspace.root, os.path.realpath(root / start), closed, **more)


def _make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


NAMED = [
    ("a literal file", ".env", [".env"]),
    ("a name at any depth", "**/.env", [".env", "app/.env", "app/deep/er/.env"]),
    ("a name that differs in case", "**/.ENV", [".env", "app/.env", "app/deep/er/.env"]),
    ("a directory as a whole", "secrets/**", ["secrets"]),
    ("a directory at any depth, as a whole", "**/secrets/**", ["app/secrets", "secrets"]),
    ("what lies in a directory", "secrets/*", ["secrets/a.pem", "secrets/b.txt"]),
    ("names with an ending", "**/*.pem", ["app/secrets/c.pem", "secrets/a.pem"]),
    ("one level between", "*/.env", ["app/.env"]),
    ("a name that is not there", "nothing/**", []),
]


@pytest.mark.parametrize(("pattern", "expected"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_finds_the_places_that_a_pattern_names(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    _make(
        tmp_path, ".env", "app/.env", "app/deep/er/.env", "secrets/a.pem", "secrets/b.txt", "app/secrets/c.pem", "x/y"
    )
    found = _covered(tmp_path, [{"deny": {"path": pattern}}])
    assert (sorted(found.names), found.complete) == (expected, True)


def test_an_earlier_allow_keeps_a_place_open(tmp_path: Path) -> None:
    _make(tmp_path, ".env", "examples/.env")
    rules = [{"allow": {"path": "examples/**"}}, {"deny": {"path": "**/.env"}}]
    assert _covered(tmp_path, rules).names == (".env",)


OPENED = {"allow": {"path": ["**/node_modules/**", "**/site-packages/**"]}}
CLOSED = {"deny": {"path": ["**/*.pem", "**/.env"]}}
BEFORE_IT = [
    ("everything below it is open", [OPENED, CLOSED], ["web/.env"]),
    ("opened by a later rule", [CLOSED, OPENED], ["node_modules/a/ca.pem", "web/.env", "web/node_modules/.env"]),
    (
        "opened to be read only",
        [{"allow": {"path": "**/node_modules/**", "ops": ["read"]}}, CLOSED],
        ["node_modules/a/ca.pem", "web/.env", "web/node_modules/.env"],
    ),
    (
        "opened to another agent",
        [{"allow": {"path": "**/node_modules/**", "agent": "codex"}}, CLOSED],
        ["node_modules/a/ca.pem", "web/.env", "web/node_modules/.env"],
    ),
    ("opened to this agent", [{"allow": {"path": "**/node_modules/**", "agent": "gemini"}}, CLOSED], ["web/.env"]),
    (
        "opened between two rules that close",
        [{"deny": {"path": "**/.env"}}, OPENED, {"deny": {"path": "**/*.pem"}}],
        ["web/.env", "web/node_modules/.env"],
    ),
]


@pytest.mark.parametrize(("rules", "expected"), [row[1:] for row in BEFORE_IT], ids=[row[0] for row in BEFORE_IT])
def test_a_directory_that_an_earlier_rule_opens_is_left_out(
    tmp_path: Path, rules: list[dict[str, Any]], expected: list[str]
) -> None:
    _make(tmp_path, "web/.env", "web/node_modules/.env", "node_modules/a/ca.pem")
    found = _covered(tmp_path, rules, op="update", agent="gemini", links=False)
    assert (sorted(found.names), found.complete) == (expected, True)


def test_a_directory_that_is_opened_is_not_looked_into(tmp_path: Path) -> None:
    _make(tmp_path, *[f"node_modules/p{number}/x" for number in range(200)], "web/.env")
    found = _covered(tmp_path, [OPENED, CLOSED], links=False, most_entries=50)
    assert (found.names, found.complete) == (("web/.env",), True)


def test_a_name_that_differs_in_case_opens_nothing(tmp_path: Path) -> None:
    _make(tmp_path, "Node_Modules/.env")
    assert _covered(tmp_path, [OPENED, CLOSED]).names == ("Node_Modules/.env",)


def test_only_rules_about_the_operation_count(tmp_path: Path) -> None:
    _make(tmp_path, ".env")
    rules = [{"deny": {"path": "**/.env", "ops": ["update"]}}]
    assert (_covered(tmp_path, rules).names, _covered(tmp_path, rules, op="update").names) == ((), (".env",))


def test_only_rules_about_the_agent_count(tmp_path: Path) -> None:
    _make(tmp_path, ".env")
    rules = [{"deny": {"all": [{"agent": "gemini"}, {"path": "**/.env"}]}}]
    assert (_covered(tmp_path, rules, agent="codex").names, _covered(tmp_path, rules, agent="gemini").names) == (
        (),
        (".env",),
    )


def test_everything_but_some_places_can_be_closed(tmp_path: Path) -> None:
    _make(tmp_path, "src/a", "notes.txt")
    rules = [{"deny": {"not": {"path": "src/**"}}}]
    assert (_covered(tmp_path, rules, "src").names, "notes.txt" in _covered(tmp_path, rules).names) == ((), True)


def test_a_start_inside_a_closed_place_is_closed(tmp_path: Path) -> None:
    _make(tmp_path, "secrets/deep/a")
    assert _covered(tmp_path, [{"deny": {"path": "secrets/**"}}], "secrets/deep").names == ("secrets/deep",)


def test_a_start_above_the_workspace_reaches_into_it(tmp_path: Path) -> None:
    _make(tmp_path, "work/.env", "other/.env")
    found = _covered(tmp_path / "work", [{"deny": {"path": "**/.env"}}], "..")
    assert found.names == (".env",)


def test_a_rule_outside_of_the_workspace_counts_there(tmp_path: Path) -> None:
    _make(tmp_path, "work/a", "keys/id")
    found = _covered(tmp_path / "work", [{"deny": {"path": f"{tmp_path}/keys/**"}}], "..")
    assert found.names == (str(tmp_path / "keys"),)


@pytest.mark.parametrize("pattern", ["**/.env", ".env"])
def test_a_link_to_a_closed_place_counts(tmp_path: Path, pattern: str) -> None:
    _make(tmp_path, ".env", "src/deep/a")
    (tmp_path / "src/deep/settings").symlink_to("../../.env")
    found = _covered(tmp_path, [{"deny": {"path": pattern}}], "src")
    assert [os.path.relpath(each.path, tmp_path) for each in found.places] == ["src/deep/settings"]


def test_a_link_to_a_directory_with_a_closed_place_is_looked_into_once(tmp_path: Path) -> None:
    _make(tmp_path, ".env", "src/a")
    (tmp_path / "src/up").symlink_to("..")
    (tmp_path / "src/again").symlink_to("..")
    found = _covered(tmp_path, [{"deny": {"path": "**/.env"}}], "src")
    assert (len(found.places), found.names, found.complete) == (1, (".env",), True)


def test_a_link_out_of_the_workspace_to_a_directory_with_a_closed_name_is_looked_into(tmp_path: Path) -> None:
    _make(tmp_path, "work/src/a", "outside/deep/.env")
    (tmp_path / "work/src/ext").symlink_to("../../outside")
    assert _covered(tmp_path / "work", [{"deny": {"path": "**/.env"}}]).names == ("src/ext/deep/.env",)


def test_a_start_has_the_name_that_the_workspace_gives_it(tmp_path: Path) -> None:
    _make(tmp_path, "work/a", "outside/deep/.env")
    named = str(tmp_path / "work/data")
    found = _covered(tmp_path / "work", [{"deny": {"path": "data/**/.env"}}], "../outside", named=named)
    assert found.names == ("data/deep/.env",)


def test_a_sandbox_needs_no_links(tmp_path: Path) -> None:
    _make(tmp_path, ".env", "src/a")
    (tmp_path / "src/settings").symlink_to("../.env")
    assert _covered(tmp_path, [{"deny": {"path": "**/.env"}}], "src", links=False) == Covered()


def test_a_link_with_a_name_that_no_tool_may_pass_counts_too(tmp_path: Path) -> None:
    _make(tmp_path, ".env", "src/a")
    (tmp_path / "src/a:b").symlink_to("../.env")
    assert _covered(tmp_path, [{"deny": {"path": ".env"}}], "src").places


def test_a_link_out_of_the_workspace_with_a_closed_name_counts(tmp_path: Path) -> None:
    _make(tmp_path, "work/src/a", "real")
    (tmp_path / "work/src/.env").symlink_to("../../real")
    assert _covered(tmp_path / "work", [{"deny": {"path": "**/.env"}}]).names == ("src/.env",)


def test_too_many_entries_leave_the_answer_open(tmp_path: Path) -> None:
    _make(tmp_path, *[f"a/{number}" for number in range(50)])
    found = _covered(tmp_path, [{"deny": {"path": "**/.env"}}], most_entries=20)
    assert (found.names, found.complete) == ((), False)


def test_too_little_time_leaves_the_answer_open(tmp_path: Path) -> None:
    _make(tmp_path, "a/b")
    assert not _covered(tmp_path, [{"deny": {"path": "**/.env"}}], seconds=0.0).complete


def test_only_directories_that_a_pattern_reaches_are_listed(tmp_path: Path) -> None:
    _make(tmp_path, "config/.env", *[f"huge/{number}" for number in range(50)])
    found = _covered(tmp_path, [{"deny": {"path": "config/**/.env"}}], links=False, most_entries=10)
    assert (found.names, found.complete) == (("config/.env",), True)


def test_a_root_with_wildcards_in_its_name_is_no_pattern(tmp_path: Path) -> None:
    _make(tmp_path, "a[b]*/.env")
    assert _covered(tmp_path / "a[b]*", [{"deny": {"path": "**/.env"}}]).names == (".env",)


def test_without_a_closing_rule_nothing_is_looked_at(tmp_path: Path) -> None:
    _make(tmp_path, ".env")
    assert _covered(tmp_path, [{"allow": {"path": "**"}}], most_entries=0) == Covered()


def test_files_can_be_selected_and_closed_directories_are_looked_into(tmp_path: Path) -> None:
    _make(tmp_path, "secrets/a.pem", "secrets/deep/b.txt", "c.txt")
    found = _covered(tmp_path, [{"deny": {"path": "secrets/**"}}], selection=Selection("*.txt"))
    assert found.names == ("secrets/deep/b.txt",)
