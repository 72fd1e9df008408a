"""Tickets that stay unredeemed: evidence that a command ran without the confinement that it was allowed with.

Two events show it: the agent reports the outcome of a call whose ticket was never redeemed (`note_outcome`), or the
ticket of an allowed call is still there ten minutes later, when the next event comes (`note_overdue`). Either is
recorded, and ends confining for that agent in this workspace: the next reasons and `byleave doctor` say so, until a
person has looked and runs `byleave hook --resume AGENT`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from byleave.core.redact import Redactor
from byleave.store.audit.log import AuditLog
from byleave.store.tickets import discard, end_confining, overdue, unredeemed

if TYPE_CHECKING:
    from byleave.store.tickets import Ticket

UNCONFINED = "unconfined"  # the event of a record about a command that ran without its confinement
# Seconds: an agent may report a background command before its run has begun. Less than the hook itself has.
PATIENCE = 3.0
_NAP = 0.05


def note_outcome(directory: str, agent: str, session: str, call: str, *, patience: float | None = None) -> bool:
    """Note that an agent reports a call as done, and return whether it ran without its confinement.

    `directory` is the workspace's state directory. A call that has no ticket, or a redeemed one, costs nothing.
    """
    ticket = unredeemed(directory, agent, session, call)
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    while ticket is not None and time.monotonic() < end:
        time.sleep(_NAP)
        ticket = unredeemed(directory, agent, session, call)
    if ticket is None:
        return False
    _end(directory, ticket, "the agent reports that it was done, and its ticket was not redeemed")
    return True


def note_overdue(directory: str) -> None:
    """Note the allowed commands whose tickets were not redeemed in time."""
    for ticket in overdue(directory):
        _end(directory, ticket, "its ticket was not redeemed within ten minutes")


def _end(directory: str, ticket: Ticket, why: str) -> None:
    """Record it, end confining, and only then forget the ticket: what is killed in between is found again."""
    log = AuditLog(directory, mask=Redactor(), retention=None)
    sequence = log.append(
        {
            "event": UNCONFINED,
            "session": ticket.store_session,
            "door": "hook",
            "agent": ticket.profile or ticket.agent,
            "identity": "default",
            "of": ticket.sequence,
            "tool_call": ticket.call,
            "outcome": why,
        }
    )
    log.close()
    about = f"audit record {sequence} says that a command ran without its confinement"
    end_confining(directory, ticket.agent, about)
    discard(directory, ticket)
