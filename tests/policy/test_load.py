"""What a check does on its way: the policy is loaded once, and a read looks up nothing that only writes need."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from byleave.errors import InputError
from byleave.policy import machine_places
from byleave.policy.load import ROOT_FILE, Workspace
from scene import Scene

READ = {"kind": "read", "path": "src/a"}
UPDATE = {"kind": "update", "path": "src/a"}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene.build(tmp_path)
    scene.say("user", '[[rules]]\nallow = { path = "src/**" }\n')
    return scene


def entries(work: Callable[[], object]) -> Counter[str]:
    """Return how often each module of byleave is entered from another one."""
    found: Counter[str] = Counter()

    def module(frame: FrameType | None) -> str:
        name = "" if frame is None else frame.f_globals.get("__name__", "")
        return name if name.startswith("byleave.") else ""

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and (here := module(frame)) and here != module(frame.f_back):
            found[here] += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def write_only_lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note each look at the git repository, at PATH, at byleave's own code, and at where dotfiles lead."""
    looked: list[str] = []
    for name in ("git_stamp", "git_places", "program_directories", "find_own_code", "places_elsewhere"):
        real = getattr(machine_places, name)

        def noted(*given: Any, real: Any = real, name: str = name) -> Any:
            looked.append(name)
            return real(*given)

        monkeypatch.setattr(machine_places, name, noted)
    return looked


def test_a_read_looks_up_nothing_that_only_writes_need(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = write_only_lookups(monkeypatch)
    policy = scene.workspace.load()
    assert policy.decide(READ).allowed
    assert looked == []
    assert policy.decide(UPDATE).allowed
    assert sorted(looked) == ["find_own_code", "git_places", "git_stamp", "places_elsewhere", "program_directories"]


def test_places_are_found_anew_when_git_is_set_up_in_another_way(scene: Scene) -> None:
    (scene.root / ".git").mkdir()
    policy = scene.workspace.load()
    hook = {"kind": "update", "path": "src/hooks/pre-commit"}
    assert policy.decide(hook).allowed
    (scene.root / ".git/config").write_text("[core]\n\thooksPath = src/hooks\n")
    policy.expire()
    assert not policy.decide(hook).allowed


def test_a_check_enters_the_loader_once_and_its_neighbours_a_few_times(scene: Scene) -> None:
    root = str(scene.root)
    homes = scene.workspace.homes
    Workspace(root, homes=homes).load().decide(READ)  # what is imported and cached at the first use
    found = entries(lambda: Workspace(root, homes=homes).load().decide(READ))
    assert found["byleave.policy.load"] == 2  # to make the workspace, and to load
    assert found["byleave.policy.live_policy"] == 2  # to make the policy, and to decide


def test_a_project_is_judged_as_it_is_written_whether_it_is_trusted_or_not(scene: Scene) -> None:
    scene.say("project", '[[rules]]\nallow = { command = "make" }\n')
    make = {"kind": "command", "command": "make"}
    policies = (scene.workspace.load(), scene.workspace.load_as_written())
    assert [policy.decide(make).decision.word for policy in policies] == ["ask", "allow"]
    with pytest.raises(InputError, match="is no session name"):
        scene.workspace.load_as_written(session="../x")


def test_what_was_said_before_holds_where_a_change_cannot_be_used_beside_the_rest(scene: Scene) -> None:
    tool = '[tools.t]\nsource = "local"\n'
    scene.say("user", tool + '[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    policy = scene.load()
    scene.say("managed", '[tools.t.sandbox.filesystem]\nallow = ["."]\n')
    policy.look_again()
    asked = [policy.decide({"kind": "read", "path": path, "tool": "t"}).decision.word for path in ("src/a", "b")]
    assert asked == ["allow", "deny"]
    (warning,) = policy.warnings
    assert warning.startswith("the configuration has changed and cannot be used; what it said before still holds:\n")
    assert "a tool has access or the older sandbox, not both" in warning


def test_the_places_of_byleave_are_its_directories_and_the_files_of_the_policy(scene: Scene) -> None:
    policy = scene.load()
    places = scene.workspace.own_places(policy.compiled.layers)
    assert {str(scene.home), str(scene.managed), str(scene.file("user"))} <= set(places)


def test_where_a_workspace_is_stands_beside_its_records_if_they_can_be_written(scene: Scene) -> None:
    workspace = scene.workspace
    file = Path(workspace.homes.workspace(workspace.root.path)) / ROOT_FILE
    (scene.home / "workspaces").touch()
    workspace.remember_root()
    assert not (scene.home / "workspaces").is_dir()
    (scene.home / "workspaces").unlink()
    workspace.remember_root()
    assert file.read_text() == str(scene.root)
    file.write_text("mine")
    workspace.remember_root()
    assert file.read_text() == "mine"
