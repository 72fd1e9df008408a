"""Try a tool out, in the same process and without touching anything: files in memory, the real policy, the real bytes.

    from byleave.sdk.testing import Harness

    def test_lines_are_counted():
        harness = Harness({"a.txt": "one, two"})
        assert harness.call(count_lines, {"path": "a.txt"}).text == "1"

`access` is what the tool's configuration would say; None is the default of a mediated tool, which may read files and
nothing else; "all" allows everything there is in the harness.
"""

from byleave.record import Record
from byleave.sdk.testing_host import HarnessHost, World, open_access
from byleave.sdk.tool import Tool
from byleave.sdk.vfs import Host
from byleave.sdk.vfs_errors import QuestionAsked
from byleave.sdk.vfs_talk import Talk
from byleave.toolhost.conversation import Ending
from byleave.toolhost.host import outcome_of
from byleave.toolhost.outcome import NeedsInput, outcome_tree
from byleave.wire.blocks import WAITING, update_tree
from byleave.workspace.in_memory import ProjectInMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from byleave.sdk.testing_host import Page, Program

COMPLETED, ERROR, NEEDS_INPUT, CANCELLED = "completed", "error", "needs_input", "cancelled"


class Asked(Record):
    """A request that the tool made."""

    method: str
    params: "Mapping[str, Any]"


class Outcome(Record):
    """What came of a call. `tree` is what `byleave call --json` would print; `states` what a stateful tool said."""

    tree: "dict[str, Any]"
    states: "tuple[dict[str, Any], ...]" = ()

    @property
    def kind(self) -> str:
        """`completed`, `error`, `needs_input` or `cancelled`."""
        return str(self.tree["outcome"])

    @property
    def content(self) -> "list[dict[str, Any]]":
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
    def question(self) -> "dict[str, Any] | None":
        """What the tool wants to know; None if it asks nothing."""
        return self.tree.get("question")


class Harness:
    """A small world for a tool. Calls change its files; `requests` are those of the last call.

    `http` has a reply for each URL, `programs` one for each name: a text, a whole reply, or a function that makes one.
    """

    def __init__(
        self,
        files: "Mapping[str, str | bytes] | None" = None,
        *,
        access: "Mapping[str, Any] | str | None" = None,
        answers: "Mapping[str, Any] | None" = None,
        options: "Mapping[str, Any] | None" = None,
        env: "Mapping[str, str] | None" = None,
        http: "Mapping[str, Page] | None" = None,
        programs: "Mapping[str, Program] | None" = None,
    ) -> None:
        if isinstance(access, str):
            if access != "all":
                raise ValueError('access is a table as in the configuration, "all", or None')
            access = open_access(http or {}, programs or {})
        self._world = World(ProjectInMemory(files), access, env or {}, http or {}, programs or {})
        self._answers = dict(answers or {})
        self._options = dict(options or {})
        self.requests: list[Asked] = []

    @property
    def files(self) -> "dict[str, str | bytes]":
        """The files as they are now; what is not UTF-8 is bytes."""
        return dict(_everything(self._world.project, ""))

    def call(
        self,
        tool: "Tool | Callable[[Host], Any]",
        arguments: "Mapping[str, Any] | None" = None,
        *,
        action: str = "run",
        inputs: "Sequence[Any]" = (),
        cancel_at: int | None = None,
    ) -> Outcome:
        """Run a tool, or a function that takes a host, and return what came of it.

        `inputs` are given to a stateful tool one after the other, when it waits. `cancel_at`: at that request, the host
        asks the tool to stop. What a plain function raises is raised here.
        """
        name = tool.name if isinstance(tool, Tool) else tool.__name__
        told = {"name": name, "arguments": dict(arguments or {}), "answers": self._answers, "options": self._options}
        host = HarnessHost(self._world, told, action, inputs, cancel_at)
        try:
            _run(tool, host)
        except QuestionAsked:
            pass
        finally:
            self.requests = [Asked(wish.method, wish.params) for wish in host.requests]
        return _outcome(host)


def _run(tool: "Tool | Callable[[Host], Any]", wire: HarnessHost) -> None:
    if not isinstance(tool, Tool):
        host = Host(Talk(wire))
        content = tool(host)
        if content is not None and not host.ended:
            host.result(content)
    elif tool.is_async:
        import asyncio

        from byleave.sdk.vfs_async import AsyncHost

        async def main() -> None:
            await tool.serve_async(AsyncHost(Talk(wire)))

        asyncio.run(main())
    else:
        tool.serve(Host(Talk(wire)))


def _outcome(host: HarnessHost) -> Outcome:
    states = tuple(update_tree(changed.update) for changed in host.updates)
    last = states[-1] if states else None
    if last is not None and last["type"] == WAITING:
        return Outcome(outcome_tree(NeedsInput(last["question"])), states)
    ending = Ending(host.last, host.cancelled, 0, "the tool ended without a result" if host.last is None else "")
    return Outcome(outcome_tree(outcome_of(ending)), states)


def _everything(project: ProjectInMemory, directory: str) -> "list[tuple[str, str | bytes]]":
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
