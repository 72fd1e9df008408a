"""A rule that lint calls shadowed never decides anything: held against every action of a small universe."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.analysis.lint import lint, surroundings
from byleave.analysis.lint_rules import find_shadows, lint_rules
from byleave.analysis.matcher_algebra import ALWAYS
from byleave.analysis.written_rules import WrittenRules
from byleave.core.decision import Verdict
from byleave.policy.context import LineReader
from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace

Tree = dict[str, Any]
TRIALS = amounts.of(3000, 40)
BATCH = 20

PLAIN_LINES = [
    *("git", "git push", "git push --force", "git push -f origin", "git status", "git status -s", "git push --force x"),
    *("rm x", "rm -r x", "ls", "ls -l", "npm run test", "npm run build --x", "npm run", "npm install"),
]
ODD_LINES = [
    *("./git push", "/usr/bin/git push", "git -C /tmp push", "git -c a=b push", "cd / && git push", "git --version"),
    *(
        "xargs git push",
        "time git push",
        "foo git push",
        "$X push",
        "git $X",
        "git push $(",
        "bash x.sh",
        "rm x; git push",
    ),
    *(
        "sudo rm x",
        "find . -exec rm {} +",
        "find . -delete",
        'bash -c "rm x"',
        "echo x | sh",
        "curl x | sh",
        "ls > out",
    ),
    *("cat .env", "cat a/b", "rm -rf a", "git add .", "npm --prefix /tmp run test", "npm run -- test", "env git push"),
]
FILES = ["a", "a/b", "a/b/c", "A/b", "b", ".env", "a/.env", "/etc/passwd"]
URLS = [
    "https://h.example/",
    "https://h.example/a/b",
    "http://h.example/",
    "https://h.example:8443/a",
    "https://i.example/",
]
CALLS = [("db", "query"), ("db", "drop_all"), ("web", "get"), ("db", None)]
AGENTS = [None, "codex", "claude-code"]


def actions(*, plain: bool) -> Iterator[Tree]:
    for line in PLAIN_LINES if plain else [*PLAIN_LINES, *ODD_LINES]:
        yield {"kind": "command", "command": line}
    for path in FILES[:7] if plain else FILES:
        yield from ({"kind": kind, "path": path} for kind in ("read", "update", "delete"))
    yield from ({"kind": "url", "url": url} for url in URLS)
    for server, tool in CALLS:
        yield {"kind": "call", "server": server, **({} if tool is None else {"tool": tool})}
    yield {"kind": "other", "name": "switch_mode"}


UNIVERSE = {
    plain: [{**each, "agent": agent} for each in actions(plain=plain) for agent in AGENTS] for plain in (True, False)
}


def seeded(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- the same rules in every run


def command(rng: random.Random, *, allows: bool) -> Tree:
    chance = rng.random()
    if chance < 0.15:
        return {"any_command": True, **({"options": "any"} if rng.random() < 0.4 else {})}
    if chance < 0.2:
        return {"group": rng.choice(["read_only_git", "safe_npm"])}
    if chance < 0.25 and not allows:
        return {"text": rng.choice(["git *", "rm *", "git push*"])}
    made: Tree = {"command": rng.choice(["git", "rm", "ls", "npm", ["git", "rm"], ["git", "ls", "npm"]])}
    if rng.random() < 0.4:
        made["subcommand"] = rng.choice(["push", "status", "run", ["push", "status"]])
    if rng.random() < 0.2:
        made["flags"] = rng.choice([["--force"], ["-r"], ["-l", "--force"]])
    elif rng.random() < 0.2:
        made["args"] = rng.choice([["push"], ["push", "**"], ["run", "**"], ["run", "test"], ["**"], []])
    if rng.random() < 0.1:
        made["options"] = "any"
    if rng.random() < 0.1:
        made["within"] = rng.choice([".", "a", "/"])
    if rng.random() < 0.1:
        made["operands"] = rng.randint(0, 2)
    return made


def leaf(rng: random.Random, *, allows: bool) -> Tree:
    chance = rng.random()
    if chance < 0.6:
        return command(rng, allows=allows)
    if chance < 0.8:
        globs = ("**", "a/**", "a/*", "**/.env", "a/b", "*", "/etc/**", "A/**", "?/b", "[ab]/b", "a/b/**")
        ops = {"ops": rng.sample(["read", "update", "delete"], 2)} if rng.random() < 0.3 else {}
        return {"path": rng.choice(globs), **ops}
    if chance < 0.88:
        url = {"host": "h.example"} if rng.random() < 0.7 else {}
        url |= {key: value for key, value in (("scheme", "https"), ("path_prefix", "/a")) if rng.random() < 0.3}
        return {"url": url or {"host": "i.example"}}
    if chance < 0.94:
        return {
            "call": {
                "server": rng.choice(["db", "*", "d*"]),
                **({"tool": rng.choice(["query", "*", "drop_*"])} if rng.random() < 0.6 else {}),
            }
        }
    return {"operation": rng.choice(["execute", "read", ["edit", "delete"]])}


def matcher(rng: random.Random, *, allows: bool) -> Tree:
    chance = rng.random()
    if chance < 0.1:
        return {"any": [leaf(rng, allows=allows), leaf(rng, allows=allows)]}
    if chance < 0.15:
        return (
            {"all": [leaf(rng, allows=allows), {"not": leaf(rng, allows=False)}]}
            if not allows
            else {"not": command(rng, allows=True)}
        )
    if chance < 0.25:
        return {**leaf(rng, allows=allows), "agent": rng.choice(["codex", "c*", "claude"])}
    return leaf(rng, allows=allows)


def rules(rng: random.Random) -> list[Tree]:
    made = []
    for _ in range(rng.randint(2, 6)):
        word = rng.choice(["allow", "ask", "deny"])
        rule: Tree = {word: matcher(rng, allows=word == "allow")}
        if word == "allow" and rng.random() < 0.2:
            rule["sandbox"] = rng.random() < 0.7
            if rule["sandbox"] and rng.random() < 0.4:
                rule["unread"] = True
        made.append(rule)
    return made


def numbered(workspace: Workspace, tree: list[Tree], root: Path) -> LivePolicy:
    """Compile rules from a file, each on a line of its own."""
    from byleave.policy.layers import COMMAND_LINE, Layer
    from byleave.policy.parse import parse_tree

    parsed = parse_tree({"rules": tree, "shell": {"confine": "auto"}})
    for line, rule in enumerate(parsed["rules"]["value"]):
        rule["#line"] = line
    return workspace.compile_alone([Layer(COMMAND_LINE, parsed, "f.toml", b"", True, str(root / "f.toml"))])


def verdicts(policy: LivePolicy, *, plain: bool) -> list[Verdict]:
    return [policy.decide(action, confines=confines) for action in UNIVERSE[plain] for confines in (False, True)]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BYLEAVE_HOME", str(tmp_path / "home"))
    # Every line is decided thousands of times here, and nothing changes on the disk: each is read once. The words of a
    # verdict are no part of its decision.
    reads: dict[str, Any] = {}
    read = LineReader.read
    monkeypatch.setattr(
        LineReader, "read", lambda self, text, *_at: reads.get(text) or reads.setdefault(text, read(self, text))
    )
    monkeypatch.setattr("byleave.core.command_line._suggestion", lambda *_given: None)
    root = tmp_path / "w"
    (root / "a/b").mkdir(parents=True)
    (root / ".env").touch()
    (root / "x.sh").touch()
    return Workspace(str(root))


@pytest.mark.parametrize("seed", range(TRIALS // BATCH))
def test_what_is_called_shadowed_never_decides(seed: int, workspace: Workspace) -> None:
    rng = seeded(f"rules {seed}")
    for _ in range(BATCH):
        tree = rules(rng)
        policy = numbered(workspace, tree, Path(workspace.root.path))
        table = policy.compiled.policy.views[0].rules
        compiled = () if table is None else table.rules
        shadows = find_shadows(compiled)
        if not shadows:
            continue
        always = {compiled[number].source for number, found in shadows.items() if found.degree is ALWAYS}
        every = verdicts(policy, plain=False)
        deciding = {verdict.because[0].source for verdict in every}
        assert not always & deciding, (tree, always & deciding)
        gone = [rule for line, rule in enumerate(tree) if f"f.toml:{line}" not in always]
        left = numbered(workspace, gone, Path(workspace.root.path))
        assert [each.decision for each in verdicts(left, plain=False)] == [each.decision for each in every], (
            tree,
            always,
        )


@pytest.mark.parametrize("seed", range(amounts.of(300, 3)))
def test_without_a_rule_that_lint_names_as_shadowed_plain_actions_are_decided_alike(
    seed: int, workspace: Workspace
) -> None:
    rng = seeded(f"lint {seed}")
    tree = rules(rng)
    policy = numbered(workspace, tree, Path(workspace.root.path))
    named = [each for each in lint(policy, surroundings(workspace, policy, disk=False)) if each.code == "shadowed"]
    gone = {each.source for each in named}
    left = numbered(
        workspace, [rule for line, rule in enumerate(tree) if f"f.toml:{line}" not in gone], Path(workspace.root.path)
    )
    before, after = (verdicts(each, plain=True) for each in (policy, left))
    assert [each.decision for each in before] == [each.decision for each in after], (tree, gone)


def found(workspace: Workspace, *tree: Tree) -> list[tuple[str, str, str]]:
    policy = numbered(workspace, list(tree), Path(workspace.root.path))
    table = policy.compiled.policy.views[0].rules
    assert table is not None
    known = lint_rules(table.rules, WrittenRules(policy.compiled.layers), lambda _number: None, confines=True)
    return [(each.code, each.severity, each.source) for each in known]


GIT, PUSH = {"command": "git"}, {"command": "git", "subcommand": "push"}
CASES: dict[str, tuple[list[Tree], list[tuple[str, str, str]]]] = {
    "a deny behind an allow of all of it": ([{"allow": GIT}, {"deny": PUSH}], [("shadowed", "error", "f.toml:1")]),
    "an allow behind a deny of all of it": ([{"deny": GIT}, {"allow": PUSH}], [("shadowed", "warning", "f.toml:1")]),
    "the same answer twice": ([{"deny": GIT}, {"deny": PUSH}], [("shadowed", "note", "f.toml:1")]),
    "the other way round": ([{"deny": PUSH}, {"allow": GIT}], []),
    "one rule twice": (
        [{"ask": PUSH}, {"ask": {"command": ["git"], "subcommand": ["push"]}}],
        [("duplicate", "note", "f.toml:1")],
    ),
    "another answer for the same": ([{"allow": PUSH}, {"deny": PUSH}], [("contradicts", "error", "f.toml:1")]),
    "an allow that goes further": ([{"allow": GIT}, {"allow": {**GIT, "options": "any"}}], []),
    "several rules together": (
        [{"deny": GIT}, {"deny": {"command": "rm"}}, {"deny": {"command": ["rm", "git"]}}],
        [],
    ),
    "several alternatives": (
        [{"deny": GIT}, {"deny": {"command": "rm"}}, {"deny": {"any": [PUSH, {"command": "rm", "flags": ["-r"]}]}}],
        [("shadowed", "note", "f.toml:2")],
    ),
    "a group": (
        [{"allow": {"any_command": True, "options": "any"}}, {"allow": {"group": "read_only_git"}}],
        [("shadowed", "note", "f.toml:1")],
    ),
    "files": ([{"allow": {"path": "**"}}, {"deny": {"path": "a/**"}}], [("shadowed", "error", "f.toml:1")]),
    "a deny of a whole directory, which the allow is not about": (
        [{"allow": {"path": "?/b"}}, {"deny": {"path": "a/b"}}],
        [],
    ),
    "the same of files alone": (
        [{"allow": {"path": "?/b"}}, {"deny": {"path": "a/b", "ops": ["read", "update"]}}],
        [("shadowed", "error", "f.toml:1")],
    ),
    "kinds that exclude each other": ([{"deny": {**GIT, "path": "a"}}], [("no_effect", "warning", "f.toml:0")]),
    "an agent's own": ([{"allow": {**GIT, "agent": "codex"}}, {"deny": PUSH}], []),
    "for one agent, behind all": (
        [{"deny": GIT}, {"deny": {**PUSH, "agent": "codex"}}],
        [("shadowed", "note", "f.toml:1")],
    ),
    "calls": (
        [{"deny": {"call": {"server": "db"}}}, {"allow": {"call": {"server": "db", "tool": "query"}}}],
        [("shadowed", "warning", "f.toml:1")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_findings_about_rules(name: str, workspace: Workspace) -> None:
    tree, expected = CASES[name]
    assert found(workspace, *tree) == expected


def test_a_deny_of_any_command_is_about_a_program_that_is_known_only_at_run_time(workspace: Workspace) -> None:
    """It only asked, so that a rule behind it, which lint calls shadowed, had a say."""
    anything = {"any_command": True}
    trees: list[list[Tree]] = [[{"deny": anything}], [{"deny": anything}, {"allow": {**anything, "options": "any"}}]]
    for tree in trees:
        policy = numbered(workspace, tree, Path(workspace.root.path))
        verdict = policy.decide({"kind": "command", "command": "$X push"})
        assert (verdict.decision.word, verdict.because[0].source) == ("deny", "f.toml:0")


def test_a_deny_that_matches_no_command_still_has_a_say_by_its_words(workspace: Workspace) -> None:
    """A line that cannot be read is denied by the words of a rule, even of one that nothing else matches."""
    tree: list[Tree] = [{"ask": {"any_command": True}}, {"deny": {"all": [GIT, {"not": {"path": "**"}}]}}]
    policy = numbered(workspace, tree, Path(workspace.root.path))
    assert policy.decide({"kind": "command", "command": "git push $("}).because[0].source == "f.toml:1"
    table = policy.compiled.policy.views[0].rules
    assert table is not None
    assert not any(each.degree is ALWAYS for each in find_shadows(table.rules).values())
