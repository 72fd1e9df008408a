"""Where other replicas of the gateway pass requests on to this one: an HTTP server of its own, not that of clients.

A connection begins with a greeting by which both ends get a number of the other; then come requests in envelopes
(`replica_envelope`). Whatever has no MAC of a replica is refused before its body is read, and ends the connection. What
is taken is handed to the front as if its client had come here, but is never passed on again.

The other end: `replicas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct, structs

from byleave.gateway.http_request import RequestHead, read_mcp_head
from byleave.gateway.message import error_parts, error_tree
from byleave.gateway.replica_envelope import (
    ENVELOPE,
    MAC,
    NONCE,
    HelloReply,
    ReplicaChannel,
    digest,
    is_nonce,
    new_nonce,
    unpack,
)
from byleave.gateway.replicas import HELLO, PASS
from byleave.net.http_admission import ServerLimits
from byleave.net.http_server import HttpServer
from byleave.net.http_server_exchange import BadRequest, ServerRequestHead
from byleave.net.peers import group_of
from byleave.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Protocol

    from byleave.gateway.http_request import HttpExchange
    from byleave.gateway.interfaces import Caller
    from byleave.net.http_server_exchange import CallerConnection, Work
    from byleave.net.peers import PeerAddress
    from byleave.store.store_key import StoreKey

    class PassedFront(Protocol):
        """What takes the requests that were passed on."""

        def serve_passed(self, exchange: HttpExchange, caller: Caller) -> Work | None:
            """Answer a request of a caller that another replica knows, or return the work that does."""


REFUSED = "replica"  # the kind of refusal, as records and figures name it
_HEAD_BYTES = 1 << 17  # an envelope holds the fields of a head, and is longer than they are
_NOT_A_REPLICA = "only replicas of this gateway are answered here"


class _Taken(Struct, frozen=True):
    """A request whose MAC is good: the head that it came with, and what was in the envelope."""

    outside: RequestHead
    head: RequestHead
    caller: Caller
    body: str


class ReplicaServer:
    """Answers the other replicas."""

    def __init__(
        self,
        own: str,
        key: StoreKey,
        front: PassedFront,
        *,
        refused: Callable[[str, str], None],
        warn: Callable[[str], None],
        limits: ServerLimits | None = None,
    ) -> None:
        """`refused` gets the kind and the peer of what is turned away."""
        self._own = own
        self._key = key
        self._front = front
        self._refused = refused
        self._server: HttpServer[RequestHead] = HttpServer(
            self, structs.replace(limits or ServerLimits(), head_bytes=_HEAD_BYTES), warn
        )
        self._channels: WeakKeyDictionary[CallerConnection, ReplicaChannel] = WeakKeyDictionary()
        self._taken: WeakKeyDictionary[CallerConnection, _Taken] = WeakKeyDictionary()

    @property
    def addresses(self) -> list[PeerAddress]:
        """Where it listens."""
        return self._server.addresses

    @property
    def working(self) -> Collection[HttpExchange]:
        """The requests that are not answered yet."""
        return self._server.working

    def limit(self, *, body_bytes: int, connections: int) -> None:
        """Take on other limits. How many connections each client may have was decided where it came in."""
        counts = {"connections": connections, "per_caller": connections, "per_peer": connections}
        self._server.limit(structs.replace(self._server.limits, body_bytes=body_bytes, **counts))

    async def listen(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Begin to serve; OSError if the address cannot be had."""
        await self._server.listen(host, port, reuse_port=reuse_port)

    async def close(self, *, grace: float = 0.0) -> None:
        """Finish the open requests within `grace` seconds, then end all connections."""
        await self._server.close(grace=grace)

    def read_head(self, head: ServerRequestHead, repeated: Sequence[str]) -> RequestHead | BadRequest:
        return read_mcp_head(head, repeated)

    def admit(self, connection: CallerConnection) -> BadRequest | None:
        connection.peer = group_of(connection.remote, connection.owner)
        return None

    def screen(self, exchange: HttpExchange, length: int | None) -> None:  # noqa: ARG002 -- the limit of all holds
        self._take(exchange)

    def handle(self, exchange: HttpExchange) -> Work | None:
        """Take a request of another replica."""
        if exchange.head.path == HELLO and exchange.head.method == "GET":
            self._greet(exchange)
            return None
        taken = self._take(exchange)
        if taken is None:
            return None
        del self._taken[exchange.connection]
        if digest(exchange.body) != taken.body:
            self._refuse(exchange)
            return None
        exchange.head = taken.head
        return self._front.serve_passed(exchange, taken.caller)

    def error_parts(self, problem: BadRequest, id_: bytes) -> Sequence[bytes]:
        """Return the body of an error: one of JSON-RPC, because a client may get it."""
        return error_parts(id_, error_tree(problem.code or INVALID_REQUEST, problem.problem))

    def failure(self) -> BadRequest:
        return BadRequest("the gateway failed to answer", status=500, code=INTERNAL_ERROR)

    def refused(self, problem: BadRequest) -> None:  # noqa: ARG002 -- what is no request of a replica is all the same
        self._refused(REFUSED, "")

    def tick(self, now: float) -> None:
        """Do nothing: connections keep time by themselves."""

    def _greet(self, exchange: HttpExchange) -> None:
        asked = exchange.head.fields.get(NONCE, "")
        if not is_nonce(asked) or exchange.connection in self._channels:
            self._refuse(exchange)
            return
        channel = ReplicaChannel(self._key, self._own, asked, new_nonce())
        self._channels[exchange.connection] = channel
        exchange.reply(200, msgspec.json.encode(HelloReply(channel.nonce, channel.proof())))

    def _take(self, exchange: HttpExchange) -> _Taken | None:
        """Return what a request holds that a replica has sent; None if it was refused."""
        connection, outside = exchange.connection, exchange.head
        taken = self._taken.get(connection)
        if taken is not None and taken.outside is outside:
            return taken
        channel = self._channels.get(connection)
        envelope = outside.fields.get(ENVELOPE, "")
        is_ours = outside.method == "POST" and outside.path == PASS and not outside.query
        if channel is None or not is_ours or not channel.opens(envelope, outside.fields.get(MAC, "")):
            self._refuse(exchange)
            return None
        passed = unpack(envelope)
        if passed is None:
            self._refuse(exchange)
            return None
        fields = {name.lower(): value for name, value in passed.fields.items()}
        plain = ServerRequestHead(
            passed.method, passed.path, passed.query, fields, keeps_alive=True, expects=False, is_old=False
        )
        head = read_mcp_head(plain, ())
        if isinstance(head, BadRequest):
            self._refuse(exchange)
            return None
        taken = self._taken[connection] = _Taken(outside, head, passed.caller, passed.body)
        return taken

    def _refuse(self, exchange: HttpExchange) -> None:
        """Refuse what comes from no replica, and end its connection."""
        self._refused(REFUSED, exchange.connection.peer or "")
        self._channels.pop(exchange.connection, None)
        exchange.head = structs.replace(exchange.head, keeps_alive=False)
        exchange.refuse(403, INVALID_REQUEST, _NOT_A_REPLICA)
