"""The grammar of bash from lists down to simple commands. Text in, tree out; nothing is followed or decided here.

Recursive descent. Start at `parse`. Words: `words`. What the tree means for directories and commands: `walk`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.model import NotUnderstoodError
from byleave.shell.syntax.cursor import BASH, DIGITS, END, IDENTIFIER_START, ZSH
from byleave.shell.syntax.simple_command import CLOSERS, KEYWORDS, OPENERS, SimpleReader, is_number
from byleave.shell.syntax.tree import (
    AndOr,
    Case,
    EvaluatedText,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    Sequence,
    Word,
    is_decimal,
)
from byleave.shell.syntax.words import WORD_ENDS

if TYPE_CHECKING:
    from byleave.shell.syntax.tree import Effect, Node

FUNCTION_NAME = IDENTIFIER_START | DIGITS | frozenset("-.:+@")


class Grammar(SimpleReader):
    """Reads commands from the cursor on."""

    __slots__ = ()

    def program(self) -> Sequence:
        """Read the whole text."""
        body = self.sequence()
        if self.text[self.at] != END or self.at != len(self.text) - 1:
            self.refuse("nothing can stand here")
        if self.pending:
            self.refuse("a here-document without a body", self.pending[0].at)
        return body

    # The readers below call these two for what stands inside a word.

    def substitution(self, at: int) -> tuple[int, Sequence]:
        self.deeper()
        outside = self.at, self.pending, self.blocked, self.moves
        self.at, self.pending, self.blocked = at, [], self.blocked or bool(self.pending)
        body = self.sequence()
        if self.text[self.at] != ")":
            self.refuse("an unfinished substitution", at)
        if self.pending:
            self.refuse("a here-document without a body", self.pending[0].at)
        end = self.at + 1
        self.at, self.pending, self.blocked, self.moves = outside
        self.depth -= 1
        return end, body

    def separate(self, text: str, at: int) -> Sequence:
        try:
            return self.inner(text).program()
        except NotUnderstoodError as problem:
            self.refuse(problem.reason, at)

    def inner(self, text: str) -> Grammar:
        self.deeper()
        made = Grammar(text, dialect=self.dialect, depth=self.depth)
        made.functions, made.tainted = self.functions, self.tainted
        self.depth -= 1
        return made

    def sequence(self) -> Sequence:
        """Read commands up to something that closes them."""
        items: list[tuple[Node, bool]] = []
        text = self.text
        self.line_breaks()
        while not self._at_closer():
            before = self.moves
            node = self._and_or()
            self.blanks()
            char = text[self.at]
            following = text[self.at + 1] if char != END else END
            if char == "&" and following not in "&>\\":
                items.append((node, True))
                if self.dialect != ZSH:  # which runs only the last pipeline of a list in the background
                    self.moves = before
            elif (char == ";" and following not in ";&\\") or char == "\n":
                items.append((node, False))
            else:
                items.append((node, False))
                break
            if char != "\n":
                self.at += 1
            self.line_breaks()
        return Sequence(tuple(items))

    def _at_closer(self) -> bool:
        text, at = self.text, self.at
        char = text[at]
        if char in (")", END):
            return True
        if char == ";":
            return text[at + 1] in ";&"
        return char in "tdfe}" and self.keyword_here() in CLOSERS

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest: list[tuple[str, Node]] = []
        while True:
            self.blanks()
            operator = self.text[self.at : self.at + 2]
            if operator not in ("&&", "||"):
                return AndOr(first, tuple(rest)) if rest else first
            self.at += 2
            self.line_breaks()
            rest.append((operator, self._pipeline()))

    def _pipeline(self) -> Node:
        negated = timed = False
        before = self.moves
        while self.text[self.at] in "!t":
            word = self.keyword_here()
            if word == "!" and self.text[self.at + 1] != "(":
                negated = not negated
            elif word == "time" and (self.is_bash or self.dialect == ZSH) and not timed:
                timed = True
            else:
                break
            self.at += len(word)
            self.blanks()
            if word == "time" and self.dialect == ZSH and self.text[self.at] in "-;&|)\n\0":
                self.refuse("`time` with an option, or without a command, in zsh")
            if word == "time" and self.keyword_here() == "-p":
                self.at += 2
                self.blanks()
        if timed and self.keyword_here() == "time":
            self.refuse("`time` twice")
        stages = [self._command()]
        while self._pipe():
            stages.append(self._command())
        if timed and self.moves > before:
            self.not_in_sh("`time` with a command that changes the directory", self.at)
        if len(stages) > 1:
            self.moves = before
        if len(stages) > 1 or negated or timed:
            return Pipeline(tuple(stages), negated, timed)
        return stages[0]

    def _pipe(self) -> bool:
        """Move over a `|` or `|&` and the line ends behind it, if one stands here."""
        self.blanks()
        text, at = self.text, self.at
        if text[at] != "|" or text[at + 1] == "|":
            return False
        if text[at + 1] == "\\" and text[at + 2 : at + 4] in ("\n|", "\n&", "\n\\"):
            self.refuse("an operator continued on the next line")
        if text[at + 1] == "&":
            self.only_bash("|&", at)
            at += 1
        self.at = at + 1
        self.blanks()
        if self.text[self.at] == "\n":
            self.line_breaks()
            if self.keyword_here() == "time":
                self.refuse("`time` on the line behind a pipe")
        elif self.dialect == ZSH and self.keyword_here() == "time":
            self.refuse("`time` behind a pipe, which is a keyword in zsh")
        return True

    def _command(self) -> Node:
        char = self.text[self.at]
        if char == "(":
            return self._parenthesised()
        if char in WORD_ENDS and char not in "<>&":
            self.refuse("a command is missing here")
        keyword = self.keyword_here() if char in "{iwufcs[!tde}]" else ""
        if keyword in CLOSERS or keyword in ("in", "]]"):
            self.refuse(f"`{keyword}` cannot stand here")
        if keyword in OPENERS and not (keyword == "time" and self.text[self.at + 4] in " \t"):
            return self._compound(keyword)
        return self.simple()

    def _compound(self, keyword: str) -> Node:
        reader = COMPOUNDS.get(keyword)
        if reader is None:
            self.refuse(f"`{keyword}` cannot stand here, or is not followed")
        self.deeper()
        start = self.at
        self.at += len(keyword)
        node: Node = reader(self, start)
        self.depth -= 1
        return node

    def _parenthesised(self) -> Node:
        start = self.at
        self.deeper()
        if self.text[start + 1] == "(":
            self.only_bash("((", start)
            node: Node = self._arithmetic_command(start)
        else:
            before = self.moves
            self.at += 1
            body = self._body_until(")")
            self.moves = before
            node = Group(body, self.redirects(), subshell=True)
        self.depth -= 1
        return node

    def _body_until(self, closer: str) -> Sequence:
        """Read commands, at least one, and the word or parenthesis that closes them."""
        body = self.sequence()
        if not body.items:
            self.refuse("a command is missing here")
        self.expect(closer)
        return body

    def expect(self, keyword: str) -> None:
        self.blanks()
        if self.text[self.at] != keyword if keyword == ")" else self.keyword_here() != keyword:
            self.refuse(f"`{keyword}` is missing here")
        self.at += len(keyword)

    def _group(self, _start: int) -> Node:
        return Group(self._body_until("}"), self.redirects(), subshell=False)

    def _if(self, _start: int) -> Node:
        branches: list[tuple[Sequence, Sequence]] = []
        otherwise: Sequence | None = None
        closer = "elif"
        while closer == "elif":
            condition = self._body_until("then")
            body = self.sequence()
            closer = self._closer("elif", "else", "fi")
            if not body.items:
                self.refuse("a command is missing here")
            branches.append((condition, body))
        if closer == "else":
            otherwise = self._body_until("fi")
        return If(tuple(branches), otherwise, self.redirects())

    def _closer(self, *allowed: str) -> str:
        self.blanks()
        word = self.keyword_here()
        if word not in allowed:
            self.refuse(f"`{allowed[-1]}` is missing here")
        self.at += len(word)
        return word

    def _while(self, start: int) -> Node:
        until = self.text[start] == "u"
        before = self.moves
        condition = self._body_until("do")
        body = self._body_until("done")
        moves = self.moves > before
        return Loop(condition, None, (), body, self.redirects(), until, moves, (), start)

    def _for(self, start: int) -> Node:
        self.blanks()
        if self.text.startswith("((", self.at):
            return self._arithmetic_for(start)
        begin = self.at
        end = self.identifier_end(begin)
        name = self.text[begin:end]
        if not name or self.text[end] not in " \t\n;":
            self.refuse("a variable's name is missing here", begin)
        self.at = end
        words = self._for_words()
        if not words or not all(self._is_count(word) for word in words):
            self.tainted.add(name)
        before = self.moves
        body = self._body_until("done")
        moves = self.moves > before
        return Loop(None, name, tuple(words), body, self.redirects(), until=False, moves=moves, effects=(), at=start)

    def _is_count(self, word: Word) -> bool:
        """Return whether a word of `for` yields numbers only: a number, `{1..5}`, `$(seq 5)`."""
        raw = self.text[word.start : word.end]
        bounds = raw[1:-1].split("..") if raw.startswith("{") and raw.endswith("}") else []
        return is_number(word) or (bool(bounds) and all(is_decimal(bound) for bound in bounds))

    def _for_words(self) -> list[Word]:
        """Read `in words;` and the `do`."""
        words: list[Word] = []
        self.blanks()
        if self.keyword_here() == "in":
            self.at += 2
            self.blanks()
            while self.text[self.at] not in "\n;|&)\0":
                words.append(self.word())
                if self.text[self.at] in "(<>":
                    self.refuse("a word of an unknown form", self.at)
                self.blanks()
            if self.text[self.at] not in ";\n":
                self.refuse("`;` or a new line is missing here")
        if self.text[self.at] == ";":
            self.at += 1
        self.line_breaks()
        self.expect("do")
        return words

    def _arithmetic_for(self, start: int) -> Node:
        self.only_bash("for ((", start)
        effects: list[Effect] = []
        at = self.at + 2
        for closer in ";;)":
            at = self.arithmetic(at, closer, effects) + 1
        if self.text[at] != ")":
            self.refuse("`))` is missing here", at)
        self.at = at + 1
        self.blanks()
        if self.text[self.at] == ";":
            self.at += 1
        self.line_breaks()
        self.expect("do")
        before = self.moves
        body = self._body_until("done")
        moves = self.moves > before
        redirects = self.redirects()
        return Loop(None, None, (), body, redirects, until=False, moves=moves, effects=tuple(effects), at=start)

    def _case(self, _start: int) -> Node:
        self.blanks()
        word = self.word()
        self.line_breaks()
        self.expect("in")
        branches: list[tuple[tuple[Word, ...], Sequence]] = []
        self.line_breaks()
        while self.keyword_here() != "esac":
            patterns = self._patterns()
            body = self.sequence()
            branches.append((patterns, body))
            self.blanks()
            if self.text[self.at] != ";":
                break
            self._case_break()
            self.line_breaks()
        self.expect("esac")
        return Case(word, tuple(branches), self.redirects())

    def _case_break(self) -> None:
        for operator in (";;&", ";;", ";&"):
            if self.text.startswith(operator, self.at):
                if operator != ";;":
                    self.only_bash(operator, self.at)
                self.at += len(operator)
                return
        self.refuse("`;;` is missing here")

    def _patterns(self) -> tuple[Word, ...]:
        if self.text[self.at] == "(":
            self.at += 1
            self.blanks()
        words: list[Word] = []
        while True:
            if self.text[self.at] in WORD_ENDS:
                self.refuse("a pattern is missing here")
            words.append(self.word())
            self.blanks()
            if self.text[self.at] == ")":
                self.at += 1
                return tuple(words)
            if self.text[self.at] != "|" or self.text[self.at + 1] in "|&":
                self.refuse("`)` is missing here")
            self.at += 1
            self.blanks()

    def _conditional(self, _start: int) -> Node:
        if self.dialect != ZSH:
            self.only_bash("[[", self.at)
        if self.text[self.at] not in " \t":
            self.refuse("a blank is missing after [[")
        effects: list[Effect] = []
        self.conditional(effects)
        return EvaluatedText(tuple(effects), self.redirects())

    def _arithmetic_command(self, start: int) -> Node:
        effects: list[Effect] = []
        end = self.arithmetic(start + 2, ")", effects)
        if self.text[end + 1] != ")":
            self.refuse("either arithmetic or subshells", start)
        if not _is_one_word(self.text[start + 2 : end]):
            self.not_in_sh("((", start)
        self.at = end + 2
        return EvaluatedText(tuple(effects), self.redirects())

    def _function_keyword(self, start: int) -> Node:
        self.only_bash("function", start)
        self.blanks()
        name = self.word()
        self.blanks()
        if self.text[self.at] == "(":
            self.empty_parentheses()
        self.blanks()
        if self.text[self.at] == "\n":
            self.not_in_sh("`function` with its body on the next line", start)
        return self.function(name)

    def function(self, name: Word) -> Node:
        """Read the body behind `name()`."""
        text = name.text
        if text is None or name.quoted or name.joined or text in KEYWORDS or not FUNCTION_NAME.issuperset(text):
            self.refuse("a function's name of an unusual form", name.start)
        self.line_breaks()
        self.deeper()
        before = self.moves
        body = self._function_body()
        moves = self.moves > before
        self.moves = before + moves  # a call to it may move
        self.functions.add(text)
        self.depth -= 1
        return Function(text, body, moves, name.start)

    def _function_body(self) -> Node:
        if self.text[self.at] == "(":
            return self._parenthesised()
        keyword = self.keyword_here()
        if keyword not in COMPOUNDS or keyword == "function":
            self.refuse("a function's body is missing here")
        return self._compound(keyword)


def _is_one_word(expression: str) -> bool:
    """Whether sh, which takes `((` for two subshells, would look for a program that has no such name: `i++`."""
    text = expression.strip()
    return frozenset(" \t\n<>|&;()`$\"'\\").isdisjoint(text) and not frozenset("+-=*%").isdisjoint(text)


COMPOUNDS = {
    "{": Grammar._group,  # noqa: SLF001 -- the table of this module's own readers
    "if": Grammar._if,  # noqa: SLF001
    "while": Grammar._while,  # noqa: SLF001
    "until": Grammar._while,  # noqa: SLF001
    "for": Grammar._for,  # noqa: SLF001
    "case": Grammar._case,  # noqa: SLF001
    "[[": Grammar._conditional,  # noqa: SLF001
    "function": Grammar._function_keyword,  # noqa: SLF001
}


def parse(text: str, *, dialect: str = BASH, depth: int = 0) -> tuple[Grammar, Sequence]:
    """Return the reader and the tree of a whole text."""
    grammar = Grammar(text, dialect=dialect, depth=depth)
    return grammar, grammar.program()
