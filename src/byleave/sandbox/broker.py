"""`access.commands`: every program that a confined program starts is decided about on the host, and run apart from it.

`Broker` decides. native/broker.c brings the questions and runs what is allowed; the control socket of the process
carries both. A question is read once, so that what is decided is what is run. Start at `Broker.answer`.

`ListedPrograms` makes the view in which the confined program sees and executes no other programs. The init has the
whole view, and so has what the broker runs. The program, and interpreters that the broker runs, get a copy of it, in
which

    directories of programs   show the program itself, nothing else
    /.byleave/bin             has a stand-in for each listed program, first on PATH
    everything but libraries  is noexec, so that neither copies nor memory files nor the loader run what is written
    Landlock                  lets it execute itself, its loader, and stand-ins

Interpreters are detached like the program itself, so that what they start is decided as well. Others have the whole
view, since they start helpers of their own: a compiler its assembler, git its many parts.
"""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.decision import ALLOW
from byleave.core.env_rules import MINIMAL_ENVIRONMENT
from byleave.core.fs_rules import is_under
from byleave.sandbox.linux.program import DIRECTORY, IF_THERE, OTHER, step, write_program
from byleave.sandbox.linux.seccomp import FilterOptions, make_filter, make_watching_filter
from byleave.sandbox.linux.steps import (
    NODEV,
    NOEXEC,
    NOSUID,
    RDONLY,
    RIGHTS,
    LaunchedProgram,
    exec_step,
    grant_steps,
    grants_of,
    limit_steps,
    minimal,
    outer_steps,
    program_steps,
)
from byleave.sandbox.plan.plan import BIN, AllowedPrograms
from byleave.sandbox.programs import ExecStart, follow, held_to, interprets
from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.net.proxy import Decide
    from byleave.sandbox.linux.program import Step
    from byleave.sandbox.linux.steps import Arrangement, MachineFacts
    from byleave.sandbox.plan.plan import SandboxPlan


_NUMBER = slice(1, 9)  # which request it is, behind the letter
_LONGEST = 8 << 20  # as in broker.c
_LONGEST_REASON = 4000  # bytes; broker.c takes a few more


class BrokerRequest(Struct, frozen=True):
    """What a stand-in asks for: the program as it was written, where, with which words and variables.

    The first word is the program's name, which is decided about: many programs do something else under another one.
    """

    program: str
    directory: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


def parse_request(content: bytes) -> BrokerRequest | None:
    """Read what compose() in broker.c wrote; None if it is not that."""
    program, directory, count, *rest = [os.fsdecode(part) for part in content.split(b"\0")[:-1]] or ("", "", "")
    if not count.isdecimal() or int(count) > len(rest) or not directory.startswith("/"):
        return None
    written = os.path.basename(program) if os.path.dirname(program) == BIN else program
    variables = (text.partition("=") for text in rest[int(count) :])
    return BrokerRequest(
        written,
        directory,
        (written, *rest[1 : int(count)]),
        tuple((name, value) for name, equals, value in variables if name and equals),
    )


class Broker:
    """Answers one sandbox. `program_for` returns the launcher's program for an allowed request, or None."""

    def __init__(self, decide: Decide, tool: str, program_for: Callable[[BrokerRequest], bytes | None]) -> None:
        self._decide = decide
        self._tool = tool
        self._program_for = program_for

    def answer(self, control: socket.socket, message: bytes, request: int) -> None:
        """Answer a question whose content is in the file `request`: with the steps of a start, or with a reason."""
        number = message[_NUMBER]
        try:
            found = self._evaluate(parse_request(_content(request)))
            file = _file_of(found) if isinstance(found, bytes) else None
        except Exception as error:  # noqa: BLE001 -- whatever goes wrong is a no
            found, file = f"it could not be decided: {type(error).__name__}", None
        if file is None:
            control.send(b"N" + number + str(found).encode("utf-8", "replace")[:_LONGEST_REASON])
            return
        try:
            socket.send_fds(control, [b"A" + number], [file])
        finally:
            os.close(file)

    def _evaluate(self, request: BrokerRequest | None) -> str | bytes:
        """Return the launcher's program for what is allowed, or why it is not."""
        if request is None:
            return "the request makes no sense, or its working directory is gone"
        words = list(request.words[1:])
        verdict = self._decide({"kind": "spawn", "program": request.program, "args": words, "tool": self._tool})
        if verdict.decision is not ALLOW:
            return shown_lines(verdict.reason)
        return self._program_for(request) or f"{shown(request.program)} was not found when the sandbox was made"


def _content(file: int) -> bytes:
    """Return what is in a file of ours; it is not read beyond what the launcher takes."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
        return b""
    return os.pread(file, found.st_size, 0)


def _file_of(content: bytes) -> int:
    """Return a file in memory with this content."""
    file = os.memfd_create("byleave-program")
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
    except BaseException:
        os.close(file)
        raise
    return file


_STAND_IN, _REQUESTS = "/.byleave/stand-in", "/.byleave/requests"
_COVERS = "/.byleave/covers"
_EXECUTE, _WRITE, _READ = (1 << RIGHTS.index(name) for name in ("execute", "write_file", "read_file"))
_HELD = NOSUID | NODEV | RDONLY


def detached_steps(
    plan: SandboxPlan, arrangement: Arrangement, host: MachineFacts, *, stand_in: str, filtering: bytes
) -> Iterator[Step]:
    """Yield every step but the last one for a program that is detached. `stand_in` is the launcher's own file."""
    programs = plan.programs or AllowedPrograms()
    for each in outer_steps(plan, arrangement, host):
        if each[0] == "pivot":
            yield from _stand_ins(programs, stand_in)
        if each[0] == "spawn":
            yield step("broker", _STAND_IN)
        yield each
    yield from own_steps(plan, programs, arrangement, host, filtering)


def own_steps(
    plan: SandboxPlan, programs: AllowedPrograms, arrangement: Arrangement, host: MachineFacts, filtering: bytes
) -> Iterator[Step]:
    """Yield the steps of a program that is detached, once the view is there: all but the last one."""
    covers = _covers(programs)
    yield step("detach")
    yield from _made(programs, covers)
    yield from _closed(programs, arrangement)
    for path, cover in covers.items():
        yield step("bind", cover, path, _HELD, DIRECTORY if path in programs.covered else OTHER)
    yield from limit_steps(plan)
    yield step("drop")
    yield from grant_steps(_grants(plan, programs, arrangement), host)
    yield step("seccomp", filtering)


def _stand_ins(programs: AllowedPrograms, stand_in: str) -> Iterator[Step]:
    yield from _file(_STAND_IN, stand_in)
    yield step("directory", BIN, 0o755)
    for name, _path in programs.listed:
        if "/" not in name:
            yield step("link", _STAND_IN, f"{BIN}/{name}")
    yield step("directory", _COVERS, 0o755)


def _covers(programs: AllowedPrograms) -> dict[str, str]:
    """Return for every covered directory, and every executed file that lies in no library, what is put over it."""
    inside = (*programs.covered, *programs.libraries)
    alone = [path for path in programs.executed if not any(is_under(path, each) for each in inside)]
    return {path: f"{_COVERS}/{number}" for number, path in enumerate([*programs.covered, *alone])}


def _made(programs: AllowedPrograms, covers: dict[str, str]) -> Iterator[Step]:
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


def _file(path: str, source: str) -> Iterator[Step]:
    yield step("directory", os.path.dirname(path), 0o755)
    yield step("file", path, 0o400, b"")
    yield step("bind", source, path, _HELD, OTHER)


def _closed(programs: AllowedPrograms, arrangement: Arrangement) -> Iterator[Step]:
    """Yield what makes everything noexec but libraries. The root goes alone: libraries are mounted on it."""
    yield step("seal", "/", NOEXEC)
    closed = None
    for mount in arrangement.mounts:
        if mount.path not in programs.libraries and (closed is None or not is_under(mount.path, closed)):
            closed = mount.path
            yield step("noexec", closed)


def _grants(plan: SandboxPlan, programs: AllowedPrograms, arrangement: Arrangement) -> dict[str, tuple[int, int]]:
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


class ListedPrograms:
    """The listed programs of one sandbox. `passes` says which variables the program itself may have."""

    def __init__(
        self,
        plan: SandboxPlan,
        arrangement: Arrangement,
        host: MachineFacts,
        search: str,
        *,
        passes: Callable[[str], bool],
        more: Mapping[str, str],
        traced: bool = False,
    ) -> None:
        self._plan = plan
        self._arrangement = arrangement
        self._host = host
        self._search = search
        self._passes = passes
        self._more = more
        self._traced = traced
        self._programs = plan.programs if plan.programs is not None else AllowedPrograms()
        self._paths = dict(self._programs.listed)
        self._openings: dict[str, bytes] = {}

    def program_for(self, request: BrokerRequest) -> bytes | None:
        """Return the steps that run what is asked for, which is allowed; None if it is not on this machine."""
        path = self._paths.get(request.program)
        if path is None:
            return None
        detached = interprets(path)
        start = follow(path, self._search) if detached else ExecStart(path)
        variables = tuple(self._variables(request, detached=detached).items())
        program = LaunchedProgram(start.path, request.directory, start.arguments(request.words), variables)
        return self._opening(path, detached=detached) + write_program([exec_step(program)])

    def _opening(self, path: str, *, detached: bool) -> bytes:
        """Return the steps up to the start, which are always the same."""
        if path not in self._openings:
            if detached:
                filtering = make_filter(
                    self._host.machine, FilterOptions(listed_programs_only=True, reported=self._traced)
                )
                programs = held_to(self._programs, path, self._search)
                steps = own_steps(self._plan, programs, self._arrangement, self._host, filtering)
            else:
                filtering = make_filter(self._host.machine, FilterOptions(reported=self._traced))
                steps = program_steps(self._plan, self._arrangement, self._host, filtering)
            stopping = [step("seccomp", make_watching_filter(self._host.machine))] if self._traced else []
            self._openings[path] = write_program([*map(_for_later, steps), *stopping])
        return self._openings[path]

    def _variables(self, request: BrokerRequest, *, detached: bool) -> dict[str, str]:
        """Return the minimal variables, and those of the rule that the program itself may have, as it set them."""
        given = dict(request.variables)
        rule = self._plan.commands.rules.get(request.program) if self._plan.commands is not None else None
        named = minimal(given, rule.envs) if rule is not None else ()
        kept = dict(minimal(given, MINIMAL_ENVIRONMENT)) | {name: value for name, value in named if self._passes(name)}
        return {**kept, **self._more, "PATH": f"{BIN}:{self._search}" if detached else self._search}


def _for_later(each: Step) -> Step:
    """Return a step for a program that starts later: what was granted then may have been removed since, by leave."""
    if each[0] != "grant":
        return each
    path, rights, kind = each[1]
    return "grant", (path, rights, int(kind) | IF_THERE)  # type: ignore[arg-type]
