"""What a client is told of the servers at its beginning: their instructions, and the extensions that they know.

Only of servers that the caller may see. What a server says of itself is known once it was opened, and remembered. Those
that were never opened are opened now, where the gateway gives them time for it; what is not known by then is left out.

Start at `introduce`.
"""

from __future__ import annotations

import asyncio
import re
from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.action import LOCAL
from byleave.gateway.interfaces import DownError
from byleave.gateway.pins import hidden_characters, text_of_tree
from byleave.gateway.redact import without_escapes
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.gateway.client_request import ClientRequest
    from byleave.gateway.session import Session

WELCOME_TIME = 10.0  # seconds that a client can be kept waiting while servers start
QUIET = 60.0  # seconds for which nobody waits for a server that has said nothing in that time
CAPABILITIES: Mapping[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}
_LONGEST = 4000  # characters about the gateway, and as many of each server's own, or of an extension
_LONGEST_OF_ALL = 20_000
_MOST_EXTENSIONS = 16  # of one server
_MARK = re.compile(r"<(\s*/?\s*server)", re.IGNORECASE)  # what stands before and behind the words of each server
# Extensions that are more than a way to read what passes anyhow: they have methods of their own, which are not passed.
_NOT_PASSED = frozenset({"io.modelcontextprotocol/tasks"})


async def introduce(session: Session, exchange: ClientRequest) -> dict[str, Any]:
    """Return what a client is told of us and of the servers: `capabilities` and `instructions`."""
    names = session.sight(exchange.who).servers()
    if session.gateway.welcome_time and session.settings.expose != "discovery":
        await _open_unknown(session, names)
    said = {name: known for name in names if (known := session.gateway.introduction_of(name)) is not None}
    words = {name: own_words(await session.offers.instructions(name, known)) for name, known in said.items()}
    extensions: dict[str, Any] = {}
    for name, each in said.items():
        for number, (key, value) in enumerate(passed_extensions(each.extensions).items()):
            if number < _MOST_EXTENSIONS and _is_plain(key, value):
                extensions[key] = {**value, **extensions.get(key, {})}
            else:
                session.gateway.note(f"{name} declares extensions that are long, many, or not plain: they are left out")
                break
    more = {"extensions": extensions} if extensions else {}
    return {"capabilities": {**CAPABILITIES, **more}, "instructions": _instructions(session, names, words)}


async def _open_unknown(session: Session, names: list[str]) -> None:
    """Open the servers of which nothing is known yet, for as long as the client can be kept waiting."""
    gateway, now = session.gateway, monotonic()
    unknown = [name for name in names if name != LOCAL and gateway.introduction_of(name) is None]
    waited_for = [name for name in unknown if gateway.silent_until.get(name, 0.0) < now]
    if waited_for:
        loop = asyncio.get_running_loop()
        tasks = {loop.create_task(_opened(session, name)): name for name in waited_for}
        try:
            _done, late = await asyncio.wait(tasks, timeout=gateway.welcome_time)
        finally:
            for task in tasks:
                task.cancel()  # those who start go on to start
        gateway.silent_until |= {tasks[task]: now + QUIET for task in late}


async def _opened(session: Session, name: str) -> None:
    try:
        await session.reach(name).ready()
    except DownError:
        return


def passed_extensions(extensions: Any) -> dict[str, dict[str, Any]]:
    """Return the extensions that work through the gateway, of those that one side declares."""
    if not isinstance(extensions, dict):
        return {}
    return {key: value for key, value in extensions.items() if key not in _NOT_PASSED and isinstance(value, dict)}


def _is_plain(key: str, value: Mapping[str, Any]) -> bool:
    """Whether an extension that a server declares may go to every client, though no person has approved it."""
    try:
        text = text_of_tree({key: value})
    except (ValueError, TypeError, RecursionError):
        return False
    return len(text) <= _LONGEST and not hidden_characters(text)


def _instructions(session: Session, names: list[str], said: Mapping[str, str]) -> str:
    """Return what a model should know: which servers there are, how their tools are called, what each says itself."""
    rows = ["byleave stands before these MCP servers; a policy says which of their tools may be called."]
    for name in names:
        server = session.servers.get(name)
        rows.append(
            f"- {name}: {shown(server.description)}" if server is not None and server.description else f"- {name}"
        )
    if session.settings.expose != "discovery":
        rows.append("A tool is named SERVER__TOOL.")
    if session.settings.expose != "flat":
        rows.append("list_servers, get_server_tools and execute_tool find tools and call them.")
    parts = ["\n".join(rows)[:_LONGEST]]
    if session.settings.expose != "discovery":
        parts += [f'<server name="{name}">\n{words}\n</server>' for name, words in said.items() if words]
    return "\n".join(parts)[:_LONGEST_OF_ALL]


def own_words(instructions: str) -> str:
    """Return instructions as models read them: without what steers a terminal, and what could pass for another's."""
    return _MARK.sub(r"< \1", without_escapes(instructions[:_LONGEST]).strip())
