"""Read the hook event of an agent: a JSON object, strictly, and in it the tool call, in the agent's own shape. Pure.

The workspace is never taken from what a model chooses: agents move their working directory (`cd`, a command's own
directory), and a model that could move the workspace along would choose the rules.

Start at `read_tool_call`. What an agent's tools do: `agents`. How each agent is answered: `hook.answer_text`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.hooks.agents import CLAUDE_CODE, CLINE, CODEX, COPILOT, CURSOR, GEMINI, KINDS, OPENCODE, QWEN
from byleave.protocol.json_text import JsonTextError, read_json
from byleave.protocol.lines import has_too_many_values
from byleave.record import Record
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Tree = Mapping[str, Any]


LARGEST = 32 << 20  # bytes of one event; a file that is written goes along whole
_FEW = 1 << 20  # bytes that cannot hold too many values
_BLANKS = " \t\n\r"


class UnreadableEventError(ValueError):
    """An event, or a part of one, that cannot be read in one way only. Its text is a sentence for people."""


def read_object(data: bytes) -> dict[str, Any]:
    """Return the object that these bytes are; names given twice, NaN and anything around the object are refused."""
    if len(data) > LARGEST:
        raise UnreadableEventError(f"the event is larger than {LARGEST >> 20} MB")
    if len(data) > _FEW and has_too_many_values(data):
        raise UnreadableEventError("the event holds too many values")
    try:
        text = data.decode().strip(_BLANKS)
    except UnicodeDecodeError:
        raise UnreadableEventError("the event is not UTF-8") from None
    return read_text(text)


def read_text(text: str) -> dict[str, Any]:
    """Do the same for a text without blanks around it."""
    if not text:
        raise UnreadableEventError("there is no event on standard input")
    try:
        tree = read_json(text)
    except JsonTextError as error:
        raise UnreadableEventError(f"the event {error}") from None
    if not isinstance(tree, dict):
        raise UnreadableEventError("the event is not one JSON object")
    return tree


BEFORE_SHELL, BEFORE_MCP, BEFORE_TOOL = "beforeShellExecution", "beforeMCPExecution", "preToolUse"
BEFORE_READ, BEFORE_TAB_READ = "beforeReadFile", "beforeTabFileRead"
COPILOT_BEFORE = "preToolUse"
_SESSION_NAMES = ("session_id", "conversation_id", "sessionId", "taskId")
_SERVER_NAMES = ("mcp_server_name", "server_name", "server")
_CURSOR_MCP = "MCP:"
_CURSOR_OWN = (BEFORE_SHELL, BEFORE_MCP, BEFORE_READ)
_CURSOR_TWICE = ("Shell", "Read")  # tools that have an event of their own besides that of all tools
# Modes of Claude Code in which a question reaches its user, or is refused. In `auto` a classifier answers in their
# place, in `bypassPermissions` some versions take it for a yes (2.0.0 does). A mode that is not here may do either.
_ASKING = ("default", "manual", "acceptEdits", "plan", "dontAsk", "delegate")


OUTCOME = "outcome"


class Hook(Record):
    """Whose hook this is, and what the command line says about it. `home` takes the place of the environment.

    `only`: nothing but outcomes are taken from this event (`OUTCOME`), and nothing is ever blocked.
    """

    agent: str
    home: str | None = None
    root: str | None = None
    files: tuple[str, ...] = ()
    session: str = "default"
    profile: str | None = None
    only: str | None = None


class HookContext(Record):
    """What surrounds the hook: variables of the agent's own, and where the agent started it ("" if unknown)."""

    variables: Mapping[str, str]
    here: str = ""
    installed: bool = False


class HookToolCall(Record):
    """A tool call that waits for an answer. `project` is where the agent works, as far as the event says.

    `can_ask`: whether the agent would put a question to its user. `server` is set where the event names the MCP
    server of the tool. `problem` says why it is unknown what the call would do.
    """

    event: str
    tool: str
    raw: Tree
    cwd: str | None
    project: str | None
    call: str | None = None
    can_ask: bool = True
    server: str | None = None
    problem: str = ""
    session: str = ""  # the agent's own name of it


def asks_its_user(tree: Tree) -> bool:
    """Whether the mode that an event names lets a question reach the user; versions that name none do."""
    mode = tree.get("permission_mode")
    return mode is None or (isinstance(mode, str) and mode in _ASKING)


def event_name(agent: str, tree: Tree) -> str:
    """Return which of the agent's events this is."""
    return _text(tree, "hook_event_name") if agent not in _EVENT_NAMES else _EVENT_NAMES[agent](tree)


def session_of(tree: Tree) -> str:
    """Return the agent's own name of its session, "" if it gives none."""
    return next((tree[name] for name in _SESSION_NAMES if isinstance(tree.get(name), str)), "")


def read_tool_call(agent: str, tree: Tree, around: HookContext) -> HookToolCall | None:
    """Return what an event asks for, None for an event that asks for nothing of ours."""
    event = event_name(agent, tree)
    reader = _READERS[agent].get(event)
    if reader is not None:
        return reader(tree, around).replace(session=session_of(tree))
    if event.lower() in {known.lower() for known in _READERS[agent]}:
        raise UnreadableEventError(f"the event {quoted(event)} is nearly one that byleave decides")
    return None


def _claude_code(tree: Tree, around: HookContext) -> HookToolCall:
    cwd = directory_of(tree.get("cwd"))
    return HookToolCall(
        "PreToolUse",
        _text(tree, "tool_name"),
        _object(tree, "tool_input"),
        cwd,
        directory_of(around.variables.get("CLAUDE_PROJECT_DIR")) or cwd,  # set by Claude Code, above all settings
        _name(tree.get("tool_use_id")),
        can_ask=asks_its_user(tree),
    )


def _codex(tree: Tree, around: HookContext) -> HookToolCall:
    cwd = directory_of(tree.get("cwd"))
    # The event's directory is the one that the model chose for its command; Codex starts hooks in the session's own.
    project = around.here if around.installed else cwd
    tool, raw = _text(tree, "tool_name"), _object(tree, "tool_input")
    return HookToolCall("PreToolUse", tool, raw, cwd, project, _name(tree.get("tool_use_id")), can_ask=False)


def _gemini(tree: Tree, _around: HookContext) -> HookToolCall:
    cwd = directory_of(tree.get("cwd"))
    tool_call = HookToolCall("BeforeTool", _text(tree, "tool_name"), _object(tree, "tool_input"), cwd, cwd)
    if tree.get("mcp_context") is None:
        return tool_call
    context = _object(tree, "mcp_context")
    return _with(tool_call, server=_text(context, "server_name"), tool=_text(context, "tool_name"))


def _cursor_shell(tree: Tree, _around: HookContext) -> HookToolCall:
    cwd = directory_of(tree.get("cwd"))
    return HookToolCall(BEFORE_SHELL, "Shell", {"command": _text(tree, "command")}, cwd, cursor_root(tree, cwd))


def _cursor_mcp(tree: Tree, _around: HookContext) -> HookToolCall:
    given = tree.get("tool_input")
    raw = read_text(given.strip()) if isinstance(given, str) else _object(tree, "tool_input")
    tool_call = HookToolCall(BEFORE_MCP, _text(tree, "tool_name"), raw, None, cursor_root(tree, None))
    return _on_server(tool_call, tree)


def _cursor_read(tree: Tree, _around: HookContext) -> HookToolCall:
    path = _text(tree, "file_path")
    root = cursor_root(tree, path)
    return HookToolCall(_text(tree, "hook_event_name"), "Read", {"file_path": path}, root, root, can_ask=False)


def _cursor_tool(tree: Tree, _around: HookContext) -> HookToolCall:
    tool, cwd = _text(tree, "tool_name"), directory_of(tree.get("cwd"))
    root = cursor_root(tree, cwd)
    # A question about these two is put at the event of their own, which follows; this one knows no questions.
    asked_later = tool == "Shell" or tool.startswith(_CURSOR_MCP)
    raw, call = _object(tree, "tool_input"), _name(tree.get("tool_use_id"))
    tool_call = HookToolCall(BEFORE_TOOL, tool, raw, cwd or root, root, call, can_ask=asked_later)
    if tool.startswith(_CURSOR_MCP):
        return _on_server(_with(tool_call, tool=tool.removeprefix(_CURSOR_MCP)), tree)
    return tool_call


def has_two_events(agent: str, tool_call: HookToolCall) -> bool:
    """Whether the agent sends another event about the same call: one for tools in general, one for this kind."""
    if agent != CURSOR:
        return False
    of_kind = tool_call.server is not None or tool_call.tool in _CURSOR_TWICE
    return tool_call.event in _CURSOR_OWN or (tool_call.event == BEFORE_TOOL and of_kind)


def _on_server(tool_call: HookToolCall, tree: Tree) -> HookToolCall:
    server = next((tree[name] for name in _SERVER_NAMES if isinstance(tree.get(name), str) and tree[name]), None)
    if server is None:
        return _with(tool_call, problem="the event does not name the MCP server of the tool")
    return _with(tool_call, server=server)


def cursor_root(tree: Tree, inside: str | None) -> str | None:
    """Return the folder that is open in the editor; of several, the one that this path lies in, else the first."""
    given = tree.get("workspace_roots")
    roots = [root for root in given if directory_of(root)] if isinstance(given, list) else []
    around = [root for root in roots if inside is not None and f"{inside}/".startswith(f"{root.rstrip('/')}/")]
    return max(around, key=len) if around else next(iter(roots), inside)


def _opencode(tree: Tree, _around: HookContext) -> HookToolCall:
    directory = directory_of(tree.get("directory"))
    tool, raw = _text(tree, "tool"), _object(tree, "args")
    tool_call = HookToolCall(
        "tool.execute.before", tool, raw, directory, directory, _name(tree.get("call_id")), can_ask=False
    )
    named = tree.get("servers")
    servers = [name for name in named if isinstance(name, str) and name] if isinstance(named, list) else []
    fitting = [name for name in servers if tool.startswith(f"{_as_opencode_names(name)}_")]
    if len(fitting) > 1 or (fitting and tool in KINDS[OPENCODE]):
        return _with(tool_call, problem="the name of the tool does not name its MCP server")
    if fitting:
        return _with(tool_call, server=fitting[0], tool=tool[len(_as_opencode_names(fitting[0])) + 1 :])
    return tool_call


def _as_opencode_names(server: str) -> str:
    """Return how opencode writes a server's name in front of its tools."""
    return "".join([char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in server])


def _copilot_event(tree: Tree) -> str:
    """Return which event it is: Copilot CLI gives most of them no name, but each has members of its own."""
    named = tree.get("hookName", tree.get("hook_event_name"))
    if isinstance(named, str):
        return named
    if "toolName" not in tree:
        return "other"
    return "postToolUse" if "toolResult" in tree or "error" in tree else COPILOT_BEFORE


def _copilot(tree: Tree, _around: HookContext) -> HookToolCall:
    cwd = directory_of(tree.get("cwd"))
    given = tree.get("toolArgs")
    raw = read_text(given.strip()) if isinstance(given, str) else _object(tree, "toolArgs")
    return HookToolCall(COPILOT_BEFORE, _text(tree, "toolName"), raw, cwd, cwd)


def _qwen(tree: Tree, _around: HookContext) -> HookToolCall:
    cwd = directory_of(tree.get("cwd"))
    tool, raw, call = _text(tree, "tool_name"), _object(tree, "tool_input"), _name(tree.get("tool_use_id"))
    # Its own question comes before the hook, and versions before 0.24 take an ask for a no.
    return HookToolCall("PreToolUse", tool, raw, cwd, cwd, call, can_ask=False)


def _cline(tree: Tree, _around: HookContext) -> HookToolCall:
    roots = tree.get("workspaceRoots")
    root = next((place for place in roots if directory_of(place)), None) if isinstance(roots, list) else None
    call = _object(tree, "tool_call")
    tool, raw = _text(call, "name"), _object(call, "input")
    raw = _as_others_say_it(tool, raw)
    return HookToolCall("tool_call", tool, raw, root, root, _name(call.get("id")), can_ask=False)


def _as_others_say_it(tool: str, raw: Tree) -> Tree:
    """Return the input of a tool of Cline's with one command, or with addresses, as other agents name them."""
    commands, requests = raw.get("commands"), raw.get("requests")
    if tool == "run_commands" and isinstance(commands, list) and len(commands) == 1 and isinstance(commands[0], str):
        return _renamed(raw, "commands", "command", commands[0])
    if tool == "fetch_web_content" and isinstance(requests, list) and all(_asks_about_page(each) for each in requests):
        return _renamed(raw, "requests", "urls", [each["url"] for each in requests])
    return raw


def _renamed(raw: Tree, old: str, new: str, value: Any) -> Tree:
    """Return the input with one member under another name, unless it has that name as well."""
    return raw if new in raw else {**{name: raw[name] for name in raw if name != old}, new: value}


def _asks_about_page(request: Any) -> bool:
    return isinstance(request, dict) and set(request) <= {"url", "prompt"} and isinstance(request.get("url"), str)


# Where the name of an event is not in `hook_event_name`.
_EVENT_NAMES: Mapping[str, Callable[[Tree], str]] = {
    COPILOT: _copilot_event,
    CLINE: lambda tree: _text(tree, "hookName"),
}
_READERS: Mapping[str, Mapping[str, Callable[[Tree, HookContext], HookToolCall]]] = {
    CLAUDE_CODE: {"PreToolUse": _claude_code},
    CODEX: {"PreToolUse": _codex},
    GEMINI: {"BeforeTool": _gemini},
    CURSOR: {
        BEFORE_SHELL: _cursor_shell,
        BEFORE_MCP: _cursor_mcp,
        BEFORE_READ: _cursor_read,
        BEFORE_TAB_READ: _cursor_read,
        BEFORE_TOOL: _cursor_tool,
    },
    OPENCODE: {"tool.execute.before": _opencode},
    COPILOT: {COPILOT_BEFORE: _copilot},
    QWEN: {"PreToolUse": _qwen},
    CLINE: {"tool_call": _cline},
}


def _with(tool_call: HookToolCall, **changes: Any) -> HookToolCall:
    return tool_call.replace(**changes)


def _text(tree: Tree, name: str) -> str:
    value = tree.get(name)
    if not isinstance(value, str) or not value:
        raise UnreadableEventError(f"the event has no {name}")
    return value


def _object(tree: Tree, name: str) -> Tree:
    value = tree.get(name)
    if not isinstance(value, dict):
        raise UnreadableEventError(f"the event has no {name}, or it is no object")
    return value


def directory_of(value: object) -> str | None:
    """Return an absolute path; anything else says nothing about where something happens."""
    return value if isinstance(value, str) and value.startswith("/") and "\0" not in value else None


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None
