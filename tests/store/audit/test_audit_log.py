"""What is appended is kept at once, and found again: masked, bounded, in order, by every filter."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from audit_room import Room, fields
from byleave.core.redact import Redactor
from byleave.errors import InputError, StateError
from byleave.store.audit.chain import EMPTY
from byleave.store.audit.query import Filter


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "state/workspaces/id")


def test_nothing_is_written_before_the_first_record(room: Room) -> None:
    log = room.log()
    assert (list(log.query(Filter())), log.head(), log.verify().ok, log.get(1)) == ([], EMPTY, True, None)
    log.fold()
    log.fold_later()
    assert not room.directory.exists()


def test_a_record_comes_back_as_it_was_given_with_a_number_and_a_time(room: Room) -> None:
    log = room.log(now=lambda: 1_700_000_000_123_456_789)
    assert [log.append(fields(n)) for n in range(3)] == [1, 2, 3]
    kept = log.get(2)
    assert kept is not None
    assert kept.tree == {"sequence": 2, "time": "2023-11-14T22:13:20.123456Z", **fields(1)}
    assert list(kept.tree)[:2] == ["sequence", "time"]


def test_the_caller_cannot_set_number_and_time(room: Room) -> None:
    log = room.log()
    log.append({"sequence": 77, "time": "never", "event": "x"})
    tree = next(log.query(Filter())).tree
    assert (tree["sequence"], tree["time"] != "never", log.append({})) == (1, True, 2)


def test_everything_is_private(room: Room) -> None:
    room.filled()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in room.directory.iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(room.directory.stat().st_mode) == 0o700


def test_the_table_is_ordinary_and_readable(room: Room) -> None:
    room.filled(10)
    connection = sqlite3.connect(room.file("db"))
    row = connection.execute("SELECT kind, path, decision, agent, door FROM records WHERE sequence = 10").fetchone()
    text = connection.execute("SELECT record FROM records WHERE sequence = 10").fetchone()[0]
    connection.close()
    assert row == ("read", "src/d0/f9.py", "deny", "claude-code", "hook")
    assert json.loads(text)["action"]["path"] == "src/d0/f9.py"


def test_the_journal_is_empty_after_a_fold_and_numbers_go_on(room: Room) -> None:
    log = room.filled(3)
    assert (room.file("journal").stat().st_size, room.log().append(fields()), log.append(fields())) == (0, 4, 5)
    assert (room.numbers(), room.problems()) == ([1, 2, 3, 4, 5], [])


def test_secrets_are_masked_in_keys_and_values(room: Room) -> None:
    log = room.log(mask=Redactor(["hunter-2-hunter"]))
    log.append({"event": "x", "action": {"hunter-2-hunter": ["a hunter-2-hunter b"], "password": "abc"}})
    log.append({"event": "y", "action": {"command": b"bytes hunter-2-hunter", 5: {"x", "hunter-2-hunter"}}})
    log.fold()
    stored = b"".join(path.read_bytes() for path in room.directory.iterdir())
    assert (b"hunter" in stored, stored.count(b"[REDACTED]") >= 5) == (False, True)


DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = CIRCLE
ODD = {
    "a byte that is not UTF-8": ("caf\udce9", "caf\\xe9"),
    "half a character": ("\ud800", "\\ud800"),
    "beyond 16 bits": ("\U0001f600", "\U0001f600"),
    "newlines": ("a\nb\r\0c", "a\nb\r\0c"),
    "line separators": ("\u2028\u2029", "\u2028\u2029"),
    "bytes": (b"\xff", "b'\\xff'"),
    "infinity": (float("inf"), "inf"),
    "a long number": (1 << 300, 1 << 300),
    "a very long number": (1 << 30_000, hex(1 << 30_000)),
}


@pytest.mark.parametrize(("value", "expect"), ODD.values(), ids=ODD.keys())
def test_odd_values_are_kept_readable(value: Any, expect: Any, room: Room) -> None:
    log = room.log()
    log.append(fields(action={"kind": "read", "path": value}))
    tree = next(log.query(Filter())).tree
    assert (tree["action"]["path"], room.problems()) == (expect, [])


@pytest.mark.parametrize(
    "value", [DEEP, CIRCLE, "x" * (5 << 20), ["y" * 100] * 100_000], ids=["deep", "circle", "long", "many"]
)
def test_what_is_too_deep_or_too_long_is_cut(value: Any, room: Room) -> None:
    log = room.log()
    log.append({"event": "x", "action": value})
    kept = next(log.query(Filter()))
    assert len(kept.text) < 3 << 20
    assert (kept.tree["event"], room.problems()) == ("x", [])


FILTERS: dict[str, tuple[Filter, list[int]]] = {
    "all": (Filter(), list(range(1, 31))),
    "the newest": (Filter(limit=2), [29, 30]),
    "none": (Filter(limit=0), []),
    "a decision": (Filter(decision="deny"), [10, 20, 30]),
    "the newest of a decision": (Filter(decision="deny", limit=2), [20, 30]),
    "an agent": (Filter(agent="codex"), [8, 16, 24]),
    "agents": (Filter(agent="c*", limit=3), [28, 29, 30]),
    "no agent": (Filter(agent="nobody*"), []),
    "agents by a letter": (Filter(agent="code?"), [8, 16, 24]),
    "a door": (Filter(door="acp"), [7, 14, 21, 28]),
    "a tool": (Filter(tool="none"), []),
    "a kind": (Filter(kind="read", limit=1), [30]),
    "a session": (Filter(session="other"), [11, 22]),
    "a path": (Filter(path="src/d0/f3.py"), [4]),
    "a directory": (Filter(path="src/d1/**", limit=2), [26, 29]),
    "any depth": (Filter(path="**/f2?.py", limit=3), [28, 29, 30]),
    "a class": (Filter(path="src/d[!01]/f[2].py"), [3]),
    "one level only": (Filter(path="src/*"), []),
    "the whole tree": (Filter(path="**"), list(range(1, 31))),
    "a place and a decision": (Filter(path="src/**", decision="deny", limit=1), [30]),
    "another case": (Filter(path="SRC/**"), []),
    "a text": (Filter(text="about 7"), [8]),
    "a text that is not there": (Filter(text="about %"), []),
    "since": (Filter(since="2023-11-14T22:13:48"), [28, 29, 30]),
    "until": (Filter(until="2023-11-14T22:13:22.5"), [1, 2]),
    "between": (Filter(since="2023-11-14T22:13:22", until="2023-11-14T22:13:24Z"), [2, 3, 4]),
    "after a number": (Filter(after=28), [29, 30]),
}


def differing(number: int) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if number % 8 == 7:
        more["agent"] = "codex"
    if number % 7 == 6:
        more["door"] = "acp"
    if number % 11 == 10:
        more["session"] = "other"
    return fields(number, **more)


@pytest.mark.parametrize(("wanted", "expect"), FILTERS.values(), ids=FILTERS.keys())
def test_a_filter_finds_the_newest_that_match(wanted: Filter, expect: list[int], room: Room) -> None:
    seconds = iter(range(1_700_000_001, 1_700_000_100))
    log = room.log(now=lambda: next(seconds) * 10**9)
    for number in range(30):
        log.append(differing(number))
    assert [kept.sequence for kept in log.query(wanted)] == expect


def test_a_path_below_the_root_is_found_however_it_was_written(room: Room) -> None:
    log = room.log()
    for path in ("/ws/src/a", "src/a", "/ws/src[x]/a", "/else/src/a", "/ws/src"):
        log.append(fields(action={"kind": "read", "path": path}))
    found = {
        pattern: [kept.sequence for kept in log.query(Filter(path=pattern, root="/ws"))]
        for pattern in ("src/**", "/ws/**", "**/a", "/else/src/*")
    }
    assert found == {"src/**": [1, 2, 5], "/ws/**": [1, 3, 5], "**/a": [1, 2, 3], "/else/src/*": [4]}


def test_a_pattern_that_is_none_is_refused(room: Room) -> None:
    with pytest.raises(InputError, match="is no glob for paths"):
        list(room.filled().query(Filter(path="a/../b")))


def test_a_thread_folds_while_the_process_stays(room: Room) -> None:
    log = room.log()
    log.start()
    log.append(fields())
    until = time.monotonic() + 20
    while room.file("journal").stat().st_size and time.monotonic() < until:
        time.sleep(0.02)
    assert room.file("journal").stat().st_size == 0
    log.append(fields())
    log.close()
    assert (room.file("journal").stat().st_size, log.warnings, room.numbers()) == (0, [], [1, 2])


LATER = """
import os, sys, time
sys.path[:0] = sys.argv[2:]
from byleave.store.audit.log import AuditLog
from audit_room import fields
log = AuditLog(sys.argv[1])
log.append(fields())
started = time.perf_counter()
log.fold_later()
log.append(fields())
log.fold_later()
took = time.perf_counter() - started
try:
    os.waitpid(-1, os.WNOHANG)
    print("a child is left")
except ChildProcessError:
    print("no child is left")
print("text that is still in the buffer", end="")
"""


def test_a_process_that_goes_leaves_the_fold_to_a_child(room: Room) -> None:
    here = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", LATER, str(room.directory), here], capture_output=True, text=True, timeout=30, check=True
    )
    assert (done.stdout, done.stderr) == ("no child is left\ntext that is still in the buffer", "")
    until = time.monotonic() + 20
    while room.file("journal").stat().st_size and time.monotonic() < until:
        time.sleep(0.02)
    connection = sqlite3.connect(room.file("db"))
    assert connection.execute("SELECT COUNT(*) FROM records").fetchone() == (2,)
    connection.close()


def test_a_forked_child_appends_by_itself(room: Room) -> None:
    log = room.filled(1)
    log.append(fields())
    with log._journal:  # noqa: SLF001 -- the parent holds the lock at this very moment
        child = os.fork()
        if child == 0:
            code = 0 if log.append(fields()) == 3 else 1
            os._exit(code)
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    assert os.waitpid(child, 0)[1] == 0
    assert (log.append(fields()), room.numbers(), room.problems()) == (4, [1, 2, 3, 4], [])


@pytest.mark.parametrize("name", ["journal", "head", "lock"])
def test_a_log_that_others_could_have_written_is_refused(name: str, room: Room) -> None:
    room.filled()
    room.file(name).chmod(0o666)
    with pytest.raises(StateError, match="can be written by others"):
        room.log().append(fields())
    assert room.problems() != []


@pytest.mark.parametrize("name", ["journal", "head", "lock"])
def test_a_log_behind_a_link_is_refused(name: str, room: Room) -> None:
    room.filled()
    room.file(name).rename(room.directory / "real")
    room.file(name).symlink_to("real")
    with pytest.raises(StateError, match="cannot be written"):
        room.log().append(fields())


def test_a_tree_that_holds_itself_is_kept_in_a_process_that_stays(room: Room) -> None:
    log = room.log()
    log.start()
    tree: list[object] = [1]
    tree.append(tree)
    log.append(fields(1) | {"action": {"tree": tree}})
    log.close()
    assert log.verify().records == 1
