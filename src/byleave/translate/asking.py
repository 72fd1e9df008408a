"""Calls by which an agent asks its user something in its own name: a question, a plan to agree to, another mode.

The user's answer to them is no permission: an allow of ours would answer in the user's place.
"""

from byleave.core.action import OtherAction
from byleave.translate.names import bare, last_name, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.translate.call import Call, Meaning

OWN_QUESTION = "the agent asks you this in its own name, so only you can answer it"
_SWITCH_MODE = "switch_mode"
# Of every agent: Claude Code, Codex, Gemini CLI, Qwen Code, Kimi, vibe, opencode, Cursor, Copilot, Cline, Droid.
_TOOLS = words(
    "ask_user_question ask_user_questions ask_user ask_question ask_questions ask_followup_question ask_human question "
    "request_user_input request_permissions enter_plan_mode exit_plan_mode exit_spec_mode plan_enter plan_exit "
    "plan_mode_respond create_plan propose_plan switch_mode"
)
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")  # also full-width, and of Arabic
_ASKED = words("question questions plan choices")  # names in the input of such a call


def is_own_question(call: "Call", meant: "Meaning") -> bool:
    """Whether a call is nothing but a question of the agent's own."""
    if not all(isinstance(action, OtherAction) for action in meant.actions):
        return False
    if _SWITCH_MODE in (call.kind, *call.kinds) or any(_asks(name) for name in (call.tool, call.title)):
        return True
    if not all(getattr(action, "name", None) == "think" for action in meant.actions):
        return False
    if isinstance(call.title, str) and call.title.rstrip().endswith(_QUESTION_MARKS):
        return True
    raw = call.raw if call.raw is not None and hasattr(call.raw, "items") else {}
    return any(bare(str(key)) in _ASKED and bool(value) for key, value in raw.items())


def as_own_question(meant: "Meaning") -> "Meaning":
    """Return the meaning of a question of the agent's own: nothing but a person can answer it."""
    made: Meaning = meant.replace(understood=False, problem=OWN_QUESTION, is_own_question=True)
    return made


def _asks(name: object) -> bool:
    """Whether a tool's name, or a title that begins with it (`ExitPlanMode: ...`), is that of a question."""
    if not isinstance(name, str):
        return False
    return last_name(name) in _TOOLS or last_name(name.partition(":")[0].strip()) in _TOOLS
