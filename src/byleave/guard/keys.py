"""What exactly a human's yes covers: the action in full, canonical, and for whom, where and through which door.

Two actions have the same key only if nothing that was shown differs. A link that leads elsewhere by now, another
working directory, one more argument, a changed tool definition: each is another key, and is asked about anew.
"""

import os

from byleave.config.homes import real_path
from byleave.core.action import CommandAction, action_tree
from byleave.core.fs import FsTarget
from byleave.errors import InputError
from byleave.private import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.guard.asking import Who
    from byleave.guard.judge import Judged

_PATHS = ("path", "to")


def action_key(judged: "Judged", *, root: str, door: str, who: "Who", session: str, pin: str | None) -> str:
    """Return the key of an action as it was judged; `pin` is the hash of the tool's definition, where there is one."""
    return digest(
        _canonical(
            {
                "action": _exact(judged, root),
                "touched": [_hex(place) for place in judged.touched],
                "root": _hex(root),
                "door": door,
                "agent": who.agent,
                "identity": who.identity,
                "session": session,
                "pin": pin,
            }
        )
    )


def _exact(judged: "Judged", root: str) -> "dict[str, Any]":
    """Return the action with every path replaced by the place it leads to."""
    tree = action_tree(judged.action)
    for name, place in zip(_PATHS, judged.places, strict=False):
        tree[name] = _hex(place.canonical) if isinstance(place, FsTarget) else tree.get(name)
    if isinstance(judged.action, CommandAction):
        tree["cwd"] = _hex(real_path(os.path.join(root, judged.action.cwd or ".")))
    return tree


def _hex(path: str) -> str:
    return path.encode("utf-8", "surrogatepass").hex()


def _canonical(tree: "Any") -> bytes:
    """Return a tree as JSON in one form only; 1, 1.0 and true stay apart, and what JSON cannot say is refused."""
    import json

    try:
        text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        same = json.loads(text) == tree  # keys that are no strings, or tuples: another tree could have the same text
    except (TypeError, ValueError, RecursionError):
        same, text = False, ""
    if not same:
        hint = "give nothing but JSON: objects with string keys, lists, strings, numbers of moderate size"
        raise InputError("the arguments of this action are no JSON that can be kept", hint=hint)
    return text.encode()
