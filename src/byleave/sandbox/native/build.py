"""Where the launcher is: built with the package, or on first use into the user's own cache.

There is no other launcher: without a built one and without a compiler, nothing is started confined.
"""

import os
from _thread import get_ident

from msgspec import Struct

from byleave.errors import SandboxError
from byleave.text import quoted
from byleave.user_files import digest, make_private_directory

SOURCES = ("launcher.c", "trace.c", "broker.c")
LEAN_SOURCES = ("launcher.c", "tiny.c")
HEADERS = ("launcher.h",)
LEAN, FULL = "lean", "full"
NO_LAUNCHER = "launcher"  # the `step` of the error if there is none
_COMPILERS = ("/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang", "/usr/local/bin/cc", "/usr/local/bin/gcc")
_PATIENCE = 60  # seconds that a compiler may take
_HERE = os.path.dirname(os.path.abspath(__file__))


# Ways to build each kind of launcher, the best first. The lean one does without the C library and starts faster; the
# full one can also trace.
_BARE = ("-nostdlib", "-static", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-U_FORTIFY_SOURCE")
_RECIPES = {
    LEAN: ((_BARE, LEAN_SOURCES), (("-static",), SOURCES), ((), SOURCES)),
    FULL: ((("-static",), SOURCES), ((), SOURCES)),
}


class Launcher(Struct, frozen=True):
    """A launcher: its file, and where it came from, for people."""

    path: str
    origin: str


def find_launcher(cache: str, kind: str = LEAN) -> Launcher:
    """Return the launcher: that of the package, one built before, or one built now; a SandboxError if there is none."""
    name = launcher_name(kind)
    for path, origin in ((os.path.join(_HERE, name), "built with the package"), (_cached(cache, name), "built here")):
        if os.access(path, os.X_OK):
            return Launcher(path, origin)
    compiler = find_compiler()
    if compiler is None:
        raise SandboxError(
            "the sandbox needs its launcher, which is neither part of this installation nor can be built here",
            hint=f"install the wheel for Linux on {os.uname().machine}, or a C compiler (cc)",
            step=NO_LAUNCHER,
        )
    make_private_directory(cache)
    build(compiler, _cached(cache, name), kind)
    return Launcher(_cached(cache, name), "built here")


def launcher_name(kind: str = LEAN) -> str:
    """Return the file name of the launcher that belongs to these sources and this kind of machine."""
    content = b"".join(_read(os.path.join(_HERE, source)) for source in (*SOURCES, *LEAN_SOURCES, *HEADERS))
    return f"launcher-{kind}-{os.uname().machine}-{digest(content)[:16]}"


def find_compiler() -> str | None:
    """Return a C compiler of the system; never one that PATH merely names."""
    return next((path for path in _COMPILERS if os.access(path, os.X_OK)), None)


def build(compiler: str, target: str, kind: str = LEAN) -> None:
    """Compile a launcher to `target`, whole or not at all, in the best way that works here."""
    import subprocess

    unfinished = f"{target}.{os.getpid()}.{get_ident()}"  # two threads may build at once
    said = ""
    for flags, sources in _RECIPES[kind]:
        command = [compiler, "-O2", *flags, "-o", unfinished, *(os.path.join(_HERE, each) for each in sources)]
        environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        done = subprocess.run(  # noqa: S603 -- a compiler of the system, on our own source
            command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        if done.returncode == 0:
            os.chmod(unfinished, 0o500)
            os.replace(unfinished, target)
            return
        said = done.stderr
    raise SandboxError(
        f"the launcher of the sandbox could not be built with {quoted(compiler)}: {said.strip()[:400]}",
        hint=f"install a working C compiler, or the wheel for Linux on {os.uname().machine}",
        step=NO_LAUNCHER,
    )


def build_with_package(directory: str = _HERE) -> list[str]:
    """Build both launchers beside their sources, for everybody on this machine; return what was made.

    Nothing is made where there is no compiler. Those of other sources are removed.
    """
    compiler = find_compiler()
    made = []
    wanted = {launcher_name(LEAN), launcher_name(FULL)}
    for name in os.listdir(directory):
        if name.startswith("launcher-") and name not in wanted:
            os.unlink(os.path.join(directory, name))
    for kind in (LEAN, FULL) if compiler is not None else ():
        target = os.path.join(directory, launcher_name(kind))
        if not os.access(target, os.X_OK):
            build(compiler or "", target, kind)
            os.chmod(target, 0o755)  # noqa: S103 -- a program for everybody, as others of a package
            made.append(target)
    return made


def _cached(cache: str, name: str) -> str:
    return os.path.join(cache, name)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    build_with_package()
