"""What the servers offer to one client: asked of each server page by page, filtered by the policy, merged.

A listing is made afresh whenever the client wants one. What was listed last also says, when a call comes, whether the
tool's definition is the one that was approved, and to whom a resource belongs.
"""

import asyncio
from time import monotonic

from byleave.core.action import LOCAL
from byleave.core.uris import oddity
from byleave.mcp.ends import DownError, NoMethodError
from byleave.mcp.message import decoded, elements_of, text_of
from byleave.mcp.names import flat_name, may_be_cut, split_name
from byleave.mcp.pins import pinned_hash
from byleave.mcp.shapes import app_of, served, shaped, unusable
from byleave.record import Record
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Protocol

    from byleave.mcp.pins import Pins
    from byleave.mcp.upstream import Upstream

    class Sight(Protocol):
        """What a caller may see, by the policy."""

        def servers(self) -> "list[str]": ...

        def shows_tool(self, server: str, tool: str) -> bool: ...

        def shows(self, server: str, kind: str, name: str) -> bool: ...


PATIENCE = 15.0  # seconds that a list waits for one server
QUIET, HARDLY = 60.0, 0.05  # seconds for which one that was silent is hardly waited for, and how long that is
MOST_PAGES = 200
MOST_OFFERS = 10_000  # of one kind, of one server


class Kind(Record):
    """One kind of thing that servers list."""

    method: str
    field: str  # of the result, and of the server's capabilities where `ability` is not given
    key: str  # the member that names one
    ability: str
    flat: bool  # whether its name is made `server__name`


KINDS = {
    "tools": Kind("tools/list", "tools", "name", "tools", flat=True),
    "prompts": Kind("prompts/list", "prompts", "name", "prompts", flat=True),
    "resources": Kind("resources/list", "resources", "uri", "resources", flat=False),
    "templates": Kind("resources/templates/list", "resourceTemplates", "uriTemplate", "resources", flat=False),
}


class Offer(Record):
    """One thing that a server offers: its own name, and all that the server says of it, as we have read it.

    Clients get what was read, written anew: nobody can be shown another definition than the one that is pinned.
    """

    server: str
    name: str
    tree: "dict[str, Any]"

    def shown(self, kind: Kind) -> "dict[str, Any]":
        """Return it as clients see it."""
        tree = served(self.tree)
        return {**tree, kind.key: flat_name(self.server, self.name)} if kind.flat else tree


class Listing(Record):
    """What all servers offer of one kind, and why some say nothing."""

    offers: tuple[Offer, ...]
    silent: "Mapping[str, str]"


class Offers:
    """What one client is offered, and what it was offered last."""

    def __init__(
        self,
        reach: "Callable[[str], Upstream]",
        local: "Callable[[], list[dict[str, Any]]]",
        pins: "Callable[[], Pins | None]",
        note: "Callable[[str], None]",
        keeps: "Callable[[str], bool]",
        *,
        listed: "Callable[[str, Iterable[dict[str, Any]]], None]" = lambda _server, _tools: None,
    ) -> None:
        self._reach = reach
        self._keeps = keeps  # whether the session with a server outlives one call
        self._local = local
        self._pins = pins
        self._note = note
        self._listed = listed  # told of every list of tools
        self._known: dict[tuple[str, str], tuple[int, dict[str, Offer]]] = {}  # by kind and server
        self._late: dict[str, float] = {}  # servers that took too long, and until when they are hardly waited for
        self._owners: dict[str, str] = {}  # who has listed a resource first, and has not listed it no longer
        self._changed: dict[tuple[str, str], str] = {}  # tools whose definition nobody has approved
        self._hashes: dict[tuple[str, str], tuple[dict[str, Any], str]] = {}  # of the definitions of tools

    async def listing(self, kind: str, sight: "Sight", servers: "Iterable[str] | None" = None) -> Listing:
        """Return what the caller may see of one kind, of all servers or of some."""
        asked = sight.servers() if servers is None else list(servers)
        found = await asyncio.gather(*(self._of(kind, server) for server in asked))
        offers: list[Offer] = []
        silent: dict[str, str] = {}
        for server, said in zip(asked, found, strict=True):
            if isinstance(said, DownError):
                silent[server] = said.problem
            else:
                offers += [each for each in said.values() if _is_seen(sight, kind, each)]
        return Listing(tuple(offers if KINDS[kind].flat else self._without_disputed(kind, offers)), silent)

    def _without_disputed(self, kind: str, offers: "list[Offer]") -> "list[Offer]":
        """Leave out what two servers call by one name that is not theirs alone: nobody could tell whose it is."""
        owners: dict[str, set[str]] = {}
        for each in offers:
            owners.setdefault(each.name, set()).add(each.server)
        for name, servers in owners.items():
            if len(servers) > 1:
                who = " and ".join(sorted(servers))
                self._note(f"{who} both list the {kind.rstrip('s')} {shown(name)}, so it is left out")
        return [each for each in offers if len(owners[each.name]) == 1]

    async def all_of(self, kind: str, server: str) -> dict[str, Offer]:
        """Return everything of one kind that a server offers, whoever may see it; a DownError if it says nothing."""
        return await self._fresh(kind, server)

    async def _of(self, kind: str, server: str) -> "dict[str, Offer] | DownError":
        try:
            async with self._patience(server):
                return await self._fresh(kind, server)
        except TimeoutError:
            self._late[server] = monotonic() + QUIET
            hint = "the list is made anew when it is there"
            return DownError(f"the server {server} has said nothing for {PATIENCE:.0f} s", hint=hint)
        except DownError as error:
            self._known.pop((kind, server), None)
            return error

    async def _fresh(self, kind: str, server: str) -> dict[str, Offer]:
        if server == LOCAL:
            offers = [Offer(LOCAL, tree["name"], tree) for tree in self._local()] if kind == "tools" else []
            return self._learnt(kind, server, 0, {each.name: each for each in offers})
        upstream = self._reach(server)
        await upstream.ready()
        offers, unread = await _all_pages(upstream, KINDS[kind])
        if unread:
            self._note(f"{server} lists {unread} {kind} that cannot be read, or have a wrong shape: they are left out")
        if kind == "tools":
            offers = self._usable(upstream, offers)
            self._listed(server, [each.tree for each in offers])
        kept = await self._pinned(server, offers) if kind == "tools" else offers
        return self._learnt(kind, server, upstream.opened, {each.name: each for each in kept})

    def _usable(self, upstream: "Upstream", offers: "list[Offer]") -> "list[Offer]":
        """Return the tools that can be called through here at all."""
        why = [unusable(each.tree, sends_headers=upstream.sends_headers) for each in offers]
        for each, problem in zip(offers, why, strict=True):
            if problem:
                self._note(f"the tool {each.server}/{shown(each.name)} is left out: {problem}")
        return [each for each, problem in zip(offers, why, strict=True) if not problem]

    def _learnt(self, kind: str, server: str, opened: int, found: dict[str, Offer]) -> dict[str, Offer]:
        self._known[kind, server] = (opened, found)
        if kind == "resources":
            for uri in [uri for uri, owner in self._owners.items() if owner == server and uri not in found]:
                del self._owners[uri]
            for uri in found:
                self._owners.setdefault(uri, server)
        return found

    async def _pinned(self, server: str, offers: "list[Offer]") -> "list[Offer]":
        """Return the tools whose definition is approved; what has changed is hidden until somebody has looked at it."""
        for key in [key for key in self._changed if key[0] == server]:
            del self._changed[key]
        pins = self._pins()
        if pins is None:
            return offers
        by_name = {id(each.tree): each for each in offers}
        found = await asyncio.to_thread(pins.sort, server, [each.tree for each in offers])  # it may wait for a file
        for changed in found.hidden:
            self._changed[server, changed.name] = changed.id
            where = f"{server}/{shown(changed.name)}"
            self._note(f"the definition of {where} has changed, so it is hidden: `byleave approvals list` shows it")
        if found.left_out:
            first, more = found.left_out[0], len(found.left_out) - 1
            others = f", and {more} more" if more else ""
            self._note(f"tools of {server} are left out: {shown(first.name)} ({first.why}){others}")
        return [by_name[id(tree)] for tree in found.shown]

    async def tool(self, server: str, name: str) -> Offer | None:
        """Return a tool as it was listed last over this connection; listed now, if it never was."""
        offer = (await self._last("tools", server)).get(name)
        pins = self._pins()
        if pins is None or server == LOCAL or (offer is not None and pins.approves(server, name, self._hash(offer))):
            return offer
        return (await self._fresh("tools", server)).get(name)  # somebody may have approved it, or revoked that

    def _hash(self, offer: Offer) -> str:
        """Return what a tool is pinned by; made once for what was listed last."""
        known = self._hashes.get((offer.server, offer.name))
        if known is None or known[0] is not offer.tree:
            known = self._hashes[offer.server, offer.name] = offer.tree, pinned_hash(offer.tree)
        return known[1]

    def is_late(self, server: str) -> bool:
        """Whether a list was made without this server, because it took too long; that is forgotten with this."""
        return self._late.pop(server, None) is not None

    def _patience(self, server: str) -> "asyncio.Timeout":
        """Return how long a server is waited for: one that has just said nothing for long, hardly any more."""
        quiet = monotonic() < self._late.get(server, 0.0) and not self._reach(server).is_up
        return asyncio.timeout(HARDLY if quiet else PATIENCE)

    @property
    def hidden(self) -> "list[tuple[str, str]]":
        """The tools, by server, whose definition nobody has approved."""
        return list(self._changed)

    def changed_of(self, server: str) -> "dict[str, str]":
        """Return the tools of a server whose definition nobody has approved, each with the id of what to approve."""
        return {name: id_ for (owner, name), id_ in self._changed.items() if owner == server}

    def is_changed(self, server: str, name: str) -> bool:
        """Whether a tool is hidden because its definition has changed."""
        return (server, name) in self._changed

    async def _last(self, kind: str, server: str) -> dict[str, Offer]:
        if server == LOCAL:
            return await self._fresh(kind, server)
        known = self._known.get((kind, server))
        if known is not None and not self._keeps(server):
            return known[1]
        upstream = self._reach(server)
        await upstream.ready()
        if known is not None and known[0] == upstream.opened:
            return known[1]
        return await self._fresh(kind, server)

    def forget(self, server: str) -> None:
        """Have everything of a server listed anew before it is relied on."""
        for key in [key for key in self._known if key[1] == server]:
            del self._known[key]

    def forget_all(self) -> None:
        """Have everything listed anew."""
        self._known.clear()

    async def find(self, kind: str, flat: str, sight: "Sight") -> tuple[str, str] | None:
        """Return server and own name of what a client calls `flat`; None if it cannot be anything here."""
        split = split_name(flat)
        if not may_be_cut(flat):
            return split
        candidates = [split[0]] if split is not None and split[0] in sight.servers() else sight.servers()
        for server in candidates:
            try:
                async with self._patience(server):
                    offers = await self._last(kind, server)
            except (DownError, TimeoutError):
                continue
            for name in offers:
                if flat_name(server, name) == flat:
                    return server, name
        return split

    async def owner(self, uri: str, sight: "Sight") -> "Owner":
        """Return the server that a resource belongs to: which lists it, or whose template it fits, or the only one.

        Where several might be meant, nobody is: a server must not come by another's requests.
        """
        servers = [server for server in sight.servers() if server != LOCAL]
        known = [server for server in servers if uri in self._known_by(server)]
        if known and self._owners.get(uri) in known:
            return _only(known, is_listed=True)
        found = await asyncio.gather(*(self._claims(server, uri) for server in servers))
        by_claim = {
            claim: [server for server, each in zip(servers, found, strict=True) if each == claim] for claim in found
        }
        if self._owners.get(uri) in by_claim.get(SILENT, []):
            return Owner(None, problem="its server cannot be reached now")
        if by_claim.get(LISTS):
            return _only(by_claim[LISTS], is_listed=True)
        odd = oddity(uri)
        if odd:
            return Owner(None, problem=f"this is not how the URI is plainly written: {odd}")
        if by_claim.get(FITS):
            return _only(by_claim[FITS])
        return Owner(None) if by_claim.get(SILENT) else _only(by_claim.get(ABLE, []))

    def _known_by(self, server: str) -> dict[str, Offer]:
        """Return the resources that a server has listed, as far as that was over the connection that there is."""
        known = self._known.get(("resources", server))
        return known[1] if known is not None and known[0] == self._reach(server).opened else {}

    async def _claims(self, server: str, uri: str) -> str:
        """Return what a server has to do with a URI."""
        try:
            async with self._patience(server):
                listed = await self._last("resources", server)
                templates = await self._last("templates", server)
        except TimeoutError:
            self._late[server] = monotonic() + QUIET
            return SILENT
        except DownError:
            return SILENT
        if uri in listed or uri in templates or self._shows_as_app(server, uri):
            return LISTS
        if any(start and uri.startswith(start) for start in map(_literal, templates)):
            return FITS
        return ABLE if self._reach(server).abilities.get("resources") is not None else NOTHING

    def _shows_as_app(self, server: str, uri: str) -> bool:
        """Whether a tool that a server has listed names a resource as what shows its results (MCP Apps)."""
        known = self._known.get(("tools", server))
        return known is not None and any(app_of(offer.tree) == uri for offer in known[1].values())


LISTS, FITS, ABLE, SILENT, NOTHING = "lists", "fits", "able", "silent", "nothing"


class Owner(Record):
    """Whose a resource is; or nobody's, and why, if there is more to say than that it is not there."""

    server: str | None
    problem: str = ""


def _only(servers: "list[str]", *, is_listed: bool = False) -> Owner:
    if len(servers) == 1:
        return Owner(servers[0])
    return Owner(None, problem=f"{' and '.join(sorted(servers))} both offer it" if is_listed else "")


def _is_seen(sight: "Sight", kind: str, offer: Offer) -> bool:
    if kind == "tools":
        return sight.shows_tool(offer.server, offer.name)
    return sight.shows(offer.server, "prompts" if kind == "prompts" else "resources", offer.name)


def _literal(template: str) -> str:
    return template.partition("{")[0]


async def _all_pages(upstream: "Upstream", kind: Kind) -> "tuple[list[Offer], int]":
    """Return everything of one kind that a server lists, and how much of it cannot be read."""
    if upstream.abilities.get(kind.ability) is None:
        return [], 0
    offers: list[Offer] = []
    unread = 0
    params: dict[str, Any] = {}
    seen: set[bytes] = set()
    for _ in range(MOST_PAGES):
        try:
            page = await upstream.answer(kind.method, params)
        except NoMethodError:
            if kind.field == "tools" or params:
                raise
            return [], 0  # many a server that has resources knows nothing of templates
        found, wrong = _offers_on(page.get(kind.field), upstream.name, kind)
        offers += found
        unread += wrong
        cursor = page.get("nextCursor")
        if cursor is None or text_of(cursor) is None or len(offers) > MOST_OFFERS or bytes(cursor) in seen:
            break
        seen.add(bytes(cursor))
        params = {"cursor": cursor}
    return offers[:MOST_OFFERS], unread


def _offers_on(page: "Any", server: str, kind: Kind) -> "tuple[list[Offer], int]":
    listed = elements_of(page)
    trees = [None if each is None else decoded(each) for each in listed]
    fitting = [shaped(kind.field, tree) for tree in trees if isinstance(tree, dict)]
    offers = [Offer(server, tree[kind.key], tree) for tree in fitting if tree is not None and tree.get(kind.key)]
    return offers, len(listed) - len(offers)
