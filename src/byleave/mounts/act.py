"""Mount what was planned: directories, links, the session's rules and the approvals, whole or not at all."""

from byleave.core.fs import FsTarget
from byleave.core.verdict import ALLOW
from byleave.errors import MountError
from byleave.mounts.journal import Journal
from byleave.mounts.plan import changes_of, plan_mounts
from byleave.mounts.spec import CAPABILITIES
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.api import Workspace
    from byleave.config.compile import Compiled
    from byleave.mounts.plan import Plan, Plans, Request


def mount(workspace: "Workspace", agreed: "Plans", *, now: str) -> "Plans":
    """Do what was agreed to, and return what was done, which may be less: somebody else may have done a part of it.

    If it would be anything else by now, nothing is done.
    """
    request = agreed.request
    with Journal(workspace) as journal:
        planned = plan_mounts(workspace, request)
        if [plan.consent for plan in planned.plans] != [plan.consent for plan in agreed.plans]:
            raise MountError("something changed after you were asked", hint="look at it again", code="changed")
        changes = list(changes_of(workspace, planned, now=now))
        journal.carry_out(changes, verify=lambda: _verify(workspace, request, planned))
    return planned


def _verify(workspace: "Workspace", request: "Request", planned: "Plans") -> None:
    """Load the policy again as the next command will, and see that every mount is what it was said to be."""
    compiled = workspace.load(files=request.files, session=request.session).compiled
    for plan in planned.plans:
        place = workspace.root.resolve_rule(plan.rule_path)
        if not isinstance(place, FsTarget) or (place.canonical, place.door) != (plan.target, plan.rule_path):
            problem = f"{quoted(plan.rule_path)} does not lead to {quoted(plan.target)}"
            raise MountError(problem, hint="look at it, then try again", code="changed")
        for why in _withheld(compiled, plan, place):
            hint = "`byleave policy show` lists the rules, and the layers they stand in"
            raise MountError(f"nothing was mounted, because it would grant nothing: {why}", hint=hint, code="no_effect")


def _withheld(compiled: "Compiled", plan: "Plan", place: FsTarget) -> "Iterator[str]":
    """Yield what keeps a tool from what the mount is to give it."""
    for tool in plan.tools:
        for voice in compiled.policy.voices:
            if tool not in voice.tools:
                continue
            for capability in CAPABILITIES[plan.spec.mode]:
                answer = voice.tools[tool].access.judge_file(place, capability)
                written = answer.rule is not None and not answer.rule.grants(capability)
                if answer.decision is ALLOW or (voice.denies_only and not written):
                    continue
                rule = "no rule covers it" if answer.rule is None else f"{answer.rule.text} ({answer.rule.source})"
                yield f"{shown(tool)} may not {capability} {shown(plan.rule_path)}: {shown(rule)}"
