"""What `workspace.safe_open` promises while nobody races it; `test_safe_open_race` adds the racing."""

import fcntl
import os
import platform
import signal
import socket
import stat
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from byleave.errors import UnsafePathError
from byleave.workspace.openat import FirstThatWorks, openat2, walk, works
from byleave.workspace.safe_open import Anchor

if TYPE_CHECKING:
    from byleave.workspace.openat import Opener

LINUX = sys.platform == "linux"
needs_linux = pytest.mark.skipif(not LINUX, reason="leases, seccomp and /proc are Linux")
ODD_NAME = os.fsdecode(b"caf\xe9 \xff\n")
NO_PERSON = 65534


class Ground(NamedTuple):
    """A workspace, what holds it, and a twin of it outside that must never be touched."""

    root: str
    outside: str
    anchor: Anchor

    def inside(self, relative: str) -> str:
        return os.path.join(self.root, relative)


def plant(top: str, content: bytes) -> None:
    os.makedirs(os.path.join(top, "src", "inner"))
    for relative in ("note.txt", "src/file.txt", "src/inner/file.txt"):
        put(os.path.join(top, relative), content)


def put(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def content_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def tree(top: str) -> dict[str, bytes | None]:
    """Everything below `top`: the content of files, None for the rest."""
    found: dict[str, bytes | None] = {}
    for above, directories, files in os.walk(top):
        for name in directories + files:
            path = os.path.join(above, name)
            regular = stat.S_ISREG(os.lstat(path).st_mode)
            found[os.path.relpath(path, top)] = content_of(path) if regular else None
    return found


@pytest.fixture(autouse=True)
def _leaves_no_descriptor_open() -> Iterator[None]:
    if not LINUX:
        yield
        return
    before = os.listdir("/proc/self/fd")
    yield
    assert os.listdir("/proc/self/fd") == before


@pytest.fixture(autouse=True)
def _never_hangs() -> Iterator[None]:
    def complain(_signal: int, _frame: object) -> None:
        raise TimeoutError("it waits for something that never comes")

    before = signal.signal(signal.SIGALRM, complain)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[openat2, walk], ids=["openat2", "walk"])
def opener(request: pytest.FixtureRequest) -> "Opener":
    if not works(request.param):
        pytest.skip("this kernel has no openat2")
    chosen: Opener = request.param
    return chosen


@pytest.fixture
def ground(tmp_path: object, opener: "Opener") -> Iterator[Ground]:
    top = os.path.realpath(str(tmp_path))
    root, outside = os.path.join(top, "root"), os.path.join(top, "outside")
    plant(root, b"inside")
    plant(outside, b"OUTSIDE")
    with Anchor.open(root, opener=opener) as anchor:
        untouched = tree(outside)
        yield Ground(root, outside, anchor)
        assert tree(outside) == untouched


def open_and_close(anchor: Anchor, relative: str, flags: int) -> None:
    os.close(anchor.open_file(relative, flags))


ACTS: dict[str, Callable[[Anchor, str], object]] = {
    "open_file to read": lambda anchor, path: open_and_close(anchor, path, os.O_RDONLY),
    "open_file to write": lambda anchor, path: open_and_close(anchor, path, os.O_WRONLY),
    "open_file to create": lambda anchor, path: open_and_close(anchor, path, os.O_RDWR | os.O_CREAT),
    "open_file to empty": lambda anchor, path: open_and_close(anchor, path, os.O_WRONLY | os.O_TRUNC),
    "read_bytes": lambda anchor, path: anchor.read_bytes(path, limit=100),
    "write_bytes, update": lambda anchor, path: anchor.write_bytes(path, b"!", create=False, update=True),
    "write_bytes, either": lambda anchor, path: anchor.write_bytes(path, b"!", create=True, update=True),
    "open_directory": lambda anchor, path: os.close(anchor.open_directory(path)),
    "list_names": lambda anchor, path: anchor.list_names(path),
    "stat": lambda anchor, path: anchor.stat(path),
    "make_directories": lambda anchor, path: anchor.make_directories(path),
}
ACTS_ON_NAMES: dict[str, Callable[[Anchor, str], object]] = {
    "write_bytes, create": lambda anchor, path: anchor.write_bytes(path, b"!", create=True, update=False),
    "unlink": lambda anchor, path: anchor.unlink(path),
    "remove_directory": lambda anchor, path: anchor.remove_directory(path),
    "rename from": lambda anchor, path: anchor.rename(path, anchor, "elsewhere", replace=True),
    "rename to": lambda anchor, path: anchor.rename("note.txt", anchor, path, replace=True),
    "rename to a free name": lambda anchor, path: anchor.rename("note.txt", anchor, path, replace=False),
}
ALL_ACTS = ACTS | ACTS_ON_NAMES


def test_reads_and_writes_what_is_there(ground: Ground) -> None:
    anchor = ground.anchor
    assert anchor.read_bytes("src/inner/file.txt", limit=6) == b"inside"
    anchor.write_bytes("src/inner/file.txt", b"new", create=False, update=True)
    anchor.write_bytes("src/made.txt", b"made", create=True, update=False)
    anchor.write_bytes("src/either.txt", b"first, and longer", create=True, update=True)
    anchor.write_bytes("src/either.txt", b"then", create=True, update=True)
    assert tree(ground.inside("src")) == {
        "inner": None,
        "inner/file.txt": b"new",
        "file.txt": b"inside",
        "made.txt": b"made",
        "either.txt": b"then",
    }


def test_lists_makes_moves_and_removes(ground: Ground) -> None:
    anchor = ground.anchor
    assert anchor.list_names(".") == ["note.txt", "src"]
    assert anchor.list_names("src/inner") == ["file.txt"]
    anchor.make_directories("a/b/c")
    anchor.make_directories("a/b/c")
    anchor.rename("src/inner", anchor, "a/b/c/inner", replace=False)
    anchor.rename("note.txt", anchor, "a/b/c/inner/file.txt", replace=True)
    anchor.unlink("src/file.txt")
    anchor.remove_directory("src")
    expected = {"a": None, "a/b": None, "a/b/c": None, "a/b/c/inner": None, "a/b/c/inner/file.txt": b"inside"}
    assert tree(ground.root) == expected


def test_moves_between_anchors(ground: Ground, opener: "Opener") -> None:
    os.mkdir(ground.inside("mount"))
    with Anchor.open(ground.inside("mount"), opener=opener) as mount:
        ground.anchor.rename("src", mount, "sources", replace=False)
        assert mount.read_bytes("sources/file.txt", limit=10) == b"inside"
    assert sorted(os.listdir(ground.root)) == ["mount", "note.txt"]


def test_stat_and_identity_are_the_kernels(ground: Ground) -> None:
    for relative in (".", "note.txt", "src"):
        assert os.path.samestat(ground.anchor.stat(relative), os.stat(ground.inside(relative)))
    found = os.stat(ground.root)
    assert ground.anchor.identity == (found.st_dev, found.st_ino)


def test_the_root_of_everything_can_be_an_anchor(opener: "Opener") -> None:
    with Anchor.open("/", opener=opener) as anchor:
        assert set(anchor.list_names(".")) == set(os.listdir("/"))


def test_names_that_are_not_utf_8_work(ground: Ground, opener: "Opener") -> None:
    anchor = ground.anchor
    anchor.make_directories(f"{ODD_NAME}/{ODD_NAME}")
    anchor.write_bytes(f"{ODD_NAME}/file", b"odd", create=True, update=False)
    anchor.rename(f"{ODD_NAME}/file", anchor, f"{ODD_NAME}/{ODD_NAME}/{ODD_NAME}", replace=False)
    assert anchor.list_names(ODD_NAME) == [ODD_NAME]
    assert os.listdir(os.fsencode(ground.inside(f"{ODD_NAME}/{ODD_NAME}"))) == [os.fsencode(ODD_NAME)]
    with Anchor.open(ground.inside(ODD_NAME), opener=opener) as odd:
        assert odd.read_bytes(f"{ODD_NAME}/{ODD_NAME}", limit=3) == b"odd"
    with pytest.raises(UnsafePathError, match=r"\\xe9 \\xff\\n"):
        anchor.read_bytes(f"{ODD_NAME}/{ODD_NAME}/{ODD_NAME}", limit=2)


def test_hard_links_are_files_like_any_other(ground: Ground) -> None:
    os.link(ground.inside("note.txt"), ground.inside("twin.txt"))
    ground.anchor.write_bytes("twin.txt", b"both", create=False, update=True)
    assert content_of(ground.inside("note.txt")) == b"both"


def test_large_files_are_read_whole_and_no_further_than_the_limit(ground: Ground) -> None:
    large = os.urandom(3_000_001)
    ground.anchor.write_bytes("large", large, create=True, update=False)
    assert ground.anchor.read_bytes("large", limit=len(large)) == large
    with pytest.raises(UnsafePathError, match="longer than 3000000 bytes"):
        ground.anchor.read_bytes("large", limit=len(large) - 1)


def test_a_new_file_gets_its_mode_less_the_umask(ground: Ground) -> None:
    umask = os.umask(0o027)
    try:
        ground.anchor.write_bytes("new", b"", create=True, update=False)
        os.close(ground.anchor.open_file("private", os.O_WRONLY | os.O_CREAT, 0o600))
        ground.anchor.make_directories("made")
    finally:
        os.umask(umask)
    modes = [stat.S_IMODE(ground.anchor.stat(name).st_mode) for name in ("new", "private", "made")]
    assert modes == [0o640, 0o600, 0o750]


def test_descriptors_are_not_inherited(ground: Ground) -> None:
    for descriptor in (ground.anchor.open_file("note.txt", os.O_RDONLY), ground.anchor.open_directory("src")):
        inherited = os.get_inheritable(descriptor)
        os.close(descriptor)
        assert not inherited


@pytest.mark.parametrize(
    ("act", "relative", "error"),
    [
        ("read_bytes", "missing", FileNotFoundError),
        ("read_bytes", "missing/below", FileNotFoundError),
        ("read_bytes", "src", IsADirectoryError),
        ("read_bytes", "note.txt/below", NotADirectoryError),
        ("write_bytes, update", "missing", FileNotFoundError),
        ("write_bytes, update", "src", IsADirectoryError),
        ("write_bytes, either", "src", IsADirectoryError),
        ("write_bytes, either", "missing/below", FileNotFoundError),
        ("write_bytes, create", "note.txt", FileExistsError),
        ("write_bytes, create", "src", FileExistsError),
        ("list_names", "note.txt", NotADirectoryError),
        ("list_names", "missing", FileNotFoundError),
        ("stat", "missing", FileNotFoundError),
        ("make_directories", "note.txt", NotADirectoryError),
        ("make_directories", "note.txt/below", NotADirectoryError),
        ("unlink", "missing", FileNotFoundError),
        ("unlink", "src", IsADirectoryError),
        ("remove_directory", "note.txt", NotADirectoryError),
        ("rename from", "missing", FileNotFoundError),
        ("rename to", "missing/below", FileNotFoundError),
        ("rename to a free name", "src/file.txt", FileExistsError),
        ("rename to a free name", "src", FileExistsError),
        ("read_bytes", "x" * 300, OSError),
    ],
)
def test_an_ordinary_condition_keeps_its_own_error(
    ground: Ground, act: str, relative: str, error: type[OSError]
) -> None:
    before = tree(ground.root)
    with pytest.raises(error) as raised:
        ALL_ACTS[act](ground.anchor, relative)
    told = (raised.value.filename, raised.value.filename2)
    # Where the directory above is what is wrong, that is what is named.
    assert {ground.inside(relative), ground.inside(os.path.dirname(relative))} & set(told)
    assert tree(ground.root) == before


NOT_CANONICAL = (
    *("", "/", "/etc/passwd", "..", "../outside/note.txt", "src/..", "src/../note.txt"),
    *("src//file.txt", "src/", "./note.txt", "src/.", "note.txt\0", "a\0b", "\ud800"),
)


def test_the_kernel_itself_refuses_the_way_out(ground: Ground) -> None:
    if not works(openat2):
        pytest.skip("this kernel has no openat2")
    directory = os.open(ground.root, os.O_RDONLY)
    try:
        for way_out in ("../outside/note.txt", "src/../../outside/note.txt", f"{ground.outside}/note.txt"):
            with pytest.raises(OSError, match="cross-device"):
                openat2(directory, way_out, os.O_RDONLY)
    finally:
        os.close(directory)


@pytest.mark.parametrize("act", ALL_ACTS)
@pytest.mark.parametrize("relative", NOT_CANONICAL)
def test_a_path_that_is_not_canonical_is_refused(ground: Ground, act: str, relative: str) -> None:
    before = tree(ground.root)
    with pytest.raises(UnsafePathError) as raised:
        ALL_ACTS[act](ground.anchor, relative)
    assert raised.value.hint
    assert tree(ground.root) == before


def test_an_anchor_is_not_moved_or_removed_through_itself(ground: Ground) -> None:
    for act in ("unlink", "remove_directory", "rename from", "rename to", "rename to a free name"):
        with pytest.raises(UnsafePathError, match="through itself"):
            ACTS_ON_NAMES[act](ground.anchor, ".")


def test_flags_that_mean_something_else_are_refused(ground: Ground) -> None:
    for flags in (os.O_DIRECTORY, getattr(os, "O_PATH", os.O_DIRECTORY), getattr(os, "O_TMPFILE", 1 << 30)):
        with pytest.raises(ValueError, match="flags"):
            ground.anchor.open_file("note.txt", flags | os.O_RDWR)
    with pytest.raises(ValueError, match="to write is"):
        ground.anchor.write_bytes("note.txt", b"", create=False, update=False)


LINKS = {
    "out of the anchor": "{outside}/src",
    "out of the anchor, relatively": "../outside/src",
    "to a place inside": "src",
    "to a place inside, absolutely": "{root}/src",
    "to itself": "link",
    "to a magic link": "/proc/self/cwd",
    "to nothing": "{outside}/missing",
}


@pytest.mark.parametrize("act", ALL_ACTS)
@pytest.mark.parametrize("leads", LINKS)
def test_a_link_on_the_way_is_refused(ground: Ground, act: str, leads: str) -> None:
    target = LINKS[leads].format(root=ground.root, outside=ground.outside)
    os.symlink(target, ground.inside("link"))
    before = tree(ground.root)
    for relative in ("link/file.txt", "link/inner/file.txt"):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            ALL_ACTS[act](ground.anchor, relative)
    assert tree(ground.root) == before


LAST_LINKS = (
    *("{outside}/note.txt", "../outside/src", "note.txt", "src", "link", "{outside}/missing", "missing"),
    *("/dev/null", "/proc/self/exe"),
)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("target", LAST_LINKS)
def test_a_link_at_the_end_is_refused(ground: Ground, act: str, target: str) -> None:
    os.symlink(target.format(outside=ground.outside), ground.inside("link"))
    before = tree(ground.root)
    with pytest.raises(UnsafePathError, match="symbolic link"):
        ACTS[act](ground.anchor, "link")
    assert tree(ground.root) == before


def test_what_acts_on_a_name_acts_on_the_link_itself(ground: Ground) -> None:
    anchor = ground.anchor
    for name in ("one", "two", "three", "four"):
        os.symlink(f"{ground.outside}/src", ground.inside(name))
    os.symlink(f"{ground.outside}/missing", ground.inside("dangling"))
    with pytest.raises(FileExistsError):
        anchor.write_bytes("dangling", b"!", create=True, update=False)
    with pytest.raises(FileExistsError):
        anchor.rename("note.txt", anchor, "one", replace=False)
    with pytest.raises(NotADirectoryError):
        anchor.remove_directory("one")
    anchor.unlink("one")
    anchor.rename("two", anchor, "moved", replace=False)
    anchor.rename("note.txt", anchor, "three", replace=True)
    assert sorted(os.listdir(ground.root)) == ["dangling", "four", "moved", "src", "three"]
    assert os.path.islink(ground.inside("moved"))
    assert content_of(ground.inside("three")) == b"inside"


@needs_linux
def test_magic_links_are_refused_where_they_live(ground: Ground, opener: "Opener") -> None:
    with open(os.path.join(ground.outside, "note.txt"), "rb+") as secret:
        number = secret.fileno()
        os.symlink(f"/proc/self/fd/{number}", ground.inside("link"))
        with pytest.raises(UnsafePathError, match="symbolic link"):
            ground.anchor.read_bytes("link", limit=100)
        with Anchor.open(f"/proc/{os.getpid()}", opener=opener) as process:
            for relative in (f"fd/{number}", "root/etc/passwd", "cwd/pyproject.toml", "exe"):
                with pytest.raises(UnsafePathError, match="symbolic link"):
                    process.read_bytes(relative, limit=1 << 20)
        with pytest.raises(UnsafePathError, match="symbolic link"):
            Anchor.open(f"/proc/{os.getpid()}/fd/{number}", opener=opener)


def make_fifo(path: str) -> None:
    os.mkfifo(path)


def make_socket(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(os.path.dirname(path))  # the name of a socket may have 107 bytes (unix(7))
        server.bind(os.path.basename(path))
        os.chdir(here)


def make_device(path: str) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # /dev/null
        os.close(os.open(path, os.O_RDWR))
    except PermissionError:
        pytest.skip("device nodes cannot be made or opened here")


SPECIAL = {"FIFO": make_fifo, "socket": make_socket, "device": make_device}
FILE_ACTS = [act for act in ACTS if act.startswith(("open_file", "read", "write"))]


@pytest.mark.parametrize("act", FILE_ACTS)
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_ordinary_file_is_never_opened(ground: Ground, act: str, kind: str) -> None:
    SPECIAL[kind](ground.inside("special"))
    with pytest.raises(UnsafePathError, match="no ordinary file"):
        ACTS[act](ground.anchor, "special")


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_ordinary_file_can_be_looked_at_and_removed(ground: Ground, opener: "Opener", kind: str) -> None:
    SPECIAL[kind](ground.inside("special"))
    assert not stat.S_ISREG(ground.anchor.stat("special").st_mode)
    with pytest.raises(UnsafePathError, match="no ordinary file"):
        Anchor.open(ground.inside("special"), opener=opener)
    ground.anchor.unlink("special")
    assert ground.anchor.list_names(".") == ["note.txt", "src"]


@pytest.mark.parametrize("act", FILE_ACTS)
def test_a_fifo_with_somebody_at_the_other_end_is_refused_as_well(ground: Ground, act: str) -> None:
    make_fifo(ground.inside("special"))
    other_end = os.open(ground.inside("special"), os.O_RDWR)
    try:
        with pytest.raises(UnsafePathError, match="no ordinary file"):
            ACTS[act](ground.anchor, "special")
    finally:
        os.close(other_end)


@needs_linux
def test_a_file_under_somebodys_lease_is_refused_rather_than_waited_for(ground: Ground) -> None:
    ignored = signal.signal(signal.SIGIO, signal.SIG_IGN)
    holder = os.open(ground.inside("note.txt"), os.O_RDWR)
    try:
        try:
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            pytest.skip("this file system has no leases")
        with pytest.raises(UnsafePathError, match="kept changing"):
            ground.anchor.read_bytes("note.txt", limit=100)
    finally:
        os.close(holder)
        signal.signal(signal.SIGIO, ignored)


def test_an_anchor_stays_with_its_directory_when_the_name_is_swapped(ground: Ground) -> None:
    os.rename(ground.root, f"{ground.root}.moved")
    os.symlink(ground.outside, ground.root)
    assert ground.anchor.read_bytes("note.txt", limit=100) == b"inside"
    ground.anchor.write_bytes("src/new", b"new", create=True, update=False)
    assert content_of(f"{ground.root}.moved/src/new") == b"new"


@pytest.mark.parametrize("swapped", ["src/inner", "src", "."])
def test_an_anchor_is_not_opened_through_a_link(ground: Ground, opener: "Opener", swapped: str) -> None:
    path = os.path.normpath(ground.inside(swapped))
    os.rename(path, f"{path}.moved")
    os.symlink(os.path.normpath(os.path.join(ground.outside, swapped)), path)
    for judged in ("src/inner", "src/inner/file.txt"):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            Anchor.open(ground.inside(judged), opener=opener)


def test_a_link_to_a_file_is_no_anchor(ground: Ground, opener: "Opener") -> None:
    os.symlink("note.txt", ground.inside("link"))
    with pytest.raises(UnsafePathError, match="symbolic link"):
        Anchor.open(ground.inside("link"), opener=opener)


@pytest.mark.parametrize("path", ["", "src", "/tmp/../etc", "/tmp//x", "/tmp/", "//", "/.", "/a\0b"])
def test_an_anchor_needs_a_canonical_absolute_path(opener: "Opener", path: str) -> None:
    with pytest.raises(UnsafePathError):
        Anchor.open(path, opener=opener)


def test_an_anchor_that_is_missing_is_an_ordinary_condition(ground: Ground, opener: "Opener") -> None:
    for name, error in {"missing": FileNotFoundError, "note.txt/below": NotADirectoryError}.items():
        with pytest.raises(error) as raised:
            Anchor.open(ground.inside(name), opener=opener)
        assert raised.value.filename == ground.inside(name)


def test_a_closed_anchor_reaches_nothing(ground: Ground, opener: "Opener") -> None:
    for name in ("src", "note.txt"):
        anchor = Anchor.open(ground.inside(name), opener=opener)
        anchor.close()
        anchor.close()
        for act in ALL_ACTS.values():
            with pytest.raises((OSError, UnsafePathError)):
                act(anchor, ".")
            with pytest.raises(OSError, match="Bad file descriptor"):
                act(anchor, "file.txt")


@pytest.fixture
def single(ground: Ground, opener: "Opener") -> Iterator[Anchor]:
    with Anchor.open(ground.inside("note.txt"), opener=opener) as anchor:
        yield anchor


def test_a_single_file_is_read_and_written_as_itself(ground: Ground, single: Anchor) -> None:
    assert single.read_bytes(".", limit=100) == b"inside"
    single.write_bytes(".", b"new", create=False, update=True)
    single.write_bytes(".", b"newer", create=True, update=True)
    assert content_of(ground.inside("note.txt")) == b"newer"
    assert os.path.samestat(single.stat("."), os.stat(ground.inside("note.txt")))
    with pytest.raises(FileExistsError):
        single.write_bytes(".", b"!", create=True, update=False)


def test_a_single_file_has_nothing_below_or_beside_it(ground: Ground, single: Anchor) -> None:
    for act in ALL_ACTS.values():
        with pytest.raises(NotADirectoryError):
            act(single, "src")
    for name in ("open_directory", "list_names", "make_directories"):
        with pytest.raises(NotADirectoryError):
            ACTS[name](single, ".")
    for name in ("unlink", "remove_directory", "rename from"):
        with pytest.raises(UnsafePathError, match="through itself"):
            ACTS_ON_NAMES[name](single, ".")
    assert ground.anchor.list_names(".") == ["note.txt", "src"]


REPLACEMENTS: dict[str, Callable[[str, str], None]] = {
    "another file": lambda path, _outside: put(path, b"another"),
    "a directory": lambda path, _outside: os.mkdir(path),
    "a FIFO": lambda path, _outside: os.mkfifo(path),
    "a link to another file": lambda path, outside: os.symlink(f"{outside}/note.txt", path),
    "a dangling link": lambda path, outside: os.symlink(f"{outside}/missing", path),
    "a hard link to another file": lambda path, outside: os.link(f"{outside}/note.txt", path),
}


@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_a_single_file_that_was_replaced_is_refused(ground: Ground, single: Anchor, kind: str) -> None:
    os.unlink(ground.inside("note.txt"))
    REPLACEMENTS[kind](ground.inside("note.txt"), ground.outside)
    before = tree(ground.root)
    for name, act in ACTS.items():
        if name != "stat":  # tells of the file that is held
            with pytest.raises((UnsafePathError, IsADirectoryError, NotADirectoryError)):
                act(single, ".")
    assert tree(ground.root) == before


def test_a_single_file_that_is_gone_is_not_made_anew(ground: Ground, single: Anchor) -> None:
    os.unlink(ground.inside("note.txt"))
    for act in FILE_ACTS:
        with pytest.raises(FileNotFoundError):
            ACTS[act](single, ".")
    assert ground.anchor.list_names(".") == ["src"]


class Counting:
    """An opener that answers with an error of its own, except for what it lets pass to `walk`."""

    def __init__(self, number: int, *, passes: tuple[str, ...] = ()) -> None:
        self.number = number
        self.passes = passes
        self.asked = 0

    def __call__(self, directory: int, relative: str, flags: int, mode: int = 0, /) -> int:
        self.asked += 1
        if relative in self.passes:
            return walk(directory, relative, flags, mode)
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [38, 1], ids=["ENOSYS", "EPERM"])
def test_a_missing_system_call_is_given_up_for_good(ground: Ground, number: int) -> None:
    missing = Counting(number)
    with Anchor.open(ground.root, opener=FirstThatWorks(missing, walk)) as anchor:
        asked = missing.asked
        assert anchor.read_bytes("note.txt", limit=100) == b"inside"
        assert (asked, missing.asked) == (2, 2)


def test_a_file_that_answers_eperm_does_not_end_the_use_of_the_system_call(ground: Ground) -> None:
    immutable = Counting(1, passes=(".", ground.root[1:]))
    with Anchor.open(ground.root, opener=FirstThatWorks(immutable, walk)) as anchor:
        for _ in range(2):
            with pytest.raises(PermissionError):
                anchor.read_bytes("note.txt", limit=100)


def in_a_child(act: Callable[[], None]) -> None:
    """Run `act` in a forked process, which it may change for good, and fail as it fails."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside the threads of xdist
        child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001 -- all of it is told to the parent
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as report:
        told = report.read().decode()
    os.waitpid(child, 0)
    assert told == ""


@pytest.fixture
def commons(opener: "Opener") -> Iterator[str]:
    """A directory that an ordinary user can reach, which pytest's own are not."""
    import shutil
    import tempfile

    top = os.path.realpath(tempfile.mkdtemp())
    plant(top, b"inside")
    put(os.path.join(top, "locked.txt"), b"locked")
    os.mkdir(os.path.join(top, "own"))
    for relative, mode in {
        ".": 0o755,
        "locked.txt": 0,
        "own": 0o777,
        "src": 0o711,
        "src/inner": 0o404,
    }.items():
        os.chmod(os.path.join(top, relative), mode)
    works(opener)  # loads ctypes while it can be read
    yield top
    os.chmod(os.path.join(top, "src", "inner"), 0o700)
    shutil.rmtree(top)


def become_ordinary() -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NO_PERSON)
        os.setuid(NO_PERSON)


def test_an_ordinary_user_gets_ordinary_answers(commons: str, opener: "Opener") -> None:
    def act() -> None:
        become_ordinary()
        with Anchor.open(commons, opener=opener) as anchor:
            assert anchor.read_bytes("src/file.txt", limit=100) == b"inside"
            with pytest.raises(PermissionError):
                anchor.read_bytes("locked.txt", limit=100)
            anchor.make_directories("own/deep/er")
            anchor.write_bytes("own/deep/er/file", b"mine", create=True, update=False)
            anchor.rename("own/deep/er/file", anchor, "own/file", replace=False)
            assert anchor.read_bytes("own/file", limit=100) == b"mine"
            os.symlink("/etc/passwd", f"{commons}/own/link")
            with pytest.raises(UnsafePathError, match="symbolic link"):
                anchor.read_bytes("own/link", limit=1 << 20)
            anchor.unlink("own/file")
            anchor.remove_directory("own/deep/er")

    in_a_child(act)
    assert sorted(os.listdir(os.path.join(commons, "own"))) == ["deep", "link"]


def test_passing_a_directory_and_listing_it_are_two_rights(commons: str, opener: "Opener") -> None:
    def act() -> None:
        become_ordinary()
        with Anchor.open(commons, opener=opener) as anchor:
            assert anchor.read_bytes("src/file.txt", limit=100) == b"inside"
            if os.stat(commons).st_uid != os.getuid():
                with pytest.raises(PermissionError):
                    anchor.list_names("src")
            assert anchor.list_names("src/inner") == ["file.txt"]
            with pytest.raises(PermissionError):
                anchor.read_bytes("src/inner/file.txt", limit=100)

    in_a_child(act)


RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}  # asm/unistd.h


def forbid_by_seccomp(answer: int, *calls: int) -> None:
    """Let the kernel answer these system calls with an error from now on."""
    import ctypes
    import struct

    load, jump_if_equal, answer_with = 0x20, 0x15, 0x06  # linux/bpf_common.h: LD|W|ABS, JMP|JEQ|K, RET|K
    allow, give_errno = 0x7FFF0000, 0x00050000  # linux/seccomp.h
    program = [(load, 0, 0, 0)]
    for call in calls:
        program += [(jump_if_equal, 0, 1, call), (answer_with, 0, 0, give_errno | answer)]
    program.append((answer_with, 0, 0, allow))
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, header, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


@needs_linux
@pytest.mark.parametrize("answer", [38, 1], ids=["ENOSYS", "EPERM"])
def test_under_a_seccomp_filter_the_walk_takes_over(ground: Ground, answer: int) -> None:
    def act() -> None:
        forbid_by_seccomp(answer, openat2.NUMBER)
        assert not works(openat2)
        with Anchor.open(ground.root) as anchor:
            assert anchor.read_bytes("src/inner/file.txt", limit=100) == b"inside"
            os.symlink(ground.outside, ground.inside("link"))
            with pytest.raises(UnsafePathError, match="symbolic link"):
                anchor.read_bytes("link/note.txt", limit=100)

    in_a_child(act)


@needs_linux
def test_without_renameat2_a_name_that_is_taken_stays_untouched(ground: Ground) -> None:
    if platform.machine() not in RENAMEAT2:
        pytest.skip("the number of renameat2 is not known for this machine")
    os.symlink(ground.outside, ground.inside("link"))

    def act() -> None:
        forbid_by_seccomp(38, RENAMEAT2[platform.machine()])
        anchor = ground.anchor
        for taken in ("src/file.txt", "src/inner", "link"):
            for name in ("note.txt", "src"):
                with pytest.raises(FileExistsError):
                    anchor.rename(name, anchor, taken, replace=False)
        with pytest.raises(OSError, match="Invalid argument"):
            anchor.rename("src", anchor, "src/below", replace=False)
        with pytest.raises(FileNotFoundError):
            anchor.rename("missing", anchor, "free", replace=False)
        for name in ("note.txt", "src", "link"):
            anchor.rename(name, anchor, f"{name}.moved", replace=False)

    in_a_child(act)
    assert ground.anchor.list_names(".") == ["link.moved", "note.txt.moved", "src.moved"]
    assert tree(ground.inside("src.moved")) == {
        "inner": None,
        "inner/file.txt": b"inside",
        "file.txt": b"inside",
    }
    assert os.path.islink(ground.inside("link.moved"))


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no second file system to move to")
def test_a_move_to_another_file_system_is_an_ordinary_condition(ground: Ground, opener: "Opener") -> None:
    if os.stat("/dev/shm").st_dev == os.stat(ground.root).st_dev:
        pytest.skip("/dev/shm is on the same file system")
    other = Anchor.open(os.path.realpath("/dev/shm"), opener=opener)
    with other, pytest.raises(OSError, match="cross-device"):
        ground.anchor.rename("note.txt", other, f"byleave-{os.getpid()}", replace=False)
