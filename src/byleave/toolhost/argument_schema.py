"""The JSON Schema of a tool's arguments; for a tool that stays, one variant for each action it supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.toolhost.description import NOTHING, SelfDescription
from byleave.toolhost.handles import ACTIONS
from byleave.toolhost.spawn import OWN_TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.policy.compile import CompiledTool
    from byleave.sdk.tool import Tool as SdkTool

_ID = {"type": "string", "description": "A readable name for this run, chosen by the caller."}
_INPUT = {"description": "Input for the running tool, or the answer to its question."}


def input_schema(tool: CompiledTool, said: SelfDescription = NOTHING) -> dict[str, Any]:
    """Return what the arguments of a call must look like: as configured, else as the tool itself has said."""
    parameters = _parameters(tool, said)
    if not tool.settings.get("stateful"):
        return parameters
    return {
        "type": "object",
        "oneOf": [_variant(action, parameters) for action in tool.settings.get("actions", ACTIONS)],
    }


def description_of(tool: CompiledTool, said: SelfDescription = NOTHING) -> str:
    """Return what a tool is for: as configured, else as the tool itself has said; nothing where neither does."""
    own = _own_tool(tool)
    return tool.settings.get("description") or (said.description if own is None else own.description)


def _own_tool(tool: CompiledTool) -> SdkTool | None:
    """Return the tool that comes with byleave, if this is one."""
    command = tool.settings.get("command") or [""]
    if command[0] != OWN_TOOLS or len(command) == 1:
        return None
    from byleave.tools import NAMES, load

    return load(command[1]) if command[1] in NAMES else None


def _parameters(tool: CompiledTool, said: SelfDescription) -> dict[str, Any]:
    configured: dict[str, Any] | None = tool.settings.get("parameters")
    if configured is not None:
        return configured
    own = _own_tool(tool)
    if own is not None:
        return dict(own.parameters)
    if said.parameters is None:
        return {"type": "object"}
    return {"type": "object", **(_of_spawn(said.parameters) if tool.settings.get("stateful") else said.parameters)}


def _of_spawn(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a tool that stays is spawned with: it describes its actions, and which of them there are is ours."""
    for variant in parameters.get("oneOf", ()):
        properties = variant.get("properties", {}) if isinstance(variant, dict) else {}
        args = properties.get("args")
        if properties.get("action") == {"const": "spawn"} and isinstance(args, dict):
            return args
    return parameters


def _variant(action: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of one action: another action cannot be expressed by it."""
    needs: dict[str, Any] = {"action": {"const": action}, "id": _ID}
    if action == "spawn":
        needs["args"] = parameters
    if action == "apply":
        needs["input"] = _INPUT
    return {"type": "object", "properties": needs, "required": list(needs), "additionalProperties": False}
