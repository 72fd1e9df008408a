"""`byleave approvals`: what waits, what holds, what was revoked, for people and for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.load import Workspace
from byleave.store.approvals import PENDING
from command import Done, at_terminal, byleave
from hooks.hook_scene import opencode

POLICY = """\
[tools.reader]
source = "local"
[[tools.reader.access.fs]]
path = "."
read = true
[[tools.reader.access.fs]]
path = "fork"
external = true
read = true

[tools.editor]
source = "local"
[[tools.editor.access.fs]]
path = "fork"
external = true
read = true
write = true
"""


@pytest.fixture
def project(tmp_path: Path, own_home: Path) -> Path:
    root = tmp_path / "ws"
    for directory in (root, tmp_path / "ext", tmp_path / "other"):
        directory.mkdir()
        (directory / "file").write_text("x")
    (root / "fork").symlink_to(tmp_path / "ext")
    (own_home / "config.toml").write_text(POLICY)
    return root


def listed(project: Path) -> list[dict[str, Any]]:
    done = byleave("approvals", "list", "--json", cwd=project)
    assert done.code == 0
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def only(project: Path) -> dict[str, Any]:
    (found,) = listed(project)
    return found


def read_fork(project: Path) -> Done:
    return byleave("check", "read", "fork/file", "--tool", "reader", cwd=project)


def test_nothing_waits_and_nothing_holds_at_first(tmp_path: Path) -> None:
    assert byleave("approvals", "list", cwd=tmp_path).out == "nothing is approved here, and nothing is pending\n"
    assert byleave("approvals", "list", "--json", cwd=tmp_path).out == "[]\n"


def test_a_way_out_that_nobody_approved_waits(project: Path) -> None:
    found = only(project)
    target = str(project.parent / "ext")
    assert {**found, "id": ""} == {
        "id": "",
        "kind": "mount",
        "status": "pending",
        "subject": f"fork -> {target}",
        "created": None,
        "rule_path": "fork",
        "canonical_target": target,
    }
    assert read_fork(project).code == 20
    assert "approve it with `byleave approvals approve`" in read_fork(project).err


def test_an_approved_way_out_holds_and_a_revoked_one_does_not(project: Path) -> None:
    number = only(project)["id"]
    assert byleave("approvals", "approve", number, "--yes", cwd=project).code == 0
    assert (only(project)["id"], only(project)["status"], read_fork(project).code) == (number, "approved", 0)
    assert byleave("approvals", "revoke", number, "--yes", cwd=project).out == f"revoked: {number}\n"
    assert (only(project)["id"], only(project)["status"], read_fork(project).code) == (number, "revoked", 20)
    assert byleave("approvals", "approve", number, "--yes", cwd=project).code == 0
    assert (only(project)["status"], read_fork(project).code) == ("approved", 0)


def test_doing_it_again_changes_nothing(project: Path) -> None:
    number = only(project)["id"]
    for _ in range(2):
        assert byleave("approvals", "approve", number, "--yes", cwd=project).code == 0
    for _ in range(2):
        assert byleave("approvals", "revoke", number, "--yes", cwd=project).code == 0


def test_the_question_shows_the_full_effect(project: Path) -> None:
    with at_terminal("approvals", "approve", cwd=project) as terminal:
        terminal.wait_for("Approve? [y/N] ")
        assert f"fork -> {project.parent / 'ext'}" in terminal.seen
        assert "reader: read" in terminal.seen
        assert "editor: read, create, update, delete" in terminal.seen
        terminal.type(b"y\n")
        assert terminal.ends() == 0
    assert read_fork(project).code == 0


NOES = {"no": b"n\n", "nothing": b"\n", "Ctrl-C": b"\x03", "end of input": b"\x04"}


@pytest.mark.parametrize("keys", NOES.values(), ids=NOES.keys())
def test_everything_but_a_clear_yes_leaves_it_waiting(keys: bytes, project: Path) -> None:
    with at_terminal("approvals", "approve", cwd=project) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(keys)
        assert terminal.ends() == 1
    assert (only(project)["status"], read_fork(project).code) == ("pending", 20)


def test_a_retargeted_link_is_asked_about_with_both_targets(project: Path) -> None:
    byleave("approvals", "approve", only(project)["id"], "--yes", cwd=project)
    (project / "fork").unlink()
    (project / "fork").symlink_to(project.parent / "other")
    assert read_fork(project).code == 20
    assert sorted(one["status"] for one in listed(project)) == ["approved", "pending"]
    with at_terminal("approvals", "approve", cwd=project) as terminal:
        terminal.wait_for("Allow the new target? [y/N] ")
        assert f"was: {project.parent / 'ext'}" in terminal.seen
        assert f"now: {project.parent / 'other'}" in terminal.seen
        terminal.type(b"y\n")
        assert terminal.ends() == 0
    assert read_fork(project).code == 0
    assert only(project)["subject"] == f"fork -> {project.parent / 'other'}"


def test_capability_edits_do_not_ask_again(project: Path, own_home: Path) -> None:
    byleave("approvals", "approve", only(project)["id"], "--yes", cwd=project)
    (own_home / "config.toml").write_text(POLICY.replace("read = true\n\n", "read = true\nwrite = true\n\n"))
    assert byleave("check", "update", "fork/file", "--tool", "reader", cwd=project).code == 0


def test_a_broken_link_waits_for_nothing_and_grants_nothing(project: Path) -> None:
    (project / "fork").unlink()
    (project / "fork").symlink_to(project.parent / "gone")
    assert listed(project) == []
    assert "its target does not exist here" in read_fork(project).err
    assert read_fork(project).code == 20


def test_without_a_terminal_only_a_script_of_ones_own_can_approve(project: Path) -> None:
    number = only(project)["id"]
    for words in (("approve", number), ("revoke", number), ("approve",)):
        done = byleave("approvals", *words, cwd=project, feed=b"y\n")
        assert (done.code, "this needs your consent at a terminal" in done.err) == (2, True)
    assert only(project)["status"] == "pending"


def test_no_input_asks_nobody(project: Path) -> None:
    with at_terminal("approvals", "approve", "--no-input", cwd=project) as terminal:
        assert terminal.ends() == 2
    assert only(project)["status"] == "pending"


def test_an_unknown_id_is_an_error_for_people_and_for_programs(project: Path) -> None:
    for word in ("approve", "revoke"):
        done = byleave("approvals", word, "nonsense", "--yes", cwd=project)
        assert (done.code, 'there is no approval "nonsense"' in done.err) == (2, True)
    done = byleave("approvals", "revoke", "nonsense", "--yes", "--json", cwd=project)
    assert json.loads(done.out)["error"]["code"] == "input"


def test_yes_to_everything_is_not_to_be_had(project: Path) -> None:
    done = byleave("approvals", "approve", "--yes", cwd=project)
    assert (done.code, "--yes needs an ID" in done.err) == (2, True)


def test_a_project_file_waits_until_it_is_trusted(project: Path) -> None:
    (project / "byleave.toml").write_text('[tools.mine]\nsource = "local"\n')
    waiting = next(one for one in listed(project) if one["kind"] == "project_file")
    done = byleave("approvals", "approve", waiting["id"], "--yes", cwd=project)
    assert (done.code, "makes active" in done.out) == (0, True)
    trusted = next(one for one in listed(project) if one["kind"] == "project_file")
    assert (trusted["id"], trusted["status"]) == (waiting["id"], "approved")
    assert byleave("check", "read", "x", "--tool", "mine", cwd=project).code == 0
    assert byleave("approvals", "revoke", waiting["id"], "--yes", cwd=project).code == 0
    assert byleave("check", "read", "x", "--tool", "mine", cwd=project).code == 2


def test_an_id_of_a_project_file_stands_for_its_content(project: Path) -> None:
    (project / "byleave.toml").write_text('[tools.mine]\nsource = "local"\n')
    waiting = next(one for one in listed(project) if one["kind"] == "project_file")
    (project / "byleave.toml").write_text('[tools.evil]\nsource = "local"\n')
    assert byleave("approvals", "approve", waiting["id"], "--yes", cwd=project).code == 2


def test_a_call_that_waits_is_approved_by_its_id(project: Path) -> None:
    approvals = Workspace(str(project)).approvals
    approvals.remember("k1", kind="call", subject="call db q", session="default", status=PENDING, now="2026")
    waiting = next(one for one in listed(project) if one["kind"] == "call")
    assert (waiting["status"], waiting["subject"]) == ("pending", "call db q")
    assert (
        byleave("approvals", "approve", waiting["id"], "--yes", "--json", cwd=project).out
        == json.dumps({"approved": [waiting["id"]]}) + "\n"
    )
    approvals.refresh()
    assert approvals.recalls("k1")
    assert byleave("approvals", "revoke", waiting["id"], "--yes", cwd=project).code == 0
    approvals.refresh()
    assert not approvals.recalls("k1")


def test_a_no_settles_a_call_that_waits(project: Path) -> None:
    approvals = Workspace(str(project)).approvals
    approvals.remember("k1", kind="call", subject="call db q", session="default", status=PENDING, now="2026")
    id_ = next(one["id"] for one in listed(project) if one["kind"] == "call")
    for keys, status in ((b"\n", "pending"), (b"n\n", "revoked")):
        with at_terminal("approvals", "approve", id_, cwd=project) as terminal:
            terminal.wait_for("[y/N] ")
            terminal.type(keys)
            assert terminal.ends() == 1
        assert next(one["status"] for one in listed(project) if one["id"] == id_) == status
    assert f"refused: {id_}" in terminal.seen
    approvals.remember("k1", kind="call", subject="call db q", session="default", status=PENDING, now="2026")
    approvals.refresh()
    assert not approvals.recalls("k1")
    assert next(one["status"] for one in listed(project) if one["id"] == id_) == "revoked"
    log = byleave("audit", "list", "--json", cwd=project).out
    assert '"choice": "no"' in log or '"choice":"no"' in log


def test_names_are_shown_without_their_control_characters(project: Path, own_home: Path) -> None:
    evil = project.parent / "evil\x1b[2J"
    evil.mkdir()
    (project / "fork").unlink()
    (project / "fork").symlink_to(evil)
    out = byleave("approvals", "list", cwd=project).out
    assert ("\x1b" in out, "evil\\x1b[2J" in out) == (False, True)


def test_an_agent_below_a_door_approves_nothing(project: Path) -> None:
    number = only(project)["id"]
    door = ("bash", "-c", 'exec -a byleave bash -c "\\"\\$@\\"; exit \\$?" acp "$@"', "sh")
    with at_terminal("approvals", "approve", number, "--yes", cwd=project, before=("/usr/bin/env", *door)) as terminal:
        assert terminal.ends() == 2
        assert "an agent or tool may have started this command" in terminal.seen
    assert only(project)["status"] == "pending"


def test_a_question_about_a_command_fits_the_terminal_and_names_no_place_that_the_command_says(project: Path) -> None:
    (project / "elsewhere").mkdir()
    (project / "there").symlink_to("elsewhere")
    command = "npm install left-pad && echo x > there/out"
    event = opencode("bash", {"command": command}, project)
    byleave("hook", "opencode", cwd=project, feed=json.dumps(event).encode())
    id_ = next(one["id"] for one in listed(project) if one["kind"] == "action")
    with at_terminal("approvals", "approve", id_, cwd=project, columns=80) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(b"\n")
        terminal.ends()
    rows = terminal.seen.replace("\r", "").split("\n")
    assert "action:" in rows
    assert max(map(len, rows)) <= 80
    assert "    | command" in terminal.seen
    assert f"{project}/elsewhere/out" in terminal.seen.replace("\r\n    | ", "")
    assert "left-pad" not in terminal.seen.partition("runs in, or writes to:")[2].partition("rule:")[0]
