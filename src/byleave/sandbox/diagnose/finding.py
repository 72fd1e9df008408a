"""One thing that a program was refused, as it is reported to a person, and what a finding is made from.

`gather` joins findings that have one reason and one remedy. A `Scene` is where the program ran. `attempts_of` reads
from a system call that failed what the program meant to do, in the words of `byleave check`. The functions at the end
look at this machine outside of the sandbox, and change nothing: what is there, and what the user may do with it.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.decision import BUILT_IN, DENY, RuleRef
from byleave.core.suggest import cautions_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from byleave.core.decision import Verdict
    from byleave.sandbox.diagnose.traced_calls import Observed
    from byleave.sandbox.plan.plan import Approximation, SandboxPlan

    Key = Callable[["RefusalFinding"], object]
    Join = Callable[["RefusalFinding", "RefusalFinding"], "RefusalFinding"]
    Exists = Callable[[str], bool]
    Decide = Callable[[dict[str, Any]], Verdict]

    class Outside(Protocol):
        """What would have happened without the sandbox: the functions at the end of this module."""

        def exists(self, path: str) -> bool: ...

        def real(self, path: str, *, follows: bool = True) -> str: ...

        def could(self, op: str, path: str) -> bool: ...

        def reaches(self, family: int, host: str, port: int) -> bool: ...

        def listens(self, port: int) -> bool: ...

        def may_listen_at(self, port: int) -> bool: ...


FILE, NETWORK, COMMAND, CALL = "file", "network", "command", "call"
# Where a suggestion belongs: to the rules of the tool, or to what every sandbox sees.
ACCESS, SANDBOX = "access", "sandbox"
# The most important first: what a rule or default holds back, what lies outside, what nothing allows, mere looks.
HELD, OUTSIDE, NEVER, LOOKED = range(4)
NOWHERE = RuleRef("", "", DENY)


class RefusalFinding(Struct, frozen=True):
    """What was refused (`verbs` and `subjects`), why, by which rule, and what would allow it.

    Those of one `group` have one reason and one remedy, and are reported together.
    """

    kind: str
    verbs: tuple[str, ...]
    subjects: tuple[str, ...]
    why: str
    rule: RuleRef = NOWHERE
    caution: str | None = None
    suggestion: str | None = None
    belongs: str = ACCESS
    rank: int = HELD
    times: int = 1
    group: object = None
    places: tuple[str, ...] = ()  # absolute paths, where there are any
    listing: tuple[str, str] | None = None  # the key of `[sandbox]` that would list it, and the path


class Scene(Struct, frozen=True):
    """Where a program ran: its plan, what cannot be held exactly, and what decides."""

    plan: SandboxPlan
    approximate: tuple[Approximation, ...]
    tool: str
    decide: Decide
    sensitive: Callable[[str], str | None]
    outside: Outside
    own_places: tuple[str, ...] = ()
    listed: Mapping[str, Sequence[str]] = {}  # `[sandbox]` as it is, by absolute paths
    search: tuple[str, ...] = ()  # the directories of PATH

    def ask(self, kind: str, **fields: object) -> Verdict:
        """Put an action of the program's tool to the policy."""
        return self.decide({"kind": kind, "tool": self.tool, **fields})


def built_in(why: str) -> RuleRef:
    """Return the rule of a refusal that no policy file states: it is the reason itself."""
    return RuleRef(why, BUILT_IN, DENY)


def gather(found: Iterable[RefusalFinding]) -> list[RefusalFinding]:
    """Return findings with equal ones counted, and those of one group put together, the most important first.

    First everything that was tried with one subject, then all subjects with which the same was tried.
    """
    by_subject = _joined(found, lambda each: (each.kind, each.group, each.subjects), _with_verbs)
    joined = _joined(by_subject, lambda each: (each.kind, each.group, each.verbs, each.rank), _with_subjects)
    return sorted(joined, key=lambda each: each.rank)


def _joined(found: Iterable[RefusalFinding], key: Key, join: Join) -> Iterator[RefusalFinding]:
    known: dict[object, RefusalFinding] = {}
    for each in found:
        name = key(each)
        known[name] = join(known[name], each) if name in known else each
    return iter(known.values())


def _with_verbs(one: RefusalFinding, other: RefusalFinding) -> RefusalFinding:
    """Join two findings about one subject: the better reason stays, and the remedy is for both."""
    first = one if one.rank <= other.rank else other
    verbs = tuple(dict.fromkeys((*one.verbs, *other.verbs)))
    if other.rank != one.rank:  # a program that did it has looked before
        verbs = first.verbs
    both = one.rank == other.rank
    suggestion = merged([one.suggestion, other.suggestion]) if both else first.suggestion
    return structs.replace(first, verbs=verbs, suggestion=suggestion, times=one.times + other.times)


def _with_subjects(one: RefusalFinding, other: RefusalFinding) -> RefusalFinding:
    return structs.replace(
        one,
        subjects=tuple(dict.fromkeys((*one.subjects, *other.subjects))),
        places=tuple(dict.fromkeys((*one.places, *other.places))),
        times=one.times + other.times,
        caution=one.caution or other.caution,
    )


def cautioned(suggestion: str | None) -> tuple[str | None, str | None]:
    """Return a suggestion without the cautions above it, and these."""
    if suggestion is None:
        return None, None
    toml, cautions = cautions_apart(suggestion)
    return toml, "; ".join(cautions) or None


def merged(suggestions: Iterable[str | None]) -> str | None:
    """Return several pieces of TOML as one that says all they say: blocks about one thing become one block."""
    blocks: dict[tuple[str, ...], list[list[str]]] = {}
    for text in suggestions:
        for block in (text or "").split("\n\n"):
            lines = block.splitlines()
            if lines:
                about = 2 if lines[0].endswith(".fs]]") else len(lines) if lines[0].startswith("[[") else 1
                blocks.setdefault(tuple(lines[:about]), []).append(lines[about:])
    written = ["\n".join([*head, *_joined_lines(head, said)]) for head, said in blocks.items()]
    return "\n\n".join(written) or None


def _joined_lines(head: tuple[str, ...], said: list[list[str]]) -> Iterable[str]:
    if head[0].startswith("[["):
        return _without_doubles(dict.fromkeys(line for lines in said for line in lines))
    # A command: its lists of arguments are all allowed; without any, every argument is.
    lists = [line.removeprefix(_ARGUMENTS).removesuffix("]") for lines in said for line in lines]
    return [f"{_ARGUMENTS}{', '.join(dict.fromkeys(lists))}]"] if all(said) else []


def _without_doubles(lines: Iterable[str]) -> list[str]:
    """Leave out what `write = true` says already, and put the lines in their usual order."""
    kept = list(lines)
    if "write = true" in kept:
        kept = [line for line in kept if line.partition(" ")[0] not in ("create", "update", "delete")]
    return sorted(kept, key=lambda line: _ORDER.get(line.partition(" ")[0], 0))


_ARGUMENTS = "args = ["
_ORDER = {name: place for place, name in enumerate(("read", "write", "create", "update", "delete", "execute"))}

READ, CREATE, UPDATE, DELETE, EXEC, OWN = "read", "create", "update", "delete", "exec", "own"
_PATH_ONLY = 0o10000000  # O_PATH


class Attempt(Struct, frozen=True):
    """One thing that a program tried at one path. A `look` asks about a place, and does nothing there."""

    op: str
    path: str
    look: bool = False
    follows: bool = True  # whether a link in the last name is followed


_LOOKS = frozenset({"access", "faccessat", "faccessat2", "lstat", "newfstatat", "stat", "statx"})
_OPS = {
    **dict.fromkeys(_LOOKS, READ),
    **dict.fromkeys(("mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat"), CREATE),
    **dict.fromkeys(("rmdir", "unlink", "unlinkat"), DELETE),
    **dict.fromkeys(("chmod", "fchmodat", "fchmodat2", "truncate", "setxattr", "lsetxattr"), UPDATE),
    **dict.fromkeys(("futimesat", "utime", "utimensat", "utimes"), UPDATE),
    **dict.fromkeys(("chown", "fchownat", "lchown"), OWN),
    **dict.fromkeys(("execve", "execveat"), EXEC),
    "chdir": READ,
}
_NOT_FOLLOWED = frozenset({CREATE, DELETE})
_ASKED = ((os.W_OK, UPDATE), (os.X_OK, EXEC))


def attempts_of(observed: Observed, exists: Exists) -> Iterator[Attempt]:
    """Yield what a call tried; nothing if it named no path. `exists` says whether a path is there outside."""
    call, paths = observed.call, observed.paths
    if not paths or not all(paths):
        return
    if call in ("open", "openat", "openat2"):
        yield from _opened(paths[0], observed.flags, exists)
    elif call == "creat":
        yield Attempt(UPDATE if exists(paths[0]) else CREATE, paths[0])
    elif call.startswith("rename"):
        yield Attempt(DELETE, paths[0], follows=False)
        yield Attempt(CREATE, paths[-1], follows=False)
    elif call.startswith("link"):
        yield Attempt(CREATE, paths[-1], follows=False)
        yield Attempt(READ, paths[0], follows=False)
    elif call in _OPS:
        op = _asked(call, observed.flags)
        yield Attempt(op, paths[0], look=call in _LOOKS, follows=op not in _NOT_FOLLOWED and not call.startswith("l"))


def _opened(path: str, flags: int, exists: Exists) -> Iterator[Attempt]:
    follows = not flags & os.O_NOFOLLOW
    if flags & _PATH_ONLY:
        yield Attempt(READ, path, look=True, follows=follows)
        return
    mode = flags & os.O_ACCMODE
    if mode or flags & os.O_TRUNC:
        missing = bool(flags & os.O_CREAT) and not exists(path)
        yield Attempt(CREATE if missing else UPDATE, path, follows=follows)
    if mode != os.O_WRONLY:
        yield Attempt(READ, path, follows=follows)


def _asked(call: str, flags: int) -> str:
    """Return what a call is about; `access` asks whether something else would be allowed."""
    if not call.startswith(("access", "faccessat")):
        return _OPS[call]
    return next((op for bit, op in _ASKED if flags & bit), READ)


_MODES = {READ: os.R_OK, UPDATE: os.W_OK, EXEC: os.X_OK}
_KERNELS = ("/proc", "/dev", "/sys")  # their links lead to the process that looks
_LISTENING = "0A"  # TCP_LISTEN, as /proc/net/tcp writes it
_LOW_PORTS = 1024


def exists(path: str) -> bool:
    """Whether something is at a path, be it a link that leads nowhere."""
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def real(path: str, *, follows: bool = True) -> str:
    """Return where a path leads; with `follows` unset, a link in its last name is the place itself."""
    path = os.path.normpath(path) if ".." not in path.split("/") else path
    if path.startswith(_KERNELS):
        return os.path.normpath(path)
    try:
        if follows:
            return os.path.realpath(path)
        directory, name = os.path.split(path.rstrip("/"))
        return os.path.join(os.path.realpath(directory), name)
    except (OSError, ValueError):
        return os.path.normpath(path)


def could(op: str, path: str) -> bool:
    """Whether the user of the sandbox could have done it without one."""
    try:
        if op in (CREATE, DELETE):
            there = op == CREATE or os.path.lexists(path)
            return there and os.access(os.path.dirname(path) or "/", os.W_OK | os.X_OK)
        if op == OWN:
            return os.geteuid() == 0 and os.path.lexists(path)
        return os.access(path, _MODES[op]) or (op == READ and os.path.islink(path))
    except (OSError, ValueError):
        return False


def reaches(family: int, host: str, port: int) -> bool:
    """Whether there is a way to an address; nothing is sent to find out."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.connect((host, port or 1))
    except OSError:
        return False
    return True


def listens(port: int) -> bool:
    """Whether a process of this machine waits for connections at a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        if any(row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port for row in rows):
            return True
    return False


def may_listen_at(port: int) -> bool:
    """Whether the user of the sandbox may wait for connections at a port."""
    return port >= _LOW_PORTS or port == 0 or os.geteuid() == 0
