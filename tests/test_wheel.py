"""A wheel brings the launcher and the front along, built, where there is a compiler; else it is for any machine."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import amounts
import byleave
from byleave.cli.commands import ROOT as COMMANDS
from byleave.sandbox.native.build import FULL, LEAN, find_compiler, find_cross_compiler, front_name, launcher_name

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
        tags = f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"  # nothing dynamic in it
        assert content.filename.endswith(f"-py3-none-{tags}.whl")
        for name in (launcher_name(LEAN), launcher_name(FULL), front_name()):
            built = content.getinfo(f"byleave/sandbox/native/{name}")
            assert built.external_attr >> 16 & 0o111 == 0o111
            assert content.read(built)[:4] == b"\x7fELF"
        assert "byleave/sandbox/native/launcher.c" in content.namelist()


def shared_of(content: zipfile.ZipFile) -> dict[str, str]:
    marked = ".data/data/share/"
    return {name.partition(marked)[2]: content.read(name).decode() for name in content.namelist() if marked in name}


@needs_compiler
def test_a_wheel_has_manual_pages_of_every_command_and_completions_of_three_shells(native: Path) -> None:
    with zipfile.ZipFile(native) as content:
        shared = shared_of(content)
    pages = {f"man/man1/byleave-{command.name}.1" for command in COMMANDS.subcommands}
    completions = {
        "bash-completion/completions/byleave",
        "zsh/site-functions/_byleave",
        "fish/vendor_completions.d/byleave.fish",
    }
    assert set(shared) == {"man/man1/byleave.1", *pages, *completions}
    assert shared["zsh/site-functions/_byleave"].startswith("#compdef byleave\n")
    assert "byleave\\-run(1)" in shared["man/man1/byleave.1"]


@needs_compiler
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_manual_pages_are_formatted_without_a_warning(native: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(native) as content:
        pages = [text for name, text in shared_of(content).items() if name.startswith("man/")]
    for number, text in enumerate(pages):
        (tmp_path / f"{number}.1").write_text(text)
    words = ["groff", "-ww", "-z", "-man", "-Tutf8", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""


@needs_compiler
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_loads_the_completion_from_a_directory_of_functions_and_offers_at_the_first_key(
    native: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(native) as content:
        (tmp_path / "_byleave").write_text(shared_of(content)["zsh/site-functions/_byleave"])
    # What zsh offers is seen through `compadd`, which its completion functions call with the matches.
    script = """
        fpath=($PWD $fpath)
        autoload -Uz compinit && compinit -u -d $PWD/.dump
        compadd() { print -rl -- "${(@)argv}" }
        words=(byleave se); CURRENT=2; PREFIX=se; SUFFIX=
        $_comps[byleave] 2>&1
    """
    done = subprocess.run(
        [shutil.which("zsh") or "", "-f", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert {"service", "setup"} <= set(done.stdout.split()), done.stderr


@needs_compiler
def test_a_wheel_says_what_it_is_made_of(native: Path) -> None:
    with zipfile.ZipFile(native) as content:
        (name,) = (name for name in content.namelist() if "/sboms/" in name)
        document = json.loads(content.read(name))
        parts = {part["name"]: part for part in document["components"]}
        for built in (launcher_name(LEAN), launcher_name(FULL), front_name()):
            actual = hashlib.sha256(content.read(f"byleave/sandbox/native/{built}")).hexdigest()
            assert parts[built]["hashes"] == [{"alg": "SHA-256", "content": actual}]
        (metadata,) = (name for name in content.namelist() if name.endswith("/METADATA"))
        required = [line for line in content.read(metadata).decode().splitlines() if line.startswith("Requires-Dist: ")]
    assert name.endswith(".dist-info/sboms/byleave.cdx.json")
    assert (document["bomFormat"], document["metadata"]["component"]["version"]) == ("CycloneDX", byleave.__version__)
    assert parts["glibc"]["version"][0] == "2"
    needed = {line.removeprefix("Requires-Dist: ") for line in required if "extra ==" not in line}
    noted = {part["properties"][0]["value"] for part in parts.values() if part.get("scope") == "required"}
    assert noted == needed


@amounts.slow
@needs_compiler
def test_two_builds_in_two_directories_have_the_same_bytes() -> None:
    others = [] if find_cross_compiler("aarch64") is None else ["aarch64"]
    words = [sys.executable, str(ROOT / "tools/reproducible.py"), "sdist", "x86_64", *others]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, "different" in done.stdout) == (0, False), done.stdout


@amounts.slow
@pytest.mark.skipif(find_cross_compiler("aarch64") is None, reason="gcc-aarch64-linux-gnu is not installed")
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-user is not installed")
def test_a_wheel_for_arm64_has_programs_that_run_there(tmp_path: Path) -> None:
    words = [sys.executable, "-c", BUILD, str(tmp_path), "with"]
    environment = {**os.environ, "BYLEAVE_WHEEL_MACHINE": "aarch64"}
    subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=300)
    (found,) = tmp_path.glob("*.whl")
    assert found.name.endswith("_aarch64.whl")
    with zipfile.ZipFile(found) as content:
        names = (launcher_name(LEAN, "aarch64"), launcher_name(FULL, "aarch64"), front_name("aarch64"))
        for name in names:
            (tmp_path / name).write_bytes(content.read(f"byleave/sandbox/native/{name}"))
            (tmp_path / name).chmod(0o755)
        assert not [name for name in content.namelist() if "x86_64" in name]
    # Without a program of steps a launcher refuses; the front starts the interpreter that it is given.
    for name in names[:2]:
        done = subprocess.run(["qemu-aarch64", tmp_path / name], stdin=subprocess.DEVNULL, check=False, timeout=60)
        assert done.returncode == 125
    environment = {"BYLEAVE_SERVICE": "off", "PATH": os.defpath}
    words = ["qemu-aarch64", str(tmp_path / names[2]), sys.executable, "-c", "print('started')"]
    done = subprocess.run(words, env=environment, capture_output=True, check=False, timeout=60)
    assert done.stdout == b"started\n", done.stderr


def test_a_wheel_for_a_machine_whose_compiler_is_missing_says_what_to_install(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "BYLEAVE_WHEEL_MACHINE": "riscv64"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert "there is no C compiler for riscv64: install gcc-riscv64-linux-gnu" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


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
