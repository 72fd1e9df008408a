"""The service ends when its code changes, and goes on when only bytecode is written beside it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from byleave.service.installation import InstallationStamp

LATER = 2_000_000_000  # seconds since 1970: the clock of a file system may stand still between two changes


@pytest.fixture
def package(tmp_path: Path) -> Path:
    place = tmp_path / "package"
    (place / "inner").mkdir(parents=True)
    for name in ("one.py", "two.py", "inner/three.py"):
        (place / name).write_text(name)
    return place


def touch(directory: Path) -> None:
    os.utime(directory, (LATER, LATER))


def test_bytecode_that_is_written_is_no_change(package: Path) -> None:
    stamp = InstallationStamp.take(str(package))
    for directory in (package, package / "inner"):
        (directory / "__pycache__").mkdir()
        (directory / "__pycache__" / "one.cpython-311.pyc").write_text("code")
        touch(directory)
    assert not stamp.has_changed()
    assert not stamp.has_changed()
    (package / "one.new").write_text("other")
    os.replace(package / "one.new", package / "one.py")
    assert stamp.has_changed()


def exchange(package: Path) -> None:
    shutil.copytree(package / "inner", package.parent / "other")
    (package / "inner").rename(package.parent / "older")
    (package.parent / "other").rename(package / "inner")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a module more": lambda place: (place / "inner" / "four.py").write_text(""),
    "a package more": lambda place: (place / "more").mkdir(),
    "a module less": lambda place: (place / "inner" / "three.py").unlink(),
    "a module saved anew": lambda place: Path(shutil.copy(place / "one.py", place / "new")).replace(place / "two.py"),
    "a package exchanged": exchange,
    "a package gone": lambda place: shutil.rmtree(place / "inner"),
    "all gone": shutil.rmtree,
}


@pytest.mark.parametrize("change", CHANGES)
def test_code_that_changes_beside_bytecode_is_a_change(change: str, package: Path) -> None:
    stamp = InstallationStamp.take(str(package))
    (package / "__pycache__").mkdir()
    (package / "inner" / "__pycache__").mkdir()
    CHANGES[change](package)
    for directory in (package, package / "inner"):
        if directory.exists():
            touch(directory)
    assert stamp.has_changed()
