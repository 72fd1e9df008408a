"""Mounting for real: what is granted afterwards, to whom, for how long, and what a moved link does to it."""

import json
import tomllib
from pathlib import Path

import pytest

from byleave.errors import ConfigErrors, MountError
from byleave.mounts.apply import mount
from byleave.mounts.plan import MountRequest, plan_mounts
from mount_scene import MOUNT_RULE, NOW, OPEN_RULE, TOOLS, MountScene

BOTH = ("fs_read_file", "fs_modify_file")


@pytest.fixture
def scene(tmp_path: Path, own_home: Path) -> MountScene:
    return MountScene.build(tmp_path, own_home)


def test_a_mount_lets_every_local_tool_read_and_none_write(scene: MountScene) -> None:
    assert [scene.may("read", "fork/x", tool) for tool in BOTH] == ["allow", "deny"]  # a name where nothing stands yet
    done = scene.run("mount", "--yes", f"fork={scene.ext}")
    tools = "fs_modify_file, fs_read_file"
    assert (done.code, done.out) == (0, f"mounted fork -> {scene.ext} in session default (read: {tools})\n")
    assert (scene.root / "fork").readlink() == scene.ext
    assert scene.approved() == {"fork": str(scene.ext)}
    assert [scene.may("read", "fork/x", tool) for tool in BOTH] == ["allow", "allow"]
    assert [scene.may(kind, "fork/x", "fs_read_file") for kind in ("create", "update", "delete", "exec")] == [
        "deny"
    ] * 4
    assert tomllib.loads(scene.session_file().read_text()) == {
        "tools": {
            "fs_modify_file": {"access": {"fs": [MOUNT_RULE]}},
            "fs_read_file": {"access": {"fs": [OPEN_RULE, MOUNT_RULE]}},
        }
    }


def test_check_answers_differently_before_and_after_mount_and_unmount(scene: MountScene) -> None:
    def check() -> int:
        return scene.run("check", "read", "fork/x", "--tool", "fs_modify_file").code

    codes = [check()]
    for words in (("mount", "--yes", f"fs_modify_file:fork={scene.ext}"), ("unmount", "--yes", "fork")):
        assert scene.run(*words).code == 0
        codes.append(check())
    assert codes == [20, 0, 20]


def test_one_tool_may_write_and_no_other(scene: MountScene) -> None:
    assert scene.run("mount", "--yes", f"fs_modify_file:fork={scene.ext}:rw").code == 0
    writes = ("read", "create", "update", "delete")
    assert [scene.may(kind, "fork/x", "fs_modify_file") for kind in writes] == ["allow"] * 4
    assert scene.may("read", "fork/x", "fs_read_file") == "deny"
    assert scene.may("update", "src/y", "fs_modify_file") == "allow"


def test_a_file_can_be_mounted(scene: MountScene) -> None:
    assert scene.run("mount", "--yes", f"fs_modify_file:notes={scene.ext / 'x'}:rw").code == 0
    assert scene.may("update", "notes", "fs_modify_file") == "allow"
    assert scene.may("read", "notes/y", "fs_modify_file") == "deny"


def test_mounting_again_changes_nothing_asks_nothing_and_says_so(scene: MountScene) -> None:
    spec = f"fork={scene.ext}"
    first = scene.answer("mount", "--yes", spec)
    before = (scene.picture(), scene.session_file().stat().st_ino, (scene.state / "approvals.json").stat().st_ino)
    again = scene.answer("mount", spec)
    after = (scene.picture(), scene.session_file().stat().st_ino, (scene.state / "approvals.json").stat().st_ino)
    assert (first["changed"], again["changed"], before == after) == (True, False, True)
    assert again["rules"] == {"fs_modify_file": [], "fs_read_file": []}
    assert "is mounted already" in scene.run("mount", spec).out


def test_another_mode_replaces_the_rule_and_does_not_double_it(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fs_read_file:fork={scene.ext}")
    scene.run("mount", "--yes", f"fs_read_file:fork={scene.ext}:rw")
    rules = [OPEN_RULE, {**MOUNT_RULE, "write": True}]
    assert tomllib.loads(scene.session_file().read_text())["tools"]["fs_read_file"]["access"]["fs"] == rules
    scene.run("mount", "--yes", f"fs_read_file:fork={scene.ext}:ro")
    rules = [OPEN_RULE, MOUNT_RULE]
    assert tomllib.loads(scene.session_file().read_text())["tools"]["fs_read_file"]["access"]["fs"] == rules


def test_a_tool_that_comes_later_gets_its_rule_by_mounting_again(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    scene.configure(f'{TOOLS}[tools.late]\nsource = "local"\n')
    assert scene.may("read", "fork/x", "late") == "deny"
    answer = scene.answer("mount", "--yes", f"fork={scene.ext}")
    assert answer["rules"] == {"fs_modify_file": [], "fs_read_file": [], "late": [OPEN_RULE, MOUNT_RULE]}
    assert scene.may("read", "fork/x", "late") == "allow"


def test_a_mount_holds_in_its_session_and_in_no_other(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}", "--session", "one")
    decisions = [scene.may("read", "fork/x", session=session) for session in ("one", "two", "default", "one")]
    assert decisions == ["allow", "deny", "deny", "allow"]
    listed = [scene.answer("mount", "--list", "--session", session) for session in ("one", "two")]
    assert [[each["name"] for each in found] for found in listed] == [["fork"], []]


def test_a_retargeted_link_grants_nothing_and_says_so_until_it_leads_back(scene: MountScene) -> None:
    (scene.evil / "x").write_text("secret")
    scene.run("mount", "--yes", f"fork={scene.ext}")
    link = scene.root / "fork"
    link.unlink()
    link.symlink_to(scene.evil)
    done = scene.run("check", "read", "fork/x", "--tool", "fs_read_file")
    assert (done.code, "its target is not approved" in done.out) == (20, True)
    listed = scene.answer("mount", "--list")[0]
    assert (listed["target"], listed["state"]) == (str(scene.evil), "target not approved")
    assert f"target not approved (was {scene.ext})" in scene.run("mount", "--list").out
    assert scene.code_of(f"fork={scene.ext}") == "other_target"
    link.unlink()
    assert (scene.may("read", "fork/x"), scene.answer("mount", "--list")[0]["state"]) == ("deny", "nothing there")
    link.symlink_to(scene.ext)
    assert (scene.may("read", "fork/x"), scene.answer("mount", "--list")[0]["state"]) == ("allow", "in force")


def test_a_link_inside_the_mount_does_not_lead_further(scene: MountScene) -> None:
    (scene.evil / "x").write_text("secret")
    (scene.ext / "nested").symlink_to(scene.evil)
    (scene.ext / "back").symlink_to(scene.root / "src")
    scene.run("mount", "--yes", f"fs_modify_file:fork={scene.ext}:rw")
    verdict = scene.workspace.load().decide({"kind": "read", "path": "fork/nested/x", "tool": "fs_modify_file"})
    assert (str(verdict.decision), verdict.code) == ("deny", "escape")
    assert scene.may("update", "fork/back/y", "fs_modify_file") == "allow"  # as src/y, which has a rule of its own


def test_a_mount_is_listed_with_its_tools_and_where_it_was_written(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    scene.run("mount", "--yes", f"fs_modify_file:deep/er={scene.evil}:rw")
    deep, fork = scene.answer("mount", "--list")
    assert fork.pop("source").startswith(f"{scene.session_file()}:")
    tools = {"fs_modify_file": ["read"], "fs_read_file": ["read"]}
    assert fork == {"name": "fork", "target": str(scene.ext), "tools": tools, "state": "in force"}
    assert deep["tools"] == {"fs_modify_file": ["read", "create", "update", "delete"]}
    lines = scene.run("mount", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "deep/er", "fork"]
    assert scene.run("unmount", "--yes").code == 0
    assert scene.run("mount", "--list").out == "nothing is mounted in this session\n"


MISUSED = [(), ("--list", "a=b"), ("--list", "--dry-run")]


@pytest.mark.parametrize("words", MISUSED)
def test_mount_takes_a_spec_or_list(words: tuple[str, ...], scene: MountScene) -> None:
    assert scene.run("mount", *words).code == 2


def test_a_rule_in_the_way_is_said_and_leaves_no_trace(scene: MountScene) -> None:
    scene.configure(f'{TOOLS}[[tools.fs_modify_file.access.fs]]\npath = "fork"\nread = true\n')
    before = scene.picture()
    done = scene.run("mount", "--yes", f"deep/er={scene.ext}")
    assert done.code == 0
    scene.run("unmount", "--yes", "deep/er")
    for spec in (f"fork={scene.ext}", f"fs_read_file:fork={scene.ext}"):
        done = scene.run("mount", "--yes", spec)
        assert (done.code, 'the path "fork" leads outside the workspace' in done.err) == (2, True)
        assert "nothing was mounted" in done.err
    assert not (scene.root / "fork").is_symlink()
    assert scene.approved() == {}
    assert {path for path in before if path not in scene.picture()} == set()


STRONGER = {
    "closes the path": '[[tools.t.access.fs]]\npath = "fork"\nexternal = true\n',
    "replaces all rules": '[tools.t.access]\nfs = { strategy = "replace", value = [{ path = "src", read = true }] }\n',
}


@pytest.mark.parametrize("text", STRONGER.values(), ids=STRONGER.keys())
def test_a_stronger_layer_that_withholds_it_is_said_and_nothing_is_left(text: str, scene: MountScene) -> None:
    policy = scene.root.parent / "policy.toml"
    policy.write_text(f'[tools.t]\nsource = "local"\n{text}')
    scene.configure('[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    before = scene.picture()
    done = scene.run("--policy", str(policy), "mount", "--yes", "--json", f"t:fork={scene.ext}")
    error = json.loads(done.out)["error"]
    assert (done.code, error["code"], "t could not read fork" in error["message"]) == (2, "no_effect", True)
    assert scene.picture() == before


# What the user's own layer and the file on the command line say of the tool.
OTHER_FILES = {
    "only the file is open": ('[[tools.t.access.fs]]\npath = "src"\nread = true\n', ""),
    "only the file is closed": ("", '[[tools.t.access.fs]]\npath = "src"\nread = true\n'),
    "the file has the rule": ("", '[[tools.t.access.fs]]\npath = "fork"\nexternal = true\nread = true\n'),
    "only the file knows the tool": (None, ""),
}


@pytest.mark.parametrize(("own", "given"), OTHER_FILES.values(), ids=OTHER_FILES.keys())
def test_what_suits_only_a_file_of_the_command_line_is_not_written_into_the_session(
    own: str | None, given: str, scene: MountScene
) -> None:
    policy, tool = scene.root.parent / "policy.toml", '[tools.t]\nsource = "local"\n'
    policy.write_text(tool + given)
    scene.configure("" if own is None else tool + own)
    before = scene.picture()
    done = scene.run("--policy", str(policy), "mount", "--yes", "--json", f"t:fork={scene.ext}")
    assert (done.code, json.loads(done.out)["error"]["code"]) == (2, "policy_file")
    assert scene.picture() == before


def test_a_mode_that_another_layer_overrules_is_refused(scene: MountScene) -> None:
    scene.configure(f'{TOOLS}[[tools.fs_modify_file.access.fs]]\npath = "fork"\nexternal = true\nwrite = true\n')
    scene.say_session('[tools.fs_modify_file.access]\nfs = { strategy = "prepend", value = [{ path = "qux" }] }\n')
    (scene.root / "fork").symlink_to(scene.ext)
    before = scene.picture()
    done = scene.run("mount", "--yes", "--json", f"fs_modify_file:fork={scene.ext}:ro")
    error = json.loads(done.out)["error"]
    assert (done.code, error["code"]) == (2, "no_effect")
    assert "fs_modify_file could not read fork" in error["message"]
    scene.configure(f'{TOOLS}[[tools.fs_modify_file.access.fs]]\npath="fork"\nexternal=true\nread=true\nwrite=true\n')
    error = scene.answer("mount", "--yes", f"fs_modify_file:fork={scene.ext}:ro")["error"]
    assert (error["code"], "could also create fork, whatever the mode" in error["message"]) == ("no_effect", True)
    assert scene.picture() == before


OVERLAPS = {
    "around it": (("sub", "$EXT/sub", "rw"), ("fork", "$EXT", "ro"), "would lose create at sub"),
    "below it": (("fork", "$EXT", "rw"), ("sub", "$EXT/sub", "ro"), "would lose create somewhere below fork"),
    "the same again": (("fork", "$EXT", "rw"), ("sub", "$EXT", "ro"), "would lose create at fork"),
}


@pytest.mark.parametrize(("first", "second", "why"), OVERLAPS.values(), ids=OVERLAPS.keys())
def test_a_mount_takes_nothing_away_from_an_earlier_one(
    first: tuple[str, ...], second: tuple[str, ...], why: str, scene: MountScene
) -> None:
    (scene.ext / "sub").mkdir()
    specs = [
        f"fs_modify_file:{name}={path}:{mode}".replace("$EXT", str(scene.ext)) for name, path, mode in (first, second)
    ]
    assert scene.run("mount", "--yes", specs[0]).code == 0
    before = scene.picture()
    error = scene.answer("mount", "--yes", specs[1])["error"]
    assert (error["code"], why in error["message"]) == ("takes_away", True)
    assert scene.picture() == before
    assert scene.run("mount", "--yes", specs[1].replace("fs_modify_file", "fs_read_file")).code == 0
    assert scene.run("mount", "--yes", specs[1].replace(":ro", ":rw")).code == 0


def retarget(scene: MountScene, name: str, target: str) -> None:
    (scene.root / name).unlink()
    (scene.root / name).symlink_to(target)


def test_a_mount_turned_to_another_mount_opens_nothing(scene: MountScene) -> None:
    """The other one's target was approved for the other one's name, and for what its tools may do there."""
    (scene.evil / "x").write_text("theirs")
    scene.run("mount", "--yes", f"fs_modify_file:pub={scene.ext}:rw")
    scene.run("mount", "--yes", f"fs_read_file:sec={scene.evil}")
    retarget(scene, "pub", "sec")
    for path in ("pub/x", "sec/x"):
        assert [scene.may(kind, path, "fs_modify_file") for kind in ("read", "update", "create")] == ["deny"] * 3
    assert [scene.may(kind, "sec/x", "fs_read_file") for kind in ("read", "update")] == ["allow", "deny"]
    pub, sec = scene.answer("mount", "--list")
    assert [(each["name"], each["target"], each["state"]) for each in (pub, sec)] == [
        ("pub", str(scene.evil), "target not approved"),
        ("sec", str(scene.evil), "in force"),
    ]
    retarget(scene, "pub", str(scene.ext))
    assert scene.may("update", "pub/x", "fs_modify_file") == "allow"


@pytest.mark.parametrize("order", [("pub", "sec"), ("sec", "pub")])
def test_a_mount_turned_to_another_mount_of_the_same_tool_opens_nothing(
    order: tuple[str, ...], scene: MountScene
) -> None:
    specs = {"pub": f"fs_modify_file:pub={scene.ext}:rw", "sec": f"fs_modify_file:sec={scene.evil}"}
    for name in order:
        assert scene.run("mount", "--yes", specs[name]).code == 0
    retarget(scene, "pub", "sec")
    assert [scene.may("update", path, "fs_modify_file") for path in ("pub/x", "sec/x")] == ["deny", "deny"]


def test_a_mount_below_a_directory_that_becomes_a_link_opens_nothing(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fs_modify_file:foo/in/pub={scene.ext}:rw")
    scene.run("mount", "--yes", f"fs_modify_file:qux/pub={scene.evil}")
    (scene.root / "foo/in").rename(scene.root / "aside")
    (scene.root / "foo/in").symlink_to("../qux")
    assert [scene.may("update", path, "fs_modify_file") for path in ("foo/in/pub/x", "qux/pub/x")] == ["deny", "deny"]


def test_another_link_to_a_mount_works_once_that_link_is_approved(scene: MountScene) -> None:
    rule = '[[tools.fs_modify_file.access.fs]]\npath = "alias"\nexternal = true\nread = true\n'
    scene.configure(TOOLS + rule)
    scene.run("mount", "--yes", f"fs_read_file:fork={scene.ext}")
    (scene.root / "alias").symlink_to("fork")
    assert scene.may("read", "alias/x", "fs_modify_file") == "deny"
    (waiting,) = [each for each in scene.answer("approvals", "list") if each["status"] == "pending"]
    assert waiting["subject"] == f"alias -> {scene.ext}"
    assert scene.run("approvals", "approve", waiting["id"], "--yes").code == 0
    assert [scene.may("read", path, "fs_modify_file") for path in ("alias/x", "fork/x")] == ["allow", "allow"]
    assert [scene.may("update", "fork/x", tool) for tool in BOTH] == ["deny", "deny"]


def test_a_session_written_by_hand_keeps_its_meaning(scene: MountScene) -> None:
    scene.say_session(
        '# mine\nrules = [{ deny = { command = "rm" } }]\n'
        "[conversation.tools.fs_modify_file.access]\n"
        'fs = { strategy = "replace", value = [{ path = "qux", read = true }] }\n'
    )
    assert scene.run("mount", "--yes", f"fork={scene.ext}").code == 0
    tree = tomllib.loads(scene.session_file().read_text())
    assert tree["rules"] == [{"deny": {"command": "rm"}}]
    assert tree["conversation"]["tools"]["fs_modify_file"]["access"]["fs"] == {
        "strategy": "replace",
        "value": [{"path": "qux", "read": True}, MOUNT_RULE],
    }
    reads = [scene.may("read", path, "fs_modify_file") for path in ("qux/y", "src/y", "fork/x")]
    assert reads == ["allow", "deny", "allow"]


def test_what_was_agreed_to_is_done_or_nothing(scene: MountScene) -> None:
    (scene.evil / "way").symlink_to(scene.ext)
    agreed = plan_mounts(scene.workspace, MountRequest((f"fork={scene.evil}/way",), str(scene.root)))
    (scene.evil / "way").unlink()
    (scene.evil / "way").symlink_to(scene.evil)
    before = scene.picture()
    with pytest.raises(MountError) as refused:
        mount(scene.workspace, agreed, now=NOW)
    assert (refused.value.code, scene.picture()) == ("changed", before)


def test_where_nothing_was_to_change_nobody_was_asked_and_nothing_is_done(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    agreed = plan_mounts(scene.workspace, MountRequest((f"fork={scene.ext}",), str(scene.root)))
    assert not agreed.plans[0].changes
    scene.run("unmount", "--yes", "fork")
    before = scene.picture()
    with pytest.raises(MountError) as refused:
        mount(scene.workspace, agreed, now=NOW)
    assert (refused.value.code, scene.picture()) == ("changed", before)


def test_approvals_that_cannot_be_read_are_warned_about(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    for words in (("mount", "--list"), ("unmount", "--yes"), ("mount", "--yes", f"fork={scene.ext}")):
        (scene.state / "approvals.json").write_text("{")
        done = scene.run(*words)
        assert (done.code, done.err.count("approvals.json is damaged")) == (0, 1), words


def test_a_broken_configuration_is_said_before_anything_is_done(scene: MountScene) -> None:
    scene.configure("[tools.t]\nsource = 5\n")
    with pytest.raises(ConfigErrors):
        plan_mounts(scene.workspace, MountRequest((f"fork={scene.ext}",), str(scene.root)))


def test_a_target_that_holds_secrets_is_warned_about(scene: MountScene, monkeypatch: pytest.MonkeyPatch) -> None:
    home = scene.root.parent / "person"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    done = scene.run("mount", "--yes", "fs_read_file:keys=~/.ssh")
    assert (done.code, "fs_read_file will reach keys, a sensitive place (~/.ssh)" in done.err) == (0, True)
    assert scene.run("mount", "--yes", f"fs_read_file:fork={scene.ext}").err == ""


def test_no_session_name_leads_out_of_the_state_directory(scene: MountScene) -> None:
    for name in ("../x", ".", "a/b", ""):
        for words in (("mount", "--yes", f"fork={scene.ext}"), ("unmount", "--yes"), ("mount", "--list")):
            assert scene.run(*words, "--session", name).code == 2
    assert not (scene.root / "fork").exists()
