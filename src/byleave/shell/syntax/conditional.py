"""`[[ .. ]]`: a grammar of its own, where `-eq` evaluates arithmetic and `-v` a subscript."""

from byleave.shell.syntax.cursor import ZSH, is_decimal, is_identifier
from byleave.shell.syntax.heredoc import HeredocReader
from byleave.shell.syntax.tree import Arithmetic
from byleave.shell.syntax.words import WORD_ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.model import Word
    from byleave.shell.syntax.tree import Effect

UNARY = frozenset(["-" + letter for letter in "abcdefghknoprstuwxzGLNOS"])
BINARY = frozenset(["=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"])
NUMERIC = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])


class ConditionalReader(HeredocReader):
    """Reads the inside of `[[ .. ]]`."""

    __slots__ = ()

    def conditional(self, effects: "list[Effect]") -> None:
        """Read from behind `[[` to behind `]]`."""
        self._either(effects)
        if not self._token("]]"):
            self.refuse("[[ .. ]] of an unknown form")

    def _either(self, effects: "list[Effect]") -> None:
        """Read terms joined by `&&` and `||`; which binds closer changes nothing that is run."""
        self._term(effects)
        while self._operator("&&") or self._operator("||"):
            self._blanks()
            if self.text[self.at] != "-" and self.text[self.at : self.at + 3] != "! -":
                self.not_in_sh("&& or || in [[ .. ]]", self.at)
            self._term(effects)

    def _term(self, effects: "list[Effect]") -> None:
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

    def _comparison(self, left: "Word", effects: "list[Effect]") -> None:
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

    def _numeric(self, word: "Word", effects: "list[Effect]") -> None:
        """Check an operand of `-eq` and its like: it is evaluated as arithmetic, so it must be a number."""
        if word.number is True or (word.text is not None and is_decimal(word.text.lstrip("-"))):
            return
        if word.number is None or word.number is False:
            self.refuse("arithmetic on a value that may not be a number", word.start)
        effects.append(Arithmetic((word.number,), (), word.start))

    def _regex(self, effects: "list[Effect]") -> None:
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

    def _side(self, effects: "list[Effect]") -> "Word":
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
