"""What a project's file says, written as a workspace inside of the project names the same places."""

from typing import Any

import pytest

from byleave.policy.layers import seen_from
from byleave.policy.normalize import LINE
from byleave.policy.parse import parse_tree

Tree = dict[str, Any]
OUTER, ROOT = "/p/x", "/p/x/a/b"

PATTERNS: list[tuple[str, list[str]]] = [
    ("a/b/c", ["/p/x/a/b/c", "c"]),
    ("a/b/**", ["/p/x/a/b/**", "**"]),
    ("./a//b/c/*.py", ["/p/x/a/b/c/*.py", "c/*.py"]),
    ("a/b", ["/p/x/a/b"]),
    ("a/**", ["/p/x/a/**"]),
    ("a/c/d", ["/p/x/a/c/d"]),
    ("**", ["/p/x/**", "**"]),
    ("**/k/.env", ["/p/x/**/k/.env", "**/k/.env"]),
    ("k", ["/p/x/k"]),
    ("/a/b/c", ["/a/b/c"]),
    ("~", ["~"]),
    ("~/k", ["~/k"]),
    ("~k/l", ["/p/x/~k/l"]),
]


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS)
def test_a_pattern_is_written_whole_and_from_inside_where_that_is_exact(pattern: str, expected: list[str]) -> None:
    for path in (pattern, [pattern]):
        tree = parse_tree({"rules": [{"deny": {"path": path}}]})
        assert seen_from(tree, OUTER, ROOT)["rules"]["value"][0]["deny"] == {"path": expected}


@pytest.mark.parametrize(("outer", "written"), [("/a*b/[c]?", "/a[*]b/[[]c][?]"), ("/", ""), ("/X", "/X")])
def test_the_name_of_the_directory_around_is_no_pattern(outer: str, written: str) -> None:
    tree = parse_tree({"rules": [{"deny": {"path": ["k", "**/l"]}}]})
    found = seen_from(tree, outer, f"{outer.rstrip('/')}/sub")["rules"]["value"][0]["deny"]
    assert found == {"path": [f"{written}/k", f"{written}/**/l", "**/l"]}


def test_names_are_kept_whole() -> None:
    fs = [{"path": "Xa/bX/XcX", "read": True}]
    tree = parse_tree({"tools": {"t": {"access": {"fs": fs}}}, "rules": [{"deny": {"path": "Xa/bX/c"}}]})
    seen = seen_from(tree, "/pX", "/pX/Xa/bX")
    assert seen["rules"]["value"][0]["deny"] == {"path": ["/pX/Xa/bX/c", "c"]}
    assert [rule["path"] for rule in seen["tools"]["t"]["access"]["fs"]["value"]] == [".", "XcX"]


PLACES = [(".", "/p/x"), ("a/../c", "/p/x/c"), ("/a", "/a"), ("~", "~"), ("~/a", "~/a"), ("~a", "/p/x/~a")]


@pytest.mark.parametrize(("text", "place"), PLACES)
def test_a_directory_is_written_whole(text: str, place: str) -> None:
    within, inside = {"command": "m", "within": text}, {"call": {"arg": "/p", "inside": text}}
    tree = parse_tree({"rules": [{"deny": within}, {"ask": inside}]})
    first, second = seen_from(tree, OUTER, ROOT)["rules"]["value"]
    assert first["deny"] == {**within, "within": place}
    assert second["ask"] == {"call": {"arg": "/p", "inside": place}}


def test_rules_come_first_with_all_that_they_say_but_their_examples() -> None:
    deep = {"any": [{"all": [{"path": "a/b/c"}, {"command": "m"}]}, {"not": {"not": {"path": "a/b/d"}}}]}
    rules: list[Tree] = [
        {"deny": deep, "why": "w", "match": ["x"], "not_match": ["y"]},
        {"allow": {"operation": "read"}, "sandbox": True},
    ]
    seen = seen_from(parse_tree({"rules": {"strategy": "append", "value": rules}}), OUTER, ROOT)
    assert seen["tools"] == {}
    assert seen["rules"]["strategy"] == "prepend"
    kept = [{key: value for key, value in rule.items() if not key.startswith("#")} for rule in seen["rules"]["value"]]
    one, other = {"path": ["/p/x/a/b/c", "c"]}, {"path": ["/p/x/a/b/d", "d"]}
    assert kept == [
        {"deny": {"any": [{"all": [one, {"command": "m"}]}, {"not": {"not": other}}]}, "why": "w"},
        {"allow": {"operation": "read"}, "sandbox": True},
    ]
    assert all(LINE in rule for rule in seen["rules"]["value"])


FILES: list[tuple[list[Tree], list[Tree]]] = [
    ([{"path": "a/b/c", "read": True}], [{"path": "."}, {"path": "c", "read": True}]),
    ([{"path": "a/b", "read": True}], [{"path": ".", "read": True}]),
    ([{"path": "a", "read": True}, {"path": "a/b/c"}], [{"path": ".", "read": True}, {"path": "c"}]),
    ([{"path": ".", "read": True}], [{"path": ".", "read": True}]),
    (
        [{"path": "a/b", "write": True}, {"path": "a", "read": True}, {"path": "."}],
        [{"path": "."}, {"path": ".", "read": True}, {"path": ".", "write": True}],
    ),
    ([{"path": "../k"}, {"path": "k"}, {"path": "a/bc"}, {"path": "a/b/c"}], [{"path": "."}, {"path": "c"}]),
    ([{"path": "k", "read": True}], [{"path": "."}]),
]


@pytest.mark.parametrize(("rules", "expected"), FILES)
def test_the_file_rules_of_a_tool_are_those_that_reach_inside(rules: list[Tree], expected: list[Tree]) -> None:
    tree = parse_tree({"tools": {"t": {"source": "local", "runtime": "vfs", "access": {"fs": rules}}}})
    tool = seen_from(tree, OUTER, ROOT)["tools"]["t"]
    assert {key for key in tool if not key.startswith("#")} == {"access"}
    assert tool["access"]["fs"]["strategy"] == "append"
    found = tool["access"]["fs"]["value"]
    assert [{key: value for key, value in rule.items() if not key.startswith("#")} for rule in found] == expected
    assert all(LINE in rule for rule in found)


def test_a_tool_without_file_rules_and_other_settings_are_left_out_and_agents_are_kept() -> None:
    tree = parse_tree(
        {
            "tools": {"t": {"source": "local", "access": {"fs": []}}, "u": {"source": "local"}},
            "strict_links": True,
            "agents": {"a": {"deny": {"servers": ["s"]}}},
        }
    )
    assert seen_from(tree, OUTER, ROOT) == {"tools": {}, "agents": tree["agents"]}
