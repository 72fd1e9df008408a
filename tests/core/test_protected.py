"""Protected places: found by every name they have, from above, from below, and through links in either direction."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.fs_rules import FsTarget
from byleave.core.protected import (
    PROTECTED,
    Protected,
    Protection,
    builtin_places,
    leads_on,
    next_steps,
    resolved_places,
)
from byleave.core.protected_names import GUARDED, GUARDED_ELSEWHERE
from byleave.workspace.resolve import Root
from stage import Stage

Build = Callable[[dict[str, Any] | None], Stage]
BUILT_IN = Protected(builtin_places(), ["/home/u/.config/byleave", "/home/u/.claude/settings.json"])


def found(protected: Protected, target: FsTarget, *, subtree: bool = False) -> str | None:
    protection = protected.of(target, subtree=subtree)
    if protection is None:
        return None
    return f"{protection.place} {'guarded' if protection.final else 'protected'}"


def inside(path: str, *, directory: bool = False) -> FsTarget:
    return FsTarget(f"/ws/{path}".rstrip("/"), path, directory=directory)


@pytest.mark.parametrize("before", ["", "sub/", "a/b/c/"])
@pytest.mark.parametrize("below", ["", "/x", "/x/y"])
@pytest.mark.parametrize("spelling", [str.upper, str.title, "{}.".format, "{} ".format, "{}\u200b".format])
def test_a_place_and_all_below_it_is_protected_in_every_spelling_at_every_depth(
    before: str, below: str, spelling: Callable[[str], str]
) -> None:
    places = [*PROTECTED, *GUARDED]
    found = {place: BUILT_IN.of(inside(before + spelling(place) + below), subtree=False) for place in places}
    assert {place: each and each.final for place, each in found.items()} == {
        place: place in (*GUARDED, *GUARDED_ELSEWHERE) for place in places
    }


NAMES: list[tuple[str, str | None]] = [
    (".git/hooks/pre-commit", ".git/hooks protected"),
    (".git/HEAD", None),
    (".git/commondir", ".git/commondir protected"),
    (".git/config.worktree", ".git/config.worktree protected"),
    (".git/config.lock", None),
    ("sub/.git/hooks/x", "sub/.git/hooks protected"),
    (".gitx", None),
    (".claude/agents/x.md", ".claude protected"),
    (".claude/settings.json", ".claude/settings.json guarded"),
    (".claude/settings.json.bak", ".claude protected"),
    (".byleave/local.toml", ".byleave guarded"),
    ("byleave.toml", "byleave.toml guarded"),
    ("byleave.toml.example", None),
    ("sub/byleave.toml", "sub/byleave.toml guarded"),
    ("src/lib.rs", None),
]


@pytest.mark.parametrize(("path", "expected"), NAMES)
def test_a_name_is_protected_as_said(path: str, expected: str | None) -> None:
    assert found(BUILT_IN, inside(path)) == expected


ABOVE: list[tuple[str, bool, str | None]] = [
    (".git", False, "protected"),  # a file `.git` says where the repository is
    (".git", True, None),
    (".config", False, "protected"),
    (".config", True, None),
    (".claude", False, "protected"),
    (".claude", True, "protected"),
    ("", True, None),
]


@pytest.mark.parametrize(("path", "directory", "expected"), ABOVE)
def test_a_name_above_a_place_is_protected_unless_it_is_a_directory(
    *, path: str, directory: bool, expected: str | None
) -> None:
    answer = found(BUILT_IN, inside(path, directory=directory))
    assert (answer and answer.rpartition(" ")[2]) == expected


@pytest.mark.parametrize("path", ["", ".git", ".GIT", ".claude", ".config", ".byleave"])
def test_a_tree_that_holds_a_place_is_protected(path: str) -> None:
    assert found(BUILT_IN, inside(path, directory=True), subtree=True) is not None


@pytest.mark.parametrize("path", ["src", ".github", ".config/other"])
def test_a_tree_that_holds_none_is_not(path: str) -> None:
    assert found(BUILT_IN, inside(path, directory=True), subtree=True) is None


OUTSIDE: list[tuple[str, bool, bool]] = [
    ("/home/u/.config/byleave", False, True),
    ("/home/u/.config/byleave/x/y", False, True),
    ("/home/u/.CONFIG/Byleave/x", False, True),
    ("/home/u/.config/byleavex", False, False),
    ("/home/u/.claude/settings.json", False, True),
    ("/home/u/.claude/other", False, False),
    ("/home/u/.config", True, True),
    ("/home/u", True, True),
    ("/", True, True),
    ("/home/v", True, False),
]


@pytest.mark.parametrize(("canonical", "subtree", "expected"), OUTSIDE)
def test_byleaves_own_places_are_guarded_wherever_they_are_reached_from(
    *, canonical: str, subtree: bool, expected: bool
) -> None:
    by_door = FsTarget(canonical, None, door="link/x", directory=subtree)
    as_home = FsTarget(canonical, canonical.removeprefix("/"), directory=subtree)  # the workspace is the root of all
    answers = [found(BUILT_IN, target, subtree=subtree) for target in (by_door, as_home)]
    assert [(answer or "").endswith("guarded") for answer in answers] == [expected] * 2


LINKED: list[tuple[str, dict[str, str], str, str]] = [
    ("a repository behind a link", {".git": "gitdir"}, "gitdir/hooks/x", ".git/hooks protected"),
    ("a repository behind a dangling link", {".git": "later"}, "later/hooks/x", ".git/hooks protected"),
    ("hooks behind a link", {".git/hooks": "../myhooks"}, "myhooks/x", ".git/hooks protected"),
    ("a link to a place", {"nice": ".vscode"}, "nice/tasks.json", ".vscode protected"),
    ("a link to a link to a place", {"nice": "one", "one": ".vscode"}, "nice/x", ".vscode protected"),
    ("settings behind a link outside, by their name", {".claude": "$EXT"}, ".claude/settings.json", "guarded"),
    ("settings behind a link outside, by another", {".claude": "$EXT", "m": "$EXT"}, "m/settings.json", "guarded"),
    ("a place behind a link outside", {".git": "$EXT"}, ".git/hooks/x", ".git/hooks protected"),
    ("a place outside, by another name", {".git": "$EXT", "m": "$EXT"}, "m/hooks/x", ".git/hooks protected"),
    ("a guarded place inside a protected one", {".vscode": ".byleave/vs"}, ".byleave/vs/x", ".byleave guarded"),
]


@pytest.mark.parametrize(("links", "path", "expected"), [row[1:] for row in LINKED], ids=[row[0] for row in LINKED])
def test_a_place_is_protected_where_it_really_is(links: dict[str, str], path: str, expected: str, stage: Build) -> None:
    scene = stage({"dirs": ["gitdir/hooks"], "symlinks": links})
    root = Root.at(str(scene.root))
    target = root.resolve_input(path)
    assert isinstance(target, FsTarget)
    assert str(found(Protected(resolved_places(root.resolve_rule)), target)).endswith(expected)


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("", False),
        (".git", False),
        (".git/hooks", True),
        (".git/hooks/x", True),
        (".GIT/hooks", True),
        (".git/hooksx", False),
    ],
)
def test_a_rule_names_a_place_or_something_in_it(*, rule: str, named: bool) -> None:
    assert Protection(".git/hooks", "gitdir/hooks", final=False).named_by(rule) is named


names = st.sampled_from([".git", "hooks", ".claude", "settings.json", "x", ".byleave"])


@given(st.lists(names, max_size=4).map("/".join), st.booleans())
def test_touching_more_never_protects_less(path: str, directory: bool) -> None:  # noqa: FBT001 -- given by position
    target = inside(path, directory=directory)
    alone, tree = BUILT_IN.of(target, subtree=False), BUILT_IN.of(target, subtree=True)
    assert alone is None or (tree is not None and tree.final >= alone.final)


def test_byleaves_own_places_are_listed_by_their_absolute_paths() -> None:
    listed = {place.path: place.final for place in BUILT_IN.outside()}
    assert listed == {"/home/u/.config/byleave": True, "/home/u/.claude/settings.json": True}


def test_a_name_leads_on_where_a_protected_place_may_lie_below_it() -> None:
    assert leads_on(next_steps((), ".git"))
    assert leads_on(next_steps(next_steps((), ".git"), "modules"))
    assert not leads_on(next_steps(next_steps((), ".git"), "hooks"))
    assert not leads_on(next_steps((), "src"))
