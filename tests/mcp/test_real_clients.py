"""Real clients and servers with the gateway between them, compared with the same without it. On demand.

Five public servers and one on fastmcp, by the official Python SDK; two of them also by the official TypeScript SDK, by
fastmcp's client and by the inspector's command line. What comes through the gateway is what the server says, but for
the names of tools and prompts.
"""

import fcntl
import json
import os
import subprocess
import venv
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client

from agents.real_agents import PLACE, NotInstalledError, program_of
from command import COMMAND
from fakes.mcp_sdk import LEGACY, Place, Talk, by_pipe, talking
from sandbox.machine import needs_sandbox

pytestmark = [
    needs_sandbox,
    pytest.mark.skipif(
        os.environ.get("BYLEAVE_AGENT_TESTS") != "1",
        reason="real servers are driven by `make test-agents` (BYLEAVE_AGENT_TESTS=1)",
    ),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
NPM = "2026.8.31"
PYPI = "2026.10.19"
TYPESCRIPT_SDK = "1.32.2"
INSPECTOR = "2.12.0"
NODE = "22.23.3"  # the inspector wants a newer Node than the one that agents are tried with
FASTMCP = "4.1.2"
HERE = Path(__file__).parent
PATIENCE = 120

FAST_SERVER = """
from typing import Annotated
from fastmcp import FastMCP
from pydantic import BaseModel, Field

server = FastMCP("fast", instructions="Adds and greets.")

class Sum(BaseModel):
    total: int

@server.tool
def add(a: Annotated[int, Field(description="the first")], b: int = 2) -> Sum:
    "Add two numbers."
    return Sum(total=a + b)

@server.tool
def fail() -> str:
    "Fail."
    raise ValueError("no")

@server.resource("note://{name}")
def note(name: str) -> str:
    return f"about {name}"

@server.prompt
def greet(who: str) -> str:
    return f"Greet {who}."

server.run(show_banner=False)
"""


def from_npm(package: str, version: str, program: str) -> str:
    try:
        return program_of(package, version, program)
    except NotInstalledError as error:
        pytest.fail(str(error))


def from_pypi(*wanted: str) -> Path:
    """Return a virtual environment with packages, made if it is not there yet."""
    place = PLACE / "+".join(each.replace("==", "-") for each in wanted)
    place.mkdir(parents=True, exist_ok=True)
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / ".ready").exists():
            venv.create(place, with_pip=True)
            pip = [str(place / "bin" / "pip"), "install", "--quiet", *wanted]
            subprocess.run(pip, check=True, timeout=600, stdin=subprocess.DEVNULL)
            (place / ".ready").touch()
    return place


def server_from_npm(name: str) -> str:
    return from_npm(f"@modelcontextprotocol/server-{name}", NPM, f"mcp-server-{name}")


def server_from_pypi(name: str) -> str:
    return str(from_pypi(f"mcp-server-{name}=={PYPI}") / "bin" / f"mcp-server-{name}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workspace with a repository and a few files, where every server runs in its usual sandbox."""
    made = Place(tmp_path_factory.mktemp("place"), "")
    (made.root / "a.txt").write_text("hello\nworld\n")
    (made.root / "sub").mkdir()
    (made.root / "fast_server.py").write_text(FAST_SERVER)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(made.root)]
    for words in (["init", "-q", "-b", "main"], ["add", "a.txt"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True, timeout=30)
    return made


def command_of(server: str, place: Place) -> list[str]:
    if server == "fast":
        return [str(from_pypi(f"fastmcp=={FASTMCP}") / "bin" / "python"), str(place.root / "fast_server.py")]
    if server == "time":
        return [server_from_pypi("time"), "--local-timezone", "Europe/Berlin"]
    if server == "git":
        return [server_from_pypi("git"), "--repository", str(place.root)]
    return [server_from_npm(server), *([str(place.root)] if server == "filesystem" else [])]


def calls(place: Place) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Calls that answer the same each time, and some that fail."""
    root = str(place.root)
    thought = {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    return {
        "time": [
            ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
            ("get_current_time", {"timezone": "Nowhere/Land"}),
        ],
        "git": [("git_status", {"repo_path": root}), ("git_log", {"repo_path": root, "max_count": 1})],
        "filesystem": [
            ("read_text_file", {"path": f"{root}/a.txt", "head": 1}),
            ("list_directory", {"path": root}),
            ("read_text_file", {"path": "/etc/hostname"}),
        ],
        "everything": [
            ("echo", {"message": "\u00e9\u4e2d\U0001f600"}),
            ("get-sum", {"a": 2, "b": 3}),
            ("get-structured-content", {"location": "New York"}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-resource-links", {"count": 3}),
        ],
        "sequential-thinking": [("sequentialthinking", thought)],
        "fast": [("add", {"a": 1}), ("add", {"a": 1, "b": 5}), ("fail", {})],
    }


def gateway_before(place: Place, server: str) -> None:
    """Write a policy with this server alone."""
    place.write(
        f"""
[gateway]
default_agent = "ops"
[sandbox]
read = [{json.dumps(str(PLACE))}]
[servers.{server}]
command = {json.dumps(command_of(server, place))}
[agents.ops]
allow.servers = ["*"]
"""
    )


def directly(command: list[str], place: Place) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Return how a server is started by its client, without a gateway."""
    own = {"PATH": os.environ["PATH"], "HOME": str(place.home)}
    return lambda: stdio_client(
        StdioServerParameters(command=command[0], args=command[1:], env=own, cwd=str(place.root))
    )


def plain(value: Any) -> Any:
    """Return a message of the SDK as the JSON that it stands for, without what only says who made it."""
    tree = value.model_dump(by_alias=True, exclude_none=True, mode="json")
    tree.pop("_meta", None)
    return tree


def offered(talk: Talk, prefix: str) -> dict[str, Any]:
    """Return everything that a client is offered, by names without the prefix."""

    def named(found: list[Any]) -> dict[str, Any]:
        trees = [plain(each) for each in found]
        assert all(each["name"].startswith(prefix) for each in trees)
        return {each["name"].removeprefix(prefix): {**each, "name": ""} for each in trees}

    can = talk.client.server_capabilities
    shown: dict[str, Any] = {"tools": named(talk.do(lambda client: client.list_tools()).tools)}
    shown["prompts"] = named(talk.do(lambda client: client.list_prompts()).prompts) if can.prompts else {}
    if can.resources:
        listed = talk.do(lambda client: client.list_resources())
        shown["resources"] = [plain(each) for each in listed.resources]
        templates = talk.do(lambda client: client.list_resource_templates())
        shown["templates"] = [plain(each) for each in templates.resource_templates]
    return {name: found for name, found in shown.items() if found}


@pytest.mark.parametrize("server", ["time", "git", "filesystem", "everything", "sequential-thinking", "fast"])
def test_a_server_says_the_same_through_the_gateway(server: str, place: Place) -> None:
    gateway_before(place, server)
    wanted = calls(place)[server]
    prefix = f"{server}__"
    with (
        talking(directly(command_of(server, place), place), LEGACY) as plainly,
        talking(by_pipe(place), LEGACY) as through,
    ):
        assert offered(through, prefix) == offered(plainly, "")
        for name, given in wanted:
            assert plain(through.call(prefix + name, given)) == plain(plainly.call(name, given)), name


def run(argv: list[str], place: Place) -> dict[str, Any]:
    own = {**place.env, "PATH": os.environ["PATH"]}
    done = subprocess.run(argv, env=own, cwd=place.root, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def gateway_command(place: Place) -> list[str]:
    return [*COMMAND, *place.words("--stdio")]


def without_names(found: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return what a client found, by the tools' own names, without `_meta`, which also says who made it."""
    tools = {tool["name"].removeprefix(prefix): {**tool, "name": "", "_meta": None} for tool in found["tools"]}
    return {"tools": tools, "answers": [{**answer, "_meta": None} for answer in found["answers"]]}


@pytest.mark.parametrize("server", ["everything", "fast"])
def test_the_typescript_sdk_finds_the_same_through_the_gateway(server: str, place: Place) -> None:
    sdk = PLACE / f"@modelcontextprotocol+sdk-{TYPESCRIPT_SDK}"
    from_npm("@modelcontextprotocol/sdk", TYPESCRIPT_SDK, "none")
    gateway_before(place, server)
    client = ["node", str(HERE / "real_client.mjs"), str(sdk)]
    wanted = calls(place)[server]
    named = [(f"{server}__{name}", given) for name, given in wanted]
    plainly = run([*client, json.dumps(wanted), *command_of(server, place)], place)
    through = run([*client, json.dumps(named), *gateway_command(place)], place)
    assert without_names(through, f"{server}__") == without_names(plainly, "")


@pytest.mark.parametrize("server", ["everything", "fast"])
def test_fastmcp_finds_the_same_through_the_gateway(server: str, place: Place) -> None:
    python = str(from_pypi(f"fastmcp=={FASTMCP}") / "bin" / "python")
    gateway_before(place, server)
    client = [python, str(HERE / "real_client_fastmcp.py")]
    wanted = calls(place)[server]
    named = [(f"{server}__{name}", given) for name, given in wanted]
    plainly = run([*client, json.dumps(wanted), *command_of(server, place)], place)
    through = run([*client, json.dumps(named), *gateway_command(place)], place)
    assert without_names(through, f"{server}__") == without_names(plainly, "")


def inspected(argv: list[str], place: Place, *more: str) -> dict[str, Any]:
    node = from_npm("node", NODE, "node")
    inspector = os.path.realpath(from_npm("@modelcontextprotocol/inspector", INSPECTOR, "mcp-inspector"))
    return run([node, inspector, "--cli", *argv, *more], place)


@pytest.mark.parametrize("server", ["everything", "fast"])
def test_the_inspector_finds_the_same_through_the_gateway(server: str, place: Place) -> None:
    gateway_before(place, server)
    script = place.root / "gateway.sh"  # its command line would take our options for its own
    script.write_text(f"#!/bin/sh\nexec {' '.join(gateway_command(place))}\n")
    script.chmod(0o755)
    prefix = f"{server}__"
    listing = ("--method", "tools/list")
    plainly = {"tools": inspected(command_of(server, place), place, *listing)["tools"], "answers": []}
    through = {"tools": inspected([str(script)], place, *listing)["tools"], "answers": []}
    assert without_names(through, prefix) == without_names(plainly, "")
    name, given = ("get-sum", ["a=2", "b=3"]) if server == "everything" else ("add", ["a=2"])
    arguments = [word for each in given for word in ("--tool-arg", each)]
    call = ("--method", "tools/call", "--tool-name")
    expected = inspected(command_of(server, place), place, *call, name, *arguments)
    answer = inspected([str(script)], place, *call, prefix + name, *arguments)
    assert {**answer, "_meta": None} == {**expected, "_meta": None}
