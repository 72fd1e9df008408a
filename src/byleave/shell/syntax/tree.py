"""The tree between the text and its commands: what `grammar` yields and `walk` follows.

Effects are what a word does while it is expanded: commands it runs, variables it sets, arithmetic it evaluates.
`yields_number` says which substitutions can be relied on to print nothing but numbers, `yields_object` which print
names of objects of git.
"""

from __future__ import annotations

from byleave.record import Record


class Piece(Record):
    """A piece of a word that is more than literal text.

    `kind` is `literal` (quoted: nothing in it is special), `raw` (unquoted: braces, a leading tilde and patterns work),
    `value` (an unquoted variable's value: it is split, and patterns work), `home`, `here` (the working directory;
    the place that `text` says, if a variable holds it since then), `variable` (`text` is its name) or `unknown`.
    """

    kind: str
    text: str = ""
    quoted: bool = False


class Word(Record):
    """One word of a command as far as it is known before it runs.

    `text` is the exact word, or None for one known only at run time. Of such a word `prefix` is the literal start.
    `splits`: it may become no word or several, and only the first of them starts with `prefix`.
    `glob`: a pattern (glob or braces): one word or several, each of which starts with `prefix`.
    `pieces` are what a word is put together from where `text` is None; `forms` is the same with the variables that the
    line itself has set filled in, one form for each value that they may have. No forms: nothing more is known.
    `is_object`: it is the name of an object of git, or nothing.
    """

    text: str | None
    prefix: str
    start: int = 0
    end: int = 0
    splits: bool = False
    glob: bool = False
    quoted: bool = False
    joined: bool = False
    effects: tuple[Effect, ...] = ()
    number: Number = None
    pieces: tuple[Piece, ...] = ()
    forms: tuple[tuple[Piece, ...], ...] = ()
    is_object: bool = False

    @property
    def many(self) -> bool:
        """Whether this may be another number of words than one."""
        return self.splits or self.glob

    @property
    def could_be_option(self) -> bool:
        """Whether a word that starts with `-` can come of it."""
        if self.text is not None:
            return self.text.startswith("-")
        if self.is_object:
            return False
        return self.splits or not self.prefix or self.prefix[0] == "-"


class Substitution(Record):
    """`$(..)`, backticks, `<(..)` or `>(..)` inside a word."""

    body: Sequence
    kind: str


class Arithmetic(Record):
    """An arithmetic expression. Bash evaluates what the variables in `uses` hold, subscripts included.

    `sure`: no part of it is conditional, so that everything in `sets` is set.
    """

    uses: tuple[str | Substitution, ...]
    sets: tuple[str, ...]
    at: int
    sure: bool = False


class Sets(Record):
    """A word that assigns while it expands: `${name:=word}`."""

    name: str
    at: int


Effect = Substitution | Arithmetic | Sets

# What is known of a word as a number: True (one for sure), a variable's name, the substitution it is, or nothing.
Number = bool | str | Substitution | None


class AssignmentNode(Record):
    """`name=value`, `name+=value`, `name[3]=value`, `name=(values)`; `values` is None for a plain one."""

    name: str
    value: Word
    append: bool
    values: tuple[Word, ...] | None
    effects: tuple[Effect, ...]
    at: int


class RedirectNode(Record):
    """A redirection as written; `target` is None for a here-document, whose text is `body`."""

    operator: str
    fd: int | None
    target: Word | None
    body: Heredoc | None
    at: int


class Heredoc:
    """A here-document: announced on one line, filled in when that line ends."""

    __slots__ = ("at", "delimiter", "effects", "quoted", "strips_tabs", "text")

    def __init__(self, delimiter: str, at: int, *, quoted: bool, strips_tabs: bool) -> None:
        self.delimiter = delimiter
        self.at = at
        self.quoted = quoted
        self.strips_tabs = strips_tabs
        self.text: str | None = None
        self.effects: tuple[Effect, ...] = ()


class Simple(Record):
    """A simple command, or bare assignments and redirections."""

    assignments: tuple[AssignmentNode, ...]
    words: tuple[Word, ...]
    redirects: tuple[RedirectNode, ...]
    start: int
    end: int


class Pipeline(Record):
    """Stages joined by `|`. One stage and `negated`: `! command`. `timed`: the keyword `time` stands before it."""

    stages: tuple[Node, ...]
    negated: bool
    timed: bool


class AndOr(Record):
    """`first` and then each (`&&` or `||`, node)."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class Sequence(Record):
    """Commands one after the other; each with whether it runs in the background."""

    items: tuple[tuple[Node, bool], ...]


class Group(Record):
    """`{ ..; }`, or `( .. )` when `subshell`."""

    body: Sequence
    redirects: tuple[RedirectNode, ...]
    subshell: bool


class If(Record):
    """(condition, body) pairs, and what `else` holds."""

    branches: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None
    redirects: tuple[RedirectNode, ...]


class Loop(Record):
    """`while`, `until` (condition set) and `for` (name set). `moves`: a round may end in another directory."""

    condition: Sequence | None
    name: str | None
    words: tuple[Word, ...]
    body: Sequence
    redirects: tuple[RedirectNode, ...]
    until: bool
    moves: bool
    effects: tuple[Effect, ...]
    at: int


class Case(Record):
    """`case word in (patterns) body ;; esac`."""

    word: Word
    branches: tuple[tuple[tuple[Word, ...], Sequence], ...]
    redirects: tuple[RedirectNode, ...]


class Function(Record):
    """A definition. `moves`: a call may end in another directory."""

    name: str
    body: Node
    moves: bool
    at: int


class EvaluatedText(Record):
    """`(( .. ))` and `[[ .. ]]`: they run nothing but what their words do."""

    effects: tuple[Effect, ...]
    redirects: tuple[RedirectNode, ...]


Node = Simple | Pipeline | AndOr | Sequence | Group | If | Loop | Case | Function | EvaluatedText

DATE_FORMATS = frozenset(["+%s", "+%s%N", "+%N", "+%Y", "+%j", "+%s%3N"])


def yields_number(substitution: Substitution) -> bool:
    """Return whether the last command of a `$(..)` is one that prints numbers only."""
    items = substitution.body.items
    if len(items) != 1 or items[0][1]:
        return False
    node = items[0][0]
    if isinstance(node, Pipeline) and not node.negated:
        node = node.stages[-1]
    if not isinstance(node, Simple) or node.assignments:
        return False
    words = [word.text for word in node.words]
    if None in words or not words:
        return False
    return _prints_numbers([word or "" for word in words])


def _only_command(substitution: Substitution) -> list[str]:
    """Return the words of a `$(..)` that runs one plain command, "" for one known only at run time; else nothing."""
    items = substitution.body.items
    node = items[0][0] if len(items) == 1 and not items[0][1] else None
    if isinstance(node, Pipeline) and len(node.stages) == 1 and not node.negated:
        node = node.stages[0]
    if substitution.kind != "command" or not isinstance(node, Simple) or node.assignments:
        return []
    return [word.text or "" for word in node.words]


# Of `git rev-parse`: with these it prints names of objects.
_OF_OBJECTS = frozenset(["--verify", "--short", "-q", "--quiet"])
_REVISION = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@^~./-")


def yields_object(substitution: Substitution) -> bool:
    """Return whether a `$(..)` prints the name of an object of git or nothing: `git rev-parse HEAD`.

    Of a word that is no revision `git rev-parse` prints the word, so none may begin with a dash, or with `^`.
    """
    words = _only_command(substitution)
    if words[:2] == ["git", "rev-parse"]:
        revisions = [word for word in words[2:] if word not in _OF_OBJECTS]
    elif words[:2] == ["git", "merge-base"]:
        revisions = words[2:]
    else:
        return False
    return bool(revisions) and all(each[:1] not in ("", "-", "^") and _REVISION.issuperset(each) for each in revisions)


_FINDERS = (["which"], ["command", "-v"], ["type", "-p"], ["type", "-P"])


def yields_program(substitution: Substitution) -> bool:
    """Return whether a `$(..)` prints where a program is, or nothing: `$(which python3)`."""
    words = _only_command(substitution)
    if words[:-1] not in _FINDERS:
        return False
    return words[-1].replace("-", "").replace(".", "").isalnum() and words[-1][0] != "-"


def is_decimal(text: str) -> bool:
    """Return whether `text` is digits only, as bash knows them."""
    return text.isascii() and text.isdigit()


# The programs of `_prints_numbers`: a function of such a name may print anything.
NUMBER_PRINTERS = frozenset(["nproc", "wc", "date", "seq"])


def _prints_numbers(words: list[str]) -> bool:
    name, arguments = words[0], words[1:]
    if name == "nproc":
        return not arguments
    if name == "wc":
        return len(arguments) == 1 and arguments[0] in ("-l", "-c", "-w", "-m")
    if name == "date":
        return len(arguments) == 1 and arguments[0] in DATE_FORMATS
    if name == "seq":
        return bool(arguments) and all(is_decimal(word.lstrip("-")) for word in arguments)
    return False
