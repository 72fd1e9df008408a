"""`byleave --version --json`: what is installed, and what is compiled in. No other program or package is started."""

from __future__ import annotations

import os
import platform
import sys
from importlib.util import find_spec
from typing import Any

from byleave import __version__
from byleave.sandbox.native.build import FULL, LEAN, front_name, launcher_name

_NATIVE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sandbox", "native")
# The package by which the extra of that name is known to be installed.
_EXTRAS = {"jwt": "jwt", "otel": "opentelemetry", "postgres": "psycopg", "uvloop": "uvloop"}


def version_tree() -> dict[str, Any]:
    """Return everything that `--version --json` prints."""
    return {
        "version": __version__,
        "python": {"version": platform.python_version(), "implementation": sys.implementation.name},
        "platform": sys.platform,
        "architecture": os.uname().machine,
        "libc": _libc(),
        "compiled": {
            "launcher": all(_is_compiled(launcher_name(kind)) for kind in (LEAN, FULL)),
            "front": _is_compiled(front_name()),
        },
        "extras": {name: find_spec(package) is not None for name, package in _EXTRAS.items()},
    }


def _is_compiled(name: str) -> bool:
    """Whether the package brings this program; what is built on first use is in the user's cache, and not counted."""
    return os.access(os.path.join(_NATIVE, name), os.X_OK)


def _libc() -> str | None:
    """Return the C library that Python uses and its version, None where it does not say so, as musl does not."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        return None
