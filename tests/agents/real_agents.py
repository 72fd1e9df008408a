"""Real agents: installed once into a directory that is kept, started with a home of their own and a scripted model.

What each needs is in `AGENTS`; `$URL` stands for the model's address, `$HOME` for the agent's home, and their versions
are those that were tried. `installed` fetches one from the npm registry if it is not there yet.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODEL = Path(__file__).with_name("mockllm.py")
INSTALLING = 600.0  # seconds
_OWN_HOME = os.environ.get("HOME", "")  # as long as it is the developer's: npm keeps its settings there
_CACHE = os.environ.get("XDG_CACHE_HOME") or f"{_OWN_HOME}/.cache"
PLACE = Path(os.environ.get("BYLEAVE_AGENTS_DIR") or f"{_CACHE}/byleave-agents")


@dataclass(frozen=True)
class Agent:
    """How an agent is installed and started, and what it calls its tools."""

    name: str
    package: str
    version: str
    program: str
    bash: str  # its tool for commands
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # in its home
    mode: str | None = None  # of each session
    command: str = "command"  # what that tool calls its command
    more: Mapping[str, str] = field(default_factory=dict)  # that it needs besides
    write: str | None = None  # its tool for writing files
    path: str = "file_path"  # what that tool calls the path
    creates: bool = True  # whether it can write a file that is not there yet, where the editor serves files

    def runs(self, command: str) -> dict[str, Any]:
        """Return the step of a script in which the agent runs a command."""
        return {"name": self.bash, "args": {self.command: command, **self.more}}

    def writes(self, path: Path, content: str) -> dict[str, Any]:
        """Return the step in which it writes a file."""
        return {"name": self.write, "args": {self.path: str(path), "content": content}}

    def prepared(self, home: Path, url: str) -> dict[str, str]:
        """Fill an empty home, and return the environment that the agent is to be started with."""
        filled = {"$URL": url, "$HOME": str(home)}
        for name, content in self.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(_filled(content, filled))
        own = {name: _filled(value, filled) for name, value in self.env.items()}
        return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **own}


_OPENCODE = {
    "model": "mock/mock-model",
    "small_model": "mock/mock-model",
    "autoupdate": False,
    "share": "disabled",
    "provider": {
        "mock": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "$URL/v1", "apiKey": "x"},
            "models": {"mock-model": {"name": "mock", "limit": {"context": 200000, "output": 8000}}},
        }
    },
    "permission": {"edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"},
}
_CODEX = """
model = "gpt-5"
model_provider = "mock"
approval_policy = "on-request"
sandbox_mode = "read-only"

[model_providers.mock]
name = "mock"
base_url = "$URL/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
"""

AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            name="gemini",
            package="@google/gemini-cli",
            version="0.61.0",
            program="gemini",
            args=("--acp", "-m", "gemini-2.5-pro"),
            env={
                "GEMINI_API_KEY": "x",
                "GOOGLE_GEMINI_BASE_URL": "$URL",
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
            },
            files={".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
            bash="run_shell_command",
            more={"description": "a step"},
            write="write_file",
            creates=False,
        ),
        Agent(
            name="claude",
            package="@agentclientprotocol/claude-agent-acp",
            version="0.49.0",  # later ones want a newer Node
            program="claude-agent-acp",
            env={
                "ANTHROPIC_API_KEY": "sk-mock",
                "ANTHROPIC_BASE_URL": "$URL",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1",  # it refuses some modes to root otherwise
            },
            bash="Bash",
            more={"description": "a step"},
            write="Write",
        ),
        Agent(
            name="qwen",
            package="@qwen-code/qwen-code",
            version="0.15.10",  # later ones want a newer Node
            program="qwen",
            args=("--acp",),
            env={"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "$URL/v1", "OPENAI_MODEL": "mock-model"},
            files={".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}}'},
            bash="run_shell_command",
            more={"description": "a step"},
            write="write_file",
        ),
        Agent(
            name="opencode",
            package="opencode-ai",
            version="1.18.33",
            program="opencode",
            args=("acp",),
            files={".config/opencode/opencode.json": json.dumps(_OPENCODE)},
            bash="bash",
            more={"description": "a step"},
            write="write",
            path="filePath",
        ),
        Agent(
            name="codex",
            package="@agentclientprotocol/codex-acp",
            version="2.6.0",
            program="codex-acp",
            env={"MOCK_KEY": "x", "CODEX_HOME": "$HOME/.codex"},
            files={".codex/config.toml": _CODEX},
            mode="read-only",
            bash="exec_command",
            command="cmd",
            more={"sandbox_permissions": "require_escalated", "justification": "a step"},
        ),
    )
}


class NotInstalledError(Exception):
    """An agent could not be installed; the text says why."""


def installed(agent: Agent) -> str:
    """Return the program of an agent."""
    return program_of(agent.package, agent.version, agent.program)


def program_of(package: str, version: str, program: str) -> str:
    """Return a program of a package from the npm registry, which is installed if it is not there yet."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalledError("there is no npm")
    place = PLACE / f"{package.replace('/', '+')}-{version}"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / ".ready").exists():
            _install(npm, place, f"{package}@{version}")
            (place / ".ready").touch()
    return str(place / "node_modules" / ".bin" / program)


def _install(npm: str, place: Path, wanted: str) -> None:
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--prefix", str(place), wanted],
        cwd=place,
        env={**os.environ, "HOME": _OWN_HOME},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=INSTALLING,
        check=False,
    )
    if done.returncode != 0:
        raise NotInstalledError(f"npm could not install {wanted}: {done.stderr.decode(errors='replace')[-500:]}")


@contextmanager
def model() -> Iterator[str]:
    """Run the scripted model, and yield its address."""
    process = subprocess.Popen([sys.executable, str(MODEL)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def script(*steps: Any) -> str:
    """Return a prompt that has the model take these steps, and say so at the end."""
    return f"go @@script{json.dumps([*steps, {'text': 'done'}])}@@end"


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text
