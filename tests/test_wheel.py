"""A wheel brings the launcher of the sandbox along, built, where there is a compiler; else it is for any machine."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from byleave.sandbox.native.build import FULL, LEAN, find_compiler, launcher_name

ROOT = Path(__file__).parents[1]
BUILD = """\
import sys
sys.path.insert(0, "src")
import byleave.sandbox.native.build as build
if sys.argv[2] == "without":
    build._COMPILERS = ()
from hatchling.builders.wheel import WheelBuilder
print(*WheelBuilder(".").build(directory=sys.argv[1], versions=["standard"]))
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed: pip install hatchling"
)


def wheel(place: Path, compiler: str) -> zipfile.ZipFile:
    words = [sys.executable, "-c", BUILD, str(place), compiler]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (found,) = place.glob("*.whl")
    return zipfile.ZipFile(found)


@pytest.mark.skipif(sys.platform != "linux" or find_compiler() is None, reason="there is no C compiler")
def test_a_wheel_of_this_machine_holds_both_launchers(tmp_path: Path) -> None:
    with wheel(tmp_path, "with") as content:
        machine = os.uname().machine
        assert content.filename is not None
        assert content.filename.endswith(f"-py3-none-linux_{machine}.whl")
        for kind in (LEAN, FULL):
            built = content.getinfo(f"byleave/sandbox/native/{launcher_name(kind)}")
            assert built.external_attr >> 16 & 0o111 == 0o111
            assert content.read(built)[:4] == b"\x7fELF"
        assert "byleave/sandbox/native/launcher.c" in content.namelist()


def test_a_wheel_without_a_compiler_is_for_any_machine(tmp_path: Path) -> None:
    with wheel(tmp_path, "without") as content:
        assert content.filename is not None
        assert content.filename.endswith("-py3-none-any.whl")
        launchers = [name for name in content.namelist() if name.startswith("byleave/sandbox/native/")]
        assert {os.path.splitext(name)[1] for name in launchers} == {".c", ".h", ".py"}
