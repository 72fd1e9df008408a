"""What the gateway counts is what Prometheus reads, and nobody outside can make it grow."""

import re
from collections import Counter

from byleave.gateway.metrics import BUCKETS, DECISIONS, OUTCOMES, Metrics

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? ([0-9.e+-]+)')


def samples(metrics: Metrics) -> dict[str, float]:
    """Return the samples by name and labels, read as strictly as the format is written down."""
    found: dict[str, float] = {}
    for line in metrics.text().removesuffix("\n").split("\n"):
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP [a-z_]+ [^\n]+|TYPE [a-z_]+ (counter|gauge|histogram))", line)
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        key = line.rpartition(" ")[0]
        assert key not in found
        found[key] = float(match[3])
    return found


def gateway() -> Metrics:
    metrics = Metrics()
    metrics.configured(servers=["shop", "db"], agents=["backend"])
    return metrics


def test_calls_are_counted_by_server_agent_decision_and_outcome() -> None:
    metrics = gateway()
    for _ in range(3):
        metrics.called("shop", "backend", "allow", "ok", 0.003)
    metrics.called("db", None, "deny", "refused")
    found = {key: value for key, value in samples(metrics).items() if "calls_total" in key}
    assert found == {
        'byleave_mcp_calls_total{server="shop",agent="backend",decision="allow",outcome="ok"}': 3,
        'byleave_mcp_calls_total{server="db",agent="other",decision="deny",outcome="refused"}': 1,
    }


def test_a_duration_counts_in_its_bucket_and_all_above() -> None:
    metrics = gateway()
    for seconds in (0.001, 0.0011, 4.0, 1e9):
        metrics.called("shop", "backend", "allow", "ok", seconds)
    found = samples(metrics)
    counts = [found[f'byleave_mcp_call_seconds_bucket{{server="shop",le="{bound:g}"}}'] for bound in BUCKETS]
    assert counts == [1, *[2] * 10, *[3] * 5]
    assert found['byleave_mcp_call_seconds_bucket{server="shop",le="+Inf"}'] == 4
    assert found['byleave_mcp_call_seconds_count{server="shop"}'] == 4
    assert found['byleave_mcp_call_seconds_sum{server="shop"}'] == 1_000_000_004.0021


def test_nobody_can_make_it_grow_by_inventing_names() -> None:
    metrics = gateway()
    for number in range(2000):
        name = f"x{number}"
        metrics.called(name, name, name, name, 0.1)
        metrics.restarted(name)
        metrics.is_up(name, up=True)
    names = Counter(key.partition("{")[0] for key in samples(metrics))
    assert names["byleave_mcp_calls_total"] == names["byleave_mcp_server_restarts_total"] == 1
    assert names["byleave_mcp_server_up"] == 0


def test_whatever_a_name_holds_it_stays_inside_of_its_label() -> None:
    metrics = Metrics()
    name = 'a"} 1\nbyleave_mcp_sessions 99\\ \udc80'
    metrics.configured(servers=[name], agents=[name])
    metrics.called(name, name, "allow", "ok")
    metrics.is_up(name, up=False)
    found = samples(metrics)
    assert found["byleave_mcp_sessions"] == 0
    assert found['byleave_mcp_server_up{server="a\\"} 1\\nbyleave_mcp_sessions 99\\\\ ?"}'] == 0


def test_gauges_and_counters_say_how_it_stands() -> None:
    metrics = gateway()
    metrics.sessions, metrics.open_calls, metrics.hidden_tools = 3, 2, 1
    metrics.is_up("shop", up=True)
    metrics.is_up("db", up=False)
    metrics.restarted("db")
    metrics.reloaded(worked=True)
    assert samples(metrics) == {
        "byleave_mcp_sessions": 3,
        "byleave_mcp_open_calls": 2,
        "byleave_mcp_hidden_tools": 1,
        'byleave_mcp_server_up{server="shop"}': 1,
        'byleave_mcp_server_up{server="db"}': 0,
        'byleave_mcp_server_restarts_total{server="db"}': 1,
        'byleave_mcp_policy_reloads_total{outcome="ok"}': 1,
        'byleave_mcp_policy_reloads_total{outcome="failed"}': 0,
    }


def test_a_server_that_is_configured_no_more_is_neither_up_nor_down() -> None:
    metrics = gateway()
    metrics.is_up("db", up=True)
    metrics.configured(servers=["shop"], agents=[])
    assert 'byleave_mcp_server_up{server="db"}' not in samples(metrics)


def test_every_word_of_ours_is_a_label_of_its_own() -> None:
    metrics = gateway()
    for decision in DECISIONS:
        for outcome in OUTCOMES:
            metrics.called("shop", "backend", decision, outcome)
    counted = [key for key in samples(metrics) if "calls_total" in key]
    assert len(counted) == len(DECISIONS) * len(OUTCOMES)
    assert not any("other" in key for key in counted)
