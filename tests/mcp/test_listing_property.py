"""What a listing shows and what a call may do never disagree, whatever the policy says."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.mcp_talk import FakeServer, Talk, Tree

SERVERS = ("shop", "mail")
TOOLS = ("price", "pay", "read_all", "read_one")
globs = st.sampled_from(["*", "shop", "m*", "price", "p*", "read_?ne", "read_*", "[pr]*", "none"])
lists = st.lists(globs, max_size=2)
tables = st.dictionaries(st.sampled_from(["shop", "mail", "*", "m*"]), lists, max_size=2)
reach = st.fixed_dictionaries({}, optional={"servers": lists, "tools": tables})
agent = st.fixed_dictionaries({}, optional={"allow": reach, "deny": reach})
agents = st.dictionaries(st.sampled_from(["ops", "o*", "default"]), agent, max_size=2)
argument = st.sampled_from(
    [{}, {"arg": "/n", "equals": 1}, {"arg": "/n", "prefix": "a"}, {"arg": "/list/0", "glob": "*"}, {"tool": "p*"}]
)
call = st.builds(lambda server, more: {"call": {"server": server, **more}}, st.sampled_from(["*", "shop"]), argument)
matcher = st.one_of(call, st.builds(lambda inner: {"not": inner}, call))
rule = st.builds(lambda word, what: {word: what}, st.sampled_from(["allow", "ask", "deny"]), matcher)
policies = st.builds(
    lambda known, rules: ({"agents": known} if known else {}) | ({"rules": rules} if rules else {}),
    agents,
    st.lists(rule, max_size=4),
)
ARGUMENTS: tuple[Tree, ...] = ({}, {"n": 1}, {"n": "abc"}, {"list": ["x"]})


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=policies)
def test_listing_and_calling_never_disagree(tree: Tree) -> None:
    async def scene() -> None:
        with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
            talk = Talk(Path(place), patch, tree, **{name: FakeServer(*TOOLS) for name in SERVERS})
            try:
                await _compare(talk)
            finally:
                await talk.close()

    asyncio.run(scene())


async def _compare(talk: Talk) -> None:
    client = talk.client("ops")
    await client.begin()
    shown = await client.names()
    for name in (f"{server}__{tool}" for server in SERVERS for tool in TOOLS):
        decisions = set()
        for arguments in ARGUMENTS:
            result = (await client.call(name, arguments))["result"]
            decisions.add(result["structuredContent"]["decision"] if result.get("isError") else "allow")
        if name not in shown:
            assert decisions == {"deny"}, name
