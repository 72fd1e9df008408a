"""The search for closed places takes a step by its name alone, and finds what a look at every pattern finds."""

import os
import sys
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
import byleave
from byleave.core import closed_places as module
from byleave.core.closed_places import ClosedPlaces, advance
from byleave.core.decision import ALLOW
from byleave.core.fs_rules import FsTarget
from byleave.core.match_context import MatchContext
from byleave.core.place_access import closed_places
from byleave.workspace.closed_paths import covered_below
from byleave.workspace.resolve import Root

ROOT = str(Path(__file__).resolve().parent)
names = st.sampled_from(["a", "A", "b", "src", ".env", "Ä", "a.pem", "x. ", "deep", "*", "*.pem", "?", "[ab]", "**"])
plain = st.sampled_from(["a", "A", "b", "src", ".env", "ä", "Ä", "a.pem", "x", "x. ", "deep"])
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


def compiled(rules: list[dict[str, Any]]) -> Any:
    return byleave.compile_policy({"rules": rules}, root=ROOT).compiled.policy


@settings(max_examples=amounts.of(1000, 150))
@given(st.lists(paths, min_size=1, max_size=6), st.lists(plain, max_size=6), st.sampled_from([0, 1]))
def test_a_step_by_name_is_a_step_by_every_pattern(given_paths: list[str], below: list[str], opens: int) -> None:
    rules: list[dict[str, Any]] = [{"allow": {"path": "**/src/**"}}] if opens else []
    rules += [{"deny": {"path": path}} for path in given_paths]
    try:
        closed = ClosedPlaces(compiled(rules), "read", root=ROOT)
    except byleave.ConfigError:
        return
    progress = plainly = closed.begin("/")
    for name in (*ROOT.strip("/").split("/"), *below):
        progress, plainly = closed.advance(progress, name), advance(plainly, name)
        assert progress == plainly
        assert closed.advance(progress, name) == advance(plainly, name)
        left = closed.without_opened(progress, name)
        assert left == frozenset(each for each in progress if name not in each[0].opened)


def test_patterns_are_looked_at_once_however_many_names_there_are() -> None:
    """Beside the patterns themselves, a walk through a thousand names looks at none of them that is no match."""
    looked = []
    for count in (10, 1000):
        policy = compiled([{"deny": {"path": f"**/.key{number}"}} for number in range(count)])
        closed = closed_places(policy, ("read",), ROOT, None)
        progress = closed.begin(ROOT)
        plainly = patch.object(module, "name_matches", side_effect=AssertionError)
        with plainly, patch.object(module, "_Steps", wraps=module._Steps) as steps:  # noqa: SLF001 -- counted
            for number in range(1000):
                assert closed.advance(progress, f"name{number}") is progress
            looked.append(steps.call_count)
        assert closed.is_match(closed.advance(progress, ".key5"))
    assert looked == [1, 1]


def test_the_places_of_commands_and_searches_are_kept_with_the_policy() -> None:
    policy = compiled([{"deny": {"path": "**/.env"}}, {"ask": {"path": "b", "agent": "x"}}])
    first = closed_places(policy, ("read",), ROOT, "a", "search")
    assert closed_places(policy, ("read",), ROOT, "a", "search") is first
    for other in (
        (("update",), ROOT, "a", "search"),
        (("read",), "/else", "a", "search"),
        (("read",), ROOT, "a", "edit"),
    ):
        assert closed_places(policy, *other) is not first
    assert closed_places(compiled([]), ("read",), ROOT, "a", "search") is not first


ODD_NAMES = [
    "a",
    "A",
    "src",
    ".env",
    "x. ",
    "x",
    "...",
    "Ä",
    "a\u0308",
    "a.pem",
    "\udcff",
    "[ab]",
    "b*",
    "so\u00adft",
    "soft",
]
trees = st.lists(st.lists(st.sampled_from(ODD_NAMES), min_size=1, max_size=3), min_size=1, max_size=12)
odd_patterns = st.one_of(
    st.sampled_from(ODD_NAMES[:10]),
    st.sampled_from(["**", "*", "?", "*.pem", "[ax]", "[!a]", "s*", "*a*", "??*", "soft"]),
)
outcomes = st.sampled_from(["deny", "deny", "ask", "allow"])
written = st.tuples(
    outcomes, st.one_of(st.lists(odd_patterns, min_size=1, max_size=4).map("/".join), st.just("**/src/**"))
)


def planted(root: Path, tree: list[list[str]]) -> list[str]:
    """Make files and directories; return all that there are, by their absolute paths."""
    for names in tree:
        path = os.path.join(root, *names)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not os.path.lexists(path):
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        except (FileExistsError, NotADirectoryError):  # a file stands there already
            continue
    return [os.path.join(where, name) for where, below, files in os.walk(root) for name in (*below, *files)]


@settings(max_examples=amounts.of(800, 60), deadline=None)
@given(trees, st.lists(written, min_size=1, max_size=6))
def test_a_walk_finds_what_the_rules_say_of_each_file(
    tmp_path_factory: pytest.TempPathFactory, tree: list[list[str]], rules: list[tuple[str, str]]
) -> None:
    base = tmp_path_factory.mktemp("tree").resolve()
    there = planted(base, tree)
    try:
        made = byleave.compile_policy({"rules": [{how: {"path": path}} for how, path in rules]}, root=str(base))
    except byleave.ConfigError:
        return
    policy, root = made.compiled.policy, Root.at(str(base))
    closed = ClosedPlaces(policy, "read", root=str(base))
    expected = {}
    for path in there:
        place = FsTarget(path, os.path.relpath(path, base), exists=True, directory=os.path.isdir(path))
        subject = MatchContext("read", op="read", file=place)
        said = [each for table in policy.rule_tables() if (each := table.decide(subject).decision) is not None]
        if said and max(said) is not ALLOW:
            expected[path] = max(said)
    covered = covered_below(root, str(base), closed, seconds=60)
    assert covered.complete
    found = {each.path: each for each in covered.places if each.path != str(base)}
    wholes = [each.path for each in covered.places if each.whole]
    assert {path: each.decision for path, each in found.items()}.items() <= expected.items()
    left = [path for path in expected if path not in found]
    assert [path for path in left if not any(path.startswith(f"{whole}/") for whole in wholes)] == []


def test_what_is_kept_of_a_walk_stays_small_however_many_patterns_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that matches one of many patterns leads to all of them again: few of such steps are kept."""
    monkeypatch.setattr(module, "_MOST_PARTLY", 4000)
    closed = ClosedPlaces(
        compiled([{"deny": {"path": f"**/.key{number}"}} for number in range(200)]), "read", root=ROOT
    )
    start = closed.begin(ROOT)
    for number in range(200):
        below = closed.advance(start, f".key{number}")
        assert closed.is_match(below)
        assert closed.advance(below, "x") == start
        assert closed.advance(start, f".key{number}") == below
        kept = (*closed._steps.values(), *closed._next, *closed._matches)  # noqa: SLF001 -- what a walk leaves
        assert sum(map(len, {id(each): each for each in kept}.values())) <= 5000


def test_names_that_rules_open_take_as_much_room_as_the_rules() -> None:
    sizes = []
    for count in (250, 1000):
        rules: list[dict[str, Any]] = []
        for number in range(count):
            rules += [{"allow": {"path": f"**/made{number}/**"}}, {"deny": {"path": f"**/.key{number}"}}]
        closed = ClosedPlaces(compiled(rules), "read", root=ROOT)
        start = closed.begin(ROOT)
        assert len(closed.without_opened(start, "made7")) == 7
        assert closed.without_opened(start, "other") is start
        sizes.append(sum(sys.getsizeof(pattern.opened) for pattern in closed.patterns))
    assert sizes[1] <= 5 * sizes[0]


def test_places_are_kept_for_few_agents(tmp_path: Path) -> None:
    policy = byleave.compile_policy(
        {"rules": [{"deny": {"path": "a", "agent": "x*"}}]}, root=str(tmp_path)
    ).compiled.policy
    for number in range(200):
        closed = closed_places(policy, ("read",), str(tmp_path), f"{'xy'[number % 2]}{number}")
        place = FsTarget(f"{tmp_path}/a", "a")
        assert (closed.decision(place) is None) == bool(number % 2)
    assert policy.known is not None
    assert len(policy.known._closed) <= 64  # noqa: SLF001 -- what is kept


def test_threads_that_share_places_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_STEPS", 7)  # it is forgotten again and again
    monkeypatch.setattr(module, "_MOST_DECIDED", 3)
    monkeypatch.setattr(module, "_MOST_PARTLY", 40)
    policy = compiled([{"deny": {"path": path}} for path in ("**/.env", "a/*/b", "**/x*/**", "c")])
    closed = closed_places(policy, ("read",), ROOT, None)
    wrong: list[Any] = []

    def walk(first: int) -> None:
        for number in range(400):
            start = closed.begin(ROOT)
            for name in ("a", f"x{(first + number) % 5}", "b", ".env")[(first + number) % 3 :]:
                below = closed.advance(start, name)
                place = FsTarget(f"{ROOT}/{name}", name)
                said = closed.decision(place)
                if below != advance(start, name) or closed.is_match(below) != module.is_match(below):
                    wrong.append((start, name))
                if (said is None) != (name in ("a", "b")):
                    wrong.append(place)
                start = below

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [Thread(target=walk, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_a_place_behind_a_link_is_found_closed_by_its_real_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/x").write_text("")
    (tmp_path / "link").symlink_to("real")
    root = str(tmp_path.resolve())
    policy = byleave.compile_policy({"rules": [{"deny": {"path": "link/x"}}]}, root=root).compiled.policy
    covered = covered_below(Root.at(root), f"{root}/real", ClosedPlaces(policy, "read", root=root))
    assert [each.path for each in covered.places] == [f"{root}/real/x"]
