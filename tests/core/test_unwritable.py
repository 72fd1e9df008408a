"""A compiled policy cannot be changed: no attribute can be set, and every table that it hands out is frozen."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace

TREE: dict[str, Any] = {
    "tools": {
        "t": {
            "source": "local",
            "command": ["./t"],
            "access": {
                "fs": [{"path": "src", "read": True}],
                "net": [{"host": "h.com"}],
                "env": [{"name": "HOME", "read": True}],
                "commands": {"git": {"args": [["status"]]}},
            },
        }
    },
    "rules": [{"deny": {"command": "rm"}}, {"allow": {"path": "out/**"}}, {"ask": {"call": {"server": "shop"}}}],
    "servers": {"shop": {"command": ["./shop"]}},
    "agents": {"claude": {"allow": {"servers": ["shop"], "tools": {"shop": ["price"]}}}},
}
PLAIN = (str, int, float, bytes, type(None))


@pytest.fixture
def policy(tmp_path: Path) -> LivePolicy:
    return Workspace(str(tmp_path)).compile_tree(TREE)


def fields(value: object) -> Iterator[tuple[str, object]]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in [*names, *getattr(value, "__dict__", {})]:
        if not name.startswith("_") and hasattr(value, name):
            yield name, getattr(value, name)


def reachable(value: object, seen: dict[int, object]) -> Iterator[object]:
    """Yield a value and all that can be reached from it by public attributes and entries."""
    if isinstance(value, PLAIN) or callable(value) or id(value) in seen:
        return
    seen[id(value)] = value
    yield value
    if isinstance(value, Mapping):
        entries = [*value.keys(), *value.values()]
    elif isinstance(value, tuple | frozenset | list | set):
        entries = list(value)
    else:
        entries = [entry for _name, entry in fields(value)]
    for entry in entries:
        yield from reachable(entry, seen)


def test_nothing_in_a_compiled_policy_can_be_written(policy: LivePolicy) -> None:
    found = list(reachable(policy.compiled.policy, {}))
    assert [value for value in found if isinstance(value, dict | list | set)] == []
    attributes = [(value, name) for value in found for name, _value in fields(value)]
    assert {type(value).__name__ for value, _name in attributes} >= {
        *("CompiledPolicy", "PolicyView", "ToolPolicy", "Access", "FsTable", "FsRule", "NetTable", "EnvTable"),
        *(
            "CommandTable",
            "RuleTable",
            "CompiledRule",
            "CommandMatcher",
            "PathMatcher",
            "Agents",
            "Agent",
            "AgentReach",
        ),
    }
    for value, name in attributes:
        with pytest.raises(AttributeError, match=r"cannot be changed|immutable"):
            setattr(value, name, None)
        with pytest.raises(AttributeError, match=r"cannot be removed|immutable"):
            delattr(value, name)


def test_the_agents_of_a_view_cannot_be_exchanged(policy: LivePolicy) -> None:
    view = policy.compiled.policy.views[0]
    assert view.agents is not None
    with pytest.raises(AttributeError):
        view.agents.agents = ()
    with pytest.raises(AttributeError):
        view.agents = None  # type: ignore[misc]
    with pytest.raises(TypeError):
        view.tools["other"] = view.tools["t"]  # type: ignore[index]
    with pytest.raises(TypeError):
        policy.compiled.tools["other"] = policy.compiled.tools["t"]  # type: ignore[index]


def test_a_rule_keeps_its_text_once_it_was_written_out(policy: LivePolicy) -> None:
    table = policy.compiled.policy.views[0].rules
    assert table is not None
    rule = table.rules[0]
    assert rule.ref is rule.ref
    assert rule.text == "deny rm"
