"""Tools that stay: spawned under a name, looked at, given input, stopped. Nothing outlives the session they belong to.

    spawn -> running -> waiting (one question) -> running -> ... -> stopped

Each runs in a thread of its own. What a handle was in the end can be looked at until its name is used again.
"""

from __future__ import annotations

from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from byleave.errors import ByleaveError, ConfigErrors
from byleave.protocol.content import RUNNING, STOPPED, ToolFailure, Update
from byleave.text import quoted, shown
from byleave.toolhost.description import ACTIONS
from byleave.toolhost.host import VFS, ToolInvocation, outcome_of
from byleave.toolhost.limits import timing_of
from byleave.toolhost.outcome import CompletedOutcome, FailedOutcome, NeedsInput, StateOutcome, broken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.guard.evaluation import Who
    from byleave.policy.compile import CompiledTool
    from byleave.protocol.vfs import StateChanged
    from byleave.toolhost.conversation import Conversation
    from byleave.toolhost.host import ToolHost
    from byleave.toolhost.outcome import Outcome

_KEYS = {
    "spawn": ("action", "id", "args"),
    "fetch": ("action", "id"),
    "apply": ("action", "id", "input"),
    "abort": ("action", "id"),
}
_MOST = 64  # handles that run at one time
_MOST_KEPT = 1000  # that are remembered after their end
_LONGEST_ID = 128
_MARGIN = 2.0  # seconds for the ending of a process beyond what it is given


class Handle:
    """One tool that stays, and how it stands."""

    def __init__(self, tool: str, conversation: Conversation) -> None:
        self.tool = tool
        self.conversation = conversation
        self.gone = Event()  # nothing of it runs any more: it may have stopped, and its process not yet have ended
        self._changed = Lock()
        self._update = Update(RUNNING)

    @property
    def update(self) -> Update:
        return self._update

    def change(self, update: Update) -> None:
        """Take note of how it stands; what has stopped stays so."""
        with self._changed:
            if self._update.type != STOPPED:
                self._update = update


class Handles:
    """The stateful tools of one session, by the names their callers chose."""

    def __init__(self, host: ToolHost) -> None:
        self._host = host
        self._handles: dict[tuple[str, str], Handle] = {}
        self._spawning = Lock()  # two calls that want one name at once do not both get it

    @property
    def running(self) -> int:
        """How many of them have not stopped."""
        return sum(handle.update.type != STOPPED for handle in list(self._handles.values()))

    def act(self, tool: CompiledTool, arguments: Mapping[str, Any], who: Who, answers: Mapping[str, str]) -> Outcome:
        """Do what the arguments say: `action`, `id`, and what that action needs."""
        action, id_ = str(arguments.get("action")), arguments.get("id")
        supported = tool.settings.get("actions", ACTIONS)
        if action not in supported:
            return broken(f"{quoted(tool.name)} does not support that action; it supports {', '.join(supported)}")
        unknown = [name for name in arguments if name not in _KEYS[action]]
        if unknown:
            return broken(f"{action} takes {', '.join(_KEYS[action])}, not {quoted(unknown[0])}")
        if not isinstance(id_, str) or not 0 < len(id_) <= _LONGEST_ID:
            return broken(f"{action} needs an id: a text of up to {_LONGEST_ID} characters")
        if action == "spawn":
            with self._spawning:
                return self._spawn(tool, id_, arguments, who, answers)
        handle = self._handles.get((tool.name, id_))
        if handle is None:
            return broken(f"no handle '{shown(id_)}'")
        return _ACTIONS[action](self, handle, arguments)

    def _spawn(
        self, tool: CompiledTool, id_: str, arguments: Mapping[str, Any], who: Who, answers: Mapping[str, str]
    ) -> Outcome:
        given = arguments.get("args", {})
        if not isinstance(given, dict):
            return broken("the args of spawn are an object")
        known = self._handles.get((tool.name, id_))
        if known is not None and known.update.type != STOPPED:
            return broken(f"there is a handle {quoted(id_)} already, and it still runs")
        if self.running >= _MOST:
            return broken(f"{_MOST} tools run already: stop one of them first")
        if tool.runtime != VFS:
            return broken(f'{quoted(tool.name)} cannot stay: only tools with runtime = "vfs" can be stateful')
        return self._begin(tool, id_, ToolInvocation(tool.name, given, answers, who))

    def _begin(self, tool: CompiledTool, id_: str, call: ToolInvocation) -> Outcome:
        made: list[Handle] = []

        def changed(heard: StateChanged) -> None:
            made[0].change(heard.update)

        try:
            conversation, first = self._host.converse(tool, call, changed)
        except (ByleaveError, ConfigErrors) as error:
            return broken(str(error))
        except OSError as error:  # no descriptors, no memory, no processes left
            return broken(f"the tool cannot be started: {error.strerror}", transient=True)
        made.append(Handle(tool.name, conversation))
        self._forget_old()
        self._handles[tool.name, id_] = made[0]
        Thread(target=_run, args=(made[0], first), name="byleave-handle", daemon=True).start()
        return StateOutcome(Update(RUNNING))

    def _forget_old(self) -> None:
        for key in [key for key, handle in self._handles.items() if handle.update.type == STOPPED][:-_MOST_KEPT]:
            del self._handles[key]

    def _fetch(self, handle: Handle, _arguments: Mapping[str, Any]) -> Outcome:
        return StateOutcome(handle.update)

    def _apply(self, handle: Handle, arguments: Mapping[str, Any]) -> Outcome:
        """Hand over input; to a tool that waits it is the answer to its question."""
        if handle.update.type == STOPPED:
            return broken("it has stopped: nothing can be given to it any more")
        if "input" not in arguments:
            return broken("apply needs an input")
        if not handle.conversation.takes_input:
            return broken("it has not read what it was given before", transient=True)
        handle.change(Update(RUNNING))
        handle.conversation.apply(arguments["input"])
        return StateOutcome(Update(RUNNING))

    def _abort(self, handle: Handle, _arguments: Mapping[str, Any]) -> Outcome:
        if handle.update.type != STOPPED:
            handle.conversation.cancel()
        handle.gone.wait(2 * timing_of(self._host.tool(handle.tool)).cancel + _MARGIN)
        return StateOutcome(handle.update)

    def close(self) -> None:
        """Stop everything that still runs."""
        running = [handle for handle in list(self._handles.values()) if not handle.gone.is_set()]
        for handle in running:
            handle.conversation.end()
        for handle in running:
            handle.gone.wait(_MARGIN)
        self._handles.clear()


_ACTIONS: dict[str, Callable[[Handles, Handle, Mapping[str, Any]], Outcome]] = {
    "fetch": Handles._fetch,  # noqa: SLF001 -- the table of our own methods
    "apply": Handles._apply,  # noqa: SLF001
    "abort": Handles._abort,  # noqa: SLF001
}


def _run(handle: Handle, first: bytes) -> None:
    """Talk with the tool to its end, and take note of it, whatever it is."""
    update = Update(STOPPED, error=ToolFailure("the host failed"))
    try:
        update = _stopped(outcome_of(handle.conversation.run(first)))
    finally:
        handle.change(update)
        handle.gone.set()


def _stopped(outcome: Outcome) -> Update:
    if isinstance(outcome, CompletedOutcome):
        return Update(STOPPED, result=outcome.content)
    if isinstance(outcome, FailedOutcome):
        return Update(STOPPED, error=outcome.failure)
    if isinstance(outcome, NeedsInput):
        return Update(
            STOPPED, error=ToolFailure("the tool ended with a question; a stateful tool waits for its answer")
        )
    return Update(STOPPED, error=ToolFailure("it was aborted"))
