"""What is written over a program that runs with its owner's rights does not get those rights."""

import os
import stat
from pathlib import Path

import pytest

from byleave.core.action import FileAction, MoveAction
from byleave.core.decision import ALLOW, Verdict
from byleave.core.permit import Permit
from byleave.workspace.file_effects import move_file, write_file
from byleave.workspace.resolve import Root
from byleave.workspace.safe_open import Anchor

BITS = {"set-user-id": stat.S_ISUID, "set-group-id": stat.S_ISGID, "both": stat.S_ISUID | stat.S_ISGID}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "program"
    made.write_text("old")
    return made


def allowed(root: Path, action: FileAction | MoveAction) -> Permit:
    find = Root(str(root)).resolve_input
    names = (action.path,) if isinstance(action, FileAction) else (action.path, action.to)
    return Permit(action, tuple(find(name) for name in names), Verdict(ALLOW, "", "ok", ()))


@pytest.mark.parametrize("bits", BITS.values(), ids=BITS)
def test_writing_takes_the_bits_off(program: Path, bits: int) -> None:
    program.chmod(0o755 | bits)
    write_file(allowed(program.parent, FileAction("update", "program")), b"new")
    assert (program.read_bytes(), stat.S_IMODE(program.stat().st_mode)) == (b"new", 0o755)


def test_writing_nothing_takes_the_bits_off(program: Path) -> None:
    program.chmod(0o4755)
    write_file(allowed(program.parent, FileAction("update", "program")), b"")
    assert stat.S_IMODE(program.stat().st_mode) == 0o755


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND])
def test_opening_to_write_takes_the_bits_off(program: Path, flags: int) -> None:
    program.chmod(0o4755)
    with Anchor.open(str(program.parent)) as anchor:
        os.close(anchor.open_file("program", flags))
    assert stat.S_IMODE(program.stat().st_mode) == 0o755


def test_reading_leaves_the_bits(program: Path) -> None:
    program.chmod(0o4755)
    with Anchor.open(str(program.parent)) as anchor:
        anchor.read_bytes("program", limit=10)
    assert stat.S_IMODE(program.stat().st_mode) == 0o4755


def test_a_file_that_is_moved_over_a_program_keeps_its_own_mode(program: Path) -> None:
    program.chmod(0o4755)
    other = program.with_name("other")
    other.write_text("new")
    other.chmod(0o644)
    move_file(allowed(program.parent, MoveAction("other", "program")), replace=True)
    assert (program.read_text(), stat.S_IMODE(program.stat().st_mode)) == ("new", 0o644)


def test_other_bits_stay(program: Path) -> None:
    program.chmod(0o640)
    write_file(allowed(program.parent, FileAction("update", "program")), b"new")
    assert stat.S_IMODE(program.stat().st_mode) == 0o640
