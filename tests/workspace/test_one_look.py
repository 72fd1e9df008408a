"""One look at many paths says that one leads where it led only if its resolution says so, too."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
import byleave
from byleave.core.decision import DENY
from byleave.core.fs_rules import FsTarget
from byleave.policy import live_policy
from byleave.workspace.resolve import OneLook, Root

NAMES = ["a", "b", "file", "link", "loop", "gone", "shut", "..", ".", "", "\udcff", "x" * 300]
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
ODD = [
    "/",
    ".",
    "",
    "/proc/self/cwd",
    "/proc/self",
    "/dev/stdin",
    "/dev/null",
    "/nowhere",
    "a/",
    "/etc/passwd/x",
    "a\0b",
]


def canonical(root: Root, path: str) -> str | None:
    place = root.resolve_any(path)
    return place.canonical if isinstance(place, FsTarget) else None


def lay_out(base: Path) -> Root:
    for name in ("a/b/a", "b/a"):
        (base / name).mkdir(parents=True)
    (base / "a" / "file").touch()
    (base / "file").touch()
    (base / "link").symlink_to("a")
    (base / "a" / "link").symlink_to("../b")
    (base / "b" / "link").symlink_to("missing")
    (base / "loop").symlink_to("loop")
    return Root.at(str(base))


@settings(max_examples=amounts.of(3000, 300))
@given(st.lists(st.one_of(paths, st.sampled_from(ODD)), min_size=1, max_size=8))
def test_a_yes_is_what_the_resolution_says(tmp_path_factory: pytest.TempPathFactory, given_paths: list[str]) -> None:
    base = tmp_path_factory.getbasetemp() / "one-look"
    root = Root.at(str(base)) if base.exists() else lay_out(base)
    look = OneLook(root.path)
    for path in given_paths:
        for text in (path, os.path.join(root.path, path)):
            named = os.path.join(root.path, text)
            assert look.leads_to(text, None) is False
            if os.path.normpath(named) == named and "//" not in named and look.leads_to(text, named):
                assert canonical(root, text) in (named, None)
            known = canonical(root, text)
            if known is not None and look.leads_to(text, known):
                assert canonical(root, text) == known
            other = f"{named}x"
            assert not look.leads_to(text, other)


@pytest.mark.parametrize("place", ["area", "area/part", "."])
def test_a_link_in_the_place_of_a_directory_is_seen_by_the_next_look(tmp_path: Path, place: str) -> None:
    root = tmp_path / "ws"
    (root / "area" / "part").mkdir(parents=True)
    (tmp_path / "else" / "part").mkdir(parents=True)
    known = f"{root}/area/part"
    assert OneLook(str(root)).leads_to("area/part", known)
    moved = root / place
    moved.rename(tmp_path / "before")
    moved.symlink_to(tmp_path / "else")
    assert not OneLook(str(root)).leads_to("area/part", known)
    moved.unlink()
    assert OneLook(str(root)).leads_to("area/part", known)  # what is missing keeps its name
    if place != ".":
        moved.touch()
        assert OneLook(str(root)).leads_to("area/part", known) == (place == "area/part")


def test_a_policy_looks_once_at_what_is_above_its_paths(tmp_path: Path) -> None:
    rules = [{"deny": {"path": f"area/part{number}/**/.env"}} for number in range(200)]
    policy = byleave.compile_policy({"rules": rules}, root=str(tmp_path))
    with patch.object(live_policy.LivePolicy, "_leads_elsewhere", return_value=False) as resolved:
        policy.look_again()
    assert resolved.call_count < 5
    (tmp_path / "else").mkdir()
    (tmp_path / "area").symlink_to("else")
    before = policy.compiled
    policy.look_again()
    assert policy.compiled is not before
    assert policy.decide({"kind": "read", "path": "else/part7/x/.env"}).decision is DENY
