"""The values of a translation: a tool call in the agent's own words, where it would happen, and its translation.

Some calls only ask the user something in the agent's own name: a question, a plan to agree to, another mode. The
user's answer to them is no permission, and an allow by byleave would answer in the user's place: `is_own_question`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.action import OtherAction
from byleave.record import Record
from byleave.translate.names import bare, last_name, words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.core.action import Action


# Ways of single tools, where others ignore what these read.
FETCHES_PROMPT = "fetches what its prompt names"
KNOWS_TYPES = "searches files of a type, as ripgrep knows it"


class ToolCall(Record):
    """A tool call as its agent describes it: nothing here is checked, and everything may be missing.

    `kind` is one of ACP's kinds (read, edit, delete, move, search, execute, fetch, think, switch_mode, other), or what
    a table of byleave says about a known tool. `raw` is the structured input; None where it is not known. `content` and
    `locations` have ACP's shapes. `tool` is the agent's own name for its tool, where it gave one. `kinds` are other
    kinds the same call was given before. `ways` says what this tool is known to do, beside what all of its kind do.
    """

    kind: str | None = None
    title: str | None = None
    raw: Mapping[str, Any] | None = None
    content: tuple[Any, ...] = ()
    locations: tuple[Any, ...] = ()
    tool: str | None = None
    kinds: tuple[str, ...] = ()
    takes_directory: bool = True
    ways: frozenset[str] = frozenset()


class Where(Record):
    """Where a call would happen. `cwd` is absolute; without one, what is relative is not understood.

    `exists` answers for an absolute path whether something is there (links followed). `shell` is the name of the shell
    that the agent gives its commands to; None where that is not known.
    """

    root: str
    cwd: str | None
    exists: Callable[[str], bool]
    shell: str | None = None


class Translation(Record):
    """What a call amounts to. There is always at least one action.

    `understood` is false where it is not clear what would be done, or not all of it: then the answer is at least ask,
    whatever the policy allows, and `problem` says why in a sentence. `sources` names, for each derived field (command,
    cwd, path, to, url, kind, ...), where it was found: "rawInput.command", "title", "locations", "content", "session".
    `is_own_question`: the agent asks its user something in its own name, which byleave never answers.
    """

    actions: tuple[Action, ...]
    sources: Mapping[str, str]
    understood: bool = True
    problem: str = ""
    is_own_question: bool = False


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


def is_own_question(call: ToolCall, meant: Translation) -> bool:
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


def as_own_question(meant: Translation) -> Translation:
    """Return the meaning of a question of the agent's own: nothing but a person can answer it."""
    return meant.replace(understood=False, problem=OWN_QUESTION, is_own_question=True)


def _asks(name: object) -> bool:
    """Whether a tool's name, or a title that begins with it (`ExitPlanMode: ...`), is that of a question."""
    if not isinstance(name, str):
        return False
    return last_name(name) in _TOOLS or last_name(name.partition(":")[0].strip()) in _TOOLS
