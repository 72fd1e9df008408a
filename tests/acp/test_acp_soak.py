"""Many requests through one proxy: it stays as small as it is, and every request is on record."""

import uuid
from collections import Counter
from pathlib import Path

import amounts
from fakes.acp_parties import SESSION, Proxy, Scene, picked, proxy
from soak import MEGABYTE, Soak, records

POLICY = """
[[rules]]
allow = { command = "echo" }
[[rules]]
deny = { command = "rm" }
"""
GROWTH = 16 * MEGABYTE
COMMANDS = {"echo": "yes", "rm": "no", "make": "yes"}  # `make` is the editor's to answer


def work(running: Proxy, number: int) -> None:
    """Have the agent ask about three calls, and report the end of those that it may do."""
    for name, option in COMMANDS.items():
        call = uuid.uuid4().hex
        id_ = running.runs(f"{name} {number}", toolCallId=call)
        if name == "make":
            running.is_asked(id_)
            running.answers(id_, option)
        assert picked(running.agent.hears()) == option
        status = "completed" if option == "yes" else "failed"
        update = {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": status}
        running.agent.say(
            {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}
        )
        assert running.client.hears()["params"]["update"] == update


def test_a_proxy_stays_as_small_as_it_is_and_loses_no_record(tmp_path: Path) -> None:
    scene = Scene(tmp_path, POLICY)
    with proxy(scene) as running:
        running.begin(scene)
        soak = Soak(
            "the ACP proxy",
            running.process.pid,
            warm=amounts.of(1000, 5),
            rounds=amounts.of(4000, 5),
            calls=len(COMMANDS),
        )
        rounds = 0
        for counted in (soak.warm(), soak.rounds()):
            for _ in counted:
                work(running, rounds)
                rounds += 1
        soak.ends(GROWTH)
    decisions, commands = Counter[tuple[str, str]](), set[str]()
    for record in records(scene.root):
        if record["event"] == "decision":
            command = record["action"]["command"]
            decisions[command.split()[0], record["verdict"]["decision"]] += 1
            commands.add(command)
    assert decisions == {("echo", "allow"): rounds, ("rm", "deny"): rounds, ("make", "allow"): rounds}
    assert commands == {f"{name} {number}" for name in COMMANDS for number in range(rounds)}
