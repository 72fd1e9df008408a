"""The front: what it asks a service, and that without one the cold command runs as if there were no front."""

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from byleave.sandbox.native import build
from sandbox.front_scene import PATIENCE, Scene, Talk, eventually, key_of, reported

pytestmark = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C compiler")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")

HOOK = ("hook", "claude-code", "--home", "/h")
CHECK = ("check", "read", "x")
RUN = ("run", "--", "true")
CALL = ("call", "tool", "--no-input")
COMMANDS = {"hook": HOOK, "check": CHECK, "run": RUN, "call": CALL}
BLOCKED = b"byleave: the call is blocked: the service ended without an answer\n"
UNANSWERED = {
    "hook": (2, BLOCKED),
    "check": (1, b"byleave: the service ended without an answer\n  hint: try again\n"),
    "run": (125, b"byleave: the service ended, and with it the command\n"),
    "call": (1, b"byleave: the service ended, and with it the call\n"),
}


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the front as it is shipped."""
    return build.find_front(str(tmp_path_factory.mktemp("front"))) or ""


@pytest.fixture
def scene(tmp_path: Path, front: str) -> Iterator[Scene]:
    """Yield an installation with that front."""
    made = Scene.build(tmp_path, front)
    yield made
    made.close()


@pytest.fixture
def served(scene: Scene) -> Scene:
    """Return the same with a service that listens."""
    scene.listen()
    return scene


def ended(process: subprocess.Popen[bytes], talk: Talk | None = None) -> tuple[int, bytes, bytes]:
    if talk is not None:
        talk.let_go()
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


# ---- What is asked ---------------------------------------------------------------------------------------------------


def test_a_request_holds_the_whole_command_and_go_the_streams(served: Scene) -> None:
    odd = [b"\xff\xfe", b"", b"two words", b"line\nbreak", "\u00e4".encode()]
    served.variables |= {"ODD": "a=b\n", "EMPTY": ""}
    environment = {**{name.encode(): value.encode() for name, value in served.variables.items()}, b"RAW": b"\xff"}
    process = served.start(*HOOK, *odd, env=environment, umask=0o027)
    talk = served.accept()
    request = talk.receive()
    assert request.body == b"Qbyleave-service-1\n/memfd:proof-of-a-test (deleted)"
    content, directory = request.descriptors
    numbers, _, rest = os.read(content, 1 << 20).partition(b"\n")
    words = [os.fsencode(word) for word in served.cold(*HOOK, *odd)]
    variables = [name + b"=" + value for name, value in environment.items()]
    assert rest.split(b"\0") == [*words, *variables, b""]
    assert numbers == b"%d %d 27 %d" % (len(words), len(variables), os.getpid())
    assert os.path.samestat(os.stat(directory), os.stat(served.base))
    talk.send(b"A")
    go = talk.receive()
    assert go.body == b"G"
    for ours, theirs in zip((process.stdin, process.stdout, process.stderr), go.descriptors, strict=True):
        assert ours is not None
        assert os.fstat(ours.fileno()).st_ino == os.fstat(theirs).st_ino


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("code", [0, 1, 2, 125, 255])
def test_it_exits_with_the_code_that_the_service_says(served: Scene, name: str, code: int) -> None:
    process = served.start(*COMMANDS[name])
    talk = served.accept()
    _stdin, stdout, stderr = talk.until_go()
    os.write(stdout, b"out")
    os.write(stderr, b"err")
    talk.send(b"X%d" % code)
    talk.close()
    assert ended(process, talk) == (code, b"out", b"err")


def test_a_limit_for_files_makes_a_command_cold_and_does_not_end_it(scene: Scene) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        scene.listen()
        report = scene.run_cold(*HOOK)  # Popen has it start with the default action of SIGXFSZ
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert bytes.fromhex(report["input"]) == b"typed"


def test_an_answer_is_read_although_the_service_left_without_reading_all_of_ours(served: Scene) -> None:
    process = served.start(*HOOK)
    talk = served.accept()
    talk.receive()
    talk.send(b"A")
    eventually(lambda: talk.connection.recv(8, socket.MSG_PEEK))
    talk.send(b"X9")
    talk.close()
    assert ended(process, talk)[0] == 9


def test_the_module_is_found_beside_its_python(scene: Scene) -> None:
    programs = scene.base / "venv" / "bin"
    package = scene.base / "venv" / "lib" / "python3.12" / "site-packages" / "byleave"
    for directory in (programs, package):
        directory.mkdir(parents=True)
    (package / "__init__.py").touch()
    scene.listen(key=key_of(str(package), str(programs)))
    process = scene.start(cold=[str(programs / "python3"), "-P", "-m", "byleave", *CHECK])
    talk = scene.accept()
    talk.until_go()
    talk.send(b"X3")
    assert ended(process, talk)[0] == 3


# ---- Cold without a look at the socket -------------------------------------------------------------------------------

COLD_WORDS: dict[str, tuple[str, ...]] = {
    "another command": ("doctor",),
    "no command": (),
    "help": ("check", "-h"),
    "long help": ("run", "--help"),
    "a batch": ("check", "--batch", "x"),
    "a diagnosis": ("run", "--diagnose", "--", "true"),
    "an explanation": ("run", "--explain", "--", "true"),
    "a mount": ("run", "--mount=x", "--", "true"),
    "no mount": ("run", "--no-mount", "--", "true"),
    "a stream of calls": ("call", "tool", "--no-input", "--keep"),
    "the schema of a tool": ("call", "tool", "--no-input", "--schema"),
    "an installation": ("hook", "--install", "claude-code"),
    "an installation for all": ("hook", "--install-for=x"),
    "a removal": ("hook", "--uninstall", "claude-code"),
    "a file that the caller has open": ("check", "read", "--policy=/dev/fd/7", "x"),
    "a file of the caller's process": ("run", "--access", "/proc/self/fd/7", "--", "true"),
    "a resumption": ("hook", "--resume", "claude-code"),
}


@pytest.mark.parametrize("words", COLD_WORDS.values(), ids=COLD_WORDS.keys())
def test_these_commands_are_cold(served: Scene, words: tuple[str, ...]) -> None:
    served.run_cold(*words)
    assert served.nobody_came()


def test_words_behind_two_dashes_are_not_the_front_s(served: Scene) -> None:
    process = served.start("run", "--", "ls", "--help", "--mount")
    talk = served.accept()
    talk.until_go()
    talk.send(b"X0")
    assert ended(process, talk) == (0, b"", b"")


COLD_VARIABLES = {
    "switched off": {"BYLEAVE_SERVICE": "off"},
    "latin 1": {"LC_ALL": "de_DE.ISO-8859-1"},
    "latin 1 for letters": {"LC_ALL": "", "LC_CTYPE": "de_DE@euro", "LANG": "C.UTF-8"},
    "latin 1 by default": {"LC_ALL": "", "LC_CTYPE": "", "LANG": "en_US"},
    "a library that Python is started with": {"LD_PRELOAD": "libc.so.6"},
}
SERVED_VARIABLES = {
    "on": {"BYLEAVE_SERVICE": "on"},
    "C": {"LC_ALL": "C"},
    "POSIX": {"LC_ALL": "POSIX"},
    "utf8": {"LC_ALL": "en_US.utf8"},
    "UTF-8 with a modifier": {"LC_ALL": "", "LC_CTYPE": "de_DE.UTF-8@euro", "LANG": "en_US"},
    "no locale": {"LC_ALL": ""},
    "Python variables that an isolated one ignores": {"PYTHONPATH": "/x", "PYTHONHOME": "/y"},
    "CI": {"CI": "true"},
    "no library": {"LD_PRELOAD": "", "LD_AUDIT": ""},
}


@pytest.mark.parametrize("variables", COLD_VARIABLES.values(), ids=COLD_VARIABLES.keys())
def test_with_these_variables_commands_are_cold(served: Scene, variables: dict[str, str]) -> None:
    served.variables |= variables
    served.run_cold(*HOOK)
    assert served.nobody_came()


@pytest.mark.parametrize("variables", SERVED_VARIABLES.values(), ids=SERVED_VARIABLES.keys())
def test_with_these_variables_commands_are_served(served: Scene, variables: dict[str, str]) -> None:
    served.variables |= variables
    process = served.start(*HOOK)
    talk = served.accept()
    talk.until_go()
    talk.send(b"X0")
    assert ended(process, talk) == (0, b"", b"")


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHASHSEED", "PYTHONSAFEPATH"])
def test_a_variable_that_changes_python_makes_a_command_cold(served: Scene, name: str) -> None:
    served.variables[name] = "1"
    plain = [sys.executable, str(served.package / "__main__.py"), *CHECK]
    reported(served.start(cold=plain))
    assert served.nobody_came()


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "OPENSSL_CONF"])
@pytest.mark.parametrize("command", ["run", "call"])
def test_a_variable_that_changes_how_connections_are_made_makes_a_command_cold(
    served: Scene, name: str, command: str
) -> None:
    """The service answers the network requests of a sandbox and of a tool, with libraries that it has loaded."""
    served.variables[name] = "/elsewhere"
    served.run_cold(*COMMANDS[command])
    assert served.nobody_came()


@pytest.mark.parametrize("name", ["PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPYCACHEPREFIX"])
def test_a_variable_that_changes_no_answer_does_not(served: Scene, name: str) -> None:
    served.variables[name] = "1"
    process = served.start(cold=[sys.executable, str(served.package / "__main__.py"), *CHECK])
    talk = served.accept()
    talk.until_go()
    talk.send(b"X0")
    assert ended(process, talk)[0] == 0


def test_a_command_that_is_too_large_is_cold(served: Scene) -> None:
    large = ["x" * 100_000] * 12
    served.run_cold(*HOOK, *large)
    served.run_cold(*HOOK, *["x"] * 20_000)
    assert served.nobody_came()


def test_a_run_at_a_terminal_is_cold_and_a_hook_is_not(served: Scene) -> None:
    ours, theirs = os.openpty()
    for stream in ("stdin", "stdout", "stderr"):
        others: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = served.start(*RUN, "end=4", **{**others, stream: theirs})
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 4
    assert served.nobody_came()
    process = served.start(*HOOK, stdin=theirs)
    talk = served.accept()
    talk.until_go()
    talk.send(b"X0")
    assert ended(process, talk)[0] == 0
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("stream", [0, 1, 2])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_stream_makes_a_command_cold(served: Scene, name: str, stream: int) -> None:
    process = served.start(*COMMANDS[name], "end=6", preexec_fn=lambda: os.close(stream))
    process.communicate(timeout=PATIENCE)
    assert process.returncode in (6, 1)  # Python fails to report on a closed stream
    assert served.nobody_came()


SCRIPTS: dict[str, Callable[[Scene], list[str]]] = {
    "another script": lambda scene: [str(scene.base / "other.py")],
    "a hook's script for another command": lambda scene: ["-I", str(scene.package / "hooks" / "__main__.py")],
    "an unknown flag": lambda scene: ["-X", "utf8", "-I", str(scene.package / "__main__.py")],
    "code": lambda scene: ["-c", f"exec(open({str(scene.package / '__main__.py')!r}).read())"],
}


@pytest.mark.parametrize("words", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_other_scripts_are_cold(served: Scene, words: Callable[[Scene], list[str]]) -> None:
    (served.base / "other.py").write_text((served.package / "__main__.py").read_text())
    reported(served.start(cold=[sys.executable, *words(served), *CHECK]))
    assert served.nobody_came()


# ---- The cold command is the same ------------------------------------------------------------------------------------


def state_of(scene: Scene, prefix: list[str], *words: bytes | str, **how: Any) -> dict[str, Any]:
    """Return what a cold command reports that gets files as its streams, and another descriptor."""
    paths = [scene.base / name for name in ("in", "out", "err")]
    paths[0].write_bytes(b"typed")
    with paths[0].open("rb") as stdin, paths[1].open("wb") as stdout, paths[2].open("wb") as stderr:
        streams: dict[str, Any] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        command = [*prefix, *scene.cold(*words)]
        done = subprocess.run(command, check=False, timeout=PATIENCE, **streams, **how)
    return {"code": done.returncode, "out": paths[1].read_bytes(), "err": paths[2].read_bytes()}


@pytest.mark.parametrize("answer", [b"N", b"", None])
@pytest.mark.parametrize("end", ["end=0", "end=7", "end=-15", "end=-9"])
def test_the_cold_command_runs_as_if_there_were_no_front(scene: Scene, answer: bytes | None, end: str) -> None:
    extra = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(extra, True)

    def prepare() -> None:
        os.umask(0o035)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR1, signal.SIGCHLD])

    environment = {b"A": b"\xff\n", b"HOME": b"/"}
    how: dict[str, Any] = {"env": environment, "cwd": "/", "close_fds": False, "preexec_fn": prepare}
    words = (*HOOK, b"\xff", b"", end)
    expected = state_of(scene, [], *words, **how)
    assert b"environment" in expected["out"]

    def refuse() -> None:
        talk = scene.accept()
        talk.receive()
        if answer:
            talk.send(answer)
        talk.close()

    service = Thread(target=refuse)
    if answer is not None:  # else a service is started, too
        scene.listen()
        service.start()
    assert state_of(scene, [scene.front, "--service", str(scene.place)], *words, **how) == expected
    if answer is not None:
        service.join()
    os.close(extra)
