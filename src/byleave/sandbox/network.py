"""A sandbox's way into the network: the proxy, asking the policy about every request."""

from byleave.core.access import PUBLIC
from byleave.core.net import ANY_PUBLIC, NetTable
from byleave.core.url import BadUrl, parse_url
from byleave.core.verdict import ALLOW
from byleave.sandbox.gate import Judgement
from byleave.sandbox.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from byleave.core.verdict import Verdict
    from byleave.guard.judge import Policy
    from byleave.sandbox.gate import Told

    Decide = Callable[[dict[str, Any]], Verdict]


def open_proxy(policy: "Policy", tool: str, decide: "Decide | None" = None, told: "Told | None" = None) -> Proxy:
    """Return the proxy of a tool's sandbox, not started yet. `decide` may record what it is asked; `told` hears it."""
    ask = decide if decide is not None else policy.decide

    def judge(url: str) -> Judgement:
        verdict = ask({"kind": "url", "url": url, "tool": tool})
        target = parse_url(url)
        tables = list(_tables(policy, tool))
        if policy.compiled.policy.tool(tool).access.net is PUBLIC:
            return Judgement(verdict.decision is ALLOW, verdict.reason, ANY_PUBLIC)
        rule = None if isinstance(target, BadUrl) or not tables else tables[0].match(target)
        return Judgement(verdict.decision is ALLOW, verdict.reason, rule)

    def has_paths(host: str) -> bool:
        return any(table.has_paths(host) for table in _tables(policy, tool))

    return Proxy(judge, has_paths, told=told)


def _tables(policy: "Policy", tool: str) -> "Iterator[NetTable]":
    """Yield the network rules of every voice; the first are those that grant."""
    for voice in policy.compiled.policy.voices:
        known = voice.tools.get(tool)
        if known is not None and isinstance(known.access.net, NetTable):
            yield known.access.net
