"""`byleave call` through the service: the same outcome, the caller's signals, and an end with the caller."""

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from byleave import caller
from byleave.cli.arguments import read_arguments
from byleave.cli.call_command import CallRunner
from byleave.cli.commands import COMMON, ROOT
from byleave.cli.terminal import ancestors
from byleave.core.self_protection import holds_in_sandbox, is_door
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from byleave.service.protocol import is_served
from byleave.toolhost.outcome import CancelledOutcome
from command import byleave
from hooks.hook_scene import HookScene
from sandbox.machine import needs_sandbox
from sandbox.session_scene import eventually
from service.served import PATIENCE, RefusedError, TestService, capturing, go, last_word, variables

pytestmark = needs_sandbox

# A tool that says where it is, reads a file if it is told to, or goes on until it is ended.
TOOL = """
import json, os, sys, time
call = json.loads(sys.stdin.readline())
given = call["params"]["tool"]["arguments"]
def ask(method, **params):
    print(json.dumps({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}), flush=True)
    return json.loads(sys.stdin.readline())


number = 0
while given.get("stays"):
    number += 1
    ask("fs.write", path="src/beat", content=str(number))
    time.sleep(0.05)
if "reads" in given:
    answer = ask("fs.read", path=given["reads"])
    content = json.dumps(answer.get("result", answer.get("error", {}).get("message")))
else:
    content = os.getcwd() + " " + os.environ.get("LC_ALL", "")
print(json.dumps({"jsonrpc": "2.0", "method": "result", "params": {"content": content}}), flush=True)
"""
RULES = """
[[rules]]
deny = { path = "src/secret.txt" }

[[rules]]
deny = { call = { tool = "refused" } }

[tools.plain]
source = "local"
runtime = "vfs"
command = ["/usr/bin/python3", "-IS", "src/tool.py"]
access.fs = [{ path = ".", read = true }, { path = "src", read = true, create = true, update = true }]

[tools.refused]
source = "local"
runtime = "vfs"
command = ["/usr/bin/python3", "-IS", "src/tool.py"]
"""


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    scene = HookScene.build(tmp_path.resolve(), RULES)
    (scene.root / "src" / "secret.txt").write_text("SECRET")
    (scene.root / "src" / "plain.txt").write_text("plain")
    (scene.root / "src" / "tool.py").write_text(TOOL)
    return scene


CALLS = (
    ("plain",),
    ("plain", '{"reads": "src/plain.txt"}'),
    ("plain", '{"reads": "src/secret.txt"}', "--json"),
    ("refused",),
    ("missing",),
    ("plain", "no json"),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_call_ends_as_it_does_by_itself(words: tuple[str, ...], running: TestService, scene: HookScene) -> None:
    env = variables(scene)
    called = ("call", *words, "--no-input")
    alone = byleave(*called, cwd=scene.root, env={**dict.fromkeys(os.environ), **env})
    served = running.ask(*running.cold(*called), cwd=scene.root, env=env)
    assert (served.code, served.out, served.err) == (alone.code, alone.out, alone.err)
    assert (alone.code == 0) == (words in CALLS[:3])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_signals_of_the_front_cancel_the_call(times: int, running: TestService, scene: HookScene) -> None:
    words = running.cold("call", "plain", '{"stays": true}', "--no-input", "-q")
    with running.connect() as line, capturing(b"") as (streams, taken):
        running.send(line, words, cwd=scene.root, env=variables(scene))
        assert line.recv(100) == b"A"
        go(line, streams)
        eventually((scene.root / "src" / "beat").exists)
        for _ in range(times):
            line.send(b"S%d" % signal.SIGTERM)
        assert last_word(line) == b"X130"  # also the third time, when it exits at once
        assert times > 1 or "cancelled" in taken()[1]


def test_a_call_that_is_stopped_before_it_begins_starts_nothing(scene: HookScene) -> None:
    workspace = Workspace(str(scene.root), homes=find_homes({"HOME": str(scene.home)}))
    given = read_arguments(ROOT, COMMON, ["call", "plain", "--no-input", "-q"])
    runner = CallRunner(given, workspace, workspace.load(), "plain", {})
    runner._stop()  # noqa: SLF001 -- as a signal does
    assert isinstance(runner.run({"reads": "src/plain.txt"}), CancelledOutcome)
    runner.__exit__()
    assert list(scene.records()) == []


def test_a_call_ends_with_its_front(running: TestService, scene: HookScene) -> None:
    words = running.cold("call", "plain", '{"stays": true}', "--no-input", "-q")
    with running.connect() as line, capturing(b"") as (streams, _taken):
        running.send(line, words, cwd=scene.root, env=variables(scene))
        assert line.recv(100) == b"A"
        go(line, streams)
        eventually((scene.root / "src" / "beat").exists)
    beat = scene.root / "src" / "beat"

    def is_over() -> bool:
        before = beat.read_text()
        time.sleep(0.4)
        return beat.read_text() == before

    eventually(is_over)


@contextmanager
def followed(work: Callable[[caller.Front], object]) -> Iterator[tuple[socket.socket, int]]:
    """Lend the front's end of a connection to a process that does some work for it, and a descriptor of the process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(PATIENCE)
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            front = caller.Front(theirs, os.getpid())
            front.follow()
            work(front)
        finally:
            os._exit(99)
    theirs.close()
    with ours:
        yield ours, child


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_front_hears_that_a_long_call_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller, "_ALIVE", 0.05)
    monkeypatch.setattr(caller, "_GIVEN_UP", 1.0)
    with followed(lambda _front: time.sleep(PATIENCE)) as (line, child):
        for _ in range(30):  # for longer than a front waits
            assert line.recv(100) == b"B"
    assert code_of(child) == 1


def test_a_call_that_hangs_before_it_begins_ends_with_its_front() -> None:
    with followed(lambda _front: time.sleep(PATIENCE)) as (line, child):
        line.close()
        assert code_of(child) == 1


def test_a_call_that_cannot_even_say_that_it_goes_on_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some code of Python's lets no other thread run."""
    monkeypatch.setattr(caller, "_GIVEN_UP", 0.2)
    with followed(lambda _front: re.match("(a|a)*b", "a" * 60)) as (_line, child):
        assert code_of(child) == -signal.SIGALRM


def test_a_front_passes_signals_on_from_the_first_word_on() -> None:
    def work(front: caller.Front) -> None:
        front.pass_signals(lambda: os._exit(3), lambda: os._exit(4))
        time.sleep(PATIENCE)

    with followed(work) as (line, child):
        assert line.recv(100) == b"B"
        line.send(b"S15")
        assert code_of(child) == 3


def test_a_caller_with_a_smaller_share_of_the_machine_runs_its_call_itself(
    running: TestService, scene: HookScene
) -> None:
    words = running.cold("call", "plain", "--no-input")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        if len(before) == 1:
            pytest.skip("there is one processor")
        with pytest.raises(RefusedError, match="N"):
            running.ask(*words, cwd=scene.root, env=variables(scene))
    finally:
        os.sched_setaffinity(0, before)
    assert running.ask(*words, cwd=scene.root, env=variables(scene)).code == 0


def test_what_reads_a_stream_of_calls_is_not_served() -> None:
    assert is_served(["call", "tool", "--no-input"])
    assert not is_served(["call", "tool", "--keep"])
    assert not is_served(["call", "tool", "--schema"])


def test_what_a_tool_starts_below_the_service_is_no_person(running: TestService) -> None:
    """A tool without a sandbox must not consent to anything: above it is the service, not `byleave call`."""
    argv = Path(f"/proc/{running.process.pid}/cmdline").read_text().split("\0")[:-1]
    assert is_door(argv)
    assert holds_in_sandbox(argv)


def test_an_agent_above_the_front_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a call was started by an agent is asked of the front's ancestors, not of the service's."""
    monkeypatch.setattr(caller._Answered, "front", type("F", (), {"parent": os.getpid()})())  # noqa: SLF001
    assert next(ancestors()) == Path("/proc/self/cmdline").read_text().split("\0")[:-1]
