"""Where the launcher is: built with the package, or on first use into the user's own cache.

There is no other launcher: without a built one and without a compiler, nothing is started confined.

    python -m byleave.sandbox.native.build                    build both launchers beside their sources
    python -m byleave.sandbox.native.build --sanitize DIR     into DIR, with ASan and UBSan, for tests only

Warnings are errors where we build (`strict`: make, the wheel, the tests), not on first use: a newer compiler may warn
of something new, and that must not take the sandbox away from a user. A wheel that is built from source on such a
machine has no launcher, and the first use builds it.
"""

import os
from _thread import get_ident

from msgspec import Struct

from byleave.errors import SandboxError
from byleave.text import quoted
from byleave.user_files import digest, make_private_directory

SOURCES = ("launcher.c", "trace.c", "broker.c")
LEAN_SOURCES = ("launcher.c", "freestanding.c")
HEADERS = ("launcher.h",)
LEAN, FULL = "lean", "full"
NO_LAUNCHER = "launcher"  # the `step` of the error if there is none
_COMPILERS = ("/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang", "/usr/local/bin/cc", "/usr/local/bin/gcc")
_PATIENCE = 60  # seconds that a compiler may take
_HERE = os.path.dirname(os.path.abspath(__file__))

_WARNINGS = ("-Wall", "-Wextra", "-Wformat=2", "-Wshadow", "-Wstrict-prototypes")
_NO_EXECUTABLE_STACK = "-Wl,-z,noexecstack"
# The lean launcher does without the C library, which starts faster. So there is no thread-local storage for the stack
# protector's canary, nothing that could check a fortified call or relocate a position-independent program, and no
# symbol that is bound at run time: of the usual hardening, only the stack that is not executable applies.
_BARE = (
    *("-nostdlib", "-static", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-U_FORTIFY_SOURCE"),
    *("-fno-pie", "-no-pie", _NO_EXECUTABLE_STACK),
)
# The full one also traces and brokers: it reads what the sandboxed program wrote, so it gets all of it.
_HARDENED = (
    *("-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fPIE"),
    *("-Wl,-z,relro,-z,now", _NO_EXECUTABLE_STACK),
)
# Ways to build each kind of launcher, the best first; the last one is for compilers that know none of these flags.
RECIPES = {
    LEAN: (
        (_BARE, LEAN_SOURCES),
        ((*_HARDENED, "-static-pie"), SOURCES),
        ((*_HARDENED, "-pie"), SOURCES),
        ((), SOURCES),
    ),
    FULL: (((*_HARDENED, "-static-pie"), SOURCES), ((*_HARDENED, "-pie"), SOURCES), ((), SOURCES)),
}
# Static, since a stand-in is started where no library of the host may be in sight. LeakSanitizer needs to trace, which
# nothing in a sandbox may; and the environment of a launcher is empty, so the options are built in.
_SANITIZED = (
    *("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *("-static-libasan", "-static-libubsan"),
    '-D__SANITIZE_OPTIONS__="detect_leaks=0:exitcode=99:handle_segv=1"',
)


class Launcher(Struct, frozen=True):
    """A launcher: its file, and where it came from, for people."""

    path: str
    origin: str


def find_launcher(cache: str, kind: str = LEAN) -> Launcher:
    """Return the launcher: that of the package, one built before, or one built now; a SandboxError if there is none."""
    name = launcher_name(kind)
    cached = os.path.join(cache, name)
    for path, origin in ((os.path.join(_HERE, name), "built with the package"), (cached, "built here")):
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
    build(compiler, cached, kind)
    return Launcher(cached, "built here")


def launcher_name(kind: str = LEAN) -> str:
    """Return the file name of the launcher that belongs to these sources and this kind of machine."""
    content = b"".join(_read(os.path.join(_HERE, source)) for source in (*SOURCES, *LEAN_SOURCES, *HEADERS))
    return f"launcher-{kind}-{os.uname().machine}-{digest(content)[:16]}"


def find_compiler() -> str | None:
    """Return a C compiler of the system; never one that PATH merely names."""
    return next((path for path in _COMPILERS if os.access(path, os.X_OK)), None)


def build(compiler: str, target: str, kind: str = LEAN, *, strict: bool = False) -> None:
    """Compile a launcher to `target`, whole or not at all, in the best way that works here."""
    errors = ""
    for flags, sources in RECIPES[kind]:
        errors = compile_launcher(compiler, target, flags, sources, strict=strict)
        if not errors:
            return
    raise SandboxError(
        f"the launcher of the sandbox could not be built with {quoted(compiler)}: {errors[:400]}",
        hint=f"install a working C compiler, or the wheel for Linux on {os.uname().machine}",
        step=NO_LAUNCHER,
    )


def compile_launcher(
    compiler: str, target: str, flags: tuple[str, ...], sources: tuple[str, ...], *, strict: bool
) -> str:
    """Compile with these flags; return what the compiler says if it fails, and an empty text if not."""
    import subprocess

    unfinished = f"{target}.{os.getpid()}.{get_ident()}"  # two threads may build at once
    warnings = (*_WARNINGS, "-Werror") if strict else ()
    files = [os.path.join(_HERE, each) for each in sources]
    done = subprocess.run(  # noqa: S603 -- a compiler of the system, on our own source
        [compiler, "-O2", *warnings, *flags, "-o", unfinished, *files],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode:
        return done.stderr.strip() or f"exit code {done.returncode}"
    os.chmod(unfinished, 0o500)
    os.replace(unfinished, target)
    return ""


def build_with_package(directory: str = _HERE) -> list[str]:
    """Build both launchers beside their sources, for every user of this machine; return what was made.

    Nothing is made where there is no compiler. Those of other sources are removed.
    """
    compiler = find_compiler()
    made = []
    current = {launcher_name(LEAN), launcher_name(FULL)}
    for name in os.listdir(directory):
        if name.startswith("launcher-") and name not in current:
            os.unlink(os.path.join(directory, name))
    for kind in (LEAN, FULL) if compiler is not None else ():
        target = os.path.join(directory, launcher_name(kind))
        if not os.access(target, os.X_OK):
            build(compiler or "", target, kind, strict=True)
            os.chmod(target, 0o755)  # noqa: S103 -- a program for every user, as others of a package
            made.append(target)
    return made


def build_sanitized(directory: str) -> str:
    """Build the full launcher with AddressSanitizer and UndefinedBehaviorSanitizer, under the names of both kinds.

    Returns why that is not possible here, and an empty text if it is done.
    """
    compiler = find_compiler()
    if compiler is None:
        return "there is no C compiler"
    for kind in (LEAN, FULL):
        target = os.path.join(directory, launcher_name(kind))
        errors = compile_launcher(compiler, target, _SANITIZED, SOURCES, strict=True)
        if errors:
            return errors
        os.chmod(target, 0o755)  # noqa: S103 -- as `build_with_package` does
    return ""


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["--sanitize"]:
        sys.exit(build_sanitized(sys.argv[2]) or 0)
    build_with_package()
