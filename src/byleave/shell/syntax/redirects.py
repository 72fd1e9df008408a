"""Redirections: operator, descriptor, target.

What a redirection does: to a file, a descriptor, a process, the network; does it write?
"""

from byleave.shell.model import Redirect
from byleave.shell.syntax.conditional import ConditionalReader
from byleave.shell.syntax.cursor import DIGITS, POSIX, ZSH, is_decimal
from byleave.shell.syntax.tree import RedirectNode, Substitution
from byleave.shell.syntax.words import WORD_ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.model import Word
    from byleave.shell.syntax.tree import Heredoc


OPERATORS = ("<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">")


class RedirectReader(ConditionalReader):
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

    def _check_duplicate(self, operator: str, fd: int | None, word: "Word") -> None:
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


def redirect_of(node: "RedirectNode") -> Redirect:
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
