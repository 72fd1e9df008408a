"""What the gateway counts, in the text form that Prometheus reads. Pure: the caller brings the numbers.

No label takes a value that a client or a server chooses: servers and agents are those of the configuration, decisions
and outcomes are words of ours, and whatever else comes counts as `other`. So no caller can make this grow, and tool
names, arguments and principals are not in it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    Key = tuple[str, ...]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
DECISIONS = frozenset({"allow", "ask", "deny"})
# What came of a call: a result, a result with isError, an error, no answer in time, a client that is gone, a server
# that is down, a verdict that kept it from going out, a limit of ours.
OUTCOMES = frozenset({"ok", "error", "failed", "timeout", "cancelled", "down", "refused", "limited"})
# Why a request or a connection was refused before the policy was asked.
REFUSALS = frozenset(
    {
        "wrong_token",
        "no_token",
        "scope",
        "origin",
        "host",
        "proxy",
        "user",
        "agent",
        "rate",
        "calls",
        "sessions",
        "connections",
    }
    | {"malformed", "late", "too_large", "too_many"}
)
# Seconds. The first show what the gateway itself takes, the last what `call_timeout` is by default.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counters and gauges of one gateway. One thread uses it."""

    def __init__(self) -> None:
        self._servers: frozenset[str] = frozenset()
        self._agents: frozenset[str] = frozenset()
        self._calls: dict[Key, int] = {}
        self._durations: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._restarts: dict[str, int] = {}
        self._up: dict[str, bool] = {}
        self._reloads: dict[str, int] = {"ok": 0, "failed": 0}
        self._refused: dict[str, int] = {}
        self.connections: Mapping[str, int] = {}
        self.gave_way = 0
        self.sessions = 0
        self.open_calls = 0
        self.hidden_tools = 0

    def configured(self, *, servers: Iterable[str], agents: Iterable[str]) -> None:
        """Take these names as labels from now on; what is counted under others stays what it is."""
        self._servers = frozenset(servers)
        self._agents = frozenset(agents)
        self._up = {server: up for server, up in self._up.items() if server in self._servers}

    def knows(self, agent: str | None) -> bool:
        """Whether this agent is one of the configuration."""
        return agent in self._agents

    def called(self, server: str, agent: str | None, decision: str, outcome: str, seconds: float | None = None) -> None:
        """Count one call that is over; with `seconds`, what it took from its coming to its answer."""
        server = server if server in self._servers else OTHER
        key = (
            server,
            agent if agent in self._agents else OTHER,
            decision if decision in DECISIONS else OTHER,
            outcome if outcome in OUTCOMES else OTHER,
        )
        calls = self._calls
        calls[key] = calls.get(key, 0) + 1
        if seconds is not None:
            counts = self._durations.get(server)
            if counts is None:
                counts = self._durations[server] = [0] * (len(BUCKETS) + 1)
                self._seconds[server] = 0.0
            counts[bisect_left(BUCKETS, seconds)] += 1
            self._seconds[server] += seconds

    def is_up(self, server: str, *, up: bool) -> None:
        """Note whether a server can be reached; one that is not configured is not listed."""
        if server in self._servers:
            self._up[server] = up

    def restarted(self, server: str) -> None:
        """Count that a server was started again after it had ended by itself."""
        server = server if server in self._servers else OTHER
        self._restarts[server] = self._restarts.get(server, 0) + 1

    def reloaded(self, *, worked: bool) -> None:
        """Count that the policy was read again, and whether it could be used."""
        self._reloads["ok" if worked else "failed"] += 1

    def refused(self, why: str) -> None:
        """Count a request, or a connection, that was refused before the policy was asked."""
        why = why if why in REFUSALS else OTHER
        self._refused[why] = self._refused.get(why, 0) + 1

    def text(self) -> str:
        """Return everything as Prometheus reads it."""
        return "".join(f"{line}\n" for line in self._lines())

    def text_for(self, agent: str | None) -> str:
        """Return what concerns one agent alone: its own calls. One that is not configured has no figures of its own."""
        own = [] if agent is None or agent not in self._agents else [agent]
        return "".join(f"{line}\n" for line in self._call_lines(own))

    def _call_lines(self, agents: Collection[str] | None = None) -> Iterator[str]:
        names = ("server", "agent", "decision", "outcome")
        shown = {key: count for key, count in self._calls.items() if agents is None or key[1] in agents}
        calls = {_labels(zip(names, key, strict=True)): count for key, count in sorted(shown.items())}
        yield from _family("byleave_mcp_calls_total", "counter", "Tool calls that are over.", calls)

    def _lines(self) -> Iterator[str]:
        yield from self._call_lines()
        yield from self._histogram("byleave_mcp_call_seconds", "Seconds from a call's coming to its answer.")
        yield from _family("byleave_mcp_sessions", "gauge", "Sessions of clients that are open.", {"": self.sessions})
        yield from _family(
            "byleave_mcp_open_calls", "gauge", "Calls that wait for their answer.", {"": self.open_calls}
        )
        hidden = "Tools that are hidden because their definition has changed."
        yield from _family("byleave_mcp_hidden_tools", "gauge", hidden, {"": self.hidden_tools})
        up = {_labels([("server", server)]): int(up) for server, up in sorted(self._up.items())}
        yield from _family("byleave_mcp_server_up", "gauge", "Whether a server can be reached.", up)
        restarts = {_labels([("server", server)]): count for server, count in sorted(self._restarts.items())}
        yield from _family("byleave_mcp_server_restarts_total", "counter", "Servers started again.", restarts)
        reloads = {_labels([("outcome", outcome)]): count for outcome, count in sorted(self._reloads.items())}
        yield from _family("byleave_mcp_policy_reloads_total", "counter", "Policies read again.", reloads)
        refused = {_labels([("why", why)]): count for why, count in sorted(self._refused.items())}
        yield from _family(
            "byleave_mcp_refused_total", "counter", "Requests refused before the policy was asked.", refused
        )
        if self.connections:
            counts = {_labels([("of", whose)]): count for whose, count in sorted(self.connections.items())}
            yield from _family("byleave_mcp_connections", "gauge", "Connections that are open.", counts)
            ended = {"": self.gave_way}
            yield from _family("byleave_mcp_connections_ended_total", "counter", "Connections ended for others.", ended)

    def _histogram(self, name: str, help_: str) -> Iterator[str]:
        yield from _family(name, "histogram", help_, {})
        for server, counts in sorted(self._durations.items()):
            total = 0
            for bound, count in zip((*(f"{bound:g}" for bound in BUCKETS), "+Inf"), counts, strict=True):
                total += count
                yield f"{name}_bucket{_labels([('server', server), ('le', bound)])} {total}"
            yield f"{name}_sum{_labels([('server', server)])} {self._seconds[server]:.6f}"
            yield f"{name}_count{_labels([('server', server)])} {total}"


def _family(name: str, kind: str, help_: str, samples: Mapping[str, int]) -> Iterator[str]:
    yield f"# HELP {name} {help_}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples.items():
        yield f"{name}{labels} {value}"


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    written = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{written}}}"


def _escaped(value: str) -> str:
    """Return a label's value as the format has it; what is no text at all is replaced."""
    plain = value.encode("utf-8", "replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
