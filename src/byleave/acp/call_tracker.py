"""Reads what the agent reports about its tool calls, so that its requests can be understood.

What it did without a request for permission is recorded. What a call is made of is kept by `tracked_calls`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.acp.tracked_calls import ENDED
from byleave.acp.unreadable_lines import decoded_somehow, kind_of_update
from byleave.core.action import CommandAction, OtherAction
from byleave.guard.recording import OBSERVED
from byleave.translate.call import ToolCall, as_own_question, is_own_question
from byleave.translate.names import is_thought
from byleave.translate.ticketed_command import ticket_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.acp.authorize import CallAuthorizer, Placed
    from byleave.acp.requests import PermissionRequest
    from byleave.acp.sessions import AcpSession, AcpSessions
    from byleave.acp.tracked_calls import TrackedCall
    from byleave.core.action import Action
    from byleave.protocol.jsonrpc import Envelope
    from byleave.translate.call import Translation


_ABOUT_CALLS = ("tool_call", "tool_call_update")
_CHANGES = ("command", "write", "delete")
_UNREAD = "the agent reported something about this call that cannot be read"
_MORE_THAN_THOUGHTS = "it says that it thinks, and brings more than thoughts"
_SOMETHING_ELSE = "the request names something else than its call did before"


class UnreadError(Exception):
    """An update that may be about a call, and cannot be read."""


class CallTracker:
    """What the agents of all sessions have reported so far. Their updates are neither changed nor held up."""

    def __init__(self, sessions: AcpSessions, authorizer: CallAuthorizer) -> None:
        self._sessions = sessions
        self._authorizer = authorizer

    def hear(self, envelope: Envelope, line: bytes) -> tuple[str, dict[str, Any]] | None:
        """Remember what an update reports of a tool call; return its session, and the update.

        Nearly all are pieces of text, and not decoded any further. One that cannot be read is an error.
        """
        kind = kind_of_update(envelope)
        if kind is not None and kind not in _ABOUT_CALLS:
            return None
        params = None if envelope.params is None else decoded_somehow(envelope.params)
        update = params.get("update") if isinstance(params, dict) else None
        name = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(update, dict) or not isinstance(name, str):
            raise UnreadError
        if update.get("sessionUpdate") not in _ABOUT_CALLS:
            return None
        self._hear_call(name, update, len(line))
        return name, update

    def doubt_all(self) -> None:
        """Take all that was reported so far for doubtful: something came that may be about it, and cannot be read."""
        for session in self._sessions.everyone():
            session.calls.doubt_all()

    def _hear_call(self, name: str, update: dict[str, Any], size: int) -> None:
        session = self._sessions.get(name)
        if session.is_replaying:  # neither done now, nor by a shell that is still there
            session.calls.pass_over(update)
            return
        call = session.calls.hear(update, size)
        if call is None:
            return
        if update.get("rawInput"):
            self._understand(session, call, str(update.get("toolCallId")))
        if update.get("status") in ENDED:
            self._hear_end(name, call, update)
            session.directories.end(str(update.get("toolCallId")))

    def _understand(
        self, session: AcpSession, call: TrackedCall, name: str, request: Mapping[str, Any] | None = None
    ) -> tuple[Translation, Placed]:
        """Return what a call of a session means, and note where its shell may stand afterwards."""
        tool_call = call.call(session.servers) if request is None else call.with_request(request, session.servers)
        meant, placed = self._authorizer.understand(tool_call, session.placed, session.cwd)
        if call.is_unclear or _only_says_that_it_thinks(meant, tool_call):
            problem = _UNREAD if call.is_unclear else _MORE_THAN_THOUGHTS
            meant = meant.replace(understood=False, problem=meant.problem or problem)
        if request is not None and is_own_question(tool_call, meant):
            return as_own_question(meant), placed
        session.directories.hear(meant, name)
        return session.directories.spread(meant, name), placed

    def _hear_end(self, name: str, call: TrackedCall, update: dict[str, Any]) -> None:
        """Record what an agent reports that it did without asking, or in spite of an answer, or before one."""
        session = self._sessions.get(name)
        meant, placed = self._understand(session, call, str(update.get("toolCallId")))
        if any(isinstance(action, CommandAction) and ticket_in(action.command) for action in meant.actions):
            return  # the agent's own hook has changed the call, and the confined run has a record of its own
        touched = self._authorizer.touches(meant, placed.guard)
        mark = _mark(call, {touch for touch in touched if touch[0] in _CHANGES}, str(update.get("status")))
        if mark is None or all(getattr(action, "name", None) == "think" for action in meant.actions):
            return
        fields = {"event": OBSERVED, "tool_call": update.get("toolCallId"), "editor_session": name}
        fields["outcome"] = update.get("status")
        self._authorizer.let_pass(self._authorizer.authorize(meant, placed, also={**fields, mark: True}))

    def meaning_of(
        self, request: PermissionRequest, session: AcpSession, call: TrackedCall
    ) -> tuple[Translation, Placed]:
        """Return what a request for permission means, with all that was reported before, and its guard."""
        meant, placed = self._understand(session, call, request.call_id, request.call)
        return self._with_earlier(meant, call, session, request.call_id), placed

    def _with_earlier(self, meant: Translation, call: TrackedCall, session: AcpSession, name: str) -> Translation:
        """Return what a request means together with what was reported before, where that was something else."""
        if not call.has_arguments or all(isinstance(action, OtherAction) for action in meant.actions):
            return meant
        named = {_named(action) for action in meant.actions}
        before, _placed = self._understand(session, call, name)
        others = [each for each in before.actions if not isinstance(each, OtherAction) and _named(each) not in named]
        if not others:
            return meant
        return meant.replace(
            actions=(*meant.actions, *others), understood=False, problem=meant.problem or _SOMETHING_ELSE
        )


def _named(action: Action) -> str:
    """Return what an action is about, to compare it: the command, the place, the address."""
    fields = ("command", "path", "to", "url", "server", "tool")
    return repr([getattr(action, field, None) for field in fields])


def _only_says_that_it_thinks(meant: Translation, call: ToolCall) -> bool:
    """Whether a call brings more than thoughts: thinking is allowed without any rule."""
    if not all(getattr(action, "name", None) == "think" for action in meant.actions):
        return False
    return any(not is_thought(name) for name, value in (call.raw or {}).items() if value)


def _mark(call: TrackedCall, touched: set[tuple[str, ...]], status: str) -> str | None:
    """Return the word for what is odd about the end of a call; None if it did what it was allowed to do."""
    if not call.asked:
        return "unasked"
    if call.is_open:
        return "unanswered"
    if call.raw and not {touch[:2] for touch in touched} <= call.asked_for:
        return "another_than_asked"
    return "refused_before" if call.refused and status == "completed" else None
