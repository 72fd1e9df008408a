"""Decide about the files that a command names: by the path rules, by the protected places, the strictest answer.

Pure: names arrive resolved (policy.named_files). Only tightens: a file that no rule is about adds nothing. An
objection that the kernel answers in a confined run is `soft`: a tree above a closed place, a name known only at run
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, FileTouch, RuleRef
from byleave.core.file_decision import names_place
from byleave.core.fs_rules import WRITES, FsTarget, RefusedPath
from byleave.core.match_context import MatchContext
from byleave.core.matchers import All, AnyOf, CommandMatcher
from byleave.record import Record
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.core.decision import Decision
    from byleave.core.match_context import MatchPart, NamedFile
    from byleave.core.matchers import Matcher
    from byleave.core.protected import Protected, Protection
    from byleave.core.rules import CompiledRule, RuleAnswer, RuleTable

OPERATIONS = {"read": "read", "create": "edit", "update": "edit", "delete": "delete", "exec": "execute"}
VERBS = {"read": "reads", "create": "makes", "update": "changes", "delete": "deletes", "exec": "runs"}
MOST_NAMED = 4  # closed places that one sentence names
_WHOLE = RuleRef("places above the workspace", BUILT_IN, ASK)
CLOSED_BELOW = "closed places below "
READ_AT_RUN_TIME = RuleRef("names of what is read, known only at run time", BUILT_IN, ASK)
_RUN_TIME = RuleRef("names known only at run time", BUILT_IN, ASK)


class FileObjection(Record):
    """What stands against a command because of one file. `soft`: only where it does not run confined."""

    decision: Decision
    why: str
    ref: RuleRef
    soft: bool = False


class TouchedFile(Record):
    """The files of one command as they are listed in a verdict, and what stands against them."""

    files: tuple[FileTouch, ...]
    objections: tuple[FileObjection, ...]


def check_files(
    part: MatchPart, table: RuleTable, protected: Protected, agent: str | None, *, allowing: CompiledRule | None
) -> TouchedFile:
    """Decide about every file that a command names. `allowing` is the rule that allows the command, if one does."""
    files: dict[FileTouch, None] = {}
    objections: list[FileObjection] = []
    for file in part.files:
        if not isinstance(file.place, FsTarget):
            objections.extend(_unresolved(file, table))
            continue
        if not _counts(file, file.place, protected):
            continue
        kind = file.kind
        ruling = table.decide(_subject(file, kind, agent))
        found = list(_objections(file, kind, ruling, protected, part=part, allowing=allowing))
        objections.extend(found)
        hard = [each.decision for each in found if not each.soft]
        if not file.perhaps or hard:
            decision = max(hard) if hard else ruling.decision
            files[FileTouch(file_name(file.place), kind, decision)] = None
    return TouchedFile(tuple(files), tuple(objections))


def _counts(file: NamedFile, place: FsTarget, protected: Protected) -> bool:
    """Whether a name is taken for a file: what may be none has to exist, to be protected, or to be likely made."""
    if not file.perhaps or place.exists:
        return True
    if file.op != "write":
        return False
    # A plain word such as HEAD, which also names a part of a repository, is more likely something else.
    return file.likely or (not file.text.isalnum() and protected.of(place, subtree=False) is not None)


def file_name(place: FsTarget) -> str:
    """Return how a verdict names a file: relative to the root inside it, else absolute."""
    return place.canonical if place.relative is None else place.relative or "."


def _subject(file: NamedFile, kind: str, agent: str | None) -> MatchContext:
    place = file.place if isinstance(file.place, FsTarget) else None
    return MatchContext(OPERATIONS[kind], agent, op=kind, file=place)


def _unresolved(file: NamedFile, table: RuleTable) -> Iterator[FileObjection]:
    """A name that leads to no known place: nothing to say where no rule is about such files, and they are only read."""
    if file.perhaps:
        return
    writes = file.op in ("write", "delete")
    if not writes and not table.restricts(file.op):
        return
    verb = {"write": "writes"}.get(file.op) or VERBS[file.op]
    if isinstance(file.place, RefusedPath):
        yield FileObjection(ASK, f"it {verb} {quoted(file.text)}: {file.place.problem}", _RUN_TIME)
    else:
        ref = _RUN_TIME if writes else READ_AT_RUN_TIME
        yield FileObjection(ASK, f"the file it {verb} is known only at run time", ref, soft=True)


def _objections(
    file: NamedFile,
    kind: str,
    ruling: RuleAnswer,
    protected: Protected,
    *,
    part: MatchPart,
    allowing: CompiledRule | None,
) -> Iterator[FileObjection]:
    place = file.place
    assert isinstance(place, FsTarget)  # noqa: S101 -- the caller has looked
    if (
        ruling.decision is not None
        and ruling.decision is not ALLOW
        and (not file.perhaps or place.exists or file.likely)
    ):
        rule = ruling.rules[0]
        said = f": {rule.why}" if rule.why else ""
        why = f"it {VERBS[kind]} {quoted(file_name(place))}{said} (rule `{rule.text}`)"
        yield FileObjection(ruling.decision, why, ruling.refs[0])
    if kind in WRITES:
        yield from _guarded(file, place, protected, ruling.rules[:1], part=part, allowing=allowing)
    if file.covered:
        named = sentence_list([quoted(name) for name in file.covered], most=MOST_NAMED)
        ref = RuleRef(f"{CLOSED_BELOW}{shown(file_name(place))}", BUILT_IN, ASK)
        yield FileObjection(
            ASK, f"it {VERBS[kind]} everything in {quoted(file_name(place))}, also {named}", ref, soft=True
        )
    elif not file.complete:
        ref = RuleRef(f"{CLOSED_BELOW}{shown(file_name(place))}", BUILT_IN, ASK)
        why = f"it {VERBS[kind]} everything in {quoted(file_name(place))}, which holds too many files to look through"
        yield FileObjection(ASK, why, ref, soft=True)


def _guarded(
    file: NamedFile,
    place: FsTarget,
    protected: Protected,
    rules: tuple[CompiledRule, ...],
    *,
    part: MatchPart,
    allowing: CompiledRule | None,
) -> Iterator[FileObjection]:
    """What byleave obeys is denied by name. Another protected place, or a directory that holds one, asks."""
    if file.whole:  # no sandbox keeps the workspace from what runs in it
        yield FileObjection(ASK, f"it removes {quoted(file_name(place))} and with it the whole workspace", _WHOLE)
        return
    kept = protected.of(place, subtree=False)
    if file.kinds and kept is None:
        if file.guarded is not None:
            ref = RuleRef(f"protected place {shown(file.guarded)}", BUILT_IN, ASK)
            named = quoted(file.guarded)
            why = f"it {VERBS[file.kind]} files in {quoted(file_name(place))}, also {named}, which is protected"
            yield FileObjection(ASK, why, ref, soft=True)
        return
    if file.guarded is not None and (kept is None or not kept.final):
        ref = RuleRef(f"protected place {shown(file.guarded)}", BUILT_IN, DENY)
        why = f"it removes {quoted(file_name(place))} and with it {quoted(file.guarded)}, which is protected"
        yield FileObjection(DENY, why, ref, soft=kept is None)
        return
    if kept is not None:
        if kept.final:
            yield _keeping(kept, DENY)
        elif not any(rule.outcome is ALLOW and names_place(rule.matcher, kept) for rule in rules) and not (
            allowing is not None and _spells(allowing.matcher, part)
        ):
            yield _keeping(kept, ASK)
        return
    touches_all = file.tree or file.op == "delete"
    above = protected.of(place, subtree=True) if touches_all and not file.perhaps else None
    if above is not None and not (allowing is not None and _spells(allowing.matcher, part)):
        why = f"it {VERBS[file.kind]} everything in {quoted(file_name(place))}: {shown(above.place)} there is protected"
        yield _keeping(above, ASK).replace(why=why, soft=True)


def _keeping(protection: Protection, decision: Decision) -> FileObjection:
    ref = RuleRef(f"protected place {shown(protection.place)}", BUILT_IN, decision)
    return FileObjection(decision, f"it writes {shown(protection.place)}, which is protected", ref)


def _spells(matcher: Matcher, part: MatchPart) -> bool:
    """Whether a rule spells the whole command out, and so the place in it."""
    subject = MatchContext("execute", None, part)
    return any(each.args is not None and each.args[-1:] != ("**",) for each in leaves(matcher, subject))


def leaves(matcher: Matcher, subject: MatchContext) -> Iterator[CommandMatcher]:
    """Yield the command matchers that make this one match."""
    if isinstance(matcher, CommandMatcher):
        yield matcher
    elif isinstance(matcher, All):
        for each in matcher.matchers:
            yield from leaves(each, subject)
    elif isinstance(matcher, AnyOf):
        for each in matcher.matchers:
            if each.match(subject, granting=True) is True:
                yield from leaves(each, subject)
