"""`byleave audit summary`: what each agent did and was refused, in one workspace or in all of them.

Records are counted as they come. What ran is what has a record of its effect; of what observe mode left to an agent,
the policy's own verdict is counted beside the others: it says what would have been.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from textwrap import wrap
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct, field

from byleave.cli.output import paint, say, say_json, warn
from byleave.errors import ByleaveError
from byleave.policy.dirs import find_homes
from byleave.policy.load import ROOT_FILE
from byleave.store.audit.log import AuditLog
from byleave.store.audit.query import Filter, read_when
from byleave.store.audit.wording import part, text, what
from byleave.text import shown
from byleave.user_files import read_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.dirs import UserDirs
    from byleave.policy.load import Workspace

WIDTH = 80
_SHOWN = 6  # lines of each list
_LARGEST_ROOT = 1 << 16
_CHANGING = ("create", "update", "delete", "move")
_NOT_DONE = ("refused", "denied", "cancelled")
_CONNECTING = ("run", "call", "mcp")  # integrations that connect themselves once a URL is allowed


class AgentActivity(Struct):
    """What one agent did in one workspace."""

    agent: str | None
    workspace: str
    decisions: Counter[str] = field(default_factory=Counter)
    observed: Counter[str] = field(default_factory=Counter)
    unasked: int = 0
    changed: dict[str, None] = field(default_factory=dict)
    commands: Counter[str] = field(default_factory=Counter)
    denied: Counter[str] = field(default_factory=Counter)
    would_ask: Counter[str] = field(default_factory=Counter)
    would_deny: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, None] = field(default_factory=dict)

    def take(self, tree: dict[str, Any]) -> None:
        """Count one record."""
        event = tree.get("event")
        decision = text(part(tree, "verdict").get("decision"))
        if tree.get("unasked") is True:
            self.unasked += 1
        if event == "decision" and tree.get("mode") == "observe":
            self.observed[decision] += 1
            {"ask": self.would_ask, "deny": self.would_deny}.get(decision, Counter[str]())[what(tree)] += 1
        elif event == "decision":
            self.decisions[decision] += 1
            if decision == "deny":
                self.denied[what(tree)] += 1
            elif decision == "allow" and tree.get("door") in _CONNECTING:
                self._reach(part(tree, "action"))
        elif event in ("effect", "observed") and not text(tree.get("outcome")).startswith(_NOT_DONE):
            self._do(part(tree, "action"))

    def _do(self, action: dict[str, Any]) -> None:
        kind = action.get("kind")
        if kind == "command":
            self.commands[text(action.get("command"))] += 1
        elif kind in _CHANGING:
            self.changed |= dict.fromkeys([text(action[name]) for name in ("path", "to") if action.get(name)])
        else:
            self._reach(action)

    def _reach(self, action: dict[str, Any]) -> None:
        if action.get("kind") != "url":
            return
        try:
            host = urlsplit(text(action.get("url"))).hostname
        except ValueError:
            return
        if host:
            self.hosts[host] = None

    @property
    def tree(self) -> dict[str, Any]:
        """The activity for programs."""
        lists = {name: [[each, count] for each, count in getattr(self, name).most_common()] for name in _COUNTED}
        return {
            "agent": self.agent,
            "workspace": self.workspace,
            **{word: self.decisions[word] for word in ("allow", "ask", "deny")},
            "unasked": self.unasked,
            "changed": list(self.changed),
            **lists,
            "hosts": list(self.hosts),
            "observed": {word: self.observed[word] for word in ("allow", "ask", "deny")},
        }


_COUNTED = ("commands", "denied", "would_ask", "would_deny")


def summarize(given: ParsedArguments, workspace: Workspace) -> int:
    """Print what was done since a point in time, by agent."""
    now = time.time()
    since = None if given.one("since") is None else read_when(str(given.one("since")), now=now)
    found: list[AgentActivity] = []
    first: str | None = None
    for root, log in _logs(given, workspace):
        try:
            earliest, activities = _count(log.query(Filter(since=since)), root)
        finally:
            log.close()
        found += activities
        first = earliest if first is None or (earliest is not None and earliest < first) else first
    until = read_when("0s", now=now)
    silent = _silent_agents(workspace.homes.user, now)
    if given.flag("json"):
        agents = [each.tree for each in found]
        say_json({"since": since or first, "until": until, "agents": agents, "silent": silent})
        return 0
    warn(given, silent)
    for line in _lines(found, since or first, until, workspace.homes.user):
        say(line)
    return 0


def _silent_agents(home: str, now: float) -> list[str]:
    """Return a sentence for each agent that works without asking byleave."""
    from byleave.hooks.liveness import silent_agents

    return silent_agents(home, find_homes({"HOME": home}).state, os.environ.get("PATH", ""), now) if home else []


def _logs(given: ParsedArguments, workspace: Workspace) -> Iterator[tuple[str, AuditLog]]:
    if not given.flag("all"):
        yield workspace.root.path, AuditLog(workspace.homes.workspace(workspace.root.path))
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


def _count(records: Iterable[Any], root: str) -> tuple[str | None, list[AgentActivity]]:
    first: str | None = None
    by_agent: dict[str | None, AgentActivity] = {}
    for kept in records:
        tree = kept.tree
        first = first or text(tree.get("time")) or None
        agent = tree.get("agent") if isinstance(tree.get("agent"), str) else None
        if agent is None and tree.get("door") == "cli":
            continue  # the user's own commands
        by_agent.setdefault(agent, AgentActivity(agent, root)).take(tree)
    return first, list(by_agent.values())


def _lines(found: list[AgentActivity], since: str | None, until: str, home: str) -> Iterator[str]:
    if not found:
        yield "there are no records yet" if since is None else f"there are no records since {_local(since)}"
        return
    yield f"from {_local(since or until)} to {_local(until)}, local time"
    for each in found:
        name = "without an agent's name" if each.agent is None else shown(each.agent)
        yield ""
        yield from wrap(
            f"{paint(name, 'bold')} in {shown(_short(each.workspace, home))}", WIDTH, subsequent_indent="  "
        )
        counts = each.decisions
        unasked = f", {each.unasked} done unasked" if each.unasked else ""
        yield f"  {counts['allow']} allowed, {counts['ask']} needed approval, {counts['deny']} denied{unasked}"
        if each.observed:
            would = each.observed
            yield f"  only observed: {would['ask']} would have needed approval, {would['deny']} would have been"
            yield f"  denied, {would['allow']} would have been allowed"
        yield from _counted("would have been denied", each.would_deny)
        yield from _counted("would have needed approval", each.would_ask)
        yield from _counted("denied", each.denied)
        yield from _counted("ran", each.commands)
        yield from _named("changed", list(each.changed))
        yield from _named("reached", list(each.hosts))


def _counted(title: str, counts: Counter[str]) -> Iterator[str]:
    if counts:
        yield f"  {title}:"
        for each, count in counts.most_common(_SHOWN):
            yield f"    {count:>4}  {_cut(shown(each), WIDTH - 10)}"
        yield from _more(len(counts))


def _named(title: str, names: list[str]) -> Iterator[str]:
    if names:
        yield f"  {title}:"
        yield from (f"          {_cut(shown(name), WIDTH - 10)}" for name in names[:_SHOWN])
        yield from _more(len(names))


def _more(number: int) -> Iterator[str]:
    if number > _SHOWN:
        yield f"          and {number - _SHOWN} more (--json lists them)"


def _local(moment: str) -> str:
    """Return a point in time as the user's clock has it."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return shown(moment)


def _short(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def _cut(written: str, width: int) -> str:
    return written if len(written) <= width else f"{written[: width - 1]}…"
