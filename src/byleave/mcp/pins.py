"""Tool definitions are pinned: what a server says of a tool must stay what it was when it was first used.

What a tool is called, what it says of itself and what it takes is what a model acts on; a server that changes it later
has got a yes for something else. The first definition of a tool counts as approved; a changed one hides the tool until
a person has seen the difference and approved it. New tools of a known server are recorded and served.

Two tools of one name in a listing are both left out: nobody could say which of them was meant. So are two whose names
are one name written in two ways (Unicode normalisation). Definitions themselves are compared as they are written,
whatever they look like.

Start at `Pins.sort`, for listings; calls ask `Pins.holds`.
"""

import json
from collections import Counter
from threading import Lock
from time import monotonic
from unicodedata import is_normalized, normalize

from byleave.approvals.definitions import Definition
from byleave.approvals.store import APPROVED, TOOL_DEFINITION, Approval, now
from byleave.errors import StateError
from byleave.private import digest
from byleave.record import Record
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from byleave.approvals.definitions import Pin
    from byleave.approvals.store import Approvals

    Tool = dict[str, Any]

PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
LARGEST = 256 << 10  # characters of one definition: more than a person can be asked about
_LOOK_AGAIN = 0.25  # seconds after which a person's answer is noticed, at most
_PAUSE = 2.0  # seconds between two writes that only replace what waits: a server may change its mind all the time
_LONGEST_ROW = 160  # characters of a difference in one line
_MOST_NAMED = 8
_UNRECORDED = "it could not be recorded"


class Changed(Record):
    """A tool that is hidden: its definition is not the approved one, or was revoked. `id` is what to approve."""

    name: str
    old: str
    new: str
    id: str


class LeftOut(Record):
    """A tool of a listing that nobody can use, and why: a sentence for people."""

    name: str
    why: str


class Sorted(Record):
    """The tools of one listing: those that hold, those that have changed, those that are no tools we could serve."""

    shown: "list[Tool]"
    hidden: list[Changed]
    left_out: list[LeftOut]


def canonical(tool: "Mapping[str, Any]") -> str:
    """Return all that is pinned of a tool as JSON in one form only; a field that is null is as good as absent.

    A ValueError or RecursionError if it is no JSON that can be kept.
    """
    pinned = {name: tool[name] for name in PINNED if tool.get(name) is not None}
    return json.dumps(pinned, sort_keys=True, separators=(",", ":"), allow_nan=False)


def define(tool: "Mapping[str, Any]") -> Definition:
    """Return the definition of a tool, to be compared and recorded."""
    text = canonical(tool)
    return Definition(tool["name"], digest(text.encode()), text)


def pinned_hash(tool: "Mapping[str, Any]") -> str:
    """Return the hash of a tool's definition; empty, which nobody can have approved, if it cannot be read."""
    try:
        return define(tool).sha256
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


class Pins:
    """The pinned tools of all servers of one gateway. Any thread may ask."""

    def __init__(
        self,
        approvals: "Approvals",
        *,
        now: "Callable[[], str]" = now,
        clock: "Callable[[], float]" = monotonic,
    ) -> None:
        self._definitions = approvals.definitions
        self._now = now
        self._clock = clock
        self._lock = Lock()
        self._states: dict[str, _State] = {}

    def sort(self, server: str, tools: "Sequence[Any]") -> Sorted:
        """Sort the tools that a server lists, and record what is new of them, in one write for all.

        It may write a file, and wait for another writer. What cannot be recorded is not served.
        """
        found, left_out = _read(tools)
        with self._lock:
            pins, problem = self._recorded(server, [definition for _tool, definition in found])
        shown_, hidden = [], []
        for tool, definition in found:
            pin = pins.get(definition.tool)
            if pin is None:
                left_out.append(LeftOut(definition.tool, problem or _UNRECORDED))
            elif _is_approved(pin, definition.sha256):
                shown_.append(tool)
            else:
                hidden.append(_changed(server, definition, pin))
        return Sorted(shown_, hidden, left_out)

    def holds(self, server: str, tool: "Mapping[str, Any]") -> bool:
        """Whether the definition of a tool, as it was listed last, is approved now. Nothing is recorded by asking."""
        name = tool.get("name")
        return isinstance(name, str) and self.approves(server, name, pinned_hash(tool))

    def approves(self, server: str, name: str, sha256: str) -> bool:
        """Whether the definition of a tool that has this hash is approved now."""
        try:
            pin = self._state(server).pins.get(name)
        except StateError:
            return False
        return pin is not None and _is_approved(pin, sha256)

    def stamp(self, server: str) -> int:
        """Return what changes whenever a person's answer has changed which of a server's tools are served.

        What servers do does not change it: they could have every client list everything again and again.
        """
        try:
            return self._state(server).answers
        except StateError:
            return 0

    def _recorded(self, server: str, seen: "list[Definition]") -> "tuple[Mapping[str, Pin], str]":
        """Return the pins with everything that is new among `seen`; and what went wrong, if something did."""
        pins: Mapping[str, Pin] = {}
        try:
            state = self._state(server, look=True)
            pins = state.pins
            soon = self._clock() < state.replaced + _PAUSE
            news = [each for each in seen if _is_news(pins.get(each.tool), each.sha256, soon=soon)]
            if any(_waits(pins.get(each.tool)) for each in news):
                state.replaced = self._clock()
            if news:
                self._definitions.record(server, news, now=self._now())
                pins = self._state(server, look=True).pins
        except StateError as error:
            return pins, str(error)
        return pins, ""

    def _state(self, server: str, *, look: bool = False) -> "_State":
        """Return what is recorded of a server, read again if the file has changed."""
        state = self._states.get(server)
        time = self._clock()
        if state is not None and not look and time < state.look_again:
            return state
        stamp = self._definitions.stamp(server)
        if state is None:
            state = self._states[server] = _State()
        if stamp != state.stamp:
            try:
                state.pins = self._definitions.of(server)
            except StateError:  # what cannot be read approves nothing
                state.pins = {}
                raise
            state.answers = _answers(state.pins)
            state.stamp = stamp
        state.look_again = time + _LOOK_AGAIN
        return state


class _State:
    """What was read of one server's file, and when it is looked at again."""

    def __init__(self) -> None:
        self.pins: Mapping[str, Pin] = {}
        self.stamp: tuple[int, ...] = ()
        self.answers = _answers({})
        self.look_again = 0.0
        self.replaced = float("-inf")  # when something that waits was last replaced by something else


def _read(tools: "Sequence[Any]") -> "tuple[list[tuple[Tool, Definition]], list[LeftOut]]":
    """Return the tools of a listing with their definitions, and those that cannot be told apart or read."""
    named = [tool for tool in tools if isinstance(tool, dict) and isinstance(tool.get("name"), str) and tool["name"]]
    left_out = [LeftOut("", "it has no name")] * (len(tools) - len(named))
    counted = Counter(_one_form(tool["name"]) for tool in named)
    found = []
    for tool in named:
        name = tool["name"]
        if counted[_one_form(name)] > 1:
            left_out.append(LeftOut(name, "the server lists it more than once"))
            continue
        try:
            definition = define(tool)
        except (ValueError, TypeError, RecursionError):
            left_out.append(LeftOut(name, "its definition cannot be read"))
            continue
        if len(definition.text) > LARGEST:
            left_out.append(LeftOut(name, f"its definition is longer than {LARGEST >> 10} kB"))
            continue
        found.append((tool, definition))
    return found, left_out


def _one_form(name: str) -> str:
    return name if is_normalized("NFKC", name) else normalize("NFKC", name)


def _is_approved(pin: "Pin", sha256: str) -> bool:
    return pin.known.sha256 == sha256 and pin.known.status == APPROVED


def _answers(pins: "Mapping[str, Pin]") -> int:
    decided = ((name, pin.known) for name, pin in pins.items() if pin.known.decided_at)
    return hash(frozenset((name, known.sha256, known.status, known.decided_at) for name, known in decided))


def _is_news(pin: "Pin | None", sha256: str, *, soon: bool) -> bool:
    """Whether a definition is to be recorded; so soon after another one, not in the place of what waits already."""
    if pin is None:
        return True
    known = sha256 in (pin.known.sha256, pin.changed.sha256 if pin.changed else "")
    return not known and not (soon and _waits(pin))


def _waits(pin: "Pin | None") -> bool:
    return pin is not None and pin.changed is not None


def _changed(server: str, seen: Definition, pin: "Pin") -> Changed:
    """Return what is hidden; where too much changes at a time, the id is of what waits, and not of what was seen."""
    waiting = pin.known if seen.sha256 == pin.known.sha256 or pin.changed is None else pin.changed
    detail = {"server": server, "tool": seen.tool, "sha256": waiting.sha256}
    id_ = Approval(TOOL_DEFINITION, waiting.status, "", "", detail).id
    return Changed(seen.tool, pin.known.text, seen.text, id_)


def changed_fields(old: str, new: str) -> "list[str]":
    """Return the fields in which two definitions differ."""
    before, after = json.loads(old), json.loads(new)
    return [name for name in PINNED if before.get(name) != after.get(name)]


def difference(old: str, new: str, *, most: int = 400) -> "list[str]":
    """Return how two definitions differ, in lines for people; characters that they may not notice are named."""
    from difflib import unified_diff

    before, after = list(_rows(old)), list(_rows(new))
    lines = [line for line in unified_diff(before, after, lineterm="", n=2) if line[:3] not in ("---", "+++")]
    cut = len(lines) - most
    lines = [line if line[:2] != "@@" else "  ..." for line in lines[:most]]
    if cut > 0:
        lines.append(f"... and {cut} lines more: `byleave approvals list --json` has all of it")
    return [*lines, *_new_characters(before, after)]


def _rows(text: str) -> "Iterator[str]":
    """Yield a definition in rows that can be read and compared: every text line by line, nothing cut."""
    for name, value in json.loads(text).items():
        written = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        for line in written.split("\n"):
            row = f"{name}: {shown(line)}"
            for start in range(0, len(row), _LONGEST_ROW):
                yield row[start : start + _LONGEST_ROW]


def _new_characters(before: "list[str]", after: "list[str]") -> "Iterator[str]":
    """Name the characters beyond ASCII that were not there before: some look like others."""
    from unicodedata import name

    found = sorted({char for char in "".join(after) if not char.isascii()} - set("".join(before)))
    for char in found[:_MOST_NAMED]:
        yield f"note: the new one holds {quoted(char)}, U+{ord(char):04X} {name(char, 'without a name')}"
    if len(found) > _MOST_NAMED:
        yield f"note: and {len(found) - _MOST_NAMED} other characters that the old one did not hold"
