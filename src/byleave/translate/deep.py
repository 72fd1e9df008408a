"""What lies deeper in an input than agents put what they act on."""

from byleave.translate import names
from byleave.translate.told import is_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_LOOKS = 10_000  # values that are looked at
DEEPEST = 8
# What a name has to mean for somebody to act on it.
_COMMANDS = (names.COMMAND, names.COMMANDS, names.CWD, names.ROOT, names.URL)
_FILES = (names.PATH, names.DIRECTORY, names.EDITS, names.PATCH, names.ORIGIN, names.TARGET)
TELLING = frozenset((*_COMMANDS, *_FILES))
# What changes how a command is run.
RUNNING = frozenset((names.ENV, names.SHELL, names.STDIN, names.RIGHTS, names.ARGS))


def hides_something(value: "Any", roles: "frozenset[str]" = TELLING) -> bool:
    """Whether something inside is named as if somebody could act on it, or there is too much to look at."""
    ahead: list[tuple[Any, int]] = [(value, 0)]
    looks = 0
    while ahead:
        value, depth = ahead.pop()
        if not isinstance(value, dict | list):
            continue
        looks += len(value)
        if depth > DEEPEST or looks > MOST_LOOKS:
            return True
        if isinstance(value, list):
            ahead += [(inner, depth + 1) for inner in value]
            continue
        named = [(names.any_role(key), inner) for key, inner in value.items()]
        if any(role in roles and not is_empty(inner) for role, inner in named):
            return True
        ahead += [(inner, depth + 1) for role, inner in named if role not in (names.PROSE, names.SUMMARY)]
    return False
