"""Where a session's shell may stand by now.

Some agents keep one shell for all commands of a session, run `cd` without asking, and never say where a command would
run. So where an agent names no directory, a command is judged in every directory that an earlier one may have led to.
"""

import os

from byleave.config.homes import real_path
from byleave.core.action import CommandAction
from byleave.shell.reader import read_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.core.action import Action
    from byleave.translate.call import Meaning

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

    def hear(self, meant: "Meaning", call: str) -> None:
        """Note the commands of a call, if they run in the session's own shell and may move it."""
        for action in _at_large(meant):
            if action.command in self._moves:
                self._moves[action.command].add(call)
            elif len(self._moves) <= MOST_MOVES and _may_move(action.command):
                self._moves[action.command] = {call}

    def end(self, call: str) -> None:
        """Heed that a call has ended: agents may use its id again, for another one."""
        for calls in self._moves.values():
            if call in calls:
                calls.remove(call)
                calls.add(_ENDED)

    def spread(self, meant: "Meaning", call: str) -> "Meaning":
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
                lost: Meaning = meant.replace(understood=False, problem=meant.problem or LOST)
                return lost
            spread += [action if place is None else action.replace(cwd=place) for place in standing]
        everywhere: Meaning = meant.replace(actions=tuple(spread))
        return everywhere


def _reached(moves: "Sequence[str]", action: CommandAction) -> "Sequence[str] | None":
    """Return every directory that the moves may have led to, in any order and as often as may be.

    None if that cannot be told.
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


def _at_large(meant: "Meaning") -> list[CommandAction]:
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
