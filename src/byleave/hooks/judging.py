"""What the policy says to a tool call that an agent's hook tells of, recorded.

The workspace is the one around the directory that the agent works in, unless the command line names one.
"""

import os

from byleave.api import Workspace
from byleave.config.homes import find_homes, find_root
from byleave.core.action import CallAction, OtherAction
from byleave.core.agent_names import other_names
from byleave.core.masking import Mask
from byleave.core.verdict import ASK, DENY
from byleave.errors import InputError
from byleave.guard.asking import ELSEWHERE, NOBODY, Who
from byleave.guard.keys import input_pin
from byleave.guard.matters import Matter
from byleave.hooks.edited import edited_files
from byleave.hooks.tools import CLAUDE_CODE, KINDS, OTHER, QUESTION, THINK
from byleave.record import Record
from byleave.text import quoted
from byleave.translate.asking import as_own_question
from byleave.translate.call import Call, Meaning, Where
from byleave.translate.meaning import meaning
from byleave.translate.shells import shell_of_agent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.config.homes import Homes
    from byleave.core.verdict import Decision
    from byleave.guard.guard import Guard
    from byleave.hooks.door import Hook
    from byleave.hooks.wishes import Around, Wish

DOOR = "hook"
_MCP = "mcp__"


class Judgement(Record):
    """The decision and its reason, and what is left to do about its record once the agent has it.

    Without a decision, the agent goes on as if there were no hook.
    """

    decision: "Decision | None"
    reason: str
    afterwards: "Callable[[], None]"


def judge(hook: "Hook", wish: "Wish", around: "Around") -> Judgement:
    """Judge a call and record it; an error means that the call must be blocked."""
    workspace = _open_workspace(hook, wish, around)
    guard = workspace.guard(DOOR, files=hook.files, session=hook.session, stays=False)
    meant = _meaning(hook.agent, wish, workspace.root.path, shell_of_agent(hook.agent, around.variables))
    decision, reason = _decide(hook, wish, meant, guard)
    if decision in (ASK, DENY) and not hook.files:
        reason = (
            edited_files(workspace, guard.policy.compiled, hook.session) + reason
        )  # a long reason is cut at its end
    settings = guard.policy.compiled.settings
    return Judgement(decision, reason, lambda: workspace.audit_log(settings, Mask()).fold_later())


def _open_workspace(hook: "Hook", wish: "Wish", around: "Around") -> Workspace:
    variables: Mapping[str, str] = around.variables
    if hook.home is not None:  # in place of all that the environment says about byleave
        if not os.path.isabs(hook.home):
            raise InputError(f"--home is not absolute: {quoted(hook.home)}", hint="write the whole path, from / on")
        variables = {"HOME": hook.home}
    homes = find_homes(variables)
    return Workspace(hook.root or _found_root(wish, around, homes), homes=homes)


def _found_root(wish: "Wish", around: "Around", homes: "Homes") -> str:
    start = wish.project or wish.cwd or around.here
    if not os.path.isdir(start):
        raise InputError(f"the agent's directory is not there: {quoted(start)}", hint="start the agent in one that is")
    return find_root(start, homes)


def _meaning(agent: str, wish: "Wish", root: str, shell: str | None) -> Meaning:
    """Return what the call amounts to; a tool that nobody knows is never understood."""
    if wish.server is not None:
        meant = Meaning((CallAction(wish.server, wish.tool, dict(wish.raw), respelled=True),), {"tool": "event"})
    else:
        kind = KINDS[agent].get(wish.tool)
        if kind == QUESTION:
            asked = Meaning((OtherAction(THINK, wish.tool),), {"tool": "event"})
            return _unclear(asked, wish.problem) if wish.problem else as_own_question(asked)
        # What is mere bookkeeping does what its name says, whatever its words are about.
        raw = None if kind == THINK else wish.raw
        call = Call(kind=None if kind == OTHER else kind, raw=raw, tool=wish.tool, takes_directory=agent != CLAUDE_CODE)
        meant = meaning(call, Where(root, wish.cwd, os.path.exists, shell))
        if kind is None and not wish.tool.startswith(_MCP):
            meant = _unclear(meant, f"nobody knows what the tool {quoted(wish.tool)} does")
    return _unclear(meant, wish.problem) if wish.problem else meant


def _unclear(meant: Meaning, problem: str) -> Meaning:
    made: Meaning = meant.replace(understood=False, problem=problem)
    return made


def _decide(hook: "Hook", wish: "Wish", meant: Meaning, guard: "Guard") -> "tuple[Decision | None, str]":
    who = _who(hook, meant, guard)
    unclear = "" if meant.understood else meant.problem or "it cannot be told what would be done"
    also = {"tool_call": wish.call, "sources": dict(meant.sources)}
    by_name = any(isinstance(action, OtherAction) and action.name != THINK for action in meant.actions)
    pin = input_pin(dict(wish.raw)) if by_name else None
    outcome = guard.begin_all(meant.actions, who, unclear=unclear, pin=pin, also=also)
    if not isinstance(outcome, Matter):
        return outcome.verdict.decision, outcome.verdict.reason
    if meant.is_own_question:
        return None, guard.finish_all(outcome, hook.agent, ELSEWHERE).verdict.reason
    if not wish.can_ask:
        return _hold_back(hook, outcome, guard)
    done = guard.finish_all(outcome, hook.agent, ELSEWHERE)
    return done.verdict.decision, done.verdict.reason


def _who(hook: "Hook", meant: Meaning, guard: "Guard") -> Who:
    """Return whose call it is: the profile of the command line, else the hook's name.

    For the call of an MCP tool, `[agents]` may know the agent by another of its names only (`claude`).
    """
    if hook.profile is not None:
        return Who(hook.profile, "verified")
    agents = guard.policy.compiled.policy.voices[0].agents
    if agents is None or agents.names(hook.agent) or not any(isinstance(each, CallAction) for each in meant.actions):
        return Who(hook.agent, "default")
    return Who(next((name for name in other_names(hook.agent) if agents.names(name)), hook.agent), "default")


def _hold_back(hook: "Hook", matter: Matter, guard: "Guard") -> "tuple[Decision, str]":
    """Deny what the agent cannot ask its user about, and have it wait for the user where that can be approved."""
    done = guard.finish_all(matter, hook.agent, NOBODY)
    asked = [question for question in matter.questions if question.judged.verdict.decision is ASK]
    waiting = [] if matter.unclear else [guard.await_approval(question) for question in asked]
    waits = bool(waiting) and all(waiting)
    way = "approve it with `byleave approvals approve`, then have it tried again" if waits else "do it yourself"
    return done.verdict.decision, f"{done.verdict.reason}; {way}"
