"""Decide whether a request may leave the sandbox, and to which addresses.

The policy is asked through `judge`. What it allows is resolved here, and every address must pass `core.net.may_dial`;
the addresses that did are the ones that are dialled, so that a name cannot lead elsewhere in between. Whatever fails on
the way is a denial. What came of a request is recorded once that is known: a refusal here is no allow in the records.

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

    Judge = Callable[..., "Judgement"]  # of a URL; where `settle` records, of the method as well
    HasPaths = Callable[[str], bool]
    Told = Callable[[str, "Judgement"], None]
    # Records what came of a request: a refusal of the gate's own with its reason, else what the policy says.
    Settle = Callable[["Place", str | None], "Judgement"]
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
        self,
        judge: "Judge",
        has_paths: "HasPaths",
        told: "Told | None",
        resolve: "Resolve | None",
        limit: float,
        *,
        settle: "Settle | None" = None,
    ) -> None:
        self._judge = judge
        self._has_paths = has_paths
        self._told = told
        self._resolve = resolve or look_up
        self._limit = limit
        self._settle = settle

    async def admit(self, place: "Place", *, tunnel: bool) -> Admission:
        """Return whether and where `place` may be reached. OSError if its host has no address, or none in time."""
        judgement, refused = self._judged(place, tunnel=tunnel)
        recorded = refused is None and not judgement.allowed
        if recorded:  # an approval may still allow it
            judgement = self._settled(place, judgement)
            if not judgement.allowed:
                return Admission(self.tell(place, judgement))
            refused = self._hidden(place) if tunnel else None
        if refused is not None:
            return Admission(self.refuse(place, judgement, refused))
        try:
            async with asyncio.timeout(self._limit):
                found = await self._addresses(place)
        except OSError:
            self.tell(place, judgement if recorded else self._settled(place, judgement))
            raise
        usable = dialable((judgement.rule,), found)
        if found and not usable:
            return Admission(self.refuse(place, judgement, not_dialable(place.host, found)))
        judgement = self.tell(place, judgement if recorded else self._settled(place, judgement))
        return Admission(judgement, usable if judgement.allowed else ())

    def refuse(self, place: "Place", judgement: Judgement, refused: str) -> Judgement:
        """Record and report a refusal of the gate's own, and why."""
        denied = self._settled(place, judgement, refused)
        return self.tell(place, Judgement(False, denied.reason, judgement.rule))

    def _settled(self, place: "Place", judgement: Judgement, refused: str | None = None) -> Judgement:
        """Record what came of a request, and return it; what cannot be recorded is denied."""
        try:
            if self._settle is not None:
                return self._settle(place, refused)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return Judgement(False, FAILED, judgement.rule)
        return judgement if refused is None else Judgement(False, refused, judgement.rule)

    def tell(self, place: "Place", judgement: Judgement) -> Judgement:
        """Report the judgement and return it; what cannot be reported is denied."""
        try:
            if self._told is not None:
                self._told(place.url, judgement)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return Judgement(False, "the decision could not be recorded", judgement.rule)
        return judgement

    def _judged(self, place: "Place", *, tunnel: bool) -> tuple[Judgement, str | None]:
        """Return what the policy says, and why the gate refuses whatever that is, if it does."""
        if place.userinfo:
            return Judgement(False, USERINFO, None), USERINFO
        try:
            judgement = self._judge(place.url) if self._settle is None else self._judge(place.url, place.method)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return Judgement(False, FAILED, None), FAILED
        return judgement, self._hidden(place) if tunnel and judgement.allowed else None

    def _hidden(self, place: "Place") -> str | None:
        """Return why a tunnel cannot be opened that hides what rules look at; None if they look at nothing in it."""
        try:
            hidden = self._has_paths(place.host)
        except Exception:  # noqa: BLE001 -- whatever went wrong, the answer is no
            return FAILED
        told = f"rules for {place.host} name paths, and TLS hides the path: only rules without one can open https"
        return told if hidden else None

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
