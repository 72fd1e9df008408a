"""What `[gateway]` says, with what holds where it says nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.url import BadUrl, parse_url
from byleave.policy.layers import COMMAND_LINE, INLINE, MANAGED, USER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from typing import Any

    from byleave.policy.layers import Layer, Problems

    Network = IPv4Network | IPv6Network

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
CLIENT, PERSON = "client", "person"
SERVE_NEW, ASK_NEW = "serve", "ask"
_OWN = frozenset({USER, MANAGED, COMMAND_LINE, INLINE})  # layers that may have us fetch keys from somewhere
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class JwtSettings(Struct, frozen=True):
    """Which JSON Web Tokens say who is calling. `jwks` is an absolute path, or a URL."""

    issuer: str
    audience: tuple[str, ...]
    jwks: str
    agent_claim: str = "sub"
    algorithms: tuple[str, ...] = ALGORITHMS

    @property
    def is_url(self) -> bool:
        return "://" in self.jwks


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
    jwt: JwtSettings | None = None


def read_gateway(layers: Sequence[Layer], root: str, home: str, problems: Problems) -> GatewaySettings:
    """Return what the trusted layers say; of each setting the strongest layer that has it."""
    given: dict[str, Any] = {}
    for layer in layers:
        table = layer.tree.get("gateway", {})
        given |= {key: value for key, value in table.items() if not key.startswith("#")}
        if "jwt" in table:
            given["jwt"] = _jwt(table["jwt"], layer, problems, root, home)
        if "trusted_proxies" in table:
            given["trusted_proxies"] = tuple(_networks(table["trusted_proxies"], layer, problems))
        if "metrics_agents" in table:
            given["metrics_agents"] = tuple(table["metrics_agents"])
    return GatewaySettings(**given)


def _networks(texts: Sequence[str], layer: Layer, problems: Problems) -> Iterator[Network]:
    from ipaddress import ip_network

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


def _jwt(table: Mapping[str, Any], layer: Layer, problems: Problems, root: str, home: str) -> JwtSettings:
    audience, jwks = table["audience"], table["jwks"]
    at = ("gateway", "jwt", "jwks")
    if "://" in jwks:
        target = parse_url(jwks)
        if layer.name not in _OWN:
            hint = "put it into your own configuration, or name a file of keys"
            problems.add(layer, "a project's file cannot say where keys are fetched from", hint=hint, at=at)
        elif isinstance(target, BadUrl) or not (
            target.scheme == "https" or (target.scheme == "http" and target.host in _LOOPBACK)
        ):
            problems.add(layer, "keys are fetched by https only", hint='write "https://..."', at=at)
    else:
        jwks = os.path.join(root, os.path.join(home, jwks[2:]) if jwks.startswith("~/") and home else jwks)
    if not table["issuer"] or not audience or not all(audience):
        hint = "say whose tokens count, and that they are meant for this gateway"
        problems.add(layer, "issuer and audience cannot be empty", hint=hint, at=("gateway", "jwt"))
    return JwtSettings(
        table["issuer"],
        (audience,) if isinstance(audience, str) else tuple(audience),
        jwks,
        table.get("agent_claim", "sub"),
        tuple(table.get("algorithms", ALGORITHMS)),
    )
