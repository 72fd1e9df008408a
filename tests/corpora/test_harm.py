"""Harmful command lines of `tests/cases/harm.jsonl`, really run: none has an effect that a person did not agree to."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import amounts
from corpora.canaries import Canaries, leaks
from corpora.room import Answer, Room, cases, starts_byleave, why_no_room

CASES = cases("harm.jsonl")
CLASSES = sorted({case["class"] for case in CASES})
pytestmark = pytest.mark.skipif(why_no_room() is not None, reason=str(why_no_room()))
SANDBOX_FAILED = 125
KEYS = {
    *("not_in_output", "file_unchanged", "file_absent", "mode_unchanged", "mode_not_setuid", "home_unchanged"),
    *("no_connection", "victim_alive", "state_unchanged", "crontab_unchanged", "needs_yes", "decision"),
}

MUST_BE_ANSWERED = {"needs_yes", "decision"}  # the answer itself is what matters


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room.build(tmp_path, "mixed", secret_files=True)
    yield room
    room.close()


def test_the_corpus_is_well_formed() -> None:
    assert len(CASES) >= 150
    assert [name for name, count in Counter(case["id"] for case in CASES).items() if count > 1] == []
    assert {key for case in CASES for key in case["canary"]} <= KEYS
    assert all(case["canary"] for case in CASES)


@pytest.mark.parametrize("of_class", CLASSES)
def test_no_harmful_line_has_an_effect(room: Room, of_class: str) -> None:
    chosen = [case for case in CASES if case["class"] == of_class]
    executed = amounts.some(chosen, every=60)
    answered = amounts.some(chosen, every=16)
    found = []
    fresh = True
    for case in chosen:
        if case not in answered and not MUST_BE_ANSWERED & case["canary"].keys():
            continue
        if not fresh or "setup" in case:
            room.restore(case.get("setup"))
        fresh = "setup" not in case and case not in executed
        answer = room.hook(room.filled(case["command"]))
        found += [f"{case['id']}: {what}" for what in _wrong_answers(room, case, answer)]
        if case in executed:
            found += [f"{case['id']}: {what}" for what in _run(room, case, answer)]
    assert found == []


def test_no_harmful_line_is_allowed_where_nothing_can_confine_it(room: Room) -> None:
    """An agent whose hook cannot change a call, or a machine without a sandbox: what is allowed runs as it is."""
    allowed = set()
    for setup, together in _by_setup():
        room.restore(setup)
        asked = [{"id": case["id"], "unconfined": True, "action": _action(room, case)} for case in together]
        feed = "".join(json.dumps(line) + "\n" for line in asked)
        answered = room.run([room.names["BYLEAVE"], "check", "--batch"], feed=feed).out.splitlines()
        assert len(answered) == len(asked)
        verdicts = [json.loads(line) for line in answered]
        allowed |= {each["id"] for each in verdicts if each["verdict"]["decision"] == "allow"}
    assert allowed == set()


def _by_setup() -> Iterator[tuple[dict[str, Any] | None, list[dict[str, Any]]]]:
    yield None, [case for case in CASES if "setup" not in case]
    prepared = [case for case in CASES if "setup" in case]
    yield from ((case["setup"], [case]) for case in amounts.some(prepared, every=3))


def _action(room: Room, case: dict[str, Any]) -> dict[str, str]:
    return {"kind": "command", "command": room.filled(case["command"])}


def _wrong_answers(room: Room, case: dict[str, Any], answer: Answer) -> Iterator[str]:
    canary = case["canary"]
    if canary.get("needs_yes") and answer.runs:
        yield f"is allowed without a person's yes: {answer.reason}"
    if "decision" in canary and answer.decision not in canary["decision"]:
        yield f"is answered {answer.decision}: {answer.reason}"
    if any(leaks(answer.reason, text) for text in room.secrets.values()):
        yield "the answer shows a secret"


def _run(room: Room, case: dict[str, Any], answer: Answer) -> Iterator[str]:
    """Run a line as the agent would after the answer, and as it would after a person's yes."""
    command, canary = room.filled(case["command"]), case["canary"]
    if answer.runs and answer.changed is None:
        yield "is allowed as it is, unconfined"
        return
    if answer.changed is not None:
        if not starts_byleave(answer.changed, room.names["BYLEAVE"]):
            yield f"is changed to something else than a run of byleave: {answer.changed[:200]}"
            return
        yield from _harmed(room, canary, ["bash", "-c", answer.changed])
    # As a person's yes would run it; a text that the rules deny comes as a script, as an agent may try, too.
    for text in (command, "sh ./step.sh"):
        room.restore({**case.get("setup", {}), "files": {**case.get("setup", {}).get("files", {}), "step.sh": command}})
        yield from _harmed(room, canary, [room.names["BYLEAVE"], "run", "--shell", text])


def _harmed(room: Room, canary: dict[str, Any], argv: list[str]) -> Iterator[str]:
    before = Canaries.before(room, canary)
    ended = room.run(argv, seconds=30, ends=True)
    how = "confined" if argv[0] == "bash" else os.path.basename(argv[-1])[:20]
    if "byleave: " in ended.err and (ended.code == SANDBOX_FAILED or "internal error" in ended.err):
        yield f"did not run at all: {ended.err[-200:]}"
    yield from (f"{what} ({how}, exit {ended.code})" for what in before.harmed(canary, ended.out + ended.err))
