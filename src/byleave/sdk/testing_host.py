"""The host of the harness: the real policy, the real methods and the real messages, over files that are in memory.

Only the ends are made up: no file, no server and no program is touched. For tests; nothing here is loaded by a tool.
"""

from byleave.config.compile import Surroundings, compile_layers
from byleave.config.layers import inline_layer
from byleave.core.action import SUBSTITUTE, EnvAction
from byleave.core.commands import CommandTable
from byleave.core.masking import Mask
from byleave.core.url import Target, parse_url
from byleave.effects.http_exchange import Ask, Reply
from byleave.errors import RequestError
from byleave.guard.guard import Guard
from byleave.guard.judge import Policy
from byleave.record import Record
from byleave.sdk.vfs_results import Completed, HttpReply
from byleave.text import quoted
from byleave.toolhost.codec import FAST
from byleave.toolhost.context import FORMAT_ARGUMENTS, context_tree
from byleave.toolhost.processes import Processes
from byleave.toolhost.running import Said
from byleave.toolhost.scrubbing import Scrub
from byleave.toolhost.serving import READING, Service
from byleave.toolhost.turn import Turn
from byleave.toolhost.web import Web
from byleave.wire.codes import INTERNAL_ERROR, NOT_FOUND
from byleave.wire.vfs import Bad, Changed, Failed, Finished, GivesUp, HostSide, Wish
from byleave.workspace.in_memory import ProjectInMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Program = Completed | str | Callable[[list[str]], Completed | str]
    Page = HttpReply | str | bytes | Callable[[Ask], HttpReply | str | bytes]

TOOL = "t"
_ALL = {"path": ".", "read": True, "write": True, "execute": True}


class World(Record):
    """All that a tool under test may reach: files, variables, servers and programs; and what of it is allowed."""

    project: ProjectInMemory
    access: "Mapping[str, Any] | None"
    env: "Mapping[str, str]"
    http: "Mapping[str, Page]"
    programs: "Mapping[str, Program]"


def open_access(http: "Mapping[str, Page]", programs: "Mapping[str, Program]") -> "dict[str, Any]":
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
    there, it gets the next of `inputs`; when there is none, it would wait for ever, and is told so.
    """

    def __init__(
        self, world: World, told: "Mapping[str, Any]", action: str, inputs: "Sequence[Any]", cancel_at: int | None
    ) -> None:
        policy = _policy(world)
        scrub = Scrub()
        self._guard = _guard(policy)
        self._side = HostSide(FAST)
        self._inputs = list(inputs)
        self._cancel_at = cancel_at
        self._service = Service(
            self._guard,
            TOOL,
            world.project,
            scrub,
            others={} if action == FORMAT_ARGUMENTS else _others(world, self._guard, scrub),
            only=READING if action == FORMAT_ARGUMENTS else None,
        )
        self.requests: list[Wish] = []
        self.updates: list[Changed] = []
        self.last: Finished | Failed | Changed | None = None
        self.cancelled = False
        context = context_tree(world.project.display_root, action, policy.compiled.policy.tool(TOOL).access)
        self._unread = [self._side.init(told, context, self._service.methods)]

    def fileno(self) -> None:
        """Return nothing: there is no descriptor to wait for."""

    def send(self, data: bytes) -> None:
        """Hear what the tool says, and answer it."""
        for heard in self._side.receive(data):
            if isinstance(heard, Wish):
                self._unread.extend(self._answers(heard))
            elif isinstance(heard, Bad):
                self._unread.append(heard.reply)
            elif not isinstance(heard, GivesUp):
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

    def _hear(self, heard: "Finished | Failed | Changed") -> None:
        if isinstance(heard, Changed):
            self.updates.append(heard)
        self.last = heard

    def _answers(self, wish: Wish) -> "list[bytes]":
        self.requests.append(wish)
        if len(self.requests) == self._cancel_at:
            self.cancelled = True
            return [self._side.cancel(), self._answer(wish)]
        return [self._answer(wish)]

    def _answer(self, wish: Wish) -> bytes:
        try:
            return self._side.answer(wish.id, self._service.serve(wish.method, wish.params, Turn()))
        except RequestError as error:
            return self._side.refuse(wish.id, error.number, error.problem, error.data)


def _policy(world: World) -> Policy:
    """Return the policy of one vfs tool with this access, compiled as if it stood in a file."""
    described: dict[str, Any] = {"source": "local", "runtime": "vfs", "command": ["tool"]}
    if world.access is not None:
        described["access"] = world.access
    root = world.project.root
    layer = inline_layer({"tools": {TOOL: described}})
    surroundings = Surroundings(resolve=root.resolve_rule, approved=lambda _path, _target: False, root=root.path)
    compiled = compile_layers([layer], surroundings)
    return Policy(compiled, root, lambda: compiled)


def _guard(policy: Policy) -> Guard:
    """Return a guard that asks nobody and keeps nothing."""
    forgetful: Any = _Forgetful()
    return Guard(policy, forgetful, forgetful, door="harness", now=lambda: "", mask=Mask())


class _Forgetful:
    """Approvals that approve nothing, and a log that is not kept."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def stamp(self) -> tuple[int, ...]:
        return ()

    def refresh(self) -> None:
        """Do nothing: there is nothing that could have changed."""

    def recalls(self, _key: str) -> bool:
        return False

    def append(self, _fields: "Mapping[str, Any]") -> int:
        return 0

    def mask_with(self, _mask: Mask) -> None:
        """Do nothing: nothing is kept."""

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _others(world: World, guard: Guard, scrub: Scrub) -> "dict[str, Any]":
    """Return what serves `http.*` and `process.run`: the real ones, whose ends are made up."""

    def may_use(name: str) -> bool:
        return guard.check(EnvAction(name, TOOL, way=SUBSTITUTE)).allowed

    def envs_of(program: str) -> tuple[str, ...] | None:
        table = guard.policy.compiled.policy.tool(TOOL).access.commands
        rule = table.rules.get(program) if isinstance(table, CommandTable) else None
        return None if rule is None else rule.envs

    client: Any = _Servers(world.http)
    web = Web(guard, TOOL, client, world.env, scrub, may_use=may_use)
    programs = _Programs(world, guard, scrub, may_use, envs_of)
    return {**dict.fromkeys(web.methods, web.serve), **dict.fromkeys(programs.methods, programs.serve)}


class _Servers:
    """Answers requests from a table, or says that it has no answer."""

    def __init__(self, pages: "Mapping[str, Page]") -> None:
        self._pages = pages

    def request(self, _permit: object, ask: Ask, _rules: object, **_options: object) -> Reply:
        if ask.url not in self._pages:
            problem = f"the harness has no reply for {quoted(ask.url)}"
            raise RequestError(problem, hint="add it to `http`", number=INTERNAL_ERROR)
        page = self._pages[ask.url]
        said = page(ask) if callable(page) else page
        if isinstance(said, HttpReply):
            return Reply(said.status, said.headers, said.data, said.url or ask.url)
        return Reply(200, (), said.encode() if isinstance(said, str) else said, ask.url)


class _Programs(Processes):
    """Runs made-up programs."""

    def __init__(
        self,
        world: World,
        guard: Guard,
        scrub: Scrub,
        may_use: "Callable[[str], bool]",
        envs_of: "Callable[[str], tuple[str, ...] | None]",
    ) -> None:
        super().__init__(guard, TOOL, _no_box, world.env, scrub, may_use=may_use, envs_of=envs_of)
        self._programs = world.programs

    def _run(self, permit: "Any", _given: object, _turn: object) -> Said:
        program = self._programs.get(permit.action.program)
        if program is None:
            problem = f"the harness has no program {quoted(permit.action.program)}"
            raise RequestError(problem, hint="add it to `programs`", number=NOT_FOUND)
        said = program(list(permit.action.args)) if callable(program) else program
        done = Completed(said, "", 0) if isinstance(said, str) else said
        return Said(_bytes(done.stdout), _bytes(done.stderr), done.exit_code)


def _no_box() -> "Any":
    raise AssertionError("the harness starts no real program")


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
