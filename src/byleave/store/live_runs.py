"""Confined commands that run now, and calls during which they are stopped. Kept in the workspace's state directory.

An agent's own file tool opens a path after a hook has decided about it. A confined command that runs meanwhile could
exchange the path in between, so the hook has all of them stopped first (`hooks.pausing`).

    runs/ID            one confined command; the process that started it holds a lock on the file
    runs/.hold-ID      a call during which they are stopped: until when, and which call
    runs/.holder       locked by the process that keeps them stopped
    runs/.gate         shared by a command that is just starting, exclusive for who stops them or lets them go on

So either a hook finds a command here, or the command finds the hold and waits with its start. What ended without
tidying up has no lock any more. Start at `LiveRun` and `Hold`.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Self

from byleave.errors import StateError
from byleave.record import Record
from byleave.text import quoted
from byleave.user_files import digest, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

DIRECTORY = "runs"
LONGEST = 3.0  # seconds for a call, from the hook's answer on
PATIENCE = 1.0  # seconds for all of them to stop
_LONGEST_WAIT = 30.0  # seconds that a command waits for its start
_NAP = 0.01
_GATE, _HOLDER, _HOLD = ".gate", ".holder", ".hold-"
_LARGEST = 4096
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class RunRoot(Record):
    """The first process of a confined command, above all others of it: its number, and when it started.

    `numbers` is the namespace that the number belongs to. A `brokered` command has its programs started by others.
    """

    pid: int
    started: int
    numbers: int
    brokered: bool


class LiveRun:
    """A confined command, from before its start to its end. To be closed.

    run.enter()             # waits while commands are stopped; from now on hooks wait for us
    process = ...
    run.started(pid, when)
    """

    def __init__(self, state: str, *, brokered: bool) -> None:
        self._place = os.path.join(state, DIRECTORY)
        self._path = os.path.join(self._place, os.urandom(8).hex())
        self._brokered = brokered
        self._gate: Gate | None = None
        self._descriptor = -1

    def enter(self) -> None:
        """Wait for our turn, and be in the registry; a StateError if that cannot be."""
        try:
            make_private_directory(self._place)
            self._gate = self._turn()
            self._descriptor = os.open(self._path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
            lock(self._descriptor)
        except OSError as error:
            self.close()
            raise StateError(
                f"{quoted(self._place)} cannot be used: {error.strerror}", hint="it must be yours"
            ) from None

    def _turn(self) -> Gate:
        end = time.monotonic() + _LONGEST_WAIT
        while time.monotonic() < end:
            gate = Gate(self._place, shared=True)
            if gate.enter(end):
                if not holds(self._place) and not has_holder(self._place):
                    return gate
                gate.close()
            time.sleep(_NAP)
        raise StateError("the agent's own file tools do not let this command start", hint="try again")

    def started(self, pid: int, when: int) -> None:
        """Name the first process, and let hooks go on."""
        numbers = os.stat("/proc/self/ns/pid").st_ino
        os.write(self._descriptor, b"%d %d %d %d\n" % (pid, when, numbers, self._brokered))
        self._leave()

    def _leave(self) -> None:
        if self._gate is not None:
            self._gate.close()
            self._gate = None

    def close(self) -> None:
        """Be out of the registry."""
        if self._descriptor >= 0:
            _remove(self._path)
            os.close(self._descriptor)
            self._descriptor = -1
        self._leave()


def live_runs(place: str) -> Iterator[tuple[str, RunRoot | None, bool]]:
    """Yield the file of every command, its first process, and whether what started it lives; with the gate, and alone.

    A command without a first process never got that far.
    """
    for name in os.listdir(place):
        if name.startswith("."):
            continue
        path = os.path.join(place, name)
        try:
            descriptor = os.open(path, _FLAGS)
        except FileNotFoundError:
            continue
        try:
            alive = not lock(descriptor)
            yield path, _read_root(os.read(descriptor, _LARGEST)), alive
        finally:
            os.close(descriptor)


def _read_root(content: bytes) -> RunRoot | None:
    try:
        pid, started, numbers, brokered = [int(word) for word in content.split()]
    except ValueError:
        return None
    return RunRoot(pid, started, numbers, brokered != 0)


class Hold:
    """A call during which confined commands are stopped, at most until its deadline."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._path = os.path.join(place, f"{_HOLD}{os.urandom(8).hex()}")
        self._write("-")

    def _write(self, call: str) -> None:
        write_private(self._path, f"{time.monotonic() + LONGEST} {call}\n".encode(), durable=False)

    def keep(self, call: str) -> None:
        """Begin the time of the call itself; a StateError if the commands may have gone on before."""
        with Gate(self._place) as gate:
            entered = gate.enter(time.monotonic() + PATIENCE)
            if not entered or self._path not in holds(self._place) or not has_holder(self._place):
                raise StateError("a confined command went on while this was decided", hint="have it tried again")
            self._write(call)

    def release(self) -> None:
        """End it."""
        _remove(self._path)


def release_call(state: str, call: str) -> None:
    """End the hold of a call whose outcome is known; of several that are the same, one."""
    found = [(until, path) for path, (until, name) in holds(os.path.join(state, DIRECTORY)).items() if name == call]
    for _until, path in sorted(found)[:1]:
        _remove(path)


def call_name(agent: str, session: str, call: str) -> str:
    """Return by what a call is known here."""
    return digest(repr((agent, session, call)).encode("utf-8", "surrogatepass"))[:32]


def holds(place: str) -> dict[str, tuple[float, str]]:
    """Return the holds that are not overdue: by their file until when, and for which call. The others are removed."""
    now, found = time.monotonic(), {}
    for name in os.listdir(place):
        if not name.startswith(_HOLD):
            continue
        path = os.path.join(place, name)
        until, call = _read_hold(path)
        if now <= until <= now + LONGEST:  # the clock begins anew with the machine
            found[path] = (until, call)
        else:
            _remove(path)
    return found


def _read_hold(path: str) -> tuple[float, str]:
    try:
        until, call = (read_private(path, limit=_LARGEST) or b"").decode("ascii").split()
        return float(until), call
    except (StateError, ValueError):
        return 0.0, ""


def has_holder(place: str) -> bool:
    """Whether some process keeps the commands stopped."""
    descriptor = open_holder(place)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def open_holder(place: str) -> int | None:
    """Return a descriptor with the lock of who keeps the commands stopped; None if some process does."""
    descriptor = os.open(os.path.join(place, _HOLDER), _FLAGS | os.O_CREAT, 0o600)
    if lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


class Gate:
    """The lock between commands that start and hooks that stop them; closed at the end of a `with`."""

    def __init__(self, place: str, *, shared: bool = False) -> None:
        self._shared = shared
        self._descriptor = os.open(os.path.join(place, _GATE), _FLAGS | os.O_CREAT, 0o600)

    def enter(self, until: float) -> bool:
        """Wait for it, and return whether we have it."""
        while not lock(self._descriptor, shared=self._shared):
            if time.monotonic() >= until:
                return False
            time.sleep(_NAP / 5)
        return True

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock on a file if it is free, and return whether we have it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
