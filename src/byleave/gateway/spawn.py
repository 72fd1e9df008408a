"""From a configured server to its process, confined like a tool: what it sees, gets and may keep.

A server with `access` gets exactly that. One without gets what the policy says of such servers, and a directory of its
own to keep downloads in: one for each server of each workspace, so that no server can prepare files for another. Its
home directory is an empty one of the sandbox's own.

Blocking: an event loop calls it in a thread.
"""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.action import FileAction
from byleave.core.decision import ALLOW
from byleave.core.env_rules import EnvTable
from byleave.errors import ByleaveError
from byleave.gateway.interfaces import DownError
from byleave.launch.start import (
    CommandFiles,
    ProgramStart,
    is_switched_off,
    readable_variables,
    start_as_configured,
    usual_variables,
)
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import refuse_elsewhere
from byleave.text import quoted, shown
from byleave.user_files import digest, make_private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.launch.start import RunningProgram
    from byleave.net.proxy import Decide
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.policy.servers import ExpandedServer, ServerConfig

# By this a gateway knows that it was started by one: the two would start each other without end.
BEHIND = {"BYLEAVE_BEHIND": "mcp"}
UNCONFINED = "os_sandbox is off: nothing holds this server, it can do whatever you can"
# Where the usual tools keep what they have downloaded, below the server's own directory.
_CACHES = {"XDG_CACHE_HOME": "", "npm_config_cache": "npm", "UV_CACHE_DIR": "uv", "PIP_CACHE_DIR": "pip"}


class StartedServer(Struct, frozen=True):
    """A server that was started, and what people should know about how it is held."""

    process: RunningProgram
    warnings: tuple[str, ...] = ()


class ServerSpawner:
    """Starts servers, each in a sandbox that is made once and kept. Close it in the end."""

    def __init__(
        self,
        workspace: Workspace,
        policy: LivePolicy,
        environment: Mapping[str, str],
        decide: Decide,
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._environment = environment
        self._decide = decide
        self._confinements: dict[tuple[object, ...], Confinement] = {}
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
        confined = not is_switched_off(self._policy)
        if confined and self._workspace.root.relative(os.path.realpath(directory)) is None:
            start = f"the server {shown(server.name)} cannot be started"
            raise DownError(
                f"{start}: {quoted(directory)} is not in the workspace",
                hint="correct `cwd` in its table; in the sandbox there is nothing else to stand in",
                public=f"{start}: its directory is not in the workspace",
            )
        cache = self.cache_of(server.name) if confined and not server.has_access else None
        variables = {**self._variables(tool), **_cache_variables(cache), **expanded.env, **BEHIND}
        program = ProgramStart(
            command=tuple(command), directory=directory, environment=variables, variables=variables, configured=True
        )
        with self._lock:
            confinement = self._confinement(server, command, cache, tool)
            process = start_as_configured(confinement, program, decide=self._decide)
            weaker = confinement.weaker if confined else UNCONFINED
        return StartedServer(process, () if weaker is None else (weaker,))

    def cache_of(self, name: str) -> str:
        """Return the directory that a server may keep things in, made if need be."""
        workspace = digest(os.fsencode(self._workspace.root.path))[:16]
        kept = os.path.join(self._workspace.homes.memory, "servers", workspace, digest(name.encode())[:8])
        return make_private_directory(os.path.realpath(f"{kept}-{_plain(name)}"))

    def _confinement(self, server: ServerConfig, command: list[str], cache: str | None, tool: str) -> Confinement:
        """Return the confinement of a server, another one if the files that its command names have changed."""
        shown_files = tuple(self._named_files(tool, command))
        key = (tool, cache, shown_files, server.limits)
        if key not in self._confinements:
            options = SandboxOptions(
                limits=server.limits,
                shown=shown_files,
                lent=() if cache is None else (cache,),
                releases_between=True,
            )
            self._confinements[key] = Confinement(self._workspace, self._policy, tool, options)
        return self._confinements[key]

    def _named_files(self, tool: str, command: list[str]) -> Iterator[str]:
        """Yield the files that the command names and the server could not read otherwise: its own program."""
        files = CommandFiles(self._workspace, self._policy, command)
        yield from files.outside()
        yield from (path for path in files.inside() if self._is_hidden(path, tool))
        environment = files.environment()
        if environment is not None and self._is_hidden(os.path.join(environment, "pyvenv.cfg"), tool):
            yield environment

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

    def _variables(self, tool: str) -> dict[str, str]:
        """Return what the server gets of our environment: the usual, and what a rule lets it read."""
        # Where no rule names variables, some policies pass all of them on: never to a server, with every secret.
        if not isinstance(self._policy.compiled.policy.tool(tool).access.env, EnvTable):
            return usual_variables(self._environment)
        return readable_variables(self._environment, self._policy, tool)

    def close(self) -> None:
        """Close the sandboxes of all servers."""
        with self._lock:
            for confinement in self._confinements.values():
                confinement.close()
            self._confinements.clear()


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
