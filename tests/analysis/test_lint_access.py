"""What lint calls overridden decides nothing, and what it calls redundant changes nothing: against brute force."""

import random
from collections.abc import Iterator, Sequence

import pytest

import amounts
from byleave.analysis.lint_access import (
    lint_access,
    overridden_env,
    overridden_fs,
    overridden_net,
    redundant_env,
    redundant_fs,
    redundant_net,
)
from byleave.analysis.written_rules import WrittenRules
from byleave.core.access import STDIO, with_defaults
from byleave.core.command_rules import CommandRule, CommandTable
from byleave.core.decision import ALLOW
from byleave.core.env_rules import EnvRule, EnvTable
from byleave.core.fs_rules import CAPABILITIES, FsRule, FsTable, FsTarget
from byleave.core.net_rules import NetRule, NetTable
from byleave.core.url import Target, parse_url

TRIALS = amounts.of(3000, 40)


def seeded(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 -- the same rules in every run


FS_PATHS = ("", "a", "A", "a/b", "a/B", "a/b/c", "b", "b/a")
FS_UNIVERSE = [
    "",
    *("a", "A", "b", "z"),
    *(f"{one}/{other}" for one in "aAbz" for other in "abBz"),
    *(f"{one}/{two}/{three}" for one in "aAb" for two in "abB" for three in "cCz"),
]


def fs_rules(rng: random.Random) -> list[FsRule]:
    chosen = [rng.choice(FS_PATHS) for _ in range(rng.randint(1, 6))]
    return [
        FsRule(path, read=rng.random() < 0.6, update=rng.random() < 0.3, source=f"f:{line}")
        for line, path in enumerate(chosen)
    ]


def fs_answers(rules: Sequence[FsRule]) -> dict[tuple[str, str], object]:
    table = FsTable(rules)
    said: dict[tuple[str, str], object] = {}
    for path in FS_UNIVERSE:
        for capability in CAPABILITIES:
            target = FsTarget(f"/w/{path}", path)
            answer = table.decide(target, capability)
            withheld = table.withheld_below(target, capability) is not None
            said[path, capability] = (answer.decision, answer.decision is ALLOW and withheld)
    return said


@pytest.mark.parametrize("seed", range(TRIALS // 100 or 1))
def test_file_rules_that_are_overridden_or_redundant_change_nothing(seed: int) -> None:
    rng = seeded(f"fs {seed}")
    for _ in range(100):
        rules = fs_rules(rng)
        table, before = FsTable(rules), fs_answers(rules)
        deciding = {id(table.decide(FsTarget(f"/w/{path}", path), "read").rule) for path in FS_UNIVERSE}
        dead = {found.rule for found in overridden_fs(rules)}
        assert not any(id(rules[number]) in deciding for number in dead)
        assert {number for number, rule in enumerate(rules) if id(rule) not in deciding} <= dead | _folded_away(rules)
        for gone in (dead, {number for number, _other in redundant_fs(rules)}):
            left = [rule for number, rule in enumerate(rules) if number not in gone]
            if left:
                assert fs_answers(left) == before, (rules, gone)


def _folded_away(rules: Sequence[FsRule]) -> set[int]:
    """Rules for `A` that a deny for `a` of the same depth hides are still the last of their path."""
    return {number for number, rule in enumerate(rules) if any(letter.isupper() for letter in rule.path)}


ENV_NAMES = ("*", "A", "A*", "AB", "AB*", "ABC", "B")
ENV_UNIVERSE = ("A", "AB", "ABC", "ABD", "AX", "B", "BA", "Z")


@pytest.mark.parametrize("seed", range(TRIALS // 100 or 1))
def test_environment_rules_that_are_overridden_or_redundant_change_nothing(seed: int) -> None:
    rng = seeded(f"env {seed}")
    for _ in range(100):
        rules = [
            EnvRule(rng.choice(ENV_NAMES), rng.random() < 0.5, rng.random() < 0.3, f"f:{line}")
            for line in range(rng.randint(1, 6))
        ]
        table = EnvTable(rules)
        dead = {found.rule for found in overridden_env(rules)}
        deciding = {id(table.match(name)) for name in ENV_UNIVERSE}
        assert {number for number, rule in enumerate(rules) if id(rule) not in deciding} >= dead
        for gone in (dead, {number for number, _other in redundant_env(rules)}):
            left = EnvTable([rule for number, rule in enumerate(rules) if number not in gone])
            for name in ENV_UNIVERSE:
                was, now = (_env(each, name) for each in (table, left))
                assert was == now, (rules, gone, name)


def _env(table: EnvTable, name: str) -> tuple[bool, bool]:
    rule = table.match(name)
    return (rule is not None and rule.read, rule is not None and (rule.read or rule.substitute))


def net_rules(rng: random.Random) -> list[NetRule]:
    return [
        NetRule(
            rng.choice(["h.example", "i.example"]),
            rng.choice([None, None, "https", "http"]),
            rng.choice([None, None, 443, 8443]),
            rng.choice([None, None, "/a", "/a/b", "/c"]),
            allow=rng.random() < 0.6,
            source=f"f:{line}",
        )
        for line in range(rng.randint(1, 6))
    ]


def net_universe() -> Iterator[Target]:
    paths = [
        "/",
        "/a",
        "/a/",
        "/a/b",
        "/a/b/c",
        "/a/x",
        "/c",
        "/a%2Fb",
        "/x/..%2fa/b",
        "/a//b",
        "/A/b",
        "/c;x/y",
        "/c/%2F",
        "/a/b/%2F",
    ]
    for scheme in ("https", "http", "wss", "ws", "ftp", "odd"):
        for host in ("h.example", "i.example"):
            for port in ("", ":443", ":8443", ":80", ":9"):
                for path in paths:
                    target = parse_url(f"{scheme}://{host}{port}{path}")
                    if isinstance(target, Target):
                        yield target


NET_UNIVERSE = list(net_universe())


@pytest.mark.parametrize("seed", range(TRIALS // 100 or 1))
def test_network_rules_that_are_overridden_or_redundant_change_nothing(seed: int) -> None:
    rng = seeded(f"net {seed}")
    for _ in range(100):
        rules = net_rules(rng)
        table = NetTable(rules)
        winners = [table.match(target) for target in NET_UNIVERSE]
        dead = {found.rule for found in overridden_net(rules)}
        deciding = {id(rule) for rule in winners}
        assert {number for number, rule in enumerate(rules) if id(rule) not in deciding} == dead, rules
        for number, _other in redundant_net(rules):
            left = NetTable([rule for place, rule in enumerate(rules) if place != number])
            for target, was in zip(NET_UNIVERSE, winners, strict=True):
                now = left.match(target)
                assert (was is not None and was.allow) == (now is not None and now.allow), (rules, number, target)


def test_argument_lists_that_others_allow_are_named() -> None:
    command = CommandRule("cargo", (("check", "**"), ("check", "--all"), ("build",), ("build",)), source="f:1")
    access = with_defaults(STDIO, commands=CommandTable([command]))
    found = [(each.code, each.message) for each in lint_access("tools.t", access, WrittenRules(()))]
    assert found == [
        ("shadowed", "its args check ** allow check --all already"),
        ("duplicate", "its args list build twice"),
    ]
