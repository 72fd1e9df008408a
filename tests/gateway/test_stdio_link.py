"""Servers that we start ourselves, and everything that they do wrong."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from byleave.gateway import stdio_link
from byleave.gateway.interfaces import DownError
from byleave.gateway.stdio_link import StdioLink
from fakes.mcp_servers import (
    SCRIPT,
    Ear,
    behaving,
    far,
    linked,
    notification,
    reached,
    request,
    result,
    run,
    settled,
    surroundings,
)
from sandbox.machine import REPOSITORY, alive, needs_sandbox

pytestmark = needs_sandbox


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def token(root: Path) -> str:
    """Return a word by which the processes of one test are known."""
    return f"token-{root.parent.name}"


def marked(root: Path, behaviour: str) -> Any:
    known = behaving(behaviour)
    return structs.replace(known, command=(*(known.command or ()), token(root)))


def test_a_request_gets_its_answer_as_it_was_written(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("answers")) as (link, ear):
            await link.send(notification())
            await link.send(request("1"))
            assert await ear.answer() == b'{"jsonrpc": "2.0", "id": "1", "result": "x"}'
            assert (ear.told[0][1], ear.losses, link.warnings) == (None, [], [])

    run(scenario())


def test_a_message_with_a_line_end_inside_stays_one_message(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("answers")) as (link, ear):
            await link.send(request("1", "echo", '[\n1,\r{"jsonrpc":"2.0","id":"9","method":"echo"}\r\n]'))
            answer = json.loads(await ear.answer())
            assert answer["result"] == [1, {"jsonrpc": "2.0", "id": "9", "method": "echo"}]
            with pytest.raises(DownError, match="not JSON"):
                await link.send(request("2", "echo", '"a\nb"'))
            assert len(ear.told) == 1

    run(scenario())


def test_a_message_of_five_megabytes_goes_there_and_back(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("answers")) as (link, ear):
            text = json.dumps("x" * (5 << 20))
            await link.send(request("1", "echo", text))
            assert len(await ear.answer()) == len(text) + len('{"jsonrpc": "2.0", "id": "1", "result": }')

    run(scenario())


def test_a_server_killed_in_mid_call_is_lost_with_its_last_words(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("dies_in_mid_call", secrets=("SECRET",))) as (link, ear):
            await link.send(request("1"))
            why = "the server far was ended by SIGKILL; it said last: out of cheese \\x1b[31m [REDACTED]"
            assert await ear.loss() == (None, why)
            with pytest.raises(DownError, match="was ended by SIGKILL"):
                await link.send(request("2"))
            assert len(ear.losses) == 1

    run(scenario())


def test_a_server_that_exits_at_once_is_lost_with_its_exit_code(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("exits_at_once")) as (_link, ear):
            why = "the server far has ended with exit code 3; it said last: no configuration found"
            assert await ear.loss() == (None, why)

    run(scenario())


def test_a_program_that_cannot_be_run_is_lost_or_down(root: Path) -> None:
    (root / "broken").write_bytes(b"\x7fELFnothing")
    (root / "broken").chmod(0o755)
    access = {"fs": [{"path": ".", "read": True, "execute": True}]}

    async def scenario() -> None:
        missing = reached(command=("no-such-server",))
        with pytest.raises(DownError, match='server far cannot be started: "no-such-server" was not found'):
            async with linked(root, far(), missing):
                pass
        async with linked(root, far(), reached(command=("./broken",)), surroundings(root, access)) as (_link, ear):
            id_, why = await ear.loss()
            assert id_ is None
            assert "could not be run: the program cannot be started" in why

    run(scenario())


@pytest.mark.parametrize(
    "broken",
    [
        {"command": ()},
        {"command": ("a\0b",)},
        {"command": ("true",), "env": {"A=B": "x"}},
        {"command": ("true",), "env": {"A": "x\0"}},
    ],
)
def test_a_command_that_is_none_keeps_the_server_down(root: Path, broken: dict[str, Any]) -> None:
    async def scenario() -> None:
        with pytest.raises(DownError):
            async with linked(root, far(), reached(**broken)):
                pass

    run(scenario())


def test_an_answer_before_the_end_is_heard_before_the_loss(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("answers_and_exits")) as (link, ear):
            await link.send(request("1"))
            await ear.loss()
            assert [len(message) > 300_000 for message, _about in ear.told] == [True]

    run(scenario())


def test_a_hung_server_can_be_abandoned_and_closed(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), marked(root, "hangs")) as (link, ear):
            await link.send(request("1"))
            await link.abandon("1")
        assert (ear.told, ear.losses) == ([], [])
        assert alive(token(root)) == []

    run(scenario())


def test_a_flood_is_heard_in_order_and_does_not_stop_the_loop(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("floods")) as (link, ear):
            await link.send(request("1"))
            ticks = 0
            while not ear.told or b"done" not in ear.told[-1][0]:
                await asyncio.sleep(0)
                ticks += 1
            assert len(ear.told) == 20_001
            assert ticks > 20

    run(scenario())


def test_a_flood_of_complaints_is_read_and_only_its_end_kept(root: Path) -> None:
    told = bytearray()

    async def scenario() -> None:
        shared = surroundings(root, on_stderr=lambda name, data: told.extend(name.encode() + data))
        async with linked(root, far(), behaving("floods_errors"), shared) as (link, ear):
            await link.send(request("1"))
            await ear.answer()
        assert link.stderr_tail.endswith("the last words")
        assert len(link.stderr_tail) <= stdio_link.KEPT
        assert len(told) > 2_000_000

    run(scenario())


def test_lies_about_ids_are_passed_on_for_others_to_judge(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("lies_about_ids")) as (link, ear):
            await link.send(request("1"))
            await ear.answer(4)
            assert [json.loads(message)["id"] for message, _about in ear.told] == ["somebody-elses", "1", "1", None]

    run(scenario())


def test_noise_half_lines_and_bytes_that_are_no_text_do_no_harm(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), behaving("speaks_badly")) as (link, ear):
            await link.send(request("1"))
            await ear.answer(3)
            assert [message for message, _about in ear.told] == [
                b'{"jsonrpc":"2.0","method":"a","params":{"text":"\xff\xfe"}}',
                b'{"jsonrpc":"2.0","method":"b","params":{}}',  # no reader of lines takes it for three
                b'{"jsonrpc": "2.0", "id": "1", "result": "half"}',
            ]
            assert len(link.warnings) == 1
            assert "ignored: Server is starting..." in link.warnings[0]
            assert "[INFO] ready" in link.stderr_tail

    run(scenario())


def small(root: Path, ear: Ear, behaviour: str, **limits: Any) -> tuple[StdioLink, Any]:
    shared = surroundings(root)
    return StdioLink(far(), marked(root, behaviour), ear, shared.starter, **limits), shared


def test_a_huge_line_is_refused_alone_if_its_request_is_known_else_with_the_server(root: Path) -> None:
    async def scenario() -> None:
        ear = Ear()
        link, shared = small(root, ear, "says_too_much", limit=1000)
        await link.open()
        await link.send(request("1", "named"))
        assert await ear.loss() == ("1", "the server far sent a message that is longer than 1000 bytes")
        await link.send(request("2", "nameless"))
        id_, why = await ear.loss(2)
        assert (id_, why.partition(";")[0]) == (None, "the server far sent a message that is longer than 1000 bytes")
        await link.close()
        await shared.close()
        assert alive(token(root)) == []

    run(scenario())


def test_a_server_that_does_not_read_makes_senders_wait_and_then_fail(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_link, "FOR_INPUT", 0.05)

    async def scenario() -> None:
        ear = Ear()
        link, shared = small(root, ear, "never_reads", most_queued=6 << 20)
        await link.open()
        await ear.answer()
        large = json.dumps("x" * (4 << 20))
        first = asyncio.create_task(link.send(structs.replace(request("1", "echo", large), id=None)))
        await asyncio.sleep(0)
        assert not first.done()
        with pytest.raises(DownError, match="does not read what it is sent"):
            await link.send(request("2", "echo", large))
        await link.close()
        await first
        await shared.close()

    run(scenario())


def test_a_request_to_a_server_that_does_not_read_waits_for_its_answer_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_link, "FOR_INPUT", 0.05)

    async def scenario() -> None:
        async with linked(root, far(), behaving("never_reads")) as (link, ear):
            await ear.answer()
            for id_ in ("1", "2"):
                sending = link.send(request(id_, "echo", json.dumps("x" * (4 << 20))))
                with pytest.raises(StopIteration):  # it does not wait for room
                    sending.send(None)

    run(scenario())


def test_a_server_that_closes_its_output_is_ended(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_link, "_LAST_BREATH", 0.05)

    async def scenario() -> None:
        shared = surroundings(root, os_sandbox="off")  # in a sandbox its own init holds the pipe, too
        async with linked(root, far(), marked(root, "closes_output"), shared) as (link, ear):
            await link.send(request("1"))
            assert await ear.loss() == (None, "the server far has closed its output")
        assert alive(token(root)) == []

    run(scenario())


def test_closing_tells_a_server_first_and_kills_what_does_not_listen(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_link, "FOR_INPUT", 0.05)
    monkeypatch.setattr(stdio_link, "FOR_SIGNAL", 0.2)

    async def scenario() -> None:
        async with linked(root, far(), marked(root, "ends_when_told")) as (link, ear):
            await ear.answer()
        assert link.stderr_tail == "told to end"
        async with linked(root, far(), marked(root, "ignores_everything")) as (link, ear):
            await ear.answer()
            assert alive(token(root)) != []
            await asyncio.gather(link.close(), link.close())
            assert (alive(token(root)), ear.losses) == ([], [])
            with pytest.raises(DownError):
                await link.send(request("1"))

    run(scenario())


def test_a_server_is_killed_though_nobody_waits_for_its_end(root: Path) -> None:
    async def scenario() -> None:
        async with linked(root, far(), marked(root, "ignores_everything")) as (link, ear):
            await ear.answer()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(link.close(), 0.05)
            await settled(lambda: not alive(token(root)))

    run(scenario())


def test_a_link_that_is_given_up_while_it_opens_leaves_nothing(root: Path) -> None:
    async def scenario() -> None:
        shared, ear = surroundings(root), Ear()
        link = StdioLink(far(), marked(root, "hangs"), ear, shared.starter)
        opening = asyncio.create_task(link.open())
        await asyncio.sleep(0.01)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        second = StdioLink(far(), marked(root, "hangs"), ear, shared.starter)
        opening = asyncio.create_task(second.open())
        await asyncio.sleep(0)
        await second.close()
        with pytest.raises(DownError, match="closed while"):
            await opening
        await settled(lambda: not alive(token(root)))
        await shared.close()

    run(scenario())


KILLED = """
import asyncio, os, sys
from pathlib import Path
from fakes.mcp_servers import *
from msgspec import structs
async def main():
    root = Path(sys.argv[1])
    known = behaving("ignores_everything")
    async with linked(root, far(), structs.replace(known, command=(*known.command, sys.argv[2]))) as (link, ear):
        await ear.answer()
        print("ready", flush=True)
        await asyncio.sleep(60)
run(main())
"""


def test_nothing_is_left_of_a_server_when_byleave_is_killed(root: Path) -> None:
    path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY / "tests")])
    words = [sys.executable, "-c", KILLED, str(root), token(root)[:-1] + "Z"]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert len(alive(words[-1])) > 2
        process.send_signal(signal.SIGKILL)
        process.wait()
    for _ in range(500):
        if not alive(words[-1]):
            return
        signal.sigtimedwait([], 0.01)
    raise AssertionError(alive(words[-1]))


def test_each_call_of_a_stateless_server_has_a_process_of_its_own(root: Path) -> None:
    async def scenario() -> None:
        shared, pids = surroundings(root), []
        for number in range(2):
            ear = Ear()
            link = StdioLink(far(stateful=False), behaving("answers"), ear, shared.starter)
            await link.open()
            await link.send(request(str(number)))
            assert json.loads(await ear.answer()) == json.loads(result(str(number), '"x"'))
            pids.append(link.pid)
            await link.close()
        await shared.close()
        assert len(set(pids)) == 2

    run(scenario())


def test_descriptors_are_given_back(root: Path) -> None:
    async def scenario() -> None:
        shared = surroundings(root)
        counts = []
        for _ in range(3):
            ear = Ear()
            link = StdioLink(far(), behaving("answers"), ear, shared.starter)
            await link.open()
            await link.send(request("1"))
            await ear.answer()
            await link.close()
            counts.append(len(os.listdir("/proc/self/fd")))
        await shared.close()
        assert counts[1] == counts[2]

    run(scenario())


def test_the_script_of_these_tests_is_plain() -> None:
    assert "byleave" not in SCRIPT.read_text()
