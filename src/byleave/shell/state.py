"""What is known of the shell between two commands, and how it flows through success and failure."""

from byleave.record import Record
from byleave.shell.assigned import NOTHING_KNOWN, either
from byleave.shell.directory import united

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.assigned import Values
    from byleave.shell.directory import Places

    # After success and after failure; None where the text cannot go on.
    Flow = tuple["State | None", "State | None"]


class State(Record):
    """Where the shell stands, which variables surely hold numbers, which functions are surely defined.

    `values` are what the variables may hold that the line has surely set.
    """

    places: "Places"
    previous: "Places"
    numeric: frozenset[str]
    functions: frozenset[str]
    values: "Values" = NOTHING_KNOWN

    def at(self, places: "Places", previous: "Places") -> "State":
        return State(places, previous, self.numeric, self.functions, self.values)

    def counting(self, name: str) -> "State":
        return State(self.places, self.previous, self.numeric | {name}, self.functions, self.values)

    def knowing(self, values: "Values") -> "State":
        if values is self.values:
            return self
        return State(self.places, self.previous, self.numeric, self.functions, values)

    def lost(self) -> "State":
        """Return the state after something that may have changed directory and variables at will."""
        return State(None, None, frozenset(), self.functions)


UNKNOWN = State(None, None, frozenset(), frozenset())


def merged(first: "State | None", second: "State | None") -> "State | None":
    """Return what holds whichever of the two is the case."""
    if first is second or second is None:
        return first
    if first is None:
        return second
    return State(
        united(first.places, second.places),
        united(first.previous, second.previous),
        first.numeric & second.numeric,
        first.functions & second.functions,
        either(first.values, second.values),
    )
