"""Who may call the dashboard: a browser that was given the cookie for a one-time token, from our own pages. Pure.

Another user's programs are turned away by the owner of their sockets (`server`). An agent of the same user can reach
the address as well; it has neither the token, which only the terminal shows, nor the cookie.

A page of another site, or of another port or address of this machine, can make the browser send requests. Such a
request carries no cookie (`SameSite=Strict`, and the address is one that nothing else listens at); and `Host`, `Origin`
and `Sec-Fetch-Site`, which the browser writes, say where it comes from.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OWN_SITES = ("", "none", "same-origin")
OPENING_SECONDS = 60.0  # for which the token in the words of the browser's start is good
_MOST_COOKIES = 64  # browsers that are signed in


class Access:
    """The tokens that are not used yet, the cookies that were given for one, and the token of the pages."""

    def __init__(self, host: str, port: int, clock: Callable[[], float]) -> None:
        self._authority = f"{host}:{port}"
        self._clock = clock
        self._tokens: dict[str, float | None] = {}  # until when each is good
        self._cookies: list[str] = []
        self.cookie_name = f"byleave-{port}"
        self.page_token = secrets.token_urlsafe(32)

    @property
    def origin(self) -> str:
        return f"http://{self._authority}"

    def new_address(self, seconds: float | None = None) -> str:
        """Return an address that signs one browser in, within so many seconds if they are given."""
        token = secrets.token_urlsafe(32)
        self._tokens[token] = None if seconds is None else self._clock() + seconds
        return f"{self.origin}/?token={token}"

    def redeem(self, query: str) -> str | None:
        """Return a new cookie for a token that was not used before, in the form of a header's value; else None."""
        given = parse_qs(query, max_num_fields=8).get("token", [""])[0]
        found = next((token for token in self._tokens if _same(token, given)), None)
        if found is None:
            return None
        until = self._tokens.pop(found)
        if until is not None and self._clock() > until:
            return None
        value = secrets.token_urlsafe(32)
        self._cookies = [*self._cookies[1 - _MOST_COOKIES :], value]
        return f"{self.cookie_name}={value}; Path=/; HttpOnly; SameSite=Strict"

    def is_signed_in(self, fields: Mapping[str, str]) -> bool:
        """Whether a request carries a cookie of ours."""
        given = [
            value
            for each in fields.get("cookie", "").split(";")
            for name, _mark, value in [each.strip(" \t").partition("=")]
            if name == self.cookie_name
        ]
        return len(given) == 1 and any(_same(known, given[0]) for known in self._cookies)

    def problem_of(self, method: str, fields: Mapping[str, str]) -> str:
        """Return why a request is none of our pages' or user's own; empty if it may be answered."""
        if fields.get("host", "").lower() != self._authority:
            return "the Host header does not name this dashboard"
        if fields.get("sec-fetch-site", "").lower() not in _OWN_SITES:
            return "the request comes from another page"
        origin = fields.get("origin")
        if origin is not None and origin.lower() != self.origin:
            return "the Origin header does not name this dashboard"
        if method != "POST":
            return ""
        if origin is None:
            return "the Origin header is missing"
        if not _same(self.page_token, fields.get("x-byleave-token", "")):
            return "the X-Byleave-Token header is missing, or not the one of the page"
        return ""


def _same(known: str, given: str) -> bool:
    return compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))
