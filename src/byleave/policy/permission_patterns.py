"""One permission of an agent as tables of a rule: at least as wide, and at most as wide. Pure.

Agents match the text of a command; byleave reads what the command does. A pattern of whole words becomes a command with
its arguments, which is also found behind wrappers and paths. A pattern with `*` inside becomes `text`, which matches as
the agents do. `wide` serves a deny or an ask, `narrow` an allow.

Here are the parts that the formats share: commands, calls, hosts, paths. How each agent spells them: `agent_patterns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.patterns import glob_problem
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Table = dict[str, Any]

READ = ("read",)
WRITE = ("create", "update")
CHANGE = ("create", "update", "delete")
ANY_FILE = ("**", "/**")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_OPERATORS = ("&&", "||", "|", ";", "&", ">", "<", "\n")
_MOST_ALTERNATIVES = 64  # spelled out for one pattern; beyond, fewer words of it are matched
_EVERY_COMMAND = "an allow of every command is not carried over: byleave allows by rules, confined"
_PART_OF_A_WORD = "it holds for whole words only, so it allows less than the original"
_STAR_INSIDE = "a text with * inside says nothing of what runs: it needs approval"
_HAS_VARIABLE = "it begins with a variable: it needs approval"
EVERY_FILE_MEANT = "its pattern cannot be matched: every file is meant"
ALL_CALLS_MEANT = "its name cannot be matched: all calls are meant"


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


def command_pattern(text: str, spelled: str, *, prefix: bool = False, wild: str = "*") -> Pattern:
    """Return what a pattern over commands matches. `prefix`: whatever follows its last word matches, too.

    `wild` are the signs that stand for other letters there.
    """
    if any(mark in spelled for mark in _OPERATORS):
        return _joined_commands(text, spelled, wild)
    even = " ".join(spelled.split())
    if even != spelled:  # agents match blanks one by one; a rule matches words
        found = command_pattern(text, even, prefix=prefix, wild=wild)
        return found.replace(narrow=None, lost="it has blanks that no command has: it needs approval")
    if spelled in ("", "*", "**"):
        return Pattern(text, {"any_command": True}, None, _EVERY_COMMAND)
    if spelled.endswith(" *"):  # with nothing behind it, the blank and the star may be missing
        spelled, prefix = spelled[:-2].rstrip(), True
    words = _words(spelled)
    starred = any(sign in spelled for sign in wild)
    if words and "=" in words[0] and not starred:
        behind = " ".join(spelled.split(" ")[1:])
        rest = command_pattern(text, behind, prefix=prefix, wild=wild)
        return rest.replace(narrow=None, lost=_HAS_VARIABLE, stricter="it is meant without the variable, too")
    if words and not starred and words[0]:
        return Pattern(text, _wide(words, prefix=prefix), _narrow(words, prefix=prefix))
    glob = " ".join(words) if words is not None else spelled
    if not glob.strip():
        return Pattern(text, {"any_command": True}, None, _STAR_INSIDE, "its words are not known: every command is")
    wide: Table = {"any": [{"text": glob}, {"text": f"{glob} *"}]} if prefix else {"text": glob}
    head = glob.partition("*")[0]
    whole = glob.count("*") == 1 and glob.endswith("*") and words is not None and bool(head)
    if whole and not head.endswith(" ") and not any(sign in head for sign in wild) and "=" not in head.split(" ")[0]:
        return Pattern(text, wide, _narrow(head.split(" "), prefix=True), _PART_OF_A_WORD)
    return Pattern(text, wide, None, _STAR_INSIDE)


def _joined_commands(text: str, spelled: str, wild: str) -> Pattern:
    """A pattern over several commands: byleave looks at each by itself, so the first one stands for them."""
    first, rest = spelled, ""
    for mark in _OPERATORS:
        before, found, behind = first.partition(mark)
        if found:
            first, rest = before.strip(), f"{behind}{rest}"
    alone = command_pattern(text, first, prefix=True, wild=wild)
    lost = "it is about several commands at once: it needs approval"
    next_word = (rest.split() or [""])[0]
    if "|" in spelled and next_word in _SHELLS and first.split():
        program = first.split()[0]
        if not any(sign in program for sign in wild):
            return Pattern(text, {"command": program, "piped_to_shell": True}, None, lost)
    return Pattern(text, alone.wide, None, lost, f"its first command is meant by itself: {first}")


def _words(spelled: str) -> list[str] | None:
    """Return the words without their quotes; None where they are not known."""
    if not any(mark in spelled for mark in "\"'\\"):
        return spelled.split(" ")
    from shlex import split  # only where a pattern has quotes

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
        every = "its first word has too many alternatives, or is empty: every command is meant"
        return Pattern(text, {"any_command": True}, None, "it cannot be spelled as a rule: it needs approval", every)
    cut = len(kept) < len(words)
    wide = [_wide(way, prefix=True) for way in ways]
    narrow = [_narrow(way, prefix=True) for way in ways]
    stricter = "it has too many alternatives, or an empty word: its first words are matched alone" if cut else ""
    return Pattern(text, any_of(wide), None if cut else any_of(narrow), stricter, stricter)


def _count(words: Sequence[Sequence[str]]) -> int:
    number = 1
    for word in words:
        number *= len(word)
    return number


def any_of(tables: Sequence[Table]) -> Table:
    """Return one table for all of them; an `any` in one of them is opened."""
    flat = [inner for table in tables for inner in (table["any"] if set(table) == {"any"} else [table])]
    return flat[0] if len(flat) == 1 else {"any": flat}


def call_pattern(text: str, server: str, tool: str) -> Pattern:
    """Return what a server and one of its tools match; `*` is anything in both, "" any tool."""
    table: Table = {"call": {"server": server} if tool in ("", "*") else {"server": server, "tool": tool}}
    if any(sign in f"{server}{tool}" for sign in "[?") or not f"{server}{tool}".isprintable() or not server:
        return Pattern(text, {"call": {"server": "*"}}, None, "its name cannot be matched", ALL_CALLS_MEANT)
    return Pattern(text, table, table)


def joined_name_pattern(text: str, name: str) -> Pattern:
    """Return what `server_tool` matches: where the server ends is not known, so each underscore is tried."""
    ways = [(name[:at], name[at + 1 :]) for at, letter in enumerate(name) if letter == "_" and name[at + 1 :]]
    found = [each for server, tool in ways if server and (each := call_pattern(text, server, tool)).narrow is not None]
    if not found or len(found) < len([way for way in ways if way[0]]) or len(found) > _MOST_ALTERNATIVES:
        return Pattern(text, {"call": {"server": "*"}}, None, "its name cannot be matched", ALL_CALLS_MEANT)
    return Pattern(text, any_of([each.wide or {} for each in found]), any_of([each.narrow or {} for each in found]))


def host_pattern(text: str, host: str | None) -> Pattern:
    """Return what a host matches, every address without one."""
    every: Table = {"operation": "fetch"}
    if host is None or host == "*":
        return Pattern(text, every, every)
    if _is_no_host(host):
        return Pattern(text, every, None, "a host with * cannot be matched", "every address is meant")
    table: Table = {"url": {"host": host}}
    return Pattern(text, table, {"url": {"host": host, "scheme": "https"}}, "it holds for https only")


def url_pattern(text: str, url: str) -> Pattern:
    """Return what a URL with `*` in it matches; only a plain host with `/*` behind it can be allowed."""
    every: Table = {"operation": "fetch"}
    if url in ("*", "**"):
        return Pattern(text, every, every)
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if scheme != "https" or not slash or path.rstrip("*") or not path or _is_no_host(host) or ":" in host:
        return Pattern(
            text, every, None, "its addresses cannot be matched: it needs approval", "every address is meant"
        )
    return Pattern(text, every, {"url": {"host": host, "scheme": "https"}}, "", "every address is meant")


def _is_no_host(host: str) -> bool:
    from byleave.core.url import normal_host  # only where a permission names a host

    return "*" in host or normal_host(host) is None


def operation_pattern(text: str, operation: str, *, stricter: str = "") -> Pattern:
    """Return what stands for a tool that is no more than its kind: it can be denied or asked about with its like."""
    lost = "a rule cannot name this tool: it needs approval"
    return Pattern(text, {"operation": operation}, None, lost, stricter)


def every_action(text: str) -> Pattern:
    """Return what a permission for all tools matches."""
    kinds = ["execute", "read", "edit", "delete", "move", "search", "fetch", "other"]
    wide: Table = {"any": [{"operation": kinds}, {"call": {"server": "*"}}]}
    return Pattern(text, wide, None, _EVERY_COMMAND)


def every_file(text: str, ops: Sequence[str], granted: Sequence[str]) -> Pattern:
    """Return what a permission for all files matches: `ops` to say no to, `granted` to allow in the workspace."""
    wide: Table = {"path": list(ANY_FILE), "ops": list(ops)}
    if not granted:
        return Pattern(text, wide, None, "a rule cannot name this tool: it needs approval")
    lost = "it holds in the workspace only"
    return Pattern(text, wide, {"path": ["**"], "ops": list(granted)}, lost)


def outside_workspace(text: str) -> Pattern:
    """Return what is not in the workspace."""
    return Pattern(text, {"all": [{"path": ["/**"]}, {"not": {"path": ["**"]}}]}, None, "it needs approval")


def anchored_paths(text: str, path: str, starts: Sequence[str], ops: Sequence[str], granted: Table | None) -> Pattern:
    """Return what paths that begin in any of `starts` match, and everything below them."""
    wide = [each for start in starts for each in widened(start)]
    stricter = ""
    if not path.strip() or any(glob_problem(each) is not None for each in wide):
        wide, stricter = list(ANY_FILE), EVERY_FILE_MEANT
    lost = "" if granted is not None else "its pattern cannot be matched: it needs approval"
    return Pattern(text, {"path": wide, "ops": list(ops)}, granted, lost, stricter)


def is_plain_path(path: str) -> bool:
    """Whether byleave's globs read a path as other programs do, but for `*`, `**` and `?`."""
    odd = any(sign in path for sign in "[]{}\\!#") or not path.isprintable() or path != path.strip()
    return bool(path) and not odd and glob_problem(path) is None


def widened(path: str) -> list[str]:
    """Return patterns that byleave reads and that match at least as much; what is below a match matches as well."""
    names = ["**" if "**" in name else "*" if _is_odd(name) else name for name in path.rstrip("/").split("/")]
    plain = "/".join(names)
    return [plain] if plain.endswith("**") else [plain, f"{plain}/**"]


def _is_odd(name: str) -> bool:
    """Whether programs differ in how they read a name of a pattern: classes, braces, escapes, negations."""
    return any(sign in name for sign in "[]{}\\!") or name != name.strip() or name.startswith("#")
