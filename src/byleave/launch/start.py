"""Start a program confined, for a tool, an MCP server, an agent or a command.

What differs is said by three arguments: a `Confinement` (whose access holds, limits, what is shown, how long names are
reserved), a `ProgramStart` (the command, its variables, streams and terminal), and `decide` (what answers for that
which the program starts and reaches, and records it). Where the user has switched the sandbox off, tools and servers
run as plain processes, and that is reported: `start_as_configured`. `byleave run` and `byleave acp --sandbox` never do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.launch.unconfined import start_unconfined
from byleave.sandbox.host import refuse_elsewhere
from byleave.sandbox.process import PIPE
from byleave.sandbox.sandbox import ToolSandbox

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO, Protocol, Self

    from byleave.errors import SandboxError
    from byleave.launch.unconfined import UnconfinedProcess
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


class ProgramStart(Struct, frozen=True, kw_only=True):
    """One start of a program.

    `environment` is what the sandbox takes variables from, as the policy says (None: those of this process);
    `variables` reach the program whatever the policy says. A `configured` program was named by the user, so no rule on
    commands has to list it. A `terminal` replaces the three streams. An `observer` receives what is refused.
    """

    command: tuple[str, ...]
    directory: str | None = None
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
