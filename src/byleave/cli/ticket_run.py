"""`byleave run --ticket`: run the command that a hook allowed confined, once.

What runs is the text behind the ticket, in the ticket's directory, by the ticket's shell. The text on the command line
is for the eyes of the agent and its user. Beside the command's own output it warns as `byleave run` does: of files that
changed meanwhile and that other programs obey, and of what is not enforced here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import complain
from byleave.cli.workspace import warn_of_tampering, warn_of_weaker
from byleave.errors import ByleaveError, ConfigErrors, InputError, StateError
from byleave.guard.warnings import mask_for
from byleave.launch.agent_session import AgentProcess, AgentSession
from byleave.launch.shell_run import ShellCommand, ShellReports, run_shell
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from byleave.policy.sandbox_settings import shell_layer
from byleave.sandbox.tamper_check import start_time
from byleave.store.tickets import redeem
from byleave.text import quoted, shown_lines

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.live_policy import LivePolicy
    from byleave.store.tickets import Ticket

NOT_STARTED = 125  # as `run` says it: nothing has run
REDEEMED = "redeemed"
_LONGEST_LOOK = 0.25  # seconds for changed files after every command of an agent, which waits for it
_NOT_WITH = ("tool", "access", "mount", "no_mount", "explain", "diagnose", "policy", "session")  # the hook has decided


def run_ticket(given: ParsedArguments) -> int:
    """Redeem the ticket, record that, and run its command; whatever goes wrong before means that nothing runs."""
    if given.one("shell") is None or given.rest or any(given.options.get(name) for name in _NOT_WITH):
        raise InputError("a ticket runs its own command", hint="byleave run --ticket ID --shell TEXT")
    try:
        workspace = _workspace(given)
        ticket = redeem(workspace.homes.workspace(workspace.root.path), str(given.one("ticket")))
        if ticket.root != workspace.root.path:
            raise StateError("the ticket is for another workspace", hint="have the agent run the command again")
        policy = workspace.load(files=ticket.files, session=ticket.store_session, extra=[shell_layer()])
        _record(workspace, policy, ticket)
    except (ByleaveError, ConfigErrors) as error:
        complain(f"byleave: the command was not run: {shown_lines(str(error))}")
        return NOT_STARTED
    command = ShellCommand(
        text=ticket.text,
        cwd=ticket.cwd,
        only_there=True,
        shell=ticket.shell,
        cwd_file=given.one("cwd_file"),
        agent=ticket.profile or ticket.agent,
        session=_session(ticket),
    )
    session, since = ticket.store_session, start_time()
    reports = ShellReports(
        complain,
        started=lambda confinement: warn_of_weaker(given, confinement, session=session),
        ended=lambda confinement: warn_of_tampering(given, confinement, since, session=session, seconds=_LONGEST_LOOK),
    )
    return run_shell(workspace, policy, command, store_session=session, beside=reports)


def _session(ticket: Ticket) -> AgentSession | None:
    """Return the agent's session, whose runs share /tmp and loopback; None if the agent's process is not known."""
    if ticket.agent_process is None:
        return None
    pid, started = ticket.agent_process
    return AgentSession(
        root=ticket.root, agent=ticket.agent, name=ticket.session, process=AgentProcess(pid=pid, started=started)
    )


def _workspace(given: ParsedArguments) -> Workspace:
    home = given.one("home")
    if home is None:
        return Workspace(given.one("root"))
    if not os.path.isabs(home):
        raise InputError(f"--home is not absolute: {quoted(home)}", hint="write the whole path, from / on")
    return Workspace(given.one("root"), homes=find_homes({"HOME": home}))


def _record(workspace: Workspace, policy: LivePolicy, ticket: Ticket) -> None:
    """Record that the confined run begins; what cannot be recorded does not run."""
    log = workspace.audit_log(policy.compiled.settings, mask_for(policy.compiled.policy, os.environ))
    log.append(
        {
            "event": REDEEMED,
            "session": ticket.store_session,
            "door": "run",
            "agent": ticket.profile or ticket.agent,
            "identity": "default",
            "of": ticket.sequence,
            "action": {"kind": "command", "command": ticket.text, "cwd": ticket.cwd},
            "outcome": "started",
        }
    )
    log.close()
