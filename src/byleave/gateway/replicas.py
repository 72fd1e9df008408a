"""Pass a request on to the replica of the gateway that holds its session, and its response back to the client.

The id of a session, and of a call that waits for its client, begins with the name of the replica that holds it; the
rest cannot be guessed. A request that names another replica goes there over one connection, and what comes back goes to
the client as it arrives, no faster than the client reads it. When the client goes away, so does that connection, and
with it the work. A request is passed on once: the owner only takes what is its own.

Where the owner is gone, so is the session, and the client begins a new one (404). What the owner did not finish is an
error of that request alone.

The other end of the connection: `replica_server`. What is sent on it: `replica_envelope`. Where replicas are:
`replica_directory`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from byleave.errors import StateError
from byleave.gateway.http_request import AGENT
from byleave.gateway.http_response import EVENTS, LARGEST, media_type
from byleave.gateway.message import NO_ID, error_parts, error_tree
from byleave.gateway.replica_envelope import (
    ENVELOPE,
    MAC,
    NONCE,
    HelloReply,
    PassedRequest,
    ReplicaChannel,
    digest,
    new_nonce,
    pack,
)
from byleave.net.endpoints import Endpoint
from byleave.net.http_async_client import AsyncHttpClient
from byleave.net.http_server_exchange import LINES
from byleave.protocol.http_exchange import field_lines
from byleave.protocol.jsonrpc import INTERNAL_ERROR
from byleave.protocol.sse import message_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.gateway.http_request import HttpExchange, RequestHead
    from byleave.gateway.interfaces import Caller
    from byleave.gateway.replica_directory import ReplicaDirectory
    from byleave.net.http_async_client import ClientConnection
    from byleave.net.peers import PeerAddress
    from byleave.protocol.http_head import HttpResponseHead
    from byleave.store.store_key import StoreKey


HELLO, PASS = "/replica", "/pass"
_NAME = re.compile(r"[0-9a-f]{12}")
_REACHED = 3.0  # seconds until the owner must have shown that it is the owner
_MOST_LATE = 3  # times in a row
_TRIES = 4  # connections that others may take from us before we give up
_KEPT_FIELDS = ("accept", "content-type", "last-event-id", "mcp-session-id")
_REPLY_FIELDS = (
    *("content-type", "cache-control", "x-content-type-options", "mcp-session-id", "www-authenticate"),
    *("allow", "retry-after"),
)
_BROKE_OFF = "the replica that holds this session broke off; the call may have been made"
_LATE = "the replica that holds this session does not answer; try again"
_OK = 200
_LONGEST_SHORT = 4 << 20  # bytes of a greeting, or of figures


class _State(msgspec.Struct):
    request_state: str = msgspec.field(default="", name="requestState")


class _Resumed(msgspec.Struct):
    params: _State = msgspec.field(default_factory=_State)


_RESUMED = msgspec.json.Decoder(_Resumed)


class Replicas:
    """The other replicas, as this one sees them."""

    def __init__(
        self,
        own: str,
        key: StoreKey,
        directory: ReplicaDirectory,
        at: PeerAddress,
        note: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        """`own` is the name of this one, `at` is where it listens for the others. `note` is for the operator."""
        self.own = own
        self.at = at
        self.patience = _REACHED
        self.siblings: tuple[str, ...] = ()  # the other processes behind the same port
        self.key = key
        self._directory = directory
        self._note = note
        self._late_times: Counter[str] = Counter()  # how often in a row each replica was not reached in time
        self._client = AsyncHttpClient()
        self._channels: WeakKeyDictionary[ClientConnection, ReplicaChannel] = WeakKeyDictionary()

    def owner_of(self, id_: str) -> str:
        """Return the name of the other replica that an id belongs to; empty if it is ours, or of no replica."""
        owner, dot, _secret = id_.partition(".")
        return owner if dot and owner != self.own and _NAME.fullmatch(owner) else ""

    def owner_of_call(self, body: bytes) -> str:
        """Return the name of the other replica that holds the call with which a message goes on; empty if none does."""
        if b'"requestState"' not in body:
            return ""
        try:
            return self.owner_of(_RESUMED.decode(body).params.request_state)
        except (ValueError, RecursionError):
            return ""

    async def pass_on(self, exchange: HttpExchange, caller: Caller, owner: str, id_: bytes = NO_ID) -> bool:
        """Have the owner answer a request; return False if it is gone. `id_` is that of the message."""
        head, body = exchange.head, exchange.body
        passed = PassedRequest(head.method, head.path, head.query, _fields_of(head, caller), caller, digest(body))
        envelope = pack(passed)
        relay = Relay(exchange)
        for is_fresh in (False, True):
            try:
                async with asyncio.timeout(self.patience):
                    connection, channel = await self._reach(owner, fresh=is_fresh)
            except ConnectionError:
                return False
            except (TimeoutError, StateError) as problem:
                return await self._late(exchange, owner, id_, problem)
            self._late_times.pop(owner, None)
            relay = Relay(exchange)
            await relay.run(connection, _written(envelope, channel.seal(envelope), body))
            if not relay.is_unheard:  # else the connection was closed before the owner saw the request
                break
        return not relay.why or await self._broken(exchange, owner, id_)

    async def ask_siblings(self, path: str, caller: Caller) -> list[bytes]:
        """Return what the other processes behind the same port answer to a GET; one that does not is left out."""
        found = await asyncio.gather(*[self._ask(each, path, caller) for each in self.siblings])
        return [each for each in found if each is not None]

    async def _ask(self, owner: str, path: str, caller: Caller) -> bytes | None:
        envelope = pack(PassedRequest("GET", path, "", {}, caller, digest(b"")))
        try:
            async with asyncio.timeout(self.patience):
                connection, channel = await self._reach(owner, fresh=False)
                whole = WholeResponse()
                try:
                    connection.send(_written(envelope, channel.seal(envelope), b""), "POST", whole)
                    return await whole.done
                except BaseException:
                    connection.close()
                    raise
        except (ConnectionError, TimeoutError, StateError):
            return None

    async def announce(self, at: PeerAddress) -> None:
        """Have the others know where this one listens for them."""
        await self._directory.announce(self.own, at)

    async def close(self) -> None:
        """Have the others know that this one ends, and close every connection to them."""
        await self._directory.leave()
        await self._client.close()

    async def _reach(self, owner: str, *, fresh: bool) -> tuple[ClientConnection, ReplicaChannel]:
        """Return a connection to the owner, which has shown that it is; a ConnectionError if there is no owner."""
        place = await self._directory.find(owner)
        if place is None:
            raise ConnectionError(owner)
        endpoint = Endpoint("http", place.host, place.port, tool=owner)
        for _ in range(_TRIES):
            connection = await self._client.connection(endpoint, fresh=fresh)
            channel = self._channels.get(connection)
            if channel is not None:
                return connection, channel
            fresh = False  # by then it waits among those that may be used
            hello = _Hello(self.key, owner, partial(self._channels.__setitem__, connection))
            connection.send(hello.request, "GET", hello)
            try:
                await hello.done
            except BaseException:
                connection.close()
                raise
        raise TimeoutError

    async def _late(self, exchange: HttpExchange, owner: str, id_: bytes, problem: Exception) -> bool:
        """Answer a request whose owner cannot be reached now, by an error; return False if it is gone.

        One that lives, and cannot be reached again and again, is as good as gone for clients that come here.
        """
        if isinstance(problem, TimeoutError):
            self._late_times[owner] += 1
            with suppress(StateError):
                if not await self._directory.is_alive(owner):
                    return False
            if self._late_times[owner] >= _MOST_LATE:
                self._note(f"the replica {owner} cannot be reached from here, though it is alive: see --peers")
                return False
        exchange.refuse(503, INTERNAL_ERROR, _LATE, id_=id_)
        return True

    async def _broken(self, exchange: HttpExchange, owner: str, id_: bytes) -> bool:
        """Answer a request that the owner did not finish, by an error; return False if it is gone."""
        if exchange.is_streaming:
            if id_ != NO_ID:
                exchange.write_event(message_event(error_parts(id_, error_tree(INTERNAL_ERROR, _BROKE_OFF))))
            exchange.end_events()
            return True
        try:
            async with asyncio.timeout(self.patience):
                await self._reach(owner, fresh=True)
        except (ConnectionError, TimeoutError):
            return False
        except StateError:
            pass
        exchange.refuse(503, INTERNAL_ERROR, _BROKE_OFF, id_=id_)
        return True


def _fields_of(head: RequestHead, caller: Caller) -> dict[str, str]:
    kept = {name: head.fields[name] for name in _KEPT_FIELDS if name in head.fields} | dict(head.context.headers)
    if caller.identity == "verified":
        kept.pop(AGENT, None)
    return kept


def _written(envelope: str, mac: str, body: bytes) -> bytes:
    start = f"POST {PASS} HTTP/1.1\r\nHost: replica\r\n{ENVELOPE}: {envelope}\r\n{MAC}: {mac}\r\n"
    return f"{start}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body


class WholeResponse:
    """Collects a short response. `done` is its body; a ConnectionError if there is none."""

    def __init__(self) -> None:
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pieces: list[bytes] = []
        self._size = 0

    def head(self, response: HttpResponseHead) -> None:
        if response.status != _OK:
            self.broke("refused", unheard=False)

    def piece(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _LONGEST_SHORT:
            self.broke("says too much", unheard=False)

    def end(self) -> None:
        if not self.done.done():
            self.take(b"".join(self._pieces))

    def take(self, body: bytes) -> None:
        """Be done with a body."""
        self.done.set_result(body)

    def broke(self, why: str, *, unheard: bool) -> None:  # noqa: ARG002 -- nothing was sent that matters
        if not self.done.done():
            self.done.set_exception(ConnectionError(why))


class _Hello(WholeResponse):
    """The first request on a connection: has the owner show that it has the key.

    `on_proof` gets the channel before any other request can have the connection.
    """

    def __init__(self, key: StoreKey, owner: str, on_proof: Callable[[ReplicaChannel], None]) -> None:
        super().__init__()
        self._on_proof = on_proof
        self._nonce = new_nonce()
        self._key = key
        self._owner = owner
        self.request = f"GET {HELLO} HTTP/1.1\r\nHost: replica\r\n{NONCE}: {self._nonce}\r\n\r\n".encode()

    def take(self, body: bytes) -> None:
        try:
            said = msgspec.json.decode(body, type=HelloReply)
        except (ValueError, RecursionError):
            said = HelloReply("", "")
        channel = ReplicaChannel(self._key, self._owner, self._nonce, said.nonce)
        if channel.is_proof(said.mac):
            self._on_proof(channel)
            super().take(body)
        else:
            self.broke("is another", unheard=False)


class Relay:
    """Takes the owner's response, and writes it to the client. `why` says what became of it, if it is not whole."""

    def __init__(self, exchange: HttpExchange) -> None:
        self.why = ""
        self.is_unheard = False
        self._exchange = exchange
        self._connection: ClientConnection | None = None
        self._woken = asyncio.Event()
        self._is_over = self._is_events = self._is_paused = False
        self._status = 0
        self._fields = b""
        self._pieces: list[bytes] = []
        self._size = 0

    async def run(self, connection: ClientConnection, request: bytes) -> None:
        """Send the request, and return when its response is whole, or broken. Cancelled when the client goes away."""
        self._connection, exchange = connection, self._exchange
        try:
            connection.send(request, "POST", self)
            while not self._is_over:
                await self._woken.wait()
                self._woken.clear()
                if self._is_paused:
                    await exchange.connection.drained()
                    self._is_paused = False
                    connection.resume()
            if self.why:
                return
            if self._is_events:
                exchange.end_events()
            else:
                await exchange.answer(self._status, *self._pieces, fields=self._fields)
        finally:
            if not self._is_over or self.why:
                connection.close()

    def head(self, response: HttpResponseHead) -> None:
        if response.status not in LINES:
            self._stop("answered with a status that no replica has")
            return
        self._status = response.status
        self._is_events = media_type(response) == EVENTS
        names = ("mcp-session-id",) if self._is_events else _REPLY_FIELDS
        kept = [(name.title(), value) for name, value in response.fields if name.lower() in names]
        self._fields = field_lines(kept)

    def piece(self, data: bytes) -> None:
        if self._is_over or not data:
            return
        if not self._is_events:
            self._size += len(data)
            self._pieces.append(data)
            if self._size > LARGEST:
                self._stop("sent too much")
            return
        exchange = self._exchange
        if exchange.is_streaming:
            exchange.write_event((data,))
        else:
            exchange.begin_events((data,), fields=self._fields)
        if exchange.connection.is_stalled and not self._is_paused and self._connection is not None:
            self._is_paused = True
            self._connection.pause()
            self._woken.set()

    def end(self) -> None:
        self._is_over = True
        self._woken.set()

    def broke(self, why: str, *, unheard: bool) -> None:
        self.is_unheard = unheard
        self._stop(why)

    def _stop(self, why: str) -> None:
        self.why = self.why or why
        self.end()
