"""What a tool may use of the host's time and memory: `[tools.NAME.limits]`, with the usual values.

`size_limit` bounds one file, body, stream or result of a tool; `line_limit` follows from it, and bounds one message of
a mediated tool, its result included. What the processes of a tool may use of the machine: `core.access.ProcessLimits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.protocol.vfs import LONGEST_LINE
from byleave.workspace.file_effects import LARGEST_FILE

if TYPE_CHECKING:
    from byleave.policy.compile import CompiledTool

_ESCAPED = 6  # bytes that JSON may take for one, at most
_ROOM = 1 << 20  # bytes of a line beside the content


class Timing(Struct, frozen=True):
    """How long things may take, in seconds: the tool between two requests, stopping, everything together."""

    request: float = 60.0
    cancel: float = 5.0
    wall: float | None = None


def timing_of(tool: CompiledTool) -> Timing:
    """Return how long things may take for this tool."""
    limits, usual = tool.settings.get("limits", {}), Timing()
    request = float(limits.get("request_timeout", usual.request))
    return Timing(request, float(limits.get("cancel_timeout", usual.cancel)), tool.limits.wall_time)


def size_limit(tool: CompiledTool) -> int:
    """Return how many bytes one file, body, stream or result of this tool may have."""
    limit: int = tool.settings.get("limits", {}).get("max_file_size", LARGEST_FILE)
    return limit


def line_limit(tool: CompiledTool) -> int:
    """Return how many bytes one message of this tool may have: as much content as it may send, escaped."""
    return max(LONGEST_LINE, size_limit(tool) * _ESCAPED + _ROOM)
