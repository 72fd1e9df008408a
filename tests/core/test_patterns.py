"""Globs over paths: what each wildcard reaches, what is refused, and that no pattern takes long."""

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.patterns import compile_glob, glob_problem, name_matches

MATCHES = {
    ("src/**", "src"): True,
    ("src/**", "src/a/b"): True,
    ("src/**", "srcx"): False,
    ("src/*", "src/a"): True,
    ("src/*", "src/a/b"): False,
    ("**/*.pem", "a.pem"): True,
    ("**/*.pem", "x/y/a.pem"): True,
    ("**/*.pem", "a.pem/x"): False,
    ("a/**/b/**/c", "a/b/c"): True,
    ("a/**/b/**/c", "a/x/b/y/z/c"): True,
    ("a/**/b/**/c", "a/x/c"): False,
    ("**", ""): True,
    ("*", ""): False,
    ("./src//x", "src/x"): True,
    ("[ab]?", "ax"): True,
    ("[!a]", "a"): False,
    ("*.py", ".py"): True,
    ("*", "a/b"): False,
}


@pytest.mark.parametrize(("pattern", "path"), MATCHES, ids=lambda text: text or "(root)")
def test_a_glob_reaches_what_it_says(pattern: str, path: str) -> None:
    assert compile_glob(pattern).matches(path) is MATCHES[pattern, path]


@pytest.mark.parametrize("text", ["", "/", "../x", "a/../b", "a**", "**b/c", "[a", "x/[!", "[!]"])
def test_a_pattern_that_means_nothing_is_told(text: str) -> None:
    assert glob_problem(text) is not None


@pytest.mark.parametrize("text", ["a", "/a", "**", "a/**/b", "[a]", "[]]", "[!]]", "a b", "*"])
def test_a_plain_pattern_is_no_problem(text: str) -> None:
    assert glob_problem(text) is None


def test_folding_is_only_for_saying_no() -> None:
    glob = compile_glob("Secret/**")
    assert (glob.matches("SECRET/x"), glob.matches("SECRET/x", folded=True)) == (False, True)
    assert glob.matches("secret./x", folded=True)


def test_the_literal_is_what_every_match_lies_below() -> None:
    assert [compile_glob(text).literal for text in ("a/b/*.c", "a/b", "**", "a*/b")] == ["a/b", "a/b", "", ""]


names = st.sampled_from(["a", "b", "ab"])
patterns = st.lists(names | st.sampled_from(["**", "*", "a*"]), min_size=1, max_size=5)


@given(patterns, st.lists(names, max_size=6))
def test_a_glob_agrees_with_a_regular_expression(pattern: list[str], path: list[str]) -> None:
    parts = ["(?:[^/]+/)*" if name == "**" else f"{name.replace('*', '[^/]*')}/" for name in pattern]
    expected = re.fullmatch("".join(parts), "".join(f"{name}/" for name in path)) is not None
    assert compile_glob("/".join(pattern)).matches("/".join(path)) is expected


def test_no_pattern_takes_long() -> None:
    started = process_time()
    assert not compile_glob("/".join(["**", "a"] * 50 + ["b"])).matches("/".join(["a"] * 2000))
    assert not name_matches("*a" * 20 + "b", "a" * 4000)
    assert process_time() - started < 5
