"""The connection to one server: opened by the first request, opened again after a loss, with back-off.

Opening starts the server, or connects to it, and finds out which revision it speaks (`negotiate`): `server/discover`
for the stateless one, or the handshake. What the server sends then goes to a receiver (`upstream`).

Nothing in a server's configuration says what it speaks, so it is asked. What a server makes of a question that it does
not know is anything: an error of any number, a page of HTML, a connection that is closed, silence, its end. So only a
result that names a revision of ours is a yes; everything else leads to the other way. One that is silent is asked both
ways at once, and the way that works is taken. What worked is remembered (`NegotiationMemory`).

The stateless revision comes first, but for a client that shakes hands itself and can be asked something: a server that
speaks both asks such a client in the way of the handshake, as it would if the gateway were not there.

Start at `ServerConnection`, which has the link, the revision, and how a request is written for it.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from byleave import __version__
from byleave.gateway.interfaces import DownError, Outgoing
from byleave.gateway.log_lines import of_no_request
from byleave.gateway.message import decoded, members_of, notification, request
from byleave.gateway.requests import ServerAnswer, ServerLost
from byleave.gateway.revisions import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    HANDSHAKE,
    LATEST,
    LOG_KEY,
    MODERN,
    STATELESS,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    routing_headers,
)
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any, Protocol

    class Ask(Protocol):
        """How a server is asked before it is known which revision it speaks."""

        async def __call__(self, method: str, params: Mapping[str, Any], revision: str) -> ServerAnswer | ServerLost:
            """Return what the server says; a DownError if it cannot be asked. `revision`: empty for the handshake."""

    Way = Callable[[], Coroutine[Any, Any, "Agreed | RefusedHandshake"]]
    Task = asyncio.Task["Agreed | RefusedHandshake"]
    from byleave.gateway.background import BackgroundTasks
    from byleave.gateway.interfaces import Link, Receiver
    from byleave.gateway.limits import Backoff
    from byleave.gateway.requests import PendingRequests

    class ConnectionClient(Protocol):
        """What a connection needs to know of the client."""

        def client_capabilities(self, server: str) -> Mapping[str, Any]:
            """Return what the client can do for this server."""

        def shakes_hands(self, server: str) -> bool:
            """Return whether the client has shaken hands itself, and this server may ask it something."""


PROBE_TIME = 5.0  # seconds for an answer to `server/discover`, before the handshake is tried as well
SHAKE_TIME = 20.0  # seconds for an answer to `initialize`, the other way round: it may take long to start
BY_HANDSHAKE, WITHOUT = "handshake", "stateless"
_FOREIGN = "it speaks another revision of the protocol"
_LONGEST_WORDS = 300  # characters of a server's own words worth repeating


class GoneError(DownError):
    """A connection that ended while a server was asked."""


class EndedError(GoneError):
    """A server that ended when it was asked for the stateless revision; it may still shake hands."""


class Introduction(Struct, frozen=True):
    """What a server says of itself that concerns every client."""

    instructions: str
    extensions: Any


class NegotiationMemory:
    """What was learnt of one server, as long as the process lives: what worked, by whether the handshake came first.

    `only`: the one way that there is. `introduction`: how it introduced itself last.
    """

    __slots__ = ("introduction", "only", "worked")

    def __init__(self, only: str = "") -> None:
        self.only = only
        self.worked: dict[bool, str] = {}
        self.introduction: Introduction | None = None

    def was_late(self, *, handshake_first: bool) -> None:
        """Take note that a server did not get ready: it may be one that says nothing at all after `server/discover`.

        So the next time it is asked to shake hands, and nothing else; the time after that, in both ways again.
        """
        if self.worked.pop(handshake_first, None) is None:
            self.worked[handshake_first] = BY_HANDSHAKE


class Agreed(Struct, frozen=True):
    """The revision that is spoken from now on, and what the server said of itself."""

    revision: str
    found: Mapping[str, Any]


class RefusedHandshake(Struct, frozen=True):
    """Why one way does not work. `answered`: the server said so itself. `speaks`: the revisions that it named.

    `why` is for the operator, `public` what of it agents may read.
    """

    why: str
    answered: bool = False
    speaks: tuple[str, ...] = ()
    public: str = ""


async def negotiate(
    ask: Ask, memory: NegotiationMemory, offer: Mapping[str, Any], *, handshake_first: bool, hint: str
) -> Agreed:
    """Return what a server and we speak, in the way that worked before if one did; a DownError if there is none.

    `offer` is what `initialize` says besides the revision. An EndedError if `server/discover` ended the connection.
    """
    way = memory.only or memory.worked.get(handshake_first, "")
    found: Agreed | RefusedHandshake | None = None
    if way:
        try:
            found = await (_shake_hands(ask, offer) if way == BY_HANDSHAKE else _discover(ask))
        except GoneError as error:
            if way == BY_HANDSHAKE:
                raise
            raise EndedError(
                error.problem, hint=error.hint, public=error.public
            ) from None  # it may be an older one now
    if found is None or (isinstance(found, RefusedHandshake) and found.answered and not memory.only):
        found = await _either(ask, offer, handshake_first=handshake_first)
    if isinstance(found, RefusedHandshake):
        raise DownError(found.why, hint=hint, public=found.public)
    memory.worked[handshake_first] = WITHOUT if found.revision == MODERN else BY_HANDSHAKE
    return found


async def _either(ask: Ask, offer: Mapping[str, Any], *, handshake_first: bool) -> Agreed | RefusedHandshake:
    """Ask in both ways, the second where the first fails, or says nothing for a while."""
    ways: tuple[Way, Way] = (lambda: _discover(ask)), (lambda: _shake_hands(ask, offer))
    first, second = reversed(ways) if handshake_first else ways
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(first())]
    try:
        found = await _agreed(tasks, SHAKE_TIME if handshake_first else PROBE_TIME)
        if found is None:
            tasks.append(loop.create_task(second()))
            found = await _agreed(tasks, None)
        if found is None:  # one has said no; the other may be slow to start
            is_shaken = tasks[0 if handshake_first else -1].done()
            found = await _agreed(tasks, PROBE_TIME if is_shaken else None)
        if found is not None:
            return found
        probed, shaken = (_said(each) for each in (reversed(tasks) if handshake_first else tasks))
        if shaken.answered and not probed.answered:  # it lives: what kept it from answering may be over
            again = await _discover(ask)
            return again if isinstance(again, Agreed) else _both(again, shaken)
        return _both(probed, shaken)
    except GoneError as error:
        if handshake_first and len(tasks) == 1:
            raise
        raise EndedError(error.problem, hint=error.hint) from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _agreed(tasks: list[Task], seconds: float | None) -> Agreed | None:
    """Return the first agreement among these, once one of those that are not done yet is, or the time is up."""
    waiting = [task for task in tasks if not task.done()]
    if waiting:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    found = (task.result() for task in tasks if task.done())
    return next((each for each in found if isinstance(each, Agreed)), None)


def _said(task: Task) -> RefusedHandshake:
    found = task.result() if task.done() else None
    return found if isinstance(found, RefusedHandshake) else RefusedHandshake("it says nothing")


def _both(probed: RefusedHandshake, shaken: RefusedHandshake) -> RefusedHandshake:
    """Return why neither way works, in the words that say most."""
    known = probed.speaks or shaken.speaks
    if known and not any(each in HANDSHAKE or each == MODERN for each in known):
        return RefusedHandshake(
            f"it speaks revisions of the protocol that we do not: {shown(', '.join(known)[:_LONGEST_WORDS])}",
            public=_FOREIGN,
        )
    return shaken


async def _discover(ask: Ask) -> Agreed | RefusedHandshake:
    """Ask for the stateless revision; again, if a server refuses it and names it in the same breath."""
    for _ in (1, 2):
        try:
            said = await ask("server/discover", {}, MODERN)
        except GoneError:
            raise
        except DownError as error:
            return RefusedHandshake(error.problem, public=error.public)
        if isinstance(said, ServerLost):
            return RefusedHandshake(said.why, public=said.public)
        if said.error is None:
            found = decoded(said.result or b"{}")
            speaks = _texts(found.get("supportedVersions")) if isinstance(found, dict) else ()
            if MODERN in speaks:
                return Agreed(MODERN, found)
            return RefusedHandshake("it does not offer the stateless revision", answered=True, speaks=speaks)
        problem = _refused(said)
        if MODERN not in problem.speaks:
            return problem
    return problem


async def _shake_hands(ask: Ask, offer: Mapping[str, Any]) -> Agreed | RefusedHandshake:
    said = await ask("initialize", {"protocolVersion": LATEST, **offer}, "")
    if isinstance(said, ServerLost):
        return RefusedHandshake(said.why, public=said.public)
    if said.error is not None:
        return _refused(said)
    found = decoded(said.result or b"{}")
    revision = found.get("protocolVersion") if isinstance(found, dict) else None
    if revision not in HANDSHAKE:
        return RefusedHandshake(
            f"it speaks a revision of the protocol that we do not ({shown(str(revision)[:100])})",
            answered=True,
            public=_FOREIGN,
        )
    return Agreed(revision, found)


def _refused(said: ServerAnswer) -> RefusedHandshake:
    error = decoded(said.error or b"null")
    tree = error if isinstance(error, dict) else {}
    data = tree.get("data")
    known = data.get("supported") if tree.get("code") == UNSUPPORTED_VERSION and isinstance(data, dict) else None
    why = f"it refused the handshake: {words_of(error)}"
    return RefusedHandshake(why, answered=True, speaks=_texts(known), public="it refused the handshake")


def _texts(listed: Any) -> tuple[str, ...]:
    return tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()


def words_of(error: Any) -> str:
    """Return what an error of a server says, for people."""
    words = error.get("message") if isinstance(error, dict) else None
    return shown(words[:_LONGEST_WORDS]) if isinstance(words, str) and words else "without a word"


INFO = {"name": "byleave", "version": __version__}
HANDSHAKE_TIME = 60.0  # seconds for a server to start and shake hands: npx may have to fetch it first


class ServerConnection:
    """A link to one server, while there is one, and what was agreed on over it."""

    def __init__(
        self,
        name: str,
        make_link: Callable[[Receiver], Link],
        receiver: Receiver,
        client: ConnectionClient,
        *,
        requests: PendingRequests,
        background: BackgroundTasks,
        backoff: Backoff,
        longest_start: float,
        memory: NegotiationMemory,
        starting: asyncio.Semaphore,
        hint: str,
        on_open: Callable[[], None],
    ) -> None:
        self.link: Link | None = None
        self.revision = ""
        self.abilities: Mapping[str, Any] = {}
        self.opened = 0  # how many times; what was learnt of an earlier connection does not count for this one
        self.is_closed = False
        self._name = name
        self._make_link = make_link
        self._receiver = receiver
        self._client = client
        self._requests = requests
        self._background = background
        self._backoff = backoff
        self._longest_start = longest_start
        self._memory = memory  # of what the server speaks
        self._starting = starting  # so that many clients do not start everything at once
        self._hint = hint
        self._on_open = on_open
        self._opening: asyncio.Task[None] | None = None

    @property
    def warnings(self) -> list[str]:
        """What the operator should know about the link: that the server is confined less than configured, and such."""
        return list(getattr(self.link, "warnings", ()))

    # ---- Opening ---------------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Have a connection; a DownError if there is none to be had now."""
        if self.link is not None:
            return
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), context=of_no_request())
            self._opening.add_done_callback(self._opening_done)
        await asyncio.shield(self._opening)

    def _opening_done(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # the callers that waited have got it

    async def _open(self) -> None:
        if self.is_closed:
            raise self.down("it is being closed")
        wait = self._backoff.left(monotonic())
        if wait > 0:
            raise self.down(f"it failed a moment ago; the next try is in {wait:.1f} s")
        deadline = asyncio.get_running_loop().time() + self._longest_start
        try:
            link = await self._connect(self._memory, deadline)
        except EndedError:  # an older server may end at whatever comes before the handshake
            link = await self._connect(NegotiationMemory(BY_HANDSHAKE), deadline)
            self._memory.worked[self._client.shakes_hands(self._name)] = BY_HANDSHAKE
        self.link = link
        self._backoff.started(monotonic())
        self.opened += 1
        link.listen()
        self._on_open()

    async def _connect(self, memory: NegotiationMemory, deadline: float) -> Link:
        """Return a new link on which a revision is agreed on."""
        receiver = _LinkHearer(self._receiver)
        try:
            link = self._make_link(receiver)
        except DownError as error:
            raise self.named(error) from None
        try:
            async with asyncio.timeout_at(deadline), self._starting:
                await link.open()
                await self._agree(link, receiver, memory)
        except EndedError:
            await link.close()
            raise
        except TimeoutError:
            memory.was_late(handshake_first=self._client.shakes_hands(self._name))
            await self._failed(link)
            raise self.down(f"it did not finish the handshake within {self._longest_start:g} s") from None
        except DownError as error:
            await self._failed(link)
            raise self.named(error) from None
        except BaseException:
            await self._failed(link)
            raise
        return link

    async def _failed(self, link: Link) -> None:
        self._backoff.failed(monotonic())
        why = "the server could not be reached"
        self._requests.end_all(why, why)
        await link.close()

    async def _agree(self, link: Link, receiver: _LinkHearer, memory: NegotiationMemory) -> None:
        """Find out what the server speaks, and learn what it says of itself."""

        async def ask(method: str, params: Mapping[str, Any], revision: str) -> ServerAnswer | ServerLost:
            said = await self._question(link, method, params, revision)
            if isinstance(said, ServerLost) and receiver.is_deaf:
                raise GoneError(said.why, hint=self._hint, public=said.public)
            return said

        offer = {"capabilities": self._client.client_capabilities(self._name), "clientInfo": INFO}
        handshake_first = self._client.shakes_hands(self._name)
        agreed = await negotiate(ask, memory, offer, handshake_first=handshake_first, hint=self._hint)
        abilities, instructions = agreed.found.get("capabilities"), agreed.found.get("instructions")
        self.abilities = abilities if isinstance(abilities, dict) else {}
        words = instructions if isinstance(instructions, str) else ""
        self._memory.introduction = Introduction(words, self.abilities.get("extensions"))
        self.revision = link.revision = agreed.revision
        if agreed.revision not in STATELESS:
            await link.send(Outgoing(notification("notifications/initialized"), "notifications/initialized"))

    async def _question(
        self, link: Link, method: str, params: Mapping[str, Any], revision: str
    ) -> ServerAnswer | ServerLost:
        """Return what the server says to a question that is put before a revision is agreed on."""
        pending = self._requests.begin(None)
        headers = (("MCP-Protocol-Version", revision),) if revision else ()
        try:
            await link.send(self.outgoing(pending.id, method, params, headers, revision=revision))
            while True:
                item = await pending.get()
                if isinstance(item, ServerAnswer | ServerLost):
                    return item
        except asyncio.CancelledError:
            self._background.start(link.abandon(pending.id))
            raise
        finally:
            self._requests.pop(pending.id)

    # ---- While it is open ------------------------------------------------------------------------------------------

    def outgoing(
        self,
        id_: str,
        method: str,
        params: Mapping[str, Any],
        headers: tuple[tuple[str, str], ...] = (),
        level: Raw | str | None = None,
        *,
        revision: str | None = None,
    ) -> Outgoing:
        """Return a request as the revision has it; a stateless one says everything about the client each time."""
        spoken = self.revision if revision is None else revision
        if spoken in STATELESS:
            meta = params.get("_meta")
            envelope: dict[str, Any] = {
                **(members_of(meta) if isinstance(meta, Raw) else dict(meta or {})),
                VERSION_KEY: spoken,
                CLIENT_KEY: INFO,
                CAPABILITIES_KEY: self._client.client_capabilities(self._name),
            }
            if level is not None:
                envelope[LOG_KEY] = level
            params = {**params, "_meta": envelope}
            headers = (*routing_headers(method, params), *headers)
        return Outgoing(request(b'"%b"' % id_.encode(), method, params), method, id_, headers)

    def detach(self) -> Link | None:
        """Have no link any more; return the one that there was, which is to be closed."""
        link, self.link = self.link, None
        self.revision = ""
        return link

    def lose(self) -> Link | None:
        """Do as `detach`, and count it as a failure."""
        if self.link is None:  # it is being opened: that fails by itself
            return None
        self._backoff.failed(monotonic())
        return self.detach()

    async def close(self) -> Link | None:
        """Open no link any more; return the one that there is, which is to be closed."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        link, self.link = self.link, None
        return link

    # ---- Errors ----------------------------------------------------------------------------------------------------

    def named(self, error: DownError) -> DownError:
        """Return an error that says which server it is about, to agents as well."""
        public = error.public or error.for_agents(self._name)
        return self._error(error.problem, public, type(error), hint=error.hint)

    def down(self, why: str, detail: str = "") -> DownError:
        """Return that the server cannot be used. The detail, such as the server's own words, is for the operator."""
        return self._error(f"{why}: {detail}" if detail else why, why)

    def lost_error(self, lost: ServerLost, kind: type[DownError] = DownError) -> DownError:
        """Return that a request gets no answer, as an error."""
        public = lost.public or "the connection to it failed; the operator of byleave is shown why"
        return self._error(lost.why, public, kind)

    def _error(self, why: str, public: str, kind: type[DownError] = DownError, *, hint: str = "") -> DownError:
        return kind(down_sentence(self._name, why), hint=hint or self._hint, public=down_sentence(self._name, public))


def down_sentence(name: str, why: str) -> str:
    """Return why a server cannot be used, in a sentence; what a link says of it is a whole one already."""
    return why if why.startswith("the server ") else f"the server {quoted(name)} cannot be used: {why}"


class _LinkHearer:
    """Hears one link: what an older one still sends is not taken for the newer one's."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver: Receiver | None = receiver

    @property
    def is_deaf(self) -> bool:
        """Whether the link is gone."""
        return self._receiver is None

    def received(self, message: bytes, about: str | None) -> bool:
        return self._receiver is None or bool(self._receiver.received(message, about))

    def lost(self, id_: str | None, why: str, public: str = "") -> None:
        receiver = self._receiver
        if id_ is None:
            self._receiver = None
        if receiver is not None:
            receiver.lost(id_, why, public)
