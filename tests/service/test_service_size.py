"""The service stays small: many directories, many calls, floods of connections."""

import os
import signal
import socket
import time
from pathlib import Path

import amounts
from byleave.sandbox.session import process_of
from byleave.service.client import service_status
from byleave.service.server import MOST_WORKERS
from byleave.service.worker import MOST_AT_ONCE, WAITS, Worker
from hooks.hook_scene import HookScene
from service.served import RefusedError, TestService, go, service
from soak import MEGABYTE, Soak
from toolhost.hosting import processes_below

WORKSPACES = 50


def check(running: TestService, scene: HookScene) -> str:
    env = {"HOME": str(scene.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    return running.ask(*running.cold("check", "-q", "command", "touch allowed"), cwd=scene.root, env=env).out


def eventually_served(running: TestService, scene: HookScene) -> None:
    """Wait until a request is taken: while a queue is full, fronts run their commands themselves."""
    end = time.monotonic() + 30
    while True:
        try:
            assert check(running, scene) == "allow\n"
        except RefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)
        else:
            return


def test_fifty_workspaces_take_less_than_200_megabytes(tmp_path: Path) -> None:
    with service(tmp_path / "place") as running:
        for number in range(WORKSPACES):
            (tmp_path / str(number)).mkdir()
            scene = HookScene.build((tmp_path / str(number)).resolve())
            for _ in range(2):
                assert check(running, scene) == "allow\n"
        state = service_status(str(tmp_path / "place"))
        assert state["calls"] == 2 * WORKSPACES
        assert state["memory"] < 200 * MEGABYTE


@amounts.slow
def test_many_calls_leave_nothing_behind(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path.resolve())
    with service(tmp_path / "place") as running:
        soak = Soak("the resident service", running.process.pid, warm=10, rounds=amounts.of(100_000, 100))
        for _ in soak.warm():
            check(running, scene)
        for _ in soak.rounds():
            assert check(running, scene) == "allow\n"
        end = time.monotonic() + WAITS + 20
        while len(processes_below(running.process.pid)) > 1:  # the process that waits for the next request ends
            assert time.monotonic() < end
            time.sleep(0.1)
        soak.ends(16 * MEGABYTE)
        assert service_status(str(tmp_path / "place"))["memory"] < 50 * MEGABYTE
        assert check(running, scene) == "allow\n"


def test_connections_that_say_nothing_keep_no_caller_out(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path.resolve())
    with service(tmp_path / "place") as running:
        silent = []
        for _ in range(700):
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            line.settimeout(20)
            line.connect(running.address)
            silent.append(line)
        assert check(running, scene) == "allow\n"
        for line in silent:
            line.close()
        assert check(running, scene) == "allow\n"


def test_more_directories_than_are_kept_are_all_served(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path.resolve())
    with service(tmp_path / "place") as running:
        env = {"HOME": str(scene.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        for number in range(MOST_WORKERS + 3):
            place = scene.root / str(number)
            place.mkdir()
            done = running.ask(*running.cold("check", "-q", "command", "touch allowed"), cwd=place, env=env)
            assert done.out == "allow\n"
        assert service_status(str(tmp_path / "place"))["workspaces"] == MOST_WORKERS


def test_a_worker_that_is_stopped_holds_up_no_other_directory(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path.resolve())
    env = {"HOME": str(scene.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    words = ("check", "-q", "command", "touch allowed")
    with service(tmp_path / "place") as running:
        assert check(running, scene) == "allow\n"
        stopped = processes_below(running.process.pid)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        waiting = [running.connect() for _ in range(300)]  # more than its queue holds
        for line in waiting:
            running.send(line, running.cold(*words), cwd=scene.root, env=env)
        done = running.ask(*running.cold(*words), cwd=scene.root / "src", env=env)
        assert done.out == "allow\n"
        for line in waiting:
            line.close()
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        eventually_served(running, scene)


def test_no_more_requests_are_answered_at_once_than_are_bounded(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path.resolve())
    env = {"HOME": str(scene.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    with service(tmp_path / "place") as running:
        lines: list[socket.socket] = []
        for _ in range(MOST_AT_ONCE + 10):
            line = running.connect()
            running.send(line, running.hook("claude-code", "--home", str(scene.home)), cwd=scene.root, env=env)
            line.settimeout(0.5 if len(lines) >= MOST_AT_ONCE - 2 else 20)
            try:
                assert line.recv(10) == b"A"
                go(line, [reading, nothing, nothing])
            except TimeoutError:
                line.close()
                break
            lines.append(line)
        # On a slow machine the first ones have ended by now, blocked after ten seconds, and others have come.
        alive = [pid for pid in processes_below(running.process.pid) if process_of(pid) is not None]
        assert len(alive) <= MOST_AT_ONCE + 2
        os.close(writing)
        for line in lines:
            line.settimeout(20)
            assert line.recv(10) == b"X2"
            line.close()
        eventually_served(running, scene)
    os.close(reading)
    os.close(nothing)


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    scene = HookScene.build(tmp_path.resolve())
    with service(tmp_path / "place") as running:
        assert check(running, scene) == "allow\n"
        for pid in processes_below(running.process.pid):
            os.kill(pid, signal.SIGKILL)
        eventually_served(running, scene)


def left_busy() -> set[int]:
    """Have a process report and end, and return which ones a worker takes for busy then."""
    _ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    worker = Worker(theirs, "/nowhere", lambda _by_hook, _words: 0)
    child = os.fork()
    if child == 0:
        worker.notify.send(b"D0")
        worker.notify.send(b"T%d" % os.getpid())
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    for _ in range(3):
        worker.look_after()
    return worker.busy


def test_a_process_that_ended_before_its_report_was_read_is_not_busy() -> None:
    """Else every such process takes a place for ever, and in the end no request is answered."""
    worker = os.fork()  # it takes note of all of its children, which are none of the tests' own then
    if worker == 0:
        try:
            os._exit(len(left_busy()))
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0
