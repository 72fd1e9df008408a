"""The shape of what servers list: which members there are, and of which type. Pure.

A list goes to the client as a whole, and a client that finds one thing of a wrong shape refuses all of it. So what has
a wrong shape is left out. Members that the protocol does not know are left out as well: nobody has pinned them.

What a server's tools and prompts are called here: `server__tool`. Pure.

The first `__` splits, because no server name holds one. A name that is longer than clients take is cut, and a hash of
the whole makes it one of its kind again; the way back is then by looking, not by splitting.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from byleave.gateway.revisions import wrong_annotation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Fits = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _icons(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and _text(each.get("src")) for each in value)


def _hints(value: Any) -> bool:
    """Whether these are annotations of a tool: a title, and yes or no to some questions."""
    return isinstance(value, dict) and all(
        _text(each) if name == "title" else isinstance(each, bool) or not name.endswith("Hint")
        for name, each in value.items()
    )


def _notes(value: Any) -> bool:
    """Whether these are annotations of a resource."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("audience", []), list)
        and (value.get("priority") is None or _number(value["priority"]))
        and _text(value.get("lastModified", ""))
    )


def _arguments(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and _text(each.get("name"))
        and _text(each.get("description", ""))
        and isinstance(each.get("required", False), bool)
        for each in value
    )


_EVERY: Mapping[str, Fits] = {"title": _text, "description": _text, "icons": _icons, "_meta": _object}
_RESOURCE: Mapping[str, Fits] = {**_EVERY, "name": _text, "mimeType": _text, "annotations": _notes}
SHAPES: Mapping[str, Mapping[str, Fits]] = {
    "tools": {
        **_EVERY,
        "name": _text,
        "inputSchema": _object,
        "outputSchema": _object,
        "annotations": _hints,
        "execution": _object,
    },
    "prompts": {**_EVERY, "name": _text, "arguments": _arguments},
    "resources": {**_RESOURCE, "uri": _text, "size": _number},
    "resourceTemplates": {**_RESOURCE, "uriTemplate": _text},
}
_NEEDED = {"tools": ("inputSchema",), "resources": ("name",), "resourceTemplates": ("name",)}


def shaped(field: str, tree: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the members that the protocol knows, without those that are null; None if one has a wrong shape."""
    shape = SHAPES[field]
    kept = {name: value for name, value in tree.items() if name in shape and value is not None}
    fits = all(shape[name](value) for name, value in kept.items()) and all(
        name in kept for name in _NEEDED.get(field, ())
    )
    return kept if fits else None


def unusable(tool: Mapping[str, Any], *, sends_headers: bool) -> str:
    """Return why a tool cannot be called through the gateway, whoever may; empty if it can."""
    if tool.get("execution", {}).get("taskSupport") == "required":
        return "it runs as a task only, and tasks are not passed on"
    return wrong_annotation(tool["inputSchema"]) if sends_headers else ""


def served(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool as clients see it: without the promise that it can run as a task."""
    if "execution" not in tool:
        return tool
    kept = {name: value for name, value in tool["execution"].items() if name != "taskSupport"}
    return {name: value for name, value in tool.items() if name != "execution"} | ({"execution": kept} if kept else {})


def app_of(tool: Mapping[str, Any]) -> Any:
    """Return the URI of the resource that shows a tool's results, if it names one; older servers name it flatly."""
    meta = tool.get("_meta", {})
    named = meta.get("ui")
    return named.get("resourceUri") if isinstance(named, dict) else meta.get("ui/resourceUri")


LONGEST = 64  # characters that every client takes
JOINT = "__"
_HASHED = 8


def flat_name(server: str, name: str) -> str:
    """Return the name under which clients see what a server calls `name`."""
    whole = f"{server}{JOINT}{name}"
    if len(whole) <= LONGEST:
        return whole
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASHED]
    return f"{whole[: LONGEST - _HASHED - 1]}-{digest}"


def split_name(flat: str) -> tuple[str, str] | None:
    """Return server and own name of a flat name as it is written; None if it is none. A cut one is not the own name."""
    server, joint, name = flat.partition(JOINT)
    return (server, name) if joint and server and name else None


def may_be_cut(flat: str) -> bool:
    """Whether a name may stand for a longer one."""
    return len(flat) == LONGEST and flat[-_HASHED - 1] == "-"
