"""What a sandbox lets its program touch, as a value. Pure: no system is asked anything here.

A `PlanRequest` says whose sandbox it is and where. The `SandboxPlan` is what the policy makes of it, before any
mechanism: `linux` turns it into mounts, Landlock rules and a filter. What these cannot hold exactly is an
`Approximation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.access import ProcessLimits
from byleave.core.fs_rules import CAPABILITIES, is_under

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from byleave.core.command_rules import CommandTable

# Kinds of places. PRIVATE: an empty directory of the sandbox's own, gone with it.
DIRECTORY, FILE, MISSING, PRIVATE = "directory", "file", "missing", "private"
LINK = "link"  # of what is on the disk; a place is never one, but see `SandboxPlan.kept_links`
NO_NETWORK, PROXY = "none", "proxy"
BIN = "/.byleave/bin"  # where stand-ins for listed programs are
NOTHING: frozenset[str] = frozenset()
READING = frozenset({"read", "execute"})
EVERYTHING = frozenset(CAPABILITIES)


class PathGrant(Struct, frozen=True):
    """What may be done at an absolute, canonical path and below it, as far as no deeper place says otherwise."""

    path: str
    capabilities: frozenset[str]
    kind: str
    why: str
    source: str = ""  # what is shown there, if it is not what the host has at that path

    @property
    def given(self) -> str:
        """The capabilities in words, in their usual order."""
        return "+".join(name for name in CAPABILITIES if name in self.capabilities) or "nothing"


class Link(Struct, frozen=True):
    """A symbolic link of the system that the view repeats, such as /bin -> usr/bin."""

    path: str
    target: str


class Brought(Struct, frozen=True):
    """A place outside that one run sees under a name of the workspace: both absolute, and what may be done there."""

    name: str
    target: str
    capabilities: frozenset[str]


class Approximation(Struct, frozen=True):
    """A path and an operation that the kernel does not answer exactly as `byleave check` does, and why."""

    path: str
    op: str
    why: str
    laxer: bool = False


def op_of(capability: str) -> str:
    """Return the kind of action that needs a capability, as `byleave check` names it."""
    return "exec" if capability == "execute" else capability


class Held(Struct, frozen=True):
    """A name in the workspace that is missing and must not come into being: it is held while the sandbox runs.

    It is an empty directory, which git does not see, or a file with this content.
    """

    path: str
    content: bytes | None = None


class PlanRequest(Struct, frozen=True):
    """What a plan is made from, beside the policy: whose sandbox it is and where."""

    tool: str
    root: str
    home: str
    own_places: tuple[str, ...]
    read: tuple[str, ...] = ()  # `[sandbox] read` and `write`: host paths that every sandbox sees
    write: tuple[str, ...] = ()
    limits: ProcessLimits = ProcessLimits()
    brought: tuple[Brought, ...] = ()
    agent: str | None = None  # for whom it runs: rules may speak of one agent only
    session: bool = False  # whether /tmp and loopback are shared with the other runs of an agent session


class AllowedPrograms(Struct, frozen=True):
    """How `access.commands` is held: what the program executes itself, and what the broker runs for it.

    All paths are canonical, but for `listed`: names as rules write them, and where the host has each of them.
    """

    listed: tuple[tuple[str, str], ...] = ()
    executed: tuple[str, ...] = ()  # the program or the interpreter of its script, and the loader of both
    covered: tuple[str, ...] = ()  # directories of programs that the program does not see
    shown: tuple[str, ...] = ()  # files in them that it does see
    links: tuple[Link, ...] = ()  # and links
    libraries: tuple[str, ...] = ()  # places whose files may be mapped as code
    stand_ins: tuple[str, ...] = ()  # places in covered directories of programs that are listed by their paths


class SandboxPlan(Struct, frozen=True):
    """One sandbox. `places` are sorted, so that what lies around a place comes before it."""

    root: str
    places: tuple[PathGrant, ...]
    links: tuple[Link, ...] = ()
    held: tuple[Held, ...] = ()
    network: str = NO_NETWORK
    variables: tuple[str, ...] = ()  # names and prefixes that reach the program, beside the minimal ones
    commands: CommandTable | None = None
    limits: ProcessLimits = ProcessLimits()
    home: str = ""
    approximate: tuple[Approximation, ...] = ()
    programs: AllowedPrograms | None = None  # with `commands`
    kept_links: tuple[tuple[str, str], ...] = ()  # links that stay: their paths, and of one from elsewhere its own
    session: bool = False  # whether /tmp and loopback are those of an agent session
    reaches_nothing: bool = False  # the proxy is only there to name what it refuses

    def at(self, path: str) -> PathGrant | None:
        """Return the place that holds for an absolute path; None if it is not in the view at all."""
        return place_at({place.path: place for place in self.places}, path)


def place_at(places: Mapping[str, PathGrant], path: str) -> PathGrant | None:
    """Return the one of `places`, by their paths, that encloses an absolute path most closely."""
    while path not in places:
        if path == "/" or "/" not in path:
            return None
        path = path.rpartition("/")[0] or "/"
    return places[path]


def nested(places: Iterable[PathGrant]) -> Iterator[tuple[PathGrant, PathGrant | None]]:
    """Yield each place in order, with the one that encloses it most closely."""
    around: list[PathGrant] = []
    for place in places:
        while around and not is_under(place.path, around[-1].path):
            around.pop()
        yield place, around[-1] if around else None
        around.append(place)


def in_order(places: Iterable[PathGrant]) -> tuple[PathGrant, ...]:
    """Return places by path, enclosing ones first; of several at one path, the last that was given."""
    by_path = {place.path: place for place in places}
    return tuple(by_path[path] for path in sorted(by_path, key=_names))


def _names(path: str) -> list[str]:
    return path.strip("/").split("/") if path != "/" else []
