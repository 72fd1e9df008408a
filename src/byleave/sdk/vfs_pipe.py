"""The two pipes between a tool and its host, and how a tool keeps its own prints out of them."""

import os
import select
import sys

from byleave.sdk.vfs_errors import HostGone, ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    Stream = int | BinaryIO

_PIECE = 1 << 16  # bytes: what a pipe holds on Linux
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class Pipe:
    """What comes from the host and what goes to it. While it writes it also reads, so neither waits for the other."""

    def __init__(self, incoming: int, outgoing: int, *, arrived: bytes = b"") -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._arrived = [arrived] if arrived else []
        self._ended = False

    def fileno(self) -> int | None:
        """Return the descriptor that becomes readable when the host says something."""
        return self._incoming

    def send(self, data: bytes) -> None:
        """Write all of it. What arrives meanwhile is kept for `receive`."""
        rest = memoryview(data)
        try:
            while rest:
                if self._has_room():  # then so much never blocks
                    rest = rest[os.write(self._outgoing, rest[: select.PIPE_BUF]) :]
        except OSError:
            raise HostGone("the host has closed its end of the conversation") from None

    def receive(self, timeout: float | None) -> bytes | None:
        """Return what arrived; None if nothing did in `timeout` seconds, and no bytes at the end."""
        if not self._arrived and not self._ended and not self._poll(timeout):
            return None
        return self._arrived.pop(0) if self._arrived else b""

    def _poll(self, timeout: float | None) -> bool:
        poller = select.poll()
        poller.register(self._incoming, select.POLLIN)
        if not poller.poll(None if timeout is None else max(0.0, timeout) * 1000):
            return False
        self._take()
        return True

    def _take(self) -> None:
        data = os.read(self._incoming, _PIECE)
        if data:
            self._arrived.append(data)
        else:
            self._ended = True

    def _has_room(self) -> bool:
        """Wait until the host takes something or says something; whether it takes something."""
        poller = select.poll()
        poller.register(self._outgoing, select.POLLOUT)
        if not self._ended:
            poller.register(self._incoming, select.POLLIN)
        events = dict(poller.poll())
        if events.get(self._incoming, 0) & _READABLE:
            self._take()
        return self._outgoing in events


def take_over(*, arrived: bytes = b"") -> Pipe:
    """Make the process's own input and output the conversation, and keep everybody else out of it.

    `arrived` has been read from the input already.
    From now on what the program prints goes to stderr, and what it reads is empty; so do the programs it starts.
    """
    incoming, outgoing = os.dup(0), os.dup(1)  # not inherited by children: os.dup sees to that
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a stderr
        os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return Pipe(incoming, outgoing, arrived=arrived)


def pipe_of(stdin: "Stream | None", stdout: "Stream | None") -> Pipe:
    """Return the pipe over these streams; over the process's own where both are None."""
    if stdin is None and stdout is None:
        if os.isatty(0):
            raise ProtocolError("this is a tool, which byleave starts and talks to: try `byleave call`")
        return take_over()
    return Pipe(_number(stdin, 0), _number(stdout, 1))


def _number(stream: "Stream | None", default: int) -> int:
    if stream is None:
        return default
    return stream if isinstance(stream, int) else stream.fileno()
