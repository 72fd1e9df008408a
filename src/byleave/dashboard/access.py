"""Who may call the dashboard: a browser that was given a cookie for a one-time token, from our own pages. Pure.

Another user's programs are turned away by the owner of their sockets (`server`). An agent of the same user can reach
the address as well; it has not the token, which only the terminal shows. The cookie it may learn: browsers send it to
every port of the address. So a cookie is good for the process alone that signed in (`socket_holders`), and an answer
needs the cookie's own token, which stands in the pages. Where the process cannot be known, that token is in the first
page only, and the browser keeps it for the pages of this port.

A page of another site, or of another port or address of this machine, can make the browser send requests: `Host`,
`Origin` and `Sec-Fetch-Site`, which the browser writes, say where they come from, and `SameSite=Strict` keeps the
cookie from most of them.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.dashboard.socket_holders import Process

_OWN_SITES = ("none", "same-origin")
ADDRESS_SECONDS = 600.0  # for which the address that the terminal shows signs a browser in
OPENING_SECONDS = 60.0  # the same for the address in the words of the browser's start
_MOST_SIGNED_IN = 64
_MOST_FIELDS = 8  # of the query of a one-time address


class SignedIn(Struct):
    """A browser that was given a cookie. `processes` are those that held its connection then; none if not known."""

    cookie: str
    token: str
    processes: frozenset[Process]
    is_new: bool = True  # no page was sent to it yet

    def page_token(self) -> str:
        """Return the token for a page; where the process is not known, for the first one alone."""
        has_it = self.is_new or bool(self.processes)
        self.is_new = False
        return self.token if has_it else ""


class Access:
    """The one-time tokens that are not used yet, and the browsers that were given a cookie for one."""

    def __init__(self, host: str, port: int, clock: Callable[[], float]) -> None:
        self._authority = f"{host}:{port}"
        self._clock = clock
        self._tokens: dict[str, float] = {}  # until when each is good
        self._signed_in: list[SignedIn] = []
        self.cookie_name = f"byleave-{port}"

    @property
    def origin(self) -> str:
        return f"http://{self._authority}"

    def new_address(self, seconds: float = ADDRESS_SECONDS) -> str:
        """Return an address that signs one browser in, within so many seconds."""
        token = secrets.token_urlsafe(32)
        self._tokens[token] = self._clock() + seconds
        return f"{self.origin}/?token={token}"

    def redeem(self, query: str, processes: Callable[[], frozenset[Process]]) -> str | None:
        """Return a new cookie for a token that was not used before, in the form of a header's value; else None.

        `processes` finds those that hold the connection; it is called for a good token only.
        """
        now = self._clock()
        self._tokens = {token: until for token, until in self._tokens.items() if now <= until}
        try:
            given = parse_qs(query, max_num_fields=_MOST_FIELDS, errors="replace").get("token", [""])[0]
        except ValueError:
            return None
        found = next((token for token in self._tokens if _same(token, given)), None)
        if found is None:
            return None
        del self._tokens[found]
        fresh = SignedIn(secrets.token_urlsafe(32), secrets.token_urlsafe(32), processes())
        self._signed_in = [*self._signed_in[1 - _MOST_SIGNED_IN :], fresh]
        return f"{self.cookie_name}={fresh.cookie}; Path=/; HttpOnly; SameSite=Strict"

    def sign_out_all(self) -> None:
        """Take every cookie back."""
        self._signed_in = []

    def signed_in(self, fields: Mapping[str, str]) -> SignedIn | None:
        """Return the browser whose cookie a request carries; None if it carries none of ours."""
        given = [
            value
            for each in fields.get("cookie", "").split(";")
            for name, _mark, value in [each.strip(" \t").partition("=")]
            if name == self.cookie_name
        ]
        if len(given) != 1:
            return None
        return next((known for known in self._signed_in if _same(known.cookie, given[0])), None)

    def problem_of(self, method: str, fields: Mapping[str, str], token: str = "") -> str:
        """Return why a request is none of our pages' or user's own; empty if it may be answered.

        `token` is the one that belongs to the request's cookie.
        """
        if fields.get("host", "").lower() != self._authority:
            return "the Host header does not name this dashboard"
        site = fields.get("sec-fetch-site")
        if site is not None and site.lower() not in _OWN_SITES:
            return "the request comes from another page"
        origin = fields.get("origin")
        if origin is not None and origin.lower() != self.origin:
            return "the Origin header does not name this dashboard"
        if method != "POST":
            return ""
        if origin is None:
            return "the Origin header is missing"
        if not token or not _same(token, fields.get("x-byleave-token", "")):
            return "the X-Byleave-Token header is not the one of the page; sign in again with `byleave dashboard`"
        return ""


def _same(known: str, given: str) -> bool:
    return compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))
