"""Effects on files: only with the right permit, only at the place that was judged, and never telling where that is."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from byleave.core.action import FileAction, MoveAction, SearchAction
from byleave.core.decision import ALLOW, RuleRef, Verdict
from byleave.core.fs_rules import FsTarget
from byleave.core.permit import Permit
from byleave.errors import TooLargeError, UnsafePathError
from byleave.workspace.file_effects import (
    delete_file,
    exists,
    list_names,
    look,
    move_file,
    read_file,
    search_files,
    write_file,
)
from byleave.workspace.in_memory import ProjectInMemory
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import FILE, FileMetadata, Query
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from byleave.core.action import Action
    from byleave.workspace.project import ProjectFiles

YES = Verdict(ALLOW, "yes", "ok", (RuleRef("a rule", "test", ALLOW),))
KINDS = ("read", "create", "update", "delete")


@pytest.fixture(params=["disk", "memory"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> "ProjectFiles":
    files = {"a.txt": b"a", "dir/b.txt": b"b"}
    if request.param == "memory":
        return ProjectInMemory(files)
    root = tmp_path.resolve() / "ws"
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return ProjectOnDisk(Root.at(str(root)))


def permit(project: "ProjectFiles", kind: str, path: str, to: str | None = None) -> Permit:
    actions: dict[str, Action] = {"move": MoveAction(path, to or ""), "search": SearchAction(path)}
    places = tuple(project.find(each) for each in (path, to) if each is not None)
    return Permit(actions.get(kind, FileAction(kind, path)), places, YES)


def test_each_effect_does_what_its_permit_allows(project: "ProjectFiles") -> None:
    assert read_file(permit(project, "read", "a.txt"), project) == b"a"
    write_file(permit(project, "create", "new/c.txt"), b"c", project)
    write_file(permit(project, "update", "a.txt"), b"changed", project)
    found = look(permit(project, "read", "a.txt"), project)
    assert (found.kind, found.size) == (FILE, 7)
    assert list_names(permit(project, "read", "new"), project) == ["c.txt"]
    move_file(permit(project, "move", "new/c.txt", "dir/b.txt"), project, replace=True)
    delete_file(permit(project, "delete", "a.txt"), project)
    assert [exists(permit(project, "read", path), project) for path in ("a.txt", "new/c.txt", "dir/b.txt")] == [
        *(False, False, True)
    ]
    permits = [permit(project, "search", "dir")]
    (matches,) = search_files(permits, Query("c", ("/ignored",)), lambda _: True, project)
    assert matches.path == "dir/b.txt"


def test_without_a_project_files_are_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    place = FsTarget(str(tmp_path.resolve() / "a"), "a")
    assert read_file(Permit(FileAction("read", "a"), (place,), YES)) == b"a"
    write_file(Permit(FileAction("update", "a"), (place,), YES), b"b")
    assert look(Permit(FileAction("read", "a"), (place,), YES)) == FileMetadata(
        FILE, 1, os.stat(tmp_path / "a").st_mtime
    )
    delete_file(Permit(FileAction("delete", "a"), (place,), YES))
    assert not exists(Permit(FileAction("read", "a"), (place,), YES))


Effect = Callable[[Permit, "ProjectFiles"], object]
EFFECTS: dict[str, tuple[Effect, tuple[str, ...]]] = {
    "read": (read_file, ("read",)),
    "look": (look, ("read",)),
    "exists": (exists, ("read",)),
    "list": (list_names, ("read",)),
    "write": (lambda given, project: write_file(given, b"", project), ("create", "update")),
    "delete": (delete_file, ("delete",)),
    "move": (lambda given, project: move_file(given, project, replace=True), ()),
    "search": (lambda given, project: search_files([given], Query("x"), lambda _: True, project), ()),
}


@pytest.mark.parametrize(("effect", "kinds"), EFFECTS.values(), ids=EFFECTS.keys())
def test_a_permit_for_something_else_is_none(project: "ProjectFiles", effect: Effect, kinds: tuple[str, ...]) -> None:
    for kind in (*KINDS, "exec"):
        if kind not in kinds:
            with pytest.raises(PermissionError, match="this permit is not for"):
                effect(permit(project, kind, "a.txt"), project)
    assert project.read("a.txt", limit=9) == b"a"


def test_a_permit_without_a_place_is_none(project: "ProjectFiles") -> None:
    with pytest.raises(PermissionError, match="names no place"):
        read_file(permit(project, "read", "/etc/passwd"), project)
    with pytest.raises(PermissionError, match="names no place"):
        move_file(permit(project, "move", "a.txt", "../out"), project, replace=True)
    with pytest.raises(PermissionError):
        search_files([], Query("x"), lambda _: True, project)


def test_create_never_overwrites_and_update_never_creates(project: "ProjectFiles") -> None:
    with pytest.raises(FileExistsError):
        write_file(permit(project, "create", "a.txt"), b"", project)
    with pytest.raises(FileNotFoundError):
        write_file(permit(project, "update", "missing"), b"", project)


def test_errors_name_files_as_they_were_asked_for(project: "ProjectFiles") -> None:
    with pytest.raises(FileNotFoundError) as missing:
        read_file(permit(project, "read", "./dir/../missing"), project)
    assert missing.value.filename == "./dir/../missing"
    with pytest.raises(TooLargeError) as long:
        read_file(permit(project, "read", "./a.txt"), project, limit=0)
    assert (long.value.problem, long.value.limit) == ('"./a.txt" is longer than 0 bytes', 0)
    with pytest.raises(FileExistsError) as taken:
        move_file(permit(project, "move", "a.txt", "./dir"), project, replace=True)
    assert taken.value.filename in ("a.txt", "./dir")
    with pytest.raises(FileNotFoundError) as nowhere:
        search_files([permit(project, "search", "./nowhere")], Query("x"), lambda _: True, project)
    assert nowhere.value.filename == "./nowhere"


def test_where_a_mount_leads_is_never_told(tmp_path: Path) -> None:
    target = tmp_path.resolve() / "private-place"
    (target / "deep").mkdir(parents=True)
    (target / "file").write_bytes(b"x")
    root = tmp_path.resolve() / "ws"
    root.mkdir()
    (root / "mnt").symlink_to(target)
    project = ProjectOnDisk(Root.at(str(root)))
    kept = {path: permit(project, "create", path) for path in ("mnt/deep/new/x", "mnt/file/x", "mnt/file")}
    judged = [permit(project, "read", "mnt/deep/x"), permit(project, "read", "mnt/missing")]
    (target / "deep").rmdir()
    (target / "deep").symlink_to("/")
    (target / "pipe").mkdir()
    acts: list[Callable[[], object]] = [
        lambda: write_file(kept["mnt/deep/new/x"], b"", project),
        lambda: write_file(kept["mnt/file"], b"", project),
        lambda: read_file(judged[0], project),
        lambda: read_file(judged[1], project),
        lambda: look(judged[0], project),
        lambda: (
            move_file(permit(project, "move", "mnt/file", "mnt/file/below"), project, replace=True)
            if isinstance(project.find("mnt/file/below"), FsTarget)
            else read_file(judged[1], project)
        ),
        lambda: delete_file(permit(project, "delete", "mnt/pipe"), project),
        lambda: move_file(permit(project, "move", "mnt/pipe", "mnt/file"), project, replace=True),
        lambda: read_file(permit(project, "read", "mnt/file"), project, limit=0),
    ]
    for act in acts:
        with pytest.raises((OSError, UnsafePathError)) as caught:
            act()
        assert "private-place" not in str(caught.value)
        assert "mnt" in str(caught.value)
