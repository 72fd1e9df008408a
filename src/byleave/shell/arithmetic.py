"""Arithmetic: `$(( ))`, `(( ))`, subscripts and offsets.

Bash evaluates the *values* of the variables it meets here, subscripts and their substitutions included, so
`x='a[$(id)]'; echo $((x))` runs `id`. An expression is therefore read as the names it uses and sets; `walk` accepts
it only when each used name is known to hold a number. Anything but numbers, names and operators is refused.
"""

from byleave.shell.cursor import DIGITS, IDENTIFIER, IDENTIFIER_START, Cursor
from byleave.shell.syntax import Arithmetic, Substitution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.syntax import Effect, Number

OPERATORS = frozenset("+-*/%<>=!&|^~?:,")
BLANKS = frozenset(" \t\n")
NUMBER = IDENTIFIER | {"#", "@"}  # `16#ff`, `64#@_`
SPECIAL_NUMBERS = frozenset("#?$!")


class ArithmeticReader(Cursor):
    """Reads one expression up to its closing character."""

    __slots__ = ()

    def arithmetic(self, at: int, closers: str, effects: "list[Effect]") -> int:
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

    def _name(self, at: int, uses: "list[str | Substitution]", sets: list[str]) -> int:
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

    def _value(self, at: int, uses: "list[str | Substitution]", effects: "list[Effect]") -> int:
        """Read a `$` expression that bash puts into the expression as text."""
        if self.text[at - 1] in IDENTIFIER_START:
            self.refuse("a name known only at run time in arithmetic", at)
        end, _, _, number = self.dollar(at, effects, quoted=True)
        if number is None or self.text[end] in IDENTIFIER:
            self.refuse("arithmetic on a value that may not be a number", at)
        if not isinstance(number, bool):
            uses.append(number)
        return end

    def dollar(self, at: int, effects: "list[Effect]", *, quoted: bool) -> "tuple[int, str | None, bool, Number]":
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
