"""Where the front looks for a service, what it does not trust there, and how it starts one that is missing."""

import errno
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from byleave.sandbox.native import build
from sandbox.front_scene import PATIENCE, Scene, compile_front, eventually, key_of, reported
from sandbox.machine import NO_PERSON
from sandbox.test_front import CHECK, COMMANDS, HOOK, ended
from sandbox.without_namespaces import needs_unshare

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the front as it is shipped."""
    return build.find_front(str(tmp_path_factory.mktemp("front"))) or ""


@pytest.fixture
def scene(tmp_path: Path, front: str) -> Iterator[Scene]:
    """Yield an installation without a service."""
    made = Scene.build(tmp_path, front)
    yield made
    made.close()


def is_served(scene: Scene, **how: Any) -> bool:
    """Whether a hook is answered by the service of the scene; else it must be cold."""
    process = scene.start(*HOOK, **how)
    assert scene.listener is not None
    scene.listener.settimeout(0.3)
    try:
        talk = scene.accept()
    except TimeoutError:
        reported(process)
        return False
    talk.until_go()
    talk.send(b"X5")
    return ended(process, talk)[0] == 5


# ---- The directory ---------------------------------------------------------------------------------------------------


def with_mode(mode: int) -> Callable[[Scene], None]:
    return lambda scene: scene.place.chmod(mode)


def by_link(scene: Scene) -> None:
    scene.place.rename(scene.base / "elsewhere")
    scene.place.symlink_to(scene.base / "elsewhere")


def of_another_user(scene: Scene) -> None:
    os.chown(scene.place, NO_PERSON, -1)


WRONG: dict[str, Any] = {
    "readable by the group": with_mode(0o740),
    "open for all": with_mode(0o777),
    "that others may enter": with_mode(0o711),
    "sticky": with_mode(0o1700),
    "with its group's rights": with_mode(0o2700),
    "that is read-only": with_mode(0o500),
    "that is a link": by_link,
    "of another user": pytest.param(of_another_user, marks=needs_root),
}


def test_a_directory_of_the_user_s_own_is_used(scene: Scene) -> None:
    scene.listen()
    assert is_served(scene)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_a_directory_is_not_used(scene: Scene, change: Callable[[Scene], None]) -> None:
    scene.listen()
    change(scene)
    assert not is_served(scene)


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_nothing_is_started_for_such_a_directory(scene: Scene, change: Callable[[Scene], None]) -> None:
    change(scene)
    scene.run_cold(*HOOK)
    assert os.listdir(scene.place) == []


@pytest.mark.parametrize("place", ["missing", "file", "relative"])
def test_nothing_is_started_where_there_is_no_directory(scene: Scene, place: str) -> None:
    (scene.base / "file").touch()
    command = [scene.front, "--service", "socket" if place == "relative" else str(scene.base / place)]
    process = subprocess.Popen(
        [*command, *scene.cold(*HOOK)],
        cwd=scene.base,
        env=scene.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    reported(process)
    assert os.listdir(scene.place) == []
    assert not (scene.base / "missing").exists()


@needs_root
def test_a_socket_of_another_user_is_not_used(scene: Scene) -> None:
    """The kernel says who listened, whoever made the file."""
    os.seteuid(0)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    directory = os.open(scene.place, os.O_PATH)
    listener.bind(f"/proc/self/fd/{directory}/{scene.key()}.sock")
    os.close(directory)
    os.seteuid(NO_PERSON)
    try:
        listener.listen(8)
    finally:
        os.seteuid(0)
    scene.listener = listener
    process = scene.start(*HOOK)
    listener.settimeout(PATIENCE)
    talk = scene.accept()  # it connects, looks, and leaves without a word
    assert talk.is_ended()
    reported(process)


@pytest.mark.parametrize("kind", ["stream", "datagram", "file"])
def test_what_is_no_socket_of_this_kind_is_not_used(scene: Scene, kind: str) -> None:
    scene.variables["CI"] = "true"
    path = scene.place / f"{scene.key()}.sock"
    if kind == "file":
        path.touch()
        scene.run_cold(*HOOK)
        return
    other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM if kind == "stream" else socket.SOCK_DGRAM)
    directory = os.open(scene.place, os.O_PATH)
    other.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)
    if kind == "stream":
        other.listen(8)
    found = scene.run_cold(*HOOK)
    other.close()
    assert found["input"] == b"typed".hex()


def test_a_full_queue_is_not_waited_for(scene: Scene) -> None:
    listener = scene.listen()
    listener.listen(0)
    waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) for _ in range(5)]
    directory = os.open(scene.place, os.O_PATH)
    failed = [each.connect_ex(f"/proc/self/fd/{directory}/{scene.key()}.sock") for each in waiting]
    assert failed[-1] == errno.EAGAIN
    os.close(directory)
    began = time.monotonic()
    scene.run_cold(*HOOK)
    assert time.monotonic() - began < 0.9
    for each in waiting:
        each.close()


def test_a_service_that_the_front_may_not_look_at_is_not_used(scene: Scene) -> None:
    """Its descriptor 3 has a name that is too long, in place of a sandbox that keeps the front from reading it."""
    scene.listen(proof="x" * 200)
    process = scene.start(*HOOK)
    assert scene.accept().is_ended()
    assert reported(process)["parent"] == os.getpid()


# ---- The name of the socket ------------------------------------------------------------------------------------------


def test_another_installation_has_another_socket(scene: Scene) -> None:
    scene.listen(key=key_of(str(scene.base / "other" / "byleave"), os.path.dirname(sys.executable)))
    assert not is_served(scene)


def test_another_python_has_another_socket(scene: Scene) -> None:
    scene.listen(key=key_of(str(scene.package), "/usr/bin"))
    assert not is_served(scene)


def test_a_process_that_gains_no_rights_has_another_socket(scene: Scene) -> None:
    import ctypes

    set_no_new_privs = 38
    scene.listen()
    assert not is_served(scene, preexec_fn=lambda: ctypes.CDLL(None).prctl(set_no_new_privs, 1, 0, 0, 0))


def test_a_process_with_other_limits_has_another_socket(scene: Scene) -> None:
    scene.listen()
    assert not is_served(scene, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99)))


@needs_root
@pytest.mark.parametrize("change", [{"extra_groups": [4242]}, {"group": 4242}])
def test_a_process_with_other_groups_has_another_socket(scene: Scene, change: dict[str, Any]) -> None:
    scene.listen()
    assert not is_served(scene, **change)


@needs_root
@pytest.mark.parametrize("flag", ["--mount", "--net", "--pid"])
def test_a_process_in_other_namespaces_has_another_socket(scene: Scene, flag: str) -> None:
    scene.listen()
    scene.front, shipped = "/usr/bin/unshare", scene.front
    command = [flag, *(["--fork"] if flag == "--pid" else []), shipped, "--service", str(scene.place)]
    process = subprocess.Popen(
        ["/usr/bin/unshare", *command, *scene.cold(*HOOK)],
        cwd=scene.base,
        env=scene.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    reported(process)
    assert scene.nobody_came()


@needs_root
def test_a_process_with_another_effective_user_is_cold(scene: Scene) -> None:
    scene.listen()
    scene.variables["CI"] = "true"
    assert not is_served(scene, preexec_fn=lambda: os.setresuid(NO_PERSON, 0, 0))


def test_a_working_directory_that_is_gone_makes_a_command_cold(scene: Scene) -> None:
    scene.listen()
    gone = scene.base / "gone"
    gone.mkdir()

    def prepare() -> None:
        os.chdir(gone)
        gone.rmdir()

    process = scene.start(*CHECK, "end=6", preexec_fn=prepare, stdin=subprocess.DEVNULL)
    assert ended(process)[0] in (1, 6)  # Python may not find its own way there
    assert scene.accept().is_ended()  # no request


# ---- The usual places, of a build that has its own -------------------------------------------------------------------


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a directory with places in it, and a front that takes them for /run/user and /tmp."""
    base = tmp_path_factory.mktemp("usual")
    flags = (f'-DFRONT_USERS_DIRECTORIES="{base}/user/"', f'-DFRONT_TEMPORARY="{base}/tmp/"')
    return base, compile_front(base / "front", *flags)


@pytest.fixture
def places(usual: tuple[Path, str], tmp_path: Path) -> Iterator[tuple[Scene, Path, Path]]:
    """Yield a scene with that front, and the two directories that it may use, the first of which is there."""
    base, path = usual
    mine, shared = base / "user" / str(os.geteuid()), base / "tmp"
    for directory in (mine, shared):
        directory.mkdir(parents=True)
        directory.chmod(0o700)
    scene = Scene.build(tmp_path, path)
    yield scene, mine / "byleave", shared / f"byleave-{os.geteuid()}"
    scene.close()
    subprocess.run(["/bin/rm", "-rf", str(base / "user"), str(shared)], check=True)


def plain(scene: Scene, **how: Any) -> subprocess.Popen[bytes]:
    """Start a hook without saying where the socket is."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(
        [scene.front, *scene.cold(*HOOK)], **{"cwd": scene.base, "env": scene.variables, **streams, **how}
    )
    scene.started.append(process)
    return process


@pytest.mark.parametrize("usable", [True, False])
def test_the_user_s_runtime_directory_comes_first(places: tuple[Scene, Path, Path], *, usable: bool) -> None:
    scene, mine, shared = places
    if not usable:
        mine.parent.chmod(0o755)
    used = mine if usable else shared
    used.mkdir(mode=0o700)
    scene.listen(place=used)
    process = plain(scene)
    talk = scene.accept()
    talk.until_go()
    talk.send(b"X4")
    assert ended(process, talk)[0] == 4


@pytest.mark.parametrize("umask", [0o000, 0o777])
@pytest.mark.parametrize("usable", [True, False])
def test_a_missing_directory_is_made_and_the_service_started_there(
    places: tuple[Scene, Path, Path], umask: int, *, usable: bool
) -> None:
    scene, mine, shared = places
    if not usable:
        mine.parent.rmdir()
    used, unused = (mine, shared) if usable else (shared, mine)
    reported(plain(scene, umask=umask))
    assert used.stat().st_mode & 0o7777 == 0o700
    assert not unused.exists()
    eventually((used / "started").exists)


def test_nothing_is_made_where_no_service_is_to_be_started(places: tuple[Scene, Path, Path]) -> None:
    scene, mine, shared = places
    scene.variables["CI"] = "1"
    reported(plain(scene))
    assert not mine.exists()
    assert not shared.exists()


@pytest.mark.parametrize("kind", ["link", "file", "open"])
def test_a_trap_in_the_shared_directory_is_not_used(places: tuple[Scene, Path, Path], kind: str) -> None:
    scene, mine, shared = places
    mine.parent.rmdir()
    target = scene.base / "target"
    target.mkdir(mode=0o700)
    if kind == "link":
        shared.symlink_to(target)
    elif kind == "file":
        shared.touch()
    else:
        shared.mkdir()
        shared.chmod(0o777)
    reported(plain(scene))
    assert os.listdir(target) == []
    assert kind != "open" or os.listdir(shared) == []


# ---- Starting the service --------------------------------------------------------------------------------------------


def started(scene: Scene) -> dict[str, Any]:
    """Wait until a service was started; return what it reports, and forget it."""
    eventually((scene.place / "started").exists)
    found: dict[str, Any] = json.loads((scene.place / "started").read_text())
    (scene.place / "started").unlink()
    return found


def is_started(scene: Scene) -> bool:
    """Whether one was started meanwhile."""
    time.sleep(0.3)  # to see that nothing happens
    return (scene.place / "started").exists()


@pytest.mark.parametrize("packages", [None, "/some:/where"])
def test_a_missing_service_is_started_with_nothing_of_the_caller_s(scene: Scene, packages: str | None) -> None:
    def prepare() -> None:
        os.umask(0)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGTERM, signal.SIGUSR1])
        os.dup2(0, 50)

    given = () if packages is None else ("--packages", packages)
    found = scene.run_cold(*HOOK, *given, preexec_fn=prepare, close_fds=False, restore_signals=False)
    assert found["children"] == ""
    service = started(scene)
    words = [sys.executable, "-I", "-S", str(scene.package / "service" / "__main__.py"), "--directory"]
    words += [str(scene.place), "--key", scene.key(packages), "--packages", packages or str(scene.package.parent)]
    assert bytes.fromhex(service["words"]) == b"".join(os.fsencode(word) + b"\0" for word in words)
    variables = ["LC_ALL=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/"]
    assert bytes.fromhex(service["environment"]) == b"".join(each.encode() + b"\0" for each in variables)
    assert service["descriptors"] == dict.fromkeys("012", "/dev/null")
    assert (service["directory"], service["Umask"], int(service["SigBlk"], 16)) == ("/", "0077", 0)
    ignored = {number for number in range(1, 65) if int(service["SigIgn"], 16) >> (number - 1) & 1}
    assert ignored == {signal.SIGPIPE, signal.SIGXFSZ}  # by Python
    assert service["leads"] == [False, False]  # it gets no terminal by opening one
    assert service["parent"] != os.getpid()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_served_command_starts_it(scene: Scene, name: str) -> None:
    scene.run_cold(*COMMANDS[name], "end=0")
    assert bytes.fromhex(started(scene)["words"]).startswith(os.fsencode(sys.executable))


def test_only_a_hook_says_where_packages_are(scene: Scene) -> None:
    """A check is harmless, so it must not choose the modules of a service that judges others."""
    scene.run_cold(*CHECK, "--packages", "/evil")
    assert b"/evil" not in bytes.fromhex(started(scene)["words"])


def test_a_hook_with_other_packages_has_another_socket(scene: Scene) -> None:
    scene.listen()
    process = scene.start(*HOOK, "--packages", "/other")
    reported(process)
    assert scene.nobody_came()
    assert started(scene)["directory"] == "/"


def test_the_command_s_own_script_says_where_packages_are_as_well(scene: Scene) -> None:
    script = scene.package / "cli" / "__main__.py"
    script.parent.mkdir()
    script.write_text((scene.package / "__main__.py").read_text())
    scene.listen(key=scene.key("/some:/where"))
    process = scene.start(cold=[sys.executable, "-I", "-S", str(script), "--packages", "/some:/where", *CHECK])
    talk = scene.accept()
    talk.until_go()
    talk.send(b"X8")
    assert ended(process, talk)[0] == 8


def test_a_socket_that_nobody_listens_at_is_no_service(scene: Scene) -> None:
    with scene.listen():
        holder = scene.started.pop()
        holder.communicate(timeout=PATIENCE)
    scene.listener = None
    scene.run_cold(*HOOK)
    assert started(scene)["directory"] == "/"


NOT_STARTED = {
    "off": {"BYLEAVE_SERVICE": "off"},
    "CI": {"CI": "true"},
    "any CI": {"CI": "x"},
}
STARTED = {
    "no CI": {"CI": "false"},
    "0 CI": {"CI": "0"},
    "empty CI": {"CI": ""},
    "another variable": {"CIRCLE": "x"},
}


@pytest.mark.parametrize("variables", NOT_STARTED.values(), ids=NOT_STARTED.keys())
def test_it_is_not_started_with_these_variables(scene: Scene, variables: dict[str, str]) -> None:
    scene.variables |= variables
    scene.run_cold(*HOOK)
    assert not is_started(scene)
    assert os.listdir(scene.place) == []


@pytest.mark.parametrize("variables", STARTED.values(), ids=STARTED.keys())
def test_it_is_started_with_these_variables(scene: Scene, variables: dict[str, str]) -> None:
    scene.variables |= variables
    scene.run_cold(*HOOK)
    assert started(scene)["directory"] == "/"


def test_it_is_not_started_for_a_cold_command(scene: Scene) -> None:
    scene.run_cold("doctor")
    assert not is_started(scene)
    assert os.listdir(scene.place) == []


def test_it_is_tried_once_in_ten_seconds(scene: Scene) -> None:
    scene.run_cold(*HOOK)
    started(scene)
    mark = scene.place / f"{scene.key()}.starting"
    assert mark.stat().st_mode & 0o7777 == 0o600
    for age in (0, 8):
        os.utime(mark, (time.time() - age,) * 2)
        scene.run_cold(*HOOK)
        assert not is_started(scene)
    for age in (12, 100_000, -100):  # the last one: the clock was set back
        os.utime(mark, (time.time() - age,) * 2)
        scene.run_cold(*HOOK)
        started(scene)
        assert abs(mark.stat().st_mtime - time.time()) < 5


def test_of_many_that_find_it_missing_one_starts_it(scene: Scene) -> None:
    log = scene.base / "log"
    (scene.package / "service" / "__main__.py").write_text(f"open({str(log)!r}, 'a').write('x')\n")
    for age in (None, 60):
        if age is not None:
            os.utime(scene.place / f"{scene.key()}.starting", (time.time() - age,) * 2)
        log.unlink(missing_ok=True)
        processes = [scene.start(*HOOK, stdin=subprocess.DEVNULL) for _ in range(12)]
        for process in processes:
            process.communicate(timeout=PATIENCE)
        eventually(log.exists)
        time.sleep(0.3)  # to see that nothing happens
        assert log.read_text() == "x"


@pytest.mark.parametrize("kind", ["link", "directory", "fifo"])
def test_a_trap_in_place_of_the_mark_starts_nothing(scene: Scene, kind: str) -> None:
    mark, target = scene.place / f"{scene.key()}.starting", scene.base / "target"
    if kind == "link":
        mark.symlink_to(target)
    elif kind == "directory":
        mark.mkdir()
    else:
        os.mkfifo(mark)
    if kind != "link":
        os.utime(mark, (0, 0))
    scene.run_cold(*HOOK)
    assert not is_started(scene)
    assert not target.exists()


def test_a_service_that_cannot_be_started_keeps_nothing_from_running(scene: Scene) -> None:
    (scene.package / "service" / "__main__.py").unlink()
    assert scene.run_cold(*HOOK)["children"] == ""


@needs_root
def test_an_ordinary_user_has_a_service_as_well(front: str) -> None:
    base = Path(tempfile.mkdtemp(prefix="byleave-front-"))  # where that user may look
    scene = Scene.build(base, shutil.copy(front, str(base / "front")))
    for name in (base, *base.rglob("*")):
        os.chown(name, NO_PERSON, NO_PERSON)
    user: dict[str, Any] = {"user": NO_PERSON, "group": NO_PERSON, "extra_groups": []}
    command = ["/usr/bin/python3", "-I", "-S", str(scene.package / "hooks" / "__main__.py"), *HOOK]
    try:
        reported(scene.start(cold=command, **user))
        words = bytes.fromhex(started(scene)["words"]).split(b"\0")
        key = words[words.index(b"--key") + 1].decode()
        assert (scene.place / f"{key}.starting").stat().st_uid == NO_PERSON
        (scene.place / f"{key}.sock").unlink(missing_ok=True)
        scene.listen(key=key, owner=NO_PERSON, **user)
        process = scene.start(cold=command, **user)
        talk = scene.accept()
        talk.until_go()
        talk.send(b"X5")
        assert ended(process, talk)[0] == 5
    finally:
        scene.close()
        shutil.rmtree(base)


# ---- A front that cannot start Python --------------------------------------------------------------------------------

UNSTARTABLE = {
    "a hook": (HOOK, 2, b"byleave: the call is blocked: its Python cannot be started\n"),
    "a check": (CHECK, 127, b"byleave: its Python cannot be started\n"),
}


@pytest.mark.parametrize(("words", "code", "text"), UNSTARTABLE.values(), ids=UNSTARTABLE.keys())
def test_a_hook_blocks_if_its_python_is_gone(scene: Scene, words: tuple[str, ...], code: int, text: bytes) -> None:
    command = ["/nowhere/python3", *scene.cold(*words)[1:]]
    assert ended(scene.start(cold=command)) == (code, b"", text)


@pytest.mark.parametrize("words", [[], ["--service"], ["--service", "/x"], ["python3", "-I"]])
def test_without_a_python_it_says_how_it_is_started(scene: Scene, words: list[str]) -> None:
    done = subprocess.run([scene.front, *words], capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == 2
    assert b"this is not how the front is started" in done.stderr


@needs_unshare
def test_without_proc_it_names_what_is_missing(scene: Scene) -> None:
    words = ["unshare", "-r", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"', str(scene.front)]
    for more in ([], ["--version"]):
        done = subprocess.run([*words, *more], capture_output=True, check=False, timeout=PATIENCE)
        assert done.returncode == 2
        assert done.stderr.startswith(b"byleave: /proc cannot be read")
        assert b"hint: mount -t proc proc /proc" in done.stderr
