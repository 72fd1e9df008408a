"""What every part of one gateway shares: the policy as it is now, notes to the operator, figures, and limits of rate.

It knows neither sessions nor servers that run; those are in `session` and `server_pool`.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.action import LOCAL
from byleave.errors import InputError
from byleave.gateway.limits import RECORDED, RefusalLog
from byleave.gateway.metrics import Metrics
from byleave.gateway.pins import Pins
from byleave.gateway.quotas import LocalCounter, Overrun, Quotas
from byleave.gateway.token_claims import is_name
from byleave.guard.evaluation import Who
from byleave.policy.gateway_settings import ASK_NEW, CLIENT
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from byleave.gateway.interfaces import Caller, DownError
    from byleave.gateway.quotas import CallCounter, Quota
    from byleave.gateway.tracing import Tracer
    from byleave.guard.guard import Guard
    from byleave.policy.compile import Compiled
    from byleave.policy.gateway_settings import GatewaySettings
    from byleave.policy.servers import ServerConfig
    from byleave.store.postgres.shared_store import SharedStore

_MOST_NOTES = 200
_NOTE_AGAIN = 60.0  # seconds after which the same sentence is noted again


def client_approval(*, over_http: bool) -> Callable[[Compiled], bool]:
    """Return what says whether a client may approve calls, as the policy sets it or by the transport.

    What starts the gateway on standard input is the user's own client. Over HTTP any client may come.
    """

    def client_approves(compiled: Compiled) -> bool:
        approve = compiled.gateway.approve
        return not over_http if approve is None else approve == CLIENT

    return client_approves


class GatewayContext:
    """The guard and its settings, and where notes, figures and refusals go."""

    def __init__(self, guard: Guard, note: Callable[[str], None], shared: SharedStore | None = None) -> None:
        """`shared` is the store of all replicas, which then also counts calls."""
        self.guard = guard
        self.shared = shared
        self.replica = ""  # the name of this process among those of one gateway
        self.metrics = Metrics()
        self.tracer: Tracer | None = None  # where spans are sent
        self.pin_store = Pins(guard.approvals, asks_new=lambda: self.settings.new_tools == ASK_NEW)
        self.refusals = RefusalLog(guard.record_refusal)
        self._write_note = note
        self._noted: dict[str, float] = {}
        compiled = guard.policy.compiled
        self._settings: tuple[object, GatewaySettings] = compiled, compiled.gateway
        self._enabled: tuple[object, Mapping[str, ServerConfig]] = (None, {})
        self.quotas = Quotas(compiled.gateway)
        self.counter: CallCounter = LocalCounter() if shared is None else shared.counter
        self.configure()

    # ---- The policy as it is now -----------------------------------------------------------------------------------

    @property
    def settings(self) -> GatewaySettings:
        compiled = self.guard.policy.compiled
        if self._settings[0] is not compiled:
            self._settings = compiled, compiled.gateway
        return self._settings[1]

    @property
    def servers(self) -> Mapping[str, ServerConfig]:
        """The servers that are switched on; the gateway knows no others."""
        compiled = self.guard.policy.compiled
        if self._enabled[0] is not compiled:
            self._enabled = compiled, {name: each for name, each in compiled.servers.items() if each.enabled}
        return self._enabled[1]

    @property
    def asks_client(self) -> bool:
        """Whether the client may approve calls; else only a person can, in `byleave approvals`."""
        return self.guard.client_approves

    @property
    def pins(self) -> Pins | None:
        """The approved definitions of tools, if the policy pins them."""
        return self.pin_store if self.settings.pin_tools else None

    def configure(self) -> None:
        """Take on the names and the limits of the policy as it is now."""
        compiled = self.guard.policy.compiled
        named = [name for layer in compiled.layers if layer.trusted for name in layer.tree.get("agents", {})]
        self.metrics.configured(servers=[*compiled.servers, LOCAL], agents=named)
        if not self.quotas.is_for(compiled.gateway):
            self.quotas = Quotas(compiled.gateway)

    # ---- Callers ---------------------------------------------------------------------------------------------------

    def who(self, caller: Caller, claimed: str | None) -> Who:
        """Return on whose behalf a request is. A claim counts only where nothing better is known, and only now.

        The name that a session was opened with is a claim like any other, unless it was proven: the policy may have
        changed since.
        """
        if caller.identity == "verified":
            return Who(caller.agent, "verified")
        if self.settings.require_identity:
            raise InputError("this gateway wants a proof of who is calling", hint="send a token")
        claimed = caller.agent if claimed is None else claimed
        if claimed is None:
            agents = self.guard.policy.compiled.policy.views[0].agents
            return Who(self.settings.default_agent if agents is None else agents.default, "default")
        if not is_name(claimed):  # it is kept in memory, in records and in the tables of a shared store
            raise InputError("this is no name of an agent", hint="write up to 256 letters that can be seen")
        if claimed in self.guard.policy.compiled.bound_agents:
            raise InputError(f"the agent {quoted(claimed)} proves who it is by a token", hint="send its token")
        return Who(claimed, "claimed")

    async def too_many(self, who: Who, quotas: Sequence[Quota]) -> tuple[str, Any] | None:
        """Take a call of all these limits; return why it is not taken, and when to come back, if one has none left."""
        found = await self.counter.take(quotas) if quotas else None
        if found is None:
            return None
        overrun = Overrun(quotas[found[0]], found[1])
        self.refused_call(overrun.kind, who)
        return overrun.reason, overrun.data

    def refused(self, why: str, peer: str = "", agent: str | None = None) -> None:
        """Count a request that was refused before the policy was asked, and have it in the audit log."""
        self.metrics.refused(why)
        if why in RECORDED:
            self.refusals.note(why, peer, agent, monotonic())

    def refused_call(self, why: str, who: Who) -> None:
        """Do as `refused`, with a call of an agent; a name that is not of the configuration is not recorded."""
        self.refused(why, agent=who.agent if self.metrics.knows(who.agent) else None)

    # ---- Notes to the operator -------------------------------------------------------------------------------------

    def note(self, sentence: str, error: BaseException | None = None) -> None:
        """Write a sentence to the operator; the same one at most once a minute."""
        now = monotonic()
        if now - self._noted.get(sentence, -_NOTE_AGAIN) < _NOTE_AGAIN:
            return
        if len(self._noted) >= _MOST_NOTES:
            self._noted.clear()
        self._noted[sentence] = now
        self._write_note(sentence if error is None else f"{sentence} ({_place_of(error)})")

    def note_down(self, error: DownError) -> None:
        """Give the operator what an error of a server keeps from agents."""
        if error.is_private:
            self.note(f"{error.problem} (hint: {error.hint})")


def _place_of(error: BaseException) -> str:
    """Return where an error was raised: for a report, without anything of what was processed."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f" at {os.path.basename(last.tb_frame.f_code.co_filename)}:{last.tb_lineno}"
    return f"{type(error).__name__}{where}"
