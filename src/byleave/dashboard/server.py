"""The dashboard's side of HTTP: who calls, which page or JSON is meant, and the response.

    GET  /  /live  /approvals  /activity  /policy  /try      pages
    GET  /api/pending  /api/decisions  /api/summary          JSON
    GET  /api/lint  /api/reach                               JSON that takes a while to work out
    POST /api/pending/ID  /api/try                           JSON; the only requests that change something

Requests are read by the gateway's own HTTP server (`net.http_server`). Every one is checked before it is answered: the
owner of its socket, `Host`, `Origin`, the cookie (`access`), and that the process which signed in holds the socket.
What takes longer than a moment is done in one thread, so that pages and answers never see each other half done; what
takes seconds, in another one.

Start at `serve_dashboard`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import parse_qs
from weakref import WeakKeyDictionary

import msgspec

from byleave.dashboard import pages
from byleave.dashboard.access import Access
from byleave.dashboard.content import Content
from byleave.dashboard.pending import CHOICES, Refusal
from byleave.dashboard.socket_holders import holders_of, holds
from byleave.errors import ByleaveError, ConfigErrors, InputError, StateError
from byleave.net.http_admission import ServerLimits
from byleave.net.http_server import HttpServer
from byleave.net.http_server_exchange import BadRequest, ServerExchange, ServerRequestHead
from byleave.store.questions import PENDING, OpenView
from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from byleave.dashboard.access import SignedIn
    from byleave.dashboard.machine import Machine
    from byleave.net.http_server_exchange import CallerConnection, Work
    from byleave.net.peers import PeerAddress

    Exchange = ServerExchange[ServerRequestHead]
    Query = dict[str, str]
    Reply = tuple[int, bytes, str]

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SECURE = (
    f"Content-Security-Policy: {_CSP}\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\n"
).encode()
_ASSETS = {
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_SEEN_SECONDS = 180.0  # after a request for which questions are held for the dashboard: hidden tabs ask once a minute
_LOOKING_SECONDS = 5.0  # after a request, a page is open and looks by itself
_LIMITS = ServerLimits(connections=128, per_peer=128, per_caller=96, body_bytes=1 << 18, idle=120.0)
_MOST_TRIES = 16  # random addresses, before the usual one is taken
_MOST_FIELDS = 32  # of a query


class AnswerBody(msgspec.Struct, forbid_unknown_fields=True):
    """What a page sends to answer a question."""

    answer: str
    reason: str = ""
    rule: str | None = None
    seen: str | None = None


class Dashboard:
    """The application that the HTTP server serves."""

    def __init__(self, machine: Machine, clock: Callable[[], float] = time.monotonic) -> None:
        self._content = Content(machine)
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "byleave-dashboard")
        self._view = OpenView(machine.homes.state)
        self._seen_at = clock()
        self._looked_at: float | None = None  # when a page last asked for something
        self._announced: set[str] = set()
        self._busy = threading.Lock()  # one piece of work that takes long at a time
        self._assets = {
            path: (files("byleave.dashboard").joinpath("assets", name).read_bytes(), kind)
            for path, (name, kind) in _ASSETS.items()
        }
        self.access = Access("", 0, clock)
        # Whose cookie a connection may carry: looked up once for each connection.
        self._proven: WeakKeyDictionary[CallerConnection, SignedIn] = WeakKeyDictionary()

    def open_at(self, address: PeerAddress) -> None:
        """Begin to answer at an address; from now on questions are held for us."""
        self.access = Access(address.host, address.port, self._clock)
        self._seen_at = self._clock()
        self._view.enter()
        self._thread.submit(self._content.count)

    def close(self) -> None:
        """Hold no more questions."""
        self._view.leave()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def news(self) -> str:
        """Return what a notification says about questions that are new, and that no page has shown; else nothing.

        An open page has notifications of its own. Nothing of what is asked is in it: others may see the screen.
        """
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._thread, self._content.pending.trees)
        waiting = {each["id"]: each["view"] for each in found if each["status"] == PENDING}
        new = [view for id_, view in waiting.items() if id_ not in self._announced]
        self._announced = set(waiting)
        is_looking = self._looked_at is not None and self._clock() - self._looked_at < _LOOKING_SECONDS
        if not new or is_looking:
            return ""
        return str(new[0]["notice"]) if len(new) == 1 else f"{len(new)} questions wait for you"

    # What the HTTP server needs

    def read_head(self, head: ServerRequestHead, repeated: Sequence[str]) -> ServerRequestHead | BadRequest:
        """Refuse what could be read in two ways."""
        if any(name.lower() in ("cookie", "x-byleave-token") for name in repeated):
            return BadRequest("a header appears more than once")
        return head

    def admit(self, connection: CallerConnection) -> BadRequest | None:
        """Turn other users of this machine away."""
        owner = connection.owner
        if connection.is_ours and owner is not None and owner.uid == os.geteuid():
            return None
        return BadRequest("this dashboard is another user's", status=403)

    def screen(self, exchange: Exchange, _length: int | None) -> None:
        """Refuse a request before its body is read."""
        self._refuse_strangers(exchange)

    def handle(self, exchange: Exchange) -> Work | None:
        """Reply to a request, or return the work that does."""
        head = exchange.head
        if head.method == "GET" and head.path == "/" and "token=" in head.query:
            self._sign_in(exchange)
            return None
        if self._refuse_strangers(exchange) is None:
            return None
        exchange.connection.belongs_to("browser")
        self._seen_at = self._looked_at = self._clock()
        self._view.enter()
        if head.path in self._assets:
            if head.method != "GET":
                self._error(exchange, 405, "only GET is known here")
                return None
            content, kind = self._assets[head.path]
            _send(exchange, 200, content, kind)
            return None
        return lambda: self._respond(exchange)

    def error_parts(self, problem: BadRequest, _id: bytes) -> Sequence[bytes]:
        """Return the body of an error of the server's own."""
        return (msgspec.json.encode({"error": problem.problem}),)

    def failure(self) -> BadRequest:
        """Return what a page gets when we failed."""
        return BadRequest("the dashboard failed; the terminal that it was started in may say more", status=500)

    def refused(self, problem: BadRequest) -> None:
        """Nothing is kept of refused requests."""

    def tick(self, _now: float) -> None:
        """Have no question held for a dashboard that no browser looks at any more."""
        if self._clock() - self._seen_at > _SEEN_SECONDS:
            self._view.leave()

    # Who calls

    def _sign_in(self, exchange: Exchange) -> None:
        """Give a browser its cookie for a token, and take the token out of its address."""
        head, inode = exchange.head, _inode(exchange.connection)
        problem = self.access.problem_of("GET", head.fields)
        cookie = None if problem else self.access.redeem(head.query, lambda: holders_of(inode))
        if cookie is None:
            known = None if problem else self.access.signed_in(head.fields)
            if known is not None and self._is_same(exchange.connection, known):  # the same address once more
                exchange.reply(303, fields=_SECURE + b"Location: /\r\n")
                return
            self._unauthorized(exchange, problem)
            return
        exchange.connection.belongs_to("browser")
        exchange.reply(303, fields=_SECURE + f"Location: /\r\nSet-Cookie: {cookie}\r\n".encode())

    def _refuse_strangers(self, exchange: Exchange) -> SignedIn | None:
        """Return the browser that a request comes from; one of any other program is refused here."""
        head = exchange.head
        known = self.access.signed_in(head.fields)
        if known is None:
            self._unauthorized(exchange, "")
            return None
        if not self._is_same(exchange.connection, known):
            self._unauthorized(exchange, _ANOTHER)
            return None
        problem = self.access.problem_of(head.method, head.fields, known.token)
        if problem:
            self._error(exchange, 403, problem)
            return None
        return known

    def _is_same(self, connection: CallerConnection, known: SignedIn) -> bool:
        """Whether a connection is of the process that signed in, as far as that one is known."""
        if not known.processes or self._proven.get(connection) is known:
            return True
        inode = _inode(connection)
        if not any(holds(each, inode) for each in known.processes):
            return False
        self._proven[connection] = known
        return True

    def _unauthorized(self, exchange: Exchange, problem: str) -> None:
        if exchange.head.path.startswith("/api/"):
            self._error(exchange, 401, problem or "open the address that `byleave dashboard` prints")
        else:
            _send(exchange, 401, pages.signed_out(problem).encode(), _HTML)

    def _error(self, exchange: Exchange, status: int, problem: str) -> None:
        _send(exchange, status, msgspec.json.encode({"error": problem}), _JSON)

    # What is meant

    async def _respond(self, exchange: Exchange) -> None:
        head = exchange.head
        known = _ROUTES.get(head.path) or (("POST", Dashboard._answer) if head.path.startswith(_ONE) else None)
        if known is None:
            self._error(exchange, 404, "there is no such page")
            return
        method, serve = known
        if head.method != method:
            self._error(exchange, 405, f"only {method} is known here")
            return
        loop = asyncio.get_running_loop()
        try:
            made = await loop.run_in_executor(self._thread, serve, self, exchange)
            status, content, kind = _json(await self._aside(made)) if callable(made) else made
        except (ByleaveError, ConfigErrors) as error:
            status, content, kind = _refusal(400 if isinstance(error, InputError) else 500, shown_lines(str(error)))
        fields = _SECURE + f"Content-Type: {kind}\r\n".encode()
        await exchange.answer(status, content, fields=fields)

    async def _aside(self, work: Callable[[], Any]) -> Any:
        """Do what takes long in a thread that no page waits for, and that does not keep the dashboard from ending."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, problem: Exception | None) -> None:
            if done.done():
                return
            if problem is None:
                done.set_result(result)
            else:
                done.set_exception(problem)

        def run() -> None:
            result, problem = None, None
            try:
                with self._busy:
                    result = work()
            except Exception as error:  # noqa: BLE001 -- raised again in the loop
                problem = error
            with contextlib.suppress(RuntimeError):  # the dashboard has ended meanwhile
                loop.call_soon_threadsafe(settle, result, problem)

        threading.Thread(target=run, name="byleave-findings", daemon=True).start()
        return await done

    def _page(self, exchange: Exchange) -> tuple[int, bytes, str]:
        query = _query(exchange.head.query)
        made = self._content.page(exchange.head.path, query)
        known = self.access.signed_in(exchange.head.fields)
        token = known.page_token() if known is not None else ""
        keep = known is not None and not known.processes
        nav = pages.Frame(token, exchange.head.path, query, made.workspaces, made.chosen, keep)
        return made.status, pages.page(nav, made.title, made.body).encode("utf-8", "backslashreplace"), _HTML

    def _pending(self, _exchange: Exchange) -> tuple[int, bytes, str]:
        found = self._content.pending.listed()
        return _json({"pending": found.pending, "left_out": found.left_out})

    def _decisions(self, exchange: Exchange) -> tuple[int, bytes, str]:
        query = _query(exchange.head.query)
        after = query.get("after", "0")
        if not after.isascii() or not after.isdigit() or len(after) > 18:
            return _refusal(400, "after is the sequence of a record")
        return _json(self._content.decisions(query, int(after)))

    def _summary(self, exchange: Exchange) -> tuple[int, bytes, str]:
        return _json(self._content.summary(_query(exchange.head.query)))

    def _lint(self, exchange: Exchange) -> Callable[[], Any]:
        return self._content.lint(_query(exchange.head.query))

    def _reach(self, exchange: Exchange) -> Callable[[], Any]:
        return self._content.reach(_query(exchange.head.query))

    def _answer(self, exchange: Exchange) -> tuple[int, bytes, str]:
        try:
            body = msgspec.json.decode(exchange.body, type=AnswerBody)
        except msgspec.MsgspecError as error:
            return _refusal(400, f"the body is not an answer: {shown(str(error))}")
        if body.answer not in CHOICES:
            return _refusal(400, f"the answer is one of {', '.join(CHOICES)}")
        id_ = exchange.head.path.removeprefix(_ONE)
        pending = self._content.pending
        refused = pending.answer(id_, body.answer, reason=body.reason, rule=body.rule, seen=body.seen)
        if isinstance(refused, Refusal):
            return _refusal(refused.status, refused.problem)
        return _json({"id": id_, "answer": body.answer})

    def _try(self, exchange: Exchange) -> tuple[int, bytes, str]:
        try:
            action = msgspec.json.decode(exchange.body, type=dict[str, object])
        except (msgspec.MsgspecError, RecursionError):
            return _refusal(400, "the body is not an action")
        return _json(self._content.try_action(action, _query(exchange.head.query)))


_ANOTHER = "This sign-in belongs to another program. To sign in here, run `byleave dashboard` and open what it prints."
_HTML, _JSON = "text/html; charset=utf-8", "application/json"
_ONE = "/api/pending/"
_ROUTES: dict[str, tuple[str, Callable[[Dashboard, Exchange], Reply | Callable[[], Any]]]] = {
    **dict.fromkeys(pages.PATHS, ("GET", Dashboard._page)),  # noqa: SLF001 -- a table of our own methods
    "/api/pending": ("GET", Dashboard._pending),  # noqa: SLF001
    "/api/decisions": ("GET", Dashboard._decisions),  # noqa: SLF001
    "/api/summary": ("GET", Dashboard._summary),  # noqa: SLF001
    "/api/lint": ("GET", Dashboard._lint),  # noqa: SLF001
    "/api/reach": ("GET", Dashboard._reach),  # noqa: SLF001
    "/api/try": ("POST", Dashboard._try),  # noqa: SLF001
}


def _inode(connection: CallerConnection) -> int:
    """Return the number of the socket at the other end; 0 if it is not known."""
    return 0 if connection.owner is None else connection.owner.inode


def _query(text: str) -> Query:
    """Return the fields of a query; of several with one name, the first. An InputError if there are too many."""
    try:
        found = parse_qs(text, max_num_fields=_MOST_FIELDS, errors="replace")
    except ValueError:
        raise InputError("the query has too many fields", hint=f"write at most {_MOST_FIELDS}") from None
    return {name: values[0] for name, values in found.items()}


def _json(tree: Any) -> tuple[int, bytes, str]:
    return 200, msgspec.json.encode(tree), _JSON


def _refusal(status: int, problem: str) -> tuple[int, bytes, str]:
    return status, msgspec.json.encode({"error": problem}), _JSON


def _send(exchange: Exchange, status: int, content: bytes, kind: str) -> None:
    exchange.reply(status, content, fields=_SECURE + f"Content-Type: {kind}\r\n".encode())


async def serve_dashboard(
    dashboard: Dashboard, port: int, warn: Callable[[str], None]
) -> HttpServer[ServerRequestHead]:
    """Listen on a random address of loopback where there are some, else on 127.0.0.1; an InputError if none is free."""
    server: HttpServer[ServerRequestHead] = HttpServer(dashboard, _LIMITS, warn)
    server.limit(_LIMITS)
    for host in [*_random_addresses(), "127.0.0.1"]:
        try:
            await server.listen(host, port)
        except OSError:
            continue
        dashboard.open_at(server.addresses[0])
        return server
    if port:
        raise InputError(f"port {port} cannot be listened at", hint="choose another one, or leave --port out")
    raise StateError("no address of this machine can be listened at", hint="is there a loopback interface?")


def _random_addresses() -> list[str]:
    """Return some addresses of 127.0.0.0/8 that this machine has: no cookie is sent from one to another."""
    found = []
    for _ in range(_MOST_TRIES):
        host = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind((host, 0))
            found.append(host)
        if len(found) == 3:
            break
    return found
