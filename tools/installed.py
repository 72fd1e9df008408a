"""Install the wheel of this machine as a user would, and try it: with pip for each Python, with pipx and with uv.

    python tools/installed.py dist python3.11 python3.12 python3.13

What byleave requires comes from the usual package index. Everything happens in a scratch directory with a home of its
own. A Python that is not there is named, and passed over.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

_COMMANDS = ("byleave", "byleave-tool")
_SHARED = (
    "share/man/man1/byleave.1",
    "share/bash-completion/completions/byleave",
    "share/zsh/site-functions/_byleave",
    "share/fish/vendor_completions.d/byleave.fish",
)
_PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


def require(found: object, expected: object) -> None:
    """Stop where something is not as it should be."""
    if found != expected:
        sys.exit(f"{found} instead of {expected}")


class Walk:
    """What a new user does, in a scratch directory."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._environment = {
            "HOME": str(scratch / "home"),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            **{
                name: value
                for name, value in os.environ.items()
                if name.startswith(("PIP_", "UV_", "SSL_", "REQUESTS_"))
            },
        }
        (scratch / "home" / ".claude").mkdir(parents=True)

    def run(self, *words: str | Path, code: int = 0, cwd: Path | None = None) -> str:
        """Run a command, and return what it prints; an error if its exit code is another one."""
        done = subprocess.run(
            [*map(str, words)],
            cwd=cwd or self._scratch,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            sys.exit(f"{words}: exit code {done.returncode} instead of {code}\n{done.stdout}{done.stderr}")
        return done.stdout

    def try_program(self, name: str, *program: str | Path) -> None:
        """Set byleave up in a project where there is nothing, and have it decide, confine and record."""
        project = self._scratch / f"project-{name}"
        project.mkdir()
        (project / ".env").write_text("API_KEY=secret\n")
        self.run("git", "init", "-q", cwd=project)
        found = json.loads(self.run(*program, "--version", "--json"))
        require(found["compiled"], {"launcher": True, "front": True})
        self.run(*program, "setup", "--yes", "--agent", "claude-code", cwd=project)
        self.run(*program, "check", "command", "git status", cwd=project)
        self.run(*program, "check", "command", "cat .env", code=20, cwd=project)
        require(self.run(*program, "run", "--", "sh", "-c", "ls -A ~", cwd=project), "")
        self.run(*program, "policy", "test", "-q", cwd=project)
        self.run(*program, "mcp", "--check", cwd=project)  # without any extra
        self.run(*program, "audit", "verify", cwd=project)
        self.run(*program, "setup", "--undo", "--yes", cwd=project)
        self.run(*program, "service", "stop", cwd=project)
        print(f"{name}: works, Python {found['python']['version']}, extras {sum(found['extras'].values())}", flush=True)

    def with_pip(self, python: str, wheel: Path) -> None:
        """Install into an empty environment: no program comes along that would hide one of the user's."""
        place = self._scratch / f"venv-{os.path.basename(python)}"
        self.run(python, "-m", "venv", place)
        before = set(os.listdir(place / "bin"))
        self.run(place / "bin/python", *_PIP, "install", wheel)
        new = set(os.listdir(place / "bin")) - before - {"idna"}  # what newer versions of that package bring
        require(new, set(_COMMANDS))
        require([each for each in _SHARED if not (place / each).is_file()], [])
        self.try_program(f"pip with {os.path.basename(python)}", place / "bin/byleave")
        self.run(place / "bin/python", *_PIP, "uninstall", "-y", "byleave")
        require([each for each in (*_SHARED, "bin/byleave") if (place / each).exists()], [])

    def with_sdist(self, source: Path) -> None:
        """Build a wheel from the unpacked source package, without a network."""
        with tarfile.open(source) as archive:
            archive.extractall(self._scratch / "source", filter="data")
        (unpacked,) = (self._scratch / "source").iterdir()
        options = ("--no-build-isolation", "--no-index", "--no-deps", "-w", self._scratch / "built")
        self.run(sys.executable, *_PIP, "wheel", *options, ".", cwd=unpacked)
        print(f"from {source.name}: {next((self._scratch / 'built').iterdir()).name}", flush=True)

    def with_tools(self, wheel: Path) -> None:
        """Install with pipx, and run with uvx."""
        place = self._scratch / "tools"
        self.run(sys.executable, "-m", "venv", place)
        self.run(place / "bin/python", *_PIP, "install", "pipx", "uv")
        self.run(place / "bin/pipx", "install", "-q", "--python", sys.executable, wheel)
        programs = self._scratch / "home/.local/bin"
        require(set(os.listdir(programs)), set(_COMMANDS))
        self.try_program("pipx", programs / "byleave")
        uvx = (place / "bin/uv", "tool", "run", "--python", sys.executable, "--from", wheel)
        self.try_program("uvx", *uvx, "byleave")


def _starts(python: str) -> bool:
    """Whether there is such a Python; a name that a version manager left for one that is not chosen does not start."""
    found = shutil.which(python)
    return found is not None and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0


def main() -> int:
    """Try everything; the exit code is 0 only if all of it works."""
    built, *pythons = sys.argv[1:]
    machine = os.uname().machine
    (wheel,) = Path(built).resolve().glob(f"byleave-*_{machine}.whl")
    (source,) = Path(built).resolve().glob("byleave-*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="byleave-installed-") as scratch:
        walk = Walk(Path(scratch).resolve())
        walk.with_sdist(source)
        for python in pythons:
            if not _starts(python):
                print(f"{python}: not here", flush=True)
            else:
                walk.with_pip(python, wheel)
        walk.with_tools(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
