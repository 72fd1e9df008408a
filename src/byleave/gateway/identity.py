"""Who is calling over HTTP, and may they?

A bearer token proves it: one of ours, known by its hash, or a JWT. A caller without one is the user of this machine,
and must come from here: through a connection of the user's own, to a name of this machine, from no foreign page, and
through no proxy. Such a caller may claim to be an agent, unless that agent has a way to prove it.

Start at `Identity.who`. Where the keys for JWTs come from: `jwt`.
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
from byleave.gateway.jwt import JwtReader, Rejected, is_name
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
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
_ASK = b'WWW-Authenticate: Bearer realm="byleave"\r\n'


# Kinds of refusals, as records and figures name them.
WRONG_TOKEN, NO_TOKEN, ORIGIN, HOST, PROXY, OTHER_USER, AGENT_NAME = (
    *("wrong_token", "no_token", "origin", "host", "proxy", "user", "agent"),
)
_USE_A_TOKEN = "give the agent a token (byleave agents token NAME) and have it sent"  # noqa: S105 -- advice


class RefusedCaller(Struct, frozen=True):
    """Why a request is not taken, with the status and, for 401, the header that says what would help."""

    status: int
    why: str
    kind: str
    fields: bytes = b""


class Identity:
    """Everything by which callers are known. `bound`: agents (or globs) that no caller may merely claim to be."""

    def __init__(
        self,
        *,
        tokens: Mapping[str, tuple[str, ...]],
        bound: Collection[str] = (),
        require: bool = False,
        jwt: JwtReader | None = None,
        proxies: Proxies | None = None,
    ) -> None:
        self.jwt = jwt
        self._proxies = Proxies() if proxies is None else proxies
        self._require = require
        self._tokens = _by_digest(tokens)
        self._bound = frozenset([*bound, *[agent for agent, digests in tokens.items() if digests]])
        self._globs = tuple([name for name in self._bound if not _GLOB.isdisjoint(name)])

    @property
    def is_configured(self) -> bool:
        """Whether there is any way to prove who one is."""
        return bool(self._tokens) or self.jwt is not None

    def who(self, head: RequestHead, connection: Connection) -> Caller | RefusedCaller | None:
        """Return who sent a request; None if the keys of a JWT's issuer have to be looked at first."""
        fields = head.fields
        if is_foreign(fields):
            return FOREIGN_PAGE
        authorization = fields.get("authorization")
        if authorization is not None:
            return self._proven(authorization)
        if self._require:
            return _unproven("a token is required", NO_TOKEN)
        stranger = self._stranger(head, connection)
        if stranger is not None:
            kind, why = stranger
            return _unproven(f"without a token, {why}", kind) if self.is_configured else RefusedCaller(403, why, kind)
        return self._claimed(fields.get(AGENT))

    def may_claim(self, agent: str) -> bool:
        """Whether a caller without a token may say that it is this agent."""
        return not self._require and not self.is_bound(agent)

    def is_bound(self, agent: str) -> bool:
        """Whether this agent has a way to prove who it is."""
        return agent in self._bound or any(fnmatchcase(agent, name) for name in self._globs)

    def _proven(self, authorization: str) -> Caller | RefusedCaller | None:
        scheme, _blank, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return _unproven("the Authorization header holds no bearer token", WRONG_TOKEN)
        # What is compared is a hash: how long that takes betrays nothing of any token.
        known = self._tokens.get(sha256(token.encode()).digest())
        if known is not None:
            return known
        if self.jwt is None or token.count(".") != 2:
            return _wrong("the token is unknown")
        found = self.jwt.read(token)
        if isinstance(found, Rejected):
            return _wrong(found.why)
        return None if found is None else Caller(found.agent, "verified", found.principal)

    def _claimed(self, agent: str | None) -> Caller | RefusedCaller:
        if agent is None:
            return _UNNAMED
        if not agent.isascii() or not is_name(agent):
            return RefusedCaller(400, "the X-Byleave-Agent header names no agent", AGENT_NAME)
        if self.is_bound(agent):
            return _unproven(f"the agent {quoted(agent)} has to prove itself by its token", AGENT_NAME)
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

UNKNOWN_KEY = "the token was signed with an unknown key"


def unknown_key() -> RefusedCaller:
    """Return the answer to a token whose key is not among the newest ones either."""
    return _wrong(UNKNOWN_KEY)


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


def _unproven(why: str, kind: str) -> RefusedCaller:
    return RefusedCaller(401, why, kind, _ASK)


def _wrong(why: str) -> RefusedCaller:
    said = why.replace("\\", "").replace('"', "").encode("ascii", "replace")
    return RefusedCaller(
        401, why, WRONG_TOKEN, _ASK[:-2] + b', error="invalid_token", error_description="%b"\r\n' % said
    )
