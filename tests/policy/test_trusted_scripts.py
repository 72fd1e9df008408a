"""A file is trusted together with the scripts that it starts: which words count, and what stands for one."""

import os
from pathlib import Path

import pytest

from byleave.errors import InputError
from byleave.policy import trust
from byleave.store.approvals import UNREAD, Fingerprint
from byleave.user_files import digest
from scene import TOOL, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def scripts(scene: Scene, *words: str) -> dict[str, str]:
    """Return what stands for the scripts of a project file whose tool starts these words."""
    scene.say("project", f"{TOOL}command = {list(words)!r}\n")
    return dict(fingerprint(scene).scripts)


def fingerprint(scene: Scene) -> Fingerprint:
    workspace = scene.workspace
    content = workspace.files.read_project_file("byleave.toml")
    return workspace.print_of("byleave.toml", content, workspace.files.parse_project_file("byleave.toml", content).tree)


def test_each_word_that_names_a_file_stands_for_what_is_in_the_file(scene: Scene) -> None:
    (scene.root / "dir").mkdir()
    (scene.root / "dir/run.sh").write_text("echo 1")
    (scene.root / "linked").symlink_to("dir/run.sh")
    (scene.root / "outside").symlink_to("/bin/sh")
    found = scripts(scene, "sh", "dir/run.sh", "linked", "outside", "/bin/true", "dir", "missing", "..", "a\\u0000b")
    assert found == {
        "dir/run.sh": digest(b"echo 1"),
        "outside": digest(f"outside: {os.path.realpath('/bin/sh')}".encode()),
    }


def test_what_cannot_be_read_whole_is_known_by_that(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "LARGEST_SCRIPT", 100)
    (scene.root / "aux.sh").write_text("a name that no tool may pass")
    (scene.root / "a:b").write_text("another one")
    for name, size in (("largest", 100), ("larger", 101)):
        (scene.root / name).write_bytes(b"x" * size)
    os.mkfifo(scene.root / "pipe")
    unread = ("aux.sh", "a:b", "pipe", "larger")
    assert scripts(scene, *unread, "con.sh", "largest") == {
        **dict.fromkeys(unread, UNREAD),
        "largest": digest(b"x" * 100),
    }


def test_a_script_is_read_only_for_a_text_that_was_trusted_once(scene: Scene) -> None:
    (scene.root / "run.sh").write_text("echo 1")
    file = scene.say("project", f'{TOOL}command = "./run.sh"\n')
    scene.trust()
    (scene.root / "run.sh").write_text("echo 2")
    for text, read in ((file.read_text(), {"run.sh"}), (file.read_text() + "# changed\n", set())):
        file.write_text(text)
        workspace = scene.workspace
        assert [layer.trusted for layer in workspace.load().compiled.layers] == [False]
        assert workspace.trust.scripts == read


def test_a_running_policy_notices_that_a_script_has_changed(scene: Scene) -> None:
    (scene.root / "run.sh").write_text("echo 1")
    scene.say("project", f'{TOOL}command = "./run.sh"\n[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    scene.trust()
    policy = scene.load()
    action = {"kind": "read", "path": "src/x", "tool": "t"}
    before = policy.decide(action).decision.word
    (scene.root / "run.sh").write_text("echo 2, with another length")
    policy.expire()
    with pytest.raises(InputError, match='no tool named "t" is configured'):
        policy.decide(action)
    assert before == "allow"


def test_scripts_are_closed_after_they_were_read(scene: Scene) -> None:
    (scene.root / "run.sh").write_text("echo 1")
    scripts(scene, "./run.sh")
    before = set(os.listdir("/proc/self/fd"))
    fingerprint(scene)
    assert set(os.listdir("/proc/self/fd")) == before
