"""What each agent did in a workspace, counted from the records of its audit log. Pure.

What ran is what has a record of its effect, or of a confined run that began. A file has changed if the effect was
performed. Of what observe mode left to an agent, the policy's own verdict is counted beside the others: it says what
would have been. Records are decoded only as far as they are counted, so that a million of them take seconds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CHANGING = frozenset({"create", "update", "delete", "move"})
_NOT_DONE = ("refused", "denied", "cancelled")
_FAILED = "failed"
_CONNECTING = frozenset({"run", "call", "mcp"})  # integrations that connect themselves once a URL is allowed
_OBSERVE = "observe"
_BEFORE = "before"
_WORDS = ("allow", "ask", "deny")
COUNTED = ("commands", "denied", "held", "done_unasked", "would_ask", "would_deny")


class _Verdict(Struct):
    decision: str = ""


class _Answer(Struct):
    choice: str = ""


class _Action(Struct):
    kind: str = ""
    command: str | None = None
    path: str | None = None
    to: str | None = None
    url: str | None = None


class _Row(Struct):
    event: str = ""
    time: str = ""
    door: str | None = None
    agent: str | None = None
    mode: str | None = None
    unasked: bool = False
    outcome: str | None = None
    of: int | None = None
    action: _Action | None = None
    verdict: _Verdict | None = None
    answer: _Answer | None = None


class AgentActivity(Struct):
    """What one agent did in one workspace."""

    agent: str | None
    workspace: str
    decisions: Counter[str] = field(default_factory=Counter)
    observed: Counter[str] = field(default_factory=Counter)
    unasked: int = 0
    changed: dict[str, None] = field(default_factory=dict)
    commands: Counter[str] = field(default_factory=Counter)
    denied: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    done_unasked: Counter[str] = field(default_factory=Counter)
    would_ask: Counter[str] = field(default_factory=Counter)
    would_deny: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, None] = field(default_factory=dict)

    @property
    def tree(self) -> dict[str, Any]:
        """The activity for programs."""
        lists = {name: [[each, count] for each, count in getattr(self, name).most_common()] for name in COUNTED}
        return {
            "agent": self.agent,
            "workspace": self.workspace,
            **{word: self.decisions[word] for word in _WORDS},
            "unasked": self.unasked,
            "changed": list(self.changed),
            **lists,
            "hosts": list(self.hosts),
            "observed": {word: self.observed[word] for word in _WORDS},
        }


class ActivityCount:
    """Counts the records of one workspace. `what` puts a whole record into a few words."""

    def __init__(self, workspace: str, what: Callable[[dict[str, Any]], str]) -> None:
        self._workspace = workspace
        self._what = what
        self._begun: set[int] = set()  # numbers of decisions whose confined runs were counted when they began
        self._by_agent: dict[str | None, AgentActivity] = {}
        self.first: str | None = None

    @property
    def agents(self) -> list[AgentActivity]:
        """What each agent did, in the order of their first records."""
        return list(self._by_agent.values())

    def take_all(self, rows: Iterable[tuple[int, str]], since: str | None) -> None:
        """Count every record from a time on; damaged ones are passed over."""
        decode = msgspec.json.Decoder(_Row).decode
        for _sequence, text in rows:
            try:
                row = decode(text)
            except msgspec.MsgspecError:
                continue
            if since is not None and row.time < since:  # the clock was set
                continue
            self.first = self.first or row.time or None
            if row.agent is None and row.door == "cli":
                continue  # the user's own commands
            activity = self._by_agent.get(row.agent)
            if activity is None:
                activity = self._by_agent[row.agent] = AgentActivity(row.agent, self._workspace)
            self._take(activity, row, text)

    def _take(self, activity: AgentActivity, row: _Row, text: str) -> None:
        event = row.event
        decision = row.verdict.decision if row.verdict is not None else ""
        if row.unasked:
            activity.unasked += 1
            activity.done_unasked[self._words(text)] += 1
        if event == "decision" and row.mode == _OBSERVE:
            activity.observed[decision] += 1
            if decision in ("ask", "deny"):
                (activity.would_ask if decision == "ask" else activity.would_deny)[self._words(text)] += 1
        elif event == "decision":
            activity.decisions[decision] += 1
            if decision == "deny":
                activity.denied[self._words(text)] += 1
            elif decision == "allow" and row.door in _CONNECTING:
                _reach(activity, row.action)
            if not row.unasked and (decision == "ask" or (row.answer is not None and row.answer.choice != _BEFORE)):
                activity.held[self._words(text)] += 1
        elif event in ("effect", "observed", "redeemed") and row.action is not None:
            self._did(activity, row, row.action)

    def _did(self, activity: AgentActivity, row: _Row, action: _Action) -> None:
        outcome = row.outcome or ""
        if outcome.startswith(_NOT_DONE):
            return
        if action.kind == "command":
            if row.event == "redeemed" and row.of is not None:
                self._begun.add(row.of)
            elif row.of is not None and row.of in self._begun:
                return
            activity.commands[action.command or ""] += 1
        elif action.kind in _CHANGING:
            if not outcome.startswith(_FAILED):
                activity.changed |= dict.fromkeys([path for path in (action.path, action.to) if path])
        else:
            _reach(activity, action)

    def _words(self, text: str) -> str:
        return self._what(msgspec.json.decode(text))


def _reach(activity: AgentActivity, action: _Action | None) -> None:
    if action is None or action.kind != "url" or not action.url:
        return
    try:
        host = urlsplit(action.url).hostname
    except ValueError:
        return
    if host:
        activity.hosts[host] = None
