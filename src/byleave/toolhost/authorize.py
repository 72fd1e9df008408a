"""Authorize a call of a configured tool before it runs: its run mode and the user's rules together.

A call of a local tool is the action `call` on the server `local`. Where no rule matches it, the run mode decides; else
the stricter of the two.

A run mode is one word for a tool, or an ordered list of conditions on its arguments. A pointer through a list means any
of its elements; but to run unattended every one of them has to match: else one harmless element would let the others
pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.action import LOCAL, CallAction
from byleave.core.arguments import ArgumentTest
from byleave.core.decision import ALLOW, ASK, BUILT_IN, CODES, DENY, VERBS, RuleRef, Verdict, strictest
from byleave.core.patterns import searcher
from byleave.core.policy import NO_RULE
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.action import Action
    from byleave.guard.evaluation import Asker, Question
    from byleave.policy.compile import Compiled
    from byleave.policy.live_policy import LivePolicy, ResolvedAction


ASKS, UNATTENDED, EDIT, SKIP = "ask", "unattended", "edit", "skip"
_TESTS = ("prefix", "equals", "glob", "regex", "inside")
_DECISIONS = {
    UNATTENDED: ALLOW,
    ASKS: ASK,
    EDIT: ASK,
    SKIP: DENY,
}  # what was edited by a person is no longer asked about


def mode_of(run: str | list[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str:
    """Return how a call with these arguments runs; where no condition matches, the user is asked."""
    if isinstance(run, str):
        return run
    for rule in run:
        if _matches(rule, arguments):
            mode: str = rule["mode"]
            return mode
    return ASKS


def _matches(rule: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Whether a condition holds. What cannot be tested does not loosen: it matches unless that would run unattended."""
    name = next(name for name in _TESTS if name in rule)
    test = ArgumentTest(rule["arg"], name, rule[name], _search(rule[name]) if name == "regex" else None)
    granting = rule["mode"] == UNATTENDED
    holds = test.holds(arguments, granting=granting)
    return holds is True if granting else holds is not False


def _search(pattern: str) -> Callable[[str], bool] | None:
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


_LATER = ("fetch", "apply", "abort")


def run_mode(policy: LivePolicy, tool: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the mode of a call; None where the user has set none."""
    known = policy.compiled.tools.get(tool)
    run = None if known is None else known.settings.get("run")
    if run is None or known is None:
        return None
    if known.settings.get("stateful") and "action" not in arguments:  # both ways to write a spawn are decided alike
        arguments = {"action": "spawn", "args": arguments}
    return mode_of(run, arguments)


class WithRunModes:
    """A policy that also knows the run modes of local tools; in everything else, the policy it was made of.

    `by_hand`: the user makes the call, so a tool without a mode runs where no rule matches the call.
    """

    def __init__(self, policy: LivePolicy, *, by_hand: bool) -> None:
        self._policy = policy
        self._by_hand = by_hand
        self.root, self.could_call = policy.root, policy.could_call  # asked for with every call
        self.edited: Mapping[str, Any] | None = None  # the very arguments that the user has just edited

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    @property
    def compiled(self) -> Compiled:
        """The policy as it was compiled last: asked for so often that it does not take the long way."""
        return self._policy.compiled

    def decide(self, action: Action | Mapping[str, Any], *, confines: bool = False) -> Verdict:
        """Return the verdict on an action."""
        return self.evaluate(action, confines=confines).verdict

    def evaluate(self, action: Action | Mapping[str, Any], *, confines: bool = False) -> ResolvedAction:
        """Evaluate an action; for a call of a local tool, its run mode counts, too."""
        resolved = self._policy.evaluate(action, confines=confines)
        asked = resolved.action
        if not isinstance(asked, CallAction) or asked.server != LOCAL or asked.tool is None:
            return resolved
        moded = self._by_mode(asked.tool, asked.arguments if isinstance(asked.arguments, dict) else {})
        if moded is None:
            return resolved
        silent = resolved.verdict.because[0] == NO_RULE
        verdict = moded if silent else strictest([resolved.verdict, moded])
        return resolved.replace(verdict=verdict)

    def _by_mode(self, tool: str, arguments: Mapping[str, Any]) -> Verdict | None:
        if goes_on(self._policy, tool, arguments):
            return _allowed(tool, "its start was authorized")
        if self.edited is not None and self.edited is arguments:
            return _allowed(tool, "you have edited the arguments")
        mode = run_mode(self._policy, tool, arguments)
        if mode is not None:
            return mode_verdict(mode, tool)
        if not self._by_hand:
            return None
        return _allowed(tool, "you called it yourself")


def _allowed(tool: str, why: str) -> Verdict:
    return Verdict(ALLOW, f"calling {shown(tool)} is allowed: {why}", "ok", (RuleRef(why, BUILT_IN, ALLOW),))


def goes_on(policy: LivePolicy, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether this is an action on a running stateful tool, whose start was authorized."""
    known = policy.compiled.tools.get(tool)
    return known is not None and bool(known.settings.get("stateful")) and arguments.get("action") in _LATER


class DescribingAsker:
    """Asks as another asker does, and adds the tool's own description of the call."""

    def __init__(self, asker: Asker, describe: Callable[[CallAction], str | None]) -> None:
        self._asker = asker
        self._describe = describe

    @property
    def name(self) -> str:
        return self._asker.name

    def ask(self, question: Question, patience: float) -> str:
        """Return what the person says."""
        action = question.resolved.action
        if isinstance(action, CallAction) and action.server == LOCAL:
            question = question.replace(note=self._describe(action) or "")
        return self._asker.ask(question, patience)
