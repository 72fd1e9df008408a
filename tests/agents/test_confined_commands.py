"""Real agents whose commands run confined by our hook: what the hook changed is what runs, and nothing runs plainly.

Each agent has all of its own guards down. The model's log has what the agent gave back: output and exit codes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agents.real_agents import MODEL, NotInstalledError, program_of, script
from agents.test_hooks_of_real_agents import HEADLESS, Desk, Headless
from command import byleave

RULES = """
[shell]
confine = "auto"

[[rules]]
deny = { command = "touch", args = ["denied"] }

[[rules]]
allow = { path = "**" }

[[rules]]
allow = { any_command = true }
sandbox = true
unread = true
"""
CONFINING = {
    headless.agent: headless
    for headless in HEADLESS
    if (headless.agent, headless.version)
    in {
        ("claude-code", "2.1.325"),
        ("codex", "0.166.0"),
        ("gemini", "0.61.0"),
        ("opencode", "1.18.33"),
    }
}


# The oldest version that `hooks.confining` names, where that is another one.
OLDEST = (replace(CONFINING["claude-code"], version="2.1.185"),)
_EVENTS = (("decision", "hook"), ("redeemed", "run"))


@dataclass(frozen=True)
class ConfinedDesk(Desk):
    """A desk whose model keeps what the agent sent."""

    log: Path = Path()

    @property
    def outside(self) -> Path:
        return self.home.parent / "outside"

    def turn(self, *commands: str, waits: bool = False, **more: Any) -> str:
        """Have the agent run commands, one after the other; return all that it sent to its model."""
        before = self.log.stat().st_size if self.log.exists() else 0
        named = self.headless
        steps = [
            {"name": named.bash, "args": {named.command: text, "description": "a step", **more}} for text in commands
        ]
        self.go(script(*steps), waits=waits)
        with self.log.open() as file:
            file.seek(before)
            return file.read()

    def events(self) -> list[tuple[str, str]]:
        """Return the event and the decision or outcome of each record of the hook, and of the runs that begin."""
        done = byleave("audit", "export", cwd=self.root, env=self.own)
        trees = [json.loads(line) for line in done.out.splitlines()]
        told = [tree for tree in trees if (tree["event"], tree["door"]) in _EVENTS]
        return [(tree["event"], tree.get("outcome") or tree["verdict"]["decision"]) for tree in told]

    def writes_outside(self, name: str) -> str:
        """Return a command that writes a file outside of the workspace, which its text does not say."""
        (self.root / "script.sh").write_text(f"touch {self.outside}/$1 || echo held-$1\ntouch ran-$1\n")
        return f"sh script.sh {name}"


@pytest.fixture
def model_log(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    log = tmp_path / "model.log"
    process = subprocess.Popen([sys.executable, str(MODEL), "--log", str(log)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), log
    finally:
        process.kill()
        process.communicate()


def seated(headless: Headless, model: tuple[str, Path], tmp_path: Path) -> ConfinedDesk:
    try:
        program = program_of(headless.package, headless.version, headless.program)
    except NotInstalledError as error:
        pytest.skip(str(error))
    desk = ConfinedDesk(headless, program, tmp_path / "home", tmp_path / "ws", model[0], model[1])
    desk.prepare()
    (desk.home / ".config/byleave/config.toml").write_text(RULES)
    desk.outside.mkdir()
    (desk.root / "src").mkdir()
    return desk


@pytest.fixture(params=[*CONFINING.values(), *OLDEST], ids=str)
def desk(request: pytest.FixtureRequest, model_log: tuple[str, Path], tmp_path: Path) -> ConfinedDesk:
    return seated(request.param, model_log, tmp_path)


def test_an_allowed_command_runs_confined_and_the_agent_gets_its_output(desk: ConfinedDesk) -> None:
    sent = desk.turn(desk.writes_outside("a"), "echo out-$((40 + 2)); echo err-$((40 + 3)) >&2; exit 7")
    assert (desk.root / "ran-a").exists()
    assert not list(desk.outside.iterdir())
    assert "held-a" in sent
    assert "out-42" in sent
    assert "err-43" in sent
    assert desk.events() == [("decision", "allow"), ("redeemed", "started")] * 2


def test_what_is_denied_stays_denied(desk: ConfinedDesk) -> None:
    desk.turn("touch denied")
    assert not (desk.root / "denied").exists()
    assert desk.events() == [("decision", "deny")]


ODD = "printf '%s|' \"a'b\" 'c\"d' '$x' '`id`' '\\\\' > odd; cat <<'END' >> odd # it's a comment\nit's\n$HOME\nEND\n"


def test_quotes_lines_and_heredocs_arrive_as_they_are(desk: ConfinedDesk) -> None:
    desk.turn(ODD)
    plain = subprocess.run(["bash", "-c", ODD], cwd=desk.outside, check=True)
    assert plain.returncode == 0
    assert (desk.root / "odd").read_bytes() == (desk.outside / "odd").read_bytes()


def test_another_hook_for_the_shell_tool_ends_confining(desk: ConfinedDesk) -> None:
    add_hook(desk)
    desk.turn(desk.writes_outside("b"), waits=desk.headless.asks)
    assert not (desk.root / "ran-b").exists()  # no person is there to be asked
    assert not list(desk.outside.iterdir())
    assert [event for event, _ in desk.events()] == ["decision"]


def add_hook(desk: ConfinedDesk) -> None:
    """Give the project a hook of its own that has nothing to say."""
    if desk.headless.agent == "claude-code":
        file, event = desk.root / ".claude/settings.json", "PreToolUse"
    elif desk.headless.agent == "codex":
        file, event = desk.root / ".codex/hooks.json", "PreToolUse"
    elif desk.headless.agent == "gemini":
        file, event = desk.root / ".gemini/settings.json", "BeforeTool"
    else:
        plugin = desk.root / ".opencode/plugin/other.js"
        plugin.parent.mkdir(parents=True)
        plugin.write_text("export const Other = async () => ({})\n")
        return
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps({"hooks": {event: [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]}})
    )


CLAUDES = (CONFINING["claude-code"], *OLDEST)


@pytest.mark.parametrize("headless", CLAUDES, ids=str)
def test_claude_code_keeps_the_directory_and_the_exit_code(
    headless: Headless, model_log: tuple[str, Path], tmp_path: Path
) -> None:
    desk = seated(headless, model_log, tmp_path)
    sent = desk.turn("cd src", "pwd > here; cd ..; exit 3", "pwd > here", "sleep 0.1 & echo back")
    assert (desk.root / "src/here").read_text() == f"{desk.root}/src\n"
    assert not (desk.root / "here").exists()  # what failed moves nothing, as in a plain run
    assert "Exit code 3" in sent


class Asked:
    """Claude Code with a program before it that answers its questions, as an editor does."""

    def __init__(self, desk: ConfinedDesk, answer: str) -> None:
        self.desk = desk
        self.answer = answer
        self.shown: list[str] = []

    def go(self, *commands: str) -> None:
        desk = self.desk
        given = {name: value.replace("$URL", desk.url) for name, value in desk.headless.env.items()}
        speaking = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        steps = [{"name": "Bash", "args": {"command": text, "description": "a step"}} for text in commands]
        with subprocess.Popen(
            [desk.program, "-p", *speaking, "--permission-prompt-tool", "stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=desk.root,
            env={"PATH": os.environ["PATH"], "HOME": str(desk.home), "SHELL": "/bin/bash", **given},
        ) as process:
            assert process.stdout is not None
            self._say(process, {"type": "user", "message": {"role": "user", "content": script(*steps)}})
            for line in process.stdout:
                message = json.loads(line)
                if message["type"] == "control_request":
                    self._reply(process, message)
                elif message["type"] == "result":
                    break
            process.kill()

    def _reply(self, process: "subprocess.Popen[str]", message: dict[str, Any]) -> None:
        request = message["request"]
        self.shown.append(request["input"]["command"])
        said = {"behavior": self.answer, "message": "no"}
        if self.answer == "allow":
            said = {"behavior": "allow", "updatedInput": request["input"]}
        answer = {"subtype": "success", "request_id": message["request_id"], "response": said}
        self._say(process, {"type": "control_response", "response": answer})

    @staticmethod
    def _say(process: "subprocess.Popen[str]", message: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()


ASKED = """
[[rules]]
ask = { command = "touch", args = ["asked"] }
"""


@pytest.mark.parametrize("headless", CLAUDES, ids=str)
def test_claude_code_confines_after_a_yes_as_well(
    headless: Headless, model_log: tuple[str, Path], tmp_path: Path
) -> None:
    desk = seated(headless, model_log, tmp_path)
    config = desk.home / ".config/byleave/config.toml"
    config.write_text(ASKED + RULES)
    person = Asked(desk, "allow")
    person.go(f"{desk.writes_outside('d')}; touch asked")
    assert (desk.root / "ran-d").exists()
    assert (desk.root / "asked").exists()
    assert not list(desk.outside.iterdir())
    assert [("sh script.sh d; touch asked" in shown, "--ticket" in shown) for shown in person.shown] == [(True, True)]
    assert desk.events() == [("decision", "ask"), ("redeemed", "started")]


def test_nothing_runs_in_claude_code_after_a_no(model_log: tuple[str, Path], tmp_path: Path) -> None:
    desk = seated(CONFINING["claude-code"], model_log, tmp_path)
    (desk.home / ".config/byleave/config.toml").write_text(ASKED + RULES)
    Asked(desk, "deny").go(f"{desk.writes_outside('e')}; touch asked")
    assert not (desk.root / "ran-e").exists()
    assert desk.events() == [("decision", "ask")]


OWN_LISTS = {
    "claude-code": (".claude/settings.json", json.dumps({"permissions": {"deny": ["Bash(touch listed*)"]}})),
    "codex": (".codex/rules/own.rules", 'prefix_rule(pattern=["touch", "listed"], decision="forbidden")\n'),
    "gemini": (".gemini/settings.json", json.dumps({"tools": {"exclude": ["run_shell_command(touch listed)"]}})),
    "opencode": (".config/opencode/opencode.json", json.dumps({"permission": {"bash": {"touch listed*": "deny"}}})),
}


def test_the_agents_own_deny_list_holds(desk: ConfinedDesk) -> None:
    name, content = OWN_LISTS[desk.headless.agent]
    file = desk.home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(file.read_text()) if file.exists() and name.endswith(".json") else {}
    file.write_text(json.dumps({**known, **json.loads(content)}) if name.endswith(".json") else content)
    desk.turn("touch listed")
    desk.turn("touch unlisted")
    assert not (desk.root / "listed").exists()
    assert (desk.root / "unlisted").exists()


def test_background_commands_time_limits_and_the_shared_tmp_work_in_claude_code(
    model_log: tuple[str, Path], tmp_path: Path
) -> None:
    desk = seated(CONFINING["claude-code"], model_log, tmp_path)
    calls: list[dict[str, Any]] = [
        {"command": "sleep 1; touch behind", "run_in_background": True},
        {"command": "sleep 3; echo shared > /tmp/shared"},
        {"command": "cat /tmp/shared > got; sleep 4; touch late", "timeout": 2000},  # goes on behind its time limit
        {"command": "touch after"},
    ]
    desk.go(script(*[{"name": "Bash", "args": {"description": "a step", **call}} for call in calls]))
    made = {path.name for path in desk.root.iterdir()}
    assert made == {"src", "behind", "got", "late", "after"}
    assert (desk.root / "got").read_text() == "shared\n"
    assert desk.events() == [("decision", "allow"), ("redeemed", "started")] * 4


def test_an_older_claude_code_is_not_confined(model_log: tuple[str, Path], tmp_path: Path) -> None:
    desk = seated(replace(CONFINING["claude-code"], version="2.0.0"), model_log, tmp_path)
    desk.turn(desk.writes_outside("c"))
    assert not (desk.root / "ran-c").exists()
    assert desk.events() == [("decision", "deny")]
