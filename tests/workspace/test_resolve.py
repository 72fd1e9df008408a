"""Where paths lead: as the kernel would go, never outside unless it is said, and never by a name that is not there."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.errors import InputError
from byleave.sdk import Context, FsAccessError
from byleave.workspace.resolve import Root
from stage import Stage

Build = Callable[[dict[str, Any] | None], Stage]
NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
places = st.lists(names, min_size=1, max_size=3).map("/".join)
# $W and $O are the workspace and a directory beside it.
link_texts = st.one_of(
    places,
    st.tuples(st.sampled_from(["..", "../..", "../../..", "none/..", "$W", "$O", ".", "/"]), places).map("/".join),
    st.tuples(places, st.sampled_from(["..", ".", "../..", "none", "../none/.."])).map("/".join),
    st.sampled_from([".", "..", "../..", "/", "$W", "$O", "$W/", "a/", "$O/none", "none", "../../ws", "$W/../out/a"]),
)
entries = st.tuples(
    st.sampled_from(["$W", "$W", "$W", "$O"]), places, st.sampled_from(["dir", "file", "link", "link"]), link_texts
)
inputs = st.tuples(
    st.lists(st.sampled_from([*NAMES, "a", "b", ".", "..", "none"]), min_size=1, max_size=5).map("/".join),
    st.sampled_from(["", "", "", "/", "/."]),
).map("".join)


def plant(base: Path, tree: list[tuple[str, str, str, str]]) -> tuple[str, str]:
    """Make a workspace and a directory beside it; what does not fit the tree so far is left out."""
    root, out = base / "ws", base / "out"
    root.mkdir()
    out.mkdir()
    for where, place, kind, text in tree:
        path = (root if where == "$W" else out) / place
        if not Path(os.path.realpath(path.parent)).is_relative_to(base):  # a link leads out: nothing is planted there
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "dir":
                path.mkdir()
            elif kind == "file":
                path.touch(exist_ok=False)
            else:
                path.symlink_to(text.replace("$W", str(root)).replace("$O", str(out)))
        except OSError:
            continue
    return str(root), str(out)


@given(st.lists(entries, max_size=10), st.lists(inputs, min_size=1, max_size=6))
def test_a_path_leads_where_the_kernel_would_go(tree: list[tuple[str, str, str, str]], texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as base:
        root, _ = plant(Path(base).resolve(), tree)
        for text in texts:
            check_resolution(root, text)


def check_resolution(root: str, text: str) -> None:
    found = Root.at(root).resolve_input(text)
    lexical = os.path.normpath(text)
    climbs = lexical == ".." or lexical.startswith("../")
    assert climbs == (isinstance(found, RefusedPath) and found.code == "input_escape")
    if climbs:
        return
    joined = os.path.normpath(os.path.join(root, lexical))
    if isinstance(found, RefusedPath):
        assert found.code in ("io", "not_a_directory")
        assert not os.path.exists(joined + ("/" if text.endswith(("/", "/.")) else ""))
        return
    assert found.canonical == os.path.realpath(joined)
    inside = found.canonical == root or found.canonical.startswith(f"{root}/")
    assert (found.relative is not None) == inside
    assert found.relative is None or os.path.normpath(os.path.join(root, found.relative)) == found.canonical
    assert (found.exists, found.directory) == (os.path.lexists(found.canonical), os.path.isdir(found.canonical))
    assert (found.door is not None) == (not inside)  # a tool's path starts inside: only a link of ours leads out


@given(st.lists(entries, max_size=10), st.lists(inputs, min_size=1, max_size=6), st.sampled_from(["$O", "$O/a", "/"]))
def test_what_is_allowed_lies_in_the_workspace_or_in_an_approved_target(
    tree: list[tuple[str, str, str, str]], texts: list[str], target: str
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root, out = plant(Path(base).resolve(), tree)
        approved = target.replace("$O", out)
        rules = [
            {"path": ".", "read": True},
            {"path": "a", "external": True, "approved_target": approved, "read": True},
        ]
        context = Context.from_tree({"root": root, "access": {"fs": rules}})
        for text in texts:
            allowed = ask(context, text)
            in_workspace = allowed is not None and f"{allowed}/".startswith(f"{root}/")
            in_target = allowed is not None and approved != "/" and f"{allowed}/".startswith(f"{approved}/")
            assert allowed is None or in_workspace or in_target


def ask(context: Context, text: str) -> str | None:
    try:
        return context.check_read(text)
    except FsAccessError:
        return None


@given(st.lists(entries, max_size=10), inputs)
def test_a_path_inside_reads_the_same_from_a_tool_and_from_an_agent(
    tree: list[tuple[str, str, str, str]], text: str
) -> None:
    assume(".." not in text)
    with tempfile.TemporaryDirectory() as base:
        path, _ = plant(Path(base).resolve(), tree)
        root = Root.at(path)
        by_tool, relative, absolute = (
            root.resolve_input(text),
            root.resolve_any(text),
            root.resolve_any(f"{path}/{text}"),
        )
    if isinstance(by_tool, RefusedPath):
        assert (relative, absolute) == (relative, relative)
        assert isinstance(relative, RefusedPath)
    else:
        assert (relative, absolute) == (by_tool, by_tool)


def code_or_place(found: FsTarget | RefusedPath, root: Path) -> str:
    if isinstance(found, RefusedPath):
        return found.code
    return f"{os.path.relpath(found.canonical, root)} {'there' if found.exists else 'missing'}"


LINKS: list[tuple[str, dict[str, str], str, str]] = [
    ("a chain that leaves and comes back is inside", {"out": "$EXT", "$EXT/back": "$ROOT/a"}, "out/back", "a there"),
    (
        "a chain that comes back and leaves again is outside",
        {"out": "$EXT", "$EXT/back": "$ROOT/again", "again": "$EVIL"},
        "out/back/x",
        "../evil/x missing",
    ),
    ("a link to the workspace itself adds nothing", {"self": "."}, "self/self/a", "a there"),
    ("an absolute link to the workspace adds nothing", {"self": "$ROOT"}, "self/a", "a there"),
    ("a link to the parent leads outside", {"up": ".."}, "up", ".. there"),
    ("a link to the parent and back is inside", {"up": ".."}, "up/ws/a", "a there"),
    ("a link cannot climb above the root of all", {"top": "/../../.."}, "top", "TOP there"),
    ("a link that climbs out of a missing name is refused", {"l": "none/../../evil"}, "l", "io"),
    ("a link that climbs out of a file is refused", {"l": "a/file/../../../evil"}, "l", "not_a_directory"),
    ("a link with a slash at its end wants a directory", {"l": "a/file/"}, "l", "not_a_directory"),
    ("a link to a missing directory is a missing name", {"l": "none/"}, "l", "none missing"),
    ("a link that climbs within stays within", {"a/l": "../b/../a"}, "a/l/file", "a/file there"),
    ("a dangling link leads to what it names", {"l": "$EVIL/new"}, "l", "../evil/new missing"),
    (
        "a dangling link below a link leads to what it names",
        {"l": "a/m", "a/m": "$EVIL/new"},
        "l/x",
        "../evil/new/x missing",
    ),
    ("a loop is refused", {"l": "m", "m": "l"}, "l/x", "io"),
    ("a link to itself is refused", {"l": "l"}, "l", "io"),
    ("a link through a loop below is refused", {"a/l": "../a/l/x"}, "a/l", "io"),
    ("a tilde is a name like any other", {}, "~/x", "~/x missing"),
    ("an empty path is the workspace", {}, "", ". there"),
    ("dots are the workspace", {}, "./././", ". there"),
    ("a name that only begins with dots is a name", {}, "..a/...", "..a/... missing"),
    ("a backslash is a character of a name", {}, "a\\..\\..\\x", "a\\..\\..\\x missing"),
    ("a leading backslash is absolute", {}, "\\x", "absolute"),
    ("a share is absolute", {}, "//srv/x", "absolute"),
    ("a drive is absolute", {}, "c:\\x", "absolute"),
    ("a path relative to a drive is refused", {}, "c:x", "denied"),
    ("a stream is refused", {}, "a/file::$DATA", "denied"),
    ("a device is refused", {}, "a/Con .txt", "denied"),
    ("NUL is refused", {}, "a\0b", "denied"),
    ("a delete character is refused", {}, "a\x7f", "denied"),
    ("half a character is refused", {}, "a\ud800", "denied"),
    ("half a character behind a missing name is refused", {}, "none/\ud83d", "denied"),
    ("a byte that is not UTF-8 is a name", {}, "\udcff", "\udcff missing"),
    ("ten thousand directories are refused", {}, "x/" * 10_000, "denied"),
    ("ten thousand dots are refused", {}, "./" * 10_000, "denied"),
    ("ten thousand steps up are refused", {}, "../" * 10_000, "denied"),
    ("a thousand directories are a name", {}, "x/" * 1000, "x/" * 999 + "x missing"),
    ("a name of 256 bytes is refused", {}, "\u00e9" * 128, "denied"),
    ("a name of 254 bytes is a name", {}, "\u00e9" * 127, "\u00e9" * 127 + " missing"),
    ("below a file is nothing", {}, "a/file/x", "not_a_directory"),
    ("a file is no directory", {}, "a/file/", "not_a_directory"),
    ("a link to a file is no directory", {"l": "a/file"}, "l/", "not_a_directory"),
]


@pytest.mark.parametrize(("links", "text", "expected"), [row[1:] for row in LINKS], ids=[row[0] for row in LINKS])
def test_a_path_is_resolved_as_said(links: dict[str, str], text: str, expected: str, stage: Build) -> None:
    scene = stage({"files": {"a/file": "x", "b/file": "x"}, "symlinks": links})
    found = Root.at(str(scene.root)).resolve_input(text)
    assert code_or_place(found, scene.root).replace(os.path.relpath("/", scene.root), "TOP") == expected


def test_forty_links_are_followed_and_not_one_more(stage: Build) -> None:
    links = {f"l{number}": f"l{number + 1}" for number in range(41)} | {"l41": "a"}
    scene = stage({"dirs": ["a"], "symlinks": links})
    root = Root.at(str(scene.root))
    assert (
        code_or_place(root.resolve_input("l2"), scene.root),
        code_or_place(root.resolve_input("l1"), scene.root),
    ) == (
        "a there",
        "io",
    )


DOORS = [
    ("out/x", "out/x"),
    ("alias/x", "out/x"),
    ("dir/deep/x", "a/deep/x"),
    ("again/back/out/x", "out/x"),
    ("climb", "climb"),
    ("out", "out"),
]


@pytest.mark.parametrize(("text", "door"), DOORS)
def test_what_lies_outside_is_named_by_the_last_link_that_led_there(text: str, door: str, stage: Build) -> None:
    links = {"out": "$EXT", "alias": "out", "dir": "a", "a/deep": "$EXT", "again": "$EXT", "climb": "out/sub/../x"}
    scene = stage({"dirs": ["a", "$EXT/sub"], "symlinks": {**links, "$EXT/back": "$ROOT"}})
    found = Root.at(str(scene.root)).resolve_input(text)
    assert isinstance(found, FsTarget)
    assert (found.relative, found.door) == (None, door)


ROOTS = ["plain", "with blank ", "line\n", "co:lon", "\u202eevil", "byte\udcff", "caf\u00e9", "-dash", "..."]


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_may_have_any_name(name: str, tmp_path: Path) -> None:
    path = f"{tmp_path.resolve()}/{name}"
    os.mkdir(path)
    Path(f"{path}/file").touch()
    root = Root.at(path)
    found = [root.resolve_input("file"), root.resolve_any("file"), root.resolve_any(f"{path}/file")]
    assert found == [FsTarget(f"{path}/file", "file")] * 3


def test_a_root_that_is_a_link_is_the_directory_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    root = Root.at(f"{tmp_path}/link/")
    assert root.path == str(tmp_path.resolve() / "real")
    assert root.resolve_any(f"{tmp_path}/link/x") == root.resolve_input("x")


def test_the_root_of_all_holds_everything() -> None:
    root = Root.at("/")
    found = root.resolve_input("usr")
    assert isinstance(found, FsTarget)
    assert (found.canonical, found.relative, found.door) == ("/usr", "usr", None)
    assert root.resolve_input(".") == FsTarget("/", "", directory=True)


@pytest.mark.parametrize("path", ["", "none", "file", "a\0b", "\ud800", "x" * 5000])
def test_a_root_that_is_no_directory_is_an_input_error(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be used"):
        Root.at(f"{tmp_path}/{path}" if path else path)


AGENT_PATHS: list[tuple[str, str | None, str]] = [
    ("a", None, "a there"),
    ("$ROOT/a", None, "a there"),
    ("$ROOT/a/", None, "a there"),
    ("file", "$ROOT/a", "a/file there"),
    ("../b", "$ROOT/a", "b there"),
    ("$EXT/x", None, "../ext/x missing"),
    ("../ext/x", None, "../ext/x missing"),
    ("out/../a", None, "escape"),
    ("out/../ext", None, "escape"),
    ("a/../b", None, "b there"),
    ("~/x", None, "../evil/x missing"),
    ("~", None, "../evil there"),
    ("~root/x", None, "~root/x missing"),
    ("a:b", None, "denied"),
]


@pytest.mark.parametrize(("text", "cwd", "expected"), AGENT_PATHS)
def test_an_agents_path_is_resolved_from_where_it_stands(
    text: str, cwd: str | None, expected: str, stage: Build
) -> None:
    scene = stage({"files": {"a/file": "x", "b/file": "x"}, "symlinks": {"out": "$EXT"}})
    found = Root.at(str(scene.root)).resolve_any(scene.fill(text), scene.fill(cwd), home=str(scene.evil))
    assert code_or_place(found, scene.root) == expected


def test_an_unreadable_directory_is_an_error_and_no_missing_name(stage: Build) -> None:
    scene = stage({"files": {"locked/x": "x"}})
    (scene.root / "locked").chmod(0)
    found = Root.at(str(scene.root)).resolve_input("locked/x")
    (scene.root / "locked").chmod(0o700)
    expected = "locked/x there" if os.geteuid() == 0 else "io"  # nothing is unreadable for root
    assert code_or_place(found, scene.root) == expected
