"""The rule nearest to allowing an action that is asked about or denied, and what about it does not fit.

Nothing is guessed. A rule that allows is tried with one of its conditions left out; a rule that decides is tried left
out. Only where the whole verdict then is an allow, the rule is named, with that condition. What hangs on two conditions
has no nearest rule here.

`check` loads this module, so it imports as little as the modules that decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.action import CallAction, CommandAction, UrlAction
from byleave.core.decision import ALLOW
from byleave.core.fs_rules import FsTarget
from byleave.core.match_context import MatchContext
from byleave.core.matchers import (
    AgentMatcher,
    All,
    AnyOf,
    CallMatcher,
    CommandMatcher,
    Not,
    PathMatcher,
    UrlMatcher,
    describe,
)
from byleave.core.net_rules import NetTable
from byleave.core.policy import KnownAnswers
from byleave.core.rules import CompiledRule, RuleTable
from byleave.core.url import BadUrl, parse_url
from byleave.record import Record
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.core.action import Action
    from byleave.core.decision import Verdict
    from byleave.core.match_context import MatchPart
    from byleave.core.matchers import Matcher
    from byleave.core.net_rules import NetRule
    from byleave.core.policy import CompiledPolicy, PolicyView
    from byleave.policy.live_policy import LivePolicy, ResolvedAction

    # A matcher with one condition less, how near that is (0 is nearest), and why the condition does not hold.
    Relaxed = tuple[Matcher, int, str]

_MOST_TRIED = 20  # verdicts; a policy of thousands of rules must not make `check` slow
_ALL_OPS = frozenset({"read", "create", "update", "delete", "exec"})
_OPTIONS, _ARGS, _FLAG, _WITHIN, _AGENT, _DETAIL = range(6)


class NearestRule(Record):
    """A rule that would allow an action, and what keeps it from doing so: the end of a sentence with `but`."""

    rule: str
    source: str
    but: str

    @property
    def sentence(self) -> str:
        """The rule for a person."""
        return f"`{shown(self.rule)}` ({shown(self.source)}) would allow it, but {self.but}"

    @property
    def tree(self) -> dict[str, str]:
        """The rule for programs."""
        return {"rule": self.rule, "source": self.source, "but": self.but}


def nearest_rule(policy: LivePolicy, resolved: ResolvedAction, *, confines: bool) -> NearestRule | None:
    """Return the rule nearest to allowing an action; None if it is allowed, or if no single condition keeps it."""
    if resolved.verdict.decision is ALLOW:
        return None
    tried = _Trials(policy, resolved.action, confines=confines)
    table = policy.compiled.policy.views[0].rules
    if table is not None:
        subject = _subject(policy, resolved)
        found = _without_the_deciding(tried, table, resolved, subject) or _by_conditions(tried, table, subject)
        if found is not None:
            return found
    if isinstance(resolved.action, UrlAction) and resolved.action.tool is not None:
        return _by_net_rules(tried, resolved.action.tool)
    return None


class _Trials:
    """Decides the action by changed policies, no more often than is quick."""

    def __init__(self, policy: LivePolicy, action: Action, *, confines: bool) -> None:
        self.compiled: CompiledPolicy = policy.compiled.policy
        self._policy = policy
        self._action = action
        self._confines = confines
        self._left = _MOST_TRIED

    def under(self, rules: Sequence[CompiledRule]) -> Verdict | None:
        """Return the allow that the action would get if these were the rules; None if it would get none."""
        return self._allow(self.compiled.views[0].replace(rules=RuleTable(rules)))

    def under_net(self, tool: str, rules: Sequence[NetRule]) -> Verdict | None:
        """Return the same for network rules of a tool."""
        view = self.compiled.views[0]
        known = view.tools[tool]
        changed = known.replace(access=known.access.replace(net=NetTable(rules)))
        return self._allow(view.replace(tools={**view.tools, tool: changed}))

    def _allow(self, view: PolicyView) -> Verdict | None:
        if self._left == 0:
            return None
        self._left -= 1
        changed = self.compiled.replace(views=(view, *self.compiled.views[1:]), known=KnownAnswers())
        verdict = self._policy.under(changed).decide(self._action, confines=self._confines)
        return verdict if verdict.allowed else None


class _Subject(Record):
    """What the action is about, to see quickly which rules speak of it: the commands of a line, else something else."""

    commands: tuple[MatchContext, ...] | None = None
    paths: tuple[str, ...] = ()
    other: MatchContext | None = None  # a URL or a call

    def may_fit(self, matcher: Matcher) -> bool:
        """Whether a matcher can be about the action; a yes is only worth a trial."""
        if self.commands is not None:
            return any(_fits(matcher, command) for command in self.commands)
        if isinstance(matcher, All | AnyOf):
            each = [self.may_fit(inner) for inner in matcher.matchers]
            return all(each) if isinstance(matcher, All) else any(each)
        if isinstance(matcher, PathMatcher):
            return any(matcher.glob.matches(path) for path in self.paths)
        if isinstance(matcher, UrlMatcher | CallMatcher):
            return self.other is not None and matcher.match(self.other, granting=True) is True
        return not isinstance(matcher, CommandMatcher)


def _subject(policy: LivePolicy, resolved: ResolvedAction) -> _Subject:
    action, reader = resolved.action, policy.compiled.read_line
    if isinstance(action, UrlAction):
        target = parse_url(action.url)
        known = None if isinstance(target, BadUrl) else target
        return _Subject(other=MatchContext("fetch", action.agent, url=known, method=action.method))
    if isinstance(action, CallAction):
        return _Subject(other=MatchContext("other", action.agent, call=(action.server, action.tool, action.arguments)))
    if not isinstance(action, CommandAction) or reader is None:
        places = [place for place in resolved.places if isinstance(place, FsTarget)]
        inside = [place.relative for place in places if place.relative is not None]
        return _Subject(None, (*inside, *[place.canonical.lstrip("/") for place in places]))
    line = reader.read(action.command, action.cwd, action.shell)
    return _Subject(tuple(MatchContext("execute", action.agent, part) for part in line.parts))


def _without_the_deciding(
    tried: _Trials, table: RuleTable, resolved: ResolvedAction, subject: _Subject
) -> NearestRule | None:
    """Return the rule that would allow the action if the one that decides were not there."""
    first = resolved.verdict.because[0]
    deciding = next((rule for rule in table.rules if rule.ref == first and rule.outcome is not ALLOW), None)
    verdict = None if deciding is None else tried.under([rule for rule in table.rules if rule is not deciding])
    if deciding is None or verdict is None:
        return None
    ref = verdict.because[0]
    parts = resolved.verdict.parts
    number = next((number for number, part in enumerate(parts) if part.rule == first), None)
    if parts:  # of a line, the rule for the command that the deciding rule is about
        if number is None or len(verdict.parts) != len(parts):
            return None
        ref = verdict.parts[number].rule
    allowing = next((rule for rule in table.rules if rule.ref == ref), None)
    if allowing is None:
        return None
    but = f"`{shown(first.rule)}` ({shown(first.source)}) stands before it"
    certain = any(deciding.matcher.match(each, granting=False) is True for each in subject.commands or ())
    flags = [flag for flag in _flags(deciding.matcher) if certain and flag not in _flags(allowing.matcher)]
    return NearestRule(allowing.text, allowing.source, f"it has {sentence_list(flags)}, and {but}" if flags else but)


def _flags(matcher: Matcher) -> tuple[str, ...]:
    return matcher.flags if isinstance(matcher, CommandMatcher) else ()


def _by_conditions(tried: _Trials, table: RuleTable, subject: _Subject) -> NearestRule | None:
    """Return the rule that would allow the action with one condition less, the nearest condition first."""
    found = [
        (distance, number, matcher, but)
        for number, rule in enumerate(table.rules)
        if rule.outcome is ALLOW
        for matcher, distance, but in _relaxed(rule.matcher, subject)
        if subject.may_fit(matcher)
    ]
    for _distance, number, matcher, but in sorted(found, key=lambda each: each[:2]):
        rule = table.rules[number]
        wider = CompiledRule(
            ALLOW, matcher, rule.why, rule.source, rule.words, sandbox=rule.sandbox, unread=rule.unread
        )
        if tried.under([*table.rules[:number], wider, *table.rules[number + 1 :]]) is not None:
            return NearestRule(rule.text, rule.source, but)
    return None


def _fits(matcher: Matcher, subject: MatchContext) -> bool:
    return matcher.match(subject, granting=True) is True and matcher.covers(subject)


def _relaxed(matcher: Matcher, subject: _Subject) -> Iterator[Relaxed]:
    """Yield the matcher with one of its conditions left out, in every way."""
    if isinstance(matcher, All):
        yield from _relaxed_all(matcher, subject)
    elif isinstance(matcher, AnyOf):
        for number, inner in enumerate(matcher.matchers):
            for wider, distance, but in _relaxed(inner, subject):
                yield matcher.replace(matchers=_with(matcher.matchers, number, wider)), distance, but
    elif subject.commands is not None:
        if isinstance(matcher, CommandMatcher):
            yield from _relaxed_command(matcher, [each.part for each in subject.commands if each.part is not None])
    elif isinstance(matcher, PathMatcher) and matcher.ops != _ALL_OPS:
        yield matcher.replace(ops=_ALL_OPS), _DETAIL, f"the rule is about {sentence_list(sorted(matcher.ops))} alone"
    elif isinstance(matcher, UrlMatcher) and matcher.host is not None:
        for key, value in (("methods", ()), ("scheme", None), ("port", None), ("path_prefix", None)):
            if getattr(matcher, key) != value:
                yield matcher.replace(**{key: value}), _DETAIL, _unlike(key, getattr(matcher, key))
    elif isinstance(matcher, CallMatcher) and matcher.argument is not None:
        yield matcher.replace(argument=None), _DETAIL, "its arguments are not those that the rule is about"


def _relaxed_all(matcher: All, subject: _Subject) -> Iterator[Relaxed]:
    for number, inner in enumerate(matcher.matchers):
        others = (*matcher.matchers[:number], *matcher.matchers[number + 1 :])
        if others and isinstance(inner, AgentMatcher):
            yield All(others), _AGENT, f"the rule is for {sentence_list(list(inner.agents))} alone"
        elif others and isinstance(inner, Not):
            yield All(others), _FLAG, f"the rule leaves out {describe(inner.matcher)}"
        for wider, distance, but in _relaxed(inner, subject):
            yield All(_with(matcher.matchers, number, wider)), distance, but


def _with(matchers: tuple[Matcher, ...], number: int, wider: Matcher) -> tuple[Matcher, ...]:
    return (*matchers[:number], wider, *matchers[number + 1 :])


def _relaxed_command(matcher: CommandMatcher, parts: Sequence[MatchPart]) -> Iterator[Relaxed]:
    if not matcher.names:  # without any word, it would be near to everything
        return
    beyond = next((found for part in parts if (found := _beyond(matcher, part)) is not None), None)
    if not matcher.any_options and beyond is not None:
        yield matcher.replace(any_options=True), _OPTIONS, f"it has {shown(beyond)}"
    for flag in matcher.flags:
        kept = tuple(each for each in matcher.flags if each != flag)
        yield matcher.replace(flags=kept), _FLAG, f"it has no {shown(flag)}"
    if matcher.args is not None and matcher.args[-1:] != ("**",):
        words = quoted(" ".join(matcher.args)) if matcher.args else "none"
        yield matcher.replace(args=(*matcher.args, "**")), _ARGS, f"it has more arguments than {words}"
    if matcher.operands is not None:
        yield matcher.replace(operands=None), _ARGS, _operands(matcher.operands)
    if matcher.within is not None:
        yield matcher.replace(within=None), _WITHIN, f"it does not start within {shown(matcher.within)}"


def _operands(most: int) -> str:
    return f"it has more than {most} operands" if most else "it has operands"


def _beyond(matcher: CommandMatcher, part: MatchPart) -> str | None:
    """Return the option of a command that an allow by this matcher does not reach."""
    if matcher.match(MatchContext("execute", None, part), granting=True) is not True:
        return None
    return part.knowledge.uncovered(matcher.flags, matcher.args or ())


def _unlike(key: str, value: object) -> str:
    said = sentence_list([str(each) for each in value]) if isinstance(value, tuple) else shown(str(value))
    names = {"methods": "method", "path_prefix": "path"}
    verb = "is not below" if key == "path_prefix" else "is not"
    return f"its {names.get(key, key)} {verb} {said}"


def _by_net_rules(tried: _Trials, tool: str) -> NearestRule | None:
    """Return the network rule of a tool that would allow a URL of its host with one part less."""
    table = tried.compiled.views[0].tools[tool].access.net
    if not isinstance(table, NetTable):
        return None
    rules = list(table.rules)
    for number, rule in enumerate(rules):
        for key in ("scheme", "port", "path_prefix") if rule.allow else ():
            if getattr(rule, key) is not None:
                wider = [*rules[:number], rule.replace(**{key: None}), *rules[number + 1 :]]
                if tried.under_net(tool, wider) is not None:
                    return NearestRule(rule.text, rule.source, _unlike(key, getattr(rule, key)))
    return None
