"""One behaviour of a project's files, whatever keeps them: a directory or the memory."""

import errno
import os
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.errors import UnsafePathError
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import inline_layer
from byleave.policy.live_policy import LivePolicy
from byleave.workspace.in_memory import ProjectInMemory
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import DIRECTORY, FILE, OTHER, Query
from byleave.workspace.resolve import Root
from sandbox.machine import NO_PERSON, as_nobody

if TYPE_CHECKING:
    from byleave.workspace.project import ProjectFiles

LIMIT = 1 << 20
FILES = {"readme.md": b"hello\n", "src/main.py": b"main\n", "src/deep/er/x.py": b"x\n", "empty": b""}
Make = Callable[[], "ProjectFiles"]


def on_disk(top: Path) -> ProjectOnDisk:
    root = (top / "project").resolve()
    root.mkdir()
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return ProjectOnDisk(Root.at(str(root)))


@pytest.fixture(params=["disk", "memory"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> "ProjectFiles":
    return on_disk(tmp_path) if request.param == "disk" else ProjectInMemory(FILES)


@pytest.fixture(params=["as written", "as judged"])
def where(request: pytest.FixtureRequest, project: "ProjectFiles") -> Callable[[str], str | FsTarget]:
    """Return how a place is named: by a path, or by what `find` made of it."""

    def found(path: str) -> FsTarget:
        target = project.find(path)
        assert isinstance(target, FsTarget)
        return target

    return found if request.param == "as judged" else str


Where = Callable[[str], str | FsTarget]


def everything(project: "ProjectFiles", path: str = ".") -> dict[str, bytes | None]:
    """Return all files with their contents, and all directories, by their paths."""
    found: dict[str, bytes | None] = {}
    for name in project.list_dir(path):
        below = name if path == "." else f"{path}/{name}"
        if project.metadata(below).kind == DIRECTORY:
            found[below] = None
            found |= everything(project, below)
        else:
            found[below] = project.read(below, limit=LIMIT)
    return found


def test_what_is_there_is_read_and_listed(project: "ProjectFiles", where: Where) -> None:
    assert project.read(where("src/main.py"), limit=LIMIT) == b"main\n"
    assert project.list_dir(where(".")) == ["empty", "readme.md", "src"]
    assert project.list_dir(where("src")) == ["deep", "main.py"]


def test_metadata_says_what_stands_there(project: "ProjectFiles", where: Where) -> None:
    seen = [project.metadata(where(path)) for path in ("readme.md", "empty", "src", ".")]
    assert [(each.kind, each.size) for each in seen] == [(FILE, 6), (FILE, 0), (DIRECTORY, 0), (DIRECTORY, 0)]
    assert all(each.modified is not None and each.modified > 1e9 for each in seen)


def test_only_what_is_there_exists(project: "ProjectFiles", where: Where) -> None:
    paths = ("readme.md", "src", ".", "missing", "src/missing/file")
    assert [project.exists(where(path)) for path in paths] == [True, True, True, False, False]
    assert not project.exists("readme.md/below")


def test_a_file_is_written_whole(project: "ProjectFiles", where: Where) -> None:
    project.write(where("readme.md"), b"new", create=False, update=True)
    project.write(where("fresh.txt"), b"made", create=True, update=False)
    project.write(where("readme.md"), b"", create=True, update=True)
    assert {path: project.read(path, limit=9) for path in ("readme.md", "fresh.txt")} == {
        "readme.md": b"",
        "fresh.txt": b"made",
    }


def test_directories_are_made_for_a_new_file(project: "ProjectFiles", where: Where) -> None:
    project.write(where("a/b/c.txt"), b"c", create=True, update=False)
    assert (project.read("a/b/c.txt", limit=9), project.list_dir("a")) == (b"c", ["b"])


def test_nothing_is_made_where_only_updates_are_asked_for(project: "ProjectFiles", where: Where) -> None:
    before = everything(project)
    with pytest.raises(FileNotFoundError):
        project.write(where("a/b/c.txt"), b"c", create=False, update=True)
    with pytest.raises(FileExistsError):
        project.write(where("readme.md"), b"c", create=True, update=False)
    assert everything(project) == before


Act = Callable[["ProjectFiles", Where], object]
WRONG: dict[str, tuple[Act, type[Exception]]] = {
    "reading nothing": (lambda p, w: p.read(w("missing"), limit=9), FileNotFoundError),
    "reading a directory": (lambda p, w: p.read(w("src"), limit=9), IsADirectoryError),
    "reading too much": (lambda p, w: p.read(w("readme.md"), limit=5), UnsafePathError),
    "writing a directory": (lambda p, w: p.write(w("src"), b"", create=True, update=True), IsADirectoryError),
    "creating a directory": (lambda p, w: p.write(w("src"), b"", create=True, update=False), FileExistsError),
    "listing a file": (lambda p, w: p.list_dir(w("readme.md")), NotADirectoryError),
    "listing nothing": (lambda p, w: p.list_dir(w("missing")), FileNotFoundError),
    "looking at nothing": (lambda p, w: p.metadata(w("missing")), FileNotFoundError),
    "deleting a directory": (lambda p, w: p.delete(w("src")), IsADirectoryError),
    "deleting the project": (lambda p, w: p.delete(w(".")), IsADirectoryError),
    "deleting nothing": (lambda p, w: p.delete(w("missing")), FileNotFoundError),
    "moving nothing": (lambda p, w: p.rename(w("missing"), w("new/x"), replace=True), FileNotFoundError),
    "moving onto a file": (lambda p, w: p.rename(w("readme.md"), w("empty"), replace=False), FileExistsError),
    "a file onto a directory": (lambda p, w: p.rename(w("readme.md"), w("src"), replace=True), FileExistsError),
    "a file onto the project": (lambda p, w: p.rename(w("readme.md"), w("."), replace=True), FileExistsError),
    "a directory onto a file": (lambda p, w: p.rename(w("src"), w("empty"), replace=True), FileExistsError),
    "a directory onto one": (lambda p, w: p.rename(w("src/deep"), w("src"), replace=True), FileExistsError),
    "onto itself": (lambda p, w: p.rename(w("empty"), w("empty"), replace=False), FileExistsError),
    "a directory onto itself": (lambda p, w: p.rename(w("src"), w("src"), replace=True), FileExistsError),
}


@pytest.mark.parametrize(("act", "error"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_done_changes_nothing(
    act: Act, error: type[Exception], project: "ProjectFiles", where: Where
) -> None:
    before = everything(project)
    with pytest.raises(error):
        act(project, where)
    assert everything(project) == before


def test_an_empty_directory_is_not_replaced_by_another(project: "ProjectFiles", where: Where) -> None:
    project.write("one/x", b"", create=True, update=False)
    project.write("two/x", b"", create=True, update=False)
    project.delete("two/x")
    with pytest.raises(FileExistsError):
        project.rename(where("one"), where("two"), replace=True)


def test_a_directory_is_not_moved_into_itself(project: "ProjectFiles", where: Where) -> None:
    before = everything(project)
    with pytest.raises(OSError) as caught:
        project.rename(where("src"), where("src/new/place"), replace=True)
    assert (caught.value.errno, everything(project)) == (errno.EINVAL, before)


def test_a_deleted_file_is_gone_and_its_directory_stays(project: "ProjectFiles", where: Where) -> None:
    project.delete(where("src/deep/er/x.py"))
    assert (project.exists("src/deep/er/x.py"), project.list_dir("src/deep/er")) == (False, [])


def test_a_file_moves_and_makes_its_directories(project: "ProjectFiles", where: Where) -> None:
    project.rename(where("readme.md"), where("docs/en/readme.md"), replace=False)
    assert (project.exists("readme.md"), project.read("docs/en/readme.md", limit=9)) == (False, b"hello\n")


def test_a_file_replaces_another_where_that_is_asked_for(project: "ProjectFiles", where: Where) -> None:
    project.rename(where("readme.md"), where("empty"), replace=True)
    project.rename(where("empty"), where("empty"), replace=True)
    assert (project.exists("readme.md"), project.read("empty", limit=9)) == (False, b"hello\n")


def test_a_directory_takes_everything_along(project: "ProjectFiles", where: Where) -> None:
    project.rename(where("src"), where("lib/python"), replace=False)
    assert project.read("lib/python/deep/er/x.py", limit=9) == b"x\n"
    assert not project.exists("src")


REFUSED = ["/etc/passwd", "../outside", "src/../../outside", "a\nb", "a\0b", "C:/x", "\\x", "aux", "x:y", "a" * 300]


@pytest.mark.parametrize("path", REFUSED)
def test_absolute_climbing_and_odd_paths_are_refused_everywhere(project: "ProjectFiles", path: str) -> None:
    acts: list[Callable[[], object]] = [
        lambda: project.read(path, limit=9),
        lambda: project.write(path, b"", create=True, update=True),
        lambda: project.exists(path),
        lambda: project.list_dir(path),
        lambda: project.metadata(path),
        lambda: project.delete(path),
        lambda: project.rename(path, "x", replace=True),
        lambda: list(project.grep(Query("x", (path,)), lambda _: True)),
    ]
    assert isinstance(project.find(path), RefusedPath)
    for act in acts:
        with pytest.raises(UnsafePathError):
            act()


def test_what_lies_below_a_file_is_not_there(project: "ProjectFiles") -> None:
    with pytest.raises(NotADirectoryError):
        project.read("readme.md/x", limit=9)
    with pytest.raises(NotADirectoryError):
        project.write("readme.md/x", b"", create=True, update=True)
    with pytest.raises(NotADirectoryError):
        project.read("readme.md/", limit=9)


def test_what_was_judged_before_its_directory_became_a_file_is_not_there(project: "ProjectFiles") -> None:
    place = project.find("src/main.py")
    assert isinstance(place, FsTarget)
    project.rename("src", "gone", replace=False)
    project.write("src", b"a file", create=True, update=False)
    for act in (lambda: project.read(place, limit=9), lambda: project.delete(place), lambda: project.metadata(place)):
        with pytest.raises(NotADirectoryError):
            act()
    with pytest.raises(NotADirectoryError):
        project.write(place, b"", create=True, update=True)
    with pytest.raises(NotADirectoryError):
        project.rename("readme.md", place, replace=True)
    assert not project.exists(place)


def test_paths_are_tidied_up(project: "ProjectFiles") -> None:
    assert project.read("./src//../src/main.py", limit=9) == b"main\n"


def test_what_is_found_says_where_it_is_and_whether(project: "ProjectFiles") -> None:
    root = project.display_root
    assert [project.find(path) for path in ("src", "src/main.py", "new/x")] == [
        FsTarget(f"{root}/src", "src", None, exists=True, directory=True),
        FsTarget(f"{root}/src/main.py", "src/main.py"),
        FsTarget(f"{root}/new/x", "new/x", None, exists=False),
    ]


def test_a_search_finds_lines_by_number(project: "ProjectFiles") -> None:
    found = list(project.grep(Query("main|x", extensions=("py",)), lambda path: path != "src/main.py"))
    assert [(each.path, [line.number for line in each.lines]) for each in found] == [("src/deep/er/x.py", [1])]


def test_searching_what_is_not_there_is_an_error(project: "ProjectFiles") -> None:
    with pytest.raises(FileNotFoundError):
        list(project.grep(Query("x", ("missing",)), lambda _: True))


def test_names_that_are_no_text_can_be_listed(tmp_path: Path) -> None:
    project = on_disk(tmp_path)
    raw = os.fsencode(project.root.path)
    for name in (b"caf\xe9", b"two\nlines"):
        with open(raw + b"/" + name, "wb") as file:
            file.write(b"odd\n")
    assert project.list_dir(".") == ["caf\udce9", "empty", "readme.md", "src", "two\nlines"]
    assert project.read("caf\udce9", limit=9) == b"odd\n"
    found = list(project.grep(Query("odd"), lambda _: True))
    assert [each.path for each in found] == ["caf\udce9", "two\nlines"]


def test_a_link_out_of_the_project_is_refused_unless_it_was_judged(tmp_path: Path) -> None:
    project = on_disk(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(b"outside")
    os.symlink(tmp_path / "outside", f"{project.root.path}/mnt")
    for act in (
        lambda: project.read("mnt/file", limit=9),
        lambda: project.write("mnt/new", b"", create=True, update=True),
        lambda: project.delete("mnt/file"),
        lambda: project.rename("readme.md", "mnt/x", replace=True),
        lambda: list(project.grep(Query("outside", ("mnt",)), lambda _: True)),
    ):
        with pytest.raises(UnsafePathError, match="leads out of the project"):
            act()
    place = project.find("mnt/file")
    assert isinstance(place, FsTarget)
    assert project.read(place, limit=9) == b"outside"
    assert [each.path for each in project.grep(Query("outside", (place,)), lambda _: True)] == ["mnt/file"]


def test_a_link_that_took_a_judged_place_is_refused_and_never_followed(tmp_path: Path) -> None:
    project = on_disk(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    place, above = project.find("readme.md"), project.find("src/main.py")
    assert isinstance(place, FsTarget)
    assert isinstance(above, FsTarget)
    os.unlink(place.canonical)
    os.symlink(secret, place.canonical)
    os.rename(f"{project.root.path}/src", f"{project.root.path}/src2")
    os.symlink(f"{project.root.path}/src2", f"{project.root.path}/src")
    for each in (place, above):
        for act in (
            lambda each=each: project.read(each, limit=99),
            lambda each=each: project.write(each, b"x", create=True, update=True),
            lambda each=each: project.metadata(each),
            lambda each=each: project.exists(each),
            lambda each=each: project.rename(each, "moved", replace=True),
            lambda each=each: list(project.grep(Query("secret", (each,)), lambda _: True)),
        ):
            with pytest.raises(UnsafePathError):
                act()
    project.delete(place)  # removes the link
    assert secret.read_bytes() == b"secret"


def test_devices_and_fifos_are_neither_read_nor_written(tmp_path: Path) -> None:
    project = on_disk(tmp_path)
    os.mkfifo(f"{project.root.path}/pipe")
    with pytest.raises(UnsafePathError):
        project.read("pipe", limit=9)
    with pytest.raises(UnsafePathError):
        project.write("pipe", b"", create=True, update=True)
    assert project.metadata("pipe").kind == OTHER
    assert list(project.grep(Query(""), lambda path: path == "pipe")) == []
    assert list(project.grep(Query("", ("pipe",)), lambda _: True)) == []


def other_file_system(tmp_path: Path) -> Path:
    """Return a directory that is not on the file system of the tests."""
    here = os.stat(tmp_path).st_dev
    for place in ("/dev/shm", "/run", "/tmp", "/var/tmp"):
        if os.path.isdir(place) and os.access(place, os.W_OK) and os.stat(place).st_dev != here:
            return Path(place)
    pytest.skip("there is only one file system that can be written to")


def test_a_file_moves_to_another_file_system_whole(tmp_path: Path) -> None:
    project = on_disk(tmp_path)
    os.chmod(f"{project.root.path}/readme.md", 0o740)
    with tempfile.TemporaryDirectory(dir=other_file_system(tmp_path)) as there:
        os.symlink(there, f"{project.root.path}/mnt")
        target, tree = project.find("mnt/a/readme.md"), project.find("mnt/tree")
        assert isinstance(target, FsTarget)
        assert isinstance(tree, FsTarget)
        project.rename("readme.md", target, replace=False)
        moved = os.path.join(os.path.realpath(there), "a/readme.md")
        assert (Path(moved).read_bytes(), stat.S_IMODE(os.stat(moved).st_mode)) == (b"hello\n", 0o740)
        assert not project.exists("readme.md")
        project.write("again.md", b"again", create=True, update=False)
        with pytest.raises(FileExistsError):
            project.rename("again.md", target, replace=False)
        project.rename("again.md", target, replace=True)
        with pytest.raises(OSError) as caught:
            project.rename("src", tree, replace=True)
        assert caught.value.errno == errno.EXDEV
        assert (Path(moved).read_bytes(), os.listdir(os.path.dirname(moved))) == (b"again", ["readme.md"])
    assert project.read("src/main.py", limit=9) == b"main\n"


def test_a_file_that_cannot_be_removed_is_not_moved_to_another_file_system(tmp_path: Path) -> None:
    """Neither both files are left, nor is the one that would have been replaced lost."""
    other = other_file_system(tmp_path)
    with tempfile.TemporaryDirectory(prefix="byleave-") as home, tempfile.TemporaryDirectory(dir=other) as there:
        os.chmod(home, 0o755)  # noqa: S103 -- another user has to reach it
        words, environment = as_nobody(Path(home) / "user")
        source = Path(home) / "user/closed"
        source.mkdir()
        (source / "file").write_bytes(b"new")
        (Path(there) / "file").write_bytes(b"old")
        for place in (there, f"{there}/file", source / "file"):
            os.chown(place, NO_PERSON, NO_PERSON)
        script = (
            "import sys\n"
            "from byleave.core.fs_rules import FsTarget\n"
            "from byleave.workspace.on_disk import ProjectOnDisk\n"
            "from byleave.workspace.resolve import Root\n"
            "try:\n"
            "    target = FsTarget(sys.argv[2] + '/file', None, 'mnt/file')\n"
            "    ProjectOnDisk(Root.at(sys.argv[1])).rename('file', target, replace=True)\n"
            "except PermissionError:\n"
            "    print('refused')\n"
        )
        start = [*words, "-c", script, str(source), os.path.realpath(there)]
        done = subprocess.run(start, env=environment, capture_output=True, check=False)
        assert (done.stdout, done.stderr) == (b"refused\n", b"")
        assert ((source / "file").read_bytes(), (Path(there) / "file").read_bytes()) == (b"new", b"old")
        assert os.listdir(there) == ["file"]


def test_a_policy_judges_places_in_memory() -> None:
    project = ProjectInMemory({"src/a": b"", "secret/b": b""})
    access = {"fs": [{"path": ".", "read": True, "write": True}, {"path": "secret", "read": False}]}
    layer = inline_layer({"tools": {"t": {"source": "local", "runtime": "vfs", "access": access}}})
    policy = LivePolicy(compile_layers([layer], CompileContext(project.root)), project.root)
    actions = [("read", "src/a"), ("create", "src/new"), ("read", "secret/b"), ("read", "/etc/passwd"), ("read", "..")]
    words = [policy.decide({"kind": kind, "path": path, "tool": "t"}).decision.word for kind, path in actions]
    assert words == ["allow", "allow", "deny", "deny", "deny"]
    assert policy.root.resolve_any("/etc/passwd") == FsTarget("/etc/passwd", None, exists=False)
    assert policy.root.resolve_place("../src/a", "/project/secret") == FsTarget("/project/src/a", "src/a")
    assert isinstance(policy.root.resolve_place("../x", "/project/missing"), RefusedPath)


def test_threads_may_use_one_project_in_memory() -> None:
    project = ProjectInMemory()

    def work(number: int) -> None:
        for each in range(100):
            project.write(f"d{number}/{each}", b"x", create=True, update=False)
            project.rename(f"d{number}/{each}", f"all/{number}-{each}", replace=False)
            project.list_dir("all")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(project.list_dir("all")) == 400
