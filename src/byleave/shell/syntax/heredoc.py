"""Here-documents: find the body behind the line that announced them, and what its expansions do.

Bash takes the body line by line, before it looks at what the lines hold. In one with an unquoted delimiter a
backslash at the end of a line joins it to the next, also before the delimiter is looked for.
"""

from byleave.shell.syntax.tree import Heredoc
from byleave.shell.syntax.words import WORD_ENDS, WordReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Effect

DELIMITER_REFUSED = frozenset("$`{}*?[]~\n\0")


class HeredocReader(WordReader):
    """Announces here-documents, reads their bodies when the line ends, and knows what separates words."""

    __slots__ = ()

    def announce(self, *, strips_tabs: bool) -> Heredoc:
        """Read the delimiter at the cursor and remember that a body is to come."""
        text, at = self.text, self.at
        pieces: list[str] = []
        quoted = False
        while (char := text[at]) not in WORD_ENDS:
            if char in DELIMITER_REFUSED:
                self.refuse("a here-document's delimiter of an unusual form", at)
            if char in "'\"":
                end = text.find(char, at + 1)
                inside = text[at + 1 : end]
                if end < 0 or not DELIMITER_REFUSED.isdisjoint(inside) or "\\" in inside:
                    self.refuse("a here-document's delimiter of an unusual form", at)
                pieces.append(inside)
                quoted = True
                at = end + 1
            elif char == "\\":
                if text[at + 1] in DELIMITER_REFUSED:
                    self.refuse("a here-document's delimiter of an unusual form", at)
                pieces.append(text[at + 1])
                quoted = True
                at += 2
            else:
                pieces.append(char)
                at += 1
        delimiter = "".join(pieces)
        if not delimiter:
            self.refuse("a here-document without a delimiter", at)
        heredoc = Heredoc(delimiter, self.at, quoted=quoted, strips_tabs=strips_tabs)
        self.pending.append(heredoc)
        self.at = at
        return heredoc

    def newline(self) -> None:
        """Move over the line end at the cursor, and over the bodies that follow it."""
        if self.blocked:
            self.refuse("a here-document is announced on a line that ends inside a word")
        self.at += 1
        if self.pending:
            waiting, self.pending = self.pending, []
            for heredoc in waiting:
                self._body(heredoc)

    def keyword_here(self) -> str:
        """Return the plain word at the cursor."""
        text, at = self.text, self.at
        end = at
        while text[end] not in WORD_ENDS:
            end += 1
            if end - at > 8:  # longer than any keyword
                return ""
        return text[at:end]

    def blanks(self) -> None:
        """Move over blanks, continued lines and a comment. Only where a word may begin."""
        text, at = self.text, self.at
        while True:
            char = text[at]
            if char in {" ", "\t"}:
                at += 1
            elif char == "\\" and text[at + 1] == "\n":
                at += 2
            elif char == "#":
                at = text.find("\n", at)
                if at < 0:
                    at = len(text) - 1
            else:
                break
        self.at = at

    def line_breaks(self) -> None:
        self.blanks()
        while self.text[self.at] == "\n":
            self.newline()
            self.blanks()

    def _body(self, heredoc: Heredoc) -> None:
        text, at, last = self.text, self.at, len(self.text) - 1
        lines: list[str] = []
        while at < last:
            end = text.find("\n", at)
            if end < 0:
                end = last
            line = text[at:end]
            if not heredoc.quoted:
                while _continues(line) and end < last:
                    begin, end = end + 1, text.find("\n", end + 1)
                    if end < 0:
                        end = last
                    line = line[:-1] + text[begin:end]
            at = min(end + 1, last)
            if heredoc.strips_tabs:
                line = line.lstrip("\t")
            if line == heredoc.delimiter:
                self.at = at
                self._fill(heredoc, lines)
                return
            lines.append(line)
        self.refuse("a here-document without an end", heredoc.at)

    def _fill(self, heredoc: Heredoc, lines: list[str]) -> None:
        body = "".join([line + "\n" for line in lines])
        if heredoc.quoted or not ("$" in body or "`" in body or "\\" in body):
            heredoc.text = body
            return
        reader = self.inner(body)
        effects: list[Effect] = []
        heredoc.text = reader.heredoc_text(effects)
        heredoc.effects = tuple(effects)

    def heredoc_text(self, effects: "list[Effect]") -> str | None:
        """Read the whole text as the body of a here-document; return it if it is known."""
        text, at, last = self.text, 0, len(self.text) - 1
        pieces: list[str] = []
        sure = True
        while at < last:
            char = text[at]
            if char == "$":
                at, known, _, _ = self.dollar(at, effects, quoted=True)
                sure = sure and known is not None
                pieces.append(known or "")
            elif char == "`":
                at, _ = self.backticks(at, effects, quoted=True)
                sure = False
            elif char == "\\":
                following = text[at + 1]
                pieces.append(following if following in "\\$`" else char + following)
                at += 2
            else:
                begin = at
                while text[at] not in "$`\\\0":
                    at += 1
                pieces.append(text[begin:at])
        return "".join(pieces) if sure else None

    def inner(self, text: str) -> "HeredocReader":
        """Return a reader of a text of its own that shares what must be known of the whole."""
        raise NotImplementedError


def _continues(line: str) -> bool:
    """Return whether the line ends in a backslash that is not itself escaped."""
    return line.endswith("\\") and (len(line) - len(line.rstrip("\\"))) % 2 == 1
