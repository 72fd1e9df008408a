"""Where the launcher and the front are: built with the package, or on first use into the user's own cache.

There is no other launcher: without a built one and without a compiler, nothing is started confined. Without a front,
commands are only slower.

    python -m byleave.sandbox.native.build                    build both launchers and the front beside their sources
    python -m byleave.sandbox.native.build --sanitize DIR     into DIR, with ASan and UBSan, for tests only

A wheel for another kind of machine is made with the compiler that Debian and others name after it
(aarch64-linux-gnu-gcc).

Warnings are errors where we build (`strict`: make, the wheel, the tests), not on first use: a newer compiler may warn
of something new, and that must not take the sandbox away from a user. A wheel that is built from source on such a
machine has no launcher, and the first use builds it.
"""

import os
from _thread import get_ident
from dataclasses import dataclass

from byleave.errors import ByleaveError, SandboxError
from byleave.text import quoted
from byleave.user_files import digest, make_private_directory

SOURCES = ("launcher.c", "session.c", "listing.c", "notes.c", "trace.c", "broker.c")
LEAN_SOURCES = ("launcher.c", "session.c", "listing.c", "notes.c", "lean.c", "freestanding.c")
HEADERS = ("launcher.h",)
FRONT_SOURCES = ("front.c", "front_command.c", "front_service.c", "front_launcher.c", "front_call.c", "front_text.c")
_OF_THE_FRONT = (*FRONT_SOURCES, "freestanding.c", "front.h", "launcher.h")
LEAN, FULL, FRONT = "lean", "full", "front"
NO_LAUNCHER = "launcher"  # the `step` of the error if there is none
_COMPILERS = ("/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang", "/usr/local/bin/cc", "/usr/local/bin/gcc")
_CROSS = {"x86_64": "/usr/bin/x86_64-linux-gnu-gcc", "aarch64": "/usr/bin/aarch64-linux-gnu-gcc"}
_PATIENCE = 60  # seconds that a compiler may take
_HERE = os.path.dirname(os.path.abspath(__file__))

_WARNINGS = ("-Wall", "-Wextra", "-Wformat=2", "-Wshadow", "-Wstrict-prototypes")
_NO_EXECUTABLE_STACK = "-Wl,-z,noexecstack"
# The lean launcher and the front do without the C library, which starts faster. So there is no thread-local storage for
# the stack protector's canary, nothing that could check a fortified call or relocate a position-independent program,
# and no symbol that is bound at run time: of the usual hardening, only the stack that is not executable applies.
_BARE = (
    *("-nostdlib", "-static", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-U_FORTIFY_SOURCE"),
    *("-fno-pie", "-no-pie", _NO_EXECUTABLE_STACK),
)
# The full one also traces and brokers: it reads what the sandboxed program wrote, so it gets all of it.
_HARDENED = (
    *("-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fPIE"),
    *("-Wl,-z,relro,-z,now", _NO_EXECUTABLE_STACK),
)
# Ways to build each of them, the best first; the last one is for compilers that know none of these flags.
RECIPES = {
    LEAN: (
        (_BARE, LEAN_SOURCES),
        ((*_HARDENED, "-static-pie"), SOURCES),
        ((*_HARDENED, "-pie"), SOURCES),
        ((), SOURCES),
    ),
    FULL: (((*_HARDENED, "-static-pie"), SOURCES), ((*_HARDENED, "-pie"), SOURCES), ((), SOURCES)),
    FRONT: (
        (_BARE, (*FRONT_SOURCES, "freestanding.c")),
        ((*_HARDENED, "-static-pie"), FRONT_SOURCES),
        ((*_HARDENED, "-pie"), FRONT_SOURCES),
        ((), FRONT_SOURCES),
    ),
}
# Static, since a stand-in is started where no library of the host may be in sight. LeakSanitizer needs to trace, which
# nothing in a sandbox may; and the environment of a launcher is empty, so the options are built in.
_SANITIZED = (
    *("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *("-static-libasan", "-static-libubsan"),
    '-D__SANITIZE_OPTIONS__="detect_leaks=0:exitcode=99:handle_segv=1"',
)


@dataclass(frozen=True)  # installing builds the launcher before there is any other package
class Launcher:
    """A launcher: its file, and where it came from, for people."""

    path: str
    origin: str


def find_launcher(cache: str, kind: str = LEAN) -> Launcher:
    """Return the launcher: that of the package, one built before, or one built now; a SandboxError if there is none."""
    known = _known.get(kind)
    if known is not None and os.access(known, os.X_OK):
        return Launcher(known, "built with the package")
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


_known: dict[str, str] = {}  # paths of the package's own launchers, by their kind


def know_launchers() -> None:
    """Remember the launchers of the package that this code is part of, for the processes of the service."""
    for kind in (LEAN, FULL):
        path = os.path.join(_HERE, launcher_name(kind))
        if os.access(path, os.X_OK):
            _known[kind] = path


def find_front(cache: str) -> str | None:
    """Return the path of the front: that of the package, one built before, or one built now; None if there is none.

    Agents' settings name it, so its name does not change with its sources: it says itself which they were.
    """
    path, cached = os.path.join(_HERE, front_name()), os.path.join(cache, front_name())
    if os.access(path, os.X_OK):
        return path
    if _is_current_front(cached):
        return cached
    compiler = find_compiler()
    if compiler is None:
        return None
    try:
        make_private_directory(cache)
        build(compiler, cached, FRONT)
    except (ByleaveError, OSError):
        return None
    return cached


def launcher_name(kind: str = LEAN, machine: str = "") -> str:
    """Return the file name of the launcher that belongs to these sources and this, or another, kind of machine."""
    return f"launcher-{kind}-{machine or os.uname().machine}-{_digest((*SOURCES, *LEAN_SOURCES, *HEADERS))}"


def front_name(machine: str = "") -> str:
    """Return the file name of the front for a kind of machine; `policy.dirs.own_front` looks for that of this one."""
    return f"{FRONT}-{machine or os.uname().machine}"


def _is_current_front(path: str) -> bool:
    """Whether a front is there that was built from these sources."""
    return os.access(path, os.X_OK) and f"sources {_digest(_OF_THE_FRONT)}".encode() in _read(path)


def _digest(sources: tuple[str, ...]) -> str:
    return digest(b"".join(_read(os.path.join(_HERE, source)) for source in sources))[:16]


def find_compiler() -> str | None:
    """Return a C compiler of the system; never one that PATH merely names."""
    return next((path for path in _COMPILERS if os.access(path, os.X_OK)), None)


def find_cross_compiler(machine: str) -> str | None:
    """Return a C compiler for another kind of machine; None where there is none."""
    path = _CROSS.get(machine, "")
    return path if os.access(path, os.X_OK) else None


def build(compiler: str, target: str, kind: str = LEAN, *, strict: bool = False) -> None:
    """Compile a launcher or the front to `target`, whole or not at all, in the best way that works here."""
    errors = ""
    named = (f'-DFRONT_DIGEST="{_digest(_OF_THE_FRONT)}"',) if kind == FRONT else ()
    for given, sources in RECIPES[kind]:
        flags = (*given, *named)
        errors = compile_launcher(compiler, target, flags, sources, strict=strict)
        if not errors:
            return
    what = "front" if kind == FRONT else "launcher of the sandbox"
    raise SandboxError(
        f"the {what} could not be built with {quoted(compiler)}: {errors[:400]}",
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


def build_with_package(directory: str = _HERE, machine: str = "") -> list[str]:
    """Build both launchers and the front beside their sources, for every user of this machine; return what was made.

    Nothing is made where there is no compiler. Those of other sources are removed. With `machine`, for that kind.
    """
    compiler = find_cross_compiler(machine) if machine else find_compiler()
    made = []
    current = _names(machine)
    for name in os.listdir(directory):
        if name.startswith(("launcher-", "front-")) and name not in current.values():
            os.unlink(os.path.join(directory, name))
    for kind, name in current.items() if compiler is not None else ():
        target = os.path.join(directory, name)
        if not (_is_current_front(target) if kind == FRONT else os.access(target, os.X_OK)):
            build(compiler or "", target, kind, strict=True)
            os.chmod(target, 0o755)  # noqa: S103 -- a program for every user, as others of a package
            made.append(target)
    return made


def build_sanitized(directory: str, kinds: tuple[str, ...] = (LEAN, FULL, FRONT)) -> str:
    """Build the full launcher with AddressSanitizer and UndefinedBehaviorSanitizer, under the names of both kinds.

    And the front. Returns why that is not possible here, and an empty text if it is done.
    """
    compiler = find_compiler()
    if compiler is None:
        return "there is no C compiler"
    for kind in kinds:
        target = os.path.join(directory, _names()[kind])
        sources = FRONT_SOURCES if kind == FRONT else SOURCES
        errors = compile_launcher(compiler, target, _SANITIZED, sources, strict=True)
        if errors:
            return errors
        os.chmod(target, 0o755)  # noqa: S103 -- as `build_with_package` does
    return ""


def _names(machine: str = "") -> dict[str, str]:
    of = (machine,) if machine else ()
    return {LEAN: launcher_name(LEAN, *of), FULL: launcher_name(FULL, *of), FRONT: front_name(*of)}


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["--sanitize"]:
        sys.exit(build_sanitized(sys.argv[2]) or 0)
    build_with_package()
    if find_compiler() is None and not os.access(os.path.join(_HERE, launcher_name(LEAN)), os.X_OK):
        sys.stderr.write("there is no C compiler (cc): the launcher is not built, and no command can run confined\n")
