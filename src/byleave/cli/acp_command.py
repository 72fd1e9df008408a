"""`byleave acp`: stand between an editor and an agent. Standard output is the editor's, and carries nothing of ours.

The file behind `byleave acp --log`: one line of JSON for every request that the policy decided.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from byleave.acp.agent_process import SandboxedAgent, SupervisedAgent
from byleave.acp.confined_terminal import TerminalConfiner
from byleave.acp.editor_setup import EDITORS, hook_of, setup_for
from byleave.acp.proxy import AcpProxy
from byleave.acp.relay import make_relay
from byleave.cli.hook_command import INSTALL, home_of, install_warnings, plan_change
from byleave.cli.mount_command import mount_first, own_mounts
from byleave.cli.output import complain, fitted, say, say_verbose, warn, warn_if_read
from byleave.cli.terminal import consents, may_ask, record_answers
from byleave.cli.workspace import (
    confining_guard,
    confining_policy,
    decided_by,
    load_policy,
    open_workspace,
    origins,
    refuse_both,
    warn_of_tampering,
    warn_of_weaker,
)
from byleave.core.fs_rules import is_under
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.guard.evaluation import Who
from byleave.hooks.install import carry_out
from byleave.launch.start import ProgramStart, start_confined
from byleave.policy.dirs import real_path
from byleave.policy.load import Workspace
from byleave.sandbox.can_confine import can_confine
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import refuse_elsewhere
from byleave.sandbox.process import PIPE
from byleave.sandbox.session import process_of
from byleave.sandbox.tamper_check import start_time
from byleave.sandbox.terminal import show_errors
from byleave.text import quoted, sentence_list, shown, shown_lines, speakable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from byleave.acp.agent_process import Agent
    from byleave.acp.relay import Relay
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.live_policy import LivePolicy


_IN_SANDBOX = ("tool", "access")
# What --setup carries over to the editor's settings.
_KEPT_FLAGS = ("strict", "sandbox")
_KEPT_VALUES = ("agent_profile", "tool", "session")
_KEPT_FILES = ("root", "policy", "access", "log")


def run(given: ParsedArguments) -> int:
    """Carry one conversation, or print what makes an editor start one; the exit code is the agent's own."""
    try:
        if given.one("setup") is not None:
            return _setup(given, given.one("setup") or "")
        _refuse_misuse(given)
        return _sandboxed(given) if given.flag("sandbox") else _kept(given)
    except (ByleaveError, ConfigErrors) as error:
        complain(f"byleave: {shown_lines(str(error))}")  # also with --json: the editor expects no JSON of ours
        return error.exit_code


def _setup(given: ParsedArguments, editor: str) -> int:
    if editor not in EDITORS:
        raise InputError(f"{quoted(editor)} is no known editor", hint=f"there are {sentence_list(tuple(EDITORS))}")
    setup = setup_for(editor, [*_ourselves(), "acp", *_kept_flags(given)], given.rest)
    if not given.flag("quiet"):
        complain(f"byleave: for {shown(setup.place)}")
        if setup.advice:
            complain(fitted(f"byleave: {shown(setup.advice)}", sys.stderr))
    say(setup.text)
    hook = hook_of(given.rest)
    return 0 if hook is None else _offer_hook(given, hook)


def _offer_hook(given: ParsedArguments, agent: str) -> int:
    """Install the agent's own hook beside the proxy, if the user agrees; standard output has the settings alone."""
    try:
        home = home_of(given)
        plan = plan_change(given, INSTALL, agent, home)
    except ByleaveError as error:  # the settings for the editor are printed, and stay of use
        complain(f"byleave: the hook of {agent} cannot be installed: {shown_lines(str(error))}")
        return 0
    if not plan.changes:
        if not given.flag("quiet"):
            complain(f"byleave: the hook of {agent} is installed in {shown(plan.file)}")
        return 0
    if not given.flag("yes") and not may_ask(given):
        if not given.flag("quiet"):
            complain(f"byleave: install the hook as well: byleave hook --install {agent}")
        return 0
    lines = [f"The hook of {agent} goes into {shown(plan.file)}:", *shown_lines(plan.snippet).splitlines()]
    if consents(given, "Install it as well?", about=lines):
        carry_out(plan)
        record_answers(given, open_workspace(given), [f"install {agent} ({plan.file})"])
        warn(given, install_warnings(plan, home))
        if not given.flag("quiet"):
            complain(f"byleave: installed the hook of {agent} in {shown(plan.file)}")
    return 0


def _ourselves() -> Sequence[str]:
    """Return the words that start this very byleave from anywhere: an editor has another PATH than a shell."""
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) == "byleave" and os.access(program, os.X_OK):
        return [program]
    return [sys.executable, "-P", "-m", "byleave"]


def _kept_flags(given: ParsedArguments) -> Iterator[str]:
    """Yield the flags that an editor is to give too; files are named from the root, wherever it starts us."""
    for name, values in given.options.items():
        flag = f"--{name.replace('_', '-')}"
        if name in _KEPT_FLAGS:
            yield flag
        elif name in _KEPT_VALUES or name in _KEPT_FILES:
            for value in values:
                yield from (flag, os.path.abspath(value) if name in _KEPT_FILES else value)


def _refuse_misuse(given: ParsedArguments) -> None:
    if sys.platform != "linux":
        raise InputError(f"there is no proxy for this system ({sys.platform})", hint="the agents' hooks work here too")
    if not given.rest:
        raise InputError("no agent was named", hint="byleave acp -- AGENT ARGS...")
    if given.one("agent_profile") == "":
        raise InputError("the name of the agent is empty", hint="write --agent-profile NAME, or leave it out")
    if not given.flag("sandbox"):
        for name in _IN_SANDBOX:
            if given.one(name) is not None:
                raise InputError(f"--{name} says what holds in a sandbox, and there is none", hint="add --sandbox")


def _kept(given: ParsedArguments) -> int:
    """Run the agent as it is."""
    agent = SupervisedAgent(given.rest)  # first of all: it forks, and what follows starts threads
    try:
        workspace = open_workspace(given)
        with redirect_stdout(sys.stderr):
            mount_first(given, workspace, own=False)
        with _relay(given, workspace) as relay:
            agent.start()
            return _carry(given, agent, relay)
    finally:
        agent.close()


def _sandboxed(given: ParsedArguments) -> int:
    """Run the agent as `byleave run` would: held by the operating system, also in what it does without asking."""
    refuse_both(given)
    refuse_elsewhere(sys.platform)
    workspace = open_workspace(given)
    _refuse_home(given, workspace)
    by_tool = given.one("tool") is not None
    with redirect_stdout(sys.stderr):
        mount_first(given, workspace, own=not by_tool)
    policy, tool = confining_policy(given, workspace)
    limits = policy.compiled.tools[tool].limits
    mounts = () if by_tool else tuple(own_mounts(given, workspace, policy.compiled))
    options = SandboxOptions(limits=limits, agent=given.one("agent_profile"), mounts=mounts)
    with _relay(given, workspace) as relay, Confinement(workspace, policy, tool, options) as confinement:
        guard = confining_guard(given, workspace, policy)
        since = start_time()
        try:
            errors = PIPE if os.isatty(2) else None  # through a terminal of ours it could read what is typed there
            start = ProgramStart(command=given.rest, stderr=errors)
            process = start_confined(confinement, start, decide=decided_by(guard))
            show_errors(process)
            agent = SandboxedAgent(process)
            warn_of_weaker(given, confinement)
            try:
                return _carry(given, agent, relay, longest=limits.wall_time)
            finally:
                agent.close()
        finally:
            warn(given, [each for each in guard.warnings if each not in policy.warnings])
            warn_of_tampering(given, confinement, since)
            guard.close()


def _refuse_home(given: ParsedArguments, workspace: Workspace) -> None:
    """Refuse to show a whole home as the workspace, unless it is named: editors start agents wherever they like."""
    home = workspace.homes.user
    if given.one("root") is None and home and is_under(real_path(home), workspace.root.path):
        problem = f"the workspace would be {quoted(workspace.root.path)}, with your home in it"
        raise InputError(problem, hint="the sandbox is made before any session: name the workspace with --root DIR")


@contextmanager
def _relay(given: ParsedArguments, workspace: Workspace) -> Iterator[Relay]:
    """Yield the relay that decides about requests; close it where no conversation began."""
    log = _open_log(given)
    session = given.one("session")
    profile = given.one("agent_profile")
    files = tuple(os.path.abspath(file) for file in given.options.get("policy", ()))
    process = process_of(os.getpid())  # as good as the agent's: it ends with this one
    relay = make_relay(
        workspace,
        who=Who(None, "default") if profile is None else Who(profile, "verified"),
        files=files,
        session=session if session is not None else "default",
        fixed=given.one("root") is not None,
        strict=given.flag("strict"),
        sandboxed=given.flag("sandbox"),
        log=None if log is None else log.write,
        confiner=TerminalConfiner(
            workspace.homes,
            agent=profile or "acp",
            profile=profile,
            files=files,
            session=session if session is not None else "default",
            environ=os.environ,
            machine_problem=lambda policy: _machine_problem(policy, workspace, profile or "acp"),
            agent_process=None if process is None else (process.pid, process.started),
        ),
    )
    if given.flag("verbose"):
        say_verbose(given, origins(load_policy(given, workspace)))
    warn_if_read(given, relay.notices())
    try:
        yield relay
    except BaseException:
        relay.close()
        raise
    finally:
        if log is not None:
            log.close()


def _machine_problem(policy: LivePolicy, workspace: Workspace, agent: str) -> str:
    """Return why this machine cannot hold the policy of a session, whose workspace may be another one; "" if it can."""
    return can_confine(policy, Workspace(policy.root.path, homes=workspace.homes), agent) or ""


def _open_log(given: ParsedArguments) -> RequestLog | None:
    file = given.one("log")
    if file is None:
        return None

    return RequestLog(file, lambda sentence: warn_if_read(given, [sentence]))


def _carry(given: ParsedArguments, agent: Agent, relay: Relay, *, longest: float | None = None) -> int:
    proxy = AcpProxy(
        agent,
        relay,
        lambda sentences: warn_if_read(given, sentences),
        longest=longest,
        passes=(relay.passes_from_client, relay.passes_from_agent),
    )
    code = proxy.run()
    problem = proxy.problem if agent.problem is None else str(agent.problem)
    if problem is not None:
        complain(f"byleave: {shown_lines(problem)}")
    return code


class RequestLog:
    """A file that lines are appended to, each in one write, so that several programs may share it.

    What cannot be written is reported once. The audit log is the one that keeps something from being allowed.
    """

    def __init__(self, path: str, report: Callable[[str], None]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            problem = f"the log {quoted(path)} cannot be opened: {(error.strerror or str(error)).lower()}"
            raise InputError(problem, hint="name a file that you may write, in a directory that exists") from None
        self._path = path
        self._report: Callable[[str], None] | None = report

    def write(self, tree: Mapping[str, Any]) -> None:
        """Append one object."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps(speakable({"time": time, **tree}), default=str).encode() + b"\n"
        try:
            os.write(self._descriptor, line)
        except OSError as error:
            if self._report is not None:
                self._report(
                    f"the log {quoted(self._path)} cannot be written: {(error.strerror or str(error)).lower()}"
                )
                self._report = None

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
