"""Entries of agents that lint would remove decide nothing: held against every call of a small universe."""

import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.analysis.lint_agents import lint_agents
from byleave.analysis.written_rules import WrittenRules
from byleave.policy.layers import COMMAND_LINE, Layer
from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace
from byleave.policy.parse import parse_tree

Tree = dict[str, Any]
TRIALS = amounts.of(3000, 60)
BATCH = 20
SERVERS = ("db", "db2", "web", "x")
TOOLS = (None, "get", "get_a", "drop", "drop_a", "z")
PATTERNS = ("get", "get*", "get_*", "drop*", "*", "?et", "drop_a", "[dg]*")
KEYS = ("db", "d*", "web", "*", "db?")


def seeded(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- the same agents in every run


def agents(rng: random.Random) -> Tree:
    def some(words: tuple[str, ...]) -> list[str]:
        return [rng.choice(words) for _ in range(rng.randint(1, 4))]

    made: Tree = {}
    for name in ("a", "b*"):
        made[name] = {"allow": {"servers": some(KEYS)}}
        if rng.random() < 0.7:
            made[name]["allow"]["tools"] = {key: some(PATTERNS) for key in set(some(KEYS))}
        if rng.random() < 0.7:
            made[name]["deny"] = {"tools": {key: some(PATTERNS) for key in set(some(KEYS))}}
        if rng.random() < 0.3:
            made[name].setdefault("deny", {})["servers"] = some(KEYS)
    return made


def compiled(workspace: Workspace, tree: Tree) -> LivePolicy:
    layer = Layer(COMMAND_LINE, parse_tree({"agents": tree}), "f.toml", b"", True, "f.toml")
    return workspace.compile_alone([layer])


def decisions(policy: LivePolicy) -> list[str]:
    calls = [
        {"kind": "call", "agent": agent, "server": server, **({} if tool is None else {"tool": tool})}
        for agent in ("a", "b", "bb")
        for server in SERVERS
        for tool in TOOLS
    ]
    return [policy.decide(call).decision.word for call in calls]


@pytest.mark.parametrize("seed", range(TRIALS // BATCH))
def test_without_what_can_be_removed_every_call_is_decided_alike(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BYLEAVE_HOME", str(tmp_path / "home"))
    workspace = Workspace(str(tmp_path))
    rng = seeded(f"agents {seed}")
    for _ in range(BATCH):
        tree = agents(rng)
        policy = compiled(workspace, tree)
        known = policy.compiled.policy.views[0].agents
        assert known is not None
        found = list(lint_agents(known, WrittenRules(policy.compiled.layers)))
        places = sorted((each.place.at for each in found if each.place is not None), key=lambda at: -int(at[-1]))
        left: Any = {"agents": deepcopy(tree)}
        emptied = False
        for at in places:
            items = left
            for step in at[:-1]:
                items = items[step]
            del items[at[-1]]
            emptied = emptied or not items
        if not emptied:  # an empty list narrows nothing: `--fix` leaves its last entry
            assert decisions(compiled(workspace, left["agents"])) == decisions(policy), (tree, places)
