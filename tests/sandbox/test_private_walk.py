"""The walk that finds private files finds what a plain look at every name finds, in the same order."""

import os
import random
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from byleave.sandbox.plan import private_files
from byleave.sandbox.plan.plan import DIRECTORY, FILE, NOTHING, PathGrant
from byleave.sandbox.plan.private_files import NOT_FOR_EVERY_USER
from byleave.sandbox.plan.private_files import _covered as covered

LOOK_INTO = "open"


def plainly_covered(
    top: str, *, depth: int | None, but: Sequence[str] = (), most_in_one: int = 32, most: int = 200_000
) -> Iterator[PathGrant]:
    """Look at every name by its path, as the walk did when it was written."""
    looked_at = 0
    waiting = [(top, 0)]
    while waiting:
        directory, deep = waiting.pop()
        files = []
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:
            continue
        looked_at += len(entries)
        for entry in entries:
            kind = plain_kind(entry, top)
            if kind == DIRECTORY:
                yield PathGrant(entry.path, NOTHING, DIRECTORY, NOT_FOR_EVERY_USER)
            elif kind == FILE:
                files.append(entry.path)
            elif kind == LOOK_INTO and entry.path not in but and (depth is None or deep < depth):
                waiting.append((entry.path, deep + 1))
        if len(files) > most_in_one and directory != top:
            yield PathGrant(directory, NOTHING, DIRECTORY, NOT_FOR_EVERY_USER)
        else:
            yield from (PathGrant(path, NOTHING, FILE, NOT_FOR_EVERY_USER) for path in files)
        if looked_at > most:
            yield from (PathGrant(path, NOTHING, DIRECTORY, NOT_FOR_EVERY_USER) for path, _deep in waiting)
            return


def plain_kind(entry: os.DirEntry[str], top: str) -> str | None:
    if top == "/proc" and entry.name.isdecimal() and entry.path.count("/") == 2:
        return None
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        closed = entry.path == "/etc/byleave" or (mode & 0o005 != 0o005 and os.access(entry.path, os.X_OK))
        return DIRECTORY if closed else LOOK_INTO
    if stat.S_ISLNK(mode) or mode & 0o004:
        return None
    return FILE if os.access(entry.path, os.R_OK) or top == "/proc" else None


def plant(directory: Path, chance: random.Random, deep: int = 0) -> None:
    """Fill a directory with files, links, pipes and directories of all modes."""
    for number in range(chance.choice([0, 1, 3, 8, 40 if deep else 5])):
        path = directory / f"{chance.choice(['a', 'B', 'é', '.z', '7'])}{number}"
        kind = chance.choice(["file", "file", "file", "link", "pipe", "directory"])
        if kind == "directory" and deep < 4:
            path.mkdir()
            plant(path, chance, deep + 1)
        elif kind == "link":
            path.symlink_to(chance.choice(["/etc/shadow", "nowhere", "."]))
            continue
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.write_text("x")
        path.chmod(chance.choice([0o755, 0o755, 0o644, 0o700, 0o750, 0o600, 0o640, 0o711, 0o754, 0o000, 0o604]))


def open_again(directory: Path) -> None:
    for path, names, _files in os.walk(directory):
        for name in names:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)


@pytest.mark.parametrize("seed", range(40))
def test_the_walk_finds_what_a_plain_look_finds(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)  # noqa: S311 -- a choice of tests
    plant(tmp_path, chance)
    depth, most = chance.choice([None, 0, 1, 2]), chance.choice([5, 30, 200_000])
    but = [str(path) for path in tmp_path.iterdir() if path.is_dir()][:1]
    monkeypatch.setattr(private_files, "_MOST_LOOKED_AT", most)
    monkeypatch.setattr(private_files, "_MOST_IN_ONE", 3)
    found = list(covered(str(tmp_path), depth=depth, but=but))
    assert found == list(plainly_covered(str(tmp_path), depth=depth, but=but, most_in_one=3, most=most))
    open_again(tmp_path)


@pytest.mark.parametrize("top", ["/etc", "/usr/local", "/usr", "/proc/sys/kernel", "/nowhere"])
def test_the_walk_finds_the_same_on_this_machine(top: str) -> None:
    found = list(covered(top, depth=2))
    assert found == list(plainly_covered(top, depth=2))


def test_processes_are_no_files_of_the_kernel() -> None:
    but = ("/proc/sys", "/proc/net", "/proc/self", "/proc/thread-self", "/proc/mounts")
    assert list(covered("/proc", depth=0, but=but)) == list(plainly_covered("/proc", depth=0, but=but))
