"""The client of mediated tools: each method is one request, each refusal one exception, and nobody waits for ever."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from byleave.protocol.vfs import BadMessage, Failed, Finished, HostSide, RequestCancelled, StateChanged, ToolRequest
from byleave.sdk import vfs
from byleave.sdk.vfs_async import AsyncHost
from byleave.sdk.vfs_conversation import ToolConversation
from byleave.sdk.vfs_results import QuestionAsked, error_for
from sdk.driving import Driven, ScriptedWire, drive, host_side, serving_files

Call = Callable[[vfs.Host], Any]
B64 = {"content": "iVBORw0KGgo=", "encoding": "base64"}
PNG = b"\x89PNG\r\n\x1a\n"


def host_of(*script: bytes | None, timeout: float | None = 30.0, **told: Any) -> tuple[vfs.Host, ScriptedWire]:
    wire = ScriptedWire(*script, told=told)
    return vfs.Host(ToolConversation(wire, response_timeout=timeout)), wire


def answer(id_: int, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode() + b"\n"


def refusal(id_: int | None, code: int, data: Any = None) -> bytes:
    error = {"code": code, "message": "because"} | ({} if data is None else {"data": data})
    return json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}).encode() + b"\n"


def notice(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"


LINES = [
    {"line_number": 1, "content": "a", "is_match": True},
    {"line_number": 2, "content": "b", "is_match": False},
]
CALLS: dict[str, tuple[Call, str, dict[str, Any], Any, Any]] = {
    "read": (lambda h: h.read("a"), "fs.read", {"path": "a"}, {"content": "ä", "size": 2}, "ä"),
    "read_bytes of a text": (lambda h: h.read_bytes("a"), "fs.read", {"path": "a"}, {"content": "ä"}, "ä".encode()),
    "read_bytes": (lambda h: h.read_bytes("a"), "fs.read", {"path": "a"}, {**B64, "size": 8}, PNG),
    "write": (lambda h: h.write("a", "x"), "fs.write", {"path": "a", "content": "x"}, {}, None),
    "write bytes": (lambda h: h.write("a", PNG), "fs.write", {"path": "a", **B64}, {}, None),
    "write a new file": (
        lambda h: h.write("a", "", exclusive=True),
        "fs.write",
        {"path": "a", "content": "", "exclusive": True},
        {},
        None,
    ),
    "exists": (lambda h: h.exists("a"), "fs.exists", {"path": "a"}, {"exists": True}, True),
    "list_dir": (
        lambda h: h.list_dir(),
        "fs.list_dir",
        {"path": "."},
        {"entries": [{"path": "a", "kind": "file", "new": 1}], "hidden": 2},
        vfs.Listing((vfs.Entry("a", "file"),), 2),
    ),
    "list_dir with a name that is no text": (
        lambda h: h.list_dir("d"),
        "fs.list_dir",
        {"path": "d"},
        {"entries": [{"path": "\\xff", "path_b64": "/w==", "kind": "file"}]},
        vfs.Listing((vfs.Entry("\udcff", "file"),), 0),
    ),
    "read a name that is no text": (
        lambda h: h.read("\udcff"),
        "fs.read",
        {"path_b64": "/w=="},
        {"content": "x"},
        "x",
    ),
    "metadata": (
        lambda h: h.metadata("a"),
        "fs.metadata",
        {"path": "a"},
        {"kind": "file", "size": 3, "modified": 1.5},
        vfs.Metadata("file", 3, 1.5),
    ),
    "metadata without a time": (
        lambda h: h.metadata("a"),
        "fs.metadata",
        {"path": "a"},
        {"kind": "dir", "size": 0},
        vfs.Metadata("dir", 0),
    ),
    "delete": (lambda h: h.delete("a"), "fs.delete", {"path": "a"}, {}, None),
    "rename": (lambda h: h.rename("a", "b"), "fs.rename", {"from": "a", "to": "b"}, {}, None),
    "grep": (
        lambda h: h.grep("x", ["src"], ["rs"], 2),
        "fs.grep",
        {"pattern": "x", "paths": ["src"], "extensions": ["rs"], "context": 2},
        {"matches": [{"path": "a", "lines": LINES}]},
        [vfs.Match("a", (vfs.Line(1, "a", is_match=True), vfs.Line(2, "b", is_match=False)))],
    ),
    "grep everywhere": (lambda h: h.grep("x"), "fs.grep", {"pattern": "x", "context": 0}, {"matches": []}, []),
    "http.get": (
        lambda h: h.http.get("https://x/", {"A": "${B}"}),
        "http.get",
        {"url": "https://x/", "headers": [{"name": "A", "value": "${B}"}]},
        {"status": 200, "body": "ok", "headers": [{"name": "C", "value": "d"}], "url": "https://y/"},
        vfs.HttpReply(200, "ok", (("C", "d"),), "https://y/"),
    ),
    "http.head": (
        lambda h: h.http.head("u"),
        "http.head",
        {"url": "u"},
        {"status": 204, "body": ""},
        vfs.HttpReply(204, ""),
    ),
    "http.post": (
        lambda h: h.http.post("u", "b", [("A", "1"), ("A", "2")]),
        "http.post",
        {"url": "u", "body": "b", "headers": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        {"status": 201, "body": "iVBORw0KGgo=", "encoding": "base64"},
        vfs.HttpReply(201, PNG),
    ),
    "http.put": (
        lambda h: h.http.put("u", PNG),
        "http.put",
        {"url": "u", "body": "iVBORw0KGgo=", "encoding": "base64"},
        {"status": 200, "body": ""},
        vfs.HttpReply(200, ""),
    ),
    "http.patch": (
        lambda h: h.http.patch("u"),
        "http.patch",
        {"url": "u", "body": ""},
        {"status": 200, "body": ""},
        vfs.HttpReply(200, ""),
    ),
    "http.delete": (
        lambda h: h.http.delete("u"),
        "http.delete",
        {"url": "u"},
        {"status": 200, "body": ""},
        vfs.HttpReply(200, ""),
    ),
    "run": (
        lambda h: h.run("ls", ["-l"], ["A"]),
        "process.run",
        {"program": "ls", "args": ["-l"], "envs": ["A"]},
        {"stdout": "o", "stderr": "e", "exit_code": 3},
        vfs.Completed("o", "e", 3),
    ),
    "run with output that is no text": (
        lambda h: h.run("x"),
        "process.run",
        {"program": "x", "args": [], "envs": []},
        {"stdout": "iVBORw0KGgo=", "stdout_encoding": "base64", "stderr": "", "exit_code": 0},
        vfs.Completed(PNG, "", 0),
    ),
}
METHODS = pytest.mark.parametrize(("call", "method", "params", "result", "value"), CALLS.values(), ids=CALLS.keys())


@METHODS
def test_a_method_is_one_request_and_its_answer_a_value(
    call: Call, method: str, params: dict[str, Any], result: Any, value: Any
) -> None:
    host, wire = host_of(answer(1, result))
    assert call(host) == value
    assert wire.heard == [ToolRequest(1, method, params)]


@METHODS
def test_a_coroutine_is_the_same_request_and_the_same_value(
    call: Callable[[Any], Awaitable[Any]], method: str, params: dict[str, Any], result: Any, value: Any
) -> None:
    wire = ScriptedWire(answer(1, result))

    async def main() -> Any:
        return await call(AsyncHost(ToolConversation(wire)))

    assert asyncio.run(main()) == value
    assert wire.heard == [ToolRequest(1, method, params)]


REFUSALS: dict[str, tuple[int, Any, type[vfs.VfsError]]] = {
    "no JSON": (-32700, None, vfs.InvalidRequest),
    "no request": (-32600, None, vfs.InvalidRequest),
    "no method": (-32601, None, vfs.MethodNotFound),
    "bad parameters": (-32602, None, vfs.InvalidParams),
    "too large": (-32602, {"limit": 5}, vfs.TooLarge),
    "denied": (-32001, {"code": "denied"}, vfs.AccessDenied),
    "not found": (-32002, None, vfs.NotFound),
    "already there": (-32003, None, vfs.AlreadyExists),
    "too slow": (-32004, None, vfs.TimedOut),
    "cancelled": (-32005, None, vfs.Cancelled),
    "something new": (-32099, None, vfs.VfsError),
}


@pytest.mark.parametrize(("code", "data", "kind"), REFUSALS.values(), ids=REFUSALS.keys())
def test_each_code_is_an_exception_of_its_own(code: int, data: Any, kind: type[vfs.VfsError]) -> None:
    host, _wire = host_of(refusal(1, code, data))
    with pytest.raises(vfs.VfsError) as caught:
        host.read("x")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.message, caught.value.data) == (code, "because", data)
    assert str(caught.value) == "because"


def test_too_large_says_what_would_do() -> None:
    error = error_for(-32602, "too large", {"limit": 5})
    assert isinstance(error, vfs.TooLarge)
    assert isinstance(error, vfs.InvalidParams)
    assert error.limit == 5


def test_a_file_that_is_no_text_is_read_as_bytes_only() -> None:
    host, _wire = host_of(answer(1, B64))
    with pytest.raises(vfs.NotText, match=r"a\.png is not a text in UTF-8; read its bytes instead"):
        host.read("a.png")


@pytest.mark.parametrize(
    "result",
    [None, [], {}, {"content": 1}, {"content": "x", "encoding": "rot13"}, {"content": "!", "encoding": "base64"}],
)
def test_an_answer_that_cannot_be_read_is_an_error_and_not_a_wrong_value(result: Any) -> None:
    host, _wire = host_of(answer(1, result))
    with pytest.raises(vfs.ProtocolError):
        host.read("x")


def test_the_tool_is_told_what_to_do() -> None:
    host, _wire = host_of(arguments={"a": 1}, answers={"q": "y"}, options={"o": True})
    assert (host.name, host.arguments, host.answers, host.options) == ("t", {"a": 1}, {"q": "y"}, {"o": True})
    assert (host.context["root"], host.action, host.methods) == ("/project", "run", ("fs.read", "fs.write"))
    assert host.protocol_version == "0.1.0"


def test_a_host_that_is_silent_for_too_long_is_not_waited_for_and_is_told_so() -> None:
    host, wire = host_of(None, timeout=0)
    with pytest.raises(vfs.TimedOut, match="the host said nothing for 0 seconds"):
        host.read("x")
    assert wire.heard[1:] == [RequestCancelled(1)]


def test_an_answer_that_was_given_up_is_not_taken_for_another() -> None:
    host, wire = host_of(None, timeout=0)
    with pytest.raises(vfs.TimedOut):
        host.read("x")
    wire.script = [refusal(1, -32005) + answer(2, {"content": "y"})]
    assert host.read("y") == "y"


def test_while_a_person_is_asked_the_wait_has_no_end() -> None:
    pending = notice("pending", request_id=1, reason="a person is asked")
    host, wire = host_of(pending, answer(1, {"content": "x"}), timeout=30)
    assert host.read("x") == "x"
    begun, first, after_pending = wire.patience
    assert (begun, after_pending) == (None, None)
    assert first is not None
    assert 0 < first <= 30


def test_another_request_that_waits_for_a_person_says_nothing_about_this_one() -> None:
    host, wire = host_of(notice("pending", request_id=7, reason=""), answer(1, {"content": "x"}))
    host.read("x")
    assert wire.patience[-1] is not None


def test_without_a_limit_the_host_may_take_its_time() -> None:
    host, wire = host_of(answer(1, {"content": "x"}), timeout=None)
    host.read("x")
    assert wire.patience == [None, None]


def test_cancelling_wakes_the_call_that_waits_once_and_then_lets_the_tool_tidy_up() -> None:
    host, wire = host_of(notice("cancel"))
    with pytest.raises(vfs.Cancelled, match="the host asks the tool to stop"):
        host.read("x")
    assert host.cancelled
    wire.script = [answer(1, {"content": "late"}) + answer(2, {})]
    host.delete("tmp")
    assert [wish.method for wish in wire.heard] == ["fs.read", "fs.delete"]


def test_nothing_is_asked_for_when_the_tool_should_have_stopped() -> None:
    host, wire = host_of(answer(1, {"content": "x"}) + notice("cancel"))
    assert host.read("x") == "x"
    with pytest.raises(vfs.Cancelled):
        host.write("x", "y")
    assert len(wire.heard) == 1


def test_a_long_calculation_can_look_whether_it_should_stop() -> None:
    host, wire = host_of(None, notice("cancel"))
    assert [host.cancelled, host.cancelled, host.cancelled] == [False, True, True]
    assert wire.patience == [None, 0, 0]


def test_a_host_that_goes_away_is_noticed_wherever_the_tool_waits() -> None:
    host, _wire = host_of(b"")
    for call in (lambda: host.read("x"), host.next_input, lambda: host.exists("x")):
        with pytest.raises(vfs.HostGone):
            call()


def test_a_host_that_complains_about_no_request_in_particular_is_heard() -> None:
    host, _wire = host_of(refusal(None, -32600))
    with pytest.raises(vfs.InvalidRequest, match="a line of this tool: because; was it printed before"):
        host.read("x")


def test_a_host_that_speaks_nonsense_is_an_error() -> None:
    host, _wire = host_of(b"nonsense\n")
    with pytest.raises(vfs.ProtocolError, match="not JSON"):
        host.read("x")


@pytest.mark.parametrize(("first", "kind"), [(b"", vfs.HostGone), (b"hello\n", vfs.ProtocolError)])
def test_without_a_host_there_is_no_beginning(first: bytes, kind: type[vfs.VfsError]) -> None:
    wire = ScriptedWire()
    wire.script = [first]
    with pytest.raises(kind):
        ToolConversation(wire)


def test_results_errors_and_states_are_what_the_protocol_writes() -> None:
    said: dict[str, tuple[Call, Any]] = {
        "a result": (lambda h: h.result("x"), {"content": "x"}),
        "blocks": (lambda h: h.result([{"type": "text", "text": "x"}]), {"content": [{"type": "text", "text": "x"}]}),
        "an error": (
            lambda h: h.error("no", ["a"], transient=True),
            {"message": "no", "trace": ["a"], "transient": True},
        ),
        "running": (lambda h: h.running("x"), {"type": "running", "content": "x"}),
        "waiting": (
            lambda h: h.waiting({"id": "q", "text": "?"}),
            {"type": "waiting", "question": {"id": "q", "text": "?"}},
        ),
        "stopped": (lambda h: h.stopped("x"), {"type": "stopped", "result": "x"}),
        "stopped by an error": (
            lambda h: h.stopped(error="no"),
            {"type": "stopped", "error": {"message": "no", "trace": [], "transient": False}},
        ),
    }
    for call, params in said.values():
        host, wire = host_of()
        call(host)
        assert json.loads(wire.sent[0])["params"] == params
        assert isinstance(wire.heard[0], Finished | Failed | StateChanged)


def test_nothing_can_be_said_after_the_result() -> None:
    host, wire = host_of()
    host.result("x")
    for call in (lambda: host.result("y"), lambda: host.read("x"), lambda: host.error("z"), host.running):
        with pytest.raises(vfs.ProtocolError, match="given its result already"):
            call()
    assert (len(wire.sent), host.ended) == (1, True)


@pytest.mark.parametrize(
    "say",
    [
        lambda host: host.result(5),
        lambda host: host.result([{"text": "x"}]),
        lambda host: host.state({"type": "asleep"}),
        lambda host: host.waiting({"text": "?"}),
    ],
)
def test_what_the_protocol_does_not_have_is_not_said(say: Call) -> None:
    host, wire = host_of()
    with pytest.raises(TypeError, match=r"docs/protocol\.md"):
        say(host)
    assert (wire.sent, host.ended) == ([], False)


def test_input_is_waited_for_and_kept_until_it_is_wanted() -> None:
    host, wire = host_of(notice("apply", input="a") + answer(1, {"exists": True}), notice("apply", input={"b": 1}))
    assert host.exists("x")
    assert [host.next_input(), host.next_input()] == ["a", {"b": 1}]
    assert wire.patience[-1] is None


def test_cancelling_wakes_a_tool_that_waits_for_input() -> None:
    host, _wire = host_of(notice("cancel"))
    with pytest.raises(vfs.Cancelled):
        host.next_input()


def test_a_question_that_was_answered_is_not_asked_again() -> None:
    host, wire = host_of(answers={"sure": "yes"})
    assert host.ask("sure", "Are you sure?") == "yes"
    assert wire.sent == []


def test_a_question_without_an_answer_ends_the_call_and_the_program() -> None:
    host, wire = host_of()
    with pytest.raises(QuestionAsked) as ended:
        host.ask("sure", "Are you sure?", options=["yes", "no"])
    block = {"type": "question", "id": "sure", "text": "Are you sure?", "options": ["yes", "no"]}
    assert wire.heard == [Finished([block])]
    assert isinstance(ended.value, SystemExit)
    assert ended.value.code == 0


# Real pipes.


@contextmanager
def piped(reply: Callable[[HostSide, ToolRequest], bytes]) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield a tool's two descriptors, and what the host at the other end hears."""
    tool_reads, host_writes = os.pipe()
    host_reads, tool_writes = os.pipe()
    heard: list[Any] = []

    def be_the_host() -> None:
        side, first = host_side()
        os.write(host_writes, first)
        while data := os.read(host_reads, 1 << 16):
            for event in side.receive(data):
                heard.append(event)
                said = reply(side, event) if isinstance(event, ToolRequest) else b""
                with open(host_writes, "wb", closefd=False) as out:
                    out.write(said)
        os.close(host_writes)

    thread = threading.Thread(target=be_the_host)
    thread.start()
    try:
        yield tool_reads, tool_writes, heard
    finally:
        os.close(tool_writes)
        thread.join(60)
        os.close(tool_reads)
        os.close(host_reads)


def echo(side: HostSide, wish: ToolRequest) -> bytes:
    return side.answer(wish.id, {"content": wish.params.get("content", wish.params["path"])})


def test_a_tool_talks_over_the_streams_it_is_given() -> None:
    with piped(echo) as (reads, writes, heard):
        host = vfs.connect(reads, writes)
        assert [host.read("a"), host.read("b" * 200_000)] == ["a", "b" * 200_000]
        host.result("done")
    assert heard[-1] == Finished([{"type": "text", "text": "done"}])


def test_requests_sent_together_are_answered_together_however_large_they_are() -> None:
    large = "x" * 3_000_000  # far more than both pipes hold: a tool that only writes would never get it through

    async def main(reads: int, writes: int) -> list[str]:
        host = await vfs.connect_async(reads, writes)
        calls = [host.call(("fs.read", {"path": str(number), "content": large})) for number in range(4)]
        found = await asyncio.gather(*calls, host.read("last"))
        await host.result("done")
        return [each if isinstance(each, str) else each["content"] for each in found]

    with piped(echo) as (reads, writes, heard):
        assert asyncio.run(main(reads, writes)) == [large] * 4 + ["last"]
    assert [event.id for event in heard[:-1]] == [1, 2, 3, 4, 5]


def test_everybody_who_waits_is_told_that_the_host_wants_the_tool_to_stop() -> None:
    def cancel_at_third(side: HostSide, wish: ToolRequest) -> bytes:
        return side.cancel() if wish.id == 3 else echo(side, wish) if wish.id in (1, 4) else b""

    async def main(reads: int, writes: int) -> tuple[list[Any], bool, str]:
        host = await vfs.connect_async(reads, writes)
        found = await asyncio.gather(*(host.read(name) for name in "abc"), return_exceptions=True)
        return list(found), host.cancelled, await host.read("d")

    with piped(cancel_at_third) as (reads, writes, _heard):
        found, cancelled, after = asyncio.run(main(reads, writes))
    assert [type(each) for each in found] == [str, vfs.Cancelled, vfs.Cancelled]
    assert (cancelled, after) == (True, "d")


def test_a_coroutine_that_nobody_awaits_any_more_gives_its_request_up() -> None:
    asked = threading.Event()

    def be_silent(_side: HostSide, _wish: ToolRequest) -> bytes:
        asked.set()
        return b""

    async def main(reads: int, writes: int) -> None:
        host = await vfs.connect_async(reads, writes, response_timeout=None)
        task = asyncio.ensure_future(host.read("x"))
        await asyncio.to_thread(asked.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with piped(be_silent) as (reads, writes, heard):
        asyncio.run(main(reads, writes))
    assert heard == [ToolRequest(1, "fs.read", {"path": "x"}), RequestCancelled(1)]


def test_an_async_tool_waits_for_input_and_notices_when_the_host_is_gone() -> None:
    async def main(wire: ScriptedWire) -> list[Any]:
        host = AsyncHost(ToolConversation(wire))
        found: list[Any] = [await host.next_input()]
        with pytest.raises(vfs.HostGone):
            await host.next_input()
        return found

    assert asyncio.run(main(ScriptedWire(notice("apply", input="a")))) == ["a"]


def test_an_async_tool_is_not_kept_waiting_by_a_silent_host() -> None:
    wire = ScriptedWire(None, None)

    async def main() -> None:
        host = AsyncHost(ToolConversation(wire, response_timeout=0))
        with pytest.raises(vfs.TimedOut):
            await host.read("x")

    asyncio.run(main())
    assert wire.heard[1:] == [RequestCancelled(1)]


# Real processes.


def python(code: str, *, cwd: Path, told: dict[str, Any] | None = None) -> Driven:
    argv = [sys.executable, "-c", code]
    return drive(argv, serving_files({"a.txt": "hello\n"}), told=told, cwd=cwd, env={**os.environ})


def test_what_a_tool_prints_never_reaches_the_conversation(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "from byleave.sdk import vfs\n"
        "host = vfs.connect()\n"
        "print('stray')\n"
        "sys.__stdout__.write('buffered\\n')\n"
        "os.write(1, b'raw\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"child\", repr(input.__name__))'])\n"
        "text = host.read('a.txt') + repr(sys.stdin.read())\n"
        "host.result(text)\n"
    )
    driven = python(code, cwd=tmp_path)
    assert driven.text == "hello\n''"
    assert [word for word in ("stray", "buffered", "raw", "child") if word not in driven.stderr] == []
    assert driven.exit_code == 0


def test_a_question_ends_a_program_quietly(tmp_path: Path) -> None:
    code = "from byleave.sdk import vfs\nvfs.connect().ask('q', 'Sure?')\nraise RuntimeError"
    driven = python(code, cwd=tmp_path)
    assert driven.last == Finished([{"type": "question", "id": "q", "text": "Sure?"}])
    assert (driven.exit_code, driven.stderr) == (0, "")


def test_a_tool_without_a_host_says_so(tmp_path: Path) -> None:
    code = "from byleave.sdk import vfs\nvfs.connect()"
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "HostGone: the host is gone" in done.stderr
    assert done.stdout == ""


def test_a_tool_that_a_person_starts_says_how_it_is_started(tmp_path: Path) -> None:
    terminal, end = os.openpty()
    try:
        argv = [sys.executable, "-c", "from byleave.sdk import vfs\nvfs.connect()"]
        done = subprocess.run(argv, stdin=end, capture_output=True, text=True, check=False, timeout=60)
    finally:
        os.close(terminal)
        os.close(end)
    assert "try `byleave call`" in done.stderr


def test_a_complaint_about_a_message_is_heard_by_whoever_waits() -> None:
    def complain(side: HostSide, _wish: ToolRequest) -> bytes:
        (bad,) = side.receive(b"[]\n")
        assert isinstance(bad, BadMessage)
        return bad.reply

    with piped(complain) as (reads, writes, _heard), pytest.raises(vfs.InvalidRequest):
        vfs.connect(reads, writes).read("x")


def test_the_public_names_of_the_client_are_these() -> None:
    errors: Sequence[str] = [
        *(
            "AccessDenied",
            "AlreadyExists",
            "Cancelled",
            "HostGone",
            "InvalidParams",
            "InvalidRequest",
            "MethodNotFound",
        ),
        *("NotFound", "NotText", "ProtocolError", "QuestionAsked", "TimedOut", "TooLarge", "VfsError"),
    ]
    values = ["Completed", "Entry", "HttpReply", "Line", "Listing", "Match", "Metadata"]
    assert sorted(vfs.__all__) == sorted([*errors, *values, "Host", "RESPONSE_TIMEOUT", "connect", "connect_async"])
