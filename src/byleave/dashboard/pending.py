"""The questions of every workspace that wait for a person, and how an answer is carried out.

    held        a process waits: the answer is left for it (`store.questions`), and its guard records it
    deferred      a request was refused: the answer becomes an approval, for the next identical request or for longer
    definition  an MCP server's tool has changed: it is served again, or stays hidden

A question is found by its id and answered by `seen`, a hash of everything that was shown and of everything that a yes
covers: what has changed meanwhile is not answered. Ids are short, and agents choose what they are made of; so where two
questions have one id, only `seen` says which one is meant. A yes for good is offered where one rule in the user's own
file would decide, and that rule is shown before it is written.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.dashboard.question_view import (
    DOORS,
    MOST_COMPARED,
    action_view,
    change_in,
    definition_view,
    input_beside,
    notice_of,
    subject_of,
    title_of,
)
from byleave.errors import ByleaveError, ConfigErrors, StateError
from byleave.gateway.pins import difference as definition_difference
from byleave.gateway.pins import rows as definition_rows
from byleave.guard.answering import Answering
from byleave.guard.evaluation import FOR_GOOD, FOR_SESSION, NO, ONCE
from byleave.guard.persist_rule import PersistentRule
from byleave.store.approvals import PENDING as WAITS
from byleave.store.approvals import TOOL_DEFINITION
from byleave.store.questions import (
    EXPIRED,
    PENDING,
    AskedAction,
    approval_of,
    fingerprint,
    read_time,
    status_of,
)
from byleave.text import shown, shown_lines, speakable
from byleave.user_files import digest, read_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Self

    from byleave.dashboard.machine import KnownWorkspace, Machine
    from byleave.store.approvals import Approval
    from byleave.store.questions import StoredQuestion

BY = "dashboard"
DEFERRED_DAYS = 7  # after which a deferred question lapses
CHOICES = {"once": ONCE, "session": FOR_SESSION, "always": FOR_GOOD, "deny": NO}
_OFFER_SECONDS = 60.0  # for which an offered rule is not looked for again; an answer looks again
_LOOKING_SECONDS = 0.5  # for which one list looks for rules to offer: trying one takes up to a tenth of a second
_LARGEST_FILE = 1 << 18  # bytes of a file whose change is shown
# What a file that was changed by hand may lead to: such a question is not shown, so it is not answered either.
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
_MOST_LISTED = 200  # questions that a page shows at a time


class Refusal(Struct, frozen=True):
    """Why an answer is not taken: a status of HTTP, and a sentence."""

    status: int
    problem: str


class Waiting(Struct, frozen=True):
    """A question of one workspace, whatever its kind; one of `held`, `approval` is there.

    `key` is a hash of what a yes covers.
    """

    of: KnownWorkspace
    key: str
    id: str
    status: str
    session: str
    actions: tuple[AskedAction, ...]
    tree: dict[str, Any]
    held: StoredQuestion | None = None
    approval: Approval | None = None


class Listed(Struct, frozen=True):
    """The questions that a page shows, the oldest first, and how many more could be answered."""

    pending: list[dict[str, Any]]
    left_out: int


class PendingQuestions:
    """What waits on this machine. Used by one thread."""

    by, door, command = BY, BY, "byleave dashboard"  # where the answers come from, as records call it

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._offers: dict[str, tuple[float, str]] = {}
        self._changes: dict[tuple[str, tuple[int, ...]], list[str]] = {}

    def trees(self) -> list[dict[str, Any]]:
        """Return the questions for programs and pages, the oldest first."""
        return self.listed().pending

    def listed(self) -> Listed:
        """Return the questions for programs and pages."""
        everything = list(self._all())
        found = first_of(everything, _MOST_LISTED)
        until = monotonic() + _LOOKING_SECONDS
        left_out = sum(each.status == PENDING for each in everything) - sum(each.status == PENDING for each in found)
        return Listed([_with_hash(each, self._offered(each, until)) for each in found], left_out)

    def waiting(self) -> int:
        """Return how many questions can be answered."""
        return sum(each.status == PENDING for each in self._all())

    def answer(
        self, id_: str, word: str, *, reason: str = "", rule: str | None = None, seen: str | None = None
    ) -> Refusal | None:
        """Carry out what a person said; return why not, where it cannot be.

        `rule` is the rule that was shown: another one is not written. `seen` is the hash of what was shown: another
        question is not answered. Without it, there has to be one question alone with this id.
        """
        found = [each for each in self._all() if each.id == id_]
        if not found:
            return Refusal(404, "there is no such question any more")
        for each in found:
            self._offers.pop(each.key, None)
        if seen is not None:
            found = [each for each in found if _with_hash(each, self._offered(each))["seen"] == seen]
            if not found:
                return Refusal(409, "the question has changed since it was shown; look at it again")
        if len(found) > 1:
            return Refusal(409, "several questions have this id; answer them in the page of the dashboard")
        (waiting,) = found
        if waiting.status != PENDING:
            return Refusal(409, "the question has expired")
        offered = self._offered(waiting)
        if word not in offered["answers"]:
            return Refusal(409, "this answer is not offered for this question")
        if word == "always" and rule is not None and shown_lines(str(offered["rule"])) != rule:
            return Refusal(409, "the rule is another one now; look at it again")
        try:
            return self._carry_out(waiting, word, reason, offered.get("rule"))
        except (ByleaveError, ConfigErrors) as error:
            return Refusal(409, shown_lines(str(error)))

    def find(self, id_: str, seen: str) -> tuple[Waiting, str] | None:
        """Return a question that is as it was seen, and the rule that a yes for good would write; else None."""
        for each in self._all():
            if each.id == id_ and each.status == PENDING:
                offered = self._offered(each)
                if offered["rule"] and _with_hash(each, offered)["seen"] == seen:
                    return each, str(offered["rule"])
        return None

    # What waits

    def _all(self) -> Iterator[Waiting]:
        moment = datetime.now(UTC)
        for of in self._machine.all():
            store = self._machine.questions(of)
            store.sweep(moment)
            for question in store.all():
                if store.answer_to(question.id) is None:
                    with suppress(*_UNREADABLE):
                        yield self._held(of, question, status_of(question, moment))
            yield from self._deferred(of, moment)

    def _deferred(self, of: KnownWorkspace, moment: datetime) -> Iterator[Waiting]:
        approvals = self._machine.approvals(of)
        try:
            found = [each for each in approvals.all() if each.status == WAITS]
        except ByleaveError:
            return
        for approval in found:
            with suppress(*_UNREADABLE):
                if approval.kind == TOOL_DEFINITION:
                    yield _definition(of, approval)
                    continue
                end = read_time(approval.created) + timedelta(days=DEFERRED_DAYS)
                if moment < end + timedelta(days=1):
                    yield _deferred(of, approval, end, PENDING if moment < end else EXPIRED)

    def _offered(self, waiting: Waiting, until: float = inf) -> dict[str, Any]:
        """Return which answers are offered, and the rule that a yes for good would write.

        After `until`, no rule is looked for: the one of an earlier look stays, and a new question has none yet.
        """
        if waiting.status != PENDING:
            return {"answers": [], "rule": None}
        if waiting.approval is not None and waiting.approval.kind == TOOL_DEFINITION:
            return {"answers": ["always", "deny"], "rule": None}
        if waiting.held is not None and waiting.held.once:
            return {"answers": ["once", "deny"], "rule": None}
        rule = self._rule(waiting, until)
        words = ["once", "session", *(["always"] if rule else []), "deny"]
        return {"answers": words, "rule": shown_lines(rule) if rule else None}

    def _rule(self, waiting: Waiting, until: float) -> str:
        at, known = self._offers.get(waiting.key, (0.0, ""))
        now = monotonic()
        if (at and now - at < _OFFER_SECONDS) or now >= until:
            return known
        found = self._find_rule(waiting.of, waiting.session, waiting.actions)
        if len(self._offers) > 2 * _MOST_LISTED:
            self._offers.clear()
        self._offers[waiting.key] = (monotonic(), found)
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

    def _held(self, of: KnownWorkspace, question: StoredQuestion, status: str) -> Waiting:
        actions = question.actions
        key = _key(of, approval_of(question))
        who: dict[str, Any] = {"agent": question.agent, "identity": question.identity, "door": question.door}
        tree = _tree(of, question.id, status, actions, **who)
        tree |= {"why": shown(question.why), "created": question.created, "expires": question.expires, "held": True}
        change = self._change(key, question)
        tree["view"] |= {"change": change, "input": input_beside(question.input, tree["view"]["actions"], change)}
        tree["session"] = question.session
        tree["view"]["session"] = shown(question.session)
        return Waiting(of, key, question.id, status, question.session, actions, tree, held=question)

    def _change(self, key: str, question: StoredQuestion) -> list[str]:
        """Return how a file would change; worked out again only where the file is another one by now."""
        path = str((question.input or {}).get("file_path", ""))
        with _Opened(_changed_file(question, path)) as file:
            known = self._changes.get((key, file.stamp))
            if known is None:
                lines = change_in(question.input, {path: file.content()})
                known = [*file.notes, *lines] if lines else []
                if len(self._changes) > _MOST_LISTED:
                    self._changes.clear()
                self._changes[key, file.stamp] = known
        return known

    # What an answer does

    def _carry_out(self, waiting: Waiting, word: str, reason: str, rule: str | None) -> Refusal | None:
        question = waiting.held or waiting.approval
        seen = "" if question is None else fingerprint(question)
        won = self._wins(waiting, word, rule=rule or "", seen=seen, reason=reason)
        return None if won else Refusal(409, "the question was answered already, or has changed")

    def _wins(self, waiting: Waiting, word: str, *, rule: str, seen: str, reason: str = "") -> bool:
        """Answer a question, if it still is what was seen, and no other answer was faster."""
        machine, of = self._machine, waiting.of

        def keep_rule(text: str) -> None:
            workspace = machine.workspace(of)
            if workspace is None:
                raise StateError("the workspace is not there any more", hint="add the rule by hand")
            PersistentRule(workspace, waiting.session).keep(text)

        answering = Answering(
            machine.questions(of), machine.approvals(of), machine.log(of), keep_rule, self.by, self.door, self.command
        )
        if waiting.held is not None:
            return answering.held(waiting.held, CHOICES[word], reason=reason, rule=rule, seen=seen)
        return waiting.approval is not None and answering.waiting(waiting.approval, CHOICES[word], rule=rule, seen=seen)


def _changed_file(question: StoredQuestion, path: str) -> str:
    """Return the file that an input names, if an action of the question is about that very file; else nothing.

    An agent may name another one beside it: compared with that, what is new would look as if it were there already.
    """
    named = [str(each.action["path"]) for each in question.actions if each.action.get("path")]
    if not path or any("\0" in each for each in (path, *named)):
        return ""
    whole, *others = [os.path.realpath(os.path.join(question.root, each)) for each in (path, *named)]
    return whole if whole in others else ""


def first_of(found: Iterable[Waiting], most: int) -> list[Waiting]:
    """Return so many questions, the oldest first.

    Where there are too many, those are left out last for which a process waits, and those first that have expired.
    """
    by_haste = sorted(found, key=lambda each: (_haste(each), str(each.tree["created"])))
    return sorted(by_haste[:most], key=lambda each: str(each.tree["created"]))


def _haste(waiting: Waiting) -> int:
    """Return 0 for a question that a process waits with, 1 for one that can be answered, 2 for one that cannot."""
    return 2 if waiting.status != PENDING else int(waiting.held is None)


def _key(of: KnownWorkspace, approval: Approval) -> str:
    """Return a hash of what an approval covers, and where: unlike its id, the whole of it."""
    return _hash([of.directory, approval.kind, dict(approval.detail)])


def _with_hash(waiting: Waiting, offered: dict[str, Any]) -> dict[str, Any]:
    """Return a question for pages, with the hash of all that it shows and covers."""
    tree = speakable({**waiting.tree, **offered})
    return {**tree, "seen": _hash([waiting.key, tree])}


def _hash(value: Any) -> str:
    return digest(json.dumps(value, sort_keys=True).encode())


class _Opened:
    """An ordinary file of moderate size; any other one counts as empty."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self.stamp: tuple[int, ...] = ()
        self.notes: list[str] = []  # lines above the difference
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            found = os.fstat(self._descriptor)
            if stat.S_ISREG(found.st_mode):
                self.stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                if found.st_size > _LARGEST_FILE:
                    self.notes = ["@@ the file as it is now is too large to be compared @@"]
        except (OSError, ValueError):
            return

    def content(self) -> str:
        try:
            found = read_all(self._descriptor, _LARGEST_FILE + 1) if self.stamp else b""
        except OSError:
            return ""
        return found.decode("utf-8", "replace") if len(found) <= _LARGEST_FILE else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


@lru_cache(_MOST_LISTED)
def _definitions(old: str, new: str) -> dict[str, Any]:
    """Return two definitions side by side, and how they differ where that is not too long to be compared."""
    longest = max(sum(1 for _ in definition_rows(each)) if each else 0 for each in (old, new))
    if longest > MOST_COMPARED:
        return definition_view(old, new, ["@@ too long to be compared; both are shown whole @@"])
    return definition_view(old, new, [shown(row) for row in definition_difference(old, new)])


def _deferred(of: KnownWorkspace, approval: Approval, end: datetime, status: str) -> Waiting:
    asked = approval.asked
    action = asked.get("action")
    action = action if isinstance(action, dict) else {}
    verdict = asked.get("verdict")
    verdict = verdict if isinstance(verdict, dict) else {}
    places = asked.get("leads_to")
    leads_to = tuple(str(place) for place in places) if isinstance(places, list) else ()
    known = AskedAction(approval.detail["key"], action, verdict, asked.get("exact") is True, leads_to)
    actions = (known,) if action else ()
    agent, door = str(asked.get("agent") or "") or None, str(asked.get("door") or "")
    tree = _tree(of, approval.id, status, actions, agent=agent, identity=str(asked.get("identity") or ""), door=door)
    if not action:  # an older version kept one line of it
        tree["view"] |= {"title": "needs your approval", "subject": shown(approval.subject)}
    given = asked.get("input")
    if isinstance(given, dict):  # a yes is for exactly that
        tree["view"]["input"] = input_beside(given, tree["view"]["actions"], ())
    why = shown(str(verdict.get("reason") or approval.subject))
    expires = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    tree |= {"why": why, "created": approval.created, "expires": expires, "held": False}
    session = approval.detail.get("session") or "default"
    tree["session"] = session
    tree["view"]["session"] = shown(session)
    return Waiting(of, _key(of, approval), approval.id, status, session, actions, tree, approval=approval)


def _definition(of: KnownWorkspace, approval: Approval) -> Waiting:
    old, new = approval.detail.get("old", ""), approval.detail.get("new", "")
    tree = _tree(of, approval.id, PENDING, (), agent=None, identity="", door="mcp")
    tree["action"] = {"kind": TOOL_DEFINITION, "server": approval.detail["server"], "tool": approval.detail["name"]}
    what = "has changed" if old else "is new, and needs to be looked at"
    tree["view"] |= {
        "title": f"a definition {what}",
        "notice": "a definition of a tool needs your approval",
        "subject": shown(approval.subject),
        "definition": _definitions(old, new),
    }
    why = "what a server says about its tools is served once you have approved it"
    tree |= {"why": why, "created": approval.created, "expires": None, "held": False, "session": "default"}
    return Waiting(of, _key(of, approval), approval.id, PENDING, "default", (), tree, approval=approval)


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
        "notice": notice_of(agent, actions),
        "agent": shown(agent) if agent else "an agent without a name",
        "identity": shown(identity),
        "door": DOORS.get(door, shown(door) or "approvals"),
        "workspace": shown(of.name),
        "actions": [action_view(each) for each in actions],
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
