"""What the runs of one agent session share: a network of loopback alone, and a /tmp.

A small process, the holder (native/session.c), keeps both as long as the agent's process lives. The first run starts
it; each run asks it for descriptors and hands them to its launcher. When the holder ends, however that comes about,
the launcher of every run ends what it started. /tmp is a file system in memory, which goes with the last of them.

The holder is found by the name of its socket, an abstract one: the kernel gives a name to one process only, so of two
first runs one becomes the holder's parent, and nothing is left on a disk. Start at `join_session`.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import SandboxError
from byleave.sandbox.linux.program import write_program
from byleave.sandbox.linux.steps import holder_steps
from byleave.sandbox.process import DEVNULL, Process
from byleave.user_files import digest

if TYPE_CHECKING:
    from byleave.sandbox.linux.steps import MachineFacts

_JOIN, _JOIN_WITH_LISTENER, _END = b"J", b"P", b"E"
_SHARED = 4  # descriptors that every run gets: users, network, /tmp, and the pipe that ends with the session
_PATIENCE = 10.0  # seconds for a holder to be there; it takes milliseconds
_NAP = 0.002
_LONGEST = 8192
_PEER = 12  # bytes of SO_PEERCRED: process, user, group
_START_TIME = 19  # the field of /proc/PID/stat, counted from behind the name


class AgentProcess(Struct, frozen=True):
    """The process of an agent: its number, and when it started, in ticks since the machine did."""

    pid: int
    started: int


class AgentSession(Struct, frozen=True, kw_only=True):
    """One session of an agent in a workspace. It ends when the agent's process has ended, or by `end_session`."""

    root: str
    agent: str
    name: str  # the agent's own id of it
    process: AgentProcess

    @property
    def address(self) -> bytes:
        """The name of the holder's socket."""
        parts = (os.geteuid(), self.root, self.agent, self.name, self.process.pid, self.process.started)
        return b"\0byleave-session-" + digest(repr(parts).encode("utf-8", "surrogateescape"))[:40].encode()


class JoinedSession:
    """What a run has of its session; to be closed once the launcher has it. `alive` can be read from at the end."""

    def __init__(self, descriptors: list[int]) -> None:
        self.descriptors = descriptors[:_SHARED]
        self.alive = descriptors[_SHARED - 1]
        self.listener = socket.socket(fileno=descriptors[_SHARED]) if len(descriptors) > _SHARED else None

        self.port = None if self.listener is None else int(self.listener.getsockname()[1])

    def take_listener(self) -> socket.socket:
        """Return the socket by which the run's proxy is reached; it is the caller's from here on."""
        listener, self.listener = self.listener, None
        if listener is None:
            raise _failed("there is no socket for the proxy")
        return listener

    def close(self) -> None:
        """Let go of everything."""
        while self.descriptors:
            os.close(self.descriptors.pop())
        if self.listener is not None:
            self.listener.close()


def process_of(pid: int) -> AgentProcess | None:
    """Return a running process so that it is not taken for a later one of the same number; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name may hold anything, parentheses too; the rest is behind the last one.
            state, *fields = file.read().rpartition(b")")[2].split()
            return None if state in (b"Z", b"X") else AgentProcess(pid, int(fields[_START_TIME - 1]))
    except (OSError, ValueError, IndexError):
        return None


def join_session(
    session: AgentSession, launcher: str, host: MachineFacts, *, listens: bool, memory: int | None
) -> JoinedSession:
    """Return what the runs of a session share, which the first of them makes; a SandboxError if that cannot be.

    With `listens`, a socket that listens in the session's network comes with it. `memory` bounds what /tmp takes.
    """
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        joined = _ask(session, _JOIN_WITH_LISTENER if listens else _JOIN)
        if joined is not None:
            return joined
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            try:
                asked.bind(session.address)
            except OSError:  # another run was faster, and its holder does not listen yet
                time.sleep(_NAP)
                continue
            asked.listen(socket.SOMAXCONN)
            _start_holder(session, asked, launcher, host, memory)
    raise _failed("it does not answer")


def end_session(session: AgentSession) -> bool:
    """End a session with everything that its runs left behind; return whether there was one."""
    with _connected(session) as line:
        if line is None:
            return False
        with suppress(OSError):
            line.send(_END)
            line.recv(1)  # it ends without a word
    return True


def is_open(session: AgentSession) -> bool:
    """Whether some run of the session has made what they share, and the session has not ended."""
    with _connected(session) as line:
        return line is not None


class _connected:  # noqa: N801 -- a context manager that reads as a condition
    """A connection to the holder of a session, None if there is no holder; never to a process of another user."""

    def __init__(self, session: AgentSession) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._session = session

    def __enter__(self) -> socket.socket | None:
        self._line.settimeout(_PATIENCE)
        try:
            self._line.connect(self._session.address)
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        peer = self._line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER)
        if struct.unpack("=iII", peer)[1] != os.geteuid():
            raise _failed("its address is in use by another user")
        return self._line

    def __exit__(self, *_raised: object) -> None:
        self._line.close()


def _ask(session: AgentSession, what: bytes) -> JoinedSession | None:
    """Return what the holder hands out; None if there is none, or it ends just now."""
    with _connected(session) as line:
        if line is None:
            return None
        try:
            line.send(what)
            message, descriptors, _flags, _address = socket.recv_fds(line, _LONGEST, _SHARED + 1)
        except (ConnectionError, TimeoutError):
            return None
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    expected = _SHARED + (what == _JOIN_WITH_LISTENER)
    if message == b"S" and len(descriptors) == expected:
        return JoinedSession(list(descriptors))
    for descriptor in descriptors:
        os.close(descriptor)
    return None


def _start_holder(
    session: AgentSession, asked: socket.socket, launcher: str, host: MachineFacts, memory: int | None
) -> None:
    """Start the process that holds a session; it ends with the agent's process."""
    agent = _agent_of(session)
    try:
        starting = Process(
            (launcher,),
            write_program(holder_steps(host, memory)),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            own_session=True,
            passed=(asked.fileno(), agent),
        )
        with starting:
            starting.wait()  # what was started first leaves as soon as the holder holds
        if starting.problem is not None:
            raise starting.problem
    finally:
        os.close(agent)


def _agent_of(session: AgentSession) -> int:
    """Return a pidfd of the agent's process; a SandboxError if it has ended."""
    with suppress(OSError):
        agent = os.pidfd_open(session.process.pid)
        if process_of(session.process.pid) == session.process:
            return agent
        os.close(agent)
    raise SandboxError(
        "the agent's session has ended: the process that it belongs to is gone", hint="start the agent again"
    )


def _failed(why: str) -> SandboxError:
    return SandboxError(
        f"what the runs of this agent session share cannot be reached: {why}",
        hint="try again; `byleave doctor` says what this machine can enforce",
    )
