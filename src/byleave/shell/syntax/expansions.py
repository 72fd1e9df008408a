"""Expansions inside words: `$name`, `${..}`, `$(..)`, backticks, `$'..'`, and arithmetic.

What they yield is known only at run time; what they *do* (run commands, set variables, evaluate arithmetic) is kept
as effects of the word. A form whose effect depends on a value, such as `${!name}` or `${name@P}`, is refused.

In arithmetic (`$(( ))`, `(( ))`, subscripts and offsets) bash evaluates the *values* of the variables it meets,
subscripts and their substitutions included, so `x='a[$(id)]'; echo $((x))` runs `id`. An expression is therefore read
as the names it uses and sets; `walk` accepts it only when each used name is known to hold a number. Anything but
numbers, names and operators is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.syntax.cursor import DIGITS, END, IDENTIFIER, IDENTIFIER_START, ZSH, Cursor
from byleave.shell.syntax.tree import Arithmetic, Piece, Sets, Substitution

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Effect, Number


OPERATORS = frozenset("+-*/%<>=!&|^~?:,")
BLANKS = frozenset(" \t\n")
NUMBER = IDENTIFIER | {"#", "@"}  # `16#ff`, `64#@_`
SPECIAL_NUMBERS = frozenset("#?$!")


class ArithmeticReader(Cursor):
    """Reads one expression up to its closing character."""

    __slots__ = ()

    def arithmetic(self, at: int, closers: str, effects: list[Effect]) -> int:
        """Read an expression that starts at `at`; return where its closing character stands."""
        text, start, depth = self.text, at, 0
        uses: list[str | Substitution] = []
        sets: list[str] = []
        while True:
            char = text[at]
            if char in closers and depth == 0:
                break
            if char in BLANKS:
                at += 1
            elif char in DIGITS:
                while text[at] in NUMBER:
                    at += 1
            elif char in IDENTIFIER_START:
                at = self._name(at, uses, sets)
            elif char in OPERATORS:
                if char in "<>" and text[at + 1] == "(":
                    self.refuse("a parenthesis right after < or > in arithmetic", at)
                at += 1
            elif char == "(":
                depth += 1
                at += 1
            elif char == ")" and depth:
                depth -= 1
                at += 1
            elif char == "$":
                at = self._value(at, uses, effects)
            else:
                self.refuse("arithmetic that is not plain numbers, names and operators", at)
        self.check_lines(start, at)
        if uses or sets:
            sure = not any(mark in text[start:at] for mark in "?&|")
            effects.append(Arithmetic(tuple(uses), tuple(sets), start, sure))
        return at

    def _name(self, at: int, uses: list[str | Substitution], sets: list[str]) -> int:
        text = self.text
        end = self.identifier_end(at)
        name = text[at:end]
        if text[end] in "[$(":
            self.refuse("a subscript or a name known only at run time in arithmetic", end)
        after = text[end : end + 12].lstrip()
        before = text[max(at - 12, 0) : at].rstrip()
        if after.startswith("=") and not after.startswith("=="):
            sets.append(name)
            return end
        uses.append(name)
        if _assigns(after) or before.endswith(("++", "--")):
            sets.append(name)
        return end

    def _value(self, at: int, uses: list[str | Substitution], effects: list[Effect]) -> int:
        """Read a `$` expression that bash puts into the expression as text."""
        end, _, _, number = self.dollar(at, effects, quoted=True)
        if number is None or self.text[end] in IDENTIFIER:
            self.refuse("arithmetic on a value that may not be a number", at)
        if not isinstance(number, bool):
            uses.append(number)
        return end

    def dollar(self, at: int, effects: list[Effect], *, quoted: bool) -> tuple[int, str | None, bool, Number]:
        """Read a `$` expansion; `expand` knows how."""
        raise NotImplementedError


def _assigns(after: str) -> bool:
    """Return whether the operator that follows a name changes it."""
    if after.startswith(("++", "--")):
        return True
    for operator in ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="):
        if after.startswith(operator):
            return True
    return False


SPECIAL_PARAMETERS = frozenset("@*#?-$!")
ESCAPED_IN_OPERAND = frozenset("/.*?[]\\$ -+,:;=%@&|()<>^~#!")
DOUBLE_QUOTE_STOPS = frozenset('"\\$`\0')
ANSI_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}
UNKNOWN = Piece("unknown")
HEX = frozenset("0123456789abcdefABCDEF")
OCTAL = frozenset("01234567")


class ExpansionReader(ArithmeticReader):
    """Reads what stands behind a `$`, a backtick or a double quote."""

    __slots__ = ()

    def dollar(self, at: int, effects: list[Effect], *, quoted: bool) -> tuple[int, str | None, bool, Number]:
        """Read the expansion at `at`.

        Return where it ends, its text if that is sure, whether it is many words even inside double quotes, and what
        is known of it as a number.
        """
        text = self.text
        following = text[at + 1]
        if following in IDENTIFIER:
            return self._variable(at + 1)
        if following == "(":
            return self._parenthesis(at, effects)
        if following == "{":
            return self._braces(at, effects, quoted=quoted)
        if following in SPECIAL_PARAMETERS:
            if following == "$" and text[at + 2] in "({":
                self.refuse("$$ right before a parenthesis or a brace", at)
            return at + 2, None, following == "@", True if following in SPECIAL_NUMBERS else None
        if following == "[":
            self.refuse("$[..] is an old form of arithmetic", at)
        if following == "\\" and text[at + 2] == "\n":
            self.refuse("a line continued right after $", at)
        if self.dialect == ZSH:
            self.refuse("a bare $ in zsh", at)
        return at + 1, "$", False, None

    def _variable(self, at: int) -> tuple[int, None, bool, Number]:
        if self.text[at] in DIGITS:
            return at + 1, None, False, None
        end = self.identifier_end(at)
        if self.text[end] == "[" and self.dialect == ZSH:
            self.refuse("a subscript in zsh", end)
        return end, None, False, self.text[at:end]

    def _parenthesis(self, at: int, effects: list[Effect]) -> tuple[int, None, bool, Number]:
        if self.text[at + 2] == "(":
            self.deeper()
            end = self.arithmetic(at + 3, ")", effects)
            self.depth -= 1
            if self.text[end + 1] != ")":
                self.refuse("either arithmetic or a subshell", at)
            return end + 2, None, False, True
        end, body = self.substitution(at + 2)
        made = Substitution(body, "command")
        effects.append(made)
        return end, None, False, made

    def backticks(self, at: int, effects: list[Effect], *, quoted: bool) -> tuple[int, Number]:
        """Read a backtick substitution at `at`; return where it ends."""
        end = self.text.find("`", at + 1)
        if end < 0:
            self.refuse("an unfinished backtick", at)
        inside = self.text[at + 1 : end]
        if "\\" in inside or (quoted and '"' in inside):
            self.refuse("backticks with escapes or quotes of their own inside", at)
        self.check_lines(at, end)
        made = Substitution(self.separate(inside, at + 1), "command")
        effects.append(made)
        return end + 1, made

    def double_quotes(
        self, at: int, effects: list[Effect], parts: list[Piece] | None = None
    ) -> tuple[int, list[str], bool, bool, Number]:
        """Read from behind a `"` to its end.

        Return where that is, the literal start, whether all is literal, whether it may be many words, and the number
        it is. All of its pieces are added to `parts`.
        """
        parts = parts if parts is not None else []
        text, start = self.text, at
        pieces: list[str] = []
        literal, many = True, False
        number: Number = None
        while True:
            begin = at
            while text[at] not in DOUBLE_QUOTE_STOPS:
                at += 1
            if at > begin:
                parts.append(Piece("literal", text[begin:at]))
                if literal:
                    pieces.append(text[begin:at])
            char = text[at]
            if char == '"':
                self.check_lines(start, at)
                alone = text[start] == "$" and begin == at
                return at + 1, pieces, literal, many, number if alone else None
            if char == END:
                self.refuse("an unfinished double quote", start - 1)
            if char == "\\":
                following = text[at + 1]
                if following != "\n":
                    piece = following if following in '"\\$`' else "\\" + following
                    parts.append(Piece("literal", piece))
                    if literal:
                        pieces.append(piece)
                if following == END:
                    self.refuse("an unfinished double quote", start - 1)
                at += 2
                number = None
            elif char == "`":
                at, _ = self.backticks(at, effects, quoted=True)
                literal, number = False, None
                parts.append(UNKNOWN)
            else:
                first = at == start
                begin = at
                at, known, is_many, found = self.dollar(at, effects, quoted=True)
                number = found if first else None
                many = many or is_many
                if known is None:
                    literal = False
                    parts.append(expansion_piece(text[begin:at], found, quoted=True))
                else:
                    parts.append(Piece("literal", known))
                    if literal:
                        pieces.append(known)

    def ansi_quotes(self, at: int) -> tuple[int, str | None]:
        """Read from behind a `$'` to its end; the text is None where it depends on the locale."""
        text, start = self.text, at
        pieces: list[str] = []
        sure = True
        while True:
            begin = at
            while text[at] not in "'\\\0":
                at += 1
            pieces.append(text[begin:at])
            if text[at] == END:
                self.refuse("an unfinished $' quote", start - 2)
            if text[at] == "'":
                self.check_lines(start, at)
                return at + 1, "".join(pieces) if sure else None
            at, piece = self._ansi_escape(at + 1)
            sure = sure and piece is not None
            pieces.append(piece or "")

    def _ansi_escape(self, at: int) -> tuple[int, str | None]:
        text = self.text
        char = text[at]
        if char in ANSI_ESCAPES:
            return at + 1, ANSI_ESCAPES[char]
        if char == "x" and text[at + 1] in HEX:
            end = at + 3 if text[at + 2] in HEX else at + 2
            return self._ansi_code(end, int(text[at + 1 : end], 16))
        if char in OCTAL:
            end = at + 1
            while text[end] in OCTAL and end < at + 3:
                end += 1
            return self._ansi_code(end, int(text[at:end], 8))
        if char in ("c", END):
            self.refuse("a control escape in $'..'", at)
        return at + 1, None

    def _ansi_code(self, end: int, code: int) -> tuple[int, str | None]:
        if code == 0:
            self.refuse("a NUL in $'..' cuts the word short", end)
        return end, chr(code) if code < 0x80 else None

    def _braces(self, at: int, effects: list[Effect], *, quoted: bool) -> tuple[int, None, bool, Number]:
        self.deeper()
        found = self._expansion(at, effects, quoted=quoted)
        self.depth -= 1
        return found

    def _expansion(self, at: int, effects: list[Effect], *, quoted: bool) -> tuple[int, None, bool, Number]:
        text, start = self.text, at
        at += 2
        if text[at] == "#" and text[at + 1] != "}":
            return self._length(at + 1)
        keys = text[at] == "!"
        if keys:
            at += 1
        end = self._parameter(at)
        name = text[at:end]
        many = name == "@"
        plain = True
        if text[end] == "[":
            if name[0] not in IDENTIFIER_START:
                self.refuse("a subscript behind a special parameter", end)
            end, every = self._subscript(end, effects)
            many, plain = every == "@", False
        if keys and (text[end - 3 : end] not in ("[@]", "[*]") or text[end] != "}"):
            self.refuse("${!name} reads a name known only at run time", start)
        if text[end] == "}":
            number: Number = (True if name in SPECIAL_NUMBERS else name) if plain and name[0] not in DIGITS else None
            return end + 1, None, many, None if name in "@*-" else number
        end, more = self._operation(end, name, effects, quoted=quoted)
        if text[end] != "}":
            self.refuse("a parameter expansion of an unknown form", start)
        return end + 1, None, many or more, None

    def _parameter(self, at: int) -> int:
        text = self.text
        if text[at] in DIGITS:
            while text[at] in DIGITS:
                at += 1
            return at
        if text[at] in SPECIAL_PARAMETERS:
            return at + 1
        end = self.identifier_end(at)
        if end == at:
            self.refuse("a parameter expansion of an unknown form", at)
        return end

    def _length(self, at: int) -> tuple[int, None, bool, Number]:
        """Read `${#name}` or `${#name[@]}` from behind the `#`."""
        end = self.identifier_end(at) if self.text[at] not in "@*" else at + 1
        if end == at:
            self.refuse("a parameter expansion of an unknown form", at)
        if self.text[end : end + 3] in ("[@]", "[*]"):
            self.only_bash("an array", end)
            end += 3
        if self.text[end] != "}":
            self.refuse("a parameter expansion of an unknown form", at)
        return end + 1, None, False, True

    def _subscript(self, at: int, effects: list[Effect]) -> tuple[int, str]:
        """Read `[..]` at `at`: where it ends, and `@` or `*` if it is that."""
        self.only_bash("a subscript", at)
        inside = self.text[at + 1]
        if inside in "@*" and self.text[at + 2] == "]":
            return at + 3, inside
        end = self.arithmetic(at + 1, "]", effects)
        if not self.text[at + 1 : end].strip():
            self.refuse("an empty subscript", at)
        return end + 1, ""

    def _operation(self, at: int, name: str, effects: list[Effect], *, quoted: bool) -> tuple[int, bool]:
        """Read what stands between the name and the closing brace."""
        text = self.text
        char = text[at]
        if char == ":" and text[at + 1] not in "-=?+":
            return self._substring(at, effects), False
        if char == "@":
            self.only_bash("${name@..}", at)
            if text[at + 1] not in "QULu" or text[at + 2] != "}":
                self.refuse("${name@..} of a form that expands the value again", at)
            return at + 2, False
        if char in "/^,":
            self.only_bash("a substitution in a parameter expansion", at)
        elif char not in ":-=?+#%":
            self.refuse("a parameter expansion of an unknown form", at)
        at += 2 if char == ":" else 1
        if text[at - 1] == "=":
            effects.append(Sets(name, at))
            self.tainted.add(name)
        return self._operand(at, effects, quoted=quoted)

    def _substring(self, at: int, effects: list[Effect]) -> int:
        self.only_bash("a substring", at)
        end = self.text.find("}", at)
        if self.text.find("?", at, end) >= 0 or self.text.find("`", at, end) >= 0:
            self.refuse("a substring with a conditional inside", at)
        begin = at + 1
        at = self.arithmetic(begin, ":}", effects)
        if self.text[at] == "}" and not self.text[begin:at].strip():
            self.refuse("a substring without an offset", begin)
        return self.arithmetic(at + 1, "}", effects) if self.text[at] == ":" else at

    def _operand(self, at: int, effects: list[Effect], *, quoted: bool) -> tuple[int, bool]:
        """Read the word of `${name:-word}` and its like; stop at the closing brace."""
        text, start, many = self.text, at, False
        while (char := text[at]) != "}":
            if char in "{\n\0" or (char in "<>" and text[at + 1] == "("):
                self.refuse("a parameter expansion of an unknown form", at)
            if char == "$":
                if text[at + 1] in "'\"":
                    self.refuse("quotes inside a parameter expansion", at)
                at, _, is_many, _ = self.dollar(at, effects, quoted=quoted)
                many = many or is_many
            elif char == "`":
                at, _ = self.backticks(at, effects, quoted=quoted)
            elif char == "\\":
                if text[at + 1] not in ESCAPED_IN_OPERAND:
                    self.refuse("an escape inside a parameter expansion", at)
                at += 2
            elif char in "'\"":
                at, is_many = self._quotes_in_operand(at, effects, quoted=quoted)
                many = many or is_many
            else:
                at += 1
        self.check_lines(start, at)
        return at, many

    def _quotes_in_operand(self, at: int, effects: list[Effect], *, quoted: bool) -> tuple[int, bool]:
        if quoted or not self.is_bash:
            self.refuse("quotes inside a quoted parameter expansion", at)
        if self.text[at] == '"':
            end, _, _, many, _ = self.double_quotes(at + 1, effects)
            return end, many
        end = self.text.find("'", at + 1)
        if end < 0:
            self.refuse("an unfinished single quote", at)
        return end + 1, False


def expansion_piece(written: str, number: Number, *, quoted: bool) -> Piece:
    """Return the piece that an expansion is: a plain variable by its name, anything else unknown."""
    if isinstance(number, str) and written in (f"${number}", f"${{{number}}}"):
        return Piece("variable", number, quoted)
    return UNKNOWN
