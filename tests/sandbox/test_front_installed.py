"""The front as the program `byleave`: it finds the Python and the package that it was installed with."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from byleave.sandbox.native import build
from sandbox.front_scene import PATIENCE, Scene, compile_front, key_of
from sandbox.test_front import CHECK

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
PYTHON = '#!/bin/sh\nprintf \'%s\\n\' "$0" "$@"\n'  # says how it was started
MISSING = "byleave: the Python that it was installed for is not there\n  hint: install byleave again\n"


class Prefix:
    """A directory with the program `byleave` in `bin`, and Pythons here and there."""

    def __init__(self, base: Path, front: str) -> None:
        self.base = base
        self.programs = base / "bin"
        self.programs.mkdir(parents=True)
        self.program = Path(shutil.copy(front, self.programs / "byleave"))

    def add_python(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PYTHON)
        path.chmod(0o755)
        return path

    def add_package(self, where: str) -> Path:
        package = self.base / where / "byleave"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        return package

    def run(self, *words: str, program: Path | None = None) -> tuple[int, list[str], str]:
        done = subprocess.run(
            [program or self.program, *words],
            env={"BYLEAVE_SERVICE": "off"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the front as it is shipped."""
    return build.find_front(str(tmp_path_factory.mktemp("front"))) or ""


@pytest.fixture
def prefix(tmp_path: Path, front: str) -> Prefix:
    """Return a directory with nothing but the program."""
    return Prefix(tmp_path / "prefix", front)


def test_in_a_virtual_environment_it_starts_the_python_beside_it(prefix: Prefix) -> None:
    python = prefix.add_python(prefix.programs / "python3")
    (prefix.base / "pyvenv.cfg").touch()
    (prefix.programs / "byleave-tool").write_text("#!/bin/false\n")
    words = ["doctor", "", "two words", "--", "-x"]
    assert prefix.run(*words) == (0, [str(python), "-P", "-m", "byleave", *words], "")


def test_by_a_link_it_is_the_same(prefix: Prefix, tmp_path: Path) -> None:
    python = prefix.add_python(prefix.programs / "python3")
    (prefix.base / "pyvenv.cfg").touch()
    link = tmp_path / "other-name"
    link.symlink_to(prefix.program)
    assert prefix.run("doctor", program=link) == (0, [str(python), "-P", "-m", "byleave", "doctor"], "")


FORMS = {
    "as a rule": "#!{python}\n",
    "with options": "#!{python} -sE\n",
    "with a blank, by pip": "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
    "with a blank, by uv": "#!/bin/sh\n'''exec' '{python}' \"$0\" \"$@\"\n' '''\n",
    "long": "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n",
}


@pytest.mark.parametrize(("name", "form"), FORMS.items(), ids=FORMS.keys())
def test_elsewhere_it_starts_the_python_that_its_installer_wrote_beside_it(
    prefix: Prefix, tmp_path: Path, name: str, form: str
) -> None:
    python = prefix.add_python(tmp_path / ("a b" if "blank" in name else "ab") / "python3.12")
    prefix.add_python(prefix.programs / "python3")  # may be any other
    (prefix.programs / "byleave-tool").write_text(form.format(python=python) + "import sys\n")
    assert prefix.run("doctor") == (0, [str(python), "-P", "-m", "byleave", "doctor"], "")


OTHERS = {
    "of a place that moves": '#!/bin/sh\n\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")"/\'python\' "$0" "$@"\n',
    "relative": "#!python\n",
    "with code": "#!/bin/sh\n'''exec' \"/bin/$(id)\" \"$0\"\n",
    "without an end": "#!/bin/sh",
    "that is not there": "#!/nowhere/python3\n",
    "empty": "",
    "no script": "\x7fELF",
    "too long": "#!/" + "x" * 9000 + "\n",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_what_it_cannot_read_there_is_left_alone(prefix: Prefix, text: str) -> None:
    python = prefix.add_python(prefix.programs / "python3")
    (prefix.programs / "byleave-tool").write_text(text)
    assert prefix.run("doctor")[1][0] == str(python)


@pytest.mark.skipif(not os.access("/usr/bin/python3.11", os.X_OK), reason="there is no /usr/bin/python3.11")
@pytest.mark.parametrize("where", ["lib/python3.11/site-packages", "lib64/python3.11/dist-packages"])
def test_with_neither_it_takes_the_system_s_python_of_its_package(prefix: Prefix, where: str) -> None:
    package = prefix.add_package(where)
    (package / "__main__.py").write_text("import sys; print(sys.executable, sys.argv[1:])")
    done = subprocess.run(
        [prefix.program, "doctor"],
        env={"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.stdout, done.stderr) == ("/usr/bin/python3.11 ['doctor']\n", "")


def test_without_a_python_it_says_so_and_a_hook_blocks(prefix: Prefix) -> None:
    assert prefix.run("doctor") == (127, [], MISSING)
    assert prefix.run("hook", "claude-code") == (2, [], MISSING)


# ---- Its service -----------------------------------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path: Path, prefix: Prefix) -> Iterator[Scene]:
    """Yield the place of a socket for that program, which takes a directory of the test for /tmp."""
    (prefix.base / "pyvenv.cfg").touch()
    prefix.add_python(prefix.programs / "python3")
    flags = (f'-DFRONT_TEMPORARY="{tmp_path}/"', f'-DFRONT_USERS_DIRECTORIES="{tmp_path}/none/"')
    prefix.program.unlink()
    made = Scene.build(tmp_path, compile_front(prefix.program, *flags))
    made.place.rename(tmp_path / f"byleave-{os.geteuid()}")
    yield made
    made.close()


def start(scene: Scene, *words: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    process = subprocess.Popen([scene.front, *words], env=scene.variables, stdin=pipe, stdout=pipe, stderr=pipe)
    scene.started.append(process)
    return process


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "where", ["lib/python3.11/site-packages", "lib/python3.14/dist-packages", "lib64/python3.12/site-packages"]
)
def test_the_socket_is_that_of_its_package_and_its_python(scene: Scene, prefix: Prefix, where: str) -> None:
    package = prefix.add_package(where)
    place = scene.base / f"byleave-{os.geteuid()}"
    scene.listen(place=place, key=key_of(str(package), str(prefix.programs)))
    process = start(scene, *CHECK)
    talk = scene.accept()
    request, _directory = talk.receive().descriptors
    words = os.read(request, 1 << 16).partition(b"\n")[2].split(b"\0")[:7]
    assert words == [os.fsencode(each) for each in (prefix.programs / "python3", "-P", "-m", "byleave", *CHECK)]
    talk.send(b"A")
    talk.receive()
    talk.send(b"X6")
    assert process.wait(PATIENCE) == 6


def test_of_two_packages_it_is_not_clear_which_one_python_has(scene: Scene, prefix: Prefix) -> None:
    packages = [prefix.add_package(f"lib/python3.{minor}/site-packages") for minor in (11, 12)]
    place = scene.base / f"byleave-{os.geteuid()}"
    scene.listen(place=place, key=key_of(str(packages[0]), str(prefix.programs)))
    out, _err = start(scene, *CHECK).communicate(timeout=PATIENCE)
    assert out.decode().splitlines() == [str(prefix.programs / "python3"), "-P", "-m", "byleave", *CHECK]
    assert scene.nobody_came()
