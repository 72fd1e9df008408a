"""Agents that behave in one way each: `python fake_agents.py BEHAVIOUR PLACE WORDS...`, with notes left in PLACE.

Nothing of byleave is imported here: an agent knows nothing of us.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LONG = 120  # seconds; nobody waits for it
ASKED = 60_000  # questions of an agent that reads no answers before it has asked them all
FLOOD = b"x" * 999 + b"\n"


def note(place: Path, name: str, text: str = "") -> None:
    """Leave a note; it is there as a whole or not at all."""
    half = place / f"{name}.{os.getpid()}"
    half.write_text(text)
    half.rename(place / name)


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def read_to_end() -> None:
    while os.read(0, 1 << 16):
        pass


def echoes(_place: Path) -> None:
    """Send everything back."""
    while data := os.read(0, 1 << 16):
        write(data)


def waits(place: Path) -> None:
    """Say where it is, and wait for the end of input."""
    note(place, "ready", str(os.getpid()))
    read_to_end()


def leaves(_place: Path, code: str) -> None:
    """Say something on both streams, and go."""
    write(b"out\n")
    os.write(2, b"err \xff\n")
    os._exit(int(code))


def is_signalled(_place: Path, number: str) -> None:
    os.kill(os.getpid(), int(number))


def describes_itself(place: Path) -> None:
    """Note everything that was inherited."""
    status = Path("/proc/self/status").read_text()
    signals = {
        line.split()[0]: line.split()[1] for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn"))
    }
    # Listing them takes one more for a moment.
    open_now = sorted(
        number for number in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{number}")
    )
    told = {
        "cwd": os.getcwd(),
        "env": {os.fsdecode(key): os.fsdecode(value) for key, value in os.environb.items()},
        "signals": signals,
        "descriptors": open_now,
        "umask": os.umask(0o077),
        "leads_group": os.getpgrp() == os.getpid(),
        "threads": len(os.listdir("/proc/self/task")),
        "stderr": os.readlink("/proc/self/fd/2"),
    }
    note(place, "itself", json.dumps(told))


def goes_on(place: Path) -> None:
    """Write something after the end of input, however long it takes to be heard, and then go."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(place, "ready", str(os.getpid()))
    read_to_end()
    write(b"after the end\n")
    sys.exit(3)


def stays(place: Path) -> None:
    """Ignore the end of input and every signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    note(place, "ready", str(os.getpid()))
    time.sleep(LONG)


def stops(place: Path) -> None:
    """Be stopped, as by Ctrl-Z or a debugger."""
    note(place, "ready", str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(LONG)


def leaves_children(place: Path, *how: str) -> None:
    """Go, and leave a child behind that holds on to everything: in a session of its own, or `stubborn`, or both."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        if "apart" in how:
            os.setsid()
        if "stubborn" in how:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(writing, b"x")
        time.sleep(LONG)
        os._exit(0)
    os.read(reading, 1)
    write(b"last words\n")
    note(place, "ready", str(os.getpid()))
    if "waits" in how:
        read_to_end()
    os._exit(5)


def keeps_children(place: Path) -> None:
    """Start children, some of them orphans, and stay with all of them."""
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            note(place, "orphan")
        time.sleep(LONG)
    stays(place)


def closes_output(place: Path) -> None:
    """Close its output, and live on until the end of input."""
    os.close(1)
    note(place, "ready", str(os.getpid()))
    read_to_end()
    sys.exit(4)


def closes_input(place: Path) -> None:
    """Close its input, and live on until it is told to go."""
    os.close(0)
    write(b"closed\n")
    note(place, "ready", str(os.getpid()))
    time.sleep(LONG)


def reads_late(place: Path) -> None:
    """Read nothing before a note says so; then say how much it was."""
    note(place, "ready", str(os.getpid()))
    while not (place / "read").exists():
        time.sleep(0.005)
    length = 0
    while data := os.read(0, 1 << 16):
        length += len(data)
    write(b"%d\n" % length)


def floods(place: Path) -> None:
    """Write as much as anybody takes."""
    note(place, "ready", str(os.getpid()))
    while True:
        write(FLOOD * 64)


def writes(_place: Path, kilobytes: str) -> None:
    """Write so much, and go."""
    write(FLOOD * int(kilobytes))
    sys.exit(6)


def asks_without_listening(_place: Path) -> None:
    """Ask one question after the other, and read the answers only then."""
    write(b"".join(b"ask %d\n" % number for number in range(ASKED)))
    answers = b""
    while answers.count(b"\n") < ASKED:
        answers += os.read(0, 1 << 16)
    right = answers.splitlines() == [b"answer ask %d" % number for number in range(ASKED)]
    write(b"answered\n" if right else b"wrong\n")
    read_to_end()


def asks(_place: Path, count: str) -> None:
    """Ask, tell and ask in turns; then echo what was answered, without the order in doubt."""
    for number in range(int(count)):
        write(b"ask %d\ntold %d\n" % (number, number))
    echoes(_place)


def trusts(place: Path) -> None:
    """Have an orphan, two forks away and in a session of its own, run a command that only the user may run."""
    if os.fork() == 0:
        os.setsid()
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:  # until somebody has adopted it
                time.sleep(0.005)
            command = [os.environ["WITH_BYLEAVE"], "-m", "byleave", "trust", "--yes"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            note(place, "trusted", json.dumps([done.returncode, done.stderr]))
        os._exit(0)
    read_to_end()


BEHAVIOURS: dict[str, Callable[..., None]] = {
    behaviour.__name__: behaviour
    for behaviour in (
        *(echoes, waits, leaves, is_signalled, describes_itself, goes_on, stays, stops, leaves_children),
        *(keeps_children, closes_output, closes_input, reads_late, floods, writes),
        *(asks_without_listening, asks, trusts),
    )
}

if __name__ == "__main__":
    BEHAVIOURS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
