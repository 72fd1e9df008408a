"""`byleave audit`, as users run it."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from audit_room import Room, fields
from byleave.cli.output import width_of
from byleave.policy.dirs import find_homes
from command import COMMAND, at_terminal, byleave


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return (tmp_path / "ws").resolve()


@pytest.fixture
def room(root: Path) -> Room:
    return Room(Path(find_homes(os.environ).workspace(str(root))))


def run(root: Path, *words: str, env: Mapping[str, str | None] | None = None) -> Any:
    done = byleave("audit", *words, cwd=root, env=env)
    assert "Traceback" not in done.err
    return done


def test_an_empty_log_is_said_so_and_nothing_is_written(root: Path, room: Room) -> None:
    answers = [run(root, word) for word in ("list", "verify", "head", "export")]
    assert [(done.code, done.out, done.err) for done in answers] == [
        (0, "there are no records yet\n", ""),
        (0, "ok: there are no records yet\n", ""),
        (0, f"0:{'0' * 64}\n", ""),
        (0, "", ""),
    ]
    assert json.loads(run(root, "verify", "--json").out)["ok"] is True
    assert not room.directory.exists()


def test_list_shows_who_did_what_and_which_rule_decided(root: Path, room: Room) -> None:
    log = room.filled(10)
    log.append(fields(agent=None, action={"kind": "command", "command": "echo \x1b[31m" + "x" * 300}))
    lines = run(root, "list", env={"COLUMNS": "120"}).out.splitlines()
    assert (len(lines), max(len(line) for line in lines) <= 120) == (12, True)
    assert all(
        word in lines[10] for word in ("10", "deny", "hook", "claude-code", "read src/d0/f9.py", "byleave.toml:3")
    )
    assert ("\\x1b[31mx" in lines[11], "…" in lines[11], "\x1b" in lines[11]) == (True, True, False)


def test_a_program_that_reads_the_list_gets_all_of_it(root: Path, room: Room) -> None:
    log = room.filled(1)
    log.append(fields(agent="a" * 40, action={"kind": "command", "command": "echo \x1b[31m" + "x" * 300}))
    first, second = run(root, "list", env={"COLUMNS": None}).out.splitlines()[1:]
    assert ("x" * 300 in second, "a" * 40 in second) == (True, True)
    assert ("…" in first + second, "\x1b" in second) == (False, False)
    assert first.split()[1].count("-") == 2


@pytest.mark.parametrize("columns", [12, 24, 40, 59, 60, 79, 80, 200])
def test_no_line_of_a_list_is_wider_than_the_terminal(root: Path, room: Room, columns: int) -> None:
    log = room.filled(2)
    for command in ("echo " + "\u6f22" * 150, "echo \u202e" + "y" * 200, "ls"):
        log.append(fields(agent="\u6f22\u5b57" * 9, action={"kind": "command", "command": command}))
    with at_terminal("audit", "list", cwd=root, columns=columns, env={"COLUMNS": None}) as terminal:
        assert terminal.ends() == 0
    rows = re.sub(r"\x1b\[[0-9;]*m", "", terminal.seen).replace("\r", "").splitlines()
    assert (len(rows), [row for row in rows if width_of(row) > columns]) == (6, [])


def test_list_takes_filters(root: Path, room: Room) -> None:
    room.filled(30)
    words = [
        ("--decision", "deny"),
        ("--path", "src/d1/**", "--limit", "2"),
        ("--since", "1h", "--limit", "1"),
        ("--until", "2020-01-01"),
        ("--agent", "cl*", "--text", "about 7"),
        ("--session", "other"),
    ]
    found = [
        [json.loads(line)["sequence"] for line in run(root, "list", "--json", *some).out.splitlines()] for some in words
    ]
    assert found == [[10, 20, 30], [26, 29], [30], [], [8], []]
    assert run(root, "list", "--session", "other").out == "no record matches\n"


BAD = [
    (["list", "--since", "yesterday"], "is no point in time"),
    (["list", "--until", "2026-13-01"], "is no point in time"),
    (["list", "--since", "99999999999999d"], "is no point in time"),
    (["list", "--limit", "many"], "--limit cannot be"),
    (["list", "--path", "a**"], "is no glob"),
    (["show", "x"], "there is no record"),
    (["show", "99"], "there is no record"),
    (["verify", "--head", "5"], "is not a head"),
    (["export", "--json", "--format", "csv"], "contradict each other"),
]


@pytest.mark.parametrize(("words", "problem"), BAD)
def test_bad_values_are_explained(words: list[str], problem: str, root: Path, room: Room) -> None:
    room.filled(1)
    done = run(root, *words)
    said = done.err if "--json" not in words else done.out
    assert (done.code, problem in said, "hint: " in said) == (2, True, True)


def test_show_tells_everything_about_one_record(root: Path, room: Room) -> None:
    log = room.filled(2)
    text = run(root, "show", "2").out
    assert text.startswith("record 2\n")
    assert "  reason: a rule says so about 1\n" in text.replace("    ", "  ")
    assert "fs src: read (allow, byleave.toml:3)" in text
    kept = log.get(2)
    assert kept is not None
    assert json.loads(run(root, "show", "2", "--json").out) == {**kept.tree, "hash": kept.hash}


def test_verify_and_head_work_together(root: Path, room: Room) -> None:
    room.filled(3)
    head = run(root, "head").out.strip()
    assert json.loads(run(root, "head", "--json").out) == dict(zip(("sequence", "hash"), (3, head[2:]), strict=True))
    done = run(root, "verify", "--head", head)
    assert (done.code, done.out) == (0, "ok: 3 records, 1 to 3, are intact, and the given head is among them\n")
    room.sql("UPDATE records SET hash = 'x' WHERE sequence = 2")
    done = run(root, "verify", "--json")
    assert (done.code, json.loads(done.out)["ok"]) == (1, False)
    assert "broken: the hash chain of 3 records does not verify\n  record 2: its text" in run(root, "verify").out
    assert "hint" not in run(root, "verify", "--head", head).out  # a new log has no older head


def test_what_verify_says_about_a_broken_chain_leads_out_of_it(root: Path, room: Room, tmp_path: Path) -> None:
    room.filled(3)
    room.sql("DELETE FROM records WHERE sequence = 1")
    last = run(root, "verify").out.splitlines()[-1]
    assert last.startswith("  hint: ")
    assert last.endswith(f"move all files audit.* away from {room.directory}")
    assert len(run(root, "export").out.splitlines()) == 2
    aside = tmp_path / "aside"
    aside.mkdir()
    for file in room.directory.glob("audit.*"):
        file.rename(aside / file.name)
    room.filled(1)
    assert run(root, "verify").out == "ok: 1 records, 1 to 1, are intact\n"
    assert room.log().doubts() == []


def test_export_writes_one_object_a_line(root: Path, room: Room) -> None:
    room.filled(60)
    records = [json.loads(line) for line in run(root, "export", "--json").out.splitlines()]
    names = {"sequence", "time", "session", "door", "agent", "identity", "action", "verdict", "hash"}
    assert ([record["sequence"] for record in records], names <= set(records[0])) == (list(range(1, 61)), True)


def test_export_names_no_place_outside_of_the_workspace(root: Path, room: Room) -> None:
    log = room.log()
    for canonical in (f"{root}/src", str(root), "/home/me/.ssh/id", f"{root}-other/x", f"{root}/../x"):
        log.append(fields(verdict={"decision": "allow", "canonical": canonical}))
    records = [json.loads(line) for line in run(root, "export").out.splitlines()]
    assert [(record["verdict"].get("canonical"), record.get("redacted")) for record in records] == [
        (f"{root}/src", None),
        (str(root), None),
        (None, True),
        (None, True),
        (None, True),
    ]


def test_no_cell_of_a_table_is_a_formula(root: Path, room: Room) -> None:
    log = room.log()
    for start in "=+-@\t\r\uff1d\uff20":
        log.append(fields(agent=f"{start}cmd()", door='a,b\n"c"', verdict={"reason": f"{start}x"}))
    rows = list(csv.reader(io.StringIO(run(root, "export", "--format", "csv").out, newline="")))
    assert [row[rows[0].index("agent")] for row in rows[1:]] == [
        f"'{start}cmd()" for start in ("=", "+", "-", "@", "\\t", "\\r", "\uff1d", "\uff20")
    ]
    assert all(not cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)
    assert rows[1][rows[0].index("door")] == 'a,b\\n"c"'


def test_tail_shows_what_comes_until_it_is_interrupted(root: Path, room: Room) -> None:
    log = room.filled(15)
    process = subprocess.Popen(
        [*COMMAND, "audit", "tail", "--json"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline())["sequence"] for _ in range(10)]
    log.append(fields())
    seen.append(json.loads(process.stdout.readline())["sequence"])
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (seen, out, err, process.returncode) == (list(range(6, 17)), "", "", 0)


def test_tail_ends_when_nobody_reads_any_more(root: Path, room: Room) -> None:
    room.filled(1)
    process = subprocess.Popen([*COMMAND, "audit", "tail"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert (process.wait(timeout=30), process.stderr.read() if process.stderr else b"") == (0, b"")
    assert process.stderr is not None
    process.stderr.close()


@pytest.mark.parametrize("content", [b"", b"no database at all" * 99])
def test_a_damaged_table_is_told_and_never_a_traceback(content: bytes, root: Path, room: Room) -> None:
    room.filled(3)
    room.file("db").write_bytes(content)
    for word in ("list", "export", "verify", "head"):
        assert run(root, word).code in (0, 1, 2)
    assert run(root, "verify").code == 1


def test_a_time_is_that_of_the_wall_unless_it_names_a_zone() -> None:
    reading = "from byleave.store.audit.query import read_when; print(read_when(sys.argv[1], now=1_769_900_000))"
    script = f"import sys, time; time.tzset(); {reading}"
    for text, expect in (
        ("2026-01-31", "2026-01-31T05:00:00.000000Z"),
        ("2026-01-31T12:00", "2026-01-31T17:00:00.000000Z"),
        ("2026-01-31 12:00", "2026-01-31T17:00:00.000000Z"),
        ("2026-07-01T12:00", "2026-07-01T16:00:00.000000Z"),
        ("2026-01-31T12:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00.000000Z", "2026-01-31T12:00:00.000000Z"),
        ("14:30", "2026-01-31T19:30:00.000000Z"),
        ("14:30:10", "2026-01-31T19:30:10.000000Z"),
        ("60s", "2026-01-31T22:52:20.000000Z"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00.000000Z"),
    ):
        env = {**os.environ, "TZ": "America/New_York"}
        done = subprocess.run(
            [sys.executable, "-c", script, text], env=env, capture_output=True, text=True, check=True, timeout=30
        )
        assert done.stdout.strip() == expect


def test_doctor_fails_after_verify_has_found_something(tmp_path: Path, own_home: Path) -> None:
    import sqlite3

    from byleave import open_guard

    with open_guard(str(tmp_path), door="test") as guard:
        for _ in range(3):
            guard.check({"kind": "other", "name": "think"})
    assert byleave("audit", "verify", cwd=tmp_path).code == 0
    (table,) = own_home.rglob("audit.db")
    connection = sqlite3.connect(table)
    connection.execute("UPDATE records SET record = replace(record, 'think', 'knits') WHERE sequence = 2")
    connection.commit()
    connection.close()
    assert byleave("audit", "verify", cwd=tmp_path).code == 1
    done = byleave("doctor", "--json", cwd=tmp_path)
    (finding,) = [each for each in json.loads(done.out)["findings"] if each["what"] == "audit log"]
    assert (finding["state"], "`byleave audit verify` found at" in finding["text"]) == ("bad", True)
    assert done.code == 1
