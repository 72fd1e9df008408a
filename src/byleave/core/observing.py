"""What byleave decides by itself, whatever the rules, and what is mere silence of the rules. Pure.

In observe mode only the first holds; what is silence may be left to an agent (`[hooks] silent`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.command_files import CLOSED_BELOW, READ_AT_RUN_TIME
from byleave.core.decision import ALLOW, ASK, BUILT_IN
from byleave.core.policy import NO_RULE

if TYPE_CHECKING:
    from byleave.core.decision import Decision, RuleRef, Verdict

OBSERVE = "observe"  # the value of `[defaults] mode` with which rules decide nothing
LEFT_TO_AGENT = "agent"  # the value of `[hooks] silent`

# How these begin: they say that rules do not reach as far as they would have to, or what rules about paths come to.
SILENT = (
    *(NO_RULE.rule, "caution: no rule names ", "a command that is allowed confined "),
    *(CLOSED_BELOW, READ_AT_RUN_TIME.rule),
)


def built_in_decision(verdict: Verdict) -> Decision | None:
    """Return the strictest ask or deny that byleave takes whatever the rules say; None if there is none."""
    return max([ref.decision for ref in verdict.because if _is_built_in(ref)], default=None)


def _is_built_in(ref: RuleRef) -> bool:
    return ref.source == BUILT_IN and ref.decision is not ALLOW and not ref.rule.startswith(SILENT)


def is_silence(verdict: Verdict) -> bool:
    """Whether a verdict needs approval for no other reason than that no rule matches."""
    if verdict.decision is not ASK:
        return False
    return all(ref == NO_RULE for ref in verdict.because if ref.decision is not ALLOW)
