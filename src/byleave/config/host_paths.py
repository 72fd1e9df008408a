"""What every sandbox sees of the machine beside the system and the workspace: `[sandbox] read` and `write`.

Only what its owner trusts is heard. Each path is made absolute by its text; where it really leads is looked at once,
to refuse what byleave keeps to itself. A link can be turned later, so whoever mounts a path looks again.
"""

import os

from byleave.config.homes import hook_settings
from byleave.config.merge import NOTHING, Item, compose, patch
from byleave.config.normal import AT, HOST_PATHS
from byleave.core.fs import is_under
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.config.compile import Surroundings
    from byleave.config.layers import Layer, Problems

_ABSOLUTE = 'write the whole path, from / on, or "~/..." for what lies in your home directory'
_CLOSED = {"read": "byleave keeps to itself", "write": "no sandbox may change"}


class HostPaths:
    """Reads the lists of all layers, and notes what is wrong with them."""

    def __init__(self, surroundings: "Surroundings", problems: "Problems") -> None:
        self._surroundings = surroundings
        self._problems = problems
        settings = hook_settings(surroundings.home)
        # Everybody may know an agent's settings; who writes them writes the commands that the agent starts.
        readable = tuple(place for place in surroundings.own_places if place not in settings)
        self._closed = {"read": readable, "write": surroundings.own_places}

    def merged(self, layers: "Iterable[Layer]") -> dict[str, list[str]]:
        """Return the absolute paths of these layers, weakest first."""
        lists = dict.fromkeys(HOST_PATHS, NOTHING)
        for layer in layers:
            for key, configured in layer.tree.get("sandbox", {}).items():
                items = [Item(path, layer) for path in self._paths(key, layer)]
                lists[key] = compose(lists[key], patch(configured["strategy"], items))
        return {key: [item.tree for item in merged.items] for key, merged in lists.items()}

    def _paths(self, key: str, layer: "Layer") -> "Iterator[str]":
        """Yield the usable paths of one list, and note the others."""
        configured = layer.tree["sandbox"][key]
        for number, text in enumerate(configured["value"]):
            path = _absolute(text, self._surroundings.home)
            problem = self._problem(key, text, path)
            if problem is not None:
                self._problems.add(layer, problem[0], hint=problem[1], at=(*configured[AT], number))
            elif path is not None:
                yield path

    def _problem(self, key: str, text: str, path: str | None) -> tuple[str, str] | None:
        """Return what is wrong with a path, and what to do about it."""
        if any(_is_odd(char) for char in text):
            return f"{quoted(text)} contains a control character", "write the path without it"
        if ".." in text.split("/"):
            return f"{quoted(text)} climbs with ..", "write the path that it leads to"
        if path is None:
            return (f"{quoted(text)} is not absolute" if text else "the path is empty"), _ABSOLUTE
        real = self._surroundings.real(path)
        if real == "/" or path == "/":
            return f"{quoted(text)} is the whole machine", "name the directories that a tool needs"
        place = self._reached(key, path) or self._reached(key, real)
        if place is not None:
            problem = f"{quoted(text)} reaches {quoted(place)}, which {_CLOSED[key]}"
            return problem, "name a path that neither holds it nor lies in it"
        return None

    def _reached(self, key: str, path: str) -> str | None:
        """Return the place of ours that a path is, holds or lies in.

        What lies in the workspace does not count for a path around it: there the workspace's own rules decide.
        """
        root = self._surroundings.root
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
