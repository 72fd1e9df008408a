"""The service answers as the command itself does, and whatever is not as it should be is not answered."""

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from byleave.service.client import service_status, stop_service
from command import byleave
from hooks.hook_scene import HookScene, claude
from service.served import PACKAGE, RefusedError, TestService, capturing, go, request_bytes, service, variables

RULES = """
[[rules]]
allow = { command = "touch", args = ["allowed"] }

[[rules]]
deny = { command = "touch", args = ["denied"] }

[[rules]]
deny = { path = "src/secret.txt" }

[[rules]]
allow = { path = "src/**", ops = ["read", "create", "update"] }
"""


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    return HookScene.build(tmp_path.resolve(), RULES)


def shell_event(scene: HookScene, command: str) -> bytes:
    return json.dumps(claude("Bash", {"command": command}, scene.root)).encode()


def decides(running: TestService, scene: HookScene, *words: str) -> str:
    """Return the decision of a served check in one word."""
    done = running.ask(*running.cold("check", "-q", *words), cwd=scene.root, env=variables(scene))
    assert done.err == ""
    return done.out.strip()


QUESTIONS = (
    ("check", "command", "touch allowed"),
    ("check", "command", "touch denied"),
    ("check", "--json", "command", "touch else"),
    ("check", "read", "src/old.txt"),
    ("check", "-v", "read", "src/secret.txt"),
    ("check", "url", "https://example.com/"),
    ("check", "env", "PATH"),
    ("check", "read"),
    ("check", "read", "a\x1bb"),
    ("check", "--root", "/nowhere", "read", "x"),
    ("check", "--no-such-option"),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_a_check_is_answered_as_by_the_command_itself(
    words: tuple[str, ...], running: TestService, scene: HookScene
) -> None:
    env = variables(scene)
    alone = byleave(*words, cwd=scene.root, env={**dict.fromkeys(os.environ), **env})
    for _ in range(2):  # the first one compiles, the second one finds it compiled
        served = running.ask(*running.cold(*words), cwd=scene.root, env=env)
        assert (served.code, served.out, served.err) == (alone.code, alone.out, alone.err)
        time.sleep(0.05)


@pytest.mark.parametrize("name", ["allowed", "denied", "else"])
def test_a_hook_is_answered_and_recorded_as_by_the_command_itself(
    name: str, running: TestService, scene: HookScene
) -> None:
    feed = shell_event(scene, f"touch {name}")
    alone = scene.runs("claude-code", feed=feed)
    served = running.ask(
        *running.hook("claude-code", "--home", str(scene.home)), cwd=scene.root, env=variables(scene), feed=feed
    )
    assert (served.code, served.out.encode(), served.err) == (alone.returncode, alone.stdout, "")
    assert len(scene.records()) == 2


def test_a_hook_that_cannot_read_its_event_blocks(running: TestService, scene: HookScene) -> None:
    words = running.hook("claude-code", "--home", str(scene.home))
    served = running.ask(*words, cwd=scene.root, env=variables(scene), feed=b"{")
    assert (served.code, served.out) == (2, "")
    assert served.err.startswith("byleave: the call is blocked")


def test_a_hook_with_words_that_no_installation_writes_blocks(running: TestService, scene: HookScene) -> None:
    words = running.hook("claude-code", "--home", str(scene.home), "--nonsense", "x")
    served = running.ask(*words, cwd=scene.root, env=variables(scene), feed=b"{}")
    assert (served.code, served.out) == (2, "")


# What changes is seen by the next call


def test_an_edit_of_the_users_file_is_seen_by_the_next_call(running: TestService, scene: HookScene) -> None:
    config = scene.home / ".config" / "byleave" / "config.toml"
    for number in range(6):
        word = ("allow", "deny")[number % 2]
        config.write_text(f'[[rules]]\n{word} = {{ command = "touch" }}\n')  # of nearly the same length, at once
        expected = "allow" if word == "allow" else "deny"
        assert decides(running, scene, "command", "touch x") == expected
        assert decides(running, scene, "command", "touch x") == expected


def test_trust_and_its_end_are_seen_by_the_next_call(running: TestService, scene: HookScene) -> None:
    project = scene.root / "byleave.toml"
    project.write_text('[[rules]]\nallow = { command = "make" }\n')
    env = {**dict.fromkeys(os.environ), **variables(scene)}
    assert decides(running, scene, "command", "make") == "ask"
    assert byleave("trust", "--yes", cwd=scene.root, env=env).code == 0
    assert decides(running, scene, "command", "make") == "allow"
    assert decides(running, scene, "command", "make") == "allow"
    assert byleave("untrust", "--yes", cwd=scene.root, env=env).code == 0
    assert decides(running, scene, "command", "make") == "ask"


def test_a_link_on_the_way_of_a_rule_is_seen_by_the_next_call(running: TestService, scene: HookScene) -> None:
    config = scene.home / ".config" / "byleave" / "config.toml"
    config.write_text('[[rules]]\ndeny = { path = "way/**" }\n[[rules]]\nallow = { path = "**" }\n')
    for name in ("one", "two"):
        (scene.root / name).mkdir()
        (scene.root / name / "file").write_text("x")
    (scene.root / "way").symlink_to("one")
    for _ in range(2):
        assert decides(running, scene, "read", "one/file") == "deny"
        assert decides(running, scene, "read", "two/file") == "allow"
        time.sleep(0.05)
    (scene.root / "way").unlink()
    (scene.root / "way").symlink_to("two")
    for _ in range(2):
        assert decides(running, scene, "read", "one/file") == "allow"
        assert decides(running, scene, "read", "two/file") == "deny"


def test_a_new_file_around_the_workspace_is_seen_by_the_next_call(running: TestService, scene: HookScene) -> None:
    inner = scene.root / "inner"
    inner.mkdir()
    (inner / "byleave.toml").write_text("")
    words = running.cold("check", "-q", "--root", str(inner), "command", "touch allowed")
    for _ in range(2):
        assert running.ask(*words, cwd=inner, env=variables(scene)).out == "allow\n"
        time.sleep(0.05)
    (scene.root / "byleave.toml").write_text('[[rules]]\ndeny = { command = "touch" }\n')
    assert running.ask(*words, cwd=inner, env=variables(scene)).out == "deny\n"


def test_users_with_other_files_do_not_get_each_others_answers(running: TestService, tmp_path: Path) -> None:
    one = HookScene.build(tmp_path.resolve(), RULES)
    other_home = tmp_path.resolve() / "other"
    (other_home / ".config" / "byleave").mkdir(parents=True)
    for place in (other_home, other_home / ".config", other_home / ".config" / "byleave"):
        place.chmod(0o700)
    (other_home / ".config" / "byleave" / "config.toml").write_text('[[rules]]\ndeny = { command = "touch" }\n')
    for _ in range(3):
        assert decides(running, one, "command", "touch allowed") == "allow"
        words = running.cold("check", "-q", "command", "touch allowed")
        other = {**variables(one), "HOME": str(other_home)}
        assert running.ask(*words, cwd=one.root, env=other).out == "deny\n"
        time.sleep(0.03)


# What is not served


@pytest.mark.parametrize(
    "words",
    [
        ("trust", "--yes"),
        ("hook", "--install", "claude-code"),
        ("hook", "--uninstall=claude-code"),
        ("hook", "--resume", "claude-code"),
        ("check", "--batch"),
        ("check", "--help"),
        ("run", "--mount", "x=/y", "--", "true"),
        ("check", "read", "--policy=/dev/fd/4", "x"),
        ("run", "--access", "/proc/self/fd/4", "--", "true"),
        ("approvals", "approve"),
        ("service", "stop"),
        (),
    ],
    ids=" ".join,
)
def test_only_commands_that_change_no_trust_are_served(
    words: tuple[str, ...], running: TestService, scene: HookScene
) -> None:
    with pytest.raises(RefusedError, match=r"^N$"):
        running.ask(*running.cold(*words), cwd=scene.root, env=variables(scene))


def test_code_of_another_installation_is_not_served(running: TestService, scene: HookScene) -> None:
    words = [sys.executable, "-I", "-S", "/elsewhere/byleave/hooks/__main__.py", "hook", "claude-code"]
    with pytest.raises(RefusedError, match=r"^N$"):
        running.ask(*words, cwd=scene.root, env=variables(scene))


def test_a_directory_that_cannot_be_entered_is_not_served(running: TestService, scene: HookScene) -> None:
    """The front then runs the command itself, which is in that directory already."""
    with running.connect() as line:
        request, place = os.memfd_create("request"), os.memfd_create("no directory")
        os.write(request, request_bytes(running.cold("check", "env", "PATH"), variables(scene)))
        socket.send_fds(line, [b"Qbyleave-service-1\n" + running.proof(line)], [request, place])
        os.close(request)
        os.close(place)
        assert line.recv(100) == b"N"


def refused(running: TestService, message: bytes, descriptors: list[int]) -> bytes:
    with running.connect() as line:
        told = message.replace(b"PROOF", running.proof(line))
        socket.send_fds(line, [told], descriptors)
        return line.recv(100)


def test_what_no_front_sends_is_closed(running: TestService, scene: HookScene) -> None:
    request = os.memfd_create("request")
    os.write(request, request_bytes(running.cold("check", "env", "PATH"), variables(scene)))
    place = os.open(scene.root, os.O_PATH)
    nothing = os.open(os.devnull, os.O_RDWR)
    both = [request, place]
    good = b"Qbyleave-service-1\nPROOF"
    assert refused(running, good, both) == b"A"
    assert refused(running, good, both[:1]) == b""
    assert refused(running, good, [*both, nothing]) == b""
    assert refused(running, b"Qbyleave-service-1\n", both) == b""
    assert refused(running, b"Qbyleave-service-1\nwrong", both) == b""
    assert refused(running, b"Qbyleave-service-2\nPROOF", both) == b""
    assert refused(running, b"Z" * 300, both) == b""
    assert refused(running, b"", []) == b""
    file = os.open(PACKAGE / "__init__.py", os.O_RDONLY)
    assert refused(running, good, [file, place]) == b"N"
    reading, writing = os.pipe()  # which nobody writes to
    assert refused(running, good, [reading, place]) == b"N"
    for content in (b"", b"1 1 022 1\n", b"1 0 022 1\nx", b"9999999999 0 022 1\nx\0", b"-1 0 022 1\n\0", b"\xff" * 100):
        other = os.memfd_create("other")
        os.write(other, content)
        assert refused(running, good, [other, place]) == b"N"
        os.close(other)
    large = os.memfd_create("large")
    os.ftruncate(large, 1 << 40)
    assert refused(running, good, [large, place]) == b"N"
    for each in (*both, nothing, file, reading, writing, large):
        os.close(each)
    assert decides(running, scene, "command", "touch allowed") == "allow"


def test_a_process_that_some_sandbox_holds_is_not_served(running: TestService, scene: HookScene) -> None:
    """It would see more through the service than by itself."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
            with pytest.raises(RefusedError, match=r"^$"):
                running.ask(*running.cold("check", "env", "PATH"), cwd=scene.root, env=variables(scene))
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _elsewhere() -> None:
    """Have another root directory: no namespace shows that."""
    os.chroot("/tmp")


@pytest.mark.parametrize(
    "change", [_limited, pytest.param(_elsewhere, marks=pytest.mark.skipif(os.geteuid() != 0, reason="chroot"))]
)
def test_a_process_with_another_root_or_other_limits_is_not_served(
    change: Callable[[], None], running: TestService, scene: HookScene
) -> None:
    """It would get answers about other files, and records that a limit of its own or of the service's forbids."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with running.connect() as line:
                proof = running.proof(line)
            opened, place = os.open(running.directory, os.O_PATH), os.open(scene.root, os.O_PATH)
            change()
            os.fchdir(opened)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
                line.settimeout(10)
                line.connect("key.sock")
                request = os.memfd_create("request")
                os.pwrite(request, request_bytes(running.cold("check", "env", "PATH"), variables(scene)), 0)
                socket.send_fds(line, [b"Qbyleave-service-1\n" + proof], [request, place])
                code = 0 if line.recv(100) == b"" else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_its_state_is_shown_whatever_the_limits_are(running: TestService) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        assert service_status(str(running.directory))["running"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_is_not_served(running: TestService, scene: HookScene) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with running.connect() as line:
                proof = running.proof(line)
            opened = os.open(running.directory, os.O_PATH)
            os.chmod(running.directory, 0o777)  # noqa: S103
            os.chmod(running.address, 0o777)  # noqa: S103
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            line.settimeout(10)
            line.connect(f"/proc/self/fd/{opened}/key.sock")
            place = os.open("/", os.O_PATH)
            request = os.memfd_create("request")
            os.write(request, request_bytes(running.cold("check", "env", "PATH"), variables(scene)))
            socket.send_fds(line, [b"Qbyleave-service-1\n" + proof], [request, place])
            code = 0 if line.recv(100) == b"" else 3
        finally:
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.chmod(running.directory, 0o700)
    os.chmod(running.address, 0o600)
    assert ended == 0


def test_a_go_without_its_streams_has_nothing_done(running: TestService, scene: HookScene) -> None:
    for streams in ([], [0], [0, 1], [0, 1, 2, 2]):
        with running.connect() as line:
            running.send(line, running.cold("check", "env", "PATH"), cwd=scene.root, env=variables(scene))
            assert line.recv(100) == b"A"
            go(line, streams)
            assert line.recv(100) == b""


def test_a_service_that_is_stopped_keeps_no_stream_open(tmp_path: Path, scene: HookScene) -> None:
    """What waits in the queue of a service that never reads holds nothing of the caller."""
    reading, writing = os.pipe()
    with service(tmp_path / "place") as started:
        started.process.send_signal(signal.SIGSTOP)
        with started.connect() as line:
            started.send(line, started.cold("check", "env", "PATH"), cwd=scene.root, env=variables(scene))
        os.close(writing)
        assert os.read(reading, 1) == b""
        started.process.send_signal(signal.SIGCONT)
    os.close(reading)


# Before the front's word nothing happens, and nothing happens twice


def test_a_front_that_gives_up_before_its_word_has_nothing_done(running: TestService, scene: HookScene) -> None:
    event = shell_event(scene, "touch allowed")
    with running.connect() as line, capturing(event) as (streams, taken):
        words = running.hook("claude-code", "--home", str(scene.home))
        running.send(line, words, cwd=scene.root, env=variables(scene))
        assert line.recv(100) == b"A"
        line.close()
        time.sleep(0.3)
        assert taken() == ["", ""]
        assert os.lseek(streams[0], 0, os.SEEK_CUR) == 0  # its input is all there
    assert scene.records() == []


def test_an_answer_that_never_comes_is_no_answer(running: TestService, scene: HookScene) -> None:
    """The process that answers is killed: the front sees the end of the connection, and no exit code."""
    reading, writing = os.pipe()
    with running.connect() as line, capturing(b"") as (streams, taken):
        words = running.hook("claude-code", "--home", str(scene.home))
        running.send(line, words, cwd=scene.root, env=variables(scene))
        assert line.recv(100) == b"A"
        go(line, [reading, *streams[1:]])
        time.sleep(0.3)  # it waits for the event now
        for pid in reading_from(reading):
            os.kill(pid, signal.SIGKILL)
        assert line.recv(100) == b""
        assert taken() == ["", ""]
    os.close(reading)
    os.close(writing)
    assert decides(running, scene, "command", "touch allowed") == "allow"


def reading_from(descriptor: int) -> list[int]:
    """Return the other processes that have a pipe as their standard input."""
    name = os.readlink(f"/proc/self/fd/{descriptor}")
    found = []
    for each in os.listdir("/proc"):
        try:
            if each.isdigit() and int(each) != os.getpid() and os.readlink(f"/proc/{each}/fd/0") == name:
                found.append(int(each))
        except OSError:
            continue
    assert found
    return found


def test_a_request_that_hangs_holds_up_no_other(running: TestService, scene: HookScene) -> None:
    reading, writing = os.pipe()
    lines = []
    for _ in range(5):
        line = running.connect()
        nothing = os.open(os.devnull, os.O_RDWR)
        words = running.hook("claude-code", "--home", str(scene.home))
        running.send(line, words, cwd=scene.root, env=variables(scene))
        assert line.recv(100) == b"A"
        go(line, [reading, nothing, nothing])
        os.close(nothing)
        lines.append(line)
    started = time.monotonic()
    assert decides(running, scene, "command", "touch allowed") == "allow"
    assert time.monotonic() - started < 5
    os.close(writing)
    assert [line.recv(100) for line in lines] == [b"X2"] * 5
    os.close(reading)
    for line in lines:
        line.close()


def test_hooks_of_ten_workspaces_are_answered_at_once(running: TestService, tmp_path: Path) -> None:
    scenes = []
    for number in range(10):
        (tmp_path / str(number)).mkdir()
        scenes.append(HookScene.build((tmp_path / str(number)).resolve(), RULES))
    answers: list[str] = []
    problems: list[BaseException] = []

    def asks(scene: HookScene, number: int) -> None:
        name = ("allowed", "denied")[number % 2]
        event = shell_event(scene, f"touch {name}")
        try:
            words = running.hook("claude-code", "--home", str(scene.home))
            done = running.ask(*words, cwd=scene.root, env=variables(scene), feed=event)
            decision = json.loads(done.out)["hookSpecificOutput"]["permissionDecision"]
            answers.append(f"{name} {decision}")
        except BaseException as error:  # noqa: BLE001 -- shown by the assertion below
            problems.append(error)

    threads = [threading.Thread(target=asks, args=(scene, number)) for scene in scenes for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert sorted(answers) == ["allowed allow"] * 50 + ["denied deny"] * 50
    assert [len(scene.records()) for scene in scenes] == [10] * 10


# Its life


def test_its_state_is_shown_and_it_ends_when_it_is_told_to(tmp_path: Path, scene: HookScene) -> None:
    place = tmp_path / "place"
    assert service_status(str(place)) == {
        "running": False,
        "pid": None,
        "version": None,
        "since": None,
        "workspaces": None,
        "calls": None,
        "memory": None,
    }
    with service(place) as started:
        assert decides(started, scene, "command", "touch allowed") == "allow"
        state = service_status(str(place))
        assert (state["running"], state["pid"], state["workspaces"], state["calls"]) == (
            True,
            started.process.pid,
            1,
            1,
        )
        assert 1 << 20 < state["memory"] < 200 << 20
        assert stop_service(str(place)) == 1
        assert started.ends()
        assert service_status(str(place))["running"] is False
        assert os.listdir(place) == ["key.lock"]


def test_two_services_of_one_address_do_not_run(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with service(place) as started:
        words = [str(each) for each in started.process.args]  # type: ignore[union-attr]
        second = subprocess.run(words, env={"HOME": "/"}, check=False, timeout=30)
        assert second.returncode == 1
        assert service_status(str(place))["pid"] == started.process.pid


def test_it_ends_when_its_socket_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with service(tmp_path / "place") as started:
        os.unlink(started.address)
        assert started.ends(20)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", ["edited", "added", "removed"])
def test_it_ends_when_its_code_changes(change: str, tmp_path: Path, scene: HookScene) -> None:
    package = tmp_path / "installed" / "byleave"
    shutil.copytree(PACKAGE, package)
    with service(tmp_path / "place", package) as started:
        words = started.hook("claude-code", "--home", str(scene.home))
        event = shell_event(scene, "touch allowed")
        assert started.ask(*words, cwd=scene.root, env=variables(scene), feed=event).code == 0
        time.sleep(0.3)
        file = package / "core" / "decide.py"
        if change == "edited":
            file.write_text(file.read_text() + "\n")
        elif change == "added":
            (package / "core" / "new.py").write_text("")
        else:
            (package / "core" / "search.py").unlink()
        with pytest.raises(RefusedError, match=r"^$"):
            started.ask(*words, cwd=scene.root, env=variables(scene), feed=event)
        assert started.ends()


def test_a_directory_that_is_not_the_users_alone_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o755)
    words = [sys.executable, "-P", str(PACKAGE / "service" / "__main__.py"), "--directory", str(place), "--key", "key"]
    done = subprocess.run(words, env={"HOME": "/"}, check=False, timeout=30)
    assert done.returncode == 1
    assert os.listdir(place) == []


def test_its_children_go_on_without_it(tmp_path: Path, scene: HookScene) -> None:
    """A hook that is being answered when the service is killed is answered."""
    reading, writing = os.pipe()
    event = shell_event(scene, "touch allowed")
    with service(tmp_path / "place") as started, started.connect() as line, capturing(b"") as (streams, taken):
        words = started.hook("claude-code", "--home", str(scene.home))
        started.send(line, words, cwd=scene.root, env=variables(scene))
        assert line.recv(100) == b"A"
        go(line, [reading, *streams[1:]])
        started.process.kill()
        os.write(writing, event)
        os.close(writing)
        assert line.recv(100) == b"X0"
        assert '"allow"' in taken()[0]
    os.close(reading)


def test_connections_that_say_nothing_are_let_go_of_without_using_the_processor(
    tmp_path: Path, scene: HookScene
) -> None:
    with service(tmp_path / "place") as own:
        assert decides(own, scene, "command", "touch allowed") == "allow"
        lines = [own.connect() for _ in range(700)]  # more than are taken at a time
        before, began = _processor_time(own.process.pid), time.monotonic()
        end = began + 4  # both lots have had their second by then
        while any(_is_open(line) for line in lines) and time.monotonic() < end:
            time.sleep(0.1)
        assert not any(_is_open(line) for line in lines)
        assert _processor_time(own.process.pid) - before < (time.monotonic() - began) / 2
        assert decides(own, scene, "command", "touch allowed") == "allow"
        for line in lines:
            line.close()


def _is_open(line: socket.socket) -> bool:
    try:
        return line.recv(1, socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _processor_time(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_where_there_is_no_linux_there_is_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.delattr(os, "O_PATH")
    assert not service_status(str(tmp_path))["running"]
    assert stop_service(str(tmp_path)) == 0
