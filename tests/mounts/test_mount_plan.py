"""What a mount would do, said without doing it: every sample case, every example of the seed, every refusal."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from byleave.errors import MountError
from byleave.mounts.apply import mount
from byleave.mounts.plan import MountRequest, plan_mounts
from mount_scene import MOUNT_RULE, NOW, OPEN_RULE, TOOLS, MountScene
from stage import load_cases

CASES = load_cases("mount_dry_run.jsonl")


@pytest.fixture
def scene(tmp_path: Path, own_home: Path) -> MountScene:
    return MountScene.build(tmp_path, own_home)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_dry_run_answers_as_the_case_says(case: dict[str, Any], scene: MountScene) -> None:
    filled = json.loads(json.dumps(case).replace("$EXT", str(scene.ext)))
    before = scene.picture()
    done = scene.run("mount", "--dry-run", "--json", filled["spec"], cwd=filled["cwd"])
    answer, expect = json.loads(done.out), filled["expect"]
    if "error" in expect:
        assert (done.code, answer["error"]["code"]) == (2, expect["error"])
    else:
        assert (done.code, {key: answer[key] for key in expect}) == (0, expect)
    assert scene.picture() == before


# The names of the seed's section on NAME, each with the directory it is typed in and where the link stands.
NAMES = [
    (".", "foo/bar/baz", "foo/bar/baz"),
    ("foo", "baz", "foo/baz"),
    ("foo", "../qux/baz", "qux/baz"),
    ("foo", "../baz", "baz"),
    (".", "fork/", "fork"),
    (".", "./foo/.././fork", "fork"),
    ("foo", "./../foo//baz/.", "foo/baz"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("cwd", "name", "rule_path"), NAMES)
def test_a_name_is_relative_to_the_working_directory(cwd: str, name: str, rule_path: str, scene: MountScene) -> None:
    assert scene.dry(f"{name}={scene.ext}", cwd)["rule_path"] == rule_path
    assert scene.run("mount", "--yes", f"{name}={scene.ext}", cwd=cwd).code == 0
    assert (scene.root / rule_path).readlink() == scene.ext
    assert [each["name"] for each in scene.answer("mount", "--list")] == [rule_path]
    assert scene.may("read", f"{rule_path}/x") == "allow"


OUTSIDE = {"ws/foo/fork": "foo/fork", "./ext/../ws/fork": "fork", "foo/fork": None, "../fork": None, "wsx/fork": None}


@pytest.mark.parametrize(("name", "rule_path"), OUTSIDE.items())
def test_outside_the_workspace_a_name_must_lead_into_it(name: str, rule_path: str | None, scene: MountScene) -> None:
    words = ("--root", str(scene.root), "mount", "--dry-run", f"{name}={scene.ext}")
    answer = scene.answer(*words, cwd="..")
    assert answer.get("rule_path") == rule_path
    assert ("error" in answer) == (rule_path is None)
    if rule_path is None:
        assert answer["error"]["code"] == "outside_workspace"


def test_storage_of_another_program_is_protected_behind_its_link_too(scene: MountScene) -> None:
    (scene.root / "store").mkdir()
    put(scene, {".jp": "store"})
    assert [scene.code_of(f"{name}={scene.ext}") for name in ("store/n", ".jp/n")] == ["managed_storage"] * 2
    (scene.root / ".jp").unlink()
    put(scene, {".jp": str(scene.evil)})
    assert scene.code_of(f"fork={scene.evil}") == "managed_storage"
    assert scene.dry(f"fork={scene.ext}")["rule_path"] == "fork"


def put(scene: MountScene, links: dict[str, str]) -> None:
    for name, target in links.items():
        (scene.root / name).parent.mkdir(parents=True, exist_ok=True)
        (scene.root / name).symlink_to(target)


REFUSED_NAMES = {
    "climbs out": ("../baz", "outside_workspace"),
    "climbs out and in again": ("../ws/baz", "outside_workspace"),
    "climbs far": ("foo/../../../../etc/x", "outside_workspace"),
    "absolute": ("/fork", "outside_workspace"),
    "rooted": ("\\fork", "outside_workspace"),
    "behind a link that leads out": ("out/fork", "outside_workspace"),
    "behind a dangling link that leads out": ("gone/fork", "outside_workspace"),
    "the root": (".", "not_a_symlink"),
    "the root, the long way": ("foo/..", "not_a_symlink"),
    "a directory": ("src", "not_a_symlink"),
    "a file": ("file", "not_a_symlink"),
    "below a file": ("file/fork", "not_a_symlink"),
    "below a loop": ("loop/fork", "invalid_name"),
    "byleave.toml": ("byleave.toml", "managed_storage"),
    "Byleave.TOML": ("Byleave.TOML", "managed_storage"),
    ".byleave": (".byleave", "managed_storage"),
    "in .byleave": (".byleave/x/y", "managed_storage"),
    "in .BYLEAVE": (".BYLEAVE/x", "managed_storage"),
    "round about": ("foo/../.byleave/x", "managed_storage"),
    "in .byleave by a link": ("own/fork", "managed_storage"),
    ".jp": (".jp", "managed_storage"),
    "in .JP": (".JP/x", "managed_storage"),
    "hook settings": (".claude/settings.json", "managed_storage"),
    "above hook settings": (".claude", "managed_storage"),
    "hook settings of another": (".cursor/hooks.json", "managed_storage"),
    "a control character": ("a\x1bb", "invalid_name"),
    "a newline": ("a\nb", "invalid_name"),
    "a device": ("foo/con", "invalid_name"),
    "a colon": ("fs_read_file:a:b", "invalid_name"),
    "too long": ("a" * 256, "invalid_name"),
    "not UTF-8": ("a\udcff", "invalid_name"),
    "a link to elsewhere": ("out", "other_target"),
    "a dangling link": ("gone", "other_target"),
    "a loop": ("loop", "other_target"),
    "a link inside": ("inside", "other_target"),
}


@pytest.mark.parametrize(("name", "code"), REFUSED_NAMES.values(), ids=REFUSED_NAMES.keys())
def test_a_name_that_cannot_be_mounted_is_refused(name: str, code: str, scene: MountScene) -> None:
    (scene.root / "file").write_text("")
    (scene.root / ".byleave").mkdir()
    own = {"own": ".byleave", "inside": "src", "loop": "loop"}
    put(scene, {"out": str(scene.evil), "gone": str(scene.evil / "gone"), **own})
    before = scene.picture()
    assert scene.code_of(f"{name}={scene.ext}") == code
    done = scene.run("mount", "--yes", f"{name}={scene.ext}")
    assert (done.code, [char for char in done.err if not char.isprintable() and char != "\n"]) == (2, [])
    assert scene.picture() == before


def test_a_name_that_holds_a_nul_is_refused(scene: MountScene) -> None:
    for spec in (f"a\0b={scene.ext}", f"ab={scene.ext}\0"):
        with pytest.raises(MountError) as refused:
            plan_mounts(scene.workspace, MountRequest((spec,), str(scene.root)))
        assert refused.value.code in ("invalid_name", "missing_target")


def test_a_link_to_elsewhere_is_refused_with_both_targets_in_sight(scene: MountScene) -> None:
    put(scene, {"fork": str(scene.evil)})
    message = scene.answer("mount", "--yes", f"fork={scene.ext}")["error"]["message"]
    assert str(scene.evil) in message
    assert str(scene.ext) in message


def test_targets_that_cannot_be_mounted_are_refused(scene: MountScene) -> None:
    os.mkfifo(scene.evil / "fifo")
    put(scene, {"out": str(scene.ext)})
    (scene.evil / "back").symlink_to(scene.root / "src")
    (scene.home / ".claude").mkdir()
    expected = {
        str(scene.ext / "missing"): "missing_target",
        f"{scene.ext}/x/": "missing_target",
        f"{scene.ext}/x/y": "missing_target",
        str(scene.evil / "fifo"): "missing_target",
        "/dev/null": "missing_target",
        "src": "inside_workspace",
        ".": "inside_workspace",
        str(scene.root): "inside_workspace",
        str(scene.evil / "back"): "inside_workspace",
        str(scene.root.parent): "contains_workspace",
        "..": "contains_workspace",
        "/": "contains_workspace",
        "~": "managed_storage",
        "~/workspaces": "managed_storage",
        str(scene.home / "config.toml"): "managed_storage",
    }
    (scene.home / "workspaces").mkdir(exist_ok=True)
    assert {path: scene.code_of(f"fork={path}") for path in expected} == expected


@pytest.mark.parametrize("path", ["~/forks/serde", "../home-of-mine/forks/serde"])
def test_a_path_is_expanded_and_relative_to_the_working_directory(
    path: str, scene: MountScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = scene.root.parent / "home-of-mine"
    (home / "forks/serde").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    answer = scene.dry(f"fork={path}")
    assert (answer["path"], answer["target"]) == (path, str(home / "forks/serde"))


def test_the_home_of_another_user_is_expanded_too(scene: MountScene) -> None:
    message = scene.dry(f"fork=~root/{scene.ext.name}-that-is-not-there")["error"]["message"]
    assert "No such file or directory" in message
    assert scene.dry("fork=~nobody-of-that-name/x")["error"]["code"] == "missing_target"


def test_the_path_is_shown_without_its_mode_and_the_target_is_canonical(scene: MountScene) -> None:
    (scene.evil / "way").symlink_to(scene.ext)
    answer = scene.dry(f"fs_read_file:fork={scene.evil}/way:rw")
    assert (answer["path"], answer["target"], answer["mode"]) == (f"{scene.evil}/way", str(scene.ext), "rw")


UNKNOWN = {
    "nobody:fork=$EXT": "not configured",
    "far:fork=$EXT": "no local tool",
    "built:fork=$EXT": "no local tool",
}


@pytest.mark.parametrize(("spec", "why"), UNKNOWN.items())
def test_only_local_tools_get_a_mount(spec: str, why: str, scene: MountScene) -> None:
    scene.configure(f'{TOOLS}[tools.far]\nsource = "mcp.s"\n[tools.built]\nsource = "builtin"\n')
    answer = scene.dry(spec.replace("$EXT", str(scene.ext)))["error"]
    assert (answer["code"], why in answer["message"]) == ("unknown_tool", True)


@pytest.mark.parametrize("tools", ["", '[tools.t]\nsource = "local"\nenable = false\n', '[tools.b]\nsource="builtin"'])
def test_without_an_enabled_local_tool_there_is_nobody_to_mount_for(tools: str, scene: MountScene) -> None:
    scene.configure(tools)
    error = scene.dry(f"fork={scene.ext}")["error"]
    assert (error["code"], "no enabled local tool" in error["message"]) == ("unknown_tool", True)


def test_a_mount_for_all_leaves_out_disabled_and_distant_tools(scene: MountScene) -> None:
    more = '[tools.off]\nsource="local"\nenable=false\n[tools.far]\nsource="mcp.s"\n[tools."a b"]\nsource="local"\n'
    scene.configure(TOOLS + more)
    assert scene.dry(f"fork={scene.ext}")["tools"] == ["a b", "fs_modify_file", "fs_read_file"]
    assert scene.dry(f"off:fork={scene.ext}")["tools"] == ["off"]


RUNTIMES = {
    "stdio, nothing declared": ("", [OPEN_RULE, MOUNT_RULE]),
    "stdio, other rules": ('[[tools.t.access.env]]\nname = "A"\nread = true', [OPEN_RULE, MOUNT_RULE]),
    "stdio, file rules": ('[[tools.t.access.fs]]\npath = "src"', [MOUNT_RULE]),
    "vfs, nothing declared": ('runtime = "vfs"', [{"path": ".", "read": True}, MOUNT_RULE]),
    "vfs, other rules": ('runtime = "vfs"\n[[tools.t.access.env]]\nname = "A"\nread = true', [MOUNT_RULE]),
    "vfs, file rules": ('runtime = "vfs"\n[[tools.t.access.fs]]\npath = "src"', [MOUNT_RULE]),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("tool", "rules"), RUNTIMES.values(), ids=RUNTIMES.keys())
def test_a_tool_without_file_rules_keeps_what_it_had(tool: str, rules: list[Any], scene: MountScene) -> None:
    scene.configure(f'[tools.t]\nsource = "local"\n{tool}\n')
    kinds = ("read", "create", "exec")
    before = [scene.may(kind, "src/y", "t") for kind in kinds]
    assert scene.dry(f"fork={scene.ext}")["rules"] == {"t": rules}
    assert scene.run("mount", "--yes", f"fork={scene.ext}").code == 0
    assert scene.may("read", "fork/x", "t") == "allow"
    assert scene.may("update", "fork/x", "t") == "deny"
    after = [scene.may(kind, "src/y", "t") for kind in kinds]
    assert after == [{"ask": "deny"}.get(decision, decision) for decision in before]


VFS = '[tools.t]\nsource = "local"\nruntime = "vfs"\n'
NET = '[[tools.t.access.net]]\nhost = "example.com"\nallow = true\n'


def test_a_mount_does_not_open_other_things_to_a_tool_that_declared_nothing(scene: MountScene) -> None:
    scene.configure(VFS)

    def others() -> list[str]:
        policy = scene.workspace.load()
        asked: list[dict[str, Any]] = [
            {"kind": "url", "url": "https://example.com/"},
            {"kind": "env", "name": "HOME"},
            {"kind": "spawn", "program": "ls", "args": []},
        ]
        return [str(policy.decide({**action, "tool": "t"}).decision) for action in asked]

    seen = [others()]
    for words in (("mount", "--yes", f"t:fork={scene.ext}"), ("unmount", "--yes")):
        assert scene.run(*words).code == 0
        seen.append(others())
    assert seen == [["deny"] * 3] * 3


def test_unmounting_leaves_what_a_tool_declared_elsewhere(scene: MountScene) -> None:
    scene.configure(f'{VFS}[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    asked = {"kind": "url", "url": "https://example.com/", "tool": "t"}
    seen = [str(scene.workspace.load().decide(asked).decision)]
    for words in (("mount", "--yes", f"t:fork={scene.ext}"), ("unmount", "--yes")):
        assert scene.run(*words).code == 0
        seen.append(str(scene.workspace.load().decide(asked).decision))
    assert seen == ["ask"] * 3


def test_a_tool_that_was_asked_about_every_file_is_said_to_be_closed(scene: MountScene) -> None:
    scene.configure(VFS + NET)
    told = "t was asked about every file so far; from now on all others are denied"
    dry, done, again = [scene.run("mount", *flags, "--yes", f"t:fork={scene.ext}") for flags in (["--dry-run"], [], [])]
    assert [told in said.err for said in (dry, done, again)] == [True, True, False]


def test_a_dry_run_warns_of_secrets_too(scene: MountScene, monkeypatch: pytest.MonkeyPatch) -> None:
    home = scene.root.parent / "person"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    done = scene.run("mount", "--dry-run", "fs_read_file:keys=~/.ssh")
    assert (done.code, "fs_read_file will reach keys, a sensitive place (~/.ssh)" in done.err) == (0, True)


def test_file_rules_of_a_file_nobody_trusts_are_not_undone_by_a_mount(scene: MountScene) -> None:
    (scene.root / "byleave.toml").write_text('[[tools.fs_read_file.access.fs]]\npath = "src"\nread = true\n')
    assert (scene.may("read", "src/y"), scene.may("read", "foo/y")) == ("allow", "deny")
    assert scene.code_of(f"fork={scene.ext}") == "untrusted"
    assert scene.run("trust", "--yes").code == 0
    assert scene.run("mount", "--yes", f"fork={scene.ext}").code == 0
    assert (scene.may("read", "src/y"), scene.may("read", "foo/y")) == ("allow", "deny")


OLD = '[tools.old]\nsource = "local"\nsandbox.filesystem.allow = ["src"]\n'


def test_a_tool_with_rules_in_the_older_spelling_is_refused_by_name_and_else_left_out(scene: MountScene) -> None:
    scene.configure(TOOLS + OLD)
    error = scene.dry(f"old:fork={scene.ext}")["error"]
    assert (error["code"], '"old"' in error["message"]) == ("older_rules", True)
    done = scene.run("mount", "--yes", "--json", f"fork={scene.ext}")
    assert json.loads(done.out)["tools"] == ["fs_modify_file", "fs_read_file"]
    assert "old is left out: its rules are in the older `sandbox` form" in done.err
    scene.configure(OLD)
    assert scene.code_of(f"other={scene.ext}") == "older_rules"


# What stands in the workspace before, the name that is mounted, and how the rule is called.
DOORS: dict[str, tuple[dict[str, str], str, str]] = {
    "plain": ({}, "fork", "fork"),
    "a parent that is a link": ({"alias": "foo"}, "alias/fork", "foo/fork"),
    "a parent behind two links": ({"alias": "again", "again": "foo"}, "alias/fork", "foo/fork"),
    "a parent behind a dangling link": ({"alias": "new"}, "alias/deep/fork", "new/deep/fork"),
    "a link that stands there": ({"fork": "$EXT"}, "fork", "fork"),
    "a link to a link that leads out": ({"fork": "bar", "bar": "$EXT"}, "fork", "bar"),
    "an odd name": ({}, 'f"o\\ r#k.é', 'f"o\\ r#k.é'),
}


@pytest.mark.parametrize("kind", ["directory", "file"])
@pytest.mark.parametrize(("links", "name", "rule_path"), DOORS.values(), ids=DOORS.keys())
def test_the_rule_is_called_what_the_compiler_calls_it(
    links: dict[str, str], name: str, rule_path: str, kind: str, scene: MountScene
) -> None:
    target = scene.ext if kind == "directory" else scene.ext / "x"
    put(scene, {link: text.replace("$EXT", str(target)) for link, text in links.items()})
    request = MountRequest((f"fs_read_file:{name}={target}",), str(scene.root))
    done = mount(scene.workspace, plan_mounts(scene.workspace, request), now=NOW).plans[0]
    compiled = scene.workspace.load().compiled
    assert [external.rule.path for external in compiled.externals] == [rule_path] == [done.rule_path]
    assert [external.rule.approved_target for external in compiled.externals] == [str(target)]
    assert scene.may("read", name if kind == "file" else f"{name}/x") == "allow"


def test_a_path_that_leads_through_the_workspace_is_linked_to_where_it_really_is(scene: MountScene) -> None:
    put(scene, {"out": str(scene.ext)})
    assert scene.run("mount", "--yes", "fs_read_file:fork=out").code == 0
    assert (scene.root / "fork").readlink() == scene.ext
    assert scene.may("read", "fork/x") == "allow"


def test_several_mounts_are_all_found_good_before_the_first_is_done(scene: MountScene) -> None:
    workspace, cwd = scene.workspace, str(scene.root)
    before = scene.picture()
    bad = {
        (f"a={scene.ext}", "b=missing"): "missing_target",
        (f"a={scene.ext}", f"a={scene.evil}"): "other_target",
        (f"a={scene.ext}", f"a/b={scene.evil}"): "outside_workspace",
        (f"a/b={scene.ext}", f"a={scene.evil}"): "not_a_symlink",
        (f"a={scene.ext}", "fork"): "missing_equals",
    }
    for specs, code in bad.items():
        with pytest.raises(MountError) as refused:
            plan_mounts(workspace, MountRequest(specs, cwd))
        assert refused.value.code == code
    assert scene.picture() == before


def test_several_mounts_are_done_together(scene: MountScene) -> None:
    specs = (f"a/b/one={scene.ext}", f"a/b/two={scene.evil}:ro", f"fs_read_file:a/b/two={scene.evil}:rw")
    planned = plan_mounts(scene.workspace, MountRequest(specs, str(scene.root)))
    one, two, again = planned.plans
    assert [plan.directories for plan in planned.plans] == [("a", "a/b"), (), ()]
    assert (one.rules["fs_read_file"][0], len(two.rules["fs_read_file"])) == (OPEN_RULE, 1)
    assert (again.link, list(again.rules["fs_read_file"])) == (None, [{**MOUNT_RULE, "path": "a/b/two", "write": True}])
    mount(scene.workspace, planned, now=NOW)
    assert scene.approved() == {"a/b/one": str(scene.ext), "a/b/two": str(scene.evil)}
    assert [scene.may("create", path) for path in ("a/b/one/n", "a/b/two/n", "src/n")] == ["deny", "allow", "allow"]
    assert [scene.may("read", f"a/b/{name}/n", "fs_modify_file") for name in ("one", "two")] == ["allow", "allow"]
