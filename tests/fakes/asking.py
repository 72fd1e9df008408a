"""Somebody to ask and somewhere to record, in memory."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.guard.evaluation import Question
from byleave.store.interfaces import KeptRecord
from byleave.store.questions import Answer, Questions


class MemoryLog:
    """Keeps records in a list; `full` makes it fail as a full disk does."""

    may_wait = False

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.full = False
        self.closed = False
        self.warnings: list[str] = []
        self.mask = Redactor()

    def append(self, fields: Mapping[str, Any]) -> int:
        if self.full:
            raise StateError("the journal cannot be written: No space left on device", hint="make room")
        self.records.append(dict(fields))
        return len(self.records)

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> list[int]:
        return [self.append(fields) for fields in records]

    def stage(self, fields: Mapping[str, Any], _on_failure: object = None) -> KeptRecord:
        return KeptRecord(self.append(fields))

    def mask_with(self, mask: Redactor) -> None:
        self.mask = mask

    def close(self) -> None:
        self.closed = True


class Person:
    """Gives the scripted replies one after the other, and remembers what was asked."""

    name = "person"

    def __init__(self, *replies: str, meanwhile: Callable[[], object] | None = None) -> None:
        self._replies: Iterator[str] = iter(replies)
        self._meanwhile = meanwhile
        self.asked: list[Question] = []

    def ask(self, question: Question, _patience: float) -> str:
        self.asked.append(question)
        if self._meanwhile is not None:
            self._meanwhile()
        return next(self._replies)


class DistantPerson(Person):
    """The same, to be awaited."""

    async def ask(self, question: Question, patience: float) -> str:  # type: ignore[override]
        return super().ask(question, patience)


def answer_first(store: Questions, choice: str, *, seconds: float = 20.0, reason: str = "") -> str:
    """Answer the first question that comes; return its id."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for question in store.all():
            assert store.answer(Answer(question.id, choice, "dashboard", reason))
            return question.id
        time.sleep(0.02)
    raise AssertionError("no question came")
