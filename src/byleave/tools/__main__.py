"""`byleave-tool NAME`: be one of the tools, for a host that mediates (vfs) or for one that does not (stdio).

The first line of the input shows which of the two it is: a message of the protocol has `"jsonrpc"`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from byleave.errors import InputError
from byleave.protocol.json_codec import PLAIN
from byleave.sdk.context import Context
from byleave.sdk.vfs import Host
from byleave.sdk.vfs_conversation import ToolConversation, take_over
from byleave.sdk.vfs_results import VfsError
from byleave.tools import NAMES, load
from byleave.tools.direct import DirectHost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.sdk.tool import Tool

_USAGE = f"""usage: byleave-tool NAME            be the tool; byleave starts it so
       byleave-tool NAME --schema   print its name, description and parameters as JSON
       byleave-tool --list          print all of them

tools: {", ".join(NAMES)}
"""
_LARGEST = 64 << 20  # bytes of the first message


def main(argv: Sequence[str] | None = None) -> int:
    """Be the tool that the command line names; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--list"]:
        return _print([load(name).schema for name in NAMES])
    if words in (["--help"], ["-h"]):
        sys.stdout.write(_USAGE)
        return 0
    if not words or words[0] not in NAMES or words[1:] not in ([], ["--schema"]):
        sys.stderr.write(_USAGE)
        return 2
    tool = load(words[0])
    return _print(tool.schema) if words[1:] else _serve(tool)


def _print(tree: Any) -> int:
    sys.stdout.write(f"{json.dumps(tree, indent=2, ensure_ascii=False)}\n")
    return 0


def _serve(tool: Tool) -> int:
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("byleave-tool is started by byleave: try `byleave call`\n")
        return 2
    arrived = _first_line()
    first = _read(arrived)
    try:
        if isinstance(first, dict) and "jsonrpc" in first:
            return _serve_mediated(tool, arrived)
        return _serve_directly(tool, first if first is not None else _read(arrived + _rest()))
    except VfsError as error:
        sys.stderr.write(f"byleave-tool: {error}\n")
        return 1


def _serve_mediated(tool: Tool, arrived: bytes) -> int:
    return 0 if tool.serve(Host(ToolConversation(take_over(arrived=arrived)))) else 1


def _serve_directly(tool: Tool, call: Any) -> int:
    described = call.get("tool") if isinstance(call, dict) else None
    if not isinstance(described, dict) or not isinstance(described.get("arguments", {}), dict):
        sys.stderr.write("byleave-tool: the input is no call: an object with `context` and `tool`\n")
        return 2
    try:
        host = DirectHost(Context.from_tree(call.get("context")), described)
    except InputError as error:
        sys.stderr.write(f"byleave-tool: {error.problem}\n")
        return 2
    return 0 if tool.serve(host) else 1


def _first_line() -> bytes:
    """Read the input up to the first newline, or a little beyond: the rest is still to come."""
    held = bytearray()
    while b"\n" not in held and len(held) < _LARGEST and (piece := os.read(0, 1 << 16)):
        held += piece
    return bytes(held)


def _rest() -> bytes:
    pieces = []
    while piece := os.read(0, 1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def _read(data: bytes) -> Any:
    """Return the JSON that is in the first line, or in all of it; None if it is none."""
    for text in (data.partition(b"\n")[0], data):
        try:
            return PLAIN.decode(text)
        except (ValueError, RecursionError):
            continue
    return None


if __name__ == "__main__":
    raise SystemExit(main())
