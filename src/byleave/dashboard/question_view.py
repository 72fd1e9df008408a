"""What a person sees of a question, as plain lines that a page only has to lay out. Pure.

Nothing that a yes covers is cut or left out. Every text is escaped here (`text.shown`): pages put it in as it is.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from byleave.store.questions import AskedAction

    Tree = Mapping[str, Any]

_VERBS = {
    "command": "run a command",
    "read": "read a file",
    "create": "create a file",
    "update": "change a file",
    "delete": "delete a file",
    "exec": "execute a file",
    "move": "move a file",
    "url": "open a URL",
    "env": "read a variable",
    "spawn": "start a program",
    "call": "call a tool",
    "search": "search files",
    "other": "use a tool",
}
DOORS = {"hook": "hook", "acp": "ACP proxy", "mcp": "MCP gateway", "call": "tool host", "run": "sandbox"}
_LEFT_OUT = ("kind", "agent", "schema", "respelled")
_FIRST = ("command", "path", "to", "url", "server", "tool", "program", "args", "name")
_MOST_LINES = 400  # of a difference


def title_of(actions: Sequence[AskedAction]) -> str:
    """Return what an agent wants to do, in a few words that go on after its name."""
    verb = _VERBS.get(str(actions[0].action.get("kind")), "do something")
    return f"wants to {verb}" if len(actions) == 1 else f"wants to {verb}, and {len(actions) - 1} more"


def subject_of(action: Tree) -> str:
    """Return the one line that says what an action is about."""
    kind = action.get("kind")
    if kind == "call":
        return shown(f"{action.get('server')} / {action.get('tool') or 'the server itself'}")
    if kind == "spawn":
        return shown(" ".join([str(action.get("program")), *map(str, action.get("args") or ())]))
    found = next((str(action[name]) for name in _FIRST if action.get(name)), "")
    return shown(f"{found} -> {action['to']}" if action.get("to") else found)


def facts_of(action: Tree) -> list[list[str]]:
    """Return every field of an action, a name and a text each."""
    names = [name for name in _FIRST if name in action] + [name for name in action if name not in _FIRST]
    return [
        [shown(name), _value(action[name])]
        for name in names
        if name not in _LEFT_OUT and not name.endswith("_b64") and action[name] not in (None, "", [], {})
    ]


def _value(value: Any) -> str:
    if isinstance(value, str):
        return shown_lines(value)
    return shown_lines(json.dumps(value, ensure_ascii=False, indent=2))


def parts_of(verdict: Tree) -> list[dict[str, Any]]:
    """Return the commands that a line was taken apart into, each with its verdict and the files that it names."""
    return [
        {
            "text": shown_lines(str(part.get("text", ""))),
            "decision": str(part.get("decision")),
            "why": shown(str(part.get("why", ""))),
            "source": shown(str(part.get("source", ""))),
            "files": [
                f"{file.get('op')} {shown(str(file.get('path')))}{_decided(file)}" for file in _trees(part.get("files"))
            ],
        }
        for part in _trees(verdict.get("parts"))
    ]


def _decided(file: Tree) -> str:
    return f" ({file['decision']})" if file.get("decision") else ""


def because_of(verdict: Tree) -> list[dict[str, str]]:
    """Return the rules that had a say, the deciding one first."""
    return [
        {name: shown(str(ref.get(name, ""))) for name in ("rule", "source", "decision")}
        for ref in _trees(verdict.get("because"))
    ]


def _trees(value: Any) -> Iterator[Tree]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def change_in(given: Tree | None, read: Mapping[str, str]) -> list[str]:
    """Return how a file would change, as the lines of a difference; nothing where the tool's input does not say.

    `read` are contents of files by path, as they are now.
    """
    if given is None:
        return []
    edits = [each for each in given.get("edits", ()) if isinstance(each, dict)] if "edits" in given else [given]
    lines: list[str] = []
    for edit in edits:
        old, new = edit.get("old_string"), edit.get("new_string")
        if isinstance(old, str) and isinstance(new, str):
            lines += difference(old, new)
    content = given.get("content")
    if isinstance(content, str):
        lines += difference(read.get(str(given.get("file_path", "")), ""), content)
    return lines


def difference(old: str, new: str) -> list[str]:
    """Return how two texts differ: lines that begin with `+`, `-` or a space, all of them escaped."""
    found = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2)
    lines = [line[:1] + shown(line[1:]) for line in found if not line.startswith(("---", "+++"))]
    return lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], f"@@ and {len(lines) - _MOST_LINES} more @@"]


def definition_view(old: str, new: str, rows: Iterable[str]) -> dict[str, Any]:
    """Return two definitions of a tool to be shown side by side, and how they differ."""
    return {"old": _pretty(old), "new": _pretty(new), "diff": list(rows)}


def _pretty(text: str) -> str:
    try:
        return shown_lines(json.dumps(json.loads(text), ensure_ascii=False, indent=2)) if text else ""
    except ValueError:
        return shown_lines(text)
