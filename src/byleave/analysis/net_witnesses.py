"""Witnesses for what is reached: by a tool, by its `access.net` rules and `rules`; by an agent, by `rules` alone.

Complete, because a decision about a URL is made from: tool, agent, method, host, scheme, port, path, whether it
carries a user name, and the address that is dialled. Of each, all values are tried that rules name, and one that no
rule names. No port stands for the usual one of the scheme, so that schemes which no rule names differ by it. Hosts are
compared whole, so there is nothing between them. Of addresses one is tried of each kind that `may_dial` and
`refuse_public` separate. Of places to which every rule answers alike, one is kept.

Paths count by the prefixes that they lie in. Servers read some paths in several ways (`/a/..;/b`, `%2F`); then a rule
that allows needs all readings, and one that denies any. What several readings come to is what two of them do: the one
that the URL spells, and one more, so that each pair of prefixes is tried, plainly and with an encoded slash.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

from byleave.analysis.fs_witnesses import agents_of
from byleave.analysis.rule_atoms import NET, Witness, WitnessSet
from byleave.core.access import PUBLIC
from byleave.core.action import UrlAction
from byleave.core.match_context import MatchContext
from byleave.core.net_rules import NetTable
from byleave.core.url import BadUrl, default_port, normal_host, parse_url, prefix_readings, prefix_segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.analysis.rule_atoms import Atoms
    from byleave.core.matchers import UrlMatcher
    from byleave.core.net_rules import NetRule

    Segments = tuple[str, ...]

MOST_URLS = 60_000  # of one tool
_MOST_PAIRS = 12  # prefixes of one host; with more of them, those that lie in each other are paired
_HOSTS = ("example.org", "example.net", "other.example", "unnamed.example")
_SCHEMES = ("https", "http", "ftp", "wss", "ws", "gopher", "irc", "nntp")
_OTHER_PORTS = (8123, 8124, 8125, 8126)
_OTHER_METHODS = ("GET", "POST", "PUT", "REPORT")
_DIALLED = (None, "93.184.216.34", "10.0.0.7", "127.0.0.1", "169.254.169.254")
_LITERAL_HOSTS = ("localhost", "10.0.0.7", "93.184.216.34")
_SPARE = ("x", "y0", "z1", "w2")


def net_witnesses(atoms: Atoms) -> WitnessSet:
    """Return a URL for each way in which these policies can answer about the network."""
    agents, complete = agents_of(atoms)
    found: list[Witness] = []
    for tool in (None, *atoms.tools):
        made = list(_urls(atoms, tool))
        complete = complete and len(made) * len(agents) <= MOST_URLS
        kept = made[: MOST_URLS // len(agents)]
        found += [Witness(NET, action.replace(agent=agent)) for agent in agents for action in kept]
    return WitnessSet(tuple(found), complete)


def _urls(atoms: Atoms, tool: str | None) -> Iterator[UrlAction]:
    tables = [table for table in atoms.tables(tool, NET) if isinstance(table, NetTable)] if tool is not None else []
    rules = [rule for table in tables for rule in table.rules]
    matchers = atoms.urls
    public = tool is not None and any(access.net is PUBLIC for access in atoms.accesses(tool))
    named = [host for rule in rules if (host := normal_host(rule.host)) is not None]
    named += [matcher.host for matcher in matchers if matcher.host is not None]
    fresh = next(host for host in _HOSTS if host not in named)
    for host in dict.fromkeys([*named, fresh, *(_LITERAL_HOSTS if public else ())]):
        own = [rule for rule in rules if normal_host(rule.host) == host]
        spoken = [matcher for matcher in matchers if matcher.host in (None, host)]
        methods = _methods(spoken)
        placed = list(dict.fromkeys(matcher.replace(methods=()) for matcher in spoken))
        alike: dict[object, str] = {}
        for url in _places(host, own, spoken):
            alike.setdefault(_answers(url, tables, placed), url)
        for url in alike.values():
            with_user = url.replace("://", "://user@", 1)
            for method in methods:
                yield from (UrlAction(url, method, address, tool) for address in (_DIALLED if tool else (None,)))
                yield UrlAction(with_user, method, None, tool)


def _places(host: str, rules: list[NetRule], matchers: list[UrlMatcher]) -> Iterator[str]:
    shown = f"[{host}]" if ":" in host else host
    paths = tuple(_paths(rules, matchers))
    for scheme in _schemes(rules, matchers):
        for port, path in product(("", *(f":{port}" for port in _ports(rules, matchers))), paths):
            yield f"{scheme}://{shown}{port}{path}"


_parsed = lru_cache(maxsize=8192)(parse_url)  # for each tool, the same URLs are tried


def _answers(url: str, tables: list[NetTable], matchers: list[UrlMatcher]) -> object:
    """Return all that a decision about a URL takes from its host, scheme, port and path."""
    target = _parsed(url)
    if isinstance(target, BadUrl):
        return None
    subject = MatchContext("fetch", url=target)
    return (
        tuple([table.match(target) for table in tables]),
        tuple([matcher.match(subject, granting=granting) for matcher in matchers for granting in (True, False)]),
    )


def _schemes(rules: list[NetRule], matchers: list[UrlMatcher]) -> Iterator[str]:
    """Yield the schemes that rules name, and of those that none does one for each of the ports that they name.

    A rule without a port is about the usual one of a scheme: whether that is the port of another rule counts. One
    scheme more has another usual port, or none.
    """
    schemes = [*(rule.scheme for rule in rules), *(matcher.scheme for matcher in matchers)]
    named = dict.fromkeys(scheme.lower() for scheme in schemes if scheme is not None)
    yield from named
    ports = _named_ports(rules, matchers)
    usual = {scheme: default_port(scheme) for scheme in _SCHEMES if scheme not in named}
    kinds = {port if port in ports else None: scheme for scheme, port in reversed(usual.items())}
    yield from kinds.values()


def _ports(rules: list[NetRule], matchers: list[UrlMatcher]) -> tuple[int, ...]:
    """Return the ports that rules name, and one that none does; no port at all is the usual one of the scheme."""
    named = _named_ports(rules, matchers)
    return (*named, next(port for port in _OTHER_PORTS if port not in named))


def _named_ports(rules: list[NetRule], matchers: list[UrlMatcher]) -> dict[int, None]:
    ports = [*(rule.port for rule in rules), *(matcher.port for matcher in matchers)]
    return dict.fromkeys(port for port in ports if port is not None)


def _methods(matchers: list[UrlMatcher]) -> tuple[str | None, ...]:
    named = dict.fromkeys(method for matcher in matchers for method in matcher.methods)
    if not named:
        return (None,)
    return (None, *named, next(method for method in _OTHER_METHODS if method not in named))


def _paths(rules: list[NetRule], matchers: list[UrlMatcher]) -> Iterator[str]:
    """Yield a path for each pair of prefixes that the spelled path and another reading of it can lie in."""
    written = [*(rule.path_prefix for rule in rules), *(matcher.path_prefix for matcher in matchers)]
    prefixes = [prefix for prefix in written if prefix]
    nodes = list(dict.fromkeys(_nodes(prefixes)))
    spare = next(word for word in _SPARE if all(word not in node for node in nodes))
    yield from dict.fromkeys(_spelled(nodes, spare, prefixes))


def _nodes(prefixes: list[str]) -> Iterator[Segments]:
    """Yield the segments of each prefix, and those of all that it lies in."""
    yield ()
    for prefix in prefixes:
        literal = prefix_segments(prefix, allow=True) or prefix_segments(prefix, allow=False) or ()
        for reading in dict.fromkeys([literal, *(prefix_readings(prefix) or ())]):
            for length in range(1, len(reading) + 1):
                yield reading[:length]


def _spelled(nodes: list[Segments], spare: str, prefixes: Iterable[str]) -> Iterator[str]:
    yield from (prefix if prefix.startswith("/") else f"/{prefix}" for prefix in prefixes)
    for node in nodes:
        path = _path(node)
        yield path or "/"
        yield f"{path}/{spare}"
        yield f"{path}/{spare}%2F{spare}"
    for node in nodes:
        for other in nodes if len(nodes) <= _MOST_PAIRS else [each for each in nodes if _are_nested(each, node)]:
            climb = "/..;" * (len(node) + 1)
            for end in ("", f"/{spare}"):
                yield f"{_path(node)}/{spare}{climb}{_path(other)}{end}"
                yield f"{_path(node)}{'/..;' * len(node)}{_path(other)}{end}" if node else f"{_path(other)};{end}"
                yield f"{_path(node)}/{spare}{climb}{_path(other)}{end}/%2F{spare}"


def _are_nested(one: Segments, other: Segments) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _path(segments: Segments) -> str:
    return "".join(f"/{segment}" for segment in segments)
