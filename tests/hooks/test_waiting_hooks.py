"""A hook waits for a person while questions are shown; however it ends, nothing is answered that was not."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from byleave.guard.evaluation import NO
from byleave.hooks import authorize
from byleave.policy.dirs import find_homes, own_packages
from byleave.policy.load import Workspace
from byleave.store.approvals import APPROVED, PENDING
from byleave.store.questions import Answer, OpenView, Questions, StoredQuestion, status_of
from fakes.asking import answer_first
from hooks.hook_scene import ENTRY, HookScene, cursor, opencode

RULES = """
[defaults]
ask_timeout = 15
[[rules]]
ask = { path = "src/**" }
[[rules]]
ask = { command = "npm" }
"""
NOW, LATER = "2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    return HookScene.build(tmp_path, RULES)


def state(scene: HookScene) -> str:
    return find_homes({"HOME": str(scene.home)}).state


def questions(scene: HookScene) -> Questions:
    return Questions(scene.approvals.directory)


def read_events(scene: HookScene) -> tuple[dict[str, Any], dict[str, Any]]:
    path = str(scene.root / "src/old.txt")
    general = cursor("preToolUse", scene.root, tool_name="Read", tool_input={"file_path": path}, tool_use_id="t")
    return general, cursor("beforeReadFile", scene.root, file_path=path)


def says(scene: HookScene, event: dict[str, Any]) -> str:
    return str(json.loads(scene.says("cursor", event))["permission"])


def test_an_approval_for_once_is_for_both_events_of_one_call_in_cursor(scene: HookScene) -> None:
    general, own = read_events(scene)
    assert [says(scene, general), says(scene, own)] == ["deny", "deny"]
    (waiting,) = scene.approvals.all()  # one question, though there are two events
    assert scene.approvals.settle_action(waiting.detail["key"], status=APPROVED, now=NOW, until=LATER)
    assert [says(scene, general), says(scene, own)] == ["allow", "allow"]
    assert [says(scene, general), says(scene, own)] == ["deny", "deny"]
    assert [each.status for each in scene.approvals.all()] == [PENDING]


def test_the_first_event_of_two_calls_does_not_pass_for_the_second_of_one(scene: HookScene) -> None:
    general, own = read_events(scene)
    says(scene, general)
    (waiting,) = scene.approvals.all()
    assert scene.approvals.settle_action(waiting.detail["key"], status=APPROVED, now=NOW, until=LATER)
    # The second call waits anew, and takes the rest of the approval with it: none is allowed that was not approved.
    assert [says(scene, general), says(scene, general), says(scene, own)] == ["allow", "deny", "deny"]


def test_a_person_who_is_asked_meanwhile_answers_once_for_both_events(scene: HookScene) -> None:
    general, own = read_events(scene)
    with OpenView(state(scene)):
        answering = threading.Thread(target=answer_first, args=(questions(scene), "once"))
        answering.start()
        assert says(scene, general) == "allow"
        answering.join()
        assert says(scene, own) == "allow"
        refusing = threading.Thread(target=answer_first, args=(questions(scene), NO))
        refusing.start()
        assert says(scene, general) == "deny"
        refusing.join()


@pytest.fixture
def timer() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, lambda *_given: None)
    signal.setitimer(signal.ITIMER_REAL, 10)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_the_time_limit_stays_where_a_dashboard_was_killed(scene: HookScene, timer: None) -> None:
    with OpenView(state(scene)):
        pass
    assert Path(state(scene), "dashboard.open").exists()
    said = scene.says("opencode", opencode("bash", {"command": "npm ci"}, scene.root))
    assert "approve it with `byleave approvals approve`" in said
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 4


def test_a_dashboard_that_was_killed_is_not_waited_for(scene: HookScene) -> None:
    program = (
        "import sys, time; from byleave.store.questions import OpenView\n"
        "OpenView(sys.argv[1]).enter(); print('open', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, state(scene)], stdout=subprocess.PIPE) as view:
        assert view.stdout is not None
        assert view.stdout.readline()
        view.kill()
    started = time.monotonic()
    scene.says("opencode", opencode("bash", {"command": "npm ci"}, scene.root))
    assert time.monotonic() - started < 5


def test_a_hook_that_fails_while_it_waits_leaves_a_record_and_no_question(
    scene: HookScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> None:
        raise RuntimeError("no more")

    with OpenView(state(scene)):
        monkeypatch.setattr("byleave.guard.held_question.HeldQuestion._watch", fail)
        with pytest.raises(RuntimeError, match="no more"):
            scene.says("opencode", opencode("bash", {"command": "npm ci"}, scene.root))
    assert list(questions(scene).all()) == []
    (record,) = [each for each in scene.records() if each["event"] == "decision"]
    assert (record["verdict"]["decision"], record["answer"]["choice"]) == ("deny", "cancelled")


def start_hook(scene: HookScene) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-I", str(ENTRY), "hook", "opencode", "--home", str(scene.home)]
    hook = subprocess.Popen(
        [*words, "--packages", own_packages()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=scene.root,
        env={"PATH": os.environ["PATH"], "HOME": str(scene.home), "BYLEAVE_SERVICE": "off"},
    )
    assert hook.stdin is not None
    hook.stdin.write(json.dumps(opencode("bash", {"command": "npm ci"}, scene.root)).encode())
    hook.stdin.close()
    return hook


def first(scene: HookScene) -> StoredQuestion:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for question in questions(scene).all():
            return question
        time.sleep(0.02)
    raise AssertionError("no question came")


def test_the_question_of_a_killed_hook_is_expired_within_five_seconds(scene: HookScene) -> None:
    with OpenView(state(scene)), start_hook(scene) as hook:
        question = first(scene)
        hook.kill()
        end = time.monotonic() + 5
        while status_of(question, datetime.now(UTC)) == "pending":
            assert time.monotonic() < end
            time.sleep(0.02)
        assert not questions(scene).answer(Answer(question.id, "once", "x"))


def test_a_hook_stops_to_wait_when_its_agent_has_ended(scene: HookScene) -> None:
    with OpenView(state(scene)), start_hook(scene) as hook:
        question = first(scene)
        assert hook.stdout is not None
        hook.stdout.close()  # as the end of the agent does
        end = time.monotonic() + 5
        while list(questions(scene).all()):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert not questions(scene).answer(Answer(question.id, "once", "x"))
        hook.wait(timeout=10)
    assert [each.status for each in scene.approvals.all()] == [PENDING]


class _Hold:
    """A hold that only says when it begins and ends."""

    def __init__(self, said: list[str]) -> None:
        self._said = said
        said.append("stop")

    def release(self) -> None:
        self._said.append("go on")

    def keep(self, _call: str) -> None:
        self._said.append("keep")


def pausing(monkeypatch: pytest.MonkeyPatch, *found: str) -> list[str]:
    """Have the hook believe that confined commands run; return what it does to them. `found`: why it cannot."""
    said: list[str] = []
    answers: Iterator[str] = iter(found)
    monkeypatch.setattr(authorize, "has_live_runs", lambda _state: True)
    monkeypatch.setattr("byleave.hooks.pausing.pause", lambda _state: next(answers, "") or _Hold(said))
    return said


def test_confined_commands_go_on_while_a_person_thinks_and_are_stopped_again(
    scene: HookScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = pausing(monkeypatch)

    def answer() -> None:
        first(scene)
        said.append("asked")
        answer_first(questions(scene), "once")

    with OpenView(state(scene)):
        answering = threading.Thread(target=answer)
        answering.start()
        event = opencode("read", {"filePath": str(scene.root / "src/old.txt")}, scene.root)
        assert json.loads(scene.says("opencode", event))["decision"] == "allow"
        answering.join()
    assert said == ["stop", "go on", "asked", "stop", "keep"]


def test_a_yes_does_not_count_where_commands_cannot_be_stopped_again(
    scene: HookScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    pausing(monkeypatch, "", "it cannot be stopped")
    with OpenView(state(scene)):
        answering = threading.Thread(target=answer_first, args=(questions(scene), "once"))
        answering.start()
        event = opencode("read", {"filePath": str(scene.root / "src/old.txt")}, scene.root)
        said = json.loads(scene.says("opencode", event))
        answering.join()
    assert said["decision"] == "deny"
    assert "it cannot be stopped" in said["reason"]


def test_what_waits_for_a_later_attempt_says_where_it_leads(scene: HookScene, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    (scene.root / "src/link").symlink_to(tmp_path / "elsewhere")
    scene.says("opencode", opencode("read", {"filePath": str(scene.root / "src/link")}, scene.root))
    found = [
        each.asked for each in Workspace(str(scene.root), homes=find_homes({"HOME": str(scene.home)})).approvals.all()
    ]
    assert [each["leads_to"] for each in found] == [[str(tmp_path / "elsewhere")]]
