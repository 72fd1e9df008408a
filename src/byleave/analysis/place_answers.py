"""Places at which some policies decide alike, whatever is done there: one of each kind is enough.

A decision about a place is made from: what each file rule of the tool says of it and of what lies below it, which
patterns of `rules` match it, what protects it and whether a rule names that, and whether it is the workspace or lies
outside. Tables and matchers are asked that themselves (`_by_tables`, `_by_patterns`, `_by_protection`). What a tool's
rules and the ordered rules come to is then decided once for each of the answers, not for each place: `core` lets the
stricter of the two count.

Pure. The places: `path_classes`. What is tried there: `fs_witnesses`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.rule_atoms import FS
from byleave.core.action import FileAction
from byleave.core.decide import decide
from byleave.core.decision import ALLOW
from byleave.core.file_decision import decide_part_of_move, names_place
from byleave.core.fs_rules import CAPABILITIES, FsTable
from byleave.core.match_context import MatchContext

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from byleave.analysis.rule_atoms import Atoms
    from byleave.core.fs_rules import FsRule, FsTarget
    from byleave.core.protected import Protection

_BELOW = ("create", "delete")  # what is done to all that lies below, with a directory
# Kind, as editors name it, and whether all that lies below is touched as well.
_TOUCHES = (
    *(("read", "read", False), ("read", "search", False), ("create", "edit", False), ("update", "edit", False)),
    *(("delete", "delete", False), ("delete", "delete", True), ("exec", "execute", False)),
    *(("delete", "move", False), ("delete", "move", True)),
    *(("create", "move", False), ("create", "move", True), ("update", "move", False)),
)


class PlaceAnswers:
    """What counts of places for agents and for the tools of some policies."""

    def __init__(self, atoms: Atoms, agents: tuple[str | None, ...]) -> None:
        self._atoms = atoms
        self._agents = agents
        self._matchers = tuple(dict.fromkeys(matcher.replace(ops=frozenset({"read"})) for matcher in atoms.paths))
        protected = [policy.protected for policy in atoms.policies]
        self._protected = tuple({(tuple(each.inside()), tuple(each.outside())): each for each in protected}.values())
        self._rules = [table for policy in atoms.policies for table in policy.rule_tables()]
        self._allowing = [rule.matcher for table in self._rules for rule in table.rules if rule.outcome is ALLOW]
        self._unruled = [
            policy.replace(views=tuple([view.replace(rules=None) for view in policy.views]), known=None)
            for policy in atoms.policies
        ]
        self._named: dict[Protection, tuple[bool, ...]] = {}
        self._ruled: dict[Hashable, Hashable] = {}
        self._decided: dict[Hashable, Hashable] = {}

    def unlike(self, places: Iterable[FsTarget], tool: str | None) -> list[FsTarget]:
        """Return one place of each kind, the one with the plainest name."""
        tables = [] if tool is None else [each for each in self._atoms.tables(tool, FS) if isinstance(each, FsTable)]
        kept: dict[Hashable, FsTarget] = {}
        for place in sorted(places, key=_plainness):
            kept.setdefault(self._kind(place, tool, tables), place)
        return list(kept.values())

    def _kind(self, place: FsTarget, tool: str | None, tables: list[FsTable]) -> Hashable:
        where = (place.relative == "", place.relative is None)
        patterns = (where, self._by_patterns(place))
        if patterns not in self._ruled:
            self._ruled[patterns] = tuple(self._by_rules(place))
        if tool is None:
            return where, self._ruled[patterns], self._by_protection(place, ())
        said, naming = _by_tables(place, tables)
        key = (tool, where, said, self._by_protection(place, naming))
        if key not in self._decided:
            self._decided[key] = tuple(self._by_tool(place, tool))
        return where, self._ruled[patterns], self._decided[key]

    def _by_patterns(self, place: FsTarget) -> Hashable:
        """Return which patterns of `rules` match a place, allowing, and denying with all that lies below."""
        subject = MatchContext("read", op="read", file=place)
        below = subject.replace(below=True)
        return tuple(
            [
                (matcher.match(subject, granting=True), matcher.match(below, granting=False))
                for matcher in self._matchers
            ]
        )

    def _by_rules(self, place: FsTarget) -> Iterator[Hashable]:
        """Yield what the ordered rules say to everything that can be done at a place, and which of them allows it."""
        for agent in self._agents:
            for kind, operation, below in _TOUCHES:
                subject = MatchContext(operation, agent, op=kind, file=place, below=below)
                for table in self._rules:
                    answer = table.decide(subject)
                    yield answer.decision, id(answer.rules[0]) if answer.decision is ALLOW else None

    def _by_tool(self, place: FsTarget, tool: str) -> Iterator[Hashable]:
        """Yield what the tool's own rules say to everything that can be done at a place."""
        for policy in self._unruled:
            if tool in policy.views[0].tools:
                for kind, operation, below in _TOUCHES:
                    if operation == "move":
                        yield decide_part_of_move(policy, place, kind, tree=below, tool=tool).decision
                    elif operation != "search":  # decided as a read
                        action = FileAction(kind, ".", tool)
                        yield decide(policy, action, (place.replace(directory=below or place.directory),)).decision

    def _by_protection(self, place: FsTarget, naming: tuple[str, ...]) -> Hashable:
        """Return what protects a place as a file and as a directory, and which rules name that."""
        directory = place.replace(directory=True)
        touched = [(place, False), (place, True), (directory, True)]
        if place.relative == "":
            touched.append((directory, False))
        said: list[Hashable] = []
        for protected in self._protected:
            for target, subtree in touched:
                found = protected.of(target, subtree=subtree)
                if found is None:
                    said.append(None)
                    continue
                if found not in self._named:
                    self._named[found] = tuple([names_place(matcher, found) for matcher in self._allowing])
                names = {path: found.named_by(path) for path in set(naming)}
                said.append((found.final, self._named[found], tuple([names[path] for path in naming])))
        return tuple(said)


def _by_tables(place: FsTarget, tables: list[FsTable]) -> tuple[Hashable, tuple[str, ...]]:
    """Return what the file rules of a tool say of a place and of all below it, and the paths of those that decide."""
    answers = [table.decide(place, capability) for table in tables for capability in CAPABILITIES]
    below = [table.withheld_below(place, capability) for table in tables for capability in _BELOW]
    rules = [answer.rule for answer in answers if answer.rule is not None]
    said = (
        tuple([(answer.decision, answer.code, _given(answer.rule)) for answer in answers]),
        tuple([_given(rule) for rule in below]),
        tuple([rule.approved_target == place.canonical for rule in rules if rule.external]),
    )
    return said, tuple([rule.path for rule in rules])


def _given(rule: FsRule | None) -> Hashable:
    return None if rule is None else tuple([rule.grants(capability) for capability in CAPABILITIES])


def _plainness(place: FsTarget) -> tuple[int, int]:
    """Order places so that those come first whose names a person expects."""
    return sum(letter.isupper() for letter in place.canonical), len(place.canonical)
