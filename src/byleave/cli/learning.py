"""`byleave policy learn`: rules for what a person has allowed again and again, taken from the records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.cli.output import say, say_json, tell, warn
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.core.action import parse_action
from byleave.core.decision import ASK
from byleave.core.redact import Redactor
from byleave.errors import ByleaveError, InputError
from byleave.guard.asking import CLIENT, YESES
from byleave.store.audit.query import Filter, read_when
from byleave.text import quoted, shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.live_policy import LivePolicy
    from byleave.store.audit.table import StoredRecord

TIMES = 3  # as often as one answers without having to think any more
_LONGEST = 6  # digits of a number of times


class Lesson(Struct, frozen=True):
    """A rule, how often its questions were allowed, and the first of them in a few words."""

    rule: str
    times: int
    example: str


def learn(given: ParsedArguments) -> int:
    """Print the rules that would have spared the user what they answered again and again."""
    least = _times(given)
    workspace = open_workspace(given)
    policy = load_policy(given, workspace)
    tell(given, origins(policy))
    warn(given, policy.warnings)
    since = None if given.one("since") is None else read_when(given.one("since") or "", now=time.time())
    log = workspace.audit_log(None, Redactor())
    try:
        log.fold()
        kept = log.query(Filter(since=since, decision="allow", event="decision"))
        lessons = [lesson for lesson in lessons_from(kept, policy) if lesson.times >= least]
    finally:
        log.close()
    _tell(given, lessons)
    return 0


def lessons_from(records: Iterable[StoredRecord], policy: LivePolicy) -> list[Lesson]:
    """Return what a person's answers suggest, the most frequent first; what the policy allows by now is left out."""
    counted: dict[str, dict[object, str]] = {}
    for kept in records:
        tree = kept.tree
        if _is_yes(tree):
            for rule in _rule_for(tree["action"], policy):
                counted.setdefault(rule, {}).setdefault(_answer_of(kept.sequence, tree), _few_words(tree))
    lessons = [Lesson(rule, len(answers), next(iter(answers.values()))) for rule, answers in counted.items()]
    return sorted(lessons, key=lambda lesson: -lesson.times)


def _answer_of(sequence: int, tree: dict[str, Any]) -> object:
    """Return what tells one answer from another: a question about several actions has one, and a record for each.

    Records of an older byleave do not say which belong together; of those, one session teaches such a rule once.
    """
    if isinstance(tree.get("answer_id"), str):
        return tree["answer_id"]
    return (tree.get("session"), tree.get("door")) if isinstance(tree.get("request"), dict) else sequence


def _is_yes(tree: dict[str, Any]) -> bool:
    """Whether a person has said yes; a client may have answered by itself, and teaches nothing."""
    answer = tree.get("answer")
    if not isinstance(answer, dict) or answer.get("who") == CLIENT:
        return False
    return answer.get("choice") in YESES and isinstance(tree.get("action"), dict)


def _rule_for(action: dict[str, Any], policy: LivePolicy) -> Iterator[str]:
    """Yield the rule that the policy suggests for an action, if it would still ask."""
    try:
        verdict = policy.decide(parse_action(action))
    except ByleaveError:  # of a tool that is not configured any more, for one
        return
    if verdict.decision is ASK and verdict.suggestion is not None:
        yield verdict.suggestion


def _few_words(tree: dict[str, Any]) -> str:
    from byleave.store.audit.text import what

    return what(tree)


def _times(given: ParsedArguments) -> int:
    word = given.one("times")
    if word is None:
        return TIMES
    if not (word.isascii() and word.isdigit() and len(word) <= _LONGEST and int(word) > 0):
        raise InputError(f"--times {quoted(word)} is no number of times", hint="write a number such as 3")
    return int(word)


def _tell(given: ParsedArguments, lessons: list[Lesson]) -> None:
    if given.flag("json"):
        say_json([{"rule": lesson.rule, "times": lesson.times, "example": lesson.example} for lesson in lessons])
        return
    if not lessons:
        say("nothing to learn yet: nothing that would be asked was allowed often enough")
    for lesson in lessons:
        say(f"# you allowed this {lesson.times} times, such as: {shown(lesson.example)}")
        say(shown_lines(lesson.rule))
        say("")
