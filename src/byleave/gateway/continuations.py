"""Calls of stateless clients that wait: for a person's answer, or for what a server wants to know.

Such a client gets its call back with the questions in it and a state, and calls again with the answers. The state is
one that nobody can guess; it is for the same caller, for the very same call, for one use, and for a while.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.gateway.elicitation import ASKER
from byleave.gateway.message import text_of
from byleave.guard.asking import SILENCE, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from byleave.gateway.client_request import ClientRequest
    from byleave.gateway.server_requests import ServerQuestion, ServerRequest
    from byleave.gateway.upstream import Upstream
    from byleave.guard.asking import Evaluation, Pending
    from byleave.guard.guard import Guard

MOST = 200  # calls of one caller
GIVEN_UP = "failed: the client did not go on with the call"


class Continuation(Struct, frozen=True):
    """A call that goes on when the client calls again. `print` is a hash of all that it was."""

    print: str
    matter: Pending | None = None  # a person is to agree first
    allowed: Evaluation | None = None
    upstream: Upstream | None = None
    pending: ServerRequest | None = None  # the server is in the middle of it
    asked: Mapping[str, ServerQuestion] = {}
    state: Raw | None = None  # of a server that speaks the stateless revision itself
    rounds: int = 0  # how often it has wanted to know more
    question: str | None = None  # of a local tool, by its id
    answers: Mapping[str, str] = {}  # to what it asked before


class Continuations:
    """The parked calls of one session."""

    def __init__(self) -> None:
        self._parked: dict[str, tuple[Continuation, Guard, asyncio.TimerHandle]] = {}

    def park(self, parked: Continuation, guard: Guard, seconds: float) -> str:
        """Keep a call for a while, and return the state under which it goes on."""
        while len(self._parked) >= MOST:
            self._expire(next(iter(self._parked)))
        state = secrets.token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, state)
        self._parked[state] = (parked, guard, timer)
        return state

    def take(self, exchange: ClientRequest, print_: str) -> Continuation | None:
        """Return the call that a request goes on with, if it is the very same one."""
        state = text_of(exchange.params.get("requestState"))
        found = None if state is None else self._parked.get(state)
        if state is None or found is None or found[0].print != print_:
            return None
        del self._parked[state]
        found[2].cancel()
        return found[0]

    def _expire(self, state: str) -> None:
        """Give up a call that nobody went on with: silence is a no."""
        found = self._parked.pop(state, None)
        if found is None:
            return
        parked, guard, timer = found
        timer.cancel()
        self.give_up(parked, guard)

    @staticmethod
    def give_up(parked: Continuation, guard: Guard) -> None:
        """Record that a call does not go on, and tell its server."""
        if parked.matter is not None:
            guard.complete(parked.matter, Reply(SILENCE, ASKER))
        if parked.upstream is not None and parked.pending is not None:
            parked.upstream.abandon(parked.pending, "the client did not go on with the call")
        if parked.allowed is not None:
            guard.record_effect(parked.allowed, 0.0, GIVEN_UP)

    def close(self) -> None:
        """Give up every call that waits."""
        for state in list(self._parked):
            self._expire(state)
