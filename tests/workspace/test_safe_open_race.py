"""Another process swaps directories and files for links meanwhile: nothing behind a link is ever touched.

The naive openers at the end lose the same race, which shows that it is one.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pytest

import amounts
from byleave.errors import UnsafePathError
from byleave.workspace.openat import openat2, walk, works
from byleave.workspace.safe_open import Anchor

if TYPE_CHECKING:
    from byleave.workspace.openat import Opener

SWAPPER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "swapper.py")
RACE = amounts.of(3, 1)  # seconds for each strategy
LONGEST = 20.0  # seconds until a race that did not happen counts as a failure
FORBIDDEN = b"FORBIDDEN"

# What is swapped in the workspace, and where the link that takes its place leads.
SWAPPED = {
    "src": "../outside/src",
    "docs": "secret",
    "note.txt": "../outside/note.txt",
    "log.txt": "secret/file.txt",
    "made.txt": "../outside/made.txt",
}


class Arena(NamedTuple):
    """A workspace under attack. All below `outside` and `secret` is forbidden and must stay as it is."""

    root: str
    outside: str
    secret: str

    def forbidden(self) -> dict[str, bytes | None]:
        return {**contents(self.outside), **contents(self.secret)}


def contents(top: str) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for above, directories, files in os.walk(top):
        found.update({os.path.join(above, name): None for name in directories})
        for name in files:
            with open(os.path.join(above, name), "rb") as file:
                found[file.name] = file.read()
    return found


def plant(directory: str, content: bytes) -> None:
    os.makedirs(os.path.join(directory, "deep"))
    for name in ("file.txt", "victim.txt", "deep/file.txt"):
        with open(os.path.join(directory, name), "wb") as file:
            file.write(content)


@pytest.fixture
def arena(tmp_path: object) -> Iterator[Arena]:
    top = os.path.realpath(str(tmp_path))
    root, outside = os.path.join(top, "root"), os.path.join(top, "outside")
    arena = Arena(root, outside, os.path.join(root, "secret"))
    for directory in (f"{outside}/src", arena.secret):
        plant(directory, FORBIDDEN)
        os.mkdir(os.path.join(directory, "only-here"))
    for directory in ("src", "docs"):
        plant(os.path.join(root, directory), b"inside")
    for path, content in {f"{outside}/note.txt": FORBIDDEN, **inside_files(root)}.items():
        with open(path, "wb") as file:
            file.write(content)
    for name, target in SWAPPED.items():
        os.symlink(target, os.path.join(root, f"{name}.link"))
    with swapper(root):
        yield arena


def inside_files(root: str) -> dict[str, bytes]:
    return {os.path.join(root, name): b"inside" for name in SWAPPED if name.endswith(".txt")}


class swapper:  # noqa: N801 -- used like a function, as context managers are
    """The attacking process, for the length of a `with`."""

    def __init__(self, root: str) -> None:
        pairs = [os.path.join(root, name + end) for name in SWAPPED for end in ("", ".link")]
        self.process = subprocess.Popen([sys.executable, SWAPPER, *pairs], stdout=subprocess.PIPE)

    def __enter__(self) -> None:
        try:
            assert self.process.stdout is not None
            assert self.process.stdout.readline().startswith(b"ready")
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_raised: object) -> None:
        assert self.process.stdout is not None
        alive = self.process.poll() is None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        assert alive, "the swapper ended before the race was over"


def read(anchor: Anchor, relative: str) -> None:
    assert FORBIDDEN not in anchor.read_bytes(relative, limit=1000)


def overwrite(anchor: Anchor, relative: str) -> None:
    anchor.write_bytes(relative, b"written", create=False, update=True)


def write(anchor: Anchor, relative: str) -> None:
    anchor.write_bytes(relative, b"written", create=True, update=True)


def make_and_remove_file(anchor: Anchor, relative: str) -> None:
    with suppress(FileExistsError):  # the removing was refused last time
        anchor.write_bytes(relative, b"made", create=True, update=False)
    anchor.unlink(relative)


def make_and_remove_directory(anchor: Anchor, relative: str) -> None:
    anchor.make_directories(relative)
    anchor.remove_directory(relative)


def remove_and_restore(anchor: Anchor, relative: str) -> None:
    with suppress(FileNotFoundError):  # the restoring was refused last time
        anchor.unlink(relative)
    anchor.write_bytes(relative, b"restored", create=True, update=True)


def move_there_and_back(anchor: Anchor, relative: str) -> None:
    anchor.write_bytes(relative, b"to move", create=True, update=True)
    anchor.rename(relative, anchor, f"{relative}.moved", replace=True)
    anchor.rename(f"{relative}.moved", anchor, relative, replace=False)


def list_directory(anchor: Anchor, relative: str) -> None:
    assert "only-here" not in anchor.list_names(relative)


ATTEMPTS: list[tuple[Callable[[Anchor, str], None], str]] = [
    *[(read, path) for path in ("src/file.txt", "src/deep/file.txt", "docs/file.txt", "note.txt", "log.txt")],
    *[(overwrite, path) for path in ("src/file.txt", "docs/deep/file.txt", "note.txt", "log.txt")],
    *[(write, path) for path in ("made.txt", "src/made.txt", "docs/made.txt")],
    *[(make_and_remove_file, path) for path in ("src/fresh.txt", "docs/fresh.txt")],
    *[(make_and_remove_directory, path) for path in ("src/fresh/er", "docs/fresh/er")],
    *[(remove_and_restore, path) for path in ("src/victim.txt", "docs/victim.txt")],
    *[(move_there_and_back, path) for path in ("src/deep/file.txt", "docs/victim.txt")],
    *[(list_directory, path) for path in ("src", "docs")],
]


@pytest.mark.parametrize("opener", [openat2, walk], ids=["openat2", "walk"])
def test_nothing_behind_a_swapped_link_is_touched(arena: Arena, opener: "Opener") -> None:
    if not works(opener):
        pytest.skip("this kernel has no openat2")
    untouched = arena.forbidden()
    outcomes: Counter[str] = Counter()
    start = time.monotonic()
    with Anchor.open(arena.root, opener=opener) as anchor:
        while not race_is_over(start, RACE, outcomes):
            for act, relative in ATTEMPTS:
                outcomes[outcome_of(act, anchor, relative)] += 1
    assert arena.forbidden() == untouched
    assert min(outcomes["done"], outcomes["refused"]) > 0, "nobody raced"


def race_is_over(start: float, least: float, outcomes: Counter[str]) -> bool:
    """Race for `least` seconds, and longer as long as the swapper never came in between."""
    length = time.monotonic() - start
    return length > LONGEST or (length > least and min(outcomes["done"], outcomes["refused"]) > 0)


def outcome_of(act: Callable[[Anchor, str], None], anchor: Anchor, relative: str) -> str:
    try:
        act(anchor, relative)
    except UnsafePathError:
        return "refused"
    except FileNotFoundError:  # another attempt was refused half way
        return "missing"
    return "done"


@pytest.mark.parametrize("opener", [openat2, walk], ids=["openat2", "walk"])
def test_an_anchor_is_never_opened_behind_a_swapped_link(arena: Arena, opener: "Opener") -> None:
    if not works(opener):
        pytest.skip("this kernel has no openat2")
    behind = [f"{arena.outside}/src", f"{arena.outside}/note.txt", arena.secret, f"{arena.secret}/file.txt"]
    forbidden = {(found.st_dev, found.st_ino) for found in map(os.stat, behind)}
    outcomes: Counter[str] = Counter()
    start = time.monotonic()
    while not race_is_over(start, RACE / 2, outcomes):
        for name in ("src", "docs", "note.txt", "log.txt"):
            try:
                with Anchor.open(os.path.join(arena.root, name), opener=opener) as anchor:
                    assert anchor.identity not in forbidden
                    outcomes["done"] += 1
            except UnsafePathError:
                outcomes["refused"] += 1
    assert min(outcomes["done"], outcomes["refused"]) > 0, "nobody raced"


def resolve_then_open(root: str, relative: str) -> int:
    path = os.path.join(root, relative)
    if os.path.realpath(path) != path:
        raise PermissionError(path)
    return os.open(path, os.O_RDONLY)


def resolve_then_open_without_following_the_last(root: str, relative: str) -> int:
    path = os.path.join(root, relative)
    if os.path.realpath(path) != path:
        raise PermissionError(path)
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def look_for_links_then_open(root: str, relative: str) -> int:
    path = os.path.join(root, relative)
    if any(map(os.path.islink, (os.path.dirname(path), path))):
        raise PermissionError(path)
    return os.open(path, os.O_RDONLY)


@pytest.mark.parametrize(
    "naive", [resolve_then_open, resolve_then_open_without_following_the_last, look_for_links_then_open]
)
def test_a_naive_opener_loses_this_race(arena: Arena, naive: Callable[[str, str], int]) -> None:
    tries = 0
    end = time.monotonic() + LONGEST
    lost = False
    while not lost and time.monotonic() < end:
        tries += 1
        try:
            with open(naive(arena.root, ("src/file.txt", "docs/file.txt")[tries % 2]), "rb") as file:
                lost = file.read() == FORBIDDEN
        except OSError:
            continue
    assert lost, f"the naive opener won {tries} times: this race proves nothing"
