"""A program that may start only listed programs, apart from those: it sees no others, and can execute no others. Pure.

The init and what the broker runs have the whole view. The program gets a copy of it, in which

    directories of programs   show the program itself, nothing else
    /.byleave/bin             has a stand-in for each listed program, first on PATH
    everything but libraries  is noexec, so that neither copies nor memory files nor the loader run what is written
    Landlock                  lets it execute itself, its loader, and stand-ins
"""

import os

from byleave.core.fs import is_under
from byleave.sandbox.linux import NODEV, NOEXEC, NOSUID, RDONLY, RIGHTS, grant_steps, grants_of, limit_steps, outer_steps
from byleave.sandbox.plan import BIN
from byleave.sandbox.tape import DIRECTORY, OTHER, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.sandbox.linux import Arrangement, Host
    from byleave.sandbox.plan import Plan, Programs
    from byleave.sandbox.tape import Step

_STAND_IN, _REQUESTS = "/.byleave/stand-in", "/.byleave/requests"
_COVERS = "/.byleave/covers"
_EXECUTE, _WRITE, _READ = (1 << RIGHTS.index(name) for name in ("execute", "write_file", "read_file"))
_HELD = NOSUID | NODEV | RDONLY


def steps_apart(
    plan: "Plan", programs: "Programs", arrangement: "Arrangement", host: "Host", *, stand_in: str, filtering: bytes
) -> "Iterator[Step]":
    """Yield every step but the last one, for a program that gets only what it may execute. `stand_in` is our own file."""
    covers = _covers(programs)
    for each in outer_steps(plan, arrangement, host):
        if each[0] == "pivot":
            yield from _prepared(programs, covers, stand_in)
        if each[0] == "spawn":
            yield step("broker", _STAND_IN)
        yield each
    yield step("apart")
    yield from _own_view(programs, arrangement, covers)
    yield from limit_steps(plan)
    yield step("drop")
    yield from grant_steps(_grants(plan, programs, arrangement), host)
    yield step("seccomp", filtering)


def _covers(programs: "Programs") -> dict[str, str]:
    """Return for every covered directory, and every executed file that lies in none, what is put over it."""
    alone = [path for path in programs.executed if not any(is_under(path, each) for each in _executable(programs))]
    return {path: f"{_COVERS}/{number}" for number, path in enumerate([*programs.covered, *alone])}


def _executable(programs: "Programs") -> tuple[str, ...]:
    return (*programs.covered, *programs.libraries)


def _prepared(programs: "Programs", covers: dict[str, str], stand_in: str) -> "Iterator[Step]":
    """Yield what makes stand-ins, and the covers with what is shown in them, while the host is still in sight."""
    yield from _file(_STAND_IN, stand_in)
    yield step("directory", BIN, 0o755)
    for name, _path in programs.listed:
        if "/" not in name:
            yield step("link", _STAND_IN, f"{BIN}/{name}")
    yield step("directory", _COVERS, 0o755)
    for path, cover in covers.items():
        if path in programs.covered:
            yield step("directory", cover, 0o755)
        else:
            yield from _file(cover, path)
    shown = {path: path for path in programs.shown} | dict.fromkeys(programs.stand_ins, stand_in)
    for path, source in shown.items():
        yield from _file(_in_cover(path, covers), source)
    for link in programs.links:
        inside = _in_cover(link.path, covers)
        yield step("directory", os.path.dirname(inside), 0o755)
        yield step("link", link.target, inside)


def _in_cover(path: str, covers: dict[str, str]) -> str:
    around = next(each for each in covers if is_under(path, each))
    return covers[around] + path[len(around) :]


def _file(path: str, source: str) -> "Iterator[Step]":
    yield step("directory", os.path.dirname(path), 0o755)
    yield step("file", path, 0o400, b"")
    yield step("bind", source, path, _HELD, OTHER)


def _own_view(programs: "Programs", arrangement: "Arrangement", covers: dict[str, str]) -> "Iterator[Step]":
    """Yield what turns the copy of the view into the program's own: noexec first, so that covers stay as they are."""
    yield step("seal", "/", NOEXEC)
    for mount in arrangement.mounts:
        if mount.path not in programs.libraries:
            yield step("noexec", mount.path)
    for path, cover in covers.items():
        yield step("bind", cover, path, _HELD, DIRECTORY if path in programs.covered else OTHER)


def _grants(plan: "Plan", programs: "Programs", arrangement: "Arrangement") -> dict[str, tuple[int, int]]:
    """Return what Landlock grants the program: nothing is executed but what it must execute to be there."""
    grants = {
        path: (rights & ~_EXECUTE, kind)
        for path, (rights, kind) in grants_of(plan, arrangement).items()
        if not any(is_under(path, each) for each in programs.covered)
    }
    for path in programs.executed:
        grants[path] = (grants.get(path, (0, OTHER))[0] | _EXECUTE | _READ, OTHER)
    grants[_STAND_IN] = (_EXECUTE, OTHER)
    grants[_REQUESTS] = (_WRITE, OTHER)
    return grants
