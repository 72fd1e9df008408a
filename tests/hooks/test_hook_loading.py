"""The quick way to load byleave's modules: the same code as Python would load, or none."""

import os
import py_compile
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from byleave.hooks.loading import _Finder
from hooks.hook_scene import SOURCE

ENDING = f".{sys.implementation.cache_tag}.pyc"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of the same name, compiled: `byleave`, with a module and a package in it."""
    made = tmp_path / "byleave"
    (made / "room").mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("one.py", "value = 1\n"), ("room/__init__.py", "value = 2\n")):
        (made / name).write_text(text)
        py_compile.compile(str(made / name), doraise=True)
    return made


def load(root: Path, name: str) -> ModuleType | None:
    finder = _Finder(str(root), ENDING)
    spec = finder.find_spec(name)
    if spec is None:
        return None
    module = ModuleType(name)
    module.__spec__ = spec
    finder.exec_module(module)
    return module


def test_a_compiled_module_is_loaded(package: Path) -> None:
    module, room = load(package.parent, "byleave.one"), load(package.parent, "byleave.room")
    assert module is not None
    assert room is not None
    assert (module.value, module.__file__) == (1, str(package / "one.py"))
    assert (room.value, room.__file__) == (2, str(package / "room" / "__init__.py"))
    assert room.__spec__ is not None
    assert room.__spec__.submodule_search_locations == [str(package / "room")]


def test_a_module_that_changed_since_it_was_compiled_is_left_to_python(package: Path) -> None:
    source = package / "one.py"
    known = source.stat()
    source.write_text("value = 3\n")
    os.utime(source, ns=(known.st_atime_ns, known.st_mtime_ns + 10**9))
    assert load(package.parent, "byleave.one") is None
    os.utime(source, ns=(known.st_atime_ns, known.st_mtime_ns))
    source.write_text("value = 1000\n")
    os.utime(source, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert load(package.parent, "byleave.one") is None


def test_what_was_never_compiled_or_otherwise_is_left_to_python(package: Path) -> None:
    compiled = package / "__pycache__" / f"one{ENDING}"
    py_compile.compile(
        str(package / "one.py"), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    assert load(package.parent, "byleave.one") is None
    for content in (b"", b"x" * 15, b"\0" * 64):
        compiled.write_bytes(content)
        assert load(package.parent, "byleave.one") is None
    compiled.unlink()
    assert load(package.parent, "byleave.one") is None
    assert load(package.parent, "byleave.nothing") is None


def test_only_byleave_is_loaded_so(package: Path) -> None:
    (package.parent / "byleaves.py").write_text("")
    py_compile.compile(str(package.parent / "byleaves.py"), doraise=True)
    assert load(package.parent, "byleaves") is None
    assert load(package.parent, "os") is None


def test_modules_that_were_loaded_quickly_look_like_all_others() -> None:
    code = (
        f"import sys; sys.path.append({str(SOURCE)!r})\n"
        "from byleave.hooks.loading import load_quickly\n"
        "load_quickly(); load_quickly()\n"
        "import byleave.policy.dirs, byleave.core\n"
        "import inspect, importlib\n"
        "assert inspect.getsource(byleave.policy.dirs.find_root).startswith('def find_root')\n"
        "assert byleave.core.__path__ and byleave.core.__package__ == 'byleave.core'\n"
        "assert sum(type(each).__name__ == '_Finder' for each in sys.meta_path) == 1\n"
        "try:\n import byleave.nothing\nexcept ModuleNotFoundError as error:\n assert error.name == 'byleave.nothing'\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
