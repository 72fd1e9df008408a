"""Which revision of the protocol is spoken with a server: `server/discover` for the stateless one, or the handshake.

Nothing in a server's configuration says what it speaks, so it is asked. What a server makes of a question that it does
not know is anything: an error of any number, a page of HTML, a connection that is closed, silence, its end. So only a
result that names a revision of ours is a yes; everything else leads to the other way. One that is silent is asked both
ways at once, and the way that works is taken. What worked is remembered.

The stateless revision comes first, but for a client that shakes hands itself and can be asked something: a server that
speaks both asks such a client in the way of the handshake, as it would if the gateway were not there.

Start at `negotiate`. Where the questions are sent: `upstream`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.gateway.interfaces import DownError
from byleave.gateway.message import decoded
from byleave.gateway.requests import ServerLost
from byleave.gateway.revisions import HANDSHAKE, LATEST, MODERN, UNSUPPORTED_VERSION
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any, Protocol

    from byleave.gateway.requests import ServerAnswer

    class Ask(Protocol):
        """How a server is asked before it is known which revision it speaks."""

        async def __call__(self, method: str, params: Mapping[str, Any], revision: str) -> ServerAnswer | ServerLost:
            """Return what the server says; a DownError if it cannot be asked. `revision`: empty for the handshake."""

    Way = Callable[[], Coroutine[Any, Any, "Agreed | RefusedHandshake"]]
    Task = asyncio.Task["Agreed | RefusedHandshake"]

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

    `only`: the one way that there is. `said`: how it introduced itself last.
    """

    __slots__ = ("only", "said", "worked")

    def __init__(self, only: str = "") -> None:
        self.only = only
        self.worked: dict[bool, str] = {}
        self.said: Introduction | None = None

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
