"""The tools of this workspace as an MCP server, `local`: listed like any server's, run by the tool host.

Whether a call may run is decided before it comes here (`toolhost.authorize.WithRunModes` gives the run mode its say);
what a tool asks for while it runs is evaluated by the guard, on behalf of the caller. A tool host belongs to one
caller, and so do its sandboxes, its tools that stay and the secrets it has used: no caller meets those of another.

The tool host waits, so every call has a thread. A call that is cancelled is over when its tool is.

    cancelled -> the tool is asked to stop -> SIGTERM -> SIGKILL, `cancel_timeout` apart

Start at `LocalTools.call`. What it returns is ready for the client, but for a tool's question: `NeedsInput`. Blocks
that a tool writes have MCP's shapes already; one that no client could read becomes a text that says all of it.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.gateway.client_questions import ASKER
from byleave.gateway.redact import without_escapes
from byleave.guard.evaluation import CANCELLED, NO_PERSON, SILENCE, Who
from byleave.protocol.content import text_block
from byleave.text import quoted, shown, speakable
from byleave.toolhost.authorize import SKIP
from byleave.toolhost.deadline import AnnouncingAsker, Deadline, current_deadline
from byleave.toolhost.description import (
    NOTHING,
    PATIENCE,
    SelfDescription,
    description_of,
    file_stamps,
    input_schema,
    is_asked,
)
from byleave.toolhost.handles import Handles
from byleave.toolhost.host import ToolHost, ToolInvocation
from byleave.toolhost.limits import timing_of
from byleave.toolhost.outcome import CompletedOutcome, FailedOutcome, NeedsInput, StateOutcome, broken, outcome_tree
from byleave.toolhost.process import OWN_TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future
    from typing import Any

    from byleave.guard.evaluation import Asker, AsyncAsker, Question
    from byleave.guard.guard import Guard
    from byleave.policy.compile import CompiledTool
    from byleave.policy.load import Workspace
    from byleave.protocol.content import Block
    from byleave.toolhost.outcome import Outcome

    Tree = dict[str, Any]
    Progress = Callable[[float, float | None, str], None]
    Owner = tuple[str, str | None, str]

_MOST_CALLS = 64  # at one time, of all callers together; each has a thread
_MOST_OF_ONE = 16  # of one caller; further ones wait for their turn
_MOST_CALLERS = 64  # whose sandboxes are kept
_MOST_STAYING = 256  # tools that stay, of all callers together
_EVERY = 1.0  # seconds between two notes of progress
_MARGIN = 3.0  # seconds for the ending of a process beyond what it is given
_GRACE = 1.0  # seconds for an answer's own way

_READS = {"readOnlyHint": True, "openWorldHint": False}
_ADDS = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
_CHANGES = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False}
_HINTS: Mapping[str, Mapping[str, bool]] = {  # of the tools that come with byleave; of others nothing is known
    "fs_read_file": _READS,
    "fs_list_files": _READS,
    "fs_grep_files": _READS,
    "unix_utils": _READS,
    "fs_create_file": _ADDS,
    "fs_modify_file": _CHANGES,
    "fs_delete_file": _CHANGES,
    "fs_move_file": _CHANGES,
}


class LocalCaller(Who):
    """The caller of a tool, with the way to ask it while the tool runs."""

    asker: Asker | None = None


class CallerAsker:
    """The asker of the gateway's guard: what a tool needs a person for is put to the client that has called it."""

    name = ASKER

    def ask(self, question: Question, patience: float) -> str:
        """Return the person's reply; there is none where no local tool is running."""
        asker = question.who.asker if isinstance(question.who, LocalCaller) else None
        return NO_PERSON if asker is None else asker.ask(question, patience)


class _ClientAsker:
    """Puts questions of one call to its client, from any thread, as long as that call is not over.

    Where there is no client to ask, they wait for `byleave approvals approve`.
    """

    name = ASKER

    def __init__(self, guard: Guard, asker: AsyncAsker | None, turn: Deadline) -> None:
        self._guard = guard
        self._asker = asker
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self.over = False

    def ask(self, question: Question, patience: float) -> str:
        """Return what the person says."""
        if self._asker is None or self.over:
            with suppress(ByleaveError):  # it is denied either way
                self._guard.await_approval(question)
            return NO_PERSON
        asking = self._asker.ask(question, patience)
        try:
            future: Future[str] = asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # the gateway has ended
            asking.close()
            return NO_PERSON
        for turn in (self._turn, current_deadline()):
            if turn is not None:
                turn.on_cancel(future.cancel)
        try:
            return future.result(patience + _GRACE)
        except TimeoutError:
            future.cancel()
            return SILENCE
        except CancelledError:
            return CANCELLED
        except Exception:  # noqa: BLE001 -- whatever went wrong before the person was asked: there is no yes
            return NO_PERSON


class _CallerTools:
    """What belongs to one caller: a tool host, the tools of it that stay, and how many calls run."""

    def __init__(self, host: ToolHost) -> None:
        self.host = host
        self.handles = Handles(host)
        self.turns = asyncio.Semaphore(_MOST_OF_ONE)
        self.calls = 0

    def is_idle(self) -> bool:
        return not self.calls and not self.handles.running

    def close(self) -> None:
        self.handles.close()
        self.host.close()


class LocalTools:
    """The local tools, for all callers of one gateway. Close it in the end: nothing of any tool is left then."""

    def __init__(
        self,
        workspace: Workspace,
        guard: Guard,
        *,
        note: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`note` takes what the user should know; it is called on the event loop."""
        self._workspace = workspace
        self._guard = guard
        self._note = note
        self._environment = environment
        self._by_owner: dict[Owner, _CallerTools] = {}  # the one that was used last is the last
        self._threads = ThreadPoolExecutor(_MOST_CALLS, thread_name_prefix="byleave-local")
        self._running: set[Deadline] = set()
        self._futures: set[asyncio.Future[Any]] = set()
        self._spawning = Lock()
        self._listed: tuple[object, list[SelfDescription], list[Tree]] = (None, [], [])
        self._asked: dict[str, tuple[object, Future[SelfDescription]]] = {}  # by the tool's name
        self._stop_asking = Deadline()
        self._ask_until = 0.0  # a time of the monotonic clock: no list waits longer
        self._closed = False

    async def definitions(self) -> list[Tree]:
        """Return the tools as MCP lists them; made anew when something has changed. Those that never run are left out.

        What a tool says of itself is waited for, a few seconds at most, once for each content of its files; a tool that
        takes longer is listed without it. Other requests have their turn meanwhile.
        """
        tools = list(self._tools())
        asked = [self._ask(tool) for tool in tools]
        waiting = [future for future in asked if future is not None and not future.done()]
        if waiting:
            patience = max(0.0, self._ask_until - monotonic())
            await asyncio.wait([_watched(future) for future in waiting], timeout=patience)
        said = [NOTHING if future is None or not future.done() else _outcome_of(future) for future in asked]
        compiled = self._guard.policy.compiled
        if self._listed[0] is not compiled or self._listed[1] != said:
            self._listed = compiled, said, [definition(*each) for each in zip(tools, said, strict=True)]
            for tool, each in zip(tools, said, strict=True):
                if each.problem is not None:
                    self._note(f"what the tool {shown(tool.name)} says of itself is not used: {each.problem}")
        return self._listed[2]

    def _tools(self) -> Iterator[CompiledTool]:
        host = ToolHost(self._workspace, self._guard)  # which knows what can be run; nothing of it is started
        for name, tool in self._guard.policy.compiled.tools.items():
            with suppress(InputError):
                if tool.settings.get("run") != SKIP:
                    yield host.tool(name)

    def _ask(self, tool: CompiledTool) -> Future[SelfDescription] | None:
        """Have a tool asked what it is, unless that was done for the files that it has now; None if it is not asked."""
        if self._closed or not is_asked(tool):
            return None
        stamp = tool.settings, file_stamps(self._workspace.root.path, tool.settings["command"])
        known = self._asked.get(tool.name)
        if known is None or known[0] != stamp:
            self._ask_until = monotonic() + PATIENCE + _GRACE
            known = stamp, self._threads.submit(self._hear_of, tool.name)
            self._asked[tool.name] = known
        return known[1]

    def _hear_of(self, name: str) -> SelfDescription:
        host = ToolHost(self._workspace, self._guard, environment=self._environment)
        try:
            return host.self_description(name, self._stop_asking)
        finally:
            host.close()

    async def pin(self, name: str, who: Who, *, principal: str) -> str:
        """Return what a yes to a call of this tool rests on; an InputError if there is no such tool."""
        own = await self._tools_of(principal, who)
        pin: str = await self._in_thread(own, lambda: own.host.pin(name))
        return pin

    async def describe(self, name: str, arguments: Mapping[str, Any], who: Who, *, principal: str) -> str:
        """Return what the tool itself says that a call would do, for people; nothing where it says nothing."""
        own, turn = await self._tools_of(principal, who), Deadline()

        def describe() -> str:
            try:
                return own.host.describe(ToolInvocation(name, arguments, {}, who), turn) or ""
            except (ByleaveError, ConfigErrors):
                return ""

        return without_escapes(await self._in_thread(own, describe, turn))

    async def call(
        self,
        name: str,
        arguments: Tree,
        who: Who,
        *,
        principal: str,
        answers: Mapping[str, str] | None = None,
        pin: str | None = None,
        progress: Progress | None = None,
        asker: AsyncAsker | None = None,
    ) -> Tree | NeedsInput:
        """Run a call that was agreed to, and return its result as MCP has it; a tool's question, where it has one.

        `principal` is whom the session belongs to: tools that stay are for no other. `answers` are what was said to
        the tool's questions so far, by their ids. With `pin`, it must still be the tool that it was. `asker` puts to
        the client what comes up meanwhile. Cancelled, it waits until the tool has ended.
        """
        turn = Deadline()
        asking = _ClientAsker(self._guard, asker, turn)
        calling = LocalCaller(who.agent, who.identity, AnnouncingAsker(asking))
        try:
            own = await self._tools_of(principal, who)
            call = ToolInvocation(name, arguments, answers or {}, calling)
            outcome = await self._in_thread(own, lambda: self._run(own, call, pin, turn), turn, name, progress)
        except (ByleaveError, ConfigErrors) as error:
            outcome = broken(str(error))
        finally:
            asking.over = True
        return outcome if isinstance(outcome, NeedsInput) else result_tree(outcome)

    def _run(self, own: _CallerTools, call: ToolInvocation, pin: str | None, turn: Deadline) -> Outcome:
        """Run a call to its end, in a thread of its own."""
        host = own.host
        tool = host.tool(call.tool)
        if pin is not None and pin != host.pin(call.tool):
            return broken("the tool has changed since this was agreed to; call it again")
        if not tool.settings.get("stateful") or "action" not in call.arguments:
            return host.execute(call, turn)
        if call.arguments["action"] != "spawn":
            return own.handles.act(tool, call.arguments, call.who, call.answers)
        with self._spawning:
            if self._closed or sum(each.handles.running for each in list(self._by_owner.values())) >= _MOST_STAYING:
                return broken("too many tools run already: stop one of them first", transient=True)
            return own.handles.act(tool, call.arguments, call.who, call.answers)

    async def _in_thread(
        self,
        own: _CallerTools,
        work: Callable[[], Any],
        turn: Deadline | None = None,
        name: str = "",
        progress: Progress | None = None,
    ) -> Any:
        """Do some work of one caller in a thread; cancelled, have it stopped, and wait for its end."""
        own.calls += 1
        try:
            async with own.turns:
                return await self._attend(own, work, turn or Deadline(), name, progress)
        finally:
            own.calls -= 1

    async def _attend(
        self, own: _CallerTools, work: Callable[[], Any], turn: Deadline, name: str, progress: Progress | None
    ) -> Any:
        if self._closed:
            raise _ended()
        started = self._threads.submit(work)
        future = asyncio.wrap_future(started)
        self._running.add(turn)
        self._futures.add(future)
        future.add_done_callback(lambda _done: self._forget(turn, future))
        try:
            await _wait(future, name, progress)
        except asyncio.CancelledError:
            turn.cancel()
            if not started.cancel():
                await asyncio.wait([future], timeout=_longest_ending(own.host, name))
            raise
        if future.cancelled():
            raise _ended()
        return future.result()

    def _forget(self, turn: Deadline, future: asyncio.Future[Any]) -> None:
        self._running.discard(turn)
        self._futures.discard(future)
        if not future.cancelled():
            future.exception()  # it counts as read: the caller that waited may be gone

    async def _tools_of(self, principal: str, who: Who) -> _CallerTools:
        """Return what belongs to a caller; made when they first come, and given up when too many others came since."""
        if self._closed:
            raise _ended()
        owner = principal, who.agent, who.identity
        own = self._by_owner.pop(owner, None)
        if own is None:
            own = _CallerTools(ToolHost(self._workspace, self._guard, environment=self._environment))
        self._by_owner[owner] = own
        own.calls += 1  # so that it is not given up meanwhile
        try:
            await self._make_room()
        except ByleaveError:
            self._by_owner.pop(owner, None)
            raise
        finally:
            own.calls -= 1
        return own

    async def _make_room(self) -> None:
        while len(self._by_owner) > _MOST_CALLERS:
            idle = next((owner for owner, own in self._by_owner.items() if own.is_idle()), None)
            if idle is None:
                raise InputError("too many callers use local tools at once", hint="try again later")
            await asyncio.to_thread(self._by_owner.pop(idle).close)

    async def close(self) -> None:
        """Stop everything that still runs, and let go of all sandboxes. Nothing is run any more."""
        self._closed = True
        self._stop_asking.cancel()
        for turn in list(self._running):
            turn.cancel()
        if self._futures:
            longest = max((_longest_ending(own.host, "") for own in self._by_owner.values()), default=_MARGIN)
            await asyncio.wait(list(self._futures), timeout=longest)
        all_tools, self._by_owner = list(self._by_owner.values()), {}
        await asyncio.gather(*(asyncio.to_thread(own.close) for own in all_tools))
        await asyncio.to_thread(wait, [future for _stamp, future in self._asked.values()], timeout=_MARGIN)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _watched(future: Future[SelfDescription]) -> asyncio.Future[SelfDescription]:
    """Return a future that the event loop can wait for; whether it went well is looked at elsewhere."""
    watched = asyncio.wrap_future(future)
    watched.add_done_callback(lambda done: done.cancelled() or done.exception())
    return watched


def _outcome_of(future: Future[SelfDescription]) -> SelfDescription:
    """Return what a tool said of itself; nothing, if asking it failed."""
    return NOTHING if future.cancelled() or future.exception() is not None else future.result()


def _ended() -> InputError:
    return InputError("the gateway is ending", hint="start it again")


def _longest_ending(host: ToolHost, name: str) -> float:
    """Return how long it takes at most until a tool that was cancelled is gone; without a name, the slowest tool."""
    tools = host.guard.policy.compiled.tools
    asked = [tools[name]] if name in tools else list(tools.values())
    return 2 * max((timing_of(tool).cancel for tool in asked), default=0.0) + _MARGIN


async def _wait(future: asyncio.Future[Any], name: str, progress: Progress | None) -> None:
    """Wait for the end, and report progress now and then."""
    begun = monotonic()
    while not (await asyncio.wait([future], timeout=None if progress is None else _EVERY))[0]:
        if progress is not None:
            took = monotonic() - begun
            progress(round(took, 3), None, f"{shown(name)} has run for {took:.0f} s")


def definition(tool: CompiledTool, said: SelfDescription = NOTHING) -> Tree:
    """Return a local tool as MCP describes one; `said` is what the tool says of itself."""
    command = tool.settings.get("command") or [""]
    own = command[1] if command[0] == OWN_TOOLS and len(command) > 1 else ""
    tree = {
        "name": tool.name,
        "description": description_of(tool, said),
        "inputSchema": {"type": "object", **input_schema(tool, said)},
    }
    if own in _HINTS and not tool.settings.get("stateful"):
        tree["annotations"] = dict(_HINTS[own])
    cleaned: Tree = speakable({key: value for key, value in tree.items() if value != ""})
    return cleaned


def result_tree(outcome: Outcome) -> Tree:
    """Return an outcome as the result of an MCP call."""
    tree: Tree
    if isinstance(outcome, CompletedOutcome):
        tree = {"content": [_block(block) for block in outcome.content], "isError": False}
    elif isinstance(outcome, StateOutcome):
        tree_of_outcome = outcome_tree(outcome)
        tree = {
            "content": [text_block(_written(tree_of_outcome))],
            "structuredContent": tree_of_outcome,
            "isError": False,
        }
    elif isinstance(outcome, FailedOutcome):
        failure = outcome.failure
        text = "\n".join([failure.message, *failure.trace])
        tree = {"content": [text_block(text)], "structuredContent": outcome_tree(outcome), "isError": True}
    elif isinstance(outcome, NeedsInput):
        text = f"the tool has a question: {outcome.question['text']}"
        blocks = [*map(_block, outcome.content), text_block(text)]
        tree = {"content": blocks, "structuredContent": outcome_tree(outcome), "isError": True}
    else:
        tree = {"content": [text_block("the call was cancelled")], "isError": True}
    cleaned: Tree = speakable(tree)
    return cleaned


def question_form(name: str, needs: NeedsInput) -> Tree:
    """Return a tool's question as the parameters of an MCP elicitation: one text, named `answer`."""
    question = needs.question
    choices = question.get("options", question.get("choices"))
    answer: Tree = {"type": "string", "title": "Answer"}
    if isinstance(choices, list) and choices:
        answer["enum"] = list(dict.fromkeys(str(choice) for choice in choices))
    form: Tree = speakable(
        {
            "message": without_escapes(f"The local tool {quoted(name)} has a question: {question['text']}"),
            "requestedSchema": {"type": "object", "properties": {"answer": answer}, "required": ["answer"]},
        }
    )
    return form


def answer_in(content: object) -> str | None:
    """Return the answer in what a client sends back for `question_form`; None if it holds none."""
    answer = content.get("answer") if isinstance(content, dict) else None
    return answer if isinstance(answer, str) else None


# What a block of each kind must have for an MCP client to read it.
_BLOCKS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


def _block(block: Block) -> Block:
    """Return a block as it is, if MCP has such blocks; else a text that says all of it."""
    kind = block["type"]
    known = _is_resource(block.get("resource")) if kind == "resource" else _has_texts(block, _BLOCKS.get(kind))
    return block if known else text_block(_written(block))


def _is_resource(tree: object) -> bool:
    return isinstance(tree, dict) and any(_has_texts(tree, ("uri", content)) for content in ("text", "blob"))


def _has_texts(tree: Tree, names: tuple[str, ...] | None) -> bool:
    return names is not None and all(isinstance(tree.get(name), str) for name in names)


def _written(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)
