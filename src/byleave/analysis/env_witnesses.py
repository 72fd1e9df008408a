"""Witnesses for variables that a tool reads, or has the host put where the tool does not see them.

Complete, because a decision about a variable is made from tool, way and name, and the name counts by the exact rule
for it, else by the longest prefix that a rule has. So each exact name, each prefix as it stands and with something
behind it that no other rule goes on with, and a name that begins like none of them, stand for all. Without a tool,
all variables are answered alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.rule_atoms import ENV, Witness, WitnessSet
from byleave.core.action import SUBSTITUTE, EnvAction
from byleave.core.env_rules import EnvTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.analysis.rule_atoms import Atoms

_LETTERS = "XYZQWVKJABCDEFGHILMNOPRSTU_0123456789abcdefghijklmnopqrstuvwxyz"


def env_witnesses(atoms: Atoms) -> WitnessSet:
    """Return a variable for each way in which these policies can answer about variables."""
    found = [Witness(ENV, EnvAction("EXAMPLE"))]
    for tool in atoms.tools:
        tables = [table for table in atoms.tables(tool, ENV) if isinstance(table, EnvTable)]
        names = {rule.name for table in tables for rule in table.rules}
        for name in dict.fromkeys(_names(names)):
            found += [Witness(ENV, EnvAction(name, tool, way=way)) for way in (None, SUBSTITUTE)]
    return WitnessSet(tuple(found))


def _names(rules: set[str]) -> Iterator[str]:
    prefixes = sorted({"", *(name[:-1] for name in rules if name.endswith("*"))})
    literals = {name.removesuffix("*") for name in rules}
    yield from sorted(name for name in rules if not name.endswith("*"))
    for prefix in prefixes:
        if prefix:
            yield prefix
        yield _continued(prefix, literals)


def _continued(prefix: str, literals: set[str]) -> str:
    """Return a name that begins so, and with nothing longer that a rule names."""
    taken = {each[len(prefix)] for each in literals if each != prefix and each.startswith(prefix)}
    spare: str = next(letter for letter in (*_LETTERS, *map(chr, range(0x100, 0x10000))) if letter not in taken)
    return prefix + spare
