"""All capabilities of a place at once are what `decide` says of each, however often one asks, and whichever policy."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byleave.core.action import FileAction
from byleave.core.closed_places import ClosedPlaces
from byleave.core.decide import decide
from byleave.core.decision import ALLOW, RuleRef
from byleave.core.fs_rules import CAPABILITIES, FsTarget
from byleave.core.place_access import PlaceAccess, closed_places
from byleave.core.policy import CompiledPolicy
from byleave.core.protected import Protected, Protection
from byleave.policy.load import Workspace
from byleave.sandbox.plan.plan import op_of

pytestmark = pytest.mark.long

WORKSPACE = Workspace(".")
ROOT = WORKSPACE.root.path
names = st.sampled_from(["src", ".env", ".ENV", "a.pem", ".git", ".vscode", "vault", "é", "x.key", ".bashrc", "key"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
patterns = st.one_of(
    paths,
    st.lists(names | st.sampled_from(["**", "*", "*.pem", ".env*", "[ab]*", "*e*"]), min_size=1, max_size=3).map(
        "/".join
    ),
    paths.map(lambda path: f"{ROOT}/{path}"),
    paths.map(lambda path: f"{ROOT}/{path}/**"),
)
ops = st.lists(st.sampled_from(["read", "create", "update", "delete", "exec"]), min_size=1, unique=True)
matchers = st.recursive(
    st.builds(
        lambda path, kinds: {"path": path, **({"ops": kinds} if kinds else {})},
        patterns | st.lists(patterns, min_size=1, max_size=4),
        st.just([]) | ops,
    )
    | st.sampled_from(["claude-code", "codex", "*"]).map(lambda agent: {"agent": agent})
    | st.sampled_from(["read", "edit", "delete", "execute"]).map(lambda kind: {"operation": kind})
    | st.just({"any_command": True}),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda found: {"any": found})
        | st.lists(inner, min_size=1, max_size=2).map(lambda found: {"all": found})
        | inner.map(lambda found: {"not": found})
    ),
    max_leaves=4,
)
rules = st.lists(
    st.builds(lambda word, table: {word: table}, st.sampled_from(["allow", "ask", "deny"]), matchers), max_size=12
)
tool_rules = st.none() | st.lists(
    st.builds(
        lambda path, given: {"path": path, **dict.fromkeys(given, True)},
        paths | st.just("."),
        st.lists(st.sampled_from(CAPABILITIES), unique=True),
    ),
    max_size=3,
)
protections = st.lists(st.builds(Protection, paths, paths, st.booleans()), max_size=3)
targets = st.builds(
    lambda path, inside, exists: (
        FsTarget(f"{ROOT}/{path}", path, exists=exists)
        if inside
        else FsTarget(f"/elsewhere/{path}", None, f"door/{path}", exists=exists)
    ),
    paths,
    st.booleans(),
    st.booleans(),
)
agents = st.sampled_from([None, "claude-code", "codex"])


def one_by_one(policy: CompiledPolicy, agent: str | None, target: FsTarget) -> tuple[frozenset[str], RuleRef]:
    """Ask about each capability, with a policy that knows nothing yet."""
    forgetful = policy.replace(known=None)
    name = target.relative if target.relative is not None else target.door or ""
    verdicts = {each: decide(forgetful, FileAction(op_of(each), name, "t", agent), (target,)) for each in CAPABILITIES}
    allowed = frozenset(name for name, verdict in verdicts.items() if verdict.decision is ALLOW)
    withheld = next((verdict for verdict in verdicts.values() if verdict.decision is not ALLOW), verdicts["read"])
    return allowed, withheld.because[0]


def compiled(given_rules: list[dict[str, Any]], access: list[dict[str, Any]] | None) -> CompiledPolicy:
    tool = {"source": "local", "runtime": "stdio", **({"access": {"fs": access}} if access is not None else {})}
    return WORKSPACE.compile_tree({"rules": given_rules, "tools": {"t": tool}}).compiled.policy


@settings(deadline=None, max_examples=200)
@given(
    rules,
    tool_rules,
    st.lists(protections, min_size=1, max_size=2),
    st.lists(st.tuples(agents, targets), min_size=1, max_size=6),
)
def test_what_is_known_is_what_decide_says(
    given_rules: list[dict[str, Any]],
    access: list[dict[str, Any]] | None,
    protected: list[list[Protection]],
    questions: list[tuple[str | None, FsTarget]],
) -> None:
    policy = compiled(given_rules, access)
    # What is protected differs from run to run; what is known is shared.
    runs = [policy, *(policy.replace(protected=Protected(places)) for places in protected)]
    for run in (*runs, *runs):
        for agent, target in questions:
            expected = one_by_one(run, agent, target)
            asked = PlaceAccess(run, "t", agent)
            assert [name for name in CAPABILITIES if asked.gives(name, target)] == [
                name for name in CAPABILITIES if name in expected[0]
            ]
            assert asked.at(target) == expected


@settings(deadline=None, max_examples=60)
@given(rules, st.lists(st.tuples(agents, ops.map(tuple)), min_size=1, max_size=4))
def test_closed_places_that_are_known_are_those_of_the_rules(
    given_rules: list[dict[str, Any]], questions: list[tuple[str | None, tuple[str, ...]]]
) -> None:
    policy = compiled(given_rules, None)
    for agent, asked in (*questions, *questions):
        known, plain = closed_places(policy, asked, ROOT, agent), ClosedPlaces(policy, asked, root=ROOT, agent=agent)
        assert (known.patterns, known.rules) == (plain.patterns, plain.rules)
        for directory in (ROOT, f"{ROOT}/src", "/usr", "/"):
            assert known.begin(directory) == known.begin(directory) == plain.begin(directory)
        for path in ("a.pem", "vault/key", ".env", "src"):
            target = FsTarget(f"{ROOT}/{path}", path)
            assert known.decision(target) == plain.decision(target)


def test_a_place_that_becomes_protected_is_not_answered_as_before() -> None:
    policy = compiled([], [{"path": ".", "read": True, "write": True}])
    target = FsTarget(f"{ROOT}/x", "x")
    assert PlaceAccess(policy, "t", None).gives("update", target)
    later = policy.replace(protected=Protected([Protection("x", "x", final=True)]))
    assert not PlaceAccess(later, "t", None).gives("update", target)
    assert PlaceAccess(policy, "t", None).gives("update", target)


def test_a_policy_remembers_only_what_it_answered() -> None:
    policy = WORKSPACE.compile_tree({"tools": {"t": {"source": "local", "access": {"fs": [{"path": "."}]}}}}).compiled
    known = policy.policy.known
    assert known is not None
    assert not known
    place = FsTarget(f"{ROOT}/src", "src")
    assert not PlaceAccess(policy.policy, "t", None).gives("read", place)
    assert known
