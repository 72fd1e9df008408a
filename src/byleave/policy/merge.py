"""Join the lists of several layers. Pure.

A list in one layer is a patch on the weaker layers: `append` stands behind them, `prepend` before them, `replace`
instead of them, `dedup` behind them as well, but nothing stands there twice: the last of equal entries stays, so that
a tie falls as with `append`. Patches compose, and it does not matter in which order neighbours are composed (`dedup`
aside, which looks at what came before it).
"""

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class Item:
    """One entry of a configured list with the layer it came from. Equal to another that says the same."""

    __slots__ = ("layer", "tree")

    def __init__(self, tree: "Any", layer: "Any") -> None:
        self.tree = tree
        self.layer = layer

    def _said(self) -> object:
        return _frozen(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())


class Patch(Record):
    """What one layer, or several composed, do to the list of the weaker ones."""

    front: tuple["Any", ...] = ()
    back: tuple["Any", ...] = ()
    replaces: bool = False
    distinct: bool = False

    @property
    def items(self) -> tuple["Any", ...]:
        """The whole list, once nothing weaker is left."""
        return (*self.front, *self.back)


NOTHING = Patch()


def patch(strategy: str, items: "Iterable[Any]") -> Patch:
    """Return the patch that a configured list stands for."""
    return _MAKERS[strategy](tuple(items))


def compose(weaker: Patch, stronger: Patch) -> Patch:
    """Return the one patch that does what `weaker` and then `stronger` do."""
    if stronger.replaces:
        return stronger
    front, before, back = weaker.front, weaker.back, stronger.back
    if stronger.distinct:
        back = tuple(dict.fromkeys(back[::-1]))[::-1]
        said = frozenset(back)
        front = tuple(item for item in front if item not in said)
        before = tuple(item for item in before if item not in said)
    return Patch(
        front=(*stronger.front, *front),
        back=(*before, *back),
        replaces=weaker.replaces,
        distinct=weaker.distinct,
    )


_MAKERS = {
    "append": lambda items: Patch(back=items),
    "prepend": lambda items: Patch(front=items),
    "replace": lambda items: Patch(back=items, replaces=True),
    "dedup": lambda items: Patch(back=items, distinct=True),
}


def _frozen(tree: "Any") -> object:
    """Return a tree as a value that can be compared and hashed, less the marks of where it was written."""
    if isinstance(tree, dict):
        return frozenset((key, _frozen(value)) for key, value in tree.items() if not key.startswith("#"))
    return tuple(_frozen(value) for value in tree) if isinstance(tree, list | tuple) else tree
