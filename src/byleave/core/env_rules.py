"""Environment rules: exact names, and prefixes that end in `*`. Longest literal decides; on a tie, exact, then last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.decision import BUILT_IN, DENY, INLINE, RuleRef, ref_to
from byleave.record import Record, Sealed
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

# What every child gets however its rules read, unless nothing at all is passed on.
MINIMAL_ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_*", "TERM", "TZ")


class EnvRule(Record):
    """Whether a variable may be read, or only be put into a request by the host (`substitute`)."""

    name: str
    read: bool = False
    substitute: bool = False
    source: str = INLINE

    @property
    def text(self) -> str:
        """The rule in a few words."""
        given = "+".join(word for word in ("read", "substitute") if getattr(self, word)) or "nothing"
        return f"env {shown(self.name)}: {given}"


class EnvTable(Sealed):
    """All environment rules of one tool: one look-up per length of prefix that occurs."""

    def __init__(self, rules: Sequence[EnvRule]) -> None:
        self.rules = tuple(rules)
        self._exact = {rule.name: rule for rule in rules if not rule.name.endswith("*")}
        self._prefix = {rule.name[:-1]: rule for rule in rules if rule.name.endswith("*")}
        self._lengths = sorted({len(prefix) for prefix in self._prefix}, reverse=True)

    def match(self, name: str) -> EnvRule | None:
        """Return the deciding rule; an exact one is never shorter than a prefix, so it comes first."""
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        for length in self._lengths:
            if length <= len(name):
                rule = self._prefix.get(name[:length])
                if rule is not None:
                    return rule
        return None

    @staticmethod
    def ref(rule: EnvRule | None, *, allowed: bool) -> RuleRef:
        """Return the reference to `rule` that a verdict carries; None stands for default-deny."""
        return ref_to(rule, allowed=allowed, missing=NO_ENV_RULE)


NO_ENV_RULE = RuleRef("no access.env rule covers it", BUILT_IN, DENY)


def name_problem(name: str) -> str | None:
    """Say what is wrong with the name of an environment rule, or None."""
    literal = name.removesuffix("*")
    if not name:
        return "an environment rule needs a name"
    if "*" in literal:
        return f'"*" may only stand at the end of a name, not as in {shown(name)}'
    if "=" in literal or "\0" in literal:
        return f'a variable name cannot contain "=" or NUL: {shown(name)}'
    return None
