"""What is known of the shell between two commands, and how it flows through success and failure.

Where the shell stands: what `cd` makes of the places it may be in.

A place is a directory as text, to be resolved with symlinks before `..`. Bash's `cd` takes `..` textually and, where
that fails, as the system does; so a `cd` through `..` leads to two places unless both are sure to be the same.
Pure text: the starting directory is taken to be canonical, and CDPATH to be unset.
"""

from byleave.record import Record
from byleave.shell.assignments import NOTHING_KNOWN, either

TYPE_CHECKING = False
if TYPE_CHECKING:
    Places = tuple[str, ...] | None
    from byleave.shell.assignments import Values

    Flow = tuple["ShellState | None", "ShellState | None"]


MOST_PLACES = 8
# Before a place that is reached by a word which is not literal: it is used to find files, never to allow anything. The
# sign behind the NUL, which no word can hold, says where it starts: at home, or like any other place.
AT_HOME, FOLLOWED = "\0~", "\0."


def is_followed(place: str) -> bool:
    """Whether a place is known only by following words that are not literal."""
    return place.startswith("\0")


def followed(places: "Places") -> "Places":
    """Return places as they are noted where a word that is not literal leads there."""
    return None if places is None else tuple([each if is_followed(each) else f"{FOLLOWED}{each}" for each in places])


def plain(places: "Places") -> "Places":
    """Return places that literal words lead to; nothing is known where others lead there."""
    return None if places is None or any(is_followed(place) for place in places) else places


def located(place: str, home: str | None) -> str | None:
    """Return a place as a path; None for one at home where that is not known."""
    if place.startswith(AT_HOME):
        return None if home is None else f"{home}{place[len(AT_HOME) :]}"
    return place.removeprefix(FOLLOWED)


def moved(places: "Places", operand: str, start: str) -> "Places":
    """Return where a successful `cd operand` leads from `places`; `start` is where the text started."""
    if places is None and not operand.startswith("/"):
        return None
    found: list[str] = []
    for place in places if places is not None else ("/",):
        for reached in _reached(place, operand, start):
            if reached not in found:
                found.append(reached)
    return tuple(found) if len(found) <= MOST_PLACES else None


def entered(places: "Places", operand: str) -> "Places":
    """Return where a program stands that changed to `operand` by the system's own rules (`git -C`)."""
    if operand.startswith("/"):
        return (operand,)
    if places is None:
        return None
    return tuple([_join(place, operand) for place in places])


def united(first: "Places", second: "Places") -> "Places":
    """Return the places of both, unknown if one of them is."""
    if first == second:
        return first
    if first is None or second is None:
        return None
    found = first + tuple([place for place in second if place not in first])
    return found if len(found) <= MOST_PLACES else None


def _reached(place: str, operand: str, start: str) -> list[str]:
    if is_followed(place) and not operand.startswith("/"):
        if place.startswith(AT_HOME):
            return [_join(place, operand)]
        return [f"{FOLLOWED}{each}" for each in _reached(place.removeprefix(FOLLOWED), operand, start)]
    raw = _join(place, operand)
    if ".." not in operand.split("/"):
        return [_textual(raw)]
    parts = [part for part in operand.split("/") if part not in ("", ".")]
    climbs = len(parts) - len([part for part in parts if part != ".."])
    only_leading = ".." not in parts[climbs:] and not operand.startswith("/")
    if only_leading and place == start:
        return [_textual(raw)]
    return [_textual(raw), raw]


def _join(place: str, operand: str) -> str:
    if operand.startswith("/"):
        return operand
    return operand if place == "." else f"{place.rstrip('/')}/{operand}"


def _textual(path: str) -> str:
    """Return the path with `.` and, as text, `..` taken out."""
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not rooted:
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


class ShellState(Record):
    """Where the shell stands, which variables surely hold numbers, which functions are surely defined.

    `values` are what the variables may hold that the line has surely set.
    """

    places: "Places"
    previous: "Places"
    numeric: frozenset[str]
    functions: frozenset[str]
    values: "Values" = NOTHING_KNOWN

    def at(self, places: "Places", previous: "Places") -> "ShellState":
        return ShellState(places, previous, self.numeric, self.functions, self.values)

    def counting(self, name: str) -> "ShellState":
        return ShellState(self.places, self.previous, self.numeric | {name}, self.functions, self.values)

    def knowing(self, values: "Values") -> "ShellState":
        if values is self.values:
            return self
        return ShellState(self.places, self.previous, self.numeric, self.functions, values)

    def lost(self) -> "ShellState":
        """Return the state after something that may have changed directory and variables at will."""
        return ShellState(None, None, frozenset(), self.functions)


UNKNOWN = ShellState(None, None, frozenset(), frozenset())


def merged(first: "ShellState | None", second: "ShellState | None") -> "ShellState | None":
    """Return what holds whichever of the two is the case."""
    if first is second or second is None:
        return first
    if first is None:
        return second
    return ShellState(
        united(first.places, second.places),
        united(first.previous, second.previous),
        first.numeric & second.numeric,
        first.functions & second.functions,
        either(first.values, second.values),
    )
