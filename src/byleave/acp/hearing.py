"""Listening to what the agent tells about its tool calls.

So that its requests can be understood, and what it did without asking is recorded.
"""

from byleave.acp.calls import ENDED
from byleave.acp.envelope import decoded, kind_of_update
from byleave.core.action import CommandAction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.acp.calls import ToolCall
    from byleave.acp.envelope import Envelope
    from byleave.acp.judging import Judging
    from byleave.acp.sessions import Session, Sessions
    from byleave.acp.wishes import Permission
    from byleave.guard.guard import Guard
    from byleave.translate.call import Call, Meaning

_ANOTHER_COMMAND = "the request names another command than its call did before"


class Hearing:
    """What the agents of all sessions have told so far. Nothing of it is changed or held up."""

    def __init__(self, sessions: "Sessions", judging: "Judging") -> None:
        self._sessions = sessions
        self._judging = judging

    def hear(self, envelope: "Envelope", line: bytes) -> None:
        """Remember what an update tells of a tool call. Nearly all are pieces of text, and not decoded any further."""
        if kind_of_update(envelope) not in ("tool_call", "tool_call_update"):
            return
        params = decoded(envelope.members["params"])
        if not isinstance(params, dict) or not isinstance(params.get("sessionId"), str):
            return
        name, update = params["sessionId"], params["update"]
        session = self._sessions.get(name)
        call = session.calls.hear(update, len(line))
        if call is not None and update.get("rawInput"):
            self._understand(session, call.call(session.servers), str(update.get("toolCallId")))
        if call is not None and update.get("status") in ENDED:
            self._hear_end(name, call, update)

    def _understand(self, session: "Session", call: "Call", name: str) -> "tuple[Meaning, Guard]":
        """Return what a call of a session means, and note where its shell may stand afterwards."""
        meant, guard = self._judging.understand(call, session.cwd)
        session.directories.hear(meant, name)
        return session.directories.spread(meant, name), guard

    def _hear_end(self, name: str, call: "ToolCall", update: "dict[str, Any]") -> None:
        """Record what an agent did without asking, as far as it told; or in spite of a no."""
        if call.asked and not (call.refused and update.get("status") == "completed"):
            return
        session = self._sessions.get(name)
        meant, guard = self._understand(session, call.call(session.servers), str(update.get("toolCallId")))
        if all(getattr(action, "name", None) == "think" for action in meant.actions):
            return
        told = {"event": "observed", "tool_call": update.get("toolCallId"), "editor_session": name}
        told["outcome"] = update.get("status")
        marks = {"refused_before": True} if call.asked else {"unasked": True}
        self._judging.let_pass(self._judging.judge(meant, guard, also={**told, **marks}))

    def meaning_of(self, wish: "Permission", session: "Session", call: "ToolCall") -> "tuple[Meaning, Guard]":
        """Return what a request for permission means, with all that was told before, and who judges it."""
        meant, guard = self._understand(session, call.with_request(wish.call, session.servers), wish.call_id)
        return self._with_earlier(meant, call, session, wish.call_id), guard

    def _with_earlier(self, meant: "Meaning", call: "ToolCall", session: "Session", name: str) -> "Meaning":
        """Return what a request means together with what was told before, where that was another command."""
        told = [action.command for action in meant.actions if isinstance(action, CommandAction)]
        if not told or not call.raw:
            return meant
        before, _guard = self._understand(session, call.call(session.servers), name)
        others = [each for each in before.actions if isinstance(each, CommandAction) and each.command not in told]
        if not others:
            return meant
        both: Meaning = meant.replace(
            actions=(*meant.actions, *others), understood=False, problem=meant.problem or _ANOTHER_COMMAND
        )
        return both
