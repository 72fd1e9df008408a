"""`byleave approvals`: list what is approved, pending and revoked; approve and revoke."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.cli.output import complain, fitted, local_time, paint, say, say_json, say_verbose, table, warn
from byleave.cli.question_rows import MOST_ROWS, deferred_rows, held_rows, subject_of
from byleave.cli.shared_store import open_shared
from byleave.cli.terminal import answer_of, behind_bar, record_answers, requires_person, text_width
from byleave.cli.trust_command import trust_file
from byleave.cli.workspace import load_policy, open_workspace
from byleave.errors import InputError, StateError
from byleave.gateway.pins import changed_fields, difference, hidden_characters
from byleave.guard.evaluation import NO, ONCE
from byleave.mounts.review import effect, question, waiting
from byleave.policy.layers import ENCLOSING
from byleave.store.approvals import APPROVED, CALL, ID_LENGTH, PENDING, REVOKED, TOOL_DEFINITION, Approval, now
from byleave.store.questions import EXPIRED, Answer, Questions, approval_of, fingerprint, status_of
from byleave.text import quoted, shown
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.mounts.review import Binding
    from byleave.policy.compile import Compiled
    from byleave.policy.load import Workspace
    from byleave.store.questions import StoredQuestion

REFUSED = 1
_MOST_DEFINITIONS = 5  # approved ones that are listed; more would hide everything else
_WHOLE = 1 << 20  # lines: what is not shown cannot be agreed to
_LASTING = "Approve exactly this, until it is revoked?"
_ORDER = {PENDING: 0, APPROVED: 1, REVOKED: 2, EXPIRED: 3}
_COLOURS = {PENDING: "ask", APPROVED: "allow", REVOKED: "deny"}


class PendingApproval(Struct, frozen=True):
    """Something that needs approval; `binding` is what the approval of a mount covers, `held` a process waits for."""

    approval: Approval
    binding: Binding | None = None
    held: StoredQuestion | None = None


def run(given: ParsedArguments) -> int:
    """List, approve or revoke."""
    workspace = open_workspace(given)
    policy = load_policy(given, workspace)
    say_verbose(given, [f"the workspace is {workspace.root.path}"])
    with shared_approvals(workspace, policy.compiled.settings):
        pending = list(_pending(workspace, policy.compiled))
        return _ACTS[given.command.name](given, workspace, pending)


@contextmanager
def shared_approvals(workspace: Workspace, settings: Mapping[str, Any]) -> Iterator[None]:
    """Have the approvals of a workspace be those of the shared store as well, if there is one."""
    shared = open_shared(workspace, settings)
    if shared is None:
        yield
        return
    workspace.shared = shared
    workspace.approvals = shared.approvals(workspace.approvals.directory, workspace.memory)
    try:
        yield
    finally:
        shared.close()


def _list(given: ParsedArguments, workspace: Workspace, pending: list[PendingApproval]) -> int:
    found = [one.approval for one in _unanswered(pending, workspace)]
    found += [one.approval for one in pending if one.approval.status == EXPIRED]
    found += [one for one in workspace.approvals.all() if one.status != PENDING]
    found.sort(key=lambda approval: _ORDER.get(approval.status, 0))
    warn(given, dict.fromkeys(workspace.approvals.warnings))
    ids = _ids(found)
    if given.flag("json"):
        say_json([{**_tree(approval), "id": ids[approval.full_id]} for approval in found])
        return 0
    if not found:
        say("nothing is approved here, and nothing is pending")
    listed, left_out = (found, 0) if given.flag("verbose") else _without_many(found)
    rows = [
        (ids[one.full_id], one.status, one.kind, shown(local_time(one.created or "-")), _subject(one)) for one in listed
    ]
    for approval, lines in zip(listed, table(rows), strict=True):
        coloured = paint(approval.status, _COLOURS.get(approval.status, "dim"))
        say("\n".join([lines[0].replace(approval.status, coloured, 1), *lines[1:]]))
        if given.flag("verbose") and approval.kind == TOOL_DEFINITION:
            for row in _difference(approval):
                say(f"    {row}")
    if left_out:
        say(f"and {left_out} tool definitions that have not changed; `-v` lists them")
    if any(one.status == PENDING for one in found) and not given.flag("quiet"):
        say("\nrun `byleave approvals approve` to decide about what is pending")
    return 0


def _ids(found: list[Approval]) -> dict[str, str]:
    """Return the id of each by its full id: the usual length of it, or as much of it as makes all of them differ."""
    full_ids = {one.full_id for one in found}
    lengths = (length for length in range(ID_LENGTH, 65) if len({each[:length] for each in full_ids}) == len(full_ids))
    length = next(lengths)
    return {full_id: full_id[:length] for full_id in full_ids}


def _without_many(found: list[Approval]) -> tuple[list[Approval], int]:
    """Return what a person wants to see: servers have many tools, and most of them never change."""
    plain = [one for one in found if one.kind == TOOL_DEFINITION and one.status == APPROVED]
    if len(plain) <= _MOST_DEFINITIONS:
        return found, 0
    left_out = {id(one) for one in plain}
    return [one for one in found if id(one) not in left_out], len(plain)


def _subject(approval: Approval) -> str:
    """Return what an approval is about, in one line."""
    if "new" not in approval.detail:
        return shown(approval.subject)

    old, new = approval.detail["old"], approval.detail["new"]
    what = f"changed: {', '.join(changed_fields(old, new))}" if old else "new"
    unseen = "; it holds characters that are not seen" if hidden_characters(new) else ""
    return f"{shown(approval.subject)} ({what}{unseen})"


def _difference(approval: Approval, *, most: int = 400) -> list[str]:
    """Return how a tool's definition differs from the one that was approved, or all of it if it does not."""
    if "new" not in approval.detail:
        return []

    return difference(approval.detail["old"], approval.detail["new"], most=most)


def _approve(given: ParsedArguments, workspace: Workspace, pending: list[PendingApproval]) -> int:
    id_ = given.words.get("ID")
    if id_ is None and given.flag("yes"):
        raise InputError("--yes needs an ID", hint="name the ID; `byleave approvals list` shows them")
    chosen = _unanswered(pending, workspace) if id_ is None else _named(id_, pending, workspace)
    if not chosen:
        return _done(given, "approved", [], "nothing is pending" if id_ is None else "it is approved already")
    answers = [(one.approval.id, _agrees(given, workspace, one)) for one in chosen]
    refused = [id_ for id_, agreed in answers if agreed is False]
    if refused and not given.flag("quiet") and not given.flag("json"):
        say(fitted(f"refused: {', '.join(refused)}; `byleave approvals approve ID` takes that back"))
    return _done(given, "approved", [id_ for id_, agreed in answers if agreed], "nothing was approved", REFUSED)


def _agrees(given: ParsedArguments, workspace: Workspace, one: PendingApproval) -> bool | None:
    """Show one thing that waits, ask, and keep a yes or a no. None: it goes on waiting."""
    approval = one.approval
    if approval.kind == "project_file":
        return trust_file(given, workspace, approval.detail["path"], sha256=approval.detail["sha256"]) or None
    if one.binding is not None:
        lines, asked = effect(one.binding), question(one.binding)
    elif approval.kind == TOOL_DEFINITION:
        whole = _difference(approval, most=_WHOLE)
        what = "tool" if approval.detail["definition"] == "tool" else ""
        lines = [f"the {what}{' ' if what else ''}{_subject(approval)}", *(f"    {row}" for row in whole)]
        asked = f"Serve {f'the {what}' if what else 'it'} with this definition, until it is revoked?"
    else:
        lines, asked = _lines(one), "Approve exactly this, once?" if one.held else _LASTING
    if approval.status == REVOKED and not approval.asked and "key" in approval.detail:
        complain(f"byleave: {approval.id}: what it covers is not kept in full; have it tried again, then approve it")
        return None
    if len(lines) > MOST_ROWS and approval.kind != TOOL_DEFINITION:
        complain(f"byleave: {approval.id} is too long to be read here; nothing was approved")
        return None
    _show(given, lines)
    answer = answer_of(given, asked, about=lines)
    if one.held is not None:
        by = "--yes" if given.flag("yes") else "terminal"
        return None if answer is None else _reply(workspace, one.held, ONCE if answer else NO, by)
    if answer is False and one.binding is None:
        workspace.approvals.revoke(approval, now=now())
        _record(given, workspace, [approval], choice="no")
        return False
    if not answer:
        return None
    if one.binding is not None:
        workspace.approvals.approve_mount(one.binding.rule_path, one.binding.target, now=now())
    elif not _settles(workspace, approval):
        complain(f"byleave: {shown(approval.subject)} changed during the question; nothing was approved")
        return None
    _record(given, workspace, [approval])
    return True


def _lines(one: PendingApproval) -> list[str]:
    """Return everything that a yes to an action covers."""
    if one.held is not None:
        return held_rows(one.held, text_width())
    width = text_width()
    return [f"{one.approval.kind}:", *behind_bar(one.approval.subject, width), *deferred_rows(one.approval, width)]


def _settles(workspace: Workspace, approval: Approval) -> bool:
    """Approve exactly what was shown, and say whether it was still there, and not answered meanwhile."""
    approvals, seen = workspace.approvals, fingerprint(approval)
    try:
        if approval.kind == TOOL_DEFINITION:
            (listed,) = [one for one in approvals.all() if one.full_id == approval.full_id] or [approval]
            return listed.fingerprint == seen and approvals.settle_definition(approval, status=APPROVED, now=now())
        key = approval.detail["key"]
        return approvals.settle_action(key, status=APPROVED, now=now(), was=approval.status, seen=seen)
    except StateError as error:
        complain(f"byleave: {error}")
        return False


def _reply(workspace: Workspace, question: StoredQuestion, choice: str, by: str) -> bool | None:
    """Answer a process that waits, whose guard records it; None if the question is over by now."""
    try:
        won = _questions(workspace).answer(Answer(question.id, choice, by), seen=fingerprint(question))
    except StateError as error:
        complain(f"byleave: {error}")
        return None
    if not won:
        complain("byleave: the question was answered, or is over, by now; nothing was approved")
        return None
    return choice == ONCE


def _revoke(given: ParsedArguments, workspace: Workspace, pending: list[PendingApproval]) -> int:
    id_ = given.words["ID"]
    requires_person(given)
    known = [approval for approval in workspace.approvals.all() if approval.is_named(id_)]
    _refuse_two(known)
    if not known:
        raise _unknown(id_, pending, workspace)
    revoked = [one for one in known if one.status != REVOKED and workspace.approvals.revoke(one, now=now())]
    _record(given, workspace, revoked)
    return _done(given, "revoked", [one.id for one in revoked], "it is revoked already")


def _record(given: ParsedArguments, workspace: Workspace, approvals: list[Approval], *, choice: str = "yes") -> None:
    """Record an answer where what it is about is kept: calls and definitions in the shared store, if there is one."""
    for approval in approvals:
        shared = workspace.shared if approval.kind in (CALL, TOOL_DEFINITION) else None
        record_answers(given, workspace, [_recorded(approval)], choice=choice, shared=shared)


def _recorded(approval: Approval) -> str:
    """Return what a record says of it: of a mount its name, not where it leads."""
    return f"{approval.kind} {approval.detail.get('rule_path') or approval.subject}"


def _pending(workspace: Workspace, compiled: Compiled) -> Iterator[PendingApproval]:
    """Yield what is pending: links out of the workspace, project files, actions."""
    for binding in waiting(compiled, workspace.approvals):
        detail = {"rule_path": binding.rule_path, "canonical_target": binding.target}
        yield PendingApproval(
            Approval("mount", PENDING, f"{binding.rule_path} -> {binding.target}", "", detail), binding
        )
    for layer in compiled.layers:
        if not layer.trusted and layer.file is not None and layer.name != ENCLOSING:
            sha256 = digest(layer.content)
            subject = f"{layer.file} (sha256 {sha256[:16]})"
            yield PendingApproval(
                Approval("project_file", PENDING, subject, "", {"path": layer.file, "sha256": sha256})
            )
    for approval in workspace.approvals.all():
        if approval.status == PENDING:
            yield PendingApproval(approval)
    yield from _held(workspace)


def _held(workspace: Workspace) -> Iterator[PendingApproval]:
    """Yield the questions that running processes hold; one whose process has ended is listed as expired for a while."""
    store, moment = _questions(workspace), datetime.now(UTC)
    store.sweep(moment)
    for held in store.all():
        if store.answer_to(held.id) is None:
            yield PendingApproval(approval_of(held, status_of(held, moment), subject_of(held)), held=held)


def _questions(workspace: Workspace) -> Questions:
    return Questions(workspace.homes.workspace(workspace.root.path))


def unanswered(workspace: Workspace, compiled: Compiled) -> list[PendingApproval]:
    """Return what `byleave approvals approve` would ask about."""
    return _unanswered(list(_pending(workspace, compiled)), workspace)


def _unanswered(pending: list[PendingApproval], workspace: Workspace) -> list[PendingApproval]:
    """Return what is pending and was not revoked: a revoked one needs its id to be approved again."""
    revoked = {one.full_id for one in workspace.approvals.all() if one.status == REVOKED}
    return [one for one in pending if one.approval.full_id not in revoked and one.approval.status == PENDING]


def _named(id_: str, pending: list[PendingApproval], workspace: Workspace) -> list[PendingApproval]:
    """Return what an id stands for: something that waits, or an action that was revoked; nothing if it is approved."""
    waits = [one for one in pending if one.approval.is_named(id_)]
    if any(one.approval.status == EXPIRED for one in waits):
        raise InputError(f"{quoted(id_)} has expired: the process that asked has ended", hint="have it tried again")
    known = [one for one in workspace.approvals.all() if one.is_named(id_)]
    _refuse_two([*[one.approval for one in waits], *known])
    revoked = [PendingApproval(one) for one in known if one.status == REVOKED and _can_return(one)]
    if not waits and not known:
        raise _unknown(id_, pending, workspace)
    if not waits and not revoked and any(one.status == REVOKED for one in known):
        raise InputError(
            f"{quoted(id_)} was revoked, and nothing here needs it now", hint="add the grant or the link first"
        )
    return waits or revoked


def _refuse_two(found: list[Approval]) -> None:
    """Refuse an id that stands for more than one thing: agents choose what ids are made of."""
    ids = _ids(found)
    if len(ids) > 1:
        number = "two" if len(ids) == 2 else str(len(ids))
        raise InputError(f"{number} questions have this id", hint=f"give more of it: {', '.join(sorted(ids.values()))}")


def _can_return(approval: Approval) -> bool:
    """Whether what was revoked is still there to be approved again."""
    return "key" in approval.detail or approval.kind == TOOL_DEFINITION


def _unknown(id_: str, pending: list[PendingApproval], workspace: Workspace) -> InputError:
    ids = [one.approval.id for one in pending] + [one.id for one in workspace.approvals.all()]
    hint = (
        f"`byleave approvals list` shows the ids; there are {len(set(ids))}" if ids else "there are no approvals here"
    )
    return InputError(f"there is no approval {quoted(id_)}", hint=hint)


def _tree(approval: Approval) -> dict[str, Any]:
    shared = {"id": approval.id, "kind": approval.kind, "status": approval.status, "subject": approval.subject}
    detail: dict[str, Any] = dict(approval.detail)
    if "new" in detail:  # of a tool definition, which is kept as the JSON that was hashed
        detail |= {name: json.loads(detail[name] or "null") for name in ("old", "new")}
    return {**shared, "created": approval.created or None, **detail}


def _show(given: ParsedArguments, lines: list[str]) -> None:
    if not given.flag("quiet") and not given.flag("json"):
        for line in lines:
            say(fitted(line))


def _done(given: ParsedArguments, word: str, ids: list[str], otherwise: str, code: int = 0) -> int:
    if given.flag("json"):
        say_json({word: ids})
    elif not given.flag("quiet"):
        say(fitted(f"{word}: {', '.join(ids)}" if ids else otherwise))
    return 0 if ids else code


_ACTS = {"list": _list, "approve": _approve, "revoke": _revoke}
