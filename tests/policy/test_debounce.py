"""A file that is half written is not taken: what it said before holds until it is whole, and still."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from byleave.guard.persist_rule import PersistentRule
from byleave.policy.debounce import STILL, STILL_OPEN, Settling, is_being_written
from byleave.policy.layers import LayerFiles
from scene import Scene

DENY_MAKE = '[[rules]]\ndeny = { command = "make" }\n'
DENY_LS = '[[rules]]\ndeny = { command = "ls" }\n'
ALLOW = '[[rules]]\nallow = { command = ["make", "ls", "cat"] }\n'
LAYERS = ("user", "project", "project-local", "command line", "managed")


class Watched:
    """A policy that stays, with a clock of its own."""

    def __init__(self, scene: Scene, *files: Path) -> None:
        workspace = scene.workspace
        self.time = 100.0
        workspace.files.settling = Settling(clock=lambda: self.time)
        self.workspace = workspace
        self.policy = workspace.load(files=[str(file) for file in files])
        workspace.files.settling.waits = True

    def says(self, *commands: str) -> list[str]:
        """Return what is decided, having looked as time passing would do."""
        self.policy.look_again()
        asked = [{"kind": "command", "command": command} for command in commands or ("ls", "make")]
        return [self.policy.decide(each).decision.word for each in asked]

    def later(self, seconds: float = STILL, *commands: str) -> list[str]:
        """Look, let time pass, and look again."""
        self.says()
        self.time += seconds
        return self.says(*commands)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene.build(tmp_path)
    made.say("user", ALLOW)
    return made


def watched(scene: Scene, layer: str, text: str) -> tuple[Watched, Path]:
    file = scene.say(layer, text + ALLOW)
    given = [file] if layer == "command line" else []
    return Watched(scene, *given), file


@pytest.mark.parametrize("layer", LAYERS)
def test_a_file_cut_where_it_is_still_good_toml_is_not_taken(scene: Scene, layer: str) -> None:
    place, file = watched(scene, layer, DENY_LS + DENY_MAKE)
    assert place.says() == ["deny", "deny"]
    with file.open("w") as writer:  # truncates
        assert place.says() == ["deny", "deny"]
        for piece in ("", DENY_MAKE, ALLOW, "# the end\n"):
            writer.write(piece)
            writer.flush()
            assert place.later(STILL * 3) == ["deny", "deny"], piece
    assert place.later() == ["allow", "deny"]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_file_that_is_appended_to_line_by_line_counts_when_it_rests(scene: Scene, layer: str) -> None:
    place, file = watched(scene, layer, DENY_LS + DENY_MAKE)
    file.write_text("")
    for line in (DENY_MAKE + ALLOW).splitlines(keepends=True):
        with file.open("a") as writer:
            writer.write(line)
        assert place.later(STILL * 0.9) == ["deny", "deny"]
    assert place.later() == ["allow", "deny"]


@pytest.mark.parametrize("layer", LAYERS)
def test_removing_and_making_anew_loses_no_rule_in_between(scene: Scene, layer: str) -> None:
    place, file = watched(scene, layer, DENY_LS + DENY_MAKE)
    file.unlink()
    assert place.later(STILL * 0.9) == ["deny", "deny"]
    file.write_text(ALLOW)
    file.chmod(0o600)
    assert place.later(STILL * 0.9) == ["deny", "deny"]
    file.write_text(DENY_MAKE + ALLOW)
    assert place.later() == ["allow", "deny"]


def by_rename(file: Path, text: str) -> None:
    new = file.with_name("new")
    new.write_text(text)
    new.chmod(0o600)
    new.rename(file)


def by_backup(file: Path, text: str) -> None:
    file.rename(file.with_name("old~"))
    file.write_text(text)
    file.chmod(0o600)


def by_directory(file: Path, text: str) -> None:
    """As a container's configuration is exchanged: a link to a directory leads elsewhere."""
    directory = file.parent
    for name, content in (("one", file.read_text()), ("two", text)):
        (directory / name).mkdir(mode=0o700)
        (directory / name / "x.toml").write_text(content)
        (directory / name / "x.toml").chmod(0o600)
    (directory / "data").symlink_to("one")
    file.unlink()
    file.symlink_to("data/x.toml")
    (directory / "next").symlink_to("two")
    (directory / "next").rename(directory / "data")


@pytest.mark.parametrize("save", [by_rename, by_backup, by_directory], ids=lambda save: save.__name__)
def test_a_file_that_is_saved_by_rename_is_taken_soon(scene: Scene, save: Callable[[Path, str], None]) -> None:
    place, file = watched(scene, "command line", DENY_LS)
    assert place.says() == ["deny", "allow"]
    save(file, DENY_MAKE + ALLOW)
    assert place.later() == ["allow", "deny"]


def test_a_file_that_stays_away_says_nothing_any_more(scene: Scene) -> None:
    place, file = watched(scene, "project", DENY_LS)
    file.unlink()
    assert place.later() == ["allow", "allow"]


def test_a_directory_that_is_moved_away_and_back_loses_no_rule(scene: Scene) -> None:
    place, file = watched(scene, "project-local", DENY_LS)
    file.parent.rename(scene.root / "aside")
    assert place.later(STILL * 0.9) == ["deny", "allow"]
    (scene.root / "aside").rename(file.parent)
    assert place.later(STILL * 3) == ["deny", "allow"]


def test_an_enclosing_project_whose_file_is_being_saved_still_tightens(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    scene.say("user", ALLOW)
    around = scene.say("project", DENY_LS)
    inner = scene.root / "sub"
    (inner / ".byleave").mkdir(parents=True)
    (inner / ".byleave/config.toml").write_text("")
    place = Watched(Scene(inner, scene.home, scene.managed))
    assert place.says() == ["deny", "allow"]
    around.unlink()
    assert place.later(STILL * 0.9) == ["deny", "allow"]
    around.write_text(DENY_MAKE)
    assert place.says() == ["deny", "allow"]
    assert place.later() == ["allow", "deny"]


def test_a_file_that_never_rests_does_not_hold_up_the_others(scene: Scene) -> None:
    place, file = watched(scene, "project", DENY_LS)
    for number in range(20):
        file.write_text(f"# {number}\n")
        if number == 3:
            by_rename(scene.file("user"), DENY_MAKE + ALLOW)
        place.time += STILL / 2
        said = place.says()
    assert said == ["deny", "deny"]


def test_a_file_that_a_program_keeps_open_is_taken_in_the_end(scene: Scene) -> None:
    place, file = watched(scene, "project", DENY_LS)
    with file.open("w") as writer:
        writer.write(DENY_MAKE)
        writer.flush()
        assert place.later(STILL_OPEN * 0.9) == ["deny", "allow"]
        assert place.later(STILL_OPEN) == ["allow", "deny"]


def test_a_change_that_begins_while_the_file_is_read_is_not_taken(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, file = watched(scene, "project", DENY_LS + DENY_MAKE)
    read = LayerFiles.read_project_file

    def cut(files: LayerFiles, name: str) -> bytes:
        if name == "byleave.toml":
            file.write_text("")
        return read(files, name)

    file.write_text(DENY_MAKE + DENY_LS)
    place.says()
    monkeypatch.setattr(LayerFiles, "read_project_file", cut)
    place.time += STILL
    assert place.says() == ["deny", "deny"]
    monkeypatch.undo()
    assert place.later() == ["allow", "allow"]  # by now it is empty for good


def test_a_file_that_is_cut_in_a_key_while_it_is_read_is_not_taken(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, file = watched(scene, "project", DENY_LS)
    read = LayerFiles.read_project_file

    def cut(files: LayerFiles, name: str) -> bytes:
        if name == "byleave.toml":
            file.write_text("[[rules]\n")
        return read(files, name)

    file.write_text(DENY_MAKE)
    place.says()
    monkeypatch.setattr(LayerFiles, "read_project_file", cut)
    place.time += STILL
    assert place.says() == ["deny", "allow"]
    assert "cannot be used" not in "".join(place.policy.warnings)
    monkeypatch.undo()
    file.write_text(DENY_MAKE)
    assert place.later() == ["allow", "deny"]


@pytest.mark.parametrize("layer", ["project", "managed"])
def test_a_file_that_appears_counts_when_it_rests(scene: Scene, layer: str) -> None:
    place = Watched(scene)
    assert place.says() == ["allow", "allow"]
    scene.say(layer, DENY_LS)
    assert place.later(STILL * 0.9) == ["allow", "allow"]
    assert place.later() == ["deny", "allow"]


def test_a_file_that_appears_while_another_one_counts_is_not_taken_with_it(scene: Scene) -> None:
    place = Watched(scene)
    scene.say("user", DENY_MAKE + ALLOW)
    assert place.says() == ["allow", "allow"]
    scene.say("managed", DENY_LS)
    place.time += STILL
    assert place.says() == ["allow", "deny"]
    assert place.later() == ["deny", "deny"]


def test_a_broken_file_keeps_the_old_rules_when_it_rests_too(scene: Scene) -> None:
    place, file = watched(scene, "project", DENY_LS)
    file.write_text("[[rules]\n")
    assert place.later(STILL * 4) == ["deny", "allow"]
    assert "cannot be used any more" in "".join(place.policy.warnings)


def test_a_rule_that_we_write_ourselves_holds_at_once(scene: Scene) -> None:
    place = Watched(scene)
    assert place.says("touch x") == ["ask"]
    PersistentRule(place.workspace, "default").keep('[[rules]]\nallow = { command = "touch" }\n')
    assert place.says("touch x") == ["allow"]


def test_a_process_that_answers_once_waits_for_nothing(scene: Scene) -> None:
    policy = scene.load()
    scene.say("user", DENY_LS + ALLOW)
    policy.look_again()
    assert policy.decide({"kind": "command", "command": "ls"}).decision.word == "deny"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(os.O_WRONLY, True), (os.O_RDWR, True), (os.O_WRONLY | os.O_APPEND, True), (os.O_RDONLY, False)],
)
def test_the_kernel_says_whether_a_file_is_open_for_writing(tmp_path: Path, flags: int, *, expected: bool) -> None:
    written = tmp_path / "f"
    written.write_text("x")
    descriptor = os.open(written, flags)
    try:
        assert is_being_written(str(written)) is expected
    finally:
        os.close(descriptor)
    assert is_being_written(str(written)) is False


def test_what_cannot_be_asked_about_is_not_being_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert [is_being_written(str(tmp_path / name)) for name in ("pipe", "missing", ".", "\0")] == [False] * 4
