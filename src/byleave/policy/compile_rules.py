"""Compile one configured rule: its tables become matchers, its examples are put to the test.

What touches the disk, and what reads shell commands, is passed in. Problems are collected with their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from byleave.core.arguments import TESTS, ArgumentTest, pointer_problem
from byleave.core.command_groups import GROUPS
from byleave.core.command_line import spellings
from byleave.core.decision import ALLOW, ASK, DENY
from byleave.core.match_context import MatchContext
from byleave.core.matchers import (
    OPERATIONS,
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
from byleave.core.patterns import Glob, compile_glob, glob_matcher, glob_problem, pattern_problem, searcher, unclosed
from byleave.core.rules import CompiledRule
from byleave.core.url import normal_host, prefix_segments
from byleave.policy.normalize import AT, LINE
from byleave.shell.knowledge.programs import BUILT_IN
from byleave.text import quoted, sentence_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.core.command_line import CommandLine
    from byleave.core.matchers import Matcher
    from byleave.policy.context import LineReader
    from byleave.policy.layers import Problems
    from byleave.policy.normalize import At, Item

Value = TypeVar("Value")
OUTCOMES = {"allow": ALLOW, "ask": ASK, "deny": DENY}
# Which rules say how a command runs: an allow, and an ask for when the person agrees.
_HOW_IT_RUNS = frozenset({("allow", "sandbox"), ("allow", "unread"), ("ask", "sandbox")})
ALL_OPS = frozenset({"read", "create", "update", "delete", "exec"})
_COMMAND_KEYS = (
    *("command", "subcommand", "flags", "args", "operands"),
    *("within", "options", "piped_to_shell", "any_command"),
)
_NEEDS_COMMAND = ("subcommand", "flags", "args", "operands")


class RuleCompiler:
    """Compiles the rules of all layers. `directory` turns a configured directory into a canonical one."""

    def __init__(
        self,
        problems: Problems,
        warnings: list[str],
        *,
        directory: Callable[[str], str | None],
        home: str,
        read_line: LineReader | None,
    ) -> None:
        self._problems = problems
        self._warnings = warnings
        self._directory = directory
        self._home = home
        self._read_line = read_line
        self._inverted = 0  # tables of `not` around the one that is compiled

    def rule(self, item: Item) -> CompiledRule | None:
        """Return the compiled rule, None if it has a problem."""
        tree = item.tree
        word = next(word for word in OUTCOMES if word in tree)
        before = len(self._problems)
        matcher = self._table(tree[word], (*tree[AT], word), item)
        if matcher is None or len(self._problems) > before:
            return None
        outcome = OUTCOMES[word]
        source = item.layer.source(tree[LINE])
        self._check_confining(item, word)
        rule = CompiledRule(
            outcome,
            matcher,
            tree.get("why"),
            source,
            spellings(matcher) if outcome is DENY else (),
            sandbox=tree.get("sandbox"),
            unread=bool(tree.get("unread")),
        )
        self._try_examples(rule, item)
        if outcome is ALLOW and _is_wide(tree[word]) and tree.get("sandbox") is not True:
            self._warnings.append(
                f"{source}: `within` says where a command starts, not what it writes: it may write elsewhere"
            )
        return rule

    def _check_confining(self, item: Item, word: str) -> None:
        """Look at the keys that say how a command runs, if it does, and `unread`, which needs a confined run."""
        tree = item.tree
        given = [key for key in ("sandbox", "unread") if key in tree and (word, key) not in _HOW_IT_RUNS]
        if given:
            at = (*tree[AT], given[0])
            self._problem(item, at, f"{given[0]} does not belong to a rule that says {word}", "remove it here")
        if "unread" in tree and tree.get("sandbox") is not True:
            hint = "add sandbox = true, or leave it out"
            self._problem(item, (*tree[AT], "unread"), "unread needs sandbox = true in the same rule", hint)

    def _table(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        """Return the matcher of one table: all its keys must hold."""
        found = [matcher for make in _MAKERS if (matcher := make(self, table, at, item)) is not None]
        if not table:
            self._problem(item, at, "this matches nothing", "say what the rule is about, such as command = ...")
        if not found:
            return None
        return found[0] if len(found) == 1 else All(tuple(found))

    def _command(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        given = [key for key in _COMMAND_KEYS if key in table]
        if not given:
            return None
        if "command" in table and "any_command" in table:
            self._problem(item, (*at, "any_command"), "command and any_command exclude each other", "keep one")
        if "command" not in table:
            for key in _NEEDS_COMMAND:
                if key in table:
                    self._problem(item, (*at, key), f"{key} needs a command", "add command = ...")
        for key in ("any_command", "piped_to_shell"):
            if table.get(key) is False:
                self._problem(item, (*at, key), f"{key} = false has no effect", "leave it out, or write true")
        args = table.get("args")
        if args is not None and "**" in args[:-1]:
            self._problem(item, (*at, "args"), '"**" may only be the last word', "put it last")
        return CommandMatcher(
            names=self._listed(table, "command", item),
            subcommands=self._listed(table, "subcommand", item),
            flags=_words(table.get("flags", ())),
            args=None if args is None else tuple(args),
            operands=table.get("operands"),
            within=self._within(table, at, item),
            any_options=table.get("options") == "any",
            piped_to_shell=bool(table.get("piped_to_shell")),
        )

    def _listed(self, table: Mapping[str, Any], key: str, item: Item) -> tuple[str, ...]:
        """Return the names that a key lists; those of an empty list as `_empty` reads it.

        No program and no method has the empty name.
        """
        words = _words(table.get(key, ()))
        return self._empty(item, none=("",), every=()) if key in table and not words else words

    def _empty(self, item: Item, *, none: Value, every: Value) -> Value:
        """Return what an empty list stands for, by the stricter reading: none in an allow, else any.

        Behind a `not` it is the other way round.
        """
        return none if ("allow" in item.tree) is (self._inverted % 2 == 0) else every

    def _text(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        if "text" not in table:
            return None
        pattern = " ".join(table["text"].split())
        if "allow" in item.tree:
            hint = "use command and args there"
            self._problem(item, (*at, "text"), "text only tightens: it cannot stand in an allow", hint)
        if not pattern:
            self._problem(item, (*at, "text"), "the text is empty", "write a command, with * for anything")
        return TextMatcher(pattern)

    def _within(self, table: Mapping[str, Any], at: At, item: Item) -> str | None:
        if "within" not in table:
            return None
        place = self._directory(self._expanded(table["within"], (*at, "within"), item))
        if place is None:
            self._problem(item, (*at, "within"), f"{quoted(table['within'])} cannot be resolved", "name a directory")
        return place

    def _group(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        if "group" not in table:
            return None
        name = table["group"]
        if name not in GROUPS:
            known = sentence_list(tuple(GROUPS), most=30)
            self._problem(item, (*at, "group"), f"there is no group {quoted(name)}", f"the groups are {known}")
            return None
        matcher = self._table(GROUPS[name], at, item)
        return matcher.replace(label=f"group {name}") if isinstance(matcher, AnyOf) else matcher

    def _path(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        if "path" not in table:
            if "ops" in table:
                self._problem(item, (*at, "ops"), "ops needs a path", "add path = ...")
            return None
        nothing: frozenset[str] = frozenset()
        ops = frozenset(table.get("ops", ALL_OPS)) or self._empty(item, none=nothing, every=ALL_OPS)
        texts = _words(table["path"])
        if not texts:
            return PathMatcher(compile_glob("/**"), self._empty(item, none=nothing, every=ops), absolute=True)
        found: list[Matcher] = []
        for text in texts:
            pattern = self._expanded(text, (*at, "path"), item)
            problem = glob_problem(pattern)
            if problem is not None:
                self._problem(item, (*at, "path"), f"{quoted(text)}: {problem}", "write a glob such as src/**")
                continue
            glob, absolute = compile_glob(pattern), pattern.startswith("/")
            found.append(PathMatcher(glob, ops, absolute, self._resolved(glob, absolute=absolute)))
        return None if not found else found[0] if len(found) == 1 else AnyOf(tuple(found))

    def _resolved(self, glob: Glob, *, absolute: bool) -> Glob | None:
        """Return the pattern from where its beginning really leads, if links lead it elsewhere."""
        beginning = f"/{glob.literal}" if absolute else glob.literal
        place = self._directory(beginning) if glob.literal else None
        if place in (None, beginning, f"{self._directory('.')}/{beginning}"):
            return None
        rest = glob.names[glob.literal.count("/") + 1 :]
        return Glob(glob.text, (*[name for name in place.split("/") if name], *rest))

    def _url(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        if "url" not in table:
            return None
        url = table["url"]
        host = normal_host(url["host"]) if "host" in url else None
        if "host" in url and host is None:
            self._problem(item, (*at, "url", "host"), f"{quoted(url['host'])} is no host", "write one host name")
        if "path_prefix" in url and prefix_segments(url["path_prefix"], allow="allow" in at) is None:
            self._problem(item, (*at, "url", "path_prefix"), "no URL can match it", "write a plain path")
        if not url:
            self._problem(item, (*at, "url"), "this matches nothing", "name a host")
        scheme = url.get("scheme")
        methods = tuple(word.upper() for word in self._listed(url, "method", item))
        lowered = None if scheme is None else scheme.lower()
        return UrlMatcher(host, lowered, url.get("port"), url.get("path_prefix"), methods)

    def _call(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        if "call" not in table:
            return None
        call = table["call"]
        for key in ("server", "tool"):
            problem = pattern_problem(call[key]) if key in call else None
            if problem is not None:
                self._problem(item, (*at, "call", key), problem, 'write a name, or a glob such as "get_*"')
        return CallMatcher(call.get("server", "*"), call.get("tool"), self._argument(call, (*at, "call"), item))

    def _argument(self, call: Mapping[str, Any], at: At, item: Item) -> ArgumentTest | None:
        tests = [test for test in TESTS if test in call]
        if "arg" not in call:
            if tests:
                self._problem(item, (*at, tests[0]), f"{tests[0]} needs an arg", 'name the argument: arg = "/name"')
            return None
        if len(tests) != 1:
            self._problem(item, (*at, "arg"), "arg needs exactly one test", f"add one of {', '.join(TESTS)}")
            return None
        (test,) = tests
        value = call[test]
        problem = pointer_problem(call["arg"])
        if problem is not None:
            self._problem(item, (*at, "arg"), problem, 'write "/name"')
        if test == "host":
            value = normal_host(value)
            if value is None:
                self._problem(item, (*at, test), f"{quoted(call[test])} is no host", "write one host name")
        search = self._pattern(value, (*at, test), item) if test == "regex" else None
        if test == "glob" and unclosed(value):
            self._problem(item, (*at, test), 'a "[" is not closed', "close it")
        elif test == "glob":
            search = glob_matcher(value)
        return ArgumentTest(call["arg"], test, value, search)

    def _pattern(self, text: str, at: At, item: Item) -> Callable[[str], bool] | None:
        try:
            return searcher(text)
        except ValueError as error:
            self._problem(item, at, f"the pattern cannot be used: {error}", "write RE2 syntax")
            return None

    def _operation(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        if "operation" not in table:
            return None
        kinds = _words(table["operation"]) or self._empty(item, none=(), every=OPERATIONS)
        for kind in kinds:
            if kind not in OPERATIONS:
                hint = f"the operations are {sentence_list(OPERATIONS, most=20)}"
                self._problem(item, (*at, "operation"), f"there is no operation {quoted(kind)}", hint)
        return OperationMatcher(kinds)

    def _agent(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        if "agent" not in table:
            return None
        agents = _words(table["agent"]) or self._empty(item, none=(), every=("*",))
        for agent in agents:
            if "[" in agent and glob_problem(agent) is not None:
                self._problem(item, (*at, "agent"), 'a "[" is not closed', "close it")
        return AgentMatcher(agents)

    def _combined(self, table: Mapping[str, Any], at: At, item: Item) -> Matcher | None:
        found: list[Matcher] = []
        for key, combine in (("all", All), ("any", AnyOf)):
            if key in table:
                inner = [self._table(each, (*at, key, number), item) for number, each in enumerate(table[key])]
                kept = tuple(matcher for matcher in inner if matcher is not None)
                if not table[key]:
                    self._problem(item, (*at, key), f"{key} is empty", "list at least one matcher")
                found.append(combine(kept))
        if "not" in table:
            self._inverted += 1
            inverted = self._table(table["not"], (*at, "not"), item)
            self._inverted -= 1
            if inverted is not None:
                found.append(Not(inverted))
        return None if not found else found[0] if len(found) == 1 else All(tuple(found))

    def _try_examples(self, rule: CompiledRule, item: Item) -> None:
        reader = self._read_line
        if reader is None:
            return
        for key, expected in (("match", True), ("not_match", False)):
            for number, example in enumerate(item.tree.get(key, ())):
                if _matches(rule, reader.read(example)) is not expected:
                    verb = "does not match" if expected else "matches"
                    at = (*item.tree[AT], key, number)
                    self._problem(
                        item, at, f"the rule {verb} its own example {quoted(example)}", "change the rule or the example"
                    )

    def _expanded(self, text: str, at: At, item: Item) -> str:
        """Return a path with the home directory written out; where there is none, that is a problem of the rule."""
        if text != "~" and not text.startswith("~/"):
            return text
        if not self._home:
            hint = "set HOME to an absolute path, or write the whole path"
            self._problem(item, at, f"{quoted(text)} begins at home, and there is no home directory", hint)
        return (self._directory(self._home) or self._home) + text[1:]  # actions come by their real names

    def _problem(self, item: Item, at: At, problem: str, hint: str) -> None:
        self._problems.add(item.layer, problem, hint=hint, at=at)


_MAKERS = (
    RuleCompiler._command,  # noqa: SLF001 -- the table of this very class
    RuleCompiler._text,  # noqa: SLF001
    RuleCompiler._group,  # noqa: SLF001
    RuleCompiler._path,  # noqa: SLF001
    RuleCompiler._url,  # noqa: SLF001
    RuleCompiler._call,  # noqa: SLF001
    RuleCompiler._operation,  # noqa: SLF001
    RuleCompiler._agent,  # noqa: SLF001
    RuleCompiler._combined,  # noqa: SLF001
)


def _matches(rule: CompiledRule, line: CommandLine) -> bool:
    """Whether a rule matches a part of a line."""
    granting = rule.outcome is ALLOW
    subjects = [MatchContext("execute", None, part) for part in line.parts]
    return any(
        rule.matcher.match(subject, granting=granting) is True and (not granting or rule.matcher.covers(subject))
        for subject in subjects
    )


def _words(value: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _is_wide(table: Mapping[str, Any]) -> bool:
    """Whether an allow of any command, or of a program that writes, says no more than where it starts."""
    if set(table) <= {"not", "within", "options"} and "not" in table:
        return True
    if not set(table) <= {"any_command", "command", "within", "options"} or not set(table) & {"any_command", "command"}:
        return False
    if "any_command" in table:
        return True
    return "within" in table and any(_writes(name) for name in _words(table["command"]))


def _writes(program: str) -> bool:
    table = BUILT_IN.table(program.rpartition("/")[2])
    return table is not None and table.writer
