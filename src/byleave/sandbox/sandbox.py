"""A sandbox: starts programs that the kernel holds to an access policy.

The plan and the launcher's program come from `confinement`; here they meet one program's words, variables and streams.
What decides about the program, about what it starts and about what it reaches is an argument of the constructor.
Start at `ToolSandbox.spawn`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.access import SHELL_TOOL, ProcessLimits
from byleave.core.action import EnvAction
from byleave.core.decide import decide as decide_purely
from byleave.core.decision import ALLOW
from byleave.core.env_rules import MINIMAL_ENVIRONMENT
from byleave.core.fs_rules import is_under
from byleave.errors import SandboxError
from byleave.sandbox import host
from byleave.sandbox.confinement import Confinement, SandboxOptions, launcher_kind
from byleave.sandbox.late_proxy import LateProxy
from byleave.sandbox.linux.backends import NAMESPACES, doubt_namespaces
from byleave.sandbox.linux.program import step, write_program
from byleave.sandbox.linux.steps import PROXY_PORT, LaunchedProgram, exec_step, minimal
from byleave.sandbox.native.build import FULL
from byleave.sandbox.plan.plan import BIN, PROXY
from byleave.sandbox.process import Process
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Self

    from byleave.net.proxy import Decide, HttpProxy
    from byleave.net.proxy_policy import OnVerdict
    from byleave.sandbox.broker import Broker
    from byleave.sandbox.confinement import Prepared
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.linux.steps import Arrangement, MachineFacts
    from byleave.sandbox.plan.plan import SandboxPlan
    from byleave.sandbox.process import Stream
    from byleave.sandbox.session import JoinedSession

TOOL = "sandbox"
_PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Explained(Struct, frozen=True):
    """A plan with everything that surrounds it, for people."""

    plan: SandboxPlan
    arrangement: Arrangement
    host: MachineFacts
    launcher: str
    program: str | None
    directory: str
    variables: tuple[str, ...]
    backend: str = NAMESPACES


class ToolSandbox:
    """Runs programs so that the kernel holds them to the access of a tool. Close it in the end.

    `decide` answers, and records, what the program starts and reaches. Sandboxes that differ in nothing else share a
    confinement; closing one of them closes it.
    """

    def __init__(self, confinement: Confinement, decide: Decide) -> None:
        self.confinement = confinement
        self.decide = decide
        self._passing: tuple[object, dict[str, bool]] = (None, {})  # which variables pass, by the policy that said so

    def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        variables: Mapping[str, str] | None = None,
        own_session: bool = False,
        controlling: str | None = None,
        configured: bool = False,
        only_there: bool = False,
        observer: Observer | None = None,
    ) -> Process:
        """Start a program in the sandbox; a SandboxError if it may not or cannot be started.

        `variables` reach the program whatever the rules say: the caller has checked them. With `own_session` it is in
        a session of its own whatever its streams are; `controlling` is the path of a terminal made for it. A
        `configured` program is the one that the user has named, so no rule on commands has to list it. With
        `only_there` it starts in `cwd`, which has no links in it, and nowhere else. With an
        `observer` it runs slower, and the observer receives everything that it was refused.
        """
        self._refuse_unlisted(argv, configured=configured)
        given = os.environ if env is None else env
        directory = self._directory(cwd)
        search = given.get("PATH", os.defpath)
        path = self._find(argv[0], search, directory, configured=configured)
        self.confinement.program_starts()
        shared: JoinedSession | None = None
        try:
            prepared = self.confinement.prepare(path, search)
            self.confinement.reserve_names(prepared)
            shared = self.confinement.join(prepared)
            port = PROXY_PORT if shared is None or shared.port is None else shared.port
            environment = {**(variables or {}), **self._environment(given, prepared, port)}
            directory = self._standing(prepared.plan, directory)
            if only_there:
                _refuse_other(directory, cwd)
            program = LaunchedProgram(path, directory, tuple(argv), tuple(environment.items()))
            streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            how = {"own_session": own_session, "controlling": controlling, **streams}
            process = self._launch(prepared, program, search, observer, shared, **how)
        except BaseException:
            if shared is not None:
                shared.close()
            self.confinement.program_ended()
            raise
        process.at_end(self.confinement.program_ended)
        return process

    def explain(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        variables: Mapping[str, str] | None = None,
    ) -> Explained:
        """Return everything that a start of this command would mean."""
        given = os.environ if env is None else env
        directory, search = self._directory(None), given.get("PATH", os.defpath)
        trusted = self.confinement.trusted().is_trusted
        path = host.find_program(argv[0], search, directory, trusted) if argv else None
        prepared = self.confinement.prepare(path, search)
        return Explained(
            prepared.plan,
            prepared.arrangement,
            self.confinement.host,
            self.confinement.launcher(launcher_kind(prepared.plan)).origin,
            path,
            self._standing(prepared.plan, directory),
            tuple({**(variables or {}), **self._environment(given, prepared, PROXY_PORT)}),
            prepared.backend,
        )

    # What is started: which program, where, with which variables

    def _refuse_unlisted(self, argv: Sequence[str], *, configured: bool) -> None:
        if not argv:
            raise SandboxError("there is no program to run", hint="name one", exit_code=127)
        if configured or self.confinement.options.reads_only:  # which the tool neither chose nor starts
            return
        tool = self.confinement.tool
        verdict = self.decide({"kind": "spawn", "program": argv[0], "args": list(argv[1:]), "tool": tool})
        if verdict.decision is not ALLOW:
            kept = verdict.code != "io"  # otherwise a rule would change nothing
            hint = (
                "list the command under access.commands" if kept else "`byleave doctor` says what is wrong, and where"
            )
            raise SandboxError(verdict.reason, hint=hint, exit_code=20)

    def _find(self, name: str, search: str, directory: str, *, configured: bool) -> str:
        """Return the program of that name; unless it is configured, one that the tool cannot have put there."""
        trusted = None if configured else self.confinement.trusted().is_trusted
        path = host.find_program(name, search, directory, trusted)
        if path is not None:
            return path
        untrusted = host.find_program(name, search, directory)
        if untrusted is None:
            raise SandboxError(f"{quoted(name)} was not found", hint="check the name and PATH", exit_code=127)
        raise SandboxError(
            f"{quoted(name)} is only found at {quoted(untrusted)}, where the tool itself may write",
            hint=f"grant {quoted(os.path.dirname(untrusted))} without write, create and update",
            exit_code=127,
        )

    def _directory(self, cwd: str | None) -> str:
        """Return the working directory: the requested one, if it lies in the workspace, else the root."""
        root = self.confinement.workspace.root.path
        try:
            requested = os.path.realpath(os.path.join(root, cwd) if cwd is not None else os.getcwd())
        except OSError:
            return root
        return requested if is_under(requested, root) and os.path.isdir(requested) else root

    def _standing(self, plan: SandboxPlan, directory: str) -> str:
        """Return where the program starts: at the root, if nothing at all may be done in the directory."""
        place = plan.at(directory)
        return directory if place is not None and place.capabilities else self.confinement.workspace.root.path

    def _environment(self, given: Mapping[str, str], prepared: Prepared, port: int) -> dict[str, str]:
        """Return what the program gets of the caller's variables, and those that the sandbox sets."""
        plan = prepared.plan
        kept = dict(minimal(given, MINIMAL_ENVIRONMENT))
        if plan.variables:
            for name, value in given.items():
                if name not in kept and "=" not in name and self._passes(name):
                    kept[name] = value
        if plan.programs is not None:
            kept["PATH"] = f"{BIN}:{given.get('PATH', os.defpath)}"
        own = dict(prepared.setup.variables) if prepared.setup is not None else {}
        return {**kept, **self._proxy_variables(plan, port), **own}

    def _proxy_variables(self, plan: SandboxPlan, port: int) -> dict[str, str]:
        """Return the variables that lead programs to the proxy, if there is one.

        The commands of an agent reach each other on the loopback of the sandbox, unless a rule opens that of the host.
        """
        if plan.network != PROXY:
            return {}
        address = f"http://127.0.0.1:{port}"
        proxied = {each: address for name in _PROXY_NAMES for each in (name, name.upper())}
        direct = ""
        if self.confinement.tool == SHELL_TOOL:
            table = self.confinement.policy.compiled.policy.tool(SHELL_TOOL).access.net
            opened = {rule.host for rule in getattr(table, "rules", ()) if rule.allow}
            direct = ",".join(name for name in _LOOPBACK if name not in opened)
        return {**proxied, "no_proxy": direct, "NO_PROXY": direct}

    def _passes(self, name: str) -> bool:
        compiled = self.confinement.policy.compiled
        if self._passing[0] is not compiled:
            self._passing = (compiled, {})
        known = self._passing[1]
        if name not in known:
            action = EnvAction(name, self.confinement.tool)
            known[name] = decide_purely(compiled.policy, action).decision is ALLOW
        return known[name]

    # How it is started: the launcher, and what serves the program while it runs

    def _launch(
        self,
        prepared: Prepared,
        program: LaunchedProgram,
        search: str,
        observer: Observer | None,
        shared: JoinedSession | None,
        **how: Any,
    ) -> Process:
        """Start the launcher with everything that the program needs, and serve what it asks for."""
        last = exec_step(program if prepared.plan.programs is None else _by_interpreter(program, search))
        kind, words = self._starter(prepared, traced=observer is not None)
        if observer is None:
            written = prepared.program
        else:
            observer.begin(prepared.plan, prepared.arrangement)
            written = self.confinement.traced_program(prepared)
        if shared is not None:
            how["passed"] = shared.descriptors
            if observer is None:  # what is traced ends with the program
                how["lasting"] = shared.alive
                written = write_program([step("lasting")]) + written
        process = kind(words, written + write_program([last]), lock=self.confinement.lock, **how)
        if prepared.setup is None:
            process.at_end(lambda: doubt_namespaces(words[0]) if process.problem is not None else None)
        if prepared.plan.network == PROXY:
            self._serve_network(process, None if observer is None else observer.decided, shared)
        port = PROXY_PORT if shared is None or shared.port is None else shared.port
        broker = None if prepared.plan.programs is None else self._broker(prepared, search, observer, port)
        if shared is not None:
            shared.close()
        if observer is not None or broker is not None or shared is not None:
            process.listen(_ignore if observer is None else observer.hear, None if broker is None else broker.answer)
        return process

    def _starter(self, prepared: Prepared, *, traced: bool) -> tuple[type[Process], Sequence[str]]:
        """Return the words that start the launcher, and the kind of process that they become."""
        if prepared.setup is None:
            launcher = self.confinement.launcher(FULL if traced else launcher_kind(prepared.plan))
            return Process, (launcher.path,)
        if traced:
            raise SandboxError(
                "what a program is refused cannot be listed here: that needs namespaces of our own",
                hint="`byleave doctor` says why there are none; leave --diagnose out",
            )
        return prepared.setup.process, prepared.setup.words

    def _broker(self, prepared: Prepared, search: str, observer: Observer | None, port: int) -> Broker:
        """Return what answers for the programs that a program in this sandbox wants to start."""
        from byleave.sandbox.broker import Broker, ListedPrograms

        listed = ListedPrograms(
            prepared.plan,
            prepared.arrangement,
            self.confinement.host,
            search,
            passes=self._passes,
            more=self._proxy_variables(prepared.plan, port),
            traced=observer is not None,
        )
        decide = self.decide if observer is None else observer.asking(self.decide)
        return Broker(decide, self.confinement.tool, listed.program_for)

    def _serve_network(self, process: Process, on_verdict: OnVerdict | None, shared: JoinedSession | None) -> None:
        """Serve the sandbox's way into the network until the process has ended."""
        try:
            listener = process.listener() if shared is None else shared.take_listener()
        except SandboxError:
            process.wait()
            raise

        def opened() -> HttpProxy:
            from byleave.net.proxy import open_proxy

            return open_proxy(self.confinement.policy, self.confinement.tool, self.decide, on_verdict)

        process.at_end(LateProxy(listener, opened).close)

    def close(self) -> None:
        """Release what was reserved for the programs in here."""
        self.confinement.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sandbox(ToolSandbox):
    """Runs programs so that the kernel holds them to an access policy. Close it in the end.

    `access` is shaped like an `[access]` table; None is the default of a stdio tool: the workspace read, written and
    executed, no network, any command, a minimal environment. The policy decides, and nothing is recorded.
    """

    def __init__(
        self, access: Mapping[str, Any] | None = None, *, root: str | None = None, limits: ProcessLimits | None = None
    ) -> None:
        from byleave.policy.load import Workspace

        workspace = Workspace(root)
        tool: dict[str, Any] = {"source": "local", "runtime": "stdio"}
        if access is not None:
            tool["access"] = dict(access)
        policy = workspace.compile_tree({"tools": {TOOL: tool}})
        options = SandboxOptions(limits=limits or ProcessLimits())
        super().__init__(Confinement(workspace, policy, TOOL, options), policy.decide)


def _by_interpreter(program: LaunchedProgram, search: str) -> LaunchedProgram:
    """Return a program that is no script: where few may be executed, the kernel is not to look for interpreters."""
    from byleave.sandbox.programs import follow

    start = follow(program.path, search)
    words = start.arguments(program.arguments)
    return LaunchedProgram(start.path, program.directory, words, program.environment)


def _ignore(_message: bytes) -> None:
    """Receive a message, and do nothing."""


def _refuse_other(directory: str, decided: str | None) -> None:
    if directory != decided:
        raise SandboxError(
            f"the directory of this command is not there any more, or closed: {quoted(decided or '')}",
            hint="it was decided for that directory, and runs in no other",
        )
