"""What this machine has: its kernel's abilities, the system directories, the prefix of a program. It only looks."""

from __future__ import annotations

import os
import stat
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import is_under
from byleave.errors import SandboxError
from byleave.sandbox.linux.seccomp import known_architecture
from byleave.sandbox.linux.steps import MachineFacts
from byleave.sandbox.plan.plan import DIRECTORY, FILE, LINK, READING, Link, PathGrant
from byleave.sandbox.plan.private_files import kernel_secrets, system_secrets
from byleave.user_files import first_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_LANDLOCK_VERSION = (444, 1)  # landlock_create_ruleset, LANDLOCK_CREATE_RULESET_VERSION
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
_SHIMS = "shims"  # where pyenv, asdf and the like keep what finds the real program: elsewhere in the prefix
_PROGRAM_DIRECTORIES = ("bin", "sbin", "libexec", _SHIMS)
_LIBRARIES = ("lib", "lib64", "libexec", "include")
# Where managers of versions put what they install, below the home directory: public software, each version by itself.
_VERSIONS = (
    *(".pyenv/versions", ".local/share/uv/python", ".rbenv/versions", ".nodenv/versions", ".goenv/versions"),
    *(".nvm/versions/node", ".local/share/fnm/node-versions", ".volta/tools/image", ".rustup/toolchains"),
    *(".asdf/installs", ".local/share/mise/installs", ".sdkman/candidates"),
)
_INSTALLED = ("/usr/", "/opt/", "/nix/", "/gnu/", "/snap/")
_SHALLOWEST = 2  # /opt and /home are no program's own prefix
_MOST_INTERPRETERS = 4  # the kernel follows as many
_MOST_LINKS = 40
_WORTH_A_LIST = 8  # names in one directory that take longer one by one
_STAGING = ("/mnt", "/run", "/tmp", "/srv", "/media", "/opt", "/var")  # noqa: S108 -- a directory to mount on

_KINDS = {stat.S_IFLNK: LINK, stat.S_IFDIR: DIRECTORY}


def look(path: str) -> str | None:
    """Return what is at a path: DIRECTORY, FILE, LINK, or None if nothing is there or it cannot be seen."""
    try:
        return _KINDS.get(stat.S_IFMT(os.lstat(path).st_mode), FILE)
    except (OSError, ValueError):
        return None


def all_look_like(kinds: Mapping[str, str | None]) -> bool:
    """Whether `look` finds the same as before at every path.

    Where many of them are names of one directory that has few others, it is listed. What is not in the list is looked
    at all the same: some file systems find a name by another spelling of it.
    """
    beside = Counter(path.rpartition("/")[0] for path, kind in kinds.items() if kind is not None)
    listed: dict[str, str] = {}
    for above, count in beside.items():
        if count >= _WORTH_A_LIST:
            listed |= {f"{above}/{name}": kind for name, kind in names_in(above, 2 * count) or ()}
    return all((listed.get(path) or look(path)) == kind for path, kind in kinds.items())


def files_below(path: str, most: int) -> list[str] | None:
    """Return every file below a directory, without following links; None if there are more than `most`."""
    found: list[str] = []
    waiting = [path]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif not entry.is_symlink():
                found.append(entry.path)
        if len(found) + len(waiting) > most:
            return None
    return sorted(found)


def names_in(path: str, most: int) -> list[tuple[str, str]] | None:
    """Return the names in a directory, each with what it is; None for more than `most`, or if it cannot be listed."""
    found: list[tuple[str, str]] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if len(found) == most:
                    return None
                linked, directory = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
                found.append((entry.name, LINK if linked else DIRECTORY if directory else FILE))
    except OSError:
        return None
    return sorted(found)


def links_in(directory: str, most: int) -> list[Link]:
    """Return the symbolic links of a directory; at most so many."""
    try:
        entries = [entry.path for entry in os.scandir(directory) if entry.is_symlink()]
        return [Link(path, os.readlink(path)) for path in sorted(entries)[:most]]
    except OSError:
        return []


def follow(link: str) -> str | None:
    """Return where a link leads in the end; None if that is nowhere."""
    try:
        return os.path.realpath(link, strict=True)
    except (OSError, ValueError):
        return None


def landlock_version() -> int:
    """Return the version of Landlock that this kernel has; 0 if it has none."""
    import ctypes

    call, flag = _LANDLOCK_VERSION
    version: int = ctypes.CDLL(None, use_errno=True).syscall(call, None, ctypes.c_size_t(0), flag)
    return max(version, 0)


def this_host(*, namespaces: bool) -> MachineFacts:
    """Return what the launcher has to know of this machine and of who we are."""
    return MachineFacts(
        os.uname().machine,
        landlock_version(),
        namespaces,
        os.geteuid(),
        os.getegid(),
        kernel_release(),
        directories=tuple(place for place in _STAGING if look(place) == DIRECTORY),
        kernel_secrets=kernel_secrets(os.geteuid()),
    )


def kernel_release() -> tuple[int, int]:
    """Return the version of the kernel, as far as it is a number."""
    parts = os.uname().release.split(".")[:2]
    numbers = [int("".join(char for char in part if char.isdigit()) or "0") for part in parts]
    return (numbers[0], numbers[1]) if len(numbers) > 1 else (0, 0)


def has_filter() -> bool:
    """Whether there is a system call filter for this kind of machine."""
    return known_architecture(os.uname().machine)


class Base(Struct, frozen=True):
    """The part of the view that every program gets: directories, files and links of the system."""

    places: tuple[PathGrant, ...]
    links: tuple[Link, ...]


def base_view() -> Base:
    """Return the system's own directories, read-only, without files that not every user may read."""
    places, links = [], []
    for path in SYSTEM:
        kind = look(path)
        if kind == LINK:
            links.append(Link(path, os.readlink(path)))
        elif kind == DIRECTORY:
            places.append(PathGrant(path, READING, DIRECTORY, "the system's own files"))
    shown = [place.path for place in places]
    places.extend(each for each in system_secrets(os.geteuid()) if any(is_under(each.path, path) for path in shown))
    return Base(tuple(places), tuple(links))


class Needed(Struct, frozen=True):
    """What a program needs beside the system's directories: its own prefix, and links that lead to it."""

    places: tuple[PathGrant, ...] = ()
    links: tuple[Link, ...] = ()


def _by_the_user(_path: str) -> bool:
    return False


def needs_of(
    program: str,
    search: str,
    visible: Sequence[str],
    *,
    home: str,
    kept_out: Sequence[str],
    writable: Callable[[str], bool] = _by_the_user,
) -> Needed:
    """Return what must be shown for a program to start, beside what is `visible` already.

    Follows links and `#!` lines. Only what can be executed is shown, and of a prefix in the home directory, or one that
    holds a place that is `kept_out`, only its programs and libraries. Beside ~/.cargo/bin lies the token of a registry.
    Where a link or a script is `writable` from inside of a sandbox, a program in there may have chosen what it leads
    to: then nothing of the machine is shown but the executable itself, and what a manager of versions has installed.
    """
    places: dict[str, PathGrant] = {}
    links: dict[str, Link] = {}
    chosen_inside = False
    for path in interpreters(program, search):
        for hop in hops(path):
            kind, by_the_user = look(hop), not chosen_inside
            chosen_inside = chosen_inside or writable(hop)
            if kind is None or any(is_under(hop, place) for place in (*visible, *places)):
                continue
            started = kind == LINK or os.access(hop, os.X_OK)  # an interpreter, or a script beside it
            environment = _virtual_environment(hop) if started and by_the_user else None
            if environment is not None and not _is_private(environment, home, kept_out):
                places[environment] = PathGrant(environment, READING, DIRECTORY, "the program's own prefix")
            elif kind == LINK:
                links[hop] = Link(hop, os.readlink(hop))
            elif kind == FILE and os.access(hop, os.X_OK):
                places |= {place.path: place for place in _prefix_places(hop, home, kept_out, chosen=by_the_user)}
    return Needed(tuple(places.values()), tuple(links.values()))


def _prefix_places(program: str, home: str, kept_out: Sequence[str], *, chosen: bool) -> Iterator[PathGrant]:
    """Yield what belongs to a program: if the user has chosen it, of its prefix; else the program alone."""
    directory = os.path.dirname(program)
    name, prefix = os.path.basename(directory), os.path.dirname(directory)
    known = name in _PROGRAM_DIRECTORIES and prefix.count("/") >= _SHALLOWEST
    known = known and (chosen or _is_a_version(prefix, home))
    if not known or _is_private(prefix, home, kept_out):
        yield PathGrant(program, READING, FILE, "the program itself")
    elif _is_shown_whole(prefix, name, home):
        yield PathGrant(prefix, READING, DIRECTORY, "the program's own prefix")
    else:
        for part in (name, *_LIBRARIES):
            path = os.path.join(prefix, part)
            if look(path) == DIRECTORY:
                yield PathGrant(path, READING, DIRECTORY, "the program's own prefix")


def _is_a_version(prefix: str, home: str) -> bool:
    """Whether a prefix is one version of a program that a manager of versions has installed, and nothing else."""
    bases = [os.path.join(home, name) for name in _VERSIONS] if home else []
    return any(is_under(prefix, base) and prefix != base for base in bases)


def _is_shown_whole(prefix: str, name: str, home: str) -> bool:
    """Whether nothing but a program lies in its prefix: where the system installs, or a manager of versions does."""
    if name == _SHIMS:
        return is_under(prefix, home) and os.path.basename(prefix).startswith(".")
    return prefix.startswith(_INSTALLED)


def find_program(name: str, search: str, directory: str, trusted: Callable[[str], bool] | None = None) -> str | None:
    """Return the path that a name is started by, as a shell in `directory` finds it; None if there is none.

    Of what is found by its name alone, only what is `trusted`.
    """
    if "/" in name:
        path = os.path.normpath(os.path.join(directory, name))
        return path if os.path.lexists(path) else None
    for place in search.split(":"):
        path = os.path.join(place, name)
        there = os.path.isabs(place) and os.path.isfile(path) and os.access(path, os.X_OK)
        if there and (trusted is None or trusted(path)):
            return path
    return None


def interpreters(program: str, search: str) -> Iterator[str]:
    """Yield a program and what its `#!` lines lead to."""
    path: str | None = program
    for _ in range(_MOST_INTERPRETERS + 1):
        if path is None:
            return
        yield path
        path = _interpreter(path, search)


def _interpreter(path: str, search: str) -> str | None:
    """Return what the `#!` line of a script starts; with `env`, the program that it looks for."""
    line = first_bytes(path, 256).split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).split()
    if words and os.path.basename(words[0]) == "env":
        named = words[2:3] if words[1:2] == ["-S"] else words[1:2]
        # What else `env` understands is not ours to read: a workspace would choose by it what is shown.
        plain = named and not named[0].startswith("-") and not any(sign in named[0] for sign in "/=")
        return find_program(named[0], search, "/") if plain else None
    return os.path.normpath(words[0]) if words and os.path.isabs(words[0]) else None


def hops(path: str) -> Iterator[str]:
    """Yield a path and everything that links in its last name lead to, the directories above it being canonical."""
    for _ in range(_MOST_LINKS):
        directory, name = os.path.split(path)
        path = os.path.join(os.path.realpath(directory), name)
        yield path
        if look(path) != LINK:
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def _virtual_environment(link: str) -> str | None:
    """Return the Python environment that a link to an interpreter belongs to."""
    prefix = os.path.dirname(os.path.dirname(link))
    return prefix if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else None


def _is_private(prefix: str, home: str, kept_out: Sequence[str]) -> bool:
    """Whether a prefix holds the home directory, or another place of which a program shows nothing."""
    private = (home, os.path.join(home, ".local"), *kept_out) if home else kept_out
    return any(is_under(place, prefix) for place in private)


def obstacle_on(system: str) -> str | None:
    """Return why nothing is enforced by this system, named as `sys.platform` does; None where something can be."""
    if system == "linux":
        return None
    return (
        f"there is none for this system ({system}): `byleave run` refuses to run anything here, "
        "and the hooks, the gateway and the tool host check requests, but nothing confines a program"
    )


def refuse_elsewhere(system: str) -> None:
    """Raise a SandboxError on a system where no sandbox can be set up: nothing runs in less than was asked for."""
    if obstacle_on(system) is not None:
        raise SandboxError(
            f"there is no sandbox for this system ({system}), so nothing was run",
            hint="run the program without byleave, or on Linux; `byleave check` and the hooks answer here too",
        )
