"""Public MCP servers from npm and PyPI behind the gateway, in its sandbox; and a real agent before it. On demand."""

import fcntl
import json
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from agents.real_agents import PLACE, NotInstalledError, model, program_of, script
from command import COMMAND
from fakes.mcp_sdk import LEGACY, MODERN, Person, Place, Talk, at, over_http, talking, words
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


def from_npm(name: str) -> str:
    try:
        return program_of(f"@modelcontextprotocol/server-{name}", NPM, f"mcp-server-{name}")
    except NotInstalledError as error:
        pytest.fail(str(error))


def from_pypi(name: str) -> str:
    place = PLACE / f"mcp-server-{name}-{PYPI}"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / ".ready").exists():
            venv.create(place, with_pip=True)
            wanted = [str(place / "bin" / "pip"), "install", "--quiet", f"mcp-server-{name}=={PYPI}"]
            subprocess.run(wanted, check=True, timeout=600, stdin=subprocess.DEVNULL)
            (place / ".ready").touch()
    return str(place / "bin" / f"mcp-server-{name}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("place"), "")
    made.write(
        f"""
[gateway]
default_agent = "ops"
[sandbox]
read = [{json.dumps(str(PLACE))}]
[servers.time]
command = {json.dumps([from_pypi("time"), "--local-timezone", "Europe/Berlin"])}
[servers.files]
command = {json.dumps([from_npm("filesystem"), str(made.root)])}
[servers.everything]
command = {json.dumps([from_npm("everything")])}
[servers.thinking]
command = {json.dumps([from_npm("sequential-thinking")])}
[servers.git]
command = {json.dumps([from_pypi("git")])}
[agents.ops]
allow.servers = ["*"]
deny.tools.files = ["move_file"]
[[rules]]
deny = {{ call = {{ server = "files", tool = "*", arg = "/path", glob = "*.pem" }} }}
"""
    )
    (made.root / "a.txt").write_text("hello\n")
    for said in (["init", "-q", "-b", "main"], ["add", "a.txt"]):
        subprocess.run(["git", "-C", str(made.root), *said], check=True, stdin=subprocess.DEVNULL)
    (made.root / "key.pem").write_text("secret\n")
    made.env["SECRET_OF_THE_USER"] = "do not tell"
    return made


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def talk(request: pytest.FixtureRequest, place: Place) -> Iterator[Talk]:
    with over_http(place) as running, talking(at(running.url), request.param, Person()) as found:
        yield found


def test_all_of_them_are_listed(talk: Talk) -> None:
    listed = talk.tools()
    assert {"time__convert_time", "files__read_text_file", "everything__get-sum"} <= listed.keys()
    assert "files__move_file" not in listed


def test_the_time_is_told(talk: Talk) -> None:
    given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    told = json.loads(words(talk.call("time__convert_time", given)))
    assert told["time_difference"] == "+9.0h"
    wrong = talk.call("time__get_current_time", {"timezone": "Nowhere/Land"})
    assert wrong.is_error


def test_files_are_read_and_none_is_written(talk: Talk, place: Place) -> None:
    read = talk.call("files__read_text_file", {"path": str(place.root / "a.txt")})
    assert words(read) == "hello\n"
    assert "outside allowed" in words(talk.call("files__read_text_file", {"path": "/etc/hostname"}))
    written = talk.call("files__write_file", {"path": str(place.root / "b.txt"), "content": "x"})
    assert written.is_error  # the workspace is read-only to a server without access
    assert not (place.root / "b.txt").exists()
    denied = talk.call("files__read_text_file", {"path": str(place.root / "key.pem")})
    assert denied.is_error
    assert denied.structured_content is None  # the tool promises an output of its own
    assert (denied.meta or {})["byleave/verdict"]["decision"] == "deny"


def test_the_server_with_everything_works(talk: Talk) -> None:
    assert "5" in words(talk.call("everything__get-sum", {"a": 2, "b": 3}))
    shown = talk.call("everything__get-structured-content", {"location": "New York"})
    assert set(shown.structured_content) >= {"temperature", "conditions"}
    image = talk.call("everything__get-tiny-image").content
    assert any(isinstance(each, types.ImageContent) and len(each.data) > 1000 for each in image)
    seen: list[float] = []

    async def progress(done: float, _total: float | None, _message: str | None) -> None:
        seen.append(done)

    talk.call("everything__trigger-long-running-operation", {"duration": 1, "steps": 4}, progress_callback=progress)
    assert seen == [1, 2, 3, 4]
    assert "do not tell" not in words(talk.call("everything__get-env"))


def test_its_prompts_and_resources_work(talk: Talk) -> None:
    async def look(client: Client) -> Any:
        prompts = [each.name for each in (await client.list_prompts()).prompts]
        resources = (await client.list_resources()).resources
        read = await client.read_resource(str(resources[0].uri))
        said = await client.get_prompt("everything__simple-prompt")
        return prompts, read.contents, said.messages

    prompts, contents, messages = talk.do(look)
    assert "everything__simple-prompt" in prompts
    assert contents
    assert messages


def test_it_asks_the_person_and_the_model_of_the_client(talk: Talk) -> None:
    listed = talk.tools()
    asking = next(name for name in listed if "elicitation" in name)
    talk.call(asking)
    assert any("[everything]" in getattr(each, "message", "") for each in talk.person.asked)
    sampling = next(name for name in listed if "sampling" in name)
    assert "a fish" in words(talk.call(sampling, {"prompt": "What is it?", "maxTokens": 10}))


UNLIKE = {"meta", "result_type"}  # what each revision has of its own
THOUGHT = {"thought": "so", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "time": [
        ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
        ("get_current_time", {"timezone": "Nowhere/Land"}),
    ],
    "files": [("list_directory", {"path": "ROOT"}), ("read_text_file", {"path": "ROOT/a.txt"})],
    "everything": [("echo", {"message": "ü"}), ("get-sum", {"a": 2, "b": 3}), ("get-tiny-image", {})],
    "thinking": [("sequentialthinking", THOUGHT)],
    "git": [("git_status", {"repo_path": "ROOT"}), ("git_branch", {"repo_path": "ROOT", "branch_type": "local"})],
}


def directly(place: Place, server: str) -> "Callable[[], Any]":
    """Return how a server is reached without the gateway."""
    configured = tomllib.loads(place.policy.read_text())["servers"][server]["command"]
    command, *args = configured

    def target() -> Any:
        env = {"PATH": os.environ["PATH"], "HOME": str(place.home)}
        return stdio_client(StdioServerParameters(command=command, args=args, env=env, cwd=str(place.root)))

    return target


def offered(talk: Talk, prefix: str) -> dict[str, Any]:
    """Return everything that is listed under a prefix, as plain data, by its name without the prefix."""

    async def look(client: Client) -> dict[str, Any]:
        able = client.server_capabilities
        lists: list[tuple[str, list[Any]]] = [("tools", (await client.list_tools()).tools)]
        if able.prompts is not None:
            lists.append(("prompts", (await client.list_prompts()).prompts))
        found = {}
        for kind, listed in lists:
            for each in listed:
                tree = each.model_dump(by_alias=True, exclude_none=True)
                support = tree.pop("execution", {}).get("taskSupport")  # tasks are not passed on
                if each.name.startswith(prefix) and support != "required":
                    name = tree.pop("name").removeprefix(prefix)
                    found[f"{kind} {name}"] = tree
        return found

    return talk.do(look)


@pytest.mark.parametrize("server", CALLS)
def test_a_server_offers_and_answers_the_same_as_without_the_gateway(place: Place, server: str) -> None:
    with over_http(place) as running:
        for mode in (LEGACY, "auto"):
            with talking(at(running.url), mode) as through, talking(directly(place, server), "auto") as alone:
                wanted = {
                    name: each for name, each in offered(alone, "").items() if name != "tools move_file"
                }  # denied
                assert offered(through, f"{server}__") == wanted
                for tool, given in CALLS[server]:
                    filled = json.loads(json.dumps(given).replace("ROOT", str(place.root)))
                    got, alike = through.call(f"{server}__{tool}", filled), alone.call(tool, filled)
                    assert got.model_dump(exclude=UNLIKE) == alike.model_dump(exclude=UNLIKE)


def test_claude_code_calls_tools_through_the_gateway(place: Place, tmp_path: Path) -> None:
    program = program_of("@anthropic-ai/claude-code", "2.1.325", "claude")
    command, *args = [*COMMAND, *place.words("--stdio", "--agent", "ops")]
    own = {"BYLEAVE_HOME": str(place.home), "PYTHONPATH": os.pathsep.join(sys.path)}
    servers = {"mcpServers": {"gate": {"command": command, "args": args, "env": own}}}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps(servers))
    steps = [
        {"name": "mcp__gate__files__read_text_file", "args": {"path": str(place.root / name)}}
        for name in ("a.txt", "key.pem")
    ]
    (tmp_path / "home").mkdir()
    with model() as url:
        done = subprocess.run(
            [
                *(program, "-p", script(*steps), "--mcp-config", str(config), "--strict-mcp-config"),
                *("--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose"),
            ],
            cwd=place.root,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path / "home"),
                "ANTHROPIC_API_KEY": "sk-mock",
                "ANTHROPIC_BASE_URL": url,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout
    assert "secret" not in done.stdout
    mine = [each for each in place.records() if each["identity"] == "verified" and each["event"] == "decision"]
    assert [(each["agent"], each["verdict"]["decision"]) for each in mine] == [("ops", "allow"), ("ops", "deny")]
