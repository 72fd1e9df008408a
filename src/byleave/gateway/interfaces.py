"""What the two ends of the gateway promise: fronts that clients reach us by, links by which we reach servers.

And what the front for HTTP needs of the gateway and of its settings.

Everything that passes is one JSON-RPC message as bytes, without a line end. Fronts and links move messages; what they
mean is the conversation's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import ByleaveError
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from byleave.gateway.http_trust import Network
    from byleave.gateway.jwt_reader import Settings as JwtSettings
    from byleave.gateway.metrics import Metrics
    from byleave.gateway.token_claims import AgentRule

    Headers = tuple[tuple[str, str], ...]

    class Receiver(Protocol):
        """What a link hands the server's messages to. Neither method raises or waits."""

        def received(self, message: bytes, about: str | None) -> bool | None:
            """Take one message of the server. `about`: the request of ours on whose own stream it came, if known.

            Return False if it was no answer to anything.
            """

        def lost(self, id_: str | None, why: str, public: str = "") -> None:
            """Learn that a request gets no answer any more, or (None) that the whole connection is gone.

            `why` is for the operator; `public` is what of it agents may read, empty if that is nothing.
            """

    class Link(Protocol):
        """A connection to one downstream server, on behalf of one caller."""

        revision: str

        async def open(self) -> None:
            """Connect, or start the server; a DownError if that cannot be done."""

        async def send(self, outgoing: Outgoing) -> None:
            """Send one message; a DownError if it cannot be sent."""

        def listen(self) -> None:
            """Begin to receive what the server sends unasked, where that takes a stream of its own."""

        async def abandon(self, id_: str) -> None:
            """Let go of a request that was cancelled."""

        async def close(self) -> None:
            """End it, in bounded time. May be called twice."""

    class Sink(Protocol):
        """Where messages for the client go: the answer to one of its requests, or its standing stream."""

        async def send(self, *parts: bytes) -> bool:
            """Send one message that is not the answer, the parts joined; return whether it could go out at all."""

        async def answer(self, *parts: bytes, status: int = 200, scopes: tuple[str, ...] = ()) -> None:
            """Send the answer to the request, the parts joined. Nothing follows it.

            `status`, and the `scopes` that a token would need for another answer, are for HTTP alone.
            """

        def is_open(self) -> bool:
            """Return whether the client still reads it."""

    class Conversation(Protocol):
        """The gateway's side of one client's session."""

        async def handle(self, message: bytes, sink: Sink, context: MessageContext) -> None:
            """Take one message of the client; return when it is answered. Cancelled when the client goes away."""

        def attach(self, sink: Sink) -> None:
            """Send what belongs to no request there from now on."""

        async def close(self) -> None:
            """End the session, and what was opened for it."""

    class ServedGateway(Protocol):
        """What the front for HTTP needs of the gateway."""

        def converse(self, caller: Caller) -> Conversation:
            """Begin a session of a revision with a handshake."""

        def stateless(self, caller: Caller) -> Conversation:
            """Return the lasting conversation of this principal, for revisions without sessions."""

        @property
        def metrics(self) -> Metrics: ...

        @property
        def problem(self) -> str:
            """Why calls cannot be served now; empty while they can."""

        def token_used(self, digest: bytes, /) -> None:
            """Note that a token of ours was used, by its hash."""

        @property
        def is_spooling(self) -> bool:
            """Whether records wait on this machine for the store."""

        def metrics_text(self) -> str:
            """Return the counts in the format of Prometheus."""

        def metrics_text_for(self, agent: str | None) -> str:
            """Return those that concern one agent alone."""

        def refused(self, why: str, peer: str = "", *, status: int) -> str:
            """Count, record and trace a request that was refused before the policy was asked; return its trace."""

    class FrontSettings(Protocol):
        """`[gateway]`, compiled, as far as it concerns the front for HTTP."""

        @property
        def require_identity(self) -> bool: ...
        @property
        def max_body(self) -> int: ...
        @property
        def max_sessions(self) -> int: ...
        @property
        def max_sessions_per_caller(self) -> int: ...
        @property
        def max_connections(self) -> int: ...
        @property
        def max_connections_per_caller(self) -> int: ...
        @property
        def max_connections_per_peer(self) -> int: ...
        @property
        def trusted_proxies(self) -> tuple[Network, ...]: ...
        @property
        def proxy_header(self) -> str: ...
        @property
        def metrics_agents(self) -> tuple[str, ...]: ...
        @property
        def public_url(self) -> str | None: ...
        @property
        def jwt(self) -> JwtSettings | None: ...
        @property
        def issuers(self) -> Sequence[JwtSettings]: ...
        @property
        def identities(self) -> Sequence[AgentRule]: ...
        @property
        def scopes(self) -> Sequence[NeededScope]: ...

    class NeededScope(Protocol):
        """One of `[gateway.scopes]`, compiled."""

        @property
        def scope(self) -> str: ...
        @property
        def all(self) -> bool: ...


_NOTHING: Mapping[str, str] = {}
HINT = {"hint": "try again later; `byleave mcp --check` shows the operator of this gateway more"}  # to agents


class DownError(ByleaveError):
    """A downstream server that cannot be reached now: an error for the client, never a verdict.

    `problem` and `hint` are for the operator: they may hold paths of this machine, and what a server wrote to its
    standard error. `public` is the sentence that agents may read. Without one they get a sentence that names the
    server and nothing else, so that an error whose author did not think of agents betrays nothing.
    """

    def __init__(self, problem: str, *, hint: str, public: str = "") -> None:
        super().__init__(problem, hint=hint)
        self.public = public

    def for_agents(self, server: str = "") -> str:
        """Return the sentence that agents get."""
        name = f"the server {quoted(server)}" if server else "a server"
        return self.public or f"{name} cannot be used; the operator of byleave is shown why"

    @property
    def is_private(self) -> bool:
        """Whether it says more to the operator than to agents."""
        return self.problem != self.public


class LateError(DownError):
    """A server that took longer than it may."""


class NoMethodError(DownError):
    """A server that does not have what it was asked for, and says so."""


class Outgoing(Struct, frozen=True):
    """One message to a server. `id` is ours, for a request; `headers` are for HTTP alone."""

    message: bytes
    method: str
    id: str | None = None
    headers: Headers = ()


class MessageContext(Struct, frozen=True):
    """What the transport says about one message: its headers that speak of MCP, by lower-case names.

    `scopes`: what the caller's token lets it do; None where no scopes are needed, because the token is one of ours, or
    the program that started the gateway is the caller.
    """

    headers: Mapping[str, str] = _NOTHING
    scopes: frozenset[str] | None = None


class Caller(Struct, frozen=True):
    """Who is calling, how we know, and whom its sessions belong to. No agent: the caller has named none.

    `scopes` and `expires` (in seconds since 1970) are those of the token of an issuer; None with a token of ours.
    """

    agent: str | None
    identity: str
    principal: str
    scopes: frozenset[str] | None = None
    expires: float | None = None


def held_by(replica: str, secret: str) -> str:
    """Return the id of something that one replica holds; without other replicas it is the secret alone."""
    return f"{replica}.{secret}" if replica else secret
