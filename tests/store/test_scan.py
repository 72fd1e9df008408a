"""A log is read from one end to the other in bounded steps: nothing twice, nothing left out."""

import json
from pathlib import Path

import pytest

from byleave.core.redact import Redactor
from byleave.store.audit import scan
from byleave.store.audit.log import AuditLog


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    clock = iter(range(1, 100))
    log = AuditLog(str(tmp_path / "state"), mask=Redactor(), now=lambda: next(clock) * 60 * 10**9)
    (tmp_path / "state").mkdir(mode=0o700)
    for number in range(10):
        log.append({"event": "decision", "note": f"about {number}", "odd": number % 2 == 1})
    return log


@pytest.mark.parametrize("step", [1, 3, 10, 100])
def test_every_record_comes_once_and_in_order(log: AuditLog, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_STEP", step)
    heard: list[tuple[int, int]] = []
    found = list(log.scan(report=lambda done, total: heard.append((done, total))))
    assert [sequence for sequence, _text in found] == list(range(1, 11))
    assert [json.loads(text)["note"] for _sequence, text in found] == [f"about {number}" for number in range(10)]
    assert all(0 < done <= total for done, total in heard)


def test_only_records_that_hold_a_mark_come_each_once(log: AuditLog) -> None:
    found = list(log.scan(holding=('"odd":true', "about 3", "about 4")))
    assert [sequence for sequence, _text in found] == [2, 4, 5, 6, 8, 10]


def test_it_begins_at_a_time(log: AuditLog) -> None:
    times = [json.loads(text)["time"] for _sequence, text in log.scan()]
    assert [sequence for sequence, _text in log.scan(since=times[6])] == [7, 8, 9, 10]
    assert list(log.scan(since="2999-01-01T00:00:00Z")) == []


def test_a_log_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert list(AuditLog(str(tmp_path / "none")).scan()) == []
