"""One hook event, from standard input to the agent's answer. Whatever goes wrong on the way blocks the call.

A process that lives for some milliseconds before every tool call: nothing heavy is imported, no thread is started, and
once the answer is out, the process ends without tidying up. The record was written before.

Each agent gets the decision in its own format (`answer_text`). An error is the same for all of them: exit code 2, and
the reason on standard error.

Start at `serve`. What an event says: `event_reader`. What the policy decides: `authorize`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from byleave.caller import front, leave
from byleave.core.decision import ALLOW, DENY, WORDS
from byleave.errors import ByleaveError, ConfigErrors
from byleave.hooks.agents import CLAUDE_CODE, CLINE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE, QWEN
from byleave.hooks.event_reader import (
    LARGEST,
    OUTCOME,
    Hook,
    HookContext,
    UnreadableEventError,
    read_object,
    read_tool_call,
)
from byleave.record import Record
from byleave.store.audit.records import encode
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.core.decision import Decision


BLOCKED = 2  # the one exit code that blocks in all of the agents
OUTCOME_LIMIT = 8.0  # seconds, after which an outcome is given up
TIME_LIMIT = 10.0  # seconds; what is written into the agents' settings is more. `authorize` may wait longer
LONGEST_REASON = 2000  # characters
_MOST_PROBLEMS = 3
_AT_TERMINAL = (
    "standard input is a terminal, and an agent writes its event there; "
    "`byleave hook --install AGENT` has the agent start the hook"
)


class HookOutput(Record):
    """What to write to standard output, and what is to be done once it is out."""

    text: str
    afterwards: Callable[[], None] | None = None


def serve(hook: Hook, *, limit: float = TIME_LIMIT) -> NoReturn:
    """Answer the event on standard input, and end the process."""
    if hook.only == OUTCOME:
        _take_outcome(hook)
    try:
        _fill_closed_descriptors()
        stop = _block_after(limit)
        said = respond(hook, _read_event(), os.environ)
        if sys.__stdout__ is None:  # it was closed from the start: no answer must not be taken for a yes
            block("the call is blocked: standard output is closed")
        stop()
        _write(1, said.text)
    except BaseException as error:  # noqa: BLE001 -- whatever it was: the agent must not take it for a yes
        block(_reason_of(error))
    _leave(said)


def respond(hook: Hook, data: bytes, variables: Mapping[str, str]) -> HookOutput:
    """Return the answer to an event, recorded. An error means that the call must be blocked."""
    around = HookContext(variables, _here(), installed=hook.home is not None)
    event = read_object(data)
    tool_call = read_tool_call(hook.agent, event, around)
    if tool_call is None:
        return HookOutput(NEUTRAL[hook.agent])
    # Only now, because most of what is heavy is not needed for an event that is none of ours.
    from byleave.hooks.authorize import evaluate  # heavy: not every event needs the policy

    evaluation = evaluate(hook, tool_call, around)
    evaluation.remember(event)
    text = answer_text(hook.agent, evaluation.decision, evaluation.reason, evaluation.changed)
    return HookOutput(text, evaluation.afterwards)


def _take_outcome(hook: Hook) -> NoReturn:
    """Record what the event on standard input reports. Whatever goes wrong: the agent goes on as if there were no hook.

    What it reports has happened, or is a question to its user: neither is to be stopped or answered here.
    """
    try:
        signal.signal(signal.SIGALRM, lambda _number, _frame: leave(0))
        signal.setitimer(signal.ITIMER_REAL, OUTCOME_LIMIT)
        _fill_closed_descriptors()
        from byleave.hooks.outcomes import note_outcome

        around = HookContext(os.environ, _here(), installed=hook.home is not None)
        note_outcome(hook, read_object(_read_event()), around)
        _write(1, _EMPTY if NEUTRAL[hook.agent] else _NOTHING)
    except BaseException as error:  # noqa: BLE001 -- said for those who look for it, and no reason to stop anything
        _write(2, f"byleave: the outcome is not recorded: {shown(str(error))[:LONGEST_REASON]}")
    finally:
        leave(0)


def block(reason: str) -> NoReturn:
    """End the process in the form that blocks the call."""
    try:
        _write(2, f"byleave: {shown(reason[:LONGEST_REASON])}")
    finally:
        leave(BLOCKED)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _read_event() -> bytes:
    if os.isatty(0):  # no agent does that: a person, who would wait for nothing
        raise UnreadableEventError(_AT_TERMINAL)
    chunks, left = [], LARGEST + 1
    while left > 0 and (chunk := os.read(0, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _fill_closed_descriptors() -> None:
    """Open what is closed of the standard descriptors, so that no file of ours becomes one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one


def _block_after(seconds: float) -> Callable[[], object]:
    """Block the call when this much time has passed, whatever we are at then; return what calls it off."""

    def blocked(_number: int, _frame: object) -> None:
        block(f"the call is blocked: no answer within {seconds:g} seconds")

    signal.signal(signal.SIGALRM, blocked)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])  # the program that started us may have blocked it
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return lambda: signal.setitimer(signal.ITIMER_REAL, 0)


def _write(descriptor: int, text: str) -> None:
    left = f"{text}\n".encode("utf-8", "backslashreplace") if text else b""
    while left:
        left = left[os.write(descriptor, left) :]


def _reason_of(error: BaseException) -> str:
    if isinstance(error, UnreadableEventError):
        return f"the call is blocked: {error}"
    if isinstance(error, ByleaveError):
        return f"the call is blocked: {error.problem} ({error.hint})"
    if isinstance(error, ConfigErrors):
        problems = [str(each).partition("\n")[0] for each in error.exceptions[:_MOST_PROBLEMS]]
        return f"the call is blocked, because the configuration cannot be used: {'; '.join(problems)}"
    return f"the call is blocked by an internal error: {type(error).__name__}: {error}"


def _leave(said: HookOutput) -> NoReturn:
    """Let the agent go on at once: what is left is done behind its back, without the usual cleanup."""
    try:
        asking = front()
        if asking is not None:
            asking.finish(0)
        if said.afterwards is not None and (asking is not None or os.fork() == 0):
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in range(3):  # the agent waits until no process has them open
                os.dup2(nowhere, number)
            said.afterwards()
    finally:
        os._exit(0)


LONGEST_CONTEXT = 2000  # characters; a command of 30,000 is of no help in a sentence
_NOTHING, _EMPTY = "", "{}"
# Where byleave has nothing to say; some agents want an object even then.
NEUTRAL: Mapping[str, str] = {
    CLAUDE_CODE: _NOTHING,
    CODEX: _NOTHING,
    GEMINI: _EMPTY,
    CURSOR: _EMPTY,
    OPENCODE: _EMPTY,
    COPILOT: _EMPTY,
    QWEN: _EMPTY,
    CLINE: _EMPTY,
}


def answer_text(agent: str, decision: Decision | None, reason: str, changed: Mapping[str, Any] | None = None) -> str:
    """Return what to write to standard output: no decision leaves the call to the agent.

    An ask is for an agent that can put it to its user. `changed` is the tool's input that the agent is to take.
    """
    if decision is None and agent == OPENCODE:  # its plugin is ours, and knows nothing in between
        decision = ALLOW
    if decision is not None and changed is not None:
        return _CHANGED_FORMATS[agent](decision, plain_reason(reason), changed)
    return NEUTRAL[agent] if decision is None else _FORMATS[agent](decision, plain_reason(reason))


def plain_reason(reason: str) -> str:
    """Return a reason that every reader of JSON takes, and that fits into a line: never empty, never half a letter."""
    text = shown(reason).strip() or "byleave gives no reason"
    return text if len(text) <= LONGEST_CONTEXT else f"{text[:LONGEST_CONTEXT]}... (cut)"


def _claude_code(decision: Decision, reason: str, changed: Mapping[str, Any] | None = None) -> str:
    said: dict[str, Any] = {"permissionDecision": WORDS[decision], "permissionDecisionReason": f"byleave: {reason}"}
    if changed is not None:
        said["updatedInput"] = changed
    return encode({"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}})


def _codex(decision: Decision, reason: str, changed: Mapping[str, Any] | None = None) -> str:
    """Codex takes a deny, and an allow with a changed input. Every other it calls unsupported, and runs the call."""
    if decision is ALLOW:
        return _NOTHING if changed is None else _claude_code(ALLOW, reason, changed)
    return _claude_code(DENY, reason)


def _gemini(decision: Decision, reason: str, changed: Mapping[str, Any] | None = None) -> str:
    if decision is ALLOW:
        own = {} if changed is None else {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": changed}}
        return encode({"decision": "allow", **own})
    message = f"byleave: {reason}"
    return encode({"decision": WORDS[decision], "reason": message, "systemMessage": message})


def _cursor(decision: Decision, reason: str) -> str:
    if decision is ALLOW:
        return encode({"permission": "allow"})
    message = f"byleave: {reason}"
    return encode({"permission": WORDS[decision], "user_message": message, "agent_message": message})


def _opencode(decision: Decision, reason: str, changed: Mapping[str, Any] | None = None) -> str:
    own = {} if changed is None else {"args": changed}
    return encode({"decision": WORDS[decision], "reason": f"byleave: {reason}", **own})


def _copilot(decision: Decision, reason: str) -> str:
    return encode({"permissionDecision": WORDS[decision], "permissionDecisionReason": f"byleave: {reason}"})


def _qwen(decision: Decision, reason: str) -> str:
    """Qwen Code has asked its own question before: an allow is no more than that nothing speaks against it."""
    return _EMPTY if decision is ALLOW else _claude_code(DENY, reason)


def _cline(decision: Decision, reason: str) -> str:
    """Cline knows one answer, which ends the run; the rest it decides itself."""
    return _EMPTY if decision is ALLOW else encode({"cancel": True, "errorMessage": f"byleave: {reason}"})


_CHANGED_FORMATS: Mapping[str, Callable[[Decision, str, Mapping[str, Any]], str]] = {
    CLAUDE_CODE: _claude_code,
    CODEX: _codex,
    GEMINI: _gemini,
    OPENCODE: _opencode,
}
_FORMATS: Mapping[str, Callable[[Decision, str], str]] = {
    CLAUDE_CODE: _claude_code,
    CODEX: _codex,
    GEMINI: _gemini,
    CURSOR: _cursor,
    OPENCODE: _opencode,
    COPILOT: _copilot,
    QWEN: _qwen,
    CLINE: _cline,
}
