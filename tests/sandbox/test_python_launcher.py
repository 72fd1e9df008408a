"""The launcher in Python does what the one in C does: the same table, the same sandbox, the same ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from byleave.core.access import ProcessLimits
from byleave.errors import SandboxError
from byleave.sandbox import python_launcher
from byleave.sandbox.linux import program
from byleave.sandbox.native import build
from byleave.sandbox.process import PIPE, Process
from byleave.sandbox.sandbox import Sandbox
from command import environment
from sandbox.escapes.trial import HERE, from_json
from sandbox.machine import REPOSITORY, needs_sandbox

LAUNCHER_C = REPOSITORY / "src/byleave/sandbox/native/launcher.c"
TESTS = str(Path(__file__).parents[1])
COMMAND = [sys.executable, "-m", "sandbox.launched_by_python"]
# What must be as with the other launcher; the numbers of processes and of memory are its own.
STATE = "grep -E '^(Sig(Blk|Ign)|Cap|NoNew|Seccomp|Groups|Uid|Gid)' /proc/self/status; ls /proc/self/fd; ulimit -a"


def test_the_three_tables_are_one() -> None:
    table = LAUNCHER_C.read_text().partition("} STEPS[] = {")[2].partition("};")[0]
    assert tuple(re.findall(r'\{"(\w+)",', table)) == program.STEPS
    assert tuple(python_launcher.STEPS) == program.STEPS
    for name in ("DIRECTORY", "OTHER", "LINKED", "IF_THERE"):
        assert getattr(python_launcher, name) == getattr(program, name)
        assert re.search(rf"\b{name} = {getattr(program, name)}\b", LAUNCHER_C.with_suffix(".h").read_text())


def test_it_stands_alone() -> None:
    """Neither byleave nor anything that is installed may be needed, nor anything after the start."""
    program = "import runpy, sys; before = set(sys.modules); runpy.run_path(sys.argv[1], run_name='x')"
    program += "; print(sorted(name for name in sys.modules if 'byleave' in name or 'site' == name))"
    words = [sys.executable, "-I", "-S", "-c", program, python_launcher.__file__]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    place.mkdir()
    return place


def boxes(root: Path, limits: ProcessLimits | None = None) -> list[Sandbox]:
    """Return a sandbox with each launcher."""
    by_c, by_python = Sandbox(root=str(root), limits=limits), Sandbox(root=str(root), limits=limits)
    by_python.use_launcher(build.python_launcher())
    return [by_c, by_python]


def said(box: Sandbox, *words: str, **given: str) -> tuple[int, str]:
    with box, box.spawn(words, stdout=PIPE, env={"PATH": "/usr/bin:/bin", **given}) as process:
        assert process.stdout is not None
        text = process.stdout.read().decode()
        return process.wait(), text


@needs_sandbox
@pytest.mark.parametrize(
    "script",
    [
        STATE,
        r"find / -maxdepth 2 -regex '/\(etc\|proc\|usr\)/.*' -prune -o -printf '%p %M %u %l\n' 2>/dev/null | sort",
        "cut -d' ' -f2-4 /proc/self/mounts | grep -v /.byleave | sort",
        "hostname; id; umask; pwd; env | sort",
        "exit 7",
        "kill -SEGV $$",
        "kill -KILL $$",
        "(exit 3) | cat; yes | head -1",
    ],
)
def test_a_program_finds_the_same_in_both(root: Path, script: str) -> None:
    by_c, by_python = [said(box, "/bin/sh", "-c", script) for box in boxes(root)]
    assert by_python == by_c


@needs_sandbox
@pytest.mark.parametrize(
    "limits", [ProcessLimits(memory=32 << 20), ProcessLimits(open_files=20), ProcessLimits(file_size=4096, processes=9)]
)
def test_limits_are_the_programs_own(root: Path, limits: ProcessLimits) -> None:
    by_c, by_python = [said(box, "/bin/sh", "-c", "ulimit -a; echo fine") for box in boxes(root, limits)]
    assert by_python == by_c
    assert "fine" in by_python[1]


@needs_sandbox
def test_a_program_that_cannot_be_started_is_told_in_the_same_words(root: Path) -> None:
    (root / "script").write_text("#!/does/not/exist\n")
    (root / "script").chmod(0o755)
    (root / "text").write_text("x")
    told = []
    for name in ("script", "text"):
        for box in boxes(root):
            with box, box.spawn([f"./{name}"]) as process:
                told.append((process.wait(), str(process.problem)))
    assert told[0] == told[1]
    assert told[2] == told[3]
    assert told[2][0] == 126


@needs_sandbox
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "tape"),
        (program.write_tape([program.step("trace", b"")]), "trace"),
        (program.write_tape([("broker", (b"x",))]), "broker"),
        (b"\xff" * 8, "tape"),
        (program.write_tape([program.step("drop")]) + b"\0", "tape"),
        (program.write_tape([program.step("hostname", "x")])[:-1], "tape"),
    ],
)
def test_what_it_cannot_do_it_refuses(content: bytes, said: str) -> None:
    with Process(build.python_launcher().command, content) as process:
        assert process.wait() == 125
        assert isinstance(process.problem, SandboxError)
        assert process.problem.step == said


@needs_sandbox
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_program(root: Path, number: int) -> None:
    script = f"trap 'echo got; exit 9' {signal.Signals(number).name[3:]}; echo ready; while :; do sleep 0.05; done"
    box = boxes(root)[1]
    with box, box.spawn(["/bin/sh", "-c", script], stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert (process.wait(10), process.stdout.read()) == (9, b"got\n")


@needs_sandbox
def test_nothing_is_left_when_the_sandbox_is_closed(root: Path) -> None:
    box = boxes(root)[1]
    mark = f"31{os.getpid()}"
    with box:
        process = box.spawn(["/bin/sh", "-c", f"(sleep {mark} &) ; sleep {mark} & echo ready; wait"], stdout=PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.close()
        process.stdout.close()
    found = subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, check=False)
    assert found.stdout == b""


@needs_sandbox
def test_what_somebody_outside_exchanges_is_held_again(root: Path) -> None:
    (root / ".envrc").write_text("old")
    script = "echo ready; read x; if echo mine > .envrc; then echo written; fi 2>/dev/null; cat .envrc"
    box = boxes(root)[1]
    with box, box.spawn(["/bin/sh", "-c", script], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        (root / "new").write_text("new")
        (root / "new").rename(root / ".envrc")
        time.sleep(0.5)  # the init hears of it by a signal, and nobody hears of that
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.read() == b"new"


@needs_sandbox
def test_nobody_gets_out() -> None:
    given = [json.loads(line)["id"] for line in (HERE / "given.jsonl").read_text().splitlines() if line]
    launcher = f"{' '.join(COMMAND)} run --root $WS --access $POLICY --no-input --"
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.escapes", "--json", "--launcher", launcher, *given],
        env=environment({"PYTHONPATH": os.pathsep.join([TESTS, *filter(None, sys.path)])}),
        capture_output=True,
        check=False,
        start_new_session=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    outcomes, broken = from_json(done.stdout.decode())
    assert broken == []
    assert [one.id for one in outcomes if one.word in ("ESCAPED", "NO ANSWER")] == []
    assert len([one for one in outcomes if one.counts]) > 50
