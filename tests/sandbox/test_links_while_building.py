"""The launcher builds a view while others may exchange what it is made of: it follows no link on the way."""

import errno
import os
from pathlib import Path
from threading import Thread

import pytest

from byleave.sandbox.linux.program import DIRECTORY, step, write_program
from byleave.sandbox.linux.steps import COVER_FILE, EMPTY_DIRECTORY, NODEV, NOEXEC, NOSUID, RDONLY
from byleave.sandbox.native.build import FULL, LEAN, build, find_compiler
from byleave.sandbox.process import DEVNULL, Process
from sandbox.machine import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.sampled(2)]

NAMESPACES = 0x7E020000
ATTRIBUTES = NOSUID | NODEV
PROC = (step("directory", "/proc", 0o555), step("mount", "proc", "/proc", b"", ATTRIBUTES | NOEXEC))


@pytest.fixture(scope="module", params=[LEAN, FULL])
def launcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    target = str(tmp_path_factory.mktemp("launcher") / request.param)
    build(compiler, target, request.param)
    return (target,)


def played(launcher: tuple[str, ...], *steps: object, staging: str = "/mnt") -> str:
    """Have a launcher do some steps in namespaces of its own, and return what it said of the first that failed."""
    ids = [f"{number} {number} 1" for number in (os.geteuid(), os.getegid())]
    begin = [step("namespaces", NAMESPACES, *ids, 0), step("fork"), step("root", staging, b"mode=0755\0")]
    program = write_program([*begin, *steps])  # type: ignore[list-item]
    with Process(launcher, program, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        process.wait(timeout=30)
        return "" if process.problem is None else str(process.problem)


def shown(place: Path) -> tuple[object, ...]:
    return step("directory", "/ws", 0o755), step("bind", str(place), "/ws", ATTRIBUTES, DIRECTORY)


def scene(tmp_path: Path) -> Path:
    """A workspace in which somebody has put a link in the place of a directory."""
    root, outside = tmp_path / "ws", tmp_path / "outside"
    (root / "other" / "victim" / "x").mkdir(parents=True)
    outside.mkdir()
    (root / "out").symlink_to(outside)
    (root / "link").symlink_to("/ws/other")
    return root


def test_no_directory_is_made_through_a_link(launcher: tuple[str, ...], tmp_path: Path) -> None:
    root = scene(tmp_path)
    said = played(launcher, *shown(root), step("directory", "/ws/out/made/deep", 0o755))
    assert os.strerror(errno.ELOOP).lower() in said or os.strerror(errno.ENOTDIR).lower() in said
    assert os.listdir(tmp_path / "outside") == []


def test_a_directory_that_is_a_link_is_none(launcher: tuple[str, ...], tmp_path: Path) -> None:
    root = scene(tmp_path)
    said = played(launcher, *shown(root), step("directory", "/ws/out", 0o700))
    assert os.strerror(errno.ELOOP).lower() in said or os.strerror(errno.ENOTDIR).lower() in said


def test_the_view_is_not_built_behind_a_link(launcher: tuple[str, ...], tmp_path: Path) -> None:
    scene(tmp_path)
    said = played(launcher, staging=str(tmp_path / "ws" / "out"))
    assert os.strerror(errno.ELOOP).lower() in said


def test_what_lies_behind_a_link_is_not_put_aside(launcher: tuple[str, ...], tmp_path: Path) -> None:
    """A held name whose directory became a link is not there; what the link leads to is somebody else's."""
    root = scene(tmp_path)
    guard = step("guard", "/ws/link/victim", EMPTY_DIRECTORY, ATTRIBUTES | NOEXEC, 1, b"")
    said = played(launcher, *shown(root), *PROC, step("pivot", ATTRIBUTES), guard, step("watch"))
    assert "program" in said, said  # it came to the end
    assert os.listdir(root / "other") == ["victim"]


@pytest.mark.parametrize("guarded", ["before it is covered", "after the pivot"])
@pytest.mark.parametrize("exchanged", ["before it is covered", "after it is covered"])
def test_what_is_exchanged_while_the_view_is_built_is_covered(
    launcher: tuple[str, ...], tmp_path: Path, guarded: str, exchanged: str
) -> None:
    """The launcher waits at two pipes until they are read from; in between, an editor saves the file."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "secret").write_text("SECRET")
    (tmp_path / "ws" / "new").write_text("NEW SECRET")
    for name in ("reached", "go"):
        os.mkfifo(tmp_path / name)
    pause = [step("setting", str(tmp_path / name), "x", 0) for name in ("reached", "go")]
    cover = step("cover", COVER_FILE, "/ws/secret", ATTRIBUTES | NOEXEC | RDONLY)
    guard = step("guard", "/ws/secret", COVER_FILE, ATTRIBUTES | NOEXEC | RDONLY, 0, b"")
    early = guarded == "before it is covered"
    read: list[bytes] = []

    def save() -> None:
        read.append((tmp_path / "reached").read_bytes())
        os.replace(tmp_path / "ws" / "new", tmp_path / "ws" / "secret")
        read.append((tmp_path / "go").read_bytes())

    editor = Thread(target=save, daemon=True)
    editor.start()
    said = played(
        launcher,
        *(step("directory", "/.byleave", 0o755), step("file", COVER_FILE, 0, b""), *PROC, *shown(tmp_path / "ws")),
        *([guard] if early else []),
        *([*pause, cover] if exchanged == "before it is covered" else [cover, *pause]),
        *(step("pivot", ATTRIBUTES), *([] if early else [guard]), step("watch")),
        step("seal", "/ws/secret", RDONLY),  # fails where nothing is mounted
    )
    editor.join()
    assert read == [b"x", b"x"]
    assert "program" in said, said  # it came to the end
