"""Definitions are pinned: what a server says of a tool must stay what it was when it was first used.

What a tool is called, what it says of itself and what it takes is what a model acts on; a server that changes it later
has got a yes for something else. The same holds for prompts, resource templates and a server's instructions. All that
clients are shown of them is pinned. The first definition counts as approved; a changed one is hidden until a person
has seen the difference and approved it. New tools of a known server are recorded and served, or wait, as `new_tools`
says. A definition that holds characters which no reader sees, or a name that is not plain, waits for a person from the
start.

Single resources are not pinned: a list of files changes with every file.

Two tools of one name in a listing are both left out: it is not known which of them is meant. So are two whose names
are one name written in two ways (Unicode normalisation). Definitions themselves are compared as they are written,
whatever they look like.

Start at `Pins.judge`, for listings; calls ask `Pins.approves`.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from difflib import unified_diff
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING
from unicodedata import is_normalized, normalize

from msgspec import Struct

from byleave.errors import StateError
from byleave.store.approvals import APPROVED, PENDING, TOOL_DEFINITION, Approval, definition_detail, now
from byleave.store.tool_definitions import INSTRUCTIONS, PROMPT, TEMPLATE, TOOL, Definition, ServerDefinitions
from byleave.text import hidden_in, quoted, shown
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from byleave.store.interfaces import ApprovalStore
    from byleave.store.tool_definitions import Pin

    Tool = dict[str, Any]

_SHOWN = ("title", "description", "icons", "_meta", "annotations")
PINNED: Mapping[str, tuple[str, ...]] = {
    TOOL: ("name", *_SHOWN, "inputSchema", "outputSchema", "execution"),
    PROMPT: ("name", *_SHOWN, "arguments"),
    TEMPLATE: ("uriTemplate", "name", *_SHOWN, "mimeType"),
    INSTRUCTIONS: ("name", "instructions"),
}
_FORM_1 = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations"})
_KEYS = {TEMPLATE: "uriTemplate"}  # the member that names one, where that is not `name`
LARGEST = 256 << 10  # characters of one definition: more than a person can be asked about
_LOOK_AGAIN = 0.25  # seconds after which a person's answer is noticed, at most
_PAUSE = 2.0  # seconds between two writes that only replace what waits: a server may change its mind all the time
_MOST_RESULTS = (
    4  # listings of one kind and server that are remembered: one that lists other things to other agents has more
)
_LONGEST_ROW = 160  # characters of a difference in one line
_MOST_NAMED = 8
_UNRECORDED = "it could not be recorded"
UNREAD = "its definition cannot be read"
HAS_CHANGED, IS_NEW, WAS_REVOKED = "has changed", "is new here", "was revoked"


class ChangedDefinition(Struct, frozen=True):
    """What is hidden: its definition is not approved. `id` is what to approve; `why` goes on from "its definition"."""

    name: str
    old: str
    new: str
    id: str
    why: str = HAS_CHANGED


class LeftOut(Struct, frozen=True):
    """Something of a listing that cannot be used, and why: a sentence for people."""

    name: str
    why: str


class Sorted(Struct, frozen=True):
    """The tools of one listing: those that hold, those that have changed, those that are no tools we could serve."""

    shown: list[Tool]
    hidden: list[ChangedDefinition]
    left_out: list[LeftOut]


class PinResult(Struct, frozen=True):
    """What became of the definitions of one listing: the names of those that hold, those that are hidden, the rest."""

    approved: frozenset[str]
    hidden: tuple[ChangedDefinition, ...]
    left_out: tuple[LeftOut, ...]


def canonical(tree: Mapping[str, Any], what: str = TOOL) -> str:
    """Return all that is pinned as JSON in one form only; a field that is null is as good as absent.

    A ValueError or RecursionError if it is no JSON that can be kept.
    """
    return text_of_tree({name: tree[name] for name in PINNED[what] if tree.get(name) is not None})


def text_of_tree(tree: Mapping[str, Any]) -> str:
    """Return a tree as JSON in one form only."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False)


def define(tree: Mapping[str, Any], what: str = TOOL) -> Definition:
    """Return a definition, to be compared and recorded. Errors as those of `canonical`."""
    name, text = tree[_KEYS.get(what, "name")], canonical(tree, what)
    earlier = ""
    if what == TOOL:
        sha256 = digest(text.encode())
        newer = [key for key in PINNED[TOOL] if key not in _FORM_1 and tree.get(key) is not None]
        earlier = sha256 if not newer else digest(canonical(_without(tree, newer)).encode())
    else:  # no definition of one kind passes for one of another
        sha256 = digest(f"{what} {text}".encode())
    return Definition(name, sha256, text, earlier, _asks(name, text, what))


def _without(tree: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in names}


def _asks(name: str, text: str, what: str) -> str:
    """Return why a person has to see a definition before its first use; empty if none has to."""
    if what in (TOOL, PROMPT) and not (name.isascii() and name.isprintable() and " " not in name):
        return "has a name that is not plain ASCII"
    return "holds characters that are not seen" if hidden_characters(text) else ""


def hidden_characters(text: str) -> list[str]:
    """Return the characters in a canonical definition that no reader sees, each once."""
    if not any(sign in text for sign in _SIGNS):
        return []
    found: dict[str, None] = {}
    waiting = [json.loads(text)]
    for tree in waiting:  # which grows meanwhile
        if isinstance(tree, str):
            found |= dict.fromkeys(hidden_in(tree))
        elif isinstance(tree, dict):
            waiting += [*tree.keys(), *tree.values()]
        elif isinstance(tree, list):
            waiting += tree
    return sorted(found)


_SIGNS = ("\\u", "\\b", "\\f", "\\r", "\x7f")  # of anything but plain ASCII in canonical JSON


def named_characters(chars: Iterable[str]) -> list[str]:
    """Return characters as people look them up."""
    return [f"U+{ord(char):04X} {unicodedata.name(char, 'without a name')}" for char in chars]


def pinned_hash(tool: Mapping[str, Any]) -> str:
    """Return the hash of a tool's definition; empty, which cannot be approved, if it cannot be read."""
    try:
        return define(tool).sha256
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


class Pins:
    """The pinned definitions of all servers of one gateway. Any thread may ask."""

    def __init__(
        self,
        approvals: ApprovalStore,
        *,
        asks_new: Callable[[], bool] = lambda: False,
        now: Callable[[], str] = now,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`asks_new`: whether what a known server has never listed before waits for a person."""
        self._definitions = approvals.definitions
        self._workspace = approvals.workspace_id
        self.store_may_wait = approvals.may_wait
        self._asks_new = asks_new
        self._now = now
        self._clock = clock
        self._lock = Lock()
        self._states: dict[str, _State] = {}

    def sort(self, server: str, tools: Sequence[Any], what: str = TOOL) -> Sorted:
        """Sort what a server lists, and record what is new of it, as `judge` does."""
        found, left_out = read_definitions(tools, what)
        result = self.evaluate(server, tuple(definition for _tool, definition in found), what)
        shown_ = [tool for tool, definition in found if definition.tool in result.approved]
        return Sorted(shown_, list(result.hidden), [*left_out, *result.left_out])

    def evaluate(self, server: str, seen: tuple[Definition, ...], what: str = TOOL) -> PinResult:
        """Evaluate the definitions of one listing, and record what is new of them, in one write for all.

        It may write a file, and wait for another writer. What cannot be recorded is not served.
        """
        with self._lock:
            pins, stamp, problem = self._recorded(server, seen, what)
        approved, hidden, left_out, is_settled = set(), [], [], not problem
        for definition in seen:
            pin = pins.get(definition.tool)
            if pin is None:
                is_settled = False
                left_out.append(LeftOut(definition.tool, problem or _UNRECORDED))
            elif _is_approved(pin, definition.sha256):
                approved.add(definition.tool)
            else:
                hidden.append(_changed(server, what, definition, pin, self._workspace))
                is_settled = is_settled and _is_recorded(pin, definition)
        result = PinResult(frozenset(approved), tuple(hidden), tuple(left_out))
        with self._lock:
            state = self._states.get(server)
            if state is not None and is_settled:  # by the stamp of what was looked at: it may be another one by now
                state.results[what] = [*state.results.get(what, [])[-_MOST_RESULTS + 1 :], (seen, stamp, result)]
        return result

    def known(self, server: str, seen: tuple[Definition, ...], what: str = TOOL) -> PinResult | None:
        """Return the result for these very definitions, if nothing is recorded since; None if `evaluate` must look."""
        try:
            state = self._state(server, look=True)
        except StateError:
            return None
        for known, stamp, result in state.results.get(what, ()):
            if known is seen and stamp == state.stamp:
                return result
        return None

    def holds(self, server: str, tool: Mapping[str, Any]) -> bool:
        """Whether the definition of a tool, as it was listed last, is approved now. Nothing is recorded by asking."""
        name = tool.get("name")
        return isinstance(name, str) and self.approves(server, name, pinned_hash(tool))

    def may_wait(self, server: str) -> bool:
        """Whether the next question about a server may take seconds: a thread asks it then."""
        state = self._states.get(server)
        return self.store_may_wait and (state is None or self._clock() >= state.look_again)

    def approves(self, server: str, name: str, sha256: str, what: str = TOOL) -> bool:
        """Whether the definition that has this hash is approved now."""
        try:
            pin = self._state(server).kept.pins[what].get(name)
        except StateError:
            return False
        return pin is not None and _is_approved(pin, sha256)

    def stamp(self, server: str) -> int:
        """Return what changes whenever a person's answer has changed what of a server is served.

        What servers do does not change it: they could have every client list everything again and again.
        """
        try:
            return self._state(server).answers
        except StateError:
            return 0

    def _recorded(
        self, server: str, seen: Sequence[Definition], what: str
    ) -> tuple[Mapping[str, Pin], tuple[int, ...], str]:
        """Return the pins with everything that is new among `seen`, their stamp, and what went wrong, if something did.

        The stamp is taken first: another thread may read the file in between, and older pins never pass for newer.
        """
        pins: Mapping[str, Pin] = {}
        stamp: tuple[int, ...] = ()
        try:
            state = self._state(server, look=True)
            stamp, asks_new = state.stamp, self._asks_new()
            pins = state.kept.pins[what]
            soon = self._clock() < state.replaced + _PAUSE
            news = [each for each in seen if _is_news(pins.get(each.tool), each, soon=soon)]
            if any(_waits(pins.get(each.tool)) for each in news):
                state.replaced = self._clock()
            if news or what not in state.kept.listed:  # that it was listed, were it empty: what is added later is new
                self._definitions.record(server, news, now=self._now(), what=what, asks_new=asks_new)
                state = self._state(server, look=True)
                stamp = state.stamp
                pins = state.kept.pins[what]
        except StateError as error:
            return pins, stamp, str(error)
        return pins, stamp, ""

    def _state(self, server: str, *, look: bool = False) -> _State:
        """Return what is recorded of a server, read again if the file has changed."""
        state = self._states.get(server)
        time = self._clock()
        if state is not None and not look and time < state.look_again:
            return state
        stamp = self._definitions.stamp(server)
        if state is None or stamp != state.stamp:
            # Exchanged as one: no other thread puts older definitions under a newer stamp.
            replaced = _LONG_AGO if state is None else state.replaced
            try:
                kept = self._definitions.of(server)
            except StateError:  # what cannot be read approves nothing
                self._states[server] = _State(_NOTHING, (), replaced)
                raise
            state = self._states[server] = _State(kept, stamp, replaced)
        state.look_again = time + _LOOK_AGAIN
        return state


_LONG_AGO = float("-inf")
_NOTHING = ServerDefinitions({what: {} for what in PINNED}, frozenset())


class _State:
    """What was read of one server's file, and when it is looked at again."""

    def __init__(self, kept: ServerDefinitions, stamp: tuple[int, ...], replaced: float) -> None:
        self.kept = kept
        self.stamp = stamp
        self.answers = _answers(kept)
        self.results: dict[str, list[tuple[tuple[Definition, ...], tuple[int, ...], PinResult]]] = {}
        self.look_again = 0.0
        self.replaced = replaced  # when something that waits was last replaced by something else


def read_definitions(tools: Sequence[Any], what: str = TOOL) -> tuple[list[tuple[Tool, Definition]], list[LeftOut]]:
    """Return what a listing holds with its definitions, and what cannot be read, or has the name of another."""
    key = _KEYS.get(what, "name")
    named = [tool for tool in tools if isinstance(tool, dict) and isinstance(tool.get(key), str) and tool[key]]
    left_out = [LeftOut("", "it has no name")] * (len(tools) - len(named))
    twice = repeated(tool[key] for tool in named)
    found = []
    for tool in named:
        name = tool[key]
        if one_form(name) in twice:
            left_out.append(LeftOut(name, TWICE))
            continue
        definition = defined(tool, what)
        if isinstance(definition, LeftOut):
            left_out.append(definition)
        else:
            found.append((tool, definition))
    return found, left_out


def defined(tree: Mapping[str, Any], what: str = TOOL) -> Definition | LeftOut:
    """Return a definition, or why there is none that a person could approve."""
    name = tree[_KEYS.get(what, "name")]
    try:
        definition = define(tree, what)
    except (ValueError, TypeError, RecursionError):
        return LeftOut(name, UNREAD)
    if len(definition.text) > LARGEST:
        return LeftOut(name, f"its definition is longer than {LARGEST >> 10} kB")
    return definition


TWICE = "the server lists it more than once"


def repeated(names: Iterable[str]) -> set[str]:
    """Return the names, in one form of Unicode, that occur more than once."""
    return {name for name, count in Counter(map(one_form, names)).items() if count > 1}


def one_form(name: str) -> str:
    """Return a name in the form in which two spellings of it are one."""
    return name if name.isascii() or is_normalized("NFKC", name) else normalize("NFKC", name)


def _is_approved(pin: Pin, sha256: str) -> bool:
    return pin.known.sha256 == sha256 and pin.known.status == APPROVED


def _answers(kept: ServerDefinitions) -> int:
    return hash(
        frozenset(
            (what, name, pin.known.sha256, pin.known.status, pin.known.decided_at)
            for what, pins in kept.pins.items()
            for name, pin in pins.items()
            if pin.known.decided_at
        )
    )


def _is_news(pin: Pin | None, seen: Definition, *, soon: bool) -> bool:
    """Whether a definition is to be recorded; so soon after another one, not in the place of what waits already."""
    if pin is None:
        return True
    for known in (pin.known, pin.changed):
        if known is not None and known.is_of(seen):
            return known.is_earlier_of(seen)
    return not (soon and _waits(pin))


def _is_recorded(pin: Pin, seen: Definition) -> bool:
    return any(known is not None and known.sha256 == seen.sha256 for known in (pin.known, pin.changed))


def _waits(pin: Pin | None) -> bool:
    return pin is not None and (pin.changed is not None or pin.known.status == PENDING)


def _changed(server: str, what: str, seen: Definition, pin: Pin, workspace: str) -> ChangedDefinition:
    """Return what is hidden; where too much changes at a time, the id is of what waits, and not of what was seen."""
    is_known = seen.sha256 == pin.known.sha256
    waiting = pin.known if is_known or pin.changed is None else pin.changed
    detail = definition_detail(server, what, seen.tool, waiting.sha256, workspace)
    id_ = Approval(TOOL_DEFINITION, waiting.status, "", "", detail).id
    if pin.known.status == PENDING:
        return ChangedDefinition(seen.tool, "", seen.text, id_, seen.asks or IS_NEW)
    return ChangedDefinition(seen.tool, pin.known.text, seen.text, id_, WAS_REVOKED if is_known else HAS_CHANGED)


def changed_fields(old: str, new: str) -> list[str]:
    """Return the fields in which two definitions differ."""
    before, after = json.loads(old or "{}"), json.loads(new)
    members = dict.fromkeys(name for names in PINNED.values() for name in names)
    return [name for name in members if _differ(before.get(name), after.get(name))]


def _differ(before: Any, after: Any) -> bool:
    """Whether two values are written otherwise: to Python 1, 1.0 and True are one."""
    return json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)


def difference(old: str, new: str, *, most: int = 400) -> list[str]:
    """Return how two definitions differ, in lines for people; characters that they may not notice are named."""
    before, after = list(rows(old)) if old else [], list(rows(new))
    lines = list(unified_diff(before, after, lineterm="", n=2))[2:]  # by number: a row may begin with dashes, too
    cut = len(lines) - most
    lines = [line if line[:2] != "@@" else "  ..." for line in lines[:most]]
    if cut > 0:
        lines.append(f"... and {cut} lines more: `byleave approvals list --json` has all of it")
    unseen = set(hidden_characters(new)) - set(hidden_characters(old or "{}"))
    notes = [
        f"note: the new one holds a character that is not seen, {each}" for each in named_characters(sorted(unseen))
    ]
    return [*lines, *notes, *_new_characters(before, after)]


def rows(text: str) -> Iterator[str]:
    """Yield a definition in rows that can be read and compared: every text line by line, nothing cut."""
    for name, value in json.loads(text).items():
        written = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        for line in written.split("\n"):
            row = f"{name}: {shown(line)}"
            for start in range(0, len(row), _LONGEST_ROW):
                yield row[start : start + _LONGEST_ROW]


def _new_characters(before: list[str], after: list[str]) -> Iterator[str]:
    """Name the characters beyond ASCII that were not there before: some look like others."""
    found = sorted({char for char in "".join(after) if not char.isascii()} - set("".join(before)))
    for char, named in zip(found[:_MOST_NAMED], named_characters(found[:_MOST_NAMED]), strict=True):
        yield f"note: the new one holds {quoted(char)}, {named}"
    if len(found) > _MOST_NAMED:
        yield f"note: and {len(found) - _MOST_NAMED} other characters that the old one did not hold"
