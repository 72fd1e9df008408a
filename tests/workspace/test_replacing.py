"""A write is whole or not there: with a full disk, a kill at any step, readers beside it, and for any user."""

import errno
import os
import resource
import shutil
import signal
import stat
import struct
import subprocess
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from byleave.core.action import FileAction, MoveAction
from byleave.core.decision import ALLOW, Verdict
from byleave.core.permit import Permit
from byleave.core.redact import SecretFilter
from byleave.errors import RequestError, UnsafePathError
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.methods import MethodService
from byleave.workspace import replacing
from byleave.workspace.file_effects import move_file, write_file
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.resolve import Root
from byleave.workspace.safe_open import Anchor

pytestmark = pytest.mark.sampled(2)

NO_PERSON = 65534
OLD, NEW = b"old" * 5000, b"new!" * 50_000
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root mounts file systems and gives files away")

Kill = Callable[[], None]


@pytest.fixture
def ground() -> Iterator[Path]:
    """A directory that every user can reach, with one file in it."""
    made = Path(os.path.realpath(tempfile.mkdtemp()))
    made.chmod(0o755)
    (made / "file").write_bytes(OLD)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=["nameless", "named", "no /proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the new file is kept until it is whole: what a file system or a sandbox lacks, the next way does without."""
    if request.param == "named":
        monkeypatch.setattr(replacing, "_O_TMPFILE", 0)
    if request.param == "no /proc":
        monkeypatch.setattr(os, "link", refusing(os.link, errno.ENOENT))
    return str(request.param)


def refusing(link: Callable[..., None], number: int) -> Callable[..., None]:
    def refused(source: str, *given: object, **named: object) -> None:
        if source.startswith("/proc/"):
            raise OSError(number, os.strerror(number))
        link(source, *given, **named)

    return refused


def in_a_child(act: Callable[[], None]) -> int:
    """Run `act` in a forked process, fail as it fails, and return the signal that ended it."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
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
    status = os.waitpid(child, 0)[1]
    assert told == ""
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def become_nobody() -> None:
    if IS_ROOT:
        os.setgroups([])
        os.setgid(NO_PERSON)
        os.setuid(NO_PERSON)


def write(ground: Path, data: bytes = NEW, name: str = "file", *, create: bool = False) -> None:
    with Anchor.open(str(ground)) as anchor:
        anchor.write_bytes(name, data, create=create, update=not create)


def names(ground: Path) -> list[str]:
    return sorted(os.listdir(ground))


def test_a_write_is_another_file_in_the_place_of_the_old_one(ground: Path, way: str) -> None:
    before = (ground / "file").stat().st_ino
    with open(ground / "file", "rb") as reader:
        write(ground)
        assert reader.read() == OLD, "who had it open reads the old content to its end"
    assert ((ground / "file").read_bytes(), names(ground)) == (NEW, ["file"])
    assert (ground / "file").stat().st_ino != before


def test_a_new_file_has_its_whole_content_when_it_has_its_name(ground: Path, way: str) -> None:
    umask = os.umask(0o027)
    try:
        write(ground, NEW, "made", create=True)
    finally:
        os.umask(umask)
    assert ((ground / "made").read_bytes(), names(ground)) == (NEW, ["file", "made"])
    assert stat.S_IMODE((ground / "made").stat().st_mode) == 0o640


def test_a_name_that_is_taken_stays_as_it_is(ground: Path, way: str) -> None:
    os.symlink("nowhere", ground / "dangling")
    for name in ("file", "dangling"):
        with pytest.raises(FileExistsError):
            write(ground, NEW, name, create=True)
    assert ((ground / "file").read_bytes(), names(ground)) == (OLD, ["dangling", "file"])


def test_a_name_that_is_taken_at_the_last_moment_stays_as_it_is(
    ground: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "_is_taken", lambda _place: False)
    with pytest.raises(FileExistsError):
        write(ground, NEW, create=True)
    assert ((ground / "file").read_bytes(), names(ground)) == (OLD, ["file"])


@pytest.mark.parametrize("create", [False, True])
def test_without_room_the_old_content_stays(ground: Path, way: str, create: bool) -> None:  # noqa: FBT001
    name = "made" if create else "file"

    def act() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(NEW) // 2, len(NEW) // 2))
        with pytest.raises(OSError, match="too large"):
            write(ground, NEW, name, create=create)

    in_a_child(act)
    assert ((ground / "file").read_bytes(), names(ground)) == (OLD, ["file"])


def test_without_room_a_file_that_is_written_in_place_stays_too(ground: Path) -> None:
    os.link(ground / "file", ground / "twin")

    def act() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(NEW) // 2, len(NEW) // 2))
        with pytest.raises(OSError, match="too large"):
            write(ground)

    in_a_child(act)
    assert ((ground / "file").read_bytes(), names(ground)) == (OLD, ["file", "twin"])


@pytest.fixture
def small_disk(ground: Path) -> Iterator[Path]:
    disk = ground / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "none", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


@needs_root
@pytest.mark.parametrize("links", [1, 2])
def test_a_full_disk_leaves_the_old_content(small_disk: Path, links: int) -> None:
    (small_disk / "file").write_bytes(OLD)
    if links > 1:
        os.link(small_disk / "file", small_disk / "twin")
    before = names(small_disk)
    with pytest.raises(OSError, match="No space") as raised:
        write(small_disk)
    assert raised.value.filename == str(small_disk / "file")
    assert ((small_disk / "file").read_bytes(), names(small_disk)) == (OLD, before)
    write(small_disk, b"fits")
    assert (small_disk / "file").read_bytes() == b"fits"


STEPS = ("open", "fchmod", "write", "link", "close", "rename")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_any_step_leaves_one_whole_content(
    ground: Path, way: str, step: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the child the first call of one step kills the process, before the kernel does it or after."""
    done = getattr(os, step)

    def kill(*given: object, **named: object) -> None:
        if when == "after":
            with suppress(OSError):
                done(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    def act() -> None:
        with Anchor.open(str(ground)) as anchor:
            monkeypatch.setattr(os, step, kill)
            anchor.write_bytes("file", NEW, create=False, update=True)

    ended = in_a_child(act)
    assert ended == (0 if (way, step) == ("named", "link") else signal.SIGKILL)
    assert (ground / "file").read_bytes() in (OLD, NEW)
    litter = [name for name in names(ground) if name != "file"]
    assert all(name.startswith(".byleave-") for name in litter)
    if way == "nameless" and (step, when) not in (
        ("link", "after"),
        ("close", "before"),
        ("close", "after"),
        ("rename", "before"),
    ):
        assert litter == [], "a file without a name is gone with the process"


def test_kills_at_random_moments_leave_one_whole_content(ground: Path) -> None:
    contents = [bytes([65 + number]) * (200_000 + number) for number in range(2)]
    (ground / "file").write_bytes(contents[0])
    for attempt in range(15):
        child = os.fork()
        if child == 0:
            with suppress(BaseException), Anchor.open(str(ground)) as anchor:
                while True:
                    for content in contents:
                        anchor.write_bytes("file", content, create=False, update=True)
            os._exit(1)
        with suppress(TimeoutError):
            signal.sigtimedwait([], 0.005 + attempt / 500)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert (ground / "file").read_bytes() in contents


def test_readers_never_see_a_half(ground: Path) -> None:
    contents = [bytes([65 + number]) * (300_000 + number) for number in range(2)]
    (ground / "file").write_bytes(contents[0])
    child = os.fork()
    if child == 0:
        with suppress(BaseException), Anchor.open(str(ground)) as anchor:
            for number in range(3000):
                anchor.write_bytes("file", contents[number % 2], create=False, update=True)
        os._exit(0)
    try:
        seen = {(ground / "file").read_bytes() for _ in range(300)}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert seen <= set(contents)


def test_the_mode_stays_and_set_id_bits_go(ground: Path, way: str) -> None:
    (ground / "file").chmod(0o6751)
    write(ground)
    assert stat.S_IMODE((ground / "file").stat().st_mode) == 0o751


@needs_root
def test_the_owner_stays(ground: Path, way: str) -> None:
    os.chown(ground / "file", 1234, 4321)
    (ground / "file").chmod(0o6755)
    write(ground)
    found = (ground / "file").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o755)


def access_list(*users: int) -> bytes:
    """Return an access list that gives these users the right to read, as the kernel writes it."""
    entries = [(0x01, 6, 0xFFFFFFFF), *[(0x02, 4, user) for user in users], (0x04, 4, 0xFFFFFFFF)]
    entries += [(0x10, 4, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def set_attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"this file system keeps no {name}: {error.strerror}")


def test_access_lists_and_attributes_stay(ground: Path, way: str) -> None:
    set_attribute(ground / "file", "user.note", b"kept")
    set_attribute(ground / "file", "system.posix_acl_access", access_list(1000))
    write(ground)
    assert os.getxattr(ground / "file", "user.note") == b"kept"
    assert os.getxattr(ground / "file", "system.posix_acl_access") == access_list(1000)


def test_an_access_list_that_the_file_did_not_have_is_not_given_to_it(ground: Path, way: str) -> None:
    (ground / "file").chmod(0o640)
    set_attribute(ground, "system.posix_acl_default", access_list(1000))
    write(ground)
    assert "system.posix_acl_access" not in os.listxattr(ground / "file")
    assert stat.S_IMODE((ground / "file").stat().st_mode) == 0o640


@needs_root
def test_capabilities_of_a_program_do_not_pass_to_what_is_written_over_it(ground: Path, way: str) -> None:
    capability = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)
    set_attribute(ground / "file", "security.capability", capability)
    write(ground)
    assert "security.capability" not in os.listxattr(ground / "file")


def test_the_other_names_of_a_file_keep_its_content(ground: Path) -> None:
    os.link(ground / "file", ground / "twin")
    (ground / "file").chmod(0o4755)
    write(ground, b"short")
    assert ((ground / "twin").read_bytes(), (ground / "twin").stat().st_nlink) == (b"short", 2)
    assert stat.S_IMODE((ground / "twin").stat().st_mode) == 0o755
    write(ground)
    assert (ground / "twin").read_bytes() == NEW


@needs_root
def test_in_a_directory_that_is_not_ours_the_file_itself_is_written(ground: Path, way: str) -> None:
    (ground / "file").chmod(0o666)
    before = (ground / "file").stat().st_ino

    def act() -> None:
        become_nobody()
        write(ground)
        write(ground, b"short")
        with pytest.raises(PermissionError):
            write(ground, b"", "made", create=True)

    in_a_child(act)
    found = (ground / "file").stat()
    assert ((ground / "file").read_bytes(), names(ground)) == (b"short", ["file"])
    assert (found.st_ino, found.st_uid, stat.S_IMODE(found.st_mode)) == (before, 0, 0o666)


@needs_root
@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_file_of_another_owner_keeps_them(ground: Path, way: str, mode: int) -> None:
    ground.chmod(mode)
    (ground / "file").chmod(0o666)

    def act() -> None:
        become_nobody()
        write(ground)

    in_a_child(act)
    assert ((ground / "file").read_bytes(), (ground / "file").stat().st_uid) == (NEW, 0)
    assert names(ground) == ["file"]


@needs_root
def test_a_file_that_may_not_be_written_is_not_replaced_either(ground: Path) -> None:
    """Whoever may write to the directory could: but it is the file's own mode that says no."""
    ground.chmod(0o777)
    (ground / "file").chmod(0o444)

    def act() -> None:
        become_nobody()
        with pytest.raises(PermissionError):
            write(ground)

    in_a_child(act)
    assert ((ground / "file").read_bytes(), names(ground)) == (OLD, ["file"])


@needs_root
def test_a_file_that_is_mounted_by_itself_is_written_in_place(ground: Path) -> None:
    (ground / "source").write_bytes(OLD)
    if subprocess.run(
        ["mount", "--bind", ground / "source", ground / "file"], capture_output=True, check=False
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        write(ground)
        assert (ground / "source").read_bytes() == NEW
    finally:
        subprocess.run(["umount", ground / "file"], check=True)
    assert ((ground / "file").read_bytes(), names(ground)) == (OLD, ["file", "source"])


def test_a_link_that_is_swapped_in_is_replaced_and_never_followed(
    ground: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file becomes a link after it was opened: the new file takes the link's place."""
    (ground / "outside").write_bytes(b"outside")
    alike = replacing.make_alike

    def swap(new: int, old: int) -> None:
        alike(new, old)
        (ground / "file").unlink()
        os.symlink("outside", ground / "file")

    monkeypatch.setattr(replacing, "make_alike", swap)
    write(ground)
    assert (ground / "outside").read_bytes() == b"outside"
    assert not (ground / "file").is_symlink()
    assert (ground / "file").read_bytes() == NEW


def test_a_directory_that_is_swapped_in_stays(ground: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alike = replacing.make_alike

    def swap(new: int, old: int) -> None:
        alike(new, old)
        (ground / "file").unlink()
        (ground / "file").mkdir()

    monkeypatch.setattr(replacing, "make_alike", swap)
    with pytest.raises(IsADirectoryError):
        write(ground)
    assert names(ground) == ["file"]


def test_a_name_that_comes_and_goes_is_given_up(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / "file").unlink()
    monkeypatch.setattr("byleave.workspace.safe_open.put_new", _taken)
    with Anchor.open(str(ground)) as anchor, pytest.raises(UnsafePathError, match="kept changing"):
        anchor.write_bytes("file", NEW, create=True, update=True)


def _taken(*_given: object) -> None:
    raise FileExistsError(errno.EEXIST, "taken")


def allowed(root: Path, action: FileAction | MoveAction) -> Permit:
    find = Root(str(root)).resolve_input
    paths = (action.path,) if isinstance(action, FileAction) else (action.path, action.to)
    return Permit(action, tuple(find(path) for path in paths), Verdict(ALLOW, "", "ok", ()))


def test_a_write_through_a_link_writes_where_it_leads_and_the_link_stays(ground: Path, way: str) -> None:
    os.symlink("file", ground / "link")
    write_file(allowed(ground, FileAction("update", "link")), NEW)
    assert ((ground / "file").read_bytes(), os.readlink(ground / "link")) == (NEW, "file")


@needs_root
def test_a_move_to_a_full_disk_leaves_both_as_they_were(ground: Path, small_disk: Path, way: str) -> None:
    (ground / "file").write_bytes(NEW)
    (small_disk / "target").write_bytes(OLD)
    with pytest.raises(OSError, match="No space"):
        move_file(allowed(ground, MoveAction("file", "disk/target")), replace=True)
    assert ((ground / "file").read_bytes(), (small_disk / "target").read_bytes()) == (NEW, OLD)
    assert names(small_disk) == ["target"]
    (ground / "file").write_bytes(b"fits")
    move_file(allowed(ground, MoveAction("file", "disk/target")), replace=True)
    assert ((small_disk / "target").read_bytes(), names(ground)) == (b"fits", ["disk"])


@needs_root
def test_a_tool_that_writes_to_a_full_disk_is_told_so_and_the_file_stays(small_disk: Path) -> None:
    (small_disk / "file").write_bytes(OLD)
    policy = small_disk.parent / "policy.toml"
    policy.write_text('tools.t = {source = "local", access = {fs = [{path = ".", read = true, write = true}]}}\n')
    workspace = Workspace(str(small_disk))
    with guard_for(workspace, "call", files=[str(policy)], client_approves=None) as guard:
        service = MethodService(guard, "t", ProjectOnDisk(workspace.root), SecretFilter())
        for params in ({"path": "file"}, {"path": "new", "exclusive": True}, {"path": "deep/new"}):
            with pytest.raises(RequestError, match="No space left") as raised:
                service.serve("fs.write", {**params, "content": NEW.decode()}, Deadline())
            assert raised.value.number == -32603
    assert ((small_disk / "file").read_bytes(), names(small_disk)) == (OLD, ["deep", "file"])
