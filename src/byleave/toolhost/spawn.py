"""The sandboxes of one tool: for its own process, for what it may touch, for looking things up on its behalf.

A mediated tool's own process sees the system, its own program and the files that its command names; of the workspace
nothing else. What it starts through the host (`process.run`), and a plain tool itself, are held to the tool's access.

Where the user has switched the sandbox off, a plain process takes its place, and that is said.
"""

from __future__ import annotations

import os
import sys
from threading import RLock
from typing import TYPE_CHECKING

from byleave.core.action import EnvAction, FileAction
from byleave.core.decision import ALLOW
from byleave.core.env_rules import MINIMAL_ENVIRONMENT
from byleave.core.fs_rules import FsTarget, is_under
from byleave.sandbox.platforms import refuse_elsewhere
from byleave.sandbox.process import PIPE
from byleave.toolhost.process import UnsandboxedTool
from byleave.user_files import digest_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.api import Workspace
    from byleave.net.proxy import Decide
    from byleave.policy.compile import CompiledTool
    from byleave.policy.live_policy import LivePolicy
    from byleave.sandbox.sandbox import Sandbox
    from byleave.toolhost.process import Running

OWN_TOOLS = "byleave-tool"  # our own tools, by whatever interpreter runs us
_LARGEST_PRINTED = 256 << 20  # bytes; hashed at every call that is asked about
_READS: Mapping[str, bool] = {"read": True, "execute": True}


class ToolSandboxes:
    """Makes each sandbox of a tool when it is first needed, and keeps it. Close them in the end."""

    def __init__(
        self, workspace: Workspace, policy: LivePolicy, tool: CompiledTool, environment: Mapping[str, str]
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._tool = tool
        self._environment = environment
        self._made: dict[str, Sandbox] = {}
        self._one_at_a_time = RLock()  # several calls may start at once, each with its own `decide`

    @property
    def unconfined(self) -> str | None:
        """Why no sandbox holds this tool; None if one does."""
        refuse_elsewhere(sys.platform)
        wanted = self._policy.compiled.settings.get("defaults", {}).get("os_sandbox", "auto")
        return "os_sandbox is off: nothing but byleave's own checks holds this tool" if wanted == "off" else None

    def start_mediated(self) -> Running:
        """Start the process of a mediated tool: it sees nothing of the workspace but the files its command names."""
        return self._start(self._own, self.command(), stdin=PIPE)

    def start_asking(self, stdin: int) -> Running:
        """Start the tool's program to say what it takes: as a mediated tool, without the variables that it may read."""
        from byleave.sandbox.linux.steps import minimal

        usual = dict(minimal(self._environment, MINIMAL_ENVIRONMENT))
        return self._start(self._own, [*self.command(), "--schema"], stdin=stdin, variables=usual)

    def start_plain(self, command: Sequence[str], stdin: int, decide: Decide, *, reads_only: bool = False) -> Running:
        """Start the process of a plain tool, held to its access; with `reads_only` it can change nothing.

        What it starts or reaches then is for `decide`.
        """
        return self._start(self._reading_tool if reads_only else self.access, command, stdin=stdin, decide=decide)

    def _start(
        self,
        make: Any,
        command: Sequence[str],
        *,
        stdin: int,
        decide: Decide | None = None,
        variables: dict[str, str] | None = None,
    ) -> Running:
        root = self._workspace.root.path
        variables = dict(self._variables()) if variables is None else variables
        if self.unconfined is not None:
            return UnsandboxedTool(root).spawn(command, cwd=root, env=variables, stdin=stdin, own=True)
        with self._one_at_a_time:
            box: Sandbox = make()
            if decide is not None:
                box.decide = decide
            return box.spawn(
                command,
                cwd=root,
                env=variables,
                also=variables,
                stdin=stdin,
                stdout=PIPE,
                stderr=PIPE,
                apart=True,
                own=True,
            )

    def command(self) -> list[str]:
        """Return the words that start the tool; our own tools are started by the interpreter that runs us."""
        words = list(self._tool.settings.get("command", ()))
        if words and words[0] == OWN_TOOLS:
            return [sys.executable, "-I", "-m", "byleave.tools", *words[1:]]
        return words

    def access(self) -> Sandbox | UnsandboxedTool:
        """Return the sandbox that holds processes to the tool's access."""
        from byleave.sandbox.sandbox import Sandbox

        if self.unconfined is not None:
            return UnsandboxedTool(self._workspace.root.path)
        with self._one_at_a_time:
            if "access" not in self._made:
                limits = self._tool.limits
                self._made["access"] = Sandbox.for_tool(self._workspace, self._policy, self._tool.name, limits)
                self._made["access"].let_go_between()
                self._show_program(self._made["access"])
            return self._made["access"]

    def reading(self) -> Sandbox:
        """Return the sandbox in which a program of ours looks things up: it reads what the tool may read, no more."""
        from byleave.sandbox.sandbox import Sandbox

        with self._one_at_a_time:
            if "reading" not in self._made:
                self._made["reading"] = Sandbox.for_reading(self._workspace, self._policy, self._tool.name)
            return self._made["reading"]

    def _own(self) -> Sandbox:
        return self._made_up([{"path": "."}, *self._named_files()])

    def _reading_tool(self) -> Sandbox:
        table = self._policy.compiled.policy.tool(self._tool.name).access.fs
        rules = [
            {"path": rule.path or ".", "read": rule.grants("read"), "execute": rule.grants("execute")}
            for rule in getattr(table, "rules", ())
            if not rule.external
        ]
        return self._made_up(rules or [{"path": "."}])

    def _made_up(self, files: list[dict[str, Any]]) -> Sandbox:
        """Return a sandbox of these files alone: no network, and the variables that are handed over."""
        from byleave.sandbox.sandbox import Sandbox

        name = repr((files, self._readable()))  # looked up anew at every start: links and rules may have changed
        if name not in self._made:
            tool = {"source": "local", "runtime": "stdio", "access": {"fs": files}}
            settings = self._policy.compiled.settings
            # What every sandbox may write, this one may not: it changes nothing but by request, or nothing at all.
            kept = {"defaults": dict(settings.get("defaults", {})), "sandbox": {"read": self._readable()}}
            policy = self._workspace.compile_tree({**kept, "tools": {self._tool.name: tool}})
            self._made[name] = Sandbox.for_tool(self._workspace, policy, self._tool.name, self._tool.limits)
            self._made[name].hold_nothing()
            self._show_program(self._made[name])
        return self._made[name]

    def _readable(self) -> list[str]:
        listed = self._policy.compiled.settings.get("sandbox", {})
        return [*listed.get("read", ()), *listed.get("write", ())]

    def _show_program(self, box: Sandbox) -> None:
        """Show the files outside of the workspace that the command names, and our own package to our own tools."""
        if (self._tool.settings.get("command") or [""])[0] == OWN_TOOLS:  # it may lie apart from the interpreter
            box.show(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        for word in self.command()[1:]:
            outside = os.path.isabs(word) and "\0" not in word and os.path.isfile(word)
            if outside and self._workspace.root.relative(os.path.realpath(word)) is None and not self._is_ours(word):
                box.show(word)
        for rule in self._named_files():  # what may be read anyhow is left as it is: it may be written, too
            if box.policy.decide(FileAction("read", rule["path"], self._tool.name)).decision is not ALLOW:
                box.show(os.path.join(self._workspace.root.path, rule["path"]))

    def _is_ours(self, path: str) -> bool:
        own = self._workspace.own_places(self._policy.compiled.layers)
        return any(is_under(os.path.realpath(path), place) for place in own)

    def prints(self) -> Iterator[str]:
        """Yield the hash of every file that the command names; but not of an interpreter, which the system keeps."""
        for number, word in enumerate(self.command()):
            path = os.path.join(self._workspace.root.path, word)
            if number == 0 and self._workspace.root.relative(os.path.realpath(path)) is None:
                continue
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            except (OSError, ValueError):
                continue
            try:
                yield digest_file(descriptor, limit=_LARGEST_PRINTED) or f"{word}: too large"
            except OSError:
                yield f"{word}: unreadable"
            finally:
                os.close(descriptor)

    def _named_files(self) -> Iterator[dict[str, Any]]:
        """Yield rules for the files of the workspace that the command names, and for an interpreter's own packages."""
        for number, word in enumerate(self.command()):
            if number == 0 and "/" in word:
                yield from self._interpreter(word)
            place = self._workspace.root.resolve_any(word) if "\0" not in word else None
            named = os.path.normpath(os.path.join(self._workspace.root.path, word))
            # Not through a link: whoever lays one would choose what is shown.
            direct = isinstance(place, FsTarget) and place.canonical == named and place.exists and not place.directory
            if direct and isinstance(place, FsTarget) and place.relative and not self._is_ours(named):
                yield {"path": place.relative, **_READS}

    def _interpreter(self, word: str) -> Iterator[dict[str, Any]]:
        """Yield a rule for the virtual environment that the program lies in, if that is part of the workspace."""
        root = self._workspace.root
        path = os.path.normpath(os.path.join(root.path, word))
        prefix = os.path.dirname(os.path.dirname(path))
        inside = root.relative(prefix)
        linked = os.path.realpath(prefix) != prefix
        if inside and not linked and os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
            yield {"path": inside, **_READS}

    def _variables(self) -> Iterator[tuple[str, str]]:
        """Yield what the tool's process gets of the environment: the usual, and what a rule lets it read."""
        from byleave.sandbox.linux.steps import minimal

        usual = dict(minimal(self._environment, MINIMAL_ENVIRONMENT))
        for name, value in self._environment.items():
            if name in usual or ("=" not in name and self._may_have(name)):
                yield name, value

    def _may_have(self, name: str) -> bool:
        return self._policy.decide(EnvAction(name, self._tool.name)).decision is ALLOW

    def close(self) -> None:
        """Let go of all sandboxes."""
        for box in self._made.values():
            box.close()
        self._made.clear()
