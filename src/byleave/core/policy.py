"""All rules, compiled: one view for each reading of the configuration. The strictest view wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, RuleRef, Verdict, strictest
from byleave.core.rules import RuleTable, ruling_verdict
from byleave.errors import InputError
from byleave.record import Record, Sealed
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.core.access import Access
    from byleave.core.agents import Agents
    from byleave.core.match_context import MatchContext
    from byleave.core.protected import Protected

    # A family's answer about one tool, and whether a written rule gave it (and not merely the absence of one).
    Answer = tuple[Verdict, bool]


class ToolPolicy(Record):
    """One configured tool, as far as decisions go."""

    name: str
    access: Access
    enabled: bool = True


class PolicyView(Record):
    """One reading of the configuration: the trusted layers, or those with one untrusted file on top.

    The first view is what the user trusts. An untrusted project file is a further view, so it can tighten but
    never loosen; the managed layer's own file rules are one too, and only their denials count (`denies_only`).
    """

    name: str
    tools: Mapping[str, ToolPolicy]
    denies_only: bool = False
    rules: RuleTable | None = None
    agents: Agents | None = None


class KnownAnswers(Sealed):
    """Answers about places that rest on the views of one policy and on their keys alone; see `core.place_access`."""

    def __init__(self) -> None:
        self._access: dict[object, dict[str, tuple[bool, RuleRef]]] = {}
        self._closed: dict[object, Any] = {}  # ClosedPlaces
        self._by_agent: list[bool] = []  # whether the agent makes a difference, once that is known

    def __bool__(self) -> bool:
        """Whether anything was answered about a place."""
        return bool(self._access)

    def access_at(self, key: object) -> dict[str, tuple[bool, RuleRef]]:
        """Return what was answered about a place, by capability: the caller adds to it what it finds out."""
        found = self._access.get(key)
        if found is None:
            found = {}
            if len(self._access) < _MOST_KEPT:
                self._access[key] = found
        return found

    def closed_at(self, key: object, find: Callable[[], Any]) -> Any:
        """Return the closed places that a key stands for, found now or before."""
        found = self._closed.get(key)
        if found is None:
            found = find()
            if len(self._closed) < _MOST_CLOSED:
                self._closed[key] = found
        return found

    def speaks_of_agents(self, find: Callable[[], bool]) -> bool:
        """Whether the rules may answer differently for different agents, found out now or before."""
        if not self._by_agent:
            self._by_agent.append(find())
        return self._by_agent[0]


_MOST_CLOSED = 64  # operations and agents; who asks names the agent
_MOST_KEPT = 4096  # places; a workspace may have any number of names that are protected


class CompiledPolicy(Record):
    """Everything `decide` needs to know."""

    views: tuple[PolicyView, ...]
    protected: Protected
    strict_links: bool = False
    shell: str | None = None  # how commands run: `auto`, `require` or `off`; None without a [shell] table
    known: KnownAnswers | None = None  # what was answered about places before

    def rule_tables(self) -> Iterator[RuleTable]:
        """Yield the ordered rules of every view, if there are rules at all.

        A view without any still counts: it allows nothing, so rules of an untrusted file cannot allow alone.
        """
        if all(view.rules is None for view in self.views):
            return

        for view in self.views:
            if not view.denies_only:
                yield view.rules if view.rules is not None else RuleTable(())

    def by_rules(self, subject: MatchContext, what: str, *, silent: bool) -> Verdict | None:
        """Return what `rules` say about a subject; where none matches, None if they may be `silent`, else ask."""
        tables = list(self.rule_tables())
        if not tables:
            return None if silent else _unmatched(what)

        heard = [verdict for table in tables if (verdict := ruling_verdict(table.decide(subject), what)) is not None]
        if silent:
            return strictest(heard) if heard else None
        return strictest([*heard, _unmatched(what)] if len(heard) < len(tables) else heard)

    @staticmethod
    def unmatched(what: str) -> Verdict:
        """Return the answer where nothing was said."""
        return _unmatched(what)

    def tool(self, name: str) -> ToolPolicy:
        """Return a configured tool; an input error if there is none of that name."""
        found = self.views[0].tools.get(name)
        if found is None:
            raise InputError(
                f"no tool named {quoted(name)} is configured",
                hint="name a tool that is configured; `byleave policy show` lists them",
            )
        return found

    def strictest(self, name: str, decide: Callable[[ToolPolicy], Answer]) -> Verdict:
        """Let every view that knows the tool answer; the strictest answer is the verdict."""
        tool = self.tool(name)
        if not tool.enabled:
            ref = RuleRef(f"tools.{shown(name)}: enable = false", BUILT_IN, DENY)
            return Verdict(DENY, f"the tool {shown(name)} is disabled", "denied", (ref,))
        first = decide(tool)[0]
        if len(self.views) == 1:
            return first
        verdicts = [first]
        for view in self.views[1:]:
            other = view.tools.get(name)
            if other is not None:
                verdict, written = decide(other)
                if not view.denies_only or (written and verdict.decision is DENY):
                    verdicts.append(verdict)
        return with_help(strictest(verdicts), verdicts[1:])


NO_RULE = RuleRef("no rule matches", BUILT_IN, ASK)


def _unmatched(what: str) -> Verdict:
    """Nothing was said about it: a question for the human, never a yes."""
    return Verdict(ASK, f"{what} needs your approval: no rule matches it", "no_match", (NO_RULE,))


def with_help(verdict: Verdict, others: list[Verdict]) -> Verdict:
    """Return the verdict without its suggestion where a rule of the user's alone would not be enough."""
    if verdict.suggestion is None or all(other.decision is ALLOW for other in others):
        return verdict
    return verdict.replace(suggestion=None)
