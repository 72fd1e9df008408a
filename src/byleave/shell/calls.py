"""A command on its way to the list, and how it is run."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.model import Assignment, Redirect, Via, Word
    from byleave.shell.state import State

    Words = tuple[Word, ...]


class Call:
    """A simple command about to be listed: its words and what stands around them."""

    __slots__ = ("assignments", "end", "redirects", "start", "state", "words")

    def __init__(  # noqa: PLR0917 -- made once per command, in the order of its parts
        self,
        words: "Words",
        assignments: "tuple[Assignment, ...]",
        redirects: "tuple[Redirect, ...]",
        state: "State",
        start: int,
        end: int,
    ) -> None:
        self.words = words
        self.assignments = assignments
        self.redirects = redirects
        self.state = state
        self.start = start
        self.end = end


class Frame:
    """How the commands being read are run: through which wrappers, with which variables, in which shell."""

    __slots__ = ("assignments", "here", "inside", "via")

    def __init__(
        self, via: "tuple[Via, ...]", assignments: "tuple[Assignment, ...]", *, inside: bool, here: bool = True
    ) -> None:
        self.via = via
        self.assignments = assignments
        self.inside = inside  # run by this shell, so that functions and builtins are found
        self.here = here  # on this machine and in its tree of files, so that directories mean what they say


TOP = Frame((), (), inside=True)
