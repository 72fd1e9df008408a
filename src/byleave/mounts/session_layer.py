"""A session's own layer: `sessions/<name>/config.toml` in the state directory, read, changed and written whole.

A file that was written by hand keeps its meaning, whatever spelling it came in; its comments are not kept. Trees are
never changed in place: every function returns a new one.

Write a tree as TOML: tables where they can stand, everything else in one line. Pure.

What it writes, tomllib reads back as the same tree. Dates and times are not written: no layer holds any.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.suggest import toml_key, toml_string
from byleave.policy.dirs import CONFIG_FILE, check_session_name
from byleave.policy.layers import COMMAND_LINE, LARGEST_FILE, MANAGED, SESSION, Layer
from byleave.policy.parse import parse_file
from byleave.policy.toml_text import parse_toml
from byleave.user_files import read_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.policy.load import Workspace

    Tree = dict[str, Any]


def write_toml(tree: Mapping[str, Any]) -> str:
    """Return the TOML text of a tree of tables, lists, strings, numbers and booleans."""
    return "\n".join(_table(tree, ())).strip("\n") + "\n" if tree else ""


def _table(tree: Mapping[str, Any], path: tuple[str, ...], header: str = "") -> Iterator[str]:
    plain = {key: value for key, value in tree.items() if not _stands_alone(value)}
    if header and (plain or not tree or header.startswith("[[")):
        yield ""
        yield header
    for key, value in plain.items():
        yield f"{toml_key(key)} = {toml_value(value)}"
    for key, value in tree.items():
        below = (*path, toml_key(key))
        name = ".".join(below)
        if isinstance(value, dict):
            yield from _table(value, below, f"[{name}]")
        elif _stands_alone(value):
            for item in value:
                yield from _table(item, below, f"[[{name}]]")


def _stands_alone(value: object) -> bool:
    """Whether a value gets a header of its own: a table, or a list of nothing but tables."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    return isinstance(value, dict)


def toml_value(value: Any) -> str:
    """Return a value as it stands behind the equals sign."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join([toml_value(item) for item in value])}]"
    if isinstance(value, dict):
        fields = ", ".join([f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()])
        return f"{{ {fields} }}" if fields else "{}"
    raise TypeError(f"no layer holds a {type(value).__name__}")


HEADER = """\
# The grants of one session, kept by `byleave mount` and `byleave unmount`. They rewrite this file:
# what it says is kept, comments are not.
"""


class SessionFile(Struct, frozen=True):
    """The layer of one session: where it lies, what it holds (None: there is no file), and its tree as written."""

    path: str
    content: str | None
    tree: Tree


def sessions_directory(workspace: Workspace) -> str:
    """Return where the sessions of a workspace are kept."""
    return os.path.join(workspace.homes.workspace(workspace.root.path), "sessions")


def read_session(workspace: Workspace, session: str) -> SessionFile:
    """Return the layer of a session as it is now."""
    path = os.path.join(sessions_directory(workspace), check_session_name(session), CONFIG_FILE)
    content = read_private(path, limit=LARGEST_FILE, links=True)
    if content is None:
        return SessionFile(path, None, {})
    return SessionFile(path, content.decode("utf-8", "surrogateescape"), parse_toml(content, path))


def text_of(tree: Tree) -> str:
    """Return the whole file that says what the tree does."""
    return f"{HEADER}\n{write_toml(tree)}"


def fs_rules(tree: Tree, tool: str) -> list[Tree]:
    """Return the file rules that the session has for a tool, as they are written."""
    fs = _access(tree, tool).get("fs", [])
    rules: list[Tree] = fs["value"] if isinstance(fs, dict) else fs
    return rules


def with_fs_rules(tree: Tree, tool: str, rules: Sequence[Tree], *, strategy: str | None = None) -> Tree:
    """Return the tree with these file rules for a tool; without a new `strategy`, the old one stays."""
    old = _access(tree, tool).get("fs", [])
    fs: object = list(rules)
    if strategy is not None or isinstance(old, dict):
        fs = {"strategy": strategy if strategy is not None else old["strategy"], "value": list(rules)}
    return _put(tree, (*_tool_path(tree, tool), "access", "fs"), fs)


def with_session(layers: Sequence[Layer], file: SessionFile, tree: Tree) -> list[Layer]:
    """Return the layers as they would be if the session's file held this tree."""
    content = text_of(tree).encode()
    layer = Layer(SESSION, parse_file(content, file.path), file.path, content, True, file.path)
    others = [other for other in layers if other.name != SESSION]
    weaker = sum(1 for other in others if other.name not in (COMMAND_LINE, MANAGED))
    return [*others[:weaker], layer, *others[weaker:]]


def _access(tree: Tree, tool: str) -> Tree:
    found: Any = tree
    for key in (*_tool_path(tree, tool), "access"):
        found = found.get(key, {})
    access: Tree = found
    return access


def _tool_path(tree: Tree, tool: str) -> tuple[str, ...]:
    """Return where a tool stands: files from elsewhere call the table `conversation.tools`."""
    if tool in tree.get("conversation", {}).get("tools", {}):
        return ("conversation", "tools", tool)
    return ("tools", tool)


def _put(tree: Tree, path: Sequence[str], value: object) -> Tree:
    key, *rest = path
    return {**tree, key: _put(tree.get(key, {}), rest, value) if rest else value}
