"""Read what an agent reports besides the calls that it is about to make. Pure.

A call ran, or failed; the agent puts its own question about a call to its user; its own check refused one; a session
has ended. None of these is answered, and none is ever a reason to allow something: an event that is not what it should
be is no event.

Start at `read_outcome`. What is made of it: `outcomes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.guard.approval_key import input_pin
from byleave.hooks.agents import CLAUDE_CODE, CLINE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE, QWEN
from byleave.hooks.event_reader import (
    UnreadableEventError,
    cursor_root,
    directory_of,
    event_name,
    read_text,
    session_of,
)
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.hooks.event_reader import HookContext, HookToolCall

    Tree = Mapping[str, Any]

RAN, FAILED, REFUSED, REQUESTED, ENDED = "ran", "failed", "refused", "requested", "ended"
LONGEST_WHY = 120  # characters
_CALL_NAMES = ("tool_use_id", "call_id", "tool_call_id", "toolCallId")
_EXIT = "Exit code "
_TOOL_PERMISSION = "ToolPermission"


class HookOutcome(Record):
    """What an agent reports. `call` is its id of the call, or a hash of the tool and its input where it has none.

    `marks`: what a question is about, as hashes; one of them has to be among those of the call. `ran`: the call was
    certainly carried out, also where it failed.
    """

    what: str
    session: str
    call: str = ""
    marks: tuple[str, ...] = ()
    why: str = ""
    ran: bool = False


def call_of(tree: Tree, tool: str, raw: Tree) -> str:
    """Return by what a call is known from its decision to its outcome."""
    given = next((tree[name] for name in _CALL_NAMES if isinstance(tree.get(name), str) and tree[name]), None)
    return given if given is not None else input_pin([tool, dict(raw)])


def marks_of(tool: str, raw: Tree, tool_call: HookToolCall) -> tuple[str, ...]:
    """Return hashes of all that an agent may name in a question about this call."""
    server = tool_call.server
    marks = [input_pin([tool, dict(raw)])]
    marks += [input_pin(["command", raw["command"]])] if isinstance(raw.get("command"), str) else []
    marks += [input_pin(["path", raw["file_path"]])] if isinstance(raw.get("file_path"), str) else []
    marks += [input_pin(["call", server, tool_call.tool])] if server is not None else []
    return tuple(marks)


def project_of(agent: str, tree: Tree, around: HookContext) -> str | None:
    """Return where the agent works: as it was for the decision, whose records are in that workspace."""
    cwd = directory_of(tree.get("cwd"))
    if agent == CLAUDE_CODE:
        return directory_of(around.variables.get("CLAUDE_PROJECT_DIR")) or cwd
    if agent == CODEX:
        return around.here if around.installed else cwd
    if agent == CURSOR:
        return cursor_root(tree, cwd)
    return directory_of(tree.get("directory")) if agent == OPENCODE else cwd


def read_outcome(agent: str, tree: Tree) -> HookOutcome | None:
    """Return what an event reports; None if it is none of these, or not what it should be."""
    try:
        reader = _READERS[agent].get(event_name(agent, tree))
    except UnreadableEventError:
        return None
    return None if reader is None else reader(tree)


def outcome_names(agent: str) -> tuple[str, ...]:
    """Return the events of an agent that report an outcome."""
    return tuple(_READERS[agent])


def _ran(tree: Tree) -> HookOutcome | None:
    return _about_call(RAN, tree, ran=True)


def _failed(tree: Tree) -> HookOutcome | None:
    given = tree.get("error", tree.get("error_message"))
    error = given if isinstance(given, str) else ""
    interrupted = tree.get("is_interrupt") is True
    why = "interrupted" if interrupted else error.partition("\n")[0][:LONGEST_WHY]
    return _about_call(FAILED, tree, why=why, ran=error.startswith(_EXIT) and not interrupted)


def _refused(tree: Tree) -> HookOutcome | None:
    return _about_call(REFUSED, tree)


def _requested(tree: Tree) -> HookOutcome | None:
    """Read a question about a call, which names its input, and in some versions no id."""
    found = _about_call(REQUESTED, tree)
    if found is None:
        return None
    return found.replace(marks=(input_pin([str(tree.get("tool_name")), dict(_raw(tree) or {})]),))


def _gemini_ran(tree: Tree) -> HookOutcome | None:
    response = tree.get("tool_response")
    failed = isinstance(response, dict) and response.get("error") is not None
    return _about_call(FAILED if failed else RAN, tree, ran=not failed)


def _gemini_notification(tree: Tree) -> HookOutcome | None:
    """Read the question about a call out of a notification, which says what it is about in its own words."""
    details = tree.get("details")
    if tree.get("notification_type") != _TOOL_PERMISSION or not isinstance(details, dict):
        return None
    named = {
        "exec": ["command", details.get("command")],
        "edit": ["path", details.get("filePath")],
        "mcp": ["call", details.get("serverName"), details.get("toolName")],
    }.get(str(details.get("type")))
    if named is None or not all(isinstance(each, str) for each in named):
        return None
    return HookOutcome(REQUESTED, session_of(tree), marks=(input_pin(named),))


def _copilot_after(tree: Tree) -> HookOutcome | None:
    result = tree.get("toolResult")
    kind = result.get("resultType") if isinstance(result, dict) else None
    known = {
        "success": (RAN, True),
        "failure": (FAILED, False),
        "denied": (REFUSED, False),
        "rejected": (REFUSED, False),
    }
    what, ran = known.get(str(kind), (FAILED, False))
    tool, raw = tool_of(COPILOT, tree)
    return _about_call(what, {**tree, "tool_name": tool, "tool_input": raw}, ran=ran)


def _copilot_input(tree: Tree) -> object:
    given = tree.get("toolArgs")
    try:
        return read_text(given.strip()) if isinstance(given, str) else given
    except UnreadableEventError:
        return None


def _opencode_after(tree: Tree) -> HookOutcome | None:
    ended = tree.get("exit")
    failed = isinstance(ended, int) and not isinstance(ended, bool) and ended != 0
    return _about_call(FAILED if failed else RAN, tree, why=f"{_EXIT}{ended}" if failed else "", ran=True)


def _ended(tree: Tree) -> HookOutcome | None:
    session = session_of(tree)
    return HookOutcome(ENDED, session) if session else None


def tool_of(agent: str, tree: Tree) -> tuple[object, object]:
    """Return the name of the tool and its input, as they stand in an event before or after the call."""
    if agent == COPILOT:
        return tree.get("toolName"), _copilot_input(tree)
    return tree.get("tool_name", tree.get("tool")), tree.get("tool_input", tree.get("args"))


def _about_call(what: str, tree: Tree, *, why: str = "", ran: bool = False) -> HookOutcome | None:
    tool = tree.get("tool_name", tree.get("tool"))
    raw = _raw(tree)
    if not isinstance(tool, str) or raw is None:
        return None
    return HookOutcome(what, session_of(tree), call_of(tree, tool, raw), why=why, ran=ran)


def _raw(tree: Tree) -> Tree | None:
    raw = tree.get("tool_input", tree.get("args"))
    return raw if isinstance(raw, dict) else None


_READERS: Mapping[str, Mapping[str, Callable[[Tree], HookOutcome | None]]] = {
    CLAUDE_CODE: {
        "PostToolUse": _ran,
        "PostToolUseFailure": _failed,
        "PermissionRequest": _requested,
        "PermissionDenied": _refused,
        "SessionEnd": _ended,
    },
    # byleave leaves no question to Codex: what it asks its user about is its own affair. Older versions have no event
    # for the end of a session, and may refuse a file that names one.
    CODEX: {"PostToolUse": _ran},
    GEMINI: {"AfterTool": _gemini_ran, "Notification": _gemini_notification, "SessionEnd": _ended},
    CURSOR: {"postToolUse": _ran, "postToolUseFailure": _failed, "sessionEnd": _ended},
    OPENCODE: {"tool.execute.after": _opencode_after, "session.deleted": _ended},
    # Its `permissionRequest` comes before it is known whether its user is asked: no yes follows from it.
    COPILOT: {"postToolUse": _copilot_after},
    QWEN: {"PostToolUse": _ran, "PostToolUseFailure": _failed, "SessionEnd": _ended},
    CLINE: {},
}
