"""What servers want of the client, and what we do: samples, forms, roots. Who asks is said, and who may is narrowed.

A client with a session is sent a request and answers it. A stateless one gets its call back with the questions in it,
and calls again with the answers: that is the business of `calling`; here a question is only labelled and checked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import Raw

from byleave.gateway.message import decoded, encode, error_tree, members_of, notification, request, text_of
from byleave.gateway.redact import without_escapes
from byleave.gateway.server_info import passed_extensions
from byleave.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.gateway.interfaces import Sink
    from byleave.gateway.message import ClientMessage, Members
    from byleave.gateway.server_requests import ServerQuestion
    from byleave.gateway.upstream import Upstream

    Take = Callable[[ClientMessage | None], None]  # None: there will be no answer

WANTS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
SERVER_KEY = "byleave/server"
_MOST_OPEN = 8  # questions of one server that a client has not answered


def narrowed(capabilities: Mapping[str, Any], may: tuple[str, ...] | None) -> dict[str, Any]:
    """Return the client's capabilities as a server may use them: what it may want, and what both may understand."""
    usable = WANTS.values() if may is None else [each for each in WANTS.values() if each in may]
    wanted = {name: capabilities[name] for name in usable if isinstance(capabilities.get(name), dict)}
    extensions = passed_extensions(capabilities.get("extensions"))
    return {**wanted, "extensions": extensions} if extensions else wanted


def refusal(method: str, capabilities: Mapping[str, Any], server: str) -> bytes | None:
    """Return the error for a wish that the server may not have, or that the client cannot fulfil; None if it can."""
    wanted = WANTS.get(method)
    if wanted is None:
        return error_tree(METHOD_NOT_FOUND, f"byleave does not pass on {shown(method)} of the server {quoted(server)}")
    if wanted in capabilities:
        return None
    why = f"this client does not offer {wanted}, or the server {quoted(server)} may not ask for it"
    return error_tree(INVALID_REQUEST, why)


def labelled(server: str, method: str, params: Raw | None) -> dict[str, Any]:
    """Return the parameters of a server's wish, with who asks: for programs in `_meta`, for people in the message.

    What people are shown of it holds nothing that would steer a terminal, and no line that could pass for another's.
    """
    found: dict[str, Any] = dict(members_of(params))
    found["_meta"] = {**members_of(found.get("_meta")), SERVER_KEY: server}
    clean = _CLEAN.get(method)
    if clean is not None:
        clean(found, server)
    return found


def _clean_form(found: dict[str, Any], server: str) -> None:
    first, *rest = (text_of(found.get("message")) or "").split("\n")
    rows = [f"[{server}] {without_escapes(first)}", *(f"| {without_escapes(line)}" for line in rest)]
    found["message"] = "\n".join(rows)
    for name in ("requestedSchema", "url"):
        if name in found:
            found[name] = _cleaned(decoded(found[name]), _SHOWN)


def _clean_sample(found: dict[str, Any], _server: str) -> None:
    found.pop("includeContext", None)  # to the client that would be the context of every server behind us
    for name in ("messages", "systemPrompt"):
        if name in found:
            found[name] = _cleaned(decoded(found[name]), _SAID)


_CLEAN: Mapping[str, Callable[[dict[str, Any], str], None]] = {
    "elicitation/create": _clean_form,
    "sampling/createMessage": _clean_sample,
}
_SHOWN = frozenset({"title", "description", "enumNames"})  # members of a form that people read; the rest is data
_SAID = frozenset({"text"})


def _cleaned(tree: Any, names: frozenset[str], *, shows: bool = True) -> Any:
    """Return a tree with clean texts where people read them: under some names, or where a text stands alone."""
    if isinstance(tree, str):
        return without_escapes(tree) if shows else tree
    if isinstance(tree, list):
        return [_cleaned(each, names, shows=shows and not isinstance(each, dict)) for each in tree]
    if isinstance(tree, dict):
        return {key: _cleaned(each, names, shows=key in names) for key, each in tree.items()}
    return tree


class ServerQuestions:
    """Requests that went to the client and are not answered yet, by the id under which it knows them."""

    def __init__(self) -> None:
        self._open: dict[bytes, Take] = {}
        self._ids: dict[tuple[Upstream, bytes], bytes] = {}
        self._tokens: dict[bytes, tuple[Upstream, Raw]] = {}
        self._count = 0

    async def put(self, sink: Sink, method: str, params: Mapping[str, Any]) -> ClientMessage | None:
        """Ask the client something of our own; None if it cannot answer."""
        done: asyncio.Future[ClientMessage | None] = asyncio.get_running_loop().create_future()

        def take(message: ClientMessage | None) -> None:
            if not done.done():
                done.set_result(message)

        id_ = self._begin(take)
        try:
            return await done if await sink.send(request(id_, method, params)) else None
        finally:
            self._open.pop(id_, None)

    async def pass_on(
        self, sink: Sink, upstream: Upstream, asked: ServerQuestion, capabilities: Mapping[str, Any]
    ) -> None:
        """Put a server's wish to the client; the answer goes back to the server by itself."""
        problem = refusal(asked.method, capabilities, upstream.name)
        if problem is None and sum(asker is upstream for asker, _id in self._ids) >= _MOST_OPEN:
            problem = error_tree(INVALID_REQUEST, "too many of your questions are not answered yet")
        if problem is not None:
            upstream.reply(asked.id, error=problem)
            return
        params = labelled(upstream.name, asked.method, asked.params)
        key, token = (upstream, bytes(asked.id)), params["_meta"].get("progressToken")

        def take(message: ClientMessage | None) -> None:
            self._tokens.pop(self._ids.pop(key, b""), None)
            give_back(upstream, asked.id, message)

        id_ = self._ids[key] = self._begin(take)
        if token is not None:  # two servers may use the same one
            self._tokens[id_] = upstream, token
            params["_meta"]["progressToken"] = Raw(id_)
        if not await sink.send(request(id_, asked.method, params)):
            self._take(id_, None)

    def _begin(self, take: Take) -> bytes:
        self._count += 1
        id_ = b'"byleave-%d"' % self._count
        self._open[id_] = take
        return id_

    def answered(self, message: ClientMessage) -> None:
        """Take an answer of the client's; one to nothing we asked is nobody's business."""
        id_ = message.id if message.id in self._open else encode(decoded(message.id))
        self._take(id_, message)

    def _take(self, id_: bytes, message: ClientMessage | None) -> None:
        take = self._open.pop(id_, None)
        if take is not None:
            take(message)

    def withdrawn(self, upstream: Upstream, params: Raw | None) -> bytes | None:
        """Return how the client is told that a server gave up a question; None if it never heard of it."""
        found = members_of(params)
        id_ = self._ids.pop((upstream, bytes(found.get("requestId", b""))), None)
        if id_ is None:
            return None
        self._open.pop(id_, None)
        return notification("notifications/cancelled", {**found, "requestId": Raw(id_)})

    def report(self, params: Members) -> None:
        """Tell the server that waits for it of the progress of which a client tells."""
        found = self._tokens.get(encode(decoded(params.get("progressToken", b"null"))))
        if found is not None:
            found[0].notify("notifications/progress", {**params, "progressToken": found[1]})

    def gone(self, upstream: Upstream) -> None:
        """Forget what a server wanted that is gone."""
        for key in [key for key in self._ids if key[0] is upstream]:
            self._open.pop(self._ids.pop(key), None)

    def close(self) -> None:
        """Tell everybody that there will be no answer."""
        for take in list(self._open.values()):
            take(None)
        self._open.clear()


def give_back(upstream: Upstream, id_: Raw, message: ClientMessage | None) -> None:
    """Hand a server the client's answer to its wish."""
    if message is None:
        upstream.reply(id_, error=error_tree(INVALID_REQUEST, "the client cannot be asked any more"))
    elif message.error is not None:
        upstream.reply(id_, error=message.error)
    else:
        upstream.reply(id_, result=message.answer or b"{}")
