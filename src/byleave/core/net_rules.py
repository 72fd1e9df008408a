"""Decide which network rule answers for a place, and which addresses it may be reached at.

Pure: rules and a `Target` (core.url) in, a `NetAnswer` out. Hosts and prefixes of rules were checked by the
configuration's compiler; what still cannot be matched is a ValueError, for a table without a rule that was
written would be a laxer one. Names are resolved and connections made elsewhere; `may_dial` decides about the result.

Start at `decide_net`. The index behind it: `NetTable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.decision import BUILT_IN, DENY, INLINE, RuleRef, ref_to
from byleave.core.url import normal_host, prefix_readings, prefix_segments
from byleave.record import Record, Sealed
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Address, IPv6Address

    from byleave.core.url import Target

    Address = IPv4Address | IPv6Address
    Segments = tuple[str, ...]
    Key = tuple[str | None, int | None]
    Ranked = tuple[int, "NetRule | None"]

ORDER_BITS = 32  # more rules than fit in memory
UNRANKED: Ranked = (-1, None)
USERINFO = "the URL carries a user name or a password"

# Credentials of the machine itself: addresses that clouds answer at. Not all of them look private.
METADATA = frozenset(
    {
        "169.254.169.254",  # AWS, Azure, Google Cloud and most others
        "169.254.170.2",  # AWS ECS tasks
        "169.254.170.23",  # AWS EKS pods
        "168.63.129.16",  # Azure, for the agent in each machine: certificates, settings; a public address
        "100.100.100.200",  # Alibaba Cloud
        "192.0.0.192",  # Oracle Cloud
        "169.254.0.23",  # Tencent Cloud
        "169.254.42.42",  # Scaleway
        "fd00:ec2::254",  # AWS over IPv6
        "fd00:ec2::23",  # AWS EKS pods over IPv6
        "fd20:ce::254",  # Google Cloud over IPv6
        "fd00:42::42",  # Scaleway over IPv6
    }
)

# IANA IPv4 special-purpose registry, as (first address, prefix length).
NOT_PUBLIC_4 = (
    (0x00000000, 8),  # 0.0.0.0/8, this network
    (0x0A000000, 8),  # 10.0.0.0/8, private
    (0x64400000, 10),  # 100.64.0.0/10, carrier-grade NAT
    (0x7F000000, 8),  # 127.0.0.0/8, loopback
    (0xA9FE0000, 16),  # 169.254.0.0/16, link-local
    (0xAC100000, 12),  # 172.16.0.0/12, private
    (0xC0000000, 24),  # 192.0.0.0/24, protocol assignments
    (0xC0000200, 24),  # 192.0.2.0/24, documentation
    (0xC0586300, 24),  # 192.88.99.0/24, relays of 6to4
    (0xC0A80000, 16),  # 192.168.0.0/16, private
    (0xC6120000, 15),  # 198.18.0.0/15, benchmarks
    (0xC6336400, 24),  # 198.51.100.0/24, documentation
    (0xCB007100, 24),  # 203.0.113.0/24, documentation
    (0xE0000000, 3),  # 224.0.0.0/3, multicast, reserved and broadcast
)

# IANA IPv6 special-purpose registry, inside 2000::/3: everything outside of that is not public at all.
NOT_PUBLIC_6 = (
    (0x2001_0000 << 96, 23),  # 2001::/23, protocol assignments, Teredo among them
    (0x2001_0DB8 << 96, 32),  # 2001:db8::/32, documentation
    (0x3FFF_0000 << 96, 20),  # 3fff::/20, documentation
)


class NetRule(Record):
    """One rule of `access.net`. An absent scheme is any; an absent port is the default one of the scheme."""

    host: str
    scheme: str | None = None
    port: int | None = None
    path_prefix: str | None = None
    allow: bool = False
    private: bool = False
    source: str = INLINE

    @property
    def text(self) -> str:
        """The rule in a few words, such as `allow https://api.github.com:8443/repos`."""
        word = "allow" if self.allow else "deny"
        scheme = f"{self.scheme}://" if self.scheme is not None else ""
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        port = f":{self.port}" if self.port is not None else ""
        path = f"/{self.path_prefix.removeprefix('/')}" if self.path_prefix else ""
        return shown(f"{word} {scheme}{host}{port}{path}{' (private)' if self.private else ''}")


class NetAnswer(Record):
    """Whether a place may be reached. `rule` decided; without one, `problem` did, or no rule matches."""

    allowed: bool
    rule: NetRule | None
    problem: str | None = None


def decide_net(table: NetTable, target: Target) -> NetAnswer:
    """Return what the rules say about `target`; a user name or password in the URL denies it by itself."""
    if target.userinfo:
        return NetAnswer(False, None, USERINFO)
    rule = table.match(target)
    return NetAnswer(rule is not None and rule.allow, rule)


def specificity(rule: NetRule) -> int:
    """Return how many components the rule names: scheme, port, and each segment of the path prefix."""
    return _named_parts(rule) + len(_segments(rule))


class NetTable(Sealed):
    """Rules by host and path, built once. A match costs the same however many rules there are."""

    __slots__ = ("_hosts", "rules")

    def __init__(self, rules: Sequence[NetRule]) -> None:
        self.rules = tuple(rules)
        self._hosts: dict[str, _HostRules] = {}
        known: dict[str, _HostRules] = {}
        for order, rule in enumerate(rules):
            own = known.get(rule.host)
            if own is None:
                own = known[rule.host] = self._hosts.setdefault(_rule_host(rule), _HostRules())
            own.add(rule, order)

    def match(self, target: Target) -> NetRule | None:
        """Return the rule that decides about `target`, None if it is not covered.

        The path is matched in its literal form and in every other reading a server may have of it. A denying
        rule of any reading decides; a reading that no rule covers leaves the target uncovered.
        """
        host = self._hosts.get(target.host)
        if host is None:
            return None
        keys = _keys(target)
        literal = (host.pathless if target.tainted else host.all).best(keys, target.segments)
        if target.plain == target.segments and not target.readings:
            return literal[1]
        others = [host.reread(keys, way, literal) for way in (target.plain, *target.readings)]
        return _strictest([literal[1], *others])

    def has_paths(self, host: str) -> bool:
        """Whether any rule for `host` depends on the path, which TLS hides."""
        own = self._hosts.get(normal_host(host) or "")
        return own is not None and bool(own.all.steps)

    @staticmethod
    def ref(rule: NetRule | None, *, allowed: bool) -> RuleRef:
        """Return the reference to `rule` that a verdict carries; None stands for default-deny."""
        return ref_to(rule, allowed=allowed, missing=NO_NET_RULE)


NO_NET_RULE = RuleRef("no access.net rule covers it", BUILT_IN, DENY)


def may_dial(rule: NetRule | None, address: str) -> bool:
    """Whether a connection that `rule` allows may go to `address`, which its host was resolved to.

    Addresses that are not public need a rule for that very address, `private = true`, or, for loopback, the
    host `localhost`. Those that hand out a machine's credentials (METADATA) need the rule for that address.
    """
    dialled = _address(address)
    if dialled is None or rule is None or not rule.allow:
        return False
    host = normal_host(rule.host)
    if host == str(dialled):
        return True
    wrapped = _wrapped(dialled)
    if hands_out_credentials(address):
        return False
    if _is_public(dialled) and (wrapped is None or _is_public(wrapped)):
        return True
    return rule.private or (host == "localhost" and dialled.is_loopback)


def hands_out_credentials(address: str) -> bool:
    """Whether only a rule for this very address opens it: it is one of METADATA, or an IPv6 address that ends in one.

    A network chooses by which beginning its translator knows addresses of IPv4 (RFC 6052), so any may be one.
    """
    from ipaddress import IPv4Address  # heavy: most hosts are names

    dialled = _address(address)
    if dialled is None:
        return False
    names = {str(dialled), str(_wrapped(dialled)), str(IPv4Address(int(dialled) & 0xFFFFFFFF))}
    return not METADATA.isdisjoint(names)


# Allows a connection wherever it leads, but to public addresses only: no host has that name.
ANY_PUBLIC = NetRule("public.invalid", allow=True)


def refuse_public(target: Target, address: str | None) -> str | None:
    """Say why a place is not reached where any public address may be, or None."""
    if target.userinfo:
        return USERINFO
    dialled = address if address is not None else target.host
    if target.host == "localhost" or ((address or _address(dialled) is not None) and not may_dial(ANY_PUBLIC, dialled)):
        return "it is not a public address"
    return None


class _HostRules:
    """The rules of one host: all of them, and those that are left when no path prefix may grant anything."""

    __slots__ = ("all", "pathless")

    def __init__(self) -> None:
        self.all = _PathTree()
        self.pathless = _PathTree()

    def add(self, rule: NetRule, order: int) -> None:
        path = _segments(rule)
        self.all.add(rule, order, path)
        if not (rule.allow and path):
            self.pathless.add(rule, order, path)

    def reread(self, keys: tuple[Key, ...], path: Segments, literal: Ranked) -> NetRule | None:
        """Return the rule that decides about another reading of a path than the literal one.

        No path prefix grants it, but for that of the rule which won literally, if it covers this reading too.
        """
        rank, rule = self.pathless.best(keys, path)
        return literal[1] if _rank_along(literal, path) > rank else rule


class _PathTree:
    """Rules at the node of their path prefix: a match walks one branch.

    Nodes are numbers and live in two dictionaries, so that many rules make few objects. The root is 0.
    """

    __slots__ = ("ranked", "steps")

    def __init__(self) -> None:
        self.steps: dict[tuple[int, str | None], int] = {}
        self.ranked: dict[tuple[int, str | None, int | None], tuple[int, NetRule]] = {}

    def add(self, rule: NetRule, order: int, path: Segments) -> None:
        node = 0
        for segment in path:
            node = self.steps.setdefault((node, segment), len(self.steps) + 1)
        scheme = None if rule.scheme is None else rule.scheme.lower()
        self.ranked[node, scheme, rule.port] = (_rank(rule, len(path), order), rule)

    def best(self, keys: tuple[Key, ...], path: Segments) -> Ranked:
        """Return the most specific rule on the way down `path`; of equals the last one written."""
        node, winner = 0, UNRANKED
        segments = iter(path)
        while True:
            for scheme, port in keys:
                found = self.ranked.get((node, scheme, port))
                if found is not None and found[0] > winner[0]:
                    winner = found
            following = self.steps.get((node, next(segments, None)))  # behind the last segment, None leads nowhere
            if following is None:
                return winner
            node = following


def _keys(target: Target) -> tuple[Key, ...]:
    """Return every (scheme, port) a rule for `target` can have; without a port it means the default one."""
    scheme, port = target.scheme, target.port
    if not target.default_port:
        return ((None, port), (scheme, port))
    return ((None, None), (scheme, None), (None, port), (scheme, port))


def _strictest(winners: list[NetRule | None]) -> NetRule | None:
    for winner in winners:
        if winner is not None and not winner.allow:
            return winner
    return None if None in winners else winners[0]


def _rank(rule: NetRule, length: int, order: int) -> int:
    """Return a number that orders rules by specificity, equals by their place in the list."""
    return (_named_parts(rule) + length) << ORDER_BITS | order


def _rank_along(literal: Ranked, path: Segments) -> int:
    """Return the rank that the rule which won literally has on `path`; -1 if its prefix does not cover it."""
    rank, rule = literal
    if rule is None:
        return -1
    readings = prefix_readings(rule.path_prefix or "") or ()
    lengths = [len(prefix) for prefix in readings if path[: len(prefix)] == prefix]
    return _rank(rule, max(lengths), rank % (1 << ORDER_BITS)) if lengths else -1


def _rule_host(rule: NetRule) -> str:
    host = normal_host(rule.host)
    if host is None:
        raise ValueError(f"{quoted(rule.host)} is no host ({shown(rule.source)})")
    return host


def _segments(rule: NetRule) -> Segments:
    segments = prefix_segments(rule.path_prefix or "", allow=rule.allow)
    if segments is None:
        problem = f"{quoted(rule.path_prefix or '')} cannot be matched as a path prefix"
        raise ValueError(f"{problem} ({shown(rule.source)})")
    return segments


def _named_parts(rule: NetRule) -> int:
    return (rule.scheme is not None) + (rule.port is not None)


def _address(text: str) -> Address | None:
    """Return the address, as IPv4 if it only maps one; None if it is no address or has a zone."""
    from ipaddress import IPv6Address, ip_address  # dear to load, and only who dials needs it

    try:
        address = ip_address(text)
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return address
    return None if address.scope_id is not None else address.ipv4_mapped or address


def _wrapped(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that a translator or tunnel would deliver to."""
    from ipaddress import IPv4Address  # heavy: most hosts are names

    value = int(address)
    if value >> 112 == 0x2002:  # 2002::/16, 6to4
        return IPv4Address(value >> 80 & 0xFFFFFFFF)
    if _is_nat64(value):
        return IPv4Address(value & 0xFFFFFFFF)
    return None


def _is_public(address: Address) -> bool:
    value = int(address)
    if address.version == 4:
        return not _inside(value, NOT_PUBLIC_4, width=32)
    return _is_nat64(value) or (value >> 125 == 1 and not _inside(value, NOT_PUBLIC_6, width=128))


def _is_nat64(value: int) -> bool:
    return value >> 32 == 0x0064_FF9B << 64  # 64:ff9b::/96, RFC 6052


def _inside(value: int, networks: tuple[tuple[int, int], ...], *, width: int) -> bool:
    return any(value >> (width - bits) == first >> (width - bits) for first, bits in networks)
