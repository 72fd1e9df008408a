"""What exactly a person's yes covers: the action in full, canonical, for which agent, where, by which integration.

Two actions have the same key only if nothing that was shown differs. A link that leads elsewhere by now, another
working directory, one more argument, a changed tool definition, another content of a script that the command runs: each
is another key, and is asked about anew. So is a run that is not confined where the one that was shown was.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from byleave.core.action import CommandAction, action_tree
from byleave.core.fs_rules import FsTarget
from byleave.errors import InputError
from byleave.policy.dirs import real_path
from byleave.policy.script_files import content_mark
from byleave.store.audit.records import encode
from byleave.user_files import digest

if TYPE_CHECKING:
    from byleave.guard.evaluation import Who
    from byleave.policy.live_policy import ResolvedAction

_PATHS = ("path", "to")


def action_key(resolved: ResolvedAction, *, root: str, door: str, who: Who, session: str, pin: str | None) -> str:
    """Return the key of an action; `pin` is the hash of the tool's definition, where there is one."""
    tree: dict[str, Any] = {
        "action": _exact(resolved, root),
        "touched": [_hex(place) for place in resolved.touched],
        "scripts": [[_hex(script), content_mark(script)] for script in resolved.scripts],
        "root": _hex(root),
        "door": door,
        "agent": who.agent,
        "identity": who.identity,
        "session": session,
        "pin": pin,
    }
    if resolved.verdict.sandbox is not None and resolved.verdict.sandbox[0]:
        tree["confined"] = True
    return digest(_canonical(tree))


def input_pin(tree: Any) -> str:
    """Return the pin of a tool's input, where its name is all that an action says of it: a yes is for that input.

    What cannot be written down has a pin that nothing else has.
    """
    try:
        return digest(_canonical(tree))
    except InputError:
        return os.urandom(16).hex()


def _exact(resolved: ResolvedAction, root: str) -> dict[str, Any]:
    """Return the action with every path replaced by the place it leads to."""
    tree = action_tree(resolved.action)
    for name, place in zip(_PATHS, resolved.places, strict=False):
        tree[name] = _hex(place.canonical) if isinstance(place, FsTarget) else tree.get(name)
    if isinstance(resolved.action, CommandAction):
        tree["cwd"] = _hex(real_path(os.path.join(root, resolved.action.cwd or ".")))
    return tree


def _hex(path: str) -> str:
    return path.encode("utf-8", "surrogatepass").hex()


def _canonical(tree: Any) -> bytes:
    """Return a tree as JSON in one form only; 1, 1.0 and true stay apart, and what JSON cannot say is refused."""
    try:
        text = encode(_ordered(tree))
    except (TypeError, ValueError, RecursionError):
        hint = "give nothing but JSON: objects with string keys, lists, strings, numbers of moderate size"
        raise InputError("the arguments of this action are no JSON that can be kept", hint=hint) from None
    return text.encode()


def _ordered(tree: Any) -> Any:
    """Return a tree with its names in order; a `TypeError` for what would be another tree once it was read again."""
    if isinstance(tree, dict):
        return {_text(key): _ordered(tree[key]) for key in sorted(tree)}
    if isinstance(tree, list):
        return [_ordered(value) for value in tree]
    if tree is None or isinstance(tree, str | int | float):
        return tree
    raise TypeError(f"{type(tree).__name__} is no JSON")


def _text(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("a name that is no text")
    return key
