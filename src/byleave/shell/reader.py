"""Read a bash command line: which commands would it run, with which words, where?

Pure and total: it never raises, and what it does not understand it says so, with the place. Sound before complete:
a text is understood only when bash could run nothing else than the commands listed.

Start at `read_command`. The grammar: `grammar`. Directories, functions and wrappers: `walk`.
"""

from byleave.shell.characters import refused_at
from byleave.shell.cursor import BASH, EITHER
from byleave.shell.grammar import parse
from byleave.shell.model import NotUnderstoodError, Problem, Reading
from byleave.shell.piped import marked
from byleave.shell.programs import BUILT_IN, Programs
from byleave.shell.state import State
from byleave.shell.walk import Walker
from byleave.shell.wrappers import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.model import Command

# The dialects of shells by their names, as actions give them; without a name it may be bash or sh.
DIALECTS: "dict[str | None, str]" = {None: EITHER, **{name: dialect for name, dialect in SHELLS.items() if dialect}}
SIZE_LIMIT = 32 * 1024  # bytes; EDGE_CASES: longer texts are not looked at


def read_command(text: str, cwd: str | None = None, *, programs: Programs = BUILT_IN, dialect: str = BASH) -> Reading:
    """Return what `text` would do when bash, or the shell of another `dialect`, runs it in `cwd`.

    `cwd` should be canonical. Without it directories are told relative to where the text starts. `programs` are the
    tables of what wrappers and options mean, if there are more than the built-in ones.
    """
    if len(text) > SIZE_LIMIT or (not text.isascii() and len(text.encode("utf-8", "replace")) > SIZE_LIMIT):
        return _not_understood(text, "longer than 32 KiB", SIZE_LIMIT)
    refused = refused_at(text)
    if refused >= 0:
        return _not_understood(text, "a character that is not allowed in a command", refused)
    commands: list[Command] = []
    start = cwd if cwd is not None else "."
    try:
        grammar, tree = parse(text, dialect=dialect)
        walker = Walker(grammar, commands, start, programs)
        walker.sequence(tree, State((start,), None, frozenset(), frozenset()))
    except NotUnderstoodError as problem:
        return _not_understood(text, problem.reason, min(problem.at, len(text)))
    except RecursionError:
        return _not_understood(text, "nested too deeply", 0)
    return Reading(text, marked(commands, programs))


def _not_understood(text: str, reason: str, offset: int) -> Reading:
    return Reading(text, (), Problem(reason, offset, text.count("\n", 0, offset) + 1))
