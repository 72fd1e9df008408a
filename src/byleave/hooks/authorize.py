"""Evaluate the tool call of a hook event by the policy, and record the decision.

The workspace is the one around the directory that the agent works in, unless the command line names one.

A project file that was edited since the user trusted it allows nothing any more. The reason of the next decision says
so, once for each change (`edited_files`): a hook has no other way to reach its user.

Start at `evaluate`.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from byleave.core.action import CallAction, CommandAction, OtherAction
from byleave.core.agents import other_names
from byleave.core.decision import ALLOW, ASK, DENY
from byleave.core.observing import LEFT_TO_AGENT, is_silence
from byleave.core.redact import Redactor
from byleave.errors import InputError, StateError
from byleave.guard.approval_key import input_pin
from byleave.guard.evaluation import (
    CANCELLED,
    CHANGED,
    ELSEWHERE,
    NO_PERSON,
    UNASKED,
    ActionRequest,
    Pending,
    Reply,
    Who,
)
from byleave.guard.open_guard import guard_for
from byleave.hooks.agents import (
    BLOCK_WHEN_LATE,
    CLAUDE_CODE,
    CODEX,
    DELETE,
    EDIT,
    GEMINI,
    KINDS,
    OPENCODE,
    OTHER,
    QUESTION,
    QWEN,
    READ,
    SEARCH,
    THINK,
)
from byleave.hooks.changed_call import CallChange
from byleave.hooks.confining import SHELL_TOOLS, confinable
from byleave.hooks.event_reader import has_two_events
from byleave.hooks.last_event import note_event
from byleave.hooks.outcomes import DOOR, TICKETS, has_live_runs, homes_of, keep_paused, offer, remember_call
from byleave.hooks.unredeemed import note_overdue
from byleave.policy.dirs import find_root
from byleave.policy.layers import LOCAL, PROJECT
from byleave.policy.load import Workspace
from byleave.record import Record
from byleave.text import quoted, shown
from byleave.translate.call import FETCHES_PROMPT, KNOWS_TYPES, ToolCall, Translation, Where, as_own_question
from byleave.translate.shell_text import shell_of_agent
from byleave.translate.translate import translate
from byleave.user_files import digest, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.core.decision import Decision
    from byleave.guard.evaluation import Evaluation, Question
    from byleave.guard.guard import Guard
    from byleave.hooks.agent_process import FoundAgent
    from byleave.hooks.event_reader import Hook, HookContext, HookToolCall
    from byleave.policy.compile import Compiled
    from byleave.policy.dirs import UserDirs
    from byleave.policy.layers import Layer
    from byleave.policy.live_policy import LivePolicy
    from byleave.store.live_runs import Hold


_LARGEST = 1 << 16
_GONE = "gone"


def edited_files(workspace: Workspace, compiled: Compiled, session: str) -> str:
    """Return what changed since that was last said, to be put in front of a reason; "" if nothing did."""
    now = dict(_changed(workspace, compiled))
    path = os.path.join(os.path.dirname(workspace.files.session_file(session)), "edited")
    before = _read(path)
    if now.keys() != before:
        _write(path, now)
    new = [sentence for change, sentence in now.items() if change not in before]
    return "".join([f"{sentence}; " for sentence in new])


def _changed(workspace: Workspace, compiled: Compiled) -> Iterator[tuple[str, str]]:
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


def _write(path: str, changes: dict[str, str]) -> None:
    """Keep what was said; where that fails it is said again."""
    try:
        make_private_directory(os.path.dirname(path))
        write_private(
            path, "".join([f"{change}\n" for change in changes]).encode("utf-8", "surrogateescape"), durable=False
        )
    except (StateError, OSError):
        return


TIME_LIMIT = 10.0  # seconds that a hook takes at most, apart from waiting; what is written into settings is more
_FILE_TOOLS = (READ, EDIT, DELETE, SEARCH)
_MCP = "mcp__"
_NAME_SERVERS = (CLAUDE_CODE, CODEX, QWEN)  # in the names of tools: `mcp__SERVER__TOOL`
_WAYS: Mapping[tuple[str, str], frozenset[str]] = {
    (CLAUDE_CODE, "Grep"): frozenset([KNOWS_TYPES]),
    (GEMINI, "web_fetch"): frozenset([FETCHES_PROMPT]),
}


class HookEvaluation(Record):
    """The decision and its reason, and what is left to do about its record once the agent has it.

    Without a decision, the agent goes on as if there were no hook. `remember` keeps the call, as the event has it,
    until the agent reports its outcome. `changed` is the tool's input in the place of the one in the event: what is let
    through is that, and nothing else.
    """

    decision: Decision | None
    reason: str
    afterwards: Callable[[], None]
    remember: Callable[[Mapping[str, Any]], None]
    changed: Mapping[str, Any] | None = None


def evaluate(hook: Hook, tool_call: HookToolCall, around: HookContext) -> HookEvaluation:
    """Evaluate a call and record the decision; an error means that the call must be blocked."""
    workspace = _open_workspace(hook, tool_call, around)
    state = workspace.homes.workspace(workspace.root.path)
    note_event(workspace.homes.state, hook.agent)
    if os.path.isdir(os.path.join(state, TICKETS)):
        note_overdue(state)
    pause = _Pause(hook, tool_call, state)
    try:
        done = _evaluate(hook, tool_call, around, workspace, pause)
    except BaseException:
        pause.end()
        raise
    hold = pause.hold
    if hold is None or done.decision is not ALLOW:
        pause.end()
        return done

    def remember(event: Mapping[str, Any]) -> None:
        done.remember(event)
        keep_paused(hook, event, hold)

    return done.replace(remember=remember)


class _Pause:
    """Stops confined commands for a tool that opens files itself: none of them is to exchange what was looked at.

    They are not stopped while a person thinks: a hold is for some seconds. After the answer they are stopped again, and
    only then the call is looked at once more.
    """

    def __init__(self, hook: Hook, tool_call: HookToolCall, state: str) -> None:
        self._state = state
        self._is_file_tool = tool_call.server is None and KINDS[hook.agent].get(tool_call.tool) in _FILE_TOOLS
        self.hold: Hold | None = None

    def begin(self) -> str:
        """Stop them, and return nothing; or return why that is not possible."""
        if not self._is_file_tool or not has_live_runs(self._state):
            return ""
        from byleave.hooks.pausing import pause  # heavy: only while confined commands run

        found = pause(self._state)
        if isinstance(found, str):
            return found
        self.hold = found
        return ""

    def end(self) -> None:
        """Let them go on."""
        if self.hold is not None:
            self.hold.release()
            self.hold = None


def _evaluate(
    hook: Hook, tool_call: HookToolCall, around: HookContext, workspace: Workspace, pause: _Pause
) -> HookEvaluation:
    unstopped = pause.begin()
    state = workspace.homes.workspace(workspace.root.path)
    policy = workspace.load(files=hook.files, session=hook.session)
    meant = _meaning(hook.agent, tool_call, workspace.root.path, shell_of_agent(hook.agent, around.variables))
    if unstopped and meant.understood:
        meant = _unclear(meant, unstopped)
    confining = _confining(hook, tool_call, meant, workspace, policy)
    if confining.layers:
        policy = workspace.load(files=hook.files, session=hook.session, extra=confining.layers)
    guard = guard_for(
        workspace, DOOR, policy=policy, session=hook.session, stays=False, client_approves=None, may_observe=True
    )
    decision, reason, done = _decide(hook, tool_call, meant, guard, confining, pause=pause)
    changed = _changed_input(confining, done, decision)
    if decision is ASK:
        reason += offer(state, done.verdict.suggestion)
    if decision in (ASK, DENY) and not hook.files:
        reason = (
            edited_files(workspace, guard.policy.compiled, hook.session) + reason
        )  # a long reason is cut at its end
    settings = guard.policy.compiled.settings
    return HookEvaluation(
        decision,
        reason,
        workspace.audit_log(settings, Redactor()).fold_later,
        lambda event: remember_call(
            hook, tool_call, event, done, actions=meant.actions, changed=changed, guard=guard, state=state
        ),
        changed,
    )


def _open_workspace(hook: Hook, tool_call: HookToolCall, around: HookContext) -> Workspace:
    if hook.home is not None and not os.path.isabs(hook.home):
        raise InputError(f"--home is not absolute: {quoted(hook.home)}", hint="write the whole path, from / on")
    homes = homes_of(hook, around)
    return Workspace(hook.root or _found_root(tool_call, around, homes), homes=homes)


def _found_root(tool_call: HookToolCall, around: HookContext, homes: UserDirs) -> str:
    start = tool_call.project or tool_call.cwd or around.here
    if not os.path.isdir(start):
        raise InputError(f"the agent's directory is not there: {quoted(start)}", hint="start the agent in one that is")
    return find_root(start, homes)


def _meaning(agent: str, tool_call: HookToolCall, root: str, shell: str | None) -> Translation:
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
            kind=None if kind == OTHER else kind,
            raw=raw,
            tool=tool_call.tool,
            takes_directory=agent != CLAUDE_CODE,
            ways=_WAYS.get((agent, tool_call.tool), frozenset()),
        )
        meant = translate(call, Where(root, tool_call.cwd, os.path.exists, shell))
        if kind is None and not (agent in _NAME_SERVERS and tool_call.tool.startswith(_MCP)):
            meant = _unclear(meant, f"byleave does not know what the tool {quoted(tool_call.tool)} does")
    return _unclear(meant, tool_call.problem) if tool_call.problem else meant


def _unclear(meant: Translation, problem: str) -> Translation:
    return meant.replace(understood=False, problem=problem)


class _Confining(Record):
    """How the command of this call can be confined: not at all where `why_not` says why; empty for other calls.

    `layers` are the agent's own lists, which have a say no more once the text of the call is another.
    """

    change: CallChange | None = None
    agent: FoundAgent | None = None
    why_not: str = ""
    layers: tuple[Layer, ...] = ()

    @property
    def possible(self) -> bool:
        return self.change is not None and not self.why_not


_NOT_CONFINED = _Confining()


def _confining(
    hook: Hook, tool_call: HookToolCall, meant: Translation, workspace: Workspace, policy: LivePolicy
) -> _Confining:
    action = meant.actions[0] if len(meant.actions) == 1 else None
    if not isinstance(action, CommandAction) or policy.compiled.policy.shell in (None, "off"):
        return _NOT_CONFINED  # an allow that holds only confined is an ask

    found = confinable(hook, tool_call, action, workspace, policy)
    change = CallChange(hook, tool_call, action, workspace)
    return _Confining(change, found.agent, found.why_not, found.layers)


def _decide(
    hook: Hook, tool_call: HookToolCall, meant: Translation, guard: Guard, confining: _Confining, *, pause: _Pause
) -> tuple[Decision | None, str, Evaluation]:
    who = _who(hook, meant, guard)
    unclear = "" if meant.understood else meant.problem or "byleave does not know what it would do"
    also = {"tool_call": tool_call.call, "sources": dict(meant.sources)}
    by_name = any(isinstance(action, OtherAction) and action.name != THINK for action in meant.actions)
    pin = input_pin(dict(tool_call.raw)) if by_name else None
    step = tool_call.event if has_two_events(hook.agent, tool_call) else ""
    request = ActionRequest(meant.actions, who, unclear, pin=pin, fields=also, confines=confining.possible, step=step)
    outcome = guard.authorize(request)
    if not isinstance(outcome, Pending):
        return outcome.verdict.decision, outcome.verdict.reason, outcome
    if outcome.observed:  # nothing is asked for: the agent does as if there were no hook
        left = guard.complete(outcome, Reply(UNASKED, hook.agent))
        return (None if left.recorded else DENY), left.verdict.reason, left
    if meant.is_own_question or _is_left_to_agent(hook, tool_call, outcome, guard):
        left = guard.complete(outcome, Reply(ELSEWHERE, hook.agent))
        return None, left.verdict.reason, left
    why_not = _why_not(confining, outcome, guard)
    if not tool_call.can_ask or not _confines_asked(hook, outcome):
        return _hold_back(hook, tool_call, outcome, guard, why_not, pause=pause)
    done = guard.complete(outcome, Reply(ELSEWHERE, hook.agent))
    return done.verdict.decision, f"{done.verdict.reason}{why_not}", done


def _changed_input(confining: _Confining, done: Evaluation, decision: Decision | None) -> dict[str, Any] | None:
    """Return the input that has the command run confined, where the verdict says that it does; else None.

    After a question, what need not be confined runs as the person has seen it.
    """
    confined, required = done.verdict.sandbox or (False, False)
    asked = decision is not ALLOW
    if decision in (None, DENY) or not confined or (asked and not required):
        return None
    if confining.change is None or confining.agent is None or confining.why_not:
        raise StateError("this command would run without its confinement", hint="this is a defect: please report it")
    return confining.change.issue(confining.agent, done.sequence, asked=asked)


def _is_left_to_agent(hook: Hook, tool_call: HookToolCall, pending: Pending, guard: Guard) -> bool:
    """Whether a command that no rule matches is the agent's own affair, as `[hooks] silent` says.

    Never what needs confinement, and never where the agent's format has no such answer, or its mode asks no person.
    """
    if guard.policy.compiled.settings["hooks"].get("silent") != LEFT_TO_AGENT or hook.agent == OPENCODE:
        return False
    if not tool_call.can_ask and hook.agent != CODEX:  # a hook of Codex cannot ask, Codex itself can
        return False
    commands = all(isinstance(action, CommandAction) for action in pending.request.actions)
    required = (pending.verdict.sandbox or (False, False))[1]
    return commands and not pending.request.unclear and not required and is_silence(pending.verdict)


def _confines_asked(hook: Hook, pending: Pending) -> bool:
    """Whether a yes in the agent can be given to this: what needs confinement must be confined after it, too."""
    if pending.verdict.sandbox != (True, True):
        return True

    return SHELL_TOOLS[hook.agent].asks


def _why_not(confining: _Confining, pending: Pending, guard: Guard) -> str:
    """Return why a command that would be allowed confined needs approval here, to be put behind the reason."""
    if not confining.why_not:
        return ""
    request = pending.request
    would = [guard.evaluate(action, request.who, confines=True)[0].verdict for action in request.actions]
    return f"; it is not confined, because {confining.why_not}" if all(each.allowed for each in would) else ""


def _who(hook: Hook, meant: Translation, guard: Guard) -> Who:
    """Return whose call it is: the profile of the command line, else the hook's name.

    For the call of an MCP tool, `[agents]` may know the agent by another of its names only (`claude`).
    """
    if hook.profile is not None:
        return Who(hook.profile, "verified")
    agents = guard.policy.compiled.policy.views[0].agents
    if agents is None or agents.names(hook.agent) or not any(isinstance(each, CallAction) for each in meant.actions):
        return Who(hook.agent, "default")
    return Who(next((name for name in other_names(hook.agent) if agents.names(name)), hook.agent), "default")


_LONGEST_HOLD = 17.0  # seconds from the start of the hook: agents give it 30, and 10 of these stay unused
_AFTERWARDS = 3.0  # seconds to stop confined commands again, and to record the answer


def _answer_elsewhere(
    hook: Hook, tool_call: HookToolCall, pending: Pending, guard: Guard, pause: _Pause
) -> Reply | None:
    """Wait for an answer from an open dashboard, for agents that block a call whose hook comes too late.

    Where none is open, nothing is waited for, and the time limit of the hook stays as it is.
    """
    since = BLOCK_WHEN_LATE.get(hook.agent)
    if since is None or not guard.may_hold:
        return None
    if since:
        from byleave.hooks.agent_process import find_agent

        found = find_agent(hook.agent, guard.policy.root.path)
        if found.problem or (found.process is not None and found.version < since):
            return None
    left = signal.getitimer(signal.ITIMER_REAL)[0]  # until the hook blocks the call by itself; 0 in a test
    seconds = _LONGEST_HOLD - (TIME_LIMIT - left if left else 0.0)
    if left:
        signal.setitimer(signal.ITIMER_REAL, seconds + _AFTERWARDS)
    pause.end()
    try:
        reply = guard.hold(pending, seconds, given=tool_call.raw)
    except BaseException:
        guard.complete(pending, Reply(CANCELLED, hook.agent))
        raise
    if left:
        signal.setitimer(signal.ITIMER_REAL, _AFTERWARDS)
    unstopped = pause.begin() if reply is not None and reply.is_yes else ""
    if reply is not None and unstopped:
        return Reply(CHANGED, reply.by, unstopped)
    return reply


def _hold_back(
    hook: Hook, tool_call: HookToolCall, pending: Pending, guard: Guard, why_not: str, *, pause: _Pause
) -> tuple[Decision, str, Evaluation]:
    """Deny what the agent cannot ask its user about, and have it wait for the user where that can be approved.

    While a dashboard is open, the answer there is waited for first.
    """
    reply = _answer_elsewhere(hook, tool_call, pending, guard, pause)
    if reply is not None:
        answered = guard.complete(pending, reply)
        return answered.verdict.decision, answered.verdict.reason, answered
    done = guard.complete(pending, Reply(NO_PERSON, hook.agent))
    asked = [question for question in pending.questions if question.resolved.verdict.decision is ASK]
    waiting = [] if pending.request.unclear else [_await_approval(one, tool_call, guard) for one in asked]
    waits = bool(waiting) and all(waiting)
    way = "approve it with `byleave approvals approve`, then have it tried again" if waits else "do it yourself"
    return done.verdict.decision, f"{done.verdict.reason}{why_not}; {way}", done


def _await_approval(question: Question, tool_call: HookToolCall, guard: Guard) -> bool:
    """Have a question wait; with the input of the tool where a yes is for exactly that."""
    return guard.await_approval(question, given=None if question.pin is None else dict(tool_call.raw))
