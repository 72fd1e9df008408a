"""Ordered rules, clause by clause: which rule decides, which is looked at, and what a ruling says."""

from dataclasses import dataclass
from typing import Any

import pytest

from byleave.core.arguments import ANY_TOOL, UNKNOWN
from byleave.core.decision import ALLOW, ASK, DENY, Decision
from byleave.core.fs_rules import FsTarget
from byleave.core.match_context import MatchContext, MatchPart
from byleave.core.matchers import AgentMatcher, All, AnyOf, CallMatcher, CommandMatcher, PathMatcher, UrlMatcher
from byleave.core.patterns import compile_glob
from byleave.core.rules import CompiledRule, RuleAnswer, RuleTable, ruling_verdict, uncovered
from byleave.core.url import Target, parse_url
from fakes.known_commands import Known

OPS = frozenset(("read", "create", "update", "delete", "exec"))


@dataclass(frozen=True)
class Says:
    """A matcher whose answers are said beforehand."""

    text: str
    answer: bool | None
    covering: bool = True

    programs = None
    calls = None

    def match(self, _subject: MatchContext, *, granting: bool) -> bool | None:  # noqa: ARG002 -- it is said beforehand
        return self.answer

    def covers(self, _subject: MatchContext) -> bool:
        return self.covering

    def concerns(self, _subject: MatchContext, *, granting: bool) -> bool:  # noqa: ARG002 -- it is said beforehand
        return True


def rule(outcome: Decision, answer: bool | None, text: str = "a", *, covering: bool = True) -> CompiledRule:  # noqa: FBT001 -- what it says
    return CompiledRule(outcome, Says(text, answer, covering))


def part(name: str | None = "git", known: Known | None = None, **more: Any) -> MatchPart:
    return MatchPart("text", name, known if known is not None else Known(), ("/ws",), **more)


def of(command: MatchPart) -> MatchContext:
    return MatchContext("execute", None, command)


WRITES = of(part(known=Known(option="-o")))
YES, PERHAPS, NO = True, None, False
ORDERED: list[tuple[str, list[CompiledRule], Decision | None, list[int], str | None, int | None]] = [
    ("nothing", [], None, [], None, None),
    ("an allow", [rule(ALLOW, YES)], ALLOW, [0], None, None),
    ("an allow that may be meant", [rule(ALLOW, PERHAPS)], None, [], None, None),
    ("an allow that is not meant", [rule(ALLOW, NO)], None, [], None, None),
    ("a deny", [rule(DENY, YES)], DENY, [0], None, None),
    ("a deny of what it does not cover", [rule(DENY, YES, covering=False)], DENY, [0], None, None),
    ("a deny that may be meant", [rule(DENY, PERHAPS)], ASK, [0], None, None),
    ("a deny that is not meant", [rule(DENY, NO), rule(ALLOW, YES)], ALLOW, [1], None, None),
    ("an ask before a deny", [rule(ASK, YES), rule(DENY, YES)], ASK, [0], None, None),
    ("a deny that may be meant, and an allow", [rule(DENY, PERHAPS), rule(ALLOW, YES)], ASK, [0, 1], None, None),
    ("a deny that may be meant, and a deny", [rule(DENY, PERHAPS, "b"), rule(DENY, YES)], DENY, [1, 0], None, None),
    ("a deny that may be meant, and an ask", [rule(DENY, PERHAPS), rule(ASK, YES)], ASK, [1, 0], None, None),
    ("two that may be meant", [rule(ASK, PERHAPS), rule(DENY, PERHAPS)], ASK, [0], None, None),
    ("an allow that does not reach it", [rule(ALLOW, YES, covering=False)], None, [], "-o", 0),
    ("an allow behind it", [rule(ALLOW, YES, covering=False), rule(ALLOW, YES)], ALLOW, [1], None, None),
    (
        "two that do not reach it",
        [rule(ALLOW, YES, covering=False), rule(ALLOW, YES, "b", covering=False)],
        None,
        [],
        "-o",
        0,
    ),
    (
        "one that does not reach it, and a deny that may be meant",
        [rule(ALLOW, YES, covering=False), rule(DENY, PERHAPS)],
        ASK,
        [1],
        "-o",
        None,
    ),
]


@pytest.mark.parametrize("row", ORDERED, ids=[row[0] for row in ORDERED])
def test_the_first_rule_that_matches_clearly_decides(
    row: tuple[str, list[CompiledRule], Decision | None, list[int], str | None, int | None],
) -> None:
    _name, rules, decision, had_a_say, withheld, passed = row
    answer = RuleTable(rules).decide(WRITES)
    assert (answer.decision, answer.rules, answer.withheld) == (decision, tuple(rules[n] for n in had_a_say), withheld)
    assert answer.passed == (None if passed is None else rules[passed])
    first = answer.rules[0].matcher if answer.rules else None
    assert answer.uncertain is (isinstance(first, Says) and first.answer is None)


def test_where_only_restrictions_count_an_allow_is_passed_over() -> None:
    rules = [rule(ALLOW, YES), rule(DENY, YES)]
    assert RuleTable(rules).decide(WRITES, restricting_only=True).rules == (rules[1],)
    assert RuleTable(rules[:1]).decide(WRITES, restricting_only=True) == RuleAnswer(None)


GIT = CommandMatcher(("git",))
SAID: list[tuple[str, RuleAnswer, str, list[str]]] = [
    (
        "an allow",
        RuleAnswer(ALLOW, (CompiledRule(ALLOW, GIT, "it is fine"),)),
        "the rule `allow git` matches it",
        ["allow git allow"],
    ),
    ("a deny", RuleAnswer(DENY, (CompiledRule(DENY, GIT),)), "the rule `deny git` matches it", ["deny git deny"]),
    (
        "a deny with a reason",
        RuleAnswer(DENY, (CompiledRule(DENY, GIT, "no"),)),
        "no (rule `deny git`)",
        ["deny git deny"],
    ),
    ("an ask with a reason", RuleAnswer(ASK, (CompiledRule(ASK, GIT, "no"),)), "no (rule `ask git`)", ["ask git ask"]),
    (
        "a deny that may be meant",
        RuleAnswer(ASK, (CompiledRule(DENY, GIT, "no"), CompiledRule(ALLOW, GIT)), uncertain=True),
        "it may be what the rule `deny git` is about",
        ["deny git ask", "allow git allow"],
    ),
    (
        "a deny beside one that may be meant",
        RuleAnswer(DENY, (CompiledRule(DENY, GIT), CompiledRule(ASK, GIT))),
        "the rule `deny git` matches it",
        ["deny git deny", "ask git ask"],
    ),
]


@pytest.mark.parametrize(("answer", "why", "refs"), [row[1:] for row in SAID], ids=[row[0] for row in SAID])
def test_a_ruling_says_what_decided_and_what_each_rule_answered(answer: RuleAnswer, why: str, refs: list[str]) -> None:
    assert (answer.why, [f"{ref.rule} {ref.decision.word}" for ref in answer.refs]) == (why, refs)
    verdict = ruling_verdict(answer, "x")
    assert verdict is not None
    assert (verdict.reason.endswith(f": {why}"), verdict.because) == (True, answer.refs)


RM = CompiledRule(DENY, CommandMatcher(("rm",), args=("-r",)))
OTHER, MEANT, LOOSE = Known(exact=False), Known(exact=True), Known(exact=False, loose=True)
STARTED: list[tuple[str, Known, bool]] = [
    ("no names of programs", Known(starts=(MEANT,)), False),
    ("the name of another program", Known(spelled=frozenset(("ls",)), starts=(MEANT,)), False),
    ("the command", Known(spelled=frozenset(("rm",)), starts=(OTHER, MEANT)), True),
    ("the command in another form", Known(spelled=frozenset(("rm",)), starts=(LOOSE,)), True),
    ("other words behind the name", Known(spelled=frozenset(("rm",)), starts=(OTHER,)), False),
    ("the name at as many places as are tried", Known(spelled=frozenset(("rm",)), starts=(OTHER,) * 16), False),
    ("the name at more places", Known(spelled=frozenset(("rm",)), starts=(OTHER,) * 17), True),
]


@pytest.mark.parametrize(("known", "asks"), [row[1:] for row in STARTED], ids=[row[0] for row in STARTED])
def test_a_program_that_may_start_what_its_words_spell_is_asked_about(known: Known, *, asks: bool) -> None:
    answer = RuleTable([RM]).decide(of(part("frob", known)))
    assert answer.rules == ((RM,) if asks else ())
    allowing = CompiledRule(ALLOW, RM.matcher)
    assert RuleTable([allowing]).decide(of(part("frob", known))).rules == ()


def test_a_program_that_is_denied_and_may_start_what_is_denied_is_denied() -> None:
    known = Known(spelled=frozenset(("rm",)), starts=(MEANT,))
    denied = CompiledRule(DENY, AnyOf((CommandMatcher(("frob",)), RM.matcher)))
    assert RuleTable([denied]).decide(of(part("frob", known))).decision is DENY


ANY, RULE_GIT = CompiledRule(ALLOW, CommandMatcher()), CompiledRule(DENY, GIT)
FOUND: list[tuple[str, list[CompiledRule], MatchPart, list[int]]] = [
    ("a program before any", [RULE_GIT, ANY], part(), [0]),
    ("a program behind any", [ANY, RULE_GIT], part(), [0]),
    ("a program by its path", [RULE_GIT, ANY], part("/opt/git"), [0]),
    ("another program", [RULE_GIT, ANY], part("ls"), [1]),
    ("a program alone", [RULE_GIT], part(), [0]),
    ("another program alone", [RULE_GIT], part("ls"), []),
    ("any alone", [ANY], part(), [0]),
    ("a program known at run time", [RULE_GIT, ANY], part(None), [0, 1]),
    ("what runs anything", [RULE_GIT, ANY], part("sh", runs_anything=True), [0, 1]),
    ("what may start it", [ANY, RULE_GIT], part("frob", Known(spelled=frozenset(("git",)), starts=(Known(),))), [0]),
    (
        "what may start it, before any",
        [RULE_GIT, ANY],
        part("frob", Known(spelled=frozenset(("git",)), starts=(Known(),))),
        [0, 1],
    ),
]


@pytest.mark.parametrize(("rules", "command", "expected"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_the_rules_of_a_program_are_found_in_their_order(
    rules: list[CompiledRule], command: MatchPart, expected: list[int]
) -> None:
    assert RuleTable(rules).decide(of(command)).rules == tuple(rules[number] for number in expected)


def path(text: str, *, absolute: bool = False, resolved: str = "") -> PathMatcher:
    return PathMatcher(compile_glob(text), OPS, absolute, compile_glob(resolved) if resolved else None)


CODEX = AgentMatcher(("codex",))
MANY = [
    CompiledRule(DENY, matcher)
    for matcher in (
        path("**/.env"),
        path("migrations/**"),
        path("/e/**", absolute=True),
        path("*.lock"),
        All((path("a/x"), CODEX)),
        AnyOf((path("b/y"), path("c/**"))),
        UrlMatcher("h.com"),
        UrlMatcher(scheme="ftp"),
        path("s/*", resolved="/r/**"),
        AnyOf((path("d/z"), UrlMatcher("i.com"))),
        All((CODEX, UrlMatcher("j.com"))),
        path("t/*.md"),
        path("*/u"),
        path("/Xe/**", absolute=True),
        AnyOf((path("*.ml"), path("k/v"))),
    )
]


def file(name: str, **more: Any) -> MatchContext:
    return MatchContext("edit", "codex", op="update", file=FsTarget(f"/ws/{name}", name), **more)


def outside(place: str, door: str | None = None) -> MatchContext:
    return MatchContext("edit", "codex", op="update", file=FsTarget(place, None, door))


def url(text: str) -> MatchContext:
    target = parse_url(text)
    assert isinstance(target, Target)
    return MatchContext("fetch", "codex", url=target)


INDEXED: list[tuple[str, MatchContext, int | None]] = [
    ("a last name at any depth", file("x/y/.env"), 0),
    ("a last name in another case", file(".ENV"), 0),
    ("a first name", file("migrations/1/x"), 1),
    ("a first name by itself", file("migrations"), 1),
    ("a first name in another case", file("MIGRATIONS/x"), 1),
    ("a first name behind a link", outside("/q/x", "migrations/x"), 1),
    ("the first name of a place outside", outside("/e/x"), 2),
    ("the same name inside", file("e/x"), None),
    ("a name by its ending", file("y.lock"), 3),
    ("a path and an agent", file("a/x"), 4),
    ("one of two paths", file("b/y"), 5),
    ("the other one", file("c/x/y"), 5),
    ("where a pattern leads", outside("/r/x", "q"), 8),
    ("a path beside a URL", file("d/z"), 9),
    ("a first name and an ending", file("t/a.md"), 11),
    ("any first name", file("q/u"), 12),
    ("the first name of a place outside, in capitals", outside("/Xe/x"), 13),
    ("one of two paths that has no name", file("z.ml"), 14),
    ("no rule", file("q/v"), None),
    ("a host", url("https://h.com/"), 6),
    ("a scheme", url("ftp://x.com/"), 7),
    ("a host beside a path", url("https://i.com/"), 9),
    ("a host and an agent", url("https://j.com/"), 10),
    ("no host", url("https://x.com/"), None),
    ("a tree that a pattern reaches", file("t", below=True), 0),
]


@pytest.mark.parametrize(("subject", "expected"), [row[1:] for row in INDEXED], ids=[row[0] for row in INDEXED])
def test_of_many_rules_those_of_a_file_or_a_host_are_found(subject: MatchContext, expected: int | None) -> None:
    after = [CompiledRule(DENY, path(f"never/{number}")) for number in range(3)]
    found = RuleTable([*MANY, *after]).decide(subject).rules
    alone = [n for n, each in enumerate(MANY) if each.matcher.match(subject, granting=False) is not False]
    assert found[:1] == (() if expected is None else (MANY[expected],))
    assert alone[:1] == ([] if expected is None else [expected])  # as without an index


CALLS = [
    CompiledRule(DENY, CallMatcher("s", "t")),
    CompiledRule(ASK, CallMatcher("s*", "u*")),
    CompiledRule(ALLOW, CallMatcher("s1")),
    CompiledRule(DENY, CODEX),
]
CALLED: list[tuple[str, str | None, list[int]]] = [
    ("s", "t", [0]),
    ("s", "u1", [1]),
    ("s1", "u1", [1]),
    ("s1", "x", [2]),
    ("s1", None, [2]),
    ("s", None, [3]),
    ("r", "t", [3]),
]


@pytest.mark.parametrize(("server", "tool", "expected"), CALLED)
def test_the_rules_of_a_call_are_found_by_server_and_tool(server: str, tool: str | None, expected: list[int]) -> None:
    subject = MatchContext("other", "codex", call=(server, tool, None))
    table = RuleTable(CALLS)
    assert [table.decide(subject).rules for _ in range(2)] == [tuple(CALLS[number] for number in expected)] * 2


def test_of_any_tool_all_rules_of_the_server_are_heard() -> None:
    table = RuleTable(CALLS[:2])
    answers = [table.decide(MatchContext("other", None, call=(server, ANY_TOOL, UNKNOWN))) for server in ("s", "r")]
    assert [answer.rules for answer in answers] == [(CALLS[0],), ()]


def test_rules_restrict_files_where_one_denies_or_asks() -> None:
    read = frozenset(("read",))
    tables = [
        RuleTable([CompiledRule(outcome, PathMatcher(compile_glob("a"), read))]) for outcome in (ALLOW, ASK, DENY)
    ]
    assert [table.restricts("read") for table in tables] == [False, True, True]
    assert [table.restricts("update") for table in tables] == [False] * 3
    assert [table.grants("read") for table in tables] == [("a",), (), ()]


BEYOND: list[tuple[MatchPart | None, str | None]] = [
    (None, None),
    (part(), None),
    (part(known=Known(option="-o"), moved="-C", repository="r"), "-o"),
    (part(moved="-C", repository="r"), "-C, which leaves the workspace"),
    (part(repository="r"), "in r, where the configuration of another repository may run programs"),
]


@pytest.mark.parametrize(("command", "expected"), BEYOND)
def test_what_an_allow_does_not_reach_is_said(command: MatchPart | None, expected: str | None) -> None:
    assert uncovered(command) == expected
