"""The official SDK at both ends of the real proxy: neither of the two notices, except where the policy speaks."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from acp.core import AgentSideConnection, ClientSideConnection, RequestError, connect_to_agent
from acp.helpers import (
    plan_entry,
    start_tool_call,
    text_block,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    ClientCapabilities,
    CreateTerminalResponse,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ReadTextFileResponse,
    RequestPermissionResponse,
    TerminalOutputResponse,
    ToolCallUpdate,
    WaitForTerminalExitResponse,
)

from command import COMMAND, PATIENCE
from fakes.acp_parties import PUPPET, Scene

POLICY = """
[[rules]]
allow = { command = "ls" }
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { path = "src/**" }
[[rules]]
deny = { path = "secret/**" }
"""
OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
]
DENIED = -32001
Script = Callable[[Any, str], Awaitable[None]]


class Editor:
    """A client that keeps what it hears, serves files from memory, and answers questions with `answers`, in order."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked: list[ToolCallUpdate] = []
        self.updates: list[Any] = []
        self.files: dict[str, str] = {}
        self.commands: list[tuple[str, list[str] | None]] = []
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.on_question: Callable[[], Awaitable[None]] | None = None

    async def request_permission(self, tool_call: ToolCallUpdate, **_: Any) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        if self.on_question is not None:
            await self.on_question()
        option = self.answers.pop(0)
        if option is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))

    async def session_update(self, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def write_text_file(self, path: str, content: str, **_: Any) -> None:
        self.files[path] = content

    async def read_text_file(self, path: str, **_: Any) -> ReadTextFileResponse:
        return ReadTextFileResponse(content=self.files[path])

    async def create_terminal(self, command: str, args: list[str] | None = None, **_: Any) -> CreateTerminalResponse:
        self.commands.append((command, args))
        return CreateTerminalResponse(terminal_id="t1")

    async def terminal_output(self, **_: Any) -> TerminalOutputResponse:
        return TerminalOutputResponse(output="out", truncated=False)

    async def wait_for_terminal_exit(self, **_: Any) -> WaitForTerminalExitResponse:
        return WaitForTerminalExitResponse(exit_code=3)

    async def release_terminal(self, **_: Any) -> None:
        pass

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.heard.append((method, params))
        return {"from": "editor"}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        self.heard.append((method, params))


class Agent:
    """An agent whose turn is a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.editor: Any = None
        self.cancelled = asyncio.Event()
        self.prompts: list[Any] = []

    def on_connect(self, conn: Any) -> None:
        self.editor = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=protocol_version, agent_capabilities=AgentCapabilities(load_session=True)
        )

    async def new_session(self, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="s1")

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        self.prompts.append(prompt)
        await self._script(self.editor, session_id)
        return PromptResponse(stop_reason="cancelled" if self.cancelled.is_set() else "end_turn")

    async def cancel(self, **_: Any) -> None:
        self.cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"from": "agent", method: params}


def run(scene: Scene, editor: Editor, script: Script, *flags: str) -> tuple[Agent, str]:
    """Have the agent play its script for one prompt, and return it with the reason for which the turn ended."""

    async def whole() -> tuple[Agent, str]:
        agent = Agent(script)
        async with introduced(scene, editor, agent, *flags) as connection:
            answer = await begun(scene, connection)
            return agent, answer.stop_reason

    return asyncio.run(asyncio.wait_for(whole(), 2 * PATIENCE))


async def begun(scene: Scene, connection: ClientSideConnection) -> PromptResponse:
    can = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True)
    info = Implementation(name="editor", version="1")
    hello = await connection.initialize(protocol_version=1, client_capabilities=can, client_info=info)
    assert (hello.protocol_version, hello.agent_capabilities) == (1, AgentCapabilities(load_session=True))
    session = await connection.new_session(cwd=str(scene.root), mcp_servers=[])
    return await connection.prompt(session_id=session.session_id, prompt=[text_block("päper\u2028 \U0001f512")])


@asynccontextmanager
async def introduced(scene: Scene, editor: Editor, agent: Agent, *flags: str) -> AsyncIterator[ClientSideConnection]:
    """Put the proxy between the two, with a puppet that lends the agent its pipes."""
    name = f"byleave-{uuid.uuid4().hex}"
    met: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(lambda *pair: met.set_result(pair), path=f"\0{name}")
    given = ("--policy", str(scene.policy), "--log", str(scene.log), *flags)
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "acp", *given, "--", sys.executable, "-IS", str(PUPPET), name, "0"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=scene.base,
        start_new_session=True,
    )
    try:
        reader, writer = await asyncio.wait_for(met, PATIENCE)
        parties: tuple[Any, Any] = (agent, editor)  # they do not know every method
        theirs = AgentSideConnection(parties[0], writer, reader)
        ours = connect_to_agent(parties[1], process.stdin, process.stdout)
        yield ours
        await ours.close()
        await theirs.close()
        writer.close()
        await writer.wait_closed()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        server.close()
        await server.wait_closed()


def runs(command: str, call: str = "c") -> ToolCallUpdate:
    return ToolCallUpdate(tool_call_id=call, title=command, kind="execute", raw_input={"command": command})


async def asks(client: Any, session: str, command: str) -> str | None:
    """Return the option that answers the agent's request to run a command; None if it is cancelled."""
    answer = await client.request_permission(session_id=session, tool_call=runs(command), options=OPTIONS)
    return answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else None


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, POLICY)


def test_a_whole_session_goes_through(scene: Scene) -> None:
    sent = [
        update_agent_thought_text("hm"),
        update_plan([plan_entry("look", priority="high", status="pending")]),
        start_tool_call("c1", "Terminal", kind="execute", status="pending", raw_input={}),
        update_tool_call("c1", status="in_progress", raw_input={"command": "ls"}),
        update_tool_call("c1", status="completed", raw_output="x" * 200_000),
        update_agent_message_text("done \u2028 \U0001f512"),
    ]
    answers: list[str | None] = []

    async def script(client: Any, session: str) -> None:
        for update in sent[:4]:
            await client.session_update(session_id=session, update=update)
        answers.extend([await asks(client, session, command) for command in ("ls -l", "rm -rf /", "make")])
        for update in sent[4:]:
            await client.session_update(session_id=session, update=update)

    editor = Editor("no")
    agent, stopped = run(scene, editor, script)
    assert (answers, stopped) == (["yes", "no", "no"], "end_turn")
    assert [call.title for call in editor.asked] == ["make"]
    assert [update.model_dump() for update in editor.updates] == [update.model_dump() for update in sent]
    assert [block.text for block in agent.prompts[0]] == ["päper\u2028 \U0001f512"]


def test_files_are_served_by_the_editor_unless_the_policy_denies_them(scene: Scene) -> None:
    async def script(client: Any, session: str) -> None:
        for name in ("src/a", "b"):
            await client.write_text_file(session_id=session, path=f"{scene.root}/{name}", content=name)
        read = await client.read_text_file(session_id=session, path=f"{scene.root}/src/a")
        assert read.content == "src/a"
        with pytest.raises(RequestError) as denied:
            await client.read_text_file(session_id=session, path=f"{scene.root}/secret/key")
        assert (denied.value.code, "secret" in str(denied.value)) == (DENIED, True)

    editor = Editor()
    assert run(scene, editor, script)[1] == "end_turn"
    assert editor.files == {f"{scene.root}/{name}": name for name in ("src/a", "b")}
    assert editor.asked == []


def test_a_strict_proxy_asks_the_editor_in_a_way_it_understands(scene: Scene) -> None:
    async def script(client: Any, session: str) -> None:
        await client.write_text_file(session_id=session, path=f"{scene.root}/a", content="x")
        with pytest.raises(RequestError) as refused:
            await client.create_terminal(session_id=session, command="make", args=["-j"])
        assert refused.value.code == DENIED

    editor = Editor("allow", "reject")
    assert run(scene, editor, script, "--strict")[1] == "end_turn"
    assert [call.kind for call in editor.asked] == ["edit", "execute"]
    assert (editor.files, editor.commands) == ({f"{scene.root}/a": "x"}, [])


def test_terminals_are_the_editors_unless_the_policy_denies_the_command(scene: Scene) -> None:
    async def script(client: Any, session: str) -> None:
        terminal = (await client.create_terminal(session_id=session, command="ls", args=["-l"])).terminal_id
        assert (await client.terminal_output(session_id=session, terminal_id=terminal)).output == "out"
        assert (await client.wait_for_terminal_exit(session_id=session, terminal_id=terminal)).exit_code == 3
        await client.release_terminal(session_id=session, terminal_id=terminal)
        with pytest.raises(RequestError) as denied:
            await client.create_terminal(session_id=session, command="bash", args=["-c", "ls; rm x"])
        assert denied.value.code == DENIED

    editor = Editor()
    assert run(scene, editor, script)[1] == "end_turn"
    assert editor.commands == [("ls", ["-l"])]


@pytest.mark.parametrize("answer", [None, "yes"])
def test_a_cancelled_turn_ends_with_one_answer(scene: Scene, answer: str | None) -> None:
    answers: list[str | None] = []

    async def script(client: Any, session: str) -> None:
        answers.append(await asks(client, session, "make"))

    async def whole() -> str:
        editor, agent = Editor(answer), Agent(script)
        async with introduced(scene, editor, agent) as connection:

            async def cancel() -> None:
                await connection.cancel(session_id="s1")
                await agent.cancelled.wait()

            editor.on_question = cancel
            return (await begun(scene, connection)).stop_reason

    assert asyncio.run(asyncio.wait_for(whole(), 2 * PATIENCE)) == "cancelled"
    assert answers == [None]


def test_what_the_protocol_does_not_know_passes_both_ways(scene: Scene) -> None:
    async def script(client: Any, _session: str) -> None:
        assert await client.ext_method("vendor/ask", {"a": None}) == {"from": "editor"}
        await client.ext_notification("vendor/tell", {"_meta": {"b": [1.5, "\u00e9"]}})

    async def whole() -> dict[str, Any]:
        async with introduced(scene, editor, Agent(script)) as connection:
            await begun(scene, connection)
            return await connection.ext_method("vendor/back", {"c": {}})

    editor = Editor()
    assert asyncio.run(asyncio.wait_for(whole(), 2 * PATIENCE)) == {"from": "agent", "vendor/back": {"c": {}}}
    assert editor.heard == [("vendor/ask", {"a": None}), ("vendor/tell", {"_meta": {"b": [1.5, "\u00e9"]}})]
