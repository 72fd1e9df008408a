"""What every Python attempt may use. Its text is put in front of the attempt's own, with and without a sandbox."""

import ctypes
import errno
import fcntl
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

__all__ = ["errno", "fcntl", "signal", "socket", "stat", "struct", "subprocess", "sys", "time"]

W = os.environ["WS"]
O = os.environ["OUT"]  # noqa: E741 (the given attempts call it so)
L = ctypes.CDLL(None, use_errno=True)
REFUSED = (errno.EPERM, errno.ENOSYS, errno.EACCES)


def sc(*words: object) -> int:
    """Make a system call by number; fail as it fails."""
    result: int = L.syscall(*(ctypes.c_long(word) if isinstance(word, int) else word for word in words))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {words[0]}")
    return result


def reached(*words: object) -> None:
    """Make a system call with arguments that do no harm; fail where it was refused, not where it found them odd."""
    try:
        sc(*words)
    except OSError as error:
        if error.errno in REFUSED:
            raise


def wide(number: int) -> ctypes.c_ulong:
    """Return a number whose low half the kernel takes for the argument; a filter that looks at all sees another."""
    return ctypes.c_ulong(1 << 32 | number)


def victim() -> int:
    """Return the process outside that is not ours to touch, unless a process in here happens to have its number."""
    pid = int(os.environ["VPID"])
    if os.path.exists(f"/proc/{pid}"):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            assert b"byl_case_victim" in file.read(), "another process has the number"
    return pid


def via_proxy(request: bytes, *more: bytes) -> bytes:
    """Send bytes to the proxy of the environment, or to the open one of the place, and return all that comes back."""
    address = os.environ.get("http_proxy") or f"http://127.0.0.1:{os.environ['HPORT']}"
    host, _, port = address.split("//")[1].rstrip("/").rpartition(":")
    answer = b""
    with socket.create_connection((host.strip("[]"), int(port)), 2) as line:
        for part in (request, *more):
            line.settimeout(0.6)
            line.sendall(part)
            try:
                while data := line.recv(65536):
                    answer += data
                    line.settimeout(0.2)
            except TimeoutError:
                pass
    return answer
