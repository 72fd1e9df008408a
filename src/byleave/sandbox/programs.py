"""What `access.commands` means on this machine: where listed programs are, what the program itself must execute, and
which directories of programs it must not see. Reads, never writes.

The program is started by its interpreter, if it is a script: then nothing but one file, and the loader of that file, is
ever executed by the kernel on its behalf.
"""

import os
from struct import unpack_from

from byleave.core.fs import is_under
from byleave.record import Record
from byleave.sandbox import host
from byleave.sandbox.plan import DIRECTORY, Approximation, Link, Programs
from byleave.sandbox.view import LINK
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.core.commands import CommandTable

_SYSTEM = ("/usr/bin", "/usr/sbin", "/usr/games", "/usr/libexec", "/bin", "/sbin")
_LOCAL = ("/usr/local/bin", "/usr/local/sbin", "/usr/local/games", "/usr/local/libexec")
_LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib")
_OF_A_PREFIX = ("bin", "sbin", "libexec", "scripts")
# Directories among the libraries that hold programs and little else; those of _OF_A_PREFIX are found by their names.
_AMONG_LIBRARIES = frozenset(
    "apt dpkg dbus-1.0 file-roller gcc git-core gnupg gnupg2 gvfs klibc man-db openssh packagekit perf-core policykit-1 "
    "polkit-1 postfix rpm rsyslog ruby/gems snapd sudo systemd udev valgrind".split()
)
_DEEPEST, _MOST_DIRECTORIES = 3, 4096  # how far programs are looked for among the libraries
_MOST_SCRIPTS = 4  # the kernel follows as many
_INTERPRETERS = frozenset("ash awk bash busybox bun dash deno env fish gawk ksh lua make node nodejs npm npx perl php".split())
_MORE_INTERPRETERS = ("python", "pypy", "ruby", "sh", "tclsh", "xargs", "zsh", "find", "nice", "nohup", "timeout")


class Start(Record):
    """What the kernel is to execute, and the words that it puts before a script's own: interpreter to script."""

    path: str
    words: tuple[str, ...] = ()

    def arguments(self, argv: "tuple[str, ...]") -> tuple[str, ...]:
        """Return the words of a command as its interpreter gets them."""
        return (*self.words, *argv[1:]) if self.words else argv


def follow(program: str, search: str) -> Start:
    """Return what starts a program; a script's `#!` line is read as the kernel does it, and `env` as env does it."""
    start = Start(program)
    for _ in range(_MOST_SCRIPTS):
        line = _first_words(start.path, search)
        if line is None:
            break
        start = Start(line[0], (*line, start.path, *start.words[1:]))
    return start


def _first_words(path: str, search: str) -> tuple[str, ...] | None:
    """Return the interpreter and the argument that a `#!` line names; None if there is none."""
    try:
        with open(path, "rb") as script:
            line = script.read(256).split(b"\n", 1)[0]
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).strip().split(None, 1)
    if not words or not os.path.isabs(words[0]):
        return None
    if os.path.basename(words[0]) == "env" and len(words) > 1:
        named = words[1].removeprefix("-S").split()
        found = host.find_program(named[0], search, "/") if named and named[0][0] != "-" and "=" not in named[0] else None
        return tuple(words) if found is None else (found, *named[1:])
    return tuple(words)


def find_listed(commands: "CommandTable", search: str) -> tuple[tuple[str, str], ...]:
    """Return listed programs that are on this machine, and where. A relative path is not the same place everywhere."""
    found = []
    for name in sorted(commands.rules):
        if "/" in name and not os.path.isabs(name):
            continue
        path = host.find_program(name, search, "/")
        if path is not None:
            found.append((name, path))
    return tuple(found)


def find_programs(
    program: str | None,
    search: str,
    listed: tuple[tuple[str, str], ...],
    *,
    prefixes: "Iterable[str]",
    libraries: tuple[str, ...],
) -> Programs:
    """Return how a program is held to what is listed. `prefixes` are places that hold programs beside libraries."""
    covered = tuple(_outermost(_program_directories(prefixes)))
    places = [stand_in_place(name, covered) for name, _path in listed if "/" in name]
    stand_ins = tuple(place for place in places if place is not None)
    if program is None:
        return Programs(listed, covered=covered, libraries=libraries, stand_ins=stand_ins)
    start = follow(program, search)
    files, links = [], []
    for path in dict.fromkeys([*host.interpreters(program, search), start.path]):
        for hop in host.hops(path):
            if not any(is_under(hop, place) for place in covered):
                continue
            if host.look(hop) == LINK:
                links.append(Link(hop, os.readlink(hop)))
            else:
                files.append(hop)
    real = os.path.realpath(start.path)
    return Programs(
        listed,
        (real, *loader_of(real)),
        covered,
        tuple(dict.fromkeys(files)),
        tuple(dict.fromkeys(links)),
        libraries,
        tuple(place for place in stand_ins if place not in {*files, *(link.path for link in links)}),
    )


def loader_of(path: str) -> "Iterator[str]":
    """Yield the loader that a program of the usual format asks the kernel for, as a canonical path."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return
    (offset,) = unpack_from("<Q", head, 32)
    size, count = unpack_from("<HH", head, 54)
    for at in range(offset, min(offset + size * count, len(head) - 55), size or 56):
        kind, _flags, where, _virtual, _physical, length = unpack_from("<IIQQQQ", head, at)
        if kind == 3 and where + length <= len(head):  # PT_INTERP
            yield os.path.realpath(os.fsdecode(head[where : where + length].rstrip(b"\0")))


def _program_directories(prefixes: "Iterable[str]") -> "Iterator[str]":
    """Yield directories that hold programs, canonically."""
    below = [os.path.join(prefix, name) for prefix in prefixes for name in _OF_A_PREFIX]
    for path in (*_SYSTEM, *_LOCAL, *below):
        real = os.path.realpath(path)
        if host.look(real) == DIRECTORY:
            yield real
    for path in _LIBRARIES:
        if host.look(path) == DIRECTORY:
            yield from _among_libraries(path)


def _among_libraries(top: str) -> "Iterator[str]":
    """Yield directories of programs near the top of a directory of libraries."""
    waiting = [(top, 1)]
    for path, depth in waiting:
        try:
            entries = list(os.scandir(path))
        except OSError:
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                continue
            if entry.name in _OF_A_PREFIX or entry.name in _AMONG_LIBRARIES:
                yield entry.path
            elif depth < _DEEPEST and len(waiting) < _MOST_DIRECTORIES:
                waiting.append((entry.path, depth + 1))


def _outermost(paths: "Iterable[str]") -> "Iterator[str]":
    last = None
    for path in sorted(set(paths)):
        if last is None or not is_under(path, last):
            last = path
            yield path


def approximations(programs: Programs, commands: "CommandTable", root: str) -> "Iterator[Approximation]":
    """Yield what is not held exactly where only listed programs may be started."""
    for name in sorted(commands.rules):
        if "/" in name and not os.path.isabs(name):
            why = "a relative path is another program in another directory: the sandbox starts none of them"
            yield Approximation(shown(name), "spawn", why)
        elif "/" in name and not _can_stand_in(name, programs):
            yield Approximation(shown(name), "spawn", "it is in no directory of programs where a stand-in could be put")
        elif _interprets(os.path.basename(name)):
            yield Approximation(shown(name), "spawn", "it runs whatever it is told to, in the same sandbox", laxer=True)
    why = "a listed program may start others of the system itself, with any words: they are held to everything else"
    yield Approximation("access.commands", "spawn", why, laxer=True)
    for path in programs.executed[:1]:
        yield Approximation(path, "spawn", "it is the program itself, which may start itself again with any words", laxer=True)
    for path in programs.libraries:
        why = "a program among the libraries can be run by the loader, or copied into memory, unless it is covered"
        yield Approximation(path, "exec", why, laxer=True)
    why = "where only listed programs may be started, nothing that can be written is executed, nor mapped as a library"
    yield Approximation(root, "exec", why)


def _can_stand_in(name: str, programs: Programs) -> bool:
    return stand_in_place(name, programs.covered) is not None or os.path.realpath(name) in programs.executed


def stand_in_place(name: str, covered: "Iterable[str]") -> str | None:
    """Return the canonical place of a program that is listed by its path; None if no covered directory has it."""
    directory, base = os.path.split(name)
    place = os.path.join(os.path.realpath(directory), base)
    return place if any(is_under(place, each) for each in covered) else None


def _interprets(name: str) -> bool:
    return name in _INTERPRETERS or name.rstrip("0123456789.-") in _MORE_INTERPRETERS
