"""Decisions, figures and activity out of the audit log of a workspace, for pages and programs.

Figures are counted once over all records, and then go on with those that are new.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from byleave.dashboard.markup import cut
from byleave.guard.evaluation import ELSEWHERE, NEVER, NO, YESES
from byleave.store.audit.query import Filter
from byleave.store.audit.wording import deciding_rule, part, said, text, what
from byleave.text import shown

if TYPE_CHECKING:
    from byleave.store.audit.log import AuditLog
    from byleave.store.audit.table import StoredRecord

MOST_LIVE = 1000  # records of one answer, and rows of the page
_LARGEST_ANSWER = 3 << 19  # characters of the records of one answer
_AT_ONCE = 200  # records that are read before their length is looked at
LONGEST_ROW = 300  # characters of what a list says about a record; the record itself has all of it
PAGE = 50  # records of one page of the activity
_MOST_NAMES = 5000  # of agents, rules, hosts and commands that are counted
_MINUTES = len("2026-01-01T00:00")  # of a record's time
DECISIONS = ("allow", "ask", "deny")
_BY_PERSON = YESES | {NO, NEVER, ELSEWHERE}


class Decisions(Struct, frozen=True):
    """Records of decisions after a sequence, oldest first; `last` is the sequence to go on from."""

    records: list[dict[str, Any]]
    last: int


def decisions_after(log: AuditLog, after: int) -> Decisions:
    """Return the newest decisions after a sequence: no more than a page shows."""
    last = log.head().sequence
    if last <= after:
        return Decisions([], max(last, 0))
    found: list[StoredRecord] = []  # the newest first
    room = _LARGEST_ANSWER
    matching = Filter(after=after, event="decision")
    while len(found) < MOST_LIVE and room > 0:
        some = list(log.query_before(matching, found[-1].sequence if found else None, _AT_ONCE))
        for each in reversed(some):
            room -= len(each.text)
            if room < 0 and found:
                break
            found.append(each)
        if len(some) < _AT_ONCE:
            break
    last = max(last, found[0].sequence if found else 0)
    return Decisions([each.tree for each in reversed(found)], last)


def row_of(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a record as one line of a list, every text escaped and cut."""
    rule, source = deciding_rule(tree)
    answer = part(tree, "answer")
    return {
        "sequence": tree.get("sequence"),
        "time": shown(text(tree.get("time"))),
        "local": local_time(text(tree.get("time"))),
        "decision": said(tree) if said(tree) in DECISIONS else "",
        "said": cut(shown(said(tree)), 40),
        "agent": cut(shown(text(tree.get("agent"))), 60),
        "door": cut(shown(text(tree.get("door"))), 20),
        "what": cut(shown(what(tree)), LONGEST_ROW),
        "reason": cut(shown(text(part(tree, "verdict").get("reason"))), LONGEST_ROW),
        "rule": cut(shown(rule), 120),
        "source": cut(shown(source), 120),
        "answer": cut(shown(text(answer.get("choice"))), 20),
    }


def local_time(written: str) -> str:
    """Return a time of a record as the user's clock has it; what is none, as it is."""
    try:
        return datetime.fromisoformat(written).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return shown(written)


@lru_cache(4096)
def _local_day(minute: str) -> str:
    """Return the day of the user's clock on which a minute of a record is."""
    return local_time(f"{minute}Z")[:10]


class Activity(Struct, frozen=True):
    """One page of records, newest first, and where the pages before and after it begin."""

    records: list[StoredRecord]
    older: int | None
    newer: int | None


def activity(log: AuditLog, matching: Filter, before: int | None, after: int | None) -> Activity:
    """Return a page of what a filter matches: up to `before`, or from `after` on, else the newest ones."""
    requested = PAGE + 1
    if after is not None:
        found = list(log.query_from(matching, after, requested))
        more = len(found) > PAGE
        found = found[:PAGE]
        newer = found[-1].sequence if more else None
        older = found[0].sequence if found else None
    else:
        found = list(log.query_before(matching, before, requested))
        more = len(found) > PAGE
        found = found[-PAGE:]
        older = found[0].sequence if more else None
        newer = found[-1].sequence if found and before is not None else None
    return Activity(found[::-1], older, newer)


class _Ref(Struct):
    rule: str = ""
    source: str = ""


class _Verdict(Struct):
    decision: str = ""
    because: list[_Ref] = []


class _Answer(Struct):
    choice: str | None = None


class _Counted(Struct):
    """As much of a record as is counted: reading only that takes a tenth of the time."""

    event: str = ""
    time: str = ""
    agent: str | None = None
    verdict: _Verdict | None = None
    answer: _Answer | None = None


_counted = msgspec.json.Decoder(_Counted)


class Figures(Struct):
    """What the overview shows of one workspace."""

    decisions: dict[str, int]
    days: list[tuple[str, dict[str, int]]]
    agents: list[tuple[str, dict[str, int]]]
    deciders: dict[str, int]
    denied: list[tuple[str, int]]
    rules: list[tuple[str, str, int]]
    hosts: list[tuple[str, int]]
    uses: dict[tuple[str, str], tuple[int, str]]
    records: int


class FigureCounter:
    """Counts the records of one workspace: all of them once, then those that are new."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._first = self._last = 0
        self._forget()

    def _forget(self) -> None:
        self._total: Counter[str] = Counter()
        self._days: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._agents: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._deciders: Counter[str] = Counter()
        self._denied: Counter[str] = Counter()
        self._rules: Counter[tuple[str, str]] = Counter()
        self._hosts: Counter[str] = Counter()
        self._uses: dict[tuple[str, str], tuple[int, str]] = {}
        self._last = 0

    def figures(self) -> Figures:
        """Return the figures as they are now."""
        last = self._log.head().sequence
        if last != self._last:
            first = self._log.first()
            if first != self._first:  # the oldest records were removed
                self._first = first
                self._forget()
            for kept in self._log.texts(self._last):
                self._last = kept.sequence
                self._take(kept)
        busiest = sorted(self._agents.items(), key=lambda each: -each[1].total())
        return Figures(
            decisions={word: self._total[word] for word in DECISIONS},
            days=[(day, dict(self._days[day])) for day in sorted(self._days)[-30:]],
            agents=[(name, dict(counts)) for name, counts in busiest[:12]],
            deciders=dict(self._deciders),
            denied=self._denied.most_common(8),
            rules=[(rule, source, count) for (rule, source), count in self._rules.most_common(8)],
            hosts=self._hosts.most_common(8),
            uses=self._uses,
            records=last,
        )

    def _take(self, kept: StoredRecord) -> None:
        try:
            record = _counted.decode(kept.text)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            return
        verdict = record.verdict
        if record.event != "decision" or verdict is None or verdict.decision not in DECISIONS:
            return
        word, choice = verdict.decision, None if record.answer is None else record.answer.choice
        self._total[word] += 1
        self._days[_local_day(record.time[:_MINUTES])][word] += 1
        name = cut(record.agent or "", 60)
        if name in self._agents or len(self._agents) < _MOST_NAMES:
            self._agents[name][word] += 1
        self._deciders[_decider(choice)] += 1
        refs = [(cut(ref.rule, LONGEST_ROW), ref.source) for ref in verdict.because]
        for key in refs:
            if key in self._uses or len(self._uses) < _MOST_NAMES:
                self._uses[key] = (self._uses.get(key, (0, ""))[0] + 1, record.time)
        if word == "deny":
            _count(self._denied, cut(what(kept.tree), LONGEST_ROW))
        elif word == "allow" and not choice and refs:
            _count(self._rules, refs[0])
        if word == "allow" and '"kind":"url"' in kept.text:
            host = _host(text(part(kept.tree, "action").get("url")))
            if host:
                _count(self._hosts, host)


def _decider(choice: object) -> str:
    """Return who decided, by the answer in a record; an agent's own prompt is its user's."""
    if choice is None:
        return "rule"
    return "approval" if choice == "before" else "person" if choice in _BY_PERSON else "nobody"


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _count(counter: Counter[Any], key: Any) -> None:
    """Count one more, of a bounded number of names: the rarest give way."""
    counter[key] += 1
    if len(counter) > _MOST_NAMES:
        for name, _number in counter.most_common()[_MOST_NAMES // 2 :]:
            del counter[name]
