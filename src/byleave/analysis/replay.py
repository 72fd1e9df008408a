"""Recorded actions against another policy: what would be decided otherwise, and how many questions there would be.

`old` is what the policy said when the record was made, not what a person made of it. What a record does not hold any
more cannot be replayed, and is counted: an action that was masked or cut, a file that is gone, a tool that is not
configured, a request that byleave could not read. Equal actions are decided once: a million records take seconds.

Values in, values out; actions are decided by `policy.live_policy`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from byleave.core.action import CallAction, FileAction, MoveAction, SearchAction, parse_action
from byleave.core.decision import WORDS
from byleave.core.fs_rules import FsTarget
from byleave.core.redact import REDACTED
from byleave.errors import ByleaveError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from byleave.core.decision import RuleRef
    from byleave.policy.live_policy import LivePolicy
    from byleave.store.audit.table import StoredRecord

MASKED = "a secret in it was masked"
CUT = "the record was cut"
DAMAGED = "the record cannot be read"
GONE = "the file is gone"
NO_TOOL = "the tool is not configured"
NOT_THE_RULES = "it was not decided by the rules alone"
NOT_ACCEPTED = "the action cannot be read"
_APPROVAL = "approval"
_CUT_MARK = b'"[cut]"'
# What byleave answers whatever the rules say: the request was not readable, or the moment was wrong.
_NOT_RULES = frozenset(
    {
        "what byleave cannot read needs approval",
        "what was shown is what is allowed",
        "a policy that cannot be used denies",
        "nothing is allowed that cannot be recorded",
        "limits of the proxy",
    }
)


class _Because(Struct):
    rule: str = ""
    source: str = ""
    decision: str = ""


class _RecordedVerdict(Struct):
    decision: str = ""
    because: list[_Because] = []
    sandbox: Any = None


class _RecordedDecision(Struct):
    action: Raw = Raw()
    verdict: _RecordedVerdict | None = None
    door: str | None = None
    agent: str | None = None
    time: str = ""


class ReplayedChange(Struct, frozen=True):
    """A record that would be decided otherwise, and by which rule."""

    sequence: int
    action: dict[str, Any]
    old: str
    new: str
    rule: RuleRef


class Replay(Struct):
    """What a replay found. `first` and `last` are the times of the records."""

    records: int = 0
    replayed: int = 0
    unreplayable: list[tuple[int, str]] = msgspec.field(default_factory=list)
    changed: list[ReplayedChange] = msgspec.field(default_factory=list)
    old_questions: int = 0
    new_questions: int = 0
    first: str = ""
    last: str = ""

    @property
    def reasons(self) -> Counter[str]:
        """How often each reason kept a record from being replayed."""
        return Counter(why for _sequence, why in self.unreplayable)


class Replayer:
    """Replays records, one after the other. The answer to an action is kept for the next equal one."""

    def __init__(self, policy: LivePolicy, *, home: str = "") -> None:
        self._policy = policy
        self._home = home
        self._decoder = msgspec.json.Decoder(_RecordedDecision)
        self._known: dict[tuple[bytes, bool, bool, str | None], tuple[str, RuleRef] | str] = {}
        self.found = Replay()

    def take(self, record: StoredRecord) -> None:
        """Replay one record."""
        found = self.found
        found.records += 1
        try:
            kept = self._decoder.decode(record.text)
        except (msgspec.DecodeError, RecursionError):
            found.unreplayable.append((record.sequence, DAMAGED))
            return
        found.first, found.last = found.first or kept.time, kept.time or found.last
        old = _said_by_policy(kept.verdict)
        raw = bytes(kept.action)
        if old is None or not raw:
            found.unreplayable.append((record.sequence, NOT_THE_RULES if raw else DAMAGED))
            return
        confines = kept.verdict is not None and kept.verdict.sandbox is not None
        key = (raw, confines, kept.door == "hook", kept.agent)
        answer = self._known.get(key)
        if answer is None:
            answer = self._known[key] = self._decide(*key)
        if isinstance(answer, str):
            found.unreplayable.append((record.sequence, answer))
            return
        new, rule = answer
        found.replayed += 1
        found.old_questions += old == "ask"
        found.new_questions += new == "ask"
        if new != old:
            found.changed.append(ReplayedChange(record.sequence, msgspec.json.decode(raw), old, new, rule))

    def _decide(self, raw: bytes, confines: bool, by_hook: bool, agent: str | None) -> tuple[str, RuleRef] | str:  # noqa: FBT001 -- a key, taken apart
        """Return the decision and its rule, or why there is none."""
        if REDACTED.encode() in raw:
            return MASKED
        if _CUT_MARK in raw:
            return CUT
        try:
            action = parse_action(msgspec.json.decode(raw))
            if action.agent is None and agent is not None:
                action = action.replace(agent=agent)
            if isinstance(action, CallAction) and by_hook:
                action = action.replace(respelled=True)
            tool = None if isinstance(action, CallAction) else getattr(action, "tool", None)
            if tool is not None and tool not in self._policy.compiled.policy.views[0].tools:
                return NO_TOOL
            if isinstance(action, FileAction | MoveAction | SearchAction) and self._is_gone(action):
                return GONE
            verdict = self._policy.decide(action, confines=confines)
        except (InputError, msgspec.DecodeError):
            return NOT_ACCEPTED
        except ByleaveError as error:
            return error.problem
        return verdict.decision.word, verdict.because[0]

    def _is_gone(self, action: FileAction | MoveAction | SearchAction) -> bool:
        """Whether nothing is at a path any more at which something was: what it led to then is not known."""
        if isinstance(action, FileAction) and action.kind == "create":
            return False
        place = self._policy.root.resolve_any(action.path, home=self._home or None)
        return isinstance(place, FsTarget) and not place.exists


def _said_by_policy(verdict: _RecordedVerdict | None) -> str | None:
    """Return what the policy itself said; None where something else did."""
    if verdict is None or verdict.decision not in WORDS or not verdict.because:
        return None
    first = verdict.because[0]
    if first.rule in _NOT_RULES:
        return None
    if first.source != _APPROVAL:
        return verdict.decision
    if len(verdict.because) < 2 or verdict.because[1].rule in _NOT_RULES:
        return None
    said = verdict.because[1].decision
    return said if said in WORDS else None


def replay(records: Iterable[StoredRecord], policy: LivePolicy, *, home: str = "") -> Replay:
    """Return what another policy would have said to these records."""
    replayer = Replayer(policy, home=home)
    for record in records:
        replayer.take(record)
    return replayer.found


def replay_tree(found: Replay) -> dict[str, Any]:
    """Return a replay in the JSON shape that other programs rely on."""
    return {
        "records": found.records,
        "replayed": found.replayed,
        "unreplayable": [{"sequence": sequence, "why": why} for sequence, why in found.unreplayable],
        "changed": [
            {
                "sequence": change.sequence,
                "action": change.action,
                "old": change.old,
                "new": change.new,
                "rule": {"rule": change.rule.rule, "source": change.rule.source, "decision": change.rule.decision.word},
            }
            for change in found.changed
        ],
        "questions": {"old": found.old_questions, "new": found.new_questions},
    }
