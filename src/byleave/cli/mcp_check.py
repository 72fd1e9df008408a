"""`byleave mcp --check`: start every server once, and say what it offers, who would see it, what would confine it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.cli.output import paint, say, say_json
from byleave.core.action import LOCAL
from byleave.core.url import parse_url
from byleave.gateway.catalog import Visibility
from byleave.gateway.interfaces import Caller, DownError
from byleave.gateway.pins import HAS_CHANGED, hidden_characters, named_characters, rows
from byleave.gateway.server_listing import KINDS
from byleave.store.tool_definitions import INSTRUCTIONS
from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.gateway.gateway import Gateway
    from byleave.gateway.session import Session
    from byleave.policy.servers import ServerConfig

_UNNAMED = "(no agent named)"
_LABELS = {kind: each.what or kind for kind, each in KINDS.items()} | {INSTRUCTIONS: INSTRUCTIONS}
_CHANGED = "its definition has changed since it was approved"


class Hidden(Struct, frozen=True):
    """Something that is hidden because its definition is not approved."""

    kind: str  # as in KINDS, or instructions
    name: str
    why: str
    approval: str  # the id of what to approve


class Unseen(Struct, frozen=True):
    """A definition that holds characters which no reader sees."""

    kind: str
    name: str
    definition: str  # canonical JSON
    characters: tuple[str, ...]


class ServerCheck(Struct, frozen=True):
    """What one server said when it was started."""

    name: str
    problem: str = ""
    offers: Mapping[str, tuple[str, ...]] = {}
    unlisted: Mapping[str, str] = {}  # kinds that it does not list though it has them, each with why
    hidden: tuple[Hidden, ...] = ()
    unseen: tuple[Unseen, ...] = ()


async def check(given: ParsedArguments, gateway: Gateway) -> int:
    """Start every server once; the exit code is 1 if one of them cannot be used."""
    session = gateway.converse(Caller(None, "default", "check"))
    names = [name for name, server in gateway.servers.items() if server.enabled]
    found = await asyncio.gather(*(_found(session, name) for name in names))
    if gateway.guard.policy.compiled.tools:
        found.append(await _found(session, LOCAL))
    if given.flag("json"):
        say_json({"servers": [_tree(gateway, each) for each in found], "agents": _agents_tree(gateway, found)})
    else:
        for line in _lines(gateway, found):
            say(line)
    return 1 if not found or any(each.problem for each in found) else 0


async def _found(session: Session, name: str) -> ServerCheck:
    offers, unlisted = {}, {}
    unseen: list[Unseen] = []
    for kind in KINDS:
        try:
            offers[kind] = tuple(await session.catalog.all_of(kind, name))
            unseen += [each async for each in _unseen(session, kind, name)]
        except DownError as error:
            if kind == "tools" or not session.servers.is_up(name):
                return ServerCheck(name, f"{error.problem} ({error.hint})")
            unlisted[kind] = error.problem
    await session.info.instructions(name)
    hidden = [Hidden(kind, each.name, _why(each.why), each.id) for kind, each in session.catalog.hidden_of(name)]
    return ServerCheck(name, "", offers, unlisted, tuple(hidden), tuple(unseen))


def _why(why: str) -> str:
    return _CHANGED if why == HAS_CHANGED else f"its definition {why}"


async def _unseen(session: Session, kind: str, name: str) -> AsyncIterator[Unseen]:
    """Yield what a server lists with characters that no reader sees, approved or not."""
    for definition in (await session.catalog.catalog(kind, name)).definitions:
        found = hidden_characters(definition.text)
        if found:
            yield Unseen(kind, definition.tool, definition.text, tuple(named_characters(found)))


def _agents(gateway: Gateway) -> list[str | None]:
    compiled = gateway.guard.policy.compiled
    named = [name for layer in compiled.layers if layer.trusted for name in layer.tree.get("agents", {})]
    return [*dict.fromkeys(named), None]


def _seen(gateway: Gateway, agent: str | None, found: list[ServerCheck]) -> dict[str, list[str]]:
    view = Visibility(gateway.guard.policy, agent)
    reachable = view.servers()
    return {
        each.name: [tool for tool in each.offers.get("tools", ()) if view.shows_tool(each.name, tool)]
        for each in found
        if each.name in reachable and not each.problem
    }


def _agents_tree(gateway: Gateway, found: list[ServerCheck]) -> dict[str, Any]:
    return {agent or "": _seen(gateway, agent, found) for agent in _agents(gateway)}


def _tree(gateway: Gateway, found: ServerCheck) -> dict[str, Any]:
    server = gateway.servers.get(found.name)
    tree: dict[str, Any] = {"name": found.name, "ok": not found.problem}
    if found.problem:
        tree["problem"] = found.problem
    if server is not None and server.transport == "stdio":
        tree["access"] = None if server.has_access else "\n".join(_access(gateway, server))
    tree |= {kind: list(names) for kind, names in found.offers.items()}
    if found.unlisted:
        tree["unlisted"] = dict(found.unlisted)
    if found.hidden:
        tree["hidden"] = [
            {_LABELS[each.kind]: each.name, "why": each.why, "approval": each.approval} for each in found.hidden
        ]
    if found.unseen:
        tree["unseen"] = [
            {
                _LABELS[each.kind]: each.name,
                "characters": list(each.characters),
                "definition": json.loads(each.definition),
            }
            for each in found.unseen
        ]
    return tree


def _lines(gateway: Gateway, found: list[ServerCheck]) -> Iterator[str]:
    if not found:
        yield "there are no servers: write [servers.NAME] into byleave.toml, or trust a .mcp.json (`byleave trust`)"
    for each in found:
        yield from _server_lines(gateway, each)
    for agent in _agents(gateway) if found else ():
        yield paint(f"agent {shown(agent) if agent is not None else _UNNAMED}", "bold")
        seen = _seen(gateway, agent, found)
        for name, tools in seen.items():
            total = next(len(each.offers.get("tools", ())) for each in found if each.name == name)
            yield f"  {name}: {len(tools)} of {total} tools{_listed(tools) if tools else ''}"
        if not seen:
            yield "  sees no server"


def _named(kind: str) -> str:
    return "" if kind == "tools" else f"the {_LABELS[kind].replace('_', ' ')} "


def _listed(tools: list[str]) -> str:
    return f": {', '.join(shown(tool) for tool in tools)}"


def _server_lines(gateway: Gateway, found: ServerCheck) -> Iterator[str]:
    heading = paint(found.name, "bold")
    if found.problem:
        yield f"{heading}: {paint('cannot be used', 'red')}: {shown_lines(found.problem)}"
        return
    counts = [f"{len(names)} {kind}" for kind, names in found.offers.items() if names]
    yield f"{heading}: {', '.join(counts) or 'offers nothing'}"
    for kind, why in found.unlisted.items():
        yield f"  its {kind} cannot be listed: {shown_lines(why)}"
    for each in found.hidden:
        named = f"{_named(each.kind)}{shown(each.name)} is {paint('hidden', 'red')}"
        yield f"  {named}: {each.why}; see `byleave approvals approve {each.approval}`"
    for unseen in found.unseen:
        yield f"  {_named(unseen.kind)}{shown(unseen.name)} holds characters that are not seen:"
        yield from (f"    {character}" for character in unseen.characters)
        yield from (f"    | {row}" for row in rows(unseen.definition))
    server = gateway.servers.get(found.name)
    if server is not None and server.transport == "stdio" and not server.has_access:
        yield "  it has no access table; this one would confine it to what it has used now:"
        for line in _access(gateway, server):
            yield f"    {line}"


def _access(gateway: Gateway, server: ServerConfig) -> Iterator[str]:
    """Yield the table that confines a server to what it used while it was started."""
    yield f"[[servers.{server.name}.access.fs]]"
    yield 'path = "."'
    yield "read = true"
    for place in sorted(gateway.visited.get(server.tool, ())):
        target = parse_url(place)
        yield f"[[servers.{server.name}.access.net]]"
        yield f'host = "{shown(getattr(target, "host", ""))}"'
        yield f'scheme = "{shown(getattr(target, "scheme", ""))}"'
        yield "allow = true"
