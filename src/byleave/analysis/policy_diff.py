"""What changes between two policies: one witness for each way in which some actions are decided otherwise.

Files, the network, variables and calls are compared on a complete set of witnesses (`analysis.witnesses`), so that what
is not listed does not change. Commands have no such set: they are compared on command lines that agents run, on the
examples and words of the rules themselves, and on what the caller gives (the audit log). Settings that are no rules are
in `analysis.setting_changes`.

A confined allow is stricter than a plain one. Pure, but for `LivePolicy`, which says how a witness is decided on this
disk: of several witnesses for one change, one is preferred that is decided there as it is supposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.corpus import example_commands
from byleave.analysis.rule_atoms import COMMANDS, FAMILIES, FS, RULES, Atoms, Witness
from byleave.analysis.witnesses import EXACT, decide_witness, witnesses
from byleave.core.access import SHELL_TOOL
from byleave.core.action import CommandAction, FileAction, OtherAction, SpawnAction, action_tree
from byleave.core.command_rules import CommandTable
from byleave.core.decision import ALLOW, BUILT_IN
from byleave.core.fs_rules import FsTable, FsTarget
from byleave.core.matchers import OPERATIONS, CommandMatcher, is_about_commands
from byleave.errors import ByleaveError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from byleave.core.command_line import CommandLine
    from byleave.core.decision import RuleRef, Verdict
    from byleave.core.policy import CompiledPolicy, PolicyView
    from byleave.policy.live_policy import LivePolicy

_MOST_TRIED = 40  # witnesses of one change that are tried on the disk
_MOST_WORDS = 3_000  # command lines that are made of the words of rules
_SUPPOSED_LATER = {"": 0, "directory": 1, "hard links": 2}


class Side(Struct, frozen=True):
    """What one policy says to a witness. `sandbox`: None for a plain run, else whether confinement is required."""

    decision: str
    rule: RuleRef
    sandbox: bool | None = None

    @property
    def strictness(self) -> int:
        """How strict an answer is, the sandbox included."""
        confined = 0 if self.sandbox is None else 1 + self.sandbox
        return {"allow": confined, "ask": 3, "deny": 4}[self.decision]


class Change(Struct, frozen=True):
    """Actions of one family, kind and tool that are decided otherwise, and one of them."""

    family: str
    witness: Witness
    old: Side
    new: Side
    supposes: str = ""  # what is taken for granted of the disk that is not so now
    unconfined: bool = False  # the change shows only where commands cannot run confined

    @property
    def loosens(self) -> bool:
        """Whether the new policy lets more through."""
        return self.new.strictness < self.old.strictness

    @property
    def kind(self) -> str:
        """The kind of action."""
        kind: str = action_tree(self.witness.action)["kind"]
        return kind


class PolicyDiff(Struct, frozen=True):
    """All changes, loosened first, of those ask to allow first; for which families they are all that there are."""

    changes: tuple[Change, ...]
    exact: dict[str, bool]
    commands_tried: int = 0

    @property
    def loosened(self) -> int:
        """How many changes let more through."""
        return sum(change.loosens for change in self.changes)


def diff_policies(
    old: LivePolicy, new: LivePolicy, *, commands: Iterable[str] = (), directories: Sequence[str] = ()
) -> PolicyDiff:
    """Return what changes from one policy to the other. `commands` are tried, too; `directories` are on this disk."""
    if _are_equal(old, new):
        return PolicyDiff((), {family: family in EXACT for family in FAMILIES})
    work = _Comparison(old, new)
    exact = {}
    for family in EXACT:
        if family == FS and _treat_files_alike(old.compiled.policy, new.compiled.policy):
            exact[family] = True
            continue
        made = witnesses([old.compiled.policy, new.compiled.policy], old.root.path, family)
        exact[family] = made.exact
        work.compare(made.witnesses)
    work.compare(_existing(directories, work.atoms, old.root.path))
    work.compare(_spawned(work.atoms))
    work.compare(_others(work.atoms))
    lines = tuple(dict.fromkeys([*rule_examples(old), *rule_examples(new), *rule_words(work.atoms), *commands]))
    tried = (*example_commands(), *lines) if work.speaks_of_commands else ()
    work.compare_commands(tried)
    changes = sorted(work.changes(), key=_order)
    return PolicyDiff(tuple(changes), {family: exact.get(family, False) for family in FAMILIES}, len(tried))


def _are_equal(old: LivePolicy, new: LivePolicy) -> bool:
    sides = [[(layer.name, layer.content) for layer in side.compiled.layers] for side in (old, new)]
    return sides[0] == sides[1] and all(content for side in sides for _name, content in side)


def _treat_files_alike(old: CompiledPolicy, new: CompiledPolicy) -> bool:
    """Whether all that decides about files is the same on both sides: most edits are of commands."""
    sides = [
        (
            policy.strict_links,
            [sorted(map(repr, places)) for places in (policy.protected.inside(), policy.protected.outside())],
            [(view.denies_only, _tool_grants(view), _rules_for_files(view)) for view in policy.views],
        )
        for policy in (old, new)
    ]
    return sides[0] == sides[1]


def _tool_grants(view: PolicyView) -> dict[str, object]:
    tables = {name: tool.access.fs for name, tool in view.tools.items()}
    return {
        name: [rule.replace(source="") for rule in table.rules] if isinstance(table, FsTable) else table
        for name, table in tables.items()
    }


def _rules_for_files(view: PolicyView) -> list[object] | None:
    if view.rules is None:
        return None
    return [(rule.outcome, rule.matcher) for rule in view.rules.rules if not is_about_commands(rule.matcher)]


def _order(change: Change) -> tuple[object, ...]:
    asked_before = change.loosens and (change.old.decision, change.new.decision) == ("ask", "allow")
    return not change.loosens, not asked_before, change.old.strictness - change.new.strictness


class _Comparison:
    """Collects witnesses by the change that they show."""

    def __init__(self, old: LivePolicy, new: LivePolicy) -> None:
        self._sides = (old, new)
        self.atoms = Atoms([side.compiled.policy for side in self._sides])
        self._found: dict[object, list[tuple[Witness, Side, Side]]] = {}

    @property
    def speaks_of_commands(self) -> bool:
        """Whether a policy has rules, or says how commands run: else all command lines are answered alike."""
        return bool(self.atoms.rules) or any(side.compiled.policy.shell is not None for side in self._sides)

    def compare(self, made: Iterable[Witness]) -> None:
        """Compare witnesses. Without a [shell] table nothing is confined: that is no access which could be compared."""
        shells = all(SHELL_TOOL in side.compiled.policy.views[0].tools for side in self._sides)
        for witness in made:
            if not shells and getattr(witness.action, "tool", None) == SHELL_TOOL:
                continue
            old, new = (side_of(decide_witness(side.compiled.policy, witness)) for side in self._sides)
            self._note(witness, old, new)

    def compare_commands(self, lines: Iterable[str]) -> None:
        """Compare command lines as a caller decides them that can run commands confined, and as one that cannot."""
        for text in lines:
            action = CommandAction(text)
            witness = Witness(RULES, action)
            verdicts = [
                side.decide_both(action, line) for side, line in zip(self._sides, self._read(text), strict=True)
            ]
            confined, plain = [[side_of(each) for each in said] for said in zip(*verdicts, strict=True)]
            if not self._note(witness, *confined):
                self._note(witness, *plain, unconfined=True)

    def _read(self, text: str) -> list[CommandLine | None]:
        """Read a line for each side: once, where both know the same programs."""
        readers = [side.compiled.read_line for side in self._sides]
        first, second = readers
        if first is not None and second is not None and first.programs == second.programs:
            return [first.read(text)] * 2
        return [None if reader is None else reader.read(text) for reader in readers]

    def _note(self, witness: Witness, old: Side, new: Side, *, unconfined: bool = False) -> bool:
        if old.strictness == new.strictness:
            return False
        action = action_tree(witness.action)
        tool = None if action["kind"] == "call" else action.get("tool")
        key = (witness.family, action["kind"], tool, old.strictness, new.strictness, unconfined)
        self._found.setdefault(key, []).append((witness, old, new))
        return True

    def changes(self) -> Iterator[Change]:
        for key, candidates in self._found.items():
            family, unconfined = str(key[0]), bool(key[-1])  # type: ignore[index] # the tuple of `_note`
            ordered = sorted(candidates, key=_plainness)
            if family != FS:
                yield Change(family, *ordered[0], unconfined=unconfined)
                continue
            seen = next((each for each in ordered[:_MOST_TRIED] if self._is_so_here(*each)), None)
            witness, old, new = seen if seen is not None else ordered[0]
            yield Change(family, witness, old, new, "" if seen is not None else witness.supposes or "no link")

    def _is_so_here(self, witness: Witness, old: Side, new: Side) -> bool:
        """Whether the disk, as it is now, leads to the same decisions."""
        for side, expected in zip(self._sides, (old, new), strict=True):
            try:
                if side.decide(witness.action).decision.word != expected.decision:
                    return False
            except ByleaveError:  # the tool is not configured on this side
                continue
        return True


def _plainness(candidate: tuple[Witness, Side, Side]) -> tuple[object, ...]:
    """Order witnesses so that the one that a person expects comes first: rules of a file, plain and short names."""
    witness, old, new = candidate
    written = sum(side.rule.source == BUILT_IN for side in (old, new))
    text = str(action_tree(witness.action))
    odd = 50 * (getattr(witness.action, "to", None) == getattr(witness.action, "path", ""))
    odd += sum(letter.isupper() for letter in text) + 5 * text.count("%2F") + 5 * text.count(";") + 5 * text.count("@")
    return _SUPPOSED_LATER[witness.supposes], written, odd, len(text)


def side_of(verdict: Verdict) -> Side:
    """Return what counts of a verdict in a comparison."""
    sandbox = None
    if verdict.decision is ALLOW and verdict.sandbox is not None and verdict.sandbox[0]:
        sandbox = verdict.sandbox[1]
    return Side(verdict.decision.word, verdict.because[0], sandbox)


def _existing(directories: Sequence[str], atoms: Atoms, root: str) -> Iterator[Witness]:
    """Yield the deletion of directories that are there."""
    for path in directories:
        place = FsTarget(f"{root.rstrip('/')}/{path}", path, directory=True)
        yield from (Witness(FS, FileAction("delete", path, tool), (place,)) for tool in (None, *atoms.tools))


def _spawned(atoms: Atoms) -> Iterator[Witness]:
    """Yield programs that tools start, with the words that their rules name."""
    for tool in atoms.tools:
        tables = [table for table in atoms.tables(tool, COMMANDS) if isinstance(table, CommandTable)]
        yield Witness(COMMANDS, SpawnAction("example-program", (), tool))
        for rule in (rule for table in tables for rule in table.rules.values()):
            lists = [(), ("example",), *(_words(args) for args in rule.args or ())]
            for args in dict.fromkeys(each for words in lists for each in (words, (*words, "example"))):
                yield Witness(COMMANDS, SpawnAction(rule.program, args, tool))


def _words(args: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.replace("*", "example") for word in args if word != "**")


def _others(atoms: Atoms) -> Iterator[Witness]:
    """Yield what is neither a command nor a file, a URL or a call: by the kinds that editors name."""
    for name in (*OPERATIONS, "example"):
        yield Witness(RULES, OtherAction(name))
        yield from (
            Witness(RULES, OtherAction(name, agent=agent)) for agent in atoms.agent_patterns if "*" not in agent
        )


def rule_examples(policy: LivePolicy) -> Iterator[str]:
    """Yield the command lines that rules have as examples."""
    for layer in policy.compiled.layers:
        for rule in layer.tree.get("rules", {}).get("value", ()):
            yield from (*rule.get("match", ()), *rule.get("not_match", ()))


def rule_words(atoms: Atoms) -> list[str]:
    """Return command lines made of the words of rules: each program alone, and with what its rule names."""
    lines: dict[str, None] = {}
    for matcher in atoms.of(CommandMatcher):
        for name in matcher.names or ("example-program",):
            for words in _spelled(matcher):
                line = " ".join([name, *words])
                lines |= dict.fromkeys([line, f"{line} example"])
                if matcher.piped_to_shell:
                    lines[f"{line} | sh"] = None
        if len(lines) > _MOST_WORDS:
            break
    return list(lines)[:_MOST_WORDS]


def _spelled(matcher: CommandMatcher) -> Iterator[list[str]]:
    yield []
    flags = list(matcher.flags)
    if flags:
        yield flags
    for subcommand in matcher.subcommands:
        yield [subcommand]
        if flags:
            yield [subcommand, *flags]
    if matcher.args is not None:
        yield [word for word in matcher.args if word != "**"]


def diff_tree(diff: PolicyDiff) -> dict[str, Any]:
    """Return a comparison in the JSON shape that other programs rely on."""
    return {
        "changes": [_change_tree(change) for change in diff.changes],
        "loosened": diff.loosened,
        "tightened": len(diff.changes) - diff.loosened,
        "exact": diff.exact,
        "commands_tried": diff.commands_tried,
    }


def _change_tree(change: Change) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "family": change.family,
        "witness": action_tree(change.witness.action),
        "old": change.old.decision,
        "new": change.new.decision,
        "old_rule": _rule_tree(change.old.rule),
        "new_rule": _rule_tree(change.new.rule),
        "loosened": change.loosens,
    }
    if change.supposes:
        tree["supposes"] = change.supposes
    if change.old.sandbox is not None or change.new.sandbox is not None:
        tree["sandbox"] = {"old": change.old.sandbox is not None, "new": change.new.sandbox is not None}
    if change.unconfined:
        tree["unconfined"] = True
    return tree


def _rule_tree(rule: RuleRef) -> dict[str, str]:
    return {"rule": rule.rule, "source": rule.source, "decision": rule.decision.word}
