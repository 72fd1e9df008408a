"""Evaluate the tool call of a hook event by the policy, and record the decision.

The workspace is the one around the directory that the agent works in, unless the command line names one.

A project file that was edited since the user trusted it allows nothing any more. The reason of the next decision says
so, once for each change (`edited_files`): a hook has no other way to reach its user.

Start at `evaluate`.
"""

import os

from byleave.core.action import CallAction, OtherAction
from byleave.core.agents import other_names
from byleave.core.decision import ASK, DENY
from byleave.core.redact import Redactor
from byleave.errors import InputError, StateError
from byleave.guard.approval_key import input_pin
from byleave.guard.evaluation import ELSEWHERE, NO_PERSON, ActionRequest, Pending, Reply, Who
from byleave.guard.open_guard import guard_for
from byleave.hooks.agents import CLAUDE_CODE, KINDS, OTHER, QUESTION, THINK
from byleave.policy.dirs import find_homes, find_root
from byleave.policy.layers import LOCAL, PROJECT
from byleave.policy.load import Workspace
from byleave.record import Record
from byleave.text import quoted, shown
from byleave.translate.call import ToolCall, Translation, Where, as_own_question
from byleave.translate.shell_text import shell_of_agent
from byleave.translate.translate import translate
from byleave.user_files import digest, make_private_directory, read_private, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.core.decision import Decision
    from byleave.guard.guard import Guard
    from byleave.hooks.event_reader import Hook, HookContext, HookToolCall
    from byleave.policy.compile import Compiled
    from byleave.policy.dirs import UserDirs


_LARGEST = 1 << 16
_GONE = "gone"


def edited_files(workspace: "Workspace", compiled: "Compiled", session: str) -> str:
    """Return what changed since that was last said, to be put in front of a reason; "" if nothing did."""
    now = dict(_changed(workspace, compiled))
    path = os.path.join(os.path.dirname(workspace.files.session_file(session)), "edited")
    before = _read(path)
    if now.keys() != before:
        _write(path, now)
    new = [sentence for change, sentence in now.items() if change not in before]
    return "".join([f"{sentence}; " for sentence in new])


def _changed(workspace: "Workspace", compiled: "Compiled") -> "Iterator[tuple[str, str]]":
    """Yield each change that took trust away: what it is known by, and a sentence."""
    layers = {layer.file or "": layer for layer in compiled.layers if layer.name in (PROJECT, LOCAL)}
    for file in workspace.approvals.trusted_files():
        layer = layers.get(file)
        name = shown(file)
        if layer is None:
            yield f"{file} {_GONE}", f"{name}, which you trusted, is not read any more: its rules are gone"
        elif not layer.trusted:
            what = "a script that it starts" if workspace.approvals.knows(file, digest(layer.content)) else name
            print_ = workspace.print_of(file, layer.content, layer.tree)
            change = digest(repr((print_.sha256, print_.scripts)).encode("utf-8", "surrogatepass"))
            way = f"look at it, then run `byleave trust {name}` yourself"
            yield f"{file} {change}", f"{what} was changed since you trusted {name}, so that it only tightens: {way}"


def _read(path: str) -> set[str]:
    try:
        content = read_private(path, limit=_LARGEST)
    except StateError:
        return set()
    return set((content or b"").decode("utf-8", "surrogateescape").splitlines())


def _write(path: str, changes: "dict[str, str]") -> None:
    """Keep what was said; where that fails it is said again."""
    try:
        make_private_directory(os.path.dirname(path))
        write_private(
            path, "".join([f"{change}\n" for change in changes]).encode("utf-8", "surrogateescape"), durable=False
        )
    except (StateError, OSError):
        return


DOOR = "hook"
_MCP = "mcp__"


class HookEvaluation(Record):
    """The decision and its reason, and what is left to do about its record once the agent has it.

    Without a decision, the agent goes on as if there were no hook.
    """

    decision: "Decision | None"
    reason: str
    afterwards: "Callable[[], None]"


def evaluate(hook: "Hook", tool_call: "HookToolCall", around: "HookContext") -> HookEvaluation:
    """Evaluate a call and record the decision; an error means that the call must be blocked."""
    workspace = _open_workspace(hook, tool_call, around)
    guard = guard_for(workspace, DOOR, files=hook.files, session=hook.session, stays=False, client_approves=None)
    meant = _meaning(hook.agent, tool_call, workspace.root.path, shell_of_agent(hook.agent, around.variables))
    decision, reason = _decide(hook, tool_call, meant, guard)
    if decision in (ASK, DENY) and not hook.files:
        reason = (
            edited_files(workspace, guard.policy.compiled, hook.session) + reason
        )  # a long reason is cut at its end
    settings = guard.policy.compiled.settings
    return HookEvaluation(decision, reason, lambda: workspace.audit_log(settings, Redactor()).fold_later())


def _open_workspace(hook: "Hook", tool_call: "HookToolCall", around: "HookContext") -> Workspace:
    variables: Mapping[str, str] = around.variables
    if hook.home is not None:  # in place of all that the environment says about byleave
        if not os.path.isabs(hook.home):
            raise InputError(f"--home is not absolute: {quoted(hook.home)}", hint="write the whole path, from / on")
        variables = {"HOME": hook.home}
    homes = find_homes(variables)
    return Workspace(hook.root or _found_root(tool_call, around, homes), homes=homes)


def _found_root(tool_call: "HookToolCall", around: "HookContext", homes: "UserDirs") -> str:
    start = tool_call.project or tool_call.cwd or around.here
    if not os.path.isdir(start):
        raise InputError(f"the agent's directory is not there: {quoted(start)}", hint="start the agent in one that is")
    return find_root(start, homes)


def _meaning(agent: str, tool_call: "HookToolCall", root: str, shell: str | None) -> Translation:
    """Return what the call amounts to; an unknown tool is never understood."""
    if tool_call.server is not None:
        meant = Translation(
            (CallAction(tool_call.server, tool_call.tool, dict(tool_call.raw), respelled=True),), {"tool": "event"}
        )
    else:
        kind = KINDS[agent].get(tool_call.tool)
        if kind == QUESTION:
            asked = Translation((OtherAction(THINK, tool_call.tool),), {"tool": "event"})
            return _unclear(asked, tool_call.problem) if tool_call.problem else as_own_question(asked)
        # What is mere bookkeeping does what its name says, whatever its words are about.
        raw = None if kind == THINK else tool_call.raw
        call = ToolCall(
            kind=None if kind == OTHER else kind, raw=raw, tool=tool_call.tool, takes_directory=agent != CLAUDE_CODE
        )
        meant = translate(call, Where(root, tool_call.cwd, os.path.exists, shell))
        if kind is None and not tool_call.tool.startswith(_MCP):
            meant = _unclear(meant, f"byleave does not know what the tool {quoted(tool_call.tool)} does")
    return _unclear(meant, tool_call.problem) if tool_call.problem else meant


def _unclear(meant: Translation, problem: str) -> Translation:
    return meant.replace(understood=False, problem=problem)


def _decide(
    hook: "Hook", tool_call: "HookToolCall", meant: Translation, guard: "Guard"
) -> "tuple[Decision | None, str]":
    who = _who(hook, meant, guard)
    unclear = "" if meant.understood else meant.problem or "byleave does not know what it would do"
    also = {"tool_call": tool_call.call, "sources": dict(meant.sources)}
    by_name = any(isinstance(action, OtherAction) and action.name != THINK for action in meant.actions)
    pin = input_pin(dict(tool_call.raw)) if by_name else None
    outcome = guard.authorize(ActionRequest(meant.actions, who, unclear, pin=pin, fields=also))
    if not isinstance(outcome, Pending):
        return outcome.verdict.decision, outcome.verdict.reason
    if meant.is_own_question:
        return None, guard.complete(outcome, Reply(ELSEWHERE, hook.agent)).verdict.reason
    if not tool_call.can_ask:
        return _hold_back(hook, outcome, guard)
    done = guard.complete(outcome, Reply(ELSEWHERE, hook.agent))
    return done.verdict.decision, done.verdict.reason


def _who(hook: "Hook", meant: Translation, guard: "Guard") -> Who:
    """Return whose call it is: the profile of the command line, else the hook's name.

    For the call of an MCP tool, `[agents]` may know the agent by another of its names only (`claude`).
    """
    if hook.profile is not None:
        return Who(hook.profile, "verified")
    agents = guard.policy.compiled.policy.views[0].agents
    if agents is None or agents.names(hook.agent) or not any(isinstance(each, CallAction) for each in meant.actions):
        return Who(hook.agent, "default")
    return Who(next((name for name in other_names(hook.agent) if agents.names(name)), hook.agent), "default")


def _hold_back(hook: "Hook", pending: Pending, guard: "Guard") -> "tuple[Decision, str]":
    """Deny what the agent cannot ask its user about, and have it wait for the user where that can be approved."""
    done = guard.complete(pending, Reply(NO_PERSON, hook.agent))
    asked = [question for question in pending.questions if question.resolved.verdict.decision is ASK]
    waiting = [] if pending.request.unclear else [guard.await_approval(question) for question in asked]
    waits = bool(waiting) and all(waiting)
    way = "approve it with `byleave approvals approve`, then have it tried again" if waits else "do it yourself"
    return done.verdict.decision, f"{done.verdict.reason}; {way}"
