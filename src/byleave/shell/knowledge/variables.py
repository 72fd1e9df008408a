"""Which variables leave alone what a command runs, reads or writes. The lists are data: `programs.toml`, `[variables]`.

In front of a command, or exported, a variable is harmless when a list says so, or when neither its name nor its value
can mean anything to a program: the name is of no known family, and the value is a plain word.
"""

from byleave.shell.knowledge.option_values import DIGITS, LETTERS, is_inside
from byleave.shell.knowledge.table import VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Patterns = tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]


def _sorted_patterns(patterns: "Iterable[str]") -> "Patterns":
    """Return the plain names, the beginnings and the ends."""
    names, beginnings, ends = [], [], []
    for pattern in patterns:
        if pattern.endswith("*"):
            beginnings.append(pattern[:-1])
        elif pattern.startswith("*"):
            ends.append(pattern[1:])
        else:
            names.append(pattern)
    return frozenset(names), tuple(beginnings), tuple(ends)


CHANGING = _sorted_patterns(VARIABLES["changing"])
# Of endings, only those that a program would find in its environment: `DIR=src` is a name of the line's own.
CHANGING_IF_EXPORTED = (
    CHANGING[0],
    CHANGING[1],
    ("PAGER", "EDITOR", "PATH", "ASKPASS", "BROWSER", "FLAGS", "_PRELOAD", "_PROXY", "_SHELL", "_COMMAND", "_WRAPPER"),
)
HARMLESS = _sorted_patterns(VARIABLES["harmless"])
FREE = _sorted_patterns(VARIABLES["free"])
EXPANDING = frozenset(VARIABLES["expanding"])
DIRECTORIES = frozenset(VARIABLES["directories"])
HARMLESS_VALUES: "dict[str, list[str]]" = VARIABLES["harmless_values"]
NODE_OPTIONS: "list[str]" = VARIABLES["node_options"]
PLAIN = frozenset(LETTERS + DIGITS + "_.,:+@%-")


def harmless_assignment(name: str, value: str | None, program: str | None = None) -> bool:
    """Return whether setting the variable leaves alone what a command runs, reads or writes.

    With its `value`, None for one known only at run time: `GIT_PAGER=cat` is harmless, `GIT_PAGER=x` is not. `program`
    is the one it is set for, if that is known: what make finds in its environment becomes text of its commands.
    """
    if not name.isidentifier() or not name.isascii():
        return False
    if _listed(name, FREE) and program not in EXPANDING:
        return True
    if value is None:
        return False
    if value in HARMLESS_VALUES.get(name, ()) or _special(name, value):
        return True
    plain = PLAIN.issuperset(value) and not value.startswith("-")
    return plain and (_listed(name, FREE) or _listed(name, HARMLESS) or not _listed(name.upper(), CHANGING))


def harmless_in_shell(name: str) -> bool:
    """Return whether a variable of the shell itself, not given to programs, changes nothing that is run later."""
    if not name.isidentifier() or not name.isascii():
        return False
    return _listed(name, FREE) or _listed(name, HARMLESS) or not _listed(name, CHANGING_IF_EXPORTED)


def _special(name: str, value: str) -> bool:
    """Whether the value is of the form that is harmless for this very variable."""
    if name in DIRECTORIES:
        return bool(value) and PLAIN.union("/").issuperset(value) and all(is_inside(each) for each in value.split(":"))
    return name == "NODE_OPTIONS" and all(_is_node_option(word) for word in value.split(" "))


def _is_node_option(word: str) -> bool:
    option, equals, number = word.partition("=")
    return word in NODE_OPTIONS or (f"{option}{equals}" in NODE_OPTIONS and number.isdecimal())


def _listed(name: str, patterns: "Patterns") -> bool:
    names, beginnings, ends = patterns
    return name in names or name.startswith(beginnings) or name.endswith(ends)
