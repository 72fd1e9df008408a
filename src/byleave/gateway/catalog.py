"""What the servers offer to one client: asked of each server page by page, filtered by the policy, merged.

A listing is made afresh whenever the client wants one. What was listed last also says, when a call comes, whether the
tool's definition is the one that was approved, and to whom a resource belongs.
"""

from __future__ import annotations

import asyncio
import functools
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import LOCAL
from byleave.core.url import oddity
from byleave.gateway.interfaces import DownError, NoMethodError
from byleave.gateway.message import text_of
from byleave.gateway.pins import ChangedDefinition, LeftOut, defined
from byleave.gateway.server_listing import (
    KINDS,
    ListingOptions,
    Offer,
    Page,
    ServerListing,
    app_of,
    flat_name,
    may_be_cut,
    split_name,
    view_of,
)
from byleave.store.tool_definitions import INSTRUCTIONS
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from typing import Any

    from byleave.gateway.context import GatewayContext
    from byleave.gateway.opened_servers import OpenedServers
    from byleave.gateway.pins import PinResult, Pins
    from byleave.gateway.server_connection import Introduction
    from byleave.gateway.server_listing import ServerListings, View
    from byleave.gateway.upstream import Upstream
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.servers import ServerConfig
    from byleave.store.tool_definitions import Definition


PATIENCE = 15.0  # seconds that a list waits for one server
QUIET, HARDLY = 60.0, 0.05  # seconds for which one that was silent is hardly waited for, and how long that is
MOST_PAGES = 200
MOST_OFFERS = 10_000  # of one kind, of one server
MOST_BYTES = 16 << 20  # of one listing: five times what ten thousand tools take
_MOST_NOTED = 10  # hidden definitions of one listing that are named to the operator one by one


class Visibility:
    """The view of one agent, by the policy as it is now."""

    def __init__(self, policy: LivePolicy, agent: str | None) -> None:
        self._policy = policy
        self._agent = agent

    @property
    def agent(self) -> str | None:
        return self._agent

    @property
    def version(self) -> object:
        """What is another object whenever the policy is another one: its files, or what was approved."""
        return self._policy.compiled

    def servers(self) -> list[str]:
        """Return the servers that the caller may reach, in their own order; local tools are one of them."""
        known: Mapping[str, ServerConfig] = self._policy.compiled.servers
        names = [name for name, server in known.items() if server.enabled]
        if self._policy.compiled.tools:
            names.append(LOCAL)
        return [name for name in names if self._policy.could_call(self._agent, name, None)]

    def shows_tool(self, server: str, tool: str) -> bool:
        """Whether there are arguments with which the call would not be denied."""
        return self._policy.could_call(self._agent, server, tool)

    def shows(self, server: str, kind: str, name: str) -> bool:
        """Whether a resource or a prompt may be seen."""
        return self._policy.could_use(self._agent, server, kind, name)


class MergedListing(Struct, frozen=True):
    """What all servers offer of one kind, and why some say nothing. `written` is each server's share for clients."""

    offers: tuple[Offer, ...]
    silent: Mapping[str, str]
    written: tuple[bytes, ...] = ()


class LastListing(Struct, frozen=True):
    """What a server listed last: over which connection, all of it, and what of it is approved."""

    opened: int
    catalog: ServerListing
    kept: Mapping[str, Offer]


class Catalog:
    """What one client is offered, and what it was offered last."""

    def __init__(
        self,
        context: GatewayContext,
        servers: OpenedServers,
        local: Callable[[], Awaitable[list[dict[str, Any]]]],
        listings: ServerListings,
    ) -> None:
        """`local` lists the tools of this workspace; `listings` is shared by all sessions."""
        self._context = context
        self._servers = servers
        self._local = local
        self._listings = listings
        self._known: dict[tuple[str, str], LastListing] = {}  # by kind and server
        self._late: dict[str, float] = {}  # servers that took too long, and until when they are hardly waited for
        self._owners: dict[str, str] = {}  # who has listed a resource first, and has not listed it no longer
        self._starts: dict[
            str, tuple[str, ...]
        ] = {}  # how URIs begin that fit the templates of a server, as last heard
        self._hidden: dict[tuple[str, str], dict[str, ChangedDefinition]] = {}  # what is not approved, the same way

    async def listing(self, kind: str, view: Visibility, servers: Iterable[str] | None = None) -> MergedListing:
        """Return what the caller may see of one kind, of all servers or of some."""
        asked = view.servers() if servers is None else list(servers)
        found = await asyncio.gather(*(self._of(kind, server) for server in asked))
        views: list[View] = []
        silent: dict[str, str] = {}
        for server, said in zip(asked, found, strict=True):
            if isinstance(said, DownError):
                self._context.note_down(said)
                silent[server] = said.for_agents(server)
            else:
                views.append(
                    await said.catalog.view(
                        view.agent, view.version, said.kept, functools.partial(_is_seen, view, kind)
                    )
                )
        if not KINDS[kind].flat:
            offers = [each for view in views for each in view.offers]
            undisputed = self._without_disputed(kind, offers)
            views = views if len(undisputed) == len(offers) else [view_of(undisputed)]
        written = tuple(view.written for view in views if view.written)
        return MergedListing(tuple(each for view in views for each in view.offers), silent, written)

    def _without_disputed(self, kind: str, offers: list[Offer]) -> list[Offer]:
        """Leave out what two servers call by one name that is not theirs alone: it is not known whose it is."""
        owners: dict[str, set[str]] = {}
        for each in offers:
            owners.setdefault(each.name, set()).add(each.server)
        for name, servers in owners.items():
            if len(servers) > 1:
                who = " and ".join(sorted(servers))
                self._context.note(f"{who} both list the {kind.rstrip('s')} {shown(name)}, so it is left out")
        return [each for each in offers if len(owners[each.name]) == 1]

    async def all_of(self, kind: str, server: str) -> Mapping[str, Offer]:
        """Return everything of one kind that a server offers, to any caller; a DownError if it says nothing."""
        return (await self._fresh(kind, server)).kept

    async def catalog(self, kind: str, server: str) -> ServerListing:
        """Return all that a server has listed, also what is not approved; a DownError if it says nothing."""
        return (await self._last(kind, server)).catalog

    async def _of(self, kind: str, server: str) -> LastListing | DownError:
        try:
            async with self._patience(server):
                return await self._fresh(kind, server)
        except TimeoutError:
            self._late[server] = monotonic() + QUIET
            hint = "the list is made anew when it is there"
            why = f"the server {server} has said nothing for {PATIENCE:.0f} s"
            return DownError(why, hint=hint, public=why)
        except DownError as error:
            self._known.pop((kind, server), None)
            return error

    async def _fresh(self, kind: str, server: str) -> LastListing:
        if server == LOCAL:
            trees = await self._local() if kind == "tools" else []
            read = tuple(Offer(LOCAL, tree, KINDS[kind]) for tree in trees)
            catalog = ServerListing((Page(b"", read),), MOST_OFFERS, self._listings.working)
            return self._learnt(kind, LastListing(0, catalog, catalog.offers), server)
        upstream, pins = self._servers.reach(server), self._context.pins
        await upstream.ready()
        reading = ListingOptions(pins=pins is not None, headers=upstream.sends_headers)
        catalog = await self._read(upstream, kind, reading)
        if catalog.unread:
            what = f"{server} lists {catalog.unread} {kind}"
            self._context.note(f"{what} that cannot be read, or have a wrong shape: they are left out")
        if kind == "tools":
            self._listings.note_structured(server, catalog.structured)
        if pins is None:
            self._note_left_out(kind, server, catalog.left_out)
        kept = catalog.offers if pins is None else await self._approved(kind, server, catalog, pins)
        return self._learnt(kind, LastListing(upstream.opened, catalog, kept), server)

    async def _read(self, upstream: Upstream, kind: str, reading: ListingOptions) -> ServerListing:
        """Return everything of one kind that a server lists."""
        what, pages, count, size = KINDS[kind], [], 0, 0
        params: dict[str, Any] = {}
        seen: set[bytes] = set()
        for number in range(MOST_PAGES if upstream.abilities.get(what.ability) is not None else 0):
            try:
                said = await upstream.answer(what.method, params)
            except NoMethodError:
                if kind == "tools" or params:
                    raise
                break  # many a server that has resources knows nothing of templates
            page = await self._listings.page(upstream.name, kind, said.get(what.field), number, reading)
            pages.append(page)
            count += len(page.read)
            size += len(page.raw)
            if size > MOST_BYTES:
                self._context.note(
                    f"{upstream.name} lists more than {MOST_BYTES >> 20} MB of {kind}: the rest is left out"
                )
                break
            cursor = said.get("nextCursor")
            if cursor is None or text_of(cursor) is None or count > MOST_OFFERS or bytes(cursor) in seen:
                break
            seen.add(bytes(cursor))
            params = {"cursor": cursor}
        return self._listings.made(upstream.name, kind, pages, MOST_OFFERS, reading)

    def _learnt(self, kind: str, known: LastListing, server: str) -> LastListing:
        self._known[kind, server] = known
        if kind == "templates":
            self._starts[server] = tuple(map(_literal, known.kept))
        if kind == "resources":
            found = known.kept
            for uri in [uri for uri, owner in self._owners.items() if owner == server and uri not in found]:
                del self._owners[uri]
            for uri in found:
                self._owners.setdefault(uri, server)
        return known

    async def _approved(self, kind: str, server: str, catalog: ServerListing, pins: Pins) -> Mapping[str, Offer]:
        """Return what is approved of a catalog; what has changed is hidden until a person has looked at it."""
        what, left_out = KINDS[kind].what, catalog.left_out
        kept: Mapping[str, Offer] = catalog.offers
        self._hidden.pop((kind, server), None)
        if what:
            seen = catalog.definitions
            found_by_pins = await _evaluated(pins, server, seen, what)
            kept, left_out = catalog.approved(found_by_pins), left_out + found_by_pins.left_out
            if found_by_pins.hidden:
                self._hidden[kind, server] = {each.name: each for each in found_by_pins.hidden}
            for each in found_by_pins.hidden[:_MOST_NOTED]:
                named = f"the definition of {_words(kind)}{server}/{shown(each.name)}"
                self._context.note(f"{named} {each.why}, so it is hidden: `byleave approvals list` shows it")
            if len(found_by_pins.hidden) > _MOST_NOTED:
                more = len(found_by_pins.hidden) - _MOST_NOTED
                self._context.note(
                    f"{more} further definitions of {server} are hidden: `byleave approvals list` shows them"
                )
        self._note_left_out(kind, server, left_out)
        return kept

    def _note_left_out(self, kind: str, server: str, left_out: tuple[LeftOut, ...]) -> None:
        if left_out:
            first, more = left_out[0], len(left_out) - 1
            others = f", and {more} more" if more else ""
            self._context.note(f"{kind} of {server} are left out: {shown(first.name)} ({first.why}){others}")

    async def tool(self, server: str, name: str) -> Offer | None:
        """Return a tool as it was listed last over this connection; listed now, if it never was."""
        return self.tool_at_hand(server, name) or await self._one("tools", server, name)

    def tool_at_hand(self, server: str, name: str) -> Offer | None:
        """Return a tool that was listed over the connection that is open, and is approved now.

        None if there is none, or to know so something would have to be waited for.
        """
        known = self._known.get(("tools", server))
        if known is None or server == LOCAL:
            return None
        if self._servers.keeps(server):
            upstream = self._servers.reach(server)
            if not upstream.is_up or known.opened != upstream.opened:
                return None
        offer, pins = known.kept.get(name), self._context.pins
        if offer is None or pins is None:
            return offer
        pinned = offer.definition
        approved = pinned is not None and not pins.may_wait(server) and pins.approves(server, name, pinned.sha256)
        return offer if approved else None

    async def _one(self, kind: str, server: str, name: str) -> Offer | None:
        offer = (await self._last(kind, server)).kept.get(name)
        pins = self._context.pins
        if pins is None or server == LOCAL:
            return offer
        if offer is not None and (pinned := offer.definition) is not None:
            asked = server, name, pinned.sha256, KINDS[kind].what
            if await asyncio.to_thread(pins.approves, *asked) if pins.may_wait(server) else pins.approves(*asked):
                return offer
        elif kind != "tools" and name not in self._hidden.get((kind, server), ()):
            return offer  # it was never listed, so nothing can have changed
        return (await self._fresh(kind, server)).kept.get(name)  # a person may have approved it, or revoked that

    async def instructions(self, server: str, introduction: Introduction | None) -> str:
        """Return what a server says about its use, if that is approved: models read it, so it is pinned like a tool."""
        said, pins = "" if introduction is None else introduction.instructions, self._context.pins
        if introduction is None or pins is None:
            return said
        definition = defined({"name": server, "instructions": said}, INSTRUCTIONS)
        if isinstance(definition, LeftOut):
            self._context.note(f"the instructions of {server} are left out: {definition.why}")
            return ""
        seen = (definition,) if said else ()  # that it has none is known from now on, too
        found_by_pins = await _evaluated(pins, server, seen, INSTRUCTIONS)
        self._hidden.pop((INSTRUCTIONS, server), None)
        for each in found_by_pins.hidden:
            self._hidden[INSTRUCTIONS, server] = {each.name: each}
            self._context.note(
                f"the instructions of {server}: the text {each.why}, so it is hidden: see `byleave approvals list`"
            )
        return said if found_by_pins.approved else ""

    async def hides(self, kind: str, server: str, name: str) -> ChangedDefinition | None:
        """Return why a prompt or a template must not be used: its definition is not approved. None if it may."""
        await self._one(kind, server, name)
        hidden = self._hidden.get((kind, server), {}).get(name)
        known = self._known.get((kind, server))
        if hidden is not None or known is None or name in known.kept:
            return hidden
        listed = name in known.catalog.offers or any(each.name == name for each in known.catalog.left_out)
        return ChangedDefinition(name, "", "", "", "cannot be relied on") if listed else None

    def is_late(self, server: str) -> bool:
        """Whether a list was made without this server, because it took too long; that is forgotten with this."""
        return self._late.pop(server, None) is not None

    def _patience(self, server: str) -> asyncio.Timeout:
        """Return how long a server is waited for: one that has just said nothing for long, hardly any more."""
        quiet = monotonic() < self._late.get(server, 0.0) and not self._servers.reach(server).is_up
        return asyncio.timeout(HARDLY if quiet else PATIENCE)

    @property
    def hidden(self) -> list[tuple[str, str, str]]:
        """What is not approved, by kind and server."""
        return [(*key, name) for key, names in self._hidden.items() for name in names]

    def hidden_of(self, server: str) -> Iterator[tuple[str, ChangedDefinition]]:
        """Yield what a server lists and is not approved, with its kind."""
        for kind in (*KINDS, INSTRUCTIONS):
            for each in self._hidden.get((kind, server), {}).values():
                yield kind, each

    def changed_of(self, server: str) -> dict[str, str]:
        """Return the tools of a server whose definition is not approved, each with the id of what to approve."""
        return {name: each.id for name, each in self._hidden.get(("tools", server), {}).items()}

    def lists(self, kind: str, server: str, name: str) -> bool:
        """Whether a server was last heard to list this, and it is approved. Asks no server."""
        known = self._known.get((kind, server))
        return known is not None and name in known.kept

    def why_hidden(self, server: str, name: str) -> str:
        """Return why a tool is hidden; empty if it is not."""
        found = self._hidden.get(("tools", server), {}).get(name)
        return "" if found is None else found.why

    async def _last(self, kind: str, server: str) -> LastListing:
        if server == LOCAL:
            return await self._fresh(kind, server)
        known = self._known.get((kind, server))
        if known is not None and not self._servers.keeps(server):
            return known
        upstream = self._servers.reach(server)
        await upstream.ready()
        if known is not None and known.opened == upstream.opened:
            return known
        return await self._fresh(kind, server)

    def forget(self, server: str) -> None:
        """Have everything of a server listed anew before it is relied on."""
        for key in [key for key in self._known if key[1] == server]:
            del self._known[key]

    def forget_all(self) -> None:
        """Have everything listed anew."""
        self._known.clear()

    async def find(self, kind: str, flat: str, view: Visibility) -> tuple[str, str] | None:
        """Return server and own name of what a client calls `flat`; None if it cannot be anything here."""
        split = split_name(flat)
        if not may_be_cut(flat):
            return split
        candidates = [split[0]] if split is not None and split[0] in view.servers() else view.servers()
        for server in candidates:
            try:
                async with self._patience(server):
                    offers = (await self._last(kind, server)).kept
            except (DownError, TimeoutError):
                continue
            for name in offers:
                if flat_name(server, name) == flat:
                    return server, name
        return split

    async def owner(self, uri: str, view: Visibility) -> ResourceOwner:
        """Return the server that a resource belongs to: which lists it, or whose template it fits, or the only one.

        Where several might be meant, none is: a server must not come by another's requests.
        """
        servers = [server for server in view.servers() if server != LOCAL]
        known = [server for server in servers if uri in self._known_by(server)]
        if known and self._owners.get(uri) in known:
            return _only(known, "both offer it")
        found = await asyncio.gather(*(self._claims(server, uri) for server in servers))
        by_claim = {
            claim: [server for server, each in zip(servers, found, strict=True) if each == claim] for claim in found
        }
        silent = by_claim.get(SILENT, [])
        if self._owners.get(uri) in silent:
            return ResourceOwner(None, problem="its server cannot be reached now")
        if by_claim.get(LISTS):
            return _only(by_claim[LISTS], "both offer it")
        odd = oddity(uri)
        if odd:
            return ResourceOwner(None, problem=f"this is not how the URI is plainly written: {odd}")
        if any(_fits(uri, self._starts.get(server, ())) for server in silent):
            return ResourceOwner(None, problem="its server cannot be reached now")
        if by_claim.get(FITS):
            return _only(by_claim[FITS], "both have a template that it fits")
        return ResourceOwner(None) if silent else _only(by_claim.get(ABLE, []))

    def _known_by(self, server: str) -> Mapping[str, Offer]:
        """Return the resources that a server has listed, as far as that was over the connection that there is."""
        known = self._known.get(("resources", server))
        return known.kept if known is not None and known.opened == self._servers.reach(server).opened else {}

    async def _claims(self, server: str, uri: str) -> str:
        """Return what a server has to do with a URI."""
        try:
            async with self._patience(server):
                listed = (await self._last("resources", server)).kept
                templates = (await self._last("templates", server)).kept
        except TimeoutError:
            self._late[server] = monotonic() + QUIET
            return SILENT
        except DownError:
            return SILENT
        if uri in listed or uri in templates or self._shows_as_app(server, uri):
            return LISTS
        if _fits(uri, map(_literal, templates)):
            return FITS
        return ABLE if self._servers.reach(server).abilities.get("resources") is not None else NOTHING

    def _shows_as_app(self, server: str, uri: str) -> bool:
        """Whether a tool that a server has listed names a resource as what shows its results (MCP Apps)."""
        known = self._known.get(("tools", server))
        return known is not None and any(app_of(offer.tree) == uri for offer in known.kept.values())


LISTS, FITS, ABLE, SILENT, NOTHING = "lists", "fits", "able", "silent", "nothing"


class ResourceOwner(Struct, frozen=True):
    """The server that a resource belongs to; or none, and why, if there is more to say than that it is not there."""

    server: str | None
    problem: str = ""


async def _evaluated(pins: Pins, server: str, seen: tuple[Definition, ...], what: str) -> PinResult:
    """Return what became of definitions; what may have to be waited for, a file or a database, a thread waits for."""
    if pins.store_may_wait:
        known = await asyncio.to_thread(pins.known, server, seen, what)
    else:
        known = pins.known(server, seen, what)
    return await asyncio.to_thread(pins.evaluate, server, seen, what) if known is None else known


def _only(servers: list[str], what: str = "") -> ResourceOwner:
    if len(servers) == 1:
        return ResourceOwner(servers[0])
    return ResourceOwner(None, problem=f"{' and '.join(sorted(servers))} {what}" if what else "")


def _is_seen(view: Visibility, kind: str, offer: Offer) -> bool:
    if kind == "tools":
        return view.shows_tool(offer.server, offer.name)
    return view.shows(offer.server, "prompts" if kind == "prompts" else "resources", offer.name)


def _words(kind: str) -> str:
    return "" if kind == "tools" else f"the {KINDS[kind].what.replace('_', ' ')} "


def _fits(uri: str, starts: Iterable[str]) -> bool:
    """Whether a URI begins as one of a template does; a template that begins with anything fits none."""
    return any(start and uri.startswith(start) for start in starts)


def _literal(template: str) -> str:
    return template.partition("{")[0]
