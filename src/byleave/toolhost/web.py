"""`http.*` for one tool: read what it wants, have every hop judged, ask, and hand back what is not secret.

Start at `Web.serve`. Parameters: `web_request`. What a redirect leads to: `redirects`. The asking: `effects.http`.
"""

from functools import cache

from byleave.core.action import UrlAction
from byleave.core.net import USERINFO, NetRule, NetTable
from byleave.core.url import BadUrl, parse_url
from byleave.effects.http import LARGEST_BODY, SCHEMES
from byleave.effects.http_exchange import Ask
from byleave.errors import RequestError
from byleave.guard.asking import UNKNOWN
from byleave.toolhost import redirects
from byleave.toolhost.params import bad
from byleave.toolhost.telling import content_fields, denied
from byleave.toolhost.web_request import read_wish, variables
from byleave.wire.codes import ACCESS_DENIED, INTERNAL_ERROR, METHOD_NOT_FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.policy import Policy
    from byleave.core.url import Target
    from byleave.effects.http import Client
    from byleave.effects.http_exchange import Reply
    from byleave.guard.asking import Who
    from byleave.guard.guard import Guard
    from byleave.toolhost.scrubbing import Scrub
    from byleave.toolhost.turn import Turn
    from byleave.toolhost.web_request import Wish

_VERBS = {f"http.{verb}": verb.upper() for verb in ("get", "post", "put", "patch", "delete", "head")}


class Web:
    """The web as one tool may reach it. Any number of threads may serve at once."""

    methods = tuple(_VERBS)

    def __init__(
        self,
        guard: "Guard",
        tool: str,
        client: "Client",
        environment: "Mapping[str, str]",
        scrub: "Scrub",
        *,
        may_use: "Callable[[str], bool]",
        limit: int = LARGEST_BODY,
        who: "Who" = UNKNOWN,
    ) -> None:
        self._guard = guard
        self._tool = tool
        self._client = client
        self._variable = variables(environment, may_use)
        self._scrub = scrub
        self._limit = limit
        self._who = who

    def serve(self, method: str, params: "Mapping[str, Any]", turn: "Turn") -> "dict[str, Any]":
        """Return the answer of the web server as the protocol has it; a RequestError if there is none."""
        verb = _VERBS.get(method)
        if verb is None:
            raise RequestError("there is no such method", hint="use http.get", number=METHOD_NOT_FOUND)
        try:
            return self._result(self._follow(read_wish(verb, params, cache(self._value), limit=self._limit), turn))
        except RequestError as error:
            raise self._scrubbed(error) from None

    def _value(self, name: str) -> str:
        value = self._variable(name)
        self._scrub.uses(value)
        return value

    def _follow(self, wish: "Wish", turn: "Turn") -> "Reply":
        """Return the first answer that sends us nowhere else; every hop is a request of its own."""
        for _hop in range(redirects.MOST + 1):
            reply = self._ask(wish, turn)
            location = redirects.location_of(reply.status, reply.headers)
            if location is None:
                return reply
            following = redirects.next_wish(wish, reply.status, location)
            if following is None:
                raise _lost("the server redirects to something that is no URL")
            wish = following
        raise _lost(f"the server redirects more than {redirects.MOST} times")

    def _ask(self, wish: "Wish", turn: "Turn") -> "Reply":
        turn.go_on()
        _keep_passwords_out(wish.url)
        answer = self._guard.check(UrlAction(wish.url, wish.method, tool=self._tool), self._who)
        if not answer.allowed:
            raise denied(answer.verdict)
        turn.go_on()  # a person may have taken their time
        target = parse_url(wish.url)
        if isinstance(target, BadUrl) or target.scheme not in SCHEMES:
            raise bad("only http and https are served")
        ask = Ask(wish.method, wish.url, tuple((each.name, each.value) for each in wish.headers), wish.body)
        rules = dialling_rules(self._guard.policy.compiled.policy, self._tool, target)
        return self._guard.perform(
            answer,
            lambda permit: self._client.request(
                permit, ask, rules, limit=self._limit, deadline=turn.deadline, on_cancel=turn.on_cancel
            ),
        )

    def _result(self, reply: "Reply") -> "dict[str, Any]":
        scrub = self._scrub
        headers = [{"name": scrub.text(name), "value": scrub.text(value)} for name, value in reply.headers]
        return {
            "status": reply.status,
            **content_fields("body", scrub.data(reply.body)),
            "headers": headers,
            "url": scrub.text(reply.url),
        }

    def _scrubbed(self, error: RequestError) -> RequestError:
        return RequestError(
            self._scrub.text(error.problem),
            hint=self._scrub.text(error.hint),
            number=error.number,
            data=self._scrub.tree(error.data),
        )


def dialling_rules(policy: "Policy", tool: str, target: "Target") -> "tuple[NetRule | None, ...]":
    """Return the rules that say which addresses a place may be reached at: one of every voice that has any.

    Where the user wrote none, and it is allowed nevertheless (a person said yes, or nothing is restricted), it is as
    if there were one for this very host: public addresses, or the one that the URL itself names.
    """
    found: list[NetRule | None] = []
    for number, voice in enumerate(policy.voices):
        known = voice.tools.get(tool)
        table = None if known is None else known.access.net
        if isinstance(table, NetTable):
            rule = table.match(target)
            if rule is not None or not voice.denies_only:
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
