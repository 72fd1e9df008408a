"""How often each rule of a policy decided something, and when it did last, from the records of decisions.

Pure: the texts of records in, counts out. A hit belongs to a rule by the rule's text, its family, and for a rule of a
tool's access by the tool: the line may have moved since. Of several rules with the same text the place decides, as far
as one of them still has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from byleave.analysis.coverage import ACCESS, deciding

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from byleave.analysis.coverage import WrittenRule

_FAMILY = {
    **dict.fromkeys(("read", "create", "update", "delete", "exec", "move", "search"), "fs"),
    "url": "net",
    "env": "env",
    "spawn": "commands",
}
_NOTHING = Raw(b"null")
_MOST_KNOWN = 100_000  # different sets of rules; a log with more of them is only slower


class RuleHit(Struct, frozen=True):
    """How many decisions hung on a rule, and the time of the last one."""

    hits: int = 0
    last: str | None = None


class _Verdict(Struct):
    decision: object = None
    because: Raw = _NOTHING
    parts: Raw = _NOTHING


class _Action(Struct):
    kind: object = None
    tool: object = None


class _Record(Struct):
    """What of a record counts here; everything else is passed over unread."""

    event: object = None
    time: str = ""
    action: _Action | None = None
    verdict: _Verdict | None = None


class RuleHits:
    """Counts the hits of the rules of one policy. `records` is how many decisions were read."""

    def __init__(self, rules: Iterable[WrittenRule]) -> None:
        self.records = 0
        self._by_text: dict[str, list[WrittenRule]] = {}
        for rule in rules:
            self._by_text.setdefault(rule.rule, []).append(rule)
        self._found: dict[WrittenRule, list[Any]] = {}
        self._known: dict[tuple[bytes, object, object], tuple[WrittenRule, ...] | None] = {}
        self._decode = msgspec.json.Decoder(_Record).decode

    def take(self, text: str) -> None:
        """Count one record; one that is no decision, or that is damaged, counts nothing."""
        try:
            record = self._decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        verdict, action = record.verdict, record.action
        if record.event != "decision" or verdict is None:
            return
        self.records += 1
        kind, tool = (None, None) if action is None else (action.kind, action.tool)
        tool = tool if isinstance(tool, str) else None
        for rule in self._rules(verdict, kind, tool):
            found = self._found.setdefault(rule, [0, ""])
            found[0] += 1
            found[1] = max(found[1], record.time)

    def of(self, rule: WrittenRule) -> RuleHit:
        """Return the hits of a rule."""
        found = self._found.get(rule)
        return RuleHit() if found is None else RuleHit(found[0], found[1] or None)

    def _rules(self, verdict: _Verdict, kind: object, tool: str | None) -> tuple[WrittenRule, ...]:
        """Return the rules that a verdict hangs on; most verdicts name one rule, and the same as others did."""
        because = bytes(verdict.because)
        key = (because, kind if isinstance(kind, str) else None, tool)
        known = self._known.get(key)
        if known is not None:
            return known
        refs = _decoded(because)
        alone = not isinstance(refs, list) or len(refs) < 2  # then the parts of a command change nothing
        tree = {
            "decision": verdict.decision,
            "because": refs,
            "parts": None if alone else _decoded(bytes(verdict.parts)),
        }
        ruled = [self._meant(text, source, kind, tool) for text, source in deciding(tree)]
        found = tuple(dict.fromkeys(rule for rule in ruled if rule is not None))
        if alone and len(self._known) < _MOST_KNOWN:
            self._known[key] = found
        return found

    def _meant(self, text: str, source: str, kind: object, tool: str | None) -> WrittenRule | None:
        """Return the rule of the policy that a record names: by its place if several have its text."""
        family = _FAMILY.get(kind) if isinstance(kind, str) else None
        alike = [
            rule
            for rule in self._by_text.get(text, ())
            if (rule.family, rule.tool) == (family, tool) or rule.family not in ACCESS
        ]
        return next((rule for rule in alike if rule.source == source), alike[0] if alike else None)


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None
