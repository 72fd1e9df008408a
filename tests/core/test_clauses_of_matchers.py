"""What each kind of matcher answers for an allow and for a deny, clause by clause."""

from typing import Any

import pytest

from byleave.core.arguments import ANY_TOOL, UNKNOWN, ArgumentTest
from byleave.core.fs_rules import FsTarget
from byleave.core.match_context import MatchContext, MatchPart
from byleave.core.matchers import (
    AgentMatcher,
    All,
    AnyOf,
    CallMatcher,
    CommandMatcher,
    Matcher,
    Not,
    OperationMatcher,
    PathMatcher,
    TextMatcher,
    UrlMatcher,
    both,
    describe,
    either,
    is_about_commands,
    paths_of,
    program_names,
    touches_files,
)
from byleave.core.patterns import compile_glob
from byleave.core.url import Target, parse_url
from fakes.known_commands import Known

ALL_OPS = frozenset(("read", "create", "update", "delete", "exec"))


def part(name: str | None = "git", known: Known | None = None, **more: Any) -> MatchPart:
    return MatchPart("text", name, known if known is not None else Known(), **{"directories": ("/ws/a",), **more})


def of(command: MatchPart | None) -> MatchContext:
    return MatchContext("execute", None, command)


def answers(matcher: Matcher, subject: MatchContext) -> list[bool | None]:
    """Return the answer for an allow, and that for a deny."""
    return [matcher.match(subject, granting=granting) for granting in (True, False)]


GIT, ANY = CommandMatcher(("git",)), CommandMatcher()
SH: dict[str, Any] = {"runs_anything": True}
SUB, FLAG = CommandMatcher(("git",), ("push",)), CommandMatcher(("git",), flags=("-f",))
ARGS, FEW, PIPED = (
    CommandMatcher(("git",), args=("a",)),
    CommandMatcher(("git",), operands=0),
    CommandMatcher(("git",), piped_to_shell=True),
)
WITHIN = CommandMatcher(("git",), within="/ws")
COMMANDS: list[tuple[str, CommandMatcher, MatchPart | None, bool | None, bool | None]] = [
    ("no command", GIT, None, False, False),
    ("assignments alone", ANY, part(empty=True), False, False),
    ("the program", GIT, part(), True, True),
    ("another program", GIT, part("ls"), False, False),
    ("another program that runs anything", GIT, part("sh", **SH), False, None),
    ("a program known at run time", GIT, part(None), None, None),
    ("any command, known at run time", ANY, part(None), True, True),
    ("any command with any options, known at run time", CommandMatcher(any_options=True), part(None), True, True),
    ("any command with a flag, known at run time", CommandMatcher(flags=("-f",)), part(None), False, None),
    ("a program in a directory of the system", GIT, part("/usr/bin/git"), True, True),
    ("a program in another directory", GIT, part("./git"), False, True),
    ("a path for a bare name", CommandMatcher(("/opt/git",)), part("git"), False, None),
    ("a path for another path", CommandMatcher(("/opt/git",)), part("/usr/git"), False, None),
    ("a path for another name", CommandMatcher(("/opt/git",)), part("ls"), False, False),
    ("a path for itself", CommandMatcher(("/opt/git",)), part("/opt/git"), True, True),
    ("a relative path elsewhere", CommandMatcher(("./git",)), part("./git"), False, True),
    ("a relative path at the root", CommandMatcher(("./git",)), part("./git", at_root=True), True, True),
    ("one of two names", CommandMatcher(("ls", "git")), part(), True, True),
    ("output to a shell", PIPED, part(piped_to_shell=True), True, True),
    ("output perhaps to a shell", PIPED, part(piped_to_shell=None), None, None),
    ("output to no shell", PIPED, part(piped_to_shell=False), False, False),
    ("output to no shell of what runs anything", PIPED, part(piped_to_shell=False, **SH), False, None),
    ("any output of a matcher without a pipe", GIT, part(piped_to_shell=False), True, True),
    ("its subcommand", SUB, part(known=Known(subcommand=True)), True, True),
    ("another subcommand", SUB, part(known=Known(subcommand=False)), False, False),
    ("a subcommand known at run time", SUB, part(known=Known(subcommand=None)), None, None),
    ("another subcommand of what runs anything", SUB, part(known=Known(subcommand=False), **SH), False, None),
    ("its subcommand of what runs anything", SUB, part(known=Known(subcommand=True), **SH), True, True),
    ("a subcommand perhaps, of what runs anything", SUB, part(known=Known(subcommand=None), **SH), None, None),
    ("its version", SUB, part(known=Known(subcommand=False, version=True)), True, False),
    ("its flag", FLAG, part(known=Known(flag=True)), True, True),
    ("no flag", FLAG, part(known=Known(flag=False)), False, False),
    ("perhaps a flag", FLAG, part(known=Known(flag=None)), None, None),
    ("its arguments", ARGS, part(known=Known(exact=True)), True, True),
    ("other arguments", ARGS, part(known=Known(exact=False)), False, False),
    ("arguments in another form", ARGS, part(known=Known(exact=False, loose=True)), False, None),
    ("its arguments, which have other forms", ARGS, part(known=Known(exact=True, loose=True)), True, True),
    ("few operands", FEW, part(known=Known(operands=True)), True, True),
    ("many operands", FEW, part(known=Known(operands=False)), False, False),
    ("inside of a directory", WITHIN, part(), True, True),
    ("outside of a directory", WITHIN, part(directories=("/x",)), False, False),
    ("perhaps inside of a directory", WITHIN, part(directories=("/x", "/ws")), None, None),
    ("a directory that is not known", WITHIN, part(directories=None), False, None),
]


@pytest.mark.parametrize(
    ("matcher", "command", "allows", "denies"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS]
)
def test_a_command_matches_clearly_to_be_allowed_and_perhaps_to_be_denied(
    matcher: CommandMatcher, command: MatchPart | None, *, allows: bool | None, denies: bool | None
) -> None:
    assert answers(matcher, of(command)) == [allows, denies]
    assert matcher.concerns(of(command), granting=True) is (command is not None and not command.empty)


def test_a_command_is_asked_for_what_the_matcher_names() -> None:
    known = Known(subcommand=True, flag=True, operands=True, exact=True)
    matcher = CommandMatcher(("git",), ("push", "pull"), ("-f", "-q"), ("a",), 2)
    assert matcher.match(of(part(known=known)), granting=True) is True
    assert known.asked == ["push", "pull", "-f", "-q", ("a",), (2, True)]
    assert FEW.match(of(part(known=(alone := Known(operands=True)))), granting=True) is True
    assert alone.asked == [(0, False)]


COVERED: list[tuple[str, Matcher, MatchPart | None, bool]] = [
    ("no command", GIT, None, True),
    ("harmless options", GIT, part(), True),
    ("an option that writes", GIT, part(known=Known(option="-o")), False),
    ("an option that the flags name", CommandMatcher(flags=("-o",)), part(known=Known(option="-o")), True),
    ("an option that the arguments name", CommandMatcher(args=("-o", "x")), part(known=Known(option="-o")), True),
    ("any options", CommandMatcher(any_options=True), part(known=Known(option="-o"), repository="r", moved="-C"), True),
    ("another repository", CommandMatcher(args=("x",)), part(repository="r"), False),
    ("an option that leaves the workspace", GIT, part(moved="-C"), False),
    ("one that the flags name", CommandMatcher(flags=("-C",)), part(moved="-C"), True),
    ("one beside named arguments", CommandMatcher(args=("x",)), part(moved="-C"), True),
    ("one beside a directory", CommandMatcher(within="/x"), part(moved="-C"), True),
    ("a place outside", GIT, part(moved="/x"), False),
    ("a place outside that the flags name", CommandMatcher(flags=("/x",)), part(moved="/x"), False),
    ("a place outside that the arguments name", CommandMatcher(args=("/x",)), part(moved="/x"), True),
    ("a place outside beside other arguments", CommandMatcher(args=("y",)), part(moved="/x"), False),
    ("a place outside beside a directory", CommandMatcher(within="/x"), part(moved="/x"), False),
    ("a change of directory", GIT, part(moved="cd"), False),
    ("a change of directory beside a directory", CommandMatcher(within="/x"), part(moved="cd"), True),
    ("an agent", AgentMatcher(("a",)), part(), True),
    ("an operation", OperationMatcher(("execute",)), part(), True),
    ("what is not", Not(GIT), part("ls"), True),
    (
        "any, of which one that covers is a look-alike",
        AnyOf((CommandMatcher(("git",), any_options=True), CommandMatcher(("./git",)))),
        part("./git", at_root=True, moved="-C"),
        False,
    ),
    ("an agent, and no command", AgentMatcher(("a",)), None, True),
    ("an agent, and an option that writes", AgentMatcher(("a",)), part(known=Known(option="-o")), False),
    ("an operation, and another repository", OperationMatcher(("execute",)), part(repository="r"), False),
    ("what is not, and a place outside", Not(GIT), part("ls", moved="/x"), False),
    ("all, of which one covers", All((AgentMatcher(("a",)), CommandMatcher(any_options=True))), part(moved="-C"), True),
    ("all, of which none covers", All((AgentMatcher(("a",)), GIT)), part(moved="-C"), False),
    ("any, of which the one that matches covers", AnyOf((CommandMatcher(("ls",)), GIT)), part(), True),
    (
        "any, of which another would cover",
        AnyOf((CommandMatcher(("ls",), any_options=True), GIT)),
        part(moved="-C"),
        False,
    ),
    ("a text of another agent", TextMatcher("git *"), part(), False),
]


@pytest.mark.parametrize(
    ("matcher", "command", "expected"), [row[1:] for row in COVERED], ids=[row[0] for row in COVERED]
)
def test_an_allow_reaches_only_what_is_harmless_or_named(
    matcher: Matcher, command: MatchPart | None, *, expected: bool
) -> None:
    assert matcher.covers(of(command)) is expected


TEXTS: list[tuple[str, tuple[str | None, ...], dict[str, Any], bool | None]] = [
    ("git push *", ("git", "push", "-f"), {}, True),
    ("git push *", ("/usr/bin/git", "push", "-f"), {}, True),
    ("git push *", ("git", "pull"), {}, False),
    ("git push *", ("git", "pull"), SH, None),
    ("git push *", ("git", None), {}, None),
    ("git push *", ("git", "push", None), {}, None),
    ("git push *", ("git", "pull", None), {}, False),
    ("git p?sh *", ("git", "p", None), {}, None),
    ("git push", ("git", None), {}, None),
    ("te?t", ("git",), {}, True),
    ("git push -f", ("/usr/bin/git", "push", "-f"), {}, True),
    ("git ", ("git", ""), {}, True),
    ("git ", ("/usr/bin/git", ""), {}, True),
    ("g?t p*", ("got", None), {}, None),
    ("g*t push", ("gxt", None), {}, None),
    ("g*t*", ("gxt", None), {}, None),
    ("aXb*", ("aY", None), {}, False),
    ("git*", ("git", "push", None), {}, None),
    ("git", ("git",), {"empty": True}, False),
]


@pytest.mark.parametrize(("pattern", "words", "more", "expected"), TEXTS, ids=[f"{row[0]}: {row[1]}" for row in TEXTS])
def test_a_text_of_another_agent_is_held_against_the_words_as_far_as_they_are_known(
    pattern: str, words: tuple[str | None, ...], more: dict[str, Any], *, expected: bool | None
) -> None:
    subject = of(part(words[0], Known(texts=words), **more))
    assert answers(TextMatcher(pattern), subject) == [False, expected]
    assert TextMatcher(pattern).concerns(subject, granting=False) is not more.get("empty", False)
    assert answers(TextMatcher(pattern), of(None)) == [False, False]


def test_a_text_of_another_agent_is_also_held_against_the_command_as_it_is_written() -> None:
    written = MatchPart("git   push", "frob", Known(texts=("frob",)), ())
    assert answers(TextMatcher("git push"), of(written)) == [False, True]


def path(text: str, *, ops: frozenset[str] = ALL_OPS, absolute: bool = False, resolved: str = "") -> PathMatcher:
    return PathMatcher(compile_glob(text), ops, absolute, compile_glob(resolved) if resolved else None)


INSIDE, OUT = FsTarget("/ws/a/x", "a/x"), FsTarget("/e/x", None, door="l/x")
TREE, TREE_OUT = FsTarget("/ws/a", "a", directory=True), FsTarget("/Xe", None, directory=True)
READ = frozenset(("read",))
PATHS: list[tuple[str, PathMatcher, FsTarget, bool, bool | None, bool | None]] = [
    ("a file", path("a/*"), INSIDE, False, True, True),
    ("another file", path("b/*"), INSIDE, False, False, False),
    ("another operation", path("a/*", ops=READ), INSIDE, False, False, False),
    ("another case", path("A/X"), INSIDE, False, False, True),
    ("a place outside by its link", path("l/**"), OUT, False, False, True),
    ("a place outside, and all of the workspace", path("**"), OUT, False, False, True),
    ("a tree that one of two patterns reaches", path("a/*.py", resolved="/q/*"), TREE, True, False, None),
    ("a place outside by where it is", path("/e/**", absolute=True), OUT, False, True, True),
    (
        "a place outside by a link that an absolute pattern cannot mean",
        path("/l/**", absolute=True),
        OUT,
        False,
        False,
        False,
    ),
    ("a place by where a pattern leads", path("s/**", resolved="/e/**"), OUT, False, False, True),
    ("a tree", path("a/**"), TREE, True, True, True),
    ("a tree by its name alone", path("a"), TREE, True, False, True),
    ("a tree, of which something may match", path("a/*.py"), TREE, True, False, None),
    ("a file, below which nothing is touched", path("a/*.py"), TREE, False, False, False),
    ("a tree without a match", path("b/*.py"), TREE, True, False, False),
    ("a tree outside whose name begins with a capital X", path("/Xe/**", absolute=True), TREE_OUT, True, True, True),
]


@pytest.mark.parametrize(
    ("matcher", "file", "below", "allows", "denies"), [row[1:] for row in PATHS], ids=[row[0] for row in PATHS]
)
def test_a_path_covers_all_that_is_touched_to_be_allowed_and_reaches_any_of_it_to_be_denied(
    matcher: PathMatcher, file: FsTarget, *, below: bool, allows: bool | None, denies: bool | None
) -> None:
    assert answers(matcher, MatchContext("edit", op="update", file=file, below=below)) == [allows, denies]


def test_what_is_not_a_place_of_the_workspace_lets_nothing_outside_through() -> None:
    outside, inside = (MatchContext("edit", op="update", file=file) for file in (OUT, INSIDE))
    for matcher, expected in ((Not(path("s/**")), [False, True]), (Not(path("/s/**", absolute=True)), [True, True])):
        assert answers(matcher, outside) == expected
        assert answers(matcher, inside) == [True, True]
    assert answers(path("**"), of(part())) == [False, False]


def url(text: str) -> Target:
    target = parse_url(text)
    assert isinstance(target, Target)
    return target


URLS: list[tuple[UrlMatcher, str, str | None, bool, bool]] = [
    (UrlMatcher("h.com"), "https://h.com/", None, True, True),
    (UrlMatcher("h.com"), "https://h.com:81/", None, False, True),
    (UrlMatcher("h.com", port=81), "https://h.com:81/", None, True, True),
    (UrlMatcher("h.com", port=81), "https://h.com/", None, False, False),
    (UrlMatcher("h.com"), "https://u@h.com/", None, False, True),
    (UrlMatcher("h.com"), "https://x.com/", None, False, False),
    (UrlMatcher(), "https://x.com/", None, True, True),
    (UrlMatcher(scheme="http"), "https://x.com/", None, False, False),
    (UrlMatcher("h.com", path_prefix="/a"), "https://h.com/b", None, False, False),
    (UrlMatcher("h.com", methods=("GET",)), "https://h.com/", None, True, True),
    (UrlMatcher("h.com", methods=("POST",)), "https://h.com/", None, False, False),
    (UrlMatcher("h.com", methods=("POST",)), "https://h.com/", "post", True, True),
]


@pytest.mark.parametrize(("matcher", "text", "method", "allows", "denies"), URLS, ids=[str(row[0]) for row in URLS])
def test_a_url_matches_by_all_that_a_matcher_names(
    matcher: UrlMatcher, text: str, method: str | None, *, allows: bool, denies: bool
) -> None:
    assert answers(matcher, MatchContext("fetch", url=url(text), method=method)) == [allows, denies]


SUBJECTS = {
    "command": of(part()),
    "file": MatchContext("edit", op="update", file=INSIDE),
    "url": MatchContext("fetch", url=url("https://h.com/")),
    "call": MatchContext("other", call=("s", "t", None)),
}
KINDS: list[tuple[Matcher, set[str]]] = [
    (GIT, {"command"}),
    (TextMatcher("*"), {"command"}),
    (path("**"), {"file"}),
    (UrlMatcher(), {"url"}),
    (CallMatcher(), {"call"}),
    (OperationMatcher(("read",)), set(SUBJECTS)),
    (AgentMatcher(("a",)), set(SUBJECTS)),
    (Not(GIT), {"command"}),
    (All((GIT, AgentMatcher(("a",)))), {"command"}),
    (AnyOf((GIT, UrlMatcher())), {"command", "url"}),
]


@pytest.mark.parametrize(("matcher", "expected"), KINDS, ids=[describe(row[0]) for row in KINDS])
def test_a_matcher_speaks_about_its_own_kind_of_subject(matcher: Matcher, expected: set[str]) -> None:
    spoken = {name for name, subject in SUBJECTS.items() if matcher.concerns(subject, granting=True)}
    assert spoken == expected
    for name, subject in SUBJECTS.items():
        if name not in expected:
            assert answers(matcher, subject) == [False, False]
            assert answers(Not(matcher), subject) == [False, False]


AGENTS: list[tuple[str | None, bool, bool]] = [
    ("codex", True, True),
    ("codex-cli", False, True),
    ("x", False, False),
    (None, False, False),
]


@pytest.mark.parametrize(("agent", "allows", "denies"), AGENTS)
def test_an_agent_is_denied_under_its_other_names_too(agent: str | None, *, allows: bool, denies: bool) -> None:
    assert answers(AgentMatcher(("codex",)), MatchContext("execute", agent)) == [allows, denies]


def test_any_agent_is_one_that_has_a_name() -> None:
    assert answers(AgentMatcher(("*",)), MatchContext("execute")) == [False, False]


def test_what_looks_like_the_program_is_clearly_something_else_only_to_be_denied() -> None:
    assert answers(Not(GIT), of(part("./git"))) == [False, True]
    assert answers(Not(GIT), of(part(None))) == [None, None]


PREFIX = ArgumentTest("/x", "prefix", "a")
CALLED: list[tuple[CallMatcher, str, str | None, Any, bool | None, bool | None]] = [
    (CallMatcher("s*", "t"), "s1", "t", None, True, True),
    (CallMatcher("s*", "t"), "r1", "t", None, False, False),
    (CallMatcher("s*", "t"), "s1", "u", None, False, False),
    (CallMatcher("s*", "t"), "s1", None, None, False, False),
    (CallMatcher("s*", "t"), "s1", ANY_TOOL, None, None, None),
    (CallMatcher("s*"), "s1", None, None, True, True),
    (CallMatcher("s*"), "s1", ANY_TOOL, None, True, True),
    (CallMatcher("s", "t", PREFIX), "s", "t", {"x": "ab"}, True, True),
    (CallMatcher("s", "t", PREFIX), "s", "t", {"x": "b"}, False, False),
    (CallMatcher("s", "t", PREFIX), "s", "t", UNKNOWN, None, None),
]


@pytest.mark.parametrize(("matcher", "server", "tool", "arguments", "allows", "denies"), CALLED)
def test_a_call_matches_by_server_tool_and_argument(
    matcher: CallMatcher, server: str, tool: str | None, arguments: Any, *, allows: bool | None, denies: bool | None
) -> None:
    assert answers(matcher, MatchContext("other", call=(server, tool, arguments))) == [allows, denies]


def test_three_answers_are_joined_by_the_clearest() -> None:
    values = (True, None, False)
    assert [both((one, other)) for one in values for other in values] == [
        *(True, None, False),
        *(None, None, False),
        *(False, False, False),
    ]
    assert [either((one, other)) for one in values for other in values] == [
        *(True, True, True),
        *(True, None, None),
        *(True, None, False),
    ]
    assert (both((None, True, True)), either((None, False, False)), both(()), either(())) == (None, None, True, False)


RM = CommandMatcher(("rm", "/bin/shred"))
NAMES: list[tuple[Matcher, frozenset[str] | None, frozenset[str], bool]] = [
    (RM, frozenset({"rm", "shred"}), frozenset({"rm", "shred"}), True),
    (ANY, None, frozenset(), False),
    (AnyOf((GIT, RM)), frozenset({"git", "rm", "shred"}), frozenset({"git", "rm", "shred"}), True),
    (AnyOf((GIT, ANY)), None, frozenset({"git"}), False),
    (AnyOf((GIT, path("a"))), frozenset({"git"}), frozenset({"git"}), False),
    (All((RM, CommandMatcher(("rm",)))), frozenset({"rm"}), frozenset({"rm", "shred"}), True),
    (All((GIT, AgentMatcher(("a",)))), frozenset({"git"}), frozenset({"git"}), True),
    (All((ANY, AgentMatcher(("a",)))), None, frozenset(), False),
    (Not(GIT), None, frozenset(), False),
    (path("a"), frozenset(), frozenset(), False),
    (TextMatcher("rm *"), None, frozenset(), False),
]


@pytest.mark.parametrize(("matcher", "found", "named", "alone"), NAMES, ids=[describe(row[0]) for row in NAMES])
def test_a_rule_is_found_by_the_programs_that_it_can_match(
    matcher: Matcher, found: frozenset[str] | None, named: frozenset[str], *, alone: bool
) -> None:
    assert (matcher.programs, program_names(matcher), is_about_commands(matcher)) == (found, named, alone)


CALL = CallMatcher("s", "t")
CALLS: list[tuple[Matcher, set[tuple[str, str | None]] | None]] = [
    (CALL, {("s", "t")}),
    (CallMatcher(), {("*", None)}),
    (GIT, set()),
    (AgentMatcher(("a",)), None),
    (AnyOf((CALL, CallMatcher("u"))), {("s", "t"), ("u", None)}),
    (AnyOf((CALL, AgentMatcher(("a",)))), None),
    (All((AgentMatcher(("a",)), CALL)), {("s", "t")}),
    (All((AnyOf((CALL, CallMatcher("u"))), CALL)), {("s", "t")}),
    (All((AgentMatcher(("a",)),)), None),
    (Not(CALL), None),
]


@pytest.mark.parametrize(("matcher", "found"), CALLS, ids=[describe(row[0]) for row in CALLS])
def test_a_rule_is_found_by_the_calls_that_it_can_match(
    matcher: Matcher, found: set[tuple[str, str | None]] | None
) -> None:
    assert matcher.calls == found


FILES: list[tuple[Matcher, list[str], list[str]]] = [
    (path("a", ops=READ), ["a"], []),
    (path("a"), ["a"], ["a"]),
    (OperationMatcher(("edit",)), [], ["."]),
    (AgentMatcher(("x",)), ["."], ["."]),
    (GIT, [], []),
    (Not(GIT), [], []),
    (Not(TextMatcher("x")), [], []),
    (Not(UrlMatcher()), [], []),
    (Not(CALL), [], []),
    (Not(path("a")), ["."], ["."]),
    (All((path("a"), AgentMatcher(("x",)))), ["a"], ["a"]),
    (All((path("a", ops=READ), OperationMatcher(("edit",)))), [], []),
    (All((GIT, AgentMatcher(("x",)))), [], []),
    (All((AnyOf((path("a"), AgentMatcher(("x",)))), AgentMatcher(("y",)))), ["a", "."], ["a", "."]),
    (All((AnyOf((AgentMatcher(("y",)), AgentMatcher(("x",)))), path("a"))), ["a"], ["a"]),
    (All((AnyOf((path("a"), path("b"))), AgentMatcher(("x",)))), ["a", "b"], ["a", "b"]),
    (AnyOf((GIT, path("b"))), ["b"], ["b"]),
    (AnyOf((GIT, CALL)), [], []),
]


@pytest.mark.parametrize(("matcher", "read", "update"), FILES, ids=[describe(row[0]) for row in FILES])
def test_a_rule_can_match_files_at_the_paths_that_it_names(
    matcher: Matcher, read: list[str], update: list[str]
) -> None:
    assert [list(paths_of(matcher, op)) for op in ("read", "update")] == [read, update]
    assert [touches_files(matcher, op) for op in ("read", "update")] == [bool(read), bool(update)]


WORDS: list[tuple[Matcher, str]] = [
    (ANY, "any command"),
    (RM, "rm|/bin/shred"),
    (CommandMatcher(("git",), ("push", "pull"), ("-f", "-q")), "git push|pull -f -q"),
    (CommandMatcher(("npm",), args=("run", "**")), "npm run **"),
    (PIPED, "git piped to a shell"),
    (WITHIN, "git within the given directory"),
    (TextMatcher("git *"), "text git *"),
    (path("a/**"), "path a/**"),
    (path("a/**", ops=frozenset(("update", "create"))), "create/update a/**"),
    (UrlMatcher("h.com"), "url h.com"),
    (UrlMatcher(), "url any host"),
    (CALL, "call s.t"),
    (CallMatcher("s"), "call s.*"),
    (OperationMatcher(("read", "edit")), "operation read, edit"),
    (AgentMatcher(("a", "b")), "agent a, b"),
    (All((GIT, AgentMatcher(("a",)))), "git and agent a"),
    (AnyOf((GIT, RM)), "git or rm|/bin/shred"),
    (AnyOf((GIT, RM), "group tools"), "group tools"),
    (AnyOf((GIT, GIT, GIT, GIT)), "git or git or git or git"),
    (AnyOf((GIT, GIT, GIT, GIT, GIT)), "git or git or git or git or ..."),
    (Not(GIT), "not (git)"),
    (CommandMatcher(("x\u202e",), args=("\u200b",), flags=("\x1b",)), "x\\u202e \\u200b \\x1b"),
]


@pytest.mark.parametrize(("matcher", "expected"), WORDS, ids=[row[1] for row in WORDS])
def test_a_matcher_is_described_in_a_few_words(matcher: Matcher, expected: str) -> None:
    assert describe(matcher) == expected
