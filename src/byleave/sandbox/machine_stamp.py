"""What it depends on whether a sandbox can be set up here: this start of the machine, this user, our own sandbox.

An agent that puts itself, or what it starts, into a sandbox of its own changes what works. Where two stamps are equal,
what was found out by trying holds for both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN_SANDBOX = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "CapEff")  # lines of /proc/self/status


def machine_stamp() -> str:
    """Return the stamp of this moment."""
    from byleave import __version__

    parts = [__version__, str(os.geteuid()), *_facts()]
    return digest("\n".join(parts).encode())[:32]


def _facts() -> Iterator[str]:
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease"):
        yield _content(path) or os.urandom(8).hex()  # where that cannot be read, nothing is remembered
    yield _content("/proc/sys/user/max_user_namespaces")
    yield _content("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    for line in _content("/proc/self/status").splitlines():
        if line.partition(":")[0] in _OWN_SANDBOX:
            yield line
    for kind in ("user", "mnt"):
        try:
            yield os.readlink(f"/proc/self/ns/{kind}")
        except OSError:
            yield ""


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
