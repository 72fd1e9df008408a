"""`byleave outside`: the program as it is, with its own streams and exit code; never below a sandbox of ours."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BYLEAVE = [sys.executable, "-P", "-m", "byleave"]


def outside(*words: str, cwd: Path | None = None, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BYLEAVE, "outside", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **options},
    )


def test_the_program_has_its_words_streams_directory_and_exit_code(tmp_path: Path) -> None:
    code = 'read line; printf \'%s|\' "$line" "$PWD" "$@"; echo oops >&2; exit 7'
    done = subprocess.run(
        [*BYLEAVE, "outside", "--", "sh", "-c", code, "sh", "a b", "", "--", "-q", "*"],
        input="typed\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (7, "oops\n")
    assert done.stdout == f"typed|{os.path.realpath(tmp_path)}|a b||--|-q|*|"


def test_it_becomes_the_program_so_signals_reach_it() -> None:
    process = subprocess.Popen(
        [*BYLEAVE, "outside", "--", "sh", "-c", "echo $$; exec sleep 100"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process:
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


def test_a_closed_pipe_ends_the_program_as_it_would_elsewhere() -> None:
    done = outside("--", "sh", "-c", "grep SigIgn /proc/self/status")
    assert int(done.stdout.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--", "no-such-program-here"), 127, "does not exist"),
        (("--", "/etc/passwd"), 126, "cannot be executed"),
        (("--", "/etc/passwd/x"), 127, "does not exist"),
        (("--", "/"), 126, "cannot be executed"),
        (("--",), 2, "no program was named"),
        (("--", ""), 2, "no program was named"),
        ((), 2, "no program was named"),
        (("ls",), 2, "-- is missing"),
    ],
)
def test_what_cannot_be_started_is_said_with_the_exit_code_of_a_shell(
    words: tuple[str, ...], code: int, said: str
) -> None:
    done = outside(*words)
    assert (done.returncode, done.stdout, said in done.stderr) == (code, "", True)


def test_below_a_sandbox_it_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    """A program whose arguments say that it is `byleave run` stands for the sandbox: only its name counts."""
    script = tmp_path / "byleave"
    script.write_text(
        f"import subprocess, sys\nsys.exit(subprocess.run([*{BYLEAVE!r}, 'outside', '--', 'ls']).returncode)\n"
    )
    done = subprocess.run([sys.executable, script, "run"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert "this runs in the sandbox" in done.stderr
    assert "a whole command of its own" in done.stderr
    plain = subprocess.run([sys.executable, script, "acp"], capture_output=True, text=True, check=False)
    assert plain.returncode == 0
