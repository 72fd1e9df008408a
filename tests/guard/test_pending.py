"""A request that amounts to several actions: the strictest verdict is the answer, and every action is recorded."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from byleave.core.action import CommandAction, FileAction
from byleave.core.decision import ALLOW, ASK, DENY, Decision
from byleave.core.redact import Redactor
from byleave.guard.evaluation import (
    CANCELLED,
    FOR_SESSION,
    NEVER,
    NO,
    NO_PERSON,
    ONCE,
    UNASKED,
    ActionRequest,
    Evaluation,
    Pending,
    Reply,
)
from byleave.guard.guard import Guard
from byleave.guard.open_guard import guard_for
from byleave.store.audit.query import Filter
from scene import Scene

POLICY = """
[[rules]]
allow = { path = "src/**" }
[[rules]]
deny = { path = "secret/**" }
[[rules]]
allow = { command = "ls" }
"""
ALLOWED, DENIED, ASKED = (FileAction("read", f"{name}/a") for name in ("src", "secret", "other"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene.build(tmp_path)
    scene.say("user", POLICY)
    return scene


def guard_of(scene: Scene) -> Guard:
    return guard_for(scene.workspace, "acp", client_approves=None)


def pending(guard: Guard, *actions: Any, **named: Any) -> Pending:
    outcome = guard.authorize(ActionRequest(actions, **named))
    assert isinstance(outcome, Pending)
    return outcome


def settled(guard: Guard, *actions: Any, **named: Any) -> Evaluation:
    outcome = guard.authorize(ActionRequest(actions, **named))
    assert isinstance(outcome, Evaluation)
    return outcome


def records(scene: Scene) -> list[dict[str, Any]]:
    log = scene.workspace.audit_log(None, Redactor())
    try:
        log.fold()
        return [kept.tree for kept in log.query(Filter())]
    finally:
        log.close()


@pytest.mark.parametrize(
    ("actions", "decision"),
    [((ALLOWED,), ALLOW), ((ALLOWED, DENIED), DENY), ((ASKED, DENIED), DENY), ((ALLOWED, ALLOWED), ALLOW)],
)
def test_the_strictest_decides(scene: Scene, actions: Any, decision: Decision) -> None:
    with guard_of(scene) as guard:
        assert settled(guard, *actions).verdict.decision is decision
    assert [record["action"]["path"] for record in records(scene)] == [action.path for action in actions]


def test_a_record_says_what_became_of_its_request(scene: Scene) -> None:
    with guard_of(scene) as guard:
        settled(guard, ALLOWED, DENIED, fields={"tool_call": "t1"})
    first, second = records(scene)
    assert first["verdict"]["decision"] == "allow"
    assert first["request"] == second["request"] == {"actions": 2, "decision": "deny"}
    assert first["tool_call"] == "t1"


def test_a_question_is_recorded_once_it_is_answered(scene: Scene) -> None:
    with guard_of(scene) as guard:
        asked = pending(guard, ALLOWED, ASKED)
        assert records(scene) == []
        assert guard.complete(asked, Reply(ONCE, "editor")).allowed
    assert [record["verdict"]["decision"] for record in records(scene)] == ["allow", "allow"]
    assert [record["answer"] for record in records(scene)] == [{"by": "editor", "choice": "once"}] * 2


@pytest.mark.parametrize("reply", [NO, NEVER, CANCELLED, NO_PERSON, "what?"])
def test_what_is_no_yes_refuses_all_of_it(scene: Scene, reply: str) -> None:
    with guard_of(scene) as guard:
        assert not guard.complete(pending(guard, ALLOWED, ASKED), Reply(reply, "editor")).allowed
    assert {record["verdict"]["decision"] for record in records(scene)} == {"deny"}


def test_what_nobody_was_asked_about_keeps_its_verdict(scene: Scene) -> None:
    with guard_of(scene) as guard:
        done = guard.complete(pending(guard, ASKED, fields={"unasked": True}), Reply(UNASKED, "nobody"))
        assert done.verdict.decision is ASK
    assert [(record["verdict"]["decision"], record["unasked"]) for record in records(scene)] == [("ask", True)]


def test_a_yes_for_the_session_is_remembered_for_each_action(scene: Scene) -> None:
    with guard_of(scene) as guard:
        guard.complete(pending(guard, ALLOWED, ASKED), Reply(FOR_SESSION, "editor"))
        assert settled(guard, ASKED).allowed
        assert settled(guard, ALLOWED, ASKED).allowed
        assert isinstance(guard.authorize(ActionRequest((FileAction("read", "other/b"),))), Pending)


def test_a_no_for_the_session_is_remembered(scene: Scene) -> None:
    with guard_of(scene) as guard:
        guard.complete(pending(guard, ASKED), Reply(NEVER, "editor"))
        assert settled(guard, ASKED).verdict.decision is DENY
        assert not guard.check(ASKED).allowed


def test_what_cannot_be_understood_is_asked_whatever_allows_it_and_never_remembered(scene: Scene) -> None:
    unclear = "it cannot be told what this would do"
    with guard_of(scene) as guard:
        asked = pending(guard, ALLOWED, unclear=unclear)
        assert (asked.verdict.reason, asked.verdict.code) == (unclear, "unparsed")
        assert guard.complete(asked, Reply(FOR_SESSION, "editor")).allowed
        assert isinstance(guard.authorize(ActionRequest((ALLOWED,), unclear=unclear)), Pending)
        assert settled(guard, DENIED, unclear=unclear).verdict.decision is DENY


def test_by_hand_even_what_is_allowed_is_put_to_a_person(scene: Scene) -> None:
    with guard_of(scene) as guard:
        asked = pending(guard, ALLOWED, needs_person=True)
        assert asked.verdict.allowed
        assert not guard.complete(asked, Reply(NO, "editor")).allowed


def test_a_yes_does_not_outlive_what_it_was_said_to(scene: Scene) -> None:
    (scene.root / "other").mkdir()
    with guard_of(scene) as guard:
        asked = pending(guard, ALLOWED, ASKED)
        (scene.root / "other").rmdir()
        (scene.root / "other").symlink_to("/etc")
        done = guard.complete(asked, Reply(FOR_SESSION, "editor"))
        assert not done.allowed
        assert isinstance(guard.authorize(ActionRequest((ASKED,))), Pending)
    allowed = [record for record in records(scene) if record["verdict"]["decision"] == "allow"]
    assert all("approval" not in record["verdict"]["because"][0]["source"] for record in allowed)


def test_a_rule_that_denies_by_now_wins_over_the_answer(scene: Scene) -> None:
    with guard_of(scene) as guard:
        asked = pending(guard, CommandAction("make"), CommandAction("ls"))
        scene.say("user", '[[rules]]\ndeny = { command = "make" }\n')
        guard.policy.expire()
        assert not guard.complete(asked, Reply(ONCE, "editor")).allowed


def test_a_new_deny_wins_over_a_yes_however_lately_the_policy_was_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.policy.live_policy.REVALIDATE_AFTER", 60.0)  # as after a look that took three seconds
    with guard_of(scene) as guard:
        waiting = pending(guard, ASKED)
        scene.say("user", f'{POLICY}[[rules]]\ndeny = {{ path = "other/**" }}\n')
        assert guard.complete(waiting, Reply(ONCE, "dashboard")).verdict.decision is DENY


def test_approvals_that_are_waited_for_hold_up_no_other_request(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store answers only once another request has been served by the same loop."""
    served = threading.Event()
    with guard_of(scene) as guard:
        guard.complete(pending(guard, ASKED), Reply(FOR_SESSION, "acp"))
        recall = guard.approvals.approved_by
        monkeypatch.setattr(guard.approvals, "may_wait", True, raising=False)
        monkeypatch.setattr(
            guard.approvals, "approved_by", lambda *said, **named: recall(*said, **named) if served.wait(20) else None
        )

        async def both() -> tuple[Any, Any]:
            waits = asyncio.ensure_future(guard.authorize_async(ActionRequest((ASKED,))))
            await asyncio.sleep(0.05)
            other = await guard.authorize_async(ActionRequest((ALLOWED,)))
            served.set()
            return await waits, other

        outcomes = asyncio.run(both())
    assert [isinstance(each, Evaluation) and each.allowed for each in outcomes] == [True, True]
