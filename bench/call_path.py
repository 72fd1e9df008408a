"""Which modules of byleave one `tools/call` crosses: from the front on standard input to a server's process, and back.

.venv/bin/python bench/call_path.py [--names]
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import byleave
from byleave.gateway.context import client_approval
from byleave.gateway.gateway import Gateway
from byleave.gateway.interfaces import Caller
from byleave.gateway.stdio_front import serve_stdio
from byleave.guard.open_guard import guard_for
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from byleave.toolhost.authorize import WithRunModes
from gateway_parties import GREETING, Client

SOURCE = str(Path(byleave.__file__).parent)
SERVER = [sys.executable, "-IS", str(Path(__file__).with_name("gateway_parties.py")), "stdio"]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        crossed = asyncio.run(crossed_modules(Path(scratch).resolve()))
    print(f"{len(crossed)} modules, {sum(crossed.values())} calls")
    if "--names" in sys.argv:
        for name, count in sorted(crossed.items()):
            print(f"  {name:<40} {count:>5}")


async def crossed_modules(place: Path) -> dict[str, int]:
    """Return how many functions of each module one call runs; the server is up, and has listed its tools."""
    (place / "ws").mkdir()
    homes = find_homes({"BYLEAVE_HOME": str(place / "home"), "HOME": str(place / "user")})
    workspace = Workspace(str(place / "ws"), homes=homes)
    tree = {"agents": {"bench": {"allow": {"servers": ["*"]}}}, "servers": {"far": {"command": SERVER}}}
    policy: Any = WithRunModes(workspace.compile_tree(tree), by_hand=False)
    guard = guard_for(workspace, "mcp", client_approves=client_approval(over_http=False), policy=policy)
    gateway = Gateway(workspace, guard, note=print)
    try:
        return await traced_call(gateway)
    finally:
        await gateway.close()
        guard.close()


async def traced_call(gateway: Gateway) -> dict[str, int]:
    (read_end, to_gateway), (from_gateway, write_end) = os.pipe(), os.pipe()
    session = gateway.converse(Caller("bench", "verified", "stdio"))
    serving = asyncio.create_task(serve_stdio(session, limit=1 << 20, reading=read_end, writing=write_end))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_gateway, "rb")
    )
    call = Client("far__echo").call("far__echo").partition(b"\r\n\r\n")[2]
    crossed: dict[str, int] = {}

    def count(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(SOURCE):
            name = file.removeprefix(SOURCE)
            crossed[name] = crossed.get(name, 0) + 1

    for message in (GREETING, *[call] * 20):  # the first ones start the server, and look at the policy's files
        crossed.clear()
        sys.setprofile(count)
        os.write(to_gateway, message + b"\n")
        said = await reader.readline()
        sys.setprofile(None)
        assert b'"result"' in said, said
    os.close(to_gateway)
    await serving
    return crossed


if __name__ == "__main__":
    main()
