"""Which addresses, hosts and origins a gateway that asks for no token may be reached by. Pure.

A page in the user's browser can send requests to this machine, under any name that leads here (DNS rebinding). What it
cannot choose is the `Host` and `Origin` that the browser writes.
"""

import re
from functools import lru_cache
from ipaddress import ip_address

from byleave.errors import InputError
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


def is_loopback_host(host: str) -> bool:
    """Whether listening at `host` means to be reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_address(host: str, *, has_identity: bool) -> None:
    """Refuse to listen where others could reach a gateway that cannot tell them apart: an InputError."""
    if not has_identity and not is_loopback_host(host):
        raise InputError(
            f"without tokens the gateway listens on this machine only, and {quoted(host)} is open to others",
            hint="listen on 127.0.0.1; or give agents tokens (byleave agents token NAME), or configure [gateway.jwt]",
        )


@lru_cache(256)
def names_us(host: str, local_host: str, local_port: int) -> bool:
    """Whether a `Host` header names this machine, as seen from itself, and the port that we listen at."""
    found = _split(host, 80)
    own = f"[{local_host}]" if ":" in local_host else local_host
    return found is not None and found[1] == local_port and (found[0] in _NAMES or found[0] == own)


def is_foreign(fields: "Mapping[str, str]") -> bool:
    """Whether a request was caused by a page from elsewhere.

    Pages of this machine may call, and those of the very host that is called. That host could be any name that was made
    to lead here, so where there is no token it must be ours, too (`names_us`).
    """
    if fields.get("sec-fetch-site", "").lower() == "cross-site":
        return True
    origin = fields.get("origin")
    if origin is None:
        return False
    scheme, _mark, authority = origin.lower().partition("://")
    found = _split(authority, _PORTS.get(scheme, 0)) if scheme in _PORTS else None
    if found is None:
        return True
    return found[0] not in _NAMES and found != _split(fields.get("host", ""), _PORTS[scheme])


def _split(authority: str, default: int) -> tuple[str, int] | None:
    """Return host and port; None for what is no plain authority."""
    found = _AUTHORITY.fullmatch(authority.lower())
    return None if found is None else (found[1], int(found[2] or default))
