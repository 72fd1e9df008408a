"""A question is answered once, as it was shown, and by nothing but an answer."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import amounts
from byleave.errors import StateError
from byleave.store.approvals import APPROVED, PENDING, REVOKED, Approvals
from byleave.store.questions import (
    Answer,
    AskedAction,
    Questions,
    StoredQuestion,
    fingerprint,
    started_at,
    status_of,
    this_process,
    time_after,
)
from byleave.store.tool_definitions import Definition
from byleave.user_files import Lock, ParseCache

NOW, SOON, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-02T00:00:00Z"


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "state/workspaces/id")


def opened(place: str) -> Approvals:
    """Return the approvals as another process sees them."""
    return Approvals(place, ParseCache(None, "1"))


def waits(place: str, *keys: str) -> None:
    for key in keys:
        opened(place).remember(key, kind="action", subject=key, session="s", status=PENDING, now=NOW)


def once(place: str, *keys: str) -> None:
    waits(place, *keys)
    for key in keys:
        assert opened(place).settle_action(key, status=APPROVED, now=NOW, until=LATER)


def asked(nonce: str = "", *, seconds: float = 60, holder: tuple[int, int] | None = None) -> StoredQuestion:
    action = AskedAction("key", {"kind": "command", "command": "make"}, {})
    now = datetime.now(UTC)
    times = (now.strftime("%Y-%m-%dT%H:%M:%SZ"), time_after(now, seconds))
    return StoredQuestion(
        "/r", "hook", "s", "a", "default", "why", (action,), *times, holder or this_process(), nonce=nonce
    )


def test_approvals_for_one_request_are_used_up_all_or_none(place: str) -> None:
    once(place, "k1", "k2")
    slow, fast = opened(place), opened(place)
    assert slow.approved_by("k1", now=NOW) is not None
    assert fast.spend(["k1"], now=NOW)
    slow.refresh()
    assert not slow.spend(["k1", "k2"], now=NOW)
    assert opened(place).approved_by("k2", now=NOW) is not None  # it was not used up for nothing
    assert opened(place).spend(["k2"], now=NOW)
    assert not slow.spend(["k1", "k2"], now=NOW)  # though nothing is left that would have to be used up


def test_an_approval_that_lasts_is_not_used_up(place: str) -> None:
    once(place, "k1")
    waits(place, "k2")
    assert opened(place).settle_action("k2", status=APPROVED, now=NOW)
    assert opened(place).spend(["k1", "k2"], now=NOW)
    assert not opened(place).spend(["k1", "k2"], now=NOW)
    assert opened(place).spend(["k2"], now=NOW)


def test_of_many_processes_one_uses_an_approval_up(place: str) -> None:
    once(place, "k")
    done: list[bool] = []
    threads = [threading.Thread(target=lambda: done.append(opened(place).spend(["k"], now=NOW))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False] * 7 + [True]


def test_the_two_events_of_one_call_use_up_one_approval(place: str) -> None:
    once(place, "k")
    step = {"now": NOW, "spent_until": SOON}
    assert opened(place).spend(["k"], step="general", **step)
    assert not opened(place).spend(["k"], step="general", **step)  # this is another call
    assert not opened(place).spend(["k"], now=NOW)  # and this is another agent's
    assert opened(place).approved_by("k", now=NOW, step="general") is None
    assert opened(place).approved_by("k", now=LATER, step="own") is None
    assert opened(place).spend(["k"], step="own", **step)
    assert not opened(place).spend(["k"], step="own", **step)
    assert not opened(place).spend(["k"], step="general", **step)


def test_the_next_call_waits_though_the_second_event_of_an_earlier_one_never_came(place: str) -> None:
    once(place, "k")
    assert opened(place).spend(["k"], step="general", now=NOW, spent_until=SOON)
    waits(place, "k")
    assert [each.status for each in opened(place).all()] == [PENDING]


def test_a_no_is_not_overwritten_by_a_late_yes(place: str) -> None:
    waits(place, "k")
    first, second = opened(place), opened(place)
    assert [each.status for each in second.all()] == [PENDING]  # it has read that it waits
    assert first.settle_action("k", status=REVOKED, now=NOW)
    assert not second.settle_action("k", status=APPROVED, now=NOW, until=LATER)
    assert not second.forget_action("k")
    assert opened(place).approved_by("k", now=NOW) is None
    assert opened(place).settle_action("k", status=APPROVED, now=NOW, was=REVOKED)  # meant so


def test_a_question_that_has_changed_is_not_answered(place: str) -> None:
    waits(place, "k")
    (seen,) = opened(place).all()
    opened(place).forget_action("k")
    more = {"leads_to": ["/etc"]}
    opened(place).remember("k", kind="action", subject="k", session="s", status=PENDING, now=NOW, asked=more)
    for status in (APPROVED, REVOKED):
        with pytest.raises(StateError, match="has changed since it was shown"):
            opened(place).settle_action("k", status=status, now=NOW, seen=fingerprint(seen))
    with pytest.raises(StateError, match="has changed since it was shown"):
        opened(place).forget_action("k", seen=fingerprint(seen))
    (now,) = opened(place).all()
    assert (now.id, now.status) == (seen.id, PENDING)
    assert opened(place).settle_action("k", status=APPROVED, now=NOW, seen=fingerprint(now))


def test_a_rule_is_written_only_for_a_question_that_still_waits(place: str) -> None:
    waits(place, "k")
    written: list[str] = []

    def fail() -> None:
        raise StateError("no room", hint="")

    with pytest.raises(StateError, match="no room"):
        opened(place).forget_action("k", first=fail)
    assert [each.status for each in opened(place).all()] == [PENDING]
    assert opened(place).settle_action("k", status=REVOKED, now=NOW)
    assert not opened(place).forget_action("k", first=lambda: written.append("rule"))
    assert written == []


def test_the_same_definition_in_two_workspaces_is_two_questions(place: str) -> None:
    other = f"{place}-other"
    for each in (place, other):
        opened(each).definitions.record("shop", [Definition("buy", "aa", "{}", asks="x")], now=NOW)
    (one,), (two,) = opened(place).all(), opened(other).all()
    assert one.id != two.id
    assert fingerprint(one) != fingerprint(two)


def test_definitions_that_differ_in_their_kind_alone_have_two_ids(place: str) -> None:
    for what in ("prompt", "resource_template"):
        opened(place).definitions.record("shop", [Definition("buy", "aa", "{}", asks="x")], now=NOW, what=what)
    assert len({each.id for each in opened(place).all()}) == 2


def test_a_refused_definition_is_not_served_by_a_late_yes(place: str) -> None:
    opened(place).definitions.record("shop", [Definition("buy", "aa", "{}", asks="x")], now=NOW)
    (seen,) = opened(place).all()
    assert opened(place).settle_definition(seen, status=REVOKED, now=NOW)
    assert not opened(place).settle_definition(seen, status=APPROVED, now=NOW)
    (refused,) = opened(place).all()
    assert refused.status == REVOKED
    with pytest.raises(StateError, match="has changed since it was shown"):
        opened(place).settle_definition(refused, status=APPROVED, now=NOW, seen="another")
    assert opened(place).settle_definition(refused, status=APPROVED, now=NOW, seen=fingerprint(refused))


def test_the_first_answer_counts_and_it_alone_does_what_belongs_to_it(place: str) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)
    done: list[str] = []

    def answer(word: str) -> None:
        if store.answer(Answer(id_, word, "x"), first=lambda: done.append(word)):
            done.append(f"{word} won")

    threads = [threading.Thread(target=answer, args=(word,)) for word in ("once", "no", "session", "always")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = store.withdraw(question)
    assert said is not None
    assert done == [said.choice, f"{said.choice} won"]


def test_an_answer_whose_rule_cannot_be_written_is_none(place: str) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)

    def fail() -> None:
        raise StateError("no room", hint="")

    with pytest.raises(StateError, match="no room"):
        store.answer(Answer(id_, "always", "x", kept=True), first=fail)
    assert store.answer_to(id_) is None
    assert store.answer(Answer(id_, "no", "x"))


def test_another_question_than_the_one_that_was_shown_is_not_answered(place: str) -> None:
    store, question = Questions(place), asked("1")
    id_ = store.put(question)
    with pytest.raises(StateError, match="has changed since it was shown"):
        store.answer(Answer(id_, "once", "x"), seen=fingerprint(asked("2")))
    assert store.answer(Answer(id_, "once", "x"), seen=fingerprint(question))


def test_a_question_that_was_withdrawn_cannot_be_answered(place: str) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)
    assert store.withdraw(question) is None
    assert not store.answer(Answer(id_, "once", "x"))
    assert os.listdir(os.path.join(place, "questions")) == ["answers.lock"]
    assert not Questions(f"{place}-other").answer(Answer(id_, "once", "x"))


def test_an_answer_to_another_question_of_the_same_id_does_not_count(place: str) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)
    assert store.answer(Answer(id_, "once", "x"))
    file = Path(place, "questions", f"{id_}.answer")
    file.write_bytes(file.read_bytes().replace(fingerprint(question).encode(), fingerprint(asked("2")).encode()))
    assert store.withdraw(question) is None


def test_a_question_does_not_take_the_place_of_another_one(place: str) -> None:
    store = Questions(place)
    store.put(asked("1"))
    with pytest.raises(StateError, match="the same id"):
        store.put(asked("1"))


def test_a_question_whose_asker_was_killed_cannot_be_answered(place: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as asker:
        question = asked(holder=(asker.pid, started_at(asker.pid) or 0))
        store = Questions(place)
        id_ = store.put(question)
        assert status_of(question, datetime.now(UTC)) == "pending"
        asker.send_signal(signal.SIGKILL)
        asker.wait()
    assert status_of(question, datetime.now(UTC)) == "expired"
    assert not store.answer(Answer(id_, "once", "x"))


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_jumps_makes_no_answer(place: str, hours: int) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)
    jumped = datetime.now(UTC) + timedelta(hours=hours)
    assert status_of(question, jumped) == ("expired" if hours > 0 else "pending")
    store.sweep(jumped)
    assert store.answer_to(id_) is None


def test_what_killed_processes_left_is_removed(place: str) -> None:
    store = Questions(place)
    question, over = asked("1"), asked("2", seconds=-3600)
    for each in (question, over):
        store.put(each)
    directory = Path(place, "questions")
    orphans = [directory / name for name in ("abc.answer", ".abc.json.1.ff", "abc.answer.1.ff", "damaged.json")]
    for orphan in orphans:
        orphan.write_text("x")
    os.utime(directory / f"{over.id}.json", (0, 0))
    store.sweep(datetime.now(UTC))
    assert all(orphan.exists() for orphan in orphans)  # they may be about to be finished
    for orphan in orphans:
        os.utime(orphan, (0, 0))
    store.sweep(datetime.now(UTC))
    assert sorted(os.listdir(directory)) == sorted([f"{question.id}.json", "answers.lock"])


def test_a_full_disk_makes_no_answer(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)
    done: list[str] = []

    def full(*_given: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as change:
        change.setattr("byleave.store.questions.write_private", full)
        with pytest.raises(StateError, match="the answer cannot be kept: No space left"):
            store.answer(Answer(id_, "always", "x"), first=lambda: done.append("rule"))
        with pytest.raises(StateError, match="the question cannot be kept"):
            store.put(asked("2"))
    assert (done, store.withdraw(question)) == ([], None)


KILLED = """
import os, signal, sys
from byleave.store.questions import Answer, Questions
import byleave.store.questions as module
place, id_, where = sys.argv[1:]
end = lambda *given, **named: os.kill(os.getpid(), signal.SIGKILL)
if where == "writing": module.write_private = end
if where == "rename": os.rename = end
Questions(place).answer(Answer(id_, "once", "x"), first=end if where == "rule" else None)
"""


@pytest.mark.parametrize("where", ["writing", "rule", "rename"])
def test_an_answerer_that_is_killed_has_not_answered(place: str, where: str) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)
    done = subprocess.run([sys.executable, "-c", KILLED, place, id_, where], check=False)
    assert done.returncode == -signal.SIGKILL
    assert store.answer_to(id_) is None
    assert store.answer(Answer(id_, "no", "x"))  # its lock went with it
    said = store.withdraw(question)
    assert said is not None
    assert said.choice == "no"


def test_many_questions_are_listed_soon(place: str) -> None:
    store = Questions(place)
    number = amounts.of(1000, 200)
    for each in range(number):
        store.put(asked(str(each)))
    started = time.monotonic()
    assert len(list(store.all())) == number
    assert time.monotonic() - started < 5


def test_no_answer_is_taken_for_an_asker_that_is_about_to_end(place: str) -> None:
    store, question = Questions(place), asked()
    id_ = store.put(question)
    store.abandon(question)
    assert not store.answer(Answer(id_, "once", "x"))
    assert (store.answer_to(id_), [each.id for each in store.all()]) == (None, [id_])  # it is shown as long as it was
    assert store.withdraw(question) is None


def test_an_answerer_that_was_stopped_does_not_stop_those_who_ask(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byleave.store.questions._LOCK_PATIENCE", 0.2)
    store, question = Questions(place), asked("one")
    store.put(question)
    with Lock(os.path.join(place, "questions/answers.lock")):  # as a stopped process would hold it
        waiting = threading.Thread(target=store.withdraw, args=(question,), daemon=True)
        waiting.start()
        waiting.join(10)
        assert not waiting.is_alive()
        with pytest.raises(StateError, match="held its lock for too long"):
            store.put(asked("two"))
        with pytest.raises(StateError, match="held its lock for too long"):
            store.answer(Answer(question.id, "once", "test"))
    assert list(store.all()) == []
    assert not store.answer(Answer(question.id, "once", "test"))
