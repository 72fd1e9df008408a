"""`byleave audit tail --ui`: decisions at the terminal as they come, filtered and paused by keys.

A bounded list of the newest records of this workspace. Nothing is changed here, and only a person can start it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.cli.live_screen import requires_screen, show_live
from byleave.cli.output import cut_to, paint
from byleave.cli.terminal import wrapped
from byleave.store.audit.wording import deciding_rule, said, text, what
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.store.audit.query import Filter
    from byleave.store.audit.table import StoredRecord
    from byleave.store.interfaces import RecordReader

MOST_RECORDS = 1000  # that are kept to be shown
_HELP = "d decision   a agent   s source   / text   p pause   c all   q end"
_LONGEST_TEXT = 100  # characters of a text that is looked for
_ENTER, _DELETE = ("\r", "\n"), ("\x7f", "\b")
_OF: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "d": ("decision", said),
    "a": ("agent", lambda tree: text(tree.get("agent")) or "-"),
    "s": ("source", lambda tree: text(tree.get("door"))),
}


def show_records(
    given: ParsedArguments, log: RecordReader, selected: Filter, line: Callable[[StoredRecord], str]
) -> int:
    """Show records until the person ends it; `line` makes the row of one."""
    requires_screen(given)
    show_live(RecordScreen(log, selected, line))
    return 0


class RecordScreen:
    """What the terminal shows: the newest records that the filters let through, the last one at the bottom."""

    about = "records"  # nothing is answered here

    def __init__(self, log: RecordReader, selected: Filter, line: Callable[[StoredRecord], str]) -> None:
        self._log = log
        self._selected = structs.replace(selected, limit=MOST_RECORDS)
        self._line = line
        self._records: deque[StoredRecord] = deque(maxlen=MOST_RECORDS)
        self._last = 0
        self._filters: dict[str, str] = {}
        self._text = ""
        self._paused = False
        self.is_typing = False

    def look(self) -> None:
        """Read what is new, unless it is paused."""
        if self._paused:
            return
        head = self._log.head().sequence
        if head > self._last:
            self._records.extend(self._log.query(structs.replace(self._selected, after=self._last)))
            self._last = head

    def take(self, key: str, *, read: bool) -> None:  # noqa: ARG002 -- nothing is answered here
        """Take a key: a filter, a letter of the text, or a pause."""
        if self.is_typing:
            self._type(key)
        elif key == "p":
            self._paused = not self._paused
        elif key == "/":
            self.is_typing, self._text = True, ""
        elif key == "c":
            self._filters, self._text = {}, ""
        elif key in _OF:
            self._next(*_OF[key])

    def _type(self, key: str) -> None:
        if key in _ENTER:
            self.is_typing = False
        elif key in _DELETE:
            self._text = self._text[:-1]
        elif key.isprintable():
            self._text = f"{self._text}{key}"[:_LONGEST_TEXT]

    def _next(self, name: str, value_of: Callable[[dict[str, Any]], str]) -> None:
        """Filter by the next of the values that there are; after the last one by none."""
        values = sorted({value_of(kept.tree) for kept in self._records})
        later = [value for value in values if name not in self._filters or value > self._filters[name]]
        if later:
            self._filters[name] = later[0]
        else:
            self._filters.pop(name, None)

    def rows(self, columns: int, rows: int) -> list[str]:
        """Return a head, and as many of the newest records as there is room for."""
        width = columns - 1
        found = [kept for kept in self._records if self._lets(kept.tree)]
        named = [f"{name} {shown(value)}" for name, value in self._filters.items()]
        named += [f"text {shown(self._text)}{'_' if self.is_typing else ''}"] if self._text or self.is_typing else []
        state = f"paused, {max(0, self._log.head().sequence - self._last)} new" if self._paused else "live"
        head = f"byleave: {len(found)} of {len(self._records)} records, {state}{''.join(f', {one}' for one in named)}"
        lines = [cut_to(head, width), *[paint(row, "dim") for row in wrapped(_HELP, width)], ""]
        room = max(0, rows - 1 - len(lines))
        return [*lines, *[self._line(kept) for kept in found[-room:] if room]]

    def _lets(self, tree: dict[str, Any]) -> bool:
        for name, value_of in _OF.values():
            if name in self._filters and value_of(tree) != self._filters[name]:
                return False
        looked_for = self._text.casefold()
        rule, source = deciding_rule(tree) if looked_for else ("", "")
        fields = (what(tree), rule, source, text(tree.get("agent")), text(tree.get("door"))) if looked_for else ()
        return not looked_for or any(looked_for in field.casefold() for field in fields)
