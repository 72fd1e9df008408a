"""The client that the conformance suite asks for, on the official SDK: `python conformance_client.py [through] URL`.

With `through` the server at that URL is behind a gateway, and the client talks to the gateway over a pipe. Which
scenario it is about, and with which revision, the suite says in the environment.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.client.client import Client

from fakes.mcp_sdk import LEGACY, MODERN, Person, Place, at, by_pipe

SERVER = "suite"


class Driver:
    """Does what a scenario wants to see done."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    async def play(self, scenario: str, context: dict[str, Any]) -> None:
        tools = (await self._client.list_tools()).tools
        named = {tool.name.removeprefix(self._prefix): tool for tool in tools}
        calls = [(each["name"], each["arguments"]) for each in context.get("toolCalls", ())]
        if scenario == "json-schema-2020-12-preservation":
            calls = [("json_schema_echo", {"schema": named["json_schema_2020_12_tool"].input_schema})]
        elif scenario == "tools_call":
            calls = [("add_numbers", {"a": 5, "b": 3})]
        elif scenario == "http-invalid-tool-headers":
            calls = [(name, dict.fromkeys(tool.input_schema["properties"], "x")) for name, tool in named.items()]
        elif not calls and scenario != "json-schema-ref-no-deref":
            calls = [(name, {}) for name in named]
        for name, arguments in calls:
            await self._client.call_tool(f"{self._prefix}{name}", arguments)
        if scenario == "http-standard-headers":
            await self._read_all()

    async def _read_all(self) -> None:
        for resource in (await self._client.list_resources()).resources:
            await self._client.read_resource(str(resource.uri))
        for prompt in (await self._client.list_prompts()).prompts:
            await self._client.get_prompt(prompt.name)


class Agreeing(Person):
    """A person who agrees to every form, with what it suggests."""

    async def elicit(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        schema = getattr(params, "requested_schema", {})
        content = {key: each.get("default", True) for key, each in schema.get("properties", {}).items()}
        return types.ElicitResult(action="accept", content=content)


async def main(url: str, *, through: bool) -> None:
    mode = "auto" if os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", MODERN) == MODERN else LEGACY
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as scratch:
        target = at(url)
        if through:
            policy = f'[servers.{SERVER}]\nurl = {json.dumps(url)}\n[agents.ops]\nallow.servers = ["*"]\n'
            target = by_pipe(Place(Path(scratch), policy), "--agent", "ops")
        able: dict[str, Any] = {"elicitation_callback": Agreeing().elicit}
        async with Client(target(), mode=mode, **able) as client:
            driver = Driver(client, f"{SERVER}__" if through else "")
            await driver.play(os.environ["MCP_CONFORMANCE_SCENARIO"], context)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1], through="through" in sys.argv[1:-1]))
