"""`byleave mount`: let tools reach a place outside the workspace, through a link in it; and list such places.

`--mount` and `--no-mount` do the same as `mount` and `unmount`, on commands that start something.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import columns, say, say_json, say_verbose, warn
from byleave.cli.terminal import YES, ask_person, consents, may_ask, record_answers, requires_person
from byleave.cli.unmount_command import unmount_named
from byleave.cli.workspace import load_policy, open_workspace, working_directory
from byleave.core.fs_rules import WRITES, RefusedPath
from byleave.errors import InputError, MountError, StateError
from byleave.guard.warnings import sensitive_in
from byleave.mounts.apply import mount
from byleave.mounts.journal import recover
from byleave.mounts.plan import MountRequest, plan_mounts, refuse_mount_name, refuse_target
from byleave.mounts.review import UNAPPROVED, mounts_of, settle, waiting
from byleave.mounts.spec import CAPABILITIES, parse_spec
from byleave.sandbox.plan.plan import Brought
from byleave.store.approvals import now
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.cli.arguments import ParsedArguments
    from byleave.mounts.plan import MountPlan, MountPlans
    from byleave.mounts.review import MountListing
    from byleave.policy.compile import Compiled
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.workspace.resolve import Root


REFUSED = 1


def run(given: ParsedArguments) -> int:
    """List the mounts, say what a mount would do, or do it."""
    spec = given.words.get("SPEC")
    listing = given.flag("list")
    if listing == (spec is not None):
        hint = "byleave mount NAME=PATH, or byleave mount --list"
        raise InputError("mount takes a SPEC, or --list, and not both", hint=hint)
    if listing and given.flag("dry_run"):
        raise InputError("--list changes nothing anyway", hint="leave --dry-run out")
    workspace = open_workspace(given)
    say_verbose(given, [f"the workspace is {workspace.root.path}"])
    return _list(given, workspace) if spec is None else _mount(given, workspace, spec)


def mount_specs(given: ParsedArguments, workspace: Workspace, specs: tuple[str, ...]) -> None:
    """Mount before something is started; a MountError unless all of it was agreed to. Says nothing where it worked."""
    planned, _request = _plan(given, workspace, specs)
    if not _agrees(given, workspace, planned):
        raise MountError("the mount was not agreed to", hint="nothing was changed", code="needs_confirmation")
    done = mount(workspace, planned, now=now())
    record_answers(given, workspace, [_recorded(plan) for plan in done.plans if plan.changes])


def _plan(given: ParsedArguments, workspace: Workspace, specs: tuple[str, ...]) -> tuple[MountPlans, MountRequest]:
    session = given.one("session")
    request = MountRequest(
        specs=specs,
        cwd=working_directory(),
        session=session if session is not None else "default",
        files=tuple(given.options.get("policy", ())),
    )
    recover(workspace)
    planned = plan_mounts(workspace, request)
    warn(given, dict.fromkeys(workspace.approvals.warnings))
    return planned, request


def _mount(given: ParsedArguments, workspace: Workspace, spec: str) -> int:
    planned, request = _plan(given, workspace, (spec,))
    if given.flag("dry_run"):
        warn(given, _cautions(workspace, planned))
        _print_plans(given, planned)
        return 0
    if not _agrees(given, workspace, planned):
        return _refused(given, planned)
    done = mount(workspace, planned, now=now())
    record_answers(given, workspace, [_recorded(plan) for plan in done.plans if plan.changes])
    for plan in done.plans:
        if given.flag("json"):
            say_json({**plan.tree(), "changed": plan.changes})
        elif not given.flag("quiet"):
            say(_done(plan, request.session))
    return 0


def _agrees(given: ParsedArguments, workspace: Workspace, planned: MountPlans) -> bool:
    """Have a person agree: naming one tool is its own confirmation, all of them are listed and asked about."""
    if not any(plan.changes for plan in planned.plans):
        return True
    cautions = list(_cautions(workspace, planned))
    effects = [line for plan in planned.plans for line in _effects(plan)]
    warn(given, cautions)
    try:
        if all(plan.spec.tool is not None for plan in planned.plans):
            requires_person(given)
            return True
        if not any(given.flag(flag) for flag in ("quiet", "json", "yes")):
            for line in effects:
                say(line)
        return consents(given, "Mount it for these tools?", about=[*effects, *cautions])
    except StateError as error:
        if given.flag("yes"):  # started by an agent or tool, whose --yes does not count
            raise
        raise MountError(error.problem, hint=error.hint, code="needs_confirmation") from None


def _refused(given: ParsedArguments, planned: MountPlans) -> int:
    if given.flag("json"):
        for plan in planned.plans:
            say_json({**plan.tree(), "changed": False})
    elif not given.flag("quiet"):
        say("nothing was changed")
    return REFUSED


def _print_plans(given: ParsedArguments, planned: MountPlans) -> None:
    for plan in planned.plans:
        if given.flag("json"):
            say_json(plan.tree())
            continue
        for line in _effects(plan):
            say(line)
        for tool, rules in plan.rules.items():
            for rule in rules:
                say(f"would add for {shown(tool)}: {_words(rule)}")
        if not plan.changes:
            say("nothing would change")


def _effects(plan: MountPlan) -> Iterator[str]:
    """Yield what the mount means: where it leads, and what each tool may do there."""
    yield f"{shown(plan.rule_path)} -> {shown(plan.target)}"
    given = ", ".join(CAPABILITIES[plan.spec.mode])
    yield from columns([(shown(tool), given) for tool in plan.tools])


def _done(plan: MountPlan, session: str) -> str:
    where = f"{shown(plan.rule_path)} -> {shown(plan.target)}"
    given = ", ".join(CAPABILITIES[plan.spec.mode])
    if not plan.changes:
        return f"{where} is mounted already ({given}: {', '.join(shown(tool) for tool in plan.tools)})"
    tools = ", ".join(shown(tool) for tool in plan.tools)
    return f"mounted {where} in session {session} ({given}: {tools})"


def _recorded(plan: MountPlan) -> str:
    """Return what a record says of a mount: not where it leads."""
    return f"{plan.rule_path}:{plan.spec.mode} for {', '.join(plan.tools)}"


def _cautions(workspace: Workspace, planned: MountPlans) -> Iterator[str]:
    """Yield what the user needs to know before consenting: secrets within reach, and tools that are left out."""
    yield from _sensitive(workspace, planned)
    for plan in planned.plans:
        for tool in plan.closes:
            yield f"{shown(tool)} was asked about every file so far; from now on all others are denied"
        for tool in plan.left_out:
            yield f"{shown(tool)} is left out: its rules are in the older `sandbox` form"


def _sensitive(workspace: Workspace, planned: MountPlans) -> Iterator[str]:
    request = planned.request
    known = workspace.sensitive(workspace.load(files=request.files, session=request.session).compiled)
    for plan in planned.plans:
        for entry, name in dict(sensitive_in(plan.target, known)).items():
            place = os.path.join(plan.rule_path, name).rstrip("/")
            yield f"{sentence_list(plan.tools)} will reach {shown(place)}, a sensitive place ({shown(entry)})"


def _words(rule: dict[str, object]) -> str:
    flags = [name for name, value in rule.items() if value is True]
    return f"{quoted(str(rule['path']))} {', '.join(flags)}"


def _list(given: ParsedArguments, workspace: Workspace) -> int:
    try:
        recover(workspace)
    except StateError as error:
        warn(given, [f"{error.problem}; {error.hint}"])
    policy = load_policy(given, workspace)
    warn(given, dict.fromkeys(workspace.approvals.warnings))
    found = mounts_of(policy.compiled)
    if given.flag("json"):
        say_json([each.tree() for each in found])
        return 0
    rows = [("name", "target", "tools", "state"), *(_row(workspace, each) for each in found)]
    for line in columns(rows, indent="") if found else ["nothing is mounted in this session"]:
        say(line)
    return 0


def _row(workspace: Workspace, each: MountListing) -> tuple[str, str, str, str]:
    tools = "; ".join(f"{shown(tool)}: {', '.join(given) or 'nothing'}" for tool, given in each.tools.items())
    state = each.state
    known = workspace.approvals.mount_target(each.name)
    if state == UNAPPROVED and known is not None:
        state = f"{state} (was {shown(known)})"
    return shown(each.name), "-" if each.target is None else shown(each.target), tools, state


def mount_first(given: ParsedArguments, workspace: Workspace, *, own: bool) -> LivePolicy | None:
    """Change the session's mounts as the flags say, with the consent that `mount` and `unmount` ask for.

    With `own`, --mount is not the session's business: it holds for this run. Return the policy, if it was loaded and
    holds still.
    """
    if "no_mount" in given.options:
        for name in dict.fromkeys(given.options["no_mount"]):
            unmount_named(given, workspace, name or None)
    if "mount" in given.options and not own:
        mount_specs(given, workspace, tuple(given.options["mount"]))
    return None if own else _review(given, workspace)


def _review(given: ParsedArguments, workspace: Workspace) -> LivePolicy | None:
    """Ask for approval of links out of the workspace that have none yet, if there is a terminal.

    Return the policy unless there was something to approve.
    """
    policy = load_policy(given, workspace)
    bindings = waiting(policy.compiled, workspace.approvals)
    if not bindings or not may_ask(given):
        return policy

    def ask(lines: list[str], question: str) -> bool:
        text = "".join(f"{line}\n" for line in lines)
        return (ask_person(f"{text}{question} [y/N] ") or "").lower() in YES

    settle(workspace, bindings, ask, now=now())
    return None


def own_mounts(given: ParsedArguments, workspace: Workspace, compiled: Compiled) -> list[Brought]:
    """Return the mounts that hold for this run; a MountError for one that `byleave mount` would refuse as well."""
    return [_own(spec, workspace, compiled) for spec in given.options.get("mount", ())]


def _own(text: str, workspace: Workspace, compiled: Compiled) -> Brought:
    left = text.partition("=")[0]
    spec = parse_spec(text if ":" in left else f"run:{text}")  # it is for this run alone, so it may be written to
    name = _name(spec.name, workspace.root)
    refuse_mount_name(workspace, compiled, spec.name, name)
    target = os.path.realpath(os.path.join(working_directory(), os.path.expanduser(spec.path)))
    if not os.path.lexists(target):
        raise MountError(f"{quoted(spec.path)} does not exist", hint="create it first", code="missing_target")
    given = frozenset(CAPABILITIES[spec.mode])
    refuse_target(workspace, compiled, spec.path, target, writes=not given.isdisjoint(WRITES))
    place = os.path.join(workspace.root.path, name)
    if os.path.lexists(place) and not (os.path.islink(place) and os.path.realpath(place) == target):
        raise MountError(f"{quoted(spec.name)} exists already", hint="choose another name", code="not_a_symlink")
    return Brought(place, target, given)


def _name(written: str, root: Root) -> str:
    """Return where in the workspace a name stands, the directories above it being canonical."""
    path = os.path.normpath(os.path.join(working_directory(), written))
    if not path.startswith(f"{root.path}/"):
        path = os.path.normpath(os.path.join(root.path, written))
    above, last = os.path.split(path)
    parent = root.resolve_place(above, "/")
    if not path.startswith(f"{root.path}/") or isinstance(parent, RefusedPath) or parent.relative is None:
        hint = "name a place in the workspace"
        raise MountError(f"{quoted(written)} lies outside the workspace", hint=hint, code="outside_workspace")
    return os.path.join(parent.relative, last)
