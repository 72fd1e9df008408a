"""Start the service from Python, as the front does it: with a fixed environment, and nothing of ours open."""

from __future__ import annotations

import os
import sys
import time

from byleave.policy.dirs import own_packages
from byleave.service.client import service_status
from byleave.service.directory import context_key, service_directory

_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/"}
_PATIENCE = 10.0  # seconds until it answers
_NAP = 0.05


def start_service(directory: str | None = None) -> bool:
    """Start the service of this installation, and return whether it answers."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packages = own_packages() or os.path.dirname(package)
    place = service_directory() if directory is None else directory
    key = context_key(package, os.path.dirname(sys.executable), packages)
    entry = os.path.join(package, "service", "__main__.py")
    words = [sys.executable, "-I", "-S", entry, "--directory", place, "--key", key, "--packages", packages]
    child = os.fork()
    if child == 0:
        try:
            _be_service(words)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if service_status(place)["running"]:
            return True
        time.sleep(_NAP)
    return False


def _be_service(words: list[str]) -> None:
    os.setsid()
    if os.fork():  # the service belongs to no terminal
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.execve(words[0], words, _ENVIRONMENT)  # noqa: S606 -- our own interpreter, with our own code
