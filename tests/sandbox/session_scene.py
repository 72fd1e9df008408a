"""A run of an agent session: `python session_scene.py ROOT PID NAME ACCESS PROGRAM WORDS...`.

PID is the agent's process; NAME is the session's, "-" for a run without one; ACCESS is an `[access]` table as JSON.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from byleave.launch.agent_session import AgentSession, Front, in_front, process_of
from byleave.launch.start import ProgramStart, start_confined
from byleave.policy.load import Workspace
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.terminal import own_terminal

OPEN = {"fs": [{"path": ".", "read": True, "write": True, "execute": True}]}
AGENT = "scene"
_WAITING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def session_of(root: Path, pid: int, name: str) -> AgentSession:
    """Return the session of that name of an agent's process, which lives."""
    process = process_of(pid)
    assert process is not None
    return AgentSession(root=str(root), agent=AGENT, name=name, process=process)


class Agent:
    """A process that stands for an agent, and its runs in one workspace. To be ended in the end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._start: Sequence[str] = (sys.executable,)
        self._env: Mapping[str, str] = dict(os.environ)
        self.process = subprocess.Popen(["sleep", "600"])

    def become(self, start: Sequence[str], environment: Mapping[str, str]) -> None:
        """Have the runs made by another user, whose Python these words start."""
        self._start, self._env = start, environment

    def session(self, name: str = "one") -> AgentSession:
        """Return a session of this agent, as an ordinary user or as we are."""
        return session_of(self.root, self.process.pid, name)

    def words(self, script: str, name: str = "one", access: Mapping[str, object] = OPEN) -> list[str]:
        """Return the words of a run of a script."""
        start = [*self._start, __file__, str(self.root), str(self.process.pid), name, json.dumps(access)]
        return [*start, "/bin/sh", "-c", script]

    def begin(self, script: str, name: str = "one", **more: object) -> "subprocess.Popen[bytes]":
        """Start a run, in a process group of its own."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            self.words(script, name), env=self._env, cwd=self.root, start_new_session=True, **streams
        )

    def run(self, script: str, name: str = "one", access: Mapping[str, object] = OPEN) -> tuple[int, str]:
        """Run a script to its end; return the exit code and what it said, standard error behind standard output."""
        done = subprocess.run(
            self.words(script, name, access),
            env=self._env,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).decode()

    def end(self) -> None:
        """End the agent's process."""
        self.process.kill()
        self.process.wait()


def eventually(condition: Callable[[], object], *, seconds: float = 20.0) -> None:
    """Wait for what other processes do: that gives no event."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.02)


def _behind(front: Front | None, root: str, session: AgentSession | None, access: object, command: list[str]) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITING)
    workspace = Workspace(root)
    policy = workspace.compile_tree({"tools": {"t": {"source": "local", "runtime": "stdio", "access": access}}})
    with Confinement(workspace, policy, "t", SandboxOptions(session=session)) as confinement:
        terminal = own_terminal()
        start = ProgramStart(command=tuple(command), stdin=None, stdout=None, stderr=None, terminal=terminal)
        process = start_confined(confinement, start, decide=policy.decide)
        if terminal is not None:
            terminal.serve(process, lambda: None)
        while process.poll() is None:
            got = signal.sigwaitinfo(_WAITING)
            if got.si_signo != signal.SIGCHLD and (front is None or front.passes(got)):
                process.send_signal(got.si_signo)
        if terminal is not None:
            terminal.leave()
        if process.problem is not None:
            sys.stderr.write(f"{process.problem}\n")
        code = process.wait()
        code = code if code >= 0 else 128 - code
        if front is not None and process.is_outlasted:
            front.finish(code)
            process.outlast()
        process.close()
        if terminal is not None:
            terminal.close()
    return code


def main(words: list[str]) -> int:
    """Make one run."""
    root, pid, name, access, *command = words
    if name == "-":
        return _behind(None, root, None, json.loads(access), command)
    session = session_of(Path(root), int(pid), name)
    return in_front(lambda front: _behind(front, root, session, json.loads(access), command))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
