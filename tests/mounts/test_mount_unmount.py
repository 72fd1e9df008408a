"""Taking mounts away: rules, links and approvals go; what is somebody else's stays, and it is said why."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from mount_scene import NOW, OPEN_RULE, TOOLS, MountScene

SRC_RULE = {"path": "src", "read": True, "write": True}


@pytest.fixture
def scene(tmp_path: Path, own_home: Path) -> MountScene:
    return MountScene.build(tmp_path, own_home)


def session_rules(scene: MountScene, tool: str) -> Any:
    return tomllib.loads(scene.session_file().read_text())["tools"][tool]["access"]["fs"]


def test_unmounting_leaves_each_tool_with_the_rules_it_had(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    answer = scene.answer("unmount", "--yes", "fork")
    tools = ["fs_modify_file", "fs_read_file"]
    assert answer == {"unmounted": [{"name": "fork", "link": "removed", "tools": tools}]}
    assert (scene.root / "fork").is_symlink() is False
    assert scene.ext.is_dir()
    assert scene.approved() == {}
    assert session_rules(scene, "fs_read_file") == {"strategy": "replace", "value": [OPEN_RULE]}
    assert session_rules(scene, "fs_modify_file") == {"strategy": "replace", "value": [SRC_RULE]}
    assert [scene.may("read", path, "fs_modify_file") for path in ("src/y", "foo/y")] == ["allow", "deny"]
    assert scene.may("create", "foo/y", "fs_read_file") == "allow"


def test_without_a_name_everything_is_unmounted(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"a={scene.ext}")
    scene.run("mount", "--yes", f"deep/b={scene.evil}")
    done = scene.run("unmount", "--yes")
    assert (done.code, done.out.splitlines()) == (
        0,
        ["unmounted a for fs_modify_file, fs_read_file", "unmounted deep/b for fs_modify_file, fs_read_file"],
    )
    assert (scene.answer("mount", "--list"), scene.approved()) == ([], {})
    assert (scene.root / "deep").is_dir()


def test_one_of_two_is_unmounted_and_the_other_stays(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"a={scene.ext}")
    scene.run("mount", "--yes", f"ab={scene.evil}")
    scene.run("unmount", "--yes", "a")
    assert [each["name"] for each in scene.answer("mount", "--list")] == ["ab"]
    assert scene.may("read", "ab/y", "fs_modify_file") == "allow"


def test_a_name_is_relative_to_the_working_directory_as_it_is_for_mount(scene: MountScene) -> None:
    (scene.root / "alias").symlink_to("foo")
    for cwd, name in (("foo", "fork"), (".", "foo/fork"), ("qux", "../foo/fork"), (".", "alias/fork")):
        scene.run("mount", "--yes", f"{name}={scene.ext}", cwd=cwd)
        assert [each["name"] for each in scene.answer("unmount", "--yes", name, cwd=cwd)["unmounted"]] == ["foo/fork"]
    assert scene.approved() == {}


def test_nothing_mounted_is_said_and_is_no_failure(scene: MountScene) -> None:
    done = scene.run("unmount", "--yes")
    assert (done.code, done.out) == (0, "nothing is mounted\n")
    assert scene.answer("unmount", "--yes") == {"unmounted": []}
    assert not scene.session_file().exists()


def test_an_unknown_name_is_refused_and_the_known_ones_are_named(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    done = scene.run("unmount", "--yes", "frok")
    assert (done.code, "mounted here: fork" in done.err) == (2, True)
    assert scene.may("read", "fork/x") == "allow"


def test_a_link_that_leads_elsewhere_is_kept(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    (scene.root / "fork").unlink()
    (scene.root / "fork").symlink_to(scene.evil)
    (answer,) = scene.answer("unmount", "--yes")["unmounted"]
    assert (answer["link"], str(scene.evil) in answer["why"]) == ("kept", True)
    assert (scene.root / "fork").readlink() == scene.evil
    assert scene.approved() == {}
    assert scene.may("read", "fork/x") == "deny"


def test_a_link_whose_target_is_gone_is_removed(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    scene.ext.rename(scene.ext.parent / "moved")
    assert scene.answer("unmount", "--yes")["unmounted"][0]["link"] == "removed"
    assert not (scene.root / "fork").is_symlink()


def test_where_nothing_stands_any_more_only_the_rules_go(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    (scene.root / "fork").unlink()
    (answer,) = scene.answer("unmount", "--yes")["unmounted"]
    assert (answer["link"], answer["why"]) == ("kept", "nothing stands there")
    assert (scene.answer("mount", "--list"), scene.approved()) == ([], {})


def test_while_another_session_has_it_the_link_and_the_approval_stay(scene: MountScene) -> None:
    for session in ("one", "two"):
        scene.run("mount", "--yes", f"fork={scene.ext}", "--session", session)
    (answer,) = scene.answer("unmount", "--yes", "--session", "one")["unmounted"]
    assert (answer["link"], answer["why"]) == ("kept", "session two may still use it")
    assert [scene.may("read", "fork/x", session=session) for session in ("one", "two")] == ["deny", "allow"]
    (answer,) = scene.answer("unmount", "--yes", "--session", "two")["unmounted"]
    assert (answer["link"], scene.approved()) == ("removed", {})


def test_a_session_that_cannot_be_read_may_still_have_it(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    scene.say_session("this is no TOML", "broken")
    (answer,) = scene.answer("unmount", "--yes")["unmounted"]
    assert (answer["link"], answer["why"]) == ("kept", "session broken may still use it")


def test_a_rule_of_a_weaker_layer_goes_in_this_session_only(scene: MountScene) -> None:
    scene.configure(f'{TOOLS}[[tools.fs_modify_file.access.fs]]\npath = "fork"\nexternal = true\nread = true\n')
    (scene.root / "fork").symlink_to(scene.ext)
    answer = scene.answer("mount", "--yes", f"fs_modify_file:fork={scene.ext}")
    assert (answer["rules"], answer["changed"]) == ({"fs_modify_file": []}, True)
    assert not scene.session_file().exists()
    assert scene.may("read", "fork/x", "fs_modify_file") == "allow"
    (answer,) = scene.answer("unmount", "--yes")["unmounted"]
    assert (answer["link"], answer["why"]) == ("kept", f"{scene.home}/config.toml grants it in every other session")
    assert session_rules(scene, "fs_modify_file") == {"strategy": "replace", "value": [SRC_RULE]}
    decisions = [scene.may("read", "fork/x", "fs_modify_file", session) for session in ("default", "other")]
    assert decisions == ["deny", "allow"]
    (listed,) = scene.answer("mount", "--list", "--session", "other")
    assert (listed["name"], listed["state"]) == ("fork", "in force")


def test_a_tool_that_had_nothing_but_the_mount_stays_closed(scene: MountScene) -> None:
    scene.configure('[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "fork"\nexternal = true\nread = true\n')
    (scene.root / "fork").symlink_to(scene.ext)
    scene.run("mount", "--yes", f"t:fork={scene.ext}")
    scene.run("unmount", "--yes")
    assert session_rules(scene, "t") == {"strategy": "replace", "value": [{"path": "."}]}
    assert [scene.may("read", path, "t") for path in ("src/y", "fork/x")] == ["deny", "deny"]


def test_a_rule_of_a_stronger_layer_cannot_be_taken_away(scene: MountScene) -> None:
    policy = scene.root.parent / "policy.toml"
    policy.write_text(
        '[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "fork"\nexternal = true\nread = true\n'
    )
    words = ("--policy", str(policy))
    (scene.root / "fork").symlink_to(scene.ext)
    scene.workspace.approvals.approve_mount("fork", str(scene.ext), now=NOW)
    done = scene.run(*words, "unmount", "--yes")
    assert (done.code, f"fork: stays mounted: {policy} grants it" in done.out) == (1, True)
    assert (scene.root / "fork").is_symlink()
    assert scene.approved() == {"fork": str(scene.ext)}


def test_what_lies_below_a_mount_goes_with_it_and_nothing_outside_is_touched(scene: MountScene) -> None:
    (scene.ext / "sub").mkdir()
    scene.run("mount", "--yes", f"fs_modify_file:fork={scene.ext}:rw")
    rule = '\n[[tools.fs_modify_file.access.fs]]\npath = "fork/sub"\nexternal = true\n'
    scene.say_session(scene.session_file().read_text() + rule)
    found = scene.answer("unmount", "--yes", "fork")["unmounted"]
    assert [(each["name"], each["link"]) for each in found] == [("fork", "removed"), ("fork/sub", "kept")]
    assert (scene.ext / "sub").is_dir()
    assert scene.answer("mount", "--list") == []


def test_a_project_file_nobody_trusts_is_not_copied_into_the_session(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    (scene.root / "byleave.toml").write_text('[[tools.fs_modify_file.access.net]]\nhost = "example.com"\n')
    scene.run("unmount", "--yes")
    assert session_rules(scene, "fs_modify_file")["value"] == [SRC_RULE]


CLOSING = '[[tools.fs_modify_file.access.fs]]\npath = "src/secret"\n'


def test_unmounting_does_not_lift_what_a_file_nobody_trusts_denies(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fs_modify_file:fork={scene.ext}")
    (scene.root / "byleave.toml").write_text(CLOSING)
    before = scene.picture()
    assert scene.may("read", "src/secret/k", "fs_modify_file") == "deny"
    assert scene.answer("unmount", "--yes")["error"]["code"] == "untrusted"
    assert scene.picture() == before
    (scene.root / "byleave.toml").unlink()
    assert scene.run("unmount", "--yes").code == 0
    (scene.root / "byleave.toml").write_text(CLOSING)
    assert [scene.may("read", path, "fs_modify_file") for path in ("src/secret/k", "src/y")] == ["deny", "allow"]


def test_what_only_a_file_of_the_command_line_has_is_not_taken_from_the_session(scene: MountScene) -> None:
    policy = scene.root.parent / "policy.toml"
    policy.write_text('[tools.fs_modify_file]\nsource = "local"\n')
    scene.configure(f'{TOOLS}[[tools.fs_modify_file.access.fs]]\npath = "own"\nexternal = true\nread = true\n')
    scene.run("mount", "--yes", f"fs_modify_file:fork={scene.ext}")
    before = scene.picture()
    error = scene.answer("--policy", str(policy), "unmount", "--yes")["error"]
    assert (error["code"], scene.picture()) == ("policy_file", before)
    assert scene.run("--policy", str(policy), "unmount", "--yes", "fork").code == 0


def test_a_mount_turned_to_another_one_goes_and_the_other_stays(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fs_modify_file:pub={scene.ext}:rw")
    scene.run("mount", "--yes", f"fs_read_file:sec={scene.evil}")
    (scene.root / "pub").unlink()
    (scene.root / "pub").symlink_to("sec")
    (answer,) = scene.answer("unmount", "--yes", "pub")["unmounted"]
    assert (answer["name"], answer["link"], answer["tools"]) == ("pub", "kept", ["fs_modify_file"])
    assert (scene.approved(), scene.may("read", "sec/x")) == ({"sec": str(scene.evil)}, "allow")


def test_the_link_goes_after_its_approval_was_taken_back(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    (approval,) = scene.answer("approvals", "list")
    assert scene.run("approvals", "revoke", approval["id"], "--yes").code == 0
    assert scene.answer("unmount", "--yes")["unmounted"][0]["link"] == "removed"


def test_what_is_no_link_is_not_called_one(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    (scene.root / "fork").unlink()
    (scene.root / "fork").mkdir()
    assert "`byleave unmount fork`" in scene.run("check", "read", "src/y", "--tool", "fs_modify_file").err
    lines = scene.run("unmount", "--yes").out.splitlines()
    assert lines[-1] == "fork: no link was removed: what stands there is no link"


def test_a_directory_in_the_place_of_the_link_does_not_keep_it_mounted(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    (scene.root / "fork").unlink()
    (scene.root / "fork").mkdir()
    assert scene.run("mount", "--list").code == 2
    (answer,) = scene.answer("unmount", "--yes", "fork")["unmounted"]
    assert (answer["link"], answer["why"]) == ("kept", "what stands there is no link")
    assert (scene.root / "fork").is_dir()
    assert (scene.answer("mount", "--list"), scene.approved()) == ([], {})


def test_mounting_again_after_unmounting_works(scene: MountScene) -> None:
    for _ in range(3):
        assert scene.run("mount", "--yes", f"fork={scene.ext}").code == 0
        assert scene.may("read", "fork/x", "fs_modify_file") == "allow"
        assert scene.run("unmount", "--yes").code == 0
        assert scene.may("read", "fork/x", "fs_modify_file") == "deny"
    assert session_rules(scene, "fs_read_file") == {"strategy": "replace", "value": [OPEN_RULE]}
