"""A confined command is held to what is there when it starts, also where the service has its plan already."""

import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from byleave.service.directory import caller_of
from command import byleave
from hooks.hook_scene import HookScene
from sandbox.machine import needs_sandbox
from service.served import PythonFront, Served, TestService, capturing, run_served, service, variables

RULES = """
[shell]
confine = "auto"

[[rules]]
deny = { path = ["**/*.pem", "linked/secret"] }

[[rules]]
allow = { any_command = true }
sandbox = true
"""
READ = "sh src/read.sh"
SCRIPT = "cat src/*.pem here/secret there/secret 2>/dev/null; :"


@pytest.fixture
def scene(tmp_path: Path, system_files: int) -> HookScene:
    scene = HookScene.build(tmp_path.resolve(), RULES)
    for name in ("here", "there"):
        (scene.root / name).mkdir()
        (scene.root / name / "secret").write_text(f"{name}\n")
    (scene.root / "linked").symlink_to("here")
    (scene.root / "src" / "read.sh").write_text(SCRIPT)
    return scene


def run(running: TestService, scene: HookScene, text: str) -> Served:
    return run_served(running, *running.cold("run", "--shell", text), cwd=scene.root, env=variables(scene))


def warmed(running: TestService, scene: HookScene, text: str = "true") -> None:
    """Have the plan of such a command kept."""
    for _ in range(3):
        assert run(running, scene, text).code == 0


@needs_sandbox
def test_a_secret_that_comes_right_before_a_run_is_not_read(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    (scene.root / "src" / "server.pem").write_text("KEY\n")
    assert run(running, scene, READ).out == "there\n"


@needs_sandbox
def test_a_link_that_is_turned_right_before_a_run_counts(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    assert run(running, scene, READ).out == "there\n"
    (scene.root / "linked").unlink()
    (scene.root / "linked").symlink_to("there")
    assert run(running, scene, READ).out == "here\n"


@needs_sandbox
def test_a_rule_that_is_written_right_before_a_run_counts(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    rules = scene.home / ".config" / "byleave" / "config.toml"
    rules.write_text(rules.read_text().replace("linked/secret", "there/**"))
    assert run(running, scene, READ).out == "here\n"
    rules.write_text(rules.read_text().replace('"there/**"', '"here/**", "there/**"'))
    assert run(running, scene, READ).out == ""


@needs_sandbox
@pytest.mark.usefixtures("system_files_alone")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes among the system's files")
def test_a_private_file_of_the_system_that_comes_right_before_a_run_is_not_read(
    running: TestService, scene: HookScene
) -> None:
    with tempfile.TemporaryDirectory(prefix="byleave-test-", dir="/usr/local/share") as place:
        Path(place).chmod(0o755)
        open_file, key = Path(place, "open"), Path(place, "key")
        open_file.write_text("open\n")
        warmed(running, scene)
        assert run(running, scene, f"cat {place}/*").out == "open\n"
        key.touch(mode=0o600)
        key.write_text("KEY\n")
        assert run(running, scene, f"cat {place}/* 2>/dev/null; :").out == "open\n"
        open_file.chmod(0o600)
        assert run(running, scene, f"cat {place}/* 2>/dev/null; :").out == ""


@needs_sandbox
def test_two_runs_at_once_are_held_to_the_same(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    ended: list[Served] = []

    def one() -> None:
        ended.append(run(running, scene, f"mkdir .claude 2>/dev/null; touch .git/config 2>/dev/null; {READ}"))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(each.code, each.out) for each in ended] == [(0, "there\n")] * 4
    assert not (scene.root / ".claude").exists()


@needs_sandbox
def test_a_file_that_comes_while_a_command_starts_opens_nothing(running: TestService, scene: HookScene) -> None:
    warmed(running, scene)
    words = running.cold("run", "--shell", READ)
    with capturing(b"") as (streams, taken):
        front = PythonFront(running, words, cwd=scene.root, env=variables(scene), streams=streams)
        assert front.start() is None
        (scene.root / "src" / "late.txt").write_text("")
        assert front.ends() == 0
        assert taken()[0] == "there\n"


@needs_sandbox
def test_a_command_is_held_to_the_same_when_the_service_is_gone(tmp_path: Path, scene: HookScene) -> None:
    with service(tmp_path / "place") as started:
        warmed(started, scene)
        started.process.kill()
        started.process.wait()
    env = {**dict.fromkeys(os.environ), **variables(scene)}
    assert byleave("run", "--shell", READ, cwd=scene.root, env=env).out == "there\n"


def connected(address: str) -> int:
    """Return a process that has connected, and waits to be ended."""
    child = os.fork()
    if child == 0:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
                line.connect(address)
                line.recv(1)
        finally:
            os._exit(0)
    return child


def test_a_caller_that_has_ended_is_nobody(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        child = connected(str(tmp_path / "socket"))
        line, _address = listener.accept()
        with line:
            found = caller_of(line)
            assert found is not None
            assert found[:2] == (child, os.getpid())
            line.send(b"x")
            os.waitpid(child, 0)
            assert caller_of(line) is None


def test_a_number_that_has_become_another_processs_is_not_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        child = connected(str(tmp_path / "socket"))
        line, _address = listener.accept()
        with line:
            try:
                line.getsockopt(socket.SOL_SOCKET, 77)
            except OSError:
                pytest.skip("this kernel does not say which process it is")
            line.send(b"x")
            os.waitpid(child, 0)
            monkeypatch.setattr("byleave.service.directory.peer_of", lambda _line: (os.getpid(), os.geteuid()))
            assert caller_of(line) is None
