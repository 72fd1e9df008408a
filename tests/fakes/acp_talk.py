"""A conversation through the relay alone, without any process: what one side says, and what each side hears."""

import json
from pathlib import Path
from typing import Any, ClassVar

from byleave.acp.relay import TO_AGENT, TO_CLIENT, make_relay
from byleave.core.redact import Redactor
from byleave.guard.evaluation import Who
from byleave.store.audit.query import Filter
from scene import Scene

OPTIONS = [
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
]
POLICY = """
[[rules]]
allow = { command = ["ls", "echo"] }
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { path = "src/**" }
[[rules]]
deny = { path = "secret/**" }
"""


class Talk:
    """One editor, one agent, the relay between them, and a clock that stands still until it is moved."""

    begun: ClassVar[list["Talk"]] = []

    def __init__(self, base: Path, policy: str = POLICY, *, agent: str | None = None, **named: Any) -> None:
        self.scene = Scene.build(base)
        self.scene.say("user", policy)
        self.root = str(self.scene.root)
        self.time = 0.0
        self.logged: list[dict[str, Any]] = []
        who = Who(agent, "default" if agent is None else "verified")
        self.relay = make_relay(self.scene.workspace, who=who, log=self.logged.append, now=lambda: self.time, **named)
        self.begun.append(self)
        self.heard: dict[str, list[bytes]] = {TO_AGENT: [], TO_CLIENT: []}
        self.client(
            {"jsonrpc": "2.0", "id": 0, "method": "session/new", "params": {"cwd": self.root, "mcpServers": []}}
        )
        self.agent({"jsonrpc": "2.0", "id": 0, "result": {"sessionId": "s"}})
        self.forget()

    def agent(self, message: Any) -> None:
        """The agent says something."""
        self._say(_line(message), self.relay.from_agent, TO_CLIENT)

    def client(self, message: Any) -> None:
        """The editor says something."""
        self._say(_line(message), self.relay.from_client, TO_AGENT)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds
        for sent in self.relay.tick():
            self.heard[sent.to].append(sent.data)

    def to_agent(self) -> list[Any]:
        """Return what the agent has heard since the last time."""
        return self._take(TO_AGENT)

    def to_client(self) -> list[Any]:
        return self._take(TO_CLIENT)

    def forget(self) -> None:
        self.to_agent()
        self.to_client()

    def permission(self, id_: Any = 1, call: str = "c", **fields: Any) -> dict[str, Any]:
        """Return a request for permission; unless told otherwise, to run a command that nobody knows."""
        options = fields.pop("options", OPTIONS)
        told = {"toolCallId": call, **(fields or {"kind": "execute", "rawInput": {"command": "make"}})}
        params = {"sessionId": "s", "toolCall": told, "options": options}
        return {"jsonrpc": "2.0", "id": id_, "method": "session/request_permission", "params": params}

    def command(self, text: str, id_: Any = 1, **fields: Any) -> dict[str, Any]:
        return self.permission(id_, kind="execute", rawInput={"command": text}, **fields)

    def write(self, path: str, id_: Any = 7) -> dict[str, Any]:
        params = {"sessionId": "s", "path": f"{self.root}/{path}", "content": "x"}
        return {"jsonrpc": "2.0", "id": id_, "method": "fs/write_text_file", "params": params}

    def records(self) -> list[dict[str, Any]]:
        log = self.scene.workspace.audit_log(None, Redactor())
        try:
            log.fold()
            return [kept.tree for kept in log.query(Filter())]
        finally:
            log.close()

    def _say(self, line: bytes, hear: Any, to: str) -> None:
        sends = hear(line)
        if sends is None:
            self.heard[to].append(line)
            return
        for sent in sends:
            self.heard[sent.to].append(sent.data)

    def _take(self, side: str) -> list[Any]:
        taken, self.heard[side] = self.heard[side], []
        return [_read(line) for line in taken]


def answer(option: str | None, id_: Any = 1) -> dict[str, Any]:
    """Return the editor's answer: an option, or `cancelled`."""
    outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
    return {"jsonrpc": "2.0", "id": id_, "result": {"outcome": outcome}}


def update(call: str = "c", **fields: Any) -> dict[str, Any]:
    """Return what the agent tells of a tool call."""
    told = {"sessionUpdate": "tool_call_update", "toolCallId": call, **fields}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": told}}


def _line(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


def _read(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line
