"""Other people's MCP clients and servers with the gateway in between, against the same without it. On demand.

The inspector's command line, both generations of the official SDK for JavaScript, and FastMCP as client and as server.
"""

import fcntl
import json
import os
import subprocess
import textwrap
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.conformance import NAME, NODE, reference_server
from agents.real_agents import PLACE, program_of
from command import COMMAND
from fakes.mcp_sdk import Place, over_http
from sandbox.machine import needs_sandbox

INSPECTOR, OLD_SDK, NEW_SDK, FASTMCP = "2.12.0", "1.32.2", "2.4.0", "3.4.10"
PREFIX = f"{NAME}__"
PATIENCE = 120.0


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with reference_server() as url:
        yield url


@pytest.fixture(scope="module")
def gateway_url(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with over_http(place_for(tmp_path_factory.mktemp("place"), f"url = {json.dumps(server_url)}")) as running:
        yield running.url


def place_for(base: Path, how: str) -> Place:
    policy = f'[gateway]\ndefault_agent = "ops"\n[sandbox]\nread = [{json.dumps(str(PLACE))}]\n'
    return Place(base, f'{policy}[servers.{NAME}]\n{how}\n[agents.ops]\nallow.servers = ["*"]\n')


def said(argv: list[str], home: Path, **env: str) -> Any:
    """Run something, and return the JSON that it prints."""
    own = {"PATH": os.environ["PATH"], "HOME": str(home), **env}
    done = subprocess.run(
        argv, env=own, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def alike(tree: Any) -> Any:
    """Return what is the same with the gateway and without: names without the prefix."""
    return json.loads(json.dumps(tree).replace(PREFIX, ""))


ASKED = {
    "tools": ["--method", "tools/list"],
    "prompts": ["--method", "prompts/list"],
    "resources": ["--method", "resources/list"],
    "templates": ["--method", "resources/templates/list"],
    "call": ["--method", "tools/call", "--tool-name", f"{PREFIX}test_simple_text"],
    "error": ["--method", "tools/call", "--tool-name", f"{PREFIX}test_image_content"],
    "read": ["--method", "resources/read", "--uri", "test://static-text"],
    "prompt": ["--method", "prompts/get", "--prompt-name", f"{PREFIX}test_prompt_with_image"],
}


@pytest.mark.parametrize("what", ASKED)
def test_the_inspector_sees_the_same(server_url: str, gateway_url: str, tmp_path: Path, what: str) -> None:
    node = program_of("node", NODE, "node")
    inspector = program_of("@modelcontextprotocol/inspector", INSPECTOR, "mcp-inspector")
    words = [node, inspector, "--cli", "--transport", "http"]
    through = said([*words, gateway_url, *ASKED[what]], tmp_path)
    assert alike(through) == said([*words, server_url, *(each.replace(PREFIX, "") for each in ASKED[what])], tmp_path)


SCRIPT = """
    const [url, prefix] = process.argv.slice(2);
    const client = new Client({name: "c", version: "1"});
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const seen = {
      tools: (await client.listTools()).tools,
      prompts: (await client.listPrompts()).prompts,
      resources: (await client.listResources()).resources,
      called: (await client.callTool({name: prefix + "test_multiple_content_types", arguments: {}})).content,
      failed: (await client.callTool({name: prefix + "test_error_handling", arguments: {}})).isError,
      read: (await client.readResource({uri: "test://template/7/data"})).contents,
    };
    await client.close();
    console.log(JSON.stringify(seen));
    process.exit(0);
"""
IMPORTS = {
    ("@modelcontextprotocol/sdk", OLD_SDK): (
        'import {Client} from "@modelcontextprotocol/sdk/client/index.js";',
        'import {StreamableHTTPClientTransport} from "@modelcontextprotocol/sdk/client/streamableHttp.js";',
    ),
    ("@modelcontextprotocol/client", NEW_SDK): (
        'import {Client, StreamableHTTPClientTransport} from "@modelcontextprotocol/client";',
    ),
}


@pytest.mark.parametrize("package", IMPORTS, ids=lambda each: each[0])
def test_a_client_on_the_official_sdk_sees_the_same(
    server_url: str, gateway_url: str, tmp_path: Path, package: tuple[str, str]
) -> None:
    node = program_of("node", NODE, "node")
    script = Path(program_of(*package, "none")).parents[2] / "drive.mjs"
    script.write_text("\n".join([*IMPORTS[package], textwrap.dedent(SCRIPT)]))
    through = said([node, str(script), gateway_url, PREFIX], tmp_path)
    assert alike(through) == said([node, str(script), server_url, ""], tmp_path)
    assert len(through["tools"]) > 20


def fastmcp() -> str:
    """Return a Python that has FastMCP."""
    place = PLACE / f"fastmcp-{FASTMCP}"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / ".ready").exists():
            venv.create(place, with_pip=True)
            wanted = [str(place / "bin" / "pip"), "install", "--quiet", f"fastmcp=={FASTMCP}"]
            subprocess.run(wanted, check=True, timeout=600, stdin=subprocess.DEVNULL)
            (place / "server.py").write_text(textwrap.dedent(FAST_SERVER))
            (place / "client.py").write_text(textwrap.dedent(FAST_CLIENT))
            (place / ".ready").touch()
    return str(place / "bin" / "python")


FAST_SERVER = """
    from fastmcp import Context, FastMCP

    app = FastMCP("fast", instructions="Add, do not guess.")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def steps(ctx: Context) -> str:
        for done in (1, 2):
            await ctx.report_progress(done, 2)
        return "done"

    @app.resource("fast://greeting")
    def greeting() -> str:
        return "hello"

    @app.resource("fast://{name}/page")
    def page(name: str) -> str:
        return name

    @app.prompt
    def ask(topic: str) -> str:
        return f"What is {topic}?"

    app.run(show_banner=False)
"""
FAST_CLIENT = """
    import asyncio, json, sys
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async def main(prefix, command, *args):
        progress = []

        async def heard(done, total, message):
            progress.append([done, total])

        async with Client(StdioTransport(command, list(args)), progress_handler=heard) as client:
            dump = lambda each: each.model_dump(mode="json", by_alias=True, exclude_none=True)
            seen = {
                "tools": [dump(each) for each in await client.list_tools()],
                "prompts": [dump(each) for each in await client.list_prompts()],
                "resources": [dump(each) for each in await client.list_resources()],
                "templates": [dump(each) for each in await client.list_resource_templates()],
                "added": (await client.call_tool(prefix + "add", {"a": 2, "b": 3})).data,
                "stepped": (await client.call_tool(prefix + "steps")).data,
                "read": [dump(each) for each in await client.read_resource("fast://greeting")],
                "page": [dump(each) for each in await client.read_resource("fast://seven/page")],
                "asked": dump(await client.get_prompt(prefix + "ask", {"topic": "x"}))["messages"],
                "progress": progress,
                "told": "Add, do not guess." in (client.initialize_result.instructions or ""),
            }
        print(json.dumps(seen))

    asyncio.run(main(*sys.argv[1:]))
"""


@needs_sandbox
def test_fastmcp_as_client_and_server_sees_the_same(tmp_path: Path) -> None:
    python = fastmcp()
    server, client = (str(Path(python).parents[1] / name) for name in ("server.py", "client.py"))
    place = place_for(tmp_path, f"command = {json.dumps([python, server])}")
    own = {"BYLEAVE_HOME": str(place.home), "PYTHONPATH": place.env.get("PYTHONPATH", "")}
    alone = said([python, client, "", python, server], place.home)
    (place.root / "byleave.sh").write_text(
        "#!/bin/sh\n" + "".join(f"export {key}='{value}'\n" for key, value in own.items()) + 'exec "$@"\n'
    )
    argv = ["/bin/sh", str(place.root / "byleave.sh"), *COMMAND, *place.words("--stdio", "--agent", "ops")]
    through = said([python, client, PREFIX, *argv], place.home)
    assert alike(through) == alone
    assert (alone["added"], alone["progress"], alone["told"]) == (5, [[1, 2], [2, 2]], True)
