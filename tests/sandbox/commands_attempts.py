"""Ways round a list of commands, tried by a Python that may start nothing but itself, `git --version` and `sleep`.

Runs inside the sandbox, with the standard library alone. Each attempt returns something true exactly when it worked.
Prints one JSON object: what became of each.
"""

import ctypes
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOADER = next(
    iter(glob.glob("/lib64/ld-linux-*.so.*") + glob.glob("/lib/ld-linux-*.so.*")), "/lib64/ld-linux-x86-64.so.2"
)
HERE = os.getcwd()
C = ctypes.CDLL(None, use_errno=True)
EXECVEAT, EMPTY_PATH = 322, 0x1000
ATTEMPTS: "dict[str, Callable[[], object]]" = {}


def attempt(function: "Callable[[], object]") -> "Callable[[], object]":
    ATTEMPTS[function.__name__] = function
    return function


def works(*words: str, **options: object) -> bool:
    return subprocess.run(words, capture_output=True, timeout=20, check=False, **options).returncode == 0  # type: ignore[call-overload, no-any-return]


def copied(directory: str) -> str:
    path = os.path.join(directory, "copy")
    shutil.copy(sys.executable, path)
    os.chmod(path, 0o700)
    return path


@attempt
def an_unlisted_program() -> object:
    return works("id")


@attempt
def an_unlisted_program_by_its_path() -> object:
    return works("/usr/bin/id") or works("/bin/true")


@attempt
def a_shell_of_the_c_library() -> object:
    return os.system("exit 0") == 0  # noqa: S605 -- the point


@attempt
def a_listed_program_by_its_path() -> object:
    return works("/usr/bin/git", "--version")


@attempt
def a_listed_program_with_other_words() -> object:
    return works("git", "hash-object", "/dev/null") or works("git") or works("git", "--version", "--build-options")


@attempt
def a_listed_program_under_another_name() -> object:
    return works("x", "--version", executable="/.byleave/bin/git") and works(
        "x", "hash-object", executable="/.byleave/bin/git"
    )


@attempt
def a_stand_in_by_another_path() -> object:
    os.symlink("/.byleave/bin/git", "mine")
    return works("./mine", "--version") or works("/.byleave/stand-in", "--version")


@attempt
def the_loader_on_a_program() -> object:
    return (
        works(LOADER, "/usr/bin/id")
        or works(LOADER, "/usr/bin/true")
        or works(LOADER, "/usr/lib/git-core/git", "--version")
    )


@attempt
def the_loader_on_a_copy() -> object:
    return any(works(LOADER, copied(place), "-c", "1") for place in (HERE, "/tmp", "/dev/shm"))


@attempt
def a_copy() -> object:
    for place in (HERE, "/tmp", "/var/tmp", "/dev/shm", "/run", os.path.expanduser("~")):
        try:
            if works(copied(place), "-c", "1"):
                return place
        except OSError:
            continue
    return None


@attempt
def a_script_of_the_workspace() -> object:
    with open("script", "w") as script:
        script.write("#!/usr/bin/python3\n")
    os.chmod("script", 0o700)
    return works("./script")


@attempt
def a_library_of_the_workspace() -> object:
    library = next(line.split()[-1] for line in open("/proc/self/maps") if "libc.so" in line)  # noqa: SIM115
    return ctypes.CDLL(shutil.copy(library, os.path.join(HERE, "own.so")))


@attempt
def a_memory_file() -> object:
    return os.memfd_create("x", 0)


@attempt
def a_sealed_memory_file() -> object:
    file = os.memfd_create("x", 8)
    with open(sys.executable, "rb") as program:
        os.write(file, program.read())
    return works(f"/proc/self/fd/{file}", "-c", "1", pass_fds=[file])


@attempt
def the_loader_on_a_sealed_memory_file() -> object:
    file = os.memfd_create("x", 8)
    with open(sys.executable, "rb") as program:
        os.write(file, program.read())
    return works(LOADER, f"/proc/self/fd/{file}", "-c", "1", pass_fds=[file])


@attempt
def the_loader_on_standard_input() -> object:
    with open(sys.executable, "rb") as program:
        return works(LOADER, "/proc/self/fd/0", "-c", "1", input=program.read())


@attempt
def a_descriptor() -> object:
    file = os.open(sys.executable, os.O_RDONLY)
    child = os.fork()
    if child == 0:
        words = (ctypes.c_char_p * 4)(b"x", b"-c", b"1", None)
        C.syscall(EXECVEAT, file, b"", words, None, EMPTY_PATH)
        os._exit(9)
    return os.waitpid(child, 0)[1] == 0


def others() -> list[int]:
    ours = {os.getpid(), *(child.pid for child in CHILDREN)}
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in ours]


@attempt
def the_view_of_what_is_run_for_us() -> object:
    return [
        each
        for each in others()
        if os.path.exists(f"/proc/{each}/root/usr/bin") or os.path.exists(f"/proc/{each}/cwd/.")
    ]


@attempt
def the_program_that_is_run_for_us() -> object:
    return [each for each in others() if works(f"/proc/{each}/exe", "--version")]


@attempt
def the_variables_of_what_is_run_for_us() -> object:
    found = []
    for each in others():
        try:
            with open(f"/proc/{each}/environ", "rb") as file:
                found.append(file.read())
        except OSError:
            continue
    return found


@attempt
def a_signal_to_what_is_run_for_us() -> object:
    found = []
    for each in others():
        try:
            os.kill(each, signal.SIGUSR1)
            found.append(each)
        except OSError:
            continue
    return found


@attempt
def to_listen_to_requests() -> object:
    return os.open("/.byleave/requests", os.O_RDONLY | os.O_NONBLOCK)


@attempt
def to_listen_to_requests_while_writing() -> object:
    return os.open("/.byleave/requests", os.O_RDWR | os.O_NONBLOCK)


@attempt
def to_remove_the_broker() -> object:
    os.unlink("/.byleave/requests")
    return True


@attempt
def a_stand_in_of_our_own() -> object:
    os.symlink("/.byleave/stand-in", "/.byleave/bin/id")
    return True


@attempt
def a_directory_in_which_programs_are() -> object:
    found = set()
    for place in ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/libexec", "/usr/lib/git-core"):
        if os.path.isdir(place):
            found.update(os.listdir(place))
    return {name for name in found if not name.startswith("python3")}


@attempt
def requests_in_the_name_of_others() -> object:
    """Name the init, ourselves and what is run for us as stand-ins, with descriptors of theirs."""
    fifo = os.open("/.byleave/requests", os.O_WRONLY)
    for who in (1, 2, -1, os.getpid(), *others(), 2**31):
        for descriptor in (0, 3, 4, 6):
            os.write(fifo, b"\nr %d %d 400000 64 0 0\nk %d 9\n" % (who, descriptor, who))
    os.write(fifo, b"r 1")  # half a line
    time.sleep(0.1)
    return not works("git", "--version") and "the broker is gone"


@attempt
def noise() -> object:
    fifo = os.open("/.byleave/requests", os.O_WRONLY)
    for _ in range(50):
        os.write(fifo, os.urandom(4096))
        os.write(fifo, b"\n" * 4096)
        os.write(fifo, b"\nr %d 3 %x %d 0 0\n" % (CHILDREN[0].pid, 2**64 - 1, 2**63))
    return not works("git", "--version") and "the broker is gone"


@attempt
def connections() -> object:
    return socket.socket(socket.AF_UNIX)


CHILDREN: "list[subprocess.Popen[bytes]]" = []


def outcome(function: "Callable[[], object]") -> "list[object]":
    try:
        return [bool(found := function()), repr(found)[:200]]
    except Exception as error:  # noqa: BLE001 -- however it fails
        return [False, repr(error)[:200]]


if __name__ == "__main__":
    CHILDREN.append(subprocess.Popen(["sleep", "1000"]))
    time.sleep(0.3)  # until it runs
    alive = CHILDREN[0].poll() is None
    told = {name: outcome(function) for name, function in ATTEMPTS.items()}
    print(json.dumps({"tried": told, "was run for us": alive and CHILDREN[0].poll() is None}))  # noqa: T201
    CHILDREN[0].kill()
