"""Carry out what a person answered to a question, wherever they did: one answer wins, and only then a rule is written.

    held        a process waits: the answer is left for it (`store.questions`), and its guard records it
    deferred    a request was refused: the answer becomes an approval, for the next identical request or for longer
    definition  an MCP server's tool has changed: it is served again, or stays hidden

`seen` is the fingerprint of what the person was shown (`store.questions.fingerprint`): another question is not
answered. Each function returns whether the answer is the first one. Where a rule cannot be written, there is no answer.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.redact import Redactor
from byleave.errors import ByleaveError, StateError
from byleave.guard.evaluation import FOR_GOOD, NO, ONCE
from byleave.store.approvals import APPROVED, REVOKED, TOOL_DEFINITION, now
from byleave.store.questions import Answer, time_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.store.approvals import Approval, Approvals
    from byleave.store.interfaces import RecordStore
    from byleave.store.questions import Questions, StoredQuestion

ONCE_SECONDS = 86_400.0  # within which the next identical request must come


class UnrecordedAnswerError(StateError):
    """The answer was given, and counts, but is not in the audit log."""


class Answering(Struct, frozen=True):
    """Takes the answers of a person about the questions of one workspace.

    `by` is where they answer, `door` and `command` what the records call that; `keep_rule` adds a rule to the user's
    own file.
    """

    questions: Questions
    approvals: Approvals
    log: RecordStore
    keep_rule: Callable[[str], None]
    by: str
    door: str
    command: str

    def held(self, question: StoredQuestion, choice: str, *, reason: str = "", rule: str = "", seen: str = "") -> bool:
        """Answer a process that waits; with `rule`, a yes for good writes that rule."""
        keeps = choice == FOR_GOOD and bool(rule)
        answer = Answer(question.id, choice, self.by, reason, kept=keeps)
        if not keeps:
            return self.questions.answer(answer, seen=seen)
        won = self.questions.answer(answer, seen=seen, first=lambda: self.keep_rule(rule))
        if won:
            self._record(question.session, choice, rule)
        return won

    def waiting(self, approval: Approval, choice: str, *, rule: str = "", seen: str = "") -> bool:
        """Answer what waits for a later attempt, or a changed definition."""
        session = approval.detail.get("session") or "default"
        subject = f"{approval.kind} {approval.subject}"
        status = REVOKED if choice == NO else APPROVED
        if approval.kind == TOOL_DEFINITION:
            won = self.approvals.settle_definition(approval, status=status, now=now(), seen=seen)
        elif choice == FOR_GOOD and rule:
            subject = rule
            key = approval.detail["key"]
            won = self.approvals.forget_action(key, first=lambda: self.keep_rule(rule), seen=seen)
        else:
            until = time_after(datetime.now(UTC), ONCE_SECONDS) if choice == ONCE else ""
            key = approval.detail["key"]
            won = self.approvals.settle_action(key, status=status, now=now(), until=until, seen=seen)
        if won:
            self._record(session, choice, subject)
        return won

    def _record(self, session: str, choice: str, subject: str) -> None:
        """Record what the user answered; what a waiting process does with the answer, its own guard records."""
        fields = {
            "event": "approval",
            "session": session,
            "door": self.door,
            "agent": None,
            "identity": "default",
            "action": {"kind": "other", "name": self.command, "title": Redactor().values(subject)},
            "answer": {"by": self.by, "choice": choice},
        }
        try:
            self.log.append(fields)
        except ByleaveError as error:
            raise UnrecordedAnswerError(
                f"the answer counts, but is NOT RECORDED: {error}", hint="make room there"
            ) from None
