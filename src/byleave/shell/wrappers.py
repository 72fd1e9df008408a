"""Commands that run other commands: each child is listed as a command of its own.

Which program wraps what is data (`programs.toml`, key `wrap`). In code are only those with a grammar of their own:
the shell's own wrappers, `find`, `xargs`, `env`, `parallel`. Where the child cannot be told for sure the text is not
understood; a program without an entry is simply a command. Shells: `shells`.
"""

from byleave.shell.cursor import BASH, POSIX, ZSH
from byleave.shell.directory import entered
from byleave.shell.model import Assignment, NotUnderstoodError, Via, Word
from byleave.shell.options import scan_words
from byleave.shell.state import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from byleave.shell.options import Scan
    from byleave.shell.state import Flow
    from byleave.shell.walk import Call, Walker

    Words = tuple[Word, ...]

SYSTEM = frozenset(["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/", "/opt/homebrew/bin/"])
WRAPPER_LIMIT = 16  # wrappers inside wrappers; nobody writes more than three or four
APPENDED = Word(None, "", splits=True)  # words that a wrapper adds, known only at run time


class Wrapped:
    """A command being unwrapped: its words and circumstances."""

    __slots__ = ("call", "name", "redirects", "start", "state", "trusted", "walker", "words")

    def __init__(self, walker: "Walker", name: str, call: "Call") -> None:
        self.walker = walker
        self.name = name
        self.call = call
        self.words = call.words
        self.redirects = call.redirects
        self.state = call.state
        self.start = call.start
        self.trusted = _is_of_the_system(call.words[0].text or "")

    def refuse(self, reason: str, word: Word | None = None) -> "NoReturn":
        raise NotUnderstoodError(reason, self.start if word is None else word.start)

    def plain(self) -> "Flow":
        """List it as a command that wraps nothing."""
        return self.walker.plain(self.call)

    def list_itself(self, *, transparent: bool) -> None:
        wraps = "transparent" if transparent and self.trusted else "opaque"
        self.walker.emit(self.call, wraps)

    def child(
        self,
        words: "Words",
        *,
        transparent: bool,
        state: State | None = None,
        assignments: tuple[Assignment, ...] = (),
        inside: bool = False,
        here: bool = True,
    ) -> "Flow":
        """List a child given as words."""
        from byleave.shell.walk import Call

        walker = self.walker
        outside = walker.frame
        walker.frame = self._frame(transparent=transparent, assignments=assignments, inside=inside, here=here)
        start, end = (words[0].start or self.start), (words[-1].end or self.call.end)
        flow = walker.run(Call(words, (), (), self.state if state is None else state, start, end))
        walker.frame = outside
        return flow

    def script(
        self, text: str, dialect: str, *, transparent: bool, state: State | None = None, here: bool = True
    ) -> None:
        """List the commands of a child given as the text of a script."""
        frame = self._frame(transparent=transparent, assignments=(), inside=True, here=here)
        self.walker.script(text, frame, self.state if state is None else state, dialect, self.start)

    def evaluate(self, text: str, state: State) -> "tuple[Flow, bool]":
        """List the commands of a text that this very shell runs."""
        frame = self._frame(transparent=True, assignments=(), inside=True)
        return self.walker.evaluate(text, frame, state, self.start)

    def _frame(
        self, *, transparent: bool, assignments: tuple[Assignment, ...], inside: bool, here: bool = True
    ) -> "Any":
        from byleave.shell.walk import Frame

        outer = self.walker.frame
        if len(outer.via) >= WRAPPER_LIMIT:
            self.refuse("too many wrappers inside each other")
        carried = outer.assignments + self.call.assignments + assignments
        return Frame(
            (*outer.via, Via(self.name, transparent and self.trusted)), carried, inside=inside, here=here and outer.here
        )


def unwrap(walker: "Walker", name: str, call: "Call") -> "Flow":
    """List a command, and its children if it is a wrapper; return the flow behind it."""
    base = name[name.rfind("/") + 1 :]
    inside = INSIDE.get(name) if walker.frame.inside else None
    if inside is None and walker.programs.is_plain(base) and base not in SPECIAL:
        return walker.plain(call)
    special = inside or SPECIAL.get(base)
    table = walker.programs.table(base) if special is None else None
    if special is None and (table is None or not table.may_wrap(call.words)):
        return walker.plain(call)
    wrapped = Wrapped(walker, base, call)
    if special is not None:
        return special(wrapped)
    found = scan_words(call.words, table)
    wrap = found.table.wrap if found.table is not None else None
    return wrapped.plain() if wrap is None else _from_table(wrapped, found, wrap)


def _from_table(wrapped: Wrapped, found: "Scan", wrap: "Mapping[str, Any]") -> "Flow":
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
    child, assigned = _child_words(wrapped, found, wrap)
    if not child:
        return wrapped.plain()
    wrapped.list_itself(transparent=transparent)
    if wrap.get("joins"):
        _joined(wrapped, child, transparent=transparent, state=state, here=here)
    else:
        if wrap.get("appends"):
            child = (*child, APPENDED)
        wrapped.child(child, transparent=transparent, state=state, assignments=assigned, here=here)
    return wrapped.state, wrapped.state


def _child_words(wrapped: Wrapped, found: "Scan", wrap: "Mapping[str, Any]") -> "tuple[Words, tuple[Assignment, ...]]":
    words = wrapped.words
    after = wrap.get("after")
    if after is not None:
        places = [index for index, word in enumerate(words) if word.text == after]
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
    return Assignment(name, value if word.text is not None else None)


def _moved(wrapped: Wrapped, found: "Scan", wrap: "Mapping[str, Any]") -> State:
    """Return the state the child starts in."""
    state = wrapped.state
    for option in found.given:
        if option.name in wrap.get("chdir", ()):
            value = option.value.text if isinstance(option.value, Word) else option.value
            state = state.at(None if value is None else entered(state.places, value), None)
    return state


def _joined(wrapped: Wrapped, child: "Words", *, transparent: bool, state: State, here: bool) -> None:
    """Read words that the wrapper joins with blanks and gives to a shell."""
    texts = [word.text for word in child]
    if None in texts:
        wrapped.refuse("a script known only at run time")
    script = " ".join([text or "" for text in texts])
    wrapped.script(script, POSIX, transparent=transparent, state=state, here=here)


def _command(wrapped: Wrapped) -> "Flow":
    """`command` runs a program or builtin, never a function; with -v or -V nothing."""
    words = wrapped.words[1:]
    while words and words[0].text in ("-p", "--"):
        ended, words = words[0].text == "--", words[1:]
        if ended:
            break
    if words and words[0].text in ("-v", "-V", "-pv", "-pV"):
        return wrapped.plain()
    if not words:
        return wrapped.plain()
    if words[0].text is None or words[0].text.startswith("-"):
        wrapped.refuse("which command `command` runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    return wrapped.child(words, transparent=True, inside=True)


def _builtin(wrapped: Wrapped) -> "Flow":
    words = wrapped.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    if not words:
        return wrapped.plain()
    if words[0].text is None or words[0].text.startswith("-"):
        wrapped.refuse("which builtin runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    return wrapped.child(words, transparent=True, inside=True)


def _exec(wrapped: Wrapped) -> "Flow":
    """`exec` replaces the shell; without a command it only redirects."""
    words = wrapped.words[1:]
    while words and (text := words[0].text) is not None and text.startswith("-"):
        words = words[2:] if text == "-a" else words[1:]
        if text not in ("-a", "-c", "-l", "-cl", "-lc", "--"):
            wrapped.refuse("an option of `exec` that is not known")
        if text == "--":
            break
    if not words:
        return wrapped.plain()
    if words[0].text is None and words[0].could_be_option:
        wrapped.refuse("which command `exec` runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    wrapped.child(words, transparent=True)
    return None, None


def _eval(wrapped: Wrapped) -> "Flow":
    words = wrapped.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    texts = [word.text for word in words]
    if None in texts:
        wrapped.refuse("a script known only at run time")
    wrapped.list_itself(transparent=True)
    return wrapped.evaluate(" ".join([text or "" for text in texts]), wrapped.state)[0]


def _trap(wrapped: Wrapped) -> "Flow":
    """`trap action signal..`: the action may run at any time, so it must leave the shell where it is."""
    words = wrapped.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    action = words[0].text if words else ""
    if action is None or any(word.text is None for word in words):
        wrapped.refuse("a script known only at run time")
    if len(words) < 2 or action in ("", "-") or action.startswith("-") or action.isdecimal():
        return wrapped.plain()
    wrapped.list_itself(transparent=True)
    _, moves = wrapped.evaluate(action, wrapped.state.lost())
    if moves:
        wrapped.refuse("a trap that may change the directory")
    return wrapped.state, wrapped.state


def _env(wrapped: Wrapped) -> "Flow":
    for word in wrapped.words[1:]:
        if word.text is not None and (word.text.startswith(("-S", "--s")) or _clusters(word.text, "S")):
            wrapped.refuse("`env -S` splits words by rules of its own", word)
    table = wrapped.walker.programs.table("env")
    if table is None or table.wrap is None:
        return wrapped.plain()
    return _from_table(wrapped, scan_words(wrapped.words, table), table.wrap)


def _clusters(text: str, letter: str) -> bool:
    return text.startswith("-") and not text.startswith("--") and letter in text


def _find(wrapped: Wrapped) -> "Flow":
    """`find .. -exec command ;`: each such action is a child; `{}` in its words is known only at run time."""
    words = wrapped.words
    children: list[tuple[Words, bool]] = []
    index = 1
    while index < len(words):
        action = words[index].text
        index += 1
        if action in ("-exec", "-execdir", "-ok", "-okdir"):
            begin = index
            while index < len(words) and not _ends_exec(words, index, begin):
                index += 1
            if index >= len(words) or index == begin:
                wrapped.refuse(f"`find {action}` without an end", words[begin - 1])
            children.append((words[begin:index], action.endswith("dir")))
    if not children:
        return wrapped.plain()
    wrapped.list_itself(transparent=False)
    for child, elsewhere in children:
        state = wrapped.state.at(None, None) if elsewhere else wrapped.state
        wrapped.child(tuple([replaced(word, "{}") for word in child]), transparent=False, state=state)
    return wrapped.state, wrapped.state


def _ends_exec(words: "Words", index: int, begin: int) -> bool:
    text = words[index].text
    return text == ";" or (text == "+" and index > begin and words[index - 1].text == "{}")


def replaced(word: Word, mark: str) -> Word:
    """Return the word with `mark` standing for something known only at run time."""
    if word.text is None or mark not in word.text:
        return word
    many = mark == word.text
    return Word(None, word.text[: word.text.index(mark)], word.start, word.end, splits=many)


def _fd(wrapped: Wrapped) -> "Flow":
    """`fd -x command` and `fd -X command`: the child runs to the end or to a `;`."""
    words = wrapped.words
    for index, word in enumerate(words):
        text = word.text or ""
        if index and (text in ("-x", "-X", "--exec", "--exec-batch")):
            child = words[index + 1 :]
            stops = [place for place, item in enumerate(child) if item.text == ";"]
            child = child[: stops[0]] if stops else child
            if not child:
                break
            wrapped.list_itself(transparent=False)
            marked = tuple([_any_replaced(item, ("{}", "{/}", "{//}", "{.}", "{/.}")) for item in child])
            wrapped.child((*marked, APPENDED), transparent=False)
            return wrapped.state, wrapped.state
    return wrapped.plain()


def _any_replaced(word: Word, marks: tuple[str, ...]) -> Word:
    for mark in marks:
        word = replaced(word, mark)
    return word


def _xargs(wrapped: Wrapped) -> "Flow":
    """`xargs command`: words from its input are added, or put in place of the mark of -I."""
    table = wrapped.walker.programs.table("xargs")
    if table is None:
        return wrapped.plain()
    found = scan_words(wrapped.words, table)
    child, _ = _child_words(wrapped, found, {})
    marks = [option.value for option in found.given if option.name == "-I"]
    if not child:
        return wrapped.plain()
    wrapped.list_itself(transparent=False)
    if marks:
        mark = marks[-1].text if isinstance(marks[-1], Word) else marks[-1]
        if not mark:
            mark = "{}"
        child = tuple([replaced(word, mark) for word in child])
    else:
        child = (*child, APPENDED)
    wrapped.child(child, transparent=False)
    return wrapped.state, wrapped.state


def _parallel(wrapped: Wrapped) -> "Flow":
    """`parallel command ::: words`: the command goes through a shell, so its words must be plain."""
    table = wrapped.walker.programs.table("parallel")
    if table is None:
        return wrapped.plain()
    child, _ = _child_words(wrapped, scan_words(wrapped.words, table), {})
    stops = [index for index, word in enumerate(child) if (word.text or "").startswith(":::")]
    child = child[: stops[0]] if stops else child
    if not child:
        wrapped.refuse("commands that `parallel` reads from its input")
    for word in child:
        if word.text is None or not frozenset("|&;()<>$`\\\"'*?[]~#= \t\n").isdisjoint(word.text):
            wrapped.refuse("`parallel` gives its words to a shell", word)
    wrapped.list_itself(transparent=False)
    marked = tuple([_any_replaced(word, ("{}", "{.}", "{/}", "{//}", "{/.}", "{1}", "{2}")) for word in child])
    wrapped.child((*marked, APPENDED), transparent=False)
    return wrapped.state, wrapped.state


def _shell(wrapped: Wrapped) -> "Flow":
    from byleave.shell.shells import run_shell

    return run_shell(wrapped)


# Run by the shell itself; found only where the name has no directory.
INSIDE: "Mapping[str, Callable[[Wrapped], Flow]]" = {
    "command": _command,
    "builtin": _builtin,
    "exec": _exec,
    "eval": _eval,
    "trap": _trap,
}
SHELLS = {
    "bash": BASH,
    "sh": POSIX,
    "dash": POSIX,
    "ash": POSIX,
    "ksh": ZSH,  # like zsh in what matters here: the last stage of a pipeline runs in the shell itself
    "mksh": ZSH,
    "zsh": ZSH,
    "rbash": BASH,
    "fish": "",
    "csh": "",
    "tcsh": "",
    "nu": "",
    "pwsh": "",
    "xonsh": "",
}
SPECIAL: "Mapping[str, Callable[[Wrapped], Flow]]" = {
    "env": _env,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "xargs": _xargs,
    "gxargs": _xargs,
    "parallel": _parallel,
    **dict.fromkeys(SHELLS, _shell),
}
