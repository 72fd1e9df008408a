"""What `policy lint` finds: one record for each, with its weight, its place, and what to do about it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from byleave.policy.normalize import At

NOTE, WARNING, ERROR = SEVERITIES = ("note", "warning", "error")
CODES = (
    *("shadowed", "duplicate", "no_effect", "contradicts", "broad_allow", "fragile_deny", "plain_http"),
    *("secret_readable", "unknown_program", "unknown_tool", "empty_allow", "case_collision", "leaves_workspace"),
)


class WrittenPlace(Struct, frozen=True):
    """Where a rule is written: the number of its layer, and its path in the tree of that layer's file."""

    layer: int
    at: At


class Finding(Struct, frozen=True):
    """One finding. `place` is set where the rule can be removed without any decision changing."""

    code: str
    severity: str
    rule: str
    source: str
    message: str
    fix: str
    place: WrittenPlace | None = None

    @property
    def tree(self) -> dict[str, Any]:
        """The finding for programs."""
        named = {key: getattr(self, key) for key in ("code", "severity", "rule", "source", "message", "fix")}
        return {**named, "fixable": self.place is not None}


def is_at_least(finding: Finding, severity: str) -> bool:
    """Whether a finding weighs as much as `severity`, or more."""
    return SEVERITIES.index(finding.severity) >= SEVERITIES.index(severity)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the gravest first; of equal weight, by file and line.

    What is said twice is said once, and of several ways past one deny the gravest is enough.
    """
    distinct: dict[tuple[str, ...], Finding] = {}
    for each in findings:
        what = (each.code, each.rule, each.source, "" if each.code == "fragile_deny" else each.message)
        known = distinct.get(what)
        if known is None or (is_at_least(each, known.severity) and each.severity != known.severity):
            distinct[what] = each
    return sorted(distinct.values(), key=_order)


def _order(finding: Finding) -> tuple[int, str, int, int]:
    file, _, line = finding.source.rpartition(":")
    number = int(line) if line.isascii() and line.isdigit() else 0
    return -SEVERITIES.index(finding.severity), file, number, CODES.index(finding.code)
