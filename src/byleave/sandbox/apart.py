"""A program that may start only listed programs, apart from those: it sees no others, and can execute no others. Pure.

The init has the whole view, and so has what the broker runs. The program, and interpreters that the broker runs, get a
copy of it, in which

    directories of programs   show the program itself, nothing else
    /.byleave/bin             has a stand-in for each listed program, first on PATH
    everything but libraries  is noexec, so that neither copies nor memory files nor the loader run what is written
    Landlock                  lets it execute itself, its loader, and stand-ins
"""

import os

from byleave.core.fs import is_under
from byleave.sandbox.linux import (
    NODEV,
    NOEXEC,
    NOSUID,
    RDONLY,
    RIGHTS,
    grant_steps,
    grants_of,
    limit_steps,
    outer_steps,
)
from byleave.sandbox.plan import BIN, Programs
from byleave.sandbox.tape import DIRECTORY, OTHER, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.sandbox.linux import Arrangement, Host
    from byleave.sandbox.plan import Plan
    from byleave.sandbox.tape import Step

_STAND_IN, _REQUESTS = "/.byleave/stand-in", "/.byleave/requests"
_COVERS = "/.byleave/covers"
_EXECUTE, _WRITE, _READ = (1 << RIGHTS.index(name) for name in ("execute", "write_file", "read_file"))
_HELD = NOSUID | NODEV | RDONLY


def steps_apart(
    plan: "Plan", arrangement: "Arrangement", host: "Host", *, stand_in: str, filtering: bytes
) -> "Iterator[Step]":
    """Yield every step but the last one for a program that is kept apart. `stand_in` is the launcher's own file."""
    programs = plan.programs or Programs()
    for each in outer_steps(plan, arrangement, host):
        if each[0] == "pivot":
            yield from _stand_ins(programs, stand_in)
        if each[0] == "spawn":
            yield step("broker", _STAND_IN)
        yield each
    yield from own_steps(plan, programs, arrangement, host, filtering)


def own_steps(
    plan: "Plan", programs: "Programs", arrangement: "Arrangement", host: "Host", filtering: bytes
) -> "Iterator[Step]":
    """Yield the steps of a program that is kept apart, once the view is there: all but the last one."""
    covers = _covers(programs)
    yield step("apart")
    yield from _made(programs, covers)
    yield from _closed(programs, arrangement)
    for path, cover in covers.items():
        yield step("bind", cover, path, _HELD, DIRECTORY if path in programs.covered else OTHER)
    yield from limit_steps(plan)
    yield step("drop")
    yield from grant_steps(_grants(plan, programs, arrangement), host)
    yield step("seccomp", filtering)


def _stand_ins(programs: "Programs", stand_in: str) -> "Iterator[Step]":
    yield from _file(_STAND_IN, stand_in)
    yield step("directory", BIN, 0o755)
    for name, _path in programs.listed:
        if "/" not in name:
            yield step("link", _STAND_IN, f"{BIN}/{name}")
    yield step("directory", _COVERS, 0o755)


def _covers(programs: "Programs") -> dict[str, str]:
    """Return for every covered directory, and every executed file that lies in no library, what is put over it."""
    inside = (*programs.covered, *programs.libraries)
    alone = [path for path in programs.executed if not any(is_under(path, each) for each in inside)]
    return {path: f"{_COVERS}/{number}" for number, path in enumerate([*programs.covered, *alone])}


def _made(programs: "Programs", covers: dict[str, str]) -> "Iterator[Step]":
    """Yield what makes covers with what is shown in them, while it can still be seen where it is."""
    yield step("mount", "tmpfs", _COVERS, b"mode=0755\0size=256k\0", NOSUID | NODEV)
    for path, cover in covers.items():
        if path in programs.covered:
            yield step("directory", cover, 0o755)
        else:
            yield from _file(cover, path)
    shown = {path: path for path in programs.shown} | dict.fromkeys(programs.stand_ins, _STAND_IN)
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


def _closed(programs: "Programs", arrangement: "Arrangement") -> "Iterator[Step]":
    """Yield what makes everything noexec but libraries. The root goes alone: libraries are mounted on it."""
    yield step("seal", "/", NOEXEC)
    closed = None
    for mount in arrangement.mounts:
        if mount.path not in programs.libraries and (closed is None or not is_under(mount.path, closed)):
            closed = mount.path
            yield step("noexec", closed)


def _grants(plan: "Plan", programs: "Programs", arrangement: "Arrangement") -> dict[str, tuple[int, int]]:
    """Return what Landlock grants the program: nothing is executed but what it must execute to be there."""
    grants = {
        path: (rights & ~_EXECUTE, kind)
        for path, (rights, kind) in grants_of(plan, arrangement).items()
        if not any(is_under(path, each) for each in programs.covered)
    }
    for path in programs.executed:
        grants[path] = (grants.get(path, (0, OTHER))[0] | _EXECUTE | _READ, OTHER)
    grants[_STAND_IN] = (_EXECUTE | _READ, OTHER)  # the kernel reads what it executes
    grants[_REQUESTS] = (_WRITE, OTHER)
    return grants
