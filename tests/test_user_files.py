"""Files that belong to the user alone: who may have touched them, and what survives when a write does not."""

import marshal
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byleave.errors import StateError
from byleave.user_files import (
    Lock,
    ParseCache,
    digest,
    digest_file,
    make_private_directory,
    read_private,
    write_private,
)

ORDINARY_USER = 65534  # nobody
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user, or mount")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "own"
    directory.mkdir(mode=0o700)
    return directory


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# Directories


def test_a_new_directory_is_private_all_the_way_down_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        make_private_directory(str(place / "a/b/c"))
    finally:
        os.umask(before)
    assert [mode_of(place / name) for name in ("a", "a/b", "a/b/c")] == [0o700, 0o700, 0o700]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777, 0o720, 0o702])
def test_a_directory_that_others_can_write_to_is_refused(mode: int, place: Path) -> None:
    place.chmod(mode)
    with pytest.raises(StateError, match="can be written by others"):
        make_private_directory(str(place))


@AS_ROOT
def test_a_directory_of_another_user_is_refused(place: Path) -> None:
    os.chown(place, ORDINARY_USER, -1)
    with pytest.raises(StateError, match="belongs to another user"):
        make_private_directory(str(place))


def test_a_directory_in_a_place_where_everybody_can_exchange_it_is_refused(place: Path) -> None:
    place.chmod(0o777)
    with pytest.raises(StateError, match="every user can exchange"):
        make_private_directory(str(place / "a/b"))


def test_a_directory_below_a_sticky_one_such_as_tmp_is_fine(place: Path) -> None:
    place.chmod(0o1777)
    assert make_private_directory(str(place / "a/b")) == str(place / "a/b")


@AS_ROOT
def test_a_sticky_directory_of_another_user_is_no_shelter(place: Path) -> None:
    place.chmod(0o1777)
    os.chown(place, ORDINARY_USER, -1)
    with pytest.raises(StateError, match="every user can exchange"):
        make_private_directory(str(place / "a"))


@AS_ROOT
def test_a_link_that_another_user_laid_is_not_followed(place: Path, tmp_path: Path) -> None:
    """In /tmp anybody can make `byleave` a link to a directory of ours whose content they chose."""
    (tmp_path / "cloned").mkdir(mode=0o700)
    place.chmod(0o1777)
    (place / "byleave").symlink_to(tmp_path / "cloned")
    os.chown(place / "byleave", ORDINARY_USER, -1, follow_symlinks=False)
    for wanted in ("byleave", "byleave/state"):
        with pytest.raises(StateError, match="link that another user made"):
            make_private_directory(str(place / wanted))


def test_a_link_of_our_own_is_followed_to_a_private_place(place: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (place / "link").symlink_to(tmp_path / "real")
    make_private_directory(str(place / "link/a"))
    assert (tmp_path / "real/a").is_dir()


def test_a_link_of_our_own_into_an_open_place_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open/in").mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o777)
    (place / "link").symlink_to(tmp_path / "open/in")
    with pytest.raises(StateError, match="every user can exchange"):
        make_private_directory(str(place / "link"))


def test_a_loop_of_links_ends(place: Path) -> None:
    (place / "loop").symlink_to("loop")
    with pytest.raises(StateError, match="cannot be created"):
        make_private_directory(str(place / "loop/x"))


def test_a_file_where_a_directory_should_be_is_said_so(place: Path) -> None:
    (place / "file").touch()
    with pytest.raises(StateError, match="cannot be created: Not a directory"):
        make_private_directory(str(place / "file/a"))


# Reading


def test_what_is_not_there_is_none(place: Path) -> None:
    (place / "file").touch(mode=0o600)
    assert [read_private(str(place / name), limit=9) for name in ("missing", "missing/x", "file/x")] == [None] * 3


def shared_file(place: Path) -> None:
    (place / "f").touch()
    (place / "f").chmod(0o620)


def shared_directory(place: Path) -> None:
    (place / "f").touch(mode=0o600)
    place.chmod(0o770)


def link(place: Path) -> None:
    (place / "real").touch(mode=0o600)
    (place / "f").symlink_to("real")


def fifo(place: Path) -> None:
    os.mkfifo(place / "f", 0o600)


def directory(place: Path) -> None:
    (place / "f").mkdir(mode=0o700)


def too_large(place: Path) -> None:
    (place / "f").write_bytes(b"x" * 10)
    (place / "f").chmod(0o600)


ODD: list[tuple[Callable[[Path], None], str]] = [
    (shared_file, "can be written by others"),
    (shared_directory, "can be written by others"),
    (link, "cannot be read"),
    (fifo, "is not a plain file"),
    (directory, "is not a plain file"),
    (too_large, "is larger than"),
]


@pytest.mark.parametrize(("make", "problem"), ODD, ids=lambda value: getattr(value, "__name__", None))
def test_an_odd_file_is_refused(make: Callable[[Path], None], problem: str, place: Path) -> None:
    make(place)
    with pytest.raises(StateError, match=problem):
        read_private(str(place / "f"), limit=9)


def test_a_link_is_followed_where_users_put_some_themselves(place: Path) -> None:
    (place / "real").write_bytes(b"x")
    (place / "real").chmod(0o600)
    (place / "f").symlink_to("real")
    assert read_private(str(place / "f"), limit=9, links=True) == b"x"


@AS_ROOT
def test_a_file_of_another_user_is_refused(place: Path) -> None:
    (place / "f").touch(mode=0o600)
    os.chown(place / "f", ORDINARY_USER, -1)
    with pytest.raises(StateError, match="belongs to another user"):
        read_private(str(place / "f"), limit=9)


def test_a_hash_of_a_file_is_the_hash_of_all_of_it_or_none(place: Path) -> None:
    (place / "f").write_bytes(b"x" * (3 << 20))
    with (place / "f").open("rb") as file:
        assert digest_file(file.fileno(), limit=3 << 20) == digest(b"x" * (3 << 20))
    with (place / "f").open("rb") as file:
        assert digest_file(file.fileno(), limit=(3 << 20) - 1) is None


# Writing


def test_a_written_file_is_the_user_s_alone_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        write_private(str(place / "f"), b"new")
    finally:
        os.umask(before)
    assert (mode_of(place / "f"), (place / "f").read_bytes(), os.listdir(place)) == (0o600, b"new", ["f"])


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("old")
    (place / "f").symlink_to(tmp_path / "victim")
    write_private(str(place / "f"), b"new")
    assert ((tmp_path / "victim").read_text(), (place / "f").is_symlink()) == ("old", False)


def python(code: str, *arguments: str, limit: int | None = None) -> "subprocess.Popen[bytes]":
    """Start `code` in an interpreter of its own; `limit` bounds the size of files it can write."""

    def bound() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit or 0, limit or 0))

    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        preexec_fn=bound if limit is not None else None,  # noqa: PLW1509 -- the tests start no threads
    )


WRITE_LARGE = """
import sys
from byleave.user_files import write_private
try:
    write_private(sys.argv[1], b"new" * 100_000)
except OSError as error:
    print(error.strerror)
"""


def test_a_write_that_does_not_fit_leaves_the_old_content_and_no_litter(place: Path) -> None:
    write_private(str(place / "f"), b"old")
    out, _ = python(WRITE_LARGE, str(place / "f"), limit=1000).communicate(timeout=60)
    assert (out, (place / "f").read_bytes(), os.listdir(place)) == (b"File too large\n", b"old", ["f"])


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with next to no room."""
    where = tmp_path / "tiny"
    where.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", where], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    yield where
    subprocess.run(["umount", where], check=True)


def test_a_full_disk_leaves_the_old_content_and_no_litter(tiny_disk: Path) -> None:
    write_private(str(tiny_disk / "f"), b"old")
    out, _ = python(WRITE_LARGE, str(tiny_disk / "f")).communicate(timeout=60)
    assert (out, (tiny_disk / "f").read_bytes(), os.listdir(tiny_disk)) == (
        b"No space left on device\n",
        b"old",
        ["f"],
    )


def test_a_full_disk_costs_the_memory_a_parse_and_nothing_else(tiny_disk: Path) -> None:
    memory = ParseCache(str(tiny_disk / "cache"), "1")
    assert [memory.recall("f", b"x" * 100_000, len) for _ in range(2)] == [100_000, 100_000]


WRITE_FOR_EVER = """
import sys
from byleave.user_files import write_private
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        write_private(sys.argv[1], letter * 300_000)
"""


def test_a_writer_killed_at_any_point_leaves_one_whole_content(place: Path) -> None:
    whole = {letter * 300_000 for letter in (b"a", b"b")}
    for _ in range(10):
        writer = python(WRITE_FOR_EVER, str(place / "f"))
        assert writer.stdout is not None
        writer.stdout.readline()
        while not (place / "f").exists():
            os.sched_yield()
        writer.kill()
        writer.wait()
        writer.stdout.close()
        assert (place / "f").read_bytes() in whole


COUNT = """
import sys
from byleave.user_files import Lock
for _ in range(200):
    with Lock(sys.argv[1] + "/lock"):
        with open(sys.argv[1] + "/count", "r+") as file:
            number = int(file.read())
            file.seek(0)
            file.write(str(number + 1))
"""


def test_a_lock_keeps_processes_apart(place: Path) -> None:
    (place / "count").write_text("0")
    counters = [python(COUNT, str(place)) for _ in range(3)]
    assert [counter.communicate(timeout=60)[0] for counter in counters] == [b""] * 3
    assert (place / "count").read_text() == "600"


HOLD = """
import signal, sys
from byleave.user_files import Lock
with Lock(sys.argv[1]):
    print("held", flush=True)
    signal.pause()
"""


def test_a_lock_ends_with_its_holder(place: Path) -> None:
    holder = python(HOLD, str(place / "lock"))
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with Lock(str(place / "lock")):
        assert mode_of(place / "lock") == 0o600


# Memory


class Parse:
    """A parse that counts how often it was needed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, content: bytes) -> dict[str, object]:
        self.times += 1
        return {"content": content, "at": ("tools", 1), "list": [1.5, None, True, "é"]}


def times(memory: ParseCache, *contents: bytes, name: str = "/f") -> int:
    parse = Parse()
    for content in contents:
        assert memory.recall(name, content, parse) == Parse()(content)
    return parse.times


def test_the_same_content_is_parsed_once(place: Path) -> None:
    memory = ParseCache(str(place / "cache"), "1")
    assert [times(memory, b"a", b"a", b"a"), times(memory, b"a"), times(memory, b"b", b"b", b"a")] == [1, 0, 2]
    assert [mode_of(place / "cache"), *(mode_of(file) for file in (place / "cache").iterdir())] == [0o700, 0o600]


def test_another_version_parses_for_itself(place: Path) -> None:
    assert [times(ParseCache(str(place), version), b"a") for version in ("1", "2", "2", "1")] == [1, 1, 0, 1]


def test_two_names_that_fall_on_one_file_are_not_taken_for_each_other(place: Path) -> None:
    memory = ParseCache(str(place), "1")
    assert [times(memory, b"a", name=name) for name in ("plumless", "buckeroo", "buckeroo")] == [1, 1, 0]
    assert len(list(place.iterdir())) == 1


def remembered(place: Path) -> Path:
    times(ParseCache(str(place), "1"), b"a")
    (file,) = place.iterdir()
    return file


def test_a_memory_that_was_cut_anywhere_costs_one_parse(place: Path) -> None:
    file = remembered(place)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert times(ParseCache(str(place), "1"), b"a", b"a") == 1


def test_a_memory_with_any_byte_changed_costs_one_parse(place: Path) -> None:
    file = remembered(place)
    whole = file.read_bytes()
    for position in range(len(whole)):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 0x41]) + whole[position + 1 :])
        assert times(ParseCache(str(place), "1"), b"a", b"a") == 1


BOMBS = {
    "a tuple of two billion": b"(\xff\xff\xff\x7f",
    "a list of two billion": b"[\xff\xff\xff\x7f",
    "a string of two billion": b"s\xff\xff\xff\x7f",
    "a thousand million nested lists": b"[\x01\x00\x00\x00" * 100_000,
    "a code object": marshal.dumps(compile("1", "f", "eval")),
    "nothing": b"",
    "text": b"hello",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_memory_that_somebody_else_wrote_is_not_decoded(bomb: bytes, place: Path) -> None:
    file = remembered(place)
    whole = file.read_bytes()
    head = whole[: whole.index(b"\n") + 2]
    for content in (bomb, head + bomb, head + whole[len(head) : len(head) + 4] + bomb):
        file.write_bytes(content)
        assert times(ParseCache(str(place), "1"), b"a", b"a") == 1


@settings(deadline=None)
@given(st.binary(max_size=64))
def test_no_bytes_make_a_memory_lie(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    with TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as base:
        file = remembered(Path(base))
        file.write_bytes(raw)
        assert times(ParseCache(base, "1"), b"a", b"a") == 1


@pytest.mark.parametrize(("make", "_problem"), ODD[:5], ids=lambda value: getattr(value, "__name__", None))
def test_an_odd_memory_costs_a_parse_and_nothing_else(make: Callable[[Path], None], _problem: str, place: Path) -> None:
    name = remembered(place)
    name.unlink()
    make(place)
    (place / "f").rename(name)
    assert times(ParseCache(str(place), "1"), b"a") == 1


def test_a_memory_that_cannot_be_kept_costs_a_parse_each_time(place: Path) -> None:
    (place / "file").touch()
    places = [None, str(place / "file"), str(place / "file/cache"), "/proc/byleave"]
    assert [times(ParseCache(where, "1"), b"a", b"a") for where in places] == [2, 2, 2, 2]


def test_what_cannot_be_remembered_is_parsed_each_time(place: Path) -> None:
    memory = ParseCache(str(place), "1")
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert [memory.recall("f", b"", lambda _content: deep) is deep for _ in range(2)] == [True, True]
    assert [memory.recall("g", b"", lambda _content: place) is place for _ in range(2)] == [True, True]
    assert list(place.iterdir()) == []


RECALL = """
import sys
from byleave.user_files import ParseCache
for number in range(300):
    content = str(number % 7 + int(sys.argv[2])).encode()
    memory = ParseCache(sys.argv[1], "1")
    assert memory.recall("f", content, int) == int(content), content
print("fine")
"""


def test_two_programs_that_remember_at_once_do_not_disturb_each_other(place: Path) -> None:
    starts = [python(RECALL, str(place), str(number)) for number in (0, 3, 5)]
    assert [start.communicate(timeout=60)[0] for start in starts] == [b"fine\n"] * 3
    assert len(list(place.iterdir())) == 1


def test_a_hash_changes_with_every_content() -> None:
    hashes = [digest(bytes([number])) for number in range(256)]
    assert all(one != other for one, other in pairwise(sorted(hashes)))
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
