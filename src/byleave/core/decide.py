"""Decide whether an action is allowed, and say why.

Pure: a Policy and an Action in, a Verdict out. Paths arrive already resolved (workspace.resolve), one for each path
the action names. Each family answers by its own precedence; the strictest answer wins.

Start at `decide`. Files are decided in `file_decision`, commands in `command_line`, calls in `calls`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from byleave.core.access import PUBLIC, Default
from byleave.core.action import (
    SUBSTITUTE,
    CallAction,
    CommandAction,
    EnvAction,
    FileAction,
    MoveAction,
    OtherAction,
    SearchAction,
    SpawnAction,
    UrlAction,
)
from byleave.core.calls import decide_call
from byleave.core.command_line import ConfinePolicy, decide_line
from byleave.core.decision import ALLOW, BUILT_IN, DENY, VERBS, RuleRef, Verdict, strictest
from byleave.core.file_decision import decide_file, decide_move, decide_search
from byleave.core.match_context import MatchContext
from byleave.core.matchers import OPERATIONS
from byleave.core.net_rules import decide_net, may_dial, refuse_public
from byleave.core.policy import NO_RULE
from byleave.core.rules import RuleTable
from byleave.core.self_protection import HOW_TO_ASK, changes_trust, guarded_because, runs_outside
from byleave.core.suggest import suggest_command, suggest_env, suggest_net, suggest_url_rule
from byleave.core.url import BadUrl, parse_url
from byleave.errors import InputError
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.core.action import Action
    from byleave.core.command_line import CommandLine
    from byleave.core.fs_rules import FsTarget, RefusedPath
    from byleave.core.policy import Answer, CompiledPolicy, ToolPolicy
    from byleave.core.search import SearchedFiles
    from byleave.core.url import Target

    Place = FsTarget | RefusedPath


def decide(
    policy: CompiledPolicy,
    action: Action,
    places: tuple[Place | CommandLine | SearchedFiles, ...] = (),
    *,
    confines: bool = False,
) -> Verdict:
    """Return what `policy` says about `action`, with every rule that had a say.

    `places` are the resolved paths of the action, in the order its fields name them; for a command, the line as read;
    for a search, what was looked for below its start stands behind the place.
    `confines`: the caller can run a command as `[shell]` says.
    """
    if isinstance(action, CommandAction):
        return _command(policy, action, places, confines=confines)
    decide_kind = _BY_KIND.get(type(action))
    if decide_kind is None:
        raise InputError("this is not an action", hint='give an object such as {"kind": "read", "path": "src", ...}')
    return decide_kind(policy, action, places)


def _url(policy: CompiledPolicy, action: UrlAction, _places: tuple[Place, ...]) -> Verdict:
    target = parse_url(action.url)
    if action.tool is not None:
        policy.tool(action.tool)
    if isinstance(target, BadUrl):
        return Verdict(DENY, target.problem, "bad_url", (RuleRef("how URLs are read", BUILT_IN, DENY),))
    if action.refused is not None:
        reason = f"reaching {_place(target)} is denied: {shown(action.refused)}"
        return Verdict(DENY, reason, "denied", (RuleRef("limits of the proxy", BUILT_IN, DENY),))
    ruled = _url_by_rules(policy, action, target)
    if action.tool is None:
        verdict = ruled if ruled is not None else policy.unmatched(f"reaching {shown(target.host)}")
        offered = verdict.replace(suggestion=suggest_url_rule(target))
        return offered if verdict.because[0] == NO_RULE else verdict
    verdict = policy.strictest(action.tool, lambda known: _url_by(known, target, action.address))
    return verdict if ruled is None else strictest([verdict, ruled])


def _url_by_rules(policy: CompiledPolicy, action: UrlAction, target: Target) -> Verdict | None:
    if next(policy.rule_tables(), None) is None:
        return None

    subject = MatchContext("fetch", action.agent, url=target, method=action.method)
    return policy.by_rules(subject, f"reaching {_place(target)}", silent=action.tool is not None)


def _place(target: Target) -> str:
    """Return scheme, host and port as a URL shows them."""
    host = f"[{target.host}]" if ":" in target.host else shown(target.host)
    return f"{target.scheme}://{host}{target.shown_port}"


def _url_by(tool: ToolPolicy, target: Any, address: str | None) -> Answer:
    table = tool.access.net
    where = _place(target)
    if isinstance(table, Default):
        refused = refuse_public(target, address) if table is PUBLIC else None
        if refused is not None:
            ref = RuleRef(table.rule, BUILT_IN, DENY)
            return Verdict(DENY, f"reaching {where} is denied: {refused}", "denied", (ref,)), False
        return _by_default(table, f"reaching {where}", lambda: suggest_net(tool.access, tool.name, target)), False
    answer = decide_net(table, target)
    ref = table.ref(answer.rule, allowed=answer.allowed)
    if answer.problem is not None:
        ref = RuleRef(answer.problem, BUILT_IN, DENY)
    if not answer.allowed:
        said = answer.problem or (
            f"the rule `{ref.rule}` matches it" if answer.rule is not None else "no network rule of this tool covers it"
        )
        suggestion = suggest_net(tool.access, tool.name, target)
        reason = f"reaching {where} is denied: {said}"
        return Verdict(DENY, reason, "denied", (ref,), suggestion), answer.rule is not None
    if address is not None and not may_dial(answer.rule, address):
        denied = RuleRef(f"private addresses ({ref.rule})", BUILT_IN, DENY)
        why = f"the rule `{ref.rule}` does not say `private = true`"
        if answer.rule is None or not may_dial(answer.rule.replace(private=True), address):
            why = "only a rule for that very address allows it"
        reason = f"reaching {where} is denied: it leads to {shown(address)}, which is not a public address, and {why}"
        return Verdict(DENY, reason, "denied", (denied, ref)), True
    return Verdict(ALLOW, f"reaching {where} is allowed by the rule `{ref.rule}`", "ok", (ref,)), True


def _env(policy: CompiledPolicy, action: EnvAction, _places: tuple[Place, ...]) -> Verdict:
    substitutes = action.way == SUBSTITUTE
    if action.tool is None:
        return policy.unmatched(f"{'using' if substitutes else 'reading'} the variable {shown(action.name)}")
    return policy.strictest(action.tool, lambda known: _env_by(known, action.name, substitutes=substitutes))


def _env_by(tool: ToolPolicy, name: str, *, substitutes: bool) -> Answer:
    """Decide about a variable. What may be read may be substituted, too, but not the other way round."""
    table = tool.access.env
    what = f"{'using' if substitutes else 'reading'} the variable {quoted(name)}"
    if not name or "=" in name or "\0" in name:
        return Verdict(DENY, f"{what} is denied: a variable cannot have that name", "denied", (_ENV_NAMES,)), False
    suggest = partial(suggest_env, tool.access, tool.name, name, "substitute" if substitutes else "read")
    if isinstance(table, Default):
        return _by_default(table, what, suggest), False
    rule = table.match(name)
    allowed = rule is not None and (rule.read or (substitutes and rule.substitute))
    ref = table.ref(rule, allowed=allowed)
    if allowed:
        return Verdict(ALLOW, f"{what} is allowed by the rule `{ref.rule}`", "ok", (ref,)), True
    said = (
        f"the rule `{ref.rule}` does not grant it" if rule is not None else "no environment rule of this tool covers it"
    )
    return Verdict(DENY, f"{what} is denied: {said}", "denied", (ref,), suggest()), rule is not None


_ENV_NAMES = RuleRef("names of variables", BUILT_IN, DENY)


def _spawn(policy: CompiledPolicy, action: SpawnAction, _places: tuple[Place, ...]) -> Verdict:
    if action.tool is not None:
        policy.tool(action.tool)
    argv = (action.program, *action.args)
    if changes_trust(argv):
        return _self_guard(guarded_because(argv))
    if runs_outside(argv):
        return _self_guard(HOW_TO_ASK)
    if action.tool is None:
        return policy.unmatched(f"starting {shown(action.program)}")
    return policy.strictest(action.tool, lambda known: _spawn_by(known, action))


def _spawn_by(tool: ToolPolicy, action: SpawnAction) -> Answer:
    table = tool.access.commands
    what = f"starting {shown(action.program)}"
    if isinstance(table, Default):
        program, args = action.program, action.args
        return _by_default(table, what, lambda: suggest_command(tool.access, tool.name, program, args)), False
    rule, allowed = table.match(action.program, action.args)
    ref = table.ref(rule, allowed=allowed)
    if allowed:
        return Verdict(ALLOW, f"{what} is allowed by the rule `{ref.rule}`", "ok", (ref,)), True
    said = (
        f"its arguments do not match the rule `{ref.rule}`"
        if rule is not None
        else "the program is not listed for this tool"
    )
    suggestion = suggest_command(tool.access, tool.name, action.program, action.args, rule)
    return Verdict(DENY, f"{what} is denied: {said}", "denied", (ref,), suggestion), rule is not None


def _command(policy: CompiledPolicy, action: CommandAction, places: tuple[Any, ...], *, confines: bool) -> Verdict:
    """Decide a command line; it arrives read and resolved as the one place of the action."""
    if not places:
        return policy.unmatched("the command")

    (line,) = places
    tables = list(policy.rule_tables()) or [RuleTable(())]
    confining = ConfinePolicy(policy.shell, confines)
    return strictest([decide_line(line, table, policy.protected, action.agent, confining) for table in tables])


def _call(policy: CompiledPolicy, action: CallAction, _places: tuple[Place, ...]) -> Verdict:
    return decide_call(policy, action)


def _other(policy: CompiledPolicy, action: OtherAction, _places: tuple[Place, ...]) -> Verdict:
    operation = action.name if action.name in OPERATIONS else "other"
    subject = MatchContext(operation, action.agent, other=action.name)
    thinks = action.name == "think"
    ruled = policy.by_rules(subject, shown(action.name), silent=thinks)
    if ruled is not None:
        return ruled
    if thinks:
        return Verdict(ALLOW, "thinking touches nothing", "ok", (RuleRef("think", BUILT_IN, ALLOW),))
    return policy.unmatched(shown(action.name))


def _self_guard(reason: str) -> Verdict:
    ref = RuleRef("byleave guards itself", BUILT_IN, DENY)
    return Verdict(DENY, reason, "denied", (ref,))


def _by_default(default: Default, what: str, suggest: Callable[[], str | None]) -> Verdict:
    offered = None if default.decision is ALLOW else suggest()
    return Verdict(
        default.decision, f"{what} {VERBS[default.decision]}: {default.rule}", default.code, (default.ref,), offered
    )


_BY_KIND: dict[type, Callable[[CompiledPolicy, Any, tuple[Any, ...]], Verdict]] = {
    FileAction: decide_file,
    MoveAction: decide_move,
    SearchAction: decide_search,
    UrlAction: _url,
    EnvAction: _env,
    SpawnAction: _spawn,
    CallAction: _call,
    OtherAction: _other,
}
