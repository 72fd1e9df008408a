"""What `access.commands` means on this machine: where listed programs are, what the program itself must execute, and
which directories of programs it must not see. Reads, never writes.

If the program is a script, its interpreter starts it: then the kernel executes on its behalf nothing but one file, and
the loader of that file.

Some programs execute what their words say: interpreters, and programs that start the program their words name. Where
`access.commands` lists one of them, the programs that it starts are decided like those of the tool. The table has
names; a version, or the way a program was built, may stand behind one (`python3.11`, `bash-static`).

A program that a tool could have put where it was found is not the one that a rule names (`TrustedPrograms`).
"""

from __future__ import annotations

import os
from struct import unpack_from
from typing import TYPE_CHECKING

import msgspec

from byleave.core.access import Default
from byleave.core.action import FileAction
from byleave.core.decision import ALLOW
from byleave.core.fs_rules import WRITES, is_under
from byleave.sandbox import host
from byleave.sandbox.plan.plan import DIRECTORY, LINK, AllowedPrograms, Approximation, Link
from byleave.text import shown
from byleave.user_files import first_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from byleave.core.command_rules import CommandTable
    from byleave.policy.live_policy import LivePolicy


_SHELLS = (
    "ash bash csh dash elvish fish ksh mksh nu oksh osh pdksh posh powershell pwsh rbash sash sh tcsh xonsh yash zsh"
)
_LANGUAGES = (
    "awk bun clisp d8 deno elixir erl escript expect gawk ghci gjs groovy groovysh guile iex ipython irb jrunscript "
    "jshell julia jython lli lua luajit m4 mawk micropython nawk node nodejs ocaml octave original-awk perl php pypy "
    "python qjs racket rscript ruby runghc runhaskell sbcl scala tcl tclsh ts-node tsx"
)
_WINDOWED_SHELL = "wish"  # of Tcl/Tk
_OF_THE_KERNEL = (  # a priority, a namespace, a limit, a lock, another user: then what the words name
    "capsh cgexec choom chpst chroot chrt coresched doas dumb-init firejail flock gosu i386 ionice ld-linux ld-musl "
    "linux32 linux64 ld.so newgrp nice nsenter numactl pkexec prlimit proot runcon runuser setarch setpgrp "
    "setpriv setuidgid sg softlimit su su-exec sudo systemd-nspawn systemd-run taskset tini uclampset uname26 unshare "
    "x86_64 bwrap switch_root pivot_root pipesz setpgid enosys envuidgid fghack pgrphack supervise tcpserver tcpclient "
    "runsv catatonit conmon cpulimit trickle schedtool hugectl sandbox-exec apptainer singularity"
)
_OF_TIME_AND_STREAMS = (
    "caffeinate chronic dbus-launch dbus-run-session dtach entr env envdir execlineb fakechroot fakeroot faketime "
    "find fd fdfind ifne ltrace mispipe nohup parallel pee rlwrap run-one run-parts run-this-one screen script "
    "scriptlive sem setlock setsid ssh-agent sshpass start-stop-daemon stdbuf strace time timeout tmux torify "
    "torsocks tsocks unbuffer valgrind watch xargs xvfb-run proxychains gdb gdbtui lldb perf catchsegv fakeroot-sysv "
    "fakeroot-tcp heaptrack logsave luit memusage msgexec msgfilter pg_virtualenv sotruss systemd-cat systemd-inhibit "
    "systemd-socket-activate systemd-notify run0 gpg-agent lckdo zrun nodemon watchexec hyperfine daemon daemonize nq "
    "tsp reptyr xinit startx xterm flatpak-spawn direnv mise dotenv doppler foreman honcho socat ncat rr gprofng operf "
    "ocount samply bpftrace"
)
_OF_BUILDS = "bear intercept-build scan-build ccache sccache distcc icecc libtool eatmydata"
_SEVERAL_IN_ONE = "busybox toybox coreutils"
_NAMES = frozenset(
    name
    for names in (_SHELLS, _LANGUAGES, _OF_THE_KERNEL, _OF_TIME_AND_STREAMS, _OF_BUILDS, _SEVERAL_IN_ONE)
    for name in names.split()
) | {_WINDOWED_SHELL}
_BUILDS = ("-static", "-dbg", "-debug", "-minimal")
_VERSION = "0123456789.-_"
_MACHINES = ("-gnu", "-musl")  # what a program was built for, as in `perl5.36-x86_64-linux-gnu`
_LOADERS = ("ld-linux", "ld-musl", "ld.so")  # a processor's name stands behind it


def interprets(path: str) -> bool:
    """Whether a program executes what its words say, by its own name or by that of the file which a link leads to."""
    return any(_is_known(os.path.basename(each).lower()) for each in (path, os.path.realpath(path)))


def _is_known(name: str) -> bool:
    for build in _BUILDS:
        name = name.removesuffix(build)
    if name.endswith(_MACHINES):
        name = name.partition("-")[0]
    return name in _NAMES or name.rstrip(_VERSION) in _NAMES or name.startswith(_LOADERS)


_SYSTEM = (
    *("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/games", "/usr/libexec"),
    *("/usr/local/bin", "/usr/local/sbin", "/usr/local/games", "/usr/local/libexec"),
)
_LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib")
_OF_A_PREFIX = ("bin", "sbin", "libexec", "scripts")
# Directories that hold programs among the libraries: at any depth, and right at the top.
_IN_LIBRARIES = ("bin", "sbin", "libexec")
_AMONG_LIBRARIES = {
    *("apt", "dbus-1.0", "dpkg", "gcc", "git-core", "gnupg", "gnupg2", "gvfs", "klibc", "man-db", "openssh"),
    *("packagekit", "perf-core", "policykit-1", "polkit-1", "postfix", "rpm", "rsyslog", "snapd", "sudo", "systemd"),
    *("udev", "valgrind"),
}
_DEEPEST, _MOST_DIRECTORIES = 3, 4096  # how far programs are looked for among the libraries
_MOST_SCRIPTS = 4  # the kernel follows as many


class ExecStart(msgspec.Struct, frozen=True):
    """What the kernel is to execute, and the words that it puts before a script's own: interpreter to script."""

    path: str
    words: tuple[str, ...] = ()

    def arguments(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the words of a command as its interpreter gets them."""
        return (*self.words, *argv[1:]) if self.words else argv


def follow(program: str, search: str) -> ExecStart:
    """Return what starts a program; a script's `#!` line is read as the kernel does it, and `env` as env does it."""
    start = ExecStart(program)
    for _ in range(_MOST_SCRIPTS):
        line = _first_words(start.path, search)
        if line is None:
            break
        start = ExecStart(line[0], (*line, start.path, *start.words[1:]))
    return start


def _first_words(path: str, search: str) -> tuple[str, ...] | None:
    """Return the interpreter and the argument that a `#!` line names; None if there is none."""
    line = first_bytes(path, 256).split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).strip().split(None, 1)
    if not words or not os.path.isabs(words[0]):
        return None
    if os.path.basename(words[0]) == "env" and len(words) > 1:
        named = words[1].removeprefix("-S").split()
        found = _named_by_env(named[0], search) if named else None
        return tuple(words) if found is None else (found, *named[1:])
    return tuple(words)


def _named_by_env(word: str, search: str) -> str | None:
    """Return what env would start; None where the word is an option or a variable, which it is left to read itself."""
    return None if word.startswith("-") or "=" in word else host.find_program(word, search, "/")


def find_listed(
    commands: CommandTable, search: str, trusted: Callable[[str], bool] | None = None
) -> tuple[tuple[str, str], ...]:
    """Return listed programs that are on this machine, and where. A relative path is not the same place everywhere."""
    found = []
    for name in sorted(commands.rules):
        if "/" in name and not os.path.isabs(name):
            continue
        path = host.find_program(name, search, "/", trusted)
        if path is not None:
            found.append((name, path))
    return tuple(found)


def find_programs(
    program: str | None, search: str, listed: tuple[tuple[str, str], ...], libraries: tuple[str, ...]
) -> AllowedPrograms:
    """Return how a program is held to what is listed. `libraries` are places whose files may be mapped as code."""
    covered = tuple(_outermost(_program_directories(libraries)))
    found = AllowedPrograms(listed, covered=covered, libraries=libraries)
    return found if program is None else held_to(found, program, search)


def held_to(programs: AllowedPrograms, program: str, search: str) -> AllowedPrograms:
    """Return the same for another program: what it executes, and what it sees where programs are covered."""
    start = follow(program, search)
    real = os.path.realpath(start.path)
    paths = dict.fromkeys([*host.interpreters(program, search), start.path])
    hops = dict.fromkeys(hop for path in paths for hop in host.hops(path) if _is_covered(hop, programs))
    places = [_stand_in_place(name) for name, _path in programs.listed if os.path.isabs(name)]
    return AllowedPrograms(
        programs.listed,
        (real, *loader_of(real)),
        programs.covered,
        tuple(hop for hop in hops if host.look(hop) != LINK),
        tuple(Link(hop, os.readlink(hop)) for hop in hops if host.look(hop) == LINK),
        programs.libraries,
        tuple(place for place in places if _is_covered(place, programs) and place not in hops),
    )


def _is_covered(path: str, programs: AllowedPrograms) -> bool:
    return any(is_under(path, place) for place in programs.covered)


def _stand_in_place(name: str) -> str:
    directory, base = os.path.split(name)
    return os.path.join(os.path.realpath(directory), base)


def loader_of(path: str) -> Iterator[str]:
    """Yield the loader that a program of the usual format asks the kernel for, as a canonical path."""
    head = first_bytes(path, 4096)
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        return
    (offset,) = unpack_from("<Q", head, 32)
    size, count = unpack_from("<HH", head, 54)
    for at in range(offset, min(offset + size * count, len(head) - 55), size or 56):
        kind, _flags, where, _virtual, _physical, length = unpack_from("<IIQQQQ", head, at)
        if kind == 3 and where + length <= len(head):  # PT_INTERP
            yield os.path.realpath(os.fsdecode(head[where : where + length].rstrip(b"\0")))


def _program_directories(prefixes: Iterable[str]) -> Iterator[str]:
    """Yield directories that hold programs, canonically."""
    below = [os.path.join(prefix, name) for prefix in prefixes for name in _OF_A_PREFIX]
    for path in (*_SYSTEM, *below):
        real = os.path.realpath(path)
        if host.look(real) == DIRECTORY:
            yield real
    for path in _LIBRARIES:
        if host.look(path) == DIRECTORY:
            yield from _among_libraries(path)


def _among_libraries(top: str) -> Iterator[str]:
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
            if entry.name in _IN_LIBRARIES or (depth == 1 and entry.name in _AMONG_LIBRARIES):
                yield entry.path
            elif depth < _DEEPEST and len(waiting) < _MOST_DIRECTORIES:
                waiting.append((entry.path, depth + 1))


def _outermost(paths: Iterable[str]) -> Iterator[str]:
    last = None
    for path in sorted(set(paths)):
        if last is None or not is_under(path, last):
            last = path
            yield path


def approximations(programs: AllowedPrograms, commands: CommandTable, root: str) -> Iterator[Approximation]:
    """Yield what is not held exactly where only listed programs may be started."""
    listed = dict(programs.listed)
    for name in sorted(commands.rules):
        yield _approximation(name, programs)
        if is_under(listed.get(name, "/"), root):
            yield Approximation(
                shown(name), "spawn", "it lies in the workspace, and is what is written there", laxer=True
            )
    for path in programs.executed[:1]:
        why = "it is the program itself, which may start itself again with any words"
        yield Approximation(path, "spawn", why, laxer=True)
    for path in programs.libraries:
        why = "a program among the libraries can be run by the loader, or copied into memory, unless it is covered"
        yield Approximation(path, "exec", why, laxer=True)
    why = "where only listed programs may be started, nothing that can be written is executed, nor mapped as a library"
    yield Approximation(root, "exec", why)


def _approximation(name: str, programs: AllowedPrograms) -> Approximation:
    if "/" in name and not os.path.isabs(name):
        why = "a relative path is another program in another directory: the sandbox starts none of them"
        return Approximation(shown(name), "spawn", why)
    if "/" in name and not _is_covered(_stand_in_place(name), programs):
        return Approximation(shown(name), "spawn", "it is in no directory of programs, where a stand-in could be")
    if interprets(dict(programs.listed).get(name, name)):
        why = "its arguments are not read; the programs that it starts are decided like any other"
        return Approximation(shown(name), "spawn", why, laxer=True)
    why = "it may start other programs of the system, with any words: they are held to everything but this list"
    return Approximation(shown(name), "spawn", why, laxer=True)


class TrustedPrograms:
    """Knows what one tool may write: in the workspace, through mounts, and of what every sandbox may write."""

    def __init__(self, policy: LivePolicy, tool: str, writable: Sequence[str]) -> None:
        self._policy = policy
        self._tool = tool
        self._writable = writable

    def is_trusted(self, program: str) -> bool:
        """Whether neither the program, nor a link on the way to it, can be the tool's own doing."""
        access = self._policy.compiled.policy.tool(self._tool).access
        if isinstance(access.commands, Default) and access.commands.decision is ALLOW:  # any program may be started
            return True
        return not any(self._writes(hop) for hop in host.hops(program))

    def _writes(self, path: str) -> bool:
        inside = self._policy.root.relative(path)
        if inside is not None:
            asked = [FileAction(kind, inside, self._tool) for kind in ("create", "update")]
            return any(self._policy.decide(action).decision is ALLOW for action in asked)
        return any(is_under(path, os.path.realpath(place)) for place in (*self._writable, *self._mounted()))

    def _mounted(self) -> Iterable[str]:
        table = self._policy.compiled.policy.tool(self._tool).access.fs
        for rule in () if isinstance(table, Default) else table.rules:
            if rule.approved_target is not None and any(rule.grants(name) for name in WRITES):
                yield rule.approved_target
