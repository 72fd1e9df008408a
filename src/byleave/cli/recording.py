"""What a person changes by a command of ours is recorded like every other decision; not where a mount leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.cli.output import warn
from byleave.errors import ByleaveError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace


def record_answers(given: ParsedArguments, workspace: Workspace, subjects: Iterable[str]) -> None:
    """Record that the user did with this command what it is for, once for every subject.

    It is done by then: where it cannot be recorded, that is said, loudly.
    """
    from byleave.core.redact import Redactor

    log = workspace.audit_log(None, Redactor())
    try:
        for subject in subjects:
            log.append(
                {
                    "event": "approval",
                    "session": given.one("session") or "default",
                    "door": "cli",
                    "agent": None,
                    "identity": "default",
                    "action": {"kind": "other", "name": f"byleave {' '.join(given.path)}", "title": subject},
                    "answer": {"by": "--yes" if given.flag("yes") else "terminal", "choice": "yes"},
                }
            )
        log.fold()
    except ByleaveError as error:
        warn(given, [f"NOT RECORDED: {error}"])
    finally:
        log.close()
