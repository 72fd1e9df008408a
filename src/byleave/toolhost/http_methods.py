"""`http.*` for one tool: read its parameters, have every hop authorized, send the request, redact the response.

Start at `HttpMethods.serve`. `read_request` reads the parameters and puts values of variables in place of `${VAR}` in
headers: they go nowhere else, and an error names the variable, never its value. `redirected` returns the request that a
redirect leads to, without what is not for that origin; it is authorized like the first one. Connections and responses:
net.http_client.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from msgspec import Struct, structs

from byleave.core.action import UrlAction
from byleave.core.net_rules import USERINFO, NetRule, NetTable
from byleave.core.url import BadUrl, parse_url
from byleave.errors import RequestError
from byleave.guard.evaluation import UNKNOWN
from byleave.net.endpoints import SCHEMES, in_ascii
from byleave.net.http_client import LARGEST_BODY, HttpRequest
from byleave.protocol.http_head import REROUTING, WORD, as_servers_read, names_second_place
from byleave.protocol.jsonrpc import ACCESS_DENIED, INTERNAL_ERROR, METHOD_NOT_FOUND
from byleave.text import quoted
from byleave.toolhost.codec import Params, bad, content_fields, denied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Variable = Callable[[str], str]
    from collections.abc import Sequence

    from byleave.core.policy import CompiledPolicy
    from byleave.core.redact import SecretFilter
    from byleave.core.url import Target
    from byleave.guard.evaluation import Who
    from byleave.guard.guard import Guard
    from byleave.net.http_client import HttpClient, HttpResponse
    from byleave.toolhost.deadline import Deadline


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


class Header(Struct, frozen=True):
    """A header as it is sent. `secret`: the host put something into it that is for this origin alone."""

    name: str
    value: str
    secret: bool = False


class WebRequest(Struct, frozen=True):
    """One request of a tool's."""

    method: str
    url: str
    headers: tuple[Header, ...] = ()
    body: bytes | None = None


_BODILESS = ("GET", "HEAD")
_SECRET = frozenset({"authorization", "cookie"})


def read_request(method: str, params: Mapping[str, Any], variable: Variable, *, limit: int) -> WebRequest:
    """Return the request that the parameters describe; `variable` returns the value of one, or raises."""
    given = Params({name: value for name, value in params.items() if value is not None})
    url, body = given.text("url"), given.data("body", limit=limit, default="")
    if body and method in _BODILESS:
        raise bad(f"a {method} has no body")
    return WebRequest(method, url, tuple(_headers(params.get("headers"), variable)), body or None)


def _headers(given: Any, variable: Variable) -> Iterator[Header]:
    pairs = list(_pairs(given))
    if len(pairs) > MOST_HEADERS:
        raise bad(f"a request has no more than {MOST_HEADERS} headers")
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            raise bad("the name and the value of a header must be strings")
        if name.lower() not in _IGNORED:
            yield _header(name, value, variable)


def _pairs(given: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(given, dict):
        yield from given.items()
    elif isinstance(given, list) and all(isinstance(each, dict) for each in given):
        yield from ((each.get("name"), each.get("value")) for each in given)
    elif given is not None:
        raise bad("headers must be a list of objects with name and value")


def _header(name: str, value: str, variable: Variable) -> Header:
    lowered = name.lower()
    if not _NAME.fullmatch(name):
        raise bad(f"{quoted(name[:80])} is no name of a header")
    read = as_servers_read(name)
    if read in _OURS or read in REROUTING or read.startswith("proxy-"):
        raise bad(f"the header {quoted(name)} is not for tools to set: it says where a request goes, or where it ends")
    if names_second_place(name):
        raise bad(f"the header {quoted(name)} is not for tools to set: it names a path that no rule would see")
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


def variables(environment: Mapping[str, str], may_use: Callable[[str], bool]) -> Variable:
    """Return what looks variables up for a tool: only those that it may use."""

    def value_of(name: str) -> str:
        if not may_use(name):
            hint = "list it under access.env, with substitute = true"
            raise RequestError(f"the variable {name} may not be used", hint=hint, number=ACCESS_DENIED)
        if name not in environment:
            raise RequestError(f"the variable {name} is not set", hint="set it for byleave", number=ACCESS_DENIED)
        return environment[name]

    return value_of


MOST = 10
_STATUSES = frozenset({301, 302, 303, 307, 308})
_OF_THE_BODY = frozenset({"content-encoding", "content-language", "content-location", "content-type"})


def location_of(status: int, headers: Sequence[tuple[str, str]]) -> str | None:
    """Return where a response redirects to, None if it does not; of several places the first."""
    if status not in _STATUSES:
        return None
    return next((value for name, value in headers if name.lower() == "location"), None)


def redirected(request: WebRequest, status: int, location: str) -> WebRequest | None:
    """Return the request that a redirect asks for, as browsers do; None if it names no place at all.

    What was for one origin alone stays there, and does not come back where a further redirect leads home.
    """
    try:
        url = urljoin(request.url, in_ascii(location))  # a host that is not ASCII is none after that
    except ValueError:
        return None
    same = (origin := _origin(url)) is not None and origin == _origin(request.url)
    headers = request.headers if same else tuple(header for header in request.headers if not header.secret)
    if not _changes_method(request.method, status):
        return structs.replace(request, url=url, headers=headers)
    return structs.replace(request, method="GET", url=url, headers=_without_body(headers), body=None)


def _changes_method(method: str, status: int) -> bool:
    """Whether the next request only reads (Fetch standard, HTTP-redirect fetch)."""
    return (status in (301, 302) and method == "POST") or (status == 303 and method not in ("GET", "HEAD"))


def _without_body(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    return tuple(header for header in headers if header.name.lower() not in _OF_THE_BODY)


def _origin(url: str) -> tuple[str, str, int | None] | None:
    target = parse_url(url)
    return None if isinstance(target, BadUrl) else (target.scheme, target.host, target.port)


_VERBS = {f"http.{verb}": verb.upper() for verb in ("get", "post", "put", "patch", "delete", "head")}


class HttpMethods:
    """The web as one tool may reach it. Any number of threads may serve at once."""

    methods = tuple(_VERBS)

    def __init__(
        self,
        guard: Guard,
        tool: str,
        client: HttpClient,
        environment: Mapping[str, str],
        secrets: SecretFilter,
        *,
        may_use: Callable[[str], bool],
        limit: int = LARGEST_BODY,
        who: Who = UNKNOWN,
    ) -> None:
        self._guard = guard
        self._tool = tool
        self._client = client
        self._variable = variables(environment, may_use)
        self._secrets = secrets
        self._limit = limit
        self._who = who

    def serve(self, method: str, params: Mapping[str, Any], turn: Deadline) -> dict[str, Any]:
        """Return the response of the web server as the protocol has it; a RequestError if there is none."""
        verb = _VERBS.get(method)
        if verb is None:
            raise RequestError("there is no such method", hint="use http.get", number=METHOD_NOT_FOUND)
        try:
            return self._result(self._follow(read_request(verb, params, cache(self._value), limit=self._limit), turn))
        except RequestError as error:
            raise self._scrubbed(error) from None

    def _value(self, name: str) -> str:
        value = self._variable(name)
        self._secrets.uses(value)
        return value

    def _follow(self, request: WebRequest, turn: Deadline) -> HttpResponse:
        """Return the first response that is no redirect; every hop is a request of its own."""
        for _hop in range(MOST + 1):
            reply = self._send(request, turn)
            location = location_of(reply.status, reply.headers)
            if location is None:
                return reply
            following = redirected(request, reply.status, location)
            if following is None:
                raise _lost("the server redirects to something that is no URL")
            request = following
        raise _lost(f"the server redirects more than {MOST} times")

    def _send(self, request: WebRequest, turn: Deadline) -> HttpResponse:
        turn.go_on()
        _keep_passwords_out(request.url)
        answer = self._guard.check(UrlAction(request.url, request.method, tool=self._tool), self._who)
        if not answer.allowed:
            raise denied(answer.verdict)
        turn.go_on()  # a person may have taken their time
        target = parse_url(request.url)
        if isinstance(target, BadUrl) or target.scheme not in SCHEMES:
            raise bad("only http and https are served")
        sent = HttpRequest(
            request.method, request.url, tuple((each.name, each.value) for each in request.headers), request.body
        )
        rules = dialling_rules(self._guard.policy.compiled.policy, self._tool, target)
        return self._guard.perform(
            answer,
            lambda permit: self._client.request(
                permit, sent, rules, limit=self._limit, deadline=turn.deadline, on_cancel=turn.on_cancel
            ),
        )

    def _result(self, reply: HttpResponse) -> dict[str, Any]:
        secrets = self._secrets
        headers = [{"name": secrets.text(name), "value": secrets.text(value)} for name, value in reply.headers]
        return {
            "status": reply.status,
            **content_fields("body", secrets.data(reply.body)),
            "headers": headers,
            "url": secrets.text(reply.url),
        }

    def _scrubbed(self, error: RequestError) -> RequestError:
        return RequestError(
            self._secrets.text(error.problem),
            hint=self._secrets.text(error.hint),
            number=error.number,
            data=self._secrets.tree(error.data),
        )


def dialling_rules(policy: CompiledPolicy, tool: str, target: Target) -> tuple[NetRule | None, ...]:
    """Return the rules that say which addresses a place may be reached at: one of every policy layer that has any.

    Where the user wrote none, and it is allowed nevertheless (a person said yes, or nothing is restricted), it is as
    if there were one for this very host: public addresses, or the one that the URL itself names.
    """
    found: list[NetRule | None] = []
    for number, layer in enumerate(policy.views):
        known = layer.tools.get(tool)
        table = None if known is None else known.access.net
        if isinstance(table, NetTable):
            rule = table.match(target)
            if rule is not None or not layer.denies_only:
                found.append(rule)
        elif number == 0:
            found.append(NetRule(target.host, allow=True))
    return tuple(found)


def _keep_passwords_out(url: str) -> None:
    """Refuse a URL that carries a password, or may: it goes no further, not even into a record."""
    if "@" not in url:
        return
    target = parse_url(url)
    problem = target.problem if isinstance(target, BadUrl) else USERINFO if target.userinfo else None
    if problem is not None:
        raise RequestError(problem, hint="put it into a header", number=ACCESS_DENIED)


def _lost(problem: str) -> RequestError:
    return RequestError(problem, hint="ask the server's people", number=INTERNAL_ERROR)
