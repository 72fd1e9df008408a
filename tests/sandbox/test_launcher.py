"""The launcher: it reads what `linux/program.py` writes, and refuses the rest. Without it nothing is started."""

import re
import sys
from pathlib import Path
from struct import pack

import pytest

from byleave.cli.main import run as run_command_line
from byleave.errors import SandboxError
from byleave.sandbox.linux import program
from byleave.sandbox.linux.program import STEPS, step, write_program
from byleave.sandbox.native import build
from byleave.sandbox.native.build import FULL, LEAN, find_launcher
from byleave.sandbox.process import Process
from byleave.sandbox.sandbox import Sandbox
from sandbox.machine import needs_sandbox

NATIVE = Path(program.__file__).parents[1] / "native"


def test_the_launcher_knows_the_same_steps_in_the_same_order() -> None:
    text = (NATIVE / "launcher.c").read_text()
    table = text[text.index("} STEPS[] = {") :]
    assert tuple(re.findall(r'\{"(\w+)", \w+\}', table)) == STEPS
    for name in ("DIRECTORY", "OTHER", "LINKED", "IF_THERE"):
        assert re.search(rf"\b{name} = {getattr(program, name)}\b", (NATIVE / "launcher.h").read_text())


def test_fields_are_numbers_texts_and_lists() -> None:
    written = write_program([step("grant", "/x", 3, 0), step("exec", "/p", "/", [b"a", b""], [])])
    number = STEPS.index("grant")
    assert written.startswith(pack("=QQ", number, 2) + b"/x\0" + pack("=QQ", 3, 0))
    assert written.endswith(pack("=Q", 2) + pack("=Q", 1) + b"a\0" + pack("=Q", 0) + b"\0" + pack("=Q", 0))


def test_names_that_are_no_text_keep_their_bytes() -> None:
    assert b"\xff\0" in write_program([step("hostname", "\udcff")])


@needs_sandbox
@pytest.mark.parametrize("kind", [LEAN, FULL])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        write_program([step("drop")]) + b"\0",
        write_program([step("hostname", "x")])[:-1],
        pack("=QQ", STEPS.index("hostname"), 1 << 63),
        pack("=QQQ", STEPS.index("exec"), 0, 0),
    ],
)
def test_it_refuses_a_program_that_it_cannot_read(tmp_path: Path, kind: str, content: bytes) -> None:
    with Process((find_launcher(str(tmp_path), kind).path,), content) as process:
        assert process.wait() == 125
        assert process.problem is not None
        assert process.problem.step == "program"


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a compiler, where a wheel without launchers is installed."""
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    monkeypatch.setattr(build, "launcher_name", lambda _kind: "launcher-of-another-machine")


@pytest.mark.usefixtures("no_launcher")
def test_without_a_launcher_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    words = ["byleave", "run", "--root", str(root), "--", "/bin/sh", "-c", "echo ran > file"]
    monkeypatch.setattr(sys, "argv", words)
    assert run_command_line() == 125
    said = capsys.readouterr().err
    assert "the sandbox needs its launcher" in said
    assert "or a C compiler (cc)" in said
    assert list(root.iterdir()) == []
    with Sandbox(root=str(root)) as box, pytest.raises(SandboxError, match="needs its launcher"):
        box.spawn(["true"])


@pytest.mark.usefixtures("no_launcher")
def test_the_doctor_names_the_missing_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["byleave", "doctor", "--root", str(tmp_path)])
    assert run_command_line() == 1
    assert re.search(r"bad +launcher +the sandbox needs its launcher", capsys.readouterr().out)
