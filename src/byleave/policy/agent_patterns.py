"""How each agent spells a permission, and the pattern that it stands for. Pure.

A spelling that is not known, or that the agent itself does not read, allows nothing; to deny or to ask it stands for
more than it says, and the pattern says so. The facts behind the functions: docs/policy-import.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.patterns import text_matches
from byleave.policy.permission_patterns import (
    ALL_CALLS_MEANT,
    ANY_FILE,
    CHANGE,
    EVERY_FILE_MEANT,
    READ,
    WRITE,
    Pattern,
    anchored_paths,
    any_of,
    call_pattern,
    command_pattern,
    every_action,
    every_file,
    host_pattern,
    is_plain_path,
    joined_name_pattern,
    operation_pattern,
    outside_workspace,
    split_rule,
    url_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.policy.permission_patterns import Table

_CREATE = ("create",)
_WITH_ITS_LIKE = "a rule cannot name this tool: every tool that is no more than its name is meant"
_ANY_CHANGE = "a rule cannot name this tool: every change of files is meant"
_MOST_WAYS = 64  # in which a path with `*` may cross slashes; beyond, every file is meant


def _bookkeeping(text: str, title: str) -> Pattern:
    """A tool that touches nothing by itself, or asks the user something: byleave has no rules about those."""
    return Pattern(text, None, None, f"byleave leaves tools that touch nothing to {title}, which enforces it itself")


_CLAUDE_SEARCH = ("Glob", "Grep")
_CLAUDE_READ = ("Read", "NotebookRead", "LS")
_CLAUDE_EDIT = ("Edit", "Write", "MultiEdit", "NotebookEdit")
_CLAUDE_GRANTED = {"Edit": WRITE, "Write": _CREATE}
_CLAUDE_BOOKKEEPING = frozenset(
    {
        "Task",
        "Agent",
        "TodoWrite",
        "TodoRead",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskUpdate",
        "TaskOutput",
        "TaskStop",
        "BashOutput",
        "KillShell",
        "KillBash",
        "SendMessage",
        "ToolSearch",
        "AskUserQuestion",
        "EnterPlanMode",
        "ExitPlanMode",
        "EndConversation",
    }
)
_CLAUDE_TOOLS = ("Bash", "Monitor", *_CLAUDE_READ, *_CLAUDE_SEARCH, *_CLAUDE_EDIT, "WebFetch", "WebSearch", "Skill")
_BASH_PARAMETERS = ("run_in_background", "timeout", "description", "dangerouslyDisableSandbox")


def claude_pattern(text: str, directory: str, root: str, *, denies: bool = False) -> Pattern:
    """Return what a permission of Claude Code matches; `/path` starts at `directory`, `path` at `root`.

    `denies`: a path that may not be read may not be changed, either.
    """
    tool, inner = split_rule(text)
    if tool.startswith("mcp__"):
        return _claude_call(text, tool.removeprefix("mcp__"), inner)
    if "*" in tool:
        return _claude_tools(text, tool, directory, root)
    if tool in ("Bash", "Monitor"):
        return _claude_command(text, inner)
    if tool in _CLAUDE_SEARCH and inner is None:
        return Pattern(
            text, {"operation": "search"}, {"path": ["**"], "ops": list(READ)}, "it holds in the workspace only"
        )
    if tool in (*_CLAUDE_READ, *_CLAUDE_SEARCH, *_CLAUDE_EDIT):
        return _claude_file(text, tool, inner, (directory, root), denies=denies)
    if tool == "WebFetch":
        if inner is None:
            return host_pattern(text, None)
        host = inner.removeprefix("domain:").strip()
        return host_pattern(text, host if inner.startswith("domain:") else "")
    if tool in _CLAUDE_BOOKKEEPING:
        return _bookkeeping(text, "Claude Code")
    return operation_pattern(text, "other", stricter=_WITH_ITS_LIKE)


def _claude_call(text: str, name: str, inner: str | None) -> Pattern:
    server, split, _ = name.partition("__")
    if "*" not in server:
        found = call_pattern(text, server, name.partition("__")[2])
        lost = "it is about a parameter of the call: it needs approval"
        return found if inner is None else found.replace(narrow=None, lost=lost, stricter="the whole tool is meant")
    lost = "Claude Code reads a * in an allow only behind the name of a server"
    if not split and name.endswith("*") and name.count("*") == 1:
        return call_pattern(text, name, "").replace(narrow=None, lost=lost)
    if not split:
        return Pattern(text, {"call": {"server": "*"}}, None, lost, ALL_CALLS_MEANT)
    return call_pattern(text, "*", f"*{name.rpartition('__')[2]}").replace(narrow=None, lost=lost)


def _claude_tools(text: str, tool: str, directory: str, root: str) -> Pattern:
    """A name with `*`: Claude Code reads it to deny and to ask, and not to allow."""
    lost = "Claude Code reads no * in the tool's name of an allow"
    if tool.strip("*") == "":
        return every_action(text).replace(lost=lost)
    named = [claude_pattern(each, directory, root) for each in _CLAUDE_TOOLS if text_matches(tool, each)]
    tables = [each.wide for each in named if each.wide is not None]
    head = tool.partition("*")[0]
    if "mcp__".startswith(head) or head.startswith("mcp__"):
        tables.append({"call": {"server": "*"}})
    return Pattern(text, any_of(tables or [{"operation": "other"}]), None, lost, "" if tables else _WITH_ITS_LIKE)


def _claude_command(text: str, inner: str | None) -> Pattern:
    if inner is not None and inner.endswith(":*"):
        return command_pattern(text, inner[:-2], prefix=True)
    if inner is not None and inner.partition(":")[0].strip() in _BASH_PARAMETERS and ":" in inner:
        return Pattern(
            text, None, None, "byleave does not see this parameter of a call: Claude Code enforces it itself"
        )
    return command_pattern(text, inner or "")


def _claude_file(text: str, tool: str, inner: str | None, places: tuple[str, str], *, denies: bool) -> Pattern:
    reads = tool not in _CLAUDE_EDIT
    ops: tuple[str, ...] = READ if reads else CHANGE
    if inner is None or inner in ("*", "**"):
        found = every_file(text, ops, READ if reads else _CLAUDE_GRANTED.get(tool, ()))
        return found if reads or tool == "Edit" else found.replace(stricter=_ANY_CHANGE)
    if tool == "Read" and denies:
        ops = (*READ, *CHANGE)
    found = _ignore_style(text, inner, places, ops, READ if reads else WRITE)
    if tool in ("Read", "Edit"):
        return found
    return found.replace(narrow=None, lost="Claude Code reads a path only behind Read and Edit: it needs approval")


def _ignore_style(text: str, path: str, places: tuple[str, str], ops: Sequence[str], granted: Sequence[str]) -> Pattern:
    """Paths as in a .gitignore: without a slash at any depth, a directory with everything in it."""
    directory, root = places
    if ".." in path.split("/") and not path.startswith(("/", "~")):
        path = f"/{_above(root, path)}"
    shapes: list[str] = []
    if path.startswith("//"):
        starts = shapes = [path[1:]]
    elif path.startswith("~"):
        starts = shapes = [path]
    elif path.startswith("/"):
        starts = [path.lstrip("/"), f"{directory.rstrip('/')}{path}"]
    else:
        path = path.removeprefix("./")
        starts = [path] if path.startswith("**") else [f"**/{path}"]
        shapes = [path] if "/" in path.rstrip("/") else [path, f"**/{path}"]
    narrow: Table | None = None
    if shapes and all(is_plain_path(shape) for shape in shapes):
        narrow = {"path": shapes, "ops": list(granted)}
    return anchored_paths(text, path, starts, ops, narrow)


def _above(root: str, path: str) -> str:
    """Return a path with `..` in it from the workspace on, absolute and without `..`."""
    names: list[str] = []
    for name in f"{root}/{path}".split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return f"/{'/'.join(names)}"


GEMINI_SHELL = ("run_shell_command", "ShellTool")
GEMINI_READ = ("read_file", "read_many_files", "list_directory")
GEMINI_SEARCH = ("glob", "grep_search", "search_file_content")
GEMINI_EDIT = ("write_file", "replace")
GEMINI_OTHER = ("google_web_search", "activate_skill")
_GEMINI_BOOKKEEPING = frozenset(
    {
        "write_todos",
        "update_topic",
        "complete_task",
        "invoke_agent",
        "delegate_to_agent",
        "get_internal_docs",
        "cli_help",
        "list_background_processes",
        "read_background_output",
        "ask_user",
        "enter_plan_mode",
        "exit_plan_mode",
    }
)
_GEMINI_OLD = {
    **dict.fromkeys(("ReadFileTool", "ReadManyFilesTool", "LSTool"), "read_file"),
    **dict.fromkeys(("GlobTool", "GrepTool"), "glob"),
    "WriteFileTool": "write_file",
    "EditTool": "replace",
    "WebFetchTool": "web_fetch",
}
# One tool of each kind, for a rule about all tools.
_GEMINI_EVERY = ("run_shell_command", "read_file", "glob", "write_file", "web_fetch", "google_web_search", "mcp_*")
# Gemini CLI asks about these whatever is allowed.
_BUILD_FILES = (
    *("BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel", ".bazelrc", ".blazerc", "Makefile"),
    *("makefile", "GNUmakefile", "CMakeLists.txt", "package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"),
    *("bun.lockb", "setup.py", "setup.cfg", "pyproject.toml", "go.mod", "go.sum", "Cargo.toml", "Cargo.lock"),
    *("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "Dockerfile"),
    *("Containerfile", "*.bzl", "*.bazel", "*.bzlmod", "*.mk", "*.cmake"),
)


def gemini_pattern(text: str) -> Pattern:
    """Return what an entry of Gemini CLI's lists of tools matches."""
    tool, inner = split_rule(text)
    return gemini_command(text, inner) if tool in GEMINI_SHELL else gemini_tool(text, tool)


def gemini_command(text: str, prefix: str | None) -> Pattern:
    """Return what a prefix of commands matches; `*` is a letter there, and is read as more only to say no."""
    found = command_pattern(text, prefix or "", prefix=True)
    if prefix is None or "*" not in prefix:
        return found
    return found.replace(narrow=None, lost="Gemini CLI reads no * in a prefix: it needs approval")


def gemini_tool(text: str, tool: str) -> Pattern:
    """Return what a tool of Gemini CLI matches by its name; the tools that run commands are not asked about."""
    if tool in _GEMINI_OLD:
        lost = "it is an old name of the tool: it needs approval"
        return gemini_tool(text, _GEMINI_OLD[tool]).replace(narrow=None, lost=lost)
    if tool in GEMINI_READ:
        return every_file(text, READ, READ)
    if tool in GEMINI_SEARCH:
        return every_file(text, READ, READ).replace(wide={"operation": "search"})
    if tool in GEMINI_EDIT:
        granted: Table = {"path": ["**"], "ops": list(_CREATE if tool == "write_file" else ("update",))}
        build: Table = {"not": {"path": [f"**/{name}" for name in _BUILD_FILES]}}
        found = every_file(text, CHANGE, WRITE).replace(stricter=_ANY_CHANGE, narrow={"all": [granted, build]})
        return found.replace(lost="it holds in the workspace only, and not for the files of build tools")
    if tool == "web_fetch":
        return host_pattern(text, None)
    if tool == "*":
        return every_action(text)
    if tool in _GEMINI_BOOKKEEPING or tool.startswith("tracker_"):
        return _bookkeeping(text, "Gemini CLI")
    return _gemini_call(text, tool)


def _gemini_call(text: str, tool: str) -> Pattern:
    if "__" in tool:
        server, _, name = tool.partition("__")
        return call_pattern(text, server, name).replace(narrow=None, lost="Gemini CLI does not read this name any more")
    if not tool.startswith("mcp_"):
        return operation_pattern(text, "other", stricter=_WITH_ITS_LIKE)
    name = tool.removeprefix("mcp_")
    if name == "*":
        return call_pattern(text, "*", "")
    if name.endswith("_*") and "*" not in name[:-1]:
        return call_pattern(text, name[:-2], "")
    found = joined_name_pattern(text, name)
    return found if "*" not in name else found.replace(narrow=None, lost="Gemini CLI reads no * there")


# The keys of a rule that are no conditions, or that byleave tests. Any other may say that it holds less often.
_GEMINI_TESTED = frozenset(
    {
        *("toolName", "mcpName", "commandPrefix", "decision", "priority", "denyMessage", "deny_message"),
        *("allowRedirection", "allow_redirection"),
    }
)


def gemini_rule_patterns(rule: Mapping[str, Any]) -> Iterator[Pattern]:
    """Yield what a rule of a policy file matches; conditions that byleave cannot test make an allow none."""
    conditions = {name for name in rule if name not in _GEMINI_TESTED and (name != "modes" or rule["modes"])}
    names = rule.get("toolName", "run_shell_command" if "commandPrefix" in rule or "commandRegex" in rule else "*")
    lost, stricter = "it has a condition that byleave cannot test", "its conditions are not tested: it always holds"
    given = [names] if isinstance(names, str) else names if isinstance(names, list) else ["*"]
    narrowed = bool(conditions) or not isinstance(names, str | list) or not isinstance(rule.get("mcpName", ""), str)
    every = "*" in given and "mcpName" not in rule
    for tool in _GEMINI_EVERY if every else given:
        for pattern in _of_gemini_tool(rule, str(tool)):
            conditional = pattern.replace(narrow=None, lost=lost, stricter=pattern.stricter or stricter)
            yield conditional if narrowed else pattern


def _of_gemini_tool(rule: Mapping[str, Any], tool: str) -> Iterator[Pattern]:
    if isinstance(server := rule.get("mcpName"), str):
        found = call_pattern(f"{server} {tool}", server, "" if tool == "*" else tool)
        exact = "*" not in server + tool or (tool == "*" and (server == "*" or "*" not in server))
        yield found if exact else found.replace(narrow=None, lost="Gemini CLI reads no * there")
    elif tool in GEMINI_SHELL and "commandPrefix" in rule:
        prefixes = rule["commandPrefix"]
        for prefix in [prefixes] if not isinstance(prefixes, list) else prefixes:
            yield gemini_command(f"run_shell_command({prefix})", str(prefix))
    elif tool in GEMINI_SHELL:
        about = str(rule.get("commandRegex") or rule.get("argsPattern") or tool)
        head = _literal_head(about) if "commandRegex" in rule else ""
        stricter = "its pattern cannot be matched: it is meant for more commands" if about != tool else ""
        wide: Table = {"text": f"{head}*"} if head.strip() else {"any_command": True}
        yield Pattern(about, wide, None, "an allow of every command is not carried over", stricter)
    else:
        yield gemini_tool(tool, tool)


def _literal_head(regex: str) -> str:
    """Return what every match of a pattern begins with: its letters before the first sign, but for the last of them."""
    if "|" in regex:
        return ""
    kept = ""
    for letter in regex:
        if not (letter.isalnum() or letter in " -_/"):
            return kept[:-1] if letter in "*?{" else kept
        kept += letter
    return kept


def cursor_pattern(text: str, root: str) -> Pattern:
    """Return what a permission of Cursor's command line matches."""
    tool, inner = split_rule(text)
    given = (inner or "").strip()
    if tool == "Shell":
        return _cursor_command(text, given)
    if tool in ("Read", "Write"):
        ops, granted = (READ, READ) if tool == "Read" else (CHANGE, WRITE)
        if given in ("", "*", "**", "**/*"):
            return every_file(text, ops, granted if given else ())
        return _cursor_path(text, given, root, ops, granted)
    if tool == "WebFetch":
        return host_pattern(text, given or None)
    if tool == "Mcp":
        return cursor_call(text, given)
    return every_action(text) if tool == "*" else operation_pattern(text, "other", stricter=_WITH_ITS_LIKE)


def cursor_call(text: str, given: str) -> Pattern:
    """Return what `server:tool` matches; a comma may stand for the colon."""
    server, _, name = given.replace(",", ":", 1).partition(":")
    return call_pattern(text, server.strip(), name.strip())


def _cursor_command(text: str, given: str) -> Pattern:
    base, colon, arguments = given.partition(":")
    if any(sign in given for sign in "[]{}"):
        every = "its pattern cannot be matched: every command is meant"
        return Pattern(text, {"any_command": True}, None, "its pattern cannot be matched: it needs approval", every)
    if not colon or arguments.strip() in ("*", "**"):
        found = command_pattern(text, base, prefix=True, wild="*?")
        if len(base.split()) < 2:
            return found
        return found.replace(narrow=None, lost="Cursor matches the first word of a command: it needs approval")
    wide: Table = {"any": [{"text": f"{base} {arguments}"}, {"text": f"{base} {arguments} *"}]}
    return Pattern(text, wide, None, "arguments are matched as text there: it needs approval")


def _cursor_path(text: str, path: str, root: str, ops: Sequence[str], granted: Sequence[str]) -> Pattern:
    """Paths are relative to the workspace, or absolute; to say no, a relative one counts at any depth."""
    found = _ignore_style(text, f"/{path}" if path.startswith("/") else path, ("", root), ops, granted)
    plain = path.removeprefix("./")
    if found.narrow is None or ".." in path.split("/"):
        return found.replace(narrow=None, lost="its pattern cannot be matched: it needs approval")
    return found.replace(narrow={"path": [plain], "ops": list(granted)})


OPENCODE_TOOLS = ("bash", "edit", "read", "list", "glob", "grep", "webfetch", "websearch", "external_directory")
_OPENCODE_BOOKKEEPING = frozenset(
    {
        "task",
        "todowrite",
        "todoread",
        "invalid",
        "question",
        "plan_enter",
        "plan_exit",
        "doom_loop",
        "lsp",
    }
)


def opencode_pattern(tool: str, text: str) -> Pattern:
    """Return what a pattern of one of opencode's tools matches: `*` is anything there, slashes and blanks included."""
    name = f"{tool}({text})"
    if tool == "bash":
        return command_pattern(name, text, wild="*?")
    if tool in ("edit", "write", "patch", "multiedit", "apply_patch"):
        return _any_depth(name, text, CHANGE, WRITE)
    if tool in ("read", "list"):
        return _any_depth(name, text, READ, READ)
    if tool in ("glob", "grep"):
        granted: Table | None = {"path": ["**"], "ops": list(READ)} if text == "*" else None
        stricter = "" if text == "*" else "every search is meant"
        return Pattern(name, {"operation": "search"}, granted, "it holds in the workspace only", stricter)
    if tool == "webfetch":
        return url_pattern(name, text)
    if tool == "external_directory":
        found = outside_workspace(name) if text in ("*", "**") else _any_depth(name, text, (*READ, *CHANGE, "exec"), ())
        lost = "say by rules about paths what may be done there: it needs approval"
        return found.replace(narrow=None, lost=lost)
    if tool in _OPENCODE_BOOKKEEPING:
        return _bookkeeping(name, "opencode")
    if tool in ("websearch", "codesearch", "skill"):
        return operation_pattern(name, "other", stricter=_WITH_ITS_LIKE)
    return _opencode_call(name, tool, text)


def _opencode_call(name: str, tool: str, text: str) -> Pattern:
    """A tool of an MCP server: the server's name, an underscore, the tool's name."""
    if "_" not in tool and "*" not in tool:
        return operation_pattern(name, "other", stricter=_WITH_ITS_LIKE)
    if "*" not in tool:
        found = joined_name_pattern(name, tool)
    elif tool.endswith("*") and tool.count("*") == 1:
        head = tool[:-1]
        narrow: Table | None = {"call": {"server": head[:-1]}} if head.endswith("_") and head[:-1] else None
        ways = [call_pattern(name, tool, "")]
        ways += [call_pattern(name, tool[:at], tool[at + 1 :]) for at, sign in enumerate(tool) if sign == "_" and at]
        found = Pattern(name, any_of([each.wide or {} for each in ways]), narrow)
    else:
        found = Pattern(name, {"call": {"server": "*"}}, None, "its name cannot be matched", ALL_CALLS_MEANT)
    return found if text == "*" else found.replace(narrow=None, lost="it has a condition that byleave cannot test")


def _any_depth(name: str, text: str, ops: Sequence[str], granted: Sequence[str]) -> Pattern:
    if text in ("*", "**"):
        return every_file(name, ops, granted)
    at_home = text.startswith("$HOME") and text[5:6] in ("", "/")
    path = f"~{text[5:]}" if at_home else text
    ways = _crossing(path.replace("?", "*").replace("\\", "/"))
    narrow: Table | None = None
    if granted and is_plain_path(path) and "$" not in path:
        narrow = {"path": [path], "ops": list(granted)}
    if not path or len(ways) > _MOST_WAYS or (text.startswith("$") and not at_home):
        return Pattern(name, {"path": list(ANY_FILE), "ops": list(ops)}, None, "it needs approval", EVERY_FILE_MEANT)
    return anchored_paths(name, path, ways, ops, narrow)


def _crossing(path: str) -> list[str]:
    """Return patterns for a path in which `*` matches slashes as well."""
    ways = [""]
    for name in path.split("/"):
        if name in ("*", "**"):
            spelled = ["**"]
        elif name.count("*") > 1:
            first = name.partition("*")[0]
            spelled = [name, f"{first}*/**"]
        elif "*" in name:
            first, _, last = name.partition("*")
            spelled = [name, f"{first}*/**/*{last}"] if first else [f"**/*{last}"]
        else:
            spelled = [name]
        ways = [f"{way}/{each}" if way else each for way in ways for each in spelled]
        if len(ways) > _MOST_WAYS:
            return ways
    found = ways if not path.startswith("/") else [f"/{way.lstrip('/')}" for way in ways]
    return [*found, *[f"/{way}" for way in found]] if path.startswith("*") else found
