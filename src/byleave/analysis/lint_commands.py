"""What rules about commands let through: too much by one allow, or the same effect past a deny.

No algebra answers that, so command lines are tried: those of the corpus, and those of `analysis.other_ways`. A finding
names the line that the policy allows. Programs that a rule names and that do not exist are found here, too.

Start at `try_corpus`, then `lint_commands`.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.corpus import example_commands
from byleave.analysis.findings import ERROR, NOTE, WARNING, Finding
from byleave.analysis.lint_rules import plain_lines
from byleave.analysis.matcher_algebra import COMMAND, alternatives, kinds_of
from byleave.analysis.other_ways import EFFECTS, generic_ways
from byleave.core.action import CommandAction
from byleave.core.decision import ALLOW, DENY
from byleave.core.matchers import AgentMatcher, All, AnyOf, CommandMatcher, Not, OperationMatcher
from byleave.core.patterns import is_literal
from byleave.text import nearest_word, quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from byleave.analysis.other_ways import Effect
    from byleave.core.decision import RuleRef, Verdict
    from byleave.core.matchers import Matcher
    from byleave.core.rules import CompiledRule
    from byleave.policy.live_policy import LivePolicy

    Decide = Callable[[str, str | None, bool], Verdict]  # a line, the agent, whether it can be confined

_MOST_AGENTS = 3  # that rules name, for each of which lines are tried
_MOST_OWN = 40  # lines that are made of the words of one rule
_MOST_FRAGILE = 500  # denies that are tried
_MOST_SUGGESTED = 20  # unknown names for which a similar one is looked for
_INTERPRETERS = frozenset(
    (  # noqa: SIM905 -- a list would take a line for each
        "sh bash dash zsh ksh fish python python3 node deno bun perl ruby php lua env xargs ssh docker podman eval exec"
    ).split()
)


class CorpusTrial(Struct, frozen=True):
    """What the policy makes of the corpus: the lines in which each rule is named, and how many it lets run plainly."""

    named: dict[tuple[str, str], list[str]]
    plainly: Counter[tuple[str, str]]
    lines: int


def decide_with(policy: LivePolicy) -> Decide:
    """Return what decides command lines by a policy."""

    def decide(line: str, agent: str | None, confines: bool) -> Verdict:  # noqa: FBT001 -- the type is a callable
        return policy.decide(CommandAction(command=line, agent=agent), confines=confines)

    return decide


def agents_of(rules: Iterable[CompiledRule]) -> tuple[str | None, ...]:
    """Return agents for which rules may answer differently: none at all, and the first that they name."""
    named = dict.fromkeys(agent for rule in rules for agent in _agents(rule.matcher) if is_literal(agent))
    return (None, *list(named)[:_MOST_AGENTS])


def _agents(matcher: Matcher) -> Iterator[str]:
    if isinstance(matcher, AgentMatcher):
        yield from matcher.agents
    elif isinstance(matcher, All | AnyOf):
        for each in matcher.matchers:
            yield from _agents(each)
    elif isinstance(matcher, Not):
        yield from _agents(matcher.matcher)


def try_corpus(decide: Decide, agents: Sequence[str | None], *, confines: bool) -> CorpusTrial:
    """Try every command line of the corpus, plainly and, where there is a [shell] table, confined."""
    named: dict[tuple[str, str], list[str]] = {}
    plainly: Counter[tuple[str, str]] = Counter()
    for line in example_commands():
        allowing: set[tuple[str, str]] = set()
        said: set[tuple[str, str]] = set()
        for agent in agents:
            for confined in (False, True) if confines else (False,):
                verdict = decide(line, agent, confined)
                said |= {(ref.rule, ref.source) for ref in (*verdict.because, *[part.rule for part in verdict.parts])}
                if verdict.decision is ALLOW and not confined:
                    allowing |= {(ref.rule, ref.source) for ref in verdict.because}
        plainly.update(allowing)
        for key in said:
            named.setdefault(key, []).append(line)
    return CorpusTrial(named, plainly, len(example_commands()))


def decided_line(
    rule: CompiledRule, trial: CorpusTrial, decide: Decide, without: Decide, agents: Sequence[str | None]
) -> str | None:
    """Return a line of the corpus, or of the rule's own words, that is decided otherwise `without` the rule."""
    own = list(islice(plain_lines(rule.matcher), _MOST_OWN))
    lines: list[str] = [*own, *trial.named.get((rule.text, rule.source), [])]
    for line in lines:
        for agent in agents:
            for confines in (False, True):
                if decide(line, agent, confines).decision is not without(line, agent, confines).decision:
                    return line
    return None


def lint_commands(
    rules: Sequence[CompiledRule], decide: Decide, trial: CorpusTrial, *, mode: str | None
) -> Iterator[Finding]:
    """Yield allows of too many commands, and denies that are walked round. `mode` is what [shell] says, if anything."""
    for rule in rules:
        if rule.outcome is ALLOW and not rule.sandbox and not (rule.sandbox is None and mode == "require"):
            yield from _broad(rule, trial)
    agents = agents_of(rules)
    if any(rule.outcome is ALLOW and COMMAND in kinds_of(rule.matcher) for rule in rules):
        ways = _Ways(decide, agents, confines=mode is not None)
        for rule in [rule for rule in rules if rule.outcome is DENY][:_MOST_FRAGILE]:
            yield from _fragile(rule, ways)


def _broad(rule: CompiledRule, trial: CorpusTrial) -> Iterator[Finding]:
    number = trial.plainly[rule.text, rule.source]
    count = f"{number} of the {trial.lines} command lines of the corpus run unconfined by it"
    for part in alternatives(rule.matcher):
        if is_open(part):
            options = any(each.any_options for each in _commands(part))
            message = f"it allows every command without confining it; {count}"
            fix = "add sandbox = true, or list the commands that are needed"
            yield Finding("broad_allow", ERROR if options else WARNING, rule.text, rule.source, message, fix)
            return
    names = {
        name for part in alternatives(rule.matcher) for each in _commands(part) if _is_bare(each) for name in each.names
    }
    running = sorted(name for name in names if name in _INTERPRETERS)
    if running:
        options = any(each.any_options for part in alternatives(rule.matcher) for each in _commands(part))
        message = f"{shown(', '.join(running))} runs whatever it is given, so the allow covers every program; {count}"
        fix = "add sandbox = true, or name the args that are needed"
        yield Finding("broad_allow", WARNING if options else NOTE, rule.text, rule.source, message, fix)


def _commands(part: Matcher) -> list[CommandMatcher]:
    parts = part.matchers if isinstance(part, All) else (part,)
    return [each for each in parts if isinstance(each, CommandMatcher)]


def _is_bare(matcher: CommandMatcher) -> bool:
    return not matcher.subcommands and not matcher.flags and matcher.args is None and matcher.operands is None


def is_open(part: Matcher) -> bool:
    """Whether an alternative of a matcher is about every command, or about all but some, wherever they run."""
    return all(
        _is_open_part(each) for each in (part.matchers if isinstance(part, All) else (part,))
    ) and not isinstance(part, AgentMatcher)


def _is_open_part(matcher: Matcher) -> bool:
    if isinstance(matcher, CommandMatcher):
        return not matcher.names and not matcher.piped_to_shell
    if isinstance(matcher, Not):
        return COMMAND in kinds_of(matcher.matcher)
    return isinstance(matcher, AgentMatcher) or (isinstance(matcher, OperationMatcher) and "execute" in matcher.kinds)


class Way(Struct, frozen=True):
    """A command line that the policy allows, by which rule, and whether it runs confined."""

    line: str
    rule: RuleRef
    confined: bool


class _Ways:
    """Finds what is allowed of some lines, each tried once."""

    def __init__(self, decide: Decide, agents: Sequence[str | None], *, confines: bool) -> None:
        self._decide = decide
        self._agents = agents
        self._confines = confines
        self._known: dict[str, Way | None] = {}

    def first(self, lines: Iterable[str], *, held: bool) -> Way | None:
        """Return the first line that is allowed, one that runs unconfined before others; those that are `held` pass."""
        found = [way for line in lines if (way := self._try(line)) is not None]
        plain = next((way for way in found if not way.confined), None)
        return plain if plain is not None or held else next(iter(found), None)

    def _try(self, line: str) -> Way | None:
        if line not in self._known:
            self._known[line] = self._allowed(line)
        return self._known[line]

    def _allowed(self, line: str) -> Way | None:
        confined: Way | None = None
        for agent in self._agents:
            for confines in (False, True) if self._confines else (False,):
                verdict = self._decide(line, agent, confines)
                if verdict.decision is ALLOW:
                    way = Way(line, verdict.because[0], bool(verdict.sandbox and verdict.sandbox[0]))
                    if not way.confined:
                        return way
                    confined = confined or way
        return confined


def _fragile(rule: CompiledRule, ways: _Ways) -> Iterator[Finding]:
    """Yield the first effect of the denied programs that the policy allows by another program."""
    denied = [each for part in alternatives(rule.matcher) for each in _commands(part) if each.names]
    if not denied or kinds_of(rule.matcher) != frozenset({COMMAND}) or any(each.within for each in denied):
        return
    whole = frozenset(name.rpartition("/")[2] for each in denied if _is_bare(each) for name in each.names)
    for effect in EFFECTS:
        named = sorted(whole & effect.programs)
        way = ways.first(effect.ways, held=effect.held) if named else None
        if way is not None:
            yield _walked_round(rule, way, f"{effect.what} as {shown(named[0])} does")
            return
    first = denied[0]
    known: Effect | None = next((each for each in EFFECTS if not whole.isdisjoint(each.programs)), None)
    words = " ".join([*first.subcommands[:1], *first.flags])
    way = ways.first(generic_ways(first.names[0], words), held=True) if known is None else None
    if way is not None:
        yield _walked_round(rule, way, f"start {shown(first.names[0])} from inside")


def _walked_round(rule: CompiledRule, way: Way, effect: str) -> Finding:
    how = " in a confined run" if way.confined else ""
    message = f"{quoted(way.line)} is allowed{how} by `{way.rule.rule}` ({shown(way.rule.source)}) and can {effect}"
    fix = "allow fewer programs, confine them with sandbox = true, or close the places with path rules"
    if way.confined:
        fix = "close the places with path rules: they hold in a confined run"
    return Finding("fragile_deny", NOTE if way.confined else WARNING, rule.text, rule.source, message, fix)


def programs_in(matcher: Matcher) -> Iterator[str]:
    """Yield the programs that a matcher names, as they are written; not those of a group."""
    if isinstance(matcher, CommandMatcher):
        yield from matcher.names
    elif isinstance(matcher, Not):
        yield from programs_in(matcher.matcher)
    elif isinstance(matcher, All | AnyOf) and not getattr(matcher, "label", ""):
        for each in matcher.matchers:
            yield from programs_in(each)


class KnownPrograms(Struct):
    """The programs that exist as far as is known: those with a table, and those on the PATH."""

    is_described: Callable[[str], bool]
    on_path: frozenset[str]
    is_file: Callable[[str], bool]
    suggested: int = 0

    def finding(self, name: str, rule: str, source: str) -> Finding | None:
        """Return what is wrong with the name of a program; None if there is such a program."""
        if "/" in name:
            if self.is_file(name):
                return None
        elif name in self.on_path or self.is_described(name):
            return None
        near = self._similar(name)
        message = f"there is no program {quoted(name)} on the PATH, and byleave does not know it"
        if "/" in name:
            message = f"there is no file {quoted(name)}"
        if near is not None:
            return Finding("unknown_program", WARNING, rule, source, f"{message}; {near} exists", f"write {near}")
        fix = "check its spelling; it may exist on another machine"
        return Finding("unknown_program", NOTE, rule, source, message, fix)

    def _similar(self, name: str) -> str | None:
        if self.suggested >= _MOST_SUGGESTED or len(name) < 3 or "/" in name:
            return None
        self.suggested += 1
        return nearest_word(name, [each for each in _COMMON if len(each) > 2], cutoff=0.75)


_COMMON = tuple(
    (  # noqa: SIM905 -- a list would take a line for each
        "git npm npx node yarn pnpm bun deno cargo rustc go make cmake ninja gcc clang python python3 pip pip3 uv "
        "pytest ruff mypy docker podman kubectl terraform curl wget ssh scp rsync rm cp mv ls cat grep rg find sed awk "
        "jq tar sudo bash zsh sh java gradle mvn dotnet ruby bundle gem php composer perl tsc eslint prettier black gh"
    ).split()
)
