"""The description of a tool and the JSON Schema of its arguments: as configured, else as the tool itself prints them.

A tool is code that byleave does not trust. To print its description (`@tool` does) it is started with `--schema` behind
its command, in the sandbox of a mediated tool: it sees its own program, nothing else of the workspace, no network, and
the minimal environment. Its input is empty, it has a few seconds, and its output is read strictly. A program that
prints something else does not describe itself, which is no problem; a schema that cannot be used is one, and is
reported.

Start at `input_schema` and `ask_tool`.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.errors import ByleaveError, ConfigErrors, RequestError
from byleave.protocol.json_codec import PLAIN
from byleave.text import shown, shown_lines
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.process import OWN_TOOLS, attend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from byleave.policy.compile import CompiledTool
    from byleave.sdk.tool import Tool as SdkTool
    from byleave.toolhost.process import ToolSandboxes

ACTIONS = ("spawn", "fetch", "apply", "abort")  # of a stateful tool
_ID = {"type": "string", "description": "A readable name for this run, chosen by the caller."}
_INPUT = {"description": "Input for the running tool, or the answer to its question."}
PATIENCE = 5.0  # seconds; a Python with our SDK takes a tenth of one
_LONGEST = 256 << 10  # bytes that it prints
_LONGEST_DESCRIPTION = 10_000  # characters
_DEEPEST = 20  # schemas in one another
_MOST_NODES = 5_000  # schemas in all
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


class SelfDescription(Struct, frozen=True):
    """What a tool prints about itself; `problem` is why it is not used."""

    description: str = ""
    parameters: Mapping[str, Any] | None = None
    problem: str | None = None


NOTHING = SelfDescription()


def input_schema(tool: CompiledTool, said: SelfDescription = NOTHING) -> dict[str, Any]:
    """Return what the arguments of a call must look like: as configured, else as the tool itself has said."""
    parameters = _parameters(tool, said)
    if not tool.settings.get("stateful"):
        return parameters
    return {
        "type": "object",
        "oneOf": [_variant(action, parameters) for action in tool.settings.get("actions", ACTIONS)],
    }


def description_of(tool: CompiledTool, said: SelfDescription = NOTHING) -> str:
    """Return what a tool is for: as configured, else as the tool itself has said; nothing where neither does."""
    own = _own_tool(tool)
    return tool.settings.get("description") or (said.description if own is None else own.description)


def _own_tool(tool: CompiledTool) -> SdkTool | None:
    """Return the tool that comes with byleave, if this is one."""
    command = tool.settings.get("command") or [""]
    if command[0] != OWN_TOOLS or len(command) == 1:
        return None
    from byleave.tools import NAMES, load  # heavy: only for our own tools

    return load(command[1]) if command[1] in NAMES else None


def _parameters(tool: CompiledTool, said: SelfDescription) -> dict[str, Any]:
    configured: dict[str, Any] | None = tool.settings.get("parameters")
    if configured is not None:
        return configured
    own = _own_tool(tool)
    if own is not None:
        return dict(own.parameters)
    if said.parameters is None:
        return {"type": "object"}
    return {"type": "object", **(_of_spawn(said.parameters) if tool.settings.get("stateful") else said.parameters)}


def _of_spawn(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a tool that stays is spawned with: it describes its actions, and the configuration selects them."""
    for variant in parameters.get("oneOf", ()):
        properties = variant.get("properties", {}) if isinstance(variant, dict) else {}
        args = properties.get("args")
        if properties.get("action") == {"const": "spawn"} and isinstance(args, dict):
            return args
    return parameters


def _variant(action: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of one action: another action cannot be expressed by it."""
    needs: dict[str, Any] = {"action": {"const": action}, "id": _ID}
    if action == "spawn":
        needs["args"] = parameters
    if action == "apply":
        needs["input"] = _INPUT
    return {"type": "object", "properties": needs, "required": list(needs), "additionalProperties": False}


def is_asked(tool: CompiledTool) -> bool:
    """Whether a tool is asked: it may be written with `@tool`, and the configuration does not say all of it."""
    command = tool.settings.get("command") or [""]
    complete = tool.settings.get("parameters") is not None and tool.settings.get("description")
    return tool.runtime == "vfs" and command[0] not in ("", OWN_TOOLS) and not complete


def file_stamps(root: str, command: Sequence[str]) -> tuple[object, ...]:
    """Return values that change when a file that a command names is replaced or gets another content."""
    return tuple(_stamp(os.path.join(root, word)) for word in command)


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def ask_tool(sandboxes: ToolSandboxes, cancel: Deadline) -> SelfDescription:
    """Start the tool with `--schema`, and return the description that it prints."""
    turn = Deadline(monotonic() + PATIENCE)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        process = sandboxes.start_asking(nothing)
    except (ByleaveError, ConfigErrors, OSError):  # a call will say why
        return NOTHING
    finally:
        os.close(nothing)
    cancel.on_cancel(turn.cancel)
    try:
        with process:
            said = attend(process, turn, limit=_LONGEST)  # type: ignore[arg-type]
    except RequestError as error:
        return SelfDescription(problem=f"started with --schema, {error.problem}")
    return read_description(said.out) if said.exit_code == 0 else NOTHING


def read_description(output: bytes) -> SelfDescription:
    """Return what the output of a tool says of it."""
    try:
        tree = PLAIN.decode(output)
    except (ValueError, RecursionError):
        return NOTHING
    if not isinstance(tree, dict) or "parameters" not in tree or "jsonrpc" in tree:
        return NOTHING
    description, parameters = tree.get("description", ""), tree["parameters"]
    problem = _description_problem(description) or schema_problem(parameters)
    return structs.replace(NOTHING, problem=problem) if problem else SelfDescription(description, parameters)


def _description_problem(text: object) -> str | None:
    if not isinstance(text, str):
        return "its description is not text"
    if len(text) > _LONGEST_DESCRIPTION:
        return f"its description is longer than {_LONGEST_DESCRIPTION} characters"
    return None if _is_plain(text) else "its description holds characters that cannot be seen"


def _is_plain(text: str) -> bool:
    """Whether a text shows all of what it says: models read what people do not see."""
    plain = text.replace("\t", " ").replace("\r\n", "\n")
    return shown_lines(plain) == plain


def schema_problem(schema: object) -> str | None:
    """Say why this is not the JSON Schema of some arguments; None if it is. What it refers to lies in it."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "the schema of its parameters is not one of objects"
    try:
        _Check().schema(schema, "", 0)
    except _WrongError as error:
        return f"the schema of its parameters {error}"
    return None


class _WrongError(Exception):
    """What is wrong with a schema, as the end of a sentence."""


class _Check:
    """Walks through a schema, and counts."""

    def __init__(self) -> None:
        self._nodes = 0

    def schema(self, tree: object, at: str, depth: int) -> None:
        self._nodes += 1
        if depth > _DEEPEST or self._nodes > _MOST_NODES:
            raise _WrongError("is too deep or too large")
        if isinstance(tree, bool):
            return
        if not isinstance(tree, dict):
            raise _WrongError(f"has no schema at {shown(at or '/')}")
        for name, value in tree.items():
            where = f"{at}/{name}"
            self._text(name, where)
            check = _KEYWORDS.get(name)
            if check is not None:
                check(self, value, where, depth + 1)

    def _text(self, value: object, at: str, _depth: int = 0) -> None:
        if not isinstance(value, str) or not _is_plain(value):
            raise _WrongError(f"has no plain text at {shown(at)}")

    def _inside(self, value: object, at: str, _depth: int) -> None:
        if not isinstance(value, str) or not value.startswith("#"):
            raise _WrongError(f"refers to something outside of it at {shown(at)}")

    def _type(self, value: object, at: str, _depth: int) -> None:
        names = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
            raise _WrongError(f"has an unknown type at {shown(at)}")

    def _names(self, value: object, at: str, _depth: int) -> None:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise _WrongError(f"has no list of names at {shown(at)}")

    def _values(self, value: object, at: str, _depth: int) -> None:
        if not isinstance(value, list) or not value:
            raise _WrongError(f"has no list of values at {shown(at)}")

    def _table(self, value: object, at: str, depth: int) -> None:
        if not isinstance(value, dict):
            raise _WrongError(f"has no table of schemas at {shown(at)}")
        for name, each in value.items():
            self._text(name, at)
            self.schema(each, f"{at}/{name}", depth)

    def _list(self, value: object, at: str, depth: int) -> None:
        if not isinstance(value, list) or not value:
            raise _WrongError(f"has no list of schemas at {shown(at)}")
        for number, each in enumerate(value):
            self.schema(each, f"{at}/{number}", depth)


_KEYWORDS: dict[str, Callable[[_Check, object, str, int], None]] = {
    **dict.fromkeys(("description", "title", "format", "pattern", "$schema", "$id"), _Check._text),  # noqa: SLF001 -- our own
    **dict.fromkeys(("$ref", "$dynamicRef"), _Check._inside),  # noqa: SLF001
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _Check._table),  # noqa: SLF001
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _Check._list),  # noqa: SLF001
    **dict.fromkeys(("items", "additionalProperties", "not", "if", "then", "else", "contains"), _Check.schema),
    "type": _Check._type,  # noqa: SLF001
    "required": _Check._names,  # noqa: SLF001
    "enum": _Check._values,  # noqa: SLF001
}
