"""How the gateway behaves, as the trusted layers say it: the `[gateway]` table, and who may call by which token.

Of each setting the strongest layer that has it counts. Whose tokens count, which agents they mean and which scopes they
need is for the user and the machine's owner to say: a project's file cannot, trusted or not. Where they say nothing of
it, a trusted one may still have `jwt`, with keys in a file. Where telemetry and the access log go is theirs to say.

`read_gateway` reads the table into `GatewaySettings`, whose defaults hold for the keys that are left out.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import LOCAL
from byleave.core.agents import DEFAULT
from byleave.core.patterns import is_literal, name_matches, pattern_problem
from byleave.core.url import BadUrl, parse_url
from byleave.policy.layers import COMMAND_LINE, INLINE, MANAGED, USER
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from typing import Any

    from byleave.policy.layers import Layer, Problems
    from byleave.policy.normalize import At

    Network = IPv4Network | IPv6Network


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
CLIENT, PERSON = "client", "person"
SERVE_NEW, ASK_NEW = "serve", "ask"
ISSUER = "iss"
MOST_STEPS = 8  # names in the path of a claim
_OWN = frozenset({USER, MANAGED, COMMAND_LINE, INLINE})  # layers that may say whose tokens count, and where data goes
_OWN_KEYS = ("public_url", "issuers", "identities", "scopes")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What may stand in a header, between quotes, as it is; and no query, no fragment, no user.
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")  # RFC 6749, section 3.3
_LONGEST_CLAIM = 256


class JwtSettings(Struct, frozen=True):
    """One issuer of JSON Web Tokens. `jwks` is an absolute path, a URL, or empty: the issuer's metadata says it."""

    issuer: str
    audience: tuple[str, ...]
    jwks: str = ""
    agent_claim: str | None = "sub"  # None: only `identities` say which agent a token means
    algorithms: tuple[str, ...] = ALGORITHMS

    @property
    def is_url(self) -> bool:
        return not self.jwks or "://" in self.jwks


class IdentityRule(Struct, frozen=True):
    """Which tokens mean an agent: those whose claims hold all of `match`. `issuer`: of that one only."""

    agent: str
    match: tuple[tuple[str, str | bool], ...] = ()
    issuer: str | None = None


class ScopeRule(Struct, frozen=True):
    """What a token needs a scope for: these servers with all they have, these tools of a server, or every request."""

    scope: str
    servers: tuple[str, ...] = ()
    tools: tuple[tuple[str, tuple[str, ...]], ...] = ()
    all: bool = False

    def covers(self, server: str, tool: str | None) -> bool:
        """Whether it is needed for a tool of a server; for what else the server has (None), only as a whole."""
        if self.all or any(name_matches(name, server) for name in self.servers):
            return True
        return tool is not None and any(
            name_matches(name, server) and any(name_matches(each, tool) for each in tools) for name, tools in self.tools
        )


class CallLimit(Struct, frozen=True):
    """How many calls are taken: in a minute, and open at a time. `each`: what is counted apart."""

    agent: str = "*"
    server: str = "*"
    tool: str = "*"
    each: tuple[str, ...] = ("agent",)
    rate: int | None = None
    max_calls: int | None = None

    def covers(self, agent: str | None, server: str, tool: str | None) -> bool:
        """Whether it is about a call; about what is no tool (None), only where it is about all tools."""
        return (
            name_matches(self.agent, agent or "")
            and name_matches(self.server, server)
            and (self.tool == "*" if tool is None else name_matches(self.tool, tool))
        )

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        return ("agent", self.agent), ("server", self.server), ("tool", self.tool)


class TelemetrySettings(Struct, frozen=True):
    """What `[gateway.telemetry]` says; None is what it leaves to the environment."""

    endpoint: str | None = None
    service_name: str | None = None
    traces: bool | None = None
    metrics: bool | None = None
    sample: float | None = None
    interval: float | None = None


class GatewaySettings(Struct, frozen=True):
    """How the gateway behaves. Sizes are bytes, times seconds; None is no limit."""

    expose: str = "flat"
    pin_tools: bool = True
    new_tools: str = SERVE_NEW  # what becomes of a tool that a known server has not listed before
    require_identity: bool = False
    default_agent: str | None = None
    max_body: int = 8 << 20
    call_timeout: float = 300
    ask_timeout: float = 60
    max_calls: int = 64
    rate: int | None = None
    limits: tuple[CallLimit, ...] = ()
    max_result: int | None = None
    max_sessions: int = 1000
    max_sessions_per_caller: int = 500
    max_connections: int = 1024
    max_connections_per_caller: int = 512
    max_connections_per_peer: int = 512
    trusted_proxies: tuple[Network, ...] = ()  # that are believed about the addresses of clients
    proxy_header: str = "x-forwarded-for"  # in which they say it
    metrics_agents: tuple[str, ...] = ()  # that see the figures of all
    max_processes: int = 200  # of servers that the gateway starts
    approve: str | None = None  # who answers what the policy asks: CLIENT or PERSON; None: as the transport says
    public_url: str | None = None  # where clients reach it, which is also the name of the resource in tokens
    jwt: JwtSettings | None = None  # the issuer whose tokens may name agents by the words of `[agents]`
    issuers: tuple[JwtSettings, ...] = ()  # further ones
    identities: tuple[IdentityRule, ...] = ()
    scopes: tuple[ScopeRule, ...] = ()
    log_format: str = "text"
    access_log: bool | str = False  # a str is the absolute path of a file
    telemetry: TelemetrySettings | None = None

    @property
    def all_issuers(self) -> tuple[JwtSettings, ...]:
        return self.issuers if self.jwt is None else (self.jwt, *self.issuers)

    def scopes_for(self, server: str, tool: str | None) -> tuple[str, ...]:
        """Return the scopes that a token needs for a tool of a server, or (None) for what else the server has."""
        return tuple([rule.scope for rule in self.scopes if rule.covers(server, tool)])

    def warnings(self, servers: frozenset[str]) -> Iterator[str]:
        """Yield what may not be meant as it is written. `servers` are the names that are configured anywhere."""
        for rule in self.scopes:
            named = [name for name in (*rule.servers, *(name for name, _tools in rule.tools)) if is_literal(name)]
            for name in [name for name in named if servers and name not in servers]:
                yield f"gateway.scopes.{shown(rule.scope)}: no server of that name is configured: {shown(name)}"
        for limit in self.limits:
            if is_literal(limit.server) and servers and limit.server not in {*servers, LOCAL}:
                yield f"gateway.limits: no server of that name is configured: {shown(limit.server)}"


def read_gateway(layers: Sequence[Layer], root: str, home: str, problems: Problems) -> GatewaySettings:
    """Return what the trusted layers say; of each setting the strongest layer that has it."""
    given: dict[str, Any] = {}
    spoken: dict[str, Layer] = {}  # which layer each setting comes from
    limits: list[CallLimit] = []
    for layer in layers:
        table = layer.tree.get("gateway", {})
        for key in [key for key in _OWN_KEYS if key in table and layer.name not in _OWN]:
            hint = "put it into your own configuration, or name the file by --policy"
            problems.add(layer, f"a project's file cannot set {key}", hint=hint, at=("gateway", key))
        given |= {key: value for key, value in table.items() if not key.startswith("#")}
        spoken |= dict.fromkeys(table, layer)
        if "trusted_proxies" in table:
            given["trusted_proxies"] = tuple(_networks(table["trusted_proxies"], layer, problems))
        if "metrics_agents" in table:
            given["metrics_agents"] = tuple(table["metrics_agents"])
        if isinstance(table.get("access_log"), str):
            given["access_log"] = _access_log(table["access_log"], layer, problems, home)
        if "limits" in table:  # those of all layers hold: none takes back what another wants
            limits += [_limit(each, number, layer, problems) for number, each in enumerate(table["limits"])]
        if "telemetry" in table:
            given["telemetry"] = _telemetry(table["telemetry"], layer, problems)
    given["limits"] = tuple(dict.fromkeys(limits))
    own = [layer.tree.get("gateway", {}) for layer in layers if layer.name in _OWN]
    said = [key for key in ("jwt", *_OWN_KEYS) if any(key in table for table in own)]
    if said and "jwt" in spoken and spoken["jwt"].name not in _OWN:
        why = f"a project's file cannot set jwt beside your own {said[0]}: its tokens would count like those you mean"
        problems.add(spoken["jwt"], why, hint="put it into your own configuration", at=("gateway", "jwt"))
    return GatewaySettings(**(given | _CallerReader(given, spoken, problems, root, home).read()))


def _access_log(path: str, layer: Layer, problems: Problems, home: str) -> str:
    at = ("gateway", "access_log")
    if layer.name not in _OWN:
        hint = "put it into your own configuration, or write access_log = true"
        problems.add(layer, "a project's file cannot name a file for the access log", hint=hint, at=at)
    if path.startswith("~/") and home:
        path = os.path.join(home, path[2:])
    if not os.path.isabs(path) or "\0" in path:
        problems.add(layer, "the access log needs a whole path", hint='write "/var/log/byleave.log", or true', at=at)
    return path


def _limit(table: Mapping[str, Any], number: int, layer: Layer, problems: Problems) -> CallLimit:
    at = ("gateway", "limits", number)
    if "rate" not in table and "max_calls" not in table:
        problems.add(layer, "this limits nothing", hint="add rate = 60, max_calls = 4, or both", at=at)
    for key in [key for key in ("agent", "server", "tool") if key in table]:
        problem = pattern_problem(table[key])
        if problem is not None:
            hint = 'write a name, or a glob such as "get_*"'
            problems.add(layer, f"{quoted(table[key][:60])}: {problem}", hint=hint, at=(*at, key))
    return CallLimit(**{**table, "each": tuple(dict.fromkeys(table.get("each", ("agent",))))})


def _telemetry(table: Mapping[str, Any], layer: Layer, problems: Problems) -> TelemetrySettings:
    at = ("gateway", "telemetry")
    if layer.name not in _OWN:
        hint = "put [gateway.telemetry] into your own configuration, or give it by --policy"
        problems.add(layer, "a project's file cannot say where telemetry is sent", hint=hint, at=at)
    problem = endpoint_problem(table["endpoint"]) if "endpoint" in table else ""
    if problem:
        problems.add(layer, problem, hint='write "http://127.0.0.1:4318"', at=(*at, "endpoint"))
    return TelemetrySettings(**table)


def endpoint_problem(endpoint: str) -> str:
    """Return why telemetry cannot be sent to this URL; empty if it can. What it says repeats nothing of the URL."""
    target = parse_url(endpoint)
    if isinstance(target, BadUrl) or target.scheme not in ("http", "https"):
        return "telemetry is sent by http or https"
    if target.userinfo:
        return "the URL of a collector carries no user name and no password: OTEL_EXPORTER_OTLP_HEADERS does"
    return "the URL of a collector has no query and no fragment" if set(endpoint) & {"?", "#"} else ""


def _networks(texts: Sequence[str], layer: Layer, problems: Problems) -> Iterator[Network]:
    from ipaddress import ip_network  # heavy: most servers name no network

    for number, text in enumerate(texts):
        at = ("gateway", "trusted_proxies", number)
        try:
            network = ip_network(text)
        except ValueError:
            hint = 'write an address, "192.0.2.7", or a network, "10.0.0.0/8"'
            problems.add(layer, "this is no address, and no network", hint=hint, at=at)
            continue
        if network.prefixlen == 0:
            hint = "name the addresses of your proxies: every other client could claim any address"
            problems.add(layer, "this is every address there is", hint=hint, at=at)
        yield network


class _CallerReader:
    """Reads whose tokens count, whom they mean, and what they must hold. `spoken`: the layer of each setting."""

    def __init__(
        self, given: Mapping[str, Any], spoken: Mapping[str, Layer], problems: Problems, root: str, home: str
    ) -> None:
        self._given = given
        self._spoken = spoken
        self._problems = problems
        self._root = root
        self._home = home

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "public_url" in self._given and not _is_plain(self._given["public_url"]):
            hint = 'write the URL that clients use: "https://mcp.example.com/mcp"'
            self._problem(("public_url",), "this is no plain https URL", hint)
        if "jwt" in self._given:
            found["jwt"] = self._issuer(self._given["jwt"], ("jwt",), default="sub")
        tables = self._given.get("issuers", ())
        found["issuers"] = tuple([self._listed(table, number) for number, table in enumerate(tables)])
        issuers = [each.issuer for each in (*([found["jwt"]] if "jwt" in found else []), *found["issuers"])]
        self._check_alike(issuers)
        rules = self._given.get("identities", ())
        found["identities"] = tuple([self._identity(table, number, issuers) for number, table in enumerate(rules)])
        scopes = self._given.get("scopes", {})
        found["scopes"] = tuple([self._scope(name, table) for name, table in scopes.items()])
        for key in [key for key in ("identities", "scopes") if found[key] and not issuers]:
            self._problem((key,), "there is no issuer whose tokens this could be about", "add [[gateway.issuers]]")
        return found

    def _problem(self, at: At, problem: str, hint: str) -> None:
        self._problems.add(self._spoken[str(at[0])], problem, hint=hint, at=("gateway", *at))

    def _listed(self, table: Mapping[str, Any], number: int) -> JwtSettings:
        at = ("issuers", number)
        if not _is_plain(table["issuer"]):
            self._problem((*at, "issuer"), "an issuer is a plain https URL", 'write "https://id.example.com"')
        return self._issuer(table, at, default=None)

    def _issuer(self, table: Mapping[str, Any], at: At, *, default: str | None) -> JwtSettings:
        issuer, jwks = table["issuer"], table.get("jwks", "")
        audience = table.get("audience", self._given.get("public_url", ()))
        if "jwks" not in table:
            if not _is_plain(issuer):
                problem = "where the keys are can be asked of an issuer that is a plain https URL only"
                self._problem(at, problem, "add jwks, or write the issuer as a URL")
            if self._spoken[str(at[0])].name not in _OWN:
                hint = "put it into your own configuration, or name a file of keys"
                self._problem(at, "a project's file cannot say where keys are fetched from", hint)
        elif "://" in jwks:
            self._check_keys(jwks, (*at, "jwks"))
        else:
            named = os.path.join(self._home, jwks[2:]) if jwks.startswith("~/") and self._home else jwks
            jwks = os.path.join(self._root, named)
        if "audience" not in table and not audience:
            hint = "add audience, or [gateway] public_url, which is the audience then"
            self._problem(at, "for which audience are the tokens?", hint)
        elif not issuer or not audience or not all(audience):
            hint = "say whose tokens count, and that they are meant for this gateway"
            self._problem(at, "issuer and audience cannot be empty", hint)
        return JwtSettings(
            issuer,
            (audience,) if isinstance(audience, str) else tuple(audience),
            jwks,
            table.get("agent_claim", default),
            tuple(table.get("algorithms", ALGORITHMS)),
        )

    def _check_keys(self, jwks: str, at: At) -> None:
        target = parse_url(jwks)
        if self._spoken[str(at[0])].name not in _OWN:
            hint = "put it into your own configuration, or name a file of keys"
            self._problem(at, "a project's file cannot say where keys are fetched from", hint)
        elif isinstance(target, BadUrl) or not (
            target.scheme == "https" or (target.scheme == "http" and target.host in _LOOPBACK)
        ):
            self._problem(at, "keys are fetched by https only", 'write "https://..."')

    def _check_alike(self, issuers: Sequence[str]) -> None:
        """Refuse issuers that a reader takes for the same one: which keys and audience are theirs?"""
        first = len(issuers) - len(self._given.get("issuers", ()))
        alike = [issuer.rstrip("/") for issuer in issuers]
        for number, issuer in enumerate(alike):
            if number >= first and issuer in alike[:number]:
                hint = "keep one of the two; a slash at the end does not make it another one"
                self._problem(("issuers", number - first, "issuer"), "this issuer is there already", hint)

    def _identity(self, table: Mapping[str, Any], number: int, issuers: Sequence[str]) -> IdentityRule:
        at, agent, match = ("identities", number), table["agent"], dict(table["match"])
        if not agent or not is_literal(agent) or agent in (self._given.get("default_agent"), DEFAULT):
            why = f"{quoted(agent)} is not the name of one agent, which tokens could prove"
            self._problem((*at, "agent"), why, "name an agent; a glob or the default agent cannot be proven")
        if not match:
            self._problem((*at, "match"), "this would be every token", 'add claims: match = { groups = "builders" }')
        issuer = match.pop(ISSUER, None)
        if issuer not in (None, *issuers):
            hint = f"iss is one of: {', '.join(map(quoted, issuers)) or 'none'}"
            self._problem((*at, "match"), "no such issuer is configured", hint)
        elif issuer is None and len(issuers) > 1:
            why = "there are several issuers, and what one calls a group may be another's name for anything"
            self._problem((*at, "match"), why, f"add iss = {quoted(issuers[0])}")
        for claim, value in match.items():
            if not claim or len(claim) > _LONGEST_CLAIM or claim.count(".") >= MOST_STEPS:
                hint = f"write the name of a claim, or a path of at most {MOST_STEPS} names with dots between"
                self._problem((*at, "match"), f"{quoted(claim[:60])} is no name of a claim", hint)
            problem = pattern_problem(value) if isinstance(value, str) else None
            if problem is not None:
                self._problem((*at, "match", claim), problem, 'write a text, or a glob such as "team-*"')
        return IdentityRule(agent, tuple(match.items()), issuer)

    def _scope(self, name: str, table: Mapping[str, Any]) -> ScopeRule:
        at = ("scopes", name)
        if not _SCOPE.fullmatch(name):
            hint = 'a scope is ASCII without blanks, quotes and backslashes: "tools:write"'
            self._problem(at, f"{quoted(name[:60])} is no scope", hint)
        if table.get("all", False) == any(key in table for key in ("servers", "tools")):
            hint = "write servers, tools or both; or all = true, alone, for every request"
            self._problem(at, "what is this scope needed for?", hint)
        servers, tools = table.get("servers", ()), table.get("tools", {})
        named: Iterable[tuple[At, str]] = (
            *(((*at, "servers", number), each) for number, each in enumerate(servers)),
            *(((*at, "tools", each), each) for each in tools),
            *(((*at, "tools", server, number), each) for server in tools for number, each in enumerate(tools[server])),
        )
        for where, pattern in named:
            problem = pattern_problem(pattern)
            if problem is not None:
                self._problem(where, f"{quoted(pattern[:60])}: {problem}", 'write a name, or a glob such as "get_*"')
        listed = tuple([(server, tuple(names)) for server, names in tools.items()])
        return ScopeRule(name, tuple(servers), listed, table.get("all", False))


def _is_plain(url: str) -> bool:
    """Whether a URL may be published as it is: https, or http on this machine, with nothing but host and path."""
    target = parse_url(url)
    if isinstance(target, BadUrl) or not _PLAIN_URL.fullmatch(url) or target.userinfo:
        return False
    return target.scheme == "https" or target.host in _LOOPBACK
