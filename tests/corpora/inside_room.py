"""The process that everything of a room runs below: `python inside_room.py SCENE REPOSITORY SECRET`, in new namespaces.

The machine is read-only here, `/tmp` and the devices are the room's own, and there is no network but a loopback of its
own. It stands for the agent: hooks and commands are its children. What must not be reached listens here too, and counts
who came. Requests come as lines of JSON on standard input, and each is answered by a line on standard output.
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any

_BIND, _READ_ONLY, _REMOUNT = 4096, 1, 32  # flags of mount(2)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DISPLAY = "\0/tmp/.X11-unix/X77"
_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    words = [word.encode() if word is not None else None for word in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), options.encode() if options else None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def close_the_room(scene: str, repository: str) -> None:
    """Make all but the scene read-only, and give the room its own /tmp, /dev and loopback."""
    kept = {path: os.open(path, os.O_PATH) for path in (repository, scene)}
    own = os.open(f"{scene}/tmp", os.O_PATH)
    _mount(f"/proc/self/fd/{own}", "/tmp", flags=_BIND)
    for path, descriptor in kept.items():
        if path.startswith("/tmp/"):
            os.makedirs(path, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}", path, flags=_BIND)
    _mount("none", "/var/tmp", "tmpfs", 0, "mode=1777")
    _own_devices()
    writable = (scene, "/tmp", "/var/tmp", "/dev", "/proc")
    with open("/proc/self/mountinfo") as lines:
        points = [line.split()[4] for line in lines]
    for point in points:
        if not any(point == path or point.startswith(f"{path}/") for path in writable) or point == repository:
            with suppress(OSError):  # a mount that another one hides
                _mount("none", point, flags=_BIND | _REMOUNT | _READ_ONLY)
    for descriptor in (*kept.values(), own):
        os.close(descriptor)
    _loopback()


def _own_devices() -> None:
    """Keep the disks of the machine out of reach, whatever runs."""
    held = {name: os.open(f"/dev/{name}", os.O_PATH) for name in _DEVICES if os.path.exists(f"/dev/{name}")}
    terminals = os.open("/dev/pts", os.O_PATH)
    _mount("none", "/dev", "tmpfs", 0, "mode=755")
    for name, descriptor in held.items():
        with open(f"/dev/{name}", "w"):
            pass
        _mount(f"/proc/self/fd/{descriptor}", f"/dev/{name}", flags=_BIND)
        os.close(descriptor)
    for name in ("pts", "shm"):
        os.mkdir(f"/dev/{name}")
    os.chmod("/dev/shm", 0o1777)  # noqa: S103 -- as it is everywhere
    _mount(f"/proc/self/fd/{terminals}", "/dev/pts", flags=_BIND)
    os.close(terminals)
    os.symlink("pts/ptmx", "/dev/ptmx")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")


def _loopback() -> None:
    """Set the loopback interface up: SIOCSIFFLAGS with IFF_UP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))


class Listeners:
    """What must not be reached: each counts those who came."""

    def __init__(self, home: str) -> None:
        self._came: list[str] = []
        self._servers: list[tuple[str, int, Any]] = []
        self._probed = threading.Event()
        self.abstract = f"byleave-room-{os.urandom(6).hex()}"
        self.path = f"{home}/.run/service.sock"
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self.port = self._listen("tcp", socket.AF_INET, ("127.0.0.1", 0))
        self.port6 = self._listen("tcp6", socket.AF_INET6, ("::1", 0)) if socket.has_ipv6 else self.port
        self._listen("socket", socket.AF_UNIX, self.path)
        self._listen("abstract", socket.AF_UNIX, f"\0{self.abstract}")
        self._listen("display", socket.AF_UNIX, _DISPLAY)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", 0))
        self.udp = datagrams.getsockname()[1]
        self._probe = os.urandom(16)
        threading.Thread(target=self._receive, args=(datagrams,), daemon=True).start()

    def inside(self, path: str) -> None:
        """Listen on a socket in the workspace, which an outside service might have put there."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        here = os.getcwd()
        os.chdir(os.path.dirname(path))  # the name of a socket is short
        try:
            self._listen("inside", socket.AF_UNIX, os.path.basename(path))
            self._servers.pop()  # its name is relative, and it may be removed
        finally:
            os.chdir(here)

    def _listen(self, name: str, family: int, address: Any) -> int:
        server = socket.socket(family)
        server.bind(address)
        server.listen(50)
        self._servers.append((name, family, server.getsockname()))
        threading.Thread(target=self._accept, args=(name, server), daemon=True).start()
        return int(server.getsockname()[1]) if family != socket.AF_UNIX else 0

    def _accept(self, name: str, server: socket.socket) -> None:
        while True:
            connection, _address = server.accept()
            self._came.append(name)
            connection.close()

    def _receive(self, datagrams: socket.socket) -> None:
        while True:
            if datagrams.recv(99) == self._probe:
                self._probed.set()
            else:
                self._came.append("udp")

    def taken(self) -> list[str]:
        """Return who came since the last time. One of our own comes last: all before it have been counted then."""
        for name, family, address in self._servers:
            with socket.socket(family) as probe, suppress(OSError):  # the socket in a workspace may have gone with it
                probe.connect(address)
                probe.recv(1)
                self._came.remove(name)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.sendto(self._probe, ("127.0.0.1", self.udp))
        self._probed.wait()
        self._probed.clear()
        came, self._came = self._came, []
        return came


def _execute(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program to its end, and at most for its time; what it leaves in the background goes on, unless `ends`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as feed:
        feed.write(request["feed"].encode())
        feed.seek(0)
        streams = (feed.fileno() if request["feed"] else subprocess.DEVNULL, out.fileno(), err.fileno())
        child = _started(request, streams)
        code = _wait(child, request.get("timeout", 60))
        if request.get("ends"):
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(4_000_000).decode("utf-8", "surrogateescape"))
    return {"code": code, "out": texts[0], "err": texts[1]}


def _started(request: dict[str, Any], streams: tuple[int, int, int]) -> int:
    process = subprocess.Popen(
        request["argv"],
        cwd=request["cwd"],
        env=request["env"],
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        start_new_session=True,
    )
    process.returncode = 0  # `_wait` reaps it
    return process.pid


def _wait(child: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    ended = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
    finally:
        os.close(ended)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _end_others(kept: int) -> None:
    """End every process of the room but this one and `kept`: agent sessions, and what lines left in the background."""
    while others := {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid(), kept}:
        for process in others:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.002)  # /proc gives no event


def _lives(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process lives that nobody has killed: one that was killed just now may not have ended yet."""
    if process.poll() is not None:
        return False
    with open(f"/proc/{process.pid}/status") as lines:
        waiting = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd:", "ShdPnd:"))]
    return not any(signals >> (signal.SIGKILL - 1) & 1 for signals in waiting)


def main() -> None:
    scene, repository, secret = sys.argv[1:4]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    close_the_room(scene, repository)
    listeners = Listeners(f"{scene}/home")
    victim = subprocess.Popen(
        ["bash", "-c", f"exec -a victim-{secret} sleep 100000"], env={"VICTIM": secret}, start_new_session=True
    )

    def say(tree: object) -> None:
        answers.write(json.dumps(tree) + "\n")
        answers.flush()

    names = {"PORT": listeners.port, "PORT6": listeners.port6, "UDP": listeners.udp, "PID": victim.pid}
    say({**names, "ABSTRACT": listeners.abstract, "SOCKET": listeners.path})
    for line in sys.stdin:
        request = json.loads(line)
        if "argv" in request:
            say(_execute(request))
        elif "end" in request:
            _end_others(victim.pid)
            say({})
        elif "listen" in request:
            listeners.inside(request["listen"])
            say({})
        else:
            say({"came": listeners.taken(), "victim": _lives(victim)})


if __name__ == "__main__":
    main()
