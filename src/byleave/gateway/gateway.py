"""The gateway: one policy, many servers, many clients. What they share is here; what each client has is its `Session`.

The policy is looked at again five times a second, so that a file that was edited holds for everybody soon, whether or
not somebody calls: servers that are another one now are let go of, and every client is told that its lists may have
changed. Sessions stay. A file that is still being written says what it said before (`policy.file_settling`).
"""

from __future__ import annotations

import asyncio
import os
from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.action import LOCAL
from byleave.core.url import BadUrl, parse_url
from byleave.errors import ByleaveError, ConfigError, ConfigErrors, InputError
from byleave.gateway.interfaces import DownError
from byleave.gateway.limits import RECORDED, Backoff, Buckets, RefusalLog
from byleave.gateway.links import LinkContext, ServerProcesses, make_link
from byleave.gateway.local_tools import LocalTools
from byleave.gateway.metrics import Metrics
from byleave.gateway.negotiation import BY_HANDSHAKE, NegotiationMemory
from byleave.gateway.pins import Pins
from byleave.gateway.redact import ResultScrub
from byleave.gateway.server_listing import ServerListings
from byleave.gateway.server_pool import ServerPool, SharedUpstream
from byleave.gateway.session import Session
from byleave.gateway.session_pool import SessionPool
from byleave.gateway.upstream import HANDSHAKE_TIME, Upstream
from byleave.guard.asking import Who
from byleave.policy.gateway_settings import ASK_NEW, CLIENT
from byleave.policy.servers import expanded
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
    from typing import Any

    from byleave.api import Workspace
    from byleave.core.decision import Verdict
    from byleave.gateway.interfaces import Caller, Hearer, Link
    from byleave.gateway.negotiation import Introduction
    from byleave.guard.guard import Guard
    from byleave.policy.gateway_settings import GatewaySettings
    from byleave.policy.servers import ServerConfig

    Note = Callable[[str], None]

LOOK_AGAIN = 0.2  # seconds; with the time that a file takes to settle, a change holds within one
RESTING = 900.0  # seconds that what was opened for a stateless client stays open when it does not call
MOST_STARTING = 4  # processes of one server that start at once
MOST_NAMES = 64  # agents that one caller without a handshake may claim to be at a time
LISTING_TIME = 20.0  # seconds for one page of a list
_MOST_NOTES = 200
_MOST_STRUCTURED = 20_000  # names of tools of one server that are remembered
_HINT = (
    "it runs in a sandbox: `[sandbox] read = [...]` shows it more of this machine, `[servers.{}.access]` grants more"
)


class Gateway:
    """What all clients share."""

    def __init__(
        self,
        workspace: Workspace,
        guard: Guard,
        *,
        note: Note,
        environment: Mapping[str, str] | None = None,
        told: Callable[[str, bytes], None] | None = None,
        over_http: bool = False,
        welcome_time: float = 0.0,
    ) -> None:
        self.guard = guard
        self._settling = workspace.files.settling
        guard.only_persons = lambda: not self.asks_client
        self._over_http = over_http
        self.welcome_time = welcome_time  # seconds that a client waits at its beginning for servers nobody knows yet
        self._structured: dict[str, set[str]] = {}  # tools that say what their results look like, by server
        self.metrics = Metrics()
        self._note = note
        self._environment = os.environ if environment is None else environment
        self._sessions: set[Session] = set()
        self._stateless: dict[tuple[str, str | None, str], SessionPool] = {}
        self._enabled: tuple[object, Mapping[str, ServerConfig]] = (None, {})
        self.visited: dict[str, set[str]] = {}  # where servers wanted to go, by the name of their access
        self.pool = ServerPool(self, lambda server, all_: SharedUpstream(server, all_, **self._how_to_reach(server)))
        self._chores: set[asyncio.Task[None]] = set()
        self._surroundings = LinkContext(
            workspace,
            guard.policy,
            self._environment,
            decide=self._visit,
            told=told,
            processes=ServerProcesses(lambda: self.settings.max_processes, self.make_room),
        )
        self._pins = Pins(guard.approvals, asks_new=lambda: self.settings.new_tools == ASK_NEW)
        self.catalogs = ServerListings()
        self.local = LocalTools(workspace, guard, note=self.note)
        self._compiled = guard.policy.compiled
        self._settled = self._compiled, self._compiled.gateway
        self._rate = self.settings.rate
        self._buckets = Buckets(self._rate)
        self._proven_by: object = self._compiled  # whose proofs `on_change` has taken on
        self.on_change: Callable[..., Awaitable[None]] | None = None  # told of every change, with `proofs`
        self._watching: asyncio.Task[None] | None = None
        self._beside: dict[str, asyncio.Task[None]] = {}  # what takes its time, and must not hold up the rest
        self._stamps: dict[str, object] = {}
        self._noted: dict[str, float] = {}
        self._starting: dict[str, asyncio.Semaphore] = {}
        self._refusals = RefusalLog(guard.record_refusal)
        self._closing: set[asyncio.Task[None]] = set()
        self.silent_until: dict[str, float] = {}  # servers that no client's beginning waits for, and until when
        self._spoken: dict[
            str, tuple[ServerConfig, NegotiationMemory]
        ] = {}  # what was learnt of servers, as they are configured
        self._configure()

    @property
    def settings(self) -> GatewaySettings:
        compiled = self.guard.policy.compiled
        if self._settled[0] is not compiled:
            self._settled = compiled, compiled.gateway
        return self._settled[1]

    @property
    def asks_client(self) -> bool:
        """Whether the client may answer what the policy asks; else only a person can, in `byleave approvals`.

        Who starts the gateway on standard input is the user's own client. Over HTTP anybody may be the client.
        """
        said = self.settings.approve
        return not self._over_http if said is None else said == CLIENT

    def listed(self, server: str, tools: Iterable[str]) -> None:
        """Take note of which tools say what their results look like: clients remember that, too."""
        known = self._structured.setdefault(server, set())
        if len(known) < _MOST_STRUCTURED:
            known.update(tools)

    def has_output_schema(self, server: str, tool: str) -> bool:
        """Whether a tool has ever said what its results look like."""
        return tool in self._structured.get(server, ())

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers that are switched on; for everybody here there are no others."""
        compiled = self.guard.policy.compiled
        if self._enabled[0] is not compiled:
            self._enabled = compiled, {name: each for name, each in compiled.servers.items() if each.enabled}
        return self._enabled[1]

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

    def note(self, sentence: str, error: BaseException | None = None) -> None:
        """Tell the user something, once in a while if it is always the same."""
        now = monotonic()
        if now - self._noted.get(sentence, -60.0) < 60.0:
            return
        if len(self._noted) >= _MOST_NOTES:
            self._noted.clear()
        self._noted[sentence] = now
        self._note(sentence if error is None else f"{sentence} ({_place_of(error)})")

    # ---- Clients -------------------------------------------------------------------------------------------------

    def converse(self, caller: Caller) -> Session:
        """Begin a session of a revision with a handshake."""
        return self._add(Session(self, caller))

    def stateless(self, caller: Caller) -> SessionPool:
        """Return the lasting conversation of this principal, for revisions without sessions."""
        key = (caller.principal, caller.agent, caller.identity)
        lobby = self._stateless.get(key)
        if lobby is None:
            self._make_room(caller.principal)
            lobby = self._stateless[key] = SessionPool(lambda: self._add(Session(self, caller, shared=True)))
        return lobby

    def _make_room(self, principal: str) -> None:
        """End what one caller opened first, if nothing is going on in it: it may claim any number of names."""
        held = [key for key in self._stateless if key[0] == principal]
        idle = [key for key in held if not any(session.open for session in self._stateless[key].sessions)]
        for key in idle[: max(0, len(held) - MOST_NAMES + 1)]:
            closing = asyncio.ensure_future(self._stateless.pop(key).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def refused(self, why: str, peer: str = "", agent: str | None = None) -> None:
        """Count a request that was refused before anything was judged, and have it in the audit log."""
        self.metrics.refused(why)
        if why in RECORDED:
            self._refusals.note(why, peer, agent, monotonic())

    def refused_call(self, why: str, who: Who) -> None:
        """Do as `refused`, with a call of an agent; a name that is not of the configuration is not recorded."""
        self.refused(why, agent=who.agent if self.metrics.knows(who.agent) else None)

    def _add(self, session: Session) -> Session:
        self._sessions.add(session)
        self.metrics.sessions = len(self._sessions)
        return session

    def ended(self, session: Session) -> None:
        """Forget a session that is closed."""
        self._sessions.discard(session)
        self.metrics.sessions = len(self._sessions)

    def who(self, caller: Caller, claimed: str | None) -> Who:
        """Return on whose behalf a request is. A claim counts only where nothing better is known, and only now.

        What the session was opened with is a claim like any other, unless it was proven: the policy may have changed.
        """
        if caller.identity == "verified":
            return Who(caller.agent, "verified")
        if self.settings.require_identity:
            raise InputError("this gateway wants a proof of who is calling", hint="send a token")
        claimed = caller.agent if claimed is None else claimed
        if claimed is None:
            return Who(self._default_agent(), "default")
        if claimed in self.guard.policy.compiled.bound_agents:
            raise InputError(f"the agent {quoted(claimed)} proves who it is by a token", hint="send its token")
        return Who(claimed, "claimed")

    def _default_agent(self) -> str | None:
        """Return who counts as calling where nobody is named, so that rules, records and questions all name it."""
        agents = self.guard.policy.compiled.policy.views[0].agents
        return self.settings.default_agent if agents is None else agents.default

    def too_fast(self, who: Who) -> tuple[str, Any] | None:
        """Return why this agent has to wait, and for how long; None if it has not."""
        wait = self._buckets.take(who.agent, monotonic())
        if wait <= 0:
            return None
        self.refused_call("rate", who)
        return f"this agent calls more often than {self.settings.rate} times a minute", {"retryAfter": round(wait, 1)}

    # ---- Servers -------------------------------------------------------------------------------------------------

    def connect(self, server: ServerConfig, session: Session, tool: str | None = None) -> Upstream:
        """Return a session with a server for a client, not opened yet. `tool`: the one that it is for, if only one."""
        shared = self.pool.join(server, session) if tool is None else None
        if shared is not None:
            return shared
        access = None if tool is None else server.tool_of(tool)
        return Upstream(server.name, client=session, **self._how_to_reach(server, access))

    def _how_to_reach(self, server: ServerConfig, access: str | None = None) -> dict[str, Any]:
        def make(hearer: Hearer) -> Link:
            try:
                filled = expanded(server, self._environment)
            except ConfigError as error:
                raise DownError(error.problem, hint=error.hint, public=self._lacks(server)) from None
            scrubbing = _Scrubbing(hearer, ResultScrub(filled.secrets)) if filled.secrets else hearer
            return make_link(server, filled, scrubbing, self._surroundings, tool=access)

        starting = self._starting.setdefault(server.name, asyncio.Semaphore(MOST_STARTING))
        hint = _HINT.format(server.name) if server.transport == "stdio" else "try again later, or look at its url"
        return {
            "make_link": make,
            "backoff": Backoff(),
            "patience": LISTING_TIME,
            "longest_start": min(HANDSHAKE_TIME, self.settings.call_timeout),
            "memory": self._memory_of(server),
            "starting": starting,
            "hint": hint,
        }

    @staticmethod
    def is_shared(upstream: Upstream) -> bool:
        """Whether other sessions may use it, too."""
        return isinstance(upstream, SharedUpstream)

    @staticmethod
    def waits_for(upstream: Upstream, session: Session) -> bool:
        """Whether a session has asked a server that it shares for something, and has no answer yet."""
        return isinstance(upstream, SharedUpstream) and upstream.waits_for(session)

    def takes(self, upstream: Upstream, session: Session) -> bool:
        """Give the process of a shared server to a session that is alone with it; return whether it is."""
        return isinstance(upstream, SharedUpstream) and self.pool.take(upstream, session)

    async def release(self, upstream: Upstream, session: Session) -> None:
        """End a session with a server, or a client's share in it."""
        if isinstance(upstream, SharedUpstream):
            await self.pool.leave(upstream, session)
        else:
            await upstream.close()

    async def make_room(self) -> None:
        """End a process that no client needs now, for one that waits: a client that is gone may hold many places."""
        if await self.pool.make_room():
            return
        before = monotonic() - RESTING
        for session in sorted(self._sessions, key=lambda session: session.used):
            if session.used < before and not session.open and await session.rest():
                return

    def chore(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def warned(self, upstream: Upstream, warnings: Iterable[str]) -> None:
        """Pass on what people should know about a connection."""
        for warning in warnings:
            self.note(f"the server {quoted(upstream.name)}: {warning}")

    def _lacks(self, server: ServerConfig) -> str:
        """Return why a server cannot be used as it is configured, without where that is written."""
        missing = [name for name in server.variables if not self._environment.get(name)]
        return "a variable that it needs is not set" if missing else "its configuration is wrong"

    def _memory_of(self, server: ServerConfig) -> NegotiationMemory:
        """Return what was learnt of the revisions that a server speaks; nothing yet, if it is another one by now."""
        known = self._spoken.get(server.name)
        if known is None or known[0] != server:
            only_handshake = server.transport == "sse"  # a transport that the stateless revision does not have
            known = self._spoken[server.name] = server, NegotiationMemory(BY_HANDSHAKE if only_handshake else "")
        return known[1]

    def introduction_of(self, name: str) -> Introduction | None:
        """Return what a server said of itself when it was opened last; None if it never was."""
        server = self.servers.get(name)
        return None if server is None else self._memory_of(server).said

    def _visit(self, action: dict[str, Any]) -> Verdict:
        """Judge and record what a server wants of the network. Any thread may ask."""
        target = parse_url(action["url"])
        if not isinstance(target, BadUrl):
            self.visited.setdefault(action["tool"], set()).add(f"{target.scheme}://{target.host}{target.shown_port}")
        return self.guard.check(action, Who(None, "default")).verdict

    def came_up(self, upstream: Upstream) -> None:
        """Take note that a server is there."""
        self.metrics.is_up(upstream.name, up=True)
        if upstream.opened > 1:
            self.metrics.restarted(upstream.name)

    def went_down(self, name: str, why: str) -> None:
        """Take note that a server is gone."""
        self.metrics.is_up(name, up=False)
        self.note(f"the server {quoted(name)} is gone: {why}")

    def note_down(self, error: DownError) -> None:
        """Give the operator what an error of a server keeps from agents."""
        if error.is_private:
            self.note(f"{error.problem} (hint: {error.hint})")

    def pins(self) -> Pins | None:
        """Return what remembers how tools were defined, if they are pinned."""
        return self._pins if self.settings.pin_tools else None

    # ---- Keeping up ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to keep up with what changes."""
        self._settling.waits = True
        self._stamps = self._pin_stamps(list(self.servers))
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            self._refusals.tick(monotonic())
            self._do_beside("ended what is not used", self._rest)  # a server may take seconds to end
            self._do_beside(
                "looked at what was approved", self._look_at_pins
            )  # ten thousand tools take a while to read
            try:
                self.guard.policy.look_again()
                self._keep_up()
                await self._prove_anew()
            except (ByleaveError, ConfigErrors) as error:
                self.metrics.reloaded(worked=False)
                self.note(f"{error}")
            except Exception as error:  # noqa: BLE001 -- keeping up must go on
                self.note("a defect of byleave while it kept up with changes", error)

    async def _prove_anew(self) -> None:
        """Have the front take on how callers prove themselves now; again and again, if it fails."""
        compiled = self.guard.policy.compiled
        if self.on_change is not None and compiled is not self._proven_by:
            await self.on_change(**self.proofs)
            self._proven_by = compiled

    def _do_beside(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Begin some work, unless the same is still going on."""

        async def whole() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 -- it is tried again
                self.note(f"a defect of byleave while it {what}", error)

        if what not in self._beside or self._beside[what].done():
            self._beside[what] = asyncio.get_running_loop().create_task(whole())

    async def _rest(self) -> None:
        """End what is not used any more."""
        await self.pool.rest(monotonic())
        for key, lobby in list(self._stateless.items()):
            await lobby.rest(monotonic() - RESTING)
            if not lobby.sessions and self._stateless.get(key) is lobby:
                del self._stateless[key]

    def _keep_up(self) -> None:
        compiled = self.guard.policy.compiled
        if compiled is not self._compiled:
            before, self._compiled = self._compiled, compiled
            self._configure()
            self.metrics.reloaded(worked=True)
            for warning in compiled.warnings:
                if warning not in before.warnings:
                    self.note(warning)
            if before.layers != compiled.layers:  # else only an approval is another one
                names = {*before.servers, *compiled.servers}
                changed = {name for name in names if before.servers.get(name) != compiled.servers.get(name)}
                self.catalogs.forget(changed)
                for session in list(self._sessions):
                    session.drop(changed | (compiled.servers.keys() - session.visible()))
                    session.changed_all()

    async def _look_at_pins(self) -> None:
        """Tell everybody where somebody has approved or revoked the definition of a tool."""
        stamps = await asyncio.to_thread(self._pin_stamps, list(self.servers))
        before, self._stamps = self._stamps, stamps
        changed = [name for name in stamps if name in before and before[name] != stamps[name]]
        for session in list(self._sessions) if changed else ():
            session.changed_all()

    def _pin_stamps(self, servers: list[str]) -> dict[str, object]:
        return {name: self._pins.stamp(name) for name in servers} if self.settings.pin_tools else {}

    def _configure(self) -> None:
        compiled = self._compiled
        named = [name for layer in compiled.layers if layer.trusted for name in layer.tree.get("agents", {})]
        self.metrics.configured(servers=[*compiled.servers, LOCAL], agents=named)
        if compiled.gateway.rate != self._rate:
            self._rate = compiled.gateway.rate
            self._buckets = Buckets(self._rate)

    def metrics_text_for(self, agent: str | None) -> str:
        """Return the figures that concern one agent alone."""
        return self.metrics.text_for(agent)

    def metrics_text(self) -> str:
        """Return the figures for those who watch over the gateway."""
        self.metrics.sessions = len(self._sessions)
        self.metrics.open_calls = sum(len(session.open) for session in self._sessions)
        self.metrics.hidden_tools = len({key for session in self._sessions for key in session.offers.hidden})
        return self.metrics.text()

    async def close(self) -> None:
        """End every session and every server."""
        for task in self._beside.values():
            task.cancel()
        if self._watching is not None:
            self._watching.cancel()
        self._refusals.close(monotonic())
        await asyncio.gather(*(session.close() for session in list(self._sessions)))
        await self.pool.close()
        await self.local.close()
        await self._surroundings.close()


class _Scrubbing:
    """Hears a server without the secrets that we gave it: whatever it says, they reach nobody."""

    def __init__(self, hearer: Hearer, scrub: ResultScrub) -> None:
        self._hearer = hearer
        self._scrub = scrub

    def heard(self, message: bytes, about: str | None) -> bool | None:
        return self._hearer.heard(self._scrub.message(message), about)

    def lost(self, id_: str | None, why: str, public: str = "") -> None:
        self._hearer.lost(id_, self._scrub.text(why), self._scrub.text(public))


def _place_of(error: BaseException) -> str:
    """Return where an error was raised: for a report, without anything of what was processed."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f" at {os.path.basename(last.tb_frame.f_code.co_filename)}:{last.tb_lineno}"
    return f"{type(error).__name__}{where}"
