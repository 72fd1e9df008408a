"""Redirections: operator, descriptor, target; and here-documents.

The body of a here-document stands behind the line that announced it; what its expansions do counts as an effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.model import Redirect
from byleave.shell.syntax.cursor import DIGITS, POSIX, ZSH
from byleave.shell.syntax.tree import Heredoc, RedirectNode, Substitution, is_decimal
from byleave.shell.syntax.words import WORD_ENDS, WordReader

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Effect, Word


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

    def heredoc_text(self, effects: list[Effect]) -> str | None:
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

    def inner(self, text: str) -> HeredocReader:
        """Return a reader of a text of its own that shares what must be known of the whole."""
        raise NotImplementedError


def _continues(line: str) -> bool:
    """Return whether the line ends in a backslash that is not itself escaped."""
    return line.endswith("\\") and (len(line) - len(line.rstrip("\\"))) % 2 == 1


OPERATORS = ("<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">")


class RedirectReader(HeredocReader):
    """Reads the redirections of simple and compound commands."""

    __slots__ = ()

    def redirects(self) -> tuple[RedirectNode, ...]:
        """Read the redirections behind a compound command."""
        found: list[RedirectNode] = []
        self.blanks()
        while self.text[self.at] in "<>&0123456789":
            if not self.redirect(found):
                break
            self.blanks()
        return tuple(found)

    def redirect(self, found: list[RedirectNode]) -> bool:
        """Read the redirection at the cursor; return False if there is none."""
        text, at = self.text, self.at
        start = at
        fd: int | None = None
        if text[at] in DIGITS:
            while text[at] in DIGITS:
                at += 1
            if text[at] == "\\" and text[at + 1] == "\n":
                self.refuse("a line continued right after a number", at)
            if text[at] not in "<>":
                return False
            if at - start > 3:
                self.refuse("a descriptor's number of an unusual size", start)
            fd = int(text[start:at])
        operator = self._redirect_operator(at)
        if not operator:
            return False
        at += len(operator)
        if self.dialect == ZSH and text[at] in "!|":
            self.refuse("a redirection that overwrites, as zsh writes it", at)
        if text[at] == "\\" or (text[at] == "(" and fd is not None):
            self.refuse("a redirection of an unusual form", at)
        self.at = at
        self.blanks()
        found.append(self._redirect_target(operator, fd, start))
        if operator.startswith("&>"):
            self.blanks()
            following = self.text[self.at]
            if following not in WORD_ENDS or following == "(":
                self.not_in_sh("&> with words behind it", start)
        return True

    def _redirect_operator(self, at: int) -> str:
        text = self.text
        if text[at] == "&":
            if text[at + 1] != ">":
                return ""
            self.only_bash("&>", at)
            return "&>>" if text[at + 2] == ">" else "&>"
        for operator in OPERATORS:
            if text.startswith(operator, at):
                if operator == "<<<":
                    self.only_bash("<<<", at)
                if self.dialect == ZSH and operator == "<" and text[at + 1] in "0123456789-":
                    self.refuse("a numeric pattern in zsh", at)
                return operator
        return ""

    def _redirect_target(self, operator: str, fd: int | None, start: int) -> RedirectNode:
        if operator in ("<<", "<<-"):
            heredoc: Heredoc = self.announce(strips_tabs=operator == "<<-")
            return RedirectNode(operator, fd, None, heredoc, start)
        char = self.text[self.at]
        if char in WORD_ENDS and not (char in "<>" and self.text[self.at + 1] == "("):
            self.refuse("a redirection without a target")
        word = self.word()
        if operator in (">&", "<&"):
            self._check_duplicate(operator, fd, word)
        if self.text[self.at] in "<>" and not word.quoted and is_decimal(word.text or ""):
            self.refuse("a number right before a redirection", word.start)
        return RedirectNode(operator, fd, word, None, start)

    def _check_duplicate(self, operator: str, fd: int | None, word: Word) -> None:
        """`>&word` is a descriptor for a number or `-`, else a file, and an error with a number before it."""
        if word.text is None:
            self.refuse("a descriptor known only at run time, which bash expands twice", word.start)
        if word.quoted or (word.prefix.startswith("-") and word.text != "-"):
            self.refuse("a descriptor of an unusual form", word.start)
        if is_descriptor(word.text):
            return
        if operator == "<&" or fd not in (None, 1) or self.dialect == POSIX:
            self.refuse("a descriptor known only at run time, or none at all", word.start)


def is_descriptor(text: str) -> bool:
    """Return whether the word behind `>&` names a descriptor to copy, move or close."""
    return text == "-" or is_decimal(text) or (text[-1:] == "-" and is_decimal(text[:-1]))


# Written to without changing any file.
NO_FILES = frozenset(["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full"])
_STREAMS = frozenset(["/dev/stdin", "/dev/stdout", "/dev/stderr"])
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
WRITING = frozenset([">", ">>", ">|", "&>", "&>>", "<>", ">&"])


def redirect_of(node: RedirectNode) -> Redirect:
    """Return a redirection as it is reported."""
    if node.body is not None:
        return Redirect(node.operator, node.fd, None, False, "text", "", node.body.text)
    word = node.target
    assert word is not None  # noqa: S101 -- only here-documents have none
    operator, text = node.operator, word.text
    if operator == "<<<":
        body = None if text is None else text + "\n"
        return Redirect(operator, node.fd, text, False, "text", word.prefix, body)
    if operator in (">&", "<&") and text is not None and is_descriptor(text):
        return Redirect(operator, node.fd, text, False, "descriptor", text)
    kind = "file"
    if any(isinstance(effect, Substitution) and effect.kind != "command" for effect in word.effects):
        kind = "process"
    elif word.prefix.startswith(("/dev/tcp/", "/dev/udp/")):
        kind = "network"
    quiet = text in NO_FILES or is_descriptor_file(text)
    writes = operator in WRITING and kind != "process" and not quiet
    return Redirect(operator, node.fd, text, writes, kind, word.prefix)


def is_descriptor_file(name: str | None) -> bool:
    """Whether a name stands for what is open already (`/dev/stdin`, `/dev/fd/3`), and counted when it was opened."""
    if name is None or name in _STREAMS:
        return name is not None
    return any(name.startswith(start) and is_decimal(name[len(start) :]) for start in _DESCRIPTORS)
