"""Decide whether a request may leave the sandbox, and to which addresses.

The policy is asked through `judge`, once for every request. What it allows is resolved here, and every address must
pass `core.net.may_dial`; the addresses that did are the ones that are dialled, so that a name cannot lead elsewhere
in between. Whatever fails on the way is a denial.

Start at `Gate.admit`.
"""

import asyncio
from threading import Thread

from byleave.core.net import USERINFO
from byleave.effects import addresses
from byleave.effects.addresses import dialable, is_address, not_dialable
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from byleave.core.net import NetRule
    from byleave.sandbox.http_place import Place

    Judge = Callable[[str], "Judgement"]
    HasPaths = Callable[[str], bool]
    Told = Callable[[str, "Judgement"], None]
    Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

FAILED = "the policy could not be asked"


class Judgement(Record):
    """What was decided about a URL, and why. `rule` is the one that decided, if one did."""

    allowed: bool
    reason: str
    rule: "NetRule | None"


class Admission(Record):
    """A judgement, and the addresses that it opens: none unless it is allowed."""

    judgement: Judgement
    addresses: tuple[str, ...] = ()


class Gate:
    """Asks the policy, and tells what was decided. Everything here is called from one thread, one at a time."""

    def __init__(
        self, judge: "Judge", has_paths: "HasPaths", told: "Told | None", resolve: "Resolve | None", limit: float
    ) -> None:
        self._judge = judge
        self._has_paths = has_paths
        self._told = told
        self._resolve = resolve or look_up
        self._limit = limit

    async def admit(self, place: "Place", *, tunnel: bool) -> Admission:
        """Return whether and where `place` may be reached. OSError if its host has no address, or none in time."""
        judgement = self._judged(place, tunnel=tunnel)
        if not judgement.allowed:
            return Admission(self.tell(place, judgement))
        try:
            async with asyncio.timeout(self._limit):
                found = await self._addresses(place)
        except OSError:
            self.tell(place, judgement)
            raise
        admission = _dialable(place, judgement, found)
        judgement = self.tell(place, admission.judgement)
        return admission if judgement.allowed else Admission(judgement)

    def tell(self, place: "Place", judgement: Judgement) -> Judgement:
        """Report the judgement and return it; what cannot be reported is denied."""
        try:
            if self._told is not None:
                self._told(place.url, judgement)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return Judgement(False, "the decision could not be recorded", judgement.rule)
        return judgement

    def _judged(self, place: "Place", *, tunnel: bool) -> Judgement:
        if place.userinfo:
            return Judgement(False, USERINFO, None)
        try:
            judgement = self._judge(place.url)
            hidden = tunnel and judgement.allowed and self._has_paths(place.host)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return Judgement(False, FAILED, None)
        return _hidden(place, judgement) if hidden else judgement

    async def _addresses(self, place: "Place") -> "Sequence[str]":
        return (place.host,) if is_address(place.host) else await self._resolve(place.host, place.port)


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of `host`, best first; OSError if there are none.

    Each question has a thread of its own, which nobody waits for at the end: a question cannot be taken back.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()
    Thread(target=_ask, args=(loop, answer, host, port), name="byleave-lookup", daemon=True).start()
    return await answer


def _ask(loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[list[str]]", host: str, port: int) -> None:
    found: list[str] | OSError
    try:
        found = addresses.look_up(host, port)
    except OSError as problem:
        found = problem
    try:
        loop.call_soon_threadsafe(_settle, answer, found)
    except RuntimeError:  # the loop is closed: nobody wants to know any more
        return


def _settle(answer: "asyncio.Future[list[str]]", found: list[str] | OSError) -> None:
    if answer.done():
        return
    if isinstance(found, OSError):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _dialable(place: "Place", judgement: Judgement, found: "Sequence[str]") -> Admission:
    usable = dialable((judgement.rule,), found)
    if usable or not found:
        return Admission(judgement, usable)
    return Admission(Judgement(False, not_dialable(place.host, found), judgement.rule))


def _hidden(place: "Place", judgement: Judgement) -> Judgement:
    reason = f"rules for {place.host} name paths, and TLS hides the path: only rules without one can open https"
    return Judgement(False, reason, judgement.rule)
