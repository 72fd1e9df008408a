"""A plan as arguments for `bwrap`, where our own namespaces are refused and its are not. Pure.

Some systems let that one program make namespaces (it is setuid, or AppArmor has a profile for it). It builds the same
view; our launcher, as process 1 in there, does the rest: limits, Landlock, the filter, the program.

bwrap passes no signals on, and dies of those that a terminal sends to its group. So it gets none, and our launcher,
which is process 1 in there, hands out the descriptor by which signals are sent to it (`WrappedProcess`).
"""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.errors import SandboxError
from byleave.sandbox.linux.program import step
from byleave.sandbox.linux.steps import (
    COVER_DIRECTORY,
    EMPTY_DIRECTORY,
    PROXY_PORT,
    RDONLY,
    SHARED_DIRECTORIES,
    program_steps,
)
from byleave.sandbox.plan.plan import DIRECTORY, LINK, PROXY, Approximation
from byleave.sandbox.process import LONGEST, Process, problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.sandbox.linux.program import Step
    from byleave.sandbox.linux.steps import Arrangement, MachineFacts, ViewMount
    from byleave.sandbox.plan.plan import SandboxPlan


PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap")  # never one that PATH merely names
LAUNCHER = "/.byleave/launcher"
UNREPORTED = ("start",)  # approximations without a warning
_MODES = {COVER_DIRECTORY: "0000", EMPTY_DIRECTORY: "0555"}
_BEGINNING = ("--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox")
_LENT = ("--cap-add", "CAP_SETPCAP")


def obstacle(plan: SandboxPlan) -> str | None:
    """Return why bwrap cannot hold a plan; None if it can."""
    if plan.commands is not None:
        return "a list of commands needs namespaces of our own"
    return None


def wrapping(
    bwrap: str,
    plan: SandboxPlan,
    arrangement: Arrangement,
    launcher: str,
    *,
    lends: bool = True,
    kernel_secrets: tuple[tuple[str, str], ...] = (),
) -> tuple[str, ...]:
    """Return the words that start the launcher in a view like the one that our own steps build.

    `lends`: bwrap may leave our launcher the one capability by which it empties the bounding set. One that is setuid
    leaves none to an ordinary user, and empties the set itself.
    """
    return (
        bwrap,
        *_BEGINNING,
        *(_LENT if lends else ()),
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        *(word for path, kind in kernel_secrets for word in _shaded(path, kind)),
        *(word for link in plan.links for word in ("--symlink", link.target, link.path)),
        *_shown(arrangement),
        "--ro-bind",
        launcher,
        LAUNCHER,
        "--remount-ro",
        "/",
        "--chdir",
        "/",
        "--",
        LAUNCHER,
    )


def _shown(arrangement: Arrangement) -> Iterator[str]:
    """Yield mounts and private directories, those around others first."""
    mounts = {mount.path: mount for mount in arrangement.mounts if mount.kind != LINK}
    for path in sorted({*mounts, *arrangement.private}, key=_names):
        mount = mounts.get(path)
        if mount is None:
            yield from ("--perms", "1777" if path in SHARED_DIRECTORIES else "0700", "--tmpfs", path)
        else:
            yield from _mounted(mount)
    for mount in arrangement.mounts:
        if mount.hollow:
            yield from ("--remount-ro", mount.path)


def _mounted(mount: ViewMount) -> tuple[str, ...]:
    if mount.hollow:
        return ("--perms", "0111", "--tmpfs", mount.path)
    if mount.cover in _MODES:
        return ("--perms", _MODES[mount.cover], "--tmpfs", mount.path, "--remount-ro", mount.path)
    if mount.cover is not None:  # a device on a mount without devices: no program opens it
        return ("--ro-bind", "/dev/null", mount.path)
    return ("--ro-bind" if mount.attributes & RDONLY else "--bind", mount.source or mount.path, mount.path)


def _shaded(path: str, kind: str) -> tuple[str, ...]:
    if kind == DIRECTORY:
        return ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
    return ("--ro-bind", "/dev/null", path)


def _names(path: str) -> list[str]:
    return path.strip("/").split("/")


def steps(plan: SandboxPlan, arrangement: Arrangement, host: MachineFacts, filtering: bytes) -> Iterator[Step]:
    """Yield what the launcher does in there, but for the last step, which names the program."""
    yield step("report")
    if plan.network == PROXY:
        yield step("listen", PROXY_PORT)
    yield step("spawn")
    yield from program_steps(plan, arrangement, host, filtering)


def approximations(plan: SandboxPlan, arrangement: Arrangement) -> Iterator[Approximation]:
    """Yield what bwrap does not hold as our own steps do."""
    for mount in arrangement.mounts:
        if mount.kind == LINK:
            name = mount.path[len(plan.root) :].strip("/") if is_under(mount.path, plan.root) else mount.path
            why = "it is a link, and bwrap mounts nothing on a link: what it leads to is held, its own name is not"
            yield Approximation(name, "any", why, laxer=True)
    why = "bwrap follows a link that is put in the place of a directory at the moment of the start"
    yield Approximation(".", "start", why, laxer=True)
    why = "what is put from outside in the place of something that is enforced here is not enforced any more"
    yield Approximation(".", "exchange", why, laxer=True)


_REPORT, _STATUS = b"P", b"S"


class WrappedProcess(Process):
    """A started sandbox of bwrap. A SandboxError if bwrap did not get as far as our launcher."""

    blocked = frozenset(signal.valid_signals())

    def __init__(self, words: tuple[str, ...], program: bytes, **streams: Any) -> None:
        self._inside = -1
        self._reported: int | None = None  # how the program ended, from its own init
        super().__init__(words, program, **streams)
        message, descriptors, _flags, _address = socket.recv_fds(self._control, LONGEST, 1)
        if message == _REPORT and descriptors:
            self._inside = descriptors[0]
            return
        self.problem = problem_of(message) or SandboxError(
            "bwrap could not build the sandbox", hint="what it said stands above", step="bwrap"
        )
        self.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal to the program, or end everything."""
        if self.returncode is None and self._inside >= 0:
            _send(self._inside, number)

    def _finish(self, status: int) -> None:
        super()._finish(status)
        code = self.returncode or 0
        if self.problem is None and code > 128:  # it ended by a signal before the launcher could report
            self.returncode = 128 - code
        if self._reported is not None:
            self.returncode = self._reported

    def _said(self) -> SandboxError | None:
        """Return what kept the program from running; take note of how it ended, which an exit code does not say."""
        self._control.setblocking(False)
        try:
            message = self._control.recv(LONGEST)
        except OSError:
            return None
        if message.startswith(_STATUS):
            self._reported = os.waitstatus_to_exitcode(int(message[1:]))
            return None
        return problem_of(message)

    def close(self) -> None:
        """End everything in the sandbox, if it still runs, and let go of it."""
        inside, self._inside = self._inside, -1
        if inside >= 0:
            if self.returncode is None:
                _send(inside, signal.SIGKILL)
            os.close(inside)
        super().close()


def _send(process: int, number: int) -> None:
    try:
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:  # it has ended, and was not waited for yet
        return
