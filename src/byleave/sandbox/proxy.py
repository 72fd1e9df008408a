"""The way out of a sandbox: an HTTP proxy that asks the policy about every request.

A sandboxed program has no network but a listener, whose connections are served here, in a thread of the host process
with an event loop of its own. What is judged: every request of plain http by its whole URL, every tunnel by host and
port (TLS hides the rest), and every address before it is dialled.

Start at `Proxy`. One connection: visit. What may pass: gate.
"""

import asyncio
from contextlib import suppress
from functools import partial
from threading import Thread

from byleave.sandbox.exchange import Limits
from byleave.sandbox.gate import Gate, Judgement
from byleave.sandbox.streams import Stream, readable
from byleave.sandbox.visit import Visit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from byleave.sandbox.gate import HasPaths, Judge, Resolve, Settle, Told

__all__ = ["Judgement", "Limits", "Proxy"]

PAUSE = 0.1  # seconds after a connection could not be accepted: file descriptors may be free again


class Proxy:
    """Serves one sandbox. Start it with the listener; close it when the sandbox is gone.

    `judge` answers for a URL, which never has a user name, password, query or fragment. `has_paths` says whether any
    rule for a host has a path prefix. `told` hears of every judgement, and of a tunnel that was closed after all
    because of what came through it. All are called in the proxy's own thread, one at a time, and should not wait for
    anything; an exception from them is a denial. `resolve` finds the addresses of a host instead of the system.
    `settle` records what came of a request: a refusal of the proxy's own with its reason, else what the policy says.
    With it, `judge` is given the method, too, and records nothing.
    `ech` admits TLS greetings with an encrypted part (browsers send them always), although it can hide another name.
    """

    def __init__(
        self,
        judge: "Judge",
        has_paths: "HasPaths",
        *,
        told: "Told | None" = None,
        resolve: "Resolve | None" = None,
        limits: Limits = Limits(),  # noqa: B008 -- a value, never changed
        ech: bool = False,
        settle: "Settle | None" = None,
    ) -> None:
        self._gate = Gate(judge, has_paths, told, resolve, limits.connect, settle=settle)
        self._limits = limits
        self._ech = ech
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._over = asyncio.Event()

    def start(self, listener: "socket.socket") -> None:
        """Serve what connects to `listener`, which belongs to the proxy from now on. Returns at once."""
        if self._thread is not None:
            raise RuntimeError("a proxy serves one sandbox, once")
        listener.setblocking(False)
        listener.set_inheritable(False)  # it may come from another process, which says nothing about ours
        self._loop = asyncio.new_event_loop()
        self._loop.set_debug(False)
        self._loop.set_exception_handler(_keep_quiet)
        self._thread = Thread(target=self._run, args=(self._loop, listener), name="byleave-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End every connection and the thread. A second call does nothing."""
        if self._loop is None or self._thread is None:
            return
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop, listener: "socket.socket") -> None:
        try:
            loop.run_until_complete(self._serve(listener))
        finally:
            listener.close()
            loop.close()

    async def _serve(self, listener: "socket.socket") -> None:
        visits: set[asyncio.Task[None]] = set()
        accepting = asyncio.create_task(self._accept(listener, visits))
        await self._over.wait()
        accepting.cancel()
        await asyncio.wait([accepting])
        while visits:  # again and again: one that fails in the same moment does not notice
            for visit in visits:
                visit.cancel()
            await asyncio.wait(visits, timeout=PAUSE)

    async def _accept(self, listener: "socket.socket", visits: "set[asyncio.Task[None]]") -> None:
        """Take connections while there is room for them; the others wait in the kernel."""
        room = asyncio.Semaphore(self._limits.connections)
        while True:
            await room.acquire()
            connection = await _accepted(listener)
            visit = asyncio.create_task(self._visit(connection))
            visits.add(visit)
            visit.add_done_callback(partial(_left, connection, room, visits))

    async def _visit(self, connection: "socket.socket") -> None:
        """Serve one client. Nothing that goes wrong with it reaches the others: its connection breaks, no more."""
        client = Stream(connection)
        try:
            await Visit(client, self._gate, self._limits, ech=self._ech).serve()
        except Exception:  # noqa: BLE001 -- the outermost loop of a server: what we cannot answer is not passed on
            client.abort()


def _left(
    connection: "socket.socket", room: asyncio.Semaphore, visits: "set[asyncio.Task[None]]", visit: "asyncio.Task[None]"
) -> None:
    """Clean up after a visit, also after one that was cancelled before it began."""
    connection.close()
    visits.discard(visit)
    room.release()


async def _accepted(listener: "socket.socket") -> "socket.socket":
    while True:
        await readable(listener)
        try:
            connection, _address = listener.accept()
        except BlockingIOError:
            continue
        except OSError:
            await asyncio.sleep(PAUSE)
        else:
            return connection


def _keep_quiet(_loop: asyncio.AbstractEventLoop, _context: dict[str, object]) -> None:
    """Nothing is printed: what goes wrong is answered to the client."""
