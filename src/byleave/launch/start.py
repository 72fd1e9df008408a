"""Start a program confined, for a tool, an MCP server, an agent or a command.

Three arguments say what differs: a `Confinement` (whose access holds, limits, what is shown, how long names are
reserved), a `ProgramStart` (the command, its variables, streams and terminal), and `decide` (which answers for what the
program starts and reaches, and records it). Where the user has switched the sandbox off, tools and servers run as plain
processes, and that is reported: `start_as_configured`. `byleave run` and `byleave acp --sandbox` never do.

A tool or server reads its own program, whatever its access says of the workspace: `CommandFiles` are the files that its
command names. None is taken through a link in the workspace: a program that may write there would choose by the link
what is shown.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import EnvAction
from byleave.core.decision import ALLOW
from byleave.core.env_rules import MINIMAL_ENVIRONMENT
from byleave.core.fs_rules import is_under
from byleave.errors import SandboxError
from byleave.sandbox.host import refuse_elsewhere
from byleave.sandbox.linux.steps import minimal
from byleave.sandbox.process import PIPE
from byleave.sandbox.sandbox import ToolSandbox
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, Protocol, Self

    from byleave.net.proxy import Decide
    from byleave.policy.live_policy import LivePolicy
    from byleave.sandbox.confinement import Confinement
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.process import Process, Stream
    from byleave.sandbox.terminal import OwnTerminal

    class RunningProgram(Protocol):
        """What `sandbox.process.Process` and `UnconfinedProcess` have in common."""

        pid: int
        stdin: IO[bytes] | None
        stdout: IO[bytes] | None
        stderr: IO[bytes] | None
        problem: SandboxError | None

        def poll(self) -> int | None: ...

        def wait(self, timeout: float | None = None) -> int: ...

        def terminate(self) -> None: ...

        def close(self) -> None: ...

        def __enter__(self) -> Self: ...

        def __exit__(self, *_raised: object) -> None: ...

    from collections.abc import Iterator

    from byleave.policy.load import Workspace


_LAST_BREATH = 1.0  # seconds that a process may take to end after its group was killed


class UnconfinedProcess:
    """A process in a session of its own, with pipes for its output; as `sandbox.process.Process`, without a sandbox."""

    def __init__(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: Stream) -> None:
        from subprocess import PIPE, Popen

        self.problem: SandboxError | None = None
        self._popen = Popen(  # noqa: S603 -- what the user has configured and the policy has allowed
            argv, cwd=cwd, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        self.pid = self._popen.pid
        self.stdin, self.stdout, self.stderr = self._popen.stdin, self._popen.stdout, self._popen.stderr

    @property
    def returncode(self) -> int | None:
        return self._popen.returncode

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._popen.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; a TimeoutError if it takes longer."""
        from subprocess import TimeoutExpired

        try:
            return self._popen.wait(timeout)
        except TimeoutExpired:
            raise TimeoutError from None

    def terminate(self) -> None:
        """Ask its process group to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End its process group."""
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """End what is left of its process group."""
        self.kill()
        with suppress(TimeoutError):
            self.wait(_LAST_BREATH)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def start_unconfined(
    command: Sequence[str], *, root: str, cwd: str, env: Mapping[str, str], stdin: Stream, configured: bool
) -> UnconfinedProcess:
    """Start a program without a sandbox; a SandboxError if it cannot be started.

    Unless the user has `configured` it, a program that is named without a path is not taken from the workspace.
    """
    name = command[0]
    path = name if "/" in name else _find(name, env.get("PATH", os.defpath), None if configured else root)
    try:
        return UnconfinedProcess([path, *command[1:]], cwd=cwd, env=env, stdin=stdin)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        problem = f"{quoted(name)} cannot be started: {error.strerror}"
        raise SandboxError(problem, hint="check the command", exit_code=127 if missing else 126) from None


def _find(name: str, search: str, kept_out: str | None) -> str:
    for directory in search.split(":"):
        path = os.path.join(directory, name)
        if not os.path.isabs(directory) or not os.access(path, os.X_OK) or not os.path.isfile(path):
            continue
        if kept_out is None or not is_under(os.path.realpath(directory), kept_out):
            return path
    raise SandboxError(f"{quoted(name)} was not found", hint="check the name and PATH", exit_code=127)


class ProgramStart(Struct, frozen=True, kw_only=True):
    """One start of a program.

    `environment` is what the sandbox takes variables from, as the policy says (None: those of this process);
    `variables` reach the program whatever the policy says. A `configured` program was named by the user, so no rule on
    commands has to list it. With `only_there` it starts in its directory or not at all, else at the root if need be. A
    `terminal` replaces the three streams. An `observer` receives what is refused.
    """

    command: tuple[str, ...]
    directory: str | None = None
    only_there: bool = False
    environment: Mapping[str, str] | None = None
    variables: Mapping[str, str] = {}
    stdin: Stream = PIPE
    stdout: Stream = PIPE
    stderr: Stream = PIPE
    configured: bool = False
    terminal: OwnTerminal | None = None
    observer: Observer | None = None


def start_confined(confinement: Confinement, start: ProgramStart, *, decide: Decide) -> Process:
    """Start a program in the sandbox, in a session of its own; a SandboxError if it may not or cannot be started."""
    refuse_elsewhere(sys.platform)
    streams, controlling = (start.stdin, start.stdout, start.stderr), None
    if start.terminal is not None:
        streams = tuple(start.terminal.stream(number) for number in range(3))  # type: ignore[assignment]  # three of them
        controlling = start.terminal.path if start.terminal.controls else None
    stdin, stdout, stderr = streams
    return ToolSandbox(confinement, decide).spawn(
        start.command,
        cwd=start.directory,
        env=start.environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        variables=start.variables,
        own_session=True,
        controlling=controlling,
        configured=start.configured,
        only_there=start.only_there,
        observer=start.observer,
    )


def start_as_configured(
    confinement: Confinement, start: ProgramStart, *, decide: Decide
) -> Process | UnconfinedProcess:
    """Start a program in the sandbox, or without one where the user has switched it off."""
    refuse_elsewhere(sys.platform)
    if not is_switched_off(confinement.policy):
        return start_confined(confinement, start, decide=decide)
    root = confinement.workspace.root.path
    variables = {**(start.environment or {}), **start.variables}
    return start_unconfined(
        start.command,
        root=root,
        cwd=start.directory or root,
        env=variables,
        stdin=start.stdin,
        configured=start.configured,
    )


def is_switched_off(policy: LivePolicy) -> bool:
    """Whether the user wants no sandbox for tools and servers (`os_sandbox = "off"`)."""
    switch = policy.compiled.settings.get("defaults", {}).get("os_sandbox", "auto")
    return bool(switch == "off")


class CommandFiles:
    """The files that the words of a command name; never one of byleave's own."""

    def __init__(self, workspace: Workspace, policy: LivePolicy, command: Sequence[str]) -> None:
        self._root = workspace.root
        self._own = workspace.own_places(policy.compiled.layers)
        self._command = [word for word in command if "\0" not in word]

    def outside(self) -> Iterator[str]:
        """Yield the files outside of the workspace. The program itself is found by the sandbox."""
        for word in self._command[1:]:
            real = os.path.realpath(word)
            named_outside = os.path.isabs(word) and self._root.relative(os.path.normpath(word)) is None
            if named_outside and os.path.isfile(real) and self._root.relative(real) is None and not self._is_own(real):
                yield word

    def inside(self) -> Iterator[str]:
        """Yield the files of the workspace, as absolute paths."""
        for word in self._command:
            path = os.path.normpath(os.path.join(self._root.path, word))
            direct = self._root.relative(path) and os.path.realpath(path) == path
            if direct and os.path.isfile(path) and not self._is_own(path):
                yield path

    def environment(self) -> str | None:
        """Return the virtual environment that the program lies in, if that is part of the workspace."""
        if not self._command or "/" not in self._command[0]:
            return None
        program = os.path.normpath(os.path.join(self._root.path, self._command[0]))
        prefix = os.path.dirname(os.path.dirname(program))
        direct = self._root.relative(prefix) and os.path.realpath(prefix) == prefix
        return prefix if direct and os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else None

    def _is_own(self, path: str) -> bool:
        return any(is_under(path, place) for place in self._own)


def usual_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every program gets."""
    return dict(minimal(environment, MINIMAL_ENVIRONMENT))


def readable_variables(environment: Mapping[str, str], policy: LivePolicy, tool: str) -> dict[str, str]:
    """Return the usual variables, and those that a rule lets the tool read."""
    usual = usual_variables(environment)
    return {
        name: value
        for name, value in environment.items()
        if name in usual or ("=" not in name and policy.decide(EnvAction(name, tool)).decision is ALLOW)
    }
