"""Local tools as a gateway has them: the guard knows the run modes, and questions go to whoever has called."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from byleave.core.action import LOCAL, CallAction
from byleave.gateway.local_tools import CallerAsker, LocalTools
from byleave.guard.evaluation import Question, Who
from byleave.guard.guard import Guard
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.toolhost.authorize import WithRunModes
from byleave.toolhost.outcome import NeedsInput
from toolhost.hosting import House

ME = Who("backend", "verified")


class Client:
    """A client that is asked: gives one reply to everything, as soon as `ready` says so."""

    name = "client"

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.asked: list[Question] = []
        self.is_asked = asyncio.Event()
        self.ready = asyncio.Event()
        self.ready.set()

    async def ask(self, question: Question, _patience: float) -> str:
        self.asked.append(question)
        self.is_asked.set()
        await self.ready.wait()
        return self.reply


@dataclass(frozen=True)
class Gateway:
    """The local tools of a house, and the guard that judges calls of them."""

    tools: LocalTools
    guard: Guard
    workspace: Workspace
    notes: list[str]

    async def call(
        self, name: str, arguments: dict[str, Any] | None = None, *, who: Who = ME, principal: str = "p", **more: Any
    ) -> dict[str, Any]:
        found = await self.tools.call(name, arguments or {}, who, principal=principal, **more)
        assert not isinstance(found, NeedsInput), found
        return found

    def decision(self, name: str, arguments: dict[str, Any] | None = None) -> str:
        return self.guard.evaluate(CallAction(LOCAL, name, arguments or {}), ME)[0].verdict.decision.word


@asynccontextmanager
async def serving(house: House) -> AsyncIterator[Gateway]:
    """Serve the local tools of a house; in the end nothing of them is left."""
    workspace = Workspace(str(house.root))
    policy: Any = WithRunModes(workspace.load(files=[house.policy]), by_hand=False)
    with guard_for(
        workspace, "mcp", files=[house.policy], asker=CallerAsker(), policy=policy, client_approves=None
    ) as guard:
        notes: list[str] = []
        tools = LocalTools(workspace, guard, note=notes.append)
        try:
            yield Gateway(tools, guard, workspace, notes)
        finally:
            await tools.close()
