"""Get the set of keys of an issuer: from a file of ours, or from its URL. Blocks; meant for a thread of its own.

A URL is asked over https, or over http on this machine; it may not lead elsewhere, nor take long, nor send much.
"""

import os
import time

from byleave.errors import ByleaveError, ConfigError, InputError
from byleave.mcp.origins import is_loopback_host
from byleave.private import read_private
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from http.client import HTTPConnection

_LARGEST = 1 << 20
PATIENCE = 5.0  # seconds
_PIECE = 1 << 16


def is_url(source: str) -> bool:
    """Whether keys come from elsewhere; anything else is a file."""
    return "://" in source


def fetch_keys(source: str) -> bytes:
    """Return what `source` holds; a ByleaveError if it cannot be had."""
    if is_url(source):
        return _asked(source)
    content = read_private(os.path.abspath(source), limit=_LARGEST, links=True)
    if content is None:
        raise ConfigError(f"there is no file {quoted(source)}", hint="name the file that holds the issuer's keys")
    return content


def _asked(url: str) -> bytes:
    from http.client import HTTPException
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        connection = _connection(parts.scheme, parts.hostname or "", parts.port)
        path = parts.path or "/"
        try:
            return _got(connection, f"{path}?{parts.query}" if parts.query else path)
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        raise InputError(f"the keys at {quoted(url)} cannot be had", hint="see whether the issuer is up") from None


def _connection(scheme: str, host: str, port: int | None) -> "HTTPConnection":
    from http.client import HTTPConnection, HTTPSConnection

    if scheme == "https":
        import ssl

        return HTTPSConnection(host, port, timeout=PATIENCE, context=ssl.create_default_context())
    if scheme == "http" and is_loopback_host(host):
        return HTTPConnection(host, port, timeout=PATIENCE)
    raise ConfigError("keys are fetched over https, or over http on this machine", hint="write https://")


def _got(connection: "HTTPConnection", path: str) -> bytes:
    until = time.monotonic() + PATIENCE
    connection.request("GET", path, headers={"Accept": "application/json", "Connection": "close"})
    response = connection.getresponse()
    if response.status != 200:
        raise ByleaveError(f"the issuer answered {response.status}", hint="a URL that leads elsewhere is not followed")
    content = b""
    while piece := response.read1(_PIECE):
        content += piece
        if len(content) > _LARGEST or time.monotonic() > until:
            raise ByleaveError("the issuer's keys are too long, or too long in coming", hint="see what the URL holds")
    return content
