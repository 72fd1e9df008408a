"""What a tool may do at a place: all capabilities at once, as `decide` answers each of them.

Pure. A sandbox asks about some sixty places, and about each of them again at every start. What `decide` says of a place
for a tool rests on three things: the rules of the policy, the place itself, and what protects it. The rules belong to
the policy and never change; the place and its protection are the key under which `KnownAnswers` keep an answer. What
protects a place is found on the disk and asked for every time, so an answer is used again only where nothing that it
rests on is different.

`closed_places` rest on the rules, the root and the agent alone, and are kept in the same way. Start at `PlaceAccess`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.action import FileAction
from byleave.core.closed_places import ClosedPlaces
from byleave.core.decide import decide
from byleave.core.decision import ALLOW
from byleave.core.fs_rules import CAPABILITIES, FsTarget
from byleave.core.matchers import AgentMatcher, All, AnyOf, Not
from byleave.core.policy import KnownAnswers

if TYPE_CHECKING:
    from byleave.core.decision import RuleRef
    from byleave.core.matchers import Matcher
    from byleave.core.policy import CompiledPolicy

    Answers = dict[str, tuple[bool, RuleRef]]  # of one place, by capability: whether it is given, and by which rule

_KIND_OF = {name: "exec" if name == "execute" else name for name in CAPABILITIES}


class PlaceAccess:
    """The access of one tool, which works for an agent, at places that are no directories."""

    def __init__(self, policy: CompiledPolicy, tool: str, agent: str | None) -> None:
        self._policy = policy
        self._tool = tool
        self._agent = agent
        self._known = policy.known if policy.known is not None else KnownAnswers()
        self._counted = agent if _speaks_of_agents(policy, self._known) else None

    def at(self, target: FsTarget) -> tuple[frozenset[str], RuleRef]:
        """Return what may be done at a place, and the rule that says so.

        The rule is that of the first capability that is not given; where all are, that of reading.
        """
        known = self._answers_at(target)
        answers = [(name, known.get(name) or self._decide(target, name, known)) for name in CAPABILITIES]
        given = frozenset([name for name, (allowed, _ref) in answers if allowed])
        return given, next((ref for _name, (allowed, ref) in answers if not allowed), answers[0][1][1])

    def gives(self, capability: str, target: FsTarget) -> bool:
        """Return whether one capability is given at a place."""
        known = self._answers_at(target)
        return (known.get(capability) or self._decide(target, capability, known))[0]

    def _answers_at(self, target: FsTarget) -> Answers:
        """Return where the answers about a place are kept: those that were given before are there."""
        protection = self._policy.protected.of(target, subtree=False)
        protected = (
            None if protection is None else tuple(getattr(protection, each) for each in protection.field_names())
        )
        place = tuple(getattr(target, each) for each in target.field_names())
        return self._known.access_at((self._tool, self._counted, place, protected))

    def _decide(self, target: FsTarget, capability: str, known: Answers) -> tuple[bool, RuleRef]:
        name = target.relative if target.relative is not None else target.door or ""
        verdict = decide(self._policy, FileAction(_KIND_OF[capability], name, self._tool, self._agent), (target,))
        answer = known[capability] = (verdict.decision is ALLOW, verdict.because[0])
        return answer


def closed_places(
    policy: CompiledPolicy, ops: tuple[str, ...], root: str, agent: str | None, operation: str | None = None
) -> ClosedPlaces:
    """Return the places of the workspace at `root` that rules close to one of these operations."""
    answers = policy.known if policy.known is not None else KnownAnswers()
    counted = agent if _speaks_of_agents(policy, answers) else None
    found: ClosedPlaces = answers.closed_at(
        (ops, root, counted, operation),
        lambda: ClosedPlaces(policy, ops, root=root, agent=counted, operation=operation),
    )
    return found


def _speaks_of_agents(policy: CompiledPolicy, answers: KnownAnswers) -> bool:
    """Whether the rules may answer differently for different agents."""

    def find() -> bool:
        return any(_names_agent(rule.matcher) for table in policy.rule_tables() for rule in table.rules)

    return answers.speaks_of_agents(find)


def _names_agent(matcher: Matcher) -> bool:
    if isinstance(matcher, All | AnyOf):
        return any(_names_agent(each) for each in matcher.matchers)
    return isinstance(matcher, AgentMatcher) or (isinstance(matcher, Not) and _names_agent(matcher.matcher))
