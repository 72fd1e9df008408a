"""Commands of one agent session by their tickets: as agents run them, through pipes and at a terminal."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from byleave.launch.agent_session import AgentProcess, AgentSession, end_session, process_of
from byleave.policy.load import Workspace
from byleave.store.tickets import Ticket, issue, new_id
from command import COMMAND, at_terminal, byleave, environment
from sandbox.machine import alive, needs_sandbox
from sandbox.session_scene import eventually

pytestmark = needs_sandbox


class TicketAgent:
    """An agent whose commands run by tickets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process = subprocess.Popen(["sleep", "600"])
        known = process_of(self.process.pid)
        assert known is not None
        self.known: AgentProcess = known

    def words(self, text: str, *, session: str = "s", known: bool = True) -> list[str]:
        """Return the words that run a command."""
        process = (self.known.pid, self.known.started) if known else None
        ticket = Ticket(  # noqa: S604 -- the shell that the agent names, no argument of subprocess
            id=new_id(),
            text=text,
            cwd=str(self.root),
            root=str(self.root),
            shell="/bin/sh",
            agent="claude-code",
            session=session,
            agent_process=process,
            created=time.time(),
        )
        issue(Workspace(str(self.root)).homes.workspace(str(self.root)), ticket)
        return ["run", "-q", "--root", str(self.root), "--ticket", ticket.id, "--shell", text]

    def run(self, text: str, **more: object) -> tuple[int, str]:
        """Run a command to its end."""
        words = self.words(text, **more)  # type: ignore[arg-type]
        done = subprocess.run(
            [*COMMAND, *words], cwd=self.root, env=environment(None), capture_output=True, check=False, timeout=60
        )
        return done.returncode, (done.stdout + done.stderr).decode()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[TicketAgent]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "byleave.toml").write_text(
        '[shell]\nconfine = "auto"\n\n[[rules]]\nallow = { any_command = true }\nsandbox = true\n'
    )
    assert byleave("trust", "--yes", cwd=root).code == 0
    found = TicketAgent(root)
    yield found
    found.process.kill()
    found.process.wait()
    eventually(lambda: not alive(str(root)))
    assert os.listdir(root) == ["byleave.toml"]


@pytest.fixture
def nap() -> str:
    """A number of seconds that no other test sleeps."""
    return f"4712.{int.from_bytes(os.urandom(6), 'big')}"


def test_commands_of_a_session_reach_each_other_and_others_do_not(agent: TicketAgent) -> None:
    server = "python3 -m http.server 8124 --bind 127.0.0.1 >/dev/null 2>&1 & echo kept > /tmp/a"
    ask = "curl -s --retry 50 --retry-connrefused --retry-delay 0 -o /dev/null -w '%{http_code}' http://127.0.0.1:8124/"
    assert agent.run(server) == (0, "")
    assert agent.run(f"{ask}; cat /tmp/a") == (0, "200kept\n")
    alone = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8124/; cat /tmp/a 2>/dev/null; true"
    assert agent.run(alone, session="another") == (0, "000")
    assert agent.run(alone, known=False) == (0, "000")


def test_the_exit_code_is_the_commands_and_nothing_is_left_in_the_workspace(agent: TicketAgent) -> None:
    assert agent.run("exit 9") == (9, "")
    assert agent.run("kill -9 $$")[0] == 137
    assert os.listdir(agent.root) == ["byleave.toml"]


def test_a_session_that_is_ended_takes_what_was_left_running_along(agent: TicketAgent, nap: str) -> None:
    assert agent.run(f"sleep {nap} >/dev/null 2>&1 & true") == (0, "")
    assert alive(nap)
    session = AgentSession(root=str(agent.root), agent="claude-code", name="s", process=agent.known)
    assert end_session(session)
    eventually(lambda: not alive(nap))


def test_at_a_terminal_a_command_returns_and_what_it_left_keeps_its_terminal(agent: TicketAgent, nap: str) -> None:
    text = f"(while [ ! -e go ]; do sleep 0.05; done; echo late && touch wrote; sleep {nap}) & echo early"
    with at_terminal(*agent.words(text), cwd=agent.root) as terminal:
        terminal.ends()
    assert "early" in terminal.seen
    (agent.root / "go").touch()
    eventually((agent.root / "wrote").exists)
    assert alive(nap)
    agent.process.kill()
    eventually(lambda: not alive(nap))
    for name in ("go", "wrote"):
        (agent.root / name).unlink()


def test_an_interrupt_at_a_terminal_ends_the_command(agent: TicketAgent) -> None:
    text = "trap 'echo got; exit 4' INT; echo ready; while :; do sleep 0.05; done"
    with at_terminal(*agent.words(text), cwd=agent.root) as terminal:
        terminal.wait_for("ready")
        terminal.type(b"\x03")
        terminal.wait_for("got")
        assert terminal.ends() == 4
