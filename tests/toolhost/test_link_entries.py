"""Deleting and moving a link does that to the link, in both runtimes; what rules rest on stays where it is."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from byleave.core.action import FileAction, MoveAction
from byleave.core.redact import SecretFilter
from byleave.errors import RequestError, UnsafePathError
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.sdk.context import Context
from byleave.sdk.vfs_results import AccessDenied, AlreadyExists, InvalidParams, NotFound, VfsError
from byleave.toolhost.context import access_tree
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.methods import MethodService
from byleave.tools.direct import DirectHost
from byleave.workspace.on_disk import ProjectOnDisk
from command import byleave
from sandbox.machine import needs_sandbox
from toolhost.workshop import ASKS, Workshop, asker, told, toml

if TYPE_CHECKING:
    from byleave.core.fs_rules import FsTarget
    from byleave.guard.guard import Guard

READ, WRITE = {"read": True}, {"read": True, "write": True}
USUAL: list[dict[str, Any]] = [{"path": ".", **READ}, {"path": "work", **WRITE}, {"path": "shut"}]
NUMBERS: dict[type, int] = {InvalidParams: -32602, AccessDenied: -32001, NotFound: -32002, AlreadyExists: -32003}


class Scene:
    """A workspace with links, and one tool that may write to `work`."""

    def __init__(self, base: Path, grants: list[dict[str, Any]], runtime: str, **more: Any) -> None:
        self.root = base / "ws"
        for name in ("work/sub", "kept", "shut"):
            (self.root / name).mkdir(parents=True)
        (base / "outside").mkdir()
        files = ("work/file", "work/sub/deep", "kept/file", "shut/file", "../outside/file")
        for name in files:
            (self.root / name).write_text(name)
        links = {
            "work/to-file": "file",
            "work/to-kept": "../kept/file",
            "work/to-shut": "../shut/file",
            "work/to-dir": "sub",
            "work/dangling": "nowhere",
            "work/loop": "loop",
            "work/below-a-file": "file/below",
            "work/out": str(base / "outside" / "file"),
            "work/out-dangling": str(base / "outside" / "nothing"),
            "work/process": "/proc/self/cwd",
            "kept/link": "../work/file",
        }
        for name, leads in links.items():
            os.symlink(leads, self.root / name)
        tool = {"source": "local", "access": {"fs": grants}}
        tree = {**more, "tools": {"t": tool}}
        (base / "policy.toml").write_text("".join(f"{key} = {toml(value)}\n" for key, value in tree.items()))
        self.workspace = Workspace(str(self.root))
        self.guard: Guard = guard_for(self.workspace, "call", files=[str(base / "policy.toml")], client_approves=None)
        self.before = self.all()
        self.host = self._direct() if runtime == "stdio" else None
        self._service = MethodService(self.guard, "t", ProjectOnDisk(self.workspace.root), SecretFilter())

    def _direct(self) -> DirectHost:
        access = access_tree(self.guard.policy.compiled.policy.tool("t").access)
        return DirectHost(Context.from_tree({"root": str(self.root), "action": "run", "access": access}), {"name": "t"})

    def all(self) -> dict[str, str | None]:
        """Everything there is: where links lead, what files hold, None for directories."""
        found: dict[str, str | None] = {}
        for path in sorted(self.root.parent.rglob("*")):
            name = os.path.relpath(path, self.root)
            if name in ("../policy.toml", "../ws"):
                continue
            found[name] = (
                f"-> {os.readlink(path)}" if path.is_symlink() else None if path.is_dir() else path.read_text()
            )
        return found

    def entry(self, path: str) -> "FsTarget":
        found: Any = self.workspace.root.resolve_entry(path)
        return found  # type: ignore[no-any-return]

    def delete(self, path: str) -> int:
        """Delete, and return the number of the refusal; 0 if there was none."""
        return self._do("fs.delete", path=path)

    def move(self, path: str, to: str) -> int:
        return self._do("fs.rename", **{"from": path, "to": to})

    def write(self, path: str) -> int:
        return self._do("fs.write", path=path, content="new")

    def _do(self, method: str, **params: Any) -> int:
        try:
            if self.host is None:
                self._service.serve(method, params, Deadline())
            elif method == "fs.delete":
                self.host.delete(params["path"])
            elif method == "fs.write":
                self.host.write(params["path"], params["content"])
            else:
                self.host.rename(params["from"], params["to"])
        except RequestError as error:
            return error.number
        except VfsError as error:
            return error.code or NUMBERS.get(type(error), -1)
        return 0

    def changes(self) -> dict[str, str | None]:
        """What has changed: new names with what they are, gone ones as "gone"."""
        now = self.all()
        gone = dict.fromkeys(self.before.keys() - now.keys(), "gone")
        return {**gone, **{name: what for name, what in now.items() if self.before.get(name, "") != what}}


@pytest.fixture(params=["vfs", "stdio"])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scene(tmp_path: Path, runtime: str) -> Iterator[Scene]:
    made = Scene(tmp_path.resolve(), USUAL, runtime)
    yield made
    made.guard.close()


LINKS = ("to-file", "to-kept", "to-shut", "to-dir", "dangling", "loop", "below-a-file")


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_deleted_itself_wherever_it_leads(scene: Scene, name: str) -> None:
    assert scene.delete(f"work/{name}") == 0
    assert scene.changes() == {f"work/{name}": "gone"}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_moved_itself_wherever_it_leads(scene: Scene, name: str) -> None:
    leads = os.readlink(scene.root / "work" / name)
    assert scene.move(f"work/{name}", "work/new/moved") == 0
    assert scene.changes() == {f"work/{name}": "gone", "work/new": None, "work/new/moved": f"-> {leads}"}


@pytest.mark.parametrize("name", LINKS)
def test_a_file_that_is_moved_onto_a_link_takes_the_place_of_the_link(scene: Scene, name: str) -> None:
    assert scene.move("work/sub/deep", f"work/{name}") == 0
    assert scene.changes() == {"work/sub/deep": "gone", f"work/{name}": "work/sub/deep"}


def test_a_directory_is_not_moved_onto_a_link(scene: Scene) -> None:
    assert [scene.move("work/sub", f"work/{name}") for name in LINKS] == [-32003] * len(LINKS)
    assert scene.changes() == {}


@pytest.mark.parametrize("name", ["out", "out-dangling", "process"])
def test_a_link_that_leads_out_is_neither_deleted_nor_moved_nor_replaced(scene: Scene, name: str) -> None:
    acts = [
        scene.delete(f"work/{name}"),
        scene.move(f"work/{name}", "work/new"),
        scene.move("work/file", f"work/{name}"),
    ]
    assert (acts, scene.changes()) == ([-32001] * 3, {})


def test_the_name_of_the_link_is_what_needs_the_grant(scene: Scene) -> None:
    """It leads to a file that may be deleted; where it stands nothing may be."""
    acts = [scene.delete("kept/link"), scene.move("kept/link", "work/new"), scene.move("work/file", "kept/link")]
    assert (acts, scene.changes()) == ([-32001] * 3, {})


def test_a_slash_at_the_end_names_what_is_behind_the_link(scene: Scene) -> None:
    assert [scene.delete("work/to-dir/"), scene.delete("work/to-file/")] == [-32602, -32002]
    assert scene.changes() == {}


def test_a_link_on_the_way_is_still_followed(scene: Scene) -> None:
    assert scene.delete("work/to-dir/deep") == 0
    assert scene.changes() == {"work/sub/deep": "gone"}


def test_a_directory_takes_its_links_along(scene: Scene) -> None:
    (scene.root / "work/sub/link").symlink_to("../../shut/file")
    scene.before = scene.all()
    assert scene.move("work/sub", "work/other") == 0
    moved = {"work/other": None, "work/other/deep": "work/sub/deep", "work/other/link": "-> ../../shut/file"}
    assert scene.changes() == {**dict.fromkeys(("work/sub", "work/sub/deep", "work/sub/link"), "gone"), **moved}


def test_what_is_missing_is_not_found(scene: Scene) -> None:
    assert [scene.delete("work/none"), scene.delete("work/none/none"), scene.move("work/none", "work/x")] == [
        -32002
    ] * 3


def test_names_that_are_not_utf_8_are_links_like_any_other(scene: Scene) -> None:
    odd = os.fsdecode(b"work/\xff\xfe")
    os.symlink("file", scene.root / odd)
    if scene.host is not None:
        scene.host.delete(odd)
    else:
        scene._service.serve("fs.delete", {"path_b64": _b64(odd)}, Deadline())  # noqa: SLF001
    assert scene.changes() == {}


def _b64(name: str) -> str:
    from base64 import b64encode

    return b64encode(os.fsencode(name)).decode()


# What rules rest on. Only the host knows how rules are written; a plain tool is told where they lead.


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[Scene]:
    """Everything may be written but what `way/in` leads to, `real`; and what a rule about `alias/**` covers."""
    base = tmp_path.resolve()
    (base / "ws" / "way").mkdir(parents=True)
    (base / "ws" / "real").mkdir()
    (base / "ws" / "closed").mkdir()
    os.symlink("../real", base / "ws" / "way" / "in")
    os.symlink("closed", base / "ws" / "alias")
    rules = [{"path": ".", **WRITE}, {"path": "way/in", **READ}, {"path": "open/up", **WRITE}]
    deny = [{"deny": {"path": "alias/**", "ops": ["create", "update", "delete"]}}]
    made = Scene(base, rules, "vfs", rules=deny)
    yield made
    made.guard.close()


def test_a_link_that_a_rule_leads_through_stays(ruled: Scene) -> None:
    acts = [
        ruled.delete("way/in"),
        ruled.move("way/in", "work/new"),
        ruled.move("work/file", "way/in"),
        ruled.move("way", "elsewhere"),
        ruled.delete("alias"),
        ruled.move("alias", "work/new"),
        ruled.move("work/file", "alias"),
    ]
    assert (acts, ruled.changes()) == ([-32001] * 7, {})


def test_no_link_is_laid_where_a_rule_leads_through(ruled: Scene) -> None:
    """A rule that grants would grant what the link leads to."""
    (ruled.root / "work/tree").mkdir()
    (ruled.root / "work/tree/up").symlink_to("../../real")
    (ruled.root / "work/harmless").mkdir()
    ruled.before = ruled.all()
    acts = [ruled.move("work/to-kept", "open"), ruled.move("work/to-kept", "open/up"), ruled.move("work/tree", "open")]
    assert (acts, ruled.changes()) == ([-32001] * 3, {})
    assert ruled.move("work/harmless", "open") == 0


def test_other_links_are_as_free_as_other_files(ruled: Scene) -> None:
    assert [ruled.delete("work/to-file"), ruled.move("work/to-kept", "kept/new")] == [0, 0]


@pytest.mark.parametrize("now", ["a file", "a directory"])
def test_what_was_judged_as_a_link_is_not_moved_as_something_else(tmp_path: Path, now: str) -> None:
    scene = Scene(tmp_path.resolve(), USUAL, "vfs")
    place, to = scene.entry("work/to-file"), scene.entry("work/new")
    (scene.root / "work/to-file").unlink()
    (scene.root / "work/to-file").write_text("") if now == "a file" else (scene.root / "work/to-file").mkdir()
    with pytest.raises(UnsafePathError, match="changed after the decision"):
        ProjectOnDisk(scene.workspace.root).rename(place, to, replace=False)
    scene.guard.close()


def test_what_was_judged_as_a_file_is_not_moved_as_a_directory(tmp_path: Path) -> None:
    scene = Scene(tmp_path.resolve(), USUAL, "vfs")
    place, to = scene.entry("work/file"), scene.entry("work/new")
    (scene.root / "work/file").unlink()
    (scene.root / "work/file").mkdir()
    with pytest.raises(UnsafePathError, match="changed after the decision"):
        ProjectOnDisk(scene.workspace.root).rename(place, to, replace=False)
    scene.guard.close()


def test_a_verdict_names_the_link_itself(tmp_path: Path) -> None:
    scene = Scene(tmp_path.resolve(), USUAL, "vfs")
    decide = scene.guard.policy.decide
    assert decide(FileAction("delete", "work/to-kept", "t")).canonical == str(scene.root / "work/to-kept")
    assert decide(FileAction("update", "work/to-kept", "t")).canonical == str(scene.root / "kept/file")
    assert decide(MoveAction("work/out", "work/new", "t")).code == "escape"
    scene.guard.close()


@pytest.mark.parametrize(
    ("path", "decision"),
    [
        ("kept/link", "deny"),  # it leads to what may be deleted, and stands where nothing may be
        ("work/to-kept", "deny"),
        ("work/to-file", "allow"),
        ("work/file", "allow"),
        ("./work/../kept/link", "deny"),
        ("work/to-dir/deep", "allow"),
    ],
)
def test_an_agent_s_own_tool_may_mean_the_link_or_what_it_leads_to(tmp_path: Path, path: str, decision: str) -> None:
    rules = [{"deny": {"path": "kept/**"}}, {"allow": {"path": "work/**"}}]
    scene = Scene(tmp_path.resolve(), USUAL, "vfs", rules=rules)
    actions: list[FileAction | MoveAction] = [
        FileAction("delete", path),
        FileAction("delete", f"{scene.root}/{path}"),
        MoveAction(path, "work/new"),
    ]
    decisions = [scene.guard.policy.decide(action).decision.word for action in actions]
    assert decisions == [decision] * 3
    scene.guard.close()


@needs_sandbox
def test_an_exclusive_rename_leaves_alone_whatever_is_there(tmp_path: Path) -> None:
    access = {"fs": [{"path": ".", **WRITE}]}
    shop = Workshop.build(tmp_path, {"t": asker(access)}, {"ask.py": ASKS, "a": "a", "b": "b"})
    (shop.root / "dangling").symlink_to("nowhere")
    moves = [("fs.rename", {"from": "a", "to": to, "exclusive": True}) for to in ("b", "dangling", "c")]
    codes = [answer.get("code", 0) for answer in told(shop, *moves)]
    assert (codes, (shop.root / "b").read_text(), (shop.root / "c").read_text()) == ([-32003, -32003, 0], "b", "a")


@needs_sandbox
@pytest.mark.parametrize("runtime", ["vfs", "stdio"])
def test_the_tool_that_moves_files_leaves_a_dangling_link_alone(tmp_path: Path, runtime: str) -> None:
    tool = {"runtime": runtime, "command": ["byleave-tool", "fs_move_file"], "access": {"fs": [{"path": ".", **WRITE}]}}
    shop = Workshop.build(tmp_path, {"t": tool}, {"a": "a"})
    (shop.root / "dangling").symlink_to("nowhere")
    outcome = shop.outcome("t", json.dumps({"source": "a", "target": "dangling"}))
    assert outcome["message"] == "dangling exists already"
    assert (os.readlink(shop.root / "dangling"), (shop.root / "a").exists()) == ("nowhere", True)


@needs_sandbox
def test_a_mount_is_neither_deleted_nor_moved_nor_replaced_and_links_in_it_are_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    (outside / "inner").symlink_to("file")
    (outside / "away").symlink_to("/etc/passwd")
    access = {"fs": [{"path": ".", **WRITE}]}
    shop = Workshop.build(tmp_path, {"t": asker(access)}, {"ask.py": ASKS, "a": "a"})
    (shop.root / "byleave.toml").write_text((tmp_path / "policy.toml").read_text())
    assert byleave("trust", "--yes", cwd=shop.root).code == 0
    assert byleave("mount", f"t:fork={outside}:rw", "--yes", cwd=shop.root).code == 0, "mounted"
    do = [
        ("fs.delete", {"path": "fork"}),
        ("fs.rename", {"from": "fork", "to": "other"}),
        ("fs.rename", {"from": "a", "to": "fork"}),
        ("fs.delete", {"path": "fork/away"}),
        ("fs.delete", {"path": "fork/inner"}),
    ]
    done = byleave("call", "t", json.dumps({"do": do}), "--json", "--no-input", cwd=shop.root)
    answers = json.loads(json.loads(done.out)["content"][0]["text"])
    assert [answer.get("code", 0) for answer in answers] == [-32001, -32001, -32001, -32001, 0], answers
    assert sorted(os.listdir(outside)) == ["away", "file"]
    assert os.readlink(shop.root / "fork") == str(outside)


def test_no_file_is_made_under_the_name_of_a_directory(scene: Scene) -> None:
    assert (scene.write("work/new/"), scene.write("work/to-dir/"), scene.changes()) == (-32602, -32602, {})
    assert (scene.write("work/new"), scene.changes()) == (0, {"work/new": "new"})
