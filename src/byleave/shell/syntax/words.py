"""Words: literal text, quotes, escapes, expansions, patterns.

A word is known (`text`) when bash can make only one thing of it. Globs, braces and tildes are marked, not expanded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.syntax.cursor import END, ZSH
from byleave.shell.syntax.expansions import UNKNOWN, ExpansionReader, expansion_piece
from byleave.shell.syntax.tree import Piece, Substitution, Word

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Effect, Number

WORD_ENDS = frozenset(" \t\n|&;()<>\0")
# What makes a word more than its plain characters.
SPECIAL = WORD_ENDS | frozenset("'\"\\$`*?[{~")


class WordReader(ExpansionReader):
    """Reads one word that starts at the cursor."""

    __slots__ = ()

    def word(self, stops: frozenset[str] = SPECIAL) -> Word:
        """Read the word at the cursor and move behind it. There must be one."""
        text = self.text
        at = start = self.at
        while text[at] not in stops:
            at += 1
        if text[at] in WORD_ENDS and not (text[at] in "<>" and text[at + 1] == "("):
            if at == start:
                self.refuse("a word is missing here", at)
            self.at = at
            plain = text[start:at]
            if self.dialect == ZSH and (plain[0] == "=" or plain == "}"):
                self.refuse(f"`{plain}` means something else in zsh", start)
            return Word(plain, plain, start, at)
        return _Building(self, start).read()

    def quoted_literal(self, at: int) -> int:
        """Return where the single-quoted text that starts behind `at` ends."""
        end = self.text.find("'", at)
        if end < 0:
            self.refuse("an unfinished single quote", at - 1)
        self.check_lines(at, end)
        return end


class _Building:
    """A word in the making: its literal text so far, and the marks that make it unknown."""

    __slots__ = (
        "_brace",
        "_bracket",
        "_length",
        "_marks",
        "_separated",
        "cut",
        "effects",
        "glob",
        "joined",
        "number",
        "parts",
        "pieces",
        "quoted",
        "reader",
        "splits",
        "start",
        "unknown",
    )

    def __init__(self, reader: WordReader, start: int) -> None:
        self.reader = reader
        self.start = start
        self.pieces: list[str] = []
        self.parts: list[Piece] = []
        self.effects: list[Effect] = []
        self.number: Number = None
        self.unknown = self.splits = self.glob = self.quoted = self.joined = False
        self.cut = -1  # how much of the literal text every outcome starts with, once something is not known
        self._length = 0
        self._marks = 0
        self._separated = False
        self._bracket = -1  # where an unquoted [ or { stands in the literal text
        self._brace = -1

    def read(self) -> Word:
        reader = self.reader
        text, at = reader.text, reader.at
        while True:
            char = text[at]
            if char in WORD_ENDS:
                if char not in "<>" or text[at + 1] != "(":
                    break
                at = self._process(at)
            elif char == "'":
                end = reader.quoted_literal(at + 1)
                self._add(text[at + 1 : end])
                self.parts.append(Piece("literal", text[at + 1 : end]))
                self.quoted = True
                at = end + 1
            elif char == '"':
                at = self._double(at + 1)
            elif char == "\\":
                at = self._escape(at)
            elif char == "$":
                at = self._dollar(at)
            elif char == "`":
                at, number = reader.backticks(at, self.effects, quoted=False)
                self._mark(splits=True, number=number)
                self.parts.append(UNKNOWN)
            else:
                at = self._plain(at)
        reader.at = at
        return self._finish(at)

    def _plain(self, at: int) -> int:
        """Take unquoted characters, noting those that make a pattern."""
        text = self.reader.text
        begin = at
        while (char := text[at]) not in WORD_ENDS and char not in "'\"\\$`":
            place = self._length + at - begin
            if char in "*?":
                self._pattern(place)
            elif char == "[":
                self._bracket = place if self._bracket < 0 else self._bracket
            elif char == "]" and self._bracket >= 0:
                self._pattern(self._bracket)
            elif char == "{":
                self._brace = place if self._brace < 0 else self._brace
            elif char == "}" and self._brace >= 0 and self._separated:
                self._pattern(self._brace)
                self._brace = -2  # decided: no need to look again
            elif (char == "," or (char == "." and text[at - 1] == ".")) and self._brace >= 0:
                self._separated = True  # braces make words only with a comma or two dots between them
            elif char == "~" and (place == 0 or text[at - 1] in "=:\n"):
                self.unknown = True
                self._cut(place + 1)
            elif char == "=" and at == self.start and self.reader.dialect == ZSH:
                self.reader.refuse("=name in zsh", at)
            at += 1
        self._add(text[begin:at])
        self.parts.append(Piece("raw", text[begin:at]))
        return at

    def _pattern(self, place: int) -> None:
        self.glob = self.unknown = True
        self._cut(place)

    def _cut(self, place: int) -> None:
        if self.cut < 0 or place < self.cut:
            self.cut = place

    def _add(self, piece: str) -> None:
        self.pieces.append(piece)
        self._length += len(piece)
        if self._brace >= 0 and ("," in piece or "." in piece):
            self._separated = True

    def _mark(self, *, splits: bool, number: Number = None) -> None:
        """Something known only at run time stands here."""
        self.number = number
        self._marks += 1
        self.unknown = True
        self.splits = self.splits or splits
        self._cut(self._length)

    def _escape(self, at: int) -> int:
        following = self.reader.text[at + 1]
        if following == END:
            self.reader.refuse("a backslash at the end", at)
        if following == "\n":
            self.reader.check_lines(at, at + 2)
            self.joined = True
        else:
            self.quoted = True
            self._add(following)
            self.parts.append(Piece("literal", following))
        return at + 2

    def _double(self, at: int) -> int:
        self.parts.append(Piece("literal"))  # also of empty quotes: what follows does not begin the word
        end, pieces, literal, many, number = self.reader.double_quotes(at, self.effects, self.parts)
        self.quoted = True
        for piece in pieces:
            self._add(piece)
        if not literal:
            self._mark(splits=many, number=number)
        return end

    def _dollar(self, at: int) -> int:
        reader = self.reader
        if reader.text[at + 1] == "'":
            reader.only_bash("$'..'", at)
            end, known = reader.ansi_quotes(at + 2)
            if "\\'" in reader.text[at:end] or "\\\\" in reader.text[at:end]:
                reader.not_in_sh("$'..' with a backslash before a quote or a backslash", at)
            self.quoted = True
            if known is None:
                self._mark(splits=False)
                self.parts.append(UNKNOWN)
            else:
                self._add(known)
                self.parts.append(Piece("literal", known))
            return end
        if reader.text[at + 1] == '"':
            reader.only_bash('$".."', at)
            end, _, _, many, _ = reader.double_quotes(at + 2, self.effects)
            self.quoted = True
            self._mark(splits=many)
            self.parts.append(UNKNOWN)
            return end
        end, known, _, number = reader.dollar(at, self.effects, quoted=False)
        if known is None:
            self._mark(splits=True, number=number)
            self.parts.append(expansion_piece(reader.text[at:end], number, quoted=False))
        else:
            self._add(known)
            self.parts.append(Piece("literal", known))
        return end

    def _process(self, at: int) -> int:
        """Read `<(..)` or `>(..)`."""
        reader = self.reader
        reader.only_bash("process substitution", at)
        end, body = reader.substitution(at + 2)
        if not body.items:
            reader.refuse("an empty process substitution", at)
        self.effects.append(Substitution(body, "read" if reader.text[at] == "<" else "write"))
        self._add("/")  # it becomes the path of a pipe
        self._mark(splits=False)
        self.parts.append(Piece("process"))
        return end

    def _finish(self, end: int) -> Word:
        literal = "".join(self.pieces)
        number = self.number if self._marks == 1 and not self.pieces else None
        if self.unknown:
            # With nullglob a pattern without a match goes, and what was split off behind it comes first.
            prefix = "" if self.splits and self.glob else literal[: self.cut]
            text = None
        else:
            text = prefix = literal
        return Word(
            text,
            prefix,
            self.start,
            end,
            self.splits,
            self.glob,
            self.quoted,
            self.joined,
            tuple(self.effects),
            number,
            tuple(self.parts) if self.unknown else (),
        )
