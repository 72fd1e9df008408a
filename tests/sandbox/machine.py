"""What this machine offers to sandboxes, how a test runs something in one, and how it becomes an ordinary user."""

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from command import Done, byleave

NO_PERSON = 65534
REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"  # in every sandbox's view, unlike the one that runs the tests
_LANDLOCK_CREATE_RULESET, _VERSION = 444, 1
_UNSHARE_USER = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"


@functools.cache
def obstacle() -> str | None:
    """Return why no sandbox can be tried on this machine, or None."""
    if sys.platform != "linux":
        return "the launcher is for Linux"
    if ctypes.CDLL(None).syscall(_LANDLOCK_CREATE_RULESET, None, 0, _VERSION) < 1:
        return "this kernel has no Landlock"
    if subprocess.run([sys.executable, "-S", "-c", _UNSHARE_USER], check=False).returncode:
        return "user namespaces are not allowed here"
    return None if os.path.exists(PYTHON) else f"there is no {PYTHON}"


needs_sandbox = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))


def inside(
    root: Path,
    *words: str,
    options: Sequence[str] = (),
    feed: bytes = b"",
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    timeout: float = 60.0,
) -> Done:
    """Run a program in a sandbox whose workspace is `root`."""
    start = ["run", "--root", str(root), "--no-input", *options, "--", *words]
    return byleave(*start, cwd=cwd or root, feed=feed, env=env, timeout=timeout)


def shell(root: Path, script: str, *, options: Sequence[str] = (), env: Mapping[str, str | None] | None = None) -> str:
    """Run a script in a sandbox, where every line of it must succeed, and return what it says."""
    done = inside(root, "/bin/sh", "-euc", script, options=options, env=env)
    assert done.code == 0, done
    return done.out


def access_file(place: Path, text: str) -> list[str]:
    """Write an access file beside a workspace and return the option that names it."""
    file = place / "access.toml"
    file.write_text(text)
    return ["--access", str(file)]


def listing(root: Path) -> dict[str, str]:
    """Return everything in a directory, with what it is and says, so that two moments can be compared."""
    found = {}
    for path in sorted(root.rglob("*")):
        kind = "link " + os.readlink(path) if path.is_symlink() else "directory" if path.is_dir() else "file"
        text = path.read_bytes()[:1000].decode("latin-1") if kind == "file" and path.is_file() else ""
        found[str(path.relative_to(root))] = f"{kind} {path.lstat().st_mode:o} {text}"
    return found


def alive(token: str) -> list[int]:
    """Return the processes of this machine that have a word with `token` in it among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in words:
                found.append(int(name))
    return found


def as_nobody(home: Path) -> tuple[list[str], dict[str, str]]:
    """Return the words by which an ordinary user starts Python, and an environment that lets it import byleave."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, and by setpriv")
    user = ["setpriv", f"--reuid={NO_PERSON}", f"--regid={NO_PERSON}", "--clear-groups"]
    home.mkdir(mode=0o755, exist_ok=True)
    os.chown(home, NO_PERSON, NO_PERSON)
    places = [REPOSITORY / "src", REPOSITORY / "tests", Path(sysconfig.get_paths()["purelib"])]
    if any(subprocess.run([*user, "test", "-r", str(place)], check=False).returncode for place in places):
        places = [_copied(place, home) for place in places]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "BYLEAVE_HOME": str(home / "byleave"), "LANG": "C.UTF-8"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, places))
    words = [*user, PYTHON, "-B"]
    asked = subprocess.run([*words, "-c", "import byleave, msgspec"], env=environment, capture_output=True, check=False)
    if asked.returncode:
        pytest.skip(f"{PYTHON} cannot import byleave: {asked.stderr.decode()[-200:]}")
    return words, environment


def _copied(place: Path, home: Path) -> Path:
    copy = home / "code" / place.name
    shutil.copytree(place, copy, ignore=shutil.ignore_patterns("__pycache__", "mypy", "ruff*", "hypothesis"))
    return copy
