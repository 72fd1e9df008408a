"""A host of hostile tools, in this process or another, and whether anything of them is left."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.toolhost import host
from byleave.toolhost.authorize import WithRunModes
from byleave.toolhost.deadline import AnnouncingAsker, Deadline
from byleave.toolhost.host import ToolHost, ToolInvocation
from byleave.toolhost.limits import Timing
from byleave.toolhost.outcome import outcome_tree
from command import COMMAND, PATIENCE, Done
from sandbox.machine import PYTHON, alive
from toolhost.workshop import toml

if TYPE_CHECKING:
    from byleave.guard.evaluation import Asker

TOOLS = Path(__file__).with_name("hostile_tools.py")
ACCESS: dict[str, Any] = {
    "fs": [
        {"path": ".", "read": True, "write": True},
        {"path": "denied.txt", "read": False, "write": False},
    ],
    "net": [{"host": "127.0.0.1", "allow": True}],
    "commands": {"sleep": {}, "no-such": {}},
}
FILES = {
    "a.txt": "hello",
    "spare.txt": "x",
    "large.txt": "x" * (1 << 20),
    "denied.txt": "secret",
    "asked/there.txt": "x",
}
KEPT = "placeholders.lock"  # that every sandbox holds until its host is closed
FOLDING = "audit.fold.lock"
SOON = 30.0  # seconds until what was ended is gone
RULES = [{"ask": {"path": "asked/**", "ops": ["create", "update", "delete"]}}]


def tool(behaviour: str, *words: str, **more: Any) -> dict[str, Any]:
    """Return the configuration of a tool that behaves like this."""
    limits = {"request_timeout": 20.0, "cancel_timeout": 0.3, **more.pop("limits", {})}
    usual = {"source": "local", "runtime": "vfs", "access": ACCESS, "run": "unattended"}
    return {**usual, "command": [PYTHON, "-IS", str(TOOLS), behaviour, *words], "limits": limits, **more}


@dataclass(frozen=True)
class House:
    """A workspace at `root` with some tools; its policy lies beside it, and so does a directory for passing things."""

    root: Path
    names: tuple[str, ...]

    @classmethod
    def build(cls, base: Path, tools: dict[str, dict[str, Any]], **more: Any) -> "House":
        root = base / "ws"
        root.mkdir()
        for name, content in FILES.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(content)
        tree = {"rules": RULES, **more, "tools": {"good": tool("well_behaved"), **tools}}
        (base / "policy.toml").write_text("".join(f"{key} = {toml(value)}\n" for key, value in tree.items()))
        return cls(root, tuple(tools))

    @property
    def policy(self) -> str:
        return str(self.root.parent / "policy.toml")

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--root", str(self.root), "--policy", self.policy)

    @contextmanager
    def host(self, asker: "Asker | None" = None) -> Iterator["Hosting"]:
        """Host the tools in this process; in the end not even a sandbox is kept."""
        before = descriptors()
        with self._host(asker) as hosting:
            yield hosting
        assert descriptors() == before

    @contextmanager
    def _host(self, asker: "Asker | None") -> Iterator["Hosting"]:
        workspace = Workspace(str(self.root))
        policy: Any = WithRunModes(workspace.load(files=[self.policy]), by_hand=True)
        asking = None if asker is None else AnnouncingAsker(asker)
        with guard_for(
            workspace, "call", files=[self.policy], asker=asking, policy=policy, client_approves=None
        ) as guard:
            made = ToolHost(workspace, guard)
            try:
                yield Hosting(made)
            finally:
                made.close()

    def start(self, *words: str, **streams: Any) -> "subprocess.Popen[bytes]":
        """Start `byleave call` in a session of its own."""
        usual = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*COMMAND, "call", *words, "--json", "--no-input", *self.flags],
            **{**usual, **streams},
            start_new_session=True,
        )

    def wait_for(self, name: str, content: str | None = None) -> None:
        """Wait until a tool has written a file."""
        path = self.root / name
        eventually(lambda: path.exists() and content in (None, path.read_text()), f"{name} was never written")


@dataclass(frozen=True)
class Hosting:
    """A host in this process."""

    host: ToolHost

    def call(
        self, name: str, arguments: dict[str, Any] | None = None, cancel: Deadline | None = None
    ) -> dict[str, Any]:
        return outcome_tree(self.host.execute(ToolInvocation(name, arguments or {}), cancel or Deadline()))

    def call_in_time(
        self, name: str, begins: Callable[[float], None] = lambda _seconds: None
    ) -> tuple[dict[str, Any], float]:
        """Call a tool with so much time between two requests that it asks in time, however busy the machine is.

        Return the outcome, and that time. `begins` gets the time of each try.
        """
        for seconds in (0.5, 2.0, 8.0, 32.0):
            begins(seconds)
            with patch.object(host, "timing_of", lambda _tool, seconds=seconds: Timing(seconds, 0.3)):
                outcome = self.call(name)
            if outcome != silent(seconds):
                break
        return outcome, seconds

    def is_well(self) -> None:
        """Serve a tool that behaves."""
        assert self.call("good") == said("hello")


def said(text: str) -> dict[str, Any]:
    return {"outcome": "completed", "content": [{"type": "text", "text": text}]}


def silent(seconds: float) -> dict[str, Any]:
    return failed(f"the tool was ended: it asked for nothing and did not finish for {seconds:g} seconds")


def unread(seconds: float) -> dict[str, Any]:
    return failed(f"the tool was ended: it did not read what it was sent for {seconds:g} seconds")


def failed(message: str) -> dict[str, Any]:
    return {"outcome": "error", "message": message, "trace": [], "transient": False}


def eventually(
    holds: Callable[[], object], otherwise: str = "it never came to that", *, within: float = PATIENCE
) -> None:
    """Look until something holds, for a bounded time."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.005)


def tool_processes(*, of: int | None = None) -> list[int]:
    """Return the processes of hostile tools that still run: those that this process, or `of`, has started."""
    root = os.getpid() if of is None else of
    return [process for process in alive(str(TOOLS)) if root in ancestors(process) or (of is None and _orphan(process))]


def ancestors(process: int) -> list[int]:
    found = []
    while process > 1:
        try:
            process = int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        found.append(process)
    return found


def _orphan(process: int) -> bool:
    return ancestors(process) == [1]


def descriptors() -> list[str]:
    """Return where the descriptors of this process lead; but not the one of `/`, which is opened once for all."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            found.append(os.readlink(f"/proc/self/fd/{name}").split(":")[0])
    return sorted(each for each in found if each != "/")


@dataclass(frozen=True)
class Belongings:
    """What this process holds: descriptors, threads, children, and files where it may leave some."""

    descriptors: tuple[str, ...]
    threads: int
    children: int
    tools: int
    files: tuple[str, ...]

    @property
    def folds(self) -> bool:
        """Whether the audit log is at work on its own, and holds more than it keeps."""
        return any(name.endswith(FOLDING) for name in self.descriptors)

    @classmethod
    def now(cls, *places: Path) -> "Belongings":
        files = [str(path) for place in (*places, Path(tempfile.gettempdir())) for path in place.rglob("*")]
        return cls(
            tuple(name for name in descriptors() if not name.endswith(KEPT)),
            threading.active_count(),
            len(processes_below(os.getpid())),
            len(tool_processes()),
            tuple(sorted(files)),
        )


def processes_below(process: int) -> list[int]:
    """Return every process that a process, or one of those, has started and not waited for."""
    found = []
    with suppress(OSError):  # it may end meanwhile
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                for name in map(int, (task / "children").read_text().split()):
                    found += [name, *processes_below(name)]
    return found


@contextmanager
def nothing_left(*places: Path) -> Iterator[None]:
    """Hold the test to leaving nothing: not a process, a thread, a descriptor or a file."""
    deadline = time.monotonic() + SOON
    while (before := Belongings.now(*places)).folds and time.monotonic() < deadline:
        time.sleep(0.005)
    yield
    deadline = time.monotonic() + SOON
    while (after := Belongings.now(*places)) != before and time.monotonic() < deadline:
        time.sleep(0.005)
    assert asdict(after) == asdict(before), {
        name: (was, is_)
        for (name, was), is_ in zip(asdict(before).items(), asdict(after).values(), strict=True)
        if was != is_
    }


@contextmanager
def ended(process: "subprocess.Popen[bytes]") -> Iterator["subprocess.Popen[bytes]"]:
    """Have a process ended, whatever happens."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def done(process: "subprocess.Popen[bytes]") -> Done:
    """Wait for the end of a process, and return how it ended."""
    out, err = process.communicate(timeout=PATIENCE)
    return Done(process.returncode, (out or b"").decode(), (err or b"").decode())


@dataclass(frozen=True)
class Kept:
    """A `byleave call --keep` that answers lines."""

    process: "subprocess.Popen[bytes]"

    def ask(self, **arguments: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def until(self, state: dict[str, Any], **arguments: Any) -> None:
        """Fetch until it stands like this."""
        last: list[Any] = []

        def stands() -> bool:
            last[:] = [self.ask(action="fetch", **arguments)]
            return bool(last[0].get("state") == state)

        try:
            eventually(stands)
        except AssertionError:
            assert last[0].get("state") == state  # which says how it does


def memory(process: int | str = "self", kind: str = "VmRSS") -> int:
    """Return how many bytes of memory a process has, or by `VmHWM` had at most."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(kind)


def forget_peak() -> None:
    """Let the most memory that this process ever had be what it has now."""
    Path("/proc/self/clear_refs").write_text("5")
