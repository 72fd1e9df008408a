"""What would have happened outside of the sandbox: what is there, and what we may do with it. Looks, never touches."""

import os
import socket

from byleave.sandbox.attempts import CREATE, DELETE, EXEC, OWN, READ, UPDATE

_MODES = {READ: os.R_OK, UPDATE: os.W_OK, EXEC: os.X_OK}
_KERNELS = ("/proc", "/dev", "/sys")  # their links lead to whoever looks
_LISTENING = "0A"  # TCP_LISTEN, as /proc/net/tcp writes it
_LOW_PORTS = 1024


def exists(path: str) -> bool:
    """Whether something is at a path, be it a link that leads nowhere."""
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def real(path: str, *, follows: bool = True) -> str:
    """Return where a path leads; with `follows` unset, a link in its last name is the place itself."""
    path = os.path.normpath(path) if ".." not in path.split("/") else path
    if path.startswith(_KERNELS):
        return os.path.normpath(path)
    try:
        if follows:
            return os.path.realpath(path)
        directory, name = os.path.split(path.rstrip("/"))
        return os.path.join(os.path.realpath(directory), name)
    except (OSError, ValueError):
        return os.path.normpath(path)


def could(op: str, path: str) -> bool:
    """Whether whoever runs the sandbox could have done it without one."""
    try:
        if op in (CREATE, DELETE):
            there = op == CREATE or os.path.lexists(path)
            return there and os.access(os.path.dirname(path) or "/", os.W_OK | os.X_OK)
        if op == OWN:
            return os.geteuid() == 0 and os.path.lexists(path)
        return os.access(path, _MODES[op]) or (op == READ and os.path.islink(path))
    except (OSError, ValueError):
        return False


def reaches(family: int, host: str, port: int) -> bool:
    """Whether there is a way to an address; nothing is sent to find out."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.connect((host, port or 1))
    except OSError:
        return False
    return True


def listens(port: int) -> bool:
    """Whether somebody on this machine waits for connections at a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        if any(row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port for row in rows):
            return True
    return False


def may_listen_at(port: int) -> bool:
    """Whether whoever runs the sandbox may wait for connections at a port."""
    return port >= _LOW_PORTS or port == 0 or os.geteuid() == 0
