"""Who is calling over HTTP, and may they?

A bearer token proves it: one of ours, known by its hash, or a JWT. A caller without one is the user of this machine,
and must come from here: through a connection of the user's own, to a name of this machine, from no foreign page, and
through no proxy. Such a caller may claim to be an agent, unless that agent has a way to prove it.

Start at `Identity.who`. JWTs: `issuers`. What a refused caller needs: `protected_resource`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import ConfigError
from byleave.gateway.http_request import AGENT
from byleave.gateway.http_trust import Proxies, is_foreign, names_us
from byleave.gateway.interfaces import Caller
from byleave.gateway.issuers import Issuers
from byleave.gateway.protected_resource import Challenge
from byleave.gateway.token_claims import Rejected, is_name
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Protocol

    from byleave.gateway.http_request import RequestHead
    from byleave.net.peers import PeerAddress

    class Connection(Protocol):
        """What is known of the way by which a request came."""

        @property
        def local(self) -> PeerAddress: ...
        @property
        def remote(self) -> PeerAddress: ...
        @property
        def is_ours(self) -> bool: ...


USER = "user"
_UNNAMED = Caller(None, "default", USER)
_GLOB = frozenset("*?[")


# Kinds of refusals, as records and figures name them.
WRONG_TOKEN, NO_TOKEN, FEW_SCOPES, ORIGIN, HOST, PROXY, OTHER_USER, AGENT_NAME = (
    *("wrong_token", "no_token", "scope", "origin", "host", "proxy", "user", "agent"),
)
_USE_A_TOKEN = "give the agent a token (byleave agents token NAME) and have it sent"  # noqa: S105 -- advice


class RefusedCaller(Struct, frozen=True):
    """Why a request is not taken, with the status and, where a token would help, the header that says which."""

    status: int
    why: str
    kind: str
    fields: bytes = b""


class Identity:
    """Everything by which callers are known. `bound`: agents (or globs) that no caller may merely claim to be.

    `challenge` writes the header of a refusal; the scopes in it every request needs, unless its token is ours.
    `on_token` is called with the hash of each token of ours that is used.
    """

    def __init__(
        self,
        *,
        tokens: Mapping[str, tuple[str, ...]],
        bound: Collection[str] = (),
        require: bool = False,
        issuers: Issuers | None = None,
        proxies: Proxies | None = None,
        challenge: Challenge | None = None,
        on_token: Callable[[bytes], None] = lambda _digest: None,
    ) -> None:
        self.issuers = Issuers() if issuers is None else issuers
        self.challenge = Challenge() if challenge is None else challenge
        self._proxies = Proxies() if proxies is None else proxies
        self._require = require
        self._on_token = on_token
        self._tokens = _by_digest(tokens)
        self._bound = frozenset([*bound, *[agent for agent, digests in tokens.items() if digests]])
        self._globs = tuple([name for name in self._bound if not _GLOB.isdisjoint(name)])

    @property
    def is_configured(self) -> bool:
        """Whether there is any way to prove who one is."""
        return bool(self._tokens) or bool(self.issuers)

    def who(self, head: RequestHead, connection: Connection) -> Caller | RefusedCaller | None:
        """Return who sent a request; None if the keys of a JWT's issuer have to be looked at first."""
        fields = head.fields
        if is_foreign(fields):
            return FOREIGN_PAGE
        authorization = fields.get("authorization")
        if authorization is not None:
            return self._proven(authorization)
        if self._require or self.challenge.scopes:
            return self._unproven("a token is required", NO_TOKEN)
        stranger = self._stranger(head, connection)
        if stranger is not None:
            kind, why = stranger
            if self.is_configured:
                return self._unproven(f"without a token, {why}", kind)
            return RefusedCaller(403, why, kind)
        return self._claimed(fields.get(AGENT))

    def may_claim(self, agent: str) -> bool:
        """Whether a caller without a token may say that it is this agent."""
        return not self._require and not self.is_bound(agent)

    def is_bound(self, agent: str) -> bool:
        """Whether this agent has a way to prove who it is."""
        return agent in self._bound or any(fnmatchcase(agent, name) for name in self._globs)

    async def refresh(self, head: RequestHead) -> None:
        """Look for the key of a request's token, where `who` said that it is unknown."""
        await self.issuers.refresh(_token_in(head.fields.get("authorization", "")))

    def unknown_key(self) -> RefusedCaller:
        """Return the answer to a token whose key is not among the newest ones either."""
        return self._wrong("the token was signed with an unknown key")

    def _proven(self, authorization: str) -> Caller | RefusedCaller | None:
        token = _token_in(authorization)
        if not token:
            return self._unproven("the Authorization header holds no bearer token", WRONG_TOKEN)
        # What is compared is a hash: how long that takes betrays nothing of any token.
        digest = sha256(token.encode()).digest()
        known = self._tokens.get(digest)
        if known is not None:
            self._on_token(digest)
            return known
        if not self.issuers or token.count(".") != 2:
            return self._wrong("the token is unknown")
        found = self.issuers.read(token)
        if found is None:
            return None
        if isinstance(found, Rejected):
            return self._wrong(found.why)
        if not found.scopes.issuperset(self.challenge.scopes):
            why = "the token lacks a scope that every request needs"
            return RefusedCaller(403, why, FEW_SCOPES, self.challenge.few_scopes(()))
        return Caller(found.agent, "verified", found.principal, found.scopes, found.expires)

    def _unproven(self, why: str, kind: str) -> RefusedCaller:
        return RefusedCaller(401, why, kind, self.challenge.no_token())

    def _wrong(self, why: str) -> RefusedCaller:
        return RefusedCaller(401, why, WRONG_TOKEN, self.challenge.wrong_token(why))

    def _claimed(self, agent: str | None) -> Caller | RefusedCaller:
        if agent is None:
            return _UNNAMED
        if not agent.isascii() or not is_name(agent):
            return RefusedCaller(400, "the X-Byleave-Agent header names no agent", AGENT_NAME)
        if self.is_bound(agent):
            return self._unproven(f"the agent {quoted(agent)} has to prove itself by its token", AGENT_NAME)
        return Caller(agent, "claimed", USER)

    def _stranger(self, head: RequestHead, connection: Connection) -> tuple[str, str] | None:
        """Return why a caller without a token is not the user of this machine: the kind of it, and a sentence."""
        if head.passed_on:
            field = shown(head.passed_on)
            said = f"a request must not come through a proxy, and this one has {field} in its head: {_USE_A_TOKEN}"
            return PROXY, said
        local, remote = connection.local, connection.remote
        if self._proxies.has(remote.host):
            return PROXY, f"{remote.host} is only believed as a proxy (trusted_proxies): {_USE_A_TOKEN}"
        if not names_us(head.fields.get("host", ""), local.host, local.port):
            said = f"the Host header must name this machine, and the port of the gateway; else {_USE_A_TOKEN}"
            return HOST, said
        if not connection.is_ours:
            return OTHER_USER, ANOTHER_USER
        return None


FOREIGN_PAGE = RefusedCaller(403, "the request comes from a page of another origin", ORIGIN)
ANOTHER_USER = f"the connection must be one of the user who runs the gateway; else {_USE_A_TOKEN}"


def _token_in(authorization: str) -> str:
    """Return the bearer token of an Authorization header; empty if it holds none."""
    scheme, _blank, token = authorization.partition(" ")
    return token if scheme.lower() == "bearer" and token.isascii() else ""


def _by_digest(tokens: Mapping[str, tuple[str, ...]]) -> dict[bytes, Caller]:
    found: dict[bytes, Caller] = {}
    for agent, digests in tokens.items():
        for digest in digests:
            key = bytes.fromhex(digest.removeprefix("sha256:"))
            if found.setdefault(key, Caller(agent, "verified", f"token:{agent}")).agent != agent:
                raise ConfigError(
                    f"the agents {quoted(found[key].agent or '')} and {quoted(agent)} have the same token",
                    hint="give each its own: byleave agents token NAME",
                )
    return found
