"""What byleave itself runs from, and where programs are found by their names. It only looks.

Whoever writes byleave's package, the packages that it loads, a `.pth` file beside them, its scripts, its interpreter or
`pyvenv.cfg` decides what byleave does at its next start. In a virtual environment that lies in the workspace, all of
that is within a tool's reach.
"""

import os
import sys

from byleave.config.homes import real_path
from byleave.core.fs import is_under
from byleave.core.protected import OWN_CODE, Protection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOADED = ("byleave", "msgspec", "idna", "re2", "_re2", "google_re2", "jwt", "cryptography", "cffi", "_cffi_backend")
_CUSTOMIZE = ("sitecustomize.py", "usercustomize.py")
_SCRIPTS = ("byleave", "byleave-tool", "rg")
_CONFIGURATION = "pyvenv.cfg"
_MOST_DIRECTORIES = 200  # of PATH


def find_own_code(root: str) -> tuple[Protection, ...]:
    """Return where byleave's code is, which no rule opens, and the directories around it, which one can open.

    The single files of an environment count if it lies in the workspace at `root`; elsewhere its package is enough.
    """
    prefix = real_path(sys.prefix)
    packages = _packages(prefix)
    around = [directory for directory in packages if is_under(directory, prefix)]
    final = [_PACKAGE, real_path(_PACKAGE), *((real_path(sys.executable),) if sys.executable else ())]
    kept: list[Protection] = []
    if sys.prefix != sys.base_prefix:
        final += [os.path.join(prefix, _CONFIGURATION), *_programs()]
        kept += [_place(directory, prefix, root) for directory in (*around, _program_directory()) if directory]
        if is_under(prefix, root) and prefix != root:  # all of it: a link such as lib64 decides what is loaded, too
            kept.append(_place(prefix, prefix, root))
        if is_under(prefix, root):
            final += [path for directory in packages for path in _single_files(directory)]
    kept.append(_place(os.path.dirname(os.__file__), "", root))
    places = [_relative(path, root) for path in dict.fromkeys(final)]
    return (*kept, *(Protection(place, place, final=True, name=OWN_CODE) for place in places))


def program_directories(search: str, root: str) -> "Iterator[Protection]":
    """Yield the directories of a PATH: what is put there is started by its name, by people and by other programs.

    A directory that holds the workspace at `root` is left out: all of the workspace would be protected.
    """
    for directory in dict.fromkeys(search.split(os.pathsep)[:_MOST_DIRECTORIES]):
        named = os.path.join(root, directory)  # one that is not absolute is looked for in the workspace, most often
        for path in dict.fromkeys((os.path.normpath(named), real_path(named))):
            if not is_under(root, path):
                above = os.path.dirname(path)
                known = os.path.basename(above) == "node_modules" or os.path.exists(os.path.join(above, _CONFIGURATION))
                yield _place(path, above if known else "", root)


def _place(path: str, known_as: str, root: str) -> Protection:
    """Return a place that a rule opens by naming it, or by naming all of the environment that it is part of."""
    named = known_as if known_as and is_under(known_as, root) and known_as != root else path
    return Protection(_relative(named, root), _relative(path, root), final=False)


def _relative(path: str, root: str) -> str:
    return path[len(root) :].strip("/") if root != "/" and is_under(path, root) and path != root else path


def _packages(prefix: str) -> list[str]:
    """Return the directories that installed packages are loaded from, and the one that byleave is in."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    libraries = (os.path.join(prefix, name, version, "site-packages") for name in (sys.platlibdir, "lib"))
    named = (*libraries, os.path.dirname(_PACKAGE), os.path.dirname(real_path(_PACKAGE)))
    return [each for each in dict.fromkeys(named) if os.path.isdir(each)]


def _program_directory() -> str:
    return real_path(os.path.dirname(os.path.abspath(sys.executable))) if sys.executable else ""


def _programs() -> "Iterator[str]":
    """Yield the interpreter, under every name that it has beside the one we run by, and our own scripts."""
    directory = _program_directory()
    if not directory:
        return
    names = (*_SCRIPTS, "python", f"python{sys.version_info[0]}", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    for name in dict.fromkeys((os.path.basename(sys.executable), *names)):
        path = os.path.join(directory, name)
        if os.path.lexists(path):
            yield path


def _single_files(directory: str) -> "Iterator[str]":
    """Yield what byleave loads of a directory of packages, and what Python runs of it at every start."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in sorted(names):
        first = name.partition("-")[0].partition(".")[0]
        if first in _LOADED or name.endswith(".pth") or name in _CUSTOMIZE:
            yield os.path.join(directory, name)
