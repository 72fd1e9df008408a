"""Command rules: a listed program, with a listed beginning of its arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.command_rules import ANYTHING, CommandRule, CommandTable, args_problem

words = st.sampled_from(["a", "b", "-x", "", "*"])
lists = st.tuples(st.lists(words, max_size=3), st.sampled_from([[], [ANYTHING]])).map(lambda both: (*both[0], *both[1]))
rules = st.builds(CommandRule, st.sampled_from(["p", "./p", "P"]), st.none() | st.lists(lists, max_size=4).map(tuple))


def fits(listed: tuple[str, ...], args: list[str]) -> bool:
    """A last `**` is anything after, also nothing; otherwise the whole list must be the same."""
    if listed[-1:] == (ANYTHING,):
        return args[: len(listed) - 1] == list(listed[:-1])
    return args == list(listed)


def plain_allows(rules: list[CommandRule], program: str, args: list[str]) -> bool:
    listed = [rule for rule in rules if rule.program == program]
    if not listed:
        return False
    lists = listed[-1].args
    return lists is None or any(fits(one, args) for one in lists) or (lists == () and not args)


@given(st.lists(rules, max_size=4), st.sampled_from(["p", "./p", "P", "/x/p"]), st.lists(words, max_size=4))
def test_the_index_answers_as_a_plain_reading_of_the_rules_does(
    given_rules: list[CommandRule], program: str, args: list[str]
) -> None:
    rule, allowed = CommandTable(given_rules).match(program, args)
    assert allowed == plain_allows(given_rules, program, args)
    assert (rule is not None) == (program in [listed.program for listed in given_rules])


@pytest.mark.parametrize(
    ("args", "given_args", "allowed"),
    [
        (None, ["anything", "at all"], True),
        ((), [], True),
        ((), ["x"], False),
        (((),), [], True),
        (((),), ["x"], False),
        (((ANYTHING,),), [], True),
        ((("check", ANYTHING),), ["check"], True),
        ((("check", ANYTHING),), ["check", "-q"], True),
        ((("check", ANYTHING),), ["checks"], False),
        ((("check", ANYTHING),), ["-q", "check"], False),
        ((("check",),), ["check", "-q"], False),
        ((("*",),), ["x"], False),
        ((("check", ANYTHING),), [ANYTHING], False),
    ],
)
def test_arguments_are_allowed_as_listed(
    *, args: tuple[tuple[str, ...], ...] | None, given_args: list[str], allowed: bool
) -> None:
    assert CommandTable([CommandRule("p", args)]).match("p", given_args)[1] is allowed


@pytest.mark.parametrize("args", [[["**", "a"]], [["a"], ["a", "**", "**"]]])
def test_anything_may_only_stand_last(args: list[list[str]]) -> None:
    assert args_problem(args) is not None


@pytest.mark.parametrize("args", [[], [[]], [["**"]], [["a", "**"], ["b"]]])
def test_lists_that_can_be_matched_are_no_problem(args: list[list[str]]) -> None:
    assert args_problem(args) is None


def test_a_long_rule_is_told_in_a_few_words() -> None:
    rule = CommandRule("p", tuple((name,) for name in "abcdef"))
    assert rule.text == "commands p: a | b | c | d | and 2 more"
    assert CommandRule("p", ()).text == "commands p: (no arguments)"
    assert CommandRule("p\x1b", (("\u202e",),)).text == "commands p\\x1b: \\u202e"
