"""Build the source package and the wheels twice, from two copies of the checkout, and compare the bytes.

The copies lie in directories of different names and depths; the second build has another umask, time zone, locale and
order of files on disk. Exit code 1, and the names of what differs, if anything does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_DAY = "1700000000"  # any day will do, as long as it is the same
_FIRST = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "HOME": "/nonexistent"}
_SECOND = {**_FIRST, "TZ": "Asia/Kathmandu", "LC_ALL": "C"}
_BUILDS = (("sdist", ""), ("wheel", "x86_64"), ("wheel", "aarch64"))


def copy_checkout(target: Path, *, backwards: bool) -> None:
    """Copy the files that git knows, in one order or the other."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in sorted(listed.stdout.decode().split("\0")[:-1], reverse=backwards):
        source = ROOT / name
        if source.exists() or source.is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name, follow_symlinks=False)


def build(place: Path, environment: dict[str, str], umask: int, machines: list[tuple[str, str]]) -> dict[str, str]:
    """Build everything in one copy, and return the hash of each file by its name."""
    for kind, machine in machines:
        with_machine = {
            **environment,
            "SOURCE_DATE_EPOCH": _DAY,
            **({"BYLEAVE_WHEEL_MACHINE": machine} if machine else {}),
        }
        words = [sys.executable, "-m", "hatchling", "build", "-t", kind]
        subprocess.run(words, cwd=place, env=with_machine, umask=umask, capture_output=True, check=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((place / "dist").iterdir())}


def main() -> int:
    """Compare two builds of what is named on the command line (sdist, x86_64, aarch64), by default of all."""
    asked = sys.argv[1:]
    chosen = [each for each in _BUILDS if not asked or (each[1] or each[0]) in asked]
    with tempfile.TemporaryDirectory(prefix="byleave-build-") as scratch:
        places = [Path(scratch) / "one", Path(scratch) / "another" / "place"]
        for number, place in enumerate(places):
            copy_checkout(place, backwards=bool(number))
        first = build(places[0], _FIRST, 0o022, chosen)
        second = build(places[1], _SECOND, 0o077, chosen)
    for name in sorted({*first, *second}):
        same = first.get(name) == second.get(name)
        print(f"{'same     ' if same else 'different'}  {first.get(name, '-')}  {name}")
    return 0 if first == second else 1


if __name__ == "__main__":
    sys.exit(main())
