"""Records for people and for other programs: a line each, a page each, NDJSON, CSV. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.text import shown

if TYPE_CHECKING:
    from typing import Any

    from byleave.store.audit.table import StoredRecord

    Tree = dict[str, Any]

COLUMNS = (
    *("sequence", "time", "event", "session", "door", "agent", "identity", "kind", "tool", "what", "decision"),
    *("code", "reason", "rule", "source", "hash"),
)
_SUBJECTS = ("command", "path", "url", "program", "server", "query", "name", "title")
# What an agent did without asking its editor for permission first, before an answer, in spite of a no, or otherwise.
_MARKS = (
    ("unasked", "(unasked)"),
    ("unanswered", "(unanswered)"),
    ("refused_before", "(refused before)"),
    ("another_than_asked", "(another than asked)"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with these a spreadsheet takes a cell for something to compute


def part(tree: Tree, name: str) -> Tree:
    """Return an object inside a record, an empty one if there is none."""
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def what(tree: Tree) -> str:
    """Return in a few words what was attempted, or what the record is about; and whether a person was asked."""
    against = ["(against a rule)"] if was_seen(tree) and part(tree, "verdict").get("decision") == "deny" else []
    return " ".join([_subject(tree), *[mark for name, mark in _MARKS if tree.get(name) is True], *against])


def _subject(tree: Tree) -> str:
    action = part(tree, "action")
    if not action:
        return " ".join([text(tree.get("event")), *_more(tree)])
    if action.get("kind") == "other":
        return " ".join(text(action[name]) for name in ("name", "title") if action.get(name))
    subject = next((text(action[name]) for name in _SUBJECTS if action.get(name)), "")
    if action.get("kind") == "spawn":
        subject = " ".join([subject, *_words(action.get("args"))])
    elif action.get("kind") == "call":
        subject = f"{subject} {text(action.get('tool'))}".rstrip()
    elif action.get("to"):
        subject = f"{subject} -> {text(action['to'])}"
    return f"{text(action.get('kind'))} {subject}".strip()


def said(tree: Tree) -> str:
    """Return in one word what came of it: the decision, what a person answered, or how it went if it was done."""
    if was_seen(tree):
        return "done" if tree.get("outcome") == "completed" else text(tree.get("outcome"))
    decision = part(tree, "verdict").get("decision")
    if decision is not None:
        return text(decision)
    answer = part(tree, "answer").get("choice")
    return text(answer if answer is not None else tree.get("outcome")).partition(":")[0]


def was_seen(tree: Tree) -> bool:
    """Whether a record is about what was done already: its verdict is what the policy would have said."""
    return tree.get("event") == "observed"


def deciding_rule(tree: Tree) -> tuple[str, str]:
    """Return the rule that decided and where it stands."""
    because = part(tree, "verdict").get("because")
    first = because[0] if isinstance(because, list) and because and isinstance(because[0], dict) else {}
    return text(first.get("rule")), text(first.get("source"))


def page(kept: StoredRecord) -> list[str]:
    """Return the whole record for a person, every value escaped."""
    lines = [f"record {kept.sequence}"]
    for name, value in {**kept.tree, "hash": kept.hash}.items():
        if name != "sequence":
            lines += _lines(name, value, "  ")
    return lines


def exported(kept: StoredRecord, root: str) -> Tree:
    """Return the record for other programs. A place outside of the workspace is left out, and that is said."""
    tree: Tree = {**kept.tree, "hash": kept.hash}
    verdict = part(tree, "verdict")
    canonical = verdict.get("canonical")
    if canonical is None or _is_inside(text(canonical), root):
        return tree
    tree["verdict"] = {key: value for key, value in verdict.items() if key not in ("canonical", "canonical_b64")}
    return {**tree, "redacted": True}


def csv_row(tree: Tree) -> list[str]:
    """Return a record as the cells of a table: escaped, and none can be taken for a formula."""
    action, verdict = part(tree, "action"), part(tree, "verdict")
    rule, source = deciding_rule(tree)
    own = {"what": what(tree), "rule": rule, "source": source}
    own |= {name: text(action.get(name)) for name in ("kind", "tool")}
    own |= {name: text(verdict.get(name)) for name in ("decision", "code", "reason")}
    return [_cell(own[name] if name in own else text(tree.get(name))) for name in COLUMNS]


def text(value: object) -> str:
    """Return a value as text, nothing for None."""
    return "" if value is None else str(value)


def _cell(value: str) -> str:
    return f"'{shown(value)}" if value.startswith(_FORMULA) else shown(value)


def _is_inside(path: str, root: str) -> bool:
    return (path == root or path.startswith(f"{root.rstrip('/')}/")) and ".." not in path.split("/")


def _more(tree: Tree) -> list[str]:
    if tree.get("of") is not None:
        return [f"of {text(tree['of'])}", text(tree.get("outcome"))]
    if tree.get("through") is not None:
        return [f"through {text(tree['through'])}"]
    if isinstance(tree.get("refused"), dict):
        refused = tree["refused"]
        return [f"{text(refused.get('why'))} x{text(refused.get('count'))}", text(refused.get("peer"))]
    return _words(tree.get("problems"))


def _words(value: object) -> list[str]:
    return [text(word) for word in value] if isinstance(value, list) else []


def _lines(name: str, value: object, indent: str) -> list[str]:
    if isinstance(value, dict) and value:
        inner = [line for key, one in value.items() for line in _lines(str(key), one, f"{indent}  ")]
        return [f"{indent}{shown(name)}:", *inner]
    if isinstance(value, list) and value:
        return [f"{indent}{shown(name)}:", *(f"{indent}  {_item(one)}" for one in value)]
    return [f"{indent}{shown(name)}: {shown(text(value)) if value is not None else '-'}"]


def _item(value: object) -> str:
    if isinstance(value, dict) and "rule" in value:
        return (
            f"{shown(text(value['rule']))} ({shown(text(value.get('decision')))}, {shown(text(value.get('source')))})"
        )
    if isinstance(value, dict):
        return ", ".join(f"{shown(str(key))}: {shown(text(one))}" for key, one in value.items())
    return shown(text(value))
