"""How a person is asked about a call through the client: the form, and what the answer means. Pure.

The form has nothing that must be filled in: accepting it is the yes. Text from outside is shown escaped, and nothing
that a yes covers is left out: what is too long to be shown is not asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.guard.asking import CANCELLED, FOR_SESSION, NO, ONCE
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.guard.asking import Question

ASKER = "elicitation"
KEY = "byleave"  # of our question among those that a result may hold
LONGEST = 4000  # characters that a person can be expected to read
_SCHEMA = {
    "type": "object",
    "properties": {
        "scope": {
            "type": "string",
            "title": "For how long",
            "description": "once: this call alone. session: the same call again, too, until it is revoked.",
            "enum": ["once", "session"],
            "default": "once",
        }
    },
}
_SURE = {"claimed": " (as it says)", "default": " (nobody said who it is)"}
_SCOPES = {"once": ONCE, "session": FOR_SESSION}


def can_be_asked(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client shows forms. One that says nothing of modes has forms: they came first."""
    elicitation = capabilities.get("elicitation")
    return isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)


def question_params(question: Question, *, modes: bool) -> dict[str, Any] | None:
    """Return the form for a question; None if it cannot be shown in full. `modes`: whether the revision has several."""
    facts = question.facts
    name = "an agent that nobody named" if question.who.agent is None else quoted(question.who.agent)
    sure = "" if question.who.agent is None else _SURE.get(question.who.identity, "")
    rows = [f"byleave: may {name}{sure} {_deed(facts)}?"]
    rows += [f"{key}: {shown(value)}" for key, value in facts.items() if key not in ("kind", "server", "tool")]
    rows += [f"which really is: {shown(place)}" for place in question.leads_to]
    rows += [f"in the tool's own words: {shown(question.note)}"] if question.note else []
    rows.append(f"why you are asked: {shown(question.resolved.verdict.reason)}")
    message = "\n".join(rows)
    if len(message) > LONGEST:
        return None
    params: dict[str, Any] = {"message": message, "requestedSchema": _SCHEMA}
    return {"mode": "form", **params} if modes else params


def _deed(facts: Mapping[str, str]) -> str:
    """Return what would be done, in a few words."""
    if facts["kind"] != "call":
        return f"do this: {shown(facts['kind'])}{' by ' + quoted(facts['tool']) if 'tool' in facts else ''}"
    server, tool = shown(facts["server"]), facts.get("tool")
    return f"use the server {server}" if tool is None else f"call {server}/{shown(tool)}"


def reply_in(result: Any) -> str:
    """Return what a person said. Whatever is not a clear yes is a no."""
    if not isinstance(result, dict):
        return NO
    action, content = result.get("action"), result.get("content")
    if action != "accept":
        return CANCELLED if action == "cancel" else NO
    scope = content.get("scope", "once") if isinstance(content, dict) else "once"
    return _SCOPES.get(scope, NO) if isinstance(scope, str) else NO
