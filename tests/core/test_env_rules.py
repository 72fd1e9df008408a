"""Environment rules: the index answers as a plain reading of the seed does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.env_rules import EnvRule, EnvTable, name_problem

literals = st.text(alphabet="AB_\u00e9", max_size=4)
rules = st.builds(
    EnvRule,
    st.tuples(literals, st.sampled_from(["", "*"])).map("".join).filter(bool),
    st.booleans(),
    source=st.integers(0, 99).map(str),
)


def matches(rule: EnvRule, name: str) -> bool:
    return name.startswith(rule.name[:-1]) if rule.name.endswith("*") else name == rule.name


def plain_match(rules: list[EnvRule], name: str) -> EnvRule | None:
    """The longest literal in bytes wins; of equals the exact one; of those the last."""
    ranked = [
        (len(rule.name.removesuffix("*").encode()), not rule.name.endswith("*"), place, rule)
        for place, rule in enumerate(rules)
        if matches(rule, name)
    ]
    return max(ranked, key=lambda entry: entry[:3])[3] if ranked else None


@given(st.lists(rules, max_size=8), literals)
def test_the_index_answers_as_a_plain_reading_of_the_rules_does(given_rules: list[EnvRule], name: str) -> None:
    assert EnvTable(given_rules).match(name) == plain_match(given_rules, name)


@given(st.lists(rules, max_size=6), rules, st.integers(0, 6), literals)
def test_adding_a_deny_never_loosens_an_answer(
    given_rules: list[EnvRule], added: EnvRule, place: int, name: str
) -> None:
    deny: EnvRule = added.replace(read=False)
    before = EnvTable(given_rules).match(name)
    after = EnvTable([*given_rules[:place], deny, *given_rules[place:]]).match(name)
    assert not (after is not None and after.read) or (before is not None and before.read)


SEED = [EnvRule("GITHUB_TOKEN", read=True), EnvRule("AWS_*", read=True), EnvRule("AWS_SECRET_ACCESS_KEY")]
SEED_ANSWERS = [
    ("GITHUB_TOKEN", SEED[0]),
    ("GITHUB_TOKEN_LOG", None),
    ("AWS_REGION", SEED[1]),
    ("AWS_SECRET_ACCESS_KEY", SEED[2]),
    ("HOME", None),
]


@pytest.mark.parametrize("order", [1, -1], ids=["as written", "reversed"])
@pytest.mark.parametrize(("name", "expected"), SEED_ANSWERS)
def test_the_example_of_the_seed_holds(name: str, expected: EnvRule | None, order: int) -> None:
    assert EnvTable(SEED[::order]).match(name) == expected


TIES = [
    (["AWS_TOKEN", "AWS_TOKEN*"], "AWS_TOKEN", "AWS_TOKEN"),
    (["AWS_TOKEN*", "AWS_TOKEN"], "AWS_TOKEN", "AWS_TOKEN"),
    (["AWS_SEC*", "AWS_SECRET_*"], "AWS_SECRET_KEY", "AWS_SECRET_*"),
    (["AWS_SECRET_*", "AWS_SEC*"], "AWS_SECRET_KEY", "AWS_SECRET_*"),
    (["*", "A*"], "A", "A*"),
    (["*"], "ANYTHING", "*"),
    (["*"], "", "*"),
    (["AWS_TOKEN"], "AWS_TOKEN_LOG", None),
    (["aws_*"], "AWS_X", None),
]


@pytest.mark.parametrize(("names", "name", "expected"), TIES)
def test_the_longest_literal_decides_and_exact_beats_prefix(names: list[str], name: str, expected: str | None) -> None:
    found = EnvTable([EnvRule(rule, read=True) for rule in names]).match(name)
    assert (found.name if found is not None else None) == expected


@pytest.mark.parametrize("name", ["", "A*B", "*A", "A**", "A=B", "A=*", "A\0"])
def test_a_name_that_cannot_be_matched_is_a_problem(name: str) -> None:
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["A", "A*", "*", "a b", "\u00e9", "A-B"])
def test_a_name_that_can_be_matched_is_none(name: str) -> None:
    assert name_problem(name) is None
