"""The profile for macOS: its text as files, and its rules as the kernel there reads them, against the plan itself."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.command_rules import CommandTable
from byleave.core.fs_rules import CAPABILITIES
from byleave.sandbox.linux.landlock import ScratchPaths, reduced
from byleave.sandbox.plan.plan import (
    DIRECTORY,
    EVERYTHING,
    FILE,
    NOTHING,
    PRIVATE,
    PROXY,
    READING,
    Held,
    PathGrant,
    SandboxPlan,
    in_order,
)
from byleave.sandbox.seatbelt import Profile, approximations, make_profile, obstacle, sandbox_words

GOLDEN = Path(__file__).parent / "golden"
ROOT = "/Users/u/project"
# One operation that stands for each capability.
REPRESENTATIVES = {
    "read": "file-read-data",
    "create": "file-write-create",
    "update": "file-write-data",
    "delete": "file-write-unlink",
    "execute": "process-exec",
}


def place(path: str, capabilities: frozenset[str], kind: str = DIRECTORY) -> PathGrant:
    return PathGrant(f"{ROOT}/{path}".rstrip("/"), capabilities, kind, "test")


WRITING = EVERYTHING - {"execute"}
PLANS = {
    "everything": SandboxPlan(ROOT, (place("", EVERYTHING),)),
    "nothing": SandboxPlan(ROOT, (place("", NOTHING),)),
    "deny-inside-allow": SandboxPlan(
        ROOT, in_order([place("", EVERYTHING), place("a/b/secret", NOTHING), place("a/key.txt", NOTHING, FILE)])
    ),
    "allow-inside-deny": SandboxPlan(
        ROOT,
        in_order([place("", READING), place("d", NOTHING), place("d/in", WRITING), place("d/in/f", READING, FILE)]),
    ),
    "create-only": SandboxPlan(
        ROOT, (place("", frozenset({"read", "create"})), place("log", frozenset({"update"}), FILE))
    ),
    "protected": SandboxPlan(
        ROOT,
        in_order([place("", EVERYTHING), place(".git/config", READING, FILE), place(".vscode", READING, FILE)]),
        held=(Held(f"{ROOT}/.vscode"),),
    ),
    "proxy": SandboxPlan(ROOT, (place("", EVERYTHING),), network=PROXY),
    "odd-names": SandboxPlan(ROOT + '/"a)', (PathGrant(ROOT + '/"a)', EVERYTHING, DIRECTORY, "x"),)),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_profile_is_as_the_file_says(name: str) -> None:
    profile = make_profile(PLANS[name], proxy_port=51234)
    parameters = "".join(f"; {key}={path}\n" for key, path in profile.parameters)
    assert (GOLDEN / f"{name}.sb").read_text() == parameters + profile.text


# The evaluator: what `(deny default)` and the last match mean.

_TOKEN = re.compile(r'#?"[^"]*"|[()]|[^\s()"]+')
Tree = list["str | Tree"]


def parse(text: str) -> Tree:
    stack: list[Tree] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    assert len(stack) == 1
    return stack[0]


def covers(pattern: str, operation: str) -> bool:
    return operation.startswith(pattern[:-1]) if pattern.endswith("*") else operation == pattern


def matches(condition: "str | Tree", path: str, parameters: dict[str, str]) -> bool:
    assert isinstance(condition, list)
    kind, what = condition
    if kind == "regex":
        assert isinstance(what, str)
        return re.search(what[2:-1], path) is not None
    named = parameters[str(what[1]).strip('"')] if isinstance(what, list) else what.strip('"')
    if kind == "literal":
        return path == named
    assert kind == "subpath", kind
    return path == named or path.startswith(named.rstrip("/") + "/")


def allows(profile: Profile, operation: str, path: str) -> bool:
    parameters, decision = dict(profile.parameters), False
    for rule in parse(profile.text):
        assert isinstance(rule, list)
        words = [word for word in rule[1:] if isinstance(word, str)]
        conditions = [each for each in rule[1:] if isinstance(each, list)]
        if any(covers(word, operation) for word in words) and (
            not conditions or any(matches(each, path, parameters) for each in conditions)
        ):
            decision = rule[0] == "allow"
    return decision


def is_pinned(plan: SandboxPlan, path: str) -> bool:
    """Whether a directory must stay where it is: it is a place, or lies above one."""
    return any((each.path == path and each.kind != FILE) or each.path.startswith(f"{path}/") for each in plan.places)


def disagreements(plan: SandboxPlan, paths: list[str]) -> list[str]:
    profile = make_profile(plan)
    found = []
    for path in paths:
        holds = plan.at(path)
        given_here = holds.capabilities if holds is not None else NOTHING
        if holds is not None and holds.kind == FILE and path != holds.path and holds.path not in _held(plan):
            continue  # nothing lies below a file
        for capability in CAPABILITIES:
            wanted = capability in given_here and not (capability == "delete" and is_pinned(plan, path))
            if allows(profile, REPRESENTATIVES[capability], path) != wanted:
                found.append(f"{capability} {path}: the plan says {wanted}")
    return found


def _held(plan: SandboxPlan) -> set[str]:
    return {held.path for held in plan.held}


def paths_around(plan: SandboxPlan) -> list[str]:
    found = {"/Users", "/Users/u", "/Users/u/other", ROOT + "x", "/private/tmp/f", "/Users/u/.ssh/id"}
    for each in plan.places:
        parts = each.path.split("/")
        found |= {"/".join(parts[:n]) for n in range(4, len(parts) + 1)}
        found |= {
            f"{each.path}/new",
            f"{each.path}/new/deep",
            f"{each.path}x",
            f"{each.path.rpartition('/')[0]}/beside",
        }
    return sorted(found)


@pytest.mark.parametrize("name", PLANS)
def test_the_rules_say_what_the_plan_says(name: str) -> None:
    plan = PLANS[name]
    assert disagreements(plan, paths_around(plan)) == []


NAMES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map("/".join)
SETS = st.frozensets(st.sampled_from(CAPABILITIES))
PLACES = st.builds(place, NAMES, SETS, st.just(DIRECTORY))


@given(st.lists(PLACES, min_size=1, max_size=6))
def test_the_rules_say_what_any_plan_says(places: list[PathGrant]) -> None:
    plan = SandboxPlan(ROOT, in_order(places))
    assert disagreements(plan, paths_around(plan)) == []


def test_no_path_stands_in_the_text() -> None:
    for plan in PLANS.values():
        assert "Users" not in make_profile(plan).text


def test_a_link_that_must_stay_is_not_written() -> None:
    plan = SandboxPlan(ROOT, (place("", EVERYTHING),), kept_links=((f"{ROOT}/.git", ""),))
    profile = make_profile(plan)
    names = {path: name for name, path in profile.parameters}
    assert profile.text.endswith(f'(deny file-write* (literal (param "{names[f"{ROOT}/.git"]}")))\n')


def test_only_the_proxy_is_in_reach() -> None:
    texts = {name: make_profile(plan, proxy_port=51234).text for name, plan in PLANS.items()}
    assert [name for name, text in texts.items() if "network" in text] == ["proxy"]
    assert '(allow network-outbound (remote ip "localhost:51234"))' in texts["proxy"]
    assert "network" not in make_profile(PLANS["proxy"]).text


def test_the_words_end_with_the_program_as_it_was_given() -> None:
    profile = make_profile(PLANS["odd-names"])
    words = sandbox_words(profile, ["ls", "-p", "-D"])
    assert words[:3] == ("/usr/bin/sandbox-exec", "-p", profile.text)
    assert words[-3:] == ("ls", "-p", "-D")
    assert ("-D", 'P3=/Users/u/project/"a)') in pairwise(words)


def test_nothing_private_is_left_but_two_fresh_directories() -> None:
    plan = SandboxPlan(ROOT, (PathGrant("/Users/u", EVERYTHING, PRIVATE, "x"), place("", EVERYTHING)), home="/Users/u")
    less = reduced(plan, ScratchPaths("/private/tmp/byleave-1"))
    assert [each.path for each in less.places] == [
        ROOT,
        "/private/tmp/byleave-1/home",
        "/private/tmp/byleave-1/tmp",
    ]
    assert disagreements(less, [*paths_around(less), "/Users/u/x"]) == []
    assert {each.path for each in approximations(less)} >= {"/private/tmp", "processes"}


def test_what_a_profile_cannot_say_is_refused() -> None:
    shown = PathGrant(f"{ROOT}/x", READING, DIRECTORY, "x", source="/elsewhere")
    assert obstacle(PLANS["everything"]) is None
    assert obstacle(SandboxPlan(ROOT, (shown,))) is not None
    assert obstacle(SandboxPlan(ROOT, (), commands=CommandTable(()))) is not None
