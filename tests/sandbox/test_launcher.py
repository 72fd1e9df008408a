"""The launcher: it reads what `linux/program.py` writes, and refuses the rest. Without it nothing is started."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest

from amounts import slow, some
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


Recipe = tuple[tuple[str, ...], tuple[str, ...]]
needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")


@pytest.mark.sampled(2)
@needs_compiler
@pytest.mark.parametrize(
    "recipe",
    some(list(dict.fromkeys((*build.RECIPES[LEAN], *build.RECIPES[FULL]))), every=2),
    ids=lambda each: each[0][-1:],
)
def test_no_way_to_build_it_makes_the_compiler_warn(tmp_path: Path, recipe: Recipe) -> None:
    compiler = build.find_compiler() or ""
    assert build.compile_launcher(compiler, str(tmp_path / "launcher"), *recipe, strict=True) == ""


@needs_compiler
def test_a_compiler_that_warns_still_builds_it_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warns = tmp_path / "cc"
    warns.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = -Werror ] && exit 1; done\nexec {build.find_compiler()} "$@"\n'
    )
    warns.chmod(0o755)
    monkeypatch.setattr(build, "find_compiler", lambda: str(warns))
    monkeypatch.setattr(build, "launcher_name", lambda kind: f"launcher-{kind}-of-the-test")
    with pytest.raises(SandboxError, match="could not be built"):
        build.build_with_package(str(tmp_path))
    assert find_launcher(str(tmp_path / "cache"), FULL).origin == "built here"


# A sanitizer's own memory is beyond any limit of memory that a test sets.
UNSANITIZED = "not too_much and not raised_inside"
# Every process of the launcher: the keeper, the init, the program before it is started, the broker and the tracer.
SANITIZED = (
    *("launcher", "behaviour", "commands", "diagnose", "exchanged", "links_while_building", "listing", "own_terminal"),
    "session",
)


@slow
@needs_sandbox
@needs_compiler
def test_its_tests_pass_with_sanitizers(tmp_path: Path) -> None:
    """An error that a sanitizer finds ends the launcher with another exit code, and is written to standard error."""
    copy = tmp_path / "src" / "byleave"
    shutil.copytree(NATIVE.parents[1], copy, ignore=shutil.ignore_patterns("__pycache__", "launcher-*"))
    why = build.build_sanitized(str(copy / "sandbox" / "native"))
    if why:
        pytest.skip(f"the sanitizers cannot be used here: {why[:200]}")
    tests = Path(__file__).parents[1]
    variables = {name: value for name, value in os.environ.items() if name != "BYLEAVE_SLOW_TESTS"}
    variables["PYTHONPATH"] = os.pathsep.join([str(copy.parent), str(tests)])
    files = [str(tests / "sandbox" / f"test_{name}.py") for name in SANITIZED]
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=300",
        "-k",
        UNSANITIZED,
    ]
    done = subprocess.run(
        [*words, *files], cwd=tests.parent, env=variables, capture_output=True, text=True, check=False, timeout=3000
    )
    assert done.returncode == 0, done.stdout[-4000:]
