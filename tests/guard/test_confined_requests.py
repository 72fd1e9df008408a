"""A yes to a confined run is a yes to that: it never becomes a plain one."""

from pathlib import Path

import pytest

from byleave.core.action import CommandAction
from byleave.core.decision import ALLOW, ASK
from byleave.guard.evaluation import FOR_SESSION, ActionRequest, Evaluation, Pending, Reply, Who
from byleave.guard.guard import Guard
from byleave.guard.open_guard import guard_for
from scene import Scene

POLICY = """
[shell]
confine = "auto"
[[rules]]
deny = { path = "secret/**" }
[[rules]]
allow = { command = "grep" }
[[rules]]
ask = { command = "make", subcommand = "deploy" }
[[rules]]
allow = { command = "make" }
sandbox = true
"""
WHO = Who("claude-code", "default")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene.build(tmp_path)
    scene.say("user", POLICY)
    return scene


def guard_of(scene: Scene) -> Guard:
    return guard_for(scene.workspace, "hook", client_approves=None)


def request(text: str, *, confines: bool, unclear: str = "") -> ActionRequest:
    return ActionRequest((CommandAction(text),), WHO, unclear, confines=confines)


def test_an_allow_that_needs_confinement_is_an_ask_where_the_integration_cannot_confine(scene: Scene) -> None:
    guard = guard_of(scene)
    confined, plain = (guard.authorize(request("make", confines=confines)) for confines in (True, False))
    assert isinstance(confined, Evaluation)
    assert (confined.verdict.decision, confined.verdict.sandbox) == (ALLOW, (True, True))
    assert isinstance(plain, Pending)
    assert plain.verdict.decision is ASK


def test_a_yes_keeps_the_run_confined(scene: Scene) -> None:
    guard = guard_of(scene)
    pending = guard.authorize(request("make && make deploy", confines=True))
    assert isinstance(pending, Pending)
    assert pending.verdict.sandbox == (True, True)
    assert guard.complete(pending, Reply(FOR_SESSION, "person")).verdict.sandbox == (True, True)
    again = guard.authorize(request("make && make deploy", confines=True))
    assert isinstance(again, Evaluation)
    assert (again.verdict.decision, again.verdict.sandbox) == (ALLOW, (True, True))


def test_a_yes_to_a_confined_run_is_none_to_a_plain_one(scene: Scene) -> None:
    guard = guard_of(scene)
    pending = guard.authorize(request("make && make deploy", confines=True))
    assert isinstance(pending, Pending)
    guard.complete(pending, Reply(FOR_SESSION, "person"))
    assert isinstance(guard.authorize(request("make && make deploy", confines=False)), Pending)


def test_what_is_unclear_is_confined_after_a_yes_as_well(scene: Scene) -> None:
    pending = guard_of(scene).authorize(request("make", confines=True, unclear="it is odd"))
    assert isinstance(pending, Pending)
    assert (pending.verdict.decision, pending.verdict.sandbox) == (ASK, (True, True))


def test_a_yes_to_one_part_stays_confined_where_only_the_kernel_holds_another(scene: Scene) -> None:
    """The question is about the push alone, because the sandbox covers what `grep` would come across."""
    (scene.root / "secret").mkdir()
    (scene.root / "secret/key").write_text("key")
    pending = guard_of(scene).authorize(request("grep -r k . ; git push", confines=True))
    assert isinstance(pending, Pending)
    assert "git push" in pending.verdict.reason
    assert pending.verdict.sandbox == (True, True)
    plain = guard_of(scene).authorize(request("git push", confines=True))
    assert isinstance(plain, Pending)
    assert plain.verdict.sandbox == (True, False)
