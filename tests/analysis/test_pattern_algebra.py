"""Inclusion and overlap of patterns, held against every name and path of a small universe."""

from fnmatch import fnmatchcase
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.analysis.pattern_algebra import glob_includes, includes, overlaps
from byleave.core.patterns import Glob, compile_glob

EXAMPLES = amounts.of(3000, 50)
LETTERS = "abc"  # `c` stands for every letter that no pattern names
NAMES = ["".join(letters) for length in range(7) for letters in product(LETTERS, repeat=length)]
PATHS = ["", *("/".join(names) for length in range(1, 5) for names in product(("a", "b", "ab", "c"), repeat=length))]

patterns = st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]"]), min_size=1, max_size=3).map("".join)
globs = (
    st.lists(st.sampled_from(["a", "b", "*", "**", "a*", "?"]), min_size=1, max_size=4).map("/".join).map(compile_glob)
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(patterns, min_size=1, max_size=3), patterns)
def test_a_pattern_is_included_exactly_when_no_name_is_only_its_own(wider: list[str], narrower: str) -> None:
    alone = [
        name for name in NAMES if fnmatchcase(name, narrower) and not any(fnmatchcase(name, each) for each in wider)
    ]
    assert includes(wider, narrower) is not bool(alone)


@settings(max_examples=EXAMPLES, deadline=None)
@given(patterns, patterns)
def test_two_patterns_overlap_exactly_when_a_name_matches_both(one: str, other: str) -> None:
    assert overlaps(one, other) is any(fnmatchcase(name, one) and fnmatchcase(name, other) for name in NAMES)


@settings(max_examples=EXAMPLES, deadline=None)
@given(globs, globs)
def test_a_glob_is_never_said_to_include_what_it_does_not(wider: Glob, narrower: Glob) -> None:
    assert not glob_includes(wider, narrower) or all(wider.matches(path) for path in PATHS if narrower.matches(path))


def test_unions_are_seen_and_odd_patterns_do_no_harm() -> None:
    assert includes(["[a-m]*", "[!a-m]*"], "?*")
    assert not includes(["a*", "b*"], "?")
    assert includes(["get_*"], "get_user")
    assert not includes(["get_*"], "set_user")
    assert includes(["*"], "[!a]*")
    assert not includes(["[!a]*"], "*")
