"""Wrappers that run a command for each of many things: `find -exec`, `fd -x`, `xargs`, `parallel`.

What they put into the command is known only at run time.
"""

from byleave.shell.model import Piece, Word
from byleave.shell.named import find_roots
from byleave.shell.options import scan_words
from byleave.shell.wrapped import APPENDED, child_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.state import Flow
    from byleave.shell.wrapped import Wrapped

    Words = tuple[Word, ...]


def run_find(wrapped: "Wrapped") -> "Flow":
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
    below = _below(words[1:])
    for child, elsewhere in children:
        state = wrapped.state.at(None, None) if elsewhere else wrapped.state
        marked = tuple([_found(word, below) if word.text == "{}" else replaced(word, "{}") for word in child])
        wrapped.child(marked, transparent=False, state=state)
    return wrapped.state, wrapped.state


def _below(words: "Words") -> tuple[Piece, ...]:
    """Return what stands for everything below the places where `find` starts; nothing where those are not known."""
    if any(word.text == "-files0-from" for word in words):
        return ()
    roots = [word.text for word in find_roots(words)]
    return tuple([Piece("below", root) for root in roots or ["."] if root is not None]) if None not in roots else ()


def _found(word: Word, below: tuple[Piece, ...]) -> Word:
    return Word(None, "", word.start, word.end, splits=True, pieces=below)


def _ends_exec(words: "Words", index: int, begin: int) -> bool:
    text = words[index].text
    return text == ";" or (text == "+" and index > begin and words[index - 1].text == "{}")


def replaced(word: Word, mark: str) -> Word:
    """Return the word with `mark` standing for something known only at run time."""
    if word.text is None or mark not in word.text:
        return word
    many = mark == word.text
    return Word(None, word.text[: word.text.index(mark)], word.start, word.end, splits=many)


def run_fd(wrapped: "Wrapped") -> "Flow":
    """`fd -x command` and `fd -X command`: the child runs to the end or to a `;`."""
    words = wrapped.words
    for index, word in enumerate(words):
        text = word.text or ""
        if index and text.startswith("--exec") and "=" in text:
            wrapped.refuse("`fd --exec=..` of an unusual form", word)
        if index and (text in ("--exec", "--exec-batch") or _ends_in_exec(text)):
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


def _ends_in_exec(text: str) -> bool:
    return text.startswith("-") and not text.startswith("--") and text.endswith(("x", "X"))


def _any_replaced(word: Word, marks: tuple[str, ...]) -> Word:
    for mark in marks:
        word = replaced(word, mark)
    return word


def run_xargs(wrapped: "Wrapped") -> "Flow":
    """`xargs command`: words from its input are added, or put in place of the mark of -I."""
    table = wrapped.walker.programs.table("xargs")
    if table is None:
        return wrapped.plain()
    found = scan_words(wrapped.words, table)
    child, _ = child_words(wrapped, found, {})
    marks = [option.value for option in found.given if option.name in ("-I", "-i")]
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


def run_parallel(wrapped: "Wrapped") -> "Flow":
    """`parallel command ::: words`: the command goes through a shell, so its words must be plain."""
    table = wrapped.walker.programs.table("parallel")
    if table is None:
        return wrapped.plain()
    child, _ = child_words(wrapped, scan_words(wrapped.words, table), {})
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
