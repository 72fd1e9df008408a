"""The place where escapes are tried: a workspace, what lies outside of it, and who listens there.

Standard library only, so that any user's Python can run it.
"""

import ctypes
import os
import re
import shutil
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).parent
SYSTEM_PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
VICTIM = """\
import pathlib, signal, time
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGRTMIN):
    signal.signal(number, lambda number, _: pathlib.Path(f"signalled-{number}").touch())
kept = open("secret.txt")
pathlib.Path("ready").touch()
while True: time.sleep(300)
"""
WORKSPACE = {
    "file.txt": "hello",
    "sub/inner.txt": "inner",
    ".env": "ENVSECRET=1\n",
    "conf/secret.env": "ENVSECRET=2\n",
    "conf/plain.txt": "plain",
    "secret/key.txt": "TOPSECRET\n",
    "secret/sub/k2": "TOPSECRET\n",
    "ro/f": "ro",
    "ro/g": "ro2",
    "gitdir/hooks/x": "hook",
    "deep/a/b/secret.txt": "TOPSECRET\n",
    "deep/a/b/plain.txt": "plain",
}
GIT = {".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/heads/x": ""}
PROTECTED = {
    ".git/config": "[core]\n\tbare = false\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n",
    ".vscode/settings.json": "{}",
    ".bashrc": ":\n",
}
HOME = (".ssh/id_case", ".aws/credentials", ".claude/credentials.json", ".netrc", ".git-credentials")
OUTSIDE = {
    "secret.txt": "TOPSECRET\n",
    "victim.txt": "victim victim\n",
    "trunc.txt": "0123456789",
    "del.txt": "d",
    "movable": "m",
}
# Which of the protected places are there already: all of them, a repository without any, or not even a repository.
SCENES = {"bare": {}, "default": GIT}


@contextmanager
def built(access: str) -> Iterator[dict[str, str]]:
    """Yield the names that attempts know the place by, and clear it away afterwards."""
    base = Path(tempfile.mkdtemp(prefix="byl-case-", dir="/var/tmp" if os.access("/var/tmp", os.W_OK) else None))
    base.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        names = {"BASE": str(base), "WS": str(base / "ws"), "OUT": str(base / "outside"), "RUNID": base.name}
        names |= {
            "PYTHON": SYSTEM_PYTHON,
            "UHOME": str(base / "home"),
            "BHOME": str(base / "bhome"),
            "HPID": str(os.getpid()),
        }
        _fill(base, SCENES.get(access, GIT | PROTECTED))
        names |= _serve(base, stack)
        names["VPID"] = str(_victim(base, stack))
        names["POLICY"] = str(_policy(base, access, names))
        yield names


def _write(base: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text)


def _fill(base: Path, repository: dict[str, str]) -> None:
    workspace, outside = base / "ws", base / "outside"
    _write(workspace, WORKSPACE | repository)
    _write(outside, OUTSIDE)
    _write(base / "vic", {"secret.txt": "TOPSECRET\n"})
    _write(base / "home", dict.fromkeys(HOME, "TOPSECRET\n"))
    _write(base / "bhome", {"probe": "TOPSECRET\n"})
    (base / "bhome").chmod(0o700)
    cache = Path(os.environ.get("BYLEAVE_HOME", "/nowhere"), "cache")  # where a launcher was built, if one was
    if cache.exists():
        shutil.copytree(cache, base / "bhome/cache")
    shutil.copy("/bin/true", outside / "prog")
    shutil.copy("/bin/true", workspace / "prog")
    (workspace / "link").symlink_to(outside / "secret.txt")
    (workspace / "wlink").symlink_to(outside / "victim.txt")


def _policy(base: Path, access: str, names: dict[str, str]) -> Path:
    """Write the access file that attempts of this kind run under; where there is none, the default holds."""
    template, policy = HERE / "access" / f"{access}.toml", base / "access.toml"
    text = template.read_text() if template.exists() else ""
    policy.write_text(re.sub(r"\$([A-Z]+)", lambda found: names[found[1]], text))
    return policy


def _victim(base: Path, stack: ExitStack) -> int:
    """Start a process of the same user, which notes when a signal reaches it. The sandbox will join its group."""
    victim = subprocess.Popen(
        [SYSTEM_PYTHON, "-c", VICTIM, "byl_case_victim"],
        cwd=base / "vic",
        env={"VICTIMSECRET": "1"},
        stdin=subprocess.DEVNULL,
        process_group=0,
    )
    stack.callback(victim.wait)
    stack.callback(victim.kill)
    while not (base / "vic/ready").exists():
        assert victim.poll() is None, "the victim did not start"
        time.sleep(0.01)
    return victim.pid


def _serve(base: Path, stack: ExitStack) -> dict[str, str]:
    """Listen wherever a program inside might find somebody, and say where."""
    name = base.name
    for address in (base / "outside/s.sock", base / "ws/agent.sock", "\0" + name):
        _listen(socket.AF_UNIX, str(address), stack)
    for address in (base / "outside/d.sock", base / "ws/agentd.sock", "\0" + name + "d"):
        _answer(socket.AF_UNIX, str(address), stack)
    _host_memory(name, stack)
    knocking = _free_port()
    _knock(socket.AF_INET, ("127.0.0.1", knocking), stack)
    for address in ("\0" + name + "k", base / "ws/knock.sock"):
        _knock(socket.AF_UNIX, address, stack)
    return {
        "TPORT": _listen(socket.AF_INET, ("0.0.0.0", 0), stack),  # noqa: S104 (the machine's own address is tried too)
        "TPORT6": _listen(socket.AF_INET6, ("::1", 0), stack) if socket.has_ipv6 else "0",
        "UPORT": _answer(socket.AF_INET, ("127.0.0.1", 0), stack),
        "HPORT": _open_proxy(stack),
        "BPORT": str(knocking),
        "EXTIP": _own_address(),
        "ABS": name,
        "ABSD": name + "d",
        "SOCK": str(base / "outside/s.sock"),
        "DSOCK": str(base / "outside/d.sock"),
        "SHMF": name,
        "IPCKEY": str(_key(name)),
    }


def _listen(family: socket.AddressFamily, address: object, stack: ExitStack) -> str:
    """Greet whoever connects, and return the port."""
    listener = stack.enter_context(socket.socket(family))
    try:
        listener.bind(address)  # type: ignore[arg-type]
    except OSError:
        return "0"  # a machine without IPv6
    listener.listen(64)

    def greet() -> None:
        with suppress(OSError):
            while True:
                with listener.accept()[0] as guest, suppress(OSError):
                    guest.sendall({socket.AF_UNIX: b"SHELO"}.get(family, b"HELLO"))

    threading.Thread(target=greet, daemon=True).start()
    return str(listener.getsockname()[1])


def _answer(family: socket.AddressFamily, address: object, stack: ExitStack) -> str:
    """Answer datagrams, note beside a named socket which came, and return the port."""
    listener = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
    listener.bind(address)  # type: ignore[arg-type]

    def answer() -> None:
        with suppress(OSError):
            while True:
                data, sender = listener.recvfrom(99)
                if family == socket.AF_UNIX and not str(address).startswith("\0"):
                    Path(f"{address}.heard-{data.decode()}").touch()
                if sender:
                    listener.sendto(b"UHELO", sender)

    threading.Thread(target=answer, daemon=True).start()
    return str(listener.getsockname()[1])


def _knock(family: socket.AddressFamily, address: object, stack: ExitStack) -> None:
    """Try again and again to reach something that an attempt may open in there."""
    done = threading.Event()
    stack.callback(done.set)

    def knock() -> None:
        while not done.wait(0.05):
            with socket.socket(family) as line, suppress(OSError):
                line.connect(str(address) if family == socket.AF_UNIX else address)  # type: ignore[arg-type]
                line.sendall(b"KNOCK")

    threading.Thread(target=knock, daemon=True).start()


def _host_memory(name: str, stack: ExitStack) -> None:
    """Leave something in the machine's shared memory, queues and temporary files."""
    for path in (f"/dev/shm/{name}", f"/tmp/{name}"):
        with suppress(OSError):
            Path(path).write_text("TOPSECRET")
            stack.callback(lambda path: Path(path).unlink(missing_ok=True), path)
    libc = ctypes.CDLL(None)
    key = _key(name)
    memory, queue, counter = libc.shmget(key, 4096, 0o1600), libc.msgget(key, 0o1600), libc.semget(key, 1, 0o1600)
    for remove, number, arguments in (
        (libc.shmctl, memory, (0,)),
        (libc.msgctl, queue, (0,)),
        (libc.semctl, counter, (0, 0)),
    ):
        stack.callback(remove, number, *arguments)
    small = struct.pack("16l", 0, 1, 64, *[0] * 13)  # struct mq_attr: one message of 64 bytes
    libc.mq_open(f"/{name}".encode(), os.O_RDWR | os.O_CREAT, 0o600, small)
    stack.callback(libc.mq_unlink, f"/{name}".encode())


def _key(name: str) -> int:
    return int.from_bytes(name.encode()[-3:], "big") + 1


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _own_address() -> str:
    """Return an address of this machine that is not loopback's first."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing; the address is for documentation
        return str(probe.getsockname()[0])
    return "127.0.0.2"


class _Guest(socketserver.StreamRequestHandler):
    """A web server that names the path it was asked for, and a proxy that lets everybody go anywhere."""

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            while self._one():
                pass

    def _one(self) -> bool:
        start = self.rfile.readline(65536)
        words, headers = start.decode("latin-1").split(), {}
        while (line := self.rfile.readline(65536).strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if len(words) < 2:
            return bool(start)
        if words[0] == "CONNECT":
            return self._tunnel(words[1])
        self.rfile.read(int(headers.get("content-length", "0")))
        path = re.sub(r"^[a-z]+://[^/]*", "", words[1])
        if "upgrade" in headers:
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
            return True
        body = f"REACHED {path} {headers.get('host', '')}".encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return headers.get("connection") != "close"

    def _tunnel(self, target: str) -> bool:
        host, _, port = target.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), 2) as line:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            line.settimeout(0.3)
            with suppress(TimeoutError):
                while data := line.recv(65536):
                    self.wfile.write(data)
            line.settimeout(2)
            line.sendall(self.connection.recv(65536))
            while data := line.recv(65536):
                self.wfile.write(data)
        return False


def _open_proxy(stack: ExitStack) -> str:
    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing: a guest that went away is no news."""

    server = Server(("127.0.0.1", 0), _Guest)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return str(server.server_address[1])
