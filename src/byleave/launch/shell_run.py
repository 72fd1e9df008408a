"""Run one command line of an agent as `[shell]` says: confined, in the foreground, with the exit code of the shell.

The shell gets the text as it is, byte for byte. It is held to `[shell.access]` and to the `path` rules of the policy:
what may not be read is not there, what may not be written is read-only. Where the text ended is learned from the
kernel, not from the text: the first process of the sandbox shares its working directory with the shell.

What the proxy refused is named in one line at the end (`refusal_line`). Start at `run_shell`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.access import SHELL_TOOL, SHELL_VARIABLES
from byleave.core.command_rules import CommandTable
from byleave.core.decision import ALLOW, DENY
from byleave.core.fs_rules import is_under
from byleave.core.url import BadUrl, parse_url
from byleave.errors import InputError, SandboxError
from byleave.guard.evaluation import Who
from byleave.guard.open_guard import guard_for
from byleave.launch.agent_session import AgentSession, in_front
from byleave.launch.directory_file import DirectoryFile
from byleave.launch.foreground import Attendance, run_in_foreground, signals_held
from byleave.launch.git_identity import identity_file
from byleave.launch.start import ProgramStart
from byleave.launch.toolchain_view import toolchain_view
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import find_program
from byleave.store.live_runs import LiveRun
from byleave.text import quoted, sentence_list, shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.decision import Verdict
    from byleave.launch.agent_session import Front
    from byleave.launch.foreground import ProgramEnd
    from byleave.net.proxy import Decide
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.plan.plan import Brought

DOOR = "run"
DENIED = 20
SHELLS = ("bash", "sh")  # where an agent does not say which shell it uses
_OWN = "BYLEAVE_"  # variables that are byleave's own begin so
_LONGEST = 30  # letters of a command that is repeated at the end
_MOST_NAMED = 3
_SOME_COMMAND = "CMD"


class ShellCommand(Struct, frozen=True, kw_only=True):
    """One command line: its text, where it starts, and for whom it runs.

    `only_there`: the text was decided for this directory, which has no links in it, and runs in no other. `shell` is
    the name or the path of the agent's shell; `cwd_file` receives the directory that the text ended in.
    The commands of one `session` share /tmp and loopback, and what they leave running goes on after them.
    """

    text: str
    cwd: str
    only_there: bool = False
    shell: str | None = None
    cwd_file: str | None = None
    agent: str | None = None
    session: AgentSession | None = None

    @property
    def action(self) -> dict[str, Any]:
        """The same as an action."""
        said = {"kind": "command", "command": self.text, "cwd": self.cwd}
        named = os.path.basename(self.shell) if self.shell is not None else None
        return {
            **said,
            **({"shell": named} if named in ("bash", "sh", "zsh") else {}),
            **({"agent": self.agent} if self.agent is not None else {}),
        }


def _write_line(line: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class ShellSurroundings(Struct, frozen=True):
    """What a shell finds around it beside the workspace: paths of this machine, and variables.

    `environment` is what the policy lets pass or not; `variables` are there in any case.
    """

    shown: tuple[str, ...]
    lent: tuple[str, ...]
    variables: Mapping[str, str]
    environment: Mapping[str, str]


def surroundings(workspace: Workspace, environ: Mapping[str, str]) -> ShellSurroundings:
    """Return what a command finds: the toolchains of the project, who commits, and the caller's variables."""
    root, homes = workspace.root.path, workspace.homes
    toolchains = toolchain_view(root, homes.user, environ, homes.memory)
    identity = identity_file(homes.user, environ, root, homes.memory)
    variables = {name: value for name, value in toolchains.variables.items() if name not in SHELL_VARIABLES}
    if identity is not None:
        variables["GIT_CONFIG_SYSTEM"] = identity
    environment = {name: value for name, value in environ.items() if not name.startswith(_OWN)}
    environment["PATH"] = toolchains.path
    shown = toolchains.shown if identity is None else (*toolchains.shown, identity)
    return ShellSurroundings(shown, toolchains.lent, variables, environment)


def shell_confinement(
    workspace: Workspace,
    policy: LivePolicy,
    command: ShellCommand,
    around: ShellSurroundings,
    mounts: tuple[Brought, ...] = (),
) -> Confinement:
    """Return what holds a command to `[shell.access]` and the rules. Close it in the end."""
    options = SandboxOptions(
        agent=command.agent,
        mounts=mounts,
        shown=around.shown,
        lent=around.lent,
        notes_writes=True,
        session=command.session,
    )
    return Confinement(workspace, policy, SHELL_TOOL, options)


def shell_start(confinement: Confinement, command: ShellCommand, around: ShellSurroundings) -> ProgramStart:
    """Return the start of the shell with the text; a SandboxError if there is no such shell."""
    if "\0" in command.text:
        raise SandboxError("a command line cannot contain a NUL", hint="leave it out", exit_code=2)
    name = _find_shell(confinement, command, around.environment.get("PATH", os.defpath))
    dashed = ("--",) if command.text.startswith(("-", "+")) else ()
    access = confinement.policy.compiled.policy.tool(SHELL_TOOL).access
    return ProgramStart(
        command=(name, "-c", *dashed, command.text),
        directory=command.cwd,
        only_there=command.only_there,
        environment=around.environment,
        variables=around.variables,
        # The shell itself need not be listed: what it starts is.
        configured=isinstance(access.commands, CommandTable),
    )


def _find_shell(confinement: Confinement, command: ShellCommand, search: str) -> str:
    """Return the shell's name, or its path where the name leads into the workspace: a command may have put it there."""
    root = confinement.workspace.root.path

    def is_outside(path: str) -> bool:
        return not is_under(os.path.realpath(path), root) and not is_under(os.path.abspath(path), root)

    for name in SHELLS if command.shell is None else (command.shell,):
        path = find_program(name, search, root, is_outside)
        if path is not None and is_outside(path):
            return name if find_program(name, search, root) == path else path
    named = quoted(command.shell) if command.shell is not None else " or ".join(SHELLS)
    raise SandboxError(f"there is no shell {named}", hint="check PATH", exit_code=127)


def run_shell(
    workspace: Workspace,
    policy: LivePolicy,
    command: ShellCommand,
    *,
    store_session: str = "default",
    mounts: tuple[Brought, ...] = (),
    beside: ShellReports | None = None,
) -> int:
    """Run a command line to its end and return its exit code, which is the shell's.

    To be called in the only thread of a program. Every decision that is taken meanwhile is recorded. An InputError if
    there is no `[shell]` table, or the file for the directory cannot be used.
    """
    if SHELL_TOOL not in policy.compiled.policy.views[0].tools:
        raise InputError("there is no [shell] table", hint="add one: it says how commands of agents run")
    run = _ShellRun(workspace, policy, command, mounts, beside or ShellReports())
    if command.session is None:
        return run.run(store_session)
    return in_front(lambda front: run.run(store_session, front))


class ShellReports(Struct, frozen=True):
    """What is said beside a run: `line` gets lines for standard error; `started` and `ended` what confines it.

    An `observer` receives everything that the command is refused.
    """

    line: Callable[[str], object] = _write_line
    started: Callable[[Confinement], object] | None = None
    ended: Callable[[Confinement], object] | None = None
    observer: Observer | None = None


class _ShellRun:
    """One command line and everything that it runs with."""

    def __init__(
        self,
        workspace: Workspace,
        policy: LivePolicy,
        command: ShellCommand,
        mounts: tuple[Brought, ...],
        beside: ShellReports,
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._command = command
        self._mounts = mounts
        self._beside = beside
        self._file = None if command.cwd_file is None else DirectoryFile(command.cwd_file)

    def run(self, store_session: str, front: Front | None = None) -> int:
        """Run it; `front` is the process that the agent waits for, if that is not this one."""
        workspace, policy = self._workspace, self._policy
        with (
            signals_held(),
            guard_for(
                workspace, DOOR, client_approves=None, session=store_session, policy=policy, stays=False
            ) as guard,
        ):
            who = Who(self._command.agent, "default")
            refusals = NotedRefusals(lambda action: guard.check(action, who).verdict, self._command.agent)
            if policy.decide(self._command.action, confines=True).decision is DENY:
                verdict = guard.check(self._command.action, who).verdict
                self._beside.line(f"byleave: {shown_lines(verdict.reason)}")
                return DENIED
            try:
                return self._confined(refusals, front)
            except SandboxError as error:
                self._beside.line(f"byleave: {shown_lines(str(error))}")
                return error.exit_code

    def _confined(self, refusals: NotedRefusals, front: Front | None) -> int:
        around = surroundings(self._workspace, os.environ)
        with shell_confinement(self._workspace, self._policy, self._command, around, self._mounts) as confinement:

            def started() -> None:
                if self._beside.started is not None:
                    self._beside.started(confinement)

            def ended(end: ProgramEnd) -> None:
                self._last_words(confinement, end, refusals)
                if front is not None and end.outlasted:  # else the agent goes on when all of this is gone
                    front.finish(end.code)

            start = structs.replace(shell_start(confinement, self._command, around), observer=self._beside.observer)
            state = self._workspace.homes.workspace(self._workspace.root.path)
            live = LiveRun(state, brokered=start.configured)
            attendance = Attendance(started, ended, None if front is None else front.passes, live)
            return run_in_foreground(confinement, start, decide=refusals.decide, attendance=attendance).code

    def _last_words(self, confinement: Confinement, end: ProgramEnd, refusals: NotedRefusals) -> None:
        """Say and write what there is to say when the shell has ended."""
        if end.problem is not None:
            self._beside.line(f"byleave: {shown_lines(str(end.problem))}")
        elif self._file is not None:
            directory = ended_in(end.directory, self._command.cwd, self._workspace.root.path)
            try:
                self._file.write(directory)
            except OSError as error:
                why = error.strerror or str(error)
                self._beside.line(
                    f"byleave: the working directory could not be written to {shown(self._file.path)}: {why}"
                )
        if self._beside.ended is not None:
            self._beside.ended(confinement)
        unwritten = [path.removeprefix(f"{self._workspace.root.path}/") for path in end.unwritten]
        for path in unwritten:
            self._record_write(path, refusals)
        named = (*refusals.named, *unwritten)
        if named and self._beside.observer is None:
            self._beside.line(refusal_line(named, self._command.text))

    def _record_write(self, path: str, refusals: NotedRefusals) -> None:
        """Record what the kernel refused to write, as the policy decides it; not where the kernel was stricter."""
        kind = "update" if os.path.lexists(os.path.join(self._workspace.root.path, path)) else "create"
        action = {"kind": kind, "path": path, "tool": SHELL_TOOL}
        if self._policy.decide(action).decision is not ALLOW:
            refusals.decide(action)


def ended_in(reported: str | None, began: str, root: str) -> str:
    """Return the directory for the next command: where this one ended, as far as that is a place of the workspace."""
    for path in (reported if reported is not None else began, root):
        real = os.path.realpath(path)
        if (real == path or path is began) and is_under(real, root) and os.path.isdir(real) and "\n" not in real:
            return real
    return root


class NotedRefusals:
    """Decides as `decide` does, for an agent, and notes what is refused by name: hosts and programs."""

    def __init__(self, decide: Decide, agent: str | None) -> None:
        self._decide = decide
        self._agent = agent
        self.named: dict[str, None] = {}

    def decide(self, action: dict[str, Any]) -> Verdict:
        """Decide, and take note."""
        verdict = self._decide(action if self._agent is None else {**action, "agent": self._agent})
        if verdict.decision is not ALLOW:
            name = action.get("program") if action["kind"] == "spawn" else _host(action.get("url", ""))
            if isinstance(name, str) and name:
                self.named[name] = None
        return verdict


def _host(url: str) -> str:
    target = parse_url(url)
    return "" if isinstance(target, BadUrl) else f"{target.host}{target.shown_port}"


def refusal_line(named: tuple[str, ...], text: str) -> str:
    """Return the line that says what was refused, and how an agent asks for it."""
    things = "1 thing was" if len(named) == 1 else f"{len(named)} things were"
    names = sentence_list([shown(name) for name in named], most=_MOST_NAMED)
    command = shown(text) if len(text) <= _LONGEST and _is_plain(text) else _SOME_COMMAND
    return f"byleave: {things} refused: {names}; `byleave outside -- {command}` asks the person"


def _is_plain(text: str) -> bool:
    """Whether a text is one command in literal words, which `byleave outside` takes as it stands."""
    from byleave.shell.reader import read_command

    reading = read_command(text)
    if not reading.understood or len(reading.commands) != 1 or "\n" in text:
        return False
    only = reading.commands[0]
    return not only.redirects and not only.assignments and None not in only.argv
