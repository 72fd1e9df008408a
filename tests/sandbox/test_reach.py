"""What a sandbox without a view of its own, or one that bwrap made, keeps out of reach of its program."""

import subprocess
from pathlib import Path

import pytest

from byleave.sandbox.linux.backends import BWRAP, LANDLOCK
from command import COMMAND, Done, environment
from sandbox.machine import PYTHON, inside, needs_sandbox
from sandbox.without_namespaces import needs_bwrap, needs_unshare, on_such_a_machine

NONE = {f"Cap{name}": "0000000000000000" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")}
# Reaches for a process by everything that changes how it is scheduled, prints what worked.
SCHEDULING = """
import ctypes, os, struct, sys
victim = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
mask, nothing, attr = struct.pack("Q", 1), struct.pack("i", 0), struct.pack("IIQiIQQQ", 48, 3, 0, 5, 0, 0, 0, 0)
calls = dict(
    affinity=(203, victim, 8, mask), scheduler=(144, victim, 3, nothing), param=(142, victim, nothing),
    attr=(314, victim, attr, 0), nice=(141, 0, victim, 19), nice_group=(141, 1, victim, 19), nice_user=(141, 2, 0, 19),
    io=(251, 1, victim, 3 << 13), io_user=(251, 3, 0, 3 << 13), limit=(302, victim, 0, b"\\x01" * 16, None),
    read=(310, victim, None, 0, None, 0, 0), compare=(312, victim, os.getpid(), 0, 0, 0), trace=(101, 16, victim, 0, 0),
    pages=(256, victim, 8, mask, mask), signal=(62, victim, 9), thread=(200, victim, 9),
)
found = [name for name, words in calls.items() if libc.syscall(*words) >= 0]
own = [libc.syscall(203, 0, 8, mask), libc.syscall(141, 0, 0, 5)]
print(found, own)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    place.mkdir()
    return place


def there(backend: str, root: Path, *words: str) -> Done:
    """Run a program on a machine on which this backend is the best that works."""
    before = on_such_a_machine(bwrap=backend == BWRAP, place=root.parent)
    home = {"BYLEAVE_HOME": str(root.parent / "byleave"), "HOME": str(root.parent / "home")}
    done = subprocess.run(
        [*before, *COMMAND, "run", "-q", "--root", str(root), "--", *words],
        cwd=root,
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@needs_unshare
@needs_sandbox
def test_grants_alone_let_nobody_change_how_others_are_scheduled(root: Path) -> None:
    victim = subprocess.Popen(["sleep", "60"])
    try:
        done = there(LANDLOCK, root, PYTHON, "-S", "-c", SCHEDULING, str(victim.pid))
        assert (done.code, done.out) == (0, "[] [0, 0]\n"), done
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def capabilities(done: Done) -> dict[str, str]:
    assert done.code == 0, done
    return dict(line.split(":\t") for line in done.out.splitlines())


@needs_unshare
@pytest.mark.parametrize("backend", [LANDLOCK, pytest.param(BWRAP, marks=needs_bwrap)])
def test_no_capability_is_left_even_in_the_bounding_set(backend: str, root: Path) -> None:
    assert capabilities(there(backend, root, "grep", "^Cap", "/proc/self/status")) == NONE


@needs_sandbox
def test_no_capability_is_left_in_a_view_of_its_own(root: Path) -> None:
    assert capabilities(inside(root, "grep", "^Cap", "/proc/self/status")) == NONE
