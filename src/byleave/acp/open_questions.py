"""The questions that are open: the agent's, which the editor has, and our own, which stand for a request that we hold.

Ids of both directions are independent of each other: here are only those of requests that go to the editor.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.acp.authorize import CallEvaluation
    from byleave.acp.call_tracker import Screen, TrackedCall
    from byleave.acp.requests import PermissionOption
    from byleave.protocol.jsonrpc import Id

MOST_OPEN = 1000
_MOST_ANSWERED = 4 * MOST_OPEN


class OpenQuestion:
    """A request of the agent that a person is asked about.

    `id` is that of the question: the agent's own, or ours where the request is `held` and we ask in its place.
    """

    def __init__(self, id_: Id, evaluation: CallEvaluation, session: str, raw_id: Any, line: bytes) -> None:
        self.id = id_
        self.evaluation = evaluation
        self.session = session
        self.raw_id = raw_id
        self.line = line
        self.options: tuple[PermissionOption, ...] = ()
        self.call: TrackedCall | None = None
        self.call_id = ""
        self.screen: Screen | None = None  # of the agent's own questions: what is shown with it
        self.contents: Mapping[str, str] = {}  # by path, the hash of the content that is shown with it
        self.held_for: Id | None = None
        self.cancelled_until: float | None = None


class OpenQuestions:
    """Open questions by id, and which were answered: the agent must see exactly one answer."""

    def __init__(self) -> None:
        self._open: dict[Id, OpenQuestion] = {}
        self._held: dict[Id, OpenQuestion] = {}  # ours, by the id of the agent's request
        self._answered: OrderedDict[Id, None] = OrderedDict()
        self._withdrawn: OrderedDict[Id, None] = OrderedDict()  # answered by us: the editor may still answer them

    def add(self, question: OpenQuestion) -> None:
        """Remember a question until it is answered."""
        self._open[question.id] = question
        if question.held_for is not None:
            self._held[question.held_for] = question

    @property
    def is_idle(self) -> bool:
        """Whether no id means anything here."""
        return not self._open and not self._answered

    @property
    def are_many(self) -> bool:
        """Whether so many are open that nobody can be expected to answer one more."""
        return len(self._open) >= MOST_OPEN

    def asked_with(self, id_: Id | None) -> OpenQuestion | None:
        """Return the open question that the agent's request with this id has led to."""
        return None if id_ is None else self._held.get(id_) or self._open.get(id_)

    def withdraw(self, id_: Id) -> None:
        """Answer a question in the editor's place: its id is not free before the editor has answered as well."""
        if self.take(id_) is not None:
            self._withdrawn[id_] = None
            if len(self._withdrawn) > _MOST_ANSWERED:
                self._withdrawn.popitem(last=False)

    def is_withdrawn(self, id_: Id | None) -> bool:
        """Whether the editor may still answer an older question with this id."""
        return id_ in self._withdrawn

    def take(self, id_: Id) -> OpenQuestion | None:
        """Return the question with this id, which is answered by that."""
        question = self._open.pop(id_, None)
        if question is not None:
            if question.held_for is not None:
                self._held.pop(question.held_for, None)
            self._answered[id_] = None
            if len(self._answered) > _MOST_ANSWERED:
                self._answered.popitem(last=False)
        return question

    def was_answered(self, id_: Id) -> bool:
        """Whether the question with this id has been answered, so that nobody wants to hear of it again."""
        self._withdrawn.pop(id_, None)  # this was the editor's answer
        return id_ in self._answered

    def reuse(self, id_: Id | None) -> None:
        """Heed that the agent uses an id again, for another request."""
        if self._answered and id_ is not None:
            self._answered.pop(id_, None)

    def in_session(self, name: object) -> list[OpenQuestion]:
        """Return the open questions of a session."""
        return [each for each in self._open.values() if each.session == name]

    def about(self, session: str, call_id: str) -> list[OpenQuestion]:
        """Return the agent's questions about a call that a person may still say yes to."""
        return [each for each in self.shown() if (each.session, each.call_id) == (session, call_id)]

    def shown(self) -> list[OpenQuestion]:
        """Return all questions of the agent's that a person may still say yes to."""
        return [each for each in self._open.values() if each.screen is not None and each.cancelled_until is None]

    def late(self, now: float) -> list[OpenQuestion]:
        """Return what was cancelled so long ago that the editor will not answer any more."""
        return [each for each in self.cancelled() if (each.cancelled_until or now) <= now]

    def cancelled(self) -> list[OpenQuestion]:
        """Return what was cancelled and is still open."""
        return [each for each in self._open.values() if each.cancelled_until is not None]

    def clear(self) -> list[OpenQuestion]:
        """Return everything that is open, and forget it."""
        left = list(self._open.values())
        self._open.clear()
        self._held.clear()
        return left
