"""How each agent is told what the policy says, in its own format. Pure.

What goes wrong is told otherwise, and alike to all of them: exit code 2, and the reason on standard error.
"""

from byleave.audit.encode import encode
from byleave.core.verdict import ALLOW, DENY, WORDS
from byleave.hooks.tools import CLAUDE_CODE, CODEX, CURSOR, GEMINI, OPENCODE
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.core.verdict import Decision

LONGEST_REASON = 2000  # characters; a command of 30,000 helps nobody in a sentence
_NOTHING, _EMPTY = "", "{}"
# Where byleave has nothing to say; some agents want an object even then.
NEUTRAL: "Mapping[str, str]" = {
    CLAUDE_CODE: _NOTHING,
    CODEX: _NOTHING,
    GEMINI: _EMPTY,
    CURSOR: _EMPTY,
    OPENCODE: _EMPTY,
}


def answer_text(agent: str, decision: "Decision | None", reason: str) -> str:
    """Return what to write to standard output: no decision leaves the call to the agent.

    An ask is for an agent that can put it to its user.
    """
    if decision is None and agent == OPENCODE:  # its plugin is ours, and knows nothing in between
        decision = ALLOW
    return NEUTRAL[agent] if decision is None else _FORMATS[agent](decision, plain_reason(reason))


def plain_reason(reason: str) -> str:
    """Return a reason that every reader of JSON takes, and that fits into a line: never empty, never half a letter."""
    text = shown(reason).strip() or "byleave gives no reason"
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}... (cut)"


def _claude_code(decision: "Decision", reason: str) -> str:
    said = {"permissionDecision": WORDS[decision], "permissionDecisionReason": f"byleave: {reason}"}
    return encode({"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}})


def _codex(decision: "Decision", reason: str) -> str:
    """Codex takes a deny. An allow it calls unsupported, and an ask as well, and then runs the call."""
    return _NOTHING if decision is ALLOW else _claude_code(DENY, reason)


def _gemini(decision: "Decision", reason: str) -> str:
    if decision is ALLOW:
        return encode({"decision": "allow"})
    told = f"byleave: {reason}"
    return encode({"decision": WORDS[decision], "reason": told, "systemMessage": told})


def _cursor(decision: "Decision", reason: str) -> str:
    if decision is ALLOW:
        return encode({"permission": "allow"})
    told = f"byleave: {reason}"
    return encode({"permission": WORDS[decision], "user_message": told, "agent_message": told})


def _opencode(decision: "Decision", reason: str) -> str:
    return encode({"decision": WORDS[decision], "reason": f"byleave: {reason}"})


_FORMATS: "Mapping[str, Callable[[Decision, str], str]]" = {
    CLAUDE_CODE: _claude_code,
    CODEX: _codex,
    GEMINI: _gemini,
    CURSOR: _cursor,
    OPENCODE: _opencode,
}
