"""Whoever goes, whoever is killed, whoever does not listen: everything ends, and nothing is left."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import amounts
from byleave.acp.supervisor import ShutdownTimes, descendants
from command import PATIENCE
from fakes.acp_conversation import COMMAND_LINE, FLOOD, agent, conversation, eventually, nothing_left, quickly
from sandbox.machine import alive

WITHIN = 10.0  # seconds, whatever the agent does
KILLED = 128 + signal.SIGKILL
ENDED = (128 + signal.SIGTERM, KILLED)  # the second where there was no time for the first

# Starts what it is given, with pipes of its own, and waits for ever.
CLIENT = "import subprocess, sys, time; child = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1); time.sleep(120)"


@pytest.mark.parametrize("behaviour", ["waits", "floods", "keeps_children"])
def test_a_client_that_is_killed_takes_everything_with_it(tmp_path: Path, behaviour: str) -> None:
    command = [sys.executable, "-c", CLIENT, *quickly(), *agent(tmp_path, behaviour)]
    client = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        eventually((tmp_path / "ready").exists, "the agent was never ready")
    finally:
        client.kill()
        client.wait(timeout=PATIENCE)
    nothing_left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_byleave_is_the_end_of_input_for_the_agent(tmp_path: Path, number: int) -> None:
    with conversation(agent(tmp_path, "goes_on"), tmp_path) as talk:
        talk.note("ready")
        talk.process.send_signal(number)
        assert talk.hear_all() == b"after the end\n"
        assert talk.code() == 3
    nothing_left(tmp_path)


@pytest.mark.parametrize("behaviour", ["stays", "keeps_children"])
def test_an_agent_that_ignores_everything_is_killed(tmp_path: Path, behaviour: str) -> None:
    with conversation(agent(tmp_path, behaviour), tmp_path, through=quickly()) as talk:
        talk.note("ready")
        talk.process.terminate()
        assert talk.code() == KILLED
    nothing_left(tmp_path)


@amounts.slow
def test_an_agent_that_ignores_everything_is_gone_ten_seconds_after_its_client(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "keeps_children"), tmp_path) as talk:
        talk.note("orphan")
        talk.note("ready")
        began, patience = time.monotonic(), ShutdownTimes()
        talk.close_input()
        assert talk.code() == KILLED
        nothing_left(tmp_path)
        assert time.monotonic() - began > patience.closed[0], "an agent may finish what it is at"


def test_nobody_has_more_patience_than_ten_seconds() -> None:
    patience = ShutdownTimes()
    assert patience.closed[1] + patience.killed < WITHIN, "on a machine that has time for us"


def test_a_stopped_agent_ends_too(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "stops"), tmp_path, through=quickly()) as talk:
        process = int(talk.note("ready"))
        eventually(lambda: state(process) == "T", "it never stopped")
        talk.close()
        assert talk.code() in ENDED
    nothing_left(tmp_path)


def test_who_insists_is_not_kept_waiting(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "stays"), tmp_path, through=quickly("deaf")) as talk:
        talk.note("ready")
        for number in (signal.SIGTERM, signal.SIGINT):  # different ones, so that none is lost
            talk.process.send_signal(number)
        assert talk.code() == KILLED
    nothing_left(tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("group", [False, True], ids=["alone", "with its process group"])
@pytest.mark.parametrize("behaviour", ["waits", "stays", "keeps_children", "floods", "stops"])
def test_byleave_killed_without_a_word_leaves_no_agent(tmp_path: Path, behaviour: str, *, group: bool) -> None:
    with conversation(agent(tmp_path, behaviour), tmp_path, through=quickly()) as talk:
        talk.note("ready")
        if group:
            os.killpg(talk.process.pid, signal.SIGKILL)
        else:
            talk.process.kill()
        assert talk.code() == -signal.SIGKILL
        nothing_left(tmp_path)


def test_the_command_killed_without_a_word_leaves_no_agent(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "goes_on"), tmp_path) as talk:
        process = int(talk.note("ready"))
        talk.process.kill()
        eventually(lambda: state(process) is None, "the agent still runs")
        nothing_left(tmp_path)


@pytest.mark.parametrize("behaviour", ["stays", "keeps_children"])
def test_a_killed_keeper_leaves_no_agent(tmp_path: Path, behaviour: str) -> None:
    with conversation(agent(tmp_path, behaviour), tmp_path, through=quickly()) as talk:
        talk.note("ready")
        os.kill(parent_of(int(talk.note("ready"))), signal.SIGKILL)
        assert talk.code() == KILLED
    nothing_left(tmp_path)


def test_a_killed_agent_ends_the_conversation(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "waits"), tmp_path) as talk:
        os.kill(int(talk.note("ready")), signal.SIGKILL)
        assert talk.hear_all() == b""
        assert talk.code() == KILLED
    nothing_left(tmp_path)


CHILDREN = [(), ("stubborn",), ("apart",), ("apart", "stubborn")]


@pytest.mark.parametrize("how", CHILDREN, ids=[" ".join(how) or "plain" for how in CHILDREN])
def test_children_that_an_agent_leaves_behind_hold_nothing_up_and_end(tmp_path: Path, how: tuple[str, ...]) -> None:
    with conversation(agent(tmp_path, "leaves_children", *how), tmp_path, through=quickly()) as talk:
        assert talk.hear_all() == b"last words\n"
        assert talk.code() == 5
        assert alive(str(tmp_path)) == []


def test_an_output_that_somebody_unseen_holds_open_is_not_waited_for(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "waits"), tmp_path, through=quickly()) as talk:
        process = int(talk.note("ready"))
        held = os.open(f"/proc/{process}/fd/1", os.O_WRONLY)
        try:
            os.kill(process, signal.SIGKILL)
            assert talk.code() == KILLED
        finally:
            os.close(held)


def test_an_agent_that_closes_its_output_is_heard_no_more_and_lives_on(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "closes_output"), tmp_path) as talk:
        assert talk.hear_all() == b""
        assert state(int(talk.note("ready"))) is not None
        assert talk.process.poll() is None
        assert talk.ends()[0] == 4


def test_an_agent_that_closes_its_input_does_not_stop_its_client_from_talking(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "closes_input"), tmp_path, through=quickly()) as talk:
        assert talk.hear(7) == b"closed\n"
        talk.note("ready")
        talk.send(FLOOD * 5000)
        talk.close_input()
        assert talk.code() in ENDED


def test_an_agent_that_never_reads_ends_when_its_client_goes(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "stays"), tmp_path, through=quickly()) as talk:
        talk.note("ready")
        os.set_blocking(talk.sending, False)
        while select.select([], [talk.sending], [], 0.2)[1]:
            os.write(talk.sending, FLOOD)
        talk.close()
        assert talk.code() == KILLED
    nothing_left(tmp_path)


@pytest.mark.parametrize("behaviour", ["floods", "stays"])
def test_a_client_that_never_reads_and_then_goes_ends_everything(tmp_path: Path, behaviour: str) -> None:
    with conversation(agent(tmp_path, behaviour), tmp_path, through=quickly()) as talk:
        talk.note("ready")
        talk.close_output()  # its input stays open
        assert talk.code() in ENDED
    nothing_left(tmp_path)


def test_a_client_that_neither_reads_nor_goes_does_not_keep_us(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # as little as the kernel can do
    with (
        ours,
        theirs,
        conversation(agent(tmp_path, "writes", "50"), tmp_path, through=quickly(), stdout=theirs) as talk,
    ):
        assert talk.code() == 6


def test_a_client_that_reads_late_still_hears_everything(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "writes", "3000"), tmp_path) as talk:
        talk.close_input()
        assert talk.hear_all() == FLOOD * 3000
        assert talk.code() == 6


def test_what_an_agent_orphans_is_still_below_the_door(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[[rules]]\nallow = { command = "rm" }\n')
    command = agent(tmp_path, "trusts")
    with conversation(command, tmp_path, through=COMMAND_LINE, env={"WITH_BYLEAVE": sys.executable}) as talk:
        code, told = json.loads(talk.note("trusted"))
        assert talk.ends()[0] == 0
    assert code != 0
    assert "an agent or tool may have started this command" in told
    nothing_left(tmp_path)


def test_an_idle_conversation_takes_no_time(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "waits"), tmp_path) as talk:
        talk.note("ready")
        everybody = [talk.process.pid, *descendants(talk.process.pid)]
        assert len(everybody) == 3, "byleave, its keeper and the agent"
        before = [ticks(process) for process in everybody]
        time.sleep(1.0)  # there is no event to wait for: nothing is to happen
        assert sum(ticks(process) for process in everybody) - sum(before) <= 20, "hundredths of a second"
        assert talk.ends()[0] == 0


def state(process: int) -> str | None:
    """Return the letter of what a process does; None if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends while we read
        return None


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def ticks(process: int) -> int:
    """Return the processor time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
