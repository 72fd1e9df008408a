"""One permission of an agent, in its own spelling, as tables of a rule: at least as wide, and at most as wide. Pure.

Agents match the text of a command; byleave reads what the command does. A pattern of whole words becomes a command with
its arguments, which is also found behind wrappers and paths. A pattern with `*` inside becomes `text`, which matches as
the agents do. `wide` serves a deny or an ask, `narrow` an allow.
"""

from __future__ import annotations

from shlex import split
from typing import TYPE_CHECKING, Any

from byleave.core.patterns import glob_problem
from byleave.core.url import normal_host
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Table = dict[str, Any]

_READ = ["read"]
_WRITE = ["create", "update"]
_CHANGE = ["create", "update", "delete"]
_EVERYWHERE = ["**", "/**"]
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_OPERATORS = ("&&", "||", "|", ";", "&", ">", "<")
_MOST_ALTERNATIVES = 64  # spelled out for one pattern; beyond, fewer words of it are matched
_EVERY_COMMAND = "an allow of every command is not carried over: byleave allows by rules, confined"
_PART_OF_A_WORD = "it holds for whole words only, so it allows less than the original"
_STAR_INSIDE = "a text with * inside says nothing of what runs: it needs approval"


class Pattern(Record):
    """What a permission matches. None: no rule says that. `lost` and `stricter` say what is not as it was."""

    text: str
    wide: Table | None = None
    narrow: Table | None = None
    lost: str = ""
    stricter: str = ""


def split_rule(text: str) -> tuple[str, str | None]:
    """Return the tool and what stands in its parentheses, None without any: `Bash(git status)`."""
    tool, bracket, rest = text.strip().partition("(")
    if not bracket or not rest.endswith(")"):
        return text.strip(), None
    return tool.strip(), rest[:-1]


def command_pattern(text: str, spelled: str, *, prefix: bool = False) -> Pattern:
    """Return what a pattern over commands matches. `prefix`: whatever follows its last word matches, too."""
    spelled = " ".join(spelled.split())
    if spelled in ("", "*", "**"):
        return Pattern(text, {"any_command": True}, None, _EVERY_COMMAND)
    if spelled.endswith(" *"):  # with nothing behind it, the blank and the star may be missing
        spelled, prefix = spelled[:-2].rstrip(), True
    if any(mark in spelled for mark in _OPERATORS):
        return _joined_commands(text, spelled)
    words = _words(spelled)
    if words and "*" not in spelled and words[0]:
        return Pattern(text, _wide(words, prefix=prefix), _narrow(words, prefix=prefix))
    glob = " ".join(words) if words is not None else spelled
    wide: Table = {"any": [{"text": glob}, {"text": f"{glob} *"}]} if prefix else {"text": glob}
    head = glob.partition("*")[0]
    if glob.count("*") == 1 and glob.endswith("*") and words is not None and head and not head.endswith(" "):
        return Pattern(text, wide, _narrow(head.split(" "), prefix=True), _PART_OF_A_WORD)
    return Pattern(text, wide, None, _STAR_INSIDE)


def _joined_commands(text: str, spelled: str) -> Pattern:
    """A pattern over several commands: byleave looks at each by itself, so the first one stands for them."""
    first, rest = spelled, ""
    for mark in _OPERATORS:
        before, found, behind = first.partition(mark)
        if found:
            first, rest = before.strip(), f"{behind}{rest}"
    alone = command_pattern(text, first, prefix=True)
    lost = "it is about several commands at once: it needs approval"
    next_word = (rest.split() or [""])[0]
    if "|" in spelled and next_word in _SHELLS and first.split():
        program = first.split()[0]
        if "*" not in program:
            return Pattern(text, {"command": program, "piped_to_shell": True}, None, lost)
    return Pattern(text, alone.wide, None, lost, f"its first command is meant by itself: {first}")


def _words(spelled: str) -> list[str] | None:
    """Return the words without their quotes; None where they are not known."""
    if not any(mark in spelled for mark in "\"'\\"):
        return spelled.split(" ")

    try:
        return split(spelled)
    except ValueError:
        return None


def _wide(words: Sequence[str], *, prefix: bool) -> Table:
    program, args = words[0], list(words[1:])
    if prefix and not args:
        return {"command": program}
    exact: Table = {"command": program, "args": [*args, "**"] if prefix else args}
    if prefix and len(args) == 1 and not args[0].startswith("-"):
        return {"any": [exact, {"command": program, "subcommand": args[0]}]}
    return exact


def _narrow(words: Sequence[str], *, prefix: bool) -> Table:
    """A bare program does not cover its options that execute or write; named arguments cover all that follows."""
    program, args = words[0], list(words[1:])
    if prefix and not args:
        return {"command": program}
    if prefix:
        return {"command": program, "args": [*args, "**"], "options": "any"}
    return {"command": program, "args": args}


def prefix_pattern(words: Sequence[Sequence[str]]) -> Pattern:
    """Return what a list of words matches, each of them one of several."""
    text = " ".join(["|".join(word) for word in words])
    literal = [number for number, word in enumerate(words) if not all(word) or "**" in word]  # no rule spells these
    kept = list(words[: literal[0] if literal else None])
    while _count(kept) > _MOST_ALTERNATIVES:
        kept.pop()
    ways: list[list[str]] = [[]]
    for word in kept:
        ways = [[*way, each] for way in ways for each in word]
    if not kept:
        return Pattern(
            text, {"any_command": True}, None, "it has too many alternatives", "it has too many alternatives"
        )
    cut = len(kept) < len(words)
    wide = [_wide(way, prefix=True) for way in ways]
    narrow = [_narrow(way, prefix=True) for way in ways]
    stricter = "it has too many alternatives: its first words are matched alone" if cut else ""
    return Pattern(text, _any(wide), None if cut else _any(narrow), stricter, stricter)


def _count(words: Sequence[Sequence[str]]) -> int:
    number = 1
    for word in words:
        number *= len(word)
    return number


def _any(tables: Sequence[Table]) -> Table:
    """Return one table for all of them; an `any` in one of them is opened."""
    flat = [inner for table in tables for inner in (table["any"] if set(table) == {"any"} else [table])]
    return flat[0] if len(flat) == 1 else {"any": flat}


def claude_pattern(text: str, directory: str, root: str) -> Pattern:
    """Return what a permission of Claude Code matches; `/path` starts at `directory`, `path` at `root`."""
    tool, inner = split_rule(text)
    if tool.startswith("mcp__"):
        server, _, name = tool[len("mcp__") :].partition("__")
        return _call(text, server or "*", name)
    if tool == "Bash":
        spelled, colon = (inner[:-2], True) if inner is not None and inner.endswith(":*") else (inner or "", False)
        return command_pattern(text, spelled, prefix=colon)
    if tool in ("Read", "Edit", "Write", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS", "NotebookRead"):
        reads = tool in ("Read", "Glob", "Grep", "LS", "NotebookRead")
        if inner is None or inner in ("*", "**"):
            return _every_file(text, reads=reads)
        return _ignore_style(text, inner, directory, root, reads=reads)
    if tool == "WebFetch":
        return _host(text, None if inner is None else inner.removeprefix("domain:"))
    if tool == "*":
        return Pattern(text, _every_action(), None, _EVERY_COMMAND)
    return Pattern(text)


def _call(text: str, server: str, tool: str) -> Pattern:
    table: Table = {"call": {"server": server} if tool in ("", "*") else {"server": server, "tool": tool}}
    if "[" in f"{server}{tool}" or not f"{server}{tool}".isprintable():
        return Pattern(text, {"call": {"server": "*"}}, None, "the name cannot be matched", "all calls are meant")
    return Pattern(text, table, table)


def _host(text: str, host: str | None) -> Pattern:
    every: Table = {"operation": "fetch"}
    if host is None or host in ("*", ""):
        return Pattern(text, every, every)
    if _is_no_host(host):
        return Pattern(text, every, None, "a host with * cannot be matched", "every address is meant")
    table: Table = {"url": {"host": host}}
    return Pattern(text, table, {"url": {"host": host, "scheme": "https"}}, "it holds for https only")


def _is_no_host(host: str) -> bool:
    return "*" in host or normal_host(host) is None


def _every_action() -> Table:
    kinds = ["execute", "read", "edit", "delete", "move", "search", "fetch"]
    return {"operation": kinds}


def _every_file(text: str, *, reads: bool) -> Pattern:
    wide: Table = {"path": _EVERYWHERE, "ops": _READ if reads else _CHANGE}
    return Pattern(text, wide, {"path": ["**"], "ops": _READ if reads else _WRITE}, "it holds in the workspace only")


def _ignore_style(text: str, path: str, directory: str, root: str, *, reads: bool) -> Pattern:
    """Paths as in a .gitignore: without a slash at any depth, a directory with everything in it."""
    ops = _READ if reads else _CHANGE
    stricter = ""
    anywhere = False
    if ".." in path.split("/") and not path.startswith(("/", "~")):
        path = f"/{_above(root, path)}"
    if path.startswith("//"):
        starts = [path[1:]]
    elif path.startswith("~"):
        starts = [path]
    elif path.startswith("/"):
        starts = [path.lstrip("/"), f"{directory.rstrip('/')}{path}"]
    else:
        path = path.removeprefix("./")
        anywhere = True
        starts = [path] if path.startswith("**") else [f"**/{path}"]
    wide = [each for start in starts for each in _widened(start)]
    if any(glob_problem(each) is not None for each in wide):
        wide, stricter = _EVERYWHERE, "its pattern cannot be matched: every file is meant"
    narrow: Table | None = None
    base = path if anywhere else starts[0]
    exact = "/" in base.rstrip("/") or not anywhere
    if glob_problem(base) is None and (path.startswith("//") or not path.startswith("/")):
        shapes = [base] if exact else [base, f"**/{base}"]
        narrow = {"path": shapes, "ops": _READ if reads else _WRITE}
    lost = "" if narrow is not None else "its pattern cannot be matched: it needs approval"
    return Pattern(text, {"path": wide, "ops": ops}, narrow, lost, stricter)


def _above(root: str, path: str) -> str:
    """Return a path with `..` in it from the workspace on, absolute and without `..`."""
    names: list[str] = []
    for name in f"{root}/{path}".split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return f"/{'/'.join(names)}"


def _widened(path: str) -> list[str]:
    """Return patterns that byleave reads and that match at least as much; what is below a match matches as well."""
    plain = "/".join(["**" if "**" in name else name for name in path.rstrip("/").split("/")])
    return [plain] if plain.endswith("**") else [plain, f"{plain}/**"]


def gemini_pattern(text: str) -> Pattern:
    """Return what an entry of Gemini CLI's `tools.allowed` or `tools.exclude` matches."""
    tool, inner = split_rule(text)
    if tool in ("run_shell_command", "ShellTool"):
        return command_pattern(text, inner or "", prefix=True)
    return _gemini_tool(text, tool)


def _gemini_tool(text: str, tool: str) -> Pattern:
    if tool in ("read_file", "read_many_files", "ReadFileTool", "ReadManyFilesTool", "list_directory", "LSTool"):
        return _every_file(text, reads=True)
    if tool in ("glob", "grep_search", "search_file_content", "GlobTool", "GrepTool"):
        return _every_file(text, reads=True)
    if tool in ("write_file", "replace", "WriteFileTool", "EditTool"):
        return _every_file(text, reads=False)
    if tool in ("web_fetch", "WebFetchTool"):
        return _host(text, None)
    if "__" in tool:
        server, _, name = tool.partition("__")
        return _call(text, server, name)
    if tool.startswith("mcp_") and tool.count("_") > 1:  # where the server ends is not known
        return Pattern(
            text, {"call": {"server": "*"}}, None, "its server is not known from its name", "all calls are meant"
        )
    return Pattern(text, _every_action() if tool == "*" else None, None, "")


def gemini_rule_patterns(rule: Mapping[str, Any]) -> Iterator[Pattern]:
    """Yield what a rule of a policy file matches; conditions that byleave cannot test make an allow none."""
    narrowed = any(name in rule for name in ("argsPattern", "commandRegex", "toolAnnotations", "subagent"))
    narrowed = narrowed or bool(rule.get("modes")) or "interactive" in rule
    names = rule.get("toolName", "run_shell_command" if "commandPrefix" in rule or "commandRegex" in rule else "*")
    for tool in [names] if isinstance(names, str) else names if isinstance(names, list) else ["*"]:
        for pattern in _of_gemini_tool(rule, str(tool)):
            yield (
                pattern.replace(narrow=None, lost="it has a condition that byleave cannot test")
                if narrowed
                else pattern
            )


def _of_gemini_tool(rule: Mapping[str, Any], tool: str) -> Iterator[Pattern]:
    if isinstance(server := rule.get("mcpName"), str):
        yield _call(f"{server} {tool}", server, "*" if tool == "*" else tool)
    elif tool == "run_shell_command" and "commandPrefix" in rule:
        prefixes = rule["commandPrefix"]
        for prefix in [prefixes] if isinstance(prefixes, str) else list(prefixes):
            yield command_pattern(f"run_shell_command({prefix})", str(prefix), prefix=True)
    elif tool == "run_shell_command":
        about = str(rule.get("commandRegex") or rule.get("argsPattern") or tool)
        head = _literal_head(about) if "commandRegex" in rule else ""
        stricter = "its pattern cannot be matched: it is meant for more commands" if about != tool else ""
        wide: Table = {"text": f"{head}*"} if head else {"any_command": True}
        yield Pattern(about, wide, None, _EVERY_COMMAND, stricter)
    else:
        yield _gemini_tool(tool, tool)


def _literal_head(regex: str) -> str:
    """Return what every match of a pattern begins with: its letters before the first sign, but for the last of them."""
    kept = ""
    for letter in regex:
        if not (letter.isalnum() or letter in " -_/"):
            return kept[:-1] if letter in "*?{|" else kept
        kept += letter
    return kept


def cursor_pattern(text: str, root: str) -> Pattern:
    """Return what a permission of Cursor's command line matches."""
    tool, inner = split_rule(text)
    given = inner or ""
    if tool == "Shell":
        base, colon, arguments = given.partition(":")
        if not colon or arguments in ("*", "**"):
            return command_pattern(text, base, prefix=True)
        wide: Table = {"any": [{"text": f"{base} {arguments}"}, {"text": f"{base} {arguments} *"}]}
        return Pattern(text, wide, None, "arguments are matched as text there: it needs approval")
    if tool in ("Read", "Write"):
        reads = tool == "Read"
        if given in ("", "*", "**", "**/*"):
            return _every_file(text, reads=reads)
        return _ignore_style(text, f"/{given}" if given.startswith("/") else given, "", root, reads=reads)
    if tool == "WebFetch":
        return _host(text, given or None)
    if tool == "Mcp":
        server, _, name = given.replace(",", ":", 1).partition(":")
        return _call(text, server.strip() or "*", name.strip())
    return Pattern(text, _every_action() if tool == "*" else None)


def opencode_pattern(tool: str, text: str) -> Pattern:
    """Return what a pattern of one of opencode's tools matches: `*` is anything there, slashes and blanks included."""
    name = f"{tool}({text})"
    if tool == "bash":
        return command_pattern(name, text)
    if tool in ("edit", "write", "patch", "multiedit", "apply_patch"):
        return _any_depth(name, text, reads=False)
    if tool in ("read", "list", "glob", "grep"):
        return _any_depth(name, text if tool in ("read", "list") else "*", reads=True)
    if tool == "webfetch":
        return _host(name, None)
    return Pattern(name)


def _any_depth(name: str, text: str, *, reads: bool) -> Pattern:
    if text in ("*", "**"):
        return _every_file(name, reads=reads)
    path = f"~{text[5:]}" if text.startswith("$HOME") else text
    wide = [each for way in _crossing(path) for each in _widened(way)]
    stricter = ""
    if any(glob_problem(each) is not None for each in wide):
        wide, stricter = _EVERYWHERE, "its pattern cannot be matched: every file is meant"
    narrow: Table | None = {"path": [path], "ops": _READ if reads else _WRITE}
    if glob_problem(path) is not None or "[" in path:
        narrow = None
    return Pattern(name, {"path": wide, "ops": _READ if reads else _CHANGE}, narrow, "", stricter)


def _crossing(path: str) -> list[str]:
    """Return patterns for a path in which `*` matches slashes as well."""
    ways = [""]
    for name in path.split("/"):
        if name in ("*", "**"):
            spelled = ["**"]
        elif "*" in name:
            first, _, last = name.partition("*")
            spelled = [name, f"{first}*/**/*{last}"] if first else [f"**/*{last}"]
        else:
            spelled = [name]
        ways = [f"{way}/{each}" if way else each for way in ways for each in spelled]
    return ways if not path.startswith("/") else [f"/{way.lstrip('/')}" for way in ways]
