"""A server on standard input and output that behaves as its first argument says. Plain Python: it runs in a sandbox."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any


def say(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def look(path: str) -> str:
    try:
        return "directory " + " ".join(sorted(os.listdir(path))) if os.path.isdir(path) else open(path).read()
    except OSError as error:
        return f"{type(error).__name__}"


def put(path: str) -> str:
    try:
        with open(path, "w") as file:
            file.write("x")
    except OSError as error:
        return f"{type(error).__name__} {error.errno}"
    return "written"


TOOLS = {
    "echo": lambda value: value,
    "look": look,
    "put": put,
    "variables": lambda _value: dict(os.environ),
    "directory": lambda _value: os.getcwd(),
    "size": len,
}


def answers() -> None:
    for request in requests():
        if "id" in request:
            say(id=request["id"], result=TOOLS[request["method"]](request.get("params")))


def dies_in_mid_call() -> None:
    next(requests())
    sys.stderr.write("out of cheese \x1b[31m SECRET\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def exits_at_once() -> None:
    sys.stderr.write("no configuration found\n")
    sys.exit(3)


def answers_and_exits() -> None:
    request = next(requests())
    say(id=request["id"], result="x" * 300_000)


def hangs() -> None:
    for _ in requests():
        pass


def floods() -> None:
    line = json.dumps({"jsonrpc": "2.0", "method": "noise", "params": {"text": "x" * 1000}}) + "\n"
    request = next(requests())
    sys.stdout.write(line * 20_000)
    say(id=request["id"], result="done")
    hangs()


def floods_errors() -> None:
    request = next(requests())
    for number in range(2000):
        sys.stderr.write(f"{number} " + "e" * 1000 + "\n")
    sys.stderr.write("the last words\n")
    sys.stderr.flush()
    say(id=request["id"], result="done")
    hangs()


def lies_about_ids() -> None:
    request = next(requests())
    say(id="somebody-elses", result=1)
    say(id=request["id"], result=1)
    say(id=request["id"], result=2)
    say(id=None, result=3)
    hangs()


def speaks_badly() -> None:
    request = next(requests())
    out = sys.stdout.buffer
    out.write(b"Server is starting...\n\n[INFO] ready\n")
    out.write(b'{"jsonrpc":"2.0","method":"a","params":{"text":"\xff\xfe"}}\r\n')
    out.write(b'{"jsonrpc":"2.0",\r"method":"b",\r"params":{}}\n')
    out.flush()
    text = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": "half"}).encode() + b"\n"
    for piece in (text[:9], text[9:30], text[30:]):
        out.write(piece)
        out.flush()
        time.sleep(0.01)
    hangs()


def says_too_much() -> None:
    for request in requests():
        if request["method"] == "named":
            say(id=request["id"], result="x" * 5000)
        else:
            sys.stdout.write("x" * 5000 + "\n")
            sys.stdout.flush()


def never_reads() -> None:
    say(method="ready")
    time.sleep(60)


def ignores_everything() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.setsid()
    else:
        say(method="ready")
    while True:
        time.sleep(60)


def ends_when_told() -> None:
    def told(_number: int, _frame: object) -> None:
        sys.stderr.write("told to end\n")
        sys.stderr.flush()
        os._exit(0)

    signal.signal(signal.SIGTERM, told)
    say(method="ready")
    while True:
        time.sleep(60)


def closes_output() -> None:
    next(requests())
    os.close(1)
    hangs()


def negotiates() -> None:
    """Do what the second argument says with `server/discover`, and what the third says with `initialize`."""
    todo = {"server/discover": sys.argv[2], "initialize": sys.argv[3]}
    yes = {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}},
    }
    for request in requests():
        method = request["method"]
        sys.stderr.write(f"{method}\n")
        sys.stderr.flush()
        what = todo.get(method, "silence")
        if what == "exit":
            os._exit(1)
        elif what == "stuck":
            hangs()
        elif what == "yes":
            say(id=request["id"], result=yes[method])
        elif what == "nonsense":
            say(id=request["id"], result={"method": method})
        elif what != "silence":
            say(id=request["id"], error={"code": int(what), "message": "as I like it"})


if __name__ == "__main__":
    globals()[sys.argv[1]]()
