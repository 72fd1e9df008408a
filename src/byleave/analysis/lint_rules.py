"""Rules of `[[rules]]` that never answer: shadowed by earlier ones, said twice, contradicted, or never matched. Pure.

The first rule that matches decides, so an earlier rule that matches all of a later one's subjects leaves it nothing.
That is proven by the algebra of matchers (`analysis.matcher_algebra`). Where the proof holds only for plainly spelled
commands, the command lines of the corpus have the last word: a rule that decides one of them is not called shadowed.

Earlier rules are found by what their matchers name, so that ten thousand rules are not held against each other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.findings import ERROR, NOTE, WARNING, Finding
from byleave.analysis.matcher_algebra import (
    ALWAYS,
    COMMAND,
    PLAINLY,
    alternatives,
    implied,
    kinds_of,
    matcher_key,
    reaches_as_far,
)
from byleave.core.decision import ALLOW, ASK, DENY
from byleave.core.matchers import (
    AgentMatcher,
    All,
    CallMatcher,
    CommandMatcher,
    Not,
    OperationMatcher,
    PathMatcher,
    TextMatcher,
    UrlMatcher,
    program_names,
)
from byleave.core.patterns import ANY_DEPTH, is_literal
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from byleave.analysis.findings import WrittenPlace
    from byleave.analysis.matcher_algebra import Degree
    from byleave.analysis.written_rules import WrittenRules
    from byleave.core.matchers import Matcher
    from byleave.core.rules import CompiledRule

_MOST_CANDIDATES = 64  # earlier rules of one kind that are held against a later one
_MOST_KEYS = 200  # under which one alternative of a rule is filed; one with more is filed with the general ones
_ANY = "any"


class Shadow(Struct, frozen=True):
    """The earlier rules that answer for a later one, by their numbers, and how far that is so."""

    degree: Degree
    rules: tuple[int, ...]


def find_shadows(rules: Sequence[CompiledRule]) -> dict[int, Shadow]:
    """Return the rules for which earlier ones answer, by number."""
    index: dict[Hashable, list[tuple[int, Matcher]]] = {}
    found: dict[int, Shadow] = {}
    for number, rule in enumerate(rules):
        parts = alternatives(rule.matcher)
        shadow = _shadow(rules, number, parts, index)
        if shadow is not None:
            found[number] = shadow
        for part in parts:
            for key in _filed_under(part):
                entries = index.setdefault(key, [])
                if len(entries) < _MOST_CANDIDATES:
                    entries.append((number, part))
    return found


def _shadow(
    rules: Sequence[CompiledRule],
    number: int,
    parts: Sequence[Matcher],
    index: Mapping[Hashable, list[tuple[int, Matcher]]],
) -> Shadow | None:
    degree, by = ALWAYS, dict[int, None]()
    for part in parts:
        best: tuple[Degree, int] | None = None
        tried = {(entry[0], id(entry[1])): entry for key in _looked_up(part) for entry in index.get(key, ())}
        for other, wider in sorted(tried.values(), key=_number):
            found = answers_first(rules[other], rules[number], wider, part)
            if found is not None and (best is None or found > best[0]):
                best = (found, other)
                if found is ALWAYS:
                    break
        if best is None:
            return None
        degree, by[best[1]] = min(degree, best[0]), None
    return Shadow(degree, tuple(by))


def _number(entry: tuple[int, Matcher]) -> int:
    return entry[0]


def answers_first(earlier: CompiledRule, later: CompiledRule, wider: Matcher, narrower: Matcher) -> Degree | None:
    """Return how far an alternative of the earlier rule answers whatever one of the later rule matches."""
    granting, wider_granting = later.outcome is ALLOW, earlier.outcome is ALLOW
    degree = implied(narrower, wider, granting=granting, wider_granting=wider_granting)
    if degree is None or (later.unread and not earlier.unread):
        return None
    if granting and wider_granting and not reaches_as_far(narrower, wider):
        return None
    if later.outcome is DENY and not _has_words_of(earlier, later):  # also of one that matches no command as a whole
        return PLAINLY
    if COMMAND not in kinds_of(narrower):
        return degree
    if wider_granting and not granting:  # wrappers, and lines that cannot be read, are held against denies alone
        return PLAINLY
    if not granting and not (_is_nameless(wider) or program_names(narrower) <= program_names(wider)):
        return PLAINLY
    return degree


def _is_nameless(matcher: Matcher) -> bool:
    return isinstance(matcher, CommandMatcher) and not matcher.names


def _has_words_of(earlier: CompiledRule, later: CompiledRule) -> bool:
    """Whether the earlier deny also denies every line that cannot be read and has the later one's words."""
    if earlier.outcome is not DENY:
        return not later.words
    sets = [frozenset(words) for words in earlier.words]
    return all(any(words <= frozenset(own) for words in sets) for own in later.words)


def _filed_under(part: Matcher) -> list[Hashable]:
    """Return the keys of a matcher: those by which one that it includes finds it."""
    parts = part.matchers if isinstance(part, All) else (part,)
    best = min(parts, key=_selectiveness)
    keys = list(_keys(best))
    return keys if len(keys) <= _MOST_KEYS else [(COMMAND, _ANY)]


def _selectiveness(matcher: Matcher) -> int:
    """Return a number that is the smaller, the fewer rules a matcher is filed with."""
    if isinstance(matcher, CommandMatcher):
        return 0 if matcher.names else len(_BY_SELECTIVENESS)
    return _BY_SELECTIVENESS.index(type(matcher)) if type(matcher) in _BY_SELECTIVENESS else len(_BY_SELECTIVENESS) + 1


_BY_SELECTIVENESS: tuple[type, ...] = (
    PathMatcher,
    UrlMatcher,
    CallMatcher,
    TextMatcher,
    OperationMatcher,
    Not,
    AgentMatcher,
)


def _keys(matcher: Matcher) -> Iterator[Hashable]:
    match matcher:
        case CommandMatcher(names, subcommands, _, args):
            if not names:
                yield COMMAND, _ANY
            for name in names:
                for subcommand in subcommands or (None,):
                    yield COMMAND, name, subcommand, args
        case PathMatcher(glob):
            yield _path_key(glob.names)
        case UrlMatcher():
            yield "url", matcher.host, (matcher.path_prefix or "").strip("/")
        case CallMatcher(server, tool):
            yield (
                "call",
                server if is_literal(server) else None,
                tool if tool is not None and is_literal(tool) else None,
            )
        case TextMatcher(pattern):
            yield "text", pattern
        case _:
            yield (type(matcher).__name__,)


def _path_key(names: tuple[str, ...]) -> Hashable:
    if all(map(is_literal, names)):
        return "path", names
    if names[-1] == ANY_DEPTH and all(map(is_literal, names[:-1])):
        return "below", names[:-1]
    if is_literal(names[-1]):
        return "last", names[-1]
    return ("first", names[0]) if is_literal(names[0]) else ("path", _ANY)


def _looked_up(part: Matcher) -> Iterator[Hashable]:
    """Yield the keys under which a matcher that includes this one can be filed."""
    for matcher in part.matchers if isinstance(part, All) else (part,):
        yield from ((kind,) for kind in ("OperationMatcher", "Not", "AgentMatcher"))
        match matcher:
            case CommandMatcher(names, subcommands, _, args):
                yield COMMAND, _ANY
                for subcommand in (None, *subcommands[:1]) if names else ():
                    yield from ((COMMAND, names[0], subcommand, wider) for wider in _wider_args(args))
            case PathMatcher(glob):
                yield from _wider_paths(glob.names)
            case UrlMatcher():
                for host in dict.fromkeys((matcher.host, None)):
                    yield from (("url", host, prefix) for prefix in _wider_prefixes(matcher.path_prefix))
            case CallMatcher(server, tool):
                for name in dict.fromkeys((server if is_literal(server) else None, None)):
                    yield from (("call", name, one) for one in dict.fromkeys((tool, None)))
            case TextMatcher(pattern):
                yield COMMAND, _ANY
                yield "text", pattern
            case _:
                yield (type(matcher).__name__,)


def _wider_args(args: tuple[str, ...] | None) -> Iterator[tuple[str, ...] | None]:
    yield None
    if args is not None:
        yield args
        kept = args[:-1] if args[-1:] == (ANY_DEPTH,) else args
        yield from ((*kept[:length], ANY_DEPTH) for length in range(len(kept) + 1))


def _wider_paths(names: tuple[str, ...]) -> Iterator[Hashable]:
    yield "path", _ANY
    yield "path", names
    yield from (("below", names[:length]) for length in range(len(names) + 1))
    yield "last", names[-1]
    yield "first", names[0]


def _wider_prefixes(prefix: str | None) -> Iterator[str]:
    segments = (prefix or "").strip("/").split("/")
    yield ""
    yield from ("/".join(segments[:length]) for length in range(1, len(segments) + 1) if segments != [""])


def lint_rules(
    rules: Sequence[CompiledRule], written: WrittenRules, decides: Callable[[int], str | None], *, confines: bool
) -> Iterator[Finding]:
    """Yield what is wrong with ordered rules by themselves.

    `decides` returns a command line of the corpus that would be decided otherwise without the rule of that number, if
    there is one. `confines`: there is a [shell] table, so that a command can run confined.
    """
    shadows = find_shadows(rules)
    first: dict[Hashable, int] = {}
    for number, rule in enumerate(rules):
        place = written.place("rules", rule.source)
        key = matcher_key(rule.matcher)
        known = first.setdefault(key, number)
        if not kinds_of(rule.matcher):
            message = "nothing can match it: its keys speak of different kinds of actions, or a list in it is empty"
            yield Finding(
                "no_effect", WARNING, rule.text, rule.source, message, "write one rule for each of them", place
            )
        elif known != number:
            yield _same_match(rules[known], rule, place if _is_repeated(rules[known], rule) else None)
        elif number in shadows:
            yield from _shadowed(rules, rule, shadows[number], place, reached=partial(decides, number))
        if rule.outcome is ALLOW and rule.sandbox and not confines:
            message = "it allows nothing: it holds only for confined commands, and without [shell] none is confined"
            yield Finding("no_effect", WARNING, rule.text, rule.source, message, 'add [shell] with confine = "auto"')


def _is_repeated(first: CompiledRule, rule: CompiledRule) -> bool:
    return (first.outcome, first.sandbox, first.unread) == (rule.outcome, rule.sandbox, rule.unread)


def _same_match(first: CompiledRule, rule: CompiledRule, place: WrittenPlace | None) -> Finding:
    where = shown(first.source)
    if _is_repeated(first, rule):
        message = f"the same rule stands at {where}"
        return Finding("duplicate", NOTE, rule.text, rule.source, message, "remove one of the two", place)
    if first.outcome is rule.outcome:
        message = f"the rule at {where} matches the same, and says otherwise how it runs: that one counts"
    else:
        message = f"the rule at {where} matches the same and says {first.outcome.word}: that one counts"
    severity = weight_of(first, rule)
    return Finding("contradicts", severity, rule.text, rule.source, message, "remove the one that is not meant")


def weight_of(first: CompiledRule, rule: CompiledRule) -> str:
    """Return how grave it is that the first rule answers for the other one."""
    if first.outcome is rule.outcome:
        return NOTE if _is_repeated(first, rule) else WARNING
    same_file = first.source.rpartition(":")[0] == rule.source.rpartition(":")[0]
    if rule.outcome > first.outcome:  # it was meant to hold something back
        return ERROR if same_file else WARNING
    return WARNING if same_file else NOTE


def _shadowed(
    rules: Sequence[CompiledRule],
    rule: CompiledRule,
    shadow: Shadow,
    place: WrittenPlace | None,
    *,
    reached: Callable[[], str | None],
) -> Iterator[Finding]:
    by = [rules[other] for other in shadow.rules]
    loosest = min(by, key=_outcome)
    named = f"`{loosest.text}` ({shown(loosest.source)})"
    others = f" and {len(by) - 1} more" if len(by) > 1 else ""
    severity = max((weight_of(each, rule) for each in by), key=(NOTE, WARNING, ERROR).index)
    if shadow.degree is ALWAYS:
        message = f"{named}{others} always answers first, so this rule never decides anything"
        kept = place if all(each.outcome is rule.outcome for each in by) else None
        fix = "remove it" if kept is not None or rule.outcome is ALLOW else f"put it before {shown(loosest.source)}"
        yield Finding("shadowed", severity, rule.text, rule.source, message, fix, kept)
        return
    line = reached()
    fix = (
        f"put it before {shown(loosest.source)}"
        if rule.outcome is not loosest.outcome
        else "remove it if it is not meant"
    )
    if line is None:
        message = (
            f"{named}{others} answers first for everything that is plainly spelled, and no command line of the corpus "
            "is decided otherwise without this rule; at most unusual options, wrappers or links reach it"
        )
        yield Finding("shadowed", severity, rule.text, rule.source, message, fix)
    elif rule.outcome in (ASK, DENY) and loosest.outcome is ALLOW:
        plain = plain_line(rule.matcher)
        example = f", such as {quoted(plain)}" if plain else ""
        message = (
            f"{named}{others} stands before it and allows most of what it is about{example}; it still decides "
            f"lines such as {quoted(line)}"
        )
        yield Finding("fragile_deny", severity, rule.text, rule.source, message, fix)


def _outcome(rule: CompiledRule) -> int:
    return rule.outcome


def plain_line(matcher: Matcher) -> str:
    """Return the shortest command line that a matcher is about; nothing if it names no program."""
    return next(plain_lines(matcher), "")


def plain_lines(matcher: Matcher) -> Iterator[str]:
    """Yield command lines that a matcher is about: each program and subcommand alone, then with an operand."""
    for part in alternatives(matcher):
        for each in part.matchers if isinstance(part, All) else (part,):
            if not isinstance(each, CommandMatcher):
                continue
            args = [word for word in each.args or () if word != ANY_DEPTH]
            for name in each.names:
                for subcommand in each.subcommands or ("",):
                    line = " ".join(word for word in (name, subcommand, *each.flags, *args) if word)
                    yield from (line, f"{line} x")
