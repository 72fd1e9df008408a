"""`byleave mcp --http ADDRESS --workers N`: one parent, and N processes that serve behind one port.

The parent serves nothing. It holds the port, without listening, starts the workers by forking, starts another in place
of one that ended (after a while, if that one did not live long), passes signals on, and waits until all have ended. A
worker listens at the port by itself (SO_REUSEPORT), so that the kernel spreads connections over them, and at a port of
its own for the others: a request of a client whose session another worker holds is passed on to that one (`replicas`).
When the parent is killed, the kernel ends the workers.

The first worker starts alone: what is wrong with the configuration is reported once, and is the exit code.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import socket
from contextlib import suppress
from time import monotonic

from msgspec import Struct

from byleave.acp.supervisor import die_with_parent
from byleave.errors import InputError
from byleave.gateway.limits import Backoff
from byleave.gateway.replica_directory import new_name
from byleave.gateway.worker_rates import WorkerCounter, WorkerRates
from byleave.net.peers import PeerAddress
from byleave.store.store_key import StoreKey
from byleave.text import quoted

MOST = 64
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WATCHED = {*_STOPPING, signal.SIGCHLD}
_LONGEST_START = 120.0  # seconds for the first worker to listen
_LOOK = 0.02  # seconds between two looks at whether it does
_LONGEST_END = 30.0  # seconds for workers to finish what is open; then they are killed
_ENDED_BY_SIGNAL = 128


class WorkerPlace(Struct, frozen=True):
    """What one worker is given by the parent. `places` are those of all workers, by name."""

    number: int
    name: str
    holder: str  # a secret of the parent, by which a new worker may have the name of one that ended
    key: StoreKey
    places: dict[str, PeerAddress]
    port: int
    counter: WorkerCounter
    says_ready: int  # a pipe: the parent waits for a byte, or its end
    is_first: bool = False
    instead_of: str = ""  # how the worker ended whose place this one has

    def ready(self) -> None:
        """Have the parent know that this worker listens."""
        with suppress(OSError):
            os.write(self.says_ready, b"1")
            os.close(self.says_ready)


def read_count(text: str) -> int:
    """Return the number of workers that an option names; an InputError if it is none."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MOST:
        raise InputError(f"{quoted(text)} is no number of workers", hint=f"write --workers N, from 1 to {MOST}")
    return int(text)


class _Slot:
    """One worker, or the wait for the next one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = new_name()
        self.pid = 0
        self.backoff = Backoff()
        self.instead_of = ""


class Workers:
    """The parent's side. `start` returns in the parent and in every worker, as a fork does."""

    def __init__(self, host: str, port: int, count: int) -> None:
        """Hold the ports; an InputError if the address cannot be had."""
        self._held = hold_port(host, port)
        self._peers = [hold_port("127.0.0.1", 0) for _ in range(count)]
        self._slots = [_Slot(number) for number in range(count)]
        self._key = StoreKey(secrets.token_bytes(32))
        self._holder = secrets.token_hex(16)
        self._rates = WorkerRates()
        self._first = -1  # where the first worker says that it listens
        self._port: int = self._held.getsockname()[1]
        self._places = {
            slot.name: PeerAddress(*peer.getsockname()[:2]) for slot, peer in zip(self._slots, self._peers, strict=True)
        }

    def start(self) -> WorkerPlace | int:
        """Return in each worker its place; in the parent the exit code, once all have ended."""
        gc.freeze()  # what all share stays shared
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        place = self._fork(self._slots[0], before, is_first=True)
        if place is not None:
            return place
        code = self._await_first()
        if code is not None:
            return code
        for slot in self._slots[1:]:
            place = self._fork(slot, before)
            if place is not None:
                return place
        return self._watch(before)

    def _fork(self, slot: _Slot, mask: set[int | signal.Signals], *, is_first: bool = False) -> WorkerPlace | None:
        """Start a worker; return its place there, None in the parent."""
        parent = os.getpid()
        reading, writing = os.pipe()
        slot.pid = os.fork()
        if slot.pid:
            os.close(writing)
            if is_first:
                self._first = reading
            else:
                os.close(reading)
            slot.backoff.started(monotonic())
            return None
        os.close(reading)
        die_with_parent(parent, signal.SIGTERM)
        os.setpgid(0, 0)  # what a terminal sends to all of us comes from the parent, once
        for held in (self._held, *self._peers):
            held.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return WorkerPlace(
            slot.number,
            slot.name,
            self._holder,
            self._key,
            self._places,
            self._port,
            WorkerCounter(self._rates, slot.number),
            writing,
            is_first,
            slot.instead_of,
        )

    def _await_first(self) -> int | None:
        """Wait until the first worker listens; return the exit code if it does not come to that."""
        os.set_blocking(self._first, False)
        until = monotonic() + _LONGEST_START
        try:
            while monotonic() < until:
                with suppress(BlockingIOError):
                    if os.read(self._first, 1):
                        return None
                    return self._ended(self._slots[0])
                got = signal.sigtimedwait(_WATCHED - {signal.SIGCHLD}, _LOOK)
                if got is not None:
                    return self._stop(got.si_signo)
        finally:
            os.close(self._first)
        return self._stop(signal.SIGTERM)

    def _ended(self, slot: _Slot) -> int:
        _pid, status = os.waitpid(slot.pid, 0)
        slot.pid = 0
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else _ENDED_BY_SIGNAL - code

    def _watch(self, mask: set[int | signal.Signals]) -> WorkerPlace | int:
        while True:
            now = monotonic()
            for slot in self._slots:
                if not slot.pid and slot.backoff.may_try(now):
                    place = self._fork(slot, mask)
                    if place is not None:
                        return place
            waits = [slot.backoff.left(now) for slot in self._slots if not slot.pid]
            got = signal.sigwaitinfo(_WATCHED) if not waits else signal.sigtimedwait(_WATCHED, min(waits))
            if got is not None and got.si_signo in _STOPPING:
                return self._stop(got.si_signo)
            self._reap()

    def _reap(self) -> None:
        """Note which workers have ended, and when the next may take their places."""
        for number, slot in enumerate(self._slots):
            if not slot.pid:
                continue
            pid, status = os.waitpid(slot.pid, os.WNOHANG)
            if pid:
                self._rates.forget(number)
                code = os.waitstatus_to_exitcode(status)
                slot.pid = 0
                slot.instead_of = f"exit code {code}" if code >= 0 else f"signal {-code}"
                slot.backoff.failed(monotonic())

    def _stop(self, number: int) -> int:
        """Have all workers end, and wait for them; a second signal ends the wait."""
        until = monotonic() + _LONGEST_END
        self._signal(number)
        while any(slot.pid for slot in self._slots):
            got = signal.sigtimedwait(_WATCHED, max(0.0, until - monotonic()))
            self._reap()
            if got is None or got.si_signo in _STOPPING:
                self._signal(signal.SIGKILL)
                until = monotonic() + _LONGEST_END
        return _ENDED_BY_SIGNAL + number

    def _signal(self, number: int) -> None:
        for slot in self._slots:
            if slot.pid:
                with suppress(ProcessLookupError):
                    os.kill(slot.pid, number)


def hold_port(host: str, port: int) -> socket.socket:
    """Return a socket that holds an address for processes of ours to listen at; an InputError if it cannot be had."""
    where = "127.0.0.1" if host.lower() == "localhost" else host.strip("[]")
    try:
        family, *_rest, address = socket.getaddrinfo(where, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        if port:  # with SO_REUSEPORT two gateways of one user would share it, and neither would notice
            with _socket(family) as alone:
                alone.bind(address)
        held = _socket(family)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(address)
    except OSError as problem:
        raise InputError(
            f"cannot listen on {host}:{port}: {problem.strerror or problem}", hint="choose another address or port"
        ) from None
    return held


def _socket(family: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return made
