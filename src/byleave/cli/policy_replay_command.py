"""`byleave policy replay`: what another policy would have decided about recorded actions."""

from __future__ import annotations

import sys
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from byleave.analysis.replay import Replayer, replay_tree
from byleave.cli.diff_text import action_words, wrapped
from byleave.cli.output import paint, say, say_json, say_verbose, warn
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.core.redact import Redactor
from byleave.store.audit.query import Filter, read_when
from byleave.text import shown, speakable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.analysis.replay import Replay, ReplayedChange
    from byleave.cli.arguments import ParsedArguments

_SHOWN = 20  # rules, each with its changes
_EXAMPLES = 3
_STEP = 20_000  # records between two looks at the progress
_ORDER = (("ask", "allow"), ("deny", "allow"), ("deny", "ask"), ("allow", "ask"), ("ask", "deny"), ("allow", "deny"))


def run(given: ParsedArguments) -> int:
    """Replay the records of this workspace and show what would change."""
    workspace = open_workspace(given)
    policy = load_policy(given, workspace)
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    since = None if given.one("since") is None else read_when(given.one("since") or "", now=time.time())
    replayer = Replayer(policy, home=workspace.homes.user)
    log = workspace.audit_log(None, Redactor())
    progress = _Progress(given)
    try:
        log.fold()
        last = log.head().sequence
        for record in log.query(Filter(since=since, event="decision")):
            replayer.take(record)
            if replayer.found.records % _STEP == 0:
                progress.show(record.sequence, last)
    finally:
        progress.end()
        log.close()
    if given.flag("json"):
        say_json(speakable(replay_tree(replayer.found)))
    elif not given.flag("quiet"):
        for line in replay_lines(replayer.found):
            say(line)
    return 0


class _Progress:
    """How far it is, on one line of a terminal; nowhere else."""

    def __init__(self, given: ParsedArguments) -> None:
        self._shown = sys.stderr.isatty() and not given.flag("quiet")

    def show(self, done: int, of: int) -> None:
        if self._shown:
            filled = 30 * done // max(of, 1)
            self._write(f"\r\x1b[K[{'#' * filled}{'.' * (30 - filled)}] record {done} of {of}")

    def end(self) -> None:
        if self._shown:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._shown = False


def replay_lines(found: Replay) -> Iterator[str]:
    """Yield what a replay found, by rule, in lines that a person reads."""
    if not found.records:
        yield "there are no recorded decisions to replay"
        return
    yield from wrapped(f"{found.replayed} of {found.records} recorded decisions were replayed", "")
    for why, count in found.reasons.most_common():
        yield from wrapped(f"{count} were not: {shown(why)}", "  ")
    yield from wrapped(_questions(found), "")
    if not found.changed:
        yield "no decision changes"
        return
    yield f"{len(found.changed)} change:"
    groups: dict[tuple[str, str, str, str], list[ReplayedChange]] = {}
    for change in found.changed:
        groups.setdefault((change.old, change.new, change.rule.rule, change.rule.source), []).append(change)
    ordered = sorted(groups.items(), key=lambda item: (_ORDER.index(item[0][:2]), -len(item[1])))
    for (old, new, rule, source), changes in ordered[:_SHOWN]:
        times = f"{len(changes)} time{'' if len(changes) == 1 else 's'}"
        yield from wrapped(f"{paint(f'{old} -> {new}', new)}  {times}, by {shown(rule)} ({shown(source)})", "  ")
        counted = Counter(action_words(change.action) for change in changes)
        for words, number in counted.most_common(_EXAMPLES):
            yield from wrapped(f"{number}  {words}", "      ")
        if len(counted) > _EXAMPLES:
            yield f"      and {len(counted) - _EXAMPLES} others"
    if len(ordered) > _SHOWN:
        yield f"  and {len(ordered) - _SHOWN} rules more; --json lists all"


def _questions(found: Replay) -> str:
    old, new = found.old_questions, found.new_questions
    text = f"questions: {old} before, {new} with this policy"
    if old == new:
        return text
    days = _days(found.first, found.last)
    word = "fewer" if new < old else "more"
    return f"{text}: {abs(new - old) / days:.1f} a day {word}, over {days:.1f} days"


def _days(first: str, last: str) -> float:
    """Return how many days lie between two records, at least one."""
    try:
        spent = datetime.fromisoformat(last) - datetime.fromisoformat(first)
    except ValueError:
        return 1.0
    return max(spent.total_seconds() / 86_400, 1.0)
