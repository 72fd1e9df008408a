"""What a person sees of a question, as plain lines that a page only has to lay out. Pure.

Nothing that a yes covers is cut or left out. Every text is escaped here (`text.shown`): pages put it in as it is.
"""

from __future__ import annotations

import difflib
import json
import re
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
_FIRST = ("command", "path", "to", "url", "server", "tool", "program", "args", "name")
MOST_COMPARED = 500  # lines of a text that is compared with another one
_MOST_LINES = 2000  # of the differences of several edits
_CONTEXT = 2  # lines around a difference
_EDIT = frozenset({"old_string", "new_string"})  # the members of an edit that the difference of the file shows
_CUT = ("@@ too long", "@@ and ")  # how lines begin that say what a difference leaves out
_MOST_VERBS = 3
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z .-]{0,29}")  # what has digits or signs in it may be a secret


def verb_of(action: Tree) -> str:
    """Return what is attempted by an action of this kind; of one that is not known, its own name."""
    kind = str(action.get("kind"))
    return _VERBS.get(kind) or f"do something: {shown(kind)}"


def title_of(actions: Sequence[AskedAction]) -> str:
    """Return what an agent wants to do, in a few words that go on after its name."""
    verbs = list(dict.fromkeys(_VERBS.get(str(each.action.get("kind")), "do something") for each in actions))
    if len(actions) == 1:
        return f"wants to {verbs[0]}"
    if len(verbs) == 1:
        return f"wants to {verbs[0]}, {len(actions)} times"
    more = ["…"] if len(verbs) > _MOST_VERBS else []
    return f"wants {len(actions)} things: to {', to '.join([*verbs[:_MOST_VERBS], *more])}"


def notice_of(agent: str | None, actions: Sequence[AskedAction]) -> str:
    """Return what a notification says of a question: who, if that is a plain short name, and what kind of thing."""
    name = agent if agent is not None and _PLAIN_NAME.fullmatch(agent) else "an agent"
    return f"{name} {title_of(actions)}" if actions else f"{name} needs your approval"


def subject_of(action: Tree) -> str:
    """Return the one line that says what an action is about."""
    kind = action.get("kind")
    if kind == "call":
        return shown(f"{action.get('server')} / {action.get('tool') or 'the server itself'}")
    if kind == "spawn":
        return shown(" ".join([str(action.get("program")), *map(str, action.get("args") or ())]))
    found = next((str(action[name]) for name in _FIRST if action.get(name)), "")
    return shown(f"{found} -> {action['to']}" if action.get("to") else found)


def facts_of(tree: Tree) -> list[list[str]]:
    """Return every field of an action or of a tool's input, a name and a text each."""
    names = [name for name in _FIRST if name in tree] + [name for name in tree if name not in _FIRST]
    return [[shown(name), _value(tree[name])] for name in names]


def action_view(asked: AskedAction) -> dict[str, Any]:
    """Return one action of a question: its kind, what it is about, and what the policy says of it alone."""
    action, verdict = asked.action, asked.verdict
    return {
        "kind": verb_of(action),
        "subject": subject_of(action),
        "decision": shown(str(verdict.get("decision") or "ask")),
        "reason": shown(str(verdict.get("reason") or "")),
        "facts": facts_of(action),
        "parts": parts_of(verdict),
        "because": because_of(verdict),
        "leads_to": [shown(place) for place in asked.leads_to],
    }


def _value(value: Any) -> str:
    if isinstance(value, str):
        return shown_lines(value)
    return shown_lines(json.dumps(value, ensure_ascii=False, indent=2))


def parts_of(verdict: Tree) -> list[dict[str, Any]]:
    """Return the commands that a line was taken apart into, each with its verdict and the files that it names."""
    return [
        {
            "text": shown_lines(str(part.get("text", ""))),
            "decision": shown(str(part.get("decision"))),
            "why": shown(str(part.get("why", ""))),
            "source": shown(str(part.get("source", ""))),
            "files": [
                shown(f"{file.get('op')} {file.get('path')}{_decided(file)}") for file in _trees(part.get("files"))
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
    for number, edit in enumerate(edits):
        if len(lines) > _MOST_LINES:
            lines.append(f"@@ and {len(edits) - number} more edits, which are not shown @@")
            break
        old, new = edit.get("old_string"), edit.get("new_string")
        if isinstance(old, str) and isinstance(new, str):
            lines += difference(old, new)
    content = given.get("content")
    if isinstance(content, str):
        lines += difference(read.get(str(given.get("file_path", "")), ""), content)
    return lines


def input_beside(given: Tree | None, actions: Iterable[Tree], change: Sequence[str]) -> list[list[str]]:
    """Return what the tool would get, as far as the actions and the difference of the file do not say it."""
    if given is None:
        return []
    known = [list(fact) for action in actions for fact in action["facts"]]
    left_out = _members_in(given) if change and not any(line.startswith(_CUT) for line in change) else frozenset()
    return [[name, value] for name, value in facts_of(given) if [name, value] not in known and name not in left_out]


def _members_in(given: Tree) -> frozenset[str]:
    """Return the members of an input that the difference of the file shows in full, as `change_in` makes it."""
    names = frozenset({"content"} if isinstance(given.get("content"), str) else ())
    edits = given.get("edits")
    if "edits" not in given:
        return names | (_EDIT if _is_edit({name: given[name] for name in _EDIT & given.keys()}) else frozenset())
    return names | ({"edits"} if isinstance(edits, list) and all(map(_is_edit, edits)) else frozenset())


def _is_edit(edit: Any) -> bool:
    """Whether this is an edit, and nothing else."""
    return isinstance(edit, dict) and edit.keys() == _EDIT and all(isinstance(text, str) for text in edit.values())


def difference(old: str, new: str) -> list[str]:
    """Return how two texts differ: lines that begin with `+`, `-`, a space or `@@`, all of them escaped.

    What both begin and end with is left out. Comparing takes the square of the number of lines, so what is longer is
    not compared: its beginning is shown as it was and as it would be.
    """
    if old == new:
        return []
    before, after = _lines_of(old, new), _lines_of(new, old)
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    skipped = max(0, start - _CONTEXT)
    kept = max(0, end - _CONTEXT)
    before, after = before[skipped : len(before) - kept], after[skipped : len(after) - kept]
    if max(len(before), len(after)) > MOST_COMPARED:
        return [*_beginning("-", before, "now"), *_beginning("+", after, "then")]
    lines: list[str] = []
    for group in difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT):
        _tag, i1, _i2, j1, _j2 = group[0]
        i2, j2 = group[-1][2], group[-1][4]
        lines.append(f"@@ -{skipped + i1 + 1},{i2 - i1} +{skipped + j1 + 1},{j2 - j1} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {shown(line)}" for line in before[i1:i2]]
            else:
                lines += [f"-{shown(line)}" for line in before[i1:i2]]
                lines += [f"+{shown(line)}" for line in after[j1:j2]]
    return lines


def _lines_of(text: str, other: str) -> list[str]:
    """Return the lines of a text; a last one that is empty only where the other text does not end so, too."""
    if not text:
        return []
    lines = text.split("\n")
    return lines[:-1] if text.endswith("\n") and (not other or other.endswith("\n")) else lines


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines two texts begin with together."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _beginning(mark: str, lines: Sequence[str], when: str) -> list[str]:
    """Return the beginning of what is too long to be compared."""
    left = len(lines) - MOST_COMPARED
    more = [f"@@ and {left} more lines {when}, which are not shown @@"] if left > 0 else []
    head = f"@@ too long to be compared: {len(lines)} lines {when} @@"
    return [head, *[f"{mark}{shown(line)}" for line in lines[:MOST_COMPARED]], *more]


def definition_view(old: str, new: str, rows: Iterable[str]) -> dict[str, Any]:
    """Return two definitions of a tool to be shown side by side, and how they differ."""
    return {"old": _pretty(old), "new": _pretty(new), "diff": list(rows)}


def _pretty(text: str) -> str:
    try:
        return shown_lines(json.dumps(json.loads(text), ensure_ascii=False, indent=2)) if text else ""
    except ValueError:
        return shown_lines(text)
