"""Keep what came of the calls that a hook decided: that they ran, how it went, and that a person said yes.

A decision is remembered (`remember_call`) until the agent reports the outcome (`note_outcome`). Then there is a record
`effect` for each action, bound to the decision's own by `of`. Where byleave had left the question to the agent, the
agent has put it to its user, and the call ran, that was a yes, with a record `reply` of its own.

Nothing here decides anything, and nothing blocks: what goes wrong means that an outcome is not recorded. Yeses are
counted, so that the next question about the same can say which rule would end it (`offer`).
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from byleave.core.action import action_tree
from byleave.core.decision import ASK, DENY
from byleave.core.redact import Redactor
from byleave.core.suggest import cautions_apart
from byleave.errors import ByleaveError, StateError
from byleave.guard.evaluation import CLIENT, ONCE, PERSON
from byleave.hooks import unredeemed
from byleave.hooks.agent_process import find_agent
from byleave.hooks.agents import CLAUDE_CODE
from byleave.hooks.confining import SHELL_TOOLS
from byleave.hooks.event_reader import asks_its_user, read_object, session_of
from byleave.hooks.outcome_events import (
    ENDED,
    FAILED,
    RAN,
    REFUSED,
    REQUESTED,
    call_of,
    marks_of,
    project_of,
    read_outcome,
    tool_of,
)
from byleave.hooks.snippets import is_ours
from byleave.policy.dirs import find_homes, find_root, real_path
from byleave.store.audit.log import AuditLog
from byleave.store.audit.records import encode
from byleave.store.live_runs import call_name, release_call
from byleave.store.open_calls import OpenCall, close, forget_session, keep_open, note_request
from byleave.user_files import digest, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.core.action import Action
    from byleave.guard.evaluation import Evaluation
    from byleave.guard.guard import Guard
    from byleave.hooks.event_reader import Hook, HookContext, HookToolCall
    from byleave.hooks.outcome_events import HookOutcome
    from byleave.policy.dirs import UserDirs
    from byleave.store.live_runs import Hold

    Tree = Mapping[str, Any]

DOOR = "hook"
TICKETS = "tickets"  # where `store.tickets` keeps them, which most outcomes need not load
_RUNS = "runs"  # the same of `store.live_runs`
_HIDDEN = "."
ENOUGH = 3  # yeses to the same, after which the rule that would end the question is named
_MOST_ACTIONS = 64  # of one call
_MOST_COUNTS = 256
_LARGEST = 1 << 20  # bytes
_YESES = "yeses"
_TERMINAL = "cli"  # what Claude Code calls itself where a person sits before it, and no other program
_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")


def homes_of(hook: Hook, around: HookContext) -> UserDirs:
    """Return the user's directories; where the hook names a home, the environment has no say."""
    return find_homes(around.variables if hook.home is None else {"HOME": hook.home})


def has_live_runs(state: str) -> bool:
    """Whether confined commands may be running in this workspace."""
    return any(not name.startswith(_HIDDEN) for name in _names_of_runs(state))


def _names_of_runs(state: str) -> list[str]:
    try:
        return os.listdir(os.path.join(state, _RUNS))
    except FileNotFoundError:
        return []


def keep_paused(hook: Hook, tree: Tree, hold: Hold) -> None:
    """Keep confined commands stopped from now on until the agent reports the outcome of this call."""
    tool, raw = tool_of(hook.agent, tree)
    call = call_of(tree, tool, raw) if isinstance(tool, str) and isinstance(raw, dict) else ""
    hold.keep(call_name(hook.agent, session_of(tree), call))


def _end_pause(state: str, agent: str, outcome: HookOutcome) -> None:
    """Have confined commands go on that were stopped for a call."""
    if any(name.startswith(_HIDDEN) for name in _names_of_runs(state)):
        release_call(state, call_name(agent, outcome.session, outcome.call))


def remember_call(
    hook: Hook,
    tool_call: HookToolCall,
    tree: Tree,
    evaluation: Evaluation,
    *,
    actions: Sequence[Action],
    changed: Tree | None,
    guard: Guard,
    state: str,
) -> None:
    """Keep in mind how a call was decided, until the agent reports its outcome."""
    tool, raw = tool_of(hook.agent, tree)
    sequences = [number for number in evaluation.sequences if number is not None][:_MOST_ACTIONS]
    if not isinstance(tool, str) or not isinstance(raw, dict) or not sequences:
        return
    verdict = evaluation.verdict
    asked = verdict.decision is ASK and tool_call.can_ask
    keep_open(
        state,
        OpenCall(
            hook.agent,
            session_of(tree),
            call_of(tree, tool, raw),
            tool,
            tuple(
                dict.fromkeys([mark for given in (raw, changed) if given for mark in marks_of(tool, given, tool_call)])
            ),
            tuple(sequences),
            tuple([guard.masked(action_tree(action)) for action in actions[:_MOST_ACTIONS]]),
            (evaluation.who.agent, evaluation.who.identity),
            hook.session,
            asked,
            verdict.decision is DENY,
            _known_by(verdict.suggestion) if asked and verdict.suggestion else None,
            time.time(),
        ),
    )


def note_outcome(hook: Hook, tree: Tree, around: HookContext) -> bool:
    """Record what an event reports, and return whether it was about something that byleave knows."""
    outcome = read_outcome(hook.agent, tree)
    if outcome is None:
        return False
    homes = homes_of(hook, around)
    start = hook.root or project_of(hook.agent, tree, around) or around.here
    root = real_path(start if hook.root else find_root(start, homes))
    state = homes.workspace(root)
    if outcome.what == ENDED:
        forget_session(state, hook.agent, outcome.session)
        _end_runs(hook.agent, outcome.session, root)
        return True
    if outcome.what == REQUESTED:
        asks = asks_its_user(tree)
        return asks and any(note_request(state, hook.agent, outcome.session, mark) for mark in outcome.marks)
    _end_pause(state, hook.agent, outcome)
    if outcome.ran and os.path.isdir(os.path.join(state, TICKETS)):
        unredeemed.note_outcome(state, hook.agent, outcome.session, outcome.call)
    found = close(state, hook.agent, outcome.session, outcome.call)
    if found is None or (found.denied and outcome.what != RAN):  # what was denied has failed for that reason
        return False
    by = None
    if _had_a_yes(found, outcome) and asks_its_user(tree):
        by = _answering(hook.agent, around, (homes.user, root))
    _record(state, found, outcome, by)
    if by == PERSON and found.suggestion is not None:
        _count(state, found.suggestion)
    return True


def _end_runs(agent: str, session: str, root: str) -> None:
    """End what the confined commands of an agent's session have left running."""
    if agent not in SHELL_TOOLS:
        return
    # heavy: only where runs were confined
    from byleave.launch.agent_session import AgentProcess, AgentSession, end_session

    found = find_agent(agent, root).process
    if found is not None:
        end_session(AgentSession(root=root, agent=agent, name=session, process=AgentProcess(*found)))


def offer(state: str, suggestion: str | None) -> str:
    """Return what to say behind the reason of a question that the user has said yes to often; "" if they have not."""
    if suggestion is None or _counts(state).get(_known_by(suggestion), 0) < ENOUGH:
        return ""

    toml, cautions = cautions_apart(suggestion)
    rule, caution = " ".join(toml.split()), f" (caution: {'; '.join(cautions)})" if cautions else ""
    return (
        f"; you have allowed this {ENOUGH} times or more: `{rule}` in your own configuration would end the question"
        f"{caution}"
    )


def _had_a_yes(found: OpenCall, outcome: HookOutcome) -> bool:
    """Whether a call ran that the agent had asked about, because byleave had left the question to it."""
    return outcome.ran and found.asked and found.requested


def _answering(agent: str, around: HookContext, places: Sequence[str]) -> str:
    """Return who answers the agent's questions here: a person, or a client, which may do so by itself."""
    if agent != CLAUDE_CODE:
        return PERSON
    by_program = around.variables.get("CLAUDE_CODE_ENTRYPOINT") != _TERMINAL
    return CLIENT if by_program or _others_answer(places) else PERSON


def _others_answer(places: Sequence[str]) -> bool:
    """Whether a program of the user's, or of the project's, may answer Claude Code's questions in their place."""
    for path in [os.path.join(place, name) for place in places for name in _SETTINGS]:
        try:
            with open(path, "rb") as file:
                tree: Any = json.loads(file.read(_LARGEST))
            items = tree.get("hooks", {}).get("PermissionRequest", [])
            if any(not is_ours(CLAUDE_CODE, item) for item in items):
                return True
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return True
    return False


def _record(state: str, found: OpenCall, outcome: HookOutcome, by: str | None) -> None:
    log = AuditLog(state, mask=Redactor())
    agent, identity = found.who
    outcomes = {RAN: "done", FAILED: f"failed: {outcome.why}" if outcome.why else "failed", REFUSED: "refused"}
    about = {"session": found.own_session, "door": DOOR, "agent": agent, "identity": identity}
    try:
        for number, sequence in enumerate(found.sequences):
            action = found.actions[number] if number < len(found.actions) else None
            fields = {**about, "of": sequence, "action": action, "tool_call": found.call}
            if by is not None:
                answer = {"by": found.agent, "choice": ONCE, "who": by}
                log.append({"event": "reply", **fields, "answer": answer})
            log.append({"event": "effect", **fields, "outcome": outcomes[outcome.what]})
    except ByleaveError:
        return
    finally:
        log.close()


def _known_by(suggestion: str) -> str:
    return digest(suggestion.encode("utf-8", "surrogatepass"))[:32]


def _counts(state: str) -> dict[str, int]:
    try:
        tree = read_object(read_private(os.path.join(state, _YESES), limit=_LARGEST) or b"{}")
        return {key: int(value) for key, value in tree.items()}
    except (StateError, ValueError, TypeError):
        return {}


def _count(state: str, known_by: str) -> None:
    counts = _counts(state)
    latest = {known_by: counts.pop(known_by, 0) + 1}  # put last: of too many, the first are the oldest
    kept = dict([*counts.items(), *latest.items()][-_MOST_COUNTS:])
    try:
        make_private_directory(state)
        write_private(os.path.join(state, _YESES), encode(kept).encode("ascii"), durable=False)
    except (StateError, OSError):
        return
