"""What a user is told once in a session: that a grant reaches a place where secrets usually are."""

import os

from byleave.errors import StateError
from byleave.private import make_private_directory, read_private, write_private
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.core.sensitive import Sensitive

_LARGEST = 1 << 20


class Notices:
    """Remembers, in the session's own directory, what was pointed out already."""

    def __init__(self, sensitive: "Sensitive", directory: str) -> None:
        self._sensitive = sensitive
        self._path = os.path.join(directory, "noticed")
        self._told: set[str] | None = None

    def entry(self, place: str) -> str | None:
        """Return the entry of the list of sensitive places that covers an absolute path."""
        return self._sensitive.at(place)

    def once(self, entry: str, action: "Mapping[str, Any]") -> tuple[str, ...]:
        """Return the sentence about an action at a sensitive place, nothing if it was said in this session."""
        what = f"{action['kind']} {action.get('path', '')}"
        who = f"the tool {action['tool']}" if action.get("tool") else "an agent"
        about = f"{entry} {action.get('path', '')}"
        return self.say_once(about, f"{shown(who)} reaches a sensitive place ({shown(entry)}): {shown(what)}")

    def say_once(self, about: str, sentence: str) -> tuple[str, ...]:
        """Return the sentence unless something about the same was said in this session."""
        if self._told is None:
            self._told = self._load()
        if about in self._told:
            return ()
        self._told.add(about)
        self._save()
        return (sentence,)

    def _load(self) -> set[str]:
        try:
            content = read_private(self._path, limit=_LARGEST)
        except StateError:
            return set()
        return set((content or b"").decode("utf-8", "surrogateescape").splitlines())

    def _save(self) -> None:
        """Write down what was said; where that fails it is said again, which harms nobody."""
        lines = "".join(f"{line}\n" for line in sorted(self._told or ()))
        try:
            make_private_directory(os.path.dirname(self._path))
            write_private(self._path, lines.encode("utf-8", "surrogateescape"), durable=False)
        except (StateError, OSError):
            return
