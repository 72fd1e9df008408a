"""Take the pictures of docs/dashboard.md: a dashboard with an invented week of three agents, in chromium.

`make screenshots` runs it. Nothing of the user's is read: the home, the workspace and the records are made for it.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
PLACE = CHECKOUT / "docs" / "images"
sys.path.insert(0, str(CHECKOUT / "tests"))

from browser import Page, browser  # noqa: E402 -- beside the tests, which use it most
from byleave.policy.load import Workspace  # noqa: E402
from byleave.store.audit.log import AuditLog  # noqa: E402

RULES = """
[shell]
confine = "auto"

[[rules]]
allow = { group = "read_only_git" }

[[rules]]
allow = { group = "tests" }

[[rules]]
allow = { path = "src/**" }

[[rules]]
deny = { path = ".env" }
why = "secrets stay here"

[[rules]]
ask = { any = [{ group = "installing" }, { group = "publishing" }] }

[[rules]]
deny = { command = "git", subcommand = "push", flags = ["--force"] }
why = "force-push rewrites history"
"""
# What was attempted, the decision, the rule, how often.
WEEK: list[tuple[dict[str, Any], str, str, int]] = [
    ({"kind": "command", "command": "git status"}, "allow", "allow group read_only_git", 30),
    ({"kind": "command", "command": "npm test"}, "allow", "allow group tests", 18),
    ({"kind": "read", "path": "src/routes.ts"}, "allow", "allow path src/**", 40),
    ({"kind": "update", "path": "src/routes.ts"}, "allow", "allow path src/**", 20),
    ({"kind": "command", "command": "npm install zod"}, "ask", "ask group installing or group publishing", 5),
    ({"kind": "command", "command": "git push --force"}, "deny", "deny git push --force", 2),
    ({"kind": "read", "path": ".env"}, "deny", "deny path .env", 3),
    ({"kind": "url", "url": "https://api.example.org/v1"}, "allow", "allow url api.example.org", 6),
]
DAYS, RECORDS = 13, 700
SECOND = 10**9


def invent(root: Path) -> None:
    """Write the records of some days."""
    workspace = Workspace(str(root))
    workspace.remember_root()
    chance = random.Random(7)  # noqa: S311 -- a picture
    clock = [time.time_ns() - DAYS * 86_400 * SECOND]
    log = AuditLog(workspace.approvals.directory, now=lambda: clock[0])
    for _ in range(RECORDS):
        clock[0] += int(chance.random() * 2 * DAYS * 86_400 * SECOND / RECORDS * 0.98)
        action, decision, rule, _weight = chance.choices(WEEK, [each[3] for each in WEEK])[0]
        ref = {"rule": rule, "source": "byleave.toml:4", "decision": decision}
        reason = f"the rule `{rule}` matches it"
        record = {
            "event": "decision",
            "session": "default",
            "door": chance.choice(["hook", "hook", "acp"]),
            "agent": chance.choice(["claude-code", "claude-code", "codex", "gemini"]),
            "identity": "default",
            "action": action,
            "verdict": {"decision": decision, "reason": reason, "code": "ok", "because": [ref]},
        }
        if decision == "ask":
            record["answer"] = {"by": "dashboard", "choice": chance.choice(["once", "session", "no"])}
        log.append(record)
    log.fold()
    log.close()


def ask(root: Path, command: str) -> None:
    """Have a hook hold a command back, so that it waits in the dashboard."""
    event = {"hook_event_name": "PreToolUse", "cwd": str(root), "tool_name": "Bash", "tool_input": {"command": command}}
    words = [sys.executable, "-m", "byleave", "hook", "codex", "--root", str(root)]
    subprocess.run(words, input=json.dumps(event).encode(), check=True, stdout=subprocess.DEVNULL)


def take(page: Page, origin: str) -> None:
    """Write every picture."""
    page.look(width=1100, height=760)
    for name in ("overview", "approvals"):
        page.go(f"{origin}/{'' if name == 'overview' else name}")
        page.until("document.querySelector('.question, .tile')")
        page.picture(PLACE / f"dashboard-{name}.png")
    page.look(width=1100, height=1010, dark=True)
    page.go(f"{origin}/try")
    page.fill("Action to try", "git status && cargo publish")
    page.click("Try")
    page.until("document.querySelector('#verdict .badge')")
    page.picture(PLACE / "dashboard-try.png")


def main() -> None:
    """Make a home, fill it, and look at it."""
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="byleave-") as made:
        home = Path(made) / "ana"
        root = home / "code" / "shop"
        for directory in (home, home / "code", root, root / "src"):
            directory.mkdir(mode=0o700)
        (home / ".byleave").mkdir(mode=0o700)
        (root / "byleave.toml").write_text(RULES)
        os.environ.update(BYLEAVE_HOME=str(home / ".byleave"), HOME=str(home), BYLEAVE_SERVICE="off")
        subprocess.run(
            [sys.executable, "-m", "byleave", "trust", "--yes"], check=True, cwd=root, stdout=subprocess.DEVNULL
        )
        invent(root)
        ask(root, "git status && git push origin main")
        ask(root, "git tag v1.2.0 && git push --tags")
        words = [sys.executable, "-m", "byleave", "dashboard", "--json", "--no-open", "--root", str(root)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as serving, browser() as started:
            assert serving.stdout is not None  # noqa: S101 -- a pipe was asked for
            url = json.loads(serving.stdout.readline())["url"]
            take(started.open(url), url.partition("/?")[0])
            serving.terminate()


if __name__ == "__main__":
    main()
