"""What a terminal shows of a question before it is answered: every action with all its fields, and the tool's input.

A yes covers what is shown, so nothing is left out; what is too long to be read is not shown, and cannot be approved.
Text from outside stands behind a bar, escaped. Pure: a question in, rows out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from byleave.cli.terminal import BAR, behind_bar, name_of, rows_of_name, title_of_places
from byleave.store.questions import AskedAction
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.store.approvals import Approval
    from byleave.store.questions import StoredQuestion

MOST_ROWS = 2000  # what is longer cannot be read before it is answered
_LONGEST_SUBJECT = 4000  # characters of a line in a list


def subject_of(question: StoredQuestion) -> str:
    """Return one line about a question that a process holds, for a list: all its actions, cut where they are many."""
    actions = [f"{shown(str(asked.action.get('kind')))} {_in_a_line(asked.action)}" for asked in question.actions]
    line = f"{'; '.join(actions)} {_in_a_line({'door': question.door})}"
    return line if len(line) <= _LONGEST_SUBJECT else f"{line[:_LONGEST_SUBJECT]}... (cut)"


def _in_a_line(action: Mapping[str, Any]) -> str:
    return " ".join(
        [f"{shown(name)}={quoted(_text(action[name]))}" for name in action if name != "kind" and action[name]]
    )


def held_rows(question: StoredQuestion, width: int) -> list[str]:
    """Return everything of a question that a running process holds."""
    who = name_of(question.agent, question.identity)
    rows = [f"{who} waits for your answer until {shown(question.expires)}, in {quoted(question.root)}:"]
    rows += rows_of_name(question.agent, width)
    for number, asked in enumerate(question.actions, 1):
        rows.append(f"  {number} of {len(question.actions)}: {shown(str(asked.action.get('kind')))}")
        rows += _action_rows(asked, width)
    rows += _input_rows(question.input, width)
    rows += [*_titled("why", question.why, width)]
    return rows


def deferred_rows(approval: Approval, width: int) -> list[str]:
    """Return what else is known of an action that waits for a later attempt, besides its subject."""
    asked = approval.asked
    action, verdict, leads_to = asked.get("action"), asked.get("verdict"), asked.get("leads_to")
    if not isinstance(action, dict):  # an older version kept the subject alone
        return []
    places = tuple(str(place) for place in leads_to) if isinstance(leads_to, list) else ()
    kind = {"kind": action.get("kind")}  # its subject says the rest
    known = AskedAction("", kind, verdict if isinstance(verdict, dict) else {}, leads_to=places)
    return [*_action_rows(known, width), *_input_rows(asked.get("input"), width)]


def _action_rows(asked: AskedAction, width: int) -> Iterator[str]:
    for name, value in asked.action.items():
        if name != "kind" and not name.endswith("_b64"):
            yield from _titled(name, _text(value), width)
    for place in asked.leads_to:
        yield from _titled(title_of_places(asked.action.get("kind")), place, width)
    because = asked.verdict.get("because")
    first = because[0] if isinstance(because, list) and because and isinstance(because[0], dict) else None
    if first is not None:
        yield from _titled("rule", f"{first.get('rule', '')} ({first.get('source', '')})", width)


def _input_rows(given: Any, width: int) -> Iterator[str]:
    if isinstance(given, dict):
        yield "  what the tool would get:"
        for name, value in given.items():  # agents choose the names as well
            yield from behind_bar(f"{name}:", width)
            yield from (f"    |   {row.removeprefix(BAR)}" for row in behind_bar(_text(value), width - 2))


def _titled(name: str, text: str, width: int) -> Iterator[str]:
    yield f"  {shown(name)}:"
    yield from behind_bar(text, width)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
