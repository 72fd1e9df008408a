"""What every table of the configuration has in common, and lists that say how they join weaker layers."""

from typing import Annotated, ClassVar, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct

Item = TypeVar("Item")


class Table(Struct, kw_only=True, forbid_unknown_fields=True):
    """A table that knows its keys and refuses all others. `one_of`: exactly one of these keys is needed."""

    one_of: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.one_of and sum(getattr(self, key) is not UNSET for key in self.one_of) != 1:
            raise ValueError(f"exactly one of {', '.join(self.one_of)} is needed")


class Merge(Table, Generic[Item]):
    """A list that says how it joins the lists of weaker layers."""

    strategy: Annotated[
        Literal["append", "prepend", "replace", "dedup"],
        Meta(
            description="append: after the weaker layers. prepend: before them. replace: instead of them. "
            "dedup: as append, and nothing stands there twice.",
            examples=["append"],
        ),
    ]
    value: Annotated[list[Item], Meta(description="The list itself.", examples=[[]])]
