"""The small languages that programs take as an argument: does a script of sed, awk or sqlite3 run or write anything?

Each reader knows a safe part of its language and answers None for a script inside of it. For anything else it answers
what the script does (`executes`, `writes`); what it cannot read to the end counts as executing. Where the programs of
one name differ (is a slash inside brackets the end of a pattern?), every way to read the script has to be harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

EXECUTES = "executes"
WRITES = "writes"

BLANKS = " \t"
ENDS = "\n;}#"  # what ends a command of sed
SED_PLAIN = frozenset("=dDgGhHnNpPxzF")
SED_NUMBERED = frozenset("lqQ")
SED_TEXT = frozenset("aic")
SED_JUMPS = frozenset("btT")
SED_DELIMITERS = frozenset("/|,:#@!%_~+^=&.-")
SED_FLAGS = frozenset("gpiI0123456789")
LABEL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
DIGITS = frozenset("0123456789")


def sed_danger(script: str) -> str | None:
    """Return what a sed script does beyond reading: `w` and `s///w` write, `e` and `s///e` run commands."""
    try:
        _Sed(script).read()
    except _DangerError as error:
        return error.kind
    return None


class _DangerError(Exception):
    """Raised where a script leaves the safe part of its language."""

    def __init__(self, kind: str = EXECUTES) -> None:
        super().__init__(kind)
        self.kind = kind


class _Sed:
    """Reads one script: addresses, commands, their ends."""

    __slots__ = ("at", "depth", "script")

    def __init__(self, script: str) -> None:
        self.script = script
        self.at = 0
        self.depth = 0

    @property
    def char(self) -> str:
        return self.script[self.at : self.at + 1]

    def read(self) -> None:
        while True:
            self._skip(BLANKS + ";\n")
            if not self.char:
                break
            if self.char == "#":
                self._line()
                continue
            self._addresses()
            self._command()
        if self.depth:
            raise _DangerError

    def _skip(self, characters: str) -> None:
        while self.char and self.char in characters:
            self.at += 1

    def _line(self) -> None:
        end = self.script.find("\n", self.at)
        self.at = len(self.script) if end < 0 else end

    def _digits(self) -> bool:
        begin = self.at
        while self.char and self.char in DIGITS:
            self.at += 1
        return self.at > begin

    def _addresses(self) -> None:
        if not self._address(second=False):
            return
        self._skip(BLANKS)
        if self.char == ",":
            self.at += 1
            self._skip(BLANKS)
            if not self._address(second=True):
                raise _DangerError
        self._skip(BLANKS)
        if self.char == "!":
            self.at += 1
            self._skip(BLANKS)

    def _address(self, *, second: bool) -> bool:
        """Take one address: a number, a step, `$`, a pattern; `+3` and `~3` only behind a comma."""
        char = self.char
        if char == "$":
            self.at += 1
        elif char == "/":
            self.at += 1
            self._pattern("/")
            if self.char == "I":
                self.at += 1
        elif second and char in ("+", "~"):
            self.at += 1
            if not self._digits():
                raise _DangerError
        elif self._digits():
            if self.char == "~":
                self.at += 1
                if not self._digits():
                    raise _DangerError
        else:
            return False
        return True

    def _command(self) -> None:
        char = self.char
        self.at += 1
        if char == "{":
            self.depth += 1
        elif char == "}":
            self.depth -= 1
            if self.depth < 0:
                raise _DangerError
            self._end()
        elif char in SED_PLAIN:
            self._end()
        elif char in SED_NUMBERED:
            self._skip(BLANKS)
            self._digits()
            self._end()
        elif char in SED_TEXT:
            self._text()
        elif char in SED_JUMPS or char == ":":
            self._skip(BLANKS)
            begin = self.at
            while self.char and self.char in LABEL:
                self.at += 1
            if char == ":" and self.at == begin:
                raise _DangerError
            self._end()
        elif char == "s":
            self._substitute()
        elif char == "y":
            delimiter = self._delimiter()
            self._replacement(delimiter)
            self._replacement(delimiter)
            self._end()
        else:
            raise _DangerError(WRITES if char in ("w", "W") else EXECUTES)

    def _end(self) -> None:
        """Demand the end of a command here."""
        self._skip(BLANKS)
        if self.char and self.char not in ENDS:
            raise _DangerError

    def _text(self) -> None:
        """Take the text of `a`, `i` and `c`: to the end of the line, a backslash taking along what follows it."""
        self._skip(BLANKS)
        if self.char in ("", "\n", "}"):
            raise _DangerError
        while self.char and self.char != "\n":
            self.at += 2 if self.char == "\\" else 1

    def _delimiter(self) -> str:
        char = self.char
        if not char or char not in SED_DELIMITERS:
            raise _DangerError
        self.at += 1
        return char

    def _pattern(self, delimiter: str) -> None:
        """Take a pattern up to its delimiter; one inside brackets ends it for some programs only."""
        inside = -1
        while self.char != delimiter:
            char = self.char
            if char in ("", "\n"):
                raise _DangerError
            if char == "\\":
                if inside >= 0 and self.script[self.at + 1 : self.at + 2] in (delimiter, "]", "\\", ""):
                    raise _DangerError  # a plain backslash to some, an escape to others
                self.at += 2
                continue
            if inside < 0 and char == "[":
                inside = self.at
                if self.script[self.at + 1 : self.at + 2] == "^":
                    self.at += 1
                if self.script[self.at + 1 : self.at + 2] == "]":
                    self.at += 1
            elif inside >= 0 and char == "[" and self.script[self.at + 1 : self.at + 2] in (":", ".", "="):
                self._class()
                continue
            elif char == "]":
                inside = -1
            self.at += 1
        if inside >= 0:
            raise _DangerError
        self.at += 1

    def _class(self) -> None:
        """Take `[:alpha:]` inside brackets."""
        sign = self.script[self.at + 1]
        end = self.script.find(sign + "]", self.at + 2)
        if end < 0 or not LABEL.issuperset(self.script[self.at + 2 : end]):
            raise _DangerError
        self.at = end + 2

    def _replacement(self, delimiter: str) -> None:
        while self.char != delimiter:
            if self.char in ("", "\n"):
                raise _DangerError
            self.at += 2 if self.char == "\\" else 1
        self.at += 1

    def _substitute(self) -> None:
        delimiter = self._delimiter()
        self._pattern(delimiter)
        self._replacement(delimiter)
        while self.char and self.char in SED_FLAGS:
            self.at += 1
        if self.char == "w":
            raise _DangerError(WRITES)
        self._end()


# Words of awk that run a program, open a file, or change which files are read.
AWK_WORDS = frozenset(["system", "getline", "close", "fflush", "ARGV", "ARGC", "ARGIND", "load", "include"])
AWK_PRINTS = frozenset(["print", "printf"])
# Words behind which a slash can only begin a pattern.
AWK_BEFORE_PATTERN = frozenset(["return", "in", "print", "printf", "else", "do", "case", "delete", "exit"])
AWK_OPERATORS = frozenset("+-*%^!<=&?:,~$")
MOST_STATES = 20_000  # ways to read a script, times its length; a script of a page has some thousand


class _At:
    """How far a reading of an awk script has come.

    `value`: a slash here may divide. `prints`: the depth of parentheses at which a `print` stands, -1 outside of one.
    """

    __slots__ = ("at", "depth", "prints", "value")

    def __init__(self, at: int, *, value: bool = False, depth: int = 0, prints: int = -1) -> None:
        self.at = at
        self.value = value
        self.depth = depth
        self.prints = prints

    def key(self) -> tuple[int, bool, int, int]:
        return self.at, self.value, self.depth, self.prints

    def then(self, at: int, *, value: bool, depth: int | None = None, prints: int | None = None) -> _At:
        return _At(
            at,
            value=value,
            depth=self.depth if depth is None else depth,
            prints=self.prints if prints is None else prints,
        )


def awk_danger(script: str) -> str | None:
    """Return what an awk script does beyond reading: `system`, pipes and `getline` run, `print > file` writes."""
    waiting = [_At(0)]
    seen: set[tuple[int, bool, int, int]] = set()
    try:
        while waiting:
            state = waiting.pop()
            if state.key() in seen or state.at >= len(script):
                continue
            seen.add(state.key())
            if len(seen) > MOST_STATES:
                return EXECUTES
            waiting.extend(_awk_step(script, state))
    except _DangerError as error:
        return error.kind
    return None


def _awk_step(script: str, state: _At) -> Iterator[_At]:
    """Yield the states behind the next token; several where it can be read in several ways."""
    at = state.at
    char = script[at]
    following = script[at + 1 : at + 2]
    if char in " \t\r":
        yield state.then(at + 1, value=state.value)
    elif char == "\n":
        yield state.then(at + 1, value=False)
    elif char == "#":
        end = script.find("\n", at)
        yield state.then(len(script) if end < 0 else end, value=False)
    elif char == '"':
        yield state.then(_awk_string(script, at + 1), value=True)
    elif char == "/":
        yield from _awk_slash(script, state)
    elif char in DIGITS or (char == "." and following in DIGITS and following):
        end = at
        while end < len(script) and (script[end] in LABEL or script[end] == "."):
            end += 1
        yield state.then(end, value=True)
    elif char in LABEL:
        yield _awk_word(script, state)
    elif char in "([":
        yield state.then(at + 1, value=False, depth=state.depth + 1)
    elif char in ")]":
        yield state.then(at + 1, value=True, depth=state.depth - 1)
    elif char in "{};":
        yield state.then(at + 1, value=False, prints=-1)
    elif char == "|" and following == "|":
        yield state.then(at + 2, value=False)
    elif char == ">":
        if following == ">" or (state.prints >= 0 and state.depth <= state.prints):
            raise _DangerError(WRITES)
        yield state.then(at + 1, value=False)
    elif char in "+-" and following == char:
        yield state.then(at + 2, value=state.value)
    elif char in AWK_OPERATORS:
        yield state.then(at + 1, value=False)
    elif char == "\\" and following == "\n":
        yield state.then(at + 2, value=state.value)
    else:
        raise _DangerError


def _awk_word(script: str, state: _At) -> _At:
    end = state.at
    while end < len(script) and script[end] in LABEL:
        end += 1
    word = script[state.at : end]
    if word in AWK_WORDS:
        raise _DangerError
    value = word not in AWK_BEFORE_PATTERN
    return state.then(end, value=value, prints=state.depth) if word in AWK_PRINTS else state.then(end, value=value)


def _awk_slash(script: str, state: _At) -> Iterator[_At]:
    """Yield both readings of a slash: it divides, or it begins a pattern that ends on this line."""
    ends = list(_awk_pattern(script, state.at + 1))
    if state.value:
        yield state.then(state.at + 1, value=False)
    elif not ends:
        raise _DangerError
    for end in ends:
        yield state.then(end, value=True)


def _awk_pattern(script: str, at: int) -> Iterator[int]:
    """Yield the places behind a pattern: the first slash ends it, for some programs only outside of brackets."""
    bracket = False
    while at < len(script) and script[at] != "\n":
        char = script[at]
        if char == "\\":
            at += 2
            continue
        if char == "[" and not bracket:
            bracket = True
            at += 1 if script[at + 1 : at + 2] != "^" else 2
            if script[at : at + 1] == "]":
                at += 1
            continue
        if char == "]":
            bracket = False
        elif char == "/":
            yield at + 1
            if not bracket:
                return
        at += 1


def _awk_string(script: str, at: int) -> int:
    """Return the place behind a string."""
    while at < len(script) and script[at] != "\n":
        if script[at] == "\\":
            if script[at + 1 : at + 2] == "\n":
                raise _DangerError
            at += 2
        elif script[at] == '"':
            return at + 1
        else:
            at += 1
    raise _DangerError


SQL_READS = ("select", "pragma", "explain", "with", "values")
SQL_CALLS = (
    "load_extension",
    "writefile",
    "readfile",
    "fsdir",
    "lsdir",
    "zipfile",
    "sqlar_compress",
    "temp_store_directory",
    "data_store_directory",
    "edit",
    "attach",
    "into",
    "fts3_tokenizer",
    "writable_schema",
    "lsdir",
)


def sqlite_danger(script: str) -> str | None:
    """Return what a text for sqlite3 does beyond a query: dot commands run programs, functions read and write files."""
    text = script.strip().lower()
    if not text.startswith(SQL_READS) or "\n." in text.replace("\r", "\n").replace(" ", "").replace("\t", ""):
        return EXECUTES
    words = "".join([char if char.isalnum() or char == "_" else " " for char in text]).split()
    return EXECUTES if any(word in words for word in SQL_CALLS) else None
