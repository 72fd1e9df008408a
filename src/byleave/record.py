"""Values: frozen classes that are compared by content.

A `Record` is declared like a frozen dataclass. What has an index or a cache inside is `Sealed`: its attributes are set
once. A mapping that is handed out is a `frozen_mapping`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

from msgspec import Struct, structs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True, eq_default=True)  # a subclass need not say again that it is frozen
class Record(Struct, frozen=True):
    """Base of all values: compared by content, never changed."""

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the fields, in the order they are declared."""
        return cls.__struct_fields__

    @classmethod
    def required_names(cls) -> tuple[str, ...]:
        """Return the names of the fields that have no default."""
        names = cls.__struct_fields__
        return names[: len(names) - len(cls.__struct_defaults__)]

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return structs.replace(self, **changes)


class Sealed:
    """Base of compiled tables: each attribute is set once, while the table is made, and never changed."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: compile the policy again")
        set_cached(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed: compile the policy again")


set_cached = object.__setattr__  # for what a sealed table computes on first use: two threads may both do so


def frozen_mapping(table: Mapping[Key, Value]) -> Mapping[Key, Value]:
    """Return a view of the mapping that cannot be written to. The caller keeps no reference to the mapping itself."""
    return MappingProxyType(table)
