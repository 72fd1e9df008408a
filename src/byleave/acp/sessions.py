"""The editor's sessions: where each works, and what its agent reported about its tool calls.

Some agents keep one shell for all commands of a session, run `cd` without asking, and never say where a command would
run. So where an agent names no directory, a command is evaluated in every directory that an earlier one may have
changed to.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.acp.tracked_calls import TrackedCalls
from byleave.acp.unreadable_lines import decoded_somehow, opened
from byleave.core.action import CommandAction
from byleave.policy.dirs import real_path
from byleave.shell.reader import read_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from byleave.acp.authorize import Placed
    from byleave.core.action import Action
    from byleave.protocol.jsonrpc import Envelope, Id
    from byleave.translate.call import Translation


MOST_MOVES = 32
MOST_DIRECTORIES = 16
LOST = "an earlier command may have changed the directory that this one would run in"
_MOVERS = frozenset({"cd", "pushd", "popd", "chdir", "source", ".", "eval", "exec", "builtin", "command"})
_MARKS = str.maketrans(dict.fromkeys("\"'`\\", None) | dict.fromkeys(";|&(){}<>$\t\n", " "))
_HERE = (".",)
_ENDED = ""  # stands for every call that has ended


class Directories:
    """The commands of one session that may have moved its shell, with the calls they belong to, run or not."""

    def __init__(self) -> None:
        self._moves: dict[str, set[str]] = {}

    def hear(self, meant: Translation, call: str) -> None:
        """Note the commands of a call, if they run in the session's own shell and may move it."""
        for action in _at_large(meant):
            if action.command in self._moves:
                self._moves[action.command].add(call)
            elif len(self._moves) <= MOST_MOVES and _may_move(action.command):
                self._moves[action.command] = {call}

    def end(self, call: str) -> None:
        """Note that a call has ended: agents may use its id again, for another one."""
        for calls in self._moves.values():
            if call in calls:
                calls.remove(call)
                calls.add(_ENDED)

    def spread(self, meant: Translation, call: str) -> Translation:
        """Return what a call means in every directory where other calls may have left the session's shell."""
        at_large = _at_large(meant)
        own = {action.command for action in at_large}
        moves = [text for text, calls in self._moves.items() if calls != {call} or text not in own]
        if not moves or not at_large:
            return meant
        spread: list[Action] = []
        for action in meant.actions:
            standing = _reached(moves, action) if action in at_large and isinstance(action, CommandAction) else (None,)
            if standing is None:
                return meant.replace(understood=False, problem=meant.problem or LOST)
            spread += [action if place is None else action.replace(cwd=place) for place in standing]
        return meant.replace(actions=tuple(spread))


def _reached(moves: Sequence[str], action: CommandAction) -> Sequence[str] | None:
    """Return every directory that the moves may have led to, in any order and as often as may be.

    None if that is unknown.
    """
    places = [_places_after(move) for move in moves]
    if len(moves) > MOST_MOVES or action.cwd is None or None in places:
        return None
    led = dict.fromkeys(place for each in places for place in each or () if place != ".")
    reached = {action.cwd: None}
    before = 0
    while before != len(reached) <= MOST_DIRECTORIES:
        before = len(reached)
        reached |= dict.fromkeys(way for start in list(reached) for place in led for way in _ways(start, place))
    return tuple(reached) if len(reached) <= MOST_DIRECTORIES else None


def _ways(start: str, place: str) -> list[str]:
    """Return where `cd` leads: bash takes `..` away from the name it came by, others from where they really are."""
    path = os.path.join(start, place)
    return [way for way in dict.fromkeys((os.path.normpath(path), real_path(path))) if os.path.isdir(way)]


def _at_large(meant: Translation) -> list[CommandAction]:
    """Return the commands of a call whose directory the agent did not name."""
    if meant.sources.get("cwd") != "session":
        return []
    return [action for action in meant.actions if isinstance(action, CommandAction)]


def _may_move(command: str) -> bool:
    if not read_command(command).understood:  # a person has to allow it, and can read it: a word is enough
        return not _MOVERS.isdisjoint(command.translate(_MARKS).split())
    return _places_after(command) != _HERE


def _places_after(command: str) -> tuple[str, ...] | None:
    """Return where a shell may stand after a command, from where it stood: where another one behind it would run."""
    reading = read_command(f"{command}\n:")
    return reading.commands[-1].places if reading.understood and reading.commands else None


MOST_SESSIONS = 1000
_MOST_ASKED = 1000
_OPENING = ("session/new", "session/load", "session/resume", "session/fork")
_NAMED_BEFORE = ("session/load", "session/resume")  # the editor names the session; for the others, the agent does
_TWICE = "the agent gave two sessions in different places the same name"
PROMPT = "session/prompt"
HEARD = (*_OPENING, PROMPT)  # what of the editor's messages is noted


class AcpSession:
    """One session. `cwd` and `placed` are None until the editor said where it works; from then on they stay.

    Whose policy holds is settled when the session is opened: an agent can make directories that look like a workspace.
    """

    def __init__(self) -> None:
        self.cwd: str | None = None
        self.placed: Placed | None = None
        self.servers: tuple[str, ...] = ()  # MCP servers that the editor gave the agent, by name
        self.is_replaying = False  # the agent reports what was long ago: the editor has loaded the session
        self.calls = TrackedCalls()
        self.directories = Directories()


class _Asked(Struct, frozen=True):
    """A request of the editor whose answer we want to hear, and whose policy holds where it wants to work."""

    method: str
    params: dict[str, Any]
    placed: Placed | None = None


class AcpSessions:
    """Learns of sessions by listening to both sides; changes nothing of what they say."""

    def __init__(self, place: Callable[[str], Placed]) -> None:
        self._place_at = place
        self._known: OrderedDict[str, AcpSession] = OrderedDict()
        self._asked: OrderedDict[Id, _Asked] = OrderedDict()

    def get(self, name: str) -> AcpSession:
        """Return a session by its name. One that the editor has not opened is a stranger, and is not kept."""
        return self._known.get(name) or AcpSession()

    def everyone(self) -> list[AcpSession]:
        """Return all sessions that the editor has opened."""
        return list(self._known.values())

    def hear_editor(self, method: str, envelope: Envelope) -> None:
        """Note what the editor opens."""
        if method not in HEARD:
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

    def hear_answer(self, envelope: Envelope) -> None:
        """Note the agent's answer to what the editor opened."""
        asked = self._asked.pop(envelope.id, None) if self._asked and envelope.id is not None else None
        if asked is not None and asked.method in (PROMPT, *_NAMED_BEFORE):
            session = self.get(str(asked.params.get("sessionId")))
            session.calls.uncover()  # the turn is over, and what was allowed in it
            session.is_replaying = False
            return
        raw = envelope.result
        result = decoded_somehow(raw) if asked is not None and raw is not None else None
        if asked is None or not isinstance(result, dict):
            return
        self._place(result.get("sessionId"), asked.params, asked.placed, by_agent=True)

    def _place(self, name: Any, params: dict[str, Any], placed: Placed | None, *, by_agent: bool = False) -> None:
        if not isinstance(name, str):
            return
        session = self._known.setdefault(name, AcpSession())
        self._known.move_to_end(name)
        if len(self._known) > MOST_SESSIONS:
            self._known.popitem(last=False)
        if placed is not None and session.placed is not None and session.cwd != params["cwd"] and by_agent:
            placed = structs.replace(placed, problem=_TWICE)
        if placed is not None:
            session.cwd, session.placed = params["cwd"], placed
            session.servers = tuple(_names(params.get("mcpServers")))


def _names(servers: Any) -> Iterator[str]:
    for each in servers if isinstance(servers, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str) and each["name"]:
            yield each["name"]


def _params(envelope: Envelope) -> dict[str, Any]:
    params = opened(envelope.params)
    return params if isinstance(params, dict) else {}
