"""How a plain tool is told what to do: in its words, where they hold a place for it, else on its standard input.

A place is `{{context}}` or `{{tool}}` inside of one word. What stands for it is JSON, and stays inside that word: words
are never joined, split or read by a shell.
"""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PLACES = ("context", "tool")


def fill(command: "Sequence[str]", told: "Mapping[str, Any]") -> "tuple[list[str], bytes]":
    """Return the words of the command, and what goes to standard input: nothing, if the words say it all."""
    texts = {f"{{{{{name}}}}}": _json(told[name]) for name in PLACES}
    if not any(place in word for word in command for place in texts):
        return list(command), _json(dict(told)).encode() + b"\n"
    return [_filled(word, texts) for word in command], b""


def _filled(word: str, texts: "Mapping[str, str]") -> str:
    """Fill a word from left to right; what was put in is not looked at again."""
    done, rest = "", word
    while True:
        found = min(((rest.find(place), place) for place in texts if place in rest), default=None)
        if found is None:
            return done + rest
        at, place = found
        done, rest = done + rest[:at] + texts[place], rest[at + len(place) :]


def _json(tree: "Any") -> str:
    return json.dumps(tree, separators=(",", ":"))  # ASCII: a word of the command line must be text everywhere
