"""`byleave audit summary`: what each agent did and was refused, in one workspace or in all of them.

Without `--since` it begins yesterday evening: what happened since one was last there. How records are counted:
`analysis.activity`. `--markdown` is for a stand-up note, `--json` for programs.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.activity import ActivityCount
from byleave.cli.output import cut_to, local_time, paint, say, say_json, warn, width_of
from byleave.cli.progress import ProgressBar
from byleave.cli.shared_store import open_records
from byleave.errors import ByleaveError, InputError
from byleave.hooks.liveness import silent_agents
from byleave.policy.dirs import find_homes
from byleave.policy.load import ROOT_FILE
from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import read_when
from byleave.store.audit.wording import what
from byleave.text import shown
from byleave.user_files import read_private

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from byleave.analysis.activity import AgentActivity
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.dirs import UserDirs
    from byleave.policy.load import Workspace
    from byleave.store.interfaces import RecordReader

WIDTH = 80
_SHOWN = 6  # lines of each list
_NOTED = 12  # the same in a note
_EVENING = 18  # o'clock
_LARGEST_ROOT = 1 << 16


class Summary(Struct, frozen=True):
    """What all agents did in a time. `records`: whether there are any, also before that time."""

    since: str
    until: str
    agents: list[AgentActivity]
    records: bool
    home: str


def summarize(given: ParsedArguments, workspace: Workspace) -> int:
    """Print what was done since a point in time, by agent."""
    if given.flag("markdown") and given.flag("json"):
        raise InputError("--json and --markdown contradict each other", hint="keep one of the two")
    now = time.time()
    since = read_when(str(given.one("since")), now=now) if given.one("since") is not None else yesterday_evening(now)
    found: list[AgentActivity] = []
    records = False
    for root, log in _logs(given, workspace):
        try:
            with ProgressBar(given, "reading records") as bar:
                count = ActivityCount(root, what)
                count.take_all(log.scan(since=since, report=bar), since)
            records = records or log.head().sequence > 0
        finally:
            warn(given, log.warnings)
            log.close()
        found += count.agents
    summary = Summary(since, read_when("0s", now=now), found, records, workspace.homes.user)
    silent = _silent_agents(workspace.homes.user, now)
    if given.flag("json"):
        agents = [each.tree for each in found]
        say_json({"since": summary.since, "until": summary.until, "agents": agents, "silent": silent})
        return 0
    warn(given, silent)
    for line in _note(summary) if given.flag("markdown") else _lines(summary):
        say(line)
    return 0


def yesterday_evening(now: float) -> str:
    """Return when the evening of yesterday began, as records name a time."""
    from datetime import datetime, timedelta

    today = datetime.fromtimestamp(now).astimezone()
    day = (today - timedelta(days=1)).date().isoformat()
    return read_when(f"{day}T{_EVENING}:00", now=now)


def _silent_agents(home: str, now: float) -> list[str]:
    """Return a sentence for each agent that works without asking byleave."""
    return silent_agents(home, find_homes({"HOME": home}).state, os.environ.get("PATH", ""), now) if home else []


def _logs(given: ParsedArguments, workspace: Workspace) -> Iterator[tuple[str, RecordReader]]:
    if not given.flag("all"):
        yield workspace.root.path, open_records(given, workspace)
        return
    directory = os.path.join(workspace.homes.state, "workspaces")
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for name in names:
        place = os.path.join(directory, name)
        if os.path.isdir(place) and not os.path.islink(place):
            yield _root_of(place, workspace.homes), AuditLog(place)


def _root_of(place: str, homes: UserDirs) -> str:
    """Return the workspace that a directory belongs to, its name where that is not known."""
    try:
        root = os.fsdecode(read_private(os.path.join(place, ROOT_FILE), limit=_LARGEST_ROOT) or b"")
    except ByleaveError:
        root = ""
    return root if root and homes.workspace(root) == place else os.path.basename(place)


def _lines(summary: Summary) -> Iterator[str]:
    if not summary.agents:
        yield _nothing(summary)
        return
    yield f"from {_minute(summary.since)} to {_minute(summary.until)}, local time"
    for each in summary.agents:
        yield ""
        name = cut_to(shown(_name(each)), WIDTH // 2)
        place = cut_to(shown(_short(each.workspace, summary.home)), WIDTH - width_of(name) - 4)
        yield f"{paint(name, 'bold')} in {place}"
        yield f"  {_counts(each)}"
        if each.observed:
            would = each.observed
            yield f"  only observed: {would['ask']} would have needed approval, {would['deny']} would have been"
            yield f"  denied, {would['allow']} would have been allowed"
        for title, listed in _lists(each):
            yield f"  {title}:"
            yield from (f"    {count}  {cut_to(shown(text), WIDTH - 10)}" for text, count in listed[:_SHOWN])
            if len(listed) > _SHOWN:
                yield f"          and {len(listed) - _SHOWN} more (--json lists them)"


def _note(summary: Summary) -> Iterator[str]:
    """Yield the summary as Markdown: a heading for each agent, and lists that can be pasted into a note."""
    yield f"## Agents, {_minute(summary.since)} to {_minute(summary.until)}"
    if not summary.agents:
        yield ""
        yield _nothing(summary)
    for each in summary.agents:
        yield ""
        yield f"### {_code(_name(each))} in {_code(_short(each.workspace, summary.home))}"
        yield ""
        yield f"{_counts(each)}."
        for title, listed in _lists(each):
            yield ""
            yield f"{title[0].upper()}{title[1:]}:"
            yield ""
            for text, count in listed[:_NOTED]:
                times = f" ({count.strip()} times)" if count.strip() not in ("", "1") else ""
                yield f"- {_code(text)}{times}"
            if len(listed) > _NOTED:
                yield f"- and {len(listed) - _NOTED} more"


def _code(text: str) -> str:
    """Return a text from outside as code, whatever marks it holds itself."""
    escaped = shown(text)
    fence = "`"
    while fence in escaped:
        fence += "`"
    blank = " " if escaped.startswith("`") or escaped.endswith("`") or not escaped.strip() else ""
    return f"{fence}{blank}{escaped}{blank}{fence}"


def _name(activity: AgentActivity) -> str:
    return "without an agent's name" if activity.agent is None else activity.agent


def _counts(activity: AgentActivity) -> str:
    counts = activity.decisions
    unasked = f", {activity.unasked} done unasked" if activity.unasked else ""
    return f"{counts['allow']} allowed, {counts['ask']} asked about, {counts['deny']} denied{unasked}"


def _lists(activity: AgentActivity) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield what is listed of an agent that is not empty: each with how often it was."""
    counted: Sequence[tuple[str, Counter[str]]] = (
        ("would have been denied", activity.would_deny),
        ("would have needed approval", activity.would_ask),
        ("denied", activity.denied),
        ("done unasked", activity.done_unasked),
        ("needed a person's answer", activity.held),
        ("ran", activity.commands),
    )
    for title, counter in counted:
        if counter:
            yield title, [(text, f"{count:>4}") for text, count in counter.most_common()]
    for title, names in (("changed", activity.changed), ("reached", activity.hosts)):
        if names:
            yield title, [(name, "    ") for name in names]


def _nothing(summary: Summary) -> str:
    if not summary.records:
        return "there are no records yet"
    return f"there are no records since {_minute(summary.since)}; `--since 7d` looks further back"


def _minute(moment: str) -> str:
    """Return a point in time as the user's clock has it."""
    return shown(local_time(moment)[:16])


def _short(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path
