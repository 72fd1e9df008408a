"""The editor's sessions: where each works, and what its agent told about its tool calls."""

from collections import OrderedDict

from byleave.acp.calls import Calls
from byleave.acp.directories import Directories
from byleave.acp.envelope import decoded, decoded_somehow
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from byleave.acp.envelope import Envelope
    from byleave.acp.judging import Placed

MOST_SESSIONS = 1000
_MOST_ASKED = 1000
_OPENING = ("session/new", "session/load", "session/resume", "session/fork")
_NAMED_BEFORE = ("session/load", "session/resume")  # the editor names the session; for the others, the agent does
_TWICE = "the agent gave two sessions in different places the same name"
PROMPT = "session/prompt"


class Session:
    """One session. `cwd` and `placed` are None until the editor said where it works; from then on they stay.

    Whose policy holds is settled when the session is opened: an agent can make directories that look like a workspace.
    """

    def __init__(self) -> None:
        self.cwd: str | None = None
        self.placed: Placed | None = None
        self.servers: tuple[str, ...] = ()  # MCP servers that the editor gave the agent, by name
        self.is_replaying = False  # the agent tells what was long ago: the editor has loaded the session
        self.calls = Calls()
        self.directories = Directories()


class _Asked(Record):
    """A request of the editor whose answer we want to hear, and whose policy holds where it wants to work."""

    method: str
    params: "dict[str, Any]"
    placed: "Placed | None" = None


class Sessions:
    """Learns of sessions by listening to both sides; changes nothing of what they say."""

    def __init__(self, place: "Callable[[str], Placed]") -> None:
        self._place_at = place
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._asked: OrderedDict[tuple[str, Any], _Asked] = OrderedDict()

    def get(self, name: str) -> Session:
        """Return a session by its name. One that the editor has not opened is a stranger, and is not kept."""
        return self._known.get(name) or Session()

    def everyone(self) -> list[Session]:
        """Return all sessions that the editor has opened."""
        return list(self._known.values())

    def hear_editor(self, method: str, envelope: "Envelope") -> None:
        """Note what the editor opens."""
        if method not in (*_OPENING, PROMPT):
            return
        params = _params(envelope)
        cwd = params.get("cwd")
        placed = self._place_at(cwd) if isinstance(cwd, str) and cwd.startswith("/") else None
        if method in _NAMED_BEFORE:
            self._place(params.get("sessionId"), params, placed)
            self.get(str(params.get("sessionId"))).is_replaying = envelope.id is not None
        if envelope.id is not None:
            known = {"sessionId": params.get("sessionId")} if method in (PROMPT, *_NAMED_BEFORE) else params
            self._asked[envelope.id] = _Asked(method, known, placed)
            if len(self._asked) > _MOST_ASKED:
                self._asked.popitem(last=False)

    def hear_answer(self, envelope: "Envelope") -> None:
        """Note the agent's answer to what the editor opened."""
        asked = self._asked.pop(envelope.id, None) if self._asked and envelope.id is not None else None
        if asked is not None and asked.method in (PROMPT, *_NAMED_BEFORE):
            session = self.get(str(asked.params.get("sessionId")))
            session.calls.uncover()  # the turn is over, and what was allowed in it
            session.is_replaying = False
            return
        raw = envelope.members.get("result")
        result = decoded_somehow(raw) if asked is not None and raw is not None else None
        if asked is None or not isinstance(result, dict):
            return
        self._place(result.get("sessionId"), asked.params, asked.placed, by_agent=True)

    def _place(self, name: "Any", params: "dict[str, Any]", placed: "Placed | None", *, by_agent: bool = False) -> None:
        if not isinstance(name, str):
            return
        session = self._known.setdefault(name, Session())
        self._known.move_to_end(name)
        if len(self._known) > MOST_SESSIONS:
            self._known.popitem(last=False)
        if placed is not None and session.placed is not None and session.cwd != params["cwd"] and by_agent:
            placed = placed.replace(problem=_TWICE)
        if placed is not None:
            session.cwd, session.placed = params["cwd"], placed
            session.servers = tuple(_names(params.get("mcpServers")))


def _names(servers: "Any") -> "Iterator[str]":
    for each in servers if isinstance(servers, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str) and each["name"]:
            yield each["name"]


def _params(envelope: "Envelope") -> "dict[str, Any]":
    raw = envelope.members.get("params")
    params = None if raw is None else decoded(raw)
    return params if isinstance(params, dict) else {}
