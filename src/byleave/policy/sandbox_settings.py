"""What every sandbox sees of the machine beside the system and the workspace: `[sandbox] read` and `write`.

Only trusted layers count. Each path is made absolute by its text; where it really leads is looked at once, to refuse
what byleave keeps to itself. A link can be turned later, so the sandbox looks again when it mounts a path.

The file that `byleave run --access` takes is read here as well: an `[access]` table, and `[limits]` if there are any.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.errors import ConfigError, ConfigErrors
from byleave.policy.dirs import hook_settings, real_path
from byleave.policy.layers import COMMAND_LINE, Layer, read_given_file
from byleave.policy.normalize import AT, HOST_PATHS, LINE, NOTHING, Item, compose, patch
from byleave.policy.toml_spans import locate
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from byleave.errors import SourceSpan
    from byleave.policy.context import CompileContext
    from byleave.policy.layers import Problems
    from byleave.policy.normalize import At
    from byleave.policy.toml_spans import TomlSpans


_ABSOLUTE = 'write the whole path, from / on, or "~/..." for what lies in your home directory'
_CLOSED = {"read": "byleave keeps to itself", "write": "no sandbox may change"}


class HostPathCompiler:
    """Reads the lists of all layers, and notes what is wrong with them."""

    def __init__(self, context: CompileContext, layers: Sequence[Layer], problems: Problems) -> None:
        self._context = context
        self._problems = problems
        settings = hook_settings(context.home)
        own = context.own_places(layers)
        # A tool may read an agent's settings. One that writes them writes the commands that the agent starts.
        readable = tuple(place for place in own if place not in settings)
        self._closed = {"read": readable, "write": own}

    def merged(self, layers: Iterable[Layer]) -> dict[str, list[str]]:
        """Return the absolute paths of these layers, weakest first."""
        lists = dict.fromkeys(HOST_PATHS, NOTHING)
        for layer in layers:
            for key, configured in layer.tree.get("sandbox", {}).items():
                items = [Item(path, layer) for path in self._paths(key, layer)]
                lists[key] = compose(lists[key], patch(configured["strategy"], items))
        return {key: [item.tree for item in merged.items] for key, merged in lists.items()}

    def _paths(self, key: str, layer: Layer) -> Iterator[str]:
        """Yield the usable paths of one list, and note the others."""
        configured = layer.tree["sandbox"][key]
        for number, text in enumerate(configured["value"]):
            path = self._usable(key, text)
            if isinstance(path, str):
                yield path
            else:
                self._problems.add(layer, path[0], hint=path[1], at=(*configured[AT], number))

    def _usable(self, key: str, text: str) -> str | tuple[str, str]:
        """Return the absolute path; where it cannot be used, what is wrong with it, and what to do about it."""
        path = _absolute(text, self._context.home)
        if any(_is_odd(char) for char in text):
            return f"{quoted(text)} contains a control character", "write the path without it"
        if ".." in text.split("/"):
            return f"{quoted(text)} climbs with ..", "write the path that it leads to"
        if path is None:
            return (f"{quoted(text)} is not absolute" if text else "the path is empty"), _ABSOLUTE
        real = real_path(path)
        if real == "/":
            return f"{quoted(text)} is the whole machine", "name the directories that a tool needs"
        place = self._reached(key, path) or self._reached(key, real)
        if place is not None:
            problem = f"{quoted(text)} reaches {quoted(place)}, which {_CLOSED[key]}"
            return problem, "name a path that neither holds it nor lies in it"
        return path

    def _reached(self, key: str, path: str) -> str | None:
        """Return the place of ours that a path is, holds or lies in.

        What lies in the workspace does not count for a path around it: there the workspace's own rules decide.
        """
        root = self._context.root.path
        around = is_under(root, path)
        for place in self._closed[key]:
            if is_under(path, place) or (is_under(place, path) and not (around and is_under(place, root))):
                return place
        return None


def _absolute(text: str, home: str) -> str | None:
    """Return the path from / on, without empty names and dots; None if it is relative, or there is no home."""
    if text == "~" or text.startswith("~/"):
        text = os.path.join(home, text[2:])
    if not text.startswith("/"):
        return None
    return "/" + "/".join([name for name in text.split("/") if name not in ("", ".")])


def _is_odd(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff"


_KEYS = ("access", "limits")


def access_layer(tool: str, path: str | None, shown: str | None = None) -> Layer:
    """Return a layer that describes one tool, with the access of the file at `path`; without one, none of its own.

    Its rules are found in the file by line; `shown` is how the user wrote its path.
    """
    from byleave.policy.parse import parse_table, parse_tree  # heavy: for access that a command line adds
    from byleave.policy.toml_text import parse_toml, read_text

    entry: dict[str, Any] = {"source": "local", "runtime": "stdio"}
    if path is None:
        return Layer(COMMAND_LINE, parse_tree({"tools": {tool: entry}}))
    file = shown or path
    content = read_given_file(file, path)
    text = read_text(content, file)
    tree = parse_toml(text, file)
    places = _Inside(locate(text))
    unknown = [key for key in tree if key not in _KEYS]
    if unknown:
        hint = "write an [access] table and, if needed, a [limits] table; see docs/sandbox.md"
        at = places.point((*_AROUND, unknown[0]), file)
        raise ConfigErrors([ConfigError(f"{quoted(unknown[0])} is no key of this file", hint=hint, at=at)])
    entry |= {key: tree[key] for key in _KEYS if key in tree}
    made = parse_table({"tools": {tool: entry}}, file, places)
    return Layer(COMMAND_LINE, made, file, content, path=path, around=len(_AROUND))


def shell_layer(*, confine: str | None = None) -> Layer:
    """Return a layer with an empty `[shell]` table: a command line that is to run confined does so without one.

    With `confine`, the table says so.
    """
    said = {} if confine is None else {"confine": confine}
    return Layer(COMMAND_LINE, {"tools": {}, "shell": {LINE: 1, AT: ("shell",), **said}})


_AROUND = ("tools", "")


class _Inside:
    """Where things stand in a file that holds one tool's tables, given by their places in a whole tree."""

    def __init__(self, places: TomlSpans) -> None:
        self._places = places

    def line(self, at: At) -> int:
        return self._places.line(at[len(_AROUND) :])

    def point(self, at: At, file: str, *, at_key: bool = False) -> SourceSpan:
        return self._places.point(at[len(_AROUND) :], file, at_key=at_key)
