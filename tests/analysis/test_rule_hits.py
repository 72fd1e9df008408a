"""Hits belong to a rule by its text, its family and its tool; where the line is does not matter."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from byleave.analysis.coverage import WrittenRule
from byleave.analysis.rule_hits import RuleHit, RuleHits

PUSH = WrittenRule("rules", "allow git push", "byleave.toml:9")
SRC = WrittenRule("fs", "fs src: read", "byleave.toml:20", "editor")
SAME = WrittenRule("fs", "fs src: read", "byleave.toml:30", "reader")


def record(
    rule: str,
    source: str,
    action: dict[str, Any],
    time: str = "2026-01-01T00:00:00Z",
    event: str = "decision",
    **more: Any,
) -> str:
    because = [{"rule": rule, "source": source, "decision": "allow"}, *more.pop("also", [])]
    verdict = {"decision": "allow", "reason": "r", "code": "ok", "because": because, **more}
    return json.dumps({"sequence": 1, "time": time, "event": event, "action": action, "verdict": verdict})


COMMAND = {"kind": "command", "command": "git push"}


def test_a_hit_follows_the_rule_and_not_its_line() -> None:
    hits = RuleHits([PUSH, SRC])
    hits.take(record("allow git push", "byleave.toml:9", COMMAND, "2026-01-02T00:00:00Z"))
    hits.take(record("allow git push", "byleave.toml:700", COMMAND, "2026-01-01T00:00:00Z"))
    assert hits.of(PUSH) == RuleHit(2, "2026-01-02T00:00:00Z")
    assert hits.of(SRC) == RuleHit(0, None)


def test_a_rule_of_a_tool_is_hit_by_that_tool_alone() -> None:
    hits = RuleHits([SRC, SAME])
    hits.take(record("fs src: read", "byleave.toml:20", {"kind": "read", "path": "src/a", "tool": "reader"}))
    hits.take(record("fs src: read", "byleave.toml:20", {"kind": "read", "path": "src/a"}))
    hits.take(record("fs src: read", "byleave.toml:20", {"kind": "url", "url": "x", "tool": "editor"}))
    assert (hits.of(SRC).hits, hits.of(SAME).hits) == (0, 1)


def test_of_rules_with_the_same_text_the_place_decides() -> None:
    twin = WrittenRule("rules", "allow git push", "byleave.toml:12")
    hits = RuleHits([PUSH, twin])
    for source in ("byleave.toml:12", "byleave.toml:12", "elsewhere:1"):
        hits.take(record("allow git push", source, COMMAND))
    assert (hits.of(PUSH).hits, hits.of(twin).hits) == (1, 2)


def test_every_rule_that_a_line_of_commands_hangs_on_is_hit_and_no_other() -> None:
    status = WrittenRule("rules", "allow git status", "byleave.toml:2")
    other = WrittenRule("rules", "allow make", "byleave.toml:3")
    also = [{"rule": rule.rule, "source": rule.source, "decision": "allow"} for rule in (status, other)]
    parts = [{"text": "x", "decision": "allow", "why": "", "source": rule.source} for rule in (PUSH, status)]
    hits = RuleHits([PUSH, status, other])
    hits.take(record("allow git push", "byleave.toml:9", COMMAND, also=also, parts=parts))
    hits.take(record("allow git push", "byleave.toml:9", COMMAND, also=also, parts=parts[:1]))
    assert [hits.of(rule).hits for rule in (PUSH, status, other)] == [2, 1, 0]


def test_only_decisions_count() -> None:
    hits = RuleHits([PUSH])
    hits.take(record("allow git push", "byleave.toml:9", COMMAND, event="effect"))
    assert (hits.records, hits.of(PUSH).hits) == (0, 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["event", "time", "action", "verdict", "because", "parts", "decision", "rule", "source"]
                ),
                inner,
            )
        ),
    )
)
def test_a_record_of_any_shape_is_survived(tree: Any) -> None:
    hits = RuleHits([PUSH])
    hits.take(json.dumps(tree))
    hits.take(json.dumps({"event": "decision", "time": "", "verdict": tree}))
    hits.take(json.dumps({"event": "decision", "time": "", "verdict": {"because": tree, "parts": tree}, "action": {}}))
    hits.take("{")
    assert hits.of(PUSH).hits == 0
