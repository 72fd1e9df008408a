"""A function as a tool: its parameters become a JSON Schema, its arguments are checked, its errors become answers.

    from byleave.sdk.tool import tool
    from byleave.sdk.vfs import Host

    @tool
    def count_lines(host: Host, path: str) -> str:
        "Count the lines of a file."
        return str(len(host.read(path).splitlines()))

    if __name__ == "__main__":
        count_lines.run()

The first parameter is the host, whatever its name; the others are the arguments of a call.

Type hints as shapes: each can be written as JSON Schema, and reads a value strictly or says what is wrong with it.

Start at `shape_of`. A shape's `read` raises `ArgumentError` with a sentence that names the argument.
"""

from __future__ import annotations

import json
import sys
import traceback
import types
import typing
from typing import TYPE_CHECKING, Any, Protocol

from byleave.record import Record
from byleave.sdk import vfs
from byleave.sdk.vfs_results import Cancelled, HostGone, QuestionAsked, VfsError
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Function = Callable[..., Any]


class Shape(Protocol):
    """What values of one type look like."""

    @property
    def expected(self) -> str:
        """What the value must be, in words: `a text`."""
        ...

    def schema(self) -> dict[str, Any]: ...

    def read(self, value: object, where: str) -> Any: ...


class ArgumentError(Exception):
    """An argument is missing, unknown, or of another type than the tool takes. The text is for the caller."""


class Plain(Record):
    """A text, a number, true or false, nothing, or anything at all (no kinds)."""

    name: str
    expected: str
    kinds: tuple[type, ...]

    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        return {"type": self.name} if self.name else {}

    def read(self, value: object, where: str) -> Any:
        """Return the value if it is one of these; `true` is no number."""
        if self.kinds and type(value) not in self.kinds:
            raise _wrong(where, self.expected, value)
        return value


class ListOf(Record):
    """A list of one kind of thing."""

    item: Shape
    expected: str = "a list"

    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        return {"type": "array", "items": self.item.schema()}

    def read(self, value: object, where: str) -> list[Any]:
        """Return the list with each of its items read."""
        if not isinstance(value, list):
            raise _wrong(where, self.expected, value)
        return [self.item.read(each, f"{where}[{number}]") for number, each in enumerate(value)]


class Table(Record):
    """An object with any names, and one kind of value."""

    value: Shape
    expected: str = "an object"

    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        return {"type": "object", "additionalProperties": self.value.schema()}

    def read(self, value: object, where: str) -> dict[str, Any]:
        """Return the object with each of its values read."""
        if not isinstance(value, dict):
            raise _wrong(where, self.expected, value)
        return {name: self.value.read(each, f"{where}.{name}") for name, each in value.items()}


class Choice(Record):
    """One of a few values."""

    values: tuple[Any, ...]

    @property
    def expected(self) -> str:
        """The values, in words."""
        return f"one of {sentence_list([str(value) for value in self.values], most=40)}"

    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        return {"enum": list(self.values)}

    def read(self, value: object, where: str) -> Any:
        """Return the value if it is one of these."""
        if not any(type(value) is type(each) and value == each for each in self.values):
            raise _wrong(where, self.expected, value)
        return value


class OneOf(Record):
    """One of several kinds; the first that takes the value reads it."""

    options: tuple[Shape, ...]

    @property
    def expected(self) -> str:
        """The kinds, in words."""
        return " or ".join(option.expected for option in self.options)

    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        return {"anyOf": [option.schema() for option in self.options]}

    def read(self, value: object, where: str) -> Any:
        """Return the value as the first kind that takes it."""
        nearest: ArgumentError | None = None
        for option in self.options:
            try:
                return option.read(value, where)
            except ArgumentError as error:
                inside = type(value) in _CONTAINERS.get(type(option), ())  # the kind was right, something in it is not
                nearest = error if inside else nearest
        raise nearest or _wrong(where, self.expected, value)


class Field(Record):
    """A named part of an object, or a parameter of a tool."""

    name: str
    shape: Shape
    required: bool = True
    default: Any = None
    about: str = ""

    def schema(self) -> dict[str, Any]:
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
    make: Callable[..., Any] = dict
    expected: str = "an object"

    def schema(self) -> dict[str, Any]:
        """Return it as JSON Schema."""
        return {
            "type": "object",
            "properties": {field.name: field.schema() for field in self.fields},
            "required": [field.name for field in self.fields if field.required],
            "additionalProperties": False,
        }

    def read(self, value: object, where: str) -> Any:
        """Return the object with each field read; a missing or unknown one is an error that names it."""
        if not isinstance(value, dict):
            raise _wrong(where or "the arguments", self.expected, value)
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


_CONTAINERS: dict[type, tuple[type, ...]] = {ListOf: (list,), Table: (dict,), Fields: (dict,)}
_NOTHING = Plain("null", "nothing", (type(None),))
_PLAIN: dict[Any, Plain] = {
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


def _wrong(where: str, expected: str, value: object) -> ArgumentError:
    if isinstance(value, str) and len(value) <= 40 and expected.startswith("one of"):
        return ArgumentError(f"{where} must be {expected}, and is {quoted(value)}")
    kind = "null" if value is None else _KINDS.get(type(value), type(value).__name__)
    return ArgumentError(f"{where} must be {expected}, and is {kind}")


def shape_of(hint: Any) -> Shape:
    """Return the shape of a type; TypeError if no JSON value can be checked against it."""
    plain = _PLAIN.get(hint) if isinstance(hint, type | types.NoneType) or hint is typing.Any else None
    if plain is not None:
        return plain
    made = _shape_of_form(typing.get_origin(hint), typing.get_args(hint)) or _shape_of_class(hint)
    if made is None:
        raise TypeError(f"a tool cannot have an argument of type {hint!r}: JSON has nothing like it")
    return made


def _shape_of_form(origin: Any, args: tuple[Any, ...]) -> Shape | None:
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


def _shape_of_class(hint: Any) -> Shape | None:
    if hint in (list, dict):
        return ListOf(_PLAIN[object]) if hint is list else Table(_PLAIN[object])
    if not isinstance(hint, type):
        return None
    names = _fields_of(hint)
    return None if names is None else Fields(fields_from(typing.get_type_hints(hint, include_extras=True), names), hint)


def _fields_of(made: Any) -> Mapping[str, tuple[bool, Any]] | None:
    """Return which fields a class has, whether each is required, and its default."""
    if typing.is_typeddict(made):
        return {name: (name in made.__required_keys__, None) for name in made.__annotations__}
    if hasattr(made, "__dataclass_fields__"):
        from dataclasses import MISSING  # heavy: few tools need it

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


def fields_from(hints: Mapping[str, Any], names: Mapping[str, tuple[bool, Any]]) -> tuple[Field, ...]:
    """Return the fields with these names and hints; `Annotated[str, "text"]` describes one."""
    return tuple(
        Field(name, shape_of(hints[name]), required, default, _about(hints[name]))
        for name, (required, default) in names.items()
    )


def _about(hint: Any) -> str:
    if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        hint = typing.get_args(hint)[0]
    said: Sequence[Any] = getattr(hint, "__metadata__", ())
    return next((text for text in said if isinstance(text, str)), "")


ACTIONS = ("spawn", "fetch", "apply", "abort")
_COROUTINE = 0x80  # CO_COROUTINE of the code object's flags; `inspect`, which names it, costs more than all of this
_REST = 0x04 | 0x08  # CO_VARARGS, CO_VARKEYWORDS
_LONGEST_SHOWN = 200  # characters of one argument, when arguments are shown to people


class ToolError(Exception):
    """The tool cannot do what it was asked to, and says why. `transient`: trying again may help."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.transient = transient


class Tool:
    """A function that byleave can start as a tool. Calling it calls the function."""

    def __init__(self, function: Function, *, name: str | None = None, actions: Sequence[str] = ()) -> None:
        self.function = function
        self.name = name if name is not None else function.__name__
        self.description = _cleaned(function.__doc__ or "")
        self.actions = tuple(actions)
        self.is_async = bool(function.__code__.co_flags & _COROUTINE)
        self._fields = Fields(_parameters(function))
        self._formatter: Callable[[Mapping[str, Any]], str] | None = None

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Call the function itself; nothing is checked."""
        return self.function(*values, **named)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments; for a stateful tool one variant for each action it supports."""
        if not self.actions:
            return self._fields.schema()
        return {"oneOf": [_variant(action, self._fields.schema()) for action in self.actions]}

    @property
    def schema(self) -> dict[str, Any]:
        """Name, description and parameters, as a model receives them."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them; ArgumentError names the first that is wrong."""
        read: dict[str, Any] = self._fields.read(dict(arguments), "")
        return read

    def formatter(self, function: Callable[[Mapping[str, Any]], str]) -> Callable[[Mapping[str, Any]], str]:
        """Let `function` say in words, for people who are asked about it, what a call with some arguments would do."""
        self._formatter = function
        return function

    def format_arguments(self, arguments: Mapping[str, Any]) -> str:
        """Return a call as people read it. Never an error: what cannot be put in words is shown as it is."""
        if self._formatter is not None:
            try:
                self.read(arguments)
                return self._formatter(arguments)
            except Exception:  # noqa: BLE001, S110 -- a person waits; what is shown instead says it all
                pass
        given = ", ".join(f"{shown(name)}={_brief(value)}" for name, value in arguments.items())
        return f"{self.name}({given})"

    def run(self) -> None:
        """Be the tool: read from the host what to do, do it, and give the result. For the end of a program.

        Started with `--schema` alone, print the JSON Schema of the arguments instead.
        """
        if sys.argv[1:] == ["--schema"]:
            sys.stdout.write(json.dumps(self.schema) + "\n")
            return
        if not self.is_async:
            self.serve(vfs.connect())
            return
        import asyncio  # heavy: few tools need it

        async def main() -> None:
            await self.serve_async(await vfs.connect_async())

        asyncio.run(main())

    def serve(self, host: Any) -> bool:
        """Run the call of `host`, and send it a result or an error. Returns whether it was a result.

        QuestionAsked passes through: the call has ended with a question.
        """
        try:
            content = self._formatted(host)
            if content is None:
                content = self.function(host, **self.read(host.arguments))
            if not host.ended:
                self._say_result(host, "" if content is None else content)
        except HostGone:  # there is no host to send it to
            return False
        except Exception as error:  # noqa: BLE001 -- the outermost loop of a program: whatever it is becomes an answer
            if not host.ended:
                self._say_error(host, _report(error))
            return False
        return True

    async def serve_async(self, host: Any) -> bool:
        """Do the same with a host whose methods are coroutines."""
        try:
            content = self._formatted(host)
            if content is None:
                content = await self.function(host, **self.read(host.arguments))
            if not host.ended:
                await self._say_result(host, "" if content is None else content)
        except HostGone:
            return False
        except Exception as error:  # noqa: BLE001 -- as above
            if not host.ended:
                await self._say_error(host, _report(error))
            return False
        return True

    def _formatted(self, host: Any) -> str | None:
        return self.format_arguments(host.arguments) if host.action == "format_arguments" else None

    def _say_result(self, host: Any, content: Any) -> Any:
        stateful = self.actions and host.action == "run"
        return host.stopped(content) if stateful else host.result(content)

    def _say_error(self, host: Any, report: dict[str, Any]) -> Any:
        if self.actions and host.action == "run":
            return host.stopped(error=report["message"], trace=report["trace"], transient=report["transient"])
        return host.error(report["message"], report["trace"], transient=report["transient"])


def _report(error: Exception) -> dict[str, Any]:
    """Return the text of a failure."""
    if isinstance(error, Cancelled):
        return {"message": "the tool was cancelled", "trace": [], "transient": True}
    if isinstance(error, ToolError):
        return {"message": error.message, "trace": [], "transient": error.transient}
    if isinstance(error, VfsError | ArgumentError):
        return {"message": str(error), "trace": [], "transient": False}

    trace = [line.rstrip("\n") for line in traceback.format_exception(error)]
    return {"message": f"{type(error).__name__}: {error}".rstrip(": "), "trace": trace, "transient": False}


class _Making:
    """The decorator: `@tool`; `@tool.named("x")`; `@tool.stateful(actions=...)` for one that lives on."""

    def __call__(self, function: Function) -> Tool:
        """Make a function a Tool."""
        return Tool(function)

    def named(self, name: str) -> Callable[[Function], Tool]:
        """Make a function a Tool of another name."""
        return lambda decorated: Tool(decorated, name=name)

    def stateful(self, *, actions: Sequence[str] = ACTIONS, name: str | None = None) -> Callable[[Function], Tool]:
        """Make a function a Tool that is spawned, and then fetched from, applied to and aborted, as far as listed."""
        unknown = [action for action in actions if action not in ACTIONS]
        if unknown or "spawn" not in actions:
            raise ValueError(f"the actions of a tool are spawn, and any of {', '.join(ACTIONS[1:])}")
        return lambda decorated: Tool(decorated, name=name, actions=actions)


tool = _Making()


def _parameters(function: Function) -> Any:
    """Return the fields that a function takes besides the host."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & _REST or code.co_posonlyargcount > 1 or not code.co_argcount:
        raise TypeError(f"{function.__name__} must take a host, and then named parameters only")
    names = code.co_varnames[1:count]
    hints = {name: hint for name, hint in function.__annotations__.items() if name in names}
    missing = [name for name in names if name not in hints]
    if missing:
        raise TypeError(f"the parameter {missing[0]} of {function.__name__} needs a type: its schema is made of it")
    carrier = types.SimpleNamespace(__annotations__=hints)
    resolved = typing.get_type_hints(carrier, globalns=function.__globals__, include_extras=True)
    defaults = _defaults(function)
    return fields_from(resolved, {name: (name not in defaults, defaults.get(name)) for name in names})


def _defaults(function: Function) -> dict[str, Any]:
    code, values = function.__code__, function.__defaults__ or ()
    last = code.co_varnames[: code.co_argcount][code.co_argcount - len(values) :]
    return {**dict(zip(last, values, strict=True)), **(function.__kwdefaults__ or {})}


def _variant(action: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return how one action of a stateful tool is called."""
    properties: dict[str, Any] = {"action": {"const": action}, "id": {"type": "string"}}
    if action == "spawn":
        properties["args"] = parameters
    if action == "apply":
        properties["input"] = {}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _cleaned(text: str) -> str:
    """Return a docstring without the blanks that its place in the source gave it."""
    first, _, rest = text.strip().partition("\n")
    lines = rest.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join([first, *[line[margin:].rstrip() for line in lines]]).strip()


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return shown(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


__all__ = ["ACTIONS", "ArgumentError", "QuestionAsked", "Tool", "ToolError", "tool"]
