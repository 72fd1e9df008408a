"""Type hints as shapes: each can be written as JSON Schema, and reads a value strictly or says what is wrong with it.

Start at `shape_of`. A shape's `read` raises `ArgumentError` with a sentence that names the argument.
"""

import types
import typing

from byleave.record import Record
from byleave.text import quoted, sentence_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    class Shape(Protocol):
        """What values of one type look like."""

        @property
        def wanted(self) -> str:
            """What is wanted, in words: `a text`."""
            ...

        def schema(self) -> dict[str, Any]: ...

        def read(self, value: object, where: str) -> Any: ...


class ArgumentError(Exception):
    """An argument is missing, unknown, or of another type than the tool takes. The text is for the caller."""


class Plain(Record):
    """A text, a number, true or false, nothing, or anything at all (no kinds)."""

    name: str
    wanted: str
    kinds: tuple[type, ...]

    def schema(self) -> "dict[str, Any]":
        """Return it as JSON Schema."""
        return {"type": self.name} if self.name else {}

    def read(self, value: object, where: str) -> "Any":
        """Return the value if it is one of these; `true` is no number."""
        if self.kinds and type(value) not in self.kinds:
            raise _wrong(where, self.wanted, value)
        return value


class ListOf(Record):
    """A list of one kind of thing."""

    item: "Shape"
    wanted: str = "a list"

    def schema(self) -> "dict[str, Any]":
        """Return it as JSON Schema."""
        return {"type": "array", "items": self.item.schema()}

    def read(self, value: object, where: str) -> "list[Any]":
        """Return the list with each of its items read."""
        if not isinstance(value, list):
            raise _wrong(where, self.wanted, value)
        return [self.item.read(each, f"{where}[{number}]") for number, each in enumerate(value)]


class Table(Record):
    """An object with any names, and one kind of value."""

    value: "Shape"
    wanted: str = "an object"

    def schema(self) -> "dict[str, Any]":
        """Return it as JSON Schema."""
        return {"type": "object", "additionalProperties": self.value.schema()}

    def read(self, value: object, where: str) -> "dict[str, Any]":
        """Return the object with each of its values read."""
        if not isinstance(value, dict):
            raise _wrong(where, self.wanted, value)
        return {name: self.value.read(each, f"{where}.{name}") for name, each in value.items()}


class Choice(Record):
    """One of a few values."""

    values: "tuple[Any, ...]"

    @property
    def wanted(self) -> str:
        """The values, in words."""
        return f"one of {sentence_list([str(value) for value in self.values], most=40)}"

    def schema(self) -> "dict[str, Any]":
        """Return it as JSON Schema."""
        return {"enum": list(self.values)}

    def read(self, value: object, where: str) -> "Any":
        """Return the value if it is one of these."""
        if not any(type(value) is type(each) and value == each for each in self.values):
            raise _wrong(where, self.wanted, value)
        return value


class OneOf(Record):
    """One of several kinds; the first that takes the value reads it."""

    options: "tuple[Shape, ...]"

    @property
    def wanted(self) -> str:
        """The kinds, in words."""
        return " or ".join(option.wanted for option in self.options)

    def schema(self) -> "dict[str, Any]":
        """Return it as JSON Schema."""
        return {"anyOf": [option.schema() for option in self.options]}

    def read(self, value: object, where: str) -> "Any":
        """Return the value as the first kind that takes it."""
        nearest: ArgumentError | None = None
        for option in self.options:
            try:
                return option.read(value, where)
            except ArgumentError as error:
                inside = type(value) in _CONTAINERS.get(type(option), ())  # the kind was right, something in it is not
                nearest = error if inside else nearest
        raise nearest or _wrong(where, self.wanted, value)


class Field(Record):
    """A named part of an object, or a parameter of a tool."""

    name: str
    shape: "Shape"
    required: bool = True
    default: "Any" = None
    about: str = ""

    def schema(self) -> "dict[str, Any]":
        """Return it as JSON Schema, with its description and its default."""
        tree = self.shape.schema()
        if self.about:
            tree["description"] = self.about
        if not self.required and isinstance(self.default, str | int | float | bool):
            tree["default"] = self.default
        return tree


class Fields(Record):
    """An object with these fields and no others. `make` turns them into the value that the tool gets."""

    fields: tuple[Field, ...]
    make: "Callable[..., Any]" = dict
    wanted: str = "an object"

    def schema(self) -> "dict[str, Any]":
        """Return it as JSON Schema."""
        return {
            "type": "object",
            "properties": {field.name: field.schema() for field in self.fields},
            "required": [field.name for field in self.fields if field.required],
            "additionalProperties": False,
        }

    def read(self, value: object, where: str) -> "Any":
        """Return the object with each field read; a missing or unknown one is an error that names it."""
        if not isinstance(value, dict):
            raise _wrong(where or "the arguments", self.wanted, value)
        before = f"{where}." if where else ""
        unknown = [name for name in value if name not in {field.name for field in self.fields}]
        if unknown:
            known = sentence_list([field.name for field in self.fields], most=20) or "none"
            raise ArgumentError(f"there is no argument {quoted(f'{before}{unknown[0]}')}; there are: {known}")
        missing = [field.name for field in self.fields if field.required and field.name not in value]
        if missing:
            raise ArgumentError(f"the argument {quoted(f'{before}{missing[0]}')} is missing")
        given = [field for field in self.fields if field.name in value]
        return self.make(
            **{field.name: field.shape.read(value[field.name], f"{before}{field.name}") for field in given}
        )


_CONTAINERS: "dict[type, tuple[type, ...]]" = {ListOf: (list,), Table: (dict,), Fields: (dict,)}
_NOTHING = Plain("null", "nothing", (type(None),))
_PLAIN: "dict[Any, Plain]" = {
    str: Plain("string", "a text", (str,)),
    int: Plain("integer", "a whole number", (int,)),
    float: Plain("number", "a number", (float, int)),
    bool: Plain("boolean", "true or false", (bool,)),
    type(None): _NOTHING,
    None: _NOTHING,
    typing.Any: Plain("", "anything", ()),
    object: Plain("", "anything", ()),
}
_KINDS = {str: "a text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object"}


def _wrong(where: str, wanted: str, value: object) -> ArgumentError:
    if isinstance(value, str) and len(value) <= 40 and wanted.startswith("one of"):
        return ArgumentError(f"{where} must be {wanted}, and is {quoted(value)}")
    kind = "null" if value is None else _KINDS.get(type(value), type(value).__name__)
    return ArgumentError(f"{where} must be {wanted}, and is {kind}")


def shape_of(hint: "Any") -> "Shape":
    """Return the shape of a type; TypeError if no JSON value can be checked against it."""
    plain = _PLAIN.get(hint) if isinstance(hint, type | types.NoneType) or hint is typing.Any else None
    if plain is not None:
        return plain
    made = _shape_of_form(typing.get_origin(hint), typing.get_args(hint)) or _shape_of_class(hint)
    if made is None:
        raise TypeError(f"a tool cannot have an argument of type {hint!r}: JSON has nothing like it")
    return made


def _shape_of_form(origin: "Any", args: "tuple[Any, ...]") -> "Shape | None":
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return shape_of(args[0])
    if origin is typing.Literal:
        return Choice(args)
    if origin in (typing.Union, types.UnionType):
        return OneOf(tuple(shape_of(arg) for arg in args))
    if origin is list:
        return ListOf(shape_of(args[0]))
    if origin is dict and args[0] is str:
        return Table(shape_of(args[1]))
    return None


def _shape_of_class(hint: "Any") -> "Shape | None":
    if hint in (list, dict):
        return ListOf(_PLAIN[object]) if hint is list else Table(_PLAIN[object])
    if not isinstance(hint, type):
        return None
    names = _fields_of(hint)
    return None if names is None else Fields(fields_from(typing.get_type_hints(hint, include_extras=True), names), hint)


def _fields_of(made: "Any") -> "Mapping[str, tuple[bool, Any]] | None":
    """Return which fields a class has, whether each is required, and its default."""
    if typing.is_typeddict(made):
        return {name: (name in made.__required_keys__, None) for name in made.__annotations__}
    if hasattr(made, "__dataclass_fields__"):
        from dataclasses import MISSING

        found = [each for each in made.__dataclass_fields__.values() if each.init]
        bare = {each.name: each.default is MISSING for each in found}
        return {
            each.name: (bare[each.name] and each.default_factory is MISSING, None if bare[each.name] else each.default)
            for each in found
        }
    if issubclass(made, Record):
        required = made.required_names()
        return {name: (name in required, None) for name in made.field_names()}
    return None


def fields_from(hints: "Mapping[str, Any]", names: "Mapping[str, tuple[bool, Any]]") -> tuple[Field, ...]:
    """Return the fields with these names and hints; `Annotated[str, "text"]` describes one."""
    return tuple(
        Field(name, shape_of(hints[name]), required, default, _about(hints[name]))
        for name, (required, default) in names.items()
    )


def _about(hint: "Any") -> str:
    if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        hint = typing.get_args(hint)[0]
    said: Sequence[Any] = getattr(hint, "__metadata__", ())
    return next((text for text in said if isinstance(text, str)), "")
