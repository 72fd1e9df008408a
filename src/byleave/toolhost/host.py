"""The host of tools: one way to run a configured tool, whatever its runtime, and one outcome.

`ToolHost.execute` runs a call that was authorized (`authorize`); `handles` keeps stateful tools.
"""

from __future__ import annotations

import json
import os
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.action import SUBSTITUTE, EnvAction
from byleave.core.command_rules import CommandTable
from byleave.core.redact import SecretFilter
from byleave.errors import ByleaveError, ConfigErrors, InputError, SandboxError
from byleave.guard.evaluation import UNKNOWN
from byleave.protocol.content import WAITING, read_content
from byleave.protocol.vfs import METHODS, Failed, Finished, HostSide, StateChanged
from byleave.sandbox.linux.backends import LACKING
from byleave.text import quoted
from byleave.toolhost.codec import TOOLS
from byleave.toolhost.context import FORMAT_ARGUMENTS, RUN, access_tree, context_tree
from byleave.toolhost.conversation import Conversation
from byleave.toolhost.deadline import Deadline, current_deadline
from byleave.toolhost.description import NOTHING, SelfDescription, ask_tool, is_asked
from byleave.toolhost.limits import line_limit, size_limit, timing_of
from byleave.toolhost.methods import READING, MethodService
from byleave.toolhost.outcome import CancelledOutcome, FailedOutcome, NeedsInput, broken, completed
from byleave.toolhost.process import OWN_TOOLS, ToolProcess, ToolSandboxes
from byleave.toolhost.process_methods import ProcessMethods
from byleave.toolhost.sandboxed_search import SandboxedSearch
from byleave.toolhost.stdio_runtime import run_plain
from byleave.user_files import digest
from byleave.workspace.grep import find_ripgrep
from byleave.workspace.on_disk import ProjectOnDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from byleave.guard.evaluation import Who
    from byleave.guard.guard import Guard
    from byleave.net.http_client import HttpClient
    from byleave.policy.compile import CompiledTool
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.toolhost.conversation import ConversationEnd
    from byleave.toolhost.outcome import Outcome
    from byleave.workspace.grep import SearchStart
    from byleave.workspace.project import FileMatches, Query

VFS = "vfs"


class ToolInvocation(Struct, frozen=True):
    """One call of a tool: its arguments, the caller, and whether it runs or only describes what it would do."""

    tool: str
    arguments: Mapping[str, Any]
    answers: Mapping[str, str] = {}
    who: Who = UNKNOWN
    action: str = RUN


class ToolHost:
    """Runs the configured tools of one workspace. Close it in the end: nothing of any tool is left then."""

    def __init__(
        self,
        workspace: Workspace,
        guard: Guard,
        *,
        environment: Mapping[str, str] | None = None,
        make_client: Callable[[], HttpClient] | None = None,
    ) -> None:
        self.guard = guard
        self._workspace = workspace
        self._environment = os.environ if environment is None else environment
        self._make_client = make_client
        self._client: HttpClient | None = None
        self._alone = Lock()  # several calls may run at once, each in a thread of its own
        self._sandboxes: dict[str, tuple[CompiledTool, ToolSandboxes]] = {}
        self._retired: list[ToolSandboxes] = []  # of settings that have changed; something may still run in them
        self._end: Callable[[], object] = _nothing
        self._secrets_of: dict[str, SecretFilter] = {}
        self._described: dict[str, tuple[str, SelfDescription]] = {}  # by name, with the pin that the tool had
        self.running: Conversation | None = None  # the one that was begun last

    @property
    def _policy(self) -> LivePolicy:
        return self.guard.policy

    def tool(self, name: str) -> CompiledTool:
        """Return a configured tool that can be run here; an InputError if there is none."""
        tool = self._policy.compiled.tools.get(name)
        if tool is None:
            raise self._policy.compiled.no_tool(name)
        if not tool.settings.get("enable", True):
            raise InputError(f"the tool {quoted(name)} is disabled", hint="set enable = true to use it")
        if tool.settings["source"] != "local":
            raise InputError(
                f"the tool {quoted(name)} is not run by byleave: its source is {quoted(tool.settings['source'])}",
                hint='byleave runs tools with source = "local"',
            )
        if not tool.settings.get("command"):
            raise InputError(f"the tool {quoted(name)} has no command", hint='add command = ["program", "argument"]')
        return tool

    def execute(self, call: ToolInvocation, cancel: Deadline) -> Outcome:
        """Run a call to its end, and return its outcome; an error is an outcome, too."""
        tool = self.tool(call.tool)
        try:
            if tool.runtime == VFS:
                return self._mediate(tool, call, cancel)
            return self._run_plain(tool, call, cancel)
        except (ByleaveError, ConfigErrors) as error:
            return broken(str(error))
        except OSError as error:  # no descriptors, no memory, no processes left
            return broken(f"the tool cannot be run: {error.strerror}", transient=True)
        finally:
            self._end = _nothing

    def end(self) -> None:
        """End the call that runs now, without giving it any time."""
        self._end()

    def describe(self, call: ToolInvocation, cancel: Deadline) -> str | None:
        """Return the tool's own description of a call, None without one. It runs so that it can change nothing."""
        tool = self.tool(call.tool)
        command = tool.settings.get("command") or [""]
        if not tool.settings.get("format_arguments", command[0] == OWN_TOOLS) or not self._can_describe(tool):
            return None
        asked: ToolInvocation = structs.replace(call, action=FORMAT_ARGUMENTS)
        outcome = self.execute(asked, cancel)
        content = getattr(outcome, "content", None) or []
        return "\n".join(block["text"] for block in content if block["type"] == "text") or None

    def self_description(self, name: str, cancel: Deadline) -> SelfDescription:
        """Return what a tool prints about itself; read once for each content of its files, and only in a sandbox."""
        tool = self.tool(name)
        if not is_asked(tool) or self._sandboxes_of(tool).unconfined is not None:
            return NOTHING
        pin = self.pin(name)
        known = self._described.get(name)
        if known is None or known[0] != pin:
            known = pin, ask_tool(self._sandboxes_of(tool), cancel)
            if cancel.cancelled or pin != self.pin(name):  # which version of the tool printed it is unknown
                return NOTHING
            self._described[name] = known
        return known[1]

    def _can_describe(self, tool: CompiledTool) -> bool:
        """Whether a tool can describe a call before its approval without changing or reading more than it may."""
        policy = self._policy.compiled.policy
        if self._sandboxes_of(tool).unconfined is not None:
            return False
        return tool.runtime == VFS or (len(policy.views) == 1 and next(policy.rule_tables(), None) is None)

    def pin(self, name: str) -> str:
        """Return a hash of what an approval of this tool covers: its command, its access, and its files."""
        tool = self.tool(name)
        access = self._policy.compiled.policy.tool(name).access
        known = {key: tool.settings.get(key) for key in ("command", "runtime", "options", "limits")}
        settings = json.dumps([known, access_tree(access)], sort_keys=True, default=str)
        return digest("\n".join([settings, *self._sandboxes_of(tool).prints()]).encode("utf-8", "surrogateescape"))

    def _run_plain(self, tool: CompiledTool, call: ToolInvocation, cancel: Deadline) -> Outcome:
        sandboxes, describes = self._sandboxes_of(tool), call.action == FORMAT_ARGUMENTS
        given = {"context": self._context(tool, call, sandboxes), "tool": _tool_tree(tool, call)}

        def decide(action: dict[str, Any]) -> Any:
            return self.guard.check(action, call.who).verdict

        def begun(end: Callable[[], object]) -> None:
            self._end = end

        self.running = None
        limit = size_limit(tool)
        return run_plain(
            sandboxes, given, timing_of(tool), cancel, decide, begun=begun, limit=limit, reads_only=describes
        )

    def _mediate(self, tool: CompiledTool, call: ToolInvocation, cancel: Deadline) -> Outcome:
        asked: list[StateChanged] = []
        answered: list[dict[str, Any]] = []

        def changed(heard: StateChanged) -> None:
            question = heard.update.question or {}
            if heard.update.type == WAITING and question.get("id") in call.answers and question not in answered:
                answered.append(question)
                conversation.apply(call.answers[question["id"]])
            elif heard.update.type == WAITING:
                asked.append(heard)
                conversation.end()

        conversation, first = self.converse(tool, call, changed)
        self.running, self._end = conversation, conversation.end
        cancel.on_cancel(conversation.cancel)
        ending = conversation.run(first)
        if asked and not ending.cancelled:
            return NeedsInput(asked[-1].update.question or {})
        return outcome_of(ending)

    def converse(
        self, tool: CompiledTool, call: ToolInvocation, changed: Callable[[StateChanged], object]
    ) -> tuple[Conversation, bytes]:
        """Start a mediated tool, and return the conversation with it and its first line."""
        sandboxes = self._sandboxes_of(tool)
        limit = size_limit(tool)
        side = HostSide(TOOLS, limit=line_limit(tool))
        service = self._service(tool, call, sandboxes, limit)
        first = side.init(_tool_tree(tool, call), self._context(tool, call, sandboxes), service.methods)
        process = sandboxes.start_mediated()
        try:
            return Conversation(ToolProcess(process), side, service, timing_of(tool), changed=changed), first
        except BaseException:
            process.__exit__()
            raise

    def _context(self, tool: CompiledTool, call: ToolInvocation, sandboxes: ToolSandboxes) -> dict[str, Any]:
        access = self._policy.compiled.policy.tool(tool.name).access
        return context_tree(
            self._workspace.root.path, call.action, None if sandboxes.unconfined is not None else access
        )

    def _service(self, tool: CompiledTool, call: ToolInvocation, sandboxes: ToolSandboxes, limit: int) -> MethodService:
        secrets = self._secrets_of.setdefault(
            tool.name, SecretFilter()
        )  # what was used in one call may come back in another
        project = ProjectOnDisk(self._workspace.root, search=self._search(sandboxes), writable=self._writable())
        describes = call.action == FORMAT_ARGUMENTS
        return MethodService(
            self.guard,
            tool.name,
            project,
            secrets,
            limit=limit,
            who=call.who,
            others={} if describes else self._others(tool, call, sandboxes, secrets, limit),
            only=READING if describes else None,
        )

    def _others(
        self, tool: CompiledTool, call: ToolInvocation, sandboxes: ToolSandboxes, secrets: SecretFilter, limit: int
    ) -> dict[str, Any]:
        """Return what serves the other groups of methods; each is loaded when the first request of it comes."""

        def may_use(name: str) -> bool:
            return self.guard.check(EnvAction(name, tool.name, way=SUBSTITUTE), call.who).allowed

        def web(method: str, params: Mapping[str, Any], turn: Deadline) -> dict[str, Any]:
            from byleave.toolhost.http_methods import HttpMethods  # heavy: only for tools that open URLs

            client, environment = self._http(), self._environment
            serves = HttpMethods(
                self.guard, tool.name, client, environment, secrets, may_use=may_use, limit=limit, who=call.who
            )
            return serves.serve(method, params, turn)

        def processes(method: str, params: Mapping[str, Any], turn: Deadline) -> dict[str, Any]:
            serves = ProcessMethods(
                self.guard,
                tool.name,
                sandboxes.access,
                self._environment,
                secrets,
                may_use=may_use,
                envs_of=lambda program: self._envs_of(tool.name, program),
                limit=limit,
                who=call.who,
            )
            return serves.serve(method, params, turn)

        return {name: web if name.startswith("http.") else processes for name in METHODS if not name.startswith("fs.")}

    def _envs_of(self, tool: str, program: str) -> tuple[str, ...] | None:
        """Return the variables that every policy layer lets reach a program."""
        listed: tuple[str, ...] | None = None
        for layer in self._policy.compiled.policy.views:
            known = layer.tools.get(tool)
            table = None if known is None else known.access.commands
            rule = table.rules.get(program) if isinstance(table, CommandTable) else None
            if rule is not None:
                listed = rule.envs if listed is None else tuple(name for name in listed if name in rule.envs)
        return listed

    def _http(self) -> HttpClient:
        from byleave.net.http_client import HttpClient  # heavy: only for tools that open URLs

        with self._alone:
            if self._client is None:
                self._client = HttpClient() if self._make_client is None else self._make_client()
            return self._client

    def _writable(self) -> Sequence[str]:
        """Return the places outside of the workspace where every sandbox may write."""
        listed: Sequence[str] = self._policy.compiled.settings.get("sandbox", {}).get("write", ())
        return listed

    def _search(self, sandboxes: ToolSandboxes) -> Callable[[Query, Sequence[SearchStart]], list[FileMatches]] | None:
        """Return what searches in a sandbox; None where the user has switched the sandbox off."""
        if sandboxes.unconfined is not None:
            return None

        def search(query: Query, starts: Sequence[SearchStart]) -> list[FileMatches]:
            program = find_ripgrep(self._workspace.root.path, *self._writable())
            if program is None:
                raise SandboxError("there is no ripgrep", hint="files are searched without it", step=LACKING)
            turn = current_deadline()
            deadline, on_cancel = (None, None) if turn is None else (turn.deadline, turn.on_cancel)
            return SandboxedSearch(program, sandboxes.reading()).search(
                query, starts, deadline=deadline, on_cancel=on_cancel
            )

        return search

    def _sandboxes_of(self, tool: CompiledTool) -> ToolSandboxes:
        """Return the sandboxes of a tool, made anew if its settings have changed."""
        with self._alone:
            known = self._sandboxes.get(tool.name)
            if known is None or known[0].settings != tool.settings:
                if known is not None:
                    self._retired.append(known[1])
                known = tool, ToolSandboxes(self._workspace, self._policy, tool, self._environment)
                self._sandboxes[tool.name] = known
            return known[1]

    def weaker(self, name: str) -> str | None:
        """Why less than a sandbox holds a tool; None if one does."""
        return self._sandboxes_of(self.tool(name)).unconfined

    def close(self) -> None:
        """Close all sandboxes and connections."""
        for sandboxes in (*self._retired, *(sandboxes for _tool, sandboxes in self._sandboxes.values())):
            sandboxes.close()
        self._retired.clear()
        self._sandboxes.clear()
        if self._client is not None:
            self._client.close()
            self._client = None


def _nothing() -> None:
    """Nothing runs."""


def _tool_tree(tool: CompiledTool, call: ToolInvocation) -> dict[str, Any]:
    options = tool.settings.get("options", {})
    return {"name": tool.name, "arguments": call.arguments, "answers": dict(call.answers), "options": options}


def outcome_of(ending: ConversationEnd) -> Outcome:
    """Return what the end of a conversation means for the call."""
    if ending.cancelled:
        return CancelledOutcome()
    last = ending.last
    if isinstance(last, Finished):
        return completed(last.content)
    if isinstance(last, Failed):
        return FailedOutcome(last.failure)
    if isinstance(last, StateChanged) and last.update.error is not None:
        return FailedOutcome(last.update.error)
    if isinstance(last, StateChanged) and last.update.result is not None:
        return completed(read_content(last.update.result) or [])
    if ending.problem is not None:
        return broken(ending.problem)
    said = ending.stderr.strip()
    odd = f"; it wrote a line that is no message: {quoted(ending.odd)}" if ending.odd else ""
    return broken(said or f"the tool ended without a result, {_ended(ending.exit_code)}{odd}")


def _ended(code: int | None) -> str:
    if code is None:
        return "and was ended"
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"
