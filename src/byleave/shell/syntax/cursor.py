"""The text being read, where we are in it, and how deep we have gone.

Every reader of a part of the language (`expansions`, `words`, `redirects`, `simple_command`) is built on a Cursor.
Some characters a command line must not hold: they hide what it does from a person, or programs read them differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from byleave.shell.model import NotUnderstoodError

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Heredoc, Sequence


END = "\0"  # stands behind the text; a NUL inside the text was refused before
DEPTH_LIMIT = 32  # nested constructs; at some nine Python frames each this stays far below the interpreter's limit

BASH = "bash"
POSIX = "posix"
ZSH = "zsh"
EITHER = "bash or sh"  # it is not known which: what dash makes other commands of than bash does is refused

IDENTIFIER_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
DIGITS = frozenset("0123456789")
IDENTIFIER = IDENTIFIER_START | DIGITS


class Cursor:
    """A position in a text, with what must be remembered while reading on."""

    __slots__ = ("at", "blocked", "depth", "dialect", "functions", "moves", "pending", "tainted", "text")

    def __init__(self, text: str, *, dialect: str = BASH, depth: int = 0) -> None:
        self.text = text + END
        self.at = 0
        self.depth = depth
        self.dialect = dialect
        self.pending: list[Heredoc] = []  # announced on this line, body still to come
        self.blocked = False  # inside a substitution while a here-document outside waits for its body
        self.functions: set[str] = set()  # defined anywhere in the text
        self.tainted: set[str] = set()  # variables that are somewhere given something that may not be a number
        self.moves = 0  # commands read so far that may change the directory of the shell they run in

    def refuse(self, reason: str, at: int | None = None) -> NoReturn:
        raise NotUnderstoodError(reason, self.at if at is None else at)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            self.refuse("nested too deeply")

    def only_bash(self, what: str, at: int) -> None:
        """Refuse what other shells read in another way than bash does."""
        if not self.is_bash:
            self.refuse(f"{what} means something else in other shells", at)

    def not_in_sh(self, what: str, at: int) -> None:
        """Refuse what runs other commands where the shell is not bash but sh, if it may be."""
        if self.dialect == EITHER:
            self.refuse(f"{what} means something else where the shell is sh", at)

    @property
    def is_bash(self) -> bool:
        """Whether the text is read as bash reads it."""
        return self.dialect in (BASH, EITHER)

    def check_lines(self, start: int, end: int) -> None:
        """Refuse a line end inside a word while a here-document waits for the line to end."""
        if (self.pending or self.blocked) and self.text.find("\n", start, end) >= 0:
            self.refuse("a here-document is announced on a line that ends inside a word", start)

    def identifier_end(self, at: int) -> int:
        """Return where the identifier that starts at `at` ends; `at` itself if there is none."""
        text = self.text
        if text[at] not in IDENTIFIER_START:
            return at
        while text[at] in IDENTIFIER:
            at += 1
        return at

    def substitution(self, at: int) -> tuple[int, Sequence]:
        """Read the commands of a `$(` up to its `)`; `grammar` knows how."""
        raise NotImplementedError

    def separate(self, text: str, at: int) -> Sequence:
        """Read a text of its own, such as the inside of backticks; `grammar` knows how."""
        raise NotImplementedError


def is_identifier(text: str) -> bool:
    """Return whether bash takes `text` as the name of a variable."""
    return bool(text) and text[0] in IDENTIFIER_START and IDENTIFIER.issuperset(text)


# Letters and symbols by category, but shown as a blank or not at all.
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")


def refused_at(text: str) -> int:
    """Return where the first refused character stands, -1 if there is none.

    Refused are controls other than newline and tab, blanks other than the space, bidi and other format controls,
    unassigned and private characters, and halves of surrogate pairs.
    """
    if text.isprintable() and (text.isascii() or INVISIBLE.isdisjoint(text)):
        return -1
    for place, char in enumerate(text):
        if (not char.isprintable() and char not in "\n\t") or char in INVISIBLE:
            return place
    return -1


def keeps_characters(value: str | None) -> bool:
    """Return whether a locale reads UTF-8 text as it stands."""
    return value is not None and (value in ("", "C", "POSIX") or value.lower().endswith((".utf-8", ".utf8")))
