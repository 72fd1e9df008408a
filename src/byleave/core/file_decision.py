"""Decide what is done to files: by the tool's rules, the protected places, and the ordered rules.

Pure: paths arrive resolved. Called by `decide`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.access import Default
from byleave.core.action import CAPABILITY_OF, FileAction, MoveAction, SearchAction
from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, VERBS, RuleRef, Verdict, strictest
from byleave.core.fs_rules import WRITES, FsTable, FsTarget, RefusedPath, is_under
from byleave.core.match_context import MatchContext
from byleave.core.matchers import All, AnyOf, PathMatcher
from byleave.core.policy import NO_RULE
from byleave.core.search import decide_selected
from byleave.core.suggest import suggest_fs, suggest_path_rule
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from byleave.core.action import Action
    from byleave.core.fs_rules import FsAnswer, FsRule
    from byleave.core.matchers import Matcher
    from byleave.core.policy import Answer, CompiledPolicy, ToolPolicy
    from byleave.core.protected import Protection

    Place = FsTarget | RefusedPath

_RESOLUTION = RuleRef("how paths are resolved", BUILT_IN, DENY)


def decide_file(policy: CompiledPolicy, action: FileAction, places: tuple[Place, ...]) -> Verdict:
    """Decide about one path; deleting a directory touches everything below it."""
    (place,) = places
    tree = action.kind == "delete" and isinstance(place, FsTarget) and place.directory
    below = "delete" if tree else None
    return _decide(policy, place, _Touch(action.kind, action.path, action.tool, below=below, agent=action.agent))


def decide_reading_all(policy: CompiledPolicy, path: str, tool: str, place: FsTarget) -> Verdict:
    """Decide about reading a place and everything below it."""
    return _decide(policy, place, _Touch("read", path, tool, below="read" if place.directory else None))


def decide_search(policy: CompiledPolicy, action: SearchAction, places: tuple[Any, ...]) -> Verdict:
    """Decide a search as a read of where it starts, and of what it can select there, if that was looked for."""
    touch = _Touch("read", action.path, action.tool, agent=action.agent, operation="search")
    place, *looked = places
    verdict = _decide(policy, place, touch)
    if verdict.decision is DENY or not looked or isinstance(place, RefusedPath):
        return verdict

    selected = decide_selected(looked[0], place, f"searching {_named(place, touch)}")
    return verdict if selected is None else with_grants(policy, action, strictest([selected, verdict]))


def decide_move(policy: CompiledPolicy, action: MoveAction, places: tuple[Place, ...]) -> Verdict:
    """Decide a move: delete here, create or update there; a directory takes everything below it along."""
    source, target = places
    tree = isinstance(source, FsTarget) and source.directory
    replaces = isinstance(target, FsTarget) and target.exists
    moved: dict[str, Any] = {"agent": action.agent, "operation": "move"}
    steps = [(source, _Touch("delete", action.path, action.tool, below="delete" if tree else None, **moved))]
    if replaces:
        steps.append((target, _Touch("update", action.to, action.tool, **moved)))
    if tree or not replaces:
        steps.append((target, _Touch("create", action.to, action.tool, below="create" if tree else None, **moved)))
    verdicts = [_decide(policy, place, touch) for place, touch in steps]
    verdict = strictest(verdicts)
    if verdict.decision is ALLOW:
        return verdict
    missing = [(place, said) for (place, _), said in zip(steps, verdicts, strict=True) if said.decision is not ALLOW]
    return verdict.replace(suggestion=_combined(missing, source, target))


def decide_part_of_move(
    policy: CompiledPolicy,
    place: FsTarget,
    kind: str,
    *,
    tree: bool = False,
    tool: str | None = None,
    agent: str | None = None,
) -> Verdict:
    """Decide one of the things that a move does: a delete, a create or an update; with `tree`, to all below as well.

    The verdict has no suggestion: the whole move needs one.
    """
    below = kind if tree else None
    touch = _Touch(kind, place.canonical, tool, below=below, agent=agent, operation="move", suggests=False)
    return _decide(policy, place, touch)


class _Touch:
    """One thing done to one path: the kind of action, the path as it was written, and for which tool.

    `suggests`: the verdict says which rule would allow it.
    """

    __slots__ = ("agent", "below", "capability", "kind", "operation", "path", "suggests", "tool")

    def __init__(
        self,
        kind: str,
        path: str,
        tool: str | None,
        *,
        below: str | None = None,
        agent: str | None = None,
        operation: str | None = None,
        suggests: bool = True,
    ) -> None:
        self.kind = kind
        self.path = path
        self.tool = tool
        self.capability = CAPABILITY_OF[kind]
        self.agent = agent
        self.operation = operation if operation is not None else _OPERATIONS[kind]
        self.suggests = suggests
        self.below = below  # what is done to everything that lies below, if it is touched as well

    @property
    def takes_away(self) -> bool:
        """Whether the name itself goes, or comes to stand for something else."""
        return self.kind == "delete" or self.operation == "move"

    def is_withheld_by(self, rule: FsRule) -> bool:
        return not rule.grants(self.capability) or (self.below is not None and not rule.grants(self.below))


def with_grants(policy: CompiledPolicy, action: Action, verdict: Verdict) -> Verdict:
    """Return a denial about files with the paths that do grant what was denied; every other verdict as it is."""
    if verdict.decision is not DENY or verdict.grants is not None:
        return verdict
    if not isinstance(action, FileAction | MoveAction | SearchAction):
        return verdict
    kind = action.kind if isinstance(action, FileAction) else "delete" if isinstance(action, MoveAction) else "read"
    return verdict.replace(grants=_grants(policy, kind, action.tool))


def _grants(policy: CompiledPolicy, kind: str, tool: str | None) -> tuple[str, ...]:
    """Return the paths at which this is granted: by the tool's own rules, without a tool by `rules`."""
    if tool is None:
        return tuple(dict.fromkeys(path for table in policy.rule_tables() for path in table.grants(kind)))
    known = policy.tool(tool)
    if not known.enabled:
        return ()
    return known.access.grants(CAPABILITY_OF[kind])


def _decide(policy: CompiledPolicy, place: Place, touch: _Touch) -> Verdict:
    """Decide one touch; a denial names the paths at which it would be granted."""
    verdict = _decide_touch(policy, place, touch)
    if verdict.decision is not DENY or verdict.grants is not None:
        return verdict
    return verdict.replace(grants=_grants(policy, touch.kind, touch.tool))


def _decide_touch(policy: CompiledPolicy, place: Place, touch: _Touch) -> Verdict:
    tool = touch.tool
    if tool is not None:
        policy.tool(tool)
    if isinstance(place, RefusedPath):
        return Verdict(DENY, place.problem, place.code, (_RESOLUTION,))
    writes = touch.capability in WRITES
    protection = policy.protected.of(place, subtree=touch.below is not None) if writes else None
    if protection is not None and protection.final:
        return _guarded(place, touch, protection)
    if tool is None:
        return _by_rules_alone(policy, place, touch, protection)
    verdict = policy.strictest(tool, lambda known: _with_help(policy, known, place, touch, protection))
    if policy.strict_links and place.links > 1 and writes:
        verdict = _linked(verdict, place, touch)
    ruled = _ruled(policy, place, touch, silent=True)
    return verdict if ruled is None else strictest([verdict, ruled.replace(canonical=place.canonical)])


def _ruled(policy: CompiledPolicy, place: FsTarget, touch: _Touch, *, silent: bool) -> Verdict | None:
    """Ask the ordered rules about this touch."""
    if next(policy.rule_tables(), None) is None:
        return None

    subject = MatchContext(touch.operation, touch.agent, op=touch.kind, file=place, below=touch.below is not None)
    return policy.by_rules(subject, f"{touch.kind} on {_named(place, touch)}", silent=silent)


def _by_rules_alone(policy: CompiledPolicy, place: FsTarget, touch: _Touch, protection: Protection | None) -> Verdict:
    """No tool was named, so only `rules` answer; a protected place asks unless a rule names it."""
    ruled = _ruled(policy, place, touch, silent=False)
    if ruled is None or ruled.because[0] == NO_RULE:
        return _unclaimed(place, touch, protection)
    if ruled.decision is ALLOW and protection is not None and not _named_by_rules(policy, place, touch, protection):
        asked = _unclaimed(place, touch, protection)  # a rule behind the one that allows would not be heard
        return asked.replace(because=(*asked.because, *ruled.because), suggestion=None)
    return ruled.replace(canonical=place.canonical)


def _named_by_rules(policy: CompiledPolicy, place: FsTarget, touch: _Touch, protection: Protection) -> bool:
    """Whether the rules that allow this touch name the protected place, and not merely what lies around it."""
    subject = MatchContext(touch.operation, touch.agent, op=touch.kind, file=place)
    rulings = [table.decide(subject) for table in policy.rule_tables()]
    return all(ruling.rules and names_place(ruling.rules[0].matcher, protection) for ruling in rulings)


def names_place(matcher: Matcher, protection: Protection) -> bool:
    """Whether a path matcher names a protected place, or something in it, exactly."""
    if isinstance(matcher, PathMatcher):
        if matcher.absolute:
            return protection.named_by(f"/{matcher.glob.literal}")
        return protection.named_by(matcher.glob.literal) or protection.named_anywhere_by(matcher.glob.anywhere)
    if isinstance(matcher, All):
        return any(names_place(each, protection) for each in matcher.matchers)
    return isinstance(matcher, AnyOf) and all(names_place(each, protection) for each in matcher.matchers)


def _with_help(
    policy: CompiledPolicy, tool: ToolPolicy, place: FsTarget, touch: _Touch, protection: Protection | None
) -> Answer:
    """Return the tool's answer; where it is not an allow but could be one, with the rule that would make it one."""
    answer = tool.access.decide_file(place, touch.capability, below=touch.below)
    verdict, written = _by_tool(tool, place, touch, answer, protection)
    if verdict.decision is ALLOW or place.relative is None or (answer.rule is not None and answer.rule.dropped):
        return verdict, written
    if not touch.suggests:
        return verdict, written
    if touch.capability not in WRITES:
        protection = policy.protected.of(place, subtree=False)
    return verdict.replace(suggestion=_suggestion(tool, place.relative, place, touch, protection)), written


def _by_tool(
    tool: ToolPolicy, place: FsTarget, touch: _Touch, answer: FsAnswer, protection: Protection | None
) -> Answer:
    """Turn what the file rules say into a verdict, with what a protected place adds to an allow."""
    rule, table = answer.rule, tool.access.fs
    if answer.decision is not ALLOW:
        return _not_allowed(table, place, touch, answer), rule is not None and touch.is_withheld_by(rule)
    if rule is not None and touch.takes_away and rule.external and place.canonical == rule.approved_target:
        return _mounted(place, touch, rule), True
    if protection is not None and not (rule is not None and protection.named_by(rule.path)):
        return _protected(table, place, touch, protection, rule), False
    ref = table.ref if isinstance(table, Default) else table.ref(rule, decision=ALLOW)
    granted = f"is allowed: {ref.rule}" if rule is None else f"is granted by the rule `{ref.rule}`"
    reason = f"{touch.kind} on {_named(place, touch)} {granted}"
    return Verdict(ALLOW, reason, "ok", (ref,), None, place.canonical), rule is not None


def _not_allowed(table: FsTable | Default, place: FsTarget, touch: _Touch, answer: FsAnswer) -> Verdict:
    rule = answer.rule
    if isinstance(table, Default):
        ref, grants = RuleRef(table.rule, BUILT_IN, answer.decision), None
    else:
        ref, grants = table.ref(rule, decision=DENY), table.grants(touch.capability)
    if answer.code == "escape":
        within = "the workspace" if rule is None or not rule.external else f"the approved target of {shown(rule.path)}"
        reason = (
            f"{quoted(touch.path)} leads outside {within}; a link out of it needs `external = true` and your approval"
        )
        return Verdict(DENY, reason, "escape", (ref,))
    said = ref.rule if rule is None else rule.dropped or f"the rule `{ref.rule}` does not grant it"
    reason = f"{touch.kind} on {_named(place, touch)} {VERBS[answer.decision]}: {said}"
    return Verdict(answer.decision, reason, answer.code, (ref,), None, place.canonical, grants)


def _suggestion(
    tool: ToolPolicy, path: str, place: FsTarget, touch: _Touch, protection: Protection | None
) -> str | None:
    """Return the rule that would allow this touch. Where it opens a protected place, it opens it for nothing else."""
    table = tool.access.fs
    if touch.below is not None and isinstance(table, FsTable) and table.withheld_below(place, touch.below) is not None:
        return None
    if protection is None or _names(table, path, protection):
        return suggest_fs(tool.access, tool.name, path, touch.capability)
    if touch.capability in WRITES and not protection.named_by(path):
        return None
    return suggest_fs(tool.access, tool.name, path, touch.capability, without=WRITES)


def _names(table: FsTable | Default, path: str, protection: Protection) -> bool:
    rule = table.match(path) if isinstance(table, FsTable) else None
    return rule is not None and protection.named_by(rule.path)


def _combined(missing: list[tuple[Place, Verdict]], source: Place, target: Place) -> str | None:
    """Return what all that is missing for a move needs together; None where one rule would undo another."""
    texts = [verdict.suggestion for _, verdict in missing]
    places = [place.canonical for place, _ in missing if isinstance(place, FsTarget)]
    nested = (
        isinstance(source, FsTarget) and isinstance(target, FsTarget) and is_under(target.canonical, source.canonical)
    )
    if nested or None in texts or len(set(places)) < len(missing):
        return None
    blocks = [block for text in texts if text is not None for block in text.split("\n\n")]
    return "\n\n".join(dict.fromkeys(blocks))


def _guarded(place: FsTarget, touch: _Touch, protection: Protection) -> Verdict:
    ref = RuleRef(f"guarded place {shown(protection.place)}", BUILT_IN, DENY)
    what = f"{touch.kind} on {_named(place, touch)}"
    reason = f"{what} is denied: it would change what byleave or an agent's hooks obey, and no rule allows that"
    return Verdict(DENY, reason, "denied", (ref,), None, place.canonical, ())


def _mounted(place: FsTarget, touch: _Touch, rule: FsRule) -> Verdict:
    """What was approved is what lies in a mount; the mount's own place belongs to the directory around it."""
    ref = RuleRef(f"{rule.text}, the mount itself", rule.source, DENY)
    reason = f"{touch.kind} on {_named(place, touch)} is denied: it is a mount; remove it with `byleave unmount`"
    return Verdict(DENY, reason, "denied", (ref,), None, place.canonical)


def _protected(
    table: FsTable | Default, place: FsTarget, touch: _Touch, protection: Protection, rule: FsRule | None
) -> Verdict:
    allowing = table.ref if isinstance(table, Default) else table.ref(rule, decision=ALLOW)
    ref = RuleRef(f"protected place {shown(protection.place)}", BUILT_IN, DENY)
    why = f"{shown(protection.place)} is protected, and no rule names it"
    reason = f"{touch.kind} on {_named(place, touch)} is denied: {why}"
    grants = table.grants(touch.capability) if isinstance(table, FsTable) else None
    return Verdict(DENY, reason, "denied", (ref, allowing), None, place.canonical, grants)


def _unclaimed(place: FsTarget, touch: _Touch, protection: Protection | None) -> Verdict:
    """No tool was named, so only `rules` could answer, and none does: ask."""
    ref, why = NO_RULE, "no rule matches it"
    if protection is not None:
        ref = RuleRef(f"protected place {shown(protection.place)}", BUILT_IN, ASK)
        why = f"{shown(protection.place)} is a protected place"
    suggestion = None
    named = place.relative if place.relative is not None else place.canonical
    if touch.suggests and (protection is None or protection.named_by(named)):
        tree = touch.below is not None
        suggestion = suggest_path_rule(place, touch.kind, wide=protection is None, tree=tree)
    return Verdict(
        ASK,
        f"{touch.kind} on {_named(place, touch)} needs your approval: {why}",
        "no_match",
        (ref,),
        suggestion,
        place.canonical,
    )


def _linked(verdict: Verdict, place: FsTarget, touch: _Touch) -> Verdict:
    """Ask about a file with several names; where it is denied anyway, no rule alone would allow it."""
    if verdict.decision is not ALLOW:
        return verdict.replace(suggestion=None)
    ref = RuleRef("strict_links", BUILT_IN, ASK)
    why = f"the file has {place.links} hard links, and the others may lie elsewhere"
    reason = f"{touch.kind} on {_named(place, touch)} needs your approval: {why}"
    return Verdict(ASK, reason, "no_match", (ref, *verdict.because), None, verdict.canonical)


def _named(place: FsTarget, touch: _Touch) -> str:
    """Name the place as the workspace does, by the link that leads out of it, else as the caller named it.

    Where it really lies outside is not said: the sentence goes to agents and tools as well.
    """
    name = place.relative if place.relative is not None else place.door
    return quoted((name if name is not None else touch.path) or ".")


_OPERATIONS = {"read": "read", "create": "edit", "update": "edit", "delete": "delete", "exec": "execute"}
