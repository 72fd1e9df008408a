"""Calls of stateless clients that wait: for a person's approval, or for the answer to a server's question.

Such a client gets its call back with the questions in it and a state, and calls again with the answers. The state
cannot be guessed; it is for the same caller, for the very same call, for one use, and for a while.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.gateway.client_questions import ASKER
from byleave.gateway.message import text_of
from byleave.guard.asking import SILENCE, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from msgspec import Raw

    from byleave.gateway.context import GatewayContext
    from byleave.gateway.requests import ClientRequest, ServerQuestion, ServerRequest
    from byleave.gateway.upstream import Upstream
    from byleave.guard.asking import Evaluation, Pending

MOST = 200  # calls of one caller
GIVEN_UP = "failed: the client did not go on with the call"


class Continuation(Struct, frozen=True):
    """A call that goes on when the client calls again. `fingerprint` is the hash of the call."""

    fingerprint: str
    pending: Pending | None = None  # a person has to approve it first
    allowed: Evaluation | None = None
    upstream: Upstream | None = None
    server_request: ServerRequest | None = None  # the server is in the middle of it
    asked: Mapping[str, ServerQuestion] = {}
    state: Raw | None = None  # of a server that speaks the stateless revision itself
    rounds: int = 0  # how often the server has asked
    question: str | None = None  # of a local tool, by its id
    answers: Mapping[str, str] = {}  # to the questions that it asked before


class Continuations:
    """The calls of one session that wait."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._waiting: dict[str, tuple[Continuation, asyncio.TimerHandle]] = {}

    async def suspend(self, request: ClientRequest, questions: Mapping[str, Any], continuation: Continuation) -> None:
        """Give a stateless client its call back with questions, and keep the call for a while."""
        settings = self._context.settings
        seconds = settings.ask_timeout if continuation.upstream is None else settings.call_timeout
        while len(self._waiting) >= MOST:
            self._expire(next(iter(self._waiting)))
        state = secrets.token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, state)
        self._waiting[state] = continuation, timer
        await request.need_input(questions, state)

    def take(self, request: ClientRequest, fingerprint: str) -> Continuation | None:
        """Return the call that a request goes on with, if it is the very same one."""
        state = text_of(request.params.get("requestState"))
        found = None if state is None else self._waiting.get(state)
        if state is None or found is None or found[0].fingerprint != fingerprint:
            return None
        del self._waiting[state]
        found[1].cancel()
        return found[0]

    def _expire(self, state: str) -> None:
        """Give up a call that the client did not go on with: silence is a no."""
        found = self._waiting.pop(state, None)
        if found is not None:
            found[1].cancel()
            self.give_up(found[0])

    def give_up(self, continuation: Continuation) -> None:
        """Record that a call does not go on, and cancel it at its server."""
        guard = self._context.guard
        if continuation.pending is not None:
            guard.complete(continuation.pending, Reply(SILENCE, ASKER))
        if continuation.upstream is not None and continuation.server_request is not None:
            continuation.upstream.abandon(continuation.server_request, "the client did not go on with the call")
        if continuation.allowed is not None:
            guard.record_effect(continuation.allowed, 0.0, GIVEN_UP)

    def close(self) -> None:
        """Give up every call that waits."""
        for state in list(self._waiting):
            self._expire(state)
