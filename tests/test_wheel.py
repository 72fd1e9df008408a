"""A wheel brings the launcher and the front along, built, where there is a compiler; else it is for any machine."""

import importlib.util
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import byleave
from byleave.sandbox.native.build import FULL, LEAN, find_compiler, front_name, launcher_name

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


needs_compiler = pytest.mark.skipif(sys.platform != "linux" or find_compiler() is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this machine."""
    with wheel(tmp_path_factory.mktemp("native"), "with") as content:
        return Path(content.filename or "")


@needs_compiler
def test_a_wheel_of_this_machine_holds_both_launchers_and_the_front(native: Path) -> None:
    with zipfile.ZipFile(native) as content:
        machine = os.uname().machine
        assert content.filename is not None
        assert content.filename.endswith(f"-py3-none-linux_{machine}.whl")
        for name in (launcher_name(LEAN), launcher_name(FULL), front_name()):
            built = content.getinfo(f"byleave/sandbox/native/{name}")
            assert built.external_attr >> 16 & 0o111 == 0o111
            assert content.read(built)[:4] == b"\x7fELF"
        assert "byleave/sandbox/native/launcher.c" in content.namelist()


def test_a_wheel_without_a_compiler_is_for_any_machine(tmp_path: Path) -> None:
    with wheel(tmp_path, "without") as content:
        pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")}
        assert pages
        assert {f"byleave/{page}" for page in pages} <= set(content.namelist())
        assert content.filename is not None
        assert content.filename.endswith("-py3-none-any.whl")
        launchers = [name for name in content.namelist() if name.startswith("byleave/sandbox/native/")]
        assert {os.path.splitext(name)[1] for name in launchers} == {".c", ".h", ".py"}
        assert scripts_of(content) == {}
        assert set(entry_points_of(content)) == {"byleave", "byleave-tool"}


# ---- The program `byleave` -------------------------------------------------------------------------------------------


def scripts_of(content: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    marked = ".data/scripts/"
    return {each.filename.partition(marked)[2]: each for each in content.infolist() if marked in each.filename}


def entry_points_of(content: zipfile.ZipFile) -> list[str]:
    (name,) = (name for name in content.namelist() if name.endswith("/entry_points.txt"))
    return [line.split(" = ")[0] for line in content.read(name).decode().splitlines() if " = " in line]


@needs_compiler
def test_the_front_is_the_program_and_no_other_script_has_its_name(native: Path) -> None:
    with zipfile.ZipFile(native) as content:
        (script,) = scripts_of(content).items()
        assert script[0] == "byleave"
        assert script[1].external_attr >> 16 & 0o111 == 0o111
        assert content.read(script[1]) == content.read(f"byleave/sandbox/native/{front_name()}")
        assert entry_points_of(content) == ["byleave-tool"]


def pip(python: str, *words: str) -> None:
    command = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*command, *words], capture_output=True, check=True, timeout=120)


def uv(python: str, *words: str) -> None:
    command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-index", "--no-deps", "--python", python]
    subprocess.run([*command, *words], capture_output=True, check=True, timeout=120)


@needs_compiler
@pytest.mark.parametrize("install", [pip, uv])
def test_where_it_is_installed_the_program_is_the_front_and_starts_its_python(
    tmp_path: Path, native: Path, install: Callable[..., None]
) -> None:
    if install is uv and importlib.util.find_spec("uv") is None:
        pytest.skip("uv is not installed: pip install uv")
    venv.create(tmp_path / "venv", with_pip=install is pip)
    programs = tmp_path / "venv" / "bin"
    (site,) = (tmp_path / "venv" / "lib").glob("python3.*/site-packages")
    own = [place for place in sys.path if place.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(own))  # what byleave needs; found behind what is installed here
    install(str(programs / "python3"), str(native))
    assert (programs / "byleave").read_bytes()[:4] == b"\x7fELF"
    assert (programs / "byleave-tool").read_bytes()[:2] == b"#!"
    done = subprocess.run([programs / "byleave", "--version"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (f"byleave {byleave.__version__}\n", "")
    where = "import byleave; print(byleave.__file__)"
    found = subprocess.run([programs / "python3", "-P", "-c", where], capture_output=True, text=True, check=True)
    assert found.stdout == f"{site}/byleave/__init__.py\n"


@needs_compiler
def test_linked_from_a_checkout_the_program_is_a_script(tmp_path: Path) -> None:
    code = BUILD.replace('"standard"', '"editable"')
    words = [sys.executable, "-c", code, str(tmp_path), "with"]
    subprocess.run(words, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (found,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(found) as content:
        assert scripts_of(content) == {}
        assert entry_points_of(content) == ["byleave", "byleave-tool"]


def test_what_builds_the_launcher_needs_no_other_package() -> None:
    code = "import sys; sys.path.append('src'); import byleave.sandbox.native.build"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert done.stderr == b""
