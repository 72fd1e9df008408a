"""Calls per minute."""

import pytest

from byleave.gateway import limits
from byleave.gateway.limits import Buckets


def test_a_minutes_calls_may_come_at_once_and_then_at_an_even_pace() -> None:
    buckets = Buckets(60)
    assert [buckets.take("a", 0.0) for _ in range(60)] == [0.0] * 60
    assert buckets.take("a", 0.0) == pytest.approx(1.0)
    assert buckets.take("a", 0.25) == pytest.approx(0.75)
    assert buckets.take("a", 1.0) == 0.0
    assert buckets.take("a", 1.0) > 0


def test_agents_do_not_use_up_each_others_calls() -> None:
    buckets = Buckets(1)
    assert (buckets.take("a", 0.0), buckets.take("b", 0.0)) == (0.0, 0.0)
    assert buckets.take("a", 0.0) == pytest.approx(60.0)


def test_waiting_never_saves_up_more_than_a_minutes_calls() -> None:
    buckets = Buckets(2)
    assert buckets.take("a", 0.0) == 0.0
    assert [buckets.take("a", 9999.0) == 0.0 for _ in range(3)] == [True, True, False]


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    buckets = Buckets(1)
    assert buckets.take("a", 100.0) == 0.0
    assert buckets.take("a", 0.0) > 0
    assert buckets.take("a", 30.0) > 0


def test_without_a_rate_there_is_no_limit() -> None:
    buckets = Buckets(None)
    assert {buckets.take("a", 0.0) for _ in range(1000)} == {0.0}


def test_claiming_ever_new_names_gives_no_ever_new_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST", 10)
    buckets = Buckets(1)
    allowed = [buckets.take(f"name-{number}", 0.0) == 0.0 for number in range(100)]
    assert sum(allowed) == 11  # ten of their own, and one that all others share
    assert buckets.take("name-101", 120.0) == 0.0  # by then the first ones are forgotten
