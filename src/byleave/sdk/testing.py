"""Try a tool out in the same process and without touching anything: files in memory, the real policy, the real bytes.

    from byleave.sdk.testing import Harness

    def test_lines_are_counted():
        harness = Harness({"a.txt": "one, two"})
        assert harness.call(count_lines, {"path": "a.txt"}).text == "1"

`access` is what the tool's configuration would say; None is the default of a mediated tool, which may read files and
nothing else; "all" allows everything there is in the harness.

`HarnessHost` is the host at the other end. The policy, the guard, the methods and the messages are those of byleave;
files, servers and programs are made up, and no action is ever approved. For tests: no tool loads this module.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from byleave.core.action import SUBSTITUTE, EnvAction
from byleave.core.command_rules import CommandTable
from byleave.core.redact import Redactor, SecretFilter
from byleave.core.url import Target, parse_url
from byleave.errors import RequestError
from byleave.guard.guard import Guard
from byleave.net.http_client import HttpRequest, HttpResponse
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import inline_layer
from byleave.policy.live_policy import LivePolicy
from byleave.protocol.content import WAITING, update_tree
from byleave.protocol.jsonrpc import INTERNAL_ERROR, NOT_FOUND
from byleave.protocol.vfs import BadMessage, Failed, Finished, HostSide, RequestCancelled, StateChanged, ToolRequest
from byleave.record import Record
from byleave.sdk.tool import Tool
from byleave.sdk.vfs import Host
from byleave.sdk.vfs_async import AsyncHost
from byleave.sdk.vfs_conversation import ToolConversation
from byleave.sdk.vfs_results import Completed, HttpReply, QuestionAsked
from byleave.store.approvals import Approvals
from byleave.store.interfaces import KeptRecord
from byleave.text import quoted
from byleave.toolhost.codec import TOOLS
from byleave.toolhost.context import FORMAT_ARGUMENTS, context_tree
from byleave.toolhost.conversation import ConversationEnd
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.host import outcome_of
from byleave.toolhost.http_methods import HttpMethods
from byleave.toolhost.methods import READING, MethodService
from byleave.toolhost.outcome import NeedsInput, outcome_tree
from byleave.toolhost.process import ProcessOutput
from byleave.toolhost.process_methods import ProcessMethods
from byleave.user_files import ParseCache
from byleave.workspace.in_memory import ProjectInMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Program = Completed | str | Callable[[list[str]], Completed | str]
    Page = HttpReply | str | bytes | Callable[[HttpRequest], HttpReply | str | bytes]


TOOL = "t"
_NO_DIRECTORY = "/dev/null/approvals"  # below a file, so nothing can ever be there
_ALL = {"path": ".", "read": True, "write": True, "execute": True}


class World(Record):
    """All that a tool under test may reach: files, variables, servers and programs; and what of it is allowed."""

    project: ProjectInMemory
    access: Mapping[str, Any] | None
    env: Mapping[str, str]
    http: Mapping[str, Page]
    programs: Mapping[str, Program]


def open_access(http: Mapping[str, Page], programs: Mapping[str, Program]) -> dict[str, Any]:
    """Return the access of a tool that may do everything that there is to do in the harness."""
    targets = [target for url in http if isinstance(target := parse_url(url), Target)]
    net = [{"host": each.host, "scheme": each.scheme, "port": each.port, "allow": True} for each in targets]
    return {
        "fs": [_ALL],
        "net": net or [{"host": "nowhere.invalid", "allow": False}],
        "env": [{"name": "*", "read": True}],
        "commands": {program: {"envs": ["*"]} for program in programs},
    }


class HarnessHost:
    """One conversation with a tool under test: a wire for the tool's side, with the host at its other end.

    Everything happens when the tool sends: its requests are answered before it looks. When it waits and nothing is
    there, it gets the next of `inputs`; when there is none, it would wait for ever, which is an error.
    """

    def __init__(
        self, world: World, call: Mapping[str, Any], action: str, inputs: Sequence[Any], cancel_at: int | None
    ) -> None:
        policy = _policy(world)
        scrub = SecretFilter()
        self.guard = _guard(policy)
        self._side = HostSide(TOOLS)
        self._inputs = list(inputs)
        self._cancel_at = cancel_at
        self._service = MethodService(
            self.guard,
            TOOL,
            world.project,
            scrub,
            others={} if action == FORMAT_ARGUMENTS else _others(world, self.guard, scrub),
            only=READING if action == FORMAT_ARGUMENTS else None,
        )
        self.requests: list[ToolRequest] = []
        self.updates: list[StateChanged] = []
        self.last: Finished | Failed | StateChanged | None = None
        self.cancelled = False
        context = context_tree(world.project.display_root, action, policy.compiled.policy.tool(TOOL).access)
        self._unread = [self._side.init(call, context, self._service.methods)]

    def fileno(self) -> None:
        """Return nothing: there is no descriptor to wait for."""

    def send(self, data: bytes) -> None:
        """Hear what the tool says, and answer it."""
        for heard in self._side.receive(data):
            if isinstance(heard, ToolRequest):
                self._unread.extend(self._answers(heard))
            elif isinstance(heard, BadMessage):
                self._unread.append(heard.reply)
            elif not isinstance(heard, RequestCancelled):
                self._hear(heard)

    def receive(self, timeout: float | None) -> bytes | None:
        """Return what the host has said and the tool has not read."""
        if self._unread:
            return self._unread.pop(0)
        if timeout == 0:
            return None
        if self._inputs:
            return self._side.apply(self._inputs.pop(0))
        raise AssertionError("the tool waits for input that never comes: give the harness some `inputs`")

    def _hear(self, heard: Finished | Failed | StateChanged) -> None:
        if isinstance(heard, StateChanged):
            self.updates.append(heard)
        self.last = heard

    def _answers(self, request: ToolRequest) -> list[bytes]:
        self.requests.append(request)
        if len(self.requests) == self._cancel_at:
            self.cancelled = True
            return [self._side.cancel(), self._answer(request)]
        return [self._answer(request)]

    def _answer(self, request: ToolRequest) -> bytes:
        try:
            return self._side.answer(request.id, self._service.serve(request.method, request.params, Deadline()))
        except RequestError as error:
            return self._side.refuse(request.id, error.number, error.problem, error.data)


def _policy(world: World) -> LivePolicy:
    """Return the policy of one vfs tool with this access, compiled as if it stood in a file."""
    described: dict[str, Any] = {"source": "local", "runtime": "vfs", "command": ["tool"]}
    if world.access is not None:
        described["access"] = world.access
    root = world.project.root
    layer = inline_layer({"tools": {TOOL: described}})
    return LivePolicy(compile_layers([layer], CompileContext(root)), root)


def _guard(policy: LivePolicy) -> Guard:
    """Return a guard to which no person has ever replied, and which keeps no records."""
    approvals = Approvals(_NO_DIRECTORY, ParseCache(None, ""))
    return Guard(policy, approvals, _NoRecords(), door="harness", now=lambda: "", mask=Redactor(), client_approves=None)


class _NoRecords:
    """An audit log that is not kept."""

    may_wait = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def append(self, _fields: Mapping[str, Any], /) -> int:
        return 0

    def append_all(self, records: Sequence[Mapping[str, Any]], /) -> list[int]:
        return [0] * len(records)

    def stage(self, _fields: Mapping[str, Any], _on_failure: object = None, /) -> KeptRecord:
        return KeptRecord(0)

    def mask_with(self, _mask: Redactor, /) -> None:
        """Do nothing: nothing is kept."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _others(world: World, guard: Guard, scrub: SecretFilter) -> dict[str, Any]:
    """Return what serves `http.*` and `process.run`: the real ones, whose ends are made up."""

    def may_use(name: str) -> bool:
        return guard.check(EnvAction(name, TOOL, way=SUBSTITUTE)).allowed

    def envs_of(program: str) -> tuple[str, ...] | None:
        table = guard.policy.compiled.policy.tool(TOOL).access.commands
        rule = table.rules.get(program) if isinstance(table, CommandTable) else None
        return None if rule is None else rule.envs

    client: Any = _Servers(world.http)
    web = HttpMethods(guard, TOOL, client, world.env, scrub, may_use=may_use)
    programs = _Programs(world, guard, scrub, may_use, envs_of)
    return {**dict.fromkeys(web.methods, web.serve), **dict.fromkeys(programs.methods, programs.serve)}


class _Servers:
    """Answers requests from a table, or says that it has no answer."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages

    def request(self, _permit: object, ask: HttpRequest, _rules: object, **_options: object) -> HttpResponse:
        if ask.url not in self._pages:
            problem = f"the harness has no reply for {quoted(ask.url)}"
            raise RequestError(problem, hint="add it to `http`", number=INTERNAL_ERROR)
        page = self._pages[ask.url]
        said = page(ask) if callable(page) else page
        if isinstance(said, HttpReply):
            return HttpResponse(said.status, said.headers, said.data, said.url or ask.url)
        return HttpResponse(200, (), said.encode() if isinstance(said, str) else said, ask.url)


class _Programs(ProcessMethods):
    """Runs made-up programs."""

    def __init__(
        self,
        world: World,
        guard: Guard,
        scrub: SecretFilter,
        may_use: Callable[[str], bool],
        envs_of: Callable[[str], tuple[str, ...] | None],
    ) -> None:
        super().__init__(guard, TOOL, _no_box, world.env, scrub, may_use=may_use, envs_of=envs_of)
        self._programs = world.programs

    def _run(self, permit: Any, _given: object, _turn: object) -> ProcessOutput:
        program = self._programs.get(permit.action.program)
        if program is None:
            problem = f"the harness has no program {quoted(permit.action.program)}"
            raise RequestError(problem, hint="add it to `programs`", number=NOT_FOUND)
        said = program(list(permit.action.args)) if callable(program) else program
        done = Completed(said, "", 0) if isinstance(said, str) else said
        return ProcessOutput(_bytes(done.stdout), _bytes(done.stderr), done.exit_code)


def _no_box() -> Any:
    raise AssertionError("the harness starts no real program")


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


COMPLETED, ERROR, NEEDS_INPUT, CANCELLED = "completed", "error", "needs_input", "cancelled"


class RecordedRequest(Record):
    """A request that the tool made."""

    method: str
    params: Mapping[str, Any]


class Outcome(Record):
    """What came of a call. `tree` is what `byleave call --json` would print; `states` what a stateful tool said."""

    tree: dict[str, Any]
    states: tuple[dict[str, Any], ...] = ()

    @property
    def kind(self) -> str:
        """`completed`, `error`, `needs_input` or `cancelled`."""
        return str(self.tree["outcome"])

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks of the result; empty if there is none."""
        return list(self.tree.get("content", []))

    @property
    def text(self) -> str:
        """The texts of the result, one below the other."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def message(self) -> str | None:
        """Why it failed; None if it did not."""
        return self.tree.get("message")

    @property
    def question(self) -> dict[str, Any] | None:
        """What the tool wants to know; None if it asks nothing."""
        return self.tree.get("question")


class Harness:
    """A small world for a tool. Calls change its files; `requests` are those of the last call.

    `http` has a reply for each URL, `programs` one for each name: a text, a whole reply, or a function that makes one.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        access: Mapping[str, Any] | str | None = None,
        answers: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        http: Mapping[str, Page] | None = None,
        programs: Mapping[str, Program] | None = None,
    ) -> None:
        if isinstance(access, str):
            if access != "all":
                raise ValueError('access is a table as in the configuration, "all", or None')
            access = open_access(http or {}, programs or {})
        self._world = World(ProjectInMemory(files), access, env or {}, http or {}, programs or {})
        self._answers = dict(answers or {})
        self._options = dict(options or {})
        self.requests: list[RecordedRequest] = []

    @property
    def files(self) -> dict[str, str | bytes]:
        """The files as they are now; what is not UTF-8 is bytes."""
        return dict(_everything(self._world.project, ""))

    def call(
        self,
        tool: Tool | Callable[[Host], Any],
        arguments: Mapping[str, Any] | None = None,
        *,
        action: str = "run",
        inputs: Sequence[Any] = (),
        cancel_at: int | None = None,
    ) -> Outcome:
        """Run a tool, or a function that takes a host, and return what came of it.

        `inputs` are given to a stateful tool one after the other, when it waits. `cancel_at`: at that request, the host
        asks the tool to stop. What a plain function raises is raised here.
        """
        name = tool.name if isinstance(tool, Tool) else tool.__name__
        call = {"name": name, "arguments": dict(arguments or {}), "answers": self._answers, "options": self._options}
        host = HarnessHost(self._world, call, action, inputs, cancel_at)
        try:
            _run(tool, host)
        except QuestionAsked:
            pass
        finally:
            self.requests = [RecordedRequest(request.method, request.params) for request in host.requests]
        return _outcome(host)


def _run(tool: Tool | Callable[[Host], Any], wire: HarnessHost) -> None:
    if not isinstance(tool, Tool):
        host = Host(ToolConversation(wire))
        content = tool(host)
        if content is not None and not host.ended:
            host.result(content)
    elif tool.is_async:

        async def main() -> None:
            await tool.serve_async(AsyncHost(ToolConversation(wire)))

        asyncio.run(main())
    else:
        tool.serve(Host(ToolConversation(wire)))


def _outcome(host: HarnessHost) -> Outcome:
    states = tuple(update_tree(changed.update) for changed in host.updates)
    last = states[-1] if states else None
    if last is not None and last["type"] == WAITING:
        return Outcome(outcome_tree(NeedsInput(last["question"])), states)
    ending = ConversationEnd(
        host.last, host.cancelled, 0, "the tool ended without a result" if host.last is None else ""
    )
    return Outcome(outcome_tree(outcome_of(ending)), states)


def _everything(project: ProjectInMemory, directory: str) -> list[tuple[str, str | bytes]]:
    found: list[tuple[str, str | bytes]] = []
    for name in project.list_dir(directory or "."):
        path = f"{directory}/{name}" if directory else name
        kind = project.metadata(path).kind
        found += _everything(project, path) if kind == "dir" else [(path, _text(project, path))]
    return found


def _text(project: ProjectInMemory, path: str) -> str | bytes:
    data = project.read(path, limit=1 << 40)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
