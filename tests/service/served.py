"""A service of its own in a temporary directory, and a front written in Python: every step of it can go another way."""

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import byleave
from byleave.policy.dirs import own_packages
from byleave.service.directory import peer_of
from hooks.hook_scene import HookScene

PACKAGE = Path(byleave.__file__).parent
PATIENCE = 30.0
HOOK = PACKAGE / "hooks" / "__main__.py"


@dataclass(frozen=True)
class Served:
    """How a served command ended; `code` is None if the service took it and never said."""

    code: int | None
    out: str
    err: str


class RefusedError(Exception):
    """The service did not take the request; the text is what it said instead."""


@dataclass
class TestService:
    """A running service."""

    __test__ = False
    process: subprocess.Popen[bytes]
    directory: Path
    package: Path = PACKAGE

    @property
    def address(self) -> str:
        return str(self.directory / "key.sock")

    def connect(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(PATIENCE)
        line.connect(self.address)
        return line

    def proof(self, line: socket.socket) -> bytes:
        return os.fsencode(os.readlink(f"/proc/{peer_of(line)[0]}/fd/3"))

    def cold(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "byleave", *words]

    def hook(self, agent: str, *words: str) -> list[str]:
        return [sys.executable, "-I", "-S", str(self.package / "hooks" / "__main__.py"), "hook", agent, *words]

    def send(
        self,
        line: socket.socket,
        cold: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        proof: bytes | None = None,
    ) -> None:
        """Send a request, as the front does."""
        request = os.memfd_create("request")
        os.write(request, request_bytes(cold, env))
        place = os.open(cwd, os.O_PATH | os.O_DIRECTORY)
        told = self.proof(line) if proof is None else proof
        socket.send_fds(line, [b"Qbyleave-service-1\n" + told], [request, place])
        os.close(request)
        os.close(place)

    def ask(self, *cold: str, cwd: Path, env: Mapping[str, str], feed: bytes = b"") -> Served:
        """Have a command answered that starts no program."""
        with self.connect() as line, capturing(feed) as (streams, taken):
            self.send(line, cold, cwd=cwd, env=env)
            said = line.recv(100)
            if said != b"A":
                raise RefusedError(said.decode())
            go(line, streams)
            told = last_word(line)
            code = int(told[1:]) if told.startswith(b"X") else None
            return Served(code, *taken())

    def ends(self, patience: float = PATIENCE) -> bool:
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True


def go(line: socket.socket, streams: Sequence[int]) -> None:
    """Say that the service may go on, with these streams."""
    socket.send_fds(line, [b"G"], streams)


def last_word(line: socket.socket) -> bytes:
    """Return what the service says but for that a call goes on."""
    while (said := line.recv(100)) == b"B":
        pass
    return said


def request_bytes(cold: Sequence[str], env: Mapping[str, str]) -> bytes:
    strings = [*cold, *[f"{name}={value}" for name, value in env.items()]]
    head = b"%d %d 022 %d\n" % (len(cold), len(env), os.getppid())
    return head + b"".join([os.fsencode(each) + b"\0" for each in strings])


@contextmanager
def capturing(feed: bytes) -> Iterator[tuple[list[int], Callable[[], list[str]]]]:
    """Lend three streams: one to read from, and two files."""
    made = [os.memfd_create(name) for name in ("in", "out", "err")]
    os.write(made[0], feed)
    os.lseek(made[0], 0, os.SEEK_SET)

    def taken() -> list[str]:
        return [os.pread(each, 1 << 20, 0).decode() for each in made[1:]]

    try:
        yield made, taken
    finally:
        for each in made:
            os.close(each)


@contextmanager
def service(directory: Path, package: Path = PACKAGE) -> Iterator[TestService]:
    """Run a service in the directory, which is made."""
    directory.mkdir(mode=0o700)
    packages = own_packages()
    words = [sys.executable, "-I", "-S", str(package / "service" / "__main__.py")]
    words += ["--directory", str(directory), "--key", "key"]
    words += ["--packages", packages] if packages else []
    env = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": "/"}
    process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, cwd="/", start_new_session=True)
    running = TestService(process, directory, package)
    end = time.monotonic() + PATIENCE
    while not Path(running.address).exists():
        assert process.poll() is None, "the service ended"
        assert time.monotonic() < end, "the service does not start"
        time.sleep(0.01)
    try:
        yield running
    finally:
        process.terminate()
        process.wait(PATIENCE)


class PythonFront:
    """A front for `run`, in this process: it starts the launcher as a child, and can be let go of at any point."""

    def __init__(
        self, running: TestService, cold: Sequence[str], *, cwd: Path, env: Mapping[str, str], streams: Sequence[int]
    ) -> None:
        self.line = running.connect()
        running.send(self.line, cold, cwd=cwd, env=env)
        said = self.line.recv(100)
        if said != b"A":
            raise RefusedError(said.decode())
        self._streams = list(streams)
        go(self.line, streams)
        self.child = 0

    def start(self) -> int | None:
        """Start what the service says; return the exit code instead if it starts nothing."""
        message, descriptors, _flags, _address = socket.recv_fds(self.line, 65536, 4)
        if message.startswith(b"X"):
            return int(message[1:])
        assert message[:1] == b"L", message
        assert len(descriptors) in (2, 3)
        _mask, *words = message[2:].split(b"\0")[:-1]
        self.child = os.fork()
        if self.child == 0:
            self._become(words, descriptors, own_session=message[1:2] == b"s")
        for each in descriptors:
            os.close(each)
        pidfd = os.pidfd_open(self.child)
        socket.send_fds(self.line, [b"P%d" % self.child], [pidfd])
        os.close(pidfd)
        return None

    def _become(self, words: list[bytes], descriptors: list[int], *, own_session: bool) -> None:
        try:
            if own_session:
                os.setsid()
            moved = [fcntl.fcntl(each, fcntl.F_DUPFD, 100) for each in (*self._streams, *descriptors)]
            for number, each in enumerate(moved):
                os.dup2(each, number)
            os.closerange(len(moved), 1000)
            os.execve(words[0], [*words, b"3", b"4"], {})  # noqa: S606 -- as the front does it
        finally:
            os._exit(1)

    def ends(self) -> int | None:
        """Wait for the program and report it; return the exit code that the service says, None if it says none."""
        status = os.waitpid(self.child, 0)[1]
        try:
            self.line.send(b"E%d" % status)
            said = self.line.recv(100)
        except OSError:
            said = b""
        self.close()
        return int(said[1:]) if said.startswith(b"X") else None

    def close(self) -> None:
        self.line.close()


def run_served(running: TestService, *cold: str, cwd: Path, env: Mapping[str, str], feed: bytes = b"") -> Served:
    """Run a program through the service to its end."""
    with capturing(feed) as (streams, taken):
        front = PythonFront(running, cold, cwd=cwd, env=env, streams=streams)
        code = front.start()
        code = front.ends() if code is None else code
        front.close()
        return Served(code, *taken())


def variables(scene: HookScene) -> dict[str, str]:
    """Return the environment of a user's command."""
    return {"HOME": str(scene.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
