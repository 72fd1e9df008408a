"""The editor's sessions: where each works, and what its agent told about its tool calls."""

from collections import OrderedDict

from byleave.acp.calls import Calls
from byleave.acp.directories import Directories
from byleave.acp.envelope import decoded
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.acp.envelope import Envelope

MOST_SESSIONS = 1000
_MOST_ASKED = 1000
_OPENING = ("session/new", "session/load", "session/resume", "session/fork")
_NAMED_BEFORE = ("session/load", "session/resume")  # the editor names the session; for the others, the agent does
INITIALIZE = "initialize"
NEWEST = 1  # the version of the protocol that we know


class Session:
    """One session. `cwd` is None until the editor said where it works."""

    def __init__(self) -> None:
        self.cwd: str | None = None
        self.servers: tuple[str, ...] = ()  # MCP servers that the editor gave the agent, by name
        self.calls = Calls()
        self.directories = Directories()


class _Asked(Record):
    """A request of the editor whose answer we want to hear."""

    method: str
    params: "dict[str, Any]"


class Sessions:
    """Learns of sessions by listening to both sides; changes nothing of what they say."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._asked: OrderedDict[tuple[str, Any], _Asked] = OrderedDict()
        self.newer = False  # both sides have agreed on a version of the protocol that we do not know

    def get(self, name: str) -> Session:
        """Return a session by its name; one that nobody opened has no working directory."""
        session = self._known.get(name)
        if session is None:
            session = self._known[name] = Session()
            if len(self._known) > MOST_SESSIONS:
                self._known.popitem(last=False)
        self._known.move_to_end(name)
        return session

    def hear_editor(self, method: str, envelope: "Envelope") -> None:
        """Note what the editor opens."""
        if method not in _OPENING and method != INITIALIZE:
            return
        params = _params(envelope)
        if method in _NAMED_BEFORE:
            self._place(params.get("sessionId"), params)
        elif envelope.id is not None:
            self._asked[envelope.id] = _Asked(method, params)
            if len(self._asked) > _MOST_ASKED:
                self._asked.popitem(last=False)

    def hear_answer(self, envelope: "Envelope") -> None:
        """Note the agent's answer to what the editor opened."""
        asked = self._asked.pop(envelope.id, None) if self._asked and envelope.id is not None else None
        raw = envelope.members.get("result")
        result = decoded(raw) if asked is not None and raw is not None else None
        if asked is None or not isinstance(result, dict):
            return
        if asked.method == INITIALIZE:
            both = (asked.params.get("protocolVersion"), result.get("protocolVersion"))
            self.newer = all(isinstance(version, int) and version > NEWEST for version in both)
        else:
            self._place(result.get("sessionId"), asked.params)

    def _place(self, name: "Any", params: "dict[str, Any]") -> None:
        cwd = params.get("cwd")
        if isinstance(name, str) and isinstance(cwd, str) and cwd.startswith("/"):
            session = self.get(name)
            session.cwd = cwd
            session.servers = tuple(_names(params.get("mcpServers")))


def _names(servers: "Any") -> "Iterator[str]":
    for each in servers if isinstance(servers, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str) and each["name"]:
            yield each["name"]


def _params(envelope: "Envelope") -> "dict[str, Any]":
    raw = envelope.members.get("params")
    params = None if raw is None else decoded(raw)
    return params if isinstance(params, dict) else {}
