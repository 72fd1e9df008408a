"""Which requests over HTTP can be the user's own: not those of a proxy, nor those of a foreign page. Pure.

A proxy on this machine makes strangers look like a program of its user. So a request whose head says that it was passed
on (`passed_on_by`) is never the user's own, however its fields are spelled. A proxy that the configuration names is
believed about addresses, for limits and records, and about nothing else (`Proxies.client_of`).

A page in the user's browser can send requests to this machine, under any name that leads here (DNS rebinding). What it
cannot choose is the `Host` and `Origin` that the browser writes, so a gateway without tokens compares these with the
addresses, hosts and origins by which it may be reached.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING

from byleave.errors import InputError
from byleave.protocol.http_head import REROUTING, as_servers_read
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Network = IPv4Network | IPv6Network


X_FORWARDED_FOR, FORWARDED = "x-forwarded-for", "forwarded"
_MARKS = REROUTING | {
    *(FORWARDED, "via", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-cluster-client-ip", "cdn-loop"),
    *("x-remote-ip", "x-remote-addr", "remote-addr", "x-originating-ip", "x-proxyuser-ip", "wl-proxy-client-ip"),
    *("x-proxy-id", "x-real-port", "x-real-host", "x-scheme", "x-url-scheme", "front-end-https", "x-arr-log-id"),
    *("x-arr-ssl", "x-bluecoat-via", "x-varnish", "x-iisnode-remote-addr", "x-proxied-for", "x-proxied-host"),
    *("x-nginx-proxy", "x-real-proto", "ali-cdn-real-ip", "x-ssl", "x-https"),
    *("remote-user", "x-remote-user", "x-webauth-user", "x-authenticated-user"),  # of proxies that ask for a password
}
# As proxies, tunnels and networks of servers name their own fields.
_STARTS = (
    *("x-forwarded", "x-original-", "x-envoy-", "x-ms-proxy", "x-azure-", "x-fd-", "x-amz-cf-", "x-appengine-"),
    *("x-goog-iap-", "x-vercel-", "x-nf-", "x-akamai-", "x-traefik-", "x-sucuri-", "x-tailscale-", "x-ngrok-"),
    *("x-auth-request-", "ssl-client-", "x-ssl-", "x-client-cert", "x-amzn-oidc-", "x-amzn-mtls-"),
    *("cf-", "cloudfront-", "fastly-", "fly-", "akamai-", "tailscale-", "ngrok-", "incap-", "x-pomerium-"),
)
_MOST_HOPS = 32
# RFC 7239, section 4: pairs, of which one says for whom. No comma is inside of a pair, or the list were cut there.
_FOR = re.compile(
    r'[ \t]*(?:[a-z]+=[^;,"]*;[ \t]*|[a-z]+="[^",]*";[ \t]*)*for=("?)([^;,"]*)\1[ \t]*(?:;[^,]*)?', re.IGNORECASE
)


def passed_on_by(fields: Iterable[str]) -> str:
    """Return the first of these (lower-case) names that only a proxy writes; empty if there is none."""
    for name in fields:
        read = as_servers_read(name)
        if read in _MARKS or read.startswith(_STARTS):
            return name
    return ""


class Proxies:
    """The proxies that are believed about addresses, and the one field that they say it in.

    Of a list of addresses each proxy adds the last one, and a client may have begun it. So it is read from its end: the
    first address that is no proxy's is the client's.
    """

    def __init__(self, networks: Iterable[Network] = (), header: str = X_FORWARDED_FOR) -> None:
        self._networks = tuple(networks)
        self._header = header

    def has(self, host: str) -> bool:
        """Whether this address is one of a proxy's."""
        if not self._networks:
            return False
        found = ip_address(host)
        return any(found in network for network in self._networks)

    def client_of(self, host: str, fields: Mapping[str, str]) -> str:
        """Return the address of the client, where the connection is one of `host`."""
        if not self.has(host):
            return host
        hops = fields.get(self._header, "").split(",")
        for hop in reversed(hops[-_MOST_HOPS:]):
            found = _address(hop, is_forwarded=self._header == FORWARDED)
            if not found:
                return host
            host = found
            if not self.has(host):
                return host
        return host


def _address(hop: str, *, is_forwarded: bool) -> str:
    """Return the address that one proxy noted, in its own form; empty for what is none."""
    if is_forwarded:
        matched = _FOR.fullmatch(hop)
        hop = "" if matched is None else matched[2]
    hop = hop.strip(" \t")
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    try:
        found = ip_address("" if "%" in hop else hop)  # behind it could stand any words
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)


_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


def is_loopback_host(host: str) -> bool:
    """Whether listening at `host` means to be reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_address(host: str, *, has_identity: bool) -> None:
    """Refuse to listen where others could reach a gateway that does not know them apart: an InputError."""
    if not has_identity and not is_loopback_host(host):
        raise InputError(
            f"without tokens the gateway listens on this machine only, and {quoted(host)} is open to others",
            hint="listen on 127.0.0.1; or give agents tokens (byleave agents token NAME), or configure [gateway.jwt]",
        )


@lru_cache(256)
def names_us(host: str, local_host: str, local_port: int) -> bool:
    """Whether a `Host` header names this machine, as seen from itself, and the port that we listen at."""
    found = _split(host, 80)
    own = f"[{local_host}]" if ":" in local_host else local_host
    return found is not None and found[1] == local_port and (found[0] in _NAMES or found[0] == own)


def is_foreign(fields: Mapping[str, str]) -> bool:
    """Whether a request was caused by a page from elsewhere.

    Pages of this machine may call, and those of the very host that is called. That host could be any name that was made
    to lead here, so where there is no token it must be ours, too (`names_us`).
    """
    if fields.get("sec-fetch-site", "").lower() == "cross-site":
        return True
    origin = fields.get("origin")
    if origin is None:
        return False
    scheme, _mark, authority = origin.lower().partition("://")
    found = _split(authority, _PORTS.get(scheme, 0)) if scheme in _PORTS else None
    if found is None:
        return True
    return found[0] not in _NAMES and found != _split(fields.get("host", ""), _PORTS[scheme])


def _split(authority: str, default: int) -> tuple[str, int] | None:
    """Return host and port; None for what is no plain authority."""
    found = _AUTHORITY.fullmatch(authority.lower())
    return None if found is None else (found[1], int(found[2] or default))
