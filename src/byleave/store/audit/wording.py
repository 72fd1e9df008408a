"""Records in a few words: what was attempted, what came of it, and which rule decided. Pure.

Pages and exports of whole records: `cli.audit_text`. The words are not escaped: who shows them does that.
"""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]

_SUBJECTS = ("command", "path", "url", "program", "server", "query", "name", "title")
# What an agent did without asking its editor for permission first, before an answer, in spite of a no, or otherwise.
_MARKS = (
    ("unasked", "(unasked)"),
    ("unanswered", "(unanswered)"),
    ("refused_before", "(refused before)"),
    ("another_than_asked", "(another than asked)"),
)


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


def text(value: object) -> str:
    """Return a value as text, nothing for None."""
    return "" if value is None else str(value)


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
