"""What a plan changes, thing by thing and in order: in the workspace, in the session's file, in the approvals."""

import os

from byleave.approvals.store import REVOKED
from byleave.config.homes import real_path
from byleave.mounts.journal import APPROVAL, FILE, LINK, Change, made_directory
from byleave.mounts.session import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.api import Workspace
    from byleave.mounts.plan import Plans
    from byleave.mounts.session import SessionFile


def changes_of(planned: "Plans") -> "Iterator[Change]":
    """Yield what has to change in the workspace, in order. It grants nothing that was not granted before."""
    for plan in planned.plans:
        yield from (made_directory(directory) for directory in plan.directories)
        if plan.link is not None:
            yield Change(LINK, plan.rule_path, None, plan.link)


def grants_of(workspace: "Workspace", planned: "Plans", *, now: str) -> "Iterator[Change]":
    """Yield what has to change for the grants to hold: the approval last, because a rule without one grants nothing."""
    yield from session_changes(planned.file, planned.tree)
    for plan in planned.plans:
        if not plan.approved:
            yield approval_change(workspace, plan.rule_path, plan.target, now=now)


def session_changes(file: "SessionFile", tree: "dict[str, Any]") -> "Iterator[Change]":
    """Yield what makes the session's file say what the tree does."""
    if tree == file.tree:
        return
    missing, directory = [], os.path.dirname(file.path)
    while not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    yield from (made_directory(path, private=True) for path in reversed(missing))
    yield Change(FILE, real_path(file.path), file.content, text_of(tree))


def approval_change(workspace: "Workspace", rule_path: str, target: str | None, *, now: str) -> Change:
    """Return the change of the agreement about a path: to a target, or to none."""
    known = {path: (target, at) for path, target, at in workspace.approvals.mounts()}
    before, at = known.get(rule_path, (None, ""))
    taken = [one for one in workspace.approvals.all() if (one.kind, one.status) == ("mount", REVOKED)]
    revoked = [
        (one.detail["canonical_target"], one.created, now) for one in taken if one.detail["rule_path"] == rule_path
    ]
    return Change(APPROVAL, rule_path, before, target, (at, now), revoked[0] if revoked and before is None else ())
