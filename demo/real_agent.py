"""The same with a real agent: Claude Code from the npm registry, whose model is a script on loopback.

`make demo-agent` installs the agent into BYLEAVE_AGENTS_DIR (by default below the user's cache) and starts it with a
home of its own. No account is used, and nothing but the package is fetched.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from agents.real_agents import NotInstalledError, model, program_of, script
from agents.test_hooks_of_real_agents import HEADLESS

PATIENCE = 240  # seconds that the agent may take
STEPS = ("git status --short", "cat .env", "cat .e* ~/.ssh/*", "curl -sS http://example.org/", "rm -rf ~")

(CLAUDE,) = (each for each in HEADLESS if (each.agent, each.version) == ("claude-code", "2.1.325"))


def run(environment: dict[str, str], project: Path, *words: str) -> None:
    """Show a command and what it prints."""
    print(f"$ {' '.join(words)}", flush=True)
    subprocess.run(words, cwd=project, env=environment, check=True)
    print(flush=True)


def main() -> None:
    """Set byleave up in a project, have the agent take its steps, and show what became of them."""
    try:
        program = program_of(CLAUDE.package, CLAUDE.version, CLAUDE.program)
    except NotInstalledError as error:
        sys.exit(f"demo: {error}")
    with tempfile.TemporaryDirectory(prefix="byleave-demo-") as scratch, model() as url:
        home, project = Path(scratch) / "home", Path(scratch) / "home" / "shop"
        for directory in (project, home / ".ssh", home / ".claude"):
            directory.mkdir(parents=True)
        (home / ".ssh/id_ed25519").write_text("PRIVATE KEY\n")
        (project / ".env").write_text("API_KEY=hunter2\n")
        own = {name: value.replace("$URL", url).replace("$HOME", str(home)) for name, value in CLAUDE.env.items()}
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SHELL": "/bin/sh", "COLUMNS": "80", **own}
        subprocess.run(["git", "init", "-q"], cwd=project, env=environment, check=True)
        run(environment, project, "byleave", "setup", "--yes", "--agent", "claude-code")
        steps = [{"name": CLAUDE.bash, "args": {"command": text, "description": "a step"}} for text in STEPS]
        words = [script(*steps) if word == "$PROMPT" else word for word in CLAUDE.args]
        print(f"$ claude -p PROMPT   (version {CLAUDE.version}; the steps of its model:)", flush=True)
        print("".join(f"    {step}\n" for step in STEPS), end="", flush=True)
        subprocess.run(
            [program, *words], cwd=project, env=environment, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=True
        )
        print(flush=True)
        run(environment, project, "byleave", "audit", "list")
        run(environment, project, "byleave", "audit", "summary", "--since", "1h")
        subprocess.run(["byleave", "service", "stop", "-q"], cwd=project, env=environment, check=False)
        if not (home / ".ssh/id_ed25519").exists():
            sys.exit("demo: the home directory is gone")


if __name__ == "__main__":
    main()
