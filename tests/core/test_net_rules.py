"""Which network rule decides, and where a connection may go. The cases are in cases/net.toml."""

import tomllib
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byleave.core.decision import ALLOW, DENY, RuleRef
from byleave.core.net_rules import (
    ANY_PUBLIC,
    NO_NET_RULE,
    NetAnswer,
    NetRule,
    NetTable,
    decide_net,
    hands_out_credentials,
    may_dial,
    refuse_public,
    specificity,
)
from byleave.core.url import BadUrl, Target, default_port, parse_url

CASES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parents[1] / "cases" / "net.toml").read_text("utf-8"))[
    "case"
]

HOST = "h.com"
ALLOWED = NetRule(HOST, allow=True)


def target(url: str) -> Target:
    parsed = parse_url(url)
    assert isinstance(parsed, Target), parsed
    return parsed


def answer_to(rules: list[NetRule], url: str) -> NetAnswer:
    parsed = parse_url(url)
    if isinstance(parsed, BadUrl):
        return NetAnswer(allowed=False, rule=None, problem=parsed.problem)
    return decide_net(NetTable(rules), parsed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_decides_as_the_case_says(case: dict[str, Any]) -> None:
    rules = [NetRule(**rule) for rule in case["rules"]]
    answer = answer_to(rules, case["url"])
    because = None if answer.rule is None else [rule is answer.rule for rule in rules].index(True)
    told = ("allow" if answer.allowed else "deny", because, answer.problem is not None)
    assert told == (case["expect"], case.get("because"), case.get("problem", False))


def test_an_empty_table_covers_nothing() -> None:
    assert NetTable([]).match(target("https://h.com/")) is None


@pytest.mark.parametrize(
    "rule",
    [
        NetRule("*.h.com", allow=True),
        NetRule("", allow=False),
        NetRule("h.com:80", allow=True),
        NetRule(HOST, path_prefix="/a%2Fb", allow=True),
        NetRule(HOST, path_prefix="/a/..;/..;/b", allow=True),
        NetRule(HOST, path_prefix="/../a", allow=False),
    ],
    ids=lambda rule: rule.text,
)
def test_a_rule_that_cannot_be_matched_makes_no_table(rule: NetRule) -> None:
    with pytest.raises(ValueError, match=r"\(inline\)"):
        NetTable([ALLOWED, rule])


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (NetRule(HOST), "deny h.com"),
        (NetRule(HOST, "https", 8443, "/repos", allow=True), "allow https://h.com:8443/repos"),
        (NetRule("::1", "http", 80, "x", allow=True, private=True), "allow http://[::1]:80/x (private)"),
        (NetRule("[::1]"), "deny [::1]"),
        (NetRule("h\x1b.com", path_prefix="/\u202e"), "deny h\\x1b.com/\\u202e"),
    ],
)
def test_a_rule_is_shown_in_a_few_words(rule: NetRule, text: str) -> None:
    assert rule.text == text


@pytest.mark.parametrize(
    ("rule", "components"),
    [
        (NetRule(HOST), 0),
        (NetRule(HOST, path_prefix="/"), 0),
        (NetRule(HOST, scheme="https"), 1),
        (NetRule(HOST, scheme="https", port=443, path_prefix="/a/b/", allow=True), 4),
        (NetRule(HOST, path_prefix="//a//b;v=1"), 2),
    ],
)
def test_specificity_counts_scheme_port_and_segments(rule: NetRule, components: int) -> None:
    assert specificity(rule) == components


def test_a_reference_names_the_rule_its_source_and_its_answer() -> None:
    rule = NetRule(HOST, allow=True, source="byleave.toml:7")
    assert NetTable.ref(rule, allowed=True) == RuleRef("allow h.com", "byleave.toml:7", ALLOW)
    assert NetTable.ref(rule, allowed=False) == RuleRef("allow h.com", "byleave.toml:7", DENY)
    assert NetTable.ref(None, allowed=False) == NO_NET_RULE


@pytest.mark.parametrize(
    ("rule", "has"),
    [
        (NetRule(HOST, path_prefix="/a", allow=True), True),
        (NetRule(HOST, path_prefix="/a"), True),
        (NetRule(HOST, path_prefix="/", allow=True), False),
        (NetRule(HOST, "https", 443, allow=True), False),
        (NetRule("other.com", path_prefix="/a", allow=True), False),
    ],
    ids=lambda given: given.text if isinstance(given, NetRule) else "",
)
def test_a_host_has_paths_if_any_of_its_rules_has_one(rule: NetRule, has: bool) -> None:  # noqa: FBT001 -- a case
    table = NetTable([ALLOWED, rule])
    assert (table.has_paths(HOST), table.has_paths("H.com."), table.has_paths("*")) == (has, has, False)


def test_the_cost_of_a_match_does_not_grow_with_the_rules() -> None:
    many = [NetRule(HOST, path_prefix=f"/r{number}/x", allow=number % 2 == 0) for number in range(20_000)]
    small, large = NetTable([ALLOWED, many[7]]), NetTable([ALLOWED, *many])
    asked = target("https://h.com/r7/x/y")
    assert small.match(asked) == large.match(asked) == many[7]
    assert seconds_for(large, asked) < 20 * seconds_for(small, asked)


def test_a_long_prefix_does_not_make_long_paths_slow() -> None:
    deep = "/a" * 10_000
    table = NetTable([ALLOWED, NetRule(HOST, path_prefix=deep)])
    start = process_time()
    assert table.match(target(f"https://h.com{deep}/b")) == NetRule(HOST, path_prefix=deep)
    assert process_time() - start < 1


def seconds_for(table: NetTable, asked: Target) -> float:
    start = process_time()
    for _ in range(2_000):
        table.match(asked)
    return process_time() - start


# What the rules of RFD 076 say, read one by one.


def covers(rule: NetRule, asked: Target) -> bool:
    port = default_port(asked.scheme) if rule.port is None else rule.port
    path = tuple(part for part in (rule.path_prefix or "").split("/") if part)
    return (
        rule.host == asked.host
        and rule.scheme in (None, asked.scheme)
        and port == asked.port
        and asked.segments[: len(path)] == path
    )


def linear_match(rules: list[NetRule], asked: Target) -> NetRule | None:
    winner = None
    for rule in rules:
        if covers(rule, asked) and (winner is None or specificity(rule) >= specificity(winner)):
            winner = rule
    return winner


hosts = st.sampled_from(["h.com", "g.com", "127.0.0.1"])
schemes = st.sampled_from(["http", "https", "gopher"])
ports = st.sampled_from([None, 80, 443, 70])
paths = st.lists(st.sampled_from(["a", "b", "c"]), max_size=4).map(lambda parts: "/" + "/".join(parts))
rule_values = st.builds(
    NetRule,
    host=hosts,
    scheme=st.none() | schemes,
    port=ports,
    path_prefix=st.none() | paths,
    allow=st.booleans(),
    source=st.uuids().map(str),
)
rule_lists = st.lists(rule_values, max_size=12)
odd_paths = st.lists(
    st.sampled_from(
        ["a", "b", "c", "/", "//", "..", ".", ";", "%2e", "%2F", "%5c", "%00", "%61", "%25", "%", "é", "2e"]
    ),
    max_size=9,
).map("".join)


def url_of(scheme: str, host: str, port: int | None, path: str) -> str:
    return f"{scheme}://{host}{'' if port is None else f':{port}'}/{path.removeprefix('/')}"


ordinary_urls = st.builds(url_of, schemes, hosts, ports, paths)
odd_urls = st.builds(url_of, schemes, hosts, ports, odd_paths)


@settings(deadline=None)
@given(rule_lists, ordinary_urls)
def test_the_index_agrees_with_reading_the_rules_one_by_one(rules: list[NetRule], url: str) -> None:
    asked = target(url)
    assert NetTable(rules).match(asked) is linear_match(rules, asked)


@settings(deadline=None)
@given(rule_lists, rule_values, st.integers(0, 12), odd_urls)
def test_adding_a_denying_rule_never_loosens(rules: list[NetRule], rule: NetRule, place: int, url: str) -> None:
    deny = rule.replace(allow=False)
    if answer_to([*rules[:place], deny, *rules[place:]], url).allowed:
        assert answer_to(rules, url).allowed


@settings(deadline=None)
@given(rule_lists, odd_urls)
def test_an_odd_spelling_is_never_allowed_where_its_literal_form_is_denied(rules: list[NetRule], url: str) -> None:
    parsed = parse_url(url)
    if isinstance(parsed, Target) and answer_to(rules, url).allowed:
        literal = linear_match(rules, parsed)
        assert literal is not None
        assert literal.allow


@settings(deadline=None)
@given(paths, odd_urls)
def test_what_a_prefix_grants_lies_below_it_in_every_reading(prefix: str, url: str) -> None:
    parsed = parse_url(url)
    rule = NetRule("h.com", path_prefix=prefix, allow=True)
    if isinstance(parsed, Target) and decide_net(NetTable([rule]), parsed).allowed:
        path = tuple(part for part in prefix.split("/") if part)
        ways = (parsed.segments, parsed.plain, *parsed.readings)
        assert {way[: len(path)] for way in ways} == {path}


PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "2002:5db8:d822::1", "64:ff9b::5db8:d822", "::ffff:8.8.8.8"]
LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"]
PRIVATE = [
    "0.0.0.0",  # noqa: S104 -- an address to refuse, not to bind
    "10.1.2.3",
    "100.64.0.1",
    "169.254.1.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::7f00:1",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "2001:0:4136:e378::1",
    "2002:a00:1::1",
    "2002:7f00:1::",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "::ffff:10.0.0.1",
]
CREDENTIALS = [
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "fd00:ec2::254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd20:ce::254",
    "fd00:42::42",
    "64:ff9b::a83f:8110",
    "64:ff9b:1::a9fe:a9fe",
    "fd12:3456::a9fe:a9fe",
    "2a01:4f8::a9fe:a9fe",
    "::ffff:0:a9fe:a9fe",
    "fe80::a9fe:a9fe",
]
NO_ADDRESS = ["", "h.com", "127.1", "0177.0.0.1", "fe80::1%eth0", "[::1]", "1.2.3.4 ", "1.2.3.4:80", "\u0661.1.1.1"]
OPEN = ALLOWED.replace(private=True)
LOCAL = NetRule("localhost", allow=True)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_dialled(address: str) -> None:
    assert may_dial(ALLOWED, address)


@pytest.mark.parametrize("address", [*PRIVATE, *LOOPBACK])
def test_an_address_that_is_not_public_needs_a_rule_that_says_so(address: str) -> None:
    assert (may_dial(ALLOWED, address), may_dial(OPEN, address)) == (False, True)


@pytest.mark.parametrize("address", [*PRIVATE, *LOOPBACK, *CREDENTIALS])
def test_a_rule_for_the_very_address_suffices(address: str) -> None:
    assert may_dial(NetRule(address, allow=True), address)


@pytest.mark.parametrize("address", LOOPBACK)
def test_localhost_may_be_a_loopback_address(address: str) -> None:
    assert may_dial(LOCAL, address)


@pytest.mark.parametrize("address", [*PRIVATE, *CREDENTIALS])
def test_localhost_may_be_no_other_private_address(address: str) -> None:
    assert not may_dial(LOCAL, address)


@pytest.mark.parametrize("address", CREDENTIALS)
def test_credentials_of_the_machine_are_reached_only_by_their_address(address: str) -> None:
    assert not may_dial(OPEN, address)


def test_an_address_that_hands_out_credentials_is_not_public_where_all_public_ones_are_open() -> None:
    assert not may_dial(ANY_PUBLIC, "168.63.129.16")
    assert may_dial(ANY_PUBLIC, "168.63.129.17")
    assert refuse_public(target("http://168.63.129.16/machine?comp=goalstate"), None) == "it is not a public address"


@pytest.mark.parametrize("address", NO_ADDRESS)
def test_what_is_no_address_is_not_dialled(address: str) -> None:
    assert not may_dial(OPEN, address)
    assert not hands_out_credentials(address)


def test_a_denying_rule_and_no_rule_dial_nothing() -> None:
    assert not may_dial(NetRule(HOST, private=True), "8.8.8.8")
    assert not may_dial(None, "8.8.8.8")
