"""A sandbox's way into the network: the proxy, asking the policy about every request."""

from byleave.core.access import PUBLIC
from byleave.core.matchers import All, AnyOf, Not, UrlMatcher
from byleave.core.net import ANY_PUBLIC, NetTable
from byleave.core.url import BadUrl, normal_host, parse_url
from byleave.core.verdict import ALLOW
from byleave.sandbox.gate import Judgement
from byleave.sandbox.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from byleave.core.matchers import Matcher
    from byleave.core.verdict import Verdict
    from byleave.guard.judge import Policy
    from byleave.sandbox.gate import Resolve, Told
    from byleave.sandbox.http_place import Place

    Decide = Callable[[dict[str, Any]], Verdict]


def open_proxy(
    policy: "Policy",
    tool: str,
    decide: "Decide | None" = None,
    told: "Told | None" = None,
    *,
    resolve: "Resolve | None" = None,
) -> Proxy:
    """Return the proxy of a tool's sandbox, not started yet. `decide` may record what it is asked; `told` hears it."""
    ask = decide if decide is not None else policy.decide

    def judge(url: str, method: str) -> Judgement:
        """Consider a request: whether its host may be looked up. Nothing is recorded yet."""
        return judged(policy.decide({"kind": "url", "url": url, "method": method, "tool": tool}), url)

    def settle(place: "Place", refused: str | None) -> Judgement:
        action = {"kind": "url", "url": place.url, "method": place.method, "tool": tool}
        return judged(ask(action if refused is None else {**action, "refused": refused}), place.url)

    def judged(verdict: "Verdict", url: str) -> Judgement:
        target = parse_url(url)
        tables = list(_tables(policy, tool))
        if policy.compiled.policy.tool(tool).access.net is PUBLIC:
            return Judgement(verdict.decision is ALLOW, verdict.reason, ANY_PUBLIC)
        rule = None if isinstance(target, BadUrl) or not tables else tables[0].match(target)
        return Judgement(verdict.decision is ALLOW, verdict.reason, rule)

    def has_paths(host: str) -> bool:
        return any(table.has_paths(host) for table in _tables(policy, tool)) or _rules_look_inside(policy, host)

    return Proxy(judge, has_paths, told=told, resolve=resolve, settle=settle)


def _tables(policy: "Policy", tool: str) -> "Iterator[NetTable]":
    """Yield the network rules of every voice; the first are those that grant."""
    for voice in policy.compiled.policy.voices:
        known = voice.tools.get(tool)
        if known is not None and isinstance(known.access.net, NetTable):
            yield known.access.net


def _rules_look_inside(policy: "Policy", host: str) -> bool:
    """Whether a rule that denies or asks about a host depends on the path or the method, which TLS hides."""
    named = normal_host(host)
    for table in policy.compiled.policy.rule_tables():
        for rule in table.rules:
            if rule.outcome is ALLOW:
                continue
            for matcher in _url_matchers(rule.matcher):
                if (matcher.path_prefix or matcher.methods) and matcher.host in (None, host, named):
                    return True
    return False


def _url_matchers(matcher: "Matcher") -> "Iterator[UrlMatcher]":
    if isinstance(matcher, UrlMatcher):
        yield matcher
    elif isinstance(matcher, All | AnyOf):
        for each in matcher.matchers:
            yield from _url_matchers(each)
    elif isinstance(matcher, Not):
        yield from _url_matchers(matcher.matcher)
