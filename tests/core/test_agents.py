"""Which agent may call what: the seed's examples and edge cases by name, the case files, and what must always hold."""

import json
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
import byleave
from byleave.core.action import CallAction, parse_action
from byleave.core.agents import Agent, AgentReach, Agents, ListEntry, written_refs
from byleave.core.calls import could_call, could_use, decide_call
from byleave.core.decision import ALLOW, DENY, Verdict, verdict_tree
from byleave.core.patterns import NameIndex, oddity, pattern_problem
from byleave.core.policy import CompiledPolicy
from byleave.policy.compile import compile_layers
from byleave.policy.compile_agents import MissingAgentRule, merge_agents
from byleave.policy.context import CompileContext
from byleave.policy.layers import MANAGED, PROJECT, USER, Layer, inline_layer
from byleave.policy.parse import parse_tree
from command import byleave as run
from fakes.places import PlainRoot
from stage import load_cases

CASES = load_cases("agents.jsonl") + load_cases("mcp/policy.jsonl")


def rules(tree: dict[str, Any]) -> CompiledPolicy:
    """Return the policy of a tree, without a workspace."""
    around = CompileContext(PlainRoot("/ws"))
    return compile_layers([inline_layer(tree)], around).policy


def verdict(
    tree: dict[str, Any], server: str, tool: str | None = None, agent: str | None = "a", **more: Any
) -> Verdict:
    return decide_call(rules(tree), CallAction(server, tool, more.get("arguments"), agent))


def decision(tree: dict[str, Any], server: str, tool: str | None = None, agent: str | None = "a") -> str:
    return str(verdict(tree, server, tool, agent).decision)


def of(agents: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    return {"agents": agents, **({"defaults": defaults} if defaults else {})}


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case["expect"]], ids=lambda case: case["id"])
def test_a_call_is_judged_as_the_case_says(case: dict[str, Any]) -> None:
    action = parse_action(case["action"])
    assert isinstance(action, CallAction)
    found = verdict_tree(decide_call(rules(case["policy"]), action))
    assert {key: found[key] for key in case["expect"]} == case["expect"]
    assert found["because"][0]["decision"] == found["decision"]


def test_the_batch_command_answers_every_case(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": case["id"], "root": str(tmp_path), "policy": case["policy"], "action": case["action"]})
        for case in CASES
    ]
    done = run("check", "--batch", feed="\n".join(lines).encode())
    answers = [json.loads(line) for line in done.out.splitlines()]
    told = [answer.get("verdict", {}).get("decision") or answer["error"]["code"] for answer in answers]
    wanted = [case["expect"].get("decision") or case["expect"]["error"] for case in CASES]
    assert told == wanted


@pytest.mark.parametrize("case", load_cases("mcp/listings.jsonl"), ids=lambda case: case["name"])
def test_a_listing_shows_what_is_not_denied(case: dict[str, Any]) -> None:
    policy, agent = rules(case["policy"]), case["agent"]
    tools = {
        server: sorted(t for t in names if could_call(policy, agent, server, t))
        for server, names in case["inventory"].items()
    }
    assert sorted(f"{server}__{tool}" for server, names in tools.items() for tool in names) == case["expect"]["flat"]
    assert sorted(s for s in case["inventory"] if could_call(policy, agent, s, None)) == case["expect"]["list_servers"]


# The seed's examples, each by its title: (server, tool) to the answer.

SEED: dict[str, tuple[dict[str, Any], dict[tuple[str, str | None], str]]] = {
    "implicit grant although there are denies": (
        {"allow": {"servers": ["playwright"]}, "deny": {"tools": {"playwright": ["browser_type"]}}},
        {("playwright", "browser_type"): "deny", ("playwright", "browser_click"): "allow", ("other", "x"): "deny"},
    ),
    "example 1: admin with full access": (
        {"allow": {"servers": ["*"]}},
        {("playwright", None): "allow", ("playwright", "browser_type"): "allow", ("any", "thing"): "allow"},
    ),
    "example 2: admin with one server restricted": (
        {"allow": {"servers": ["*"], "tools": {"brave-search": ["brave_web_search"]}}},
        {
            ("brave-search", None): "allow",
            ("brave-search", "brave_web_search"): "allow",
            ("brave-search", "brave_local_search"): "deny",
            ("github", "create_issue"): "allow",
        },
    ),
    "example 3: admin with mixed access patterns": (
        {
            "allow": {"servers": ["*"], "tools": {"brave-search": ["brave_web_search"]}},
            "deny": {"servers": ["notion"], "tools": {"playwright": ["browser_type"]}},
        },
        {
            ("notion", None): "deny",
            ("notion", "search"): "deny",
            ("playwright", None): "allow",
            ("playwright", "browser_type"): "deny",
            ("playwright", "browser_navigate"): "allow",
            ("brave-search", "brave_web_search"): "allow",
            ("brave-search", "brave_local_search"): "deny",
            ("github", "create_issue"): "allow",
        },
    ),
    "example 4: dangerous tools denied with wildcards": (
        {
            "allow": {"servers": ["*"]},
            "deny": {"tools": {"playwright": ["browser_type"], "postgres": ["drop_*", "delete_*"]}},
        },
        {
            ("playwright", "browser_type"): "deny",
            ("postgres", "drop_table"): "deny",
            ("postgres", "delete_row"): "deny",
            ("postgres", "query"): "allow",
            ("mysql", "drop_table"): "allow",
        },
    ),
    "example 5: default agent with limited access": (
        {"allow": {"servers": ["context7"]}},
        {("context7", None): "allow", ("context7", "anything"): "allow", ("github", None): "deny"},
    ),
    "example 6: backend agent with narrow permissions": (
        {
            "allow": {
                "servers": ["postgres", "filesystem"],
                "tools": {"postgres": ["query", "list_*"], "filesystem": ["read_*", "list_*"]},
            },
            "deny": {
                "tools": {"postgres": ["drop_*", "delete_*"], "filesystem": ["write_*", "delete_*"]},
            },
        },
        {
            ("postgres", "query"): "allow",
            ("postgres", "list_tables"): "allow",
            ("postgres", "insert"): "deny",
            ("postgres", "drop_x"): "deny",
            ("filesystem", "read_file"): "allow",
            ("filesystem", "write_file"): "deny",
            ("filesystem", "stat"): "deny",
            ("redis", None): "deny",
        },
    ),
    "example 7: precedence, deny always overrides allow": (
        {
            "allow": {"servers": ["db"], "tools": {"db": ["delete_user", "delete_data", "get_user"]}},
            "deny": {"tools": {"db": ["delete_*"]}},
        },
        {
            ("db", "delete_user"): "deny",
            ("db", "delete_data"): "deny",
            ("db", "delete_anything_else"): "deny",
            ("db", "get_user"): "allow",
            ("db", "insert_user"): "deny",
        },
    ),
    "edge: empty allow.tools for a server is an implicit grant": (
        {"allow": {"servers": ["db"], "tools": {"db": []}}},
        {("db", "anything"): "allow"},
    ),
    "edge: empty deny.tools for a server denies nothing": (
        {"allow": {"servers": ["db"]}, "deny": {"tools": {"db": []}}},
        {("db", "anything"): "allow"},
    ),
    "edge: server in both allow and deny": (
        {"allow": {"servers": ["db"]}, "deny": {"servers": ["db"]}},
        {("db", None): "deny", ("db", "x"): "deny"},
    ),
    "edge: tool in both allow and deny": (
        {"allow": {"servers": ["db"], "tools": {"db": ["x", "y"]}}, "deny": {"tools": {"db": ["x"]}}},
        {("db", "x"): "deny", ("db", "y"): "allow"},
    ),
    "edge: tools listed without the server open nothing": (
        {"allow": {"tools": {"db": ["x"]}}},
        {("db", "x"): "deny"},
    ),
    "a deny pattern over servers": (
        {"allow": {"servers": ["*"]}, "deny": {"servers": ["prod-*", "?b"]}},
        {("prod-db", "x"): "deny", ("db", "x"): "deny", ("prod", "x"): "allow"},
    ),
    "an exact key beats a glob key in allow, and denies of all keys are united": (
        {
            "allow": {"servers": ["*"], "tools": {"dev-*": ["get"], "dev-1": ["put"]}},
            "deny": {"tools": {"*": ["secret"], "dev-1": ["drop"]}},
        },
        {
            ("dev-1", "put"): "allow",
            ("dev-1", "get"): "deny",
            ("dev-2", "get"): "allow",
            ("dev-1", "secret"): "deny",
            ("dev-1", "drop"): "deny",
            ("dev-2", "put"): "deny",
        },
    ),
    "lists of several glob keys are joined, and an empty one opens nothing beside another": (
        {"allow": {"servers": ["*"], "tools": {"dev-*": ["get"], "*-1": ["put"], "*": []}}},
        {("dev-1", "get"): "allow", ("dev-1", "put"): "allow", ("dev-1", "x"): "deny", ("other", "x"): "allow"},
    ),
    "names are compared with case, and a class is a class": (
        {"allow": {"servers": ["DB", "[!x]y"], "tools": {"DB": ["[gs]et", "a[]]b"]}}},
        {
            ("db", None): "deny",
            ("DB", "get"): "allow",
            ("DB", "Get"): "deny",
            ("DB", "a]b"): "allow",
            ("ay", None): "allow",
            ("xy", None): "deny",
        },
    ),
    "names that objects have by themselves are names like others": (
        {"allow": {"servers": ["db"], "tools": {"db": ["__proto__"]}}},
        {("db", "__proto__"): "allow", ("db", "constructor"): "deny", ("__class__", None): "deny"},
    ),
}
QUESTIONS = [(name, *question) for name, (_agent, answers) in SEED.items() for question in answers.items()]


@pytest.mark.parametrize(("name", "asked", "wanted"), QUESTIONS, ids=lambda value: str(value)[:60])
def test_the_seed_is_kept(name: str, asked: tuple[str, str | None], wanted: str) -> None:
    assert decision(of({"a": SEED[name][0]}), *asked) == wanted


@pytest.mark.parametrize(
    ("tree", "agent", "decided", "code"),
    [
        (of({"b": {"allow": {"servers": ["*"]}}}), "a", "deny", "unknown_agent"),
        (of({"b": {"allow": {"servers": ["*"]}}}), None, "deny", "unknown_agent"),
        (of({"b": {"allow": {"servers": ["*"]}}}, deny_on_missing_agent=False), "a", "allow", "ok"),
        (of({"b": {"allow": {"servers": ["*"]}}}, deny_on_missing_agent=False), None, "allow", "ok"),
        (of({"default": {"allow": {"servers": ["s"]}}}), None, "allow", "ok"),
        (of({"default": {"allow": {"servers": ["s"]}}}), "a", "deny", "unknown_agent"),
        (of({"default": {"allow": {"servers": ["s"]}}}, deny_on_missing_agent=False), "a", "allow", "ok"),
        (of({"default": {}}, deny_on_missing_agent=False), "a", "deny", "denied"),
        (
            {**of({"g": {"allow": {"servers": ["s"]}}, "default": {}}), "gateway": {"default_agent": "g"}},
            None,
            "allow",
            "ok",
        ),
        ({**of({"g": {}}), "gateway": {"default_agent": "x"}}, None, "deny", "unknown_agent"),
        (of({}), "a", "deny", "unknown_agent"),
        ({}, "a", "ask", "no_match"),
        ({"rules": [{"allow": {"call": {"server": "s"}}}]}, "a", "allow", "ok"),
        (of({"*": {"allow": {"servers": ["s"]}}}), "", "deny", "denied"),
        (of({"ci-*": {"allow": {"servers": ["s"]}}}), "ci-7", "allow", "ok"),
        (of({"ci-*": {"allow": {"servers": ["s"]}}, "ci-7": {}}), "ci-7", "deny", "denied"),
        (of({"*": {}, "ci-*": {"allow": {"servers": ["s"]}}}), "ci-7", "allow", "ok"),
        (of({"*": {"allow": {"servers": ["s"]}}}), None, "deny", "unknown_agent"),
    ],
)
def test_who_is_judged_as_whom(tree: dict[str, Any], agent: str | None, decided: str, code: str) -> None:
    found = verdict(tree, "s", "t", agent)
    assert (str(found.decision), found.code) == (decided, code)


OPEN = of({"*": {"allow": {"servers": ["*"]}}})


@pytest.mark.parametrize(
    ("server", "tool", "wanted"),
    [
        ("db", "get\x00", "deny"),
        ("db", "get\n", "deny"),
        ("db", "g\u200bet", "deny"),
        ("db", "\u202eteg", "deny"),
        ("db", "get\U000e0041", "deny"),
        ("db", "", "deny"),
        ("", "get", "deny"),
        ("db", "g\u0435t", "deny"),  # a Cyrillic letter
        ("db", "\uff47et", "deny"),  # a full-width one
        ("db", "\U0001d420et", "deny"),  # a mathematical one
        ("d\u0184", "get", "ask"),
        ("db", "gr\u00f6\u00dfe", "ask"),
        ("db", "\u691c\u7d22", "ask"),
        ("db", "half\ud800", "deny"),
        ("db", "get it", "allow"),
    ],
)
def test_names_that_are_not_what_they_seem(server: str, tool: str, wanted: str) -> None:
    assert decision(OPEN, server, tool) == wanted
    assert could_call(rules(OPEN), "a", server, tool) == (wanted != "deny")


def test_an_agent_with_an_unseen_letter_is_nobody() -> None:
    assert decision(OPEN, "db", "get", "a\u200b") == "deny"


@pytest.mark.parametrize("pattern", ["[", "drop_[", "[!]", "[]", "a[b", "", "a\u200b", "a\n"])
def test_a_pattern_that_cannot_be_is_an_error_wherever_it_stands(pattern: str) -> None:
    for tree in (
        of({pattern: {}}),
        of({"a": {"allow": {"servers": [pattern]}}}),
        of({"a": {"deny": {"tools": {pattern: ["x"]}}}}),
        of({"a": {"allow": {"resources": {"x": [pattern]}}}}),
    ):
        with pytest.raises(byleave.ConfigErrors):
            rules(tree)


# The explanation is the path that was taken.


def test_the_verdict_names_the_steps_in_the_order_of_weight() -> None:
    tree = of({"a": {"allow": {"servers": ["d*"], "tools": {"db": ["get_*"]}}}})
    found = verdict(tree, "db", "get_x")
    assert [ref.rule for ref in found.because] == ['agents.a: allow.tools.db "get_*"', 'agents.a: allow.servers "d*"']


SUGGESTED = [
    (of({"a": {"allow": {"servers": ["x"]}}}), "db", None, '[agents.a]\nallow.servers = ["db"]'),
    (of({"a": {}}), "db", "get", '[agents.a]\nallow.servers = ["db"]\nallow.tools.db = ["get"]'),
    (
        of({"a": {"allow": {"servers": ["db"], "tools": {"db": ["put"]}}}}),
        "db",
        "get",
        '[agents.a]\nallow.tools.db = ["get"]',
    ),
    (
        of({"a": {"allow": {"servers": ["*"], "tools": {"d*": ["put"]}}}}),
        "db",
        "get",
        '[agents.a]\nallow.tools.db = ["put", "get"]',
    ),
    (of({"b": {}}), "db", "get", '[agents.a]\nallow.servers = ["db"]\nallow.tools.db = ["get"]'),
    (of({"a*": {}}), "db", None, '[agents."a*"]\nallow.servers = ["db"]'),
    (of({"a": {"allow": {"servers": ["*"]}, "deny": {"tools": {"db": ["get"]}}}}), "db", "get", None),
    (of({"a": {}}), "db", "get[", None),
]


@pytest.mark.parametrize(("tree", "server", "tool", "wanted"), SUGGESTED)
def test_the_suggestion_is_what_would_allow_it(
    tree: dict[str, Any], server: str, tool: str | None, wanted: str | None
) -> None:
    found = verdict(tree, server, tool)
    assert (found.decision, found.suggestion) == (DENY, wanted)
    if wanted is not None:
        import tomllib

        added = inline_layer(tree), inline_layer(tomllib.loads(wanted))
        agents = merge_agents(added, MissingAgentRule())
        assert agents is not None
        assert agents.decide("a", server, "tools", tool).decision is ALLOW


# Resources and prompts.


@pytest.mark.parametrize(
    ("agent", "kind", "name", "wanted"),
    [
        ({"allow": {"servers": ["db"]}}, "resources", "file:///x", True),
        ({"allow": {"servers": ["x"]}}, "resources", "file:///x", False),
        ({"allow": {"servers": ["db"], "tools": {"db": ["q"]}}}, "resources", "file:///x", False),
        ({"allow": {"servers": ["db"], "tools": {"db": []}}}, "prompts", "p", True),
        (
            {"allow": {"servers": ["db"], "tools": {"db": ["q"]}, "resources": {"db": ["file:///*"]}}},
            "resources",
            "file:///x",
            True,
        ),
        (
            {"allow": {"servers": ["db"], "tools": {"db": ["q"]}, "resources": {"db": ["file:///*"]}}},
            "prompts",
            "x",
            False,
        ),
        ({"allow": {"servers": ["db"], "resources": {"db": ["a:*"]}}}, "resources", "b:x", False),
        ({"allow": {"servers": ["db"]}, "deny": {"prompts": {"*": ["se*"]}}}, "prompts", "secret", False),
        ({"allow": {"servers": ["db"]}, "deny": {"prompts": {"*": ["se*"]}}}, "prompts", "other", True),
        ({"allow": {"servers": ["db"]}}, "prompts", "x\u202e", False),
    ],
)
def test_resources_and_prompts_follow_the_server(agent: dict[str, Any], kind: str, name: str, *, wanted: bool) -> None:
    assert could_use(rules(of({"a": agent})), "a", "db", kind, name) is wanted


def test_a_rule_that_denies_the_server_hides_its_resources() -> None:
    tree = {**OPEN, "rules": [{"deny": {"call": {"server": "db"}}}]}
    assert not could_use(rules(tree), "a", "db", "resources", "x:y")
    assert could_use(rules(tree), "a", "other", "resources", "x:y")


def test_a_server_is_open_while_a_rule_leaves_one_of_its_tools() -> None:
    opened, closed = {"allow": {"call": {"server": "db", "tool": "get"}}}, {"deny": {"call": {"server": "db"}}}
    for order, wanted in (([opened, closed], True), ([closed, opened], False)):
        policy = rules({**OPEN, "rules": order})
        assert could_call(policy, "a", "db", "get") is wanted
        assert could_call(policy, "a", "db", None) is wanted
        assert not could_call(policy, "a", "db", "put")


# What always holds.

NAMES = st.sampled_from(["a", "b", "ab", "abc", "ba"])
PATTERNS = st.sampled_from(["a", "b", "ab", "abc", "a*", "*b", "*", "?", "a?c", "[ab]", "[!a]*", "*b*", "a[a-z]"])
LISTS = st.lists(PATTERNS, max_size=3)
TABLES = st.dictionaries(PATTERNS, LISTS, max_size=3)
REACHES = st.fixed_dictionaries({}, optional={"servers": LISTS, "tools": TABLES})
AGENTS = st.dictionaries(
    st.one_of(PATTERNS, st.just("default")),
    st.fixed_dictionaries({}, optional={"allow": REACHES, "deny": REACHES}),
    max_size=3,
)
TESTS = st.one_of(
    st.fixed_dictionaries({"equals": st.sampled_from(["x", "y", 1, True])}),
    st.fixed_dictionaries({"prefix": st.sampled_from(["", "x", "y"])}),
    st.fixed_dictionaries({"glob": st.sampled_from(["*", "x*"])}),
)
CALLS = st.builds(
    lambda where, test: {**where, **({"arg": "/v", **test} if test else {})},
    st.fixed_dictionaries({"server": PATTERNS}, optional={"tool": PATTERNS}),
    st.one_of(st.none(), TESTS),
).map(lambda call: {"call": call})
MATCHES = st.recursive(
    st.one_of(CALLS, PATTERNS.map(lambda name: {"agent": name}), st.just({"command": "git"}), st.just({"path": "x"})),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"any": each}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"all": each}),
        inner.map(lambda each: {"not": each}),
    ),
    max_leaves=3,
)
RULES = st.lists(
    st.tuples(st.sampled_from(["allow", "ask", "deny"]), MATCHES).map(lambda pair: {pair[0]: pair[1]}), max_size=4
)
TREES = st.fixed_dictionaries(
    {},
    optional={
        "agents": AGENTS,
        "rules": RULES,
        "defaults": st.fixed_dictionaries({"deny_on_missing_agent": st.booleans()}),
    },
)
VALUES = st.sampled_from(["x", "xy", "y", 1, 1.0, True, None, [], ["x", "y"], {"v": "x"}, [["x"]]])
ARGUMENTS: st.SearchStrategy[Any] = st.one_of(
    st.none(), VALUES.map(lambda value: {"v": value}), st.just({}), st.just([{"v": "x"}])
)


@settings(max_examples=amounts.of(1000, 60), deadline=None)
@given(
    TREES, st.one_of(st.none(), NAMES), NAMES, st.one_of(st.none(), NAMES), st.lists(ARGUMENTS, min_size=1, max_size=4)
)
def test_what_is_hidden_is_denied_whatever_the_arguments(
    tree: dict[str, Any], agent: str | None, server: str, tool: str | None, arguments: list[Any]
) -> None:
    policy = rules(tree)
    decided = {decide_call(policy, CallAction(server, tool, each, agent)).decision for each in arguments}
    if not could_call(policy, agent, server, tool):
        assert decided == {DENY}


@settings(max_examples=amounts.of(600, 60), deadline=None)
@given(TREES, NAMES, NAMES, NAMES)
def test_a_tool_that_is_shown_has_a_server_that_is_shown(
    tree: dict[str, Any], agent: str, server: str, tool: str
) -> None:
    policy = rules(tree)
    assert could_call(policy, agent, server, None) or not could_call(policy, agent, server, tool)


@settings(max_examples=amounts.of(600, 60), deadline=None)
@given(AGENTS, NAMES, NAMES, NAMES)
def test_without_argument_rules_a_listing_says_exactly_what_a_call_is_answered(
    agents: dict[str, Any], agent: str, server: str, tool: str
) -> None:
    policy = rules({"agents": agents})
    assert could_call(policy, agent, server, tool) == (
        decide_call(policy, CallAction(server, tool, None, agent)).allowed
    )


@settings(max_examples=amounts.of(600, 60), deadline=None)
@given(AGENTS, NAMES, NAMES, NAMES, REACHES)
def test_another_deny_never_loosens(
    agents: dict[str, Any], agent: str, server: str, tool: str, deny: dict[str, Any]
) -> None:
    before = decision(of(agents), server, tool, agent)
    for name, configured in agents.items():
        more = {**configured, "deny": _united(configured.get("deny", {}), deny)}
        after = decision(of({**agents, name: more}), server, tool, agent)
        assert (before, after) != ("deny", "allow")


@settings(max_examples=amounts.of(1000, 60), deadline=None)
@given(
    TREES,
    TREES,
    st.tuples(NAMES, st.one_of(st.none(), NAMES), ARGUMENTS, st.one_of(st.none(), NAMES)).map(
        lambda fields: CallAction(*fields)
    ),
)
def test_an_untrusted_file_never_loosens_and_shows_nothing_more(
    own: dict[str, Any], theirs: dict[str, Any], action: CallAction
) -> None:
    around = CompileContext(PlainRoot("/ws"))
    mine = Layer(USER, parse_tree(own), "mine")
    others = Layer(PROJECT, parse_tree(theirs), "theirs", trusted=False)
    alone, both = (compile_layers(layers, around).policy for layers in ([mine], [mine, others]))
    asked = action.agent, action.server, action.tool
    assert decide_call(both, action).decision >= decide_call(alone, action).decision
    assert could_call(alone, *asked) or not could_call(both, *asked)
    if not could_call(both, *asked):
        assert decide_call(both, action).decision is DENY


@settings(max_examples=amounts.of(600, 60), deadline=None)
@given(TREES, TREES, NAMES, NAMES, NAMES)
def test_a_managed_deny_is_never_lost(
    own: dict[str, Any], managed: dict[str, Any], agent: str, server: str, tool: str
) -> None:
    around = CompileContext(PlainRoot("/ws"))
    layers = [Layer(USER, parse_tree(own), "mine"), Layer(MANAGED, parse_tree(managed), "managed")]
    agents = merge_agents([layers[1]], MissingAgentRule())
    policy = compile_layers(layers, around).policy
    if agents is not None and agents.denial(agent, server, "tools", tool) is not None:
        assert decide_call(policy, CallAction(server, tool, None, agent)).decision is DENY
        assert not could_call(policy, agent, server, tool)


def _united(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    tools = {
        key: [*one.get("tools", {}).get(key, ()), *other.get("tools", {}).get(key, ())]
        for key in (*one.get("tools", {}), *other.get("tools", {}))
    }
    return {"servers": [*one.get("servers", ()), *other.get("servers", ())], "tools": tools}


def _reference(agent: dict[str, Any], server: str, tool: str) -> str:
    """Walk the seed's steps without any index."""
    allow, deny = agent.get("allow", {}), agent.get("deny", {})
    if any(fnmatchcase(server, each) for each in deny.get("servers", ())):
        return "deny"
    if not any(fnmatchcase(server, each) for each in allow.get("servers", ())):
        return "deny"
    denies = [each for key, names in deny.get("tools", {}).items() if fnmatchcase(server, key) for each in names]
    if any(fnmatchcase(tool, each) for each in denies):
        return "deny"
    table = allow.get("tools", {})
    lists = [table[server]] if server in table else [names for key, names in table.items() if fnmatchcase(server, key)]
    allows = [each for names in lists for each in names]
    return "allow" if not allows or any(fnmatchcase(tool, each) for each in allows) else "deny"


@settings(max_examples=amounts.of(1000, 60), deadline=None)
@given(st.fixed_dictionaries({}, optional={"allow": REACHES, "deny": REACHES}), NAMES, NAMES)
def test_the_index_answers_as_the_plain_steps_do(agent: dict[str, Any], server: str, tool: str) -> None:
    assert decision(of({"x": agent}), server, tool, "x") == _reference(agent, server, tool)


GLOBS = st.text("ab*?[]!-", min_size=1, max_size=6).filter(lambda text: pattern_problem(text) is None)


@settings(max_examples=amounts.of(1500, 60), deadline=None)
@given(st.lists(GLOBS, max_size=6), st.text("ab[]!-", max_size=5))
def test_the_index_finds_what_fnmatch_finds(patterns: list[str], name: str) -> None:
    index: NameIndex[str] = NameIndex()
    for pattern in patterns:
        index.add(pattern, pattern)
    assert sorted(set(index.all(name))) == sorted({each for each in patterns if fnmatchcase(name, each)})


def test_a_decision_costs_the_same_however_many_rules_there_are() -> None:
    def measured(count: int) -> float:
        tools = {
            f"srv-{n}": [ListEntry(f"tool_{n}"), ListEntry(f"get_{n}_*"), ListEntry(f"*_{n}x")] for n in range(count)
        }
        many = [Agent(f"agent-{n}", AgentReach((ListEntry(f"srv-{n}"),), {})) for n in range(count)]
        big = Agent(
            "a",
            AgentReach((ListEntry("*"),), tools),
            AgentReach((), {"srv-*": tuple(ListEntry(f"drop_{n}*") for n in range(count))}),
        )
        agents = Agents([*many, big])
        agents.decide("a", "srv-1", "tools", "tool_1")
        best = 1.0
        for _ in range(5):
            started = time.perf_counter()
            for n in range(200):
                agents.decide("a", "srv-1", "tools", f"tool_{n}")
            best = min(best, time.perf_counter() - started)
        return best

    assert measured(2_000) < 20 * measured(2)  # not a thousand times


def test_rules_about_other_calls_are_not_looked_at() -> None:
    policy = rules(
        {
            "rules": [{"deny": {"call": {"server": f"s{n}", "tool": f"t{n}_*"}}} for n in range(500)]
            + [{"ask": {"call": {"server": "s7"}}}]
        }
    )
    table = policy.views[0].rules
    assert table is not None
    assert [rule.text for rule in table._for_call("s7", "t7_x")] == ["deny call s7.t7_*", "ask call s7.*"]  # noqa: SLF001 -- what it costs is not seen from outside


def test_oddities_are_told_apart() -> None:
    assert [oddity(name) for name in ("a", "\u00e9", "\u0430", "a\u200d")] == [
        None,
        "not ASCII",
        "look-alike",
        "unseen",
    ]


def test_an_agent_is_named_by_its_very_name_and_known_by_a_pattern() -> None:
    agents = Agents([Agent("ci-*"), Agent("claude")])
    assert [agents.names(name) for name in ("claude", "ci-*", "ci-7", "codex")] == [True, False, False, False]
    assert [agents.knows(name) for name in ("claude", "ci-7", "codex")] == [True, True, False]


def test_every_entry_of_an_agents_lists_is_named_as_verdicts_name_it() -> None:
    agent = Agent(
        "a",
        AgentReach((ListEntry("s", "f:1"),), {"s": [ListEntry("get_*", "f:2")]}),
        AgentReach((ListEntry("t", "f:3"),)),
    )
    assert [(ref.rule, ref.source, ref.decision) for ref in written_refs(agent)] == [
        ('agents.a: allow.servers "s"', "f:1", ALLOW),
        ('agents.a: allow.tools.s "get_*"', "f:2", ALLOW),
        ('agents.a: deny.servers "t"', "f:3", DENY),
    ]
