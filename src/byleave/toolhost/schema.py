"""The JSON Schema of a tool's arguments; for a tool that stays, one variant for each action it supports."""

from byleave.toolhost.boxes import OWN_TOOLS
from byleave.toolhost.handles import ACTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.config.compile import Tool

_ID = {"type": "string", "description": "A readable name for this run, chosen by the caller."}
_INPUT = {"description": "Input for the running tool, or the answer to its question."}


def input_schema(tool: "Tool") -> "dict[str, Any]":
    """Return what the arguments of a call must look like."""
    parameters = _parameters(tool)
    if not tool.settings.get("stateful"):
        return parameters
    return {
        "type": "object",
        "oneOf": [_variant(action, parameters) for action in tool.settings.get("actions", ACTIONS)],
    }


def _parameters(tool: "Tool") -> "dict[str, Any]":
    configured: dict[str, Any] | None = tool.settings.get("parameters")
    if configured is not None:
        return configured
    command = tool.settings.get("command") or [""]
    if command[0] == OWN_TOOLS and len(command) > 1:
        from byleave.tools import NAMES, load

        if command[1] in NAMES:
            return dict(load(command[1]).parameters)
    return {"type": "object"}


def _variant(action: str, parameters: "dict[str, Any]") -> "dict[str, Any]":
    """Return the arguments of one action: another action cannot be expressed by it."""
    needs: dict[str, Any] = {"action": {"const": action}, "id": _ID}
    if action == "spawn":
        needs["args"] = parameters
    if action == "apply":
        needs["input"] = _INPUT
    return {"type": "object", "properties": needs, "required": list(needs), "additionalProperties": False}
