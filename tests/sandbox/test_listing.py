"""Names that are held are in no list of a directory inside, and are held all the same."""

import os
import subprocess
from pathlib import Path

import pytest

from byleave.core.protected_names import HELD
from sandbox.machine import PYTHON, as_nobody, inside, needs_sandbox, shell
from sandbox.test_escapes import readable_place  # noqa: F401 -- a fixture

pytestmark = needs_sandbox

_LOOK = "import os; print(sorted(os.listdir('.')))"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "workspace"
    (found / "src").mkdir(parents=True)
    (found / "a").touch()
    return found


@pytest.mark.parametrize(
    "command",
    ["ls -A", "find . -mindepth 1 -maxdepth 1 -printf '%f\\n' | sort", "tar cf - * .[a-z]* 2>/dev/null | tar tf -"],
)
def test_a_list_inside_is_the_list_outside(root: Path, command: str) -> None:
    outside = subprocess.run(["/bin/sh", "-c", command], cwd=root, capture_output=True, check=False).stdout.decode()
    assert inside(root, "/bin/sh", "-c", command).out == outside


def test_an_ordinary_user_sees_none_of_them_either(readable_place: Path) -> None:  # noqa: F811 -- the fixture
    words, environment = as_nobody(readable_place / "home")
    root = readable_place / "workspace"
    root.mkdir()
    os.chown(root, 65534, 65534)
    command = [*words, "-m", "byleave", "run", "-q", "--root", str(root), "--", "/bin/sh", "-c", "touch a; ls -A"]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, check=False)
    assert done.stdout == b"a\n", done


def test_what_is_not_in_the_list_is_held(root: Path) -> None:
    names = [name for name in HELD if "/" not in name]
    script = (
        f"for n in {' '.join(names)}; do mkdir $n; echo x > $n; ln -s a $n/x; mv src $n; rmdir $n; mv $n b; done; ls -A"
    )
    assert inside(root, "/bin/sh", "-c", script).out == "a\nsrc\n"
    assert sorted(os.listdir(root)) == ["a", "src"]


def test_names_in_a_repository_are_left_out_too(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    before = sorted(os.listdir(root / ".git"))
    assert shell(root, "LC_ALL=C ls -A .git").splitlines() == before


def test_a_thread_sees_none_of_them(root: Path) -> None:
    threaded = f"import threading\nt = threading.Thread(target=lambda: exec({_LOOK!r}))\nt.start(); t.join()"
    assert inside(root, PYTHON, "-c", threaded).out == "['a', 'src']\n"


def test_a_list_longer_than_any_buffer_is_whole(root: Path) -> None:
    for number in range(1500):
        (root / f"{'long' * 40}-{number}").touch()
    expected = len(os.listdir(root))
    assert inside(root, PYTHON, "-c", "import os; print(len(set(os.listdir('.'))))").out == f"{expected}\n"


_BY_HAND = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 217, "aarch64": 61}[os.uname().machine]
directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
size = int(sys.argv[1])
found = set()
while True:
    buffer = ctypes.create_string_buffer(max(size, 1))
    length = libc.syscall(number, directory, buffer, size)
    if length <= 0:
        break
    at = 0
    while at < length:
        step = int.from_bytes(buffer.raw[at + 16 : at + 18], sys.byteorder)
        found.add(buffer.raw[at + 19 : at + step].split(b"\\0")[0].decode())
        at += step
print(length, ctypes.get_errno(), *sorted(found - {".", ".."}))
bad = libc.syscall(number, directory, ctypes.c_void_p(8), 4096)
os.lseek(directory, 0, 0)
print(libc.syscall(number, directory, ctypes.c_void_p(8), 4096), libc.syscall(number, 99, buffer, size))
"""


@pytest.mark.parametrize("size", [48, 200, 1 << 20])
def test_a_list_in_small_pieces_is_whole_and_bad_memory_is_an_error(root: Path, size: int) -> None:
    assert inside(root, PYTHON, "-c", _BY_HAND, str(size)).out == "0 0 a src\n-1 -1\n"


def test_a_list_is_whole_while_signals_rain(root: Path) -> None:
    script = (
        "import os, signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
        "signal.siginterrupt(signal.SIGALRM, False)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n"
        "found = {tuple(sorted(os.listdir('.'))) for _ in range(1000)}\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\nprint(found)"
    )
    assert inside(root, PYTHON, "-c", script).out == "{('a', 'src')}\n"


def test_a_process_that_is_killed_in_the_middle_holds_nothing_up(root: Path) -> None:
    script = (
        "for i in 1 2 3 4 5; do (while :; do ls -A >/dev/null; done) & p=$!; sleep 0.05; kill -9 $p; done;"
        " timeout -s KILL 0.3 find . . . . >/dev/null; ls -A"
    )
    assert inside(root, "/bin/sh", "-c", script).out.splitlines()[-2:] == ["a", "src"]


def test_what_the_policy_lets_a_program_make_is_listed(root: Path, tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    table = '[[access.fs]]\npath = "{}"\nread = true\n'
    access.write_text(table.format(".") + table.format("out") + "write = true\ncreate = true\n")
    assert "out" in shell(root, "touch out/x; ls -A", options=["--access", str(access)]).split()
