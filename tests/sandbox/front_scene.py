"""A scene for the front: an installation whose programs report what they were started with, and a scripted service."""

import array
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from byleave.sandbox.native import build
from sandbox.machine import PYTHON as SYSTEM_PYTHON

PATIENCE = 30  # seconds that an answer may take on a busy machine
VERSION = "byleave-service-1"
MOST_PASSED = 64

# What a process was started with; the descriptor of the listing itself is left out.
STATE = """\
import json, os, sys
def state():
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass
    return {
        "words": open("/proc/self/cmdline", "rb").read().hex(),
        "environment": open("/proc/self/environ", "rb").read().hex(),
        "directory": os.readlink("/proc/self/cwd"),
        "descriptors": found,
        "children": open("/proc/thread-self/children").read(),
        "parent": os.getppid(),
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "input": sys.stdin.buffer.read().hex() if __name__ == "cold" and not os.isatty(0) else "",
        **{name: status[name] for name in ("Umask", "SigBlk", "SigIgn", "SigPnd", "ShdPnd", "NoNewPrivs")},
    }
"""
# The cold command: reports, then ends as its word `end=` says.
COLD = (
    STATE
    + """
__name__ = "cold"
sys.stdout.write(json.dumps(state()))
sys.stdout.flush()
sys.stderr.write("cold")
sys.stderr.flush()
for word in sys.argv:
    if word.startswith("end=-"):
        os.kill(os.getpid(), int(word[5:]))
    elif word.startswith("end="):
        os._exit(int(word[4:]))
"""
)
SERVICE = (
    STATE
    + """
place = sys.argv[sys.argv.index("--directory") + 1]
found = json.dumps(state())
with open(place + "/unfinished", "w") as file:
    file.write(found)
os.rename(place + "/unfinished", place + "/started")
"""
)
# In place of a launcher: says on its control socket what it was started with, and which signals it gets.
LAUNCHER = (
    STATE
    + """
import signal, socket
control = socket.socket(fileno=int(sys.argv[-1]))
if "report" in sys.argv:
    control.send(json.dumps(state()).encode())
for word in sys.argv:
    if word.startswith("end="):
        os._exit(int(word[4:]))
every = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
signal.pthread_sigmask(signal.SIG_SETMASK, every)
control.send(b"ready")
while True:
    got = signal.sigwaitinfo(every)
    control.send(b"%d %d" % (got.si_signo, got.si_pid))
    if got.si_signo == signal.SIGTERM:
        os._exit(7)
"""
)


# The process that listens, as the kernel says it to the front: its descriptor 3 has a name that only those read who may
# look at it. The test itself accepts what comes.
LISTENER = """\
import os, socket, sys
listener = socket.socket(fileno=os.dup2(int(sys.argv[1]), 9))
os.dup2(os.memfd_create(sys.argv[2]), 3)
listener.listen(64)
print(flush=True)
sys.stdin.read()
"""
PROOF = "proof-of-a-test"


@dataclass(frozen=True)
class Packet:
    """A packet, and the descriptors that came with it."""

    body: bytes
    descriptors: list[int]


@dataclass
class Talk:
    """The service's end of a connection."""

    connection: socket.socket
    received: list[int] = field(default_factory=list)

    def receive(self) -> Packet:
        body, ancillary, _flags, _address = self.connection.recvmsg(1 << 16, socket.CMSG_SPACE(MOST_PASSED * 4))
        descriptors = array.array("i")
        for _level, _kind, data in ancillary:
            descriptors.frombytes(data)
        self.received += descriptors
        return Packet(body, list(descriptors))

    def send(self, body: bytes, descriptors: Sequence[int] = ()) -> None:
        socket.send_fds(self.connection, [body], descriptors) if descriptors else self.connection.send(body)

    def until_go(self) -> list[int]:
        """Take the request, and go on until nothing may run twice any more; return the streams."""
        self.receive()
        self.send(b"A")
        go = self.receive()
        assert go.body == b"G"
        return go.descriptors

    def is_ended(self) -> bool:
        try:
            return self.receive().body == b""
        except ConnectionResetError:  # it left without reading all of ours
            return True

    def let_go(self) -> None:
        """Close what came with packets: as long as it is open, nobody sees the end of the front's output."""
        while self.received:
            os.close(self.received.pop())

    def close(self) -> None:
        self.let_go()
        self.connection.close()


@dataclass
class Scene:
    """An installation, a directory for its socket, and a service that does what a test says."""

    base: Path
    front: str
    listener: socket.socket | None = None
    variables: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    controls: list[socket.socket] = field(default_factory=list)

    @classmethod
    def build(cls, base: Path, front: str) -> "Scene":
        scene = cls(base, front, variables={"HOME": str(base), "LC_ALL": "C.UTF-8"})
        for name, text in {
            "__init__.py": "",
            "__main__.py": COLD,
            "hooks/__main__.py": COLD,
            "service/__main__.py": SERVICE,
        }.items():
            file = scene.package / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (base / "launcher.py").write_text(LAUNCHER)
        scene.place.mkdir(mode=0o700)
        scene.place.chmod(0o700)
        return scene

    @property
    def package(self) -> Path:
        return self.base / "packages" / "byleave"

    @property
    def place(self) -> Path:
        return self.base / "socket"

    def cold(self, *words: str | bytes) -> list[str | bytes]:
        """Return the cold command, as an agent starts a hook, or as a person starts anything else."""
        script = self.package / ("hooks/__main__.py" if words[:1] == ("hook",) else "__main__.py")
        return [sys.executable, "-I", "-S", str(script), *words]

    def key(self, packages: str | None = None) -> str:
        return key_of(str(self.package), os.path.dirname(sys.executable), packages)

    def listen(
        self, place: Path | None = None, key: str | None = None, proof: str = PROOF, owner: int = -1, **how: Any
    ) -> socket.socket:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        directory = os.open(place or self.place, os.O_PATH)  # the path of a test is too long for a socket
        path = f"/proc/self/fd/{directory}/{key or self.key()}.sock"
        self.listener.bind(path)
        os.chown(path, owner, -1)
        os.close(directory)
        command = [SYSTEM_PYTHON, "-I", "-S", "-c", LISTENER, str(self.listener.fileno()), proof]
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(self.listener.fileno(),), **how
        )
        self.started.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        self.listener.settimeout(PATIENCE)
        return self.listener

    def accept(self) -> Talk:
        assert self.listener is not None
        connection, _address = self.listener.accept()
        connection.settimeout(PATIENCE)
        self.talks.append(Talk(connection))
        return self.talks[-1]

    def nobody_came(self) -> bool:
        assert self.listener is not None
        self.listener.setblocking(False)
        try:
            self.listener.accept()
        except BlockingIOError:
            return True
        finally:
            self.listener.settimeout(PATIENCE)
        return False

    def start(self, *words: str | bytes, cold: Sequence[str | bytes] = (), **how: Any) -> subprocess.Popen[bytes]:
        """Start the front with a command; `cold` instead of the usual one."""
        command = [self.front, "--service", str(self.place), *(cold or self.cold(*words))]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(command, **{"cwd": self.base, "env": self.variables, **streams, **how})
        self.started.append(process)
        return process

    def run_cold(self, *words: str | bytes, feed: bytes = b"typed", **how: Any) -> dict[str, Any]:
        """Run a command that the service does not get to see, or does not serve; return what it reports."""
        return reported(self.start(*words, **how), feed)

    def launch(
        self,
        talk: Talk,
        *words: str,
        flag: bytes = b"-",
        mask: int = 0,
        lock: int | None = None,
        command: Sequence[str] = (),
    ) -> socket.socket:
        """Have the front start the launcher of the scene; return the other end of its control socket."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(PATIENCE)
        self.controls.append(ours)
        steps = os.memfd_create("steps")
        command = command or [sys.executable, "-I", "-S", str(self.base / "launcher.py"), *words]
        body = b"L" + flag + b"%016x\0" % mask + b"".join(os.fsencode(word) + b"\0" for word in command)
        talk.send(body, [steps, theirs.fileno(), *([] if lock is None else [lock])])
        theirs.close()
        os.close(steps)
        return ours

    def close(self) -> None:
        for talk in self.talks:
            talk.close()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for control in self.controls:
            control.close()
        if self.listener is not None:
            self.listener.close()


def reported(process: subprocess.Popen[bytes], feed: bytes = b"typed") -> dict[str, Any]:
    """Return what a cold command reports; it fails if none ran."""
    out, err = process.communicate(feed, timeout=PATIENCE)
    assert (err, process.returncode) == (b"cold", 0)
    found: dict[str, Any] = json.loads(out)
    assert found["input"] == feed.hex()
    return found


def key_of(package: str, programs: str, packages: str | None = None) -> str:
    """Return the name of the socket for a process like this one."""
    lines = [VERSION, package, programs, packages or os.path.dirname(package), f"{os.geteuid()} {os.getegid()}"]
    spaces = ["mnt", "user", "pid", "net", "ipc", "uts", "cgroup", "time", "pid_for_children", "time_for_children"]
    lines += [os.readlink(f"/proc/self/ns/{name}") for name in spaces if os.path.lexists(f"/proc/self/ns/{name}")]
    status = Path("/proc/self/status").read_text().splitlines()
    for name in [
        "NoNewPrivs",
        "Seccomp",
        "Seccomp_filters",
        "Groups",
        "CapEff",
        "CapPrm",
        "CapInh",
        "CapBnd",
        "CapAmb",
    ]:
        lines += [line for line in status if line.startswith(f"{name}:")]
    try:
        lines += [Path("/proc/self/attr/current").read_text()]
    except OSError:
        lines += [""]
    root = Path("/").stat()
    lines += [f"{root.st_dev} {root.st_ino}", Path("/proc/self/limits").read_text()]
    value = 0x6C62272E07BB014262B821756295C58D  # FNV-1a with 128 bits
    for byte in b"".join(os.fsencode(line) + b"\n" for line in lines):
        value = (value ^ byte) * ((1 << 88) + 0x13B) % (1 << 128)
    return f"{value:032x}"


def eventually(holds: Callable[[], object]) -> None:
    """Wait for something that gives no event."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def signals_at(control: socket.socket) -> Iterator[int]:
    """Wait until the launcher of the scene is ready; return the signals that it gets."""
    assert control.recv(64) == b"ready"
    return (int(said.split()[0]) for said in iter(lambda: control.recv(64), b""))


def built_front(kind: str, place: Path) -> str:
    """Return the front as it is `shipped`, or one that is `sanitized`, which exits with 99 at an error."""
    if kind == "shipped":
        return build.find_front(str(place)) or ""
    why = build.build_sanitized(str(place), (build.FRONT,))
    if why:
        pytest.skip(f"the sanitizers cannot be used here: {why[:200]}")
    return str(place / build.front_name())


def compile_front(target: Path, *flags: str) -> str:
    """Build a front as `build.py` does, with more flags."""
    compiler = build.find_compiler() or ""
    errors = build.compile_launcher(
        compiler,
        str(target),
        (*build.RECIPES[build.FRONT][0][0], *flags),
        build.RECIPES[build.FRONT][0][1],
        strict=True,
    )
    assert errors == ""
    return str(target)
