"""Open the guard of an integration: the policy of a workspace, its approvals, its audit log and an asker together.

Start at `open_guard`, which is public; integrations that have a workspace already use `guard_for`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.guard.guard import PATIENCE, Guard
from byleave.guard.persist_rule import PersistentRule
from byleave.guard.warnings import SensitiveWarnings, mask_for, sensitive_reaches
from byleave.policy.load import Workspace
from byleave.store.approvals import now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from byleave.guard.evaluation import Asker
    from byleave.policy.compile import Compiled
    from byleave.policy.live_policy import LivePolicy
    from byleave.store.interfaces import RecordStore
    from byleave.store.postgres.shared_store import SharedStore


def open_guard(
    root: str | None = None,
    *,
    door: str = "python",
    files: Sequence[str] = (),
    session: str = "default",
    asker: Asker | None = None,
) -> Guard:
    """Return a guard for a program of one's own: it decides, asks through `asker`, and records. Close it in the end."""
    return guard_for(Workspace(root), door, files=files, session=session, asker=asker, client_approves=None)


def guard_for(
    workspace: Workspace,
    door: str,
    *,
    client_approves: Callable[[Compiled], bool] | None,
    files: Sequence[str] = (),
    session: str = "default",
    asker: Asker | None = None,
    patience: float | None = None,
    policy: LivePolicy | None = None,
    stays: bool = True,
    may_observe: bool = False,
    check_holds: bool = False,
    shared: SharedStore | None = None,
) -> Guard:
    """Return the guard of an integration, by `policy` if the caller has loaded one. Close it in the end.

    One that does not stay answers a single request: it starts no thread, adds no rule for good, and does not look for
    secrets that lie open. One that `may_observe` leaves decisions to the agent in observe mode.
    With `check_holds`, what its asker cannot ask a person waits for an open dashboard.
    `client_approves` is None for an integration that puts no question to its client (`Guard`).
    `shared` is the store that records and approvals of calls go to, in the place of the workspace's own files.
    """
    policy = workspace.load(files=files, session=session) if policy is None else policy
    mask = mask_for(policy.compiled.policy, os.environ)
    log: RecordStore
    if shared is None:
        log = own = workspace.audit_log(policy.compiled.settings, mask)
        approvals = workspace.approvals
    else:
        log, own = shared.log(mask), None
        approvals = shared.approvals(workspace.approvals.directory, workspace.memory)
    sensitive = workspace.sensitive(policy.compiled)
    workspace.remember_root()
    notices = SensitiveWarnings(sensitive, os.path.dirname(workspace.files.session_file(session)))
    notes: list[str] = []
    lasting = None
    if stays:
        if own is not None:
            own.start()
        for found in sensitive_reaches(policy, sensitive):
            notes += notices.say_once(f"{found.entry} {found.name}", found.sentence)
        lasting = None if files else PersistentRule(workspace, session)
    return Guard(
        policy,
        approvals,
        log,
        door=door,
        now=now,
        mask=mask,
        client_approves=client_approves,
        environment=os.environ,
        session=session,
        asker=asker,
        patience=PATIENCE if patience is None else patience,
        lasting=lasting,
        notices=notices,
        notes=tuple(notes),
        may_observe=may_observe,
        view_state=workspace.homes.state,
        check_holds=check_holds,
    )
