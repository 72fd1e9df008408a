"""What was found out about a call so far: its actions, where they were found, and what stays doubtful."""

from byleave.core.action import CallAction
from byleave.translate.call import Meaning
from byleave.translate.told import MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from byleave.core.action import Action

_MOST_SOURCES = 8


class Found:
    """Gathers the meaning of one call. An action that was found twice counts once."""

    def __init__(self) -> None:
        self._actions: dict[object, Action] = {}
        self._sources: dict[str, dict[str, None]] = {}
        self.problem = ""
        self.is_full = False

    def __bool__(self) -> bool:
        return bool(self._actions)

    def add(self, action: "Action") -> None:
        """Add an action; too many of them are not understood."""
        key = CallAction if isinstance(action, CallAction) else action  # there is but one, and it may not be hashable
        if key not in self._actions and len(self._actions) >= MOST:
            self.doubt(f"it amounts to more than {MOST} actions")
            self.is_full = True
            return
        self._actions.setdefault(key, action)

    def doubt(self, problem: str) -> None:
        """Note why it cannot be told what would be done, or not all of it; the first reason is told."""
        self.problem = self.problem or problem

    def doubt_all(self, problems: "Iterable[str]") -> None:
        for problem in problems:
            self.doubt(problem)

    def note(self, field: str, source: str) -> None:
        """Note where a field was found."""
        places = self._sources.setdefault(field, {})
        if len(places) < _MOST_SOURCES:
            places[source] = None

    def meaning(self) -> Meaning:
        sources = {field: ", ".join(places) for field, places in self._sources.items()}
        return Meaning(tuple(self._actions.values()), sources, not self.problem, self.problem)
