"""Which processes hold a socket: those of our user, by the descriptors that `/proc` lists of them.

A cookie is sent to every port of an address, so that another server there may learn it. It is of no use to that server:
the browser's connections are held by a process of the browser's, and this one is known from the sign-in.

A process that forked after it had opened the socket holds it together with its child. The descriptors of a process that
the kernel protects from others of its user (`PR_SET_DUMPABLE`) cannot be read: such a process is not found.
"""

from __future__ import annotations

import os

from msgspec import Struct

from byleave.store.questions import started_at


class Process(Struct, frozen=True):
    """A process by its number and its start time, because numbers are given again."""

    pid: int
    started: int


def holders_of(inode: int) -> frozenset[Process]:
    """Return the processes that hold a socket, as far as they can be read."""
    found = set()
    try:
        names = os.listdir("/proc")
    except OSError:  # a system without it
        return frozenset()
    for name in names:
        if name.isdecimal() and _has_descriptor(int(name), inode):
            started = started_at(int(name))
            if started is not None:
                found.add(Process(int(name), started))
    return frozenset(found)


def holds(process: Process, inode: int) -> bool:
    """Whether a process that still runs holds a socket; what cannot be read is a no."""
    return _has_descriptor(process.pid, inode) and started_at(process.pid) == process.started


def _has_descriptor(pid: int, inode: int) -> bool:
    link, place = f"socket:[{inode}]", f"/proc/{pid}/fd"
    if not inode:  # of a socket that no process holds any more
        return False
    try:
        names = os.listdir(place)
    except OSError:
        return False
    return any(_leads_to(f"{place}/{name}") == link for name in names)


def _leads_to(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:  # closed meanwhile
        return ""
