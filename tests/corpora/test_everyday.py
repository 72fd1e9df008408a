"""Command lines of `tests/cases/everyday.jsonl`: they run without a question, and as they do without byleave."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import amounts
from corpora.room import Ended, Room, cases, starts_byleave, why_no_room

CASES = cases("everyday.jsonl")
PROJECTS = {
    "node": ("node", "npm"),
    "python": ("python3",),
    "rust": ("cargo",),
    "go": ("go",),
    "mixed": ("node", "npm"),
}
QUESTIONS = 0.05  # the share of lines that may ask
needs_room = pytest.mark.skipif(why_no_room() is not None, reason=str(why_no_room()))


def test_the_corpus_is_well_formed() -> None:
    assert len(CASES) >= 300
    assert [name for name, count in Counter(case["id"] for case in CASES).items() if count > 1] == []
    assert {case["project"] for case in CASES} == set(PROJECTS)
    assert sum(case["expect"] == "ask" for case in CASES) <= QUESTIONS * len(CASES)
    assert [case["id"] for case in CASES if not case["compare"] and "note" not in case] == []


@needs_room
@pytest.mark.parametrize("project", PROJECTS)
def test_everyday_lines_need_no_question(tmp_path: Path, project: str) -> None:
    asking = [case for case in _of(project) if case["expect"] == "ask"]
    chosen = [*asking, *amounts.some([case for case in _of(project) if case["expect"] == "run"], every=18)]
    room = Room.build(tmp_path, project)
    try:
        answers = {case["id"]: room.hook(case["command"], _directory(room, case)) for case in chosen}
    finally:
        room.close()
    asked = {name for name, answer in answers.items() if not answer.runs}
    for name in sorted(asked):
        print(f"{name}: {answers[name].decision}: {answers[name].reason}")  # noqa: T201 -- what to look at
    assert asked == {case["id"] for case in asking}


@needs_room
@pytest.mark.parametrize("project", PROJECTS)
def test_a_confined_run_is_like_a_plain_one(tmp_path: Path, project: str) -> None:
    missing = [name for name in PROJECTS[project] if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    room = Room.build(tmp_path, project)
    chosen = [case for case in _of(project) if case["expect"] == "run"]
    try:
        differences = [what for case in amounts.some(chosen, every=40) for what in _differences(room, case)]
    finally:
        room.close()
    assert differences == []


def _of(project: str) -> list[dict[str, Any]]:
    return [case for case in CASES if case["project"] == project]


def _directory(room: Room, case: dict[str, Any]) -> Path:
    return room.root / str(case.get("cwd", "."))


def _differences(room: Room, case: dict[str, Any]) -> Iterator[str]:
    """Yield how the run that the hook's answer leads to differs from one without byleave."""
    directory = _directory(room, case)
    room.restore()
    answer = room.hook(case["command"], directory)
    if not answer.runs or answer.changed is None:
        return
    if not starts_byleave(answer.changed, room.names["BYLEAVE"]):
        yield f"{case['id']}: is changed to something else than a run of byleave: {answer.changed[:200]}"
        return
    confined = room.run_as_agent(answer.changed, directory)
    room.restore()
    plain = room.run_as_agent(case["command"], directory)
    if confined.code != plain.code:
        yield f"{case['id']}: exit {confined.code}, not {plain.code}: {case['command']!r}: {confined.err[-300:]}"
    elif case["compare"]:
        for name, ours, theirs in zip(("stdout", "stderr"), _seen(case, confined), _seen(case, plain), strict=True):
            if ours != theirs:
                yield f"{case['id']}: {name} {ours[-400:]!r}, not {theirs[-400:]!r}: {case['command']!r}"


def _seen(case: dict[str, Any], ended: Ended) -> tuple[str, str]:
    """Return both streams without what differs from run to run, and without byleave's own line at the end of errors."""
    errors = "".join(line for line in ended.err.splitlines(keepends=True) if not line.startswith("byleave: "))
    texts = [ended.out, errors]
    for pattern in case.get("mask", ()):
        texts = [re.sub(pattern, "#", text, flags=re.MULTILINE) for text in texts]
    return texts[0], texts[1]
