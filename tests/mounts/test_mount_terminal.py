"""Who agrees to a mount: a person at the terminal, or a script's `--yes`; never an agent, never by accident."""

import json
import subprocess
from pathlib import Path

import pytest

from command import COMMAND, PATIENCE, at_terminal, environment
from mount_scene import MountScene


@pytest.fixture
def scene(tmp_path: Path, own_home: Path) -> MountScene:
    return MountScene.build(tmp_path, own_home)


@pytest.mark.parametrize("keys", [b"y\n", b"YES\n"])
def test_a_mount_for_all_tools_lists_them_and_asks(keys: bytes, scene: MountScene) -> None:
    with at_terminal("mount", f"fork={scene.ext}", cwd=scene.root) as terminal:
        terminal.wait_for("[y/N] ")
        for line in (f"fork -> {scene.ext}", "fs_modify_file  read", "fs_read_file    read"):
            assert line in terminal.seen
        assert not (scene.root / "fork").is_symlink()
        terminal.type(keys)
        assert terminal.ends() == 0
        assert "mounted fork" in terminal.seen
    assert scene.may("read", "fork/x", "fs_modify_file") == "allow"


NOES = {"no": b"n\n", "nothing": b"\n", "Ctrl-C": b"\x03", "end of input": b"\x04"}


@pytest.mark.parametrize("keys", NOES.values(), ids=NOES.keys())
def test_everything_but_a_clear_yes_changes_nothing(keys: bytes, scene: MountScene) -> None:
    before = scene.picture()
    with at_terminal("mount", f"fork={scene.ext}", cwd=scene.root) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(keys)
        assert terminal.ends() == 1
        assert "nothing was changed" in terminal.seen
    assert scene.picture() == before


def test_what_is_neither_yes_nor_no_is_asked_again(scene: MountScene) -> None:
    before = scene.picture()
    with at_terminal("mount", f"fork={scene.ext}", cwd=scene.root) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(b"yes please\n")
        terminal.wait_for("Please type y or n.")
        assert scene.picture() == before
        terminal.type(b"n\n")
        assert terminal.ends() == 1
        assert "nothing was changed" in terminal.seen
    assert scene.picture() == before


def test_naming_one_tool_is_its_own_confirmation(scene: MountScene) -> None:
    with at_terminal("mount", f"fs_modify_file:fork={scene.ext}:rw", cwd=scene.root) as terminal:
        assert terminal.ends() == 0
        assert "[y/N]" not in terminal.seen
    assert scene.may("update", "fork/x", "fs_modify_file") == "allow"


def test_unmounting_asks_nothing_of_a_person(scene: MountScene) -> None:
    scene.run("mount", "--yes", f"fork={scene.ext}")
    with at_terminal("unmount", cwd=scene.root) as terminal:
        assert terminal.ends() == 0
    assert not (scene.root / "fork").is_symlink()


def test_no_input_asks_nobody_and_changes_nothing(scene: MountScene) -> None:
    before = scene.picture()
    with at_terminal("mount", "--no-input", f"fork={scene.ext}", cwd=scene.root) as terminal:
        assert terminal.ends() == 10
    assert scene.picture() == before


@pytest.mark.parametrize("spec", ["fork=$EXT", "fs_read_file:fork=$EXT", "fs_read_file:fork=$EXT:rw"])
def test_without_a_terminal_nothing_changes_unless_a_script_consents(spec: str, scene: MountScene) -> None:
    spec = spec.replace("$EXT", str(scene.ext))
    before = scene.picture()
    done = scene.run("mount", "--json", spec)
    assert (done.code, json.loads(done.out)["error"]["code"]) == (10, "needs_confirmation")
    assert scene.run("mount", spec).code == 10
    assert scene.picture() == before
    assert scene.run("mount", "--yes", "--no-input", spec).code == 0
    mounted = scene.picture()
    done = scene.run("unmount", "--json")
    assert (done.code, json.loads(done.out)["error"]["code"]) == (10, "needs_confirmation")
    assert scene.picture() == mounted


@pytest.mark.parametrize("words", [("mount", "fs_read_file:fork=$EXT"), ("mount", "fork=$EXT"), ("unmount",)])
def test_below_a_door_yes_does_not_count(words: tuple[str, ...], scene: MountScene) -> None:
    scene.run("mount", "--yes", f"other={scene.evil}")
    before = scene.picture()
    filled = [word.replace("$EXT", str(scene.ext)) for word in words]
    done = subprocess.run(
        ["byleave", "-c", '"$@"; exit $?', "acp", *COMMAND, *filled, "--yes"],
        executable="/bin/sh",
        cwd=scene.root,
        env=environment(None),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, "an agent or tool may have started this command" in done.stderr) == (2, True)
    assert scene.picture() == before


def test_names_that_would_act_on_the_terminal_are_written_out(scene: MountScene) -> None:
    evil = scene.ext / "a\x1b[2J\u202eb\nc"
    evil.mkdir()
    scene.configure('[tools."t\\u001b[2J\\u202e"]\nsource = "local"\n')
    with at_terminal("mount", f"fork={evil}", cwd=scene.root) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(b"y\n")
        assert terminal.ends() == 0
        assert [char for char in terminal.seen if not char.isprintable() and char not in "\r\n"] == []
        assert "a\\x1b[2J\\u202eb\\nc" in terminal.seen
        assert "t\\x1b[2J\\u202e" in terminal.seen
    for words in (("mount", "--list"), ("mount", "--dry-run", f"fork={evil}"), ("unmount", "--yes")):
        said = scene.run(*words)
        assert [char for char in said.out + said.err if not char.isprintable() and char != "\n"] == []
        assert said.code == 0
