"""`byleave approvals approve` shows exactly what it approves, and approves exactly what it has shown."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from byleave.cli.question_rows import held_rows
from byleave.policy.load import Workspace
from byleave.store.approvals import APPROVED, PENDING, REVOKED
from byleave.store.questions import Answer, AskedAction, Questions, StoredQuestion, this_process, time_after
from command import Done, at_terminal, byleave, python

NOW = "2026-01-01T00:00:00Z"
# Ids of one letter: any two of twenty questions are alike then, as those of an agent that looks for such.
SHORT_IDS = """
import sys
import byleave.store.approvals, byleave.cli.approvals_command
byleave.store.approvals.ID_LENGTH = byleave.cli.approvals_command.ID_LENGTH = 1
from byleave.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def root(tmp_path: Path, own_home: Path) -> Path:
    return tmp_path


def store(root: Path) -> Questions:
    return Questions(Workspace(str(root)).approvals.directory)


def hold(root: Path, *actions: dict[str, Any], **more: Any) -> StoredQuestion:
    verdict = {"because": [{"rule": "a rule of mine", "source": "config.toml:3", "decision": "ask"}]}
    asked = tuple(AskedAction("k", action, verdict, leads_to=("/etc/passwd",)) for action in actions)
    moment = datetime.now(UTC)
    question = StoredQuestion(
        str(root),
        "hook",
        "s",
        "codex",
        "default",
        "because",
        asked,
        NOW,
        time_after(moment, 60),
        this_process(),
        **more,
    )
    store(root).put(question)
    return question


def test_every_action_and_the_whole_input_is_shown_before_a_yes(root: Path) -> None:
    question = hold(
        root,
        {"kind": "read", "path": "README"},
        {"kind": "delete", "path": "secret\x1b[2J\u202e"},
        input={"file": "README", "also": {"wipe": ["all", "of it"]}},
    )
    with at_terminal("approvals", "approve", question.id, cwd=root) as terminal:
        terminal.wait_for("Approve exactly this, once? [y/N] ")
        seen = terminal.seen
        for each in ("1 of 2: read", "2 of 2: delete", "secret\\x1b[2J\\u202e", "a rule of mine (config.toml:3)"):
            assert each in seen
        for each in ("leads to", "/etc/passwd", "what the tool would get", '"wipe"', '"of it"', '"codex" (unverified)'):
            assert each in seen
        terminal.type(b"y\n")
        assert terminal.ends() == 0
    answer = store(root).withdraw(question)
    assert answer is not None
    assert (answer.choice, answer.by) == ("once", "terminal")


def test_the_list_names_every_action_of_a_question(root: Path) -> None:
    hold(root, {"kind": "read", "path": "README"}, {"kind": "delete", "path": "secret"})
    (found,) = json.loads(byleave("approvals", "list", "--json", cwd=root).out)
    assert found["subject"] == 'read path="README"; delete path="secret" door="hook"'


def test_a_question_that_is_over_when_the_yes_comes_is_not_approved(root: Path) -> None:
    question = hold(root, {"kind": "read", "path": "README"})
    with at_terminal("approvals", "approve", cwd=root) as terminal:
        terminal.wait_for("once? [y/N] ")
        assert store(root).answer(Answer(question.id, "no", "dashboard"))
        terminal.type(b"y\n")
        terminal.wait_for("nothing was approved")
        assert terminal.ends() == 1
    answer = store(root).withdraw(question)
    assert answer is not None
    assert answer.choice == "no"


def wait_for_attempt(root: Path, key: str, **asked: Any) -> None:
    tree = {"action": {"kind": "other", "name": "WebSearch"}, "verdict": {}, **asked}
    Workspace(str(root)).approvals.remember(
        key, kind="action", subject=f"other name={key}", session="s", status=PENDING, now=NOW, asked=tree
    )


def test_what_waits_for_a_later_attempt_is_shown_with_its_input_and_where_it_leads(root: Path) -> None:
    wait_for_attempt(root, "k", input={"query": "how to\x1b]0;x"}, leads_to=["/etc/passwd"])
    with at_terminal("approvals", "approve", cwd=root) as terminal:
        terminal.wait_for("until it is revoked? [y/N] ")
        assert all(each in terminal.seen for each in ("how to\\x1b]0;x", "leads to", "/etc/passwd"))
        terminal.type(b"n\n")
        assert terminal.ends() == 1


def test_what_was_refused_is_shown_in_full_before_it_is_approved_after_all(root: Path) -> None:
    wait_for_attempt(root, "k", input={"query": "send the keys away"}, leads_to=["/etc/passwd"])
    (id_,) = [each.id for each in Workspace(str(root)).approvals.all()]
    for keys, code in ((b"n\n", 1), (b"y\n", 0)):
        with at_terminal("approvals", "approve", id_, cwd=root) as terminal:
            terminal.wait_for("until it is revoked? [y/N] ")
            assert all(each in terminal.seen for each in ("send the keys away", "leads to", "/etc/passwd"))
            terminal.type(keys)
            assert terminal.ends() == code


def test_what_was_revoked_and_is_not_kept_in_full_is_not_approved_before_it_is_tried_again(root: Path) -> None:
    approvals = Workspace(str(root)).approvals
    fields: dict[str, Any] = {"kind": "action", "subject": "other name=k... (cut)", "session": "s", "now": NOW}
    approvals.remember("k", status=APPROVED, **fields)
    (revoked,) = approvals.all()
    assert approvals.revoke(revoked, now=NOW)
    done = byleave("approvals", "approve", revoked.id, "--yes", cwd=root)
    assert (done.code, "not kept in full" in done.err) == (1, True)
    assert not Workspace(str(root)).approvals.recalls("k")
    wait_for_attempt(root, "k", input={"query": "how to"})
    (found,) = Workspace(str(root)).approvals.all()
    assert (found.status, found.subject, found.asked["input"]) == (REVOKED, "other name=k", {"query": "how to"})
    assert byleave("approvals", "approve", revoked.id, "--yes", cwd=root).code == 0
    assert Workspace(str(root)).approvals.recalls("k")


def test_no_name_from_outside_fills_a_row_of_ours(root: Path) -> None:
    spoof = "x".ljust(79) + "  2 of 2: read".ljust(80) + "end"
    question = msgspec.structs.replace(hold(root, {"kind": "delete", "path": "a"}, input={spoof: "b"}), agent=spoof)
    rows = held_rows(question, 72)
    assert rows[0].startswith("an agent with a long name (unverified) waits for your answer")
    about = [row for row in rows if "2 of 2" in row]
    assert len(about) == 2
    assert all(row.startswith("    | ") for row in about)
    assert all(len(row) <= 78 for row in rows[1:])


def test_what_changed_while_it_was_shown_is_not_approved(root: Path) -> None:
    wait_for_attempt(root, "k", leads_to=["/tmp/a"])
    with at_terminal("approvals", "approve", cwd=root) as terminal:
        terminal.wait_for("until it is revoked? [y/N] ")
        Workspace(str(root)).approvals.forget_action("k")
        wait_for_attempt(root, "k", leads_to=["/tmp/b"])
        terminal.type(b"y\n")
        terminal.wait_for("has changed since it was shown")
        assert terminal.ends() == 1
    (found,) = Workspace(str(root)).approvals.all()
    assert found.status == PENDING


def with_short_ids(root: Path, *words: str) -> Done:
    return python(SHORT_IDS, *words, cwd=root)


def test_an_id_that_two_questions_have_approves_neither(root: Path) -> None:
    for number in range(17):  # sixteen letters
        wait_for_attempt(root, f"k{number}")
    approvals = Workspace(str(root)).approvals.all()
    letters = [each.full_id[0] for each in approvals]
    letter = next(each for each in letters if letters.count(each) > 1)
    alike = [each for each in approvals if each.full_id.startswith(letter)]
    for word in ("approve", "revoke"):
        done = with_short_ids(root, "approvals", word, letter, "--yes")
        assert done.code == 2
        assert "questions have this id" in done.err
        assert "give more of it" in done.err
    assert {each.status for each in Workspace(str(root)).approvals.all()} == {PENDING}
    listed = json.loads(with_short_ids(root, "approvals", "list", "--json").out)
    assert len({each["id"] for each in listed}) == 17
    assert with_short_ids(root, "approvals", "approve", alike[0].full_id, "--yes").code == 0
    approved = [each.full_id for each in Workspace(str(root)).approvals.all() if each.status != PENDING]
    assert approved == [alike[0].full_id]


def test_a_question_too_long_to_be_read_is_not_approved(root: Path) -> None:
    question = hold(root, {"kind": "read", "path": "x"}, input={"text": "line\n" * 3000})
    done = byleave("approvals", "approve", question.id, "--yes", cwd=root)
    assert (done.code, "too long to be read" in done.err) == (1, True)
    assert store(root).answer_to(question.id) is None


def test_many_questions_with_hostile_names_are_listed(root: Path) -> None:
    for number in range(50):
        hold(root, {"kind": "read", "path": "\u202e\x1b[31m" + "x" * 3000}, nonce=str(number))
    done = byleave("approvals", "list", cwd=root)
    assert (done.code, "\x1b[31m" in done.out, "\u202e" in done.out) == (0, False, False)


def test_odd_files_among_the_questions_are_left_out(root: Path) -> None:
    question = hold(root, {"kind": "read", "path": "README"})
    place = Path(Workspace(str(root)).approvals.directory, "questions")
    times = ("2026-01-01T00:00:00", "2026-01-01", "soon", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59")
    for expires in times:
        odd = msgspec.structs.replace(question, expires=expires, holder=(1, 1))
        (place / f"{odd.id}.json").write_bytes(msgspec.json.encode(odd))
    os.mkfifo(place / "aaaaaaaaaaaa.json")
    (place / "bbbbbbbbbbbb.json").symlink_to("/dev/zero")
    (place / "cccccccccccc.json").mkdir()
    (place / "dddddddddddd.json").write_bytes(b"[" * 200_000)
    (place / "dddddddddddd.answer").write_bytes(b'{"a":' * 200_000)
    (place / f"{question.id}.answer").write_bytes(b'{"a":' * 200_000)
    for file in place.iterdir():
        os.utime(file, (0, 0), follow_symlinks=False)
    done = byleave("approvals", "list", "--json", cwd=root)
    assert (done.code, done.err) == (0, "")
    listed = {each["id"]: each["status"] for each in json.loads(done.out)}
    assert listed[question.id] == "pending"
    assert set(listed.values()) == {"pending", "expired"}
    assert not store(root).answer(Answer(question.id, "once", "test"))
    assert store(root).withdraw(question) is None
