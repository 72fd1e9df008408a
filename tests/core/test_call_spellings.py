"""An agent writes `_` for signs in the names of servers and tools: what is denied under the real name stays denied."""

from typing import Any

import pytest

from byleave.core.action import CallAction
from byleave.core.calls import decide_call
from byleave.core.patterns import spelled
from byleave.core.policy import CompiledPolicy
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import inline_layer
from fakes.places import PlainRoot

ALL = {"servers": ["*"]}


def compiled(tree: dict[str, Any]) -> CompiledPolicy:
    return compile_layers([inline_layer(tree)], CompileContext(PlainRoot("/ws"))).policy


def answer(tree: dict[str, Any], server: str, tool: str | None, *, respelled: bool = True) -> tuple[str, str]:
    found = decide_call(compiled(tree), CallAction(server, tool, agent="a", respelled=respelled))
    return found.decision.word, found.because[0].rule


DENIED: list[tuple[dict[str, Any], str, str | None]] = [
    ({"agents": {"a": {"allow": ALL, "deny": {"servers": ["my.server"]}}}}, "my_server", "get"),
    ({"agents": {"a": {"allow": ALL, "deny": {"servers": ["my.server"]}}}}, "my_server", None),
    (
        {"agents": {"a": {"allow": ALL, "deny": {"tools": {"my.server": ["repo.delete"]}}}}},
        "my_server",
        "repo_delete",
    ),
    ({"agents": {"a": {"allow": ALL, "deny": {"tools": {"*": ["repo.*"]}}}}}, "s", "repo_delete"),
    (
        {"rules": [{"deny": {"call": {"server": "my.server"}}}, {"allow": {"call": {"server": "*"}}}]},
        "my_server",
        "get",
    ),
    (
        {"rules": [{"deny": {"call": {"server": "*", "tool": "*.delete"}}}, {"allow": {"call": {"server": "*"}}}]},
        "s",
        "repo_delete",
    ),
    (
        {"rules": [{"deny": {"call": {"server": "*", "tool": "a.?.b"}}}, {"allow": {"call": {"server": "*"}}}]},
        "s",
        "a_x_b",
    ),
]


@pytest.mark.parametrize(("tree", "server", "tool"), DENIED)
def test_a_denied_name_is_denied_in_an_agents_spelling(tree: dict[str, Any], server: str, tool: str | None) -> None:
    assert answer(tree, server, tool)[0] == "deny"


@pytest.mark.parametrize(("tree", "server", "tool"), [case for case in DENIED if "rules" in case[0]])
def test_a_name_as_it_is_means_itself_alone(tree: dict[str, Any], server: str, tool: str | None) -> None:
    assert answer(tree, server, tool, respelled=False)[0] == "allow"


def test_an_ask_holds_in_an_agents_spelling() -> None:
    tree = {"rules": [{"ask": {"call": {"server": "s", "tool": "repo.delete"}}}, {"allow": {"call": {"server": "*"}}}]}
    assert answer(tree, "s", "repo_delete")[0] == "ask"


def test_an_allow_is_for_the_name_as_it_came() -> None:
    tree = {"rules": [{"allow": {"call": {"server": "my.server"}}}]}
    assert answer(tree, "my_server", "get")[0] == "ask"


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("repo.delete", "repo_delete", "repo.delete"),
        ("repo.delete", "repo.delete", "repo.delete"),
        ("repo.delete", "repo-delete", None),  # no `_`: the agent wrote the name as it is
        ("repo_delete", "repo_create", None),
        ("repo.delete", "repo_delete_all", None),  # more than the pattern names
        ("repo.delete", "repo_del", None),
        ("*.delete", "repo_delete", "repo.delete"),
        ("repo.*", "repo_delete_all", "repo.delete_all"),
        ("a.*.z", "a_b_z", "a.b.z"),
        ("a.*.z", "a_z", None),  # one sign cannot stand for two
        ("a.?.z", "a_b_z", "a.b.z"),
        ("a.*b.*c", "a_xb_c", "a.xb.c"),
        ("a.*!*c", "a_bc", None),
        ("repo.[dD]elete", "repo_delete", "repo.delete"),
        ("repo[./]delete", "repo_delete", "repo.delete"),
        ("repo[!a-z]delete", "repo_delete", "repo_delete"),
        ("repo[!_]delete", "repo_delete", "repo[delete"),
        ("repo[]]delete", "repo_delete", "repo]delete"),
        ("repo.[ab]", "repo_c", None),
        ("repo[a-z].delete", "repo__delete", None),
        ("repo.[", "repo_x", None),  # a `[` without an end is a letter
    ],
)
def test_a_pattern_is_laid_over_an_agents_spelling(pattern: str, name: str, expected: str | None) -> None:
    assert spelled(pattern, name) == expected


def test_a_denial_of_other_names_says_nothing_of_this_one() -> None:
    tree = {
        "rules": [
            {"deny": {"call": {"server": "your.server"}}},
            {"deny": {"call": {"server": "my.server", "tool": "repo.delete"}}},
            {"allow": {"call": {"server": "*"}}},
        ]
    }
    assert answer(tree, "my_server", "repo_create")[0] == "allow"
    assert answer(tree, "my_server", "repo_delete")[0] == "deny"
