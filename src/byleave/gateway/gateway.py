"""The gateway: one policy, many servers, many clients. Begins sessions, and keeps up with what changes.

The policy is looked at again five times a second, so that an edited file holds for every client soon, whether or not
one calls: servers whose configuration has changed are let go of, and every client learns that its lists may have
changed. Sessions stay. A file that is still being written says what it said before (`policy.debounce`).

What all sessions share is in `context` and `server_pool`; what each client has is its `Session`.
"""

from __future__ import annotations

import asyncio
import os
from time import monotonic, time_ns
from typing import TYPE_CHECKING

from byleave.core.url import BadUrl, parse_url
from byleave.errors import ByleaveError, ConfigErrors
from byleave.gateway.background import BackgroundTasks
from byleave.gateway.context import GatewayContext
from byleave.gateway.limits import ServerProcesses
from byleave.gateway.links import LinkContext
from byleave.gateway.local_tools import LocalTools
from byleave.gateway.server_listing import ServerListings
from byleave.gateway.server_pool import ServerPool
from byleave.gateway.session import Session, SessionPool
from byleave.guard.evaluation import Who
from byleave.store.approvals import now
from byleave.store.token_uses import OwnTokenUses, UsedTokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from byleave.core.decision import Verdict
    from byleave.gateway.interfaces import Caller
    from byleave.gateway.metrics import Family, Metrics
    from byleave.gateway.telemetry import Telemetry
    from byleave.guard.guard import Guard
    from byleave.policy.compile import Compiled
    from byleave.policy.gateway_settings import GatewaySettings
    from byleave.policy.load import Workspace
    from byleave.policy.servers import ServerConfig
    from byleave.store.postgres.shared_store import SharedStore
    from byleave.store.token_uses import TokenUses

LOOK_AGAIN = 0.2  # seconds; with the time that a file takes to settle, a change holds within one
_WRITE_AGAIN = 5.0  # seconds after it could not be written when tokens were used
RESTING = 900.0  # seconds that what was opened for a stateless client stays open when it does not call
MOST_NAMES = 64  # agents that one caller without a handshake may claim to be at a time


class Gateway:
    """Begins sessions, and keeps them up to date with the policy."""

    def __init__(
        self,
        workspace: Workspace,
        guard: Guard,
        *,
        note: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
        on_stderr: Callable[[str, bytes], None] | None = None,
        welcome_time: float = 0.0,
        shared: SharedStore | None = None,
    ) -> None:
        """`note` takes sentences for the operator, `on_stderr` what servers write to their standard error.

        `welcome_time`: the seconds that a client waits at its beginning for servers that were never opened.
        `shared`: the store that this gateway shares with other replicas.
        """
        self.context = GatewayContext(guard, note, shared)
        self.visited: dict[str, set[str]] = {}  # URLs that servers asked for, by the name of their access
        self.on_change: Callable[..., Awaitable[None]] | None = None  # called at every change, with `proofs`
        environment = os.environ if environment is None else environment
        self._links = LinkContext(
            workspace,
            guard.policy,
            environment,
            decide=self._decide_visit,
            on_stderr=on_stderr,
            processes=ServerProcesses(lambda: self.settings.max_processes, self.make_room),
        )
        self.pool = ServerPool(self.context, self._links, environment, welcome_time=welcome_time)
        self.listings = ServerListings()
        self.local = LocalTools(workspace, guard, note=self.note)
        self._settling = workspace.files.settling
        self._sessions: set[Session] = set()
        self._stateless: dict[tuple[str, str | None, str], SessionPool] = {}
        self._compiled = guard.policy.compiled
        self._proven_by: object = self._compiled  # whose proofs `on_change` has taken on
        self._pin_stamps: dict[str, object] = {}
        self._watching: asyncio.Task[None] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}  # work that takes its time, and must not hold up the rest
        self._background = BackgroundTasks()
        self._used_tokens = UsedTokens()
        own = OwnTokenUses(workspace.homes.state, now)
        self._token_uses: TokenUses = own if shared is None else shared.token_uses
        self.token_used = self._used_tokens.note
        self._since = time_ns()

    @property
    def guard(self) -> Guard:
        return self.context.guard

    @property
    def settings(self) -> GatewaySettings:
        return self.context.settings

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        return self.context.servers

    @property
    def metrics(self) -> Metrics:
        return self.context.metrics

    def note(self, sentence: str) -> None:
        """Write a sentence to the operator."""
        self.context.note(sentence)

    def refused(self, why: str, peer: str = "", *, status: int) -> str:
        """Count a request that was refused before it was read, and have it in the audit log; return its trace."""
        self.context.refused(why, peer)
        tracer = self.context.tracer
        return "" if tracer is None else tracer.refused(why, status)

    @property
    def proofs(self) -> dict[str, Any]:
        """How callers prove who they are, and what else the front must know, as the policy is now."""
        compiled = self.guard.policy.compiled
        subjects = {subject: agent for agent, each in compiled.agent_subjects.items() for subject in each}
        return {
            "settings": compiled.gateway,
            "tokens": compiled.agent_tokens,
            "bound": compiled.bound_agents,
            "subjects": subjects,
        }

    @property
    def problem(self) -> str:
        """Why calls cannot be served now; empty while they can. Any caller may read it."""
        shared = self.context.shared
        return "the store cannot be used" if shared is not None and shared.problem else ""

    @property
    def is_spooling(self) -> bool:
        """Whether records wait on this machine for the store."""
        shared = self.context.shared
        return shared is not None and shared.is_spooling

    # ---- Sessions --------------------------------------------------------------------------------------------------

    def converse(self, caller: Caller) -> Session:
        """Begin a session of a revision with a handshake."""
        return self._begin(caller)

    def stateless(self, caller: Caller) -> SessionPool:
        """Return the lasting sessions of this principal, for revisions without a handshake."""
        key = (caller.principal, caller.agent, caller.identity)
        pool = self._stateless.get(key)
        if pool is None:
            self._end_idle_names(caller.principal)
            pool = self._stateless[key] = SessionPool(lambda: self._begin(caller, is_shared=True))
        return pool

    def _begin(self, caller: Caller, *, is_shared: bool = False) -> Session:
        session = Session(
            self.context,
            self.pool,
            self.local,
            self.listings,
            caller,
            is_shared=is_shared,
            on_close=self._ended,
        )
        self._sessions.add(session)
        self.metrics.sessions = len(self._sessions)
        return session

    def _ended(self, session: Session) -> None:
        self._sessions.discard(session)
        self.metrics.sessions = len(self._sessions)

    def _end_idle_names(self, principal: str) -> None:
        """End what one caller opened first, if it is idle: it may claim any number of names."""
        held = [key for key in self._stateless if key[0] == principal]
        idle = [key for key in held if not any(session.open for session in self._stateless[key].sessions)]
        for key in idle[: max(0, len(held) - MOST_NAMES + 1)]:
            self._background.start(self._stateless.pop(key).close())

    async def make_room(self) -> None:
        """End a process that no client needs now, for one that waits: a client that is gone may hold many places."""
        if await self.pool.make_room():
            return
        before = monotonic() - RESTING
        for session in sorted(self._sessions, key=lambda session: session.used):
            if session.used < before and not session.open and await session.rest():
                return

    def _decide_visit(self, action: dict[str, Any]) -> Verdict:
        """Decide about and record what a server asks of the network. Any thread may ask."""
        target = parse_url(action["url"])
        if not isinstance(target, BadUrl):
            self.visited.setdefault(action["tool"], set()).add(f"{target.scheme}://{target.host}{target.shown_port}")
        return self.guard.check(action, Who(None, "default")).verdict

    # ---- Keeping up with what changes ------------------------------------------------------------------------------

    def send_telemetry(self, telemetry: Telemetry) -> None:
        """Have spans and figures sent from now on."""
        self.context.tracer = telemetry
        telemetry.start(self.metrics, self.families, self._since)

    def start(self) -> None:
        """Begin to keep up with what changes."""
        self._settling.waits = True
        self._pin_stamps = self._read_pin_stamps(list(self.servers))
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            self.context.refusals.tick(monotonic())
            self._do_once("ended what is not used", self._rest)  # a server may take seconds to end
            if self._used_tokens:
                self._do_once("wrote when tokens were used", self._write_token_uses)
            self._do_once("looked at what was approved", self._look_at_pins)  # ten thousand tools take a while to read
            try:
                self.guard.policy.look_again()
                self._keep_up()
                await self._prove_anew()
            except (ByleaveError, ConfigErrors) as error:
                self.metrics.reloaded(worked=False)
                self.note(f"{error}")
            except Exception as error:  # noqa: BLE001 -- keeping up must go on
                self.context.note("a defect of byleave while it kept up with changes", error)

    async def _prove_anew(self) -> None:
        """Have the front take on how callers prove themselves now; again and again, if it fails."""
        compiled = self.guard.policy.compiled
        if self.on_change is not None and compiled is not self._proven_by:
            await self.on_change(**self.proofs)
            self._proven_by = compiled

    def _do_once(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin some work, unless the same is still going on."""

        async def whole() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 -- it is tried again
                self.context.note(f"a defect of byleave while it {what}", error)

        if what not in self._tasks or self._tasks[what].done():
            self._tasks[what] = asyncio.get_running_loop().create_task(whole())

    async def _rest(self) -> None:
        """End what is not used any more."""
        await self.pool.rest(monotonic())
        for key, pool in list(self._stateless.items()):
            await pool.rest(monotonic() - RESTING)
            if not pool.sessions and self._stateless.get(key) is pool:
                del self._stateless[key]

    async def _write_token_uses(self) -> None:
        try:
            await asyncio.to_thread(self._used_tokens.write_to, self._token_uses)
        except ByleaveError as error:
            self.note(f"when tokens were last used could not be written: {error.problem}")
            await asyncio.sleep(_WRITE_AGAIN)

    def _keep_up(self) -> None:
        compiled = self.guard.policy.compiled
        if compiled is self._compiled:
            return
        before, self._compiled = self._compiled, compiled
        self.context.configure()
        self.metrics.reloaded(worked=True)
        if _taken_at_start(before) != _taken_at_start(compiled):
            self.note("log_format, access_log and telemetry of [gateway] have changed: that holds after a new start")
        for warning in compiled.warnings:
            if warning not in before.warnings:
                self.note(warning)
        if before.settings.get("store") != compiled.settings.get("store"):
            self.note("[store] has changed: the other store is used once the gateway is started again")
        if before.layers != compiled.layers:  # else only an approval is another one
            names = {*before.servers, *compiled.servers}
            changed = {name for name in names if before.servers.get(name) != compiled.servers.get(name)}
            self.listings.forget(changed)
            for session in list(self._sessions):
                session.drop(changed | (compiled.servers.keys() - session.visible_servers()))
                session.lists_changed()

    async def _look_at_pins(self) -> None:
        """Announce changed lists where a definition of a tool was approved or revoked."""
        stamps = await asyncio.to_thread(self._read_pin_stamps, list(self.servers))
        before, self._pin_stamps = self._pin_stamps, stamps
        if any(name in before and before[name] != stamps[name] for name in stamps):
            for session in list(self._sessions):
                session.lists_changed()

    def _read_pin_stamps(self, servers: list[str]) -> dict[str, object]:
        pins = self.context.pins
        return {} if pins is None else {name: pins.stamp(name) for name in servers}

    # ---- Figures, and the end --------------------------------------------------------------------------------------

    def metrics_text_for(self, agent: str | None) -> str:
        """Return the figures that concern one agent alone."""
        return self.metrics.text_for(agent)

    def metrics_text(self) -> str:
        """Return the figures for those who watch over the gateway."""
        self._count()
        return self.metrics.text()

    def families(self) -> list[Family]:
        """Return the same figures for other forms than text."""
        self._count()
        return list(self.metrics.families())

    def _count(self) -> None:
        if self.context.shared is not None:
            self.metrics.spooled_bytes = self.context.shared.spooled_bytes
        self.metrics.sessions = len(self._sessions)
        self.metrics.open_calls = sum(len(session.open) for session in self._sessions)
        self.metrics.hidden_tools = len({key for session in self._sessions for key in session.catalog.hidden})

    async def close(self) -> None:
        """End every session and every server."""
        for task in self._tasks.values():
            task.cancel()
        if self._watching is not None:
            self._watching.cancel()
        self.context.refusals.close(monotonic())
        await asyncio.gather(*(session.close() for session in list(self._sessions)))
        await self.pool.close()
        await self.local.close()
        await self._links.close()
        if self.context.tracer is not None:
            await self.context.tracer.close()


def _taken_at_start(compiled: Compiled) -> tuple[object, ...]:
    """Return the settings that hold as they were when the gateway began."""
    settings = compiled.gateway
    return settings.log_format, settings.access_log, settings.telemetry
