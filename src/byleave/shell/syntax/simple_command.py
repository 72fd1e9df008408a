"""Simple commands: assignments, words and redirections in any order; the start of a function; and `[[ .. ]]`.

`[[ .. ]]` has a grammar of its own, where `-eq` evaluates arithmetic and `-v` a subscript.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.syntax.cursor import DIGITS, IDENTIFIER_START, ZSH, is_identifier
from byleave.shell.syntax.redirects import RedirectReader
from byleave.shell.syntax.tree import Arithmetic, AssignmentNode, Simple, Substitution, Word, is_decimal, yields_number
from byleave.shell.syntax.words import WORD_ENDS

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Effect, Node, RedirectNode


UNARY = frozenset(["-" + letter for letter in "abcdefghknoprstuwxzGLNOS"])
BINARY = frozenset(["=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"])
NUMERIC = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])


class ConditionalReader(RedirectReader):
    """Reads the inside of `[[ .. ]]`."""

    __slots__ = ()

    def conditional(self, effects: list[Effect]) -> None:
        """Read from behind `[[` to behind `]]`."""
        self._either(effects)
        if not self._token("]]"):
            self.refuse("[[ .. ]] of an unknown form")

    def _either(self, effects: list[Effect]) -> None:
        """Read terms joined by `&&` and `||`; which binds closer changes nothing that is run."""
        self._term(effects)
        while self._operator("&&") or self._operator("||"):
            self._blanks()
            if self.text[self.at] != "-" and self.text[self.at : self.at + 3] != "! -":
                self.not_in_sh("&& or || in [[ .. ]]", self.at)
            self._term(effects)

    def _term(self, effects: list[Effect]) -> None:
        while self._token("!"):
            pass
        if self._operator("("):
            self.deeper()
            self._either(effects)
            if not self._operator(")"):
                self.refuse("[[ .. ]] of an unknown form")
            self.depth -= 1
            return
        first = self._side(effects)
        if first.text in UNARY and not first.quoted and not self._at_end_of_term():
            self._side(effects)
        elif first.text == "-v" and not first.quoted:
            name = self._side(effects)
            if name.text is None or not is_identifier(name.text):
                self.refuse("-v evaluates a subscript", name.start)
        elif not self._at_end_of_term():
            self._comparison(first, effects)
        elif self.dialect == ZSH:
            self.refuse("a single word in [[ .. ]]", first.start)

    def _comparison(self, left: Word, effects: list[Effect]) -> None:
        self._blanks()
        at = self.at
        operator = self._operator_word()
        if operator == "=~":
            self._regex(effects)
        elif operator in BINARY:
            self._side(effects)
        elif operator in NUMERIC:
            for word in (left, self._side(effects)):
                self._numeric(word, effects)
        else:
            self.refuse("[[ .. ]] of an unknown form", at)

    def _numeric(self, word: Word, effects: list[Effect]) -> None:
        """Check an operand of `-eq` and its like: it is evaluated as arithmetic, so it must be a number."""
        if word.number is True or (word.text is not None and is_decimal(word.text.lstrip("-"))):
            return
        if word.number is None or word.number is False:
            self.refuse("arithmetic on a value that may not be a number", word.start)
        effects.append(Arithmetic((word.number,), (), word.start))

    def _regex(self, effects: list[Effect]) -> None:
        """Read the right side of `=~`: parentheses and `|` belong to it."""
        self._blanks()
        text = self.text
        start = self.at
        depth = 0
        while True:
            char = text[self.at]
            if char in " \t" and depth == 0:
                break
            if char == "|" and depth == 0:
                self.not_in_sh("| in [[ .. ]]", self.at)
            if char in "(|":
                depth += char == "("
                self.at += 1
            elif char == ")" and depth:
                depth -= 1
                self.at += 1
            elif char in WORD_ENDS:
                self.refuse("a regular expression of an unusual form", self.at)
            else:
                effects.extend(self.word().effects)
        if self.at == start:
            self.refuse("a regular expression is missing", start)

    def _side(self, effects: list[Effect]) -> Word:
        self._blanks()
        if self._ends_word("]]"):
            self.refuse("[[ .. ]] of an unknown form")
        word = self.word()
        if self.text[self.at] == "(" or word.joined:
            self.refuse("a pattern of an unusual form in [[ .. ]]")
        effects.extend(word.effects)
        return word

    def _operator_word(self) -> str:
        text, at = self.text, self.at
        if text[at] in "<>":
            if self.dialect == ZSH:
                self.refuse("< or > in [[ .. ]]", at)
            self.not_in_sh("< or > in [[ .. ]]", at)
            if text[at + 1] not in " \t":
                self.refuse("[[ .. ]] of an unknown form")
            self.at += 1
            return text[at]
        if self._ends_word("=~"):
            if self.dialect == ZSH:
                self.refuse("=~ means something else in zsh", at)
            self.at += 2
            return "=~"
        for equal in ("==", "="):  # no word of its own in zsh
            if self._ends_word(equal):
                self.at += len(equal)
                return equal
        word = self.word()
        if word.quoted or word.text is None:
            self.refuse("[[ .. ]] of an unknown form", at)
        return word.text

    def _at_end_of_term(self) -> bool:
        self._blanks()
        text, at = self.text, self.at
        return text[at] == ")" or text[at : at + 2] in ("&&", "||") or self._ends_word("]]")

    def _ends_word(self, token: str) -> bool:
        at = self.at + len(token)
        return self.text.startswith(token, self.at) and self.text[at] in WORD_ENDS

    def _token(self, token: str) -> bool:
        """Move over a word of the grammar if it stands here."""
        self._blanks()
        if self._ends_word(token):
            self.at += len(token)
            return True
        return False

    def _operator(self, operator: str) -> bool:
        self._blanks()
        if self.text.startswith(operator, self.at):
            self.at += len(operator)
            return True
        return False

    def _blanks(self) -> None:
        text = self.text
        while text[self.at] in " \t":
            self.at += 1


CLOSERS = frozenset(["then", "do", "done", "fi", "elif", "else", "esac", "}"])
OPENERS = frozenset(["{", "if", "while", "until", "for", "case", "[[", "function", "select", "coproc", "time", "!"])
KEYWORDS = CLOSERS | OPENERS | {"in", "]]"}
# Words with a grammar of their own in zsh.
ZSH_WORDS = frozenset(
    ["repeat", "foreach", "end", "nocorrect", "noglob", "-", "integer", "float", "always", "namespace", "typeset"]
)
# The builtins after which `name=(..)` is still an array.
DECLARERS = frozenset(["declare", "typeset", "local", "readonly", "export"])
# Commands that can leave the shell in another directory. A name known only at run time can be one of them.
MOVERS = frozenset(["cd", "chdir", "pushd", "popd", "eval", "source", ".", "builtin", "command", "trap"])
EMPTY = Word("", "")


class SimpleReader(ConditionalReader):
    """Reads one simple command."""

    __slots__ = ()

    def function(self, name: Word) -> Node:
        """Read the body behind `name()`; `grammar` knows how."""
        raise NotImplementedError

    def empty_parentheses(self) -> None:
        self.at += 1
        self.blanks()
        if self.text[self.at] != ")":
            self.refuse("`(` cannot stand here")
        self.at += 1

    def simple(self) -> Node:
        start = self.at
        text = self.text
        assignments: list[AssignmentNode] = []
        words: list[Word] = []
        redirects: list[RedirectNode] = []
        arrays = False
        end = start
        while True:
            char = text[self.at]
            if char in WORD_ENDS and not (char in "<>" and text[self.at + 1] == "("):
                if char not in "<>&" or not self.redirect(redirects):
                    break
            elif char in DIGITS and self.redirect(redirects):
                pass
            elif char == "{" and self._names_descriptor():
                self.refuse("a descriptor in a variable")
            elif (not words or arrays) and char in IDENTIFIER_START and (made := self._assignment(bool(words))):
                assignments.append(made)
            else:
                word = self.word()
                if text[self.at] == "(":
                    if words or assignments or redirects:
                        self.refuse("`(` cannot stand here")
                    self.empty_parentheses()
                    return self.function(word)
                if not words:
                    self._check_first(word)
                    arrays = word.text in DECLARERS and not word.quoted
                words.append(word)
            end = self.at
            self.blanks()
            if len(words) == 1 and not assignments and not redirects and text[self.at] == "(":
                self.empty_parentheses()
                return self.function(words[0])
        if not words and not assignments and not redirects:
            self.refuse("a command is missing here")
        if not words and redirects and self.dialect == ZSH:
            self.refuse("a redirection without a command, to which zsh adds one", start)
        return self._made(assignments, words, redirects, start, end)

    def _made(
        self,
        assignments: list[AssignmentNode],
        words: list[Word],
        redirects: list[RedirectNode],
        start: int,
        end: int,
    ) -> Simple:
        if words and (words[0].text is None or words[0].text in MOVERS or words[0].text in self.functions):
            self.moves += 1
            if any(item.operator.startswith("&>") for item in redirects):
                self.not_in_sh("&> of a command that changes the directory", start)
        return Simple(tuple(assignments), tuple(words), tuple(redirects), start, end)

    def _check_first(self, word: Word) -> None:
        """Refuse a first word that bash, or another shell, would not take as the name of a command."""
        text = word.text
        if word.joined and not frozenset("=[").isdisjoint(self.text[word.start : word.end]):
            self.refuse("a word continued on the next line that may be an assignment", word.start)
        if self.dialect == ZSH and (self.text[word.start] == "{" or word.prefix[:1] == "%"):
            self.refuse("a group or a job in zsh", word.start)
        if text is None:
            return
        if word.joined and text in KEYWORDS:
            self.refuse("a word continued on the next line that may be part of the grammar", word.start)
        if self.dialect == ZSH and text in ZSH_WORDS:
            self.refuse(f"`{text}` has a grammar of its own in zsh", word.start)

    def _assignment(self, as_argument: bool) -> AssignmentNode | None:  # noqa: FBT001 -- two callers, both plain
        """Read `name=..` at the cursor; None if the word there is something else."""
        text, start = self.text, self.at
        end = self.identifier_end(start)
        effects: list[Effect] = []
        name = text[start:end]
        subscript = text[end] == "["
        if subscript:
            if as_argument:
                self.refuse("a subscript that bash evaluates", end)
            self.only_bash("a subscript", end)
            end = self.arithmetic(end + 1, "]", effects) + 1
            if text[end - 2] == "[":
                self.refuse("an empty subscript", end)
        append = text[end] == "+"
        if append:
            end += 1
        if text[end] != "=":
            if subscript:
                self.refuse("a subscript where a command's name stands", start)
            return None
        if as_argument and text[end + 1] != "(":
            return None  # an ordinary word; `walk` knows which builtins take it as an assignment
        if append or subscript:
            self.only_bash("an assignment of this form", start)
        self.at = end + 1
        values: tuple[Word, ...] | None = None
        value = EMPTY
        if text[self.at] == "(":
            self.only_bash("an array", self.at)
            values = self._array()
        elif text[self.at] not in WORD_ENDS or (text[self.at] in "<>" and text[self.at + 1] == "("):
            value = self.word()
        if values is not None or append or not is_number(value):
            self.tainted.add(name)
        return AssignmentNode(name, value, append, values, tuple(effects), start)

    def _array(self) -> tuple[Word, ...]:
        start = self.at
        self.at += 1
        words: list[Word] = []
        self.line_breaks()
        while self.text[self.at] != ")":
            if self.text[self.at] == "[" or self.text[self.at] in WORD_ENDS:
                self.refuse("an array element of an unusual form")
            words.append(self.word())
            self.line_breaks()
        self.at += 1
        if self.text[self.at] not in WORD_ENDS:
            self.refuse("text right behind an array")
        if self.pending:
            self.check_lines(start, self.at)
        return tuple(words)

    def _names_descriptor(self) -> bool:
        """Return whether `{name}` stands right before a redirection."""
        end = self.identifier_end(self.at + 1)
        return end > self.at + 1 and self.text[end] == "}" and self.text[end + 1] in "<>\\&"


def is_number(word: Word) -> bool:
    """Return whether the word can be relied on to be a number; a variable's value is not followed here."""
    if word.text is not None:
        return is_decimal(word.text.lstrip("-"))
    return word.number is True or (isinstance(word.number, Substitution) and yields_number(word.number))
