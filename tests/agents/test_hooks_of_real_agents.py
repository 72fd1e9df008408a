"""Real agents with our hook in their own settings: what is allowed runs, everything else does not.

In headless mode, so that there is nobody to ask: an agent that asks its user then gets no for an answer.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agents.real_agents import NotInstalledError, program_of, script
from command import byleave

PATIENCE = 240.0  # seconds for one turn; opencode fetches a package when it is started for the first time
WAITING = 20.0  # seconds, after which a question that nobody answers has been asked
RULES = """
[[rules]]
allow = { command = "touch", args = ["allowed"] }

[[rules]]
deny = { command = "touch", args = ["denied"] }
"""
_CODEX = """
model = "gpt-5"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.mock]
name = "mock"
base_url = "$URL/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
"""
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
}
_CLAUDE = {
    "ANTHROPIC_API_KEY": "sk-mock",
    "ANTHROPIC_BASE_URL": "$URL",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",  # it refuses root the mode otherwise
}


@dataclass(frozen=True)
class Headless:
    """An agent that takes a prompt, does what it is told to without asking anybody, and ends.

    All of its own guards are down, so that what holds it back is the hook.
    """

    agent: str
    package: str
    version: str
    program: str
    args: tuple[str, ...]
    bash: str
    command: str = "command"
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # in its home
    asks: bool = True  # whether its hooks can have it ask its user, here: whether the record says so
    several: bool = False  # whether its tool for commands takes a list of them
    first: tuple[str, ...] = ()  # how it is set up
    last: Mapping[str, Any] | None = None  # the step that ends its run
    ends: bool = True  # whether it ends by itself, without an account and a network

    def __str__(self) -> str:
        return f"{self.agent}-{self.version}"


_CLAUDE_ARGS = ("-p", "$PROMPT", "--permission-mode", "bypassPermissions")
HEADLESS = (
    *(
        Headless(
            agent="claude-code",
            package="@anthropic-ai/claude-code",
            version=version,
            program="claude",
            args=_CLAUDE_ARGS,
            bash="Bash",
            env=_CLAUDE,
            asks=False,  # not in this mode
        )
        for version in ("2.0.0", "2.1.325")
    ),
    Headless(
        agent="codex",
        package="@openai/codex",
        version="0.166.0",
        program="codex",
        args=("exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "$PROMPT"),
        bash="exec_command",
        command="cmd",
        env={"MOCK_KEY": "x"},
        files={".codex/config.toml": _CODEX},
        asks=False,
    ),
    Headless(
        agent="gemini",
        package="@google/gemini-cli",
        version="0.61.0",
        program="gemini",
        args=("-m", "gemini-2.5-pro", "-p", "$PROMPT", "--approval-mode", "yolo"),
        bash="run_shell_command",
        env={"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": "$URL", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        files={".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
    ),
    Headless(
        agent="opencode",
        package="opencode-ai",
        version="1.18.33",
        program="opencode",
        args=("run",),  # it takes its prompt from standard input: it changes quotes in one of the command line
        bash="bash",
        files={".config/opencode/opencode.json": json.dumps(_OPENCODE)},
        asks=False,
    ),
    Headless(
        agent="copilot",
        package="@github/copilot",
        version="1.0.102",
        program="copilot",
        args=("-p", "$PROMPT", "--allow-all-tools", "--no-auto-update"),
        bash="bash",
        env={
            "COPILOT_PROVIDER_BASE_URL": "$URL/v1",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "mock-model",
            "COPILOT_OFFLINE": "true",
        },
    ),
    Headless(
        agent="qwen",
        package="@qwen-code/qwen-code",
        version="0.15.10",
        program="qwen",
        args=("-p", "$PROMPT", "--approval-mode", "yolo"),
        bash="run_shell_command",
        env={"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "$URL/v1", "OPENAI_MODEL": "mock-model"},
        files={".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}}}'},
        asks=False,
    ),
    Headless(
        agent="cline",
        package="cline",
        version="3.0.65",
        program="cline",
        args=("--json", "-y", "-P", "openai-compatible", "-m", "mock-model", "$PROMPT"),
        bash="run_commands",
        command="commands",
        several=True,
        first=("auth", "-p", "openai-compatible", "-k", "x", "-m", "mock-model", "-b", "$URL/v1"),
        last={"name": "submit_and_exit", "args": {"summary": "x", "verified": True}},
        ends=False,
        asks=False,
    ),
)


@dataclass(frozen=True)
class Desk:
    """A user's home with an agent in it whose hook is installed, and a workspace."""

    headless: Headless
    program: str
    home: Path
    root: Path
    url: str

    @property
    def own(self) -> dict[str, str | None]:
        """The environment in which the user runs byleave."""
        return {"HOME": str(self.home), "BYLEAVE_HOME": None}

    def run(self, command: str) -> bool:
        """Have the agent run a command, and return whether it did: each of ours creates a file."""
        made = self.root / command.partition(" ")[2]
        waits = self.headless.asks and made.name == "asked"
        args: dict[str, Any] = {self.headless.command: command, "description": "a step"}
        if self.headless.several:
            args = {self.headless.command: [command]}
        steps = [{"name": self.headless.bash, "args": args}, *([self.headless.last] if self.headless.last else [])]
        self.go(script(*steps), waits=waits or not self.headless.ends)
        return made.exists()

    def go(self, prompt: str, *, waits: bool = False) -> None:
        """Have the agent take a prompt until it ends, or as long as it may wait for somebody."""
        given = {name: self._filled(value) for name, value in self.headless.env.items()}
        process = subprocess.Popen(
            [self.program, *[prompt if word == "$PROMPT" else word for word in self.headless.args]],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "SHELL": "/bin/sh", **given},
            start_new_session=True,
        )
        try:
            feed = "" if "$PROMPT" in self.headless.args else prompt
            process.communicate(feed, timeout=WAITING if waits else PATIENCE)
        except subprocess.TimeoutExpired:
            assert waits, "the agent hangs"  # it waits for somebody who could answer
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def prepare(self) -> None:
        """Fill the home, and install the hook as a user does."""
        config = self.home / ".config" / "byleave"
        for directory in (self.home, config.parent, config):
            directory.mkdir(mode=0o700)
        (config / "config.toml").write_text(RULES)
        self.root.mkdir()
        for name, content in self.headless.files.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(self._filled(content))
        if self.headless.first:
            words = [self.program, *[self._filled(word) for word in self.headless.first]]
            env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
            subprocess.run(words, cwd=self.root, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        done = byleave("hook", "--install", self.headless.agent, "--yes", cwd=self.root, env=self.own)
        assert done.code == 0, done.err

    def trees(self, event: str) -> list[dict[str, Any]]:
        """Return the records of one kind."""
        done = byleave("audit", "export", "--door", "hook", cwd=self.root, env=self.own)
        return [tree for tree in map(json.loads, done.out.splitlines()) if tree["event"] == event]

    def records(self) -> list[tuple[str, str]]:
        trees = [tree for tree in self.trees("decision") if "command" in tree["action"]]
        return [(tree["action"]["command"], tree["verdict"]["decision"]) for tree in trees]

    def _filled(self, text: str) -> str:
        return text.replace("$URL", self.url).replace("$HOME", str(self.home))


@pytest.fixture(params=HEADLESS, ids=str)
def desk(request: pytest.FixtureRequest, model_url: str, tmp_path: Path) -> Desk:
    return seated(request.param, model_url, tmp_path)


def seated(headless: Headless, model_url: str, tmp_path: Path) -> Desk:
    """Return a desk at which an agent sits; skip where it cannot be installed."""
    try:
        program = program_of(headless.package, headless.version, headless.program)
    except NotInstalledError as error:
        pytest.skip(str(error))
    made = Desk(headless, program, tmp_path / "home", tmp_path / "ws", model_url)
    made.prepare()
    return made


def test_what_the_policy_allows_runs_and_nothing_else_does(desk: Desk) -> None:
    assert desk.run("touch allowed")
    assert not desk.run("touch denied")
    assert not desk.run("touch asked")
    asked = "ask" if desk.headless.asks else "deny"
    assert desk.records() == [("touch allowed", "allow"), ("touch denied", "deny"), ("touch asked", asked)]
    if desk.headless.agent != "cline":  # there, no hook reports
        first = desk.trees("decision")[0]["sequence"]
        assert [(tree["of"], tree["outcome"]) for tree in desk.trees("effect")] == [(first, "done")]
    assert desk.trees("reply") == []


def test_a_mode_in_which_claude_code_asks_has_it_ask(model_url: str, tmp_path: Path) -> None:
    usual = replace(HEADLESS[1], args=("-p", "$PROMPT"), asks=True)
    desk = seated(usual, model_url, tmp_path)
    assert desk.run("touch allowed")  # without a question, though in this mode it would ask about every command
    assert not desk.run("touch denied")
    assert not desk.run("touch asked")
    assert [decision for _command, decision in desk.records()] == ["allow", "deny", "ask"]


def test_what_the_user_approves_runs_the_next_time(desk: Desk) -> None:
    if desk.headless.asks:
        pytest.skip("this agent asks its user itself")
    assert not desk.run("touch asked")
    listed = byleave("approvals", "list", "--json", cwd=desk.root, env=desk.own)
    (waiting,) = [one for one in json.loads(listed.out) if one["status"] == "pending"]
    assert byleave("approvals", "approve", waiting["id"], "--yes", cwd=desk.root, env=desk.own).code == 0
    assert desk.run("touch asked")


def test_a_hook_that_cannot_start_or_cannot_decide_blocks(desk: Desk) -> None:
    config = desk.home / ".config/byleave/config.toml"
    config.write_text("this is no TOML")
    assert not desk.run("touch allowed")
    config.write_text(RULES)
    assert desk.run("touch allowed")
    (desk.root / "allowed").unlink()
    done = byleave("hook", "--install", desk.headless.agent, "--dry-run", "--json", cwd=desk.root, env=desk.own)
    file = Path(json.loads(done.out)["file"])
    file.write_text(file.read_text().replace("/byleave/hooks/__main__.py", "/gone/__main__.py"))
    assert not desk.run("touch allowed")
    file.write_text(file.read_text().replace(" -I -S ", "-gone -I -S ").replace('python"', 'python-gone"'))
    assert not desk.run("touch allowed")


def test_an_agent_runs_on_once_the_hook_is_uninstalled(desk: Desk) -> None:
    assert byleave("hook", "--uninstall", desk.headless.agent, "--yes", cwd=desk.root, env=desk.own).code == 0
    assert desk.run("touch denied")
    assert desk.records() == []
