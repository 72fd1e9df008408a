"""Mount what was planned, and take mounts away: directories, links, the session's rules and the approvals, all or none.

A plan is turned into changes, one for each thing and in order: in the workspace, in the session's file, in the
approvals. The journal makes them.

Unmounting (`plan_unmount`, then `unmount`) removes the session's rules, the links that still lead where they were
approved to, and the approvals. The tools' other file rules are written into the session as they are now, instead of
those of weaker layers: rules of a weaker layer cannot be taken away one by one, rules of stronger layers not at all.
"""

from __future__ import annotations

import os
from copy import copy
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.decision import ALLOW
from byleave.core.fs_rules import CAPABILITIES as ALL
from byleave.core.fs_rules import FsTarget, is_under
from byleave.core.paths import collapse
from byleave.errors import ByleaveError, ConfigErrors, InputError, MountError
from byleave.mounts.journal import APPROVAL, FILE, LINK, JournalChange, MountJournal, made_directory
from byleave.mounts.plan import plan_mounts, policy_file_error, refuse_untrusted
from byleave.mounts.session_layer import read_session, sessions_directory, text_of, with_fs_rules, with_session
from byleave.mounts.spec import CAPABILITIES, name_inside, named_rule, rule_path_of
from byleave.policy.dirs import check_session_name, real_path
from byleave.policy.layers import COMMAND_LINE, MANAGED, SESSION
from byleave.policy.normalize import NOTHING, Item, compose, patch
from byleave.store.approvals import PENDING, REVOKED, Approvals
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


_STRONGER = (COMMAND_LINE, MANAGED)
_CLOSED = ({"path": "."},)  # an empty list would be no list at all, and open the workspace again


class Unmount(Struct, frozen=True):
    """One mount that goes. `why` says what keeps its link, or its rules, where they are; `stays`: a rule does."""

    name: str
    tools: tuple[str, ...]
    link: str | None  # the text of the link that is removed, None if it is kept
    why: str | None
    forgets: bool
    stays: bool

    def tree(self) -> dict[str, Any]:
        """Return it as programs read it."""
        why = {} if self.why is None else {"why": self.why}
        link = "kept" if self.link is None else "removed"
        return {"name": self.name, "link": link, **why, "tools": list(self.tools)}


class Unmounts(Struct, frozen=True):
    """All the mounts that go together, and the session's file before and after."""

    unmounts: tuple[Unmount, ...]
    file: SessionFile
    tree: dict[str, Any]

    @property
    def effect(self) -> object:
        """What would be different afterwards."""
        return self.tree, {(each.name, each.link, each.forgets) for each in self.unmounts if each.link or each.forgets}


class MountedRule(Struct, frozen=True):
    """A rule for a way out of the workspace: its path as written, for whom, and the layer it stands in."""

    path: str
    tool: str
    layer: Layer

    @property
    def is_stronger(self) -> bool:
        """Whether the rule stands where no session can take it away."""
        return self.layer.name in _STRONGER


def plan_unmount(
    workspace: Workspace, name: str | None, *, cwd: str, session: str = "default", files: Sequence[str] = ()
) -> Unmounts:
    """Return what taking a mount away would do, or all of them; an `InputError` if there is none of that name.

    The policy need not compile: a directory in the place of the link is a reason to unmount, not an obstacle.
    """
    planned = _plan(workspace, name, cwd, session, files)
    if files:
        try:
            found = _plan(workspace, name, cwd, session, ()).effect
        except InputError:
            found = planned.file.tree, set()
        if found != planned.effect:
            raise policy_file_error("it would take away something else")
    return planned


def _plan(workspace: Workspace, name: str | None, cwd: str, session: str, files: Sequence[str]) -> Unmounts:
    standing = _externals(workspace, session, files, cwd)
    gone = _chosen(workspace, standing, name, cwd)
    file = read_session(workspace, session)
    layers = list(workspace.files.again(None).discover(session))
    weaker = [layer for layer in layers if layer.trusted and layer.name not in _STRONGER]
    tree = file.tree
    for tool in dict.fromkeys(each.tool for each in standing if each.path in gone and not each.is_stronger):
        refuse_untrusted(layers, tool)
        kept = _kept_rules(weaker, tool, gone)
        tree = with_fs_rules(tree, tool, kept or _CLOSED, strategy="replace")
    lasting = [layer for layer in weaker if layer.name != SESSION]
    unmounts = [
        _unmount(workspace, [each for each in standing if each.path == path], session, lasting) for path in gone
    ]
    return Unmounts(tuple(unmounts), file, tree)


def unmount(
    workspace: Workspace,
    name: str | None,
    *,
    cwd: str,
    session: str = "default",
    files: Sequence[str] = (),
    now: str,
) -> Unmounts:
    """Take a mount away, or all of them, whole or not at all, and return what was done."""
    with MountJournal(workspace) as journal:
        planned = plan_unmount(workspace, name, cwd=cwd, session=session, files=files)
        changes = list(_changes(workspace, planned, now=now))
        sound = _compiles(workspace, session, files)

        def verify() -> None:
            if sound:
                workspace.load(files=files, session=session)
            names = {each.name for each in planned.unmounts}
            for each in _externals(workspace, session, files, cwd):
                if each.path in names and not each.is_stronger:
                    problem = f"{shown(each.path)} would still be open to {shown(each.tool)}: {each.layer.file} says so"
                    raise MountError(problem, hint="look at that file", code="no_effect")

        if changes:
            journal.carry_out(changes, verify=verify)
    return planned


def _compiles(workspace: Workspace, session: str, files: Sequence[str]) -> bool:
    try:
        workspace.load(files=files, session=session)
    except ConfigErrors:
        return False
    return True


def _externals(workspace: Workspace, session: str, files: Sequence[str], cwd: str) -> list[MountedRule]:
    """Return every rule of the trusted layers together that leads out of the workspace, or once did."""
    check_session_name(session)
    found = workspace.files.again(None)
    layers = found.given(list(files), session, base=cwd) if files else found.discover(session)
    trusted = [layer for layer in layers if layer.trusted]
    return [
        MountedRule(collapse(item.tree["path"]) or "", tool, item.layer)
        for tool in dict.fromkeys(tool for layer in trusted for tool in layer.tree["tools"])
        for item in _merged(trusted, tool)
        if item.tree.get("external")
    ]


def _changes(workspace: Workspace, planned: Unmounts, *, now: str) -> Iterator[JournalChange]:
    """Yield what has to change, in order: the approval first, because nothing is granted without it."""
    for each in planned.unmounts:
        if each.forgets:
            yield approval_change(workspace, each.name, None, now=now)
    yield from session_changes(planned.file, planned.tree)
    for each in planned.unmounts:
        if each.link is not None:
            yield JournalChange(LINK, each.name, each.link, None)


def _chosen(workspace: Workspace, standing: Sequence[MountedRule], name: str | None, cwd: str) -> list[str]:
    """Return the paths of the mounts that are meant: what lies below a link cannot stay without it."""
    known = sorted({each.path for each in standing})
    if name is None:
        return known
    lexical = name_inside(workspace.root, name, cwd)
    above, _slash, last = lexical.rpartition("/")
    parent = rule_path_of(workspace.root, above) if above else ""
    names = {lexical, f"{parent}/{last}" if parent else last}
    # A link to a link that led outside was mounted by that other one's name.
    found = _below(known, names) or _below(known, {rule_path_of(workspace.root, lexical)})
    if not found:
        hint = f"mounted here: {sentence_list(known)}" if known else "nothing is mounted in this session"
        raise InputError(f"{quoted(name)} is not mounted", hint=hint)
    return found


def _below(known: Sequence[str], names: set[str]) -> list[str]:
    return [path for path in known if any(is_under(path, name) for name in names)]


def _kept_rules(layers: Sequence[Layer], tool: str, gone: Sequence[str]) -> list[dict[str, Any]]:
    """Return the file rules of a tool as these layers give them together, without the mounts that go."""
    rules = [item.tree for item in _merged(layers, tool)]
    kept = [rule for rule in rules if not any(named_rule(rule, path) for path in gone)]
    return [{key: value for key, value in rule.items() if not key.startswith("#")} for rule in kept]


def _merged(layers: Sequence[Layer], tool: str) -> tuple[Item, ...]:
    merged = NOTHING
    for layer in layers:
        fs = layer.tree["tools"].get(tool, {}).get("access", {}).get("fs")
        if fs is not None:
            merged = compose(merged, patch(fs["strategy"], [Item(rule, layer) for rule in fs["value"]]))
    return merged.items


def _unmount(workspace: Workspace, rules: Sequence[MountedRule], session: str, lasting: Sequence[Layer]) -> Unmount:
    """Return what becomes of one mount; `rules` are all that name it, `lasting` the layers that every session has."""
    path = rules[0].path
    tools = tuple(sorted({rule.tool for rule in rules if not rule.is_stronger}))
    stronger = sorted({rule.layer.file or rule.layer.name for rule in rules if rule.is_stronger})
    users = _other_sessions(workspace, path, session)
    files = sorted({layer.file or layer.name for layer in lasting if _grants(layer, path)})
    link, why = None, None
    if stronger:
        why = f"{sentence_list(stronger)} grants it, which a session cannot change"
    elif files:
        why = f"{sentence_list(files)} grants it in every other session"
    elif users:
        why = f"{'session' if len(users) == 1 else 'sessions'} {sentence_list(users)} may still use it"
    else:
        link, why = _link(workspace, path)
    known = workspace.approvals.mount_target(path) is not None
    used = bool(stronger or files or users)
    return Unmount(path, tools, link, why, forgets=known and not used, stays=bool(stronger))


def _grants(layer: Layer, path: str) -> bool:
    tools = layer.tree["tools"].values()
    rules = [rule for tool in tools for rule in tool.get("access", {}).get("fs", {}).get("value", ())]
    return any(named_rule(rule, path) for rule in rules)


def _link(workspace: Workspace, path: str) -> tuple[str | None, str | None]:
    """Return the text of the link if byleave may remove it, else why not."""
    where = os.path.join(workspace.root.path, path)
    if not os.path.lexists(where):
        return None, "nothing stands there"
    if os.path.realpath(os.path.dirname(where)) != os.path.dirname(where):
        return None, "it lies behind another link"
    try:
        text = os.readlink(where)
    except OSError:
        return None, "what stands there is no link"
    targets = _approved_targets(workspace, path)
    if not targets:
        return None, "its target was not approved, so byleave may not have made it"
    now = real_path(where)
    if now not in targets:
        return None, f"it leads to {shown(now)}, not to {sentence_list(targets)} as was approved"
    return text, None


def _approved_targets(workspace: Workspace, path: str) -> list[str]:
    """Return where the user agreed that a path may lead, also if they took that back since."""
    mounts = [one for one in workspace.approvals.all() if one.kind == "mount" and one.status != PENDING]
    return sorted({one.detail["canonical_target"] for one in mounts if one.detail["rule_path"] == path})


def _other_sessions(workspace: Workspace, path: str, session: str) -> list[str]:
    """Return the other sessions of this workspace that have an external rule at the path, or cannot be read."""
    try:
        names = sorted(os.listdir(sessions_directory(workspace)))
    except FileNotFoundError:
        return []
    return [name for name in names if name != session and _uses(workspace, name, path)]


def _uses(workspace: Workspace, session: str, path: str) -> bool:
    try:
        if read_session(workspace, session).content is None:
            return False
        layers = [layer for layer in workspace.files.again(None).discover(session) if layer.trusted]
    except (ByleaveError, ConfigErrors):
        return True  # what it says cannot be known, so nothing is taken from it
    tools = dict.fromkeys(name for layer in layers for name in layer.tree["tools"])
    return any(named_rule(item.tree, path) for tool in tools for item in _merged(layers, tool))
