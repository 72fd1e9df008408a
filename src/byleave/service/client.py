"""Ask a service of this user for its state, or have it end."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.service.directory import SOCKET_END, inside, open_directory, peer_of, service_directory
from byleave.service.protocol import STATUS, STOP

if TYPE_CHECKING:
    from typing import Any

FIELDS = ("running", "pid", "version", "since", "workspaces", "calls", "memory")
_LARGEST = 65536
_PATIENCE = 2.0  # seconds for an answer
_ENDED = 5.0  # seconds for a service to be gone
_NAP = 0.02
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def service_status(directory: str | None = None) -> dict[str, Any]:
    """Return the state of the service of this installation; all but `running` is None if there is none."""
    found = next(iter(_running(directory)), None)
    return {"running": False, **dict.fromkeys(FIELDS[1:])} if found is None else {name: found[name] for name in FIELDS}


def stop_service(directory: str | None = None) -> int:
    """Have the services of this installation end, and return how many did. What they run goes on."""
    stopped = 0
    for found in _running(directory):
        if _ask(found["socket"], STOP) == STOP:
            stopped += 1
            _wait_for_end(found["socket"])
    return stopped


def _running(directory: str | None) -> list[dict[str, Any]]:
    """Return the state of every service of this installation, by whichever context it was started."""
    place = service_directory() if directory is None else directory
    try:
        opened = open_directory(place)
    except StateError:
        return []
    found = []
    try:
        for name in sorted(os.listdir(inside(opened, "."))):
            if name.endswith(SOCKET_END):
                path = os.path.join(place, name)
                answer = _ask(path, STATUS)
                with suppress(ValueError, AttributeError):
                    state = json.loads(answer)
                    if state.get("package") == _PACKAGE:
                        found.append({**state, "socket": path})
    finally:
        os.close(opened)
    return found


def _ask(path: str, what: bytes) -> bytes:
    """Return the answer of a service, nothing if there is none, or it is another user's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.settimeout(_PATIENCE)
        try:
            line.connect(path)
            if peer_of(line)[1] != os.geteuid():
                return b""
            line.send(what)
            return line.recv(_LARGEST)
        except OSError:
            return b""


def _wait_for_end(path: str) -> None:
    end = time.monotonic() + _ENDED
    while time.monotonic() < end and os.path.lexists(path):
        time.sleep(_NAP)
