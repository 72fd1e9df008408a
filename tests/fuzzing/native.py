"""Fuzz what is written in C, built with AddressSanitizer and UndefinedBehaviorSanitizer: the launcher and the front.

A damaged program may make the launcher do anything. So it runs inside of bubblewrap: the machine is read-only, with
processes, a network and a /tmp of its own, and everything in it ends with it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from byleave.sandbox.linux.program import step, write_program
from byleave.sandbox.native import build

Found = tuple[int, list[tuple[bytes, str]]]
HERE = Path(__file__).parent
WALLS = (
    "--unshare-all",
    "--die-with-parent",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
)


def programs() -> list[bytes]:
    """Return programs of the launcher, as plans make them: short ones, with steps of every shape."""
    run = step("exec", b"/bin/true", b"/", [b"true", b"x"], [b"PATH=/bin", b"A=b"], 0)
    return [
        write_program([step("hostname", "sandbox"), run]),
        write_program([step("namespaces", 0x10000000), step("drop"), run]),
        write_program(
            [step("root", "/tmp"), step("directory", "a/b"), step("link", "c", "a"), step("file", "d", b"text")]
        ),
        write_program([step("bind", "/usr", "usr", 1), step("cover", "x", 0), step("mount", "proc", "proc", 0)]),
        write_program(
            [step("landlock", 1), step("grant", "/usr", 1, 0), step("restrict"), step("seccomp", b"\x06\0\0\0" * 4)]
        ),
        write_program(
            [step("fork"), step("spawn"), step("limit", 7, 64, 64), step("streams"), step("listen", 3128), run]
        ),
        write_program(
            [step("setting", "/proc/self/x", b"1"), step("watch", [b"a", b"b"]), step("guard", [b"x"], 3), run]
        ),
    ]


def fuzz_launcher(seconds: float, number: int, most: int) -> Found:
    return _inside("launcher", seconds, number, most)


def fuzz_front(seconds: float, number: int, most: int) -> Found:
    return _inside("front", seconds, number, most)


def _inside(name: str, seconds: float, number: int, most: int) -> Found:
    """Build it with the sanitizers, and have `inside.py` try it behind walls."""
    walls = shutil.which("bwrap")
    if walls is None:
        raise RuntimeError("bubblewrap is not installed")
    with tempfile.TemporaryDirectory(prefix="byleave-fuzz-", dir="/var/tmp") as place:
        why = build.build_sanitized(place, (build.FULL, build.FRONT))
        if why:
            raise RuntimeError(f"the sanitizers cannot be used here: {why[:200]}")
        built = os.path.join(place, build.launcher_name(build.FULL) if name == "launcher" else build.front_name())
        seeds = os.path.join(place, "seeds")
        os.mkdir(seeds)
        for index, seed in enumerate(programs()):
            Path(seeds, str(index)).write_bytes(seed)
        words = [name, built, seeds, str(seconds), str(number), str(most)]
        # A checkout or an environment below /tmp is there, too.
        shown = [word for path in (str(HERE.parents[1]), sys.prefix) for word in ("--ro-bind", path, path)]
        done = subprocess.run(
            [walls, *WALLS, *shown, sys.executable, str(HERE / "inside.py"), *words],
            env={**os.environ, "PYTHONPATH": str(HERE.parent), "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0"},
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=seconds + 120,
        )
    lines = done.stdout.decode().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(done.stderr.decode()[-2000:])
    broken = [(bytes.fromhex(data), why) for data, _, why in (line.partition(" ") for line in lines[1:])]
    return int(lines[0]), broken


NATIVE: dict[str, Callable[[float, int, int], Found]] = {"launcher": fuzz_launcher, "front": fuzz_front}
