"""What people see: lists within 80 columns, in the time of their own clock; JSON keeps UTC."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.cli.output import _lines, local_time, table, width_of
from byleave.core.redact import Redactor
from byleave.policy.load import Workspace
from byleave.store.approvals import PENDING
from byleave.store.audit.log import AuditLog
from command import at_terminal, byleave

NARROW = {"COLUMNS": "80"}
SUBJECT = "command command=" + json.dumps("make " + "x" * 200 + " && echo a b c") + ' agent="codex" door="hook"'


def widest(text: str) -> int:
    return max(len(line) for line in text.splitlines())


def test_approvals_fit_and_nothing_of_them_is_left_out(tmp_path: Path) -> None:
    approvals = Workspace(str(tmp_path)).approvals
    stamp = "2026-06-01T22:30:00Z"
    approvals.remember("k", kind="action", subject=SUBJECT, session="default", status=PENDING, now=stamp)
    done = byleave("approvals", "list", cwd=tmp_path, env={**NARROW, "TZ": "Europe/Berlin"})
    assert widest(done.out) <= 80
    assert "".join(SUBJECT.split()) in "".join(done.out.split())
    assert "2026-06-02 00:30:00" in done.out
    listed = json.loads(byleave("approvals", "list", "--json", cwd=tmp_path, env={"TZ": "Europe/Berlin"}).out)
    assert [one["created"] for one in listed] == [stamp]


@pytest.mark.parametrize("columns", [24, 40, 62, 80, 160])
def test_no_line_of_the_approvals_is_wider_than_the_terminal(tmp_path: Path, columns: int) -> None:
    subject = 'command command="echo ' + "\u6f22" * 60 + " " + "z" * 70 + '"'
    Workspace(str(tmp_path)).approvals.remember(
        "k", kind="action", subject=subject, session="default", status=PENDING, now="2026-06-01T22:30:00Z"
    )
    with at_terminal("approvals", "list", "-q", cwd=tmp_path, columns=columns, env={"COLUMNS": None}) as terminal:
        assert terminal.ends() == 0
    rows = re.sub(r"\x1b\[[0-9;]*m", "", terminal.seen).replace("\r", "").splitlines()
    assert [row for row in rows if width_of(row) > columns] == []
    assert "".join(subject.split()) in "".join("".join(rows).split())
    whole = byleave("approvals", "list", "-q", cwd=tmp_path, env={"COLUMNS": None}).out
    assert (subject in whole, len(whole.splitlines())) == (True, 1)


def test_records_fit_and_have_the_time_of_the_wall(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    log = AuditLog(workspace.homes.workspace(workspace.root.path), mask=Redactor(), now=lambda: 1_780_353_000 * 10**9)
    action = {"kind": "command", "command": "make " + "x" * 200}
    because = [{"rule": "allow make", "source": f"{tmp_path}/byleave.toml:3", "decision": "allow"}]
    fields = {"event": "decision", "door": "hook", "agent": "claude-code", "action": action}
    log.append({**fields, "verdict": {"decision": "allow", "because": because}})
    log.close()
    done = byleave("audit", "list", cwd=tmp_path, env={**NARROW, "TZ": "Asia/Tokyo"})
    assert widest(done.out) <= 80
    assert "06-02 07:30" in done.out or "2026-06-02" in done.out
    (record,) = [json.loads(line) for line in byleave("audit", "list", "--json", cwd=tmp_path).out.splitlines()]
    assert record["time"].startswith("2026-06-01T22:30:00")


def test_doctor_fits(tmp_path: Path) -> None:
    done = byleave("doctor", cwd=tmp_path, env=NARROW)
    long_words = max(len(word) for word in done.out.split())
    assert widest(done.out) <= max(80, long_words)


@given(st.text(alphabet="ab \u6f22\n", max_size=400), st.integers(20, 60))
def test_lines_lose_no_letter(text: str, width: int) -> None:
    lines = _lines(text, width)
    assert all(width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_what_is_no_time_stays_as_it_is() -> None:
    assert local_time("-") == "-"
    assert local_time("9999-99-99T99:99:99Z") == "9999-99-99T99:99:99Z"


WIDE_LINE = "git commit -m 'a' && " + " && ".join(
    f"made-up-program-{number} --with=some --more=words of a command that is long" for number in range(6)
)


def at_80(*words: str, cwd: Path) -> list[str]:
    """Return the rows that a terminal of 80 columns is given."""
    with at_terminal(*words, cwd=cwd, columns=80) as terminal:
        terminal.ends()
    return terminal.seen.replace("\r\n", "\n").splitlines()


def test_the_answer_of_check_fits_a_terminal_and_toml_stays_whole(tmp_path: Path) -> None:
    rows = at_80("check", "command", WIDE_LINE, cwd=tmp_path)
    start = next(number for number, row in enumerate(rows) if "to allow it" in row)
    assert max(len(row) for row in rows[:start]) <= 80
    (first, *others) = tomllib.loads("\n".join(rows[start + 1 :]))["rules"]
    assert (first["allow"]["subcommand"], len(others)) == ("commit", 6)


def test_the_answer_of_check_is_a_line_each_for_a_program(tmp_path: Path) -> None:
    done = byleave("check", "command", WIDE_LINE, cwd=tmp_path, env=NARROW)
    assert all(
        row.startswith(("ask: ", "  ask", "  because", "  to allow", "    ")) for row in done.out.splitlines() if row
    )
    assert widest(done.out) > 80


def test_policy_show_and_run_explain_fit_a_terminal(tmp_path: Path) -> None:
    assert byleave("init", "-q", cwd=tmp_path).code == 0
    assert byleave("trust", "--yes", "-q", cwd=tmp_path).code == 0
    for words in (["policy", "show"], ["run", "--explain", "--", "ls"]):
        rows = at_80(*words, cwd=tmp_path)
        assert [row for row in rows if len(row) > 80] == []


def test_a_reason_stands_once_below_all_places_that_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[[rules]]\ndeny = { path = ["**/.env", "**/*.pem"] }\n')
    assert byleave("trust", "--yes", "-q", cwd=tmp_path).code == 0
    rows = at_80("run", "--explain", "--", "ls", cwd=tmp_path)
    first = next(number for number, row in enumerate(rows) if row.strip() == "**/.env")
    assert (rows[first + 1].strip(), rows[first + 2].partition(":")[0].strip()) == ("**/*.pem", "any")
    assert sum("covered; what comes to match" in row for row in rows) == 1


def test_what_a_run_was_refused_fits_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text(
        '[[rules]]\ndeny = { path = ["**/.env", "**/*.pem", "**/*.key", "**/*.p12"] }\nwhy = "it may hold a secret"\n'
    )
    (tmp_path / ".env").write_text("x")
    assert byleave("trust", "--yes", "-q", cwd=tmp_path).code == 0
    rows = at_80("run", "--diagnose", "--", "cat", ".env", cwd=tmp_path)
    assert any("1. read .env" in row for row in rows)
    assert [row for row in rows if len(row) > 80] == []


def test_a_long_last_cell_stands_below_the_others_where_little_room_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a" * 57, 'command="git push origin main" agent="codex"'), ("b", "short")]
    monkeypatch.setenv("COLUMNS", "80")
    assert table(rows) == [["a" * 57, f"    {rows[0][1]}"], ["b", "    short"]]
    monkeypatch.setenv("COLUMNS", "120")
    assert [len(lines) for lines in table(rows)] == [1, 1]
