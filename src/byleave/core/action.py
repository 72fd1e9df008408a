"""What is attempted: one record per kind of action, and the reading of its JSON form."""

from __future__ import annotations

from binascii import Error, a2b_base64
from typing import TYPE_CHECKING, Any

from byleave.core.decision import named_path
from byleave.errors import InputError
from byleave.record import Record
from byleave.text import quoted, sentence_list

if TYPE_CHECKING:
    from collections.abc import Mapping


class FileAction(Record):
    """Reading, creating, updating, deleting or executing one path."""

    kind: str
    path: str
    tool: str | None = None
    agent: str | None = None


class MoveAction(Record):
    path: str
    to: str
    tool: str | None = None
    agent: str | None = None


class SearchAction(Record):
    """Searching below a path, in the files whose names a pattern selects; without one, in all of them."""

    path: str = "."
    query: str | None = None
    tool: str | None = None
    agent: str | None = None
    glob: str | None = None


class UrlAction(Record):
    """Reaching a URL. `address` is the resolved address that would be dialled, where it is known already.

    `refused` says why it was not reached, whatever rules say: the proxy found something that rules do not speak of.
    """

    url: str
    method: str | None = None
    address: str | None = None
    tool: str | None = None
    agent: str | None = None
    refused: str | None = None


class EnvAction(Record):
    """Reading a variable; or, with the `way` "substitute", having the host put it where the tool never sees it."""

    name: str
    tool: str | None = None
    agent: str | None = None
    way: str | None = None


class SpawnAction(Record):
    program: str
    args: tuple[str, ...] = ()
    tool: str | None = None
    agent: str | None = None


class CommandAction(Record):
    """Running a text. `shell` is the name of the shell that reads it (`sh`, `bash`, `zsh`), where that is known."""

    command: str
    cwd: str | None = None
    agent: str | None = None
    shell: str | None = None


class CallAction(Record):
    """Calling a tool of a server. `schema` is the tool's input schema where it is known: no part of what is done.

    `respelled`: an agent says so in a name of its own making, where `_` may stand for another sign.
    """

    server: str
    tool: str | None = None
    arguments: Any = None
    agent: str | None = None
    schema: Any = None
    respelled: bool = False


class OtherAction(Record):
    name: str
    title: str | None = None
    agent: str | None = None


Action = (
    FileAction
    | MoveAction
    | SearchAction
    | UrlAction
    | EnvAction
    | SpawnAction
    | CommandAction
    | CallAction
    | OtherAction
)

SUBSTITUTE = "substitute"
LOCAL = "local"  # the server that the tools of this workspace are
CAPABILITY_OF = {"read": "read", "create": "create", "update": "update", "delete": "delete", "exec": "execute"}
_MAKERS: dict[str, type[Action]] = {
    **dict.fromkeys(CAPABILITY_OF, FileAction),
    "move": MoveAction,
    "search": SearchAction,
    "url": UrlAction,
    "env": EnvAction,
    "spawn": SpawnAction,
    "command": CommandAction,
    "call": CallAction,
    "other": OtherAction,
}
KINDS = tuple(_MAKERS)
_BYTES_FIELDS = (("path", "path_b64"), ("to", "to_b64"))
_USUAL = ("shell", "bash")  # not worth a field
_PATHS = frozenset(name for name, _ in _BYTES_FIELDS)
_KIND_OF = {make: kind for kind, make in _MAKERS.items()}
_UNSAID = frozenset({"schema", "respelled"})  # fields that the JSON form does not have
_FIELDS = {
    make: (tuple(name for name in make.field_names() if name not in _UNSAID), make.required_names())
    for make in _MAKERS.values()
}


def fields_of(kind: str) -> tuple[str, ...]:
    """Return the names of what an action of this kind may say, beside `kind`; none if there is no such kind."""
    make = _MAKERS.get(kind)
    if make is None:
        return ()
    names = _FIELDS[make][0]
    return tuple(
        name for name in (*names, *(spelled for name, spelled in _BYTES_FIELDS if name in names)) if name != "kind"
    )


def parse_action(tree: object) -> Action:
    """Return the typed action of a JSON object; what cannot be read is an input error."""
    if not isinstance(tree, dict):
        raise InputError("an action must be an object", hint='write {"kind": "read", "path": "src", ...}')
    kind = tree.get("kind")
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    if make is None:
        what = quoted(kind) if isinstance(kind, str) else "none"
        raise InputError(f"unknown kind of action: {what}", hint=f"the kinds are {sentence_list(KINDS, most=20)}")
    names, required = _FIELDS[make]
    fields = {name: _field(tree, name, kind) for name in names if name in tree}
    for name, spelled in _BYTES_FIELDS:
        if spelled in tree and name in names:
            fields[name] = _bytes_field(tree, spelled)
    missing = [name for name in required if name not in fields]
    if missing:
        raise InputError(
            f"the action {quoted(str(kind))} lacks {sentence_list(missing)}", hint="add what is missing to the action"
        )
    return make(**fields)


def action_tree(action: Action) -> dict[str, Any]:
    """Return an action in its JSON form, without the fields that were not given."""
    kind = action.kind if isinstance(action, FileAction) else _KIND_OF[type(action)]
    tree: dict[str, Any] = {"kind": kind}
    for name in _FIELDS[type(action)][0]:
        value = getattr(action, name)
        if name in _PATHS:
            tree |= named_path(name, value)
        elif value is not None and name != "kind" and (name, value) != _USUAL:
            tree[name] = list(value) if isinstance(value, tuple) else value
    return tree


def _field(tree: Mapping[str, Any], name: str, kind: object) -> Any:
    value = tree[name]
    if type(value) is str and name != "args":
        return value
    if name == "arguments":
        return value
    if name == "args":
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(value)
        raise InputError("args must be a list of strings", hint='write "args": ["build", "--release"]')
    if value is None and name not in ("path", "to", "url", "name", "program", "command", "server", "kind"):
        return None
    raise InputError(f"{name} must be a string in the action {quoted(str(kind))}", hint=f'write "{name}": "..."')


def _bytes_field(tree: Mapping[str, Any], name: str) -> str:
    """Read a name that is not UTF-8: its bytes in base64, kept as os.fsdecode would keep them."""
    try:
        return a2b_base64(tree[name], strict_mode=True).decode("utf-8", "surrogateescape")
    except (Error, TypeError, ValueError):
        raise InputError(f"{name} is not base64", hint="give the bytes of the name, base64-encoded") from None
