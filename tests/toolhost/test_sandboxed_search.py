"""ripgrep sees what the tool may read, whatever it is asked for, and says it within bounds."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from byleave.core.fs_rules import FsTarget
from byleave.errors import RequestError, SandboxError
from byleave.protocol.jsonrpc import CANCELLED, INVALID_PARAMS, TIMED_OUT
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.toolhost.sandboxed_search import SandboxedSearch
from byleave.workspace import grep
from byleave.workspace.grep import SearchStart, find_ripgrep
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import DIRECTORY, FileLine, FileMatches, Query
from sandbox.machine import NO_PERSON, as_nobody, needs_sandbox
from sandbox.without_namespaces import needs_bwrap, needs_unshare, on_such_a_machine
from search_scene import PROGRAM, Scene, needs_ripgrep, paths, plant, scene

pytestmark = [needs_sandbox, needs_ripgrep]

SWAPPER = Path(__file__).resolve().parents[1] / "swapper.py"
Build = Callable[..., Scene]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Return what builds a workspace from its files and the file rules of the tool."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def build(files: dict[str, bytes | str], fs: list[dict[str, Any]] | None = None) -> Scene:
            root = tmp_path.resolve() / "ws"
            plant(root, files)
            return stack.enter_context(scene(root, fs))

        yield build


def everything(_path: str) -> bool:
    """Leave it all to the sandbox."""
    return True


def test_denied_files_and_directories_are_not_seen_even_without_the_second_look(build: Build) -> None:
    rules = [
        {"path": ".", "read": True, "write": True, "execute": True},
        {"path": "secret", "read": False},
        {"path": "secret/public", "read": True},
        {"path": "src/key.pem", "read": False},
        {"path": "missing", "read": False},
        {"path": "secret/one.txt", "read": True},
        {"path": "secret/.git/config", "read": True},
    ]
    opened = ("a.txt", "secret/one.txt", "secret/public/z", "src/main.py")
    names = ("secret/x", "secret/deep/y", "src/key.pem", "secret/.git/config", *opened)
    here = build(dict.fromkeys(names, "hit\n"), rules)
    expected = list(opened)
    assert paths(here.both(Query("hit", extensions=("txt", "pem")))) == ["a.txt", "secret/one.txt"]
    assert paths(list(here.fast.grep(Query("hit"), everything))) == expected
    assert paths(here.both(Query("hit"))) == expected
    named = Query("hit", ("src/key.pem", "secret", "secret/deep/y"))
    assert paths(list(here.fast.grep(named, everything))) == ["secret/one.txt", "secret/public/z"]


def test_a_denied_name_that_comes_into_being_is_covered_at_the_next_search(build: Build) -> None:
    here = build({"a.txt": "hit"}, [{"path": ".", "read": True}, {"path": "new", "read": False}])
    assert paths(list(here.fast.grep(Query("hit"), everything))) == ["a.txt"]
    plant(here.root, {"new/x": "hit"})
    assert paths(list(here.fast.grep(Query("hit"), everything))) == ["a.txt"]


def test_what_may_not_be_read_is_dropped_whatever_ripgrep_says(build: Build) -> None:
    here = build({"a": "hit", "b": "hit"})
    assert paths(list(here.fast.grep(Query("hit"), lambda path: path == "b"))) == ["b"]


def test_links_are_not_followed(build: Build, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_text("hit")
    here = build({"a/b": "hit"})
    for name, target in {"out": tmp_path / "outside", "file": tmp_path / "outside/x", "in": here.root / "a"}.items():
        (here.root / name).symlink_to(target)
    assert paths(here.both(Query("hit"))) == ["a/b"]
    assert paths(here.both(Query("hit", ("in",)))) == ["a/b"]
    # A start that is a link to outside, as if it had been swapped after it was judged: the sandbox has no such place.
    swapped = SearchStart("out", FsTarget(f"{here.root}/out", "out"), DIRECTORY)
    assert here.sandboxed.search(Query("hit"), [swapped]) == []


def test_a_mount_is_searched_under_its_own_name_if_it_is_approved(tmp_path: Path) -> None:
    outside = tmp_path.resolve() / "outside" / ".git"
    plant(outside, {"x.txt": "hit", "deep/y.txt": "hit", "secret/z.txt": "hit"})
    root = tmp_path.resolve() / "ws"
    plant(root, {"a.txt": "hit"})
    (root / "mnt").symlink_to(outside)
    rules = [
        {"path": ".", "read": True},
        {"path": "mnt", "external": True, "read": True},
        {"path": "mnt/secret", "external": True, "read": False},
    ]
    with scene(root, rules) as here:
        assert paths(list(here.fast.grep(Query("hit", (here.find("mnt"),)), everything))) == []
        here.workspace.approvals.approve_mount("mnt", str(outside), now="2026-01-01T00:00:00Z")
    with scene(root, rules) as here:
        query = Query("hit", (here.find("mnt"), "a.txt", here.find("mnt/deep")))
        expected = ["a.txt", "mnt/deep/y.txt", "mnt/x.txt"]
        assert paths(list(here.fast.grep(query, everything))) == expected
        assert paths(here.both(query)) == expected
        assert paths(here.both(Query("hit"))) == ["a.txt"]


def test_files_of_repositories_and_binary_ones_are_left_out_also_if_they_are_named(build: Build) -> None:
    files: dict[str, bytes | str] = {".git/c": "hit", "s/.GIT/c": "hit", "b": b"hit\n\0", "c": "hit", ".gitx": "hit"}
    here = build({**files, "late": b"hit\n" * 50_000 + b"\0"})
    assert paths(here.both(Query("hit"))) == [".gitx", "c"]
    assert paths(here.both(Query("hit", (".git", ".git/c", "s/.GIT", "s", "b", "late", "c")))) == ["c"]


@pytest.mark.parametrize(
    "pattern", ["--pre=sh", "-f/etc/passwd", "-", "--", "--files", "-e", "--hostname-bin=sh", "$(id)"]
)
def test_a_pattern_is_never_an_option(build: Build, pattern: str) -> None:
    here = build({"a": "x --pre=sh -f/etc/passwd - -- --files -e --hostname-bin=sh id\n", "b": "other\n"})
    found = list(here.fast.grep(Query(pattern), here.may_read))
    assert paths(found) == ([] if pattern.startswith("$") else ["a"])


def test_names_that_look_like_options_or_are_no_text_are_found(build: Build) -> None:
    here = build({"-e": "hit", "--pre=sh": "hit", "sub/-rf": "hit"})
    for name in (b"caf\xe9", b"two\nlines", b'quote"\\'):
        with open(os.path.join(os.fsencode(here.root), name), "wb") as file:
            file.write(b"hit \xff\n")
    names = ["--pre=sh", "-e", "caf\udce9", 'quote"\\', "sub/-rf", "two\nlines"]
    assert paths(here.both(Query("hit"), everything)) == names
    found = list(here.fast.grep(Query("hit", ("caf\udce9", "-e")), everything))
    assert found[1] == FileMatches("caf\udce9", (FileLine(1, "hit \ufffd", matches=True),))
    assert "two\nlines" not in paths(here.both(Query("hit")))  # a name that nobody should trust


@pytest.mark.parametrize(
    "pattern", ["(", "[a", r"\y", "(?=a)", r"a\nb", "a\nb", "a\0b", "\ud800", "x{99999999999}", r"\x00"]
)
def test_a_bad_pattern_is_a_bad_request(build: Build, pattern: str) -> None:
    here = build({"a": "x"})
    with pytest.raises(RequestError, match="the pattern cannot be used") as caught:
        list(here.fast.grep(Query(pattern), everything))
    assert caught.value.number == INVALID_PARAMS
    assert "\n  " not in caught.value.problem.partition("rg:")[1]


def test_words_and_digits_of_every_script_are_understood(build: Build) -> None:
    here = build({"a": "caf\u00e9 \u0661\n"})
    assert paths(list(here.fast.grep(Query(r"\bcaf\w \d$"), everything))) == ["a"]


def test_too_much_output_ends_the_search(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    here = build({f"{number}.txt": "hit\n" * 20_000 for number in range(20)})
    with pytest.raises(RequestError) as caught:
        list(here.fast.grep(Query("hit"), everything))
    assert (caught.value.number, caught.value.data) == (INVALID_PARAMS, {"limit": 10 << 20})
    monkeypatch.setattr(grep, "LARGEST_OUTPUT", 1000)
    with pytest.raises(RequestError) as caught:
        list(here.fast.grep(Query("hit"), everything))
    assert (caught.value.number, caught.value.data) == (INVALID_PARAMS, {"limit": 1000})


def test_a_line_that_matches_everywhere_is_bounded_as_well(build: Build) -> None:
    here = build({"min.js": "x" * (9 << 20)})
    with pytest.raises(RequestError) as caught:
        list(here.fast.grep(Query("x"), everything))
    assert caught.value.data == {"limit": grep.LARGEST_OUTPUT}


def test_a_search_ends_at_its_deadline(build: Build) -> None:
    here = build({"a": "hit"})
    starts = [SearchStart("", here.find("."), DIRECTORY)]
    with pytest.raises(RequestError) as caught:
        here.sandboxed.search(Query("hit"), starts, deadline=time.monotonic() - 1)
    assert caught.value.number == TIMED_OUT
    assert here.sandboxed.search(Query("hit"), starts, deadline=time.monotonic() + 60) != []


def test_a_search_that_hangs_ends_at_its_deadline(build: Build) -> None:
    here = build({"a": "hit"})
    os.mkfifo(here.root / "pipe")  # as if it had taken the place of a file that was judged
    starts = [SearchStart("pipe", FsTarget(f"{here.root}/pipe", "pipe"), DIRECTORY)]
    started = time.monotonic()
    with pytest.raises(RequestError) as caught:
        here.sandboxed.search(Query("hit"), starts, deadline=started + 0.3)
    assert caught.value.number == TIMED_OUT
    assert time.monotonic() - started < 20


def test_a_search_is_cancelled_from_another_thread(build: Build) -> None:
    here = build({"a": "hit"})
    os.mkfifo(here.root / "pipe")
    starts = [SearchStart("pipe", FsTarget(f"{here.root}/pipe", "pipe"), DIRECTORY)]

    def later(cancel: Callable[[], None]) -> None:
        threading.Timer(0.2, cancel).start()

    with pytest.raises(RequestError) as caught:
        here.sandboxed.search(Query("hit"), starts, on_cancel=later, deadline=time.monotonic() + 30)
    assert caught.value.number == CANCELLED


def test_cancelling_what_has_ended_does_nothing(build: Build) -> None:
    here = build({"a": "hit"})
    kept: list[Callable[[], None]] = []
    assert (
        here.sandboxed.search(Query("hit"), [SearchStart("", here.find("."), DIRECTORY)], on_cancel=kept.append) != []
    )
    kept[0]()


def test_odd_files_and_very_long_ones_are_passed_over(build: Build) -> None:
    here = build({"a": "hit"})
    os.mkfifo(here.root / "pipe")
    for name, start in {"sparse": b"", "text": b"hit\n"}.items():
        with (here.root / name).open("wb") as file:
            file.write(start)
            file.truncate(2 << 30)
    assert paths(here.both(Query("hit"))) == ["a"]
    assert paths(here.both(Query("hit", ("pipe", "sparse", "text", "a")))) == ["a"]


def test_deep_directories_are_searched_as_far_as_names_reach(build: Build) -> None:
    here = build({"a": "hit"})
    held = os.open(here.root, os.O_RDONLY)
    for _ in range(60):  # about 6,000 bytes, beyond what a path can be
        os.mkdir("d" * 100, dir_fd=held)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=held)
        os.close(held)
        held = below
        os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=held))
    os.close(held)
    assert paths(here.both(Query("hit"))) == ["a"]


def test_nothing_is_searched_where_nothing_is_left_to_search(build: Build) -> None:
    here = build({"a.txt": "hit"})
    assert here.both(Query("hit", ("a.txt",), ("py",))) == []
    assert here.both(Query("hit", (".git",)) if (here.root / ".git").exists() else Query("nothing")) == []


def test_open_files_are_searched_where_the_sandbox_cannot_start_the_program(build: Build, tmp_path: Path) -> None:
    here = build({"a.txt": "hit"})
    plant(tmp_path, {"bin/rg": b"\x7fELF no program"})
    (tmp_path / "bin/rg").chmod(0o755)
    with Confinement(here.workspace, here.policy, "t", SandboxOptions(reads_only=True)) as confinement:
        broken = SandboxedSearch(str(tmp_path.resolve() / "bin/rg"), confinement)
        with pytest.raises(SandboxError):
            broken.search(Query("hit"), [SearchStart("", here.find("."), DIRECTORY)])
        project = ProjectOnDisk(here.workspace.root, search=broken.search)
        assert paths(list(project.grep(Query("hit"), here.may_read))) == ["a.txt"]


def test_a_ripgrep_in_the_workspace_or_one_that_is_too_old_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sysconfig

    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere/python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path / "scripts"))
    for name, version in (("old", "12.1.1"), ("new", "14.1.0"), ("odd", "x.y")):
        place = tmp_path / name / "rg"
        plant(tmp_path, {f"{name}/rg": f"#!/bin/sh\necho ripgrep {version}\n"})
        place.chmod(0o755)
    monkeypatch.setenv("PATH", f"relative:{tmp_path}/old:{tmp_path}/odd:{tmp_path}/missing:{tmp_path}/new")
    assert find_ripgrep("/nowhere") == str((tmp_path / "new/rg").resolve())
    assert find_ripgrep(str(tmp_path.resolve())) is None
    plant(tmp_path, {"scripts/rg": "#!/bin/sh\necho ripgrep 14.1.0\n"})
    (tmp_path / "scripts/rg").chmod(0o755)
    assert find_ripgrep("/nowhere") == str((tmp_path / "scripts/rg").resolve())


def test_files_that_are_swapped_for_links_while_searching_show_nothing_denied(build: Build, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_text("hit FORBIDDEN")
    rules = [{"path": ".", "read": True}, {"path": "secret", "read": False}]
    files = {"src/x": "hit", "file": "hit", "secret/x": "hit FORBIDDEN", **{f"more/{n}": "hit" for n in range(200)}}
    here = build(dict(files), rules)
    pairs = {"src": tmp_path / "outside", "file": here.root / "secret/x"}
    for name, target in pairs.items():
        (here.root / f"{name}.link").symlink_to(target)
    words = [str(here.root / (name + end)) for name in pairs for end in ("", ".link")]
    starts = [SearchStart(name, FsTarget(f"{here.root}/{name}", name), DIRECTORY) for name in ("src", "file", "more")]
    with subprocess.Popen([sys.executable, SWAPPER, *words], stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline().startswith(b"ready")
            end = time.monotonic() + 2
            while time.monotonic() < end:
                found = [*here.sandboxed.search(Query("hit"), starts), *here.fast.grep(Query("hit"), everything)]
                assert not any("FORBIDDEN" in line.content for each in found for line in each.lines)
                assert sum(each.path.startswith("more/") for each in found) == 400
        finally:
            swapper.kill()


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="byleave-test-", dir="/var/tmp") as path:
        os.chmod(path, 0o755)  # noqa: S103 -- that is its point
        yield Path(path).resolve()


def test_an_ordinary_user_searches_as_well(public: Path) -> None:
    assert PROGRAM is not None
    words, environment = as_nobody(public / "home")
    program, root = public / "bin" / "rg", public / "ws"
    plant(public, {"bin/rg": Path(PROGRAM).read_bytes(), "ws/a": "hit", "ws/secret/b": "hit", "ws/closed": "hit"})
    program.chmod(0o755)
    for place in (root, *root.rglob("*")):
        os.chown(place, NO_PERSON, NO_PERSON)
    (root / "closed").chmod(0)
    done = subprocess.run(
        [*words, "-c", _SEARCH, str(program), str(root)], env=environment, capture_output=True, check=False, cwd=root
    )
    if b"No module named" in done.stderr or b"cannot import" in done.stderr:
        pytest.skip("the ordinary user's Python lacks what the search needs")
    assert (done.stdout, done.stderr) == (b"['a']\n", b"")


@needs_unshare
@pytest.mark.parametrize("bwrap", [pytest.param(True, marks=needs_bwrap), False], ids=["bwrap", "Landlock alone"])
def test_nothing_is_missed_where_there_are_no_namespaces(tmp_path: Path, *, bwrap: bool) -> None:
    assert PROGRAM is not None
    root = tmp_path.resolve() / "ws"
    plant(root, {"a": "hit", "secret/b": "hit", "src/deep/c": "hit"})
    machine = on_such_a_machine(bwrap=bwrap, place=tmp_path)
    words = [*machine, sys.executable, "-c", _SEARCH, PROGRAM, str(root)]
    done = subprocess.run(words, capture_output=True, check=False, cwd=root)
    assert (done.stdout, done.stderr) == (b"['a', 'src/deep/c']\n", b"")


_SEARCH = """
import sys
from byleave.policy.load import Workspace
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.toolhost.sandboxed_search import SandboxedSearch
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import Query

program, root = sys.argv[1:]
workspace = Workspace(root)
access = {"fs": [{"path": ".", "read": True}, {"path": "secret", "read": False}]}
policy = workspace.compile_tree({"tools": {"t": {"source": "local", "runtime": "vfs", "access": access}}})
with Confinement(workspace, policy, "t", SandboxOptions(reads_only=True)) as confinement:
    project = ProjectOnDisk(workspace.root, search=SandboxedSearch(program, confinement).search)
    read = {"kind": "read", "tool": "t"}
    found = project.grep(Query("hit"), lambda path: policy.decide({**read, "path": path}).decision.word == "allow")
    print([each.path for each in found])
"""
