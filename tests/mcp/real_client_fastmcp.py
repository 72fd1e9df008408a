"""fastmcp as a client: lists what a server offers, makes the calls it is given, prints all of it.

Run by the Python that fastmcp is installed for: real_client_fastmcp.py CALLS-JSON COMMAND ARGUMENTS...
"""

import asyncio
import json
import os
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found,unused-ignore]
from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found,unused-ignore]


async def main(calls: list[tuple[str, dict[str, Any]]], command: list[str]) -> dict[str, Any]:
    transport = StdioTransport(command[0], command[1:], env=dict(os.environ))
    async with Client(transport) as client:
        tools = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in await client.list_tools()]
        answers = [await client.call_tool_mcp(name, given) for name, given in calls]
    return {
        "tools": tools,
        "answers": [answer.model_dump(by_alias=True, exclude_none=True, mode="json") for answer in answers],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2:]))) + "\n")
