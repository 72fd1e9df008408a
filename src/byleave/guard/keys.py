"""What exactly a human's yes covers: the action in full, canonical, and for whom, where and through which door.

Two actions have the same key only if nothing that was shown differs. A link that leads elsewhere by now, another
working directory, one more argument, a changed tool definition: each is another key, and is asked about anew.
"""

import os

from byleave.core.action import CommandAction, action_tree
from byleave.core.fs import FsTarget
from byleave.private import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.guard.judge import Judged

_PATHS = ("path", "to")


def action_key(judged: "Judged", *, root: str, door: str, agent: str | None, session: str, pin: str | None) -> str:
    """Return the key of an action as it was judged; `pin` is the hash of the tool's definition, where there is one."""
    return digest(
        _canonical(
            {
                "action": _exact(judged, root),
                "root": os.fsencode(root).hex(),
                "door": door,
                "agent": agent,
                "session": session,
                "pin": pin,
            }
        )
    )


def _exact(judged: "Judged", root: str) -> "dict[str, Any]":
    """Return the action with every path replaced by the place it leads to."""
    tree = action_tree(judged.action)
    for name, place in zip(_PATHS, judged.places, strict=False):
        tree[name] = os.fsencode(place.canonical).hex() if isinstance(place, FsTarget) else tree.get(name)
    if isinstance(judged.action, CommandAction):
        tree["cwd"] = os.path.realpath(os.path.join(root, judged.action.cwd or "."))
    return tree


def _canonical(tree: "Any") -> bytes:
    """Return a tree as JSON in one form only; 1, 1.0 and true stay apart."""
    import json

    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
