"""`byleave check ... --add`: write the suggested rule into the user's own file, after showing it.

The rule is tried out first: it is written only if it would really decide. Agents cannot have it written
(`core.self_protection`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.cli.output import fitted, say, say_json
from byleave.cli.terminal import consents, may_ask, record_answers
from byleave.cli.workspace import load_policy, open_workspace
from byleave.core.decision import verdict_tree
from byleave.errors import InputError
from byleave.guard.persist_rule import PersistentRule
from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.live_policy import ResolvedAction

REFUSED = 1
NEEDS_CONSENT = 10
_SCOPE = "It holds in all your workspaces, for every agent that it does not name otherwise."


def refuse_adding(given: ParsedArguments) -> None:
    """Raise an InputError if other flags leave out the file that a rule would be added to."""
    if given.options.get("policy"):
        hint = "leave --policy out, or add the rule to that file by hand"
        raise InputError("--add writes to your own file, which --policy leaves out", hint=hint)


def add_rule(given: ParsedArguments, resolved: ResolvedAction, *, code: int) -> int:
    """Add the rule that the verdict suggests, if the user agrees; `code` is the exit code where nothing is written."""
    if resolved.verdict.allowed:
        return _done(given, resolved, "it is allowed already: nothing is written", code)
    workspace = open_workspace(given)
    own = PersistentRule(workspace, given.one("session") or "default")
    offered = own.consider(resolved, confines=not given.flag("unconfined"))
    if offered.rule is None:
        return _done(given, resolved, f"nothing is written: {offered.why}", code)
    lines = [f"{shown(own.path)} would get:", *[f"+ {line}".rstrip() for line in offered.rule.split("\n")]]
    lines += fitted(_SCOPE).split("\n")
    if not given.flag("json") and not given.flag("quiet"):
        for line in lines:
            say(line)
    if not given.flag("yes") and not may_ask(given):
        return _done(
            given, resolved, "nothing is written: it needs your consent, at a terminal or by --yes", NEEDS_CONSENT
        )
    if not consents(given, "Add this rule?", about=lines):
        return _done(given, resolved, "nothing is written", REFUSED)
    own.keep(offered.rule)
    record_answers(given, workspace, [f"a rule added to {own.path}: {' '.join(offered.rule.split())}"])
    now = load_policy(given, open_workspace(given)).decide(resolved.action, confines=not given.flag("unconfined"))
    added = (own.path, offered.rule)
    if not now.allowed:  # another file has changed meanwhile
        return _done(given, resolved, f"added to {own.path}, but {now.reason}", code, added=added)
    return _done(given, resolved, f"added to {own.path}: from now on it is allowed", 0, added=added)


def _done(
    given: ParsedArguments, resolved: ResolvedAction, sentence: str, code: int, *, added: Sequence[str] = ()
) -> int:
    if given.flag("json"):
        written = {"file": added[0], "rule": added[1]} if added else None
        say_json({**verdict_tree(resolved.verdict), "added": written, "note": sentence})
    elif not given.flag("quiet"):
        say(fitted(shown_lines(sentence)))
    return code
