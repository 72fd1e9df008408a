"""The service's first process: accepts requests, and hands each to the worker of the directory that it came from.

It touches no file of any workspace, so that a slow disk holds up no other, and it reads nothing of a request but
that it has one: what is asked for is read, and checked, by the process that answers it. It has no threads, since all
others are forked from it.

It ends after some idle minutes, when its installation changes, when its socket is gone from its directory, and when it
is asked to (`service.client`). Commands that run then go on. Start at `Server.run`.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave import __version__
from byleave.errors import StateError
from byleave.sandbox.session import process_of
from byleave.service.directory import SOCKET_END, facts_of, inside, open_directory
from byleave.service.installation import InstallationStamp
from byleave.service.protocol import ASK, DESCRIPTORS, STATUS, STOP, VERSION
from byleave.service.worker import LONGEST_MESSAGE, be_worker, parent_if_like_us

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from byleave.service.log import ServiceLog
    from byleave.service.worker import Answer

IDLE = 15 * 60.0  # seconds without a request, after which the service ends
FORGOTTEN = 60 * 60.0  # seconds without a request, after which the worker of a directory ends
MOST_WORKERS = 24  # each takes some megabytes; the one that was used least recently ends
_BACKLOG = 1024
_MOST_CONNECTIONS = 512  # that have not said anything yet
_FIRST_WORD = 1.0  # seconds for the first message
_NAP = 5.0
PROOF = 3  # a descriptor of the service
_STARTING = ".starting"
_LOCK = ".lock"
_UNREADY = ".unready"


class ServiceAddress(Struct, frozen=True):
    """Where a service is: its directory and the name of its context."""

    directory: str
    key: str


class _Worker(Struct):
    """A worker, seen from the server: its end of the socket that requests go through."""

    pid: int
    requests: socket.socket
    last: float


class Server:
    """The service. `answer` runs a command in a forked process and returns its exit code."""

    def __init__(self, address: ServiceAddress, package: str, answer: Answer, log: ServiceLog) -> None:
        self._address = address
        self._package = package
        self._answer = answer
        self._log = log
        self._facts = facts_of()
        self._asked = ASK + VERSION + b"\n" + _make_proof()
        self._installation = InstallationStamp.take(package)
        self._workers: dict[str, _Worker] = {}
        self._silent: dict[int, tuple[socket.socket, float]] = {}  # connections without a first word, and until when
        self._poll = select.poll()
        self._since = time.time()
        self._calls = 0
        self._last = time.monotonic()
        self._why: str | None = None  # why it ends

    def run(self, ready: Callable[[], object] | None = None) -> str:
        """Serve until there is a reason to end, and return it. A StateError if the address cannot be used."""
        directory = open_directory(self._address.directory, create=True)
        name = self._address.key + SOCKET_END
        lock = self._lock(directory)
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # ends the waiting for requests
        signal.set_wakeup_fd(writing)
        self._poll.register(reading, select.POLLIN)
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._end("it was asked to"))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            unready = self._address.key + _UNREADY
            with suppress(FileNotFoundError):
                os.unlink(unready, dir_fd=directory)
            listener.bind(inside(directory, unready))
            os.chmod(inside(directory, unready), 0o600)
            mark = os.stat(unready, dir_fd=directory).st_ino
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            os.rename(unready, name, src_dir_fd=directory, dst_dir_fd=directory)  # what has this name listens
            with suppress(OSError):
                os.unlink(self._address.key + _STARTING, dir_fd=directory)
            self._log.write(f"started, {__version__}")
            if ready is not None:
                ready()
            gc.collect()
            gc.freeze()
            try:
                self._serve(listener, lambda: _inode(directory, name) == mark)
            finally:
                if _inode(directory, name) == mark:  # another service may have taken the name
                    os.unlink(name, dir_fd=directory)
                for worker in self._workers.values():
                    worker.requests.close()
        signal.set_wakeup_fd(-1)
        for descriptor in (reading, writing, lock, directory):
            os.close(descriptor)
        self._log.write(f"ended: {self._why}")
        return self._why or ""

    def _lock(self, directory: int) -> int:
        """Be the only service of this address; a StateError if there is one."""
        lock = os.open(
            self._address.key + _LOCK,
            os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=directory,
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise StateError("the service runs already", hint="`byleave service status` shows it") from None
        return lock

    def _end(self, why: str) -> None:
        self._why = self._why or why

    def _serve(self, listener: socket.socket, is_ours: Callable[[], bool]) -> None:
        self._poll.register(listener, select.POLLIN)
        checked = time.monotonic()
        while self._why is None:
            # Who says nothing is not waited for any longer than a front waits; meanwhile others stay in the queue.
            self._poll.modify(listener, select.POLLIN if len(self._silent) < _MOST_CONNECTIONS else 0)
            patience = _FIRST_WORD if self._silent else _NAP
            ready = self._poll.poll(patience * 1000)
            for number, _event in ready:
                if number == listener.fileno():
                    self._accept(listener)
                elif number in self._silent:
                    self._hear(number)
            now = time.monotonic()
            if not ready or now - checked > (_FIRST_WORD if self._silent else _NAP):
                checked = now
                self._tidy(now)
                if not is_ours():
                    self._end("its socket is gone")
                elif now - self._last > IDLE:
                    self._end("no request came for a while")

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                line, _address = listener.accept()
            except OSError:
                return
            if len(self._silent) >= _MOST_CONNECTIONS:  # a front speaks at once: the oldest is none
                oldest = next(iter(self._silent))
                silent, _until = self._silent[oldest]
                self._drop(oldest)
                silent.close()
            line.setblocking(False)
            self._silent[line.fileno()] = line, time.monotonic() + _FIRST_WORD
            self._poll.register(line, select.POLLIN)
            self._hear(line.fileno())  # the front has sent its request by now

    def _hear(self, number: int) -> None:
        """Take the first message of a connection, if it is there."""
        line, _until = self._silent[number]
        try:
            said, found, _flags, _address = socket.recv_fds(line, LONGEST_MESSAGE, DESCRIPTORS + 1)
        except BlockingIOError:
            return
        except OSError:
            said, found = b"", []
        self._drop(number)
        try:
            self._take(line, said, found)
        finally:
            for descriptor in found:
                os.close(descriptor)
            line.close()

    def _drop(self, number: int) -> None:
        self._poll.unregister(number)
        del self._silent[number]

    def _take(self, line: socket.socket, said: bytes, found: list[int]) -> None:
        """Do what a first message says. What is not understood is closed: the front runs its command itself."""
        parent = parent_if_like_us(line, self._facts, but_limits=said in (STATUS, STOP))
        if parent is None or self._why is not None:
            return
        with suppress(OSError):
            if said == self._asked and len(found) == DESCRIPTORS:
                self._route(line, parent, found)
            elif said == STATUS and not found:
                line.send(json.dumps(self.status()).encode())
            elif said == STOP and not found:
                self._end("it was asked to")
                line.send(STOP)

    def _route(self, line: socket.socket, parent: int, found: list[int]) -> None:
        """Hand a request to the worker of its directory."""
        if self._installation.has_changed():
            self._end("the installation has changed")
            return
        self._last = time.monotonic()
        place = os.readlink(f"/proc/self/fd/{found[1]}")
        worker = self._worker(place)
        try:
            socket.send_fds(worker.requests, [b"%d" % parent], [*found, line.fileno()])
        except BlockingIOError:  # there is no room: the front runs the command itself
            return
        except (
            OSError
        ):  # the worker has ended, and another process may have its number: the next request gets a new one
            self._workers.pop(place).requests.close()
            return
        self._calls += 1

    def _worker(self, place: str) -> _Worker:
        worker = self._workers.pop(place, None)
        if worker is None or process_of(worker.pid) is None:
            if worker is not None:
                self._log.write(f"the worker {worker.pid} has ended by itself")
                worker.requests.close()
            worker = self._start_worker()
        worker.last = self._last
        self._workers[place] = worker  # the last one used is the last
        while len(self._workers) > MOST_WORKERS:
            self._workers.pop(next(iter(self._workers))).requests.close()
        return worker

    def _start_worker(self) -> _Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)  # `send_fds` and `recv_fds` do not pass flags on
        theirs.setblocking(False)
        pid = os.fork()
        if pid == 0:
            self._be_worker(theirs)
        theirs.close()
        return _Worker(pid, ours, self._last)

    def _be_worker(self, requests: socket.socket) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            kept = requests.detach()
            os.closerange(3, kept)
            os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
            be_worker(socket.socket(fileno=kept), self._package, self._answer)
        finally:
            os._exit(1)

    def _tidy(self, now: float) -> None:
        """Let go of what was not used for long, and of what has ended."""
        for number in [number for number, (_line, until) in self._silent.items() if until < now]:
            line, _until = self._silent[number]
            self._drop(number)
            line.close()
        for place in [place for place, worker in self._workers.items() if now - worker.last > FORGOTTEN]:
            self._workers.pop(place).requests.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def status(self) -> dict[str, object]:
        """Return what people are shown."""
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._since)),
            "workspaces": len(self._workers),
            "calls": self._calls,
            "memory": _memory(os.getpid()),
            "package": self._package,
            "python": sys.executable,
        }


def _make_proof() -> bytes:
    """Return what only a process can know that the kernel lets look at this one.

    A process that some sandbox holds (Landlock among them, which shows nowhere) may not: it would see more through us
    than by itself. So the front reads the name of a descriptor of ours.
    """
    proof = os.memfd_create(f"byleave-{os.urandom(16).hex()}")
    if proof != PROOF:
        os.dup2(proof, PROOF, inheritable=False)
        os.close(proof)
    return os.fsencode(os.readlink(f"/proc/self/fd/{PROOF}"))


def _inode(directory: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino
    except OSError:
        return 0


def _memory(process: int) -> int:
    """Return how many bytes a process and all below it take, what they share counted once."""
    total = 0
    with suppress(OSError), open(f"/proc/{process}/smaps_rollup", "rb") as file:
        total = sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    with suppress(OSError), open(f"/proc/{process}/task/{process}/children", "rb") as file:
        total += sum(_memory(int(child)) for child in file.read().split())
    return total
