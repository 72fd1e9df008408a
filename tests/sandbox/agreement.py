"""What a program in the sandbox really may do with a list of paths: its text runs inside.

Reads `[[operation, path], ...]` as JSON on standard input, and writes as many lines: `ok`, or the name of the error.
The order of the list is the order of the attempts; whoever makes it puts what destroys last.
"""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def append(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))


def truncate(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))


def create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def move(path: str) -> None:
    """Rename within the directory, and back if that is allowed too, so that what comes later finds it."""
    os.rename(path, path + "-moved")
    with suppress(OSError):
        os.rename(path + "-moved", path)


def delete(path: str) -> None:
    os.unlink(path)


def run(path: str) -> None:
    subprocess.run(["./" + path], check=True, capture_output=True)


OPERATIONS: dict[str, Callable[[str], object]] = {
    "read": read,
    "list": os.listdir,
    "exec": run,
    "update": append,
    "truncate": truncate,
    "create": create,
    "mkdir": os.mkdir,
    "move": move,
    "delete": delete,
    "rmdir": os.rmdir,
}


def outcome(operation: str, path: str) -> str:
    if os.path.exists(path + "-moved"):
        return "moved away"
    try:
        OPERATIONS[operation](path)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"


def main() -> None:
    for operation, path in json.load(sys.stdin):
        print(outcome(operation, path), flush=True)  # noqa: T201 (this is how it reports)


if __name__ == "__main__":
    main()
