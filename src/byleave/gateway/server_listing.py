"""What one server lists of one kind: checked, named for clients, and read once however often clients list it.

A list goes to the client as a whole, and a client that finds one thing of a wrong shape refuses all of it. So what has
a wrong shape is left out, and so are members that the protocol does not know: they are not pinned. Tools and prompts
are named `server__tool`.

Ten thousand tools take half a second to be read, shaped, hashed and written for clients. So a page that says what it
said before is not read again, of one that says something else only what is new in it, and what each agent may see of a
listing is kept for as long as listing, pins and policy are the same. All of it is done a few milliseconds at a time:
other requests have their turn in between.

Start at `ServerListings.page` and `ServerListings.made`; `catalog` merges the listings of many servers.
"""

from __future__ import annotations

import asyncio
import hashlib
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.gateway.message import decoded, elements_of, encode
from byleave.gateway.pins import TWICE, LeftOut, defined, hidden_characters, one_form, repeated, text_of_tree
from byleave.gateway.revisions import wrong_annotation
from byleave.store.tool_definitions import PROMPT, TEMPLATE, TOOL
from byleave.text import hidden_in, shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Self

    from msgspec import Raw

    from byleave.gateway.pins import PinResult
    from byleave.store.tool_definitions import Definition

    Fits = Callable[[Any], bool]

TURN = 0.002  # seconds of work after which others have theirs
MOST_KEPT = 4  # catalogs of one server and kind: one that lists other things to other agents has more than one
_LARGE = 4 << 20  # bytes of a listing of which only the last is kept
MOST_VIEWS = 8  # agents whose view of one catalog is kept
_MOST_STRUCTURED = 20_000  # names of tools of one server that are remembered
LONGEST = 64  # characters of a name that every client takes
JOINT = "__"  # between server and tool: no server's name holds it, so the first one splits
_HASHED = 8  # characters of the hash that makes a name unique again which was cut
_LABELS = ("name", "title", "description")  # of a resource: what is shown of it; its URI is what it is


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _icons(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and _text(each.get("src")) for each in value)


def _hints(value: Any) -> bool:
    """Whether these are annotations of a tool: a title, and yes or no to some questions."""
    return isinstance(value, dict) and all(
        _text(each) if name == "title" else isinstance(each, bool) or not name.endswith("Hint")
        for name, each in value.items()
    )


def _notes(value: Any) -> bool:
    """Whether these are annotations of a resource."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("audience", []), list)
        and (value.get("priority") is None or _number(value["priority"]))
        and _text(value.get("lastModified", ""))
    )


def _arguments(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and _text(each.get("name"))
        and _text(each.get("description", ""))
        and isinstance(each.get("required", False), bool)
        for each in value
    )


_EVERY: Mapping[str, Fits] = {"title": _text, "description": _text, "icons": _icons, "_meta": _object}
_RESOURCE: Mapping[str, Fits] = {**_EVERY, "name": _text, "mimeType": _text, "annotations": _notes}
SHAPES: Mapping[str, Mapping[str, Fits]] = {
    "tools": {
        **_EVERY,
        "name": _text,
        "inputSchema": _object,
        "outputSchema": _object,
        "annotations": _hints,
        "execution": _object,
    },
    "prompts": {**_EVERY, "name": _text, "arguments": _arguments},
    "resources": {**_RESOURCE, "uri": _text, "size": _number},
    "resourceTemplates": {**_RESOURCE, "uriTemplate": _text},
}
_NEEDED = {"tools": ("inputSchema",), "resources": ("name",), "resourceTemplates": ("name",)}


def shaped(field: str, tree: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the members that the protocol knows, without those that are null; None if one has a wrong shape."""
    shape = SHAPES[field]
    kept = {name: value for name, value in tree.items() if name in shape and value is not None}
    fits = all(shape[name](value) for name, value in kept.items()) and all(
        name in kept for name in _NEEDED.get(field, ())
    )
    return kept if fits else None


def unusable(tool: Mapping[str, Any], *, sends_headers: bool) -> str:
    """Return why a tool cannot be called through the gateway by any caller; empty if it can."""
    if tool.get("execution", {}).get("taskSupport") == "required":
        return "it runs as a task only, and tasks are not passed on"
    return wrong_annotation(tool["inputSchema"]) if sends_headers else ""


def served(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool as clients see it: without the promise that it can run as a task."""
    if "execution" not in tool:
        return tool
    kept = {name: value for name, value in tool["execution"].items() if name != "taskSupport"}
    return {name: value for name, value in tool.items() if name != "execution"} | ({"execution": kept} if kept else {})


def app_of(tool: Mapping[str, Any]) -> Any:
    """Return the URI of the resource that shows a tool's results, if it names one; older servers name it flatly."""
    meta = tool.get("_meta", {})
    named = meta.get("ui")
    return named.get("resourceUri") if isinstance(named, dict) else meta.get("ui/resourceUri")


def flat_name(server: str, name: str) -> str:
    """Return the name under which clients see what a server calls `name`."""
    whole = f"{server}{JOINT}{name}"
    if len(whole) <= LONGEST:
        return whole
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASHED]
    return f"{whole[: LONGEST - _HASHED - 1]}-{digest}"


def split_name(flat: str) -> tuple[str, str] | None:
    """Return server and own name of a flat name as it is written; None if it is none. A cut one is not the own name."""
    server, joint, name = flat.partition(JOINT)
    return (server, name) if joint and server and name else None


def may_be_cut(flat: str) -> bool:
    """Whether a name may stand for a longer one."""
    return len(flat) == LONGEST and flat[-_HASHED - 1] == "-"


class ListKind(Struct, frozen=True):
    """One kind of thing that servers list."""

    method: str
    field: str  # of the result, and of the server's capabilities where `ability` is not given
    key: str  # the member that names one
    ability: str
    flat: bool  # whether its name is made `server__name`
    what: str = ""  # the kind of definition that is pinned; none of single resources


KINDS = {
    "tools": ListKind("tools/list", "tools", "name", "tools", flat=True, what=TOOL),
    "prompts": ListKind("prompts/list", "prompts", "name", "prompts", flat=True, what=PROMPT),
    "resources": ListKind("resources/list", "resources", "uri", "resources", flat=False),
    "templates": ListKind(
        "resources/templates/list", "resourceTemplates", "uriTemplate", "resources", flat=False, what=TEMPLATE
    ),
}


class ListingOptions(Struct, frozen=True):
    """How a listing is read: whether what is on it is pinned, and whether calls repeat arguments in headers of HTTP."""

    pins: bool
    headers: bool = False


class Offer:
    """One thing that a server offers: its own name, and all that the server says of it, as we have read it.

    Clients get what was read, written anew: no client is shown another definition than the one that is pinned.
    """

    __slots__ = ("_key", "_tree", "definition", "flat", "is_structured", "name", "server", "written")

    def __init__(
        self, server: str, tree: Mapping[str, Any], kind: ListKind, definition: Definition | None = None
    ) -> None:
        self.server = server
        self.name: str = tree[kind.key]
        self.definition = definition  # None where nothing is pinned
        self.is_structured = tree.get("outputSchema") is not None
        self._key = kind.key
        self._tree: dict[str, Any] | None = None
        self.flat = flat_name(server, self.name) if kind.flat else self.name if kind.what else ""  # no two have one
        kept = served(tree)
        self.written = encode({**kept, kind.key: self.flat} if kind.flat else kept)

    @property
    def tree(self) -> dict[str, Any]:
        """What clients are shown of it, under its own name; kept once it was needed, as for a tool that is called."""
        if self._tree is None:
            self._tree = self.read()
        return self._tree

    def read(self) -> dict[str, Any]:
        """Return what clients are shown of it, under its own name, and keep nothing."""
        return {**decoded(self.written), self._key: self.name}


class TimeSlice:
    """Long work on the event loop, a few milliseconds at a time. However much of it there is, one works at a time.

    Whose turn is over passes it on only when the loop has gone round: else forty tasks that are ready would have theirs
    one after the other, and all other requests would wait for all of them.
    """

    def __init__(self, lock: asyncio.Lock, seconds: float = TURN) -> None:
        self._lock = lock
        self._seconds = seconds
        self._until = 0.0
        self._is_ours = False

    async def __aenter__(self) -> Self:
        await self._take()
        return self

    async def __aexit__(self, *_problem: object) -> None:
        if self._is_ours:
            await self._pass_on()

    async def give(self) -> None:
        """Let others have their turn, if ours is over."""
        if perf_counter() >= self._until:
            await self._pass_on()
            await self._take()

    async def _pass_on(self) -> None:
        try:
            await asyncio.sleep(0)
        finally:
            self._is_ours = False
            self._lock.release()

    async def _take(self) -> None:
        await self._lock.acquire()
        self._is_ours = True
        self._until = perf_counter() + self._seconds


class Page(Struct, frozen=True):
    """One page of a listing: as it came, and what was read of each thing on it; None of what cannot be read."""

    raw: bytes
    read: tuple[Offer | LeftOut | None, ...]


class View(Struct, frozen=True):
    """What one caller sees of a catalog: the offers, and all of them as clients get them."""

    offers: tuple[Offer, ...]
    written: bytes


class ServerListing:
    """What a server lists of one kind. No two of its `offers` have one name; what became of them is kept beside."""

    def __init__(self, pages: tuple[Page, ...], most: int, working: asyncio.Lock) -> None:
        self.pages = pages
        self._working = working
        found = [each for page in pages for each in page.read][:most]
        offers = [each for each in found if isinstance(each, Offer)]
        twice = repeated(each.flat for each in offers) if any(each.flat for each in offers) else set()
        self.offers = {each.name: each for each in offers if not twice or one_form(each.flat) not in twice}
        self.left_out = tuple(each for each in found if isinstance(each, LeftOut)) + tuple(
            LeftOut(each.name, TWICE) for each in offers if each.name not in self.offers
        )
        self.unread = sum(each is None for each in found)
        self.definitions = tuple(each.definition for each in self.offers.values() if each.definition is not None)
        self.structured = frozenset(each.name for each in offers if each.is_structured)
        self._approved: tuple[PinResult | None, Mapping[str, Offer]] = None, self.offers
        self._views: dict[str | None, tuple[object, Mapping[str, Offer], View]] = {}

    def approved(self, result: PinResult) -> Mapping[str, Offer]:
        """Return what is approved of it; the same object for the same result."""
        if self._approved[0] is not result:
            kept = {name: each for name, each in self.offers.items() if name in result.approved}
            self._approved = result, kept if len(kept) < len(self.offers) else self.offers
        return self._approved[1]

    async def view(
        self, agent: str | None, policy: object, kept: Mapping[str, Offer], sees: Callable[[Offer], bool]
    ) -> View:
        """Return what an agent sees of `kept`, by a policy that is the same as long as it is the same object."""
        known = self._views.pop(agent, None)
        if known is None or known[0] is not policy or known[1] is not kept:
            seen = []
            async with TimeSlice(self._working) as turn:
                for each in list(kept.values()):
                    if sees(each):
                        seen.append(each)
                    await turn.give()
            same = next((view for _policy, _kept, view in self._views.values() if view.offers == tuple(seen)), None)
            known = policy, kept, same if same is not None else view_of(seen)
        self._views[agent] = known  # the one that was used last is the last
        while len(self._views) > MOST_VIEWS:
            del self._views[next(iter(self._views))]
        return known[2]


def view_of(offers: Iterable[Offer]) -> View:
    """Return offers with how clients get them."""
    seen = tuple(offers)
    return View(seen, b",".join([each.written for each in seen]))


class ServerListings:
    """The catalogs of all servers of a gateway, shared by all sessions."""

    def __init__(self) -> None:
        self.working = asyncio.Lock()  # held by the task that has its turn at long work
        self._kept: dict[tuple[str, str, ListingOptions], list[ServerListing]] = {}
        self._reading: dict[tuple[str, str], asyncio.Lock] = {}
        self._structured: dict[str, set[str]] = {}  # tools with an output schema, by server

    def note_structured(self, server: str, tools: Iterable[str]) -> None:
        """Remember which tools have an output schema: clients remember that, too."""
        known = self._structured.setdefault(server, set())
        if len(known) < _MOST_STRUCTURED:
            known.update(tools)

    def has_output_schema(self, server: str, tool: str) -> bool:
        """Whether a tool has ever had an output schema."""
        return tool in self._structured.get(server, ())

    def forget(self, servers: Iterable[str]) -> None:
        """Let go of what these servers have listed."""
        for key in [key for key in self._kept if key[0] in set(servers)]:
            del self._kept[key]

    async def page(self, server: str, kind: str, raw: Raw | None, number: int, reading: ListingOptions) -> Page:
        """Return one page of a listing, read."""
        whole = b"[]" if raw is None else bytes(raw)
        known = self._kept.get((server, kind, reading), [])
        async with self._reading.setdefault((server, kind), asyncio.Lock()):  # the next one finds it read
            for catalog in reversed(known):
                if number < len(catalog.pages) and catalog.pages[number].raw == whole:
                    return catalog.pages[number]
            before = known[-1].pages[number] if known and number < len(known[-1].pages) else None
            async with TimeSlice(self.working) as turn:
                return await _read_page(server, KINDS[kind], whole, before, turn=turn, reading=reading)

    def made(self, server: str, kind: str, pages: list[Page], most: int, reading: ListingOptions) -> ServerListing:
        """Return the catalog of these pages; the very same, if it was made before."""
        known = self._kept.setdefault((server, kind, reading), [])
        for number, catalog in enumerate(known):
            if len(catalog.pages) == len(pages) and all(a is b for a, b in zip(catalog.pages, pages, strict=True)):
                known.append(known.pop(number))
                return catalog
        made = ServerListing(tuple(pages), most, self.working)
        known.append(made)
        del known[: -MOST_KEPT if sum(len(page.raw) for page in pages) < _LARGE else -1]
        return made


async def _read_page(
    server: str, kind: ListKind, whole: bytes, before: Page | None, *, turn: TimeSlice, reading: ListingOptions
) -> Page:
    listed = elements_of(whole)
    known: dict[bytes, Offer | LeftOut | None] = {}
    if before is not None:
        await turn.give()
        for raw, read in zip(elements_of(before.raw), before.read, strict=True):
            if raw is not None:
                known[bytes(raw)] = read
    found: list[Offer | LeftOut | None] = []
    for raw in listed:
        await turn.give()
        each = None if raw is None else bytes(raw)
        found.append(known[each] if each in known else None if each is None else _read(server, kind, each, reading))
    return Page(whole, tuple(found))


def _read(server: str, kind: ListKind, raw: bytes, reading: ListingOptions) -> Offer | LeftOut | None:
    """Return what a server offers; why it is left out, for people; None if it cannot be read."""
    tree = decoded(raw)
    fitting = shaped(kind.field, tree) if isinstance(tree, dict) else None
    if fitting is None or not fitting.get(kind.key):
        return None
    if not kind.what:
        return _read_unpinned(server, kind, fitting)
    if kind.what == TOOL and (problem := unusable(fitting, sends_headers=reading.headers)):
        return LeftOut(fitting[kind.key], problem)
    if not reading.pins:
        return Offer(server, fitting, kind)
    definition = defined(fitting, kind.what)
    return definition if isinstance(definition, LeftOut) else Offer(server, fitting, kind, definition)


def _read_unpinned(server: str, kind: ListKind, tree: dict[str, Any]) -> Offer | LeftOut:
    """Return what no person can approve, with what is not seen in its labels written out; elsewhere it cannot be."""
    for label in _LABELS:
        if hidden_in(tree.get(label, "")):
            tree[label] = shown_lines(tree[label])
    offer = Offer(server, tree, kind)
    is_plain = offer.written.isascii() and b"\\" not in offer.written and b"\x7f" not in offer.written
    if is_plain or not hidden_characters(text_of_tree(tree)):
        return offer
    return LeftOut(offer.name, "it holds characters that are not seen")
