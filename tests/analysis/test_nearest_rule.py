"""The nearest rule is named only where one condition less, or one rule less, really makes the verdict an allow."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.analysis.nearest_rule import nearest_rule
from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import compile_policy

POLICY: dict[str, Any] = {
    "rules": [
        {"deny": {"command": "git", "subcommand": "push", "flags": ["--force"]}},
        {"allow": {"command": "git", "subcommand": ["push", "log"]}},
        {"allow": {"command": "npm", "args": ["test"]}},
        {"allow": {"command": "cargo", "subcommand": "build", "flags": ["--offline"]}},
        {"allow": {"command": "make", "within": "sub", "agent": "codex"}},
        {"allow": {"command": "ls", "agent": "codex"}},
        {"allow": {"command": "wc", "within": "sub"}},
        {"allow": {"all": [{"command": "rm"}, {"not": {"command": "rm", "flags": ["-r"]}}]}},
        {"ask": {"path": "src/secret"}},
        {"allow": {"path": "src/**", "ops": ["read"]}},
        {"allow": {"url": {"host": "a.org", "scheme": "https"}}},
        {"allow": {"call": {"server": "db", "tool": "query", "arg": "/sql", "prefix": "select"}}},
    ],
    "tools": {
        "t": {
            "source": "local",
            "runtime": "stdio",
            "access": {"net": [{"host": "b.org", "scheme": "https", "path_prefix": "/x", "allow": True}]},
        }
    },
}


@pytest.fixture
def policy(tmp_path: Path) -> LivePolicy:
    return compile_policy(POLICY, root=str(tmp_path))


def near(policy: LivePolicy, action: dict[str, Any]) -> tuple[str, str] | None:
    found = nearest_rule(policy, policy.evaluate(action, confines=True), confines=True)
    return None if found is None else (found.rule, found.but)


def command(text: str, **more: str) -> dict[str, Any]:
    return {"kind": "command", "command": text, **more}


STANDS = "it has --force, and `deny git push --force` (inline) stands before it"


@pytest.mark.parametrize(
    ("action", "found"),
    [
        (command("git push --force"), ("allow git push|log", STANDS)),
        (command("git log && git push -f"), ("allow git push|log", STANDS)),
        (command("rm x && git push -f"), ("allow git push|log", STANDS)),
        (command("git log --output=x"), ("allow git push|log", "it has --output")),
        (command("git log --output=x && git push"), ("allow git push|log", "it has --output")),
        (command("npm test x"), ("allow npm test", 'it has more arguments than "test"')),
        (command("cargo build"), ("allow cargo build --offline", "it has no --offline")),
        (command("ls"), ("allow ls and agent codex", "the rule is for codex alone")),
        (command("rm -r x"), ("allow rm and not (rm -r)", "the rule leaves out rm -r")),
        ({"kind": "update", "path": "src/a"}, ("allow read src/**", "the rule is about read alone")),
        ({"kind": "url", "url": "http://a.org/x"}, ("allow url a.org", "its scheme is not https")),
        (
            {"kind": "call", "server": "db", "tool": "query", "arguments": {"sql": "drop"}},
            ("allow call db.query", "its arguments are not those that the rule is about"),
        ),
        (
            {"kind": "url", "url": "https://b.org/y", "tool": "t"},
            ("allow https://b.org/x", "its path is not below /x"),
        ),
        # Nothing to say: it is allowed, two conditions are missing, nothing is near, another rule would still ask.
        (command("git push"), None),
        (command("make"), None),
        (command("git push --force && make"), None),
        (command("frobnicate"), None),
        (command("git status"), None),
        ({"kind": "update", "path": "src/secret"}, None),
        ({"kind": "update", "path": "docs/a"}, None),
        ({"kind": "url", "url": "http://b.org/y", "tool": "t"}, None),
        ({"kind": "url", "url": "http://c.org/"}, None),
        ({"kind": "env", "name": "HOME", "tool": "t"}, None),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_nearest_rule_and_what_does_not_fit(
    policy: LivePolicy, action: dict[str, Any], found: tuple[str, str] | None
) -> None:
    assert near(policy, action) == found


def test_where_it_starts_may_be_all_that_is_missing(policy: LivePolicy, tmp_path: Path) -> None:
    assert near(policy, command("wc x")) == (
        "allow wc within the given directory",
        f"it does not start within {tmp_path}/sub",
    )


NAMES = st.sampled_from(["git", "make"])
MATCHERS = st.fixed_dictionaries(
    {"command": NAMES},
    optional={
        "subcommand": st.sampled_from(["push", "log"]),
        "flags": st.sampled_from([["--force"], ["-q"]]),
        "agent": st.just("codex"),
        "within": st.just("sub"),
    },
)
LINES = st.sampled_from(
    ["git push", "git push --force", "git log", "git log --output=x", "make", "make -q && git push", "git push -q"]
)


@given(rules=st.lists(st.tuples(st.sampled_from(["allow", "ask", "deny"]), MATCHERS), max_size=5), line=LINES)
def test_a_rule_is_named_only_if_it_allows_and_the_command_needs_more(
    rules: list[tuple[str, dict[str, Any]]], line: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = str(tmp_path_factory.getbasetemp())
    policy = compile_policy({"rules": [{word: table} for word, table in rules]}, root=root)
    resolved = policy.evaluate(command(line))
    found = nearest_rule(policy, resolved, confines=False)
    if resolved.verdict.allowed:
        assert found is None
    if found is None:
        return
    # Alone, with every condition but the program and its subcommand gone, the rule allows one of the commands.
    named = [table for word, table in rules if word == "allow"]
    bare = [{key: table[key] for key in ("command", "subcommand") if key in table} for table in named]
    wide = compile_policy({"rules": [{"allow": {**table, "options": "any"}} for table in bare]}, root=root)
    assert wide.decide(command(line)).allowed
    assert found.rule.startswith("allow ")
