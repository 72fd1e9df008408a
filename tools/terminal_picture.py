"""Draw docs/images/terminal.svg: what the policy of `byleave setup` does to an agent, captured in a terminal.

A scratch project with a home of its own is set up, and a stand-in for Claude Code sends each command through the hook
that was installed, and runs what the hook answers: every line of the picture is what the real program printed, on a
terminal of 80 columns. `make screenshots` runs it; tests/docs/test_pictures.py holds the picture to what happens.
"""

import html
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PICTURE = CHECKOUT / "docs" / "images" / "terminal.svg"
COLUMNS = 80
# What the agent runs, in this order: ordinary work, a look at a secret, a way round, the network, a push, a disaster.
COMMANDS = (
    "make test",
    "cat .env",
    "echo 'd=.; cat ${d}env; ls ~/${d}s*' > look.sh; sh look.sh",
    "curl -sS http://example.org/",
    "git push origin main",
    "rm -rf ~",
)
SHOWN = {"allow": "32", "ask": "33", "deny": "31"}  # the colour of a decision
COLOURS = {"": "#d4d4d4", "1": "#ffffff", "2": "#8a8a8a", "31": "#f28779", "32": "#87d96c", "33": "#ffcc66"}
CELL, LINE, EDGE = 8.4, 19, 16  # pixels


def run_agent() -> None:
    """Be the agent: send each command through the hook in the settings, and run what the hook answers."""
    with Path("~/.claude/settings.json").expanduser().open() as file:
        hook = json.load(file)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    for number, command in enumerate(COMMANDS):
        event = {
            "hook_event_name": "PreToolUse",
            "session_id": "picture",
            "cwd": str(Path.cwd()),
            "permission_mode": "default",
            "tool_name": "Bash",
            "tool_use_id": f"call-{number}",
            "tool_input": {"command": command},
        }
        done = subprocess.run(  # noqa: S602 -- the settings hold a line for a shell
            hook, shell=True, input=json.dumps(event), capture_output=True, text=True, check=True
        )
        answer = json.loads(done.stdout)["hookSpecificOutput"]
        colour = SHOWN[answer["permissionDecision"]]
        print(f"\x1b[2magent\x1b[0m \x1b[1m{command}\x1b[0m")
        if answer["permissionDecision"] != "allow":
            reason = answer["permissionDecisionReason"].splitlines()[0].replace(str(Path.home()), "~")
            print("\n".join(f"      \x1b[{colour}m{line}\x1b[0m" for line in textwrap.wrap(reason, COLUMNS - 6)))
            continue
        print(f"      \x1b[{colour}mallowed, confined\x1b[0m", flush=True)
        changed = answer.get("updatedInput", {}).get("command", command)
        subprocess.run(["/bin/bash", "-c", changed], check=False)


def capture() -> str:
    """Return what the terminal shows while the agent works."""
    with tempfile.TemporaryDirectory(prefix="byleave-") as made:
        home = Path(made) / "home" / "ana"
        root = home / "shop"
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        (home / ".ssh" / "id_ed25519").write_text("PRIVATE KEY\n")
        root.mkdir()
        (root / ".env").write_text("API_KEY=hunter2\n")
        (root / "Makefile").write_text("test:\n\t@echo 1 test passed\n")
        env = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "BYLEAVE_SERVICE": "off",
        }
        for words in (["git", "init", "-q", "."], ["byleave", "setup", "--yes", "--agent", "claude-code"]):
            subprocess.run(words, cwd=root, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        said = on_a_terminal([sys.executable, __file__, "--agent"], root, env)
        return said.replace(made, "").replace("/home/ana", "~")


def on_a_terminal(words: list[str], cwd: Path, env: dict[str, str]) -> str:
    """Run a program on a terminal of its own, and return what it wrote there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True):
        os.close(theirs)
        written = bytearray()
        while piece := read(ours):
            written += piece
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    """Return the next piece, nothing at the end: a terminal that its last process has left is an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def pieces(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line, each with its colour."""
    colour = ""
    for part in re.split(r"\x1b\[([0-9;]*)m", line):
        if re.fullmatch(r"[0-9;]*", part) and part in {"", "0", *COLOURS}:
            colour = "" if part in ("", "0") else part
        elif part:
            yield part, colour


def broken(line: str) -> list[str]:
    """Break a line that is longer than the terminal is wide, as a terminal does. Lines with colours are short."""
    if len(line) <= COLUMNS or "\x1b" in line:
        return [line]
    return [line[start : start + COLUMNS] for start in range(0, len(line), COLUMNS)]


def draw(text: str) -> str:
    """Return the picture of a terminal with this text."""
    lines = [line for whole in text.rstrip("\n").split("\n") for line in broken(whole)]
    width, height = COLUMNS * CELL + 2 * EDGE, len(lines) * LINE + 2 * EDGE
    size = f'width="{width:.0f}" height="{height}"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="An agent, held to the policy">',
        f'<rect {size} rx="8" fill="#1e1e1e"/>',
        '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        column = 0
        for part, colour in pieces(line):
            look = f'fill="{COLOURS[colour]}"' + (' font-weight="bold"' if colour == "1" else "")
            place = f'x="{EDGE + column * CELL:.1f}" y="{EDGE + number * LINE + 14}"'
            drawn.append(f'<text {place} {look} textLength="{len(part) * CELL:.1f}">{html.escape(part)}</text>')
            column += len(part)
    return "\n".join([*drawn, "</g>", "</svg>", ""])


if __name__ == "__main__":
    if sys.argv[1:] == ["--agent"]:
        run_agent()
    else:
        PICTURE.write_text(draw(capture()))
