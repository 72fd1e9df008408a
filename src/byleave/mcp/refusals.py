"""Verdicts of the gateway's own on calls that the policy would let out, but that cannot go out as they are. Pure."""

import os

from byleave.core.verdict import BUILT_IN, DENY, RuleRef, Verdict, shared_tree
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.core.action import CallAction

CHANGED, UNFITTING = "changed_tool", "bad_arguments"
_WORTH_SAYING = 100  # letters of a name that somebody else chose


def named(server: str, tool: str | None) -> str:
    """Return how a tool is named to people and models."""
    return f"{shown(server[:_WORTH_SAYING])}/{shown((tool or '')[:_WORTH_SAYING])}"


def agents_tree(verdict: Verdict, root: str) -> "dict[str, Any]":
    """Return a verdict as agents may see it: files of the workspace by their path in it, others by their name."""
    because = tuple(ref.replace(source=_place(ref.source, root)) for ref in verdict.because)
    return shared_tree(verdict.replace(because=because), root)


def _place(source: str, root: str) -> str:
    if not os.path.isabs(source):
        return source
    inside = source.removeprefix(root if root.endswith("/") else f"{root}/")
    return inside if inside != source else os.path.basename(source)


def unfitting(action: "CallAction", problem: str) -> Verdict:
    """Return the refusal of arguments that are not what the tool says that it takes."""
    ref = RuleRef("arguments fit the tool's input schema", BUILT_IN, DENY)
    reason = f"the arguments do not fit the input schema of {named(action.server, action.tool)}: {problem}"
    return Verdict(DENY, reason, UNFITTING, (ref,))


def changed(action: "CallAction", why: str = "has changed", what: str = "") -> Verdict:
    """Return the refusal of a tool, or `what` else, whose definition is not approved; `why` goes on from its name."""
    ref = RuleRef("a tool whose definition has changed waits for approval", BUILT_IN, DENY)
    name = f"{what}{named(action.server, action.tool)}"
    reason = f"the definition of {name} {why}, and nobody has approved it: see `byleave approvals list`"
    return Verdict(DENY, reason, CHANGED, (ref,))
