"""Does a call run at all? One mode for a tool, or an ordered list of conditions on its arguments. Pure.

A pointer through a list means any of its elements; but to run unattended every one of them has to match: else one
harmless element would let the others pass.
"""

from byleave.core.arguments import ArgumentTest
from byleave.core.patterns import searcher
from byleave.core.rules import CODES, VERBS
from byleave.core.verdict import ALLOW, ASK, BUILT_IN, DENY, RuleRef, Verdict
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ASKS, UNATTENDED, EDIT, SKIP = "ask", "unattended", "edit", "skip"
_TESTS = ("prefix", "equals", "glob", "regex", "inside")
_DECISIONS = {
    UNATTENDED: ALLOW,
    ASKS: ASK,
    EDIT: ASK,
    SKIP: DENY,
}  # what was edited by a person is no longer asked about


def mode_of(run: "str | list[Mapping[str, Any]]", arguments: "Mapping[str, Any]") -> str:
    """Return how a call with these arguments runs; where no condition matches, the user is asked."""
    if isinstance(run, str):
        return run
    for rule in run:
        if _matches(rule, arguments):
            mode: str = rule["mode"]
            return mode
    return ASKS


def _matches(rule: "Mapping[str, Any]", arguments: "Mapping[str, Any]") -> bool:
    """Whether a condition holds. What cannot be tested does not loosen: it matches unless that would run unattended."""
    name = next(name for name in _TESTS if name in rule)
    test = ArgumentTest(rule["arg"], name, rule[name], _search(rule[name]) if name == "regex" else None)
    granting = rule["mode"] == UNATTENDED
    holds = test.holds(arguments, granting=granting)
    return holds is True if granting else holds is not False


def _search(pattern: str) -> "Callable[[str], bool] | None":
    try:
        return searcher(pattern)
    except ValueError:  # it was refused when it was read; nothing is looser for it
        return None


def mode_verdict(mode: str, tool: str) -> Verdict:
    """Return what a mode says about a call, as a verdict."""
    decision = _DECISIONS[mode]
    ref = RuleRef(f"tools.{shown(tool)}: run = {mode}", BUILT_IN, decision)
    reason = f"calling {shown(tool)} {VERBS[decision]}: its run mode is {mode}"
    return Verdict(decision, reason, CODES[decision], (ref,))
