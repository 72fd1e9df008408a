"""Which processes are resident services of this user: what ends an agent's processes leaves them alone.

A hook that an agent starts may start the service, which is then a process below the agent's. It serves other agents as
well. It is known by the socket in its directory, where no sandboxed program comes: the kernel says whose process it is.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress

from byleave.policy.dirs import service_places

_END = ".sock"
_MOST = 64
_PATIENCE = 0.2  # seconds for a connection, which the kernel makes without the service's doing
_PEER = 12  # bytes of SO_PEERCRED: process, user, group


def service_processes() -> frozenset[int]:
    """Return the numbers of the services that run."""
    found = set()
    for place in service_places():
        with suppress(OSError):
            seen = os.lstat(place)
            if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and stat.S_IMODE(seen.st_mode) == 0o700:
                names = [name for name in os.listdir(place) if name.endswith(_END)]
                found |= {_listener(os.path.join(place, name)) for name in names[:_MOST]}
    return frozenset(found - {0})


def _listener(path: str) -> int:
    """Return the process that listens at a path, if it is this user's; 0 if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.settimeout(_PATIENCE)
        try:
            line.connect(path)
        except OSError:
            return 0
        process, user, _group = struct.unpack("=iII", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER))
        return process if user == os.geteuid() else 0
