"""Where the service's socket is, and by which name.

The directory is the user's alone, and no variable moves it: a project can set variables for an agent. The name of the
socket is a digest of the context: which installation, and what its processes may see and do (user, groups, namespaces,
root directory, filters, limits). So a process in some sandbox finds no service of the world outside, but one that sees
what it sees itself. The service looks at the same facts about who connects. The front computes the same
(sandbox/native/front_service.c).
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.policy.dirs import service_places
from byleave.service.protocol import VERSION
from byleave.text import quoted
from byleave.user_files import first_bytes

if TYPE_CHECKING:
    import socket

SOCKET_END = ".sock"
_PEER_HANDLE = 77  # SO_PEERPIDFD of asm-generic/socket.h: a descriptor of the process
_LARGEST_STAT = 4096
_PEER = 12  # bytes of SO_PEERCRED: process, user, group
_NAMESPACES = ("mnt", "user", "pid", "net")
_OTHER_NAMESPACES = ("ipc", "uts", "cgroup", "time", "pid_for_children", "time_for_children")  # not of every kernel
_FACTS = (
    *(b"NoNewPrivs:", b"Seccomp:", b"Seccomp_filters:", b"Groups:"),
    *(b"CapEff:", b"CapPrm:", b"CapInh:", b"CapBnd:", b"CapAmb:"),
)
_GET_DISK_PRIORITY = {"x86_64": 252, "aarch64": 31}  # ioprio_get, which the C library has no function for
_PROCESS = 1  # IOPRIO_WHO_PROCESS
_OFFSET, _PRIME = 0x6C62272E07BB014262B821756295C58D, 0x1000000000000000000013B  # FNV-1a, 128 bits
_ALL_BITS = (1 << 128) - 1
_OWN_ONLY = 0o700


def service_directory() -> str:
    """Return the directory of this user's services, which need not exist yet."""
    first, otherwise = service_places()
    try:
        found = os.lstat(os.path.dirname(first))
    except OSError:
        return otherwise
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == _OWN_ONLY
    return first if is_own else otherwise


def open_directory(path: str, *, create: bool = False) -> int:
    """Return a descriptor of the directory; a StateError unless it is this user's alone, and this is Linux."""
    if not hasattr(os, "O_PATH"):
        raise StateError("there is no service on this system", hint="commands answer without it")
    if create:
        try:
            os.mkdir(path, _OWN_ONLY)
            os.chmod(path, _OWN_ONLY)  # whatever the umask is
        except FileExistsError:
            pass
        except OSError as error:
            raise StateError(f"{quoted(path)} cannot be made: {error.strerror}", hint="see docs/service.md") from None
    try:
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be used: {error.strerror}", hint="see docs/service.md") from None
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != _OWN_ONLY:
        os.close(descriptor)
        raise StateError(f"{quoted(path)} is not yours alone", hint="remove it, or have its owner remove it")
    return descriptor


def inside(directory: int, name: str) -> str:
    """Return a path to a name in an opened directory, for calls that take no descriptor."""
    return f"/proc/self/fd/{directory}/{name}"


def facts_of(process: int | str = "self") -> tuple[bytes, ...]:
    """Return what a process may see and do, as far as the kernel says; an OSError if it has ended."""
    links = [os.fsencode(os.readlink(f"/proc/{process}/ns/{name}")) for name in _NAMESPACES]
    for name in _OTHER_NAMESPACES:
        with suppress(FileNotFoundError):
            links.append(os.fsencode(os.readlink(f"/proc/{process}/ns/{name}")))
    with open(f"/proc/{process}/status", "rb") as file:
        lines = file.read().split(b"\n")
    root = os.stat(f"/proc/{process}/root")
    with open(f"/proc/{process}/limits", "rb") as file:  # what is forked from a service has the service's
        limits = file.read()
    rights = [line for fact in _FACTS for line in lines if line.startswith(fact)]
    return (*links, *rights, _label(process), b"%d %d" % (root.st_dev, root.st_ino), limits)


def _label(process: int | str) -> bytes:
    """Return what AppArmor, SELinux or another module of the kernel holds a process by; nothing if there is none."""
    return first_bytes(f"/proc/{process}/attr/current", _LARGEST_STAT)


def share_of(process: int | str = "self") -> tuple[object, ...]:
    """Return how much of the machine a process and what it starts may take; an OSError if it has ended.

    A tool that is called runs below the service: it must not get a larger share by that than below its caller.
    """
    with open(f"/proc/{process}/cgroup", "rb") as file:
        groups = file.read()
    with open(f"/proc/{process}/oom_score_adj", "rb") as file:
        spared = file.read()
    with open(f"/proc/{process}/status", "rb") as file:
        allowed = [line for line in file.read().split(b"\n") if line.startswith((b"Cpus_allowed:", b"Mems_allowed:"))]
    number = 0 if process == "self" else int(process)
    turns = os.sched_getscheduler(number), os.sched_getparam(number).sched_priority
    return groups, spared, *allowed, *turns, os.getpriority(os.PRIO_PROCESS, number), _disk_priority(number)


def _disk_priority(process: int) -> int:
    """Return the priority of a process for disks, as the kernel encodes it; -1 where that is not known."""
    import ctypes

    call = _GET_DISK_PRIORITY.get(os.uname().machine)
    return -1 if call is None else int(ctypes.CDLL(None).syscall(call, _PROCESS, process))


def context_key(package: str, python: str, packages: str) -> str:
    """Return the name of the service of an installation, for processes like this one.

    `package` is the directory of our code, `python` that of the interpreter, `packages` where other packages are.
    """
    users = b"%d %d" % (os.geteuid(), os.getegid())
    lines = (VERSION, *[os.fsencode(each) for each in (package, python, packages)], users, *facts_of())
    return digest_of(b"".join([line + b"\n" for line in lines]))


def digest_of(data: bytes) -> str:
    """Return the digest that the front computes as well; it is no secret, only a name."""
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _ALL_BITS
    return f"{value:032x}"


def caller_of(line: socket.socket) -> tuple[int, int, tuple[bytes, ...]] | None:
    """Return the process at the other end, its parent and what it may see and do; None if it is not there any more.

    Its number may become another process's. Where the kernel says which process it is (SO_PEERPIDFD, Linux 6.5), that
    one still runs after everything has been read.
    """
    import socket as sockets

    process, _user = peer_of(line)
    try:
        handle = line.getsockopt(sockets.SOL_SOCKET, _PEER_HANDLE)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            return None
        handle = -1
    try:
        stat_line = first_bytes(f"/proc/{process}/stat", _LARGEST_STAT)
        parent = int(stat_line.rpartition(b")")[2].split()[1])
        found = process, parent, facts_of(process)
        if handle >= 0:
            signal.pidfd_send_signal(handle, 0)
    except (OSError, ValueError, IndexError):
        return None
    finally:
        if handle >= 0:
            os.close(handle)
    return found


def peer_of(line: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end, as the kernel knows them."""
    import socket as sockets

    process, user, _group = struct.unpack("=iII", line.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _PEER))
    return process, user
