"""Frozen, slotted value classes that cost nothing to import.

`dataclasses` alone takes longer to import than the interpreter takes to start, and a hook starts before every
tool call. A `Record` is declared like a dataclass and behaves like a frozen, slotted, keyword-friendly one. What has
an index or a cache inside is `Sealed`: its attributes are set once. A mapping that is handed out is a `frozen_mapping`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self, TypeVar, dataclass_transform

    Key = TypeVar("Key")
    Value = TypeVar("Value")
else:

    def dataclass_transform(**_options: object) -> object:
        return lambda decorated: decorated


_MISSING = object()
_OFTEN = 30  # uses, by which a compiled `__init__` has nearly paid
_set = object.__setattr__  # a record's own refuses


@dataclass_transform(frozen_default=True, eq_default=True)
class _RecordType(type):
    """Turns the annotations of a class into slots, an `__init__`, equality, a hash and a `repr`."""

    def __new__(cls, name: str, bases: tuple[type, ...], space: "dict[str, Any]") -> "_RecordType":
        own = [field for field in space.get("__annotations__", {}) if not field.startswith("__")]
        inherited = [field for base in bases for field in getattr(base, "_fields", ())]
        defaults = {key: value for base in reversed(bases) for key, value in getattr(base, "_defaults", {}).items()}
        defaults.update({field: space.pop(field) for field in own if field in space})
        made = super().__new__(cls, name, bases, {**space, "__slots__": tuple(own)})
        made._fields = fields = (*inherited, *own)  # type: ignore[attr-defined]
        made._defaults = defaults  # type: ignore[attr-defined]
        made.__match_args__ = fields  # type: ignore[attr-defined,misc]
        if fields and "__init__" not in space:
            made.__init__ = _on_first_use(made, fields, defaults)  # type: ignore[misc]
        return made


def _on_first_use(made: type, fields: tuple[str, ...], defaults: "dict[str, Any]") -> "Any":
    """Compiling an `__init__` takes a tenth of a millisecond: only a class that is used often gets one.

    So does one that is called in a wrong way: what Python says about that is said by the real one.
    """
    known = frozenset(fields)
    uses = 0

    def __init__(self: object, *values: object, **named: object) -> None:  # noqa: N807 -- becomes the real one
        nonlocal uses
        uses += 1
        given = {**defaults, **dict(zip(fields, values, strict=False)), **named}
        ahead = fields[: len(values)]
        if uses > _OFTEN or given.keys() != known or len(ahead) != len(values) or not named.keys().isdisjoint(ahead):
            initialise = made.__init__ = _initialiser(made, fields, defaults)  # type: ignore[misc]
            initialise(self, *values, **named)
            return
        for field in fields:
            _set(self, field, given[field])

    return __init__


def _initialiser(made: type, fields: tuple[str, ...], defaults: "dict[str, Any]") -> "Any":
    """Write `__init__` out as source once per class: calling it is then as fast as a hand-written one."""
    scope: dict[str, Any] = {}
    parameters, body = [], []
    for field in fields:
        scope[f"set_{field}"] = getattr(made, field).__set__
        body.append(f" set_{field}(self, {field})")
        if field in defaults:
            scope[f"default_{field}"] = defaults[field]
        parameters.append(f"{field}=default_{field}" if field in defaults else field)
    source = f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(body)
    exec(source, scope)  # noqa: S102 -- the source is built from field names of our own classes
    return scope["__init__"]


def compile_initialisers() -> None:
    """Give every class that is known by now its real `__init__`: for a process that others are forked from."""
    waiting: list[Any] = list(Record.__subclasses__())
    while waiting:
        made = waiting.pop()
        waiting += made.__subclasses__()
        if made._fields and getattr(made.__init__, "__qualname__", "").startswith(_on_first_use.__name__):
            made.__init__ = _initialiser(made, made._fields, made._defaults)  # noqa: SLF001 -- a record of ours


class Record(metaclass=_RecordType):
    """Base of all values: compared by content, never changed."""

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: records are values")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed: records are values")

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Return the names of the fields, in the order they are declared."""
        names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
        return names

    @classmethod
    def required_names(cls) -> tuple[str, ...]:
        """Return the names of the fields that have no default."""
        return tuple(name for name in cls.field_names() if name not in cls._defaults)  # type: ignore[attr-defined]

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, field) for field in self._fields])  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)  # type: ignore[attr-defined]
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> "tuple[Any, ...]":
        return (type(self), self._values())

    def replace(self, **changes: "Any") -> "Self":
        """Return a copy with some fields changed."""
        values = {field: getattr(self, field) for field in self._fields}  # type: ignore[attr-defined]
        return type(self)(**{**values, **changes})


class Sealed:
    """Base of compiled tables: each attribute is set once, while the table is made, and never changed."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: compile the policy again")
        _set(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed: compile the policy again")


set_cached = _set  # for what a sealed table computes on first use: two threads may both do so


def frozen_mapping(table: "Mapping[Key, Value]") -> "Mapping[Key, Value]":
    """Return a view of the mapping that cannot be written to. The caller keeps no reference to the mapping itself."""
    frozen: Mapping[Key, Value] = _MAPPING_PROXY(table)
    return frozen


_MAPPING_PROXY: "Any" = type(type.__dict__)  # types.MappingProxyType, without the import
