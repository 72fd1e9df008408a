"""A search for the system's private files is used again only as long as nothing has changed where it looked."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from byleave.sandbox.plan import directory_watch, private_files
from byleave.sandbox.plan.directory_watch import DirectoryWatch, mounts_below, read_mounts
from byleave.sandbox.plan.private_files import (
    forget_search,
    keep_search,
    system_secrets,
    take_missed_search,
    use_search_once,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes among the system's files")


def _link_elsewhere(place: Path) -> None:
    """Close a file by the name that it has elsewhere."""
    os.chmod(place.parent / f"{place.name}-elsewhere", 0o600)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new private file": lambda place: (place / "key").touch(mode=0o600),
    "a file that is closed": lambda place: (place / "plain").chmod(0o640),
    "a directory that is closed": lambda place: (place / "deep").chmod(0o700),
    "a private file at a depth": lambda place: (place / "deep" / "key").touch(mode=0o600),
    "a private file that moves in": lambda place: (place.parent / f"{place.name}-key").rename(place / "key"),
    "a directory that moves in": lambda place: (place.parent / f"{place.name}-moved").rename(place / "moved"),
    "a hard link to a private file": lambda place: os.link(place.parent / f"{place.name}-key", place / "key"),
    "a file that is closed by its other name": _link_elsewhere,
    "a private file in a directory that is exchanged": lambda place: (
        (place / "deep").rename(place / "old"),
        (place.parent / f"{place.name}-moved").rename(place / "deep"),
    ),
}


@pytest.fixture
def place(system_files_alone: None) -> Iterator[Path]:
    """A directory in /usr/local/share, and beside it, where the search does not look, what may come into it."""
    with tempfile.TemporaryDirectory(prefix="byleave-test-", dir="/usr/local/share") as made:
        base = Path(made)
        base.chmod(0o755)
        place = base / "searched"
        (place / "deep").mkdir(parents=True)
        (place / "plain").write_text("content")
        (base / "searched-key").touch(mode=0o600)
        (base / "searched-moved").mkdir()
        (base / "searched-moved" / "key").touch(mode=0o600)
        (place / "double").write_text("content")
        os.link(place / "double", base / "searched-elsewhere")
        yield place


@pytest.fixture
def searched(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have a search of that directory alone kept."""
    monkeypatch.setattr(private_files, "_WHOLE", (str(place),))
    monkeypatch.setattr(private_files, "_ABOVE", (str(place.parent),))
    monkeypatch.setattr(private_files, "_PARTLY", str(place))
    monkeypatch.setattr(private_files, "_FRESH", -1.0)
    monkeypatch.setattr(private_files, "_kept", private_files._KeptSearch())  # noqa: SLF001 -- as in a new process
    if not keep_search():
        pytest.skip("the kernel does not report all changes on this file system")
    yield place
    forget_search()


@as_root
def test_a_search_is_used_again_where_nothing_has_changed(searched: Path) -> None:
    assert system_secrets(0) == ()
    assert not take_missed_search()
    (searched / "plain").write_text("other content")
    assert system_secrets(0) == ()
    assert not take_missed_search()


@as_root
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_private_file_that_has_come_is_covered_by_the_next_run(change: str, searched: Path) -> None:
    CHANGES[change](searched)
    found = {each.path for each in system_secrets(0)}
    assert take_missed_search()
    assert found == {each.path for each in private_files._search(0)}  # noqa: SLF001 -- without anything kept
    assert found != set()


@as_root
def test_a_forked_process_sees_a_change_that_came_after_the_fork(searched: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(reading, 1)
            os._exit(len({each.path for each in system_secrets(0)}))
        finally:
            os._exit(99)
    (searched / "key").touch(mode=0o600)
    os.write(writing, b"x")
    status = os.waitpid(child, 0)[1]
    for descriptor in (reading, writing):
        os.close(descriptor)
    assert os.waitstatus_to_exitcode(status) == 1
    assert {each.path for each in system_secrets(0)} == {str(searched / "key")}  # no process takes the report away


@as_root
def test_a_search_does_not_count_for_long(searched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "_KEPT_FOR", 0.0)
    assert system_secrets(0) == ()
    assert take_missed_search()


@as_root
def test_a_process_that_goes_on_for_long_uses_a_search_once(searched: Path) -> None:
    use_search_once()
    assert system_secrets(0) == ()
    assert private_files._kept.watch is None  # noqa: SLF001 -- others need the watches
    (searched / "key").touch(mode=0o600)
    assert {each.path for each in system_secrets(0)} == {str(searched / "key")}
    assert not take_missed_search()


@as_root
def test_a_search_that_leads_through_a_link_is_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some systems have /usr/local as a link: a watch on the link says nothing of what is in the directory."""
    link = place.parent / "link"
    link.symlink_to(place.name)
    monkeypatch.setattr(private_files, "_WHOLE", (str(link),))
    monkeypatch.setattr(private_files, "_ABOVE", (str(place.parent),))
    monkeypatch.setattr(private_files, "_PARTLY", str(link))
    monkeypatch.setattr(private_files, "_FRESH", -1.0)
    monkeypatch.setattr(private_files, "_kept", private_files._KeptSearch())  # noqa: SLF001 -- as in a new process
    keep_search()
    (place / "key").touch(mode=0o600)
    try:
        assert {each.path for each in system_secrets(0)} == {str(link / "key")}
    finally:
        forget_search()


@as_root
def test_what_is_mounted_meanwhile_is_searched(searched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "read_mounts", lambda: b"another list")
    assert system_secrets(0) == ()
    assert take_missed_search()


@as_root
def test_another_mount_that_looks_the_same_is_searched(searched: Path, tmp_path: Path) -> None:
    """The kernel gives the number of a mount again, and the name of what is mounted can be another directory's."""
    for name in ("here", "there"):
        (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / "there" / "deep" / "key").touch(mode=0o600)
    mount = ["mount", "--bind", str(tmp_path / "here" / "deep"), str(searched / "deep")]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("nothing may be mounted here")
    try:
        assert keep_search()
        before = read_mounts()
        subprocess.run(["umount", str(searched / "deep")], check=True)
        (tmp_path / "here").rename(tmp_path / "gone")
        (tmp_path / "there").rename(tmp_path / "here")
        subprocess.run(mount, check=True)
        if read_mounts() != before:
            pytest.skip("this kernel does not give a number again")
        assert {each.path for each in system_secrets(0)} == {str(searched / "deep" / "key")}
    finally:
        subprocess.run(["umount", str(searched / "deep")], check=False)


@as_root
def test_a_search_for_one_user_is_not_used_for_another(searched: Path) -> None:
    system_secrets(12345)
    assert take_missed_search()


MOUNTS = (
    b"1 0 8:1 / / rw - ext4 /dev/a rw\n"
    b"2 1 8:2 / /srv/a\\040b rw - xfs /dev/b rw\n"
    b"3 1 0:9 / /net rw - nfs4 server:/ rw\n"
    b"4 1 0:9 / /srv/fuse rw - fuse.sshfs x rw\n"
)


@pytest.mark.parametrize(
    ("places", "watched"),
    [(("/",), True), (("/srv/a b",), True), (("/net",), False), (("/net/deep",), False), (("/srv",), False)],
)
def test_only_file_systems_that_this_kernel_alone_changes_are_watched(
    places: tuple[str, ...],
    watched: bool,  # noqa: FBT001 -- of a table
) -> None:
    watch = DirectoryWatch.begin(places, MOUNTS)
    assert (watch is not None) == watched
    if watch is not None:
        watch.close()


def test_places_where_something_is_mounted_are_known_by_their_names() -> None:
    assert list(mounts_below(MOUNTS, ("/srv",))) == ["/srv/a b", "/srv/fuse"]


def test_a_watch_that_has_too_much_to_watch_is_never_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_watch, "_SHARE", 1 << 40)
    watch = DirectoryWatch.begin((str(tmp_path),), read_mounts())
    if watch is None:
        pytest.skip("the kernel does not report all changes on this file system")
    assert not watch.is_quiet()
    watch.close()
    assert not watch.is_quiet()


def test_a_watch_ends_with_its_processes(tmp_path: Path) -> None:
    """A program that is started does not get the descriptor."""
    watch = DirectoryWatch.begin((str(tmp_path),), read_mounts())
    if watch is None:
        pytest.skip("the kernel does not report all changes on this file system")
    script = "import os, sys; print(os.path.lexists(f'/proc/self/fd/{sys.argv[1]}'))"
    number = str(watch._descriptor)  # noqa: SLF001 -- which another process may not have
    done = subprocess.run([sys.executable, "-c", script, number], close_fds=False, capture_output=True, check=True)
    watch.close()
    assert done.stdout == b"False\n"


def test_the_whole_search_is_the_same_with_and_without_a_watch() -> None:
    uid = os.geteuid()
    plain = private_files._search(uid)  # noqa: SLF001 -- without anything kept
    if not keep_search():
        pytest.skip("the kernel does not report all changes here")
    try:
        kept = private_files._recalled(uid)  # noqa: SLF001 -- what is kept
    finally:
        forget_search()
    assert kept is None or kept == plain
