"""What pages and JSON say, by the workspace that is looked at. Used by one thread.

`Content.page` returns the body of a page; `pages` lays it out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.coverage import shell_rules
from byleave.analysis.nearest_rule import nearest_rule
from byleave.core.access import SHELL_TOOL
from byleave.core.action import parse_action
from byleave.core.decision import verdict_tree
from byleave.dashboard import pages
from byleave.dashboard.markup import cut
from byleave.dashboard.pending import PendingQuestions
from byleave.dashboard.policy_findings import PolicyFindings
from byleave.dashboard.question_view import because_of, facts_of, parts_of
from byleave.dashboard.records import FigureCounter, activity, decisions_after, row_of
from byleave.dashboard.try_text import read_action
from byleave.errors import ByleaveError, InputError, StateError
from byleave.store.audit.query import Filter
from byleave.text import shown, shown_lines, speakable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from byleave.dashboard.machine import KnownWorkspace, Machine
    from byleave.dashboard.markup import Markup
    from byleave.dashboard.records import Figures
    from byleave.policy.compile import Compiled
    from byleave.policy.layers import Layer

    Query = dict[str, str]

_LONGEST_SEARCH = 200
_MOST_PLANNED = 200  # rules of a sandbox that a page lists


class Made(Struct, frozen=True):
    """The body of a page; `workspaces` are ids and names, of which one is `chosen`."""

    title: str
    body: Markup
    workspaces: list[tuple[str, str]]
    chosen: str
    status: int = 200


class Content:
    """Everything that the dashboard says."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.pending = PendingQuestions(machine)
        self._counters: dict[str, FigureCounter] = {}
        self._findings = PolicyFindings(machine)

    def count(self) -> None:
        """Count the records ahead of the first page, which shows them."""
        with suppress(ByleaveError):
            self._figures(self._chosen({}))

    def page(self, path: str, query: Query) -> Made:
        """Return the body of a page."""
        known = self._machine.all()
        of = self._chosen(query)
        title, body = _PAGES[path](self, of, query)
        return Made(title, body, [(each.id, each.name) for each in known], of.id)

    def decisions(self, query: Query, after: int) -> dict[str, Any]:
        """Return the decisions after a sequence, as records and as rows of a page."""
        found = decisions_after(self._machine.log(self._chosen(query)), after)
        records = [speakable(each) for each in found.records]
        return {"decisions": records, "last": found.last, "rows": [row_of(each) for each in records]}

    def summary(self, query: Query) -> dict[str, Any]:
        """Return figures for programs."""
        figures = self._figures(self._chosen(query))
        return {**figures.decisions, "records": figures.records, "pending": self.pending.waiting()}

    def lint(self, query: Query) -> Callable[[], dict[str, Any]]:
        """Return the work that finds out what is wrong with a policy; it takes a while."""
        of = self._chosen(query)
        return lambda: self._findings.lint(of)

    def reach(self, query: Query) -> Callable[[], dict[str, Any]]:
        """Return the work that tries what else the rule of a question would allow; it takes a while."""
        found = self.pending.find(query.get("id", ""), query.get("seen", ""))
        if found is None:
            raise InputError("the question has changed since it was shown", hint="look at it again")
        waiting, rule = found
        return lambda: self._findings.reach(waiting.of, waiting.session, rule, waiting.actions)

    def try_action(self, action: dict[str, Any], query: Query) -> dict[str, Any]:
        """Return what the policy says about an action, as `byleave check` does; nothing is recorded."""
        of = self._chosen(query)
        policy = self._machine.policy(of)
        if policy is None:
            raise StateError("the policy of this workspace cannot be used now", hint="run `byleave policy show` there")
        if set(action) == {"text"}:
            if not isinstance(action["text"], str):
                raise InputError("text is a string", hint='write {"text": "git push"}')
            action = read_action(action["text"])
        elif set(action) == {"action"} and isinstance(action["action"], dict):
            action = action["action"]
        try:
            resolved = policy.evaluate(parse_action(action), confines=True)
            near = nearest_rule(policy, resolved, confines=True)
        except (TypeError, ValueError, KeyError, RecursionError, AttributeError):
            raise InputError("this action cannot be read", hint='write {"kind": "command", "command": "ls"}') from None
        verdict = resolved.verdict
        tree = verdict_tree(verdict)
        if not verdict.allowed:
            tree["nearest"] = None if near is None else near.tree
        view = {
            "reason": shown(verdict.reason),
            "because": because_of(tree),
            "parts": parts_of(tree),
            "suggestion": shown_lines(tree.get("suggestion") or ""),
            "nearest": "" if near is None else near.sentence,
            "sandbox": _sandbox_words(tree.get("sandbox")),
            "plan": _sandbox_plan(policy.compiled) if tree.get("sandbox") else [],
            "action": facts_of(action),
        }
        return {"verdict": speakable(tree), "view": view}

    def _chosen(self, query: Query) -> KnownWorkspace:
        found = self._machine.find(query.get("workspace", ""))
        if found is None:
            raise InputError("there is no such workspace", hint="choose one of those that the page lists")
        return found

    def _figures(self, of: KnownWorkspace) -> Figures:
        counter = self._counters.setdefault(of.directory, FigureCounter(self._machine.log(of)))
        return counter.figures()

    def _overview(self, of: KnownWorkspace, _query: Query) -> tuple[str, Markup]:
        return "Overview", pages.overview(self._figures(of))

    def _live(self, of: KnownWorkspace, _query: Query) -> tuple[str, Markup]:
        return "Live", pages.live(of.id, [name for name, _counts in self._figures(of).agents if name])

    def _approvals(self, _of: KnownWorkspace, _query: Query) -> tuple[str, Markup]:
        return "Approvals", pages.approvals()

    def _activity(self, of: KnownWorkspace, query: Query) -> tuple[str, Markup]:
        log = self._machine.log(of)
        names = [name for name, _counts in self._figures(of).agents if name]
        number = _number(query.get("record"))
        if number is not None:
            return f"Record {number}", pages.one_record(log.get(number), number, of.id)
        search = query.get("search", "")[:_LONGEST_SEARCH]
        matching = Filter(
            text=search or None,
            decision=query.get("decision") or None,
            agent=query.get("agent") or None,
            session=query.get("session") or None,
            root=of.root,
        )
        found = activity(log, matching, _number(query.get("before")), _number(query.get("after")))
        return "Activity", pages.activity(found, query, names)

    def _policy(self, of: KnownWorkspace, _query: Query) -> tuple[str, Markup]:
        policy = self._machine.policy(of)
        if policy is None:
            return "Policy", pages.no_policy(of.root)
        policy.look_again()
        trusted = self._trusted(of, policy.compiled.layers)
        return "Policy", pages.policy(policy.compiled, self._figures(of).uses, trusted, of.id)

    def _trusted(self, of: KnownWorkspace, layers: Sequence[Layer]) -> dict[str, str]:
        """Return, as they were trusted, the files that are not trusted as they are now."""
        workspace = self._machine.workspace(of)
        found: dict[str, str] = {}
        for layer in layers:
            if workspace is not None and layer.file is not None and not layer.trusted:
                text = workspace.trusted_texts.text(layer.file, workspace.approvals.trusted_hash(layer.file))
                if text is not None:
                    found[layer.file] = text.decode("utf-8", "replace")
        return found

    def _try(self, of: KnownWorkspace, _query: Query) -> tuple[str, Markup]:
        return "Try", pages.try_page(of.id)


def _sandbox_words(sandbox: Any) -> str:
    if not isinstance(sandbox, dict):
        return ""
    return "it must run confined, as [shell] says" if sandbox.get("required") else "it runs confined, as [shell] says"


def _sandbox_plan(compiled: Compiled) -> list[dict[str, str]]:
    """Return what a confined command is given, rule by rule: `byleave run --explain` says how that is enforced."""
    tool = compiled.policy.views[0].tools.get(SHELL_TOOL)
    rules = [] if tool is None else list(shell_rules(tool.access))
    return [
        {"family": each.family, "rule": cut(shown(each.rule), 300), "source": cut(shown(each.source), 200)}
        for each in rules[:_MOST_PLANNED]
    ]


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 18 else None


_PAGES = {
    "/": Content._overview,  # noqa: SLF001 -- a table of our own methods
    "/live": Content._live,  # noqa: SLF001
    "/approvals": Content._approvals,  # noqa: SLF001
    "/activity": Content._activity,  # noqa: SLF001
    "/policy": Content._policy,  # noqa: SLF001
    "/try": Content._try,  # noqa: SLF001
}
