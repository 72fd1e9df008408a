"""The part of `native` that runs behind walls: starts the program again and again, and looks at how it ended."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fuzzing.mutate import Mutator

SANITIZERS = (b"AddressSanitizer", b"runtime error:", b"UndefinedBehaviorSanitizer")
PATIENCE = 2.0
WORDS = (
    *(b"hook", b"claude-code", b"check", b"command", b"run", b"call", b"--", b"--root", b"--json", b"--policy", b"-q"),
    *(b"--ticket", b"--shell=ls", b"x", b"", b"--version", b"--batch", b"read", b"a" * 5000, b"\xff\xfe", b"--home"),
)


def try_launcher(path: str, data: bytes) -> bytes:
    """Return what it says on standard error."""
    with tempfile.TemporaryFile() as program:
        program.write(data)
        program.seek(0)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def arrange() -> None:
            os.dup2(program.fileno(), 103)
            os.dup2(theirs.fileno(), 104)
            os.dup2(103, 3)
            os.dup2(104, 4)
            os.closerange(5, 200)

        with ours, theirs:
            return _run([path, "3", "4"], {}, arrange)


def try_front(path: str, data: bytes) -> bytes:
    """Start the front with words and variables made from the bytes, where no service runs."""
    words = [word.replace(b"\0", b"") for word in data.split(b"\n")][:50]
    variables = {
        b"HOME": words[-1][:4000],
        b"XDG_RUNTIME_DIR": words[0][:4000],
        b"PATH": b"/bin",
        b"BYLEAVE_HOME": words[-1],
    }
    return _run([path.encode(), *words], variables, None)


def _run(words: list[str] | list[bytes], variables: dict[bytes, bytes], arrange: Callable[[], None] | None) -> bytes:
    process = subprocess.Popen(
        words,
        env=variables,
        close_fds=False,
        preexec_fn=arrange,  # noqa: PLW1509 -- there are no threads here
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=PATIENCE)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return process.communicate()[1]


def main() -> None:
    name, path, place, seconds, number, most = sys.argv[1:]
    lines = [b"\n".join(WORDS[at : at + 4]) for at in range(len(WORDS))]
    seeds = [file.read_bytes() for file in sorted(Path(place).iterdir())] if name == "launcher" else lines
    mutator = Mutator(int(number), seeds)
    tried = 0
    broken: list[str] = []
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end and tried < int(most) and len(broken) < 5:
        data = mutator.next()
        tried += 1
        said = try_launcher(path, data) if name == "launcher" else try_front(path, data)
        if any(each in said for each in SANITIZERS):
            broken.append(f"{data.hex()} {said[:1500].decode('utf-8', 'replace')!r}")
    sys.stdout.write("\n".join([str(tried), *broken]) + "\n")


if __name__ == "__main__":
    main()
