"""Shells and other interpreters: where does their script come from?

A literal script of `sh -c`, or of a here-document, is read like the text itself. A script that is known only at run
time, or in the language of a shell that is not followed, is not understood. A script in a file is just an argument.
"""

from byleave.shell.model import Word
from byleave.shell.receivers import names_input
from byleave.shell.vocabulary import SET_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.state import Flow
    from byleave.shell.wrapped import Wrapped

PLAIN_LETTERS = frozenset("abefhlnuvxCET")  # options that leave the reading of the script as it is
LONG_OPTIONS = frozenset(["--norc", "--noprofile", "--login", "--verbose", "--noediting"])


def run_shell(wrapped: "Wrapped") -> "Flow":
    """List a shell, and the commands of its script where that is literal."""
    from byleave.shell.wrappers import SHELLS

    words = wrapped.words
    dialect = SHELLS[wrapped.name]
    index, from_option, from_input = _options(wrapped)
    if not from_option:
        if index < len(words) and not from_input:
            return _file(wrapped, words[index])
        return _input(wrapped, dialect)
    if index >= len(words):
        wrapped.refuse("a shell without the script that -c announces")
    text = words[index].text
    if text is None:
        wrapped.refuse("a script known only at run time", words[index])
    if not dialect:
        wrapped.refuse(f"a script in the language of `{wrapped.name}`", words[index])
    wrapped.list_itself(transparent=True)
    wrapped.script(text, dialect, transparent=True)
    return wrapped.state, wrapped.state


def _options(wrapped: "Wrapped") -> tuple[int, bool, bool]:
    """Return where the operands start, whether -c is given, and whether -s is."""
    words = wrapped.words
    index, from_option, from_input = 1, False, False
    while index < len(words):
        word = words[index]
        text = word.text
        if text is None:
            if word.could_be_option:
                wrapped.refuse("an option known only at run time", word)
            break
        if text in ("--", "-"):
            index += 1
            break
        if text[:1] not in ("-", "+") or len(text) == 1:
            break
        index += 1
        if text.startswith("--"):
            if text not in LONG_OPTIONS and text not in ("--version", "--help"):
                wrapped.refuse(f"an option of `{wrapped.name}` that is not followed", word)
            continue
        letters = text[1:]
        from_option = from_option or "c" in letters
        from_input = from_input or "s" in letters
        if not PLAIN_LETTERS.issuperset(letters.replace("c", "").replace("s", "").replace("o", "")):
            wrapped.refuse(f"an option of `{wrapped.name}` that is not followed", word)
        for _ in range(letters.count("o")):
            if index >= len(words) or words[index].text not in SET_NAMES:
                wrapped.refuse(f"an option of `{wrapped.name}` that is not followed", word)
            index += 1
    return index, from_option, from_input


def _file(wrapped: "Wrapped", script: Word) -> "Flow":
    if script.many and script.text is None and script.splits:
        wrapped.refuse("a script known only at run time", script)
    if names_input(script):
        return _input(wrapped, "")
    return wrapped.plain()


def _input(wrapped: "Wrapped", dialect: str) -> "Flow":
    """Follow a shell that reads its script from its input, where that is literal text."""
    texts = [item for item in wrapped.redirects if item.kind == "text" and item.fd in (None, 0)]
    if not texts:
        return wrapped.plain()
    body = texts[-1].body
    if body is None or not dialect or len(wrapped.redirects) > 1 + _outputs(wrapped):
        wrapped.refuse("a script known only at run time")
    wrapped.list_itself(transparent=True)
    wrapped.script(body, dialect, transparent=True)
    return wrapped.state, wrapped.state


def _outputs(wrapped: "Wrapped") -> int:
    return len([item for item in wrapped.redirects if item.fd != 0 and item.operator.startswith((">", "&>"))])
