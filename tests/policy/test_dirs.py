"""Where byleave's places are: without a home, with odd names, beside packages of its own."""

import os
import sys
from pathlib import Path

import pytest

from byleave.errors import StateError
from byleave.policy import dirs
from byleave.policy.dirs import (
    UserDirs,
    find_homes,
    hook_settings,
    is_directory,
    is_held,
    own_command,
    own_packages,
    own_start,
    real_path,
)


def test_a_user_whom_the_system_does_not_know_is_told_to_set_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0xFFFFFFF0)
    for home in ({}, {"HOME": ""}, {"HOME": "relative"}):
        with pytest.raises(StateError, match="there is no home directory") as caught:
            find_homes(home)
        assert caught.value.hint == "set HOME or BYLEAVE_HOME to an absolute path"
    assert find_homes({"BYLEAVE_HOME": "/own"}) == UserDirs("/own", "/own", "/own/cache", user="")


def test_settings_below_a_home_that_is_no_directory_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    found = hook_settings(str(tmp_path.resolve() / "home"))
    assert f"{tmp_path.resolve()}/home/.claude/settings.json" in found


def test_a_name_that_no_file_has_is_no_place() -> None:
    assert (real_path("/a/\0/../b"), is_directory("/a\0"), is_held("/a\0")) == ("/a/b", False, False)


def test_a_directory_that_holds_a_name_free_is_held_and_a_file_in_it_ends_that(tmp_path: Path) -> None:
    place = tmp_path / ".byleave"
    held = [is_held(str(place))]
    place.mkdir()
    place.chmod(0o1755)
    held.append(is_held(str(place)))
    (place / "config.toml").touch()
    held.append(is_held(str(place)))
    assert held == [False, True, False]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of byleave: what `dirs` takes for the directory that the package is in."""
    base = tmp_path.resolve() / "site"
    (base / "byleave/policy").mkdir(parents=True)
    monkeypatch.setattr(dirs, "__file__", str(base / "byleave/policy/dirs.py"))
    return base


def test_packages_are_named_where_they_are_and_not_beside_byleave(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = installed.parent
    for name in ("site/msgspec", "other/msgspec", "more", "odd:name/idna", "empty"):
        (base / name).mkdir(parents=True)
    (base / "more/re2.py").touch()
    named = [installed, base / "other", base / "more", base / "odd:name", base / "empty", base / "other"]
    monkeypatch.setattr(sys, "path", ["", "relative", *map(str, named)])
    assert own_packages() == f"{base}/other:{base}/more"
    start = [sys.executable, "-I", "-S", f"{installed}/byleave/cli/__main__.py"]
    assert own_command() == [*start, "--packages", f"{base}/other:{base}/more"]
    monkeypatch.setattr(sys, "path", [str(installed)])
    assert own_command() == start


def test_a_front_that_can_be_executed_stands_before_the_interpreter(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(installed)])
    memory, name = installed.parent / "memory", f"front-{os.uname().machine}"
    places = [memory / name, installed / "byleave/sandbox/native" / name]
    begins = []
    for place in places:
        place.parent.mkdir(parents=True)
        place.touch(mode=0o644)
        begins.append(own_start(str(memory))[0])
        place.chmod(0o755)
        begins.append(own_start(str(memory))[0])
    assert begins == [sys.executable, str(places[0]), str(places[0]), str(places[1])]
