"""Mount what was planned: directories, links, the session's rules and the approvals, whole or not at all.

What a plan changes, thing by thing and in order: in the workspace, in the session's file, in the approvals.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.decision import ALLOW
from byleave.core.fs_rules import CAPABILITIES as ALL
from byleave.core.fs_rules import FsTarget
from byleave.errors import ConfigErrors, MountError
from byleave.mounts.journal import APPROVAL, FILE, LINK, JournalChange, MountJournal, made_directory
from byleave.mounts.plan import plan_mounts
from byleave.mounts.session_layer import text_of, with_session
from byleave.mounts.spec import CAPABILITIES
from byleave.policy.dirs import real_path
from byleave.store.approvals import REVOKED, Approvals
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from byleave.mounts.plan import MountPlan, MountPlans, MountRequest
    from byleave.mounts.session_layer import SessionFile
    from byleave.policy.compile import Compiled
    from byleave.policy.layers import Layer
    from byleave.policy.load import Workspace


def changes_of(planned: MountPlans) -> Iterator[JournalChange]:
    """Yield what has to change in the workspace, in order. It grants nothing that was not granted before."""
    for plan in planned.plans:
        yield from (made_directory(directory) for directory in plan.directories)
        if plan.link is not None:
            yield JournalChange(LINK, plan.rule_path, None, plan.link)


def grants_of(workspace: Workspace, planned: MountPlans, *, now: str) -> Iterator[JournalChange]:
    """Yield what has to change for the grants to hold: the approval last, because a rule without one grants nothing."""
    yield from session_changes(planned.file, planned.tree)
    for plan in planned.plans:
        if not plan.approved:
            yield approval_change(workspace, plan.rule_path, plan.target, now=now)


def session_changes(file: SessionFile, tree: dict[str, Any]) -> Iterator[JournalChange]:
    """Yield what makes the session's file say what the tree does."""
    if tree == file.tree:
        return
    missing, directory = [], os.path.dirname(file.path)
    while not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    yield from (made_directory(path, private=True) for path in reversed(missing))
    yield JournalChange(FILE, real_path(file.path), file.content, text_of(tree))


def approval_change(workspace: Workspace, rule_path: str, target: str | None, *, now: str) -> JournalChange:
    """Return the change of the agreement about a path: to a target, or to none."""
    known = {path: (target, at) for path, target, at in workspace.approvals.mounts()}
    before, at = known.get(rule_path, (None, ""))
    taken = [one for one in workspace.approvals.all() if (one.kind, one.status) == ("mount", REVOKED)]
    revoked = [
        (one.detail["canonical_target"], one.created, now) for one in taken if one.detail["rule_path"] == rule_path
    ]
    return JournalChange(
        APPROVAL, rule_path, before, target, (at, now), revoked[0] if revoked and before is None else ()
    )


_LOOK = "`byleave policy show` lists the rules, and the layers they stand in"


def mount(workspace: Workspace, agreed: MountPlans, *, now: str) -> MountPlans:
    """Do what the user agreed to, and return what was done, which may be less: another process may have done a part.

    If it would be anything else by now, or anything at all where nothing was to change, nothing is done.
    """
    request = agreed.request
    with MountJournal(workspace) as journal:
        planned = plan_mounts(workspace, request)
        for plan, known in zip(planned.plans, agreed.plans, strict=True):
            if plan.consent != known.consent or (plan.changes and not known.changes):
                raise MountError("something changed meanwhile", hint="look at it again", code="changed")
        before = {files: workspace.load(files=files, session=request.session).compiled for files in _views(request)}
        journal.carry_out(
            list(changes_of(planned)),
            granting=list(grants_of(workspace, planned, now=now)),
            verify=lambda: _verify(workspace, planned, before),
        )
    return planned


class _Foreseen(Approvals):
    """The approvals as they will be."""

    def foresee(self, planned: MountPlans) -> None:
        self._foreseen = {plan.rule_path: plan.target for plan in planned.plans}

    def approves_mount(self, rule_path: str, target: str) -> bool:
        if rule_path in self._foreseen:
            return self._foreseen[rule_path] == target
        return super().approves_mount(rule_path, target)


def _views(request: MountRequest) -> list[tuple[str, ...]]:
    """Return the files with which the session is heard: those that were named, and those that are found."""
    return list(dict.fromkeys([request.files, ()]))


def _verify(workspace: Workspace, planned: MountPlans, before: dict[tuple[str, ...], Compiled]) -> None:
    """Compile the policy as the next command will find it, and see that every mount is what it was said to be."""
    for plan in planned.plans:
        place = workspace.root.resolve_rule(plan.rule_path)
        if not isinstance(place, FsTarget) or (place.canonical, place.door) != (plan.target, plan.rule_path):
            problem = f"{quoted(plan.rule_path)} does not lead to {quoted(plan.target)}"
            raise MountError(problem, hint="look at it, then try again", code="changed")
    last = {(plan.rule_path, tool): plan for plan in planned.plans for tool in plan.tools}
    for files, known in before.items():
        compiled = _foresee(workspace, planned, files)
        for (_path, tool), plan in last.items():
            for why in _wrong(workspace, compiled, plan, tool):
                raise MountError(f"nothing was mounted, because {why}", hint=_LOOK, code="no_effect")
        for why in _lost(workspace, known, compiled, last):
            hint = "give it the same mode as there, or unmount that first"
            raise MountError(f"nothing was mounted, because {why}", hint=hint, code="takes_away")


def _foresee(workspace: Workspace, planned: MountPlans, files: tuple[str, ...]) -> Compiled:
    """Return the policy as it will be when the session has its rules and the targets are approved."""
    from copy import copy

    request = planned.request
    source = workspace.files.again(None)
    found = source.given(list(files), request.session, base=request.cwd) if files else source.discover(request.session)
    layers: Sequence[Layer] = list(found)
    if planned.tree != planned.file.tree:
        layers = with_session(layers, planned.file, planned.tree)
    approvals = _Foreseen(workspace.homes.workspace(workspace.root.path), workspace.memory)
    approvals.foresee(planned)
    later = copy(workspace)
    later.approvals = approvals
    try:
        return later.compile(list(layers))
    except ConfigErrors as errors:
        reasons = "; ".join(str(error).partition("\n")[0] for error in errors.exceptions)
        problem = f"nothing was mounted, because with the link there, the configuration cannot be used: {reasons}"
        raise MountError(problem, hint="choose another name, or mend that rule first", code="breaks_rules") from None


def _wrong(workspace: Workspace, compiled: Compiled, plan: MountPlan, tool: str) -> Iterator[str]:
    """Yield what a tool would not be given, and what it would be given without being asked for."""
    place = workspace.root.resolve_rule(plan.rule_path)
    typed = CAPABILITIES[plan.spec.mode]
    for capability in ALL:
        rule = _withheld(compiled, tool, place, capability)
        if capability in typed and rule is not None:
            yield f"{shown(tool)} could not {capability} {shown(plan.rule_path)}: {shown(rule)}"
        if capability not in typed and rule is None:
            rules = [one for one in compiled.externals if (one.tool, one.rule.path) == (tool, plan.rule_path)]
            where = sentence_list(
                list(dict.fromkeys(one.rule.source for one in rules if getattr(one.rule, capability)))
            )
            yield f"{shown(tool)} could also {capability} {shown(plan.rule_path)}, whatever the mode: {where} says so"


def _lost(
    workspace: Workspace, before: Compiled, after: Compiled, mounted: dict[tuple[str, str], MountPlan]
) -> Iterator[str]:
    """Yield what the mounts there are would give no longer, at their place or somewhere below it."""
    for external in before.externals:
        tool, path = external.tool, external.rule.path
        if external.rule.approved_target is None or (path, tool) in mounted:
            continue
        place = workspace.root.resolve_rule(path)
        for capability in ALL:
            for below in (None, capability):
                held = _withheld(before, tool, place, capability, below=below) is None
                rule = _withheld(after, tool, place, capability, below=below)
                if held and rule is not None:
                    where = "at" if below is None else "somewhere below"
                    yield f"{shown(tool)} would lose {capability} {where} {shown(path)}: {shown(rule)}"


def _withheld(compiled: Compiled, tool: str, place: object, capability: str, *, below: str | None = None) -> str | None:
    """Return the rule that keeps a tool from a capability at a place, None if nothing does."""
    if not isinstance(place, FsTarget):
        return "it cannot be resolved"
    for layer in compiled.policy.views:
        if tool not in layer.tools:
            continue
        answer = layer.tools[tool].access.decide_file(place, capability, below=below)
        written = answer.rule is not None and not answer.rule.grants(capability)
        if answer.decision is not ALLOW and (written or not layer.denies_only):
            return "no rule covers it" if answer.rule is None else f"{answer.rule.text} ({answer.rule.source})"
    return None
