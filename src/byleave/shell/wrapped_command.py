"""One command that runs another: list it, list its children, find them as the program's table says.

`WrappedCommand` is a command before it is listed, with how it is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from byleave.shell.builtins import reached
from byleave.shell.model import Assignment, NotUnderstoodError, Via
from byleave.shell.state import entered, relative_value
from byleave.shell.syntax.cursor import POSIX
from byleave.shell.syntax.tree import Word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.shell.knowledge.options import Scan
    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.model import Command, Redirect
    from byleave.shell.state import Flow, ShellState

    Words = tuple[Word, ...]


class CommandLister(Protocol):
    """What lists commands, and reads the texts inside them: `walk.Walker`."""

    commands: list[Command]
    dialect: str
    frame: Frame
    programs: ProgramTables

    def check_variable(self, name: str, at: int, value: str | None = None) -> None: ...

    def run(self, call: CommandCall) -> Flow: ...

    def plain(self, call: CommandCall) -> Flow: ...

    def emit(self, call: CommandCall, wraps: str | None = None) -> None: ...

    def script(self, text: str, frame: Frame, state: ShellState, dialect: str, at: int) -> None: ...

    def evaluate(self, text: str, frame: Frame, state: ShellState, at: int) -> tuple[Flow, bool]: ...


class CommandCall:
    """A simple command about to be listed: its words and what stands around them."""

    __slots__ = ("assignments", "end", "redirects", "start", "state", "words")

    def __init__(  # noqa: PLR0917 -- made once per command, in the order of its parts
        self,
        words: Words,
        assignments: tuple[Assignment, ...],
        redirects: tuple[Redirect, ...],
        state: ShellState,
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
        self, via: tuple[Via, ...], assignments: tuple[Assignment, ...], *, inside: bool, here: bool = True
    ) -> None:
        self.via = via
        self.assignments = assignments
        self.inside = inside  # run by this shell, so that functions and builtins are found
        self.here = here  # on this machine and in its tree of files, so that directories mean what they say


TOP = Frame((), (), inside=True)

SYSTEM = frozenset(["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/opt/homebrew/bin/"])
WRAPPER_LIMIT = 16  # wrappers inside wrappers; people write three or four at most
APPENDED = Word(None, "", splits=True)  # words that a wrapper adds, known only at run time


class WrappedCommand:
    """A command being unwrapped: its words and circumstances."""

    __slots__ = ("call", "name", "redirects", "start", "state", "trusted", "walker", "words")

    def __init__(self, walker: CommandLister, name: str, call: CommandCall) -> None:
        self.walker = walker
        self.name = name
        self.call = call
        self.words = call.words
        self.redirects = call.redirects
        self.state = call.state
        self.start = call.start
        self.trusted = _is_of_the_system(call.words[0].text or "")

    def refuse(self, reason: str, word: Word | None = None) -> NoReturn:
        raise NotUnderstoodError(reason, self.start if word is None else word.start)

    def plain(self) -> Flow:
        """List it as a command that wraps nothing."""
        return self.walker.plain(self.call)

    def list_itself(self, *, transparent: bool) -> None:
        wraps = "transparent" if transparent and self.trusted else "opaque"
        self.walker.emit(self.call, wraps)

    def child(
        self,
        words: Words,
        *,
        transparent: bool,
        state: ShellState | None = None,
        assignments: tuple[Assignment, ...] = (),
        inside: bool = False,
        here: bool = True,
    ) -> Flow:
        """List a child given as words."""
        walker = self.walker
        outside = walker.frame
        walker.frame = self._frame(transparent=transparent, assignments=assignments, inside=inside, here=here)
        start, end = (words[0].start or self.start), (words[-1].end or self.call.end)
        flow = walker.run(CommandCall(words, (), (), self.state if state is None else state, start, end))
        walker.frame = outside
        return flow

    def script(
        self, text: str, dialect: str, *, transparent: bool, state: ShellState | None = None, here: bool = True
    ) -> None:
        """List the commands of a child given as the text of a script."""
        frame = self._frame(transparent=transparent, assignments=(), inside=True, here=here)
        self.walker.script(text, frame, self.state if state is None else state, dialect, self.start)

    def evaluate(self, text: str, state: ShellState) -> tuple[Flow, bool]:
        """List the commands of a text that this very shell runs."""
        frame = self._frame(transparent=True, assignments=(), inside=True)
        return self.walker.evaluate(text, frame, state, self.start)

    def _frame(
        self, *, transparent: bool, assignments: tuple[Assignment, ...], inside: bool, here: bool = True
    ) -> Frame:
        outer = self.walker.frame
        if len(outer.via) >= WRAPPER_LIMIT:
            self.refuse("too many wrappers inside each other")
        carried = outer.assignments + self.call.assignments + assignments
        return Frame(
            (*outer.via, Via(self.name, transparent and self.trusted)), carried, inside=inside, here=here and outer.here
        )


def from_table(wrapped: WrappedCommand, found: Scan, wrap: Mapping[str, Any]) -> Flow:
    """Find the child as the table says."""
    given = {option.name: option for option in found.given}
    if not given.keys().isdisjoint(wrap.get("none", ())):
        return wrapped.plain()
    transparent = bool(wrap.get("transparent", False))
    scripts = [given[name] for name in wrap.get("script", ()) if name in given]
    here = not wrap.get("elsewhere")
    state = _moved(wrapped, found, wrap)
    if scripts:
        value = scripts[-1].value
        text = value.text if isinstance(value, Word) else value
        if text is None or found.unknown:
            wrapped.refuse("a script known only at run time")
        wrapped.list_itself(transparent=transparent)
        wrapped.script(text, POSIX, transparent=transparent, state=state, here=here)
        return wrapped.state, wrapped.state
    child, assigned = child_words(wrapped, found, wrap)
    if not child:
        return wrapped.plain()
    if wrap.get("again"):  # the same program, in a directory that its configuration names
        child, state = (wrapped.words[0], *child), state.at(None, None)
    wrapped.list_itself(transparent=transparent)
    if wrap.get("joins"):
        _joined(wrapped, child, transparent=transparent, state=state, here=here)
    else:
        if wrap.get("appends"):
            child = (*child, APPENDED)
        wrapped.child(child, transparent=transparent, state=state, assignments=assigned, here=here)
    return wrapped.state, wrapped.state


def child_words(wrapped: WrappedCommand, found: Scan, wrap: Mapping[str, Any]) -> tuple[Words, tuple[Assignment, ...]]:
    words = wrapped.words
    after = wrap.get("after")
    if after is not None:
        places = [index for index, word in enumerate(words) if word.text == after]
        if not places and len(found.operands) > int(wrap.get("skip", 0)):
            wrapped.refuse(f"which command `{wrapped.name}` runs is not clear without `{after}`")
        return (words[places[0] + 1 :] if places else ()), ()
    for option in found.given:
        if not option.known or not option.sure:
            wrapped.refuse(f"an option of `{wrapped.name}` that is not known", words[option.index])
    operands = list(found.operands)
    del operands[: int(wrap.get("skip", 0))]
    assigned: list[Assignment] = []
    while wrap.get("assigns") and operands and (made := assignment_word(words[operands[0]])):
        assigned.append(made)
        operands.pop(0)
    for made in assigned:
        wrapped.walker.check_variable(made.name, wrapped.start, made.value)
    if wrap.get("assigns") and operands and words[operands[0]].prefix.startswith("="):
        wrapped.refuse(f"a variable without a name, which `{wrapped.name}` takes or takes not", words[operands[0]])
    begin = operands[0] if operands else len(words)
    if begin < len(words) and (words[begin].text or "").startswith("-"):
        wrapped.refuse(f"an option of `{wrapped.name}` in an unusual place", words[begin])
    if any(index < begin for index in found.unknown) or any(word.many for word in words[1:begin]):
        wrapped.refuse(f"which command `{wrapped.name}` runs is known only at run time")
    if begin < len(words) and words[begin].many and words[begin].text is None and wrap.get("assigns"):
        wrapped.refuse(f"which command `{wrapped.name}` runs is known only at run time", words[begin])
    return words[begin:], tuple(assigned)


def _is_of_the_system(name: str) -> bool:
    """Whether a name leads to the system's own program: looked up in PATH, or in one of its directories."""
    return "/" not in name or name[: name.rfind("/") + 1] in SYSTEM


def assignment_word(word: Word) -> Assignment | None:
    """Return the assignment that `env` takes a word for."""
    name, equals, value = word.prefix.partition("=")
    if not equals or word.splits or word.glob or not name:
        return None
    known = value if word.text is not None else None
    return Assignment(name, known, relative=relative_value(name, word))


def _moved(wrapped: WrappedCommand, found: Scan, wrap: Mapping[str, Any]) -> ShellState:
    """Return the state the child starts in."""
    state = wrapped.state
    for option in found.given:
        if option.name in wrap.get("chdir", ()):
            value = option.value.text if isinstance(option.value, Word) else option.value
            places = None if value is None else entered(state.places, value)
            if isinstance(option.value, Word) and value is None and not option.value.prefix.startswith("-"):
                places = reached(option.value, state, "")
            state = state.at(places, None)
    return state


def _joined(wrapped: WrappedCommand, child: Words, *, transparent: bool, state: ShellState, here: bool) -> None:
    """Read words that the wrapper joins with blanks and gives to a shell."""
    texts = [word.text for word in child]
    if None in texts:
        wrapped.refuse("a script known only at run time")
    script = " ".join([text or "" for text in texts])
    wrapped.script(script, POSIX, transparent=transparent, state=state, here=here)
