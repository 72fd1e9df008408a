"""Try attempts one after another, each in a process of its own, and say how each ended.

Its text runs inside the sandbox, where there is nothing but the standard library: a job as JSON on standard input, a
result a line on standard output.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

SECONDS = 6.0
LOADED = (ctypes, fcntl, socket, struct, subprocess)  # once, and not by each attempt


def attempt(job: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    begun = time.monotonic()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(job, case, writer)
    os.close(writer)
    told = listen(reader, pid)
    status = os.waitpid(pid, 0)[1]
    return {
        "id": case["id"],
        "seconds": time.monotonic() - begun,
        "code": os.waitstatus_to_exitcode(status),
        "told": told[-300:].decode("utf-8", "replace"),
    }


def listen(reader: int, pid: int) -> bytes:
    """Read what the attempt says until it ends; what it has started may go on holding the pipe."""
    os.set_blocking(reader, False)
    told, end = b"", time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            data = os.read(reader, 4096)
        except BlockingIOError:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.002)
            continue
        told += data
        if not data:
            break
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(reader)
    return told


def become(job: dict[str, Any], case: dict[str, Any], writer: int) -> None:
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor, source in enumerate((nothing, writer, writer)):
            os.dup2(source, descriptor)
        os.environ.update(job["names"])
        os.chdir(job["names"]["WS"])
        if case["lang"] == "sh":
            os.execv("/bin/sh", ["/bin/sh", "-c", case["code"]])  # noqa: S606 (there is no other shell in there)
        exec(compile(job["prelude"] + case["code"], case["id"], "exec"), {"__name__": "attempt"})  # noqa: S102
        code = 0
    except BaseException as error:  # noqa: BLE001 (whatever went wrong, the attempt did not succeed)
        os.write(2, f"{type(error).__name__}: {error}".encode()[:300])
    finally:
        os._exit(code)


def main() -> None:
    job = json.loads(sys.stdin.readline())
    for case in job["cases"]:
        print(json.dumps(attempt(job, case)), flush=True)  # noqa: T201 (this is how it reports)


main()
