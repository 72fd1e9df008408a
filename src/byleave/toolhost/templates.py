"""How a plain tool is told what to do: in its words, where they hold a place for it, else on its standard input.

A place is `{{context}}` or `{{tool}}` inside of one word. What stands for it is JSON, and stays inside that word: words
are never joined, split or read by a shell. So there is no place in a word that is code: the program itself, what
follows `-c`.
"""

import json

from byleave.errors import InputError
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PLACES = ("context", "tool")
_LONGEST_CLUSTER = 3  # `-lc`


def fill(command: "Sequence[str]", told: "Mapping[str, Any]") -> "tuple[list[str], bytes]":
    """Return the words of the command, and what goes to standard input: nothing, if the words say it all."""
    texts = {f"{{{{{name}}}}}": _json(told[name]) for name in PLACES}
    for before, word in zip(("-c", *command), command, strict=False):
        if _takes_code(before) and any(place in word for place in texts):
            raise InputError(
                f"{quoted(word)} would be read as a program, and whoever calls the tool would write a part of it",
                hint='give {{tool}} a word of its own behind the script, where a shell has it as "$0" or "$1"',
            )
    if not any(place in word for word in command for place in texts):
        return list(command), _json(dict(told)).encode() + b"\n"
    return [_filled(word, texts) for word in command], b""


def _takes_code(option: str) -> bool:
    """Whether the word behind this one is code to a shell or an interpreter: `-c`, `-lc`, `-e`, `--eval`."""
    cluster = option.startswith("-") and not option.startswith("--") and len(option) <= _LONGEST_CLUSTER
    return (cluster and option[-1] in "ce") or option in ("--eval", "--command", "--execute")


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
