"""The processes of one tool: how each is confined, and how it is read to its end.

`ToolSandboxes` starts them. A mediated tool's own process sees the system, its own program and the files that its
command names, nothing else of the workspace. What it starts through the host (`process.run`), and a stdio tool itself,
are held to the tool's access. A search on its behalf reads what the tool may read. Where the user has switched the
sandbox off, a plain process takes the place of each, and that is reported.

`ToolProcess` is a mediated tool's process with its pipes, for a conversation. `attend` reads both streams of a program
until it ends, or has to be ended.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
from contextlib import suppress
from threading import Lock, RLock
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import FileAction
from byleave.core.decision import ALLOW
from byleave.errors import RequestError, SandboxError
from byleave.launch.start import (
    CommandFiles,
    ProgramStart,
    is_switched_off,
    readable_variables,
    start_as_configured,
    usual_variables,
)
from byleave.protocol.jsonrpc import INVALID_PARAMS, TIMED_OUT
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import refuse_elsewhere
from byleave.user_files import digest_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.launch.start import RunningProgram, UnconfinedProcess
    from byleave.net.proxy import Decide
    from byleave.policy.compile import CompiledTool
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.sandbox.process import Process
    from byleave.toolhost.deadline import Deadline


_MANY_DESCRIPTORS = 200  # more than a call has open at one time
_LAST_BREATH = 1.0  # seconds that a process may take to end after its output has


def make_room_for_descriptors() -> None:
    """Have the kernel make this process's table of descriptors as large as a call needs it, before there are threads.

    Where threads share the table, the kernel waits for all processors before it enlarges it: some 15 ms.
    """
    with suppress(OSError):  # fewer are allowed: then the table stays as it is
        descriptor = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _MANY_DESCRIPTORS))
        finally:
            os.close(descriptor)


class ToolProcess:
    """The descriptors of a process that was started with three pipes, and its end."""

    def __init__(self, process: RunningProgram) -> None:
        self._process = process
        self._files = [file for file in (process.stdin, process.stdout, process.stderr) if file is not None]
        self.stdin = -1 if process.stdin is None else process.stdin.fileno()
        self.stdout = -1 if process.stdout is None else process.stdout.fileno()
        self.stderr = -1 if process.stderr is None else process.stderr.fileno()
        self.ended = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1

    @property
    def readers(self) -> tuple[int, ...]:
        return tuple(each for each in (self.stdout, self.stderr) if each >= 0)

    @property
    def problem(self) -> SandboxError | None:
        """What kept the process from running, if something did."""
        return self._process.problem

    def reaped(self) -> None:
        """Take note that the process has ended."""
        self._process.poll()
        self._forget_end()

    def terminate(self) -> None:
        """Send the process SIGTERM."""
        with suppress(OSError):
            self._process.terminate()

    def exit_code(self) -> int | None:
        """Return how it ended, if it ends by itself within a moment; None if it still runs."""
        with suppress(TimeoutError):
            return self._process.wait(_LAST_BREATH)
        return None

    def close_stdin(self) -> None:
        """Let the process know that nothing more will come."""
        if self.stdin >= 0:
            self._files[0].close()
            self.stdin = -1

    def close(self) -> None:
        """End the process and everything it started, and let go of the pipes."""
        self._process.close()
        for file in self._files:
            with suppress(OSError):  # a pipe without a reader
                file.close()
        self._forget_end()

    def _forget_end(self) -> None:
        if self.ended >= 0:
            os.close(self.ended)
            self.ended = -1


LARGEST_OUTPUT = 10 << 20  # bytes of one stream; `max_file_size` of a tool
_PIECE = 1 << 16
_LONGEST_WAIT = 3600_000  # milliseconds in one go; poll takes no more than a C int


class ProcessOutput(Struct, frozen=True):
    """What a program said, and how it ended: 128 and the number of the signal, if it was one."""

    out: bytes
    err: bytes
    exit_code: int


class _Leash:
    """The way to end a program from another thread, as long as it is there."""

    def __init__(self, process: Process | UnconfinedProcess) -> None:
        self._process: Process | UnconfinedProcess | None = process
        self._lock = Lock()

    def pull(self) -> None:
        with self._lock:
            if self._process is not None:
                with suppress(OSError):  # it has ended by itself
                    self._process.kill()

    def drop(self) -> None:
        with self._lock:
            self._process = None


def attend(process: Process | UnconfinedProcess, turn: Deadline, *, limit: int) -> ProcessOutput:
    """Return what the program said once it has ended. Both its streams are pipes.

    A RequestError if it is cancelled, takes too long, or says more than `limit` bytes on one stream; nothing of it
    runs any more then. What it has left behind, still writing, is not waited for.
    """
    leash = _Leash(process)
    turn.on_cancel(leash.pull)
    try:
        out, err = _hear(process, turn, limit)
    except BaseException:
        leash.pull()
        raise
    finally:
        leash.drop()
        code = process.wait()
    turn.go_on()
    return ProcessOutput(out, err, code if code >= 0 else 128 - code)


def _hear(process: Process | UnconfinedProcess, turn: Deadline, limit: int) -> tuple[bytes, bytes]:
    """Collect both streams until the program has ended."""
    heard: dict[int, bytearray] = {
        stream.fileno(): bytearray() for stream in (process.stdout, process.stderr) if stream
    }
    ended = os.pidfd_open(process.pid)
    try:
        watched = select.poll()
        for number in (ended, *heard):
            os.set_blocking(number, False)
            watched.register(number, select.POLLIN)
        while ended not in (ready := list(_ready(watched, turn.deadline))):
            for number in ready:
                if not _take(number, heard[number], limit):
                    watched.unregister(number)
        for number, content in heard.items():  # what it said last; others may still write, and never end
            _take(number, content, limit, all_of_it=True)
    finally:
        os.close(ended)
    out, err = heard.values()
    return bytes(out), bytes(err)


def _ready(watched: select.poll, deadline: float | None) -> Iterator[int]:
    """Yield what can be read, or has ended; a RequestError if nothing does in time."""
    left = None if deadline is None else (deadline - monotonic()) * 1000
    if left is not None and left <= 0:
        hint = "ask for less, or for more time"
        raise RequestError("the program took too long, and was ended", hint=hint, number=TIMED_OUT)
    wait = _LONGEST_WAIT if left is None else min(int(left) + 1, _LONGEST_WAIT)
    yield from (number for number, _event in watched.poll(wait))


def _take(stream: int, content: bytearray, limit: int, *, all_of_it: bool = False) -> bool:
    """Read what has arrived; False at the end of the stream."""
    while True:
        try:
            piece = os.read(stream, _PIECE)
        except BlockingIOError:
            return True
        content += piece
        if len(content) > limit:
            raise RequestError(
                f"the program says more than {limit} bytes, and was ended",
                hint="have it say less",
                number=INVALID_PARAMS,
                data={"limit": limit},
            )
        if not piece:
            return False
        if not all_of_it:
            return True


OWN_TOOLS = "byleave-tool"  # our own tools, by the interpreter that runs us
_LARGEST_PRINTED = 256 << 20  # bytes; hashed at every call that needs approval
_READS: Mapping[str, bool] = {"read": True, "execute": True}


class ToolSandboxes:
    """Makes each confinement of a tool when it is first needed, and keeps it. Close them in the end."""

    def __init__(
        self, workspace: Workspace, policy: LivePolicy, tool: CompiledTool, environment: Mapping[str, str]
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._tool = tool
        self._environment = environment
        self._made: dict[str, Confinement] = {}
        self._one_at_a_time = RLock()  # a confinement is prepared by one thread at a time

    @property
    def unconfined(self) -> str | None:
        """Why no sandbox holds this tool; None if one does."""
        refuse_elsewhere(sys.platform)
        if is_switched_off(self._policy):
            return "os_sandbox is off: nothing but byleave's own checks holds this tool"
        return None

    def start_mediated(self) -> RunningProgram:
        """Start the process of a mediated tool: it sees nothing of the workspace but the files its command names."""
        own = self._own()
        return self._start(own, self.command(), decide=own.policy.decide)

    def start_asking(self, stdin: int) -> RunningProgram:
        """Start the tool's program to describe itself: as a mediated tool, without the variables that it may read."""
        own, usual = self._own(), usual_variables(self._environment)
        return self._start(own, [*self.command(), "--schema"], decide=own.policy.decide, stdin=stdin, variables=usual)

    def start_plain(
        self, command: Sequence[str], stdin: int, decide: Decide, *, reads_only: bool = False
    ) -> RunningProgram:
        """Start the process of a stdio tool, held to its access; with `reads_only` it can change nothing.

        `decide` answers for what it starts or reaches then.
        """
        confinement = self._reading_tool() if reads_only else self.access()
        return self._start(confinement, command, decide=decide, stdin=stdin)

    def _start(
        self, confinement: Confinement, command: Sequence[str], *, decide: Decide, **differs: Any
    ) -> RunningProgram:
        root = self._workspace.root.path
        variables = differs.pop("variables", None) or readable_variables(
            self._environment, self._policy, self._tool.name
        )
        start = ProgramStart(
            command=tuple(command),
            directory=root,
            environment=variables,
            variables=variables,
            configured=True,
            **differs,
        )
        with self._one_at_a_time:
            return start_as_configured(confinement, start, decide=decide)

    def command(self) -> list[str]:
        """Return the words that start the tool; our own tools are started by the interpreter that runs us."""
        words = list(self._tool.settings.get("command", ()))
        if words and words[0] == OWN_TOOLS:
            return [sys.executable, "-I", "-m", "byleave.tools", *words[1:]]
        return words

    def access(self) -> Confinement:
        """Return the confinement that holds processes to the tool's access."""
        with self._one_at_a_time:
            if "access" not in self._made:
                options = SandboxOptions(
                    limits=self._tool.limits,
                    shown=self._program_files(self._policy, self._files()),
                    releases_between=True,
                )
                self._made["access"] = Confinement(self._workspace, self._policy, self._tool.name, options)
            return self._made["access"]

    def reading(self) -> Confinement:
        """Return the confinement in which a program of ours searches: it reads what the tool may read, no more."""
        with self._one_at_a_time:
            if "reading" not in self._made:
                options = SandboxOptions(reads_only=True)
                self._made["reading"] = Confinement(self._workspace, self._policy, self._tool.name, options)
            return self._made["reading"]

    def _own(self) -> Confinement:
        files = self._files()
        return self._of_files([{"path": "."}, *self._named_files(files)], files)

    def _reading_tool(self) -> Confinement:
        table = self._policy.compiled.policy.tool(self._tool.name).access.fs
        rules = [
            {"path": rule.path or ".", "read": rule.grants("read"), "execute": rule.grants("execute")}
            for rule in getattr(table, "rules", ())
            if not rule.external
        ]
        return self._of_files(rules or [{"path": "."}], self._files())

    def _of_files(self, rules: list[dict[str, Any]], named: CommandFiles) -> Confinement:
        """Return a confinement to files by these rules alone: no network, and the variables that are handed over."""
        listed = self._policy.compiled.settings.get("sandbox", {})
        # What every sandbox may write, this one may not: it changes nothing but by request, or nothing at all.
        readable = [*listed.get("read", ()), *listed.get("write", ())]
        name = repr((rules, readable))  # looked up anew at every start: links and rules may have changed
        with self._one_at_a_time:
            if name not in self._made:
                tool = {"source": "local", "runtime": "stdio", "access": {"fs": rules}}
                defaults = dict(self._policy.compiled.settings.get("defaults", {}))
                tree: dict[str, Any] = {"defaults": defaults, "tools": {self._tool.name: tool}}
                if readable:
                    tree["sandbox"] = {"read": readable}
                policy = self._workspace.compile_tree(tree, is_usual=not readable)  # with that table none is kept
                options = SandboxOptions(
                    limits=self._tool.limits, shown=self._program_files(policy, named), reserves_names=False
                )
                self._made[name] = Confinement(self._workspace, policy, self._tool.name, options)
            return self._made[name]

    def _program_files(self, policy: LivePolicy, files: CommandFiles) -> tuple[str, ...]:
        """Return the files that the command names and `policy` does not let the tool read; byleave for its own."""
        shown = []
        if (self._tool.settings.get("command") or [""])[0] == OWN_TOOLS:  # it may lie elsewhere than the interpreter
            shown.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        shown += files.outside()
        for rule in self._named_files(files):  # what may be read anyhow is left as it is: it may be written, too
            if policy.decide(FileAction("read", rule["path"], self._tool.name)).decision is not ALLOW:
                shown.append(os.path.join(self._workspace.root.path, rule["path"]))
        return tuple(shown)

    def _files(self) -> CommandFiles:
        return CommandFiles(self._workspace, self._policy, self.command())

    def _named_files(self, files: CommandFiles) -> Iterator[dict[str, Any]]:
        """Yield rules for the files of the workspace that the command names, and for an interpreter's own packages."""
        environment = files.environment()
        for path in (*([environment] if environment is not None else []), *files.inside()):
            yield {"path": self._workspace.root.relative(path), **_READS}

    def prints(self) -> Iterator[str]:
        """Yield the hash of every file that the command names, without an interpreter of the system."""
        for number, word in enumerate(self.command()):
            path = os.path.join(self._workspace.root.path, word)
            if number == 0 and self._workspace.root.relative(os.path.realpath(path)) is None:
                continue
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            except (OSError, ValueError):
                continue
            try:
                yield digest_file(descriptor, limit=_LARGEST_PRINTED) or f"{word}: too large"
            except OSError:
                yield f"{word}: unreadable"
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Close all of them."""
        for confinement in self._made.values():
            confinement.close()
        self._made.clear()
