"""A process that nothing confines, for tools and servers where the user has switched the sandbox off."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.errors import SandboxError
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from byleave.sandbox.process import Stream

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
