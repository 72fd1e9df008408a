"""Decide calls of MCP servers: who calls, by `agents`; with which arguments, by `rules`. Pure.

In each view the stricter of the two families counts, and one that says nothing adds nothing; where both are silent the
view asks. The strictest view wins. What a listing may show is decided by the same rules, with the arguments unknown.

Start at `decide_call`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.agents import RESOURCES, TOOLS, check_names
from byleave.core.arguments import ANY_TOOL, UNKNOWN, CallArguments
from byleave.core.decision import ALLOW, BUILT_IN, DENY, RuleRef, Verdict, strictest
from byleave.core.input_schema import InputSchema
from byleave.core.match_context import MatchContext
from byleave.core.patterns import UNSEEN, oddity, spelled
from byleave.core.policy import NO_RULE, CompiledPolicy, with_help
from byleave.core.rules import ruling_verdict
from byleave.core.suggest import suggest_call_rule
from byleave.core.url import forms
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.core.action import CallAction
    from byleave.core.policy import PolicyView


def decide_call(policy: CompiledPolicy, action: CallAction) -> Verdict:
    """Return the verdict on calling a tool, or on the server itself where no tool is named."""
    arguments = action.arguments
    if action.schema is not None:
        arguments = CallArguments(arguments, InputSchema(action.schema))
    subject = MatchContext("other", _named(policy, action.agent), call=(action.server, action.tool, arguments))
    verdict = _by_all(policy, subject, TOOLS, action.tool)
    if action.respelled:
        verdict = strictest([verdict, *_in_other_spellings(policy, subject)])
    odd = check_names(action.agent, action.server, action.tool)
    return verdict if odd is None else strictest([odd, verdict]).replace(suggestion=None)


def _in_other_spellings(policy: CompiledPolicy, subject: MatchContext) -> Iterator[Verdict]:
    """Yield what denies and asks say of the names that an agent may have written with `_` for other signs.

    Claude Code calls `repo.delete` of `my.server` `mcp__my_server__repo_delete`. An allow is for the name as it came.
    """
    server, tool, arguments = subject.call or ("", None, None)
    for view in policy.views:
        for server_pattern, tool_pattern in dict.fromkeys(_refused_names(view)):
            meant = spelled(server_pattern, server)
            called = tool if tool_pattern is None or tool is None else spelled(tool_pattern, tool)
            if meant is None or (called is None and tool is not None) or (meant, called) == (server, tool):
                continue
            other = subject.replace(call=(meant, called, arguments))
            denial = None if view.agents is None else view.agents.denial(subject.agent, meant, TOOLS, called)
            ruled = None if view.denies_only else _by_rules(view, other, f"calling {shown(server)}.{shown(tool or '')}")
            yield from (each for each in (denial, ruled) if each is not None and each.decision is not ALLOW)


def _refused_names(view: PolicyView) -> Iterator[tuple[str, str | None]]:
    """Yield the servers, and tools on them, that a deny or an ask names; None for every tool."""
    for agent in view.agents.agents if view.agents is not None else ():
        yield from ((entry.pattern, None) for entry in agent.deny.servers)
        for server, entries in agent.deny.tools.items():
            yield from ((server, entry.pattern) for entry in entries)
    for rule in view.rules.rules if view.rules is not None else ():
        if rule.outcome is not ALLOW:
            yield from rule.matcher.calls or ()


def _named(policy: CompiledPolicy, agent: str | None) -> str | None:
    """Return the calling agent; where none is named, the configured default, for rules that name agents as well."""
    agents = policy.views[0].agents
    return agent if agent is not None or agents is None else agents.default


def decide_use(policy: CompiledPolicy, agent: str | None, server: str, kind: str, name: str) -> Verdict:
    """Return the verdict on a resource or a prompt of a server: `rules` speak of the server as a whole."""
    subject = MatchContext("other", _named(policy, agent), call=(server, None, None))
    verdict = _by_forms(policy, subject, kind, _forms(kind, name))
    odd = check_names(agent, server, None)
    if oddity(name) == UNSEEN:
        ref = RuleRef("misleading names", BUILT_IN, DENY)
        odd = Verdict(
            DENY, f"{shown(server)} is denied: the name has invisible letters, or no letters at all", "denied", (ref,)
        )
    return verdict if odd is None else strictest([odd, verdict]).replace(suggestion=None)


def _forms(kind: str, name: str) -> tuple[str, ...]:
    """Return every way in which rules may write a name: a URI has several."""
    if kind != RESOURCES:
        return (name,)

    return forms(name)


def _by_forms(policy: CompiledPolicy, subject: MatchContext, kind: str, names: tuple[str, ...]) -> Verdict:
    """Return the verdict on what has several names: to allow one of them is enough, and so is to deny one."""
    server = subject.call[0] if subject.call is not None else ""
    said = [_by_all(policy, subject, kind, name) for name in names]
    known = [view.agents for view in policy.views if view.agents is not None]
    denials = [agents.denial(subject.agent, server, kind, name) for agents in known for name in names]
    best = min(said, key=lambda verdict: verdict.decision)
    return strictest([best, *(denial for denial in denials if denial is not None)])


def could_call(policy: CompiledPolicy, agent: str | None, server: str, tool: str | None) -> bool:
    """Whether some arguments exist for which the call is not denied; without a tool, some tool and arguments."""
    odd = check_names(agent, server, tool)
    if odd is not None and odd.decision is DENY:
        return False
    subject = MatchContext("other", _named(policy, agent), call=(server, ANY_TOOL if tool is None else tool, UNKNOWN))
    return all(_could(view, subject, server, tool) for view in policy.views)


def could_use(policy: CompiledPolicy, agent: str | None, server: str, kind: str, name: str) -> bool:
    """Whether a server's resource (by its URI) or prompt is not denied; `kind` is "resources" or "prompts"."""
    return decide_use(policy, agent, server, kind, name).decision is not DENY


def _could(view: PolicyView, subject: MatchContext, server: str, tool: str | None) -> bool:
    agents = view.agents
    if view.denies_only:
        return agents is None or agents.denial(subject.agent, server, TOOLS, tool) is None
    if agents is not None and agents.decide(subject.agent, server, TOOLS, tool).decision is DENY:
        return False
    return view.rules is None or view.rules.could_allow(subject)


def _by_all(policy: CompiledPolicy, subject: MatchContext, kind: str, name: str | None) -> Verdict:
    server = subject.call[0] if subject.call is not None else ""
    what = f"calling {shown(server)}{'.' + shown(name) if name else ''}"
    verdicts = list(_by_view(policy, subject, kind, name, what))
    verdict = strictest(verdicts)
    if verdict.because[0] is NO_RULE:
        verdict = verdict.replace(suggestion=suggest_call_rule(server, name) if kind == TOOLS else None)
    return with_help(verdict, verdicts[1:])


def _by_view(
    policy: CompiledPolicy, subject: MatchContext, kind: str, name: str | None, what: str
) -> Iterator[Verdict]:
    """Yield what each view comes to. Where only denies count, a view without one is not heard."""
    for view in policy.views:
        server = subject.call[0] if subject.call is not None else ""
        if view.denies_only:
            denial = None if view.agents is None else view.agents.denial(subject.agent, server, kind, name)
            if denial is not None:
                yield denial
            continue
        answer = None if view.agents is None else view.agents.decide(subject.agent, server, kind, name)
        ruled = _by_rules(view, subject, what)
        if answer is not None and ruled is not None:
            yield with_help(strictest([answer, ruled]), [ruled])
        elif answer is not None:
            yield answer
        else:
            yield policy.unmatched(what) if ruled is None else ruled


def _by_rules(view: PolicyView, subject: MatchContext, what: str) -> Verdict | None:
    if view.rules is None:
        return None

    return ruling_verdict(view.rules.decide(subject), what)
