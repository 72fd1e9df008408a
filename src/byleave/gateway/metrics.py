"""What the gateway counts: one registry, and the text form that Prometheus reads. Pure: the caller brings the numbers.

`Metrics.families` is what is exported, in whatever form: as text here, by OTLP in `telemetry_export`.

No label takes a value that a client or a server chooses: servers and agents are those of the configuration, decisions
and outcomes are words of ours, and whatever else comes counts as `other`. So no caller can make this grow, and tool
names, arguments and principals are not in it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    Key = tuple[str, ...]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
DECISIONS = frozenset({"allow", "ask", "deny"})
# What came of a call: a result, a result with isError, an error, no answer in time, a client that is gone, a server
# that is down, a verdict that kept it from going out, a limit of ours.
OUTCOMES = frozenset({"ok", "error", "failed", "timeout", "cancelled", "down", "refused", "limited"})
# What is asked of servers on behalf of a caller.
ASKED = frozenset({"tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete"})
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
        "replica",
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


class Timings(Struct):
    """How long something took: how often each of BUCKETS, or more than the last, and the seconds of all."""

    counts: list[int]
    seconds: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)


class Family(Struct, frozen=True):
    """Figures of one name: `samples` by the values of `labels`; those of a histogram are Timings.

    `kind` is counter, gauge or histogram.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    samples: Mapping[Key, int]
    timings: Mapping[Key, Timings]


class Metrics:
    """Counters and gauges of one gateway. One thread uses it."""

    def __init__(self) -> None:
        self._servers: frozenset[str] = frozenset()
        self._agents: frozenset[str] = frozenset()
        self._calls: dict[Key, int] = {}
        self._durations: dict[Key, Timings] = {}
        self._requests: dict[Key, Timings] = {}
        self._upstream: dict[Key, Timings] = {}
        self._restarts: dict[str, int] = {}
        self._up: dict[str, bool] = {}
        self._reloads: dict[str, int] = {"ok": 0, "failed": 0}
        self._refused: dict[str, int] = {}
        self.connections: Mapping[str, int] = {}
        self.dropped: dict[str, Callable[[], int]] = {}  # what says how much was dropped, by what it was
        self.gave_way = 0
        self.sessions = 0
        self.spooled_bytes: int | None = None  # None: there is no shared store
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

    def server_label(self, server: str) -> str:
        """Return the server's name if it is one of the configuration; callers may name any."""
        return server if server in self._servers else OTHER

    def agent_label(self, agent: str | None) -> str:
        """Return the agent's name if it is one of the configuration."""
        return agent if agent is not None and agent in self._agents else OTHER

    def called(self, server: str, agent: str | None, decision: str, outcome: str, seconds: float | None = None) -> None:
        """Count one call that is over; with `seconds`, what it took from its coming to its answer."""
        server = self.server_label(server)
        key = (
            server,
            self.agent_label(agent),
            decision if decision in DECISIONS else OTHER,
            outcome if outcome in OUTCOMES else OTHER,
        )
        calls = self._calls
        calls[key] = calls.get(key, 0) + 1
        if seconds is not None:
            _time(self._durations, (server,), seconds)

    def request_took(self, server: str, method: str, decision: str, seconds: float) -> None:
        """Count what one request took from its coming to its answer, with the decision and all questions about it."""
        key = (
            self.server_label(server),
            method if method in ASKED else OTHER,
            decision if decision in DECISIONS else OTHER,
        )
        _time(self._requests, key, seconds)

    def server_took(self, server: str, method: str, outcome: str, seconds: float) -> None:
        """Count what a server took to answer a request that went out to it, or not to answer it."""
        key = (
            self.server_label(server),
            method if method in ASKED else OTHER,
            outcome if outcome in OUTCOMES else OTHER,
        )
        _time(self._upstream, key, seconds)

    def is_up(self, server: str, *, up: bool) -> None:
        """Note whether a server can be reached; one that is not configured is not listed."""
        if server in self._servers:
            self._up[server] = up

    def restarted(self, server: str) -> None:
        """Count that a server was started again after it had ended by itself."""
        server = self.server_label(server)
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
        return "".join(f"{line}\n" for family in self.families() for line in _lines(family))

    def text_for(self, agent: str | None) -> str:
        """Return what concerns one agent alone: its own calls. One that is not configured has no figures of its own."""
        own = [] if agent is None or agent not in self._agents else [agent]
        return "".join(f"{line}\n" for line in _lines(self._calls_of(own)))

    def _calls_of(self, agents: Collection[str] | None = None) -> Family:
        shown = {key: count for key, count in self._calls.items() if agents is None or key[1] in agents}
        names = ("server", "agent", "decision", "outcome")
        return _counter("byleave_mcp_calls_total", "Tool calls that are over.", shown, *names)

    def families(self) -> Iterator[Family]:
        """Yield all that is counted. What is yielded is not to be changed, and changes by itself."""
        yield self._calls_of()
        yield _histogram(
            "byleave_mcp_call_seconds", "Seconds from a call's being allowed to its answer.", self._durations, "server"
        )
        yield _histogram(
            "byleave_mcp_request_seconds",
            "Seconds from a request's coming to its answer, with the decision about it.",
            self._requests,
            *("server", "method", "decision"),
        )
        yield _histogram(
            "byleave_mcp_upstream_seconds",
            "Seconds that a server took to answer a request.",
            self._upstream,
            *("server", "method", "outcome"),
        )
        yield _gauge("byleave_mcp_sessions", "Sessions of clients that are open.", {(): self.sessions})
        yield _gauge("byleave_mcp_open_calls", "Calls that wait for their answer.", {(): self.open_calls})
        if self.spooled_bytes is not None:
            spooled = "Bytes of records that wait on this machine for the shared store."
            yield _gauge("byleave_mcp_spooled_bytes", spooled, {(): self.spooled_bytes})
        hidden = "Tools that are hidden because their definition has changed."
        yield _gauge("byleave_mcp_hidden_tools", hidden, {(): self.hidden_tools})
        yield _gauge("byleave_mcp_server_up", "Whether a server can be reached.", _keyed(self._up), "server")
        restarts = _keyed(self._restarts)
        yield _counter("byleave_mcp_server_restarts_total", "Servers started again.", restarts, "server")
        reloads = _keyed(self._reloads)
        yield _counter("byleave_mcp_policy_reloads_total", "Policies read again.", reloads, "outcome")
        refused = _keyed(self._refused)
        yield _counter("byleave_mcp_refused_total", "Requests refused before the policy was asked.", refused, "why")
        if self.connections:
            counts = _keyed(self.connections)
            yield _gauge("byleave_mcp_connections", "Connections that are open.", counts, "of")
            ended = "Connections ended for others."
            yield _counter("byleave_mcp_connections_ended_total", ended, {(): self.gave_way})
        if self.dropped:
            lost = _keyed({what: count() for what, count in self.dropped.items()})
            yield _counter("byleave_mcp_dropped_total", "Spans and log lines that could not be kept.", lost, "what")


def _time(timings: dict[Key, Timings], key: Key, seconds: float) -> None:
    known = timings.get(key)
    if known is None:
        known = timings[key] = Timings([0] * (len(BUCKETS) + 1))
    known.counts[bisect_left(BUCKETS, seconds)] += 1
    known.seconds += seconds


def _keyed(samples: Mapping[str, int]) -> dict[Key, int]:
    return {(name,): int(value) for name, value in samples.items()}


def _counter(name: str, help_: str, samples: Mapping[Key, int], *labels: str) -> Family:
    return Family(name, "counter", help_, labels, samples, {})


def _gauge(name: str, help_: str, samples: Mapping[Key, int], *labels: str) -> Family:
    return Family(name, "gauge", help_, labels, samples, {})


def _histogram(name: str, help_: str, timings: Mapping[Key, Timings], *labels: str) -> Family:
    return Family(name, "histogram", help_, labels, {}, timings)


def _lines(family: Family) -> Iterator[str]:
    """Yield one family as Prometheus reads it."""
    name = family.name
    yield f"# HELP {name} {family.help}"
    yield f"# TYPE {name} {family.kind}"
    for key, value in sorted(family.samples.items()):
        yield f"{name}{_labels(zip(family.labels, key, strict=True))} {value}"
    for key, timings in sorted(family.timings.items(), key=lambda item: item[0]):
        pairs = list(zip(family.labels, key, strict=True))
        total = 0
        for bound, count in zip((*(f"{bound:g}" for bound in BUCKETS), "+Inf"), timings.counts, strict=True):
            total += count
            yield f"{name}_bucket{_labels([*pairs, ('le', bound)])} {total}"
        yield f"{name}_sum{_labels(pairs)} {timings.seconds:.6f}"
        yield f"{name}_count{_labels(pairs)} {total}"


# What each process sees of the same thing: adding it up would count it more than once.
_SEEN_BY_ALL = frozenset({"byleave_mcp_hidden_tools", "byleave_mcp_server_up"})


def added_up(texts: Iterable[str]) -> str:
    """Return the figures of several processes of one gateway as those of one, in the format that `Metrics.text` has."""
    families: dict[str, tuple[list[str], dict[str, float]]] = {}
    for text in texts:
        name = ""
        for line in text.splitlines():
            if line.startswith("# "):
                name = line.split(" ", 3)[2]
                about, _samples = families.setdefault(name, ([], {}))
                if line not in about:
                    about.append(line)
                continue
            key, _blank, value = line.rpartition(" ")
            samples = families.setdefault(name, ([], {}))[1]
            number = float(value) if "." in value else int(value)
            known = samples.get(key, 0)
            samples[key] = max(known, number) if name in _SEEN_BY_ALL else known + number
    lines: list[str] = []
    for about, samples in families.values():
        lines += about
        lines += [
            f"{key} {value if isinstance(value, int) else format(value, '.6f')}" for key, value in samples.items()
        ]
    return "".join(f"{line}\n" for line in lines)


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    written = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{written}}}" if written else ""


def _escaped(value: str) -> str:
    """Return a label's value as the format has it; what is no text at all is replaced."""
    plain = value.encode("utf-8", "replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
