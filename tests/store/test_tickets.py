"""A ticket is redeemed once, in time, and by one process; what stays unredeemed is evidence."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from byleave.errors import StateError
from byleave.store import tickets
from byleave.store.tickets import LIFETIME, Ticket, discard, issue, new_id, overdue, redeem, unredeemed


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "state/workspaces/id")


def ticket(**fields: object) -> Ticket:
    usual = Ticket(  # noqa: S604 -- the name of a shell
        id=new_id(),
        text="make test",
        cwd="/ws/src",
        root="/ws",
        shell="bash",
        agent="claude-code",
        session="s1",
        agent_process=(77, 123456),
        call="toolu_1",
        sequence=12,
        created=time.time(),
    )
    return usual.replace(**fields)


ODD = "printf '%s' 'a\\tb' \"$x\"\n# \u00fc \u2028 \U0001f600 \x01\x7f\n"


@pytest.mark.parametrize("text", ["make test", "", ODD, "\udc80\ud800", "x" * 100_000])
def test_what_is_redeemed_is_what_was_issued(home: str, text: str) -> None:
    issued = ticket(text=text, asked=text == "")
    issue(home, issued)
    assert redeem(home, issued.id) == issued


def test_a_ticket_is_private_and_leaves_nothing_behind(home: str) -> None:
    issued = ticket()
    issue(home, issued)
    place = Path(home) / "tickets"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (place, *place.iterdir())]
    redeem(home, issued.id)
    assert (modes, list(place.iterdir())) == ([0o700, 0o600], [])


def test_a_ticket_is_redeemed_once(home: str) -> None:
    issued = ticket()
    issue(home, issued)
    redeem(home, issued.id)
    with pytest.raises(StateError, match="no such ticket, or it was used"):
        redeem(home, issued.id)


@pytest.mark.parametrize("name", ["", "0" * 31, "0" * 33, "../" + "0" * 29, "G" * 32, "0" * 32, "0" * 31 + "\n"])
def test_an_unknown_ticket_is_refused(home: str, name: str) -> None:
    issue(home, ticket())
    with pytest.raises(StateError, match="no such ticket"):
        redeem(home, name)


@pytest.mark.parametrize("created", [-LIFETIME - 1, 2 * LIFETIME])
def test_a_ticket_that_is_too_old_or_of_another_clock_is_refused(home: str, created: float) -> None:
    issued = ticket(created=time.time() + created)
    issue(home, issued)
    with pytest.raises(StateError, match="too old"):
        redeem(home, issued.id)


def test_a_person_may_take_longer_than_ten_minutes(home: str) -> None:
    issued = ticket(created=time.time() - 6 * LIFETIME, asked=True)
    issue(home, issued)
    assert redeem(home, issued.id) == issued


RACER = """
import sys
from byleave.errors import StateError
from byleave.store.tickets import redeem
sys.stdin.readline()
try:
    print(redeem(sys.argv[1], sys.argv[2]).text)
except StateError:
    print("refused")
"""


def test_of_two_processes_exactly_one_redeems(home: str) -> None:
    issued = ticket()
    issue(home, issued)
    command = [sys.executable, "-c", RACER, home, issued.id]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = sorted(racer.communicate()[0].strip() for racer in racers)
    assert said == ["make test", "refused", "refused", "refused"]


def age(home: str, ticket_id: str, seconds: float) -> None:
    path = next((Path(home) / "tickets").glob(f"{ticket_id}.*"))
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_an_allowed_command_whose_ticket_stays_unredeemed_is_overdue_until_it_is_discarded(home: str) -> None:
    old = ticket(created=time.time() - LIFETIME - 5)
    fresh, asked = ticket(), ticket(created=old.created, asked=True)
    for each in (old, fresh, asked):
        issue(home, each)
    for each in (old, asked):
        age(home, each.id, LIFETIME + 5)
    assert overdue(home) == [old]
    issue(home, ticket())  # sweeps what nothing can use any more, never evidence
    assert overdue(home) == [old]
    discard(home, old)
    assert overdue(home) == []


def test_a_ticket_that_a_power_cut_emptied_is_no_evidence(home: str) -> None:
    old = ticket(created=0.0)
    issue(home, old)
    (Path(home) / "tickets" / f"{old.id}.allow").write_bytes(b"")
    age(home, old.id, LIFETIME + 5)
    assert (overdue(home), list((Path(home) / "tickets").iterdir())) == ([], [])


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"id": 7}', b"\xff", b'{"a":' * 3000])
def test_a_damaged_ticket_is_refused_and_used_up(home: str, content: bytes) -> None:
    issued = ticket()
    issue(home, issued)
    path = Path(home) / "tickets" / f"{issued.id}.allow"
    path.write_bytes(content)
    with pytest.raises(StateError, match="no such ticket"):
        redeem(home, issued.id)
    assert not path.exists()


def test_a_link_in_the_place_of_a_ticket_is_refused(home: str, tmp_path: Path) -> None:
    issued = ticket()
    issue(home, issued)
    path = Path(home) / "tickets" / f"{issued.id}.allow"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError):
        redeem(home, issued.id)


def test_the_ticket_of_another_name_is_refused(home: str) -> None:
    issued, other = ticket(), new_id()
    issue(home, issued)
    place = Path(home) / "tickets"
    (place / f"{issued.id}.allow").rename(place / f"{other}.allow")
    with pytest.raises(StateError, match="no such ticket"):
        redeem(home, other)


def test_a_call_that_ran_is_found_by_its_id_while_its_ticket_is_unredeemed(home: str) -> None:
    issued = ticket(call='odd "call" \u00fc')
    for each in (ticket(call="other"), issued, ticket(call="asked", asked=True)):
        issue(home, each)
    assert unredeemed(home, "claude-code", "s1", 'odd "call" \u00fc') == issued
    assert unredeemed(home, "claude-code", "s2", 'odd "call" \u00fc') is None
    assert unredeemed(home, "codex", "s1", 'odd "call" \u00fc') is None
    redeem(home, issued.id)
    assert unredeemed(home, "claude-code", "s1", 'odd "call" \u00fc') is None


def test_the_number_of_tickets_is_bounded(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few = 20
    monkeypatch.setattr("byleave.store.tickets.MOST", few)
    for _ in range(few):
        issue(home, ticket())
        issue(home, ticket(asked=True))
    with pytest.raises(StateError, match="waiting to be started"):
        issue(home, ticket())
    issue(home, latest := ticket(asked=True))
    kinds = [path.suffix for path in (Path(home) / "tickets").iterdir()]
    assert (kinds.count(".allow"), kinds.count(".asked")) == (few, few)
    assert redeem(home, latest.id) == latest


def test_what_killed_processes_leave_is_swept(home: str) -> None:
    issue(home, ticket())
    place = Path(home) / "tickets"
    left = [place / f"{new_id()}.used.aabbccdd", place / f".{new_id()}.allow.1.aabbccdd"]
    for path in left:
        path.write_bytes(b"{}")
        os.utime(path, (1, 1))
    issue(home, ticket())
    assert [path.exists() for path in left] == [False, False]


def test_confining_ends_for_one_agent_until_a_person_has_looked(home: str) -> None:
    assert tickets.confining_ended(home, "claude-code") is None
    tickets.end_confining(home, "claude-code", "record 12 ran unconfined")
    tickets.end_confining(home, "claude-code", "record 13 ran unconfined")
    assert tickets.confining_ended(home, "claude-code") == "record 12 ran unconfined"
    assert tickets.confining_ended(home, "codex") is None
    assert tickets.agents_with_ended_confining(home) == [("claude-code", "record 12 ran unconfined")]
    assert tickets.resume_confining(home, "claude-code") is True
    assert tickets.resume_confining(home, "claude-code") is False
    assert tickets.confining_ended(home, "claude-code") is None
