"""What follows from a redirect: the next request, without what is not for the place it goes to.

Pure. Nobody follows it from here: the next request is judged like the first one.
"""

from urllib.parse import urljoin

from byleave.core.url import BadUrl, parse_url
from byleave.effects.http_exchange import in_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.toolhost.web_request import Header, Wish

MOST = 10
_STATUSES = frozenset({301, 302, 303, 307, 308})
_OF_THE_BODY = frozenset({"content-encoding", "content-language", "content-location", "content-type"})


def location_of(status: int, headers: "Sequence[tuple[str, str]]") -> str | None:
    """Return where an answer sends us, None if it does not; of several places the first."""
    if status not in _STATUSES:
        return None
    return next((value for name, value in headers if name.lower() == "location"), None)


def next_wish(wish: "Wish", status: int, location: str) -> "Wish | None":
    """Return the request that a redirect asks for, as browsers do; None if it names no place at all.

    What was for one origin alone stays there, and does not come back where a further redirect leads home.
    """
    try:
        url = urljoin(wish.url, in_ascii(location))  # a host that is not ASCII is none after that
    except ValueError:
        return None
    same = (origin := _origin(url)) is not None and origin == _origin(wish.url)
    headers = wish.headers if same else tuple(header for header in wish.headers if not header.secret)
    if not _changes_method(wish.method, status):
        kept: Wish = wish.replace(url=url, headers=headers)
        return kept
    read: Wish = wish.replace(method="GET", url=url, headers=_without_body(headers), body=None)
    return read


def _changes_method(method: str, status: int) -> bool:
    """Whether the next request only reads (Fetch standard, HTTP-redirect fetch)."""
    return (status in (301, 302) and method == "POST") or (status == 303 and method not in ("GET", "HEAD"))


def _without_body(headers: "tuple[Header, ...]") -> "tuple[Header, ...]":
    return tuple(header for header in headers if header.name.lower() not in _OF_THE_BODY)


def _origin(url: str) -> tuple[str, str, int | None] | None:
    target = parse_url(url)
    return None if isinstance(target, BadUrl) else (target.scheme, target.host, target.port)
