"""A run by the front: the launcher is its child, signals are passed on, and either one's end ends the command."""

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from byleave.sandbox.linux.program import step, write_program
from byleave.sandbox.native import build
from byleave.sandbox.native.build import find_launcher
from sandbox.front_scene import PATIENCE, Packet, Scene, Talk, built_front, eventually, signals_at
from sandbox.machine import needs_sandbox
from sandbox.test_front import RUN, UNANSWERED, ended

pytestmark = [
    pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler"),
    pytest.mark.sampled(2),
]
FOR_ALL = 64  # launcher.h


@pytest.fixture(scope="module", params=["shipped", "sanitized"])
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return both fronts, one after the other."""
    return built_front(request.param, tmp_path_factory.mktemp("front"))


@pytest.fixture
def served(tmp_path: Path, front: str) -> Iterator[Scene]:
    """Yield an installation with a service that listens."""
    scene = Scene.build(tmp_path, front)
    scene.listen()
    yield scene
    scene.close()


def begun(scene: Scene, **how: Any) -> tuple[subprocess.Popen[bytes], Talk]:
    """Start a run, as far as `G`; the service lets go of its streams."""
    process = scene.start(*RUN, **how)
    talk = scene.accept()
    talk.until_go()
    talk.let_go()
    return process, talk


def state_of_launcher(scene: Scene, talk: Talk, **how: Any) -> dict[str, Any]:
    control = scene.launch(talk, "report", "end=0", **how)
    found: dict[str, Any] = json.loads(control.recv(1 << 16))
    return found


def child_of(talk: Talk) -> int:
    """Return the process that the front says it has started; what came with it is that process."""
    said = talk.receive()
    assert said.body[:1] == b"P"
    (pidfd,) = said.descriptors
    child = int(said.body[1:])
    facts = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    assert f"\nPid:\t{child}\n" in facts or "\nPid:\t-1\n" in facts  # it may have ended
    return child


# ---- How it is started -----------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("flag", [b"s", b"-"])
@pytest.mark.parametrize("locked", [True, False])
def test_the_launcher_is_a_child_with_the_streams_and_three_descriptors(
    served: Scene, flag: bytes, *, locked: bool
) -> None:
    def prepare() -> None:
        os.umask(0o035)
        for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR1, signal.SIGTERM])
        os.dup2(0, 40)  # of no concern to the launcher

    lock = os.open(served.base, os.O_RDONLY) if locked else None
    process, talk = begun(served, preexec_fn=prepare, close_fds=False, restore_signals=False)
    found = state_of_launcher(served, talk, flag=flag, lock=lock)
    assert child_of(talk) > 0
    names = found["descriptors"]
    assert sorted(names) == (["0", "1", "2", "3", "4", "5"] if locked else ["0", "1", "2", "3", "4"])
    assert names["3"].startswith("/memfd:steps")
    assert names["4"].startswith("socket:")
    for stream, name in zip((process.stdin, process.stdout, process.stderr), "012", strict=True):
        assert stream is not None
        assert names[name] == f"pipe:[{os.fstat(stream.fileno()).st_ino}]"
    assert names.get("5", str(served.base)) == str(served.base)
    words = [sys.executable, "-I", "-S", str(served.base / "launcher.py"), "report", "end=0", "3", "4"]
    assert bytes.fromhex(found["words"]) == b"".join(os.fsencode(word) + b"\0" for word in words)
    assert found["environment"] == ""
    assert (found["parent"], found["directory"]) == (process.pid, str(served.base))
    assert found["leads"] == [flag == b"s"] * 2
    assert (found["Umask"], int(found["SigBlk"], 16)) == ("0035", 0)
    ignored = {number for number in range(1, 65) if int(found["SigIgn"], 16) >> (number - 1) & 1} - OF_THE_LIBRARY
    assert ignored == {signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ}  # the last two by Python itself
    assert talk.receive() == Packet(b"E0", [])
    talk.send(b"X0")
    assert ended(process)[0] == 0
    if lock is not None:
        os.close(lock)


def test_python_s_ignored_signals_have_their_default_action_in_the_launcher(served: Scene) -> None:
    def prepare() -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    _process, talk = begun(served, preexec_fn=prepare, restore_signals=False)
    script = "grep SigIgn /proc/self/status >&4"
    control = served.launch(talk, command=["/bin/sh", "-c", script])
    ignored = int(control.recv(64).split()[1], 16)
    assert {number for number in range(1, 65) if ignored >> (number - 1) & 1} <= OF_THE_LIBRARY


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", [1, 12, 31, 34, 64])
def test_the_launcher_starts_with_the_signals_blocked_that_the_service_says(served: Scene, number: int) -> None:
    _process, talk = begun(served)
    found = state_of_launcher(served, talk, mask=1 << (number - 1))
    assert int(found["SigBlk"], 16) == 1 << (number - 1)


def test_descriptors_may_arrive_at_any_number(served: Scene) -> None:
    """The front gets its own ones at other numbers if lower ones are free."""
    for low in range(3, 9):
        keep = [number for number in range(3, 9) if number != low]

        def prepare(keep: list[int] = keep) -> None:
            for number in keep:
                os.dup2(0, number)

        _process, talk = begun(served, preexec_fn=prepare, close_fds=False)
        found = state_of_launcher(served, talk)
        assert sorted(found["descriptors"]) == ["0", "1", "2", "3", "4"]
        assert found["descriptors"]["3"].startswith("/memfd:steps")
        assert found["descriptors"]["4"].startswith("socket:")


@pytest.mark.parametrize(
    ("path", "number"), [("/nowhere/launcher", errno.ENOENT), ("/etc/passwd", errno.EACCES), ("/dev", errno.EACCES)]
)
def test_a_launcher_that_cannot_be_started_is_reported(served: Scene, path: str, number: int) -> None:
    process, talk = begun(served)
    control = served.launch(talk, command=[path])
    assert talk.receive() == Packet(b"F%d" % number, [])
    assert control.recv(64) == b""  # no process has its end
    talk.send(b"X126")
    assert ended(process) == (126, b"", b"")


@pytest.mark.parametrize(("end", "status"), [("exit 7", 7 << 8), ("kill -9 $$", 9), ("kill -TERM $$", 15)])
def test_its_end_is_reported_as_it_was(served: Scene, end: str, status: int) -> None:
    process, talk = begun(served)
    served.launch(talk, command=["/bin/sh", "-c", end])
    child_of(talk)
    assert talk.receive() == Packet(b"E%d" % status, [])
    talk.send(b"X77")
    assert ended(process) == (77, b"", b"")


@needs_sandbox
def test_the_real_launcher_runs_a_program(served: Scene) -> None:
    process, talk = begun(served)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    steps = os.memfd_create("steps")
    words = [b"sh", b"-c", b"cat; echo said; exit 7"]
    os.write(steps, write_program([step("exec", "/bin/sh", "/", words, [b"PATH=/usr/bin:/bin"])]))
    launcher = find_launcher(str(served.base / "cache")).path
    talk.send(b"Ls%016x\0" % 0 + launcher.encode() + b"\0", [steps, theirs.fileno()])
    for each in (steps, theirs.detach()):
        os.close(each)
    child_of(talk)
    assert process.stdin is not None
    process.stdin.write(b"typed\n")
    process.stdin.close()
    process.stdin = None
    assert talk.receive().body == b"E%d" % (7 << 8)
    talk.send(b"X7")
    assert ended(process, talk) == (7, b"typed\nsaid\n", b"")
    ours.close()


# ---- Signals ---------------------------------------------------------------------------------------------------------

OF_THE_LIBRARY = {32, 33}  # the C library's own: what started the tests may have them ignored
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@pytest.mark.parametrize("flag", [b"s", b"-"])
def test_a_signal_that_a_process_sends_is_passed_on_as_it_is(served: Scene, flag: bytes) -> None:
    process, talk = begun(served)
    got = signals_at(served.launch(talk, flag=flag))
    child_of(talk)
    for number in PASSED_ON[2:] + PASSED_ON[:2]:  # the last one ends the launcher of the scene
        if number is not signal.SIGTERM:
            process.send_signal(number)
            assert next(got) == number
    process.terminate()
    assert next(got) == signal.SIGTERM
    assert talk.receive().body == b"E%d" % (7 << 8)
    talk.send(b"X143")
    assert ended(process, talk)[0] == 143


@pytest.mark.sampled(4)
@pytest.mark.parametrize("flag", [b"s", b"-"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_key_at_the_terminal_is_for_all_of_a_session_of_its_own(served: Scene, flag: bytes, number: int) -> None:
    """The terminal is the session's, but none of the streams leads to it: else the run would be cold."""
    ours, theirs = os.openpty()

    def prepare() -> None:
        os.setsid()
        os.close(os.open(os.ttyname(theirs), os.O_RDWR))  # becomes the terminal of the session

    process, talk = begun(served, preexec_fn=prepare, pass_fds=(theirs,))
    os.close(theirs)
    got = signals_at(served.launch(talk, flag=flag))
    child_of(talk)
    os.write(ours, b"\x03" if number == signal.SIGINT else b"\x1c")
    assert next(got) == (FOR_ALL - number if flag == b"s" else number)
    process.terminate()
    assert next(got) == signal.SIGTERM  # and nothing came twice
    os.close(ours)


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("flag", [b"s", b"-"])
def test_it_stops_with_the_command_and_goes_on_with_it(served: Scene, flag: bytes) -> None:
    process, talk = begun(served, process_group=0)  # the kernel stops nothing in a group that no shell looks after
    got = signals_at(served.launch(talk, flag=flag))
    child_of(talk)
    for _ in range(2):
        process.send_signal(signal.SIGTSTP)
        eventually(lambda: stopped(process.pid))
        if flag == b"s":
            assert next(got) == FOR_ALL - signal.SIGSTOP
        process.send_signal(signal.SIGCONT)
        if flag == b"s":
            assert next(got) == FOR_ALL - signal.SIGCONT
        eventually(lambda: not stopped(process.pid))
    process.terminate()
    assert next(got) == signal.SIGTERM
    talk.send(b"X0")
    assert ended(process)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_before_there_is_a_launcher_a_signal_ends_the_front(served: Scene, number: int) -> None:
    process, talk = begun(served)
    process.send_signal(number)
    assert process.wait(PATIENCE) == -number
    assert talk.is_ended()


def test_after_the_launcher_s_end_a_signal_ends_the_front(served: Scene) -> None:
    process, talk = begun(served)
    served.launch(talk, command=["/bin/true"])
    child_of(talk)
    assert talk.receive().body == b"E0"
    process.terminate()
    assert process.wait(PATIENCE) == -signal.SIGTERM
    assert talk.is_ended()


@pytest.mark.parametrize("name", ["hook", "check"])
def test_signals_of_other_commands_are_as_the_caller_left_them(served: Scene, name: str) -> None:
    process = served.start(name, "x", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    served.accept().until_go()
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = {
        line.split(":")[0]: int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith("Sig") and "/" not in line
    }
    assert found["SigBlk"] == 0
    assert [
        number for number in (*PASSED_ON, signal.SIGTSTP, signal.SIGCHLD) if found["SigCgt"] >> (number - 1) & 1
    ] == []
    assert found["SigIgn"] & 1 << (signal.SIGHUP - 1)
    process.send_signal(signal.SIGHUP)
    process.terminate()
    assert process.wait(PATIENCE) == -signal.SIGTERM


# ---- Ends ------------------------------------------------------------------------------------------------------------


def test_a_killed_front_is_an_end_for_the_service(served: Scene) -> None:
    process, talk = begun(served)
    control = served.launch(talk)
    assert control.recv(64) == b"ready"
    child = child_of(talk)
    process.kill()
    assert talk.is_ended()
    os.kill(child, signal.SIGTERM)  # a real launcher ends by itself when the service closes its control socket
    assert control.recv(64).startswith(b"15 ")


def test_a_service_that_is_gone_ends_the_command(served: Scene) -> None:
    process, talk = begun(served)
    control = served.launch(talk, flag=b"s")
    assert control.recv(64) == b"ready"
    child = child_of(talk)
    talk.close()
    assert ended(process) == (125, b"", UNANSWERED["run"][1])
    assert not os.path.exists(f"/proc/{child}")
    assert control.recv(64) == b""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("body", [b"L-%016x\0/bin/true\0" % 0, b"K", b"N", b"X300"])
def test_a_wrong_message_ends_the_command(served: Scene, body: bytes) -> None:
    process, talk = begun(served)
    control = served.launch(talk)
    assert control.recv(64) == b"ready"
    child = child_of(talk)
    talk.send(body, [0, 1] if body.startswith(b"L") else [])
    assert ended(process, talk) == (125, b"", UNANSWERED["run"][1])
    assert not os.path.exists(f"/proc/{child}")


def test_it_exits_when_it_is_told_although_the_launcher_goes_on(served: Scene) -> None:
    process, talk = begun(served)
    control = served.launch(talk, flag=b"s")
    assert control.recv(64) == b"ready"
    child = child_of(talk)
    talk.send(b"X5")
    assert process.wait(PATIENCE) == 5
    os.kill(child, signal.SIGTERM)
    assert control.recv(64).startswith(b"15 ")


def test_nothing_is_lost_if_the_launcher_ends_at_once(served: Scene) -> None:
    for _ in range(20):
        process, talk = begun(served)
        served.launch(talk, command=["/bin/true"])
        assert [talk.receive().body[:1], talk.receive().body] == [b"P", b"E0"]
        talk.send(b"X0")
        assert ended(process, talk)[0] == 0


def test_it_waits_without_using_the_processor(served: Scene) -> None:
    process, talk = begun(served)
    assert served.launch(talk).recv(64) == b"ready"
    child_of(talk)

    def used() -> int:
        return sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    before = used()
    time.sleep(0.3)  # to see that nothing happens
    assert used() - before <= 1
    assert select.select([talk.connection], [], [], 0)[0] == []
