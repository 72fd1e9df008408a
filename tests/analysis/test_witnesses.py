"""Witnesses are complete: held against all actions of small universes, for thousands of random pairs of policies."""

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.analysis.witnesses import Witness, decide_witness, witnesses
from byleave.core.action import Action, CallAction, EnvAction, FileAction, MoveAction, UrlAction
from byleave.core.decide import decide
from byleave.core.fs_rules import FsTarget
from byleave.core.policy import CompiledPolicy
from byleave.core.url import parse_url
from byleave.policy.load import Workspace

PAIRS = amounts.of(3000, 4)
BATCHES = amounts.of(100, 4)
Tree = dict[str, Any]
Placed = tuple[Action, tuple[FsTarget, ...]]
Agents = Callable[[random.Random], tuple[str | None, ...]]

NAMES = ("a", "b", "A", "z", ".env", "x.pem", ".idea", "byleave.toml")
GLOBS = (
    "a",
    "**",
    "*",
    "a/**",
    "**/a",
    "**/.env",
    "*.pem",
    "**/*.pem",
    "a/*",
    "b/**/a",
    "**/.idea/**",
    ".idea",
    "?",
    "[ab]",
)
KINDS = ("read", "create", "update", "delete", "exec")
FLAGS = ("read", "write", "create", "update", "delete", "execute")


def seeded(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- the same policies in every run


def matcher_of(rng: random.Random) -> Tree:
    path: Tree = {"path": rng.choice(GLOBS)}
    if rng.random() < 0.4:
        path["ops"] = rng.sample(KINDS, rng.randint(1, 3))
    chance = rng.random()
    if chance < 0.1:
        return {"all": [path, {"not": {"path": rng.choice(GLOBS)}}]}
    if chance < 0.2:
        return {"any": [path, {"path": rng.choice(GLOBS)}]}
    if chance < 0.3:
        return {"all": [path, {"agent": rng.choice(["codex", "c*", "claude"])}]}
    if chance < 0.35:
        return {"all": [path, {"operation": rng.choice(["move", "edit", "read"])}]}
    return path


def rules_of(rng: random.Random, make: Callable[[random.Random], Tree], most: int) -> list[Tree]:
    return [{rng.choice(["allow", "ask", "deny"]): make(rng)} for _ in range(rng.randint(0, most))]


def file_policy(rng: random.Random) -> Tree:
    paths = rng.sample([".", "a", "a/b", "A", "a/b/a", "b", ".idea", "a/.idea"], rng.randint(0, 3))
    fs = [{"path": path, **{flag: rng.random() < 0.5 for flag in FLAGS if rng.random() < 0.5}} for path in paths]
    tool: Tree = {"source": "local", "access": {"fs": fs}} if fs else {"source": "local"}
    return {"rules": rules_of(rng, matcher_of, 4), "tools": {"t": tool}}


def file_actions(root: str, rng: random.Random, agents: Agents) -> Iterator[Placed]:
    deep = ["/".join(names) for depth in (1, 2, 3) for names in itertools.product(NAMES, repeat=depth)]
    for path in ["", *NAMES, *rng.sample(deep, 60)]:
        place = FsTarget(f"{root}/{path}" if path else root, path)
        for kind, tool, agent in itertools.product(KINDS, (None, "t"), agents(rng)):
            for directory in (False, True) if path and kind == "delete" else (path == "",):
                yield FileAction(kind, path or ".", tool, agent), (place.replace(directory=directory),)


def file_moves(root: str, rng: random.Random, agents: Agents) -> Iterator[Placed]:
    paths = ["/".join(names) for depth in (1, 2) for names in itertools.product(NAMES, repeat=depth)]
    for source, target in zip(rng.sample(paths, 40), rng.sample(paths, 40), strict=True):
        for tool, directory, exists in itertools.product((None, "t"), (False, True), (False, True)):
            here = FsTarget(f"{root}/{source}", source, directory=directory)
            there = FsTarget(f"{root}/{target}", target, exists=exists)
            yield MoveAction(source, target, tool, rng.choice(agents(rng))), (here, there)


def agents_in(trees: list[Tree]) -> Agents:
    """Return what gives the agents to try: all of them where a rule is about one, else one by chance."""
    every = (None, "codex", "claude-code")
    if any("agent" in each for tree in trees for rule in tree["rules"] for each in rule_parts(rule)):
        return lambda _rng: every
    return lambda rng: (rng.choice(every),)


def rule_parts(rule: Tree) -> list[Tree]:
    (matcher,) = rule.values()
    parts: list[Tree] = matcher.get("all", [matcher])
    return parts


PREFIXES = ("/a", "/a/b", "/b", "/a;x")
URLS = [
    f"{scheme}://{user}{host}{port}{path}"
    for scheme in ("http", "https", "ftp")
    for user in ("", "u@")
    for host in ("one.example", "two.example", "other.test")
    for port in ("", ":443", ":8080", ":9999")
    for path in (
        "",
        "/",
        "/a",
        "/a/b",
        "/ab",
        "/a/b/c",
        "/b",
        "/a/..;/b",
        "/b/..;/a/b",
        "/a%2Fb",
        "/a;x",
        "//a",
        "/%61/c",
    )
]


def net_rule(rng: random.Random) -> Tree:
    rule: Tree = {"host": rng.choice(["one.example", "two.example"])}
    if rng.random() < 0.4:
        rule["scheme"] = rng.choice(["https", "http"])
    if rng.random() < 0.3:
        rule["port"] = rng.choice([443, 8080])
    if rng.random() < 0.5:
        rule["path_prefix"] = rng.choice(PREFIXES)
    return rule


def url_matcher(rng: random.Random) -> Tree:
    rule = net_rule(rng)
    if rng.random() < 0.3:
        rule["method"] = rng.choice(["GET", "POST"])
    if rng.random() < 0.2 and len(rule) > 1:
        del rule["host"]
    return {"url": rule}


def net_policy(rng: random.Random) -> Tree:
    rules = [
        {**net_rule(rng), "allow": rng.random() < 0.6, "private": rng.random() < 0.3} for _ in range(rng.randint(0, 4))
    ]
    tool: Tree = {"source": "local", "access": {"net": rules}} if rules else {"source": "local"}
    return {"rules": rules_of(rng, url_matcher, 3), "tools": {"t": tool}}


def net_actions(rng: random.Random) -> Iterator[Placed]:
    for url in rng.sample(URLS, 150):
        for method in (None, "POST", "PUT"):
            yield UrlAction(url, method), ()
        for address in (None, "10.1.2.3", "93.184.216.34", "127.0.0.1"):
            yield UrlAction(url, None, address, "t"), ()


def env_policy(rng: random.Random) -> Tree:
    names = rng.sample(["A", "A*", "AB", "AB*", "*", "B_*", "ABC"], rng.randint(0, 4))
    env = [{"name": name, rng.choice(["read", "substitute"]): rng.random() < 0.6} for name in names]
    return {"tools": {"t": {"source": "local", "access": {"env": env}} if env else {"source": "local"}}}


def env_actions() -> Iterator[Placed]:
    names = ["".join(letters) for size in (1, 2, 3, 4) for letters in itertools.product("AB_C", repeat=size)]
    for name in [*names, "HOME", "PATH", "LC_ALL"]:
        yield from ((EnvAction(name, "t", way=way), ()) for way in (None, "substitute"))


def call_matcher(rng: random.Random) -> Tree:
    call: Tree = {"server": rng.choice(["s", "s*", "*"])}
    if rng.random() < 0.7:
        call["tool"] = rng.choice(["get", "get_*", "*", "drop"])
    if rng.random() < 0.4:
        test, value = rng.choice(
            [("equals", "a"), ("prefix", "a"), ("glob", "a*c"), ("equals", 5), ("regex", "(?i)\\bdrop\\b")]
        )
        call |= {"arg": rng.choice(["/q", "/r"]), test: value}
    matcher: Tree = {"call": call}
    return {"all": [matcher, {"agent": "codex"}]} if rng.random() < 0.2 else matcher


def call_policy(rng: random.Random) -> Tree:
    def reach() -> Tree:
        return {
            "servers": rng.sample(["s", "s*", "other", "*"], rng.randint(0, 2)),
            "tools": {
                server: rng.sample(["get", "get_*", "*", "drop"], rng.randint(0, 2))
                for server in rng.sample(["s", "s*", "other"], rng.randint(0, 2))
            },
        }

    names = rng.sample(["codex", "c*", "default", "x"], rng.randint(0, 3))
    tree: Tree = {"rules": rules_of(rng, call_matcher, 3)}
    if names:
        tree["agents"] = {name: {"allow": reach(), "deny": reach()} for name in names}
        tree["defaults"] = {"deny_on_missing_agent": rng.random() < 0.5}
    return tree


def call_actions(rng: random.Random) -> Iterator[Placed]:
    given: list[Any] = [
        None,
        {},
        {"q": "a"},
        {"q": "abc"},
        {"q": "b"},
        {"q": 5},
        {"q": "DROP x"},
        {"q": {"n": 1}},
        {"q": ["a", "b"]},
    ]
    given += [{"r": "a"}, {"q": "a", "r": "ac"}, {"q": "drop", "r": 5}, {"q": "5"}, {"r": "x"}]
    agents, servers = (None, "codex", "cat", "x", "claude"), ("s", "st", "other", "n")
    every = list(itertools.product(agents, servers, (None, "get", "get_x", "drop", "n", "gét"), given))
    for agent, server, tool, arguments in rng.sample(every, 400):
        yield CallAction(server, tool, arguments, agent), ()


parse_once = functools.cache(parse_url)


def found_by(policies: list[CompiledPolicy], actions: Iterable[Placed]) -> dict[object, Action]:
    """Return how the policies answer: by kind and tool, each answer with an example."""
    found: dict[object, Action] = {}
    for action, places in actions:
        answers = tuple(decide(policy, action, places).decision.word for policy in policies)
        found.setdefault((*told_by(action), *answers), action)
    return found


def told_by(action: Action) -> tuple[str, object]:
    kind = action.kind if isinstance(action, FileAction) else type(action).__name__
    return kind, None if isinstance(action, CallAction) else getattr(action, "tool", None)


def stood_for(policies: list[CompiledPolicy], made: Iterable[Witness]) -> set[object]:
    return {
        (*told_by(each.action), *(decide_witness(policy, each).decision.word for policy in policies)) for each in made
    }


def missing(family: str, trees: list[Tree], root: Path, actions: Iterable[Placed]) -> list[Any]:
    """Return the answers that some action gets and no witness does."""
    workspace = Workspace(str(root))
    policies = [workspace.compile_tree(tree).compiled.policy for tree in trees]
    made = witnesses(policies, str(root), family)
    stood = stood_for(policies, made.witnesses)
    assert made.exact
    return [(key, action, trees) for key, action in found_by(policies, actions).items() if key not in stood]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_answer_about_files_and_moves_has_a_witness(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("suggest_fs", "suggest_path_rule"):  # the words of a verdict are no part of its decision
        monkeypatch.setattr(f"byleave.core.file_decision.{name}", lambda *_given, **_named: None)
    root = str(tmp_path)
    for number in range(batch, PAIRS, BATCHES):
        rng = seeded(f"files {number}")
        trees = [file_policy(rng), file_policy(rng)]
        agents = agents_in(trees)
        actions = itertools.chain(file_actions(root, rng, agents), file_moves(root, rng, agents))
        assert missing("fs", trees, tmp_path, actions) == [], number


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_answer_about_the_network_has_a_witness(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.core.decide.parse_url", parse_once)  # pure: each URL is decided a dozen times a pair
    for number in range(batch, PAIRS, BATCHES):
        rng = seeded(f"net {number}")
        assert missing("net", [net_policy(rng), net_policy(rng)], tmp_path, net_actions(rng)) == [], number


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_answer_about_variables_has_a_witness(batch: int, tmp_path: Path) -> None:
    for number in range(batch, PAIRS, BATCHES):
        rng = seeded(f"env {number}")
        assert missing("env", [env_policy(rng), env_policy(rng)], tmp_path, env_actions()) == [], number


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_answer_about_calls_has_a_witness(batch: int, tmp_path: Path) -> None:
    for number in range(batch, PAIRS, BATCHES):
        rng = seeded(f"calls {number}")
        trees = [call_policy(rng), call_policy(rng)]
        assert missing_calls(trees, tmp_path, rng) == [], (number, trees)


def missing_calls(trees: list[Tree], root: Path, rng: random.Random) -> list[Any]:
    """Return the same of calls; where a regular expression meets another test, the set does not claim to be exact."""
    workspace = Workspace(str(root))
    policies = [workspace.compile_tree(tree).compiled.policy for tree in trees]
    made = witnesses(policies, str(root), "agents")
    if not made.exact:
        return []
    stood = stood_for(policies, made.witnesses)
    return [(key, action) for key, action in found_by(policies, call_actions(rng)).items() if key not in stood]


def test_a_protected_directory_stands_for_what_is_in_it_beside_a_protected_ending(tmp_path: Path) -> None:
    """A name that is protected by its ending protects nothing below it: it stood for `.idea`, which does."""
    closed = {"rules": [{"deny": {"path": "b/**/a"}}]}
    open_to_all = {"rules": [{"ask": {"path": "*.pem"}}, {"allow": {"path": "**"}}]}
    place = FsTarget(f"{tmp_path}/b/.idea/a", "b/.idea/a")
    actions = [(FileAction("update", "b/.idea/a"), (place,))]
    assert missing("fs", [closed, open_to_all], tmp_path, actions) == []


@pytest.mark.parametrize("pattern", ["[ab]", "[ab][cd]", "?", "*"])
def test_a_name_that_a_rule_has_does_not_stand_for_others_of_its_pattern(pattern: str, tmp_path: Path) -> None:
    """`a` stood for all that `[ab]` matches, also where a rule of the tool is for `a` itself: `b` was left out."""
    closed = {"rules": [{"ask": {"path": pattern}}], "tools": {"t": {"source": "local"}}}
    named = ["a", "ac", "ad", "x", "q", "file", "notes.txt", "main.py", "thing"]
    fs = [{"path": ".", "read": True}, *({"path": name} for name in named)]
    granted = {"tools": {"t": {"source": "local", "access": {"fs": fs}}}}
    paths = [*itertools.chain("abcxqz", ("ac", "ad", "bc", "bd", "other"))]
    actions = [(FileAction("read", path, "t"), (FsTarget(f"{tmp_path}/{path}", path),)) for path in paths]
    assert missing("fs", [closed, granted], tmp_path, actions) == []


@pytest.mark.parametrize(
    "url", ["http://h.example:443/", "ftp://h.example/", "odd://h.example/", "odd://h.example:443/"]
)
def test_a_scheme_that_no_rule_names_has_another_usual_port_than_the_one_that_a_rule_names(
    url: str, tmp_path: Path
) -> None:
    """Only `https` was tried, for which the rule with the port 443 and the one without a port are about the same."""

    def tree(**rule: Any) -> Tree:
        return {"tools": {"t": {"source": "local", "access": {"net": [{"host": "h.example", "allow": True, **rule}]}}}}

    assert missing("net", [tree(port=443), tree()], tmp_path, [(UrlAction(url, tool="t"), ())]) == []
