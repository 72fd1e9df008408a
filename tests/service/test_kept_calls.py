"""A call is held to what is there when it starts, also where the service has its tool's policy already."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from byleave import caller
from hooks.hook_scene import HookScene
from sandbox.machine import needs_sandbox
from service.served import PATIENCE, TestService, service

# A tool that reads by itself, in its own sandbox, the file that its command names, and by request the one it is told.
TOOL = """
import json, sys
given = json.loads(sys.stdin.readline())["params"]["tool"]["arguments"]
try:
    seen = open(sys.argv[1]).read()
except OSError as error:
    seen = type(error).__name__
print(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "fs.read", "params": {"path": given["reads"]}}), flush=True)
read = json.loads(sys.stdin.readline()).get("result", {}).get("content", "refused")
print(json.dumps({"jsonrpc": "2.0", "method": "result", "params": {"content": f"{seen} {read}"}}), flush=True)
"""
RULES = """
[[rules]]
deny = { path = "src/secret.txt" }
"""
ONE_TOOL = """
[tools.NAME]
source = "local"
runtime = "vfs"
command = ["/usr/bin/python3", "-IS", "src/tool.py", "src/NAME.txt"]
access.fs = [{ path = "src", read = true }]
"""
TOOLS = RULES + "".join(ONE_TOOL.replace("NAME", name) for name in ("one", "two"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestService]:
    with service(tmp_path_factory.mktemp("service") / "place") as started:
        yield started


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    scene = HookScene.build(tmp_path.resolve(), TOOLS)
    (scene.root / "src" / "tool.py").write_text(TOOL)
    for name in ("one", "two", "secret"):
        (scene.root / "src" / f"{name}.txt").write_text(name)
    return scene


def call(running: TestService, scene: HookScene, tool: str, reads: str = "src/two.txt") -> str:
    words = running.cold("call", tool, f'{{"reads": "{reads}"}}', "--no-input", "-q")
    env = {"HOME": str(scene.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = running.ask(*words, cwd=scene.root, env=env)
    assert done.code == 0, done
    return done.out.strip()


def warmed(running: TestService, scene: HookScene) -> None:
    """Have the policies of both tools kept."""
    for tool in ("one", "two") * 2:
        assert call(running, scene, tool) == f"{tool} two"


@needs_sandbox
def test_each_tool_has_its_own_policy(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    assert call(running, scene, "two", "src/one.txt") == "two one"
    assert call(running, scene, "one", "src/secret.txt") == "one refused"


@needs_sandbox
def test_a_named_file_that_becomes_a_link_right_before_a_call_is_not_shown(
    running: TestService, scene: HookScene
) -> None:
    warmed(running, scene)
    (scene.root / "src" / "one.txt").unlink()
    (scene.root / "src" / "one.txt").symlink_to("secret.txt")
    assert call(running, scene, "one") == "FileNotFoundError two"
    (scene.root / "src" / "one.txt").unlink()
    (scene.root / "src" / "one.txt").write_text("again")
    assert call(running, scene, "one") == "again two"


@needs_sandbox
def test_a_rule_that_is_written_right_before_a_call_counts(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    rules = scene.home / ".config" / "byleave" / "config.toml"
    rules.write_text(rules.read_text().replace('"src/secret.txt" }', '"src/two.txt" }'))
    assert call(running, scene, "one") == "one refused"
    rules.write_text(rules.read_text().replace('"src/one.txt"]', '"src/two.txt"]'))
    assert call(running, scene, "one").startswith("two ")


@needs_sandbox
def test_two_calls_at_once_are_held_to_the_same(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    said: list[str] = []
    threads = [
        Thread(target=lambda tool=tool: said.append(call(running, scene, tool, "src/secret.txt")))
        for tool in ("one", "two", "one")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(said) == ["one refused", "one refused", "two refused"]


@needs_sandbox
def test_all_that_a_served_call_did_is_recorded_when_its_caller_goes_on(running: TestService, scene: HookScene) -> None:
    for number in range(1, 4):
        assert call(running, scene, "one") == "one two"
        found = [record["event"] for record in scene.records()]
        assert found == ["decision", "decision", "effect"] * number


def test_what_is_left_for_later_keeps_no_caller_waiting(capfd: pytest.CaptureFixture[str]) -> None:
    """The caller has the exit code and the end of both streams, while a process that answered it is still at work."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(PATIENCE)
    reading, writing = os.pipe()
    waiting, going_on = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            for descriptor in (reading, writing, going_on):
                os.close(descriptor)
            ours.close()
            caller.answer_for(caller.Front(theirs, os.getpid()))
            caller.after_answer(lambda: os._exit(7 if os.read(waiting, 1) == b"x" else 8))
            os.write(1, b"said")
            caller.leave(3)
        finally:
            os._exit(99)
    for descriptor in (writing, waiting):
        os.close(descriptor)
    theirs.close()
    with ours:
        assert ours.recv(100) == b"X3"
        assert ours.recv(100) == b""
    assert os.read(reading, 100) == b"said"
    assert os.read(reading, 100) == b""
    os.write(going_on, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for descriptor in (reading, going_on):
        os.close(descriptor)
    assert capfd.readouterr() == ("", "")


def test_what_fails_later_changes_no_exit_code() -> None:
    child = os.fork()
    if child == 0:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            caller.answer_for(caller.Front(theirs, os.getpid()))
            caller.after_answer(lambda: 1 // 0)
            caller.after_answer(ours.close)
            caller.leave(5)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


def test_without_a_front_nothing_is_left_for_later() -> None:
    done: list[int] = []
    caller.after_answer(lambda: done.append(1))
    assert done == [1]
