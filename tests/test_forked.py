"""A command that is forked finds what one that is started anew finds; otherwise tests would be about something else."""

import os
import select
import subprocess
from pathlib import Path

import pytest

import amounts
import command
from command import PATIENCE, Done, byleave, python
from forked import forker

pytestmark = pytest.mark.skipif(amounts.SLOW, reason="every command is started anew")

# All that a process gets from whoever starts it, and what Python makes of it.
SEES = r"""
import json, os, resource, signal, sys, time
status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
streams = (sys.stdin, sys.stdout, sys.stderr)
print(json.dumps({
    "words": sys.argv,
    "variables": dict(os.environ),
    "directory": os.getcwd(),
    "descriptors": [name for name in sorted(os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{name}")],
    "kinds": [os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in range(3)],
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "streams": [
        [s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through, s.seekable(), s.isatty()] for s in streams
    ],
    "status": {name: status[name] for name in (
        "Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs", "Seccomp", "Threads"
    )},
    "limits": [resource.getrlimit(which) for which in range(16)],
    "nice": os.nice(0),
    "flags": str(sys.flags),
    "modules": "pytest" in sys.modules,
    "time": time.strftime("%H %Z", time.localtime(0)),
}, indent=1))
"""


LATER = """
import atexit, threading, time
atexit.register(print, 'last')
threading.Thread(target=lambda: (time.sleep(0.05), print('later'))).start()
"""


def both(monkeypatch: pytest.MonkeyPatch, *words: str, **how: object) -> tuple[Done, Done]:
    """Run a program in Python both ways."""
    forked = python(*words, **how)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(command, "forker", lambda: None)
        return forked, python(*words, **how)  # type: ignore[arg-type]


def test_it_gets_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o027)
    try:
        env = {"ODD": "\udcff \n=", "HOME": None, "TZ": "XYZ-5"}
        forked, anew = both(monkeypatch, SEES, "a", "\udcff", "", cwd=tmp_path, env=env)
    finally:
        os.umask(before)
    assert forked.out.splitlines() == anew.out.splitlines()
    assert (forked.code, forked.err) == (0, "")


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(7)",
        "import sys; sys.exit('no')",
        "raise SystemExit",
        "import os; os._exit(255)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import os; os.write(1, b'x' * 1_000_000); os.write(2, b'y' * 1_000_000)",
        LATER,
        "import atexit, sys; atexit.register(print, 'last'); print('first'); sys.exit(300)",
        "import os, sys; sys.stdout = open(1, 'w', 1024, closefd=False); print('to nobody'); os.close(1)",
        "import sys; sys.stdout = None",
        "import sys; sys.stderr.close(); sys.exit(3)",
        "import os, sys; sys.stdout.write('unflushed'); os.fork() or os._exit(0)",
    ],
)
def test_it_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    forked, anew = both(monkeypatch, program, cwd=tmp_path)
    assert forked == anew


def test_what_it_is_fed_arrives_whole_and_need_not_be_read(tmp_path: Path) -> None:
    line = b'{"id": 1, "action": {"kind": "read", "path": "x"}}\n'
    done = byleave("check", "--batch", cwd=tmp_path, feed=line * 5000)
    assert len(done.out.splitlines()) == 5000
    assert byleave("--version", cwd=tmp_path, feed=line * 5000).code == 0


def test_what_takes_too_long_is_ended(tmp_path: Path) -> None:
    program = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    for seconds in (1.0, 20.0):  # until it has started
        with pytest.raises(subprocess.TimeoutExpired):
            python(program, cwd=tmp_path, timeout=seconds)
        if (tmp_path / "pid").exists():
            break
    process = (tmp_path / "pid").read_text()
    try:
        ended = os.pidfd_open(int(process))
    except ProcessLookupError:  # it has ended, and the process that forks has waited for it
        return
    assert select.select([ended], [], [], PATIENCE)[0] == [ended]
    os.close(ended)


@pytest.mark.parametrize("name", ["PYTHONUTF8", "LC_ALL", "LANG"])
def test_what_is_chosen_at_the_start_of_an_interpreter_takes_a_new_one(tmp_path: Path, name: str) -> None:
    forking = forker()
    assert forking is not None
    assert forking.request([], tmp_path, dict(os.environ)) is not None
    assert forking.request([], tmp_path, {**os.environ, name: "x"}) is None
    assert forking.request([], tmp_path / "missing", dict(os.environ)) is None
    assert forking.request(["a\0b"], tmp_path, dict(os.environ)) is None
