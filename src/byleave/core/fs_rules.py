"""File rules: which capabilities a tool has at a path. Longest prefix decides; on a tie, the last rule.

Pure: paths arrive canonical and relative to the workspace (workspace.resolve); "" is the workspace itself.
A rule applies in full, nothing is inherited from shorter ones. What no rule covers is denied.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from byleave.core.decision import ALLOW, BUILT_IN, DENY, INLINE, Decision, RuleRef
from byleave.record import Record, Sealed
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CAPABILITIES = ("read", "create", "update", "delete", "execute")
WRITES = frozenset({"create", "update", "delete"})

# What each in-tree tool asks for; `exists` picks between create and update.
TOOL_CAPABILITIES = {
    "fs_read_file": ("read",),
    "fs_list_files": ("read",),
    "fs_grep_files": ("read",),
    "fs_create_file": ("create", "update"),
    "fs_modify_file": ("update",),
    "fs_delete_file": ("delete",),
    "fs_move_file": ("delete", "create", "update"),
}


class FsRule(Record):
    """Capabilities at one path. `dropped` says why an external rule grants nothing here."""

    path: str
    external: bool = False
    approved_target: str | None = None
    read: bool = False
    create: bool = False
    update: bool = False
    delete: bool = False
    execute: bool = False
    source: str = INLINE
    dropped: str | None = None
    written: tuple[str, ...] = ()  # other paths that the configuration writes for it, through links

    def grants(self, capability: str) -> bool:
        """Whether this rule gives `capability`; a dropped rule gives nothing."""
        return self.dropped is None and bool(getattr(self, capability))

    def narrowed_by(self, other: FsRule) -> FsRule:
        """Return this rule with only what the other gives as well, named after the one that says the least."""
        given = {name: self.grants(name) and other.grants(name) for name in CAPABILITIES}
        source = other.source if all(given[name] == other.grants(name) for name in CAPABILITIES) else self.source
        dropped, written = self.dropped or other.dropped, (*self.written, *other.written)
        return self.replace(**given, source=source, dropped=dropped, written=written)

    @property
    def text(self) -> str:
        """The rule in a few words: where, and what it gives."""
        given = "+".join(name for name in CAPABILITIES if self.grants(name)) or "nothing"
        where = shown(self.path or ".")
        return f"fs {where} (external): {given}" if self.external else f"fs {where}: {given}"


def fs_rule(tree: Mapping[str, Any], *, path: str, source: str = INLINE) -> FsRule:
    """Build a rule from its configured or wire form; `write` is the default of create, update and delete."""
    write = bool(tree.get("write"))
    read, create, update, delete, execute = [
        _flag(tree, name, default=write and name in WRITES) for name in CAPABILITIES
    ]
    external = bool(tree.get("external"))
    return FsRule(path, external, None, read, create, update, delete, execute, source)


def _flag(tree: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = tree.get(name)
    return default if value is None else bool(value)


class FsTarget(Record):
    """A path after resolution: where it really is, and how the workspace names it.

    `relative` is set when the canonical place lies in the workspace. Otherwise `door` is the workspace path through
    which the resolution left it (the symlink's own path and what followed), or None where it never was inside.
    `link`: the place is a symbolic link, and what is done is done to the link itself.
    """

    canonical: str
    relative: str | None
    door: str | None = None
    exists: bool = True
    directory: bool = False
    links: int = 1
    link: bool = False


class RefusedPath(Record):
    """A path that was not resolved, with the verdict's code and a sentence that says why."""

    code: str
    problem: str


class FsAnswer(Record):
    """What the file rules say: the deciding rule if there is one, and the code of the verdict."""

    decision: Decision
    code: str
    rule: FsRule | None = None


class FsTable(Sealed):
    """All file rules of one tool, indexed: the cost of a match is the depth of the path, not the number of rules."""

    def __init__(self, rules: Sequence[FsRule]) -> None:
        self.rules = tuple(rules)
        self._by_path = {rule.path: rule for rule in rules}
        effective = list(self._by_path.values())
        self._by_target = _by_target(rules)
        self._denied = {name: _Denied(effective, name) for name in CAPABILITIES}
        self._grants: dict[str, tuple[str, ...]] = {}
        self._refs: dict[tuple[str, Decision], RuleRef] = {}
        self._answers: dict[tuple[str, str], FsAnswer] = {}

    def match(self, path: str) -> FsRule | None:
        """Return the rule with the longest prefix of `path`; of equal ones, the last that was written."""
        rules = self._by_path
        while True:
            rule = rules.get(path)
            if rule is not None or not path:
                return rule
            path = path.rpartition("/")[0]

    def decide(self, target: FsTarget, capability: str) -> FsAnswer:
        """Decide the canonical place under every rule that reaches it; the strictest answer counts."""
        if target.relative is not None:
            return self._decide_inside(target.relative, capability)
        answers = [self._decide_outside(view, target.canonical, capability) for view in self._views(target)]
        return next((answer for answer in answers if answer.decision is not ALLOW), answers[0])

    def denying_below(self, path: str, capability: str) -> FsRule | None:
        """Return a rule strictly below `path` that withholds `capability`, if there is one."""
        return self._denied[capability].below(path)

    def withheld_below(self, target: FsTarget, capability: str) -> FsRule | None:
        """Return a rule that withholds `capability` below `target`, by any name the workspace has for that place."""
        if target.relative is not None:
            return self.denying_below(target.relative, capability)
        denied = self._denied[capability]
        found = (denied.below(view) for view in self._views(target))
        return next((rule for rule in found if rule is not None), None) or denied.mounted_below(target.canonical)

    def grants(self, capability: str) -> tuple[str, ...]:
        """Return the paths of the rules that grant `capability`, computed once."""
        known = self._grants.get(capability)
        if known is None:
            granting = [rule.path or "." for rule in self._by_path.values() if rule.grants(capability)]
            known = self._grants[capability] = tuple(granting)
        return known

    def ref(self, rule: FsRule | None, *, decision: Decision) -> RuleRef:
        """Return the reference to `rule` that a verdict carries; None stands for default-deny."""
        if rule is None:
            return NO_FS_RULE
        known = self._refs.get((rule.path, decision))
        if known is None:
            known = self._refs[rule.path, decision] = RuleRef(rule.text, rule.source, decision)
        return known

    def _decide_inside(self, path: str, capability: str) -> FsAnswer:
        rule = self.match(path)
        if rule is None:
            return FsAnswer(DENY, "denied", None)
        folded = self._denied[capability].over(path, longer_than=rule.path)
        if folded is not None:
            return FsAnswer(DENY, "denied", folded)
        if rule.external:  # an external rule says nothing about a place inside
            return FsAnswer(DENY, "denied", rule)
        return self._answer(rule, capability)

    def _decide_outside(self, view: str, canonical: str, capability: str) -> FsAnswer:
        rule = self.match(view)
        if rule is None or not rule.external:
            return FsAnswer(DENY, "escape", rule)
        if rule.dropped is not None:
            return FsAnswer(DENY, "denied", rule)
        if not is_under(canonical, rule.approved_target):
            return FsAnswer(DENY, "escape", rule)
        folded = self._denied[capability].over(view, longer_than=rule.path)
        if folded is not None:
            return FsAnswer(DENY, "denied", folded)
        return self._answer(rule, capability)

    def _answer(self, rule: FsRule, capability: str) -> FsAnswer:
        """Return what a rule says by itself: the same answer every time, so it is made once."""
        known = self._answers.get((rule.path, capability))
        if known is None:
            allowed = rule.grants(capability)
            known = FsAnswer(ALLOW, "ok", rule) if allowed else FsAnswer(DENY, "denied", rule)
            self._answers[rule.path, capability] = known
        return known

    def _views(self, target: FsTarget) -> Iterator[str]:
        """Yield each workspace name of a place outside: as it was reached, then through every mount that holds it."""
        yield target.door if target.door is not None else target.canonical
        for place in _ancestors(target.canonical):
            for rule in self._by_target.get(place, ()):
                yield f"{rule.path}{target.canonical[len(place.rstrip('/')) :]}"


class _Denied:
    """The rules that withhold one capability, found by folded name, by subtree and by what they open outside."""

    def __init__(self, rules: Sequence[FsRule], capability: str) -> None:
        denying = [rule for rule in rules if not rule.grants(capability)]
        self._by_fold = {fold(rule.path): rule for rule in denying if rule.path}
        self._by_target = {rule.approved_target: rule for rule in denying if rule.approved_target is not None}
        self._names: list[str] | None = None
        self._targets = sorted(self._by_target)

    def over(self, path: str, *, longer_than: str) -> FsRule | None:
        """Return a rule above `path`, of equal name but for case and normal form, deeper than `longer_than`.

        On a file system that folds names `SECRET` is `secret`: a deny must hold for both. A rule that spells the name
        exactly, and so was found first, still wins over one that only folds to it.
        """
        if not self._by_fold:
            return None
        depth = _depth(longer_than)
        folded = fold(path)
        while _depth(folded) > depth:
            rule = self._by_fold.get(folded)
            if rule is not None:
                return rule
            folded = folded[: max(folded.rfind("/"), 0)]
        return None

    def below(self, path: str) -> FsRule | None:
        if self._names is None:
            self._names = sorted(self._by_fold)
        found = _first_below(self._names, fold(path))
        return None if found is None else self._by_fold[found]

    def mounted_below(self, place: str) -> FsRule | None:
        """Return a rule whose approved target lies strictly below the absolute `place`."""
        found = _first_below(self._targets, place.rstrip("/"), absolute=True)
        return None if found is None else self._by_target[found]


NO_FS_RULE = RuleRef("no access.fs rule covers it", BUILT_IN, DENY)


def fold(path: str) -> str:
    """Return `path` as the most forgiving file systems compare names.

    They ignore case, normal form, characters that cannot be seen, and dots and blanks at the end of a name.
    """
    folded = path.lower() if path.isascii() else _fold_unicode(path)
    if "./" in folded or " /" in folded or folded.endswith((".", " ")):
        return "/".join([name.rstrip(". ") or name for name in folded.split("/")])
    return folded


def _fold_unicode(path: str) -> str:
    visible = "".join([char for char in path if not _is_ignorable(ord(char))])
    return normalize("NFD", normalize("NFD", visible).casefold())


def _is_ignorable(code: int) -> bool:
    return code >= _IGNORABLE[0][0] and any(first <= code <= last for first, last in _IGNORABLE)


# Default_Ignorable_Code_Point of Unicode: ext4 and f2fs with `casefold`, and HFS+, compare names without them.
_IGNORABLE = (
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)


def is_under(path: str, place: str | None) -> bool:
    """Whether the absolute `path` is `place` or lies below it."""
    if place is None:
        return False
    return place in (path, "/") or path.startswith(f"{place}/")


def _by_target(rules: Sequence[FsRule]) -> dict[str, list[FsRule]]:
    """Index rules by what they open. One that a later rule replaced still names the place: that rule decides."""
    found: dict[str, list[FsRule]] = {}
    for rule in rules:
        if rule.approved_target is not None and rule.dropped is None:
            found.setdefault(rule.approved_target, []).append(rule)
    return found


def _first_below(names: list[str], path: str, *, absolute: bool = False) -> str | None:
    """Return the first of the sorted `names` that lies strictly below `path`; "" is the place above them all."""
    start = f"{path}/" if path or absolute else ""
    position = bisect_left(names, start)
    if position < len(names) and names[position].startswith(start) and names[position] != start:
        return names[position]
    return None


def _ancestors(path: str) -> Iterator[str]:
    """Yield the absolute `path` and every directory above it."""
    while path != "/":
        yield path
        path = path[: max(path.rfind("/"), 0)] or "/"
    yield path


def _depth(path: str) -> int:
    return path.count("/") + 1 if path else 0
