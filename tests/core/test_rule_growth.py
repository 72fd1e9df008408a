"""However many rules a policy has, only those that can speak of a file or a URL are asked, and they say the same."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
import byleave
from byleave.core.fs_rules import FsTarget
from byleave.core.match_context import MatchContext
from byleave.core.matchers import PathMatcher, UrlMatcher
from byleave.core.rules import RuleTable
from byleave.core.url import Target, parse_url

HOSTS = [
    "a.example", "A.example.", "b.example", "127.0.0.1", "[::1]", "::1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]",
    "bücher.example", "xn--bcher-kva.example", "BÜCHER.example.", "0:0::1", "localhost", "straße.example",
    "a.b_c.example",
]  # fmt: skip
simple = st.one_of(
    st.sampled_from(["a", "src/**", "**/.env", "*.pem", "A/b", "~/x"]).map(lambda path: {"path": path}),
    st.sampled_from(HOSTS).map(lambda host: {"url": {"host": host}}),
    st.sampled_from(["/p", "/q/r"]).map(lambda prefix: {"url": {"path_prefix": prefix, "host": "a.example"}}),
    st.just({"url": {"scheme": "https"}}),
    st.sampled_from([("port", 8443), ("scheme", "http"), ("method", "POST")]).map(
        lambda more: {"url": dict([("host", "127.1"), more])}
    ),
    st.sampled_from(["fetch", "read", "edit"]).map(lambda kind: {"operation": kind}),
    st.just({"agent": "x"}),
)
matchers = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda each: {"any": each}),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: {"all": each}),
        inner.map(lambda each: {"not": each}),
    ),
    max_leaves=5,
)
rules = st.lists(st.tuples(st.sampled_from(["allow", "ask", "deny"]), matchers), min_size=9, max_size=16)
FILES = ["a", "src", "src/x", "A/B", "deep/.env", "k.pem", "other"]
URLS = [
    "https://a.example/p/x", "http://b.example/", "https://127.0.0.1/q/r", "https://[::1]/", "https://c.example/",
    "https://0x7f.1/", "http://2130706433:8443/", "https://[::FFFF:7f00:1]/", "https://user:pw@A.EXAMPLE./p",
    "https://BÜCHER.example/", "https://xn--bcher-kva.example:443/", "ftp://localhost/", "ws://127.1:8443/",
    "https://a.example:8443/p/../q", "https://[0:0::1]:443/", "other://b.example/", "https://strasse.example/",
]  # fmt: skip


def tables(given_rules: list[dict[str, Any]], root: str) -> list[RuleTable]:
    return list(byleave.compile_policy({"rules": given_rules}, root=root).compiled.policy.rule_tables())


def target_of(url: str) -> Target:
    target = parse_url(url)
    assert isinstance(target, Target)
    return target


def subjects(root: str) -> list[MatchContext]:
    found = [MatchContext("read", "x", op="read", file=FsTarget(f"{root}/{path}", path)) for path in FILES]
    found += [each.replace(below=True) for each in found]
    found += [each.replace(op="update", operation="edit", agent="y") for each in found]
    for url in URLS:
        for method in (None, "post"):
            found.append(MatchContext("fetch", "x", url=target_of(url), method=method))
    return found


@settings(max_examples=amounts.of(600, 60), deadline=None)
@given(rules)
def test_rules_that_are_found_say_what_all_rules_say(
    tmp_path_factory: pytest.TempPathFactory, given_rules: list[tuple[str, dict[str, Any]]]
) -> None:
    root = str(tmp_path_factory.getbasetemp())
    try:
        made = tables([{outcome: matcher} for outcome, matcher in given_rules], root)
    except byleave.ConfigError:
        return
    for table in made:
        for subject in subjects(root):
            answers = table.decide(subject), table.decide(subject, restricting_only=True), table.could_allow(subject)
            with patch.object(RuleTable, "_candidates", lambda self, _subject: self.rules):
                plainly = (
                    table.decide(subject),
                    table.decide(subject, restricting_only=True),
                    table.could_allow(subject),
                )
            assert plainly == answers


def test_only_rules_that_can_match_are_asked(tmp_path: Any) -> None:
    asked = []
    for count in (100, 1000):
        given_rules: list[dict[str, Any]] = [
            {"allow": {"url": {"host": f"host{number}.example"}}} for number in range(count)
        ]
        given_rules += [{"deny": {"path": f"area{number}/**"}} for number in range(count)]
        (table,) = tables(given_rules, str(tmp_path))
        seen = 0
        for kind in (PathMatcher, UrlMatcher):
            plain = kind.match

            def counted(self: Any, *args: Any, plain: Any = plain, **named: Any) -> Any:
                nonlocal seen
                seen += 1
                return plain(self, *args, **named)

            with patch.object(kind, "match", counted):
                table.decide(MatchContext("read", op="read", file=FsTarget(f"{tmp_path}/area5/x", "area5/x")))
                table.decide(MatchContext("fetch", url=target_of("https://host5.example/")))
        asked.append(seen)
    assert asked == [2, 2]


def test_a_rule_is_found_under_the_name_that_its_link_leads_to(tmp_path: Any) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    others: list[dict[str, Any]] = [{"deny": {"path": f"area{number}/**"}} for number in range(20)]
    (table,) = tables([{"ask": {"path": "link/x"}}, *others, {"allow": {"path": "**"}}], str(tmp_path))
    for path, expected in (("real/x", "ask"), ("real/y", "allow"), ("area7/y", "deny")):
        subject = MatchContext("read", op="read", file=FsTarget(f"{tmp_path}/{path}", path))
        assert str(table.decide(subject).decision) == expected
