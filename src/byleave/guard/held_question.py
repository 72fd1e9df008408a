"""Hold a request open until a person answers it in a dashboard or a terminal view, or its time is over.

The question is a file (`store.questions`); so is the answer. This process looks for the answer every tenth of a second,
and withdraws the question when it stops to wait, for whatever reason: from then on it cannot be answered. One whose
process was killed shows as expired.

Start at `HeldQuestion`. Where requests wait: `Guard.hold`, `Guard.hold_async`.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime
from select import POLLIN, poll
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.caller import FrontGoneError, front
from byleave.core.action import action_tree
from byleave.core.decision import ASK, shared_tree
from byleave.errors import StateError
from byleave.guard.evaluation import Reply
from byleave.store.approvals import now
from byleave.store.questions import AskedAction, Questions, StoredQuestion, is_seen, this_process, time_after
from byleave.text import speakable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.core.redact import Redactor
    from byleave.guard.evaluation import Pending, Question

__all__ = ["HeldQuestion", "HoldingPlace", "is_seen"]

_PERIOD = 0.1  # seconds between two looks
_LONGEST = 20_000  # characters of all actions: more cannot be read before it is answered
_OUTPUT = 1


class HoldingPlace(Struct, frozen=True):
    """Whose question it is: the private directory of the workspace, its root, the integration, the session."""

    directory: str
    root: str
    door: str
    session: str


class HeldQuestion:
    """A request that waits. One that is too long to be read, or cannot be kept, does not wait at all."""

    def __init__(
        self,
        pending: Pending,
        place: HoldingPlace,
        seconds: float,
        *,
        given: Mapping[str, Any] | None,
        mask: Redactor,
    ) -> None:
        self._store = Questions(place.directory)
        self._question = _stored(pending, place, seconds, given, mask)
        self._end = time.monotonic() + seconds

    def wait(self) -> Reply | None:
        """Return the reply; None if none comes in time, or no program reads what this process will say.

        A FrontGoneError if the front is gone: this process ends then, and leaves the question behind as expired.
        """
        id_ = self._put()
        if not id_:
            return None
        try:
            self._watch(id_)
        except FrontGoneError:
            self._store.abandon(self._question)
            raise
        except BaseException:
            self._store.withdraw(self._question)
            raise
        return self._withdrawn()

    def _watch(self, id_: str) -> None:
        """Return once there is an answer, the time is over, or no program reads what this process will say."""
        watched, caller = poll(), front()
        if caller is not None:
            watched.register(caller.fileno(), POLLIN)
        if _is_pipe(_OUTPUT):
            watched.register(_OUTPUT, 0)  # says only that its reader has ended
        while self._store.answer_to(id_) is None and time.monotonic() < self._end:
            ready = {descriptor for descriptor, _event in watched.poll(_PERIOD * 1000)}
            if caller is not None and caller.fileno() in ready:
                raise FrontGoneError("the front has ended")
            if ready:
                return

    async def wait_async(self) -> Reply | None:
        """Return the reply; None if none comes in time."""
        id_ = self._put()
        if not id_:
            return None
        try:
            while self._store.answer_to(id_) is None and time.monotonic() < self._end:  # noqa: ASYNC110 -- of a file
                await asyncio.sleep(_PERIOD)
        except BaseException:
            self._store.withdraw(self._question)
            raise
        return self._withdrawn()

    def _put(self) -> str:
        shown = [_length(each.action) for each in self._question.actions]
        if sum(shown) + _length(self._question.input) > _LONGEST:
            return ""
        with suppress(StateError):
            return self._store.put(self._question)
        return ""

    def _withdrawn(self) -> Reply | None:
        """Withdraw the question, and return the reply that came until then."""
        answer = self._store.withdraw(self._question)
        return None if answer is None else Reply(answer.choice, answer.by, answer.reason, answer.kept)


def _stored(
    pending: Pending,
    place: HoldingPlace,
    seconds: float,
    given: Mapping[str, Any] | None,
    mask: Redactor,
) -> StoredQuestion:
    request = pending.request
    asked = [one for one in pending.questions if one.resolved.verdict.decision is ASK] or list(pending.questions)
    return StoredQuestion(
        str(speakable(place.root)),
        place.door,
        place.session,
        speakable(request.who.agent),
        request.who.identity,
        str(speakable(mask.values(pending.verdict.reason))),
        tuple(_asked(one, place.root, mask) for one in asked),
        now(),
        time_after(datetime.now(UTC), seconds),
        this_process(),
        None if given is None else speakable(mask.values_tree(dict(given))),
        bool(request.unclear),
        os.urandom(8).hex(),
    )


def _asked(question: Question, root: str, mask: Redactor) -> AskedAction:
    resolved = question.resolved
    action = action_tree(resolved.action)
    masked = speakable(mask.values_tree(action))
    verdict = speakable(mask.values_tree(shared_tree(resolved.verdict, root)))
    leads_to = tuple(str(speakable(place)) for place in question.leads_to)
    return AskedAction(question.key, masked, verdict, masked == action, leads_to)


def _is_pipe(descriptor: int) -> bool:
    """Whether another process reads what is written there."""
    try:
        mode = os.fstat(descriptor).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    except OSError:
        return False


def _length(tree: Any) -> int:
    """Return how many characters a person would have to read."""
    if isinstance(tree, str):
        return len(tree)
    if isinstance(tree, dict):
        return sum(len(key) + _length(value) for key, value in tree.items())
    return sum(map(_length, tree)) if isinstance(tree, list | tuple) else 1
