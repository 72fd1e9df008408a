"""Whether what a plan rests on is as it was: the same answer as by looking at every path, with fewer looks."""

import os
from pathlib import Path

import pytest

from byleave.sandbox import host
from byleave.sandbox.plan.plan import DIRECTORY, FILE, LINK
from byleave.sandbox.sandbox import Sandbox

NAMES = [f"name{number}" for number in range(20)]


@pytest.fixture
def seen(tmp_path: Path) -> dict[str, str | None]:
    for name in NAMES:
        (tmp_path / name).mkdir()
    return {str(tmp_path / name): DIRECTORY for name in NAMES} | {str(tmp_path / "missing"): None}


def test_many_names_of_a_directory_are_listed(seen: dict[str, str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(host, "look", looked.append)
    assert host.all_look_like(seen)
    assert [os.path.basename(path) for path in looked] == ["missing"]


@pytest.mark.parametrize("kind", [FILE, LINK, None])
def test_a_name_that_has_become_something_else_is_noticed(
    seen: dict[str, str | None], tmp_path: Path, kind: str | None
) -> None:
    changed = tmp_path / NAMES[7]
    changed.rmdir()
    if kind == FILE:
        changed.touch()
    elif kind == LINK:
        changed.symlink_to(tmp_path / NAMES[8])
    assert not host.all_look_like(seen)


def test_a_name_that_comes_is_noticed(seen: dict[str, str | None], tmp_path: Path) -> None:
    (tmp_path / "missing").touch()
    assert not host.all_look_like(seen)


def test_a_name_that_is_found_by_another_spelling_is_noticed(
    seen: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory without case lists `Missing`, and has `missing`."""
    plain = host.look
    monkeypatch.setattr(host, "look", lambda path: FILE if path.endswith("/missing") else plain(path))
    assert not host.all_look_like(seen)


def test_a_directory_with_many_others_is_not_listed_to_its_end(seen: dict[str, str | None], tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"other{number}").touch()
    assert host.all_look_like(seen)
    (tmp_path / NAMES[0]).rmdir()
    assert not host.all_look_like(seen)


def test_names_are_reserved_again_after_they_were_released(tmp_path: Path) -> None:
    access = {"fs": [{"path": ".", "read": True, "write": True, "execute": True}]}
    with Sandbox(access, root=str(tmp_path)) as sandbox:
        for _ in range(2):
            for _ in range(2):
                with sandbox.spawn(["/bin/true"]) as process:
                    assert process.wait() == 0
                assert (tmp_path / ".claude").is_dir()
            sandbox.confinement.close()
            assert not (tmp_path / ".claude").exists()


def test_names_are_reserved_where_another_sandbox_had_them(tmp_path: Path) -> None:
    """The plan of before still holds then, and was reserved for once."""
    access = {"fs": [{"path": ".", "read": True, "write": True, "execute": True}]}
    with Sandbox(access, root=str(tmp_path)) as first:
        with Sandbox(access, root=str(tmp_path)) as other:
            for sandbox in (first, other):
                with sandbox.spawn(["/bin/true"]) as process:
                    assert process.wait() == 0
            first.confinement.close()
            with first.confinement, first.spawn(["/bin/true"]) as process:
                assert process.wait() == 0
                other.close()
                assert (tmp_path / ".claude").is_dir()
        assert not (tmp_path / ".claude").exists()
