"""What must hold of any rules and any command line, whatever they are."""

import tomllib
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import amounts
from byleave.core.decision import ALLOW, ASK, DENY, Decision
from byleave.core.match_context import MatchContext
from byleave.core.rules import CompiledRule, RuleTable
from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace
from byleave.shell.reader import read_command

pytestmark = pytest.mark.long

Rules = list[dict[str, Any]]
WORKSPACE = Workspace(".")
WRAPPERS = (
    *("time", "command", "nice", "nice -n 5", "nohup", "timeout 5", "stdbuf -oL", "env", "env A=1", "env -i", "exec"),
    *(
        "sudo",
        "sudo -u x",
        "doas",
        "setsid",
        "ionice -c 3",
        "xargs",
        "xargs -0 -n 1",
        "find . -exec",
        "builtin command",
    ),
    *("watch", "/usr/bin/env", "eval", "sh -c", "bash -lc", "uv run", "npx", "docker run image", "flock f", "strace"),
)
QUOTED = ("sh -c", "bash -lc")
DENIED = ("rm x", "rm -rf /", "/bin/rm x", "git push --force", "git push -f origin", "git -C . push --force-with-lease")
DENY_THEM: Rules = [
    {"deny": {"command": "rm"}},
    {"deny": {"command": "git", "subcommand": "push", "flags": ["--force"]}},
    {"deny": {"command": "git", "subcommand": "push", "flags": ["--force-with-lease"]}},
    {"allow": {"any_command": True, "options": "any"}},
]

names = st.sampled_from(["git", "ls", "rm", "sort", "xargs", "find", "./git"])
flags = st.lists(st.sampled_from(["-f", "-r", "--force", "-o", "--output"]), max_size=2)
tables = st.recursive(
    st.builds(
        lambda name, sub, given, wide: {
            "command": name,
            **({"subcommand": sub} if sub else {}),
            **({"flags": given} if given else {}),
            **({"options": "any"} if wide else {}),
        },
        names,
        st.sampled_from(["", "push", "log", "x"]),
        flags,
        st.booleans(),
    )
    | st.just({"any_command": True})
    | st.just({"path": "out/**"})
    | st.just({"operation": "execute"}),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda found: {"any": found})
        | st.lists(inner, min_size=1, max_size=2).map(lambda found: {"all": found})
        | inner.map(lambda found: {"not": found})
    ),
    max_leaves=4,
)
rules = st.lists(
    st.tuples(st.sampled_from(["allow", "ask", "deny"]), tables).map(lambda both: {both[0]: both[1]}), max_size=5
)
words = st.sampled_from(["push", "log", "-f", "-rf", "--force", "x", "$X", "*", "--", "-o", "'a b'", '"$Y"', "-exec"])
commands = st.builds(
    lambda name, rest: " ".join([name, *rest]), names | st.sampled_from(["/bin/rm", "$X"]), st.lists(words, max_size=3)
)
lines = st.lists(commands, min_size=1, max_size=3).map("; ".join) | st.builds(
    "{} > {}".format, commands, st.sampled_from(["out/x", "y"])
)


def compiled(given_rules: Rules) -> LivePolicy:
    return WORKSPACE.compile_tree({"rules": given_rules})


def decision(given_rules: Rules, line: str) -> Decision:
    return compiled(given_rules).decide({"kind": "command", "command": line}).decision


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("command", DENIED)
def test_a_denied_command_is_denied_in_any_wrapper(wrapper: str, command: str) -> None:
    wrapped = f"{wrapper} '{command}'" if wrapper in QUOTED else f"{wrapper} {command}"
    assert decision(DENY_THEM, wrapped + (" \\;" if wrapper.startswith("find") else "")) is DENY


@settings(deadline=None, max_examples=amounts.of(60, 30))
@given(st.lists(st.sampled_from(WRAPPERS[:10]), min_size=2, max_size=4), st.sampled_from(DENIED))
def test_a_denied_command_is_denied_in_wrappers_inside_wrappers(wrappers: list[str], command: str) -> None:
    inner = [wrapper for wrapper in wrappers if wrapper not in ("time", "command", "nohup")]
    assert decision(DENY_THEM, " ".join([*inner, command])) is DENY


@settings(deadline=None, max_examples=amounts.of(60, 30))
@given(
    rules,
    st.permutations(["-f", "-r", "-v", "--one-file-system"]),
    st.permutations(["-f", "-r", "-v", "--one-file-system"]),
)
def test_the_order_of_flags_changes_nothing(given_rules: Rules, one: list[str], other: list[str]) -> None:
    policy = compiled(given_rules)
    answers = {
        policy.decide({"kind": "command", "command": f"rm {' '.join(each)} x"}).decision for each in (one, other)
    }
    assert len(answers) == 1


@settings(deadline=None, max_examples=amounts.of(150, 50))
@given(
    rules,
    lines,
    commands,
    st.sampled_from(["{0}; {1}", "{1}; {0}", "{0} && {1}", "{0} | {1}", "{0} $({1})", "({1}); {0}"]),
)
def test_one_more_part_never_loosens(given_rules: Rules, line: str, more: str, joined: str) -> None:
    reading = read_command(joined.format(line, more))
    # A part that moves the others elsewhere, or may do so, changes what they say: `$X; git > y` need not write ./y.
    assume(reading.understood and all(command.base == (".",) for command in reading.commands))
    policy = compiled(given_rules)
    alone = policy.decide({"kind": "command", "command": line}).decision
    both = policy.decide({"kind": "command", "command": joined.format(line, more)}).decision
    # `git $(x)` may be `git push`, so a deny of everything but that is no longer sure: it needs approval instead.
    assert both >= (min(alone, ASK) if joined == "{0} $({1})" else alone)


@settings(deadline=None, max_examples=amounts.of(150, 50))
@given(rules, tables, lines)
def test_one_more_deny_in_front_never_loosens(given_rules: Rules, table: dict[str, Any], line: str) -> None:
    assert decision([{"deny": table}, *given_rules], line) >= decision(given_rules, line)


def first_match(table: RuleTable, subject: MatchContext) -> Decision | None:
    """Judge as the design says it, rule by rule."""
    floor = False
    for rule in table.rules:
        answer = rule.matcher.match(subject, granting=rule.outcome is ALLOW)
        if rule.outcome is ALLOW:
            if answer is True and rule.matcher.covers(subject):
                return ASK if floor else ALLOW
        elif answer is True:
            return rule.outcome
        elif answer is None:
            floor = True
    return ASK if floor else None


@settings(deadline=None, max_examples=amounts.of(200, 60))
@given(rules, lines)
def test_the_index_answers_as_going_through_all_rules_does(given_rules: Rules, line: str) -> None:
    policy = compiled(given_rules)
    table = next(policy.compiled.policy.rule_tables(), RuleTable(()))
    assert policy.compiled.read_line is not None
    for part in policy.compiled.read_line.read(line).parts:
        subject = MatchContext("execute", None, part)
        assert table.decide(subject).decision == first_match(table, subject)


def test_a_rule_of_another_program_is_not_even_asked() -> None:
    table = next(compiled([{"deny": {"command": f"p{number}"}} for number in range(50)]).compiled.policy.rule_tables())
    asked: list[CompiledRule] = [rule for rule in table.rules if rule.matcher.programs == frozenset({"p7"})]
    assert len(asked) == 1


SUGGESTED = (
    *(
        "ls",
        "ls -la src",
        "git status && make -j4",
        "sort -u x",
        "./run.sh a",
        "sudo ls",
        "find . -name x",
    ),
    *("echo 'a \"b\" \\\\'", "sh -c 'ls; id'", "ls > out.txt", "FOO=1 ls", "sort -o x y", "/usr/bin/time -o f ls"),
)
DANGEROUS = {
    "sort": "--compress-program=x",
    "find": "-delete",
    "ls": "> /etc/x",
    "git": "-c alias.x=y",
    "make": "--eval=x",
}


@pytest.mark.parametrize("line", SUGGESTED)
def test_a_suggestion_allows_exactly_that_line(line: str) -> None:
    suggestion = compiled([]).decide({"kind": "command", "command": line}).suggestion
    assert suggestion is not None
    suggested = tomllib.loads(suggestion)["rules"]
    assert decision(suggested, line) is ALLOW
    for program, option in DANGEROUS.items():
        if program in line.split():
            assert decision(suggested, f"{line} {option}") is not ALLOW


@settings(deadline=None, max_examples=amounts.of(150, 50))
@given(rules, lines)
def test_a_suggestion_is_never_in_vain(given_rules: Rules, line: str) -> None:
    verdict = compiled(given_rules).decide({"kind": "command", "command": line})
    if verdict.suggestion is None:
        return
    suggested = tomllib.loads(verdict.suggestion)["rules"]
    assert decision([*given_rules, *suggested], line) is ALLOW
    if compiled(given_rules).decide({"kind": "update", "path": "/etc/passwd"}).decision is not ALLOW:
        assert decision([*given_rules, *suggested], f"{line} > /etc/passwd") is not ALLOW


@pytest.mark.parametrize(
    "line", ["ls $X", "xargs grep x", "PATH=/x ls", "ls > $X", "ls 'unfinished", "cd /tmp; ./x", ""]
)
def test_nothing_is_suggested_where_a_rule_would_not_be_enough(line: str) -> None:
    assert not compiled([]).decide({"kind": "command", "command": line}).suggestion
