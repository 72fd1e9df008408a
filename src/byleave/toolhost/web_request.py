"""What a tool wants from the web: its parameters, read once, and `${VAR}` in headers filled in.

Values of variables never leave here but in the headers: an error names the variable, never what it holds.
"""

import re

from byleave.errors import RequestError
from byleave.record import Record
from byleave.text import quoted
from byleave.toolhost.params import Params, bad
from byleave.wire.codes import ACCESS_DENIED
from byleave.wire.http_head import REROUTING, WORD, as_servers_read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Variable = Callable[[str], str]

MOST_HEADERS = 200
_NAME = re.compile(WORD)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_IGNORED = frozenset({"accept-encoding"})
# We say where a request goes and where it ends.
_OURS = frozenset(
    {"connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)


class Header(Record):
    """A header as it is sent. `secret`: the host put something into it that is for this origin alone."""

    name: str
    value: str
    secret: bool = False


class Wish(Record):
    """One request of a tool's."""

    method: str
    url: str
    headers: tuple[Header, ...] = ()
    body: bytes | None = None


_BODILESS = ("GET", "HEAD")
_SECRET = frozenset({"authorization", "cookie"})


def read_wish(method: str, params: "Mapping[str, Any]", variable: "Variable", *, limit: int) -> Wish:
    """Return what the parameters ask for; `variable` returns the value of one, or raises."""
    given = Params({name: value for name, value in params.items() if value is not None})
    url, body = given.text("url"), given.data("body", limit=limit, default="")
    if body and method in _BODILESS:
        raise bad(f"a {method} has no body")
    return Wish(method, url, tuple(_headers(params.get("headers"), variable)), body or None)


def _headers(given: "Any", variable: "Variable") -> "Iterator[Header]":
    pairs = list(_pairs(given))
    if len(pairs) > MOST_HEADERS:
        raise bad(f"a request has no more than {MOST_HEADERS} headers")
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            raise bad("the name and the value of a header must be strings")
        if name.lower() not in _IGNORED:
            yield _header(name, value, variable)


def _pairs(given: "Any") -> "Iterator[tuple[Any, Any]]":
    if isinstance(given, dict):
        yield from given.items()
    elif isinstance(given, list) and all(isinstance(each, dict) for each in given):
        yield from ((each.get("name"), each.get("value")) for each in given)
    elif given is not None:
        raise bad("headers must be a list of objects with name and value")


def _header(name: str, value: str, variable: "Variable") -> Header:
    lowered = name.lower()
    if not _NAME.fullmatch(name):
        raise bad(f"{quoted(name[:80])} is no name of a header")
    read = as_servers_read(name)
    if read in _OURS or read in REROUTING or read.startswith("proxy-"):
        raise bad(f"the header {quoted(name)} is not for tools to set: it says where a request goes, or where it ends")
    filled = _VARIABLE.sub(lambda found: variable(found[1]), value)
    if _CONTROL.search(filled) or not _is_text(filled):
        raise bad(f"the value of the header {quoted(name)} holds characters that no header may have")
    return Header(name, filled.strip(" \t"), secret=lowered in _SECRET or _VARIABLE.search(value) is not None)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def variables(environment: "Mapping[str, str]", may_use: "Callable[[str], bool]") -> "Variable":
    """Return what looks variables up for a tool: only those that it may use."""

    def value_of(name: str) -> str:
        if not may_use(name):
            hint = "list it under access.env, with substitute = true"
            raise RequestError(f"the variable {name} may not be used", hint=hint, number=ACCESS_DENIED)
        if name not in environment:
            raise RequestError(f"the variable {name} is not set", hint="set it for byleave", number=ACCESS_DENIED)
        return environment[name]

    return value_of
