"""A policy that was compiled before is used again only where everything that it rests on is the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from byleave.core.access import SHELL_TOOL
from byleave.policy import compiled_cache
from byleave.policy.load import PolicyLoad, made_up_layers, take_loads
from byleave.policy.sandbox_settings import shell_layer
from byleave.store.approvals import now
from scene import TOOL, Scene

RULES = (
    TOOL + '[[tools.t.access.fs]]\npath = "data"\nread = true\n'
    '[[rules]]\nallow = { command = "make", within = "build" }\n'
)


@pytest.fixture(autouse=True)
def no_policies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep nothing of other tests, and nothing for them."""
    monkeypatch.setattr(compiled_cache, "_kept", [])
    take_loads()
    yield
    take_loads()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene.build(tmp_path)
    for name in ("data", "build", "elsewhere"):
        (made.root / name).mkdir()
    made.say("user", RULES)
    return made


def compiles(work: Callable[[], object]) -> int:
    """Return how many policies had to be compiled."""
    before = compiled_cache.misses[0]
    work()
    return compiled_cache.misses[0] - before


def test_a_policy_that_was_kept_is_not_compiled_again_and_answers_alike(scene: Scene) -> None:
    warmed = scene.workspace.warm(session="default", extra=[])
    assert compiles(scene.load) == 0
    assert warmed is not None
    read = {"kind": "read", "path": "data/x", "tool": "t"}
    assert scene.load().decide(read) == scene.load().under(warmed).decide(read)
    assert scene.load().decide(read).allowed


def _edited(scene: Scene) -> None:
    scene.say("user", RULES + "# more\n")


def _turned(scene: Scene) -> None:
    (scene.root / "data").rmdir()
    (scene.root / "data").symlink_to("elsewhere")


def _turned_within(scene: Scene) -> None:
    (scene.root / "build").rmdir()
    (scene.root / "build").symlink_to("elsewhere")


def _approved(scene: Scene) -> None:
    scene.workspace.approvals.approve_mount("x", "/y", now=now())


def _moved_own_place(scene: Scene) -> None:
    (scene.home / ".claude").symlink_to(scene.root / "elsewhere")


@pytest.mark.parametrize("change", [_edited, _turned, _turned_within, _approved, _moved_own_place])
def test_what_a_policy_rests_on_has_it_compiled_anew(scene: Scene, change: Callable[[Scene], None]) -> None:
    scene.workspace.warm(session="default", extra=[])
    assert compiles(scene.load) == 0
    change(scene)
    assert compiles(scene.load) == 1


def test_another_workspace_of_the_same_files_has_a_policy_of_its_own(scene: Scene, tmp_path: Path) -> None:
    scene.workspace.warm(session="default", extra=[])
    (tmp_path / "two").mkdir()
    assert compiles(Scene(tmp_path / "two", scene.home, scene.managed).load) == 1


def test_a_policy_with_places_for_every_sandbox_is_not_kept(scene: Scene) -> None:
    scene.say("user", '[sandbox]\nread = ["/opt"]\n')
    assert scene.workspace.warm(session="default", extra=[]) is None
    assert compiles(scene.load) == 1


def tree(number: int) -> dict[str, Any]:
    return {"tools": {f"t{number}": {"source": "local"}}}


def test_only_so_many_policies_are_kept_and_the_oldest_of_a_kind_goes(scene: Scene) -> None:
    scene.workspace.warm(session="default", extra=[])
    for number in range(9):
        scene.workspace.warm_tree(tree(number))
    scene.workspace.warm_tree(tree(8))  # takes the place of itself
    missed = [compiles(lambda: scene.workspace.compile_tree(tree(number))) for number in range(9)]  # noqa: B023 -- at once
    assert (missed, compiles(scene.load)) == ([1, *([0] * 8)], 0)


def test_what_had_to_be_compiled_is_noted_for_the_next_request(scene: Scene) -> None:
    root, homes = str(scene.root), scene.homes
    named = (homes.config, homes.state, homes.memory, homes.managed, homes.user)
    scene.load()
    scene.workspace.load(extra=made_up_layers(SHELL_TOOL), session="s")
    scene.workspace.load(extra=[shell_layer(confine="off")])  # as only this one caller has it
    scene.workspace.compile_tree(tree(1), is_usual=True)
    scene.workspace.compile_tree(tree(2))
    assert take_loads() == [
        PolicyLoad(root, named, "default"),
        PolicyLoad(root, named, "s", SHELL_TOOL),
        PolicyLoad(root, named, tree=tree(1)),
    ]
    assert take_loads() == []


def test_layers_that_one_caller_makes_up_are_kept_apart_by_their_tool(scene: Scene) -> None:
    shell = [shell_layer()]
    scene.workspace.warm(session="default", extra=shell)
    assert [compiles(lambda: scene.workspace.load(extra=extra)) for extra in (shell, [])] == [0, 1]  # noqa: B023 -- at once
