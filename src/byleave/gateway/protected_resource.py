"""What the gateway says of itself to clients that need a token: its metadata (RFC 9728), and its challenges. Pure.

A client without a token, or with one that does not do, gets a `WWW-Authenticate` header (RFC 6750): where the metadata
is, which scopes are needed, and what was wrong. The metadata names the resource that tokens must be for, and the
issuers that give them. All of it comes from the configuration, nothing from a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from byleave.net.peers import PeerAddress

WELL_KNOWN = "/.well-known/oauth-protected-resource"
ENDPOINT = "/mcp"
_NAME = "byleave MCP gateway"
CACHED = b"Content-Type: application/json\r\nCache-Control: public, max-age=300\r\nX-Content-Type-Options: nosniff\r\n"


class ProtectedResource(Struct, frozen=True):
    """The gateway as a resource: the URL that it is known by, who gives tokens for it, and all scopes there are."""

    url: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()

    @property
    def metadata(self) -> str:
        """Where clients find the document: RFC 9728, section 3.1."""
        start, path = _split(self.url)
        return f"{start}{WELL_KNOWN}{path}"

    @property
    def paths(self) -> frozenset[str]:
        """Where the gateway itself serves the document: a proxy may pass the path on as it is, or as it maps `/mcp`."""
        return frozenset({WELL_KNOWN, f"{WELL_KNOWN}{ENDPOINT}", f"{WELL_KNOWN}{_split(self.url)[1]}"})

    @property
    def document(self) -> bytes:
        """The document."""
        tree = {
            "resource": self.url,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": _NAME,
        }
        return msgspec.json.encode({**tree, "scopes_supported": self.scopes} if self.scopes else tree)


def _split(url: str) -> tuple[str, str]:
    """Return scheme and host of a URL, and its path without a slash at its end."""
    scheme, _mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", (slash + path).rstrip("/")


def resource_at(
    public_url: str | None, addresses: Sequence[PeerAddress], issuers: Iterable[str], scopes: Iterable[str]
) -> ProtectedResource | None:
    """Return what the gateway is as a resource; None where no client could get a token for it.

    Without a public URL it is the address that it listens at, if that is one of this machine only.
    """
    named = tuple([issuer for issuer in issuers if issuer.startswith(("https://", "http://"))])
    url = public_url
    if url is None and addresses and all(address.is_loopback for address in addresses):
        host = addresses[0].host
        url = f"http://{f'[{host}]' if ':' in host else host}:{addresses[0].port}{ENDPOINT}"
    return None if url is None or not named else ProtectedResource(url, named, tuple(scopes))


class Challenge(Struct, frozen=True):
    """Writes the header of a refusal. `metadata` is a URL, empty if there is none; `scopes` every request needs."""

    metadata: str = ""
    scopes: tuple[str, ...] = ()

    def no_token(self, scopes: Sequence[str] = ()) -> bytes:
        """Return the header for a request without a token."""
        return self._line(scopes)

    def wrong_token(self, why: str) -> bytes:
        """Return the header for a request with a token that is not good."""
        return self._line((), error="invalid_token", error_description=why)

    def few_scopes(self, scopes: Sequence[str]) -> bytes:
        """Return the header for a request whose token lacks scopes; `scopes` are all that the request needs."""
        why = "the token lacks a scope that this needs"
        return self._line(scopes, error="insufficient_scope", error_description=why)

    def _line(self, scopes: Sequence[str], **error: str) -> bytes:
        needed = " ".join(dict.fromkeys((*self.scopes, *scopes)))
        said = {"realm": "byleave", **error, "scope": needed, "resource_metadata": self.metadata}
        written = ", ".join([f'{name}="{_quotable(value)}"' for name, value in said.items() if value])
        return f"WWW-Authenticate: Bearer {written}\r\n".encode()


def _quotable(text: str) -> str:
    """Return a text as it may stand between quotes in a header: visible ASCII that ends neither."""
    return "".join([each for each in text if " " <= each <= "~" and each not in '"\\'])
