"""The questions of every workspace that wait for a person, and how an answer is carried out.

    held        a process waits: the answer is left for it (`store.questions`), and its guard records it
    deferred      a request was refused: the answer becomes an approval, for the next identical request or for longer
    definition  an MCP server's tool has changed: it is served again, or stays hidden

A question is answered by its id, which is a hash of what is shown; so what has changed meanwhile is not answered. A
yes for good is offered where one rule in the user's own file would decide, and that rule is shown before it is written.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.redact import Redactor
from byleave.dashboard.question_view import (
    DOORS,
    because_of,
    change_in,
    definition_view,
    facts_of,
    parts_of,
    subject_of,
    title_of,
)
from byleave.errors import ByleaveError, ConfigErrors
from byleave.gateway.pins import difference as definition_difference
from byleave.guard.evaluation import FOR_GOOD, FOR_SESSION, NO, ONCE
from byleave.guard.persist_rule import PersistentRule
from byleave.store.approvals import APPROVED, REVOKED, TOOL_DEFINITION, now
from byleave.store.approvals import PENDING as WAITS
from byleave.store.questions import EXPIRED, PENDING, Answer, AskedAction, read_time, status_of, time_after
from byleave.text import shown, shown_lines, speakable
from byleave.user_files import read_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from byleave.dashboard.machine import KnownWorkspace, Machine
    from byleave.store.approvals import Approval
    from byleave.store.questions import StoredQuestion

BY = "dashboard"
DEFERRED_DAYS = 7  # after which a deferred question lapses
ONCE_SECONDS = 86_400.0  # within which the next identical request must come
CHOICES = {"once": ONCE, "session": FOR_SESSION, "always": FOR_GOOD, "deny": NO}
_OFFER_SECONDS = 60.0  # for which an offered rule is not looked for again; an answer looks again
_LARGEST_FILE = 1 << 18  # bytes of a file whose change is shown
# What a file that was changed by hand may lead to: such a question is not shown, so it is not answered either.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_MOST_LISTED = 200  # questions that a page shows at a time


class Refusal(Struct, frozen=True):
    """Why an answer is not taken: a status of HTTP, and a sentence."""

    status: int
    problem: str


class Waiting(Struct, frozen=True):
    """A question of one workspace, whatever its kind; one of `held`, `approval` is there."""

    of: KnownWorkspace
    id: str
    status: str
    session: str
    actions: tuple[AskedAction, ...]
    tree: dict[str, Any]
    held: StoredQuestion | None = None
    approval: Approval | None = None


class PendingQuestions:
    """What waits on this machine. Used by one thread."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._offers: dict[str, tuple[float, str]] = {}

    def trees(self) -> list[dict[str, Any]]:
        """Return every question for programs and pages, the oldest first."""
        found = sorted(self._all(), key=lambda each: str(each.tree["created"]))
        return [speakable({**each.tree, **self._offered(each)}) for each in found[:_MOST_LISTED]]

    def answer(self, id_: str, word: str, *, reason: str = "", rule: str | None = None) -> Refusal | None:
        """Carry out what a person said; return why not, where it cannot be.

        `rule` is the rule that was shown: another one is not written.
        """
        waiting = next((each for each in self._all() if each.id == id_), None)
        if waiting is None:
            return Refusal(404, "there is no such question any more")
        if waiting.status != PENDING:
            return Refusal(409, "the question has expired")
        self._offers.pop(id_, None)
        offered = self._offered(waiting)
        if word not in offered["answers"]:
            return Refusal(409, "this answer is not offered for this question")
        if word == "always" and rule is not None and shown_lines(str(offered["rule"])) != rule:
            return Refusal(409, "the rule is another one now; look at it again")
        try:
            return self._carry_out(waiting, word, reason, offered.get("rule"))
        except (ByleaveError, ConfigErrors) as error:
            return Refusal(409, shown_lines(str(error)))

    # What waits

    def _all(self) -> Iterator[Waiting]:
        moment = datetime.now(UTC)
        for of in self._machine.all():
            store = self._machine.questions(of)
            store.sweep(moment)
            for question in store.all():
                if store.answer_to(question.id) is None:
                    with suppress(*_UNREADABLE):
                        yield _held(of, question, status_of(question, moment))
            yield from self._deferred(of, moment)

    def _deferred(self, of: KnownWorkspace, moment: datetime) -> Iterator[Waiting]:
        approvals = self._machine.approvals(of)
        try:
            found = [each for each in approvals.all() if each.status == WAITS]
        except ByleaveError:
            return
        for approval in found:
            if approval.kind == TOOL_DEFINITION:
                with suppress(*_UNREADABLE):
                    yield _definition(of, approval)
                continue
            end = read_time(approval.created) + timedelta(days=DEFERRED_DAYS)
            if moment < end + timedelta(days=1):
                asked = approvals.asked(approval.detail["key"])
                with suppress(*_UNREADABLE):
                    yield _deferred(of, approval, asked, end, PENDING if moment < end else EXPIRED)

    def _offered(self, waiting: Waiting) -> dict[str, Any]:
        """Return which answers are offered, and the rule that a yes for good would write."""
        if waiting.status != PENDING:
            return {"answers": [], "rule": None}
        if waiting.approval is not None and waiting.approval.kind == TOOL_DEFINITION:
            return {"answers": ["always", "deny"], "rule": None}
        if waiting.held is not None and waiting.held.once:
            return {"answers": ["once", "deny"], "rule": None}
        rule = self._rule(waiting)
        words = ["once", "session", *(["always"] if rule else []), "deny"]
        return {"answers": words, "rule": shown_lines(rule) if rule else None}

    def _rule(self, waiting: Waiting) -> str:
        at, known = self._offers.get(waiting.id, (0.0, ""))
        if at and monotonic() - at < _OFFER_SECONDS:
            return known
        found = self._find_rule(waiting.of, waiting.session, waiting.actions)
        if len(self._offers) > _MOST_LISTED:
            self._offers.clear()
        self._offers[waiting.id] = (monotonic(), found)
        return found

    def _find_rule(self, of: KnownWorkspace, session: str, actions: Sequence[AskedAction]) -> str:
        """Return the rules that would allow all actions; empty where not each of them has one that decides."""
        policy, workspace = self._machine.policy(of, session), self._machine.workspace(of)
        if policy is None or workspace is None:
            return ""
        lasting = PersistentRule(workspace, session)
        rules: dict[str, None] = {}
        for asked in actions:
            if not asked.exact or not asked.action:
                return ""
            try:
                policy.expire()
                found = lasting.offer(policy.evaluate(asked.action))
            except (ByleaveError, ConfigErrors, TypeError, ValueError, KeyError):
                return ""
            if found is None:
                return ""
            rules[found] = None
        return "\n\n".join(rules)

    # What an answer does

    def _carry_out(self, waiting: Waiting, word: str, reason: str, rule: str | None) -> Refusal | None:
        is_definition = waiting.approval is not None and waiting.approval.kind == TOOL_DEFINITION
        if word == "always" and not is_definition:
            workspace = self._machine.workspace(waiting.of)
            if workspace is None or not rule:
                return Refusal(409, "the workspace is not there any more")
            PersistentRule(workspace, waiting.session).keep(rule)
            self._record(waiting, word, rule)
        if waiting.held is not None:
            answer = Answer(waiting.id, CHOICES[word], BY, reason, kept=word == "always")
            if not self._machine.questions(waiting.of).answer(answer):
                return Refusal(409, "the question was answered already")
            return None
        assert waiting.approval is not None  # noqa: S101 -- what is not held is an approval
        return self._settle(waiting, waiting.approval, word)

    def _settle(self, waiting: Waiting, approval: Approval, word: str) -> Refusal | None:
        approvals = self._machine.approvals(waiting.of)
        if approval.kind == TOOL_DEFINITION:
            status = REVOKED if word == "deny" else APPROVED
            if not approvals.settle_definition(approval, status=status, now=now()):
                return Refusal(409, "the definition has changed again")
        elif word == "always":
            approvals.forget_action(approval.detail["key"])
            return None
        else:
            until = time_after(datetime.now(UTC), ONCE_SECONDS) if word == "once" else ""
            status = REVOKED if word == "deny" else APPROVED
            if not approvals.settle_action(approval.detail["key"], status=status, now=now(), until=until):
                return Refusal(409, "the question was answered already")
        self._record(waiting, word, f"{approval.kind} {approval.subject}")
        return None

    def _record(self, waiting: Waiting, word: str, subject: str) -> None:
        """Record what the user answered; what a waiting process does with the answer, its own guard records."""
        self._machine.log(waiting.of).append(
            {
                "event": "approval",
                "session": waiting.session,
                "door": BY,
                "agent": None,
                "identity": "default",
                "action": {"kind": "other", "name": "byleave dashboard", "title": Redactor().values(subject)},
                "answer": {"by": BY, "choice": CHOICES[word]},
            }
        )


def _held(of: KnownWorkspace, question: StoredQuestion, status: str) -> Waiting:
    actions = question.actions
    tree = _tree(of, question.id, status, actions, agent=question.agent, identity=question.identity, door=question.door)
    tree |= {"why": shown(question.why), "created": question.created, "expires": question.expires, "held": True}
    tree["view"]["input"] = facts_of(question.input) if question.once and question.input else []
    tree["view"]["change"] = change_in(question.input, _content_of(question))
    tree["session"] = question.session
    return Waiting(of, question.id, status, question.session, actions, tree, held=question)


def _content_of(question: StoredQuestion) -> dict[str, str]:
    """Return the content of the file that would be written, if it is an ordinary one of moderate size."""
    path = str((question.input or {}).get("file_path", ""))
    if not path:
        return {}
    try:
        descriptor = os.open(os.path.join(question.root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return {}
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return {}
        content = read_all(descriptor, _LARGEST_FILE + 1)
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    return {path: content.decode("utf-8", "replace")} if len(content) <= _LARGEST_FILE else {}


def _deferred(of: KnownWorkspace, approval: Approval, asked: Any, end: datetime, status: str) -> Waiting:
    action = asked.get("action")
    action = action if isinstance(action, dict) else {}
    verdict = asked.get("verdict")
    verdict = verdict if isinstance(verdict, dict) else {}
    known = AskedAction(approval.detail["key"], action, verdict, asked.get("exact") is True)
    actions = (known,) if action else ()
    agent, door = str(asked.get("agent") or "") or None, str(asked.get("door") or "")
    tree = _tree(of, approval.id, status, actions, agent=agent, identity=str(asked.get("identity") or ""), door=door)
    if not action:  # an older version kept one line of it
        tree["view"] |= {"title": "needs your approval", "subject": shown(approval.subject)}
    why = shown(str(verdict.get("reason") or approval.subject))
    expires = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    tree |= {"why": why, "created": approval.created, "expires": expires, "held": False}
    session = approval.detail.get("session") or "default"
    tree["session"] = session
    return Waiting(of, approval.id, status, session, actions, tree, approval=approval)


def _definition(of: KnownWorkspace, approval: Approval) -> Waiting:
    old, new = approval.detail.get("old", ""), approval.detail.get("new", "")
    tree = _tree(of, approval.id, PENDING, (), agent=None, identity="", door="mcp")
    tree["action"] = {"kind": TOOL_DEFINITION, "server": approval.detail["server"], "tool": approval.detail["name"]}
    what = "has changed" if old else "is new, and needs to be looked at"
    rows = [shown(row) for row in definition_difference(old, new)]
    tree["view"] |= {
        "title": f"a definition {what}",
        "subject": shown(approval.subject),
        "definition": definition_view(old, new, rows),
    }
    why = "what a server says about its tools is served once you have approved it"
    tree |= {"why": why, "created": approval.created, "expires": None, "held": False, "session": "default"}
    return Waiting(of, approval.id, PENDING, "default", (), tree, approval=approval)


def _tree(
    of: KnownWorkspace,
    id_: str,
    status: str,
    actions: Sequence[AskedAction],
    *,
    agent: str | None,
    identity: str,
    door: str,
) -> dict[str, Any]:
    first = actions[0] if actions else None
    view = {
        "title": title_of(actions) if actions else "",
        "subject": "" if first is None else subject_of(first.action),
        "agent": shown(agent) if agent else "an agent without a name",
        "identity": identity,
        "door": DOORS.get(door, shown(door) or "approvals"),
        "workspace": shown(of.name),
        "actions": [
            {
                "facts": facts_of(each.action),
                "parts": parts_of(each.verdict),
                "because": because_of(each.verdict),
                "leads_to": [shown(place) for place in each.leads_to],
            }
            for each in actions
        ],
    }
    return {
        "id": id_,
        "status": status,
        "action": {} if first is None else first.action,
        "agent": agent,
        "door": door,
        "workspace": of.root,
        "view": view,
    }
