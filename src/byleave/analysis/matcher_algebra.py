"""Which matchers match everything that another matches: the algebra behind "an earlier rule answers first". Pure.

Matching is three-valued and knows a side: an allow has to match for certain, a deny or an ask is not walked round. So
an implication has a degree. `ALWAYS`: whatever the subject is, a yes of the narrower matcher is a yes of the wider
one, and a "may be" of the narrower one is at least that. `PLAINLY`: it holds for words that are known and spelled as
they are written, for places inside the workspace, for programs that are not wrapped. None: it is not proven.

Start at `implied`. What an allow reaches beyond its words (options that execute or write): `reaches_as_far`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from byleave.analysis.pattern_algebra import glob_includes, includes, names_include
from byleave.core.fs_rules import fold, is_under
from byleave.core.matchers import (
    AgentMatcher,
    All,
    AnyOf,
    CallMatcher,
    CommandMatcher,
    Not,
    OperationMatcher,
    PathMatcher,
    TextMatcher,
    UrlMatcher,
)
from byleave.core.url import prefix_segments

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from byleave.core.matchers import Matcher
    from byleave.core.patterns import Glob

COMMAND, FILE, URL, CALL, OTHER = KINDS = ("command", "file", "url", "call", "other")
_MOST_ALTERNATIVES = 400  # of one matcher, after `any` inside `all` is multiplied out; more are not looked at
_ANYTHING = "**"


class Degree(IntEnum):
    """How far an implication holds."""

    PLAINLY = 1
    ALWAYS = 2


PLAINLY, ALWAYS = Degree


def matcher_key(matcher: Matcher) -> Hashable:
    """Return what two matchers have in common exactly when they say the same in the same terms."""
    match matcher:
        case AnyOf(matchers) | All(matchers):
            return type(matcher).__name__, frozenset(matcher_key(each) for each in matchers)
        case Not(inner):
            return "Not", matcher_key(inner)
        case CommandMatcher():
            lists = (frozenset(matcher.names), frozenset(matcher.subcommands), frozenset(matcher.flags), matcher.args)
            rest = (matcher.operands, matcher.within, matcher.any_options, matcher.piped_to_shell)
            return "Command", lists, rest
        case TextMatcher(pattern):
            return "Text", pattern
        case PathMatcher(glob, ops, absolute):
            return "Path", glob.names, ops, absolute
        case UrlMatcher():
            place = (matcher.host, matcher.scheme, matcher.port, matcher.path_prefix)
            return "Url", place, frozenset(matcher.methods)
        case CallMatcher(server, tool, argument):
            test = None if argument is None else (argument.pointer, argument.test, argument.value)
            return "Call", server, tool, test
        case OperationMatcher(kinds):
            return "Operation", frozenset(kinds)
        case AgentMatcher(agents):
            return "Agent", frozenset(agents)
        case _:
            return "?", id(matcher)


def kinds_of(matcher: Matcher) -> frozenset[str]:
    """Return the kinds of subjects that a matcher can match; none: nothing ever matches it."""
    match matcher:
        case All(matchers):
            return frozenset.intersection(*[kinds_of(each) for each in matchers])
        case AnyOf(matchers):
            return frozenset(kind for each in matchers for kind in kinds_of(each))
        case Not(inner):
            return kinds_of(inner)
        case CommandMatcher() | TextMatcher():
            return frozenset({COMMAND})
        case PathMatcher(_, ops):
            return frozenset({FILE}) if ops else frozenset()
        case UrlMatcher():
            return frozenset({URL})
        case CallMatcher():
            return frozenset({CALL})
        case AgentMatcher(names) | OperationMatcher(names):
            return frozenset(KINDS) if names else frozenset()
        case _:
            return frozenset(KINDS)


def alternatives(matcher: Matcher) -> list[Matcher]:
    """Return matchers of which one matches whenever the given one does: `any` is taken apart, also inside `all`."""
    if isinstance(matcher, AnyOf):
        return [part for each in matcher.matchers for part in alternatives(each)]
    if isinstance(matcher, All):
        ways: list[tuple[Matcher, ...]] = [()]
        for each in matcher.matchers:
            parts = alternatives(each)
            if len(ways) * len(parts) > _MOST_ALTERNATIVES:
                return [matcher]
            ways = [(*way, part) for way in ways for part in parts]
        return [_all(way) for way in ways]
    return [matcher]


def _all(matchers: tuple[Matcher, ...]) -> Matcher:
    flat: list[Matcher] = []
    for each in matchers:
        flat += each.matchers if isinstance(each, All) else (each,)
    return flat[0] if len(flat) == 1 else All(tuple(flat))


def implied(narrower: Matcher, wider: Matcher, *, granting: bool, wider_granting: bool) -> Degree | None:
    """Return how far `wider` matches whatever `narrower`, one of its `alternatives`, matches.

    `granting`: whether the rule of the narrower matcher allows; `wider_granting`: whether that of the wider one does.
    """
    if isinstance(wider, All):
        return _least(
            implied(narrower, each, granting=granting, wider_granting=wider_granting) for each in wider.matchers
        )
    if isinstance(wider, AnyOf):
        return _most(
            implied(narrower, each, granting=granting, wider_granting=wider_granting) for each in wider.matchers
        )
    parts = narrower.matchers if isinstance(narrower, All) else (narrower,)
    return _most(_part_implied(part, wider, granting=granting, wider_granting=wider_granting) for part in parts)


def _least(degrees: Iterable[Degree | None]) -> Degree | None:
    found = list(degrees)
    return None if None in found else min([degree for degree in found if degree is not None], default=None)


def _most(degrees: Iterable[Degree | None]) -> Degree | None:
    best: Degree | None = None
    for degree in degrees:
        if degree is ALWAYS:
            return degree
        best = best or degree
    return best


def _part_implied(narrower: Matcher, wider: Matcher, *, granting: bool, wider_granting: bool) -> Degree | None:
    # A wider matcher that has to match for certain is not certain of what the narrower one may merely mean.
    most = PLAINLY if wider_granting and not granting else ALWAYS
    match narrower, wider:
        case Not(inner), Not(outer):
            same = matcher_key(inner) == matcher_key(outer)
            found: Degree | None = most if same else None
        case CommandMatcher(), Not(CommandMatcher() as outer):
            found = PLAINLY if _are_apart(narrower, outer) else None
        case CommandMatcher(), CommandMatcher():
            found = _command_implied(narrower, wider, granting=granting, wider_granting=wider_granting)
        case CommandMatcher() | TextMatcher(), OperationMatcher(kinds):
            found = most if "execute" in kinds else None
        case TextMatcher(), CommandMatcher() if _is_any_command(wider):
            found = most
        case TextMatcher(), TextMatcher():
            found = most if narrower.pattern == wider.pattern else None
        case PathMatcher(), PathMatcher():
            found = _path_implied(narrower, wider, granting=granting, wider_granting=wider_granting)
        case UrlMatcher(), UrlMatcher():
            found = _url_implied(narrower, wider, granting=granting, wider_granting=wider_granting)
        case CallMatcher(), CallMatcher():
            found = _call_implied(narrower, wider, most)
        case OperationMatcher(kinds), OperationMatcher(others):
            found = most if set(kinds) <= set(others) else None
        case AgentMatcher(agents), AgentMatcher(others):
            found = most if all(includes(others, agent) for agent in agents) else None
        case _:
            found = None
    return None if found is None else min(found, most)


def _is_any_command(matcher: CommandMatcher) -> bool:
    return matcher_key(matcher.replace(any_options=False)) == matcher_key(CommandMatcher())


def _command_implied(
    narrower: CommandMatcher, wider: CommandMatcher, *, granting: bool, wider_granting: bool
) -> Degree | None:
    if not _command_includes(wider, narrower):
        return None
    if wider.args != narrower.args and wider.args is not None and not granting:  # in another order it may be meant
        return PLAINLY
    if granting and not wider_granting and wider.subcommands:  # an allow of a subcommand covers `--version`, too
        return PLAINLY
    return ALWAYS


def _command_includes(wider: CommandMatcher, narrower: CommandMatcher) -> bool:
    return (
        (not wider.names or (bool(narrower.names) and set(narrower.names) <= set(wider.names)))
        and (
            not wider.subcommands
            or (bool(narrower.subcommands) and set(narrower.subcommands) <= set(wider.subcommands))
        )
        and set(wider.flags) <= set(narrower.flags)
        and _args_include(wider.args, narrower.args)
        and _operands_include(wider, narrower)
        and (wider.within is None or (narrower.within is not None and is_under(narrower.within, wider.within)))
        and (not wider.piped_to_shell or narrower.piped_to_shell)
    )


def _args_include(wider: tuple[str, ...] | None, narrower: tuple[str, ...] | None) -> bool:
    if wider is None or wider == narrower:
        return True
    if narrower is None or wider[-1:] != (_ANYTHING,):
        return False
    kept = narrower[:-1] if narrower[-1:] == (_ANYTHING,) else narrower
    return kept[: len(wider) - 1] == wider[:-1]


def _operands_include(wider: CommandMatcher, narrower: CommandMatcher) -> bool:
    if wider.operands is None:
        return True
    same = bool(wider.subcommands) == bool(narrower.subcommands)  # operands are counted behind the subcommand
    return same and narrower.operands is not None and narrower.operands <= wider.operands


def _are_apart(one: CommandMatcher, other: CommandMatcher) -> bool:
    """Whether no command matches both, by the program or its subcommand."""
    names, others = one.programs, other.programs
    if names is not None and others is not None and names.isdisjoint(others):
        return True
    return bool(one.subcommands) and bool(other.subcommands) and set(one.subcommands).isdisjoint(other.subcommands)


def _path_implied(narrower: PathMatcher, wider: PathMatcher, *, granting: bool, wider_granting: bool) -> Degree | None:
    if narrower.absolute != wider.absolute or not narrower.ops <= wider.ops:
        return None
    if not glob_includes(wider.glob, narrower.glob) or (narrower.glob.covers_below and not wider.glob.covers_below):
        return None
    if granting and wider_granting:
        return ALWAYS
    if wider_granting:  # names that differ in case, and links that lead out, are not what an allow means
        # An allow without `**` at its end is not about a whole directory, and a deny of its path is.
        return None if "delete" in narrower.ops and not wider.glob.covers_below else PLAINLY
    if not names_include(_folded(wider.glob), _folded(narrower.glob)):
        return PLAINLY
    odd = any(mark in narrower.glob.text or mark in wider.glob.text for mark in "?[")
    if odd:  # one letter may fold to two, and a class may hold one case of a letter only
        return PLAINLY
    if narrower.resolved is not None and not granting:
        return ALWAYS if wider.resolved is not None and glob_includes(wider.resolved, narrower.resolved) else PLAINLY
    return ALWAYS


def _folded(glob: Glob) -> tuple[str, ...]:
    return tuple(fold(name) for name in glob.names)


def _url_implied(narrower: UrlMatcher, wider: UrlMatcher, *, granting: bool, wider_granting: bool) -> Degree | None:
    for key in ("host", "scheme"):
        if getattr(wider, key) not in (None, getattr(narrower, key)):
            return None
    if wider.methods and not (narrower.methods and set(narrower.methods) <= set(wider.methods)):
        return None
    if wider.port != narrower.port and (wider_granting or wider.port is not None):
        return None
    if wider.port is None and wider_granting and not granting:  # one means the default port, the other every port
        return None
    if wider.path_prefix in (None, narrower.path_prefix):
        return ALWAYS
    outer = prefix_segments(wider.path_prefix or "", allow=wider_granting)
    inner = None if narrower.path_prefix is None else prefix_segments(narrower.path_prefix, allow=granting)
    return PLAINLY if outer is not None and inner is not None and inner[: len(outer)] == outer else None


def _call_implied(narrower: CallMatcher, wider: CallMatcher, most: Degree) -> Degree | None:
    if not includes((wider.server,), narrower.server):
        return None
    if wider.tool is not None and (narrower.tool is None or not includes((wider.tool,), narrower.tool)):
        return None
    if wider.argument is None:
        return most
    return (
        min(most, PLAINLY)
        if matcher_key(wider.replace(server="*", tool=None)) == matcher_key(narrower.replace(server="*", tool=None))
        else None
    )


def reaches_as_far(narrower: Matcher, wider: Matcher) -> bool:
    """Whether an allow by `wider` reaches every option and every directory that one by `narrower` reaches.

    `narrower` is one of its `alternatives`. Both match the same command: this is about what their words say beyond it.
    """
    if COMMAND not in kinds_of(narrower):
        return True
    if isinstance(wider, AnyOf):
        return False  # the caller takes it apart
    own, others = list(_reaches(narrower)), list(_reaches(wider))
    return all(any(_reach_includes(other, each) for other in others) for each in own)


def _reaches(matcher: Matcher) -> Iterator[CommandMatcher]:
    """Yield what each part of a matcher covers: one that says nothing of options covers as a bare name does."""
    if isinstance(matcher, All):
        for each in matcher.matchers:
            yield from _reaches(each)
    elif isinstance(matcher, CommandMatcher):
        yield matcher
    elif not isinstance(matcher, TextMatcher):
        yield CommandMatcher()


def _reach_includes(wider: CommandMatcher, narrower: CommandMatcher) -> bool:
    if wider.any_options:
        return True
    return (
        not narrower.any_options
        and set(narrower.flags) <= set(wider.flags)
        and (narrower.args is None or narrower.args == wider.args)
        and (narrower.within is None or wider.within is not None)
    )
