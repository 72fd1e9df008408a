"""`byleave doctor`: does everything work here, and what is really enforced?

Start at `run`. The part about the OS sandbox is `sandbox_findings`: what this machine has, what works, what does not.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave import __version__
from byleave.cli.output import paint, say, say_json, say_verbose, table
from byleave.cli.service_command import service_sentence
from byleave.cli.shared_store import open_records
from byleave.cli.workspace import load_policy, loosened, open_workspace, origins
from byleave.core.access import SHELL_TOOL
from byleave.core.fs_rules import is_under
from byleave.core.net_rules import NetTable
from byleave.core.redact import Redactor
from byleave.errors import ByleaveError, ConfigErrors, SandboxError, StateError
from byleave.guard.warnings import sensitive_reaches
from byleave.hooks.liveness import hook_findings
from byleave.sandbox import host
from byleave.sandbox.host import obstacle_on
from byleave.sandbox.linux.backends import BWRAP, LANDLOCK, NAMESPACES, Machine, choose, make, probe
from byleave.sandbox.linux.steps import SCOPES_SINCE
from byleave.sandbox.native.build import find_launcher
from byleave.sandbox.plan.closed_files import MOST_COVERED, closed_for_reading, count_closed, too_many, too_much
from byleave.sandbox.plan.plan import SandboxPlan
from byleave.service.client import service_status
from byleave.store.tickets import agents_with_ended_confining
from byleave.text import quoted, sentence_list, shown, shown_lines
from byleave.user_files import refuse_detours, refuse_shared
from byleave.workspace.grep import find_ripgrep
from byleave.workspace.openat import openat2, works

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace


GOOD, NOTE, BAD = "ok", "note", "bad"
_MANY_CLOSED = 500  # files that a sandbox covers: about half a second more for every start


class DoctorFinding(Struct, frozen=True):
    """One thing the doctor looked at."""

    state: str
    what: str
    text: str

    @property
    def tree(self) -> dict[str, str]:
        """The same for programs."""
        return {"state": self.state, "what": self.what, "text": self.text}


WHAT = "OS sandbox"
_HELP = {
    "namespaces": "a container may need --security-opt or --privileged; on Ubuntu see "
    "kernel.apparmor_restrict_unprivileged_userns, elsewhere user.max_user_namespaces",
}


def sandbox_findings(workspace: Workspace, policy: LivePolicy | None) -> Iterator[DoctorFinding]:
    """Yield what the doctor finds about the sandbox on this machine."""
    obstacle = obstacle_on(sys.platform)
    if obstacle is not None:
        yield DoctorFinding(NOTE, WHAT, obstacle)
        return

    found = host.this_host(namespaces=True)
    yield DoctorFinding(GOOD, "kernel", f"Linux {shown(os.uname().release)} on {shown(found.machine)}")
    yield _landlock(found.landlock)
    try:
        launcher = find_launcher(workspace.homes.memory)
    except ByleaveError as error:
        yield DoctorFinding(BAD, "launcher", f"{error.problem}; {error.hint}")
        return
    yield DoctorFinding(GOOD, "launcher", f"{launcher.origin}: {shown(launcher.path)}")
    machine = Machine(found, host.base_view(), launcher)
    yield from _backends(machine)
    yield _enforced(machine, policy)


def _landlock(version: int) -> DoctorFinding:
    if not version:
        return DoctorFinding(
            NOTE, "Landlock", "this kernel has none: creating, changing and removing are not distinguished"
        )
    if version < SCOPES_SINCE:
        return DoctorFinding(
            NOTE, "Landlock", f"version {version}; from {SCOPES_SINCE} on it also holds signals and sockets"
        )
    return DoctorFinding(GOOD, "Landlock", f"version {version}")


def _backends(machine: Machine) -> Iterator[DoctorFinding]:
    """Yield whether each backend works; one that is not needed is no reason to worry."""
    works = {name: probe(name, machine) for name in (NAMESPACES, BWRAP, LANDLOCK)}
    needed = True
    for name, what in ((NAMESPACES, "namespaces"), (BWRAP, "bwrap"), (LANDLOCK, "Landlock alone")):
        found = works[name]
        if found.works:
            yield DoctorFinding(GOOD, what, "works" if needed else "works, and is not needed")
            needed = False
        else:
            state = NOTE if needed else GOOD
            hint = f"; {_HELP[name]}" if needed and name in _HELP else ""
            yield DoctorFinding(state, what, f"{found.why}{hint}" if needed else f"not needed ({found.why})")


def _enforced(machine: Machine, policy: LivePolicy | None) -> DoctorFinding:
    """Say by what `byleave run` would hold a program of the default policy, and what of it is not held."""
    required = requires_sandbox(policy)
    held = held_by(machine, exact=required)
    if not held.backend:
        return DoctorFinding(BAD if required else NOTE, WHAT, f"`byleave run` refuses to run anything: {held.weaker}")
    if held.backend == NAMESPACES:
        return DoctorFinding(GOOD, WHAT, "namespaces, Landlock and a filter of system calls hold every program")
    unneeded = f"{held.backend} holds every program, as namespaces of our own do not work"
    return DoctorFinding(NOTE, WHAT, held.weaker or unneeded)


class HeldBy(Struct, frozen=True):
    """Which backend holds programs here, and what it does not hold; without a backend, why none does."""

    backend: str
    weaker: str = ""


def requires_sandbox(policy: LivePolicy | None) -> bool:
    """Whether nothing may run that the kernel does not hold exactly."""
    settings = {} if policy is None else policy.compiled.settings
    return bool(settings.get("defaults", {}).get("os_sandbox") == "require")


def held_by(machine: Machine, *, exact: bool) -> HeldBy:
    """Find out by what a program of the default policy would be held."""
    plan = SandboxPlan("/", machine.base.places, machine.base.links)
    try:
        backend = choose(plan, machine, exact=exact)
    except SandboxError as error:
        return HeldBy("", error.problem)
    return HeldBy(backend, "" if backend == NAMESPACES else make(backend, plan, machine).weaker or "")


_PAINTS = {GOOD: "allow", NOTE: "ask", BAD: "deny"}


def run(given: ParsedArguments) -> int:
    """Show every finding; exit 1 if one is bad."""
    service = service_status()
    found = _findings(given, service)
    findings = [finding for finding in found if finding.state != GOOD or not given.flag("quiet")]
    if given.flag("json"):
        say_json({"findings": [finding.tree for finding in findings], "service": service})
    else:
        rows = [(f"{finding.state:<4}", finding.what, shown_lines(finding.text)) for finding in findings]
        for finding, lines in zip(findings, table(rows), strict=True):
            say("\n".join([paint(lines[0][:4], _PAINTS[finding.state]) + lines[0][4:], *lines[1:]]))
    return int(any(finding.state == BAD for finding in findings))


def _findings(given: ParsedArguments, service: dict[str, Any]) -> Iterator[DoctorFinding]:
    yield DoctorFinding(GOOD, "byleave", f"{__version__}, Python {sys.version.split()[0]}, {sys.platform}")
    try:
        workspace = open_workspace(given)
    except ByleaveError as error:
        yield DoctorFinding(BAD, "workspace", str(error))
        return
    yield DoctorFinding(GOOD, "workspace", shown(workspace.root.path))
    yield from _state(workspace)
    policy = _load(given, workspace)
    yield from _policy(given, workspace, policy)
    yield _audit(workspace)
    yield from _store(given, workspace)
    yield _opening()
    yield from _hooks(workspace)
    yield from own_code(workspace)
    yield from _unconfined(workspace)
    yield _service(service)
    yield _search(workspace, () if isinstance(policy, Exception) else policy.compiled.settings["sandbox"]["write"])
    yield from sandbox_findings(workspace, None if isinstance(policy, Exception) else policy)


def _state(workspace: Workspace) -> Iterator[DoctorFinding]:
    for what, path in (("configuration", workspace.homes.config), ("state", workspace.homes.state)):
        try:
            if path == workspace.homes.state:
                refuse_detours(path)
                _refuse_unwritable(path)
            refuse_shared(path, os.stat(path))
            yield DoctorFinding(GOOD, what, shown(path))
        except FileNotFoundError:
            yield DoctorFinding(GOOD, what, f"{shown(path)} (not there yet)")
        except OSError as error:
            yield DoctorFinding(BAD, what, f"{shown(path)}: {error.strerror}")
        except ByleaveError as error:
            yield DoctorFinding(BAD, what, f"{error.problem}; {error.hint}")


def _refuse_unwritable(path: str) -> None:
    """Refuse a directory in which nothing can be written, or that cannot be made."""
    place = path
    while not os.path.lexists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    if not os.access(place, os.W_OK | os.X_OK):
        problem = f"{quoted(place)} cannot be written, and nothing is allowed that cannot be recorded"
        raise StateError(problem, hint="set BYLEAVE_HOME to a directory of yours")


def _load(given: ParsedArguments, workspace: Workspace) -> LivePolicy | ByleaveError | ConfigErrors:
    try:
        return load_policy(given, workspace)
    except (ByleaveError, ConfigErrors) as error:
        return error


def _policy(
    given: ParsedArguments, workspace: Workspace, policy: LivePolicy | ByleaveError | ConfigErrors
) -> Iterator[DoctorFinding]:
    if isinstance(policy, Exception):
        yield DoctorFinding(BAD, "policy", str(policy).replace("\n", "\n" + " " * 4))
        return
    say_verbose(given, origins(policy))
    compiled = policy.compiled
    layers = ", ".join(f"{shown(layer.file or '')} ({layer.name})" for layer in compiled.layers)
    number = len(compiled.tools)
    if layers:
        yield DoctorFinding(GOOD, "policy", f"{number} {'tool' if number == 1 else 'tools'} from {layers}")
    else:
        yield DoctorFinding(NOTE, "policy", "no configuration was found; `byleave setup` writes one")
    yield DoctorFinding(GOOD, "commands of agents", _commands(policy))
    yield from (DoctorFinding(NOTE, "decisions", sentence) for sentence in loosened(compiled))
    for warning in compiled.warnings:
        yield DoctorFinding(NOTE, "policy", warning)
    yield from _mistakes(given, workspace)
    yield from _sensitive(workspace, policy)
    yield from _closed(workspace, policy)


def _mistakes(given: ParsedArguments, workspace: Workspace) -> Iterator[DoctorFinding]:
    """Count what lint proves without trying command lines and without a walk through the workspace."""
    from byleave.analysis.findings import WARNING, is_at_least
    from byleave.analysis.lint import lint, surroundings
    from byleave.cli.policy_lint_command import summary

    try:
        written = workspace.load_as_written(
            files=given.options.get("policy", ()), session=given.one("session") or "default"
        )
    except (ByleaveError, ConfigErrors) as error:
        problem = shown(str(error).split("\n", 1)[0])
        yield DoctorFinding(NOTE, "rules", f"`byleave policy lint` cannot read them as they are written: {problem}")
        return
    found = lint(written, surroundings(workspace, written, disk=False, tries=False))
    grave = [finding for finding in found if is_at_least(finding, WARNING)]
    if grave:
        text = f"at least {summary(grave)} in what is written; `byleave policy lint` names them"
        yield DoctorFinding(NOTE, "rules", text)


def _closed(workspace: Workspace, policy: LivePolicy) -> Iterator[DoctorFinding]:
    """Say how many files rules close, where there are too many of them to cover, or so many that it takes time."""
    root = workspace.root.path
    closed = closed_for_reading(policy.compiled.policy, root)
    if not closed:
        return
    counts, found = count_closed(root, closed, root, root)
    total = len(found.places)
    if total > MOST_COVERED:
        problem, hint = too_many(counts, complete=found.complete)
        yield DoctorFinding(BAD, "closed files", f"nothing can run confined: {problem}; {hint}")
    elif not found.complete:
        error = too_much(root, closed, found, root, root)
        yield DoctorFinding(BAD, "closed files", f"nothing can run confined: {error.problem}; {error.hint}")
    elif total > _MANY_CLOSED:
        by_pattern = sentence_list([f"{shown(each.pattern)} matches {each.number}" for each in counts], most=3)
        text = f"{total} files are covered one by one, so that every confined run starts later: {by_pattern}"
        yield DoctorFinding(NOTE, "closed files", text)


def _commands(policy: LivePolicy) -> str:
    """Say how the commands of agents run, and what they reach of the network where they run confined."""
    confine = policy.compiled.policy.shell
    if confine is None:
        return "they run as the agent runs them: there is no [shell] table"
    table = policy.compiled.policy.tool(SHELL_TOOL).access.net
    hosts = sorted({rule.host for rule in table.rules if rule.allow}) if isinstance(table, NetTable) else []
    reached = f"the network only as far as {shown(sentence_list(hosts))}" if hosts else "no network"
    return f"[shell] confine = {confine}: a confined one has the workspace, and {reached}"


def _sensitive(workspace: Workspace, policy: LivePolicy) -> Iterator[DoctorFinding]:
    reaches = sensitive_reaches(policy, workspace.sensitive(policy.compiled))
    if not reaches:
        yield DoctorFinding(GOOD, "sensitive places", "no tool reaches one at the top of the workspace or of a mount")
    for reach in reaches:
        yield DoctorFinding(NOTE, "sensitive places", reach.sentence)


def _audit(workspace: Workspace) -> DoctorFinding:
    log = workspace.audit_log(None, Redactor())
    try:
        doubts = log.doubts()
        number = log.head().sequence
    except ByleaveError as error:
        return DoctorFinding(BAD, "audit log", f"{error.problem}; {error.hint}")
    finally:
        log.close()
    if doubts:
        text = f"{'; '.join(shown(each) for each in doubts[:3])}. Run `byleave audit verify`"
        return DoctorFinding(BAD, "audit log", text)
    if log.warnings:
        return DoctorFinding(NOTE, "audit log", "; ".join(log.warnings))
    text = f"{number} records, the first and the last are intact; `byleave audit verify` checks all of them"
    if not number:
        text = "empty: no decision was recorded yet"
    return DoctorFinding(GOOD, "audit log", text)


def _store(given: ParsedArguments, workspace: Workspace) -> Iterator[DoctorFinding]:
    """Say whether the store that gateways share can be read, if there is one."""
    try:
        records = open_records(given, workspace)
        try:
            if not records.may_begin_anew:
                number = records.head().sequence
                yield DoctorFinding(GOOD, "shared store", f"{records.directory} answers; its last record is {number}")
                for waiting in records.warnings:
                    yield DoctorFinding(NOTE, "shared store", waiting)
        finally:
            records.close()
    except ByleaveError as error:
        yield DoctorFinding(BAD, "shared store", f"{error.problem}; {error.hint}")


def _hooks(workspace: Workspace) -> Iterator[DoctorFinding]:
    """Say of each agent with hooks whether it asks byleave, and what is to be done if it does not."""
    home = workspace.homes.user
    path = os.environ.get("PATH", "")
    for found in hook_findings(home, workspace.homes.state, workspace.root.path, path) if home else ():
        yield DoctorFinding(found.state, found.title, found.text)


def own_code(workspace: Workspace) -> Iterator[DoctorFinding]:
    """Say that byleave's own files are part of the workspace: they are kept from writing, but a new `.pth` is not."""
    if is_under(os.path.abspath(sys.prefix), workspace.root.path):
        text = "byleave is installed inside this workspace: install it elsewhere, with `pipx` or `uv tool`"
        if workspace.root.path == workspace.homes.user:
            text = "this is your home directory, and byleave is installed in it: run byleave in a project"
        yield DoctorFinding(NOTE, "installation", text)


def _unconfined(workspace: Workspace) -> Iterator[DoctorFinding]:
    """Say whose commands are not confined any more, because one of them ran without its confinement."""
    for agent, why in agents_with_ended_confining(workspace.homes.workspace(workspace.root.path)):
        way = f"look at it, then run `byleave hook --resume {agent}`"
        yield DoctorFinding(BAD, "confined commands", f"{agent} is not confined any more, because {shown(why)}: {way}")


def _service(state: dict[str, Any]) -> DoctorFinding:
    """Say whether the service runs, and what it has done; without it everything works, only slower."""
    text = "switched off by BYLEAVE_SERVICE" if os.environ.get("BYLEAVE_SERVICE") == "off" else service_sentence(state)
    return DoctorFinding(GOOD, "service", text)


def _search(workspace: Workspace, written: Sequence[str]) -> DoctorFinding:
    program = find_ripgrep(workspace.root.path, *written)
    if program is not None:
        return DoctorFinding(GOOD, "search for tools", f"ripgrep ({shown(program)})")
    text = "byleave's own; ripgrep 13 or newer, outside of the workspace, is faster and knows letters of every script"
    return DoctorFinding(GOOD, "search for tools", text)


def _opening() -> DoctorFinding:
    if works(openat2):
        return DoctorFinding(GOOD, "race-free opening", "openat2")
    return DoctorFinding(NOTE, "race-free opening", "a walk with O_NOFOLLOW: this kernel has no openat2")
