"""A change on the way to a file shows, also one that was taken back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from byleave.workspace.path_witness import PathWitness

SWAPPER = Path(__file__).parents[1] / "swapper.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "b" / "file").write_text("x")
    return place


def test_a_way_that_stays_as_it_is_is_unchanged(root: Path) -> None:
    witness = PathWitness.take(f"{root}/a/b/file", str(root))
    assert (witness.sure, len(witness.stamps)) == (True, 3)
    (root / "a" / "b" / "file").write_text("another content is no other way")
    assert witness.is_unchanged()


@pytest.mark.parametrize("name", ["a", "a/b", "a/b/file"])
def test_a_name_that_was_exchanged_and_put_back_shows(root: Path, name: str) -> None:
    witness = PathWitness.take(f"{root}/a/b/file", str(root))
    (root / name).rename(root / f"{name}.aside")
    (root / name).symlink_to("/etc")
    (root / name).unlink()
    (root / f"{name}.aside").rename(root / name)
    assert not witness.is_unchanged()


@pytest.mark.parametrize("name", ["a", "a/b", "a/b/file"])
def test_an_exchange_by_the_kernel_shows(root: Path, name: str) -> None:
    (root / "other").symlink_to("/etc")
    witness = PathWitness.take(f"{root}/a/b/file", str(root))
    swapper = subprocess.Popen([sys.executable, SWAPPER, root / name, root / "other"], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    with swapper:
        swapper.stdout.readline()
        swapper.kill()
    assert not witness.is_unchanged()


def test_against_a_process_that_exchanges_names_all_the_time_what_is_certain_is_true(
    root: Path, tmp_path: Path
) -> None:
    """What is read between a witness and its check is the file that the way led to, or the witness says otherwise."""
    (tmp_path / "out" / "b").mkdir(parents=True)
    (tmp_path / "out" / "b" / "file").write_text("secret")
    (root / "other").symlink_to(tmp_path / "out")
    path = root / "a" / "b" / "file"
    swapper = subprocess.Popen([sys.executable, SWAPPER, root / "a", root / "other"], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    certain = wrong = 0
    with swapper:
        swapper.stdout.readline()
        for _ in range(200):
            witness = PathWitness.take(str(path), str(root))
            try:
                expected = "x" if os.path.realpath(path).startswith(f"{os.path.realpath(root)}/") else "secret"
                read = path.read_text()
            except OSError:
                continue
            if witness.is_unchanged():
                certain += 1
                wrong += read != expected
        swapper.kill()
    assert (wrong, certain < 200) == (0, True)


def test_a_change_in_the_same_tick_is_no_certainty(root: Path) -> None:
    (root / "new").touch()
    now = os.lstat(root).st_ctime_ns
    witness = PathWitness.take(f"{root}/a/b/file", str(root), now=lambda: now, pause=lambda _seconds: None)
    assert (witness.sure, witness.is_unchanged()) == (False, False)


def test_what_writes_a_file_may_change_its_own_directory_and_no_other(root: Path) -> None:
    witness = PathWitness.take(f"{root}/a/b/file", str(root))
    (root / "a" / "b" / "temporary").touch()
    assert (witness.is_unchanged(), witness.is_unchanged_above()) == (False, True)
    (root / "new").touch()
    assert not witness.is_unchanged_above()


def test_links_on_the_way_are_followed_and_what_is_not_there_ends_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (root / "link").symlink_to("a/b")
    (root / "far").symlink_to(tmp_path / "out")
    (root / "loop").symlink_to("loop")
    names = {
        "link/file": [root, root / "a", root / "a" / "b"],
        "far/x": [root],
        "loop/x": [root],
        "none/x": [root],
        "a/../a/./b/file": [root, root / "a", root / "a" / "b"],
    }
    for name, through in names.items():
        witness = PathWitness.take(f"{root}/{name}", str(root))
        assert [place for place, *_rest in witness.stamps] == [str(place) for place in through]
        assert witness.is_unchanged()
    assert PathWitness.take("/etc/passwd", str(root)).stamps == ()
