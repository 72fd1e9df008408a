"""The agent's version comes from its process and its package; what may be the agent and is not known is a problem."""

import json
import os
from pathlib import Path

import pytest

from byleave.hooks.agent_process import FoundAgent, find_agent

CLAUDE = "@anthropic-ai/claude-code"


class Machine:
    """A /proc of our own, and packages below one directory."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.proc = base / "proc"
        self.last = 0

    def start(self, program: str | None, *words: str, name: str = "x", started: int | None = None) -> int:
        """Add a process below the last one; without a program, its own cannot be read."""
        pid, parent = self.last + 10, self.last
        place = self.proc / str(pid)
        place.mkdir(parents=True)
        ticks = started if started is not None else 10**12
        (place / "stat").write_text(
            f"{pid} (a ) b) S {parent} {' '.join(['0'] * 17)} {ticks} 0\n".replace("a ) b", name)
        )
        (place / "cmdline").write_bytes(b"\0".join([os.fsencode(word) for word in words]) + b"\0")
        if program is not None:
            (place / "exe").symlink_to(program)
        else:
            (place / "exe").write_text("")  # no link: reading it fails
        (place / "cwd").symlink_to(self.base)
        self.last = pid
        return pid

    def install(self, package: str, version: str, file: str) -> str:
        place = self.base / "lib/node_modules" / package
        path = place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        (place / "package.json").write_text(json.dumps({"name": package, "version": version}))
        return str(path)

    def find(self, agent: str = "claude-code", root: str = "/nowhere") -> FoundAgent:
        return find_agent(agent, root, pid=self.last, proc=str(self.proc))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.start("/sbin/init", "init")
    machine.start("/usr/bin/bash", "bash")
    return machine


def test_a_native_program_has_the_version_of_its_package(machine: Machine) -> None:
    pid = machine.start(machine.install(CLAUDE, "2.1.325", "bin/claude.exe"), "claude", "-p", "x")
    machine.start("/usr/bin/dash", "/bin/sh", "-c", "hook")
    assert machine.find() == FoundAgent((pid, 10**12), (2, 1, 325), ("claude", "-p", "x", ""))


def test_a_script_has_the_version_of_its_package(machine: Machine) -> None:
    script = machine.install("@google/gemini-cli", "0.61.0", "bundle/gemini.js")
    link = machine.base / "gemini"
    link.symlink_to(script)
    machine.start("/usr/bin/node", "/usr/bin/node", "--max-old-space-size=1", "gemini", "-p", "x")
    assert machine.find("gemini").version == (0, 61, 0)


def test_the_native_installer_names_a_file_for_each_version(machine: Machine) -> None:
    machine.start("/home/u/.local/share/claude/versions/2.1.330", "claude")
    assert machine.find().version == (2, 1, 330)


def test_the_package_of_a_platform_is_the_agents_as_well(machine: Machine) -> None:
    machine.start(machine.install("opencode-linux-x64", "1.18.33", "bin/opencode"), "opencode")
    assert machine.find("opencode").version == (1, 18, 33)


def test_the_sdk_says_which_claude_code_it_brings(machine: Machine) -> None:
    sdk = "@anthropic-ai/claude-agent-sdk"
    machine.start(machine.install(f"{sdk}-linux-x64", "0.3.185", "claude"), "claude")
    assert machine.find().problem
    place = machine.base / "lib/node_modules" / sdk
    machine.install(sdk, "0.3.185", "sdk.mjs")
    assert machine.find().problem  # it does not say so
    (place / "package.json").write_text(json.dumps({"name": sdk, "version": "0.3.185", "claudeCodeVersion": "2.1.185"}))
    assert machine.find().version == (2, 1, 185)


def test_without_an_agent_among_the_ancestors_there_is_no_problem(machine: Machine) -> None:
    machine.start("/usr/bin/python3", "pytest")
    assert machine.find() == FoundAgent()


def test_a_script_of_another_package_is_not_the_agent(machine: Machine) -> None:
    machine.start("/usr/bin/node", "node", machine.install("npm", "10.0.0", "bin/npm-cli.js"), "test")
    assert machine.find() == FoundAgent()


PROBLEMS = {
    "a bare runtime": ("/usr/bin/node", ("node",)),
    "a runtime that calls itself otherwise": ("/usr/bin/node", ("claude",)),
    "a runtime with a number": ("/usr/bin/node20", ("claude",)),
    "a script that is not there": ("/usr/bin/bun", ("bun", "gone.js")),
    "a program of the agent's name": ("/opt/claude", ("/opt/claude",)),
    "a program that is called as the agent": ("/opt/x", ("/usr/bin/claude",)),
    "an electron": ("/opt/cursor/electron", ("electron", "--type=x")),
}


@pytest.mark.parametrize(("program", "words"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_what_may_be_the_agent_and_has_no_version_is_a_problem(
    program: str, words: tuple[str, ...], machine: Machine
) -> None:
    machine.start(program, *words)
    machine.start("/usr/bin/dash", "sh")
    found = machine.find()
    assert (found.version, bool(found.problem)) == ((), True)


@pytest.mark.parametrize("name", ["claude", "node", ""])
def test_a_process_that_cannot_be_read_and_may_be_the_agent_is_a_problem(name: str, machine: Machine) -> None:
    machine.start(None, name or "x", name=name or "x") if name else machine.start(None, "", name="")
    assert machine.find().problem


def test_a_process_that_cannot_be_read_and_is_called_otherwise_is_not_the_agent(machine: Machine) -> None:
    machine.start(None, "sshd: u", name="sshd")
    assert machine.find() == FoundAgent()


def test_a_lost_way_up_is_a_problem(machine: Machine) -> None:
    machine.last = 5
    machine.start("/usr/bin/bash", "bash")
    assert machine.find().problem


def test_a_package_inside_the_workspace_says_nothing(machine: Machine) -> None:
    machine.start(machine.install(CLAUDE, "2.1.325", "bin/claude.exe"), "claude")
    found = machine.find(root=str(machine.base))
    assert (found.version, "lies in the workspace" in found.problem) == ((), True)


def test_an_agent_that_was_updated_since_it_started_has_no_version(machine: Machine) -> None:
    program = machine.install(CLAUDE, "2.1.325", "bin/claude.exe")
    machine.start(program, "claude", started=0)
    assert "updated since" in machine.find().problem
    machine.start(f"{program} (deleted)", "claude")
    assert "updated since" in machine.find().problem


@pytest.mark.parametrize("version", ["", "2", "2.1", "2.1.x", "v2.1.3", "2.1.-3", "9" * 30 + ".1.1", "\u0662.1.3"])
def test_a_version_of_another_form_is_a_problem(version: str, machine: Machine) -> None:
    machine.start(machine.install(CLAUDE, version, "bin/claude.exe"), "claude")
    assert machine.find().problem


def test_the_nearest_agent_counts(machine: Machine) -> None:
    machine.start(machine.install("@openai/codex", "0.166.0", "bin/codex"), "codex")
    machine.start(machine.install(CLAUDE, "2.1.325", "bin/claude.exe"), "claude")
    assert machine.find().version == (2, 1, 325)
    assert machine.find("codex").version == (0, 166, 0)
