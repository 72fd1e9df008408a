"""While an agent's own file tool runs, the confined commands of the workspace are stopped."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import amounts
from byleave.errors import StateError
from byleave.hooks.pausing import NOT_STOPPED, pause
from byleave.policy.dirs import find_homes
from byleave.sandbox.stopping import process_facts
from byleave.store.live_runs import LONGEST, Gate, Hold, LiveRun, live_runs
from byleave.store.tickets import Ticket, issue, new_id
from command import COMMAND
from hooks.hook_scene import HookScene, claude
from sandbox.machine import as_nobody, needs_sandbox
from sandbox.session_scene import eventually

pytestmark = needs_sandbox

RULES = """
[shell]
confine = "auto"

[[rules]]
allow = { path = "src/**", ops = ["read", "create", "update"] }

[[rules]]
allow = { any_command = true }
sandbox = true
"""
ATTEMPTS = amounts.of(60, 12)
SECRET = "SECRET"
# Exchanges a file of the workspace and a link out of it, about every millisecond.
SWAPPER = """
import os, sys, time
secret, end = sys.argv[1], time.monotonic() + 120
while time.monotonic() < end:
    os.symlink(secret, 'src/link'); os.rename('src/link', 'src/notes.txt')
    time.sleep(0.001)
    open('src/plain', 'w').write('plain'); os.rename('src/plain', 'src/notes.txt')
    time.sleep(0.001)
    open('src/ready', 'w')
"""
# Counts, and says how far it got. With a timer, the kernel sends it SIGCONT again and again.
COUNTER = """
import ctypes, os, sys, time
if 'timer' in sys.argv:
    class Event(ctypes.Structure):
        _fields_ = [('value', ctypes.c_void_p), ('numbers', ctypes.c_int * 14)]
    libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
    assert libc.timer_create(1, ctypes.byref(Event(None, (18,))), ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 5_000_000, 0, 5_000_000), None) == 0
def count():
    for number in range(1_000_000):
        open('src/new', 'w').write(str(number)); os.rename('src/new', 'src/count')
        time.sleep(0.002)
if 'thread' in sys.argv:
    import threading
    threading.Thread(target=count).start()
    ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)  # ends the first thread alone
if 'undumpable' in sys.argv:
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
if 'chain' in sys.argv:  # each forks the next one and ends; some stop by themselves before
    for number in range(1_000_000):
        open('src/new', 'w').write(str(number)); os.rename('src/new', 'src/count')
        if os.fork():
            if 'fast' not in sys.argv:
                time.sleep(0.0005)
            if number and number % 16 == 0 and number < 1600:
                os.kill(os.getpid(), 19)
            if number:
                os._exit(0)
            time.sleep(600)
if 'vfork' in sys.argv:
    import subprocess
    for number in range(1_000_000):
        subprocess.run(['/bin/sh', '-c', 'echo $$ > src/new$$; mv src/new$$ src/count'])
count()
"""


class PausedScene(HookScene):
    """A workspace in which a confined command runs in the background."""

    @property
    def state(self) -> str:
        return find_homes({"HOME": str(self.home)}).workspace(str(self.root))

    @property
    def runs_directory(self) -> Path:
        return Path(self.state, "runs")

    @contextmanager
    def command(self, text: str, ready: str = "src/ready", *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command line confined until the end of the block; it makes the file `ready` itself."""
        process = subprocess.Popen(
            [*COMMAND, "run", "--root", str(self.root), "--no-input", *options, f"--shell={text}"],
            cwd=self.root,
            env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
            | {"HOME": str(self.home)},
        )
        try:
            eventually((self.root / ready).exists)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def counting(self, *how: str) -> Any:
        (self.root / "count.py").write_text(COUNTER)
        (self.root / "src" / "count").unlink(missing_ok=True)
        return self.command(f"exec python3 count.py {' '.join(how)}", "src/count")

    @property
    def count(self) -> bytes:
        return (self.root / "src" / "count").read_bytes()

    def goes_on(self) -> bool:
        before = self.count
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if self.count != before:
                return True
            time.sleep(0.01)
        return False

    def stands_still(self, seconds: float = 0.3) -> bool:
        before = self.count
        time.sleep(seconds)
        return self.count == before

    def says_of(self, tool: str = "Read", name: str = "src/old.txt", call: str = "toolu_1") -> bytes:
        given = {"file_path": str(self.root / name), "content": "x"}
        return self.runs("claude-code", feed=claude(tool, given, self.root, tool_use_id=call)).stdout

    def reports(self, tool: str = "Read", name: str = "src/old.txt", call: str = "toolu_1") -> None:
        given = {"file_path": str(self.root / name), "content": "x"}
        event = claude(tool, given, self.root, tool_use_id=call, hook_event_name="PostToolUse", tool_response={})
        done = self.runs("claude-code", "--only", "outcome", feed=event)
        assert done.returncode == 0
        assert done.stderr == b""

    def holds(self) -> list[str]:
        return [name for name in os.listdir(self.runs_directory) if name.startswith(".hold-")]


@pytest.fixture
def scene(tmp_path: Path) -> PausedScene:
    built = PausedScene.build(tmp_path.resolve(), RULES)
    assert isinstance(built, PausedScene)
    return built


def test_what_the_hook_allowed_is_what_the_agent_opens_however_fast_a_command_exchanges_it(scene: PausedScene) -> None:
    secret = scene.home / "private.txt"
    secret.write_text(SECRET)
    (scene.root / "swap.py").write_text(SWAPPER)
    notes = scene.root / "src" / "notes.txt"
    notes.write_text("plain")
    allowed = leaked = 0
    with scene.command(f"exec python3 swap.py {secret}"):
        for number in range(ATTEMPTS):
            call = f"toolu_{number}"
            if b'"allow"' in scene.says_of(name="src/notes.txt", call=call):
                allowed += 1
                leaked += SECRET in notes.read_text()
                scene.reports(name="src/notes.txt", call=call)
    assert leaked == 0
    assert allowed > 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["", "timer", "thread", "vfork", "undumpable"])
def test_a_command_stands_still_until_the_outcome_is_reported(how: str, scene: PausedScene) -> None:
    with scene.counting(how):
        assert b'"allow"' in scene.says_of()
        assert scene.stands_still()
        scene.reports()
        assert scene.goes_on()
        assert scene.holds() == []


@pytest.mark.parametrize("how", ["chain", "fast chain"])
def test_processes_that_fork_faster_than_they_are_found_are_stopped_or_asked_about(
    how: str, scene: PausedScene
) -> None:
    with scene.counting(how):
        for _ in range(5):
            found = pause(scene.state)
            if not isinstance(found, Hold):
                assert found == NOT_STOPPED
                continue
            found.keep("call")
            assert scene.stands_still(0.2)
            found.release()


def test_commands_of_an_ordinary_user_are_stopped(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        words, variables = as_nobody(Path(name).resolve() / "home")
        os.chmod(name, 0o755)  # noqa: S103 -- it is to be seen by another user
        program = dedent(
            """
            import sys
            from pathlib import Path
            from hooks.test_pausing import RULES, PausedScene
            base = Path(sys.argv[1])
            base.mkdir()
            scene = PausedScene.build(base, RULES)
            for how in ("", "timer", "undumpable"):
                with scene.counting(how):
                    assert b'"allow"' in (said := scene.says_of()), said
                    assert scene.stands_still(), how
                    scene.reports()
                    assert scene.goes_on(), how
            """
        )
        place = str(Path(name).resolve() / "home" / "scene")
        done = subprocess.run(
            [*words, "-c", program, place], env=variables, cwd=name, capture_output=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr.decode()[-2000:]


def test_a_server_of_a_session_is_stopped_for_an_edit_and_serves_again_after_it(scene: PausedScene) -> None:
    agent = subprocess.Popen(["sleep", "600"])
    try:
        (scene.root / "count.py").write_text(COUNTER)
        server = "python3 -m http.server 8127 --bind 127.0.0.1 >/dev/null 2>&1 & python3 count.py >/dev/null 2>&1 &"
        assert in_session(scene, agent.pid, server) == ""
        eventually((scene.root / "src" / "count").exists)
        for number in range(3):
            assert b'"allow"' in scene.says_of("Write", "src/new.txt", f"toolu_{number}")
            assert scene.stands_still(0.2)
            scene.reports("Write", "src/new.txt", f"toolu_{number}")
        assert scene.goes_on()
        ask = "curl -s --retry 50 --retry-connrefused --retry-delay 0 -o /dev/null -w '%{http_code}' http://127.0.0.1:8127"
        assert in_session(scene, agent.pid, ask) == "200"
    finally:
        agent.kill()
        agent.wait()
    eventually(lambda: not [name for name in os.listdir(scene.runs_directory) if not name.startswith(".")])


def in_session(scene: PausedScene, agent: int, text: str) -> str:
    """Run a command of an agent's session by its ticket, and return its output."""
    facts = process_facts(agent)
    assert facts is not None
    ticket = Ticket(  # noqa: S604 -- the shell that the agent names, no argument of subprocess
        id=new_id(),
        text=text,
        cwd=str(scene.root),
        root=str(scene.root),
        shell="/bin/sh",
        agent="claude-code",
        session="s",
        agent_process=(agent, facts.started),
        created=time.time(),
    )
    issue(scene.state, ticket)
    done = subprocess.run(
        [*COMMAND, "run", "-q", "--root", str(scene.root), "--ticket", ticket.id, "--shell", text],
        cwd=scene.root,
        env={"PATH": os.environ["PATH"], "HOME": str(scene.home)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return (done.stdout + done.stderr).decode()


def test_without_an_outcome_a_command_goes_on_after_the_deadline(scene: PausedScene) -> None:
    with scene.counting():
        assert b'"allow"' in scene.says_of()
        began = time.monotonic()
        assert scene.goes_on()
        assert time.monotonic() - began < LONGEST + 10


@pytest.mark.parametrize(("tool", "name"), [("Read", "other.txt"), ("Write", "byleave.toml")])
def test_what_is_not_allowed_stops_nothing_for_longer_than_the_decision(
    tool: str, name: str, scene: PausedScene
) -> None:
    with scene.counting():
        assert b'"allow"' not in scene.says_of(tool, name)
        began = time.monotonic()
        assert scene.holds() == []
        assert scene.goes_on()
        assert time.monotonic() - began < LONGEST


def test_other_tools_stop_nothing(scene: PausedScene) -> None:
    with scene.counting():
        scene.runs("claude-code", feed=claude("TodoWrite", {"todos": []}, scene.root))
        scene.runs("claude-code", feed=claude("Bash", {"command": "ls"}, scene.root))
        assert not (scene.runs_directory / ".holder").exists() or scene.goes_on()
        assert scene.holds() == []


def test_of_two_calls_at_once_the_later_outcome_counts(scene: PausedScene) -> None:
    with scene.counting():
        for turn in range(20):
            assert b'"allow"' in scene.says_of(call=f"one {turn}")
            began = time.monotonic()
            assert b'"allow"' in scene.says_of(call=f"two {turn}")
            scene.reports(call=f"one {turn}")
            still = scene.stands_still()
            in_time = time.monotonic() - began < LONGEST  # otherwise it goes on without an outcome
            scene.reports(call=f"two {turn}")
            assert scene.goes_on()
            if in_time:
                break
        assert (still, in_time) == (True, True)


def test_all_commands_of_the_workspace_are_stopped_and_a_new_one_waits(scene: PausedScene) -> None:
    with scene.counting(), scene.command("touch src/ready; exec sleep 60"):
        assert len([root for _path, root, alive in live_runs(str(scene.runs_directory)) if root and alive]) == 2
        began = time.monotonic()  # before the hook's answer, from which on the time counts
        assert b'"allow"' in scene.says_of()
        with scene.command("touch src/late; exec sleep 60", "src/late"):
            assert time.monotonic() - began > LONGEST
        assert scene.goes_on()


def test_a_hook_that_is_killed_leaves_nothing_stopped(scene: PausedScene) -> None:
    with scene.counting():
        program = "import os, sys; from byleave.hooks.pausing import pause; pause(sys.argv[1]); os.kill(os.getpid(), 9)"
        done = subprocess.run([sys.executable, "-c", program, scene.state], check=False)
        assert done.returncode == -signal.SIGKILL
        assert scene.stands_still(0.2)
        assert scene.goes_on()


def test_a_holder_that_is_killed_leaves_nothing_stopped_and_its_call_is_not_allowed(scene: PausedScene) -> None:
    with scene.counting():
        hold = held(scene)
        os.kill(holder_of(scene), signal.SIGKILL)
        assert scene.goes_on()
        with pytest.raises(StateError, match="went on"):
            hold.keep("call")
        hold.release()


def held(scene: PausedScene) -> Hold:
    hold = pause(scene.state)
    assert isinstance(hold, Hold)
    return hold


def holder_of(scene: PausedScene) -> int:
    """Return the process that keeps the commands stopped, as the kernel names it to those that it stops."""
    children: Callable[[int], list[int]] = lambda pid: [  # noqa: E731
        int(name) for name in os.listdir("/proc") if name.isdigit() and (f := process_facts(name)) and f.parent == pid
    ]
    (root,) = [root for _path, root, _alive in live_runs(str(scene.runs_directory)) if root is not None]
    (init,) = children(root.pid)
    (program,) = children(init)
    lines = Path(f"/proc/{program}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("TracerPid:"))


def test_what_was_stopped_before_stays_stopped(scene: PausedScene) -> None:
    with scene.counting():
        (root,) = [root for _path, root, _alive in live_runs(str(scene.runs_directory)) if root is not None]
        hold = held(scene)
        tracer = holder_of(scene)
        hold.release()
        eventually(lambda: process_facts(tracer) is None or process_facts(tracer).state == b"Z")  # type: ignore[union-attr]
        subprocess.run(["true"], check=True)
        program = next(
            int(name)
            for name in os.listdir("/proc")
            if name.isdigit() and b"count.py" in words_of(name) and descends(name, root.pid)
        )
        os.kill(program, signal.SIGSTOP)
        eventually(lambda: process_facts(program).state == b"T")  # type: ignore[union-attr]
        assert b'"allow"' in scene.says_of()
        scene.reports()
        assert scene.stands_still(0.5)
        os.kill(program, signal.SIGCONT)
        assert scene.goes_on()


def words_of(process: str) -> bytes:
    """Return the command line of a process; nothing of one that has ended since its name was read."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def descends(name: str, root: int) -> bool:
    facts = process_facts(name)
    while facts is not None and facts.parent > 0:
        if facts.parent == root:
            return True
        facts = process_facts(facts.parent)
    return False


def test_a_command_that_has_ended_is_not_in_the_registry(scene: PausedScene) -> None:
    with scene.command("touch src/ready; exec sleep 60"):
        assert [name for name in os.listdir(scene.runs_directory) if not name.startswith(".")]
    assert [name for name in os.listdir(scene.runs_directory) if not name.startswith(".")] == []


def test_a_stale_entry_is_swept_and_stops_nothing(scene: PausedScene) -> None:
    scene.runs_directory.mkdir(mode=0o700, parents=True)
    os.chmod(scene.state, 0o700)
    entry = scene.runs_directory / "0123456789abcdef"
    entry.write_bytes(b"999999999 1 1 0\n")
    assert b'"allow"' in scene.says_of()
    assert not entry.exists()
    entry.write_bytes(b"")  # it was killed before it started anything
    assert pause(scene.state) is None
    assert not entry.exists()


@pytest.mark.parametrize("locked", ["locked", ""])
def test_a_process_that_got_the_number_of_an_ended_one_is_not_stopped(locked: str, scene: PausedScene) -> None:
    other = subprocess.Popen(["sh", "-c", "sleep 60 & wait"])
    try:
        scene.runs_directory.mkdir(mode=0o700, parents=True)
        facts = process_facts(other.pid)
        assert facts is not None
        entry = scene.runs_directory / "0123456789abcdef"
        here = os.stat("/proc/self/ns/pid").st_ino
        entry.write_bytes(b"%d %d %d 0\n" % (other.pid, facts.started + 1, here))
        with entry.open("r+b") as file:
            if locked:
                fcntl.flock(file, fcntl.LOCK_EX)
            assert pause(scene.state) is None
        assert entry.exists() == bool(locked)
    finally:
        other.kill()
        other.wait()


def test_what_cannot_be_stopped_is_asked_about(scene: PausedScene) -> None:
    live = LiveRun(scene.state, brokered=False)
    live.enter()  # and does not name its first process
    try:
        said = scene.says_of()
    finally:
        live.close()
    assert b'"ask"' in said
    assert NOT_STOPPED.encode() in said
    assert b'"allow"' in scene.says_of()


def test_a_command_without_processes_that_can_be_seen_is_asked_about(scene: PausedScene) -> None:
    with scene.counting():
        (path,) = [path for path, _root, _alive in live_runs(str(scene.runs_directory))]
        pid, started, numbers, brokered = Path(path).read_text().split()
        Path(path).write_text(f"{pid} {started} {int(numbers) + 1} {brokered}\n")  # numbered in another namespace
        assert pause(scene.state) == NOT_STOPPED
        Path(path).write_text("")
        assert pause(scene.state) == NOT_STOPPED


def test_a_command_that_is_diagnosed_is_asked_about(scene: PausedScene) -> None:
    with scene.command("touch src/ready; exec sleep 60", "src/ready", "--diagnose"):
        assert pause(scene.state) == NOT_STOPPED


def test_a_command_whose_programs_are_started_for_it_is_asked_about(scene: PausedScene) -> None:
    listed = "".join(f'[shell.access.commands.{name}]\nargs = [["**"]]\n' for name in ("sleep", "touch"))
    (scene.home / ".config" / "byleave" / "config.toml").write_text(RULES + listed)
    with scene.command("touch src/ready; exec sleep 60"):
        assert pause(scene.state) == NOT_STOPPED


def test_while_another_hook_has_the_gate_it_is_not_waited_for_without_end(scene: PausedScene) -> None:
    with scene.counting(), Gate(str(scene.runs_directory)) as gate:
        assert gate.enter(0)
        assert pause(scene.state, patience=0.05) == NOT_STOPPED
