"""What a user agreed to is kept whole, kept private, and forgotten rather than guessed."""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.errors import StateError
from byleave.store.approvals import LARGEST, MOST_ACTIONS, UNREAD, Approvals, Fingerprint, command_words, fingerprint
from byleave.user_files import Lock, ParseCache, digest

NOW = "2025-01-01T00:00:00Z"
PRINT = Fingerprint("byleave.toml", "aa", (("run.sh", "bb"),))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "state/workspaces/id"


def opened(home: Path) -> Approvals:
    """Return the approvals as a new process would see them."""
    return Approvals(str(home), ParseCache(str(home.parents[2] / "cache"), "1"))


def write(home: Path, content: bytes) -> Path:
    home.mkdir(parents=True, mode=0o700, exist_ok=True)
    (home / "approvals.json").write_bytes(content)
    (home / "approvals.json").chmod(0o600)
    return home / "approvals.json"


def test_nothing_is_approved_and_nothing_written_before_somebody_agrees(home: Path) -> None:
    approvals = opened(home)
    assert (approvals.trusts(PRINT), approvals.approves_mount("ext", "/x"), home.exists()) == (False, False, False)


def test_an_approval_is_kept_in_the_documented_form_and_private(home: Path) -> None:
    opened(home).trust(PRINT, now=NOW)
    assert json.loads((home / "approvals.json").read_text()) == {
        "mounts": [],
        "project_files": [
            {"path": "byleave.toml", "sha256": "aa", "scripts": {"run.sh": "bb"}, "approved_at": NOW},
        ],
    }
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "approvals.json", home / "approvals.lock")]
    assert (opened(home).trusts(PRINT), modes) == (True, [0o700, 0o600, 0o600])


OTHERS = [
    Fingerprint("other.toml", "aa", (("run.sh", "bb"),)),
    Fingerprint("byleave.toml", "ab", (("run.sh", "bb"),)),
    Fingerprint("byleave.toml", "aa", (("run.sh", "bc"),)),
    Fingerprint("byleave.toml", "aa", ()),
    Fingerprint("byleave.toml", "aa", (("run.sh", "bb"), ("new.sh", "cc"))),
    Fingerprint("byleave.toml", "aa", (("run.sh", UNREAD),)),
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_yes_counts_for_exactly_what_was_shown(other: Fingerprint, home: Path) -> None:
    opened(home).trust(PRINT, now=NOW)
    assert opened(home).trusts(other) is False


def test_a_new_yes_replaces_the_old_one_to_the_same_file_only(home: Path) -> None:
    newer, other = Fingerprint("byleave.toml", "a2"), Fingerprint(".byleave/local.toml", "cc")
    for print_ in (PRINT, other, newer):
        opened(home).trust(print_, now=NOW)
    assert [opened(home).trusts(print_) for print_ in (PRINT, other, newer)] == [False, True, True]


def test_a_script_that_nobody_could_read_is_not_agreed_to(home: Path) -> None:
    with pytest.raises(StateError, match=r"its tools run run\.sh, which cannot be read whole"):
        opened(home).trust(Fingerprint("byleave.toml", "aa", (("run.sh", UNREAD),)), now=NOW)
    assert not home.exists()


def test_a_script_that_nobody_could_read_is_not_trusted_even_if_a_file_says_so(home: Path) -> None:
    entry = {"path": "byleave.toml", "sha256": "aa", "scripts": {"run.sh": UNREAD}}
    write(home, json.dumps({"project_files": [entry]}).encode())
    assert opened(home).trusts(Fingerprint("byleave.toml", "aa", (("run.sh", UNREAD),))) is False


DAMAGED = {
    "empty": b"",
    "cut short": b'{"mounts": [',
    "not UTF-8": b'{"mounts": ["\xff"]}',
    "not an object": b"[]",
    "null": b"null",
    "wrong types": b'{"mounts": {}, "project_files": []}',
    "nested without end": b"[" * 200_000,
    "zeros": b"\0" * 100,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_counts_as_empty_is_warned_about_and_kept_beside(content: bytes, home: Path) -> None:
    path = write(home, content)
    approvals = opened(home)
    assert (approvals.trusts(PRINT), approvals.approves_mount("ext", "/x")) == (False, False)
    assert approvals.warnings == [f"{path} is damaged: nothing counts as approved until you approve it again"]
    approvals.trust(PRINT, now=NOW)
    assert (opened(home).trusts(PRINT), (home / "approvals.json.damaged").read_bytes()) == (True, content)


ODD_ENTRIES: list[Any] = [None, 5, "x", [], {}, {"path": 5}, {"path": "byleave.toml", "sha256": None, "scripts": []}]


@pytest.mark.parametrize("entry", ODD_ENTRIES)
def test_an_odd_entry_approves_nothing_and_harms_no_other(entry: Any, home: Path) -> None:
    write(home, json.dumps({"mounts": [entry], "project_files": [entry]}).encode())
    approvals = opened(home)
    assert (approvals.trusts(PRINT), approvals.approves_mount("ext", "/x")) == (False, False)
    approvals.trust(PRINT, now=NOW)
    assert opened(home).trusts(PRINT)


def test_what_a_later_version_wrote_is_kept(home: Path) -> None:
    write(home, json.dumps({"calls": [{"id": 1}], "mounts": [{"rule_path": "e", "canonical_target": "/e"}]}).encode())
    opened(home).trust(PRINT, now=NOW)
    tree = json.loads((home / "approvals.json").read_text())
    assert (tree["calls"], opened(home).approves_mount("e", "/e")) == ([{"id": 1}], True)


def test_a_mount_is_approved_for_one_path_and_one_target(home: Path) -> None:
    write(home, json.dumps({"mounts": [{"rule_path": "e", "canonical_target": "/e"}]}).encode())
    pairs = [("e", "/e"), ("e", "/e/x"), ("e/x", "/e"), ("E", "/e")]
    assert [opened(home).approves_mount(*pair) for pair in pairs] == [True, False, False, False]


def test_a_file_that_is_too_large_is_an_error_and_stays_as_it_is(home: Path) -> None:
    path = write(home, b" " * (LARGEST + 1))
    with pytest.raises(StateError, match="is larger than 16 MB"):
        opened(home).trusts(PRINT)
    with pytest.raises(StateError, match="is larger than 16 MB"):
        opened(home).trust(PRINT, now=NOW)
    assert path.stat().st_size == LARGEST + 1


@pytest.mark.parametrize("what", ["file", "directory"])
def test_approvals_that_others_could_have_written_are_refused(what: str, home: Path) -> None:
    opened(home).trust(PRINT, now=NOW)
    (home / "approvals.json" if what == "file" else home).chmod(0o770)
    with pytest.raises(StateError, match="can be written by others"):
        opened(home).trusts(PRINT)


def test_approvals_behind_a_link_are_refused(home: Path) -> None:
    opened(home).trust(PRINT, now=NOW)
    (home / "approvals.json").rename(home / "real")
    (home / "approvals.json").symlink_to("real")
    with pytest.raises(StateError, match="cannot be read"):
        opened(home).trusts(PRINT)


ADD = """
import sys
from byleave.store.approvals import Fingerprint
from byleave.store.approvals import Approvals
from byleave.user_files import ParseCache
for number in range(int(sys.argv[2])):
    Approvals(sys.argv[1], ParseCache(None, "1")).trust(Fingerprint(f"{sys.argv[3]}{number}", "aa"), now="now")
"""


def add(home: Path, count: int, name: str, *, limit: int | None = None) -> "subprocess.Popen[str]":
    def bound() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit or 0, limit or 0))

    return subprocess.Popen(
        [sys.executable, "-c", ADD, str(home), str(count), name],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=bound if limit is not None else None,  # noqa: PLW1509 -- the tests start no threads
    )


def test_two_processes_that_approve_at_once_lose_nothing(home: Path) -> None:
    count = amounts.of(500, 200)  # each reads and writes all that are there
    writers = [add(home, count, name) for name in "ab"]
    assert [writer.communicate(timeout=240)[1] for writer in writers] == ["", ""]
    entries = json.loads((home / "approvals.json").read_text())["project_files"]
    assert sorted(entry["path"] for entry in entries) == sorted(f"{name}{n}" for name in "ab" for n in range(count))


# Dies at the n-th of the calls that change something on the disk, before or after it, while a yes is being kept.
DIE = """
import os, signal, sys
from byleave.store.approvals import Approvals
from byleave.user_files import ParseCache
left = int(sys.argv[2])
def deadly(name):
    real = getattr(os, name)
    def call(*args, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        made = real(*args, **named)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return made
    setattr(os, name, call)
for name in ("open", "write", "fsync", "replace", "close", "unlink"):
    deadly(name)
Approvals(sys.argv[1], ParseCache(None, "1")).approve_mount("new", "/new", now="now")
os.write(1, b"kept")
"""


def test_a_writer_that_is_killed_at_any_step_leaves_the_old_or_the_new_and_never_less(home: Path) -> None:
    opened(home).approve_mount("old", "/old", now=NOW)
    for step in range(1, 200, amounts.of(1, 3)):
        opened(home).forget_mount("new")
        argv = [sys.executable, "-c", DIE, str(home), str(step)]
        done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
        paths = [path for path, _target, _at in opened(home).mounts()]
        assert paths in (["old"], ["old", "new"])
        assert done.stdout != b"kept" or paths == ["old", "new"]
        assert opened(home).warnings == []
        if done.returncode == 0:
            break
    assert (done.returncode, step > 10) == (0, True)
    assert sorted(os.listdir(home)) == ["approvals.json", "approvals.lock"]


def test_a_new_target_replaces_the_old_one_and_a_forgotten_one_is_gone(home: Path) -> None:
    for target in ("/one", "/two"):
        opened(home).approve_mount("fork", target, now=NOW)
    assert opened(home).mounts() == [("fork", "/two", NOW)]
    assert opened(home).mount_target("fork") == "/two"
    assert [opened(home).forget_mount("fork", target="/one"), opened(home).forget_mount("fork")] == [False, True]
    assert opened(home).mount_target("fork") is None


def test_a_revoked_approval_is_listed_and_a_new_yes_ends_that(home: Path) -> None:
    opened(home).approve_mount("fork", "/x", now=NOW)
    (approval,) = opened(home).all()
    assert opened(home).revoke(approval, now="later")
    assert [(one.id, one.status) for one in opened(home).all()] == [(approval.id, "revoked")]
    assert not opened(home).approves_mount("fork", "/x")
    assert not opened(home).revoke(approval, now="later")
    opened(home).approve_mount("fork", "/x", now=NOW)
    assert [(one.id, one.status) for one in opened(home).all()] == [(approval.id, "approved")]


def test_an_action_is_known_by_its_key_alone_and_what_was_answered_does_not_wait_again(home: Path) -> None:
    for status in ("approved", "pending"):
        opened(home).remember("k", kind="call", subject="s", session="x", status=status, now=NOW)
    assert [opened(home).recalls(key) for key in ("k", "K", "")] == [True, False, False]
    assert [one.status for one in opened(home).all()] == ["approved"]


@pytest.mark.parametrize("kind", ["mount", "project_file", "", None])
def test_an_action_that_claims_to_be_something_else_can_be_revoked_all_the_same(kind: str | None, home: Path) -> None:
    write(home, json.dumps({"actions": [{"key": "k", "kind": kind, "status": "approved"}]}).encode())
    (approval,) = opened(home).all()
    assert (approval.kind, opened(home).revoke(approval, now=NOW)) == ("action", True)
    assert not opened(home).recalls("k")


def test_an_answer_of_another_process_is_not_made_to_wait_again(home: Path) -> None:
    stale = opened(home)
    assert not stale.recalls("k")
    opened(home).remember("k", kind="call", subject="s", session="x", status="approved", now=NOW)
    stale.remember("k", kind="call", subject="s", session="x", status="pending", now=NOW)
    assert opened(home).recalls("k")


def test_the_oldest_actions_are_forgotten_before_the_file_grows_too_large(home: Path) -> None:
    entries = [{"key": str(n), "status": "approved"} for n in range(MOST_ACTIONS)]
    write(home, json.dumps({"actions": entries}).encode())
    opened(home).remember("new", kind="call", subject="s", session="x", status="approved", now=NOW)
    assert [opened(home).recalls(key) for key in ("0", "1", "new")] == [False, True, True]


def test_an_agent_with_many_long_questions_leaves_room_for_answers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("byleave.store.approvals.LARGEST", 30_000)
    monkeypatch.setattr("byleave.store.approvals.LARGEST_WAITING", 10_000)
    opened(home).remember("yes", kind="call", subject="s", session="x", status="approved", now=NOW)
    for number in range(40):
        asked = {"action": {"kind": "command", "command": "x" * 1000}}
        opened(home).remember(
            str(number), kind="action", subject="s", session="x", status="pending", now=NOW, asked=asked
        )
    opened(home).trust(PRINT, now=NOW)
    keys = [each.detail["key"] for each in opened(home).all() if "key" in each.detail]
    assert opened(home).recalls("yes")
    assert (keys[-1], "0" in keys, len(keys) > 5) == ("39", False, True)


def test_an_approval_that_cannot_be_written_is_said_so_and_the_old_ones_stay(home: Path) -> None:
    opened(home).trust(PRINT, now=NOW)
    _, said = add(home, 1, "x" * 2000, limit=1000).communicate(timeout=60)
    assert "cannot be written: File too large" in said
    assert opened(home).trusts(PRINT)
    assert sorted(os.listdir(home)) == ["approvals.json", "approvals.lock"]


def test_a_program_that_was_stopped_while_it_approved_does_not_stop_all_others(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.user_files.LOCK_PATIENCE", 0.2)
    fields: dict[str, Any] = {"kind": "action", "subject": "s", "session": "s", "now": "2026-01-01T00:00:00Z"}
    opened(home).remember("k", status="approved", **fields)
    errors: list[StateError] = []

    def approve() -> None:
        try:
            opened(home).remember("other", status="approved", **fields)
        except StateError as error:
            errors.append(error)

    with Lock(str(home / "approvals.lock")):  # as a stopped process would hold it
        writing = threading.Thread(target=approve, daemon=True)
        writing.start()
        writing.join(10)
        assert not writing.is_alive()
    assert "has held its lock for too long" in errors[0].problem
    assert "it may be stopped" in str(errors[0])
    assert opened(home).recalls("k")


def test_a_yes_of_another_process_is_seen_after_a_refresh(home: Path) -> None:
    here = opened(home)
    seen = [here.trusts(PRINT)]
    opened(home).trust(PRINT, now=NOW)
    here.refresh()
    seen.append(here.trusts(PRINT))
    opened(home).untrust(PRINT.file)
    here.refresh()
    seen.append(here.trusts(PRINT))
    assert seen == [False, True, False]


WORDS = [
    (["run.sh"], {"run.sh"}),
    (["sh", "--rc=run.sh"], {"sh", "--rc=run.sh", "run.sh"}),
    (["sh", "-c", "(cd x;./run.sh|tee 'a b')"], {"sh", "-c", "./run.sh", "x", "a", "b"}),
    (["a b"], {"a b", "a", "b"}),
    (["FOO=1 ./run.sh"], {"./run.sh"}),
]


@pytest.mark.parametrize(("command", "expect"), WORDS)
def test_every_word_that_could_name_a_file_is_looked_at(command: list[str], expect: set[str]) -> None:
    assert expect <= set(command_words({"tools": {"t": {"command": command}}}))


def test_a_fingerprint_names_each_script_once_in_order() -> None:
    tree = {"tools": {"a": {"command": ["z", "b"]}, "b": {"command": ["b"]}, "c": {}}}
    made = fingerprint("f", b"content", tree, lambda word: (word, f"#{word}"))
    assert made == Fingerprint("f", digest(b"content"), (("b", "#b"), ("z", "#z")))
