"""What the user types, read by its text alone."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.errors import MountError
from byleave.mounts.session_layer import fs_rules, text_of, with_fs_rules, write_toml
from byleave.mounts.spec import MountSpec, parse_spec

SPECS = {
    "fork=~/code/forks/serde-yaml": MountSpec(None, "fork", "~/code/forks/serde-yaml", "ro"),
    "fork=~/code/forks/serde-yaml:ro": MountSpec(None, "fork", "~/code/forks/serde-yaml", "ro"),
    "fs_modify_file:fork=~/code/forks/x:rw": MountSpec("fs_modify_file", "fork", "~/code/forks/x", "rw"),
    "fs_modify_file:fork=~/code/forks/x": MountSpec("fs_modify_file", "fork", "~/code/forks/x", "ro"),
    "a=/p1": MountSpec(None, "a", "/p1", "ro"),
    "b=/p2:ro": MountSpec(None, "b", "/p2", "ro"),
    "fs_read_file:fork=C:\\code\\forks\\x:ro": MountSpec("fs_read_file", "fork", "C:\\code\\forks\\x", "ro"),
    "fork=C:\\code": MountSpec(None, "fork", "C:\\code", "ro"),
    "a=b=c": MountSpec(None, "a", "b=c", "ro"),
    "t:a=b:c=d:rw": MountSpec("t", "a", "b:c=d", "rw"),
    "_t1:a=b": MountSpec("_t1", "a", "b", "ro"),
    "t:a:b=c": MountSpec("t", "a:b", "c", "ro"),
    "t:a=b:ro:rw": MountSpec("t", "a", "b:ro", "rw"),
    "a=b:rw:ro": MountSpec(None, "a", "b:rw", "ro"),
    "a=ro": MountSpec(None, "a", "ro", "ro"),
    "a=b:RO": MountSpec(None, "a", "b:RO", "ro"),
    "a=b:": MountSpec(None, "a", "b:", "ro"),
    "a = b": MountSpec(None, "a ", " b", "ro"),
}


@pytest.mark.parametrize(("text", "spec"), SPECS.items(), ids=SPECS.keys())
def test_a_spec_is_read_as_its_grammar_says(text: str, spec: MountSpec) -> None:
    assert parse_spec(text) == spec


REFUSED = {
    "fork": "missing_equals",
    "": "missing_equals",
    "fork:rw": "missing_equals",
    "=x": "empty",
    "fork=": "empty",
    "t:=x": "empty",
    "fork=:rw": "empty",
    "fork=:ro": "empty",
    "t:fork=:rw": "empty",
    "=": "empty",
    ":fork=x": "invalid_tool",
    ":=": "invalid_tool",
    "Bad-Tool:fork=x": "invalid_tool",
    "Tool:fork=x": "invalid_tool",
    "1t:fork=x": "invalid_tool",
    "t t:fork=x": "invalid_tool",
    "té:fork=x": "invalid_tool",
    "t\n:fork=x": "invalid_tool",
    "C:\\x=y": "invalid_tool",
    "fork=x:rw": "write_requires_tool",
}


@pytest.mark.parametrize(("text", "code"), REFUSED.items(), ids=[repr(text) for text in REFUSED])
def test_what_is_no_spec_is_refused_with_a_code(text: str, code: str) -> None:
    with pytest.raises(MountError) as refused:
        parse_spec(text)
    assert (refused.value.code, refused.value.exit_code) == (code, 2)


@given(st.text(alphabet=":=rwoab_/", max_size=14))
def test_any_text_is_a_spec_or_refused(text: str) -> None:
    try:
        spec = parse_spec(text)
    except MountError as error:
        assert error.code in {"missing_equals", "empty", "invalid_tool", "write_requires_tool"}  # noqa: PT017
    else:
        tool = "" if spec.tool is None else f"{spec.tool}:"
        assert text in (f"{tool}{spec.name}={spec.path}", f"{tool}{spec.name}={spec.path}:{spec.mode}")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = st.one_of(TEXT, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_what_is_written_as_toml_is_read_back_as_the_same_tree(tree: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(tree)) == tree


def test_infinities_are_written_too() -> None:
    tree = {"a": [float("inf"), float("-inf"), 1e300, 1e-7, -0.0]}
    assert tomllib.loads(write_toml(tree)) == tree


def test_a_date_is_not_written() -> None:
    with pytest.raises(TypeError, match="no layer holds a date"):
        write_toml({"a": tomllib.loads("d = 2026-01-01")["d"]})


BY_HAND = {
    "tables": '[[tools.t.access.fs]]\npath = "a"\n',
    "inline": 'tools.t.access.fs = [{ path = "a" }]\n',
    "a strategy": 'tools.t.access.fs = { strategy = "prepend", value = [{ path = "a" }] }\n',
    "the other spelling": '[[conversation.tools.t.access.fs]]\npath = "a"\n',
    "nothing for the tool": '[[rules]]\ndeny = { command = "rm" }\n',
    "another tool": '[[tools."odd name".access.env]]\nname = "A"\nread = true\n',
}


@pytest.mark.parametrize("text", BY_HAND.values(), ids=BY_HAND.keys())
def test_a_session_written_by_hand_keeps_its_meaning_when_a_rule_is_added(text: str) -> None:
    tree = tomllib.loads(text)
    before = tomllib.loads(text)
    changed = with_fs_rules(tree, "t", [*fs_rules(tree, "t"), {"path": "b"}])
    assert tree == before
    assert tomllib.loads(text_of(changed)) == changed
    assert fs_rules(changed, "t") == [*fs_rules(tree, "t"), {"path": "b"}]
    assert with_fs_rules(changed, "t", fs_rules(tree, "t")) in (tree, with_fs_rules(tree, "t", []))
