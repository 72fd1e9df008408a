"""Ordered rules: the first that matches decides; nothing matched is ask.

Matching is three-valued. An allow needs a clear yes, and reaches options that execute or write only where it says so. A
deny or an ask that may match makes the answer at least ask. Rules are indexed by the programs and by the calls they can
match, so that a thousand rules about others cost nothing.

Find the rules that can speak of one file or URL, without asking all of them.

Pure. A rule about URLs is found by its host. A path pattern is found by its last name where that is literal
(`**/.env`, `src/a.py`), else by its first (`migrations/**`); names are folded, so that more is found than matches.
Neither of the two says anything of the other. All other rules are candidates always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from byleave.core.arguments import ANY_TOOL
from byleave.core.decision import ALLOW, ASK, CODES, DENY, INLINE, VERBS, Decision, RuleRef, Verdict
from byleave.core.fs_rules import fold
from byleave.core.matchers import (
    All,
    AnyOf,
    PathMatcher,
    UrlMatcher,
    describe,
    is_about_commands,
    paths_of,
    program_names,
    touches_files,
)
from byleave.core.patterns import ANY_DEPTH, NameIndex
from byleave.core.url import normal_host
from byleave.record import Record, Sealed, set_cached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from byleave.core.fs_rules import FsTarget
    from byleave.core.match_context import MatchContext, MatchPart
    from byleave.core.matchers import Matcher
    from byleave.core.patterns import Glob


FoundBy = TypeVar("FoundBy")
_WILD = frozenset("*?[")
_FEW = 8  # rules that are not worth an index


class PathIndex:
    """Rules in order, found by the names of a file, or by the host of a URL."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self._rules = tuple(rules)
        self._general: list[int] = []
        self._by_key: dict[tuple[str, str], list[int]] = {}
        self._of_files = self._rules
        self._of_urls: tuple[list[int], dict[str, list[int]]] | None = None  # made for the first URL
        if len(self._rules) <= _FEW:
            return
        keys_of = [_keys(rule.matcher) for rule in self._rules]
        self._of_files = tuple([rule for rule, keys in zip(self._rules, keys_of, strict=True) if keys != frozenset()])
        for number, keys in enumerate(keys_of):
            if keys is None:
                self._general.append(number)
            for key in keys or ():
                self._by_key.setdefault(key, []).append(number)

    def candidates(self, subject: MatchContext) -> Sequence[CompiledRule]:
        """Return the rules that may match: for what is below a file, all that are about files."""
        file, url = subject.file, subject.url
        if len(self._rules) <= _FEW or (file is None) == (url is None):
            return self._rules
        if file is None:
            return self._rules if url is None else self._for_host(url.host)
        if subject.below:
            return self._of_files
        found = set(self._general)
        for key in _names(file):
            found.update(self._by_key.get(key, ()))
        return [self._rules[number] for number in sorted(found)]

    def _for_host(self, host: str) -> Sequence[CompiledRule]:
        if self._of_urls is None:
            general: list[int] = []
            by_host: dict[str, list[int]] = {}
            for number, rule in enumerate(self._rules):
                hosts = _hosts(rule.matcher)
                if hosts is None:
                    general.append(number)
                for each in hosts or ():
                    by_host.setdefault(each, []).append(number)
            self._of_urls = general, by_host
        general, by_host = self._of_urls
        return [self._rules[number] for number in sorted({*general, *by_host.get(host, ())})]


def _names(file: FsTarget) -> Iterator[tuple[str, str]]:
    for path, start in ((file.relative, ""), (file.door, ""), (file.canonical.lstrip("/"), "/")):
        if path is not None:
            names = path.split("/")
            yield "first", start + fold(names[0])
            yield "last", fold(names[-1])


def _keys(matcher: Matcher) -> frozenset[tuple[str, str]] | None:
    """Return the keys under which a rule is found, none where it is about no file; None where it must be asked."""
    if isinstance(matcher, UrlMatcher):
        return frozenset()
    if isinstance(matcher, PathMatcher):
        globs = [(matcher.glob, matcher.absolute)]
        if matcher.resolved is not None:
            globs.append((matcher.resolved, True))
        keys = [_key(glob, absolute=absolute) for glob, absolute in globs]
        return None if None in keys else frozenset([key for key in keys if key is not None])
    return _of_parts(matcher, _keys)


def _hosts(matcher: Matcher) -> frozenset[str] | None:
    """Return the hosts under which a rule is found, none where it is about no URL; None where it must be asked."""
    if isinstance(matcher, PathMatcher):
        return frozenset()
    if isinstance(matcher, UrlMatcher):
        host = None if matcher.host is None else normal_host(matcher.host)
        return None if host is None else frozenset([host])
    return _of_parts(matcher, _hosts)


def _of_parts(matcher: Matcher, find: Callable[[Matcher], frozenset[FoundBy] | None]) -> frozenset[FoundBy] | None:
    """Return under what a rule of several matchers is found: under that of one, where all have to match."""
    if isinstance(matcher, All):
        return next((known for each in matcher.matchers if (known := find(each)) is not None), None)
    if isinstance(matcher, AnyOf):
        found = [find(each) for each in matcher.matchers]
        return None if None in found else frozenset([key for keys in found for key in keys or ()])
    return None


def _key(glob: Glob, *, absolute: bool) -> tuple[str, str] | None:
    names = glob.names
    if names and names[-1] != ANY_DEPTH and _WILD.isdisjoint(names[-1]):
        return "last", fold(names[-1])
    # `a/**` matches `a` itself as well: its first name is its last.
    if len(names) > 1 and _WILD.isdisjoint(names[0]):
        return "first", ("/" if absolute else "") + fold(names[0])
    return None


_MOST_KEPT = 1024  # servers and tools whose rules are kept: callers choose the names, and must not fill our memory
_LONGEST_KEPT = 200  # letters
_MOST_TRIED = 16  # places at which one name may stand among the words of a command; with more of them it asks


class CompiledRule(Sealed):
    """A matcher with its outcome. `words` are the literals by which a text that cannot be read is still denied.

    `sandbox`: the answer holds only for a confined run (True), only for a plain one (False), for both (None).
    `unread`: a confined run of a line that is not understood is covered, too.
    """

    __slots__ = ("_ref", "matcher", "outcome", "sandbox", "source", "unread", "why", "words")

    def __init__(
        self,
        outcome: Decision,
        matcher: Matcher,
        why: str | None = None,
        source: str = INLINE,
        words: tuple[tuple[str, ...], ...] = (),
        *,
        sandbox: bool | None = None,
        unread: bool = False,
    ) -> None:
        self.sandbox = sandbox
        self.unread = unread
        self.outcome = outcome
        self.matcher = matcher
        self.why = why
        self.source = source
        self.words = words
        self._ref: RuleRef | None = None

    @property
    def text(self) -> str:
        """The rule in a few words."""
        return self.ref.rule

    @property
    def ref(self) -> RuleRef:
        """The reference a verdict carries, put into words once."""
        if self._ref is None:
            ref = RuleRef(f"{self.outcome.word} {describe(self.matcher)}", self.source, self.outcome)
            set_cached(self, "_ref", ref)
            return ref
        return self._ref


class RuleAnswer(Record):
    """What the rules say about one subject: None is silence. `rules` had a say, the deciding one first.

    `uncertain`: it asks because a rule that denies or asks may be meant, not because one is.
    """

    decision: Decision | None
    rules: tuple[CompiledRule, ...] = ()
    withheld: str | None = None  # an allow matched, but does not reach this option
    uncertain: bool = False
    passed: CompiledRule | None = None  # the allow that does not reach it

    @property
    def refs(self) -> tuple[RuleRef, ...]:
        """The rules as a verdict names them: one that may be meant has asked, whatever it says where it is."""
        first = [rule.ref for rule in self.rules[:1]]
        if self.uncertain:
            first = [ref.replace(decision=ASK) for ref in first]
        return (*first, *(rule.ref for rule in self.rules[1:]))

    @property
    def why(self) -> str:
        """What the deciding rule says, as the end of a sentence about the subject."""
        rule = self.rules[0]
        if self.decision is ASK and rule.outcome is not ASK:
            return f"it may be what the rule `{rule.text}` is about"
        if rule.why and self.decision is not ALLOW:
            return f"{rule.why} (rule `{rule.text}`)"
        return f"the rule `{rule.text}` matches it"


class _Server:
    """The rules about calls of one server, or of servers by one pattern."""

    __slots__ = ("tools", "whole")

    def __init__(self) -> None:
        self.whole: list[tuple[int, CompiledRule]] = []
        self.tools: NameIndex[list[tuple[int, CompiledRule]]] = NameIndex()

    def found(self, tool: str | None) -> Iterator[tuple[int, CompiledRule]]:
        yield from self.whole
        if tool is not None:
            for entries in self.tools.values() if tool == ANY_TOOL else self.tools.all(tool):
                yield from entries


class RuleTable(Sealed):
    """Rules in order, found by program or by call."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self.rules = tuple(rules)
        self._general: list[tuple[int, CompiledRule]] = []
        self._by_program: dict[str, list[tuple[int, CompiledRule]]] = {}
        for entry in enumerate(self.rules):
            programs = entry[1].matcher.programs
            if programs is None:
                self._general.append(entry)
            else:
                for program in programs:
                    self._by_program.setdefault(program, []).append(entry)
        self._not_commands = PathIndex([rule for rule in self.rules if not is_about_commands(rule.matcher)])
        self._restricts: dict[str, bool] = {}
        self._grants: dict[str, tuple[str, ...]] = {}
        self._kept: dict[tuple[str, str | None], list[CompiledRule]] = {}
        self._calls: tuple[NameIndex[_Server], list[tuple[int, CompiledRule]]] | None = None  # made for the first call

    def restricts(self, op: str) -> bool:
        """Whether a rule denies or asks about doing this to some file, so that an unknown file cannot pass."""
        known = self._restricts.get(op)
        if known is None:
            found = any(rule.outcome is not ALLOW and touches_files(rule.matcher, op) for rule in self.rules)
            known = self._restricts[op] = found
        return known

    def grants(self, op: str) -> tuple[str, ...]:
        """Return the patterns of the paths at which a rule allows this, the workspace as `.`."""
        known = self._grants.get(op)
        if known is None:
            allowing = [rule.matcher for rule in self.rules if rule.outcome is ALLOW]
            paths = dict.fromkeys(path for matcher in allowing for path in paths_of(matcher, op))
            known = self._grants[op] = tuple(paths)
        return known

    def decide(self, subject: MatchContext, *, restricting_only: bool = False) -> RuleAnswer:
        """Return what the rules say; with `restricting_only`, allows are passed over."""
        floor: CompiledRule | None = None
        withheld: str | None = None
        passed: CompiledRule | None = None
        for rule in self._candidates(subject):
            allows = rule.outcome is ALLOW
            if allows and restricting_only:
                continue
            answer = rule.matcher.match(subject, granting=allows)
            if answer is False and not allows and _may_start(rule, subject):
                answer = None
            if answer is False or (answer is None and allows):
                continue
            if answer is None:
                floor = floor or rule
                continue
            if allows and not rule.matcher.covers(subject):
                withheld, passed = withheld or uncovered(subject.part), passed or rule
                continue
            return _ruling(rule, floor)
        if floor is not None:
            return RuleAnswer(ASK, (floor,), withheld, uncertain=True)
        return RuleAnswer(None, (), withheld, passed=passed)

    def could_allow(self, subject: MatchContext) -> bool:
        """Whether some arguments exist for which the rules do not deny a call whose arguments are UNKNOWN.

        A rule that depends on them may match or not: one that allows or asks leaves a way, one that denies as well.
        """
        for rule in self._candidates(subject):
            answer = rule.matcher.match(subject, granting=rule.outcome is ALLOW)
            if answer is not False and rule.outcome is not DENY:
                return True
            if answer is True:
                return False
        return True

    def _index_calls(self) -> tuple[NameIndex[_Server], list[tuple[int, CompiledRule]]]:
        servers: NameIndex[_Server] = NameIndex()
        general = []
        for entry in enumerate(self.rules):
            calls = entry[1].matcher.calls
            if calls is None:
                general.append(entry)
            for server, tool in calls or ():
                known = servers.add(server, _Server())
                (known.whole if tool is None else known.tools.add(tool, [])).append(entry)
        return servers, general

    def _for_call(self, server: str, tool: str | None) -> list[CompiledRule]:
        kept = self._kept.get((server, tool))
        if kept is not None:
            return kept
        if self._calls is None:
            set_cached(self, "_calls", self._index_calls())
        assert self._calls is not None  # noqa: S101 -- set on the line before
        servers, general = self._calls
        found = dict(general)
        for known in servers.all(server):
            found.update(known.found(tool))
        rules = [found[number] for number in sorted(found)]
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        if len(server) + len(tool or "") <= _LONGEST_KEPT:
            self._kept[server, tool] = rules
        return rules

    def _candidates(self, subject: MatchContext) -> Iterable[CompiledRule]:
        if subject.call is not None:
            return self._for_call(subject.call[0], subject.call[1])
        return self._by_part(subject)

    def _by_part(self, subject: MatchContext) -> Iterator[CompiledRule]:
        part = subject.part
        if part is None:
            yield from self._not_commands.candidates(subject)
            return
        if part.name is None or part.runs_anything:  # it could be any program: every rule may be meant
            yield from self.rules
            return
        own = self._by_program.get(part.name.rpartition("/")[2], [])
        also = part.knowledge.spelled & self._by_program.keys()
        if also:
            found = dict([*own, *self._general, *[entry for name in also for entry in self._by_program[name]]])
            yield from (found[number] for number in sorted(found))
        elif not own:
            yield from (rule for _number, rule in self._general)
        elif not self._general:
            yield from (rule for _number, rule in own)
        else:
            yield from (rule for _number, rule in sorted([*own, *self._general], key=_number))


def ruling_verdict(ruling: RuleAnswer, what: str) -> Verdict | None:
    """Return a ruling as a verdict; None for silence."""
    if ruling.decision is None:
        return None
    reason = f"{what} {VERBS[ruling.decision]}: {ruling.why}"
    return Verdict(ruling.decision, reason, CODES[ruling.decision], ruling.refs)


def _number(entry: tuple[int, CompiledRule]) -> int:
    return entry[0]


def uncovered(part: MatchPart | None) -> str | None:
    """Return what of a command an allow does not reach that only names the program; None if it reaches all."""
    if part is None:
        return None
    option = part.knowledge.uncovered((), ())
    if option is not None:
        return option
    if part.moved is not None:
        return f"{part.moved}, which leaves the workspace"
    if part.repository is not None:
        return f"in {part.repository}, where the configuration of another repository may run programs"
    return None


def _may_start(rule: CompiledRule, subject: MatchContext) -> bool:
    """Whether the words of a program that may be a wrapper spell a command that the rule means."""
    part = subject.part
    if part is None or not part.knowledge.spelled:
        return False
    for name in part.knowledge.spelled & program_names(rule.matcher):
        for tried, known in enumerate(part.knowledge.started_as(name)):
            child = subject.replace(part=part.replace(name=name, knowledge=known))
            if tried >= _MOST_TRIED or rule.matcher.match(child, granting=False) is not False:
                return True
    return False


def _ruling(rule: CompiledRule, floor: CompiledRule | None) -> RuleAnswer:
    """An ask that may have matched earlier stands above a later allow."""
    if floor is not None and rule.outcome is ALLOW:
        return RuleAnswer(ASK, (floor, rule), uncertain=True)
    return RuleAnswer(rule.outcome, (rule,) if floor is None else (rule, floor))
