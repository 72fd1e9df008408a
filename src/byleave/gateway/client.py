"""What one client has said of itself: who calls, the revision that it speaks, and its capabilities.

Sessions, the authorizer and notifications read it; `initialize` and the envelopes of stateless requests write it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from byleave.gateway.revisions import HANDSHAKE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from msgspec import Raw

    from byleave.gateway.interfaces import Caller
    from byleave.gateway.requests import ClientRequest

_MOST_AGENTS = 64  # that are remembered; a client that claims more has its servers opened again after a reload


class Client:
    """The client of one session. With `is_shared`, several stateless clients that may use the same ids."""

    def __init__(self, caller: Caller, *, is_shared: bool = False) -> None:
        self.caller = caller
        self.is_shared = is_shared
        self.agents: set[str | None] = set()  # on whose behalf the session was used
        self.shakes_hands = False  # whether it has begun with `initialize`
        self.revision = ""  # empty until the handshake is answered; a stateless client has none
        self.welcomed = asyncio.Event()  # the handshake is answered
        self.begun = asyncio.Event()  # the client goes on after that
        self.capabilities: Mapping[str, Any] = {}
        self.log_level: Raw | None = None

    @property
    def has_modes(self) -> bool:
        """Whether the revision knows more than one way to ask a person."""
        return self.revision == HANDSHAKE[-1]

    def capabilities_of(self, request: ClientRequest) -> Mapping[str, Any]:
        """Return what the client of a request can do; a stateless one says it with each."""
        return self.capabilities if request.envelope is None else request.envelope.capabilities

    def used_by(self, agent: str | None) -> None:
        """Remember on whose behalf a request was."""
        if len(self.agents) < _MOST_AGENTS:
            self.agents.add(agent)
