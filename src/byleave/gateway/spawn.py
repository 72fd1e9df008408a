"""From a configured server to its process, confined like a tool: what it sees, what it is told, what it may keep.

A server with `access` gets exactly that. One without gets what the policy says of such servers, and a directory of its
own to keep downloads in, which nobody else reads: one for each server of each workspace, so that no server can lay
something out for another. Its home directory is an empty one of the sandbox's own.

Blocking: whoever has an event loop calls it in a thread.
"""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import EnvAction, FileAction
from byleave.core.decision import ALLOW
from byleave.core.env_rules import MINIMAL_ENVIRONMENT, EnvTable
from byleave.core.fs_rules import is_under
from byleave.errors import ByleaveError
from byleave.gateway.interfaces import DownError
from byleave.sandbox.linux.steps import minimal
from byleave.sandbox.platforms import refuse_elsewhere
from byleave.sandbox.process import PIPE
from byleave.sandbox.sandbox import Sandbox
from byleave.text import quoted, shown
from byleave.toolhost.process import UnsandboxedTool
from byleave.user_files import digest, make_private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.api import Workspace
    from byleave.net.proxy import Decide
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.servers import ExpandedServer, ServerConfig
    from byleave.toolhost.process import Running

# Tells a gateway that it was started by one: the two would start each other without end.
BEHIND = {"BYLEAVE_BEHIND": "mcp"}
UNCONFINED = "os_sandbox is off: nothing holds this server, it can do whatever you can"
# Where the usual tools keep what they have downloaded, below the server's own directory.
_CACHES = {"XDG_CACHE_HOME": "", "npm_config_cache": "npm", "UV_CACHE_DIR": "uv", "PIP_CACHE_DIR": "pip"}


class StartedServer(Struct, frozen=True):
    """A server that was started, and what people should know about how it is held."""

    process: Running
    warnings: tuple[str, ...] = ()


class ServerSpawner:
    """Starts servers, each in a sandbox that is made once and kept. Close it in the end."""

    def __init__(
        self,
        workspace: Workspace,
        policy: LivePolicy,
        environment: Mapping[str, str],
        decide: Decide | None = None,
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._environment = environment
        self._decide = decide
        self._boxes: dict[tuple[object, ...], Sandbox] = {}
        self._lock = Lock()  # a sandbox is prepared by one thread at a time

    def start(self, server: ServerConfig, expanded: ExpandedServer, tool: str | None = None) -> StartedServer:
        """Start a server with three pipes; a DownError if that cannot be done.

        `tool` is the name under which the sandbox finds the access that holds, if it is not the server's own.
        """
        try:
            return self._start(server, expanded, server.tool if tool is None else tool)
        except DownError:
            raise
        except ByleaveError as problem:
            start = f"the server {shown(server.name)} cannot be started"
            raise DownError(f"{start}: {problem.problem}", hint=problem.hint, public=start) from None

    def _start(self, server: ServerConfig, expanded: ExpandedServer, tool: str) -> StartedServer:
        refuse_elsewhere(sys.platform)
        command = _command(server, expanded)
        directory = self._directory(server)
        settings = self._policy.compiled.settings.get("defaults", {})
        if settings.get("os_sandbox", "auto") == "off":
            variables = {**dict(self._variables(tool)), **expanded.env, **BEHIND}
            process = UnsandboxedTool(self._workspace.root.path).spawn(
                command, cwd=directory, env=variables, stdin=PIPE, own=True
            )
            return StartedServer(process, (UNCONFINED,))
        with self._lock:
            return self._confined(server, expanded, command, directory, tool)

    def _confined(
        self, server: ServerConfig, expanded: ExpandedServer, command: list[str], directory: str, tool: str
    ) -> StartedServer:
        if self._workspace.root.relative(os.path.realpath(directory)) is None:
            start = f"the server {shown(server.name)} cannot be started"
            raise DownError(
                f"{start}: {quoted(directory)} is not in the workspace",
                hint="correct `cwd` in its table; in the sandbox there is nothing else to stand in",
                public=f"{start}: its directory is not in the workspace",
            )
        cache = None if server.has_access else self.cache_of(server.name)
        variables = {**dict(self._variables(tool)), **_cache_variables(cache), **expanded.env, **BEHIND}
        box = self._box(server, command, cache, tool)
        process = box.spawn(
            command,
            cwd=directory,
            env=variables,
            also=variables,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            apart=True,
            own=True,
        )
        weaker = None if box.setup is None else box.setup.weaker
        return StartedServer(process, () if weaker is None else (weaker,))

    def cache_of(self, name: str) -> str:
        """Return the directory that a server may keep things in, made if need be."""
        workspace = digest(os.fsencode(self._workspace.root.path))[:16]
        kept = os.path.join(self._workspace.homes.memory, "servers", workspace, digest(name.encode())[:8])
        return make_private_directory(os.path.realpath(f"{kept}-{_plain(name)}"))

    def _box(self, server: ServerConfig, command: list[str], cache: str | None, tool: str) -> Sandbox:
        """Return the sandbox of a server; what its command names may have changed, so that it is another one then."""
        shown_files = tuple(self._named_files(tool, command))
        key = (tool, cache, shown_files, server.limits)
        if key not in self._boxes:
            box = Sandbox.for_tool(self._workspace, self._policy, tool, server.limits)
            box.let_go_between()
            if self._decide is not None:
                box.decide = self._decide
            if cache is not None:
                box.lend(cache)
            for path in shown_files:
                box.show(path)
            self._boxes[key] = box
        return self._boxes[key]

    def _named_files(self, tool: str, command: list[str]) -> Iterator[str]:
        """Yield the files that the command names and the server could not read otherwise: its own program.

        Not directories, but for the virtual environment that the program lies in. Nor through a link in the workspace:
        whoever lays one would choose what is shown.
        """
        root = self._workspace.root
        own = self._workspace.own_places(self._policy.compiled.layers)
        for number, word in enumerate(command):
            path = os.path.normpath(os.path.join(root.path, word))
            real = os.path.realpath(path)
            if any(is_under(real, place) for place in own):
                continue
            if root.relative(path) is None:
                if number and os.path.isabs(word) and os.path.isfile(real) and root.relative(real) is None:
                    yield word
            elif real == path and os.path.isfile(real) and self._is_hidden(path, tool):
                yield path
            if number == 0 and "/" in word:
                yield from self._interpreter(path, tool)

    def _interpreter(self, program: str, tool: str) -> Iterator[str]:
        """Yield the virtual environment that a program lies in, if that is part of the workspace."""
        prefix = os.path.dirname(os.path.dirname(program))
        direct = os.path.realpath(prefix) == prefix and bool(self._workspace.root.relative(prefix))
        settings = os.path.join(prefix, "pyvenv.cfg")
        if direct and os.path.isfile(settings) and self._is_hidden(settings, tool):
            yield prefix

    def _is_hidden(self, path: str, tool: str) -> bool:
        """Whether the server's access does not let it read a file of the workspace."""
        inside = self._workspace.root.relative(path) or ""
        return self._policy.decide(FileAction("read", inside, tool)).decision is not ALLOW

    def _directory(self, server: ServerConfig) -> str:
        root = self._workspace.root.path
        path = os.path.join(root, server.cwd) if server.cwd else root
        if not os.path.isdir(path):
            start = f"the server {shown(server.name)} cannot be started"
            raise DownError(
                f"{start}: there is no directory {quoted(path)}",
                hint="correct `cwd` in its table",
                public=f"{start}: its directory is not there",
            )
        return path

    def _variables(self, tool: str) -> Iterator[tuple[str, str]]:
        """Yield what the server gets of our environment: the usual, and what a rule lets it read."""
        usual = dict(minimal(self._environment, MINIMAL_ENVIRONMENT))
        # Where no rule speaks of variables, some readings pass all of them on: never to a server, with every secret.
        ruled = isinstance(self._policy.compiled.policy.tool(tool).access.env, EnvTable)
        for name, value in self._environment.items():
            if name in usual or (ruled and "=" not in name and self._may_have(name, tool)):
                yield name, value

    def _may_have(self, name: str, tool: str) -> bool:
        return self._policy.decide(EnvAction(name, tool)).decision is ALLOW

    def close(self) -> None:
        """Let go of all sandboxes."""
        with self._lock:
            for box in self._boxes.values():
                box.close()
            self._boxes.clear()


def _command(server: ServerConfig, expanded: ExpandedServer) -> list[str]:
    command = list(expanded.command or ())
    if not command or not command[0] or any("\0" in word for word in command):
        problem = f"the server {shown(server.name)} has no command that can be run"
        raise DownError(problem, hint='write command = ["program", ...]', public=problem)
    bad = [name for name, value in expanded.env.items() if not name or "=" in name or "\0" in name + value]
    if bad:
        problem = f"the server {shown(server.name)} cannot be given the variable {quoted(bad[0])}"
        raise DownError(problem, hint="correct its `env`", public=problem)
    return command


def _plain(name: str) -> str:
    return "".join([char if char.isascii() and char.isalnum() else "-" for char in name[:40]])


def _cache_variables(cache: str | None) -> dict[str, str]:
    if cache is None:
        return {}
    return {name: os.path.join(cache, below) if below else cache for name, below in _CACHES.items()}
