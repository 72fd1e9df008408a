"""Matchers: predicates over subjects, three-valued. True is a clear yes, False a clear no, None "it depends".

A matcher is asked with `granting`: a rule that allows must not be satisfied by a look-alike (`./git`), and a rule that
denies or asks must not be walked round by one (`/bin/rm`). Under `not` the two change places.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from byleave.core.agents import other_names
from byleave.core.arguments import ANY_TOOL
from byleave.core.fs_rules import is_under
from byleave.core.net_rules import NetRule, NetTable
from byleave.core.patterns import Glob, name_matches, text_matches
from byleave.record import Record
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.core.arguments import ArgumentTest
    from byleave.core.match_context import MatchContext, MatchPart

    Callee = tuple[str, str | None]  # patterns of the server and of the tool; no tool: any, and the server itself


class Matcher(Protocol):
    """One predicate. `programs` are the names of commands it can match, `calls` the calls; None for any."""

    @property
    def programs(self) -> frozenset[str] | None: ...

    @property
    def calls(self) -> frozenset[Callee] | None: ...

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None: ...

    def covers(self, subject: MatchContext) -> bool: ...

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:
        """Whether it speaks about this kind of subject at all: `not` inverts only that."""
        ...


SYSTEM_DIRECTORIES = (
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
    "/usr/local/sbin/",
    "/opt/homebrew/bin/",
)
OPERATIONS = ("read", "edit", "delete", "move", "search", "execute", "fetch", "think", "switch_mode", "other")


NO_CALLS: frozenset[Callee] = frozenset()
NO_PROGRAMS: frozenset[str] = frozenset()  # of a matcher that no command matches


def both(answers: Iterable[bool | None]) -> bool | None:
    """Return the conjunction: a clear no settles it, a clear yes needs all."""
    depends = False
    for answer in answers:
        if answer is False:
            return False
        depends = depends or answer is None
    return None if depends else True


def either(answers: Iterable[bool | None]) -> bool | None:
    """Return the disjunction: a clear yes settles it, a clear no needs all."""
    depends = False
    for answer in answers:
        if answer is True:
            return True
        depends = depends or answer is None
    return None if depends else False


class CommandMatcher(Record):
    """A command by name, subcommand, flags, whole argument list, directory; every key that is set must hold."""

    names: tuple[str, ...] = ()  # empty: any command
    subcommands: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    args: tuple[str, ...] | None = None
    operands: int | None = None
    within: str | None = None
    any_options: bool = False
    piped_to_shell: bool = False

    @property
    def programs(self) -> frozenset[str] | None:
        if not self.names:
            return None
        return frozenset(name.rpartition("/")[2] for name in self.names)

    calls = NO_CALLS

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        part = subject.part
        if part is None or part.empty:
            return False
        named = either([_is_named(part, name, granting=granting) for name in self.names]) if self.names else True
        if part.name is None and not granting and not self._is_any:
            return None  # one word or several, any program at all, or one that starts what stands behind it
        if named is False or (self.piped_to_shell and part.piped_to_shell is False):
            return None if part.runs_anything and not granting else False
        answer = both(self._details(part, named=named, granting=granting))
        return None if answer is False and part.runs_anything and not granting else answer

    def covers(self, subject: MatchContext) -> bool:
        """Whether an allow by this matcher reaches the options that execute or write."""
        part = subject.part
        if part is None or self.any_options:
            return True
        if part.repository is not None or (part.moved is not None and not self._names_move(part.moved)):
            return False
        return part.knowledge.uncovered(self.flags, self.args or ()) is None

    @property
    def _is_any(self) -> bool:
        """Whether every command matches, whatever its program turns out to be."""
        return self.replace(any_options=False) == _ANY_COMMAND

    def _names_move(self, moved: str) -> bool:
        """Whether the rule speaks of what has the program work outside the workspace: an option, or an operand."""
        if not moved.startswith("-"):
            return moved in (self.args or ()) or (moved == "cd" and self.within is not None)
        return moved in self.flags or self.args is not None or self.within is not None

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:  # noqa: ARG002 -- the kind is certain
        return subject.part is not None and not subject.part.empty

    def _details(self, part: MatchPart, *, named: bool | None, granting: bool) -> Iterable[bool | None]:
        """Yield one answer a key, the cheap ones first: a clear no spares the rest."""
        yield named
        if self.piped_to_shell:
            yield part.piped_to_shell
        if self.subcommands and not (granting and part.knowledge.asks_for_version()):
            yield either([part.knowledge.is_subcommand(expected) for expected in self.subcommands])
        for flag in self.flags:
            yield part.knowledge.has_flag(flag)
        if self.args is not None:
            exact = part.knowledge.args_match(self.args)
            loosely = exact is False and not granting and part.knowledge.may_be_args(self.args)
            yield None if loosely else exact
        if self.operands is not None:
            yield part.knowledge.has_operands(most=self.operands, behind=bool(self.subcommands))
        if self.within is not None:
            yield _is_within(part, self.within, granting=granting)


_ANY_COMMAND = CommandMatcher()


class TextMatcher(Record):
    """A command by its text, as other agents' rules do: `*` is anything, `?` one letter. It only tightens.

    The text is that of one command of the line, as written and with its words unquoted.
    """

    pattern: str

    programs = None
    calls = NO_CALLS

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        part = subject.part
        if part is None or part.empty or granting:
            return False
        words = part.knowledge.texts
        known = words[: words.index(None)] if None in words else words
        plain = " ".join([word or "" for word in known])
        if len(known) < len(words):  # what follows is known only at run time
            head = self.pattern[: min([self.pattern.find(mark) for mark in "*?" if mark in self.pattern], default=None)]
            return None if plain.startswith(head) or head.startswith(plain) else False
        named = " ".join([plain.partition(" ")[0].rpartition("/")[2], *[word or "" for word in words[1:]]])
        texts = (plain, named, " ".join(part.text.split()))
        if any(text_matches(self.pattern, text) for text in texts):
            return True
        return None if part.runs_anything else False

    def covers(self, _subject: MatchContext) -> bool:
        return False

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:  # noqa: ARG002 -- the kind is certain
        return subject.part is not None and not subject.part.empty


class PathMatcher(Record):
    """A file action by path and kind. Denying patterns also match names that differ in case or normal form.

    Where a whole directory is touched, a pattern that grants has to cover all of it, and one that denies may be meant
    if it reaches into it.
    """

    glob: Glob
    ops: frozenset[str]
    absolute: bool = False
    resolved: Glob | None = None  # where the pattern's beginning leads through links; only for saying no

    programs = NO_PROGRAMS
    calls = NO_CALLS

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        if subject.file is None or subject.op not in self.ops:
            return False
        canonical = subject.file.canonical.lstrip("/")
        path = canonical if self.absolute else subject.file.relative
        if granting:
            return path is not None and self.glob.matches(path) and (not subject.below or self.glob.covers_below)
        names = [name for name in (path, None if self.absolute else subject.file.door) if name is not None]
        found = [(self.glob, name) for name in names]
        if self.resolved is not None:
            found.append((self.resolved, canonical))
        if any(glob.matches(name, folded=True) for glob, name in found):
            return True
        return None if subject.below and any(glob.reaches_below(name) for glob, name in found) else False

    def covers(self, _subject: MatchContext) -> bool:
        return True

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:
        """A pattern inside the workspace says nothing of what lies outside, so its `not` opens nothing there."""
        return subject.file is not None and (not granting or self.absolute or subject.file.relative is not None)


@lru_cache(maxsize=1024)
def _one_rule(host: str, scheme: str | None, port: int | None, path_prefix: str | None, *, allow: bool) -> NetTable:
    return NetTable([NetRule(host, scheme, port, path_prefix, allow=allow)])


class UrlMatcher(Record):
    """A URL by host, scheme, port, path prefix and method."""

    host: str | None = None
    scheme: str | None = None
    port: int | None = None
    path_prefix: str | None = None
    methods: tuple[str, ...] = ()

    programs = NO_PROGRAMS
    calls = NO_CALLS

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        target = subject.url
        if target is None:
            return False
        if self.methods and (subject.method or "GET").upper() not in self.methods:
            return False
        host = self.host if self.host is not None else target.host
        port = self.port if self.port is not None or granting else target.port  # a closed host is closed on every port
        found = _one_rule(host, self.scheme, port, self.path_prefix, allow=granting).match(target)
        return found is not None and not (granting and target.userinfo)

    def covers(self, _subject: MatchContext) -> bool:
        return True

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:  # noqa: ARG002 -- the kind is certain
        return subject.url is not None


class CallMatcher(Record):
    """An MCP call by server, tool and one argument."""

    server: str = "*"
    tool: str | None = None
    argument: ArgumentTest | None = None

    programs = NO_PROGRAMS

    @property
    def calls(self) -> frozenset[Callee] | None:
        return frozenset({(self.server, self.tool)})

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        if subject.call is None:
            return False
        server, tool, arguments = subject.call
        if not name_matches(self.server, server):
            return False
        if self.tool is not None and tool == ANY_TOOL:
            return None
        if self.tool is not None and (tool is None or not name_matches(self.tool, tool)):
            return False
        return True if self.argument is None else self.argument.holds(arguments, granting=granting)

    def covers(self, _subject: MatchContext) -> bool:
        return True

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:  # noqa: ARG002 -- the kind is certain
        return subject.call is not None


class OperationMatcher(Record):
    """An action by its kind as editors name it."""

    kinds: tuple[str, ...]

    programs = None
    calls = None

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:  # noqa: ARG002 -- the kind is certain
        return subject.operation in self.kinds

    def covers(self, subject: MatchContext) -> bool:
        return _covers_plainly(subject.part)

    def concerns(self, _subject: MatchContext, *, granting: bool) -> bool:  # noqa: ARG002 -- they speak of everything
        return True


class AgentMatcher(Record):
    """An action by the agent it is done for. To allow something, the name has to be the agent's own.

    To deny it or to ask about it, another name of the same agent is enough.
    """

    agents: tuple[str, ...]

    programs = None
    calls = None

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        if subject.agent is None:
            return False
        names = (subject.agent,) if granting else (subject.agent, *other_names(subject.agent))
        return any(name_matches(agent, name) for agent in self.agents for name in names)

    def covers(self, subject: MatchContext) -> bool:
        return _covers_plainly(subject.part)

    def concerns(self, _subject: MatchContext, *, granting: bool) -> bool:  # noqa: ARG002 -- they speak of everything
        return True


class All(Record):
    """All of several matchers."""

    matchers: tuple[Matcher, ...]

    @property
    def programs(self) -> frozenset[str] | None:
        known = [found for matcher in self.matchers if (found := matcher.programs) is not None]
        return frozenset.intersection(*known) if known else None

    @property
    def calls(self) -> frozenset[Callee] | None:
        """The calls that one of them can match: all of them have to."""
        known = [found for matcher in self.matchers if (found := matcher.calls) is not None]
        return min(known, key=len) if known else None

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        return both(matcher.match(subject, granting=granting) for matcher in self.matchers)

    def covers(self, subject: MatchContext) -> bool:
        """What one of them says covers, covers: `options = "any"` may stand in any of the tables."""
        return any(matcher.covers(subject) for matcher in self.matchers)

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:
        return all(matcher.concerns(subject, granting=granting) for matcher in self.matchers)


class AnyOf(Record):
    """Any of several matchers. `label` names them where they have a name together: a group."""

    matchers: tuple[Matcher, ...]
    label: str = ""

    @property
    def programs(self) -> frozenset[str] | None:
        known = [matcher.programs for matcher in self.matchers]
        if any(found is None for found in known):
            return None
        return frozenset(name for found in known for name in found or ())

    @property
    def calls(self) -> frozenset[Callee] | None:
        known = [matcher.calls for matcher in self.matchers]
        if any(found is None for found in known):
            return None
        return frozenset(callee for found in known for callee in found or ())

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        return either(matcher.match(subject, granting=granting) for matcher in self.matchers)

    def covers(self, subject: MatchContext) -> bool:
        """Only an alternative that matches by itself can cover."""
        return any(
            matcher.match(subject, granting=True) is True and matcher.covers(subject) for matcher in self.matchers
        )

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:
        return any(matcher.concerns(subject, granting=granting) for matcher in self.matchers)


class Not(Record):
    """Everything of its kind but what a matcher matches: what is not `rm` is another command, never a file."""

    matcher: Matcher

    programs = None
    calls = None

    def match(self, subject: MatchContext, *, granting: bool) -> bool | None:
        if not self.matcher.concerns(subject, granting=granting):
            return False
        answer = self.matcher.match(subject, granting=not granting)
        return None if answer is None else not answer

    def covers(self, subject: MatchContext) -> bool:
        return _covers_plainly(subject.part)

    def concerns(self, subject: MatchContext, *, granting: bool) -> bool:
        return self.matcher.concerns(subject, granting=granting)


def _covers_plainly(part: MatchPart | None) -> bool:
    """Whether a rule that says nothing of options covers this command."""
    return part is None or (part.moved is None and part.repository is None and part.knowledge.uncovered((), ()) is None)


def _is_named(part: MatchPart, expected: str, *, granting: bool) -> bool | None:
    """Whether the command is the program a rule names: exactly, or by its last name where that may be."""
    name = part.name
    if name is None:
        return None
    directory, slash, last = name.rpartition("/")
    if "/" in expected:
        if granting:  # a relative name means the file that it means at the root
            return name == expected and (part.at_root or expected.startswith("/"))
        return True if name == expected else None if last == expected.rpartition("/")[2] else False
    if last != expected:
        return False
    return not granting or not slash or f"{directory}/" in SYSTEM_DIRECTORIES


def _is_within(part: MatchPart, place: str, *, granting: bool) -> bool | None:
    if part.directories is None:
        return False if granting else None
    inside = [is_under(directory, place) for directory in part.directories]
    if all(inside):
        return True
    return None if any(inside) else False


def program_names(matcher: Matcher) -> frozenset[str]:
    """Return the names of all the programs that a matcher mentions."""
    if isinstance(matcher, CommandMatcher):
        return matcher.programs or frozenset()
    if isinstance(matcher, All | AnyOf):
        return frozenset(name for each in matcher.matchers for name in program_names(each))
    return frozenset()


def is_about_commands(matcher: Matcher) -> bool:
    """Whether a matcher names programs and can match commands alone: of alternatives, every one."""
    if isinstance(matcher, AnyOf):
        return all(is_about_commands(each) for each in matcher.matchers)
    if isinstance(matcher, All):
        return any(is_about_commands(each) for each in matcher.matchers)
    return isinstance(matcher, CommandMatcher) and bool(matcher.names)


_OPERATION_OF = {"read": "read", "create": "edit", "update": "edit", "delete": "delete", "exec": "execute"}


def touches_files(matcher: Matcher, op: str) -> bool:
    """Whether a matcher can match this being done to a file."""
    if isinstance(matcher, PathMatcher):
        return op in matcher.ops
    if isinstance(matcher, OperationMatcher):
        return _OPERATION_OF[op] in matcher.kinds
    if isinstance(matcher, Not):
        return not isinstance(matcher.matcher, CommandMatcher | TextMatcher | UrlMatcher | CallMatcher)
    if isinstance(matcher, All | AnyOf):
        each = [touches_files(inner, op) for inner in matcher.matchers]
        return all(each) if isinstance(matcher, All) else any(each)
    return isinstance(matcher, AgentMatcher)


def paths_of(matcher: Matcher, op: str) -> Iterator[str]:
    """Yield the patterns of the paths at which a matcher can match this being done to a file, the workspace as `.`."""
    if not touches_files(matcher, op):
        return
    if isinstance(matcher, PathMatcher):
        yield matcher.glob.text
    elif isinstance(matcher, AnyOf):
        for each in matcher.matchers:
            yield from paths_of(each, op)
    elif isinstance(matcher, All) and (named := [each for each in matcher.matchers if _names_paths(each)]):
        for each in named:
            yield from paths_of(each, op)
    else:
        yield "."


def _names_paths(matcher: Matcher) -> bool:
    if isinstance(matcher, All | AnyOf):
        return any(_names_paths(each) for each in matcher.matchers)
    return isinstance(matcher, PathMatcher)


def is_any_command(matcher: Matcher, subject: MatchContext | None = None) -> bool:
    """Whether a matcher matches every command there is, whatever its words; of one agent, that of the `subject`."""
    if isinstance(matcher, AgentMatcher):
        return subject is not None and matcher.match(subject, granting=True) is True
    if isinstance(matcher, CommandMatcher):
        keys = (matcher.names, matcher.subcommands, matcher.flags, matcher.args, matcher.operands, matcher.within)
        return not any(key is not None and key != () for key in keys) and not matcher.piped_to_shell
    if isinstance(matcher, AnyOf):
        return any(is_any_command(each, subject) for each in matcher.matchers)
    if isinstance(matcher, All):
        return all(is_any_command(each, subject) for each in matcher.matchers)
    return isinstance(matcher, OperationMatcher) and "execute" in matcher.kinds


def describe(matcher: Matcher) -> str:
    """Return a matcher in a few words, for `because`."""
    match matcher:
        case CommandMatcher():
            return _describe_command(matcher)
        case TextMatcher(pattern):
            return f"text {shown(pattern)}"
        case PathMatcher(glob, ops):
            return f"{'/'.join(sorted(ops))} {shown(glob.text)}" if len(ops) < 5 else f"path {shown(glob.text)}"
        case UrlMatcher():
            return f"url {shown(matcher.host or 'any host')}"
        case CallMatcher(server, tool):
            return f"call {shown(server)}.{shown(tool or '*')}"
        case OperationMatcher(kinds):
            return f"operation {', '.join(kinds)}"
        case AgentMatcher(agents):
            return f"agent {shown(', '.join(agents))}"
        case All(matchers):
            return " and ".join(describe(each) for each in matchers)
        case AnyOf(_, label) if label:
            return label
        case AnyOf(matchers):
            return " or ".join(describe(each) for each in matchers[:4]) + (" or ..." if len(matchers) > 4 else "")
        case Not(inner):
            return f"not ({describe(inner)})"
        case _:
            return getattr(matcher, "text", type(matcher).__name__)


def _describe_command(matcher: CommandMatcher) -> str:
    words = [shown("|".join(matcher.names)) if matcher.names else "any command"]
    words += [shown("|".join(matcher.subcommands))] if matcher.subcommands else []
    words += [shown(" ".join(matcher.args))] if matcher.args is not None else []
    words += [shown(flag) for flag in matcher.flags]
    words += ["piped to a shell"] if matcher.piped_to_shell else []
    words += ["within the given directory"] if matcher.within is not None else []
    return " ".join(words)
