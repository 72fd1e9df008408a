"""Another process swaps links in while judged places of a project are worked on: nothing behind a link is touched."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import amounts
from byleave.core.fs_rules import FsTarget
from byleave.errors import UnsafePathError
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import Query
from byleave.workspace.resolve import Root

SWAPPER = Path(__file__).resolve().parents[1] / "swapper.py"
RACE = amounts.of(3, 1)  # seconds
LONGEST = 20.0  # seconds until a race that did not happen counts as a failure
FORBIDDEN = b"FORBIDDEN"
SWAPPED = {"src": "../outside/src", "docs": "secret", "note.txt": "../outside/note.txt", "made.txt": "../outside/made"}


class Arena(NamedTuple):
    """A project under attack, and what must stay as it is."""

    project: ProjectOnDisk
    forbidden: tuple[Path, Path]

    def place(self, path: str) -> FsTarget:
        """Return a place as it was judged before the attack began."""
        return FsTarget(f"{self.project.root.path}/{path}", path)

    def untouched(self) -> dict[str, bytes | None]:
        found = {}
        for top in self.forbidden:
            for path in sorted(top.rglob("*")):
                found[str(path)] = path.read_bytes() if path.is_file() else None
        return found


def plant(directory: Path, content: bytes) -> None:
    (directory / "deep").mkdir(parents=True)
    for name in ("file.txt", "victim.txt", "deep/file.txt"):
        (directory / name).write_bytes(content)


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    top = tmp_path.resolve()
    root, outside = top / "root", top / "outside"
    for directory, content in ((outside / "src", FORBIDDEN), (root / "secret", FORBIDDEN)):
        plant(directory, content)
    plant(root / "src", b"inside")
    plant(root / "docs", b"inside")
    (outside / "note.txt").write_bytes(FORBIDDEN)
    for name in ("note.txt", "made.txt"):
        (root / name).write_bytes(b"inside")
    for name, target in SWAPPED.items():
        (root / f"{name}.link").symlink_to(target)
    pairs = [str(root / (name + end)) for name in SWAPPED for end in ("", ".link")]
    attacker = subprocess.Popen([sys.executable, SWAPPER, *pairs], stdout=subprocess.PIPE)
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline().startswith(b"ready")
        yield Arena(ProjectOnDisk(Root.at(str(root))), (outside, root / "secret"))
        assert attacker.poll() is None, "the swapper ended before the race was over"
    finally:
        attacker.send_signal(signal.SIGKILL)
        attacker.wait()
        if attacker.stdout is not None:
            attacker.stdout.close()


def read(arena: Arena, path: str) -> None:
    assert FORBIDDEN not in arena.project.read(arena.place(path), limit=1000)


def write(arena: Arena, path: str) -> None:
    arena.project.write(arena.place(path), b"written", create=True, update=True)


def delete_and_restore(arena: Arena, path: str) -> None:
    with suppress(FileNotFoundError):
        arena.project.delete(arena.place(path))
    arena.project.write(arena.place(path), b"restored", create=True, update=True)


def move_there_and_back(arena: Arena, path: str) -> None:
    one, other = arena.place(path), arena.place(f"{path}.moved")
    arena.project.write(one, b"to move", create=True, update=True)
    arena.project.rename(one, other, replace=True)
    with suppress(FileExistsError):  # the same name was restored by another attempt
        arena.project.rename(other, one, replace=False)


def move_across(arena: Arena, path: str) -> None:
    """Move between both directories that are swapped, making directories on the way."""
    there = arena.place(f"docs/new/{path.replace('/', '-')}")
    arena.project.write(arena.place(path), b"to move", create=True, update=True)
    arena.project.rename(arena.place(path), there, replace=True)


def look(arena: Arena, path: str) -> None:
    assert arena.project.metadata(arena.place(path)).size != len(FORBIDDEN)


def search(arena: Arena, path: str) -> None:
    found = list(arena.project.grep(Query("FORBIDDEN", (arena.place(path),)), lambda _: True))
    assert found == []


ATTEMPTS: list[tuple[Callable[[Arena, str], None], str]] = [
    *[(read, path) for path in ("src/file.txt", "src/deep/file.txt", "docs/file.txt", "note.txt")],
    *[(write, path) for path in ("src/file.txt", "docs/deep/file.txt", "note.txt", "made.txt", "src/a/b/new.txt")],
    *[(delete_and_restore, path) for path in ("src/victim.txt", "docs/victim.txt")],
    *[(move_there_and_back, path) for path in ("src/deep/file.txt", "docs/victim.txt")],
    *[(move_across, path) for path in ("src/moving.txt", "src/deep/moving.txt")],
    *[(look, path) for path in ("src/file.txt", "note.txt")],
    *[(search, path) for path in ("src", "docs", "note.txt")],
]


def outcome_of(act: Callable[[Arena, str], None], arena: Arena, path: str) -> str:
    try:
        act(arena, path)
    except UnsafePathError:
        return "refused"
    except (FileNotFoundError, NotADirectoryError):  # another attempt was refused half way
        return "missing"
    return "done"


def test_nothing_behind_a_swapped_link_is_touched_by_a_project(arena: Arena) -> None:
    before = arena.untouched()
    outcomes: Counter[str] = Counter()
    start = time.monotonic()
    while time.monotonic() - start < (RACE if min(outcomes["done"], outcomes["refused"]) else LONGEST):
        for act, path in ATTEMPTS:
            outcomes[outcome_of(act, arena, path)] += 1
    assert arena.untouched() == before
    assert min(outcomes["done"], outcomes["refused"]) > 0, "nobody raced"


def test_a_copy_to_another_file_system_is_never_led_astray(arena: Arena) -> None:
    import tempfile

    root = arena.project.root.path
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(root).st_dev:
        pytest.skip("there is only one file system that can be written to")
    before = arena.untouched()
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as there:
        target = FsTarget(os.path.join(os.path.realpath(there), "copied"), None, "mnt/copied")
        start = time.monotonic()
        while time.monotonic() - start < (RACE / 2 if min(outcomes["done"], outcomes["refused"]) else LONGEST):
            for path in ("src/file.txt", "docs/file.txt", "docs/deep/file.txt"):
                outcomes[outcome_of(lambda here, path: copy_there_and_back(here, path, target), arena, path)] += 1
        assert [name for name in os.listdir(there) if name != "copied"] == []
    assert arena.untouched() == before
    assert min(outcomes["done"], outcomes["refused"]) > 0, "nobody raced"


def copy_there_and_back(arena: Arena, path: str, target: FsTarget) -> None:
    with suppress(FileNotFoundError):
        arena.project.write(arena.place(path), b"inside", create=True, update=True)
    arena.project.rename(arena.place(path), target, replace=True)
    assert FORBIDDEN not in arena.project.read(target, limit=100)
    arena.project.rename(target, arena.place(path), replace=True)
