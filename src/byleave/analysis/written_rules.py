"""Where each rule of a compiled policy is written: its layer, and its path in the tree of that layer's file. Pure.

A compiled rule knows its file and line. Where several rules stand on one line, they are known by what they say; where
they say the same as well, the first of them is taken, and then the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.findings import WrittenPlace
from byleave.policy.normalize import AT, LINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from byleave.policy.layers import Layer
    from byleave.policy.normalize import At

_NAMING = {"fs": "path", "net": "host", "env": "name"}  # the key by which a rule of a family is known


class WrittenRules:
    """Finds the written rules of some layers."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = tuple(layers)
        self._found: dict[tuple[str, str, str], list[WrittenPlace]] = {}
        self._nodes: dict[tuple[int, At], dict[str, Any]] = {}
        for number, layer in enumerate(layers):
            for at, name, node in _entries(layer.tree):
                key = (family_of(at), layer.source(node[LINE]), name)
                self._nodes[number, at] = node
                self._found.setdefault(key, []).append(WrittenPlace(number, at))

    def place(self, family: str, source: str, name: str = "") -> WrittenPlace | None:
        """Return where a rule is written, each place once; None if it is not found, or not in a file."""
        places = self._found.get((family, source, name))
        if not places or self._layers[places[0].layer].file is None:
            return None
        return places.pop(0)

    def says(self, place: WrittenPlace | None, *keys: str) -> bool:
        """Whether the entry at a place has one of these keys, whatever its value is; an unknown place has all."""
        return place is None or any(key in self._nodes[place.layer, place.at] for key in keys)


def family_of(at: At) -> str:
    """Return the family of an entry: `rules`, `fs`, `net`, `env`, or the whole path of a list of an agent."""
    named = [step for step in at if isinstance(step, str)]
    if named[-1:] == ["value"]:
        named = named[:-1]
    return ".".join(named) if named[:1] == ["agents"] else named[-1]


def _entries(tree: Any) -> Iterator[tuple[At, str, dict[str, Any]]]:
    """Yield the place of every entry of a list, the name by which it is known, and the entry."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
            continue
        if not isinstance(node, dict):
            continue
        at = node.get(AT)
        if at and isinstance(at[-1], int):
            name = node.get("name", "") if at[0] == "agents" else node.get(_NAMING.get(family_of(at), ""), "")
            yield at, str(name), node
        waiting += [value for key, value in reversed(node.items()) if not key.startswith("#")]
