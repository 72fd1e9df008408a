"""`byleave policy groups`: what each group of commands contains, in the words of the rules that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.cli.output import fitted, paint, say, say_json
from byleave.core.command_groups import GROUPS
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from byleave.cli.arguments import ParsedArguments

ABOUT = {
    "read_only_git": "looking at a repository and its history",
    "compilation": "building and checking, by compilers and build programs",
    "safe_npm": "npm commands that only look something up",
    "package_listing": "listing installed packages",
    "tests": "running tests",
    "read_only_files": "looking at files and at the machine",
    "network": "programs that reach other machines",
    "destructive": "what removes or overwrites, and cannot be undone",
    "privilege": "becoming another user, and changing users, modes and services",
    "installing": "installing and removing packages",
    "publishing": "pushing, publishing and deploying",
    "remote": "fetching from, and working on, other machines",
    "administration": "changing the machine itself",
}


def run(given: ParsedArguments) -> int:
    """Print every group, or one."""
    names = [given.words["NAME"]] if "NAME" in given.words else list(GROUPS)
    if given.flag("json"):
        say_json({name: group_tree(name) for name in names})
        return 0
    for number, name in enumerate(names):
        if number:
            say("")
        if given.flag("quiet"):
            say(name)
            continue
        say(f"{paint(name, 'bold')}: {ABOUT[name]}")
        for line in described(GROUPS[name]):
            say(fitted(f"  {shown(line)}"))
    if not given.flag("quiet"):
        say("")
        say(fitted('In a rule: allow = { group = "NAME" }. Options that execute or write are outside of every group.'))
    return 0


def group_tree(name: str) -> dict[str, Any]:
    """Return a group for programs: what it is about, its commands in words, and the table that a rule stands for."""
    return {"about": ABOUT[name], "contains": list(described(GROUPS[name])), "table": GROUPS[name]}


def described(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands of a group, one line for each program or form."""
    alternatives = table["any"] if set(table) == {"any"} else [table]
    forms: dict[tuple[str, str], list[str]] = {}  # those that exclude the same options stand together
    for each in alternatives:
        first, *others = [_form(inner) for inner in each.get("all", [each])]
        excluded = ", ".join(others)
        forms.setdefault((first if not others else "", excluded), []).append(first)
    for (_alone, excluded), alike in forms.items():
        yield f"{' or '.join(dict.fromkeys(alike))}{f', {excluded}' if excluded else ''}"


def _form(table: Mapping[str, Any]) -> str:
    if "not" in table:
        return f"without {_excluded(table['not'])}"
    if "any" in table:
        return " or ".join(_form(each) for each in table["any"])
    words = [_either(table["command"])]
    words += [_either(table["subcommand"])] if "subcommand" in table else []
    words += [" ".join(table["args"]) or "(without arguments)"] if "args" in table else []
    words += table.get("flags", [])
    text = " ".join(word if word != "**" else "..." for word in " ".join(words).split(" "))
    if "operands" in table:
        text += " (without operands)" if table["operands"] == 0 else f" (at most {table['operands']} operand)"
    return f"{text} (within {table['within']})" if "within" in table else text


def _excluded(table: Mapping[str, Any]) -> str:
    """Return the options that the forms of one command must not have."""
    flags = [flag for each in table.get("any", [table]) for flag in each.get("flags", ())]
    return ", ".join(flags)


def _either(words: str | list[str]) -> str:
    return words if isinstance(words, str) else "|".join(words)
