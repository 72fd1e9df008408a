"""The user's terminal is never the program's: nothing inside reads what is typed there, nor takes it over.

Where a standard stream is a terminal, the program has one of its own, at which job control works.
"""

import fcntl
import json
import os
import shutil
import signal
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from command import COMMAND, Terminal, at_terminal
from sandbox.machine import PYTHON, needs_sandbox
from sandbox.without_namespaces import needs_bwrap, needs_unshare, on_such_a_machine

pytestmark = needs_sandbox

# Every way to the terminal that a program can try; prints those that worked.
TAKE_OVER = dedent("""
    import ctypes, fcntl, os, signal, termios
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    found = []
    def tried(name, what):
        try: what()
        except OSError: return
        found.append(name)
    tried("open", lambda: os.open("/dev/tty", os.O_RDWR))
    tried("console", lambda: os.open("/dev/console", os.O_RDWR))
    for number in range(64):
        tried(f"pts/{number}", lambda: os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY))
    def in_front():
        terminal = os.open("/dev/tty", os.O_RDWR)
        os.setpgid(0, 0)
        os.tcsetpgrp(terminal, os.getpgrp())
    tried("front", in_front)
    def another_session():
        if os.fork() == 0:
            try:
                os.setsid()
                os.open("/dev/tty", os.O_RDWR)
                os._exit(0)
            finally: os._exit(1)
        if os.wait()[1]: raise OSError
    tried("session", another_session)
    print("found", found)
""")
REDIRECTED = ("/bin/sh", "-c", 'exec "$0" "$@" </dev/null >out 2>&1')
NO_TERMINAL = "found []"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    place.mkdir()
    return place


def run_in(root: Path, *words: str) -> tuple[str, ...]:
    return ("run", "--root", str(root), "--", *words)


def test_without_a_terminal_among_its_streams_a_program_has_none(root: Path) -> None:
    with at_terminal(*run_in(root, PYTHON, "-c", TAKE_OVER), cwd=root, before=REDIRECTED) as terminal:
        assert terminal.ends() == 0
    assert (root / "out").read_text().strip() == NO_TERMINAL


@needs_unshare
@pytest.mark.parametrize("backend", ["landlock", pytest.param("bwrap", marks=needs_bwrap)])
def test_the_other_backends_give_it_none_either(backend: str, root: Path, tmp_path: Path) -> None:
    machine = on_such_a_machine(bwrap=backend == "bwrap", place=tmp_path)
    before = (*REDIRECTED, "/usr/bin/env", *machine)
    with at_terminal(*run_in(root, PYTHON, "-c", TAKE_OVER), cwd=root, before=before) as terminal:
        assert terminal.ends() == 0, terminal.seen
    assert NO_TERMINAL in (root / "out").read_text()


@needs_unshare
@pytest.mark.parametrize("backend", ["landlock", pytest.param("bwrap", marks=needs_bwrap)])
def test_the_other_backends_give_it_a_terminal_of_its_own(backend: str, root: Path, tmp_path: Path) -> None:
    program = "trap 'echo caught; exit 5' INT; echo re''ady; read -r line; echo got $line; while :; do sleep 0.05; done"
    before = ("/usr/bin/env", *on_such_a_machine(bwrap=backend == "bwrap", place=tmp_path))
    with at_terminal(*run_in(root, "/bin/sh", "-c", program), cwd=root, before=before) as terminal:
        terminal.wait_for("ready")
        terminal.type(b"words\n")
        terminal.wait_for("got words")
        terminal.type(b"\x03")
        terminal.wait_for("caught")
        assert terminal.ends() == 5


TOOL = f"""\
[tools.t]
source = "local"
runtime = "stdio"
run = "unattended"
command = ["{PYTHON}", "start.py"]

[[tools.t.access.fs]]
path = "."
read = true
"""


@pytest.mark.parametrize("more", ["", "[tools.t.access.commands.python3]\n"])
def test_a_tool_has_no_terminal(root: Path, tmp_path: Path, more: str) -> None:
    """byleave asks at the terminal while a tool runs: the tool would read the answer, or give it."""
    (root / "look.py").write_text(TAKE_OVER)
    (root / "start.py").write_text('import subprocess; subprocess.run(["python3", "look.py"], check=True)')
    policy = tmp_path / "policy.toml"
    policy.write_text(TOOL + more)
    words = ("call", "t", "{}", "--json", "--root", str(root), "--policy", str(policy))
    with at_terminal(*words, cwd=root, env={"PATH": "/usr/bin:/bin"}) as terminal:
        terminal.ends()
    assert NO_TERMINAL in terminal.seen, terminal.seen


def _device(master: int) -> int:
    """Return which device the terminal is whose other end we hold."""
    buffer = fcntl.ioctl(master, 0x80045430, b"\0\0\0\0")  # TIOCGPTN
    return os.stat(f"/dev/pts/{int.from_bytes(buffer, sys.byteorder)}").st_rdev


DEVICES = "import os; print('devices', [os.fstat(n).st_rdev for n in range(3)], os.isatty(1))"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("streams", ["", "</dev/null", "2>/dev/null", "| cat", "</dev/null 2>&1 | cat"])
def test_no_stream_of_a_program_is_the_terminal_itself(root: Path, streams: str) -> None:
    """A terminal that is somebody else's, and open, can be read by anybody."""
    before = ("/bin/sh", "-c", f'"$0" "$@" {streams}')
    with at_terminal(*run_in(root, PYTHON, "-c", DEVICES), cwd=root, before=before) as terminal:
        outer = _device(terminal.master)
        assert terminal.ends() == 0, terminal.seen
    told = terminal.seen.partition("devices ")[2].partition("]")[0].strip("[").split(", ")
    assert str(outer) not in told


def test_output_at_a_terminal_looks_like_one(root: Path) -> None:
    before = ("/bin/sh", "-c", 'exec "$0" "$@" </dev/null')
    with at_terminal(*run_in(root, PYTHON, "-c", DEVICES), cwd=root, before=before) as terminal:
        assert terminal.ends() == 0
    assert "] True" in terminal.seen


def modes(terminal: Terminal) -> list[object]:
    return list(termios.tcgetattr(terminal.master))


@pytest.mark.parametrize(
    "program",
    [
        "import os, tty; tty.setraw(0); os._exit(3)",
        "import os, signal, tty; tty.setraw(0); os.kill(os.getpid(), signal.SIGKILL)",
        "import fcntl, os, termios; fcntl.ioctl(0, termios.TIOCEXCL); os._exit(3)",
    ],
)
def test_what_a_program_does_to_its_terminal_ends_with_it(root: Path, program: str) -> None:
    keeps = ("/bin/sh", "-c", '"$0" "$@"; echo ended; read -r last; echo "last: $last"')
    with at_terminal(*run_in(root, PYTHON, "-c", program), cwd=root, before=keeps) as terminal:
        before = modes(terminal)
        terminal.wait_for("ended")
        assert modes(terminal) == before
        terminal.type(b"words\n")
        terminal.wait_for("last: words")
        assert terminal.ends() == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_job_control_works_in_a_shell_inside(root: Path) -> None:
    os.mkfifo(root / "go")
    words = run_in(root, "/bin/bash", "--norc", "--noprofile", "-i")
    with at_terminal(*words, cwd=root, env={"TERM": "dumb"}) as terminal:
        terminal.type(b"PS1='> '; echo rea''dy\n")
        terminal.wait_for("ready")
        terminal.type(b"sh -c 'echo run''ning; read -r line <go; echo aw''ake'\n")
        terminal.wait_for("running")
        terminal.type(b"\x1a")
        terminal.wait_for("Stopped")
        terminal.type(b"fg\n")
        (root / "go").write_text("go on\n")
        terminal.wait_for("awake")
        terminal.type(b"exit 7\n")
        assert terminal.ends() == 7
    assert "no job control" not in terminal.seen


@contextmanager
def in_shell(root: Path, line: Sequence[str]) -> Iterator[Terminal]:
    """A shell with job control outside, at which byleave was started with its streams redirected."""
    words = " ".join([*COMMAND, "run", "--root", str(root), "--", *line])
    env = {"PS1": "$ ", "TERM": "dumb"}
    with at_terminal(cwd=root, before=("/bin/sh", "-c", "exec bash --norc --noprofile -i"), env=env) as terminal:
        terminal.type(f"{words}\n".encode())
        yield terminal


def test_an_interrupt_reaches_everything_that_runs_without_a_terminal(root: Path) -> None:
    """The shell inside waits for its child: only if the child is interrupted as well does it end."""
    program = "echo ready >&2; sleep 60; echo woke >&2"
    before = ("/bin/sh", "-c", 'trap : INT; ("$0" "$@" </dev/null 2>&1 >/dev/null | cat); echo over')
    with at_terminal(*run_in(root, "/bin/sh", "-c", program), cwd=root, before=before) as terminal:
        terminal.wait_for("ready")
        terminal.type(b"\x03")
        terminal.wait_for("over")
    assert "woke" not in terminal.seen


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_what_runs_without_a_terminal_stops_and_continues_with_us(root: Path) -> None:
    program = '"echo ready >&2; while [ ! -e go ]; do sleep 0.05; done; echo wo""ke >&2"'
    with in_shell(root, ["/bin/sh", "-c", program, "</dev/null", "2>&1", ">/dev/null", "|", "cat"]) as terminal:
        terminal.wait_for("ready\r\n")
        terminal.type(b"\x1a")
        terminal.wait_for("Stopped")
        (root / "go").touch()
        terminal.type(b"fg\n")
        terminal.wait_for("woke\r\n")
        terminal.type(b"exit 4\n")
        assert terminal.ends() == 4


def test_keys_go_to_a_pager_and_not_to_what_fills_it(root: Path) -> None:
    """The other end of the pipe reads key by key: byleave leaves these keys alone."""
    pager = 'stty -icanon -echo </dev/tty; echo pag""er; head -c1 </dev/tty >key; stty sane </dev/tty; cat key'
    before = ("/bin/sh", "-c", f'"$0" "$@" | ({pager})')
    with at_terminal(*run_in(root, "/bin/cat"), cwd=root, before=before) as terminal:
        terminal.wait_for("pager")
        terminal.type(b"Q")
        terminal.wait_for("Q")
        terminal.type(b"\x04")
        assert terminal.ends() == 0
    assert (root / "key").read_text() == "Q"


def test_lines_arrive_where_output_is_a_pipe(root: Path) -> None:
    before = ("/bin/sh", "-c", '"$0" "$@" | tr a-z A-Z')
    with at_terminal(*run_in(root, "/bin/cat"), cwd=root, before=before) as terminal:
        terminal.type(b"words\n")
        terminal.wait_for("WORDS")
        terminal.type(b"\x04")
        assert terminal.ends() == 0


def test_the_messages_of_a_run_are_json_free(root: Path) -> None:
    """Nothing is printed on the program's output, at a terminal either."""
    with at_terminal(*run_in(root, "/bin/echo", json.dumps({"a": 1})), cwd=root) as terminal:
        assert terminal.ends() == 0
    assert terminal.seen.encode() == b'{"a": 1}\r\n'


def test_a_hang_up_ends_what_runs(root: Path) -> None:
    program = "trap 'echo hung >up; exit 0' HUP; echo ready; while :; do sleep 0.05; done"
    with at_terminal(*run_in(root, "/bin/sh", "-c", program), cwd=root) as terminal:
        terminal.wait_for("ready")
        os.kill(terminal.process.pid, signal.SIGHUP)
        assert terminal.ends() == 0
    assert (root / "up").read_text() == "hung\n"


def test_an_interrupt_reaches_what_writes_to_a_pipe(root: Path) -> None:
    program = "trap 'echo caught >&2; exit 5' INT; echo ready >&2; while :; do sleep 0.05; done"
    before = ("/bin/sh", "-c", 'trap : INT; "$0" "$@" | cat; echo over')
    with at_terminal(*run_in(root, "/bin/sh", "-c", program), cwd=root, before=before) as terminal:
        terminal.wait_for("ready")
        terminal.type(b"\x03")
        terminal.wait_for("caught")
        terminal.wait_for("over")
        assert terminal.ends() == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_in_the_background_it_runs_and_leaves_the_keys_to_the_shell(root: Path) -> None:
    """What is typed is the shell's, and a job that does not read is not stopped."""
    os.mkfifo(root / "go")
    with in_shell(root, ["/bin/sh", "-c", "\"echo run''ning; read -r line <go; echo aw''ake\"", "&"]) as terminal:
        terminal.wait_for("running")
        terminal.type(b"echo ty''ped\n")
        terminal.wait_for("typed")
        (root / "go").write_text("go on\n")
        terminal.wait_for("awake")
        terminal.type(b"wait; exit 4\n")
        assert terminal.ends() == 4
    assert "Stopped" not in terminal.seen
