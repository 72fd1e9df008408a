"""Witnesses for what is done to files: by a tool, by its `access.fs` rules and `rules`; by an agent, by `rules` alone.

Complete, because a decision about a file is made from: the kind, the tool, the agent, and the place. Kinds, tools and
agents are tried one and all (agents by the patterns that rules have: `name_classes`). The place counts by its path
(`path_classes` has one for each way in which rules, patterns and protected places answer), whether it is a directory,
which counts where it goes away with all that is in it, and how many hard links it has, where `strict_links` is on. A
move is a delete here and a create or update there, and the stricter counts: paths that answer alike to these three,
within a move, are alike in every move.

Places are taken by their names alone, below the workspace and outside of it: a link on the disk leads to a place that
is among them under its own name. Places behind mounts are those that approved rules open. A search is decided as a
read of where it starts; what lies there is looked at on the disk, and not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.name_classes import name_classes
from byleave.analysis.path_classes import PathRules, path_classes
from byleave.analysis.place_answers import PlaceAnswers
from byleave.analysis.rule_atoms import FS, Witness, WitnessSet
from byleave.core.action import CAPABILITY_OF, FileAction, MoveAction, SearchAction
from byleave.core.agents import other_names
from byleave.core.file_decision import decide_part_of_move
from byleave.core.fs_rules import WRITES, FsTable, FsTarget, is_under
from byleave.core.match_context import MatchContext
from byleave.core.matchers import AgentMatcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.analysis.rule_atoms import Atoms
    from byleave.core.decision import Decision

_MOST_TARGETS = 64  # kinds of places that a move may lead to; there are fewer in all but made-up policies


def fs_witnesses(atoms: Atoms, root: str) -> WitnessSet:
    """Return an action for each way in which these policies can answer about files."""
    agents, complete = agents_of(atoms)
    answers = PlaceAnswers(atoms, agents)
    found: list[Witness] = []
    for tool in (None, *atoms.tools):
        inside = path_classes(_rules_of(atoms, root, tool), start=root)
        places = [FsTarget(_below(root, path), path) for path in inside.paths]
        complete = complete and inside.complete
        if tool is None:
            outside, known = _outside(atoms, root)
            places += outside
            complete = complete and known
        else:
            places += _mounted(atoms, tool)
        places = answers.unlike(places, tool)
        singles = [each for place in places for each in _touches(atoms, place, tool, agents)]
        moves, tried = _moves(atoms, places, tool, agents)
        complete = complete and tried
        found += [*singles, *moves]
    return WitnessSet(tuple(found), complete)


def agents_of(atoms: Atoms) -> tuple[tuple[str | None, ...], bool]:
    """Return one agent for each way in which rules answer about agents, and whether these are all."""
    patterns = atoms.agent_patterns
    if not patterns:
        return (None,), True
    classes = name_classes(patterns)
    also = [other for pattern in patterns for other in other_names(pattern)]
    matchers = atoms.of(AgentMatcher)
    alike: dict[object, str] = {}
    for agent in (*patterns_without_wildcards(patterns), *classes.names, *also):
        subject = MatchContext("read", agent)
        said = [matcher.match(subject, granting=granting) for matcher in matchers for granting in (True, False)]
        alike.setdefault(tuple(said), agent)
    return (None, *alike.values()), classes.complete


def patterns_without_wildcards(patterns: tuple[str, ...]) -> list[str]:
    """Return the patterns that are names."""
    return [pattern for pattern in patterns if not set(pattern) & set("*?[")]


def path_of(place: FsTarget) -> str:
    """Return how an action names a place."""
    if place.relative is not None:
        return place.relative or "."
    return place.door if place.door is not None else place.canonical


def _below(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}" if path else root


def _rules_of(atoms: Atoms, root: str, tool: str | None) -> PathRules:
    tables = [table for table in atoms.tables(tool, FS) if isinstance(table, FsTable)] if tool is not None else []
    globs = [(matcher.glob.names, matcher.absolute) for matcher in atoms.paths]
    globs += [(matcher.resolved.names, True) for matcher in atoms.paths if matcher.resolved is not None]
    own = [place.path for policy in atoms.policies for place in policy.protected.outside()]
    return PathRules(
        frozenset(path for table in tables for rule in table.rules for path in (rule.path, *rule.written)),
        tuple(names for names, absolute in globs if not absolute),
        tuple(names for names, absolute in globs if absolute),
        frozenset(place[len(root) :].strip("/") for place in own if is_under(place, root) and place != root),
    )


def _outside(atoms: Atoms, root: str) -> tuple[list[FsTarget], bool]:
    """Return the places outside of the workspace that an agent may name, and whether these are all."""
    globs = [matcher.glob for matcher in atoms.paths if matcher.absolute]
    globs += [matcher.resolved for matcher in atoms.paths if matcher.resolved is not None]
    own = {place.path.strip("/") for policy in atoms.policies for place in policy.protected.outside()}
    starts = {glob.literal for glob in globs} - {""}
    # Of places that are protected by where they are, only those that patterns lead to differ from such names anywhere.
    led_to = {place for place in own if any(is_under(place, start) or is_under(start, place) for start in starts)}
    rules = PathRules(globs=tuple(glob.names for glob in globs), places=frozenset({*led_to, root.strip("/")} - {""}))
    classes = path_classes(rules)
    paths = [f"/{path}" for path in classes.paths]
    return [FsTarget(path, None) for path in paths if not is_under(path, root)], classes.complete


def _mounted(atoms: Atoms, tool: str) -> Iterator[FsTarget]:
    """Yield places that a tool reaches through approved links: the link, below it, and where rules speak of it."""
    tables = [table for table in atoms.tables(tool, FS) if isinstance(table, FsTable)]
    paths = {rule.path for table in tables for rule in table.rules}
    for table in tables:
        for rule in table.rules:
            if rule.approved_target is not None and rule.dropped is None:
                below = [path[len(rule.path) :] for path in sorted(paths) if is_under(path, rule.path)]
                for rest in dict.fromkeys(end for path in below for end in (path, f"{path}/file")):
                    yield FsTarget(f"{rule.approved_target.rstrip('/')}{rest}", None, f"{rule.path}{rest}")


def _touches(atoms: Atoms, place: FsTarget, tool: str | None, agents: tuple[str | None, ...]) -> Iterator[Witness]:
    """Yield each kind of action at a place."""
    linked = any(policy.strict_links for policy in atoms.policies)
    for agent in agents:
        for kind, capability in CAPABILITY_OF.items():
            action = FileAction(kind, path_of(place), tool, agent)
            supposed = place.replace(exists=kind != "create", directory=place.relative == "")
            yield Witness(FS, action, (supposed,))
            if kind == "delete" and not supposed.directory:
                yield Witness(FS, action, (supposed.replace(directory=True),))
            if linked and capability in WRITES and tool is not None and not supposed.directory:
                yield Witness(FS, action, (supposed.replace(links=2),))
        if tool is not None:
            yield Witness(FS, SearchAction(path_of(place), tool=tool, agent=agent), (place,))


def _moves(
    atoms: Atoms, places: list[FsTarget], tool: str | None, agents: tuple[str | None, ...]
) -> tuple[list[Witness], bool]:
    """Return a move for each pair of places that answer differently, and whether all pairs were tried."""
    found: list[Witness] = []
    complete = True
    for agent in agents:
        sources: dict[object, FsTarget] = {}
        targets: dict[object, list[FsTarget]] = {}  # two of each kind, so that none need be moved onto itself
        for place in places:
            for directory in (False, True) if place.relative != "" else (True,):
                source = place.replace(directory=directory)
                said = _part_answers(atoms, source, (("delete", directory),), tool, agent)
                sources.setdefault((directory, said), source)
            alike = targets.setdefault(_part_answers(atoms, place, _LAID, tool, agent), [])
            alike += [place] if len(alike) < 2 else []
        complete = complete and len(targets) <= _MOST_TARGETS
        for source in sources.values():
            for alike in list(targets.values())[:_MOST_TARGETS]:
                target = alike[-1] if alike[0].canonical == source.canonical else alike[0]
                action = MoveAction(path_of(source), path_of(target), tool, agent)
                found += [Witness(FS, action, (source, target.replace(exists=exists))) for exists in (False, True)]
    return found, complete


_LAID = (("create", False), ("create", True), ("update", False))  # what a move does where it leads; with all below


def _part_answers(
    atoms: Atoms, place: FsTarget, parts: tuple[tuple[str, bool], ...], tool: str | None, agent: str | None
) -> tuple[Decision | None, ...]:
    """Return what each policy says to parts of a move at a place; None of a policy that does not have the tool."""
    return tuple(
        decide_part_of_move(policy, place, kind, tree=tree, tool=tool, agent=agent).decision
        if tool is None or tool in policy.views[0].tools
        else None
        for policy in atoms.policies
        for kind, tree in parts
    )
