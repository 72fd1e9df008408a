"""The keys of an issuer of JSON Web Tokens: from a file, from a URL, or from where the issuer's metadata says they are.

A URL is read over https, or over http on this machine; redirects are not followed, and time and size are limited. Of
an issuer without a URL of keys its metadata is read first (RFC 8414, then OpenID Connect Discovery). It must name that
very issuer, letter by letter. The keys it names may be at another host, but then at a public address: no metadata has
us ask a machine of the network that the gateway is in.

Only keys with a public half are used, so that a token cannot be signed with what all may read. Start at `keys_of` and
`usable_keys`. All of it blocks, and belongs into a thread.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from byleave.core.net_rules import ANY_PUBLIC, NetRule
from byleave.core.url import BadUrl, parse_url
from byleave.errors import ConfigError, InputError, RequestError
from byleave.gateway.http_trust import is_loopback_host
from byleave.net.http_client import HttpClient, HttpRequest
from byleave.protocol.json_fast import FAST
from byleave.text import quoted
from byleave.user_files import read_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from byleave.core.url import Target
    from byleave.net.http_client import HttpResponse

    class KeySource(Protocol):
        """An issuer, and where its keys are."""

        @property
        def issuer(self) -> str: ...
        @property
        def jwks(self) -> str: ...


_LARGEST = 1 << 20
_MOST_KEYS = 256  # of one issuer: each takes a while to read
PATIENCE = 5.0  # seconds for all of it


def is_url(source: str) -> bool:
    """Whether keys come from elsewhere; anything else is a file."""
    return not source or "://" in source


def keys_of(source: KeySource) -> bytes:
    """Return the set of keys of an issuer, as it is written; a ByleaveError if it cannot be had."""
    return fetch_keys(source.jwks) if source.jwks else _discovered(source.issuer)


def fetch_keys(source: str) -> bytes:
    """Return what a file or a URL holds; a ByleaveError if it cannot be had."""
    if is_url(source):
        target = _target(source)
        rule = NetRule(target.host, allow=True, private=True)  # an issuer may be on the user's own network
        return _body(_response(source, rule, time.monotonic() + PATIENCE))
    content = read_private(os.path.abspath(source), limit=_LARGEST, links=True)
    if content is None:
        raise ConfigError(f"there is no file {quoted(source)}", hint="name the file that holds the issuer's keys")
    return content


def metadata_urls(issuer: str) -> Iterator[str]:
    """Yield where the metadata of an issuer may be, in the order in which clients of MCP look for it."""
    scheme, _mark, rest = issuer.partition("://")
    host, slash, path = rest.partition("/")
    start, path = f"{scheme}://{host}", (slash + path).rstrip("/")
    yield f"{start}/.well-known/oauth-authorization-server{path}"
    if path:
        yield f"{start}/.well-known/openid-configuration{path}"
    yield f"{start}{path}/.well-known/openid-configuration"


def _discovered(issuer: str) -> bytes:
    """Return the keys that an issuer's metadata names."""
    deadline = time.monotonic() + PATIENCE
    target = _target(issuer)
    rule = NetRule(target.host, allow=True, private=True)
    for url in metadata_urls(issuer):
        response = _response(url, rule, deadline)
        keys = _keys_named_in(response.body, issuer) if response.status == 200 else None
        if keys is not None:
            place = _target(keys)
            if place.scheme != "https" and target.scheme == "https":
                raise InputError("the issuer's metadata names keys without TLS", hint="name the keys by jwks")
            return _body(_response(keys, rule if place.host == target.host else ANY_PUBLIC, deadline))
    raise InputError(f"the issuer {quoted(issuer)} has no metadata that names its keys", hint="name the keys by jwks")


def _keys_named_in(content: bytes, issuer: str) -> str | None:
    """Return where the keys are; None if this is no metadata, or does not say it: another place may have some."""
    try:
        tree = FAST.decode(content)
    except (ValueError, RecursionError):  # some servers have a page for every path
        return None
    if type(tree) is not dict or not isinstance(tree.get("jwks_uri"), str):
        return None
    if tree.get("issuer") != issuer:
        raise InputError(
            f"the metadata of {quoted(issuer)} is that of another issuer",
            hint="write the issuer letter by letter as its metadata does, also the slash at its end",
        )
    keys: str = tree["jwks_uri"]
    return keys


def _target(url: str) -> Target:
    """Return where a URL leads; an error unless that is https, or this machine."""
    target = parse_url(url)
    if isinstance(target, BadUrl):
        raise InputError(f"the keys at {quoted(url)} cannot be fetched: {target.problem}", hint="check the URL")
    if target.scheme != "https" and not (target.scheme == "http" and is_loopback_host(target.host)):
        raise ConfigError("keys are fetched over https, or over http on this machine", hint="write https://")
    return target


def _response(url: str, rule: NetRule, deadline: float) -> HttpResponse:
    """Return what is served at a URL: no redirect is followed."""
    request = HttpRequest("GET", url, (("Accept", "application/json"),))
    try:
        with HttpClient() as client:
            return client.fetch(request, (rule,), limit=_LARGEST, deadline=deadline)
    except (RequestError, PermissionError):
        problem = f"the keys at {quoted(url)} cannot be fetched"
        raise InputError(problem, hint="see whether the issuer is up, and what the URL holds") from None


def _body(response: HttpResponse) -> bytes:
    if response.status != 200:
        raise InputError(
            f"the issuer answered {response.status}", hint="give the URL itself: redirects are not followed"
        )
    return response.body


# Which signatures a key may be used for, by its type and curve; and which of its members are public.
_USES = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
ALGORITHMS = tuple(dict.fromkeys([name for names in _USES.values() for name in names]))
_LEAST_BITS = 2048  # of an RSA key: NIST SP 800-131A
_MOST_BITS = 16384  # a signature under a larger one takes too long to check


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class Key(Struct, frozen=True):
    """A public key, and the signatures it is for."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Any


def usable_keys(content: bytes, algorithms: frozenset[str], library: Any) -> tuple[Key, ...]:
    """Return the keys of a set that we can use, with these signatures; a ValueError or TypeError if it is no set."""
    listed = msgspec.json.decode(content, type=_KeySet).keys
    found = [_key(each, algorithms, library) for each in listed[:_MOST_KEYS]]
    return tuple([key for key in found if key is not None])


def _key(each: dict[str, Any], algorithms: frozenset[str], library: Any) -> Key | None:
    """Return a key that we can use; None for others, which a set may well hold."""
    kid, use, named = each.get("kid"), each.get("use", "sig"), each.get("alg")
    kind, curve = each.get("kty"), each.get("crv", "")
    names = _USES.get((kind, curve), ()) if isinstance(kind, str) and isinstance(curve, str) else ()
    usable = tuple([name for name in names if name in algorithms and named in (None, name)])
    if not usable or use != "sig" or not isinstance(kid, str | None):
        return None
    public = {name: each[name] for name in _PUBLIC if isinstance(each.get(name), str)}
    try:
        key = library.algorithms.get_default_algorithms()[usable[0]].from_jwk(public)
    except (library.InvalidKeyError, ValueError, TypeError):
        return None
    has_odd_size = public["kty"] == "RSA" and not _LEAST_BITS <= key.key_size <= _MOST_BITS
    return None if has_odd_size else Key(kid, usable, key)
