"""Which variables change what a command runs, reads or writes. The list is data: `programs.toml`, `[variables]`."""

from byleave.shell.table import VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def _sorted_patterns(patterns: "Iterable[str]") -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]:
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
HARMLESS = _sorted_patterns(VARIABLES["harmless"])
HARMLESS_VALUES: "dict[str, list[str]]" = VARIABLES["harmless_values"]


def harmless_assignment(name: str, value: str | None = None) -> bool:
    """Return whether setting the variable leaves alone what a command runs, reads or writes.

    With its `value`, if that is known: `GIT_PAGER=cat` is harmless, `GIT_PAGER=x` is not.
    """
    if not name.isidentifier() or not name.isascii():
        return False
    if _listed(name, HARMLESS) or not _listed(name, CHANGING):
        return True
    return value is not None and value in HARMLESS_VALUES.get(name, ())


def _listed(name: str, patterns: tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]) -> bool:
    names, beginnings, ends = patterns
    return name in names or name.startswith(beginnings) or name.endswith(ends)
