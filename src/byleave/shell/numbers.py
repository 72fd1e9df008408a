"""Which substitutions can be relied on to print nothing but numbers."""

from byleave.shell.cursor import is_decimal
from byleave.shell.syntax import Pipeline, Simple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.syntax import Substitution

DATE_FORMATS = frozenset(["+%s", "+%s%N", "+%N", "+%Y", "+%j", "+%s%3N"])


def yields_number(substitution: "Substitution") -> bool:
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
