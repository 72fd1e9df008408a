"""A plan as a profile for macOS's `sandbox-exec`. Pure.

The profile denies by default, and of all rules that match an operation the last one decides; so places come in their
order, enclosing ones first. A rule knows a path, not the file behind it: whoever could rename a directory would take
what lies in it out of the reach of its rules. So neither a place nor any directory above one, as far as it could be
moved at all, can be renamed. Paths are parameters, never part of the text: no name can close a quote.

There are no mounts, so there is nothing private; `landlock.reduced` says what stands in its place. Start at
`make_profile`, then `sandbox_words`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import CAPABILITIES, is_under
from byleave.sandbox.plan.plan import EVERYTHING, FILE, NOTHING, PRIVATE, PROXY, Approximation, nested

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.sandbox.plan.plan import PathGrant, SandboxPlan

PROGRAM = "/usr/bin/sandbox-exec"
# What each capability is to the kernel. Permissions and times count as content: whoever may update may change them.
OPERATIONS = {
    "read": ("file-read*",),
    "create": ("file-write-create",),
    "update": (
        "file-write-data",
        "file-write-flags",
        "file-write-mode",
        "file-write-owner",
        "file-write-times",
        "file-write-xattr",
    ),
    "delete": ("file-write-unlink",),
    "execute": ("process-exec*", "file-map-executable"),
}
# What every program needs to start and to do ordinary work; nothing here leads to files of the user, or out.
_BASE = """\
(version 1)
(deny default)
(deny file-link)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-read* file-write-data file-ioctl (literal "/dev/ptmx") (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$"))
(allow file-read* file-write-data (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* (literal "/") (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))
(allow file-read* file-map-executable process-exec*
  (subpath "/System")
  (subpath "/usr")
  (subpath "/bin")
  (subpath "/sbin")
  (subpath "/Library/Apple")
  (subpath "/Library/Developer/CommandLineTools")
  (subpath "/private/var/db/dyld"))
(allow file-read*
  (subpath "/private/etc/ssl")
  (subpath "/private/var/db/timezone")
  (literal "/private/etc/hosts")
  (literal "/private/etc/localtime")
  (literal "/private/etc/passwd")
  (literal "/private/etc/group")
  (literal "/private/etc/protocols")
  (literal "/private/etc/services")
  (literal "/private/etc/shells"))
(allow file-read-metadata (literal "/etc") (literal "/tmp") (literal "/var") (literal "/private"))
"""


class Profile(Struct, frozen=True):
    """The text of a profile, and the paths that its parameters stand for."""

    text: str
    parameters: tuple[tuple[str, str], ...]


def obstacle(plan: SandboxPlan) -> str | None:
    """Return why a profile cannot hold a plan; None if it can."""
    if plan.commands is not None:
        return "a list of commands needs a view of the sandbox's own, and macOS has none"
    if any(place.source for place in plan.places):
        return "a place from outside cannot be shown under another name"
    return None


def make_profile(plan: SandboxPlan, *, proxy_port: int | None = None) -> Profile:
    """Return the profile of a plan without private places; with a proxy, only its port on loopback is in reach."""
    return _Writer(plan).write(proxy_port)


def sandbox_words(profile: Profile, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run a program under a profile."""
    defined = [word for name, path in profile.parameters for word in ("-D", f"{name}={path}")]
    return (PROGRAM, "-p", profile.text, *defined, *words)


class _Writer:
    def __init__(self, plan: SandboxPlan) -> None:
        self._plan = plan
        self._held = {held.path for held in plan.held}
        self._parameters: dict[str, str] = {}

    def write(self, proxy_port: int | None) -> Profile:
        places = [place for place in self._plan.places if place.kind != PRIVATE]
        lines = [*self._above(places)]
        for place, around in nested(places):
            lines += self._rules(place, around)
        lines += self._pins(places)
        lines += [f"(deny file-write* (literal {self._parameter(path)}))" for path, _source in self._plan.kept_links]
        if self._plan.network == PROXY and proxy_port is not None:
            lines.append(f'(allow network-outbound (remote ip "localhost:{int(proxy_port)}"))')
        text = _BASE + "".join(f"{line}\n" for line in lines)
        return Profile(text, tuple((name, path) for path, name in self._parameters.items()))

    def _rules(self, place: PathGrant, around: PathGrant | None) -> Iterator[str]:
        """Yield what a place grants that its surroundings do not, and what it takes away, from the base too."""
        where, given = self._where(place), place.capabilities
        granted, withheld = (NOTHING, EVERYTHING) if around is None else (around.capabilities, around.capabilities)
        for word, changed in (("allow", given - granted), ("deny", withheld - given)):
            operations = [each for name in CAPABILITIES if name in changed for each in OPERATIONS[name]]
            if operations:
                yield f"({word} {' '.join(operations)} {where})"

    def _where(self, place: PathGrant) -> str:
        """A file is itself; a name that is not there yet may become anything."""
        kind = "literal" if place.kind == FILE and place.path not in self._held else "subpath"
        return f"({kind} {self._parameter(place.path)})"

    def _above(self, places: Sequence[PathGrant]) -> Iterator[str]:
        """Programs look at every directory on the way to where they are."""
        found = dict.fromkeys(path for place in places if place.capabilities for path in _parents(place.path))
        if found:
            yield f"(allow file-read-metadata {' '.join(f'(literal {self._parameter(path)})' for path in found)})"

    def _pins(self, places: Sequence[PathGrant]) -> Iterator[str]:
        """Keep directories in their places, or the rules would lose sight of what is in them."""
        found: dict[str, None] = {}
        for place, around in nested(places):
            if around is not None:
                found |= dict.fromkeys(path for path in _parents(place.path) if is_under(path, around.path))
            if place.kind != FILE:
                found[place.path] = None
        movable = [path for path in found if self._could_go(path)]
        if movable:
            yield f"(deny file-write-unlink {' '.join(f'(literal {self._parameter(path)})' for path in movable)})"

    def _could_go(self, path: str) -> bool:
        place = self._plan.at(path)
        return place is not None and "delete" in place.capabilities

    def _parameter(self, path: str) -> str:
        name = self._parameters.setdefault(path, f"P{len(self._parameters)}")
        return f'(param "{name}")'


def _parents(path: str) -> Iterator[str]:
    """Yield the directories above a path, the outermost first, without the root of all."""
    at = path.find("/", 1)
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def approximations(plan: SandboxPlan) -> Iterator[Approximation]:
    """Yield what a profile does not hold as namespaces do."""
    for held in plan.held:
        why = "it is not there yet, and a volume that ignores case lets it be made in another spelling"
        yield Approximation(held.path, "create", why, laxer=True)
    why = "there is no private one: TMPDIR names a fresh directory, and nothing else there is granted"
    yield Approximation("/private/tmp", "any", why)
    yield Approximation("processes", "outlive", "what the program leaves running is not ended with it", laxer=True)
    yield Approximation("processes", "limit", "the limit counts all processes of yours, not only those of the program")
    yield Approximation(".", "link", "no hard links can be made: one would lead round the rules of its file")
