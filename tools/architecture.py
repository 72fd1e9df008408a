"""Draw the diagrams of docs/architecture.md from the code: who imports whom, and what a request passes through.

The import graph is read from the source, with imports inside of functions and those for type checkers only. A journey
is one command that is run with `sys.setprofile`: the list has every module of byleave in which a function is called,
in the order of the first call. What a command only loads is not in it.

`make architecture` writes the page; `--check` only says whether it is up to date. tests/test_architecture.py uses both.
"""

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCE = CHECKOUT / "src" / "byleave"
PAGE = CHECKOUT / "docs" / "architecture.md"
WIDTH = 120
SECONDS = 120  # for one journey

# Runs in the process that is traced: argv is the file to write, "now" or "signal", and the words of the command. With
# "signal" only what happens between two signals is traced.
TRACER = """
import inspect, os, signal, sys, threading
written, after_signal, words = sys.argv[1], sys.argv[2] == "signal", sys.argv[3:]
source = {source!r}
seen = {{}}
begun = []
def enter(frame, event, _argument):
    code = frame.f_code
    if not begun or event != "call" or code.co_filename in seen or not code.co_filename.startswith(source):
        return
    if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or of a class
        return
    while frame := frame.f_back:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(source):
            return  # a call that only happens because a module is loaded
    seen.setdefault(code.co_filename)
def end(*_):
    begun.clear()
    with open(written, "w") as file:
        file.write("\\n".join(seen))
leave = os._exit  # a hook ends by it
os._exit = lambda code: (end(), leave(code))
from byleave.cli.main import main
sys.argv[1:] = words
if after_signal:
    signal.signal(signal.SIGUSR1, lambda *_: begun.append(1))
    signal.signal(signal.SIGUSR2, lambda *_: begun.clear())
else:
    begun.append(1)
threading.setprofile(enter)
sys.setprofile(enter)
try:
    main(words)
except SystemExit:
    pass
finally:
    end()
"""

POLICY = """
[tools.notes]
source = "local"
[[tools.notes.access.fs]]
path = "src"
read = true

[agents.claude]
allow.servers = ["*"]

[[rules]]
allow = { call = { server = "*" } }

[servers.echo]
command = ["%s", "server.py"]
"""

SERVER = """
import json, sys
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "echo", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "say", "description": "Say it.", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "hello"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": RESULTS[message["method"]]}), flush=True)
"""

HOOK = {
    "hook_event_name": "PreToolUse",
    "session_id": "s",
    "cwd": "",
    "tool_name": "Read",
    "tool_input": {"file_path": "src/notes.txt"},
}


class JourneyError(Exception):
    """A journey could not be traced here: no sandbox on this machine, say."""


# The import graph.


def packages() -> dict[str, list[Path]]:
    """Return the files of each package, and of each module that lies beside the packages."""
    found: dict[str, list[Path]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        top = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        found.setdefault(top, []).append(file)
    del found["__init__"]  # it names what is public, and loads each when it is first used
    return found


def imported(file: Path) -> Iterator[str]:
    """Yield the packages of byleave that a file imports, at any place in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module="byleave", names=names, level=0):
                modules = [f"byleave.{name.name}" for name in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:
                continue
        yield from (module.split(".")[1] for module in modules if module.startswith("byleave."))


def layers() -> list[list[str]]:
    """Return the packages from top to bottom, as the contract of import-linter has them."""
    contract = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [[name.strip().removeprefix("byleave.") for name in layer.split("|")] for layer in contract["layers"]]


def import_graph() -> str:
    """Return the packages from top to bottom, each with the packages that it imports."""
    files = packages()
    order = [name for layer in layers() for name in layer if name in files]
    order = [*(name for name in files if name not in order), *order]
    lines = []
    for name in order:
        targets = {target for file in files[name] for target in imported(file)} & set(files) - {name}
        listed = " ".join(target for target in order if target in targets) or "-"
        lines.append(textwrap.fill(listed, WIDTH, initial_indent=f"{name:<12}", subsequent_indent=" " * 12))
    return "\n".join(lines)


# The journeys.


def traced(
    words: list[str], root: Path, *, talk: Callable[[subprocess.Popen[str]], None] | None = None, feed: str = ""
) -> str:
    """Return the modules that a command enters, in order of the first call."""
    written = root.parent / "trace"
    written.unlink(missing_ok=True)
    program = TRACER.format(source=str(SOURCE) + os.sep)
    home = root.parent / "home"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(written), "signal" if talk else "now", *words],
        cwd=root,
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "BYLEAVE_HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if talk is not None:
            talk(process)
        _out, err = process.communicate(feed or None, timeout=SECONDS)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        process.kill()
        raise JourneyError(f"{words[0]}: {error!r} {process.communicate()[1]}") from error
    if process.returncode != 0 or not written.exists():
        raise JourneyError(f"{words[0]} ended with {process.returncode}: {err}")
    modules = [module_name(Path(line)) for line in written.read_text().splitlines()]
    text = " -> ".join(modules)
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def module_name(file: Path) -> str:
    parts = list(file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def call_a_tool(process: subprocess.Popen[str]) -> None:
    """Greet the gateway, list the tools, and have the trace begin with the call and end with its answer."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    stdin, stdout = process.stdin, process.stdout

    def ask(number: int, method: str, params: dict[str, object]) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        stdin.write(json.dumps(message) + "\n")
        stdin.flush()
        for line in stdout:
            answer = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                if "error" in answer:
                    raise ValueError(line)
                return
        raise ValueError(f"no answer to {method}")

    client = {"name": "architecture", "version": "1"}
    ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
    stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
    ask(2, "tools/list", {})
    ask(3, "tools/call", {"name": "echo__say", "arguments": {}})  # what is made once is made now
    ask(5, "ping", {})  # the work behind the first answer is done
    process.send_signal(signal.SIGUSR1)
    ask(4, "tools/call", {"name": "echo__say", "arguments": {}})
    process.send_signal(signal.SIGUSR2)


def journeys(*names: str) -> dict[str, str]:
    """Trace the journeys, or some, a second time: what is made once (a parsed policy, a built table) is there then."""
    with tempfile.TemporaryDirectory(prefix="architecture-", ignore_cleanup_errors=True) as base:
        root = Path(base).resolve() / "ws"
        (root / "src").mkdir(parents=True)
        (root.parent / "home").mkdir(mode=0o700)
        (root / "src" / "notes.txt").write_text("hello\n")
        (root / "server.py").write_text(SERVER)
        (root / "byleave.toml").write_text(POLICY % sys.executable)
        hook = json.dumps(HOOK | {"cwd": str(root)})
        traced(["trust", "--yes"], root)
        runs: dict[str, Callable[[], str]] = {
            "check": lambda: traced(["check", "read", "src/notes.txt", "--tool", "notes"], root),
            "run": lambda: traced(["run", "--tool", "notes", "--", "true"], root),
            "tools/call": lambda: traced(["mcp", "--agent", "claude"], root, talk=call_a_tool),
            "hook": lambda: traced(["hook", "claude-code"], root, feed=hook),
        }
        found = {}
        for name, run in runs.items():
            if name in names or not names:
                run()
                found[name] = run()
        return found


# The page.


def replaced(page: str, name: str, text: str) -> str:
    """Return the page with the text between two comments exchanged."""
    begin, end = f"<!-- {name}: made by tools/architecture.py -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    if not rest or not after:
        raise SystemExit(f"{PAGE} has no part {name!r}")
    return before + begin + text + end + after


def with_graph(page: str) -> str:
    """Return the page with the import graph of today."""
    return replaced(page, "imports", f"```\n{import_graph()}\n```\n")


def with_journeys(page: str) -> str:
    """Return the page with the journeys of today."""
    drawn = "\n".join(
        f"`{name}`: {text.count(' -> ') + text.count(' ->' + chr(10)) + 1} modules\n\n```\n{text}\n```\n"
        for name, text in journeys().items()
    )
    return replaced(page, "journeys", drawn)


def main() -> int:
    """Write the page, or say whether it is what the code gives."""
    parser = argparse.ArgumentParser(description="Draw the diagrams of docs/architecture.md from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the page is out of date")
    check = parser.parse_args().check
    page = PAGE.read_text()
    drawn = with_journeys(with_graph(page))
    if check:
        return int(drawn != page)
    PAGE.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
