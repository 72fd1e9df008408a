"""The sandboxes of one tool: for its own process, for what it may touch, for searching on its behalf.

A mediated tool's own process sees the system, its own program and the files that its command names; of the workspace
nothing else. What it starts through the host (`process.run`), and a stdio tool itself, are held to the tool's access.

Where the user has switched the sandbox off, a plain process takes its place, and that is reported.
"""

from __future__ import annotations

import os
import sys
from threading import RLock
from typing import TYPE_CHECKING

from byleave.core.action import FileAction
from byleave.core.decision import ALLOW
from byleave.launch.command_files import CommandFiles, readable_variables, usual_variables
from byleave.launch.start import ProgramStart, is_switched_off, start_as_configured
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.host import refuse_elsewhere
from byleave.user_files import digest_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.launch.start import RunningProgram
    from byleave.net.proxy import Decide
    from byleave.policy.compile import CompiledTool
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace

OWN_TOOLS = "byleave-tool"  # our own tools, by the interpreter that runs us
_LARGEST_PRINTED = 256 << 20  # bytes; hashed at every call that needs approval
_READS: Mapping[str, bool] = {"read": True, "execute": True}


class ToolSandboxes:
    """Makes each confinement of a tool when it is first needed, and keeps it. Close them in the end."""

    def __init__(
        self, workspace: Workspace, policy: LivePolicy, tool: CompiledTool, environment: Mapping[str, str]
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._tool = tool
        self._environment = environment
        self._made: dict[str, Confinement] = {}
        self._one_at_a_time = RLock()  # a confinement is prepared by one thread at a time

    @property
    def unconfined(self) -> str | None:
        """Why no sandbox holds this tool; None if one does."""
        refuse_elsewhere(sys.platform)
        if is_switched_off(self._policy):
            return "os_sandbox is off: nothing but byleave's own checks holds this tool"
        return None

    def start_mediated(self) -> RunningProgram:
        """Start the process of a mediated tool: it sees nothing of the workspace but the files its command names."""
        own = self._own()
        return self._start(own, self.command(), decide=own.policy.decide)

    def start_asking(self, stdin: int) -> RunningProgram:
        """Start the tool's program to describe itself: as a mediated tool, without the variables that it may read."""
        own, usual = self._own(), usual_variables(self._environment)
        return self._start(own, [*self.command(), "--schema"], decide=own.policy.decide, stdin=stdin, variables=usual)

    def start_plain(
        self, command: Sequence[str], stdin: int, decide: Decide, *, reads_only: bool = False
    ) -> RunningProgram:
        """Start the process of a stdio tool, held to its access; with `reads_only` it can change nothing.

        `decide` answers for what it starts or reaches then.
        """
        confinement = self._reading_tool() if reads_only else self.access()
        return self._start(confinement, command, decide=decide, stdin=stdin)

    def _start(
        self, confinement: Confinement, command: Sequence[str], *, decide: Decide, **differs: Any
    ) -> RunningProgram:
        root = self._workspace.root.path
        variables = differs.pop("variables", None) or readable_variables(
            self._environment, self._policy, self._tool.name
        )
        start = ProgramStart(
            command=tuple(command),
            directory=root,
            environment=variables,
            variables=variables,
            configured=True,
            **differs,
        )
        with self._one_at_a_time:
            return start_as_configured(confinement, start, decide=decide)

    def command(self) -> list[str]:
        """Return the words that start the tool; our own tools are started by the interpreter that runs us."""
        words = list(self._tool.settings.get("command", ()))
        if words and words[0] == OWN_TOOLS:
            return [sys.executable, "-I", "-m", "byleave.tools", *words[1:]]
        return words

    def access(self) -> Confinement:
        """Return the confinement that holds processes to the tool's access."""
        with self._one_at_a_time:
            if "access" not in self._made:
                options = SandboxOptions(
                    limits=self._tool.limits, shown=self._program_files(self._policy), releases_between=True
                )
                self._made["access"] = Confinement(self._workspace, self._policy, self._tool.name, options)
            return self._made["access"]

    def reading(self) -> Confinement:
        """Return the confinement in which a program of ours searches: it reads what the tool may read, no more."""
        with self._one_at_a_time:
            if "reading" not in self._made:
                options = SandboxOptions(reads_only=True)
                self._made["reading"] = Confinement(self._workspace, self._policy, self._tool.name, options)
            return self._made["reading"]

    def _own(self) -> Confinement:
        return self._of_files([{"path": "."}, *self._named_files()])

    def _reading_tool(self) -> Confinement:
        table = self._policy.compiled.policy.tool(self._tool.name).access.fs
        rules = [
            {"path": rule.path or ".", "read": rule.grants("read"), "execute": rule.grants("execute")}
            for rule in getattr(table, "rules", ())
            if not rule.external
        ]
        return self._of_files(rules or [{"path": "."}])

    def _of_files(self, files: list[dict[str, Any]]) -> Confinement:
        """Return a confinement to these files alone: no network, and the variables that are handed over."""
        listed = self._policy.compiled.settings.get("sandbox", {})
        # What every sandbox may write, this one may not: it changes nothing but by request, or nothing at all.
        readable = [*listed.get("read", ()), *listed.get("write", ())]
        name = repr((files, readable))  # looked up anew at every start: links and rules may have changed
        with self._one_at_a_time:
            if name not in self._made:
                tool = {"source": "local", "runtime": "stdio", "access": {"fs": files}}
                defaults = dict(self._policy.compiled.settings.get("defaults", {}))
                tree = {"defaults": defaults, "sandbox": {"read": readable}, "tools": {self._tool.name: tool}}
                policy = self._workspace.compile_tree(tree)
                options = SandboxOptions(
                    limits=self._tool.limits, shown=self._program_files(policy), reserves_names=False
                )
                self._made[name] = Confinement(self._workspace, policy, self._tool.name, options)
            return self._made[name]

    def _program_files(self, policy: LivePolicy) -> tuple[str, ...]:
        """Return the files that the command names and `policy` does not let the tool read; byleave for its own."""
        shown = []
        if (self._tool.settings.get("command") or [""])[0] == OWN_TOOLS:  # it may lie elsewhere than the interpreter
            shown.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        shown += self._files().outside()
        for rule in self._named_files():  # what may be read anyhow is left as it is: it may be written, too
            if policy.decide(FileAction("read", rule["path"], self._tool.name)).decision is not ALLOW:
                shown.append(os.path.join(self._workspace.root.path, rule["path"]))
        return tuple(shown)

    def _files(self) -> CommandFiles:
        return CommandFiles(self._workspace, self._policy, self.command())

    def _named_files(self) -> Iterator[dict[str, Any]]:
        """Yield rules for the files of the workspace that the command names, and for an interpreter's own packages."""
        files = self._files()
        environment = files.environment()
        for path in (*([environment] if environment is not None else []), *files.inside()):
            yield {"path": self._workspace.root.relative(path), **_READS}

    def prints(self) -> Iterator[str]:
        """Yield the hash of every file that the command names, without an interpreter of the system."""
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

    def close(self) -> None:
        """Close all of them."""
        for confinement in self._made.values():
            confinement.close()
        self._made.clear()
