"""Tools that mean harm, or know no better. The first word says which; it runs on any Python, without byleave."""

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

METHODS = (
    *("fs.read", "fs.write", "fs.exists", "fs.list_dir", "fs.metadata", "fs.delete", "fs.rename", "fs.grep"),
    *("http.get", "http.post", "http.put", "http.patch", "http.delete", "http.head", "process.run"),
)
WRONG: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1.5,
        2**70,
        -(2**70),
        "",
        "\0",
        "a\0b",
        "/",
        "..",
        "../../etc/passwd",
        "~",
        "\n",
        "x" * 10_000,
    ),
    *([], [1], ["a"], [[]], [None], {}, {"a": 1}, {"name": 1, "value": []}, [{"name": "a"}], "\ud800", "%s", "${HOME}"),
)
NAMES = (
    *("path", "from", "to", "content", "encoding", "exclusive", "pattern", "paths", "extensions", "context", "url"),
    *("headers", "body", "program", "args", "envs", "path_b64"),
)
LARGE = int(sys.argv[2]) if sys.argv[2:] and sys.argv[2].isdigit() else 100  # megabytes
MEGABYTE = 1 << 20


def write(data: bytes, to: int = 1) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(to, view) :]


def say(tree: Any) -> None:
    write(json.dumps(tree).encode() + b"\n")


def hear() -> Any:
    return json.loads(sys.stdin.readline())


def request(id_: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).encode() + b"\n"


def ask(id_: Any, method: str, **params: Any) -> Any:
    write(request(id_, method, **params))
    return hear()


def note(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n"


def result(content: Any = "done") -> None:
    write(note("result", content=content))


def sleep() -> None:
    while True:
        time.sleep(60)


def swallow() -> None:
    """Read whatever the host says, in a thread, and do nothing with it."""

    def read() -> None:
        while os.read(0, MEGABYTE):
            pass

    threading.Thread(target=read, daemon=True).start()


def well_behaved() -> None:
    hear()
    result(ask(1, "fs.read", path="a.txt")["result"]["content"])


def reads_twice() -> None:
    hear()
    for number in (1, 2):
        ask(number, "fs.read", path="a.txt")
    result("done")


def reads_and_is_idle() -> None:
    hear()
    for number in (1, 2):
        ask(number, "fs.read", path="a.txt")
    assert hear()["method"] == "cancel"
    result("done")


def reads_and_sends_nonsense() -> None:
    hear()
    ask(1, "fs.read", path="a.txt")
    while ask(2, "fs.read", path=1).get("method") != "cancel":
        pass
    result("done")


def floods_requests_and_reads_nothing() -> None:
    while True:
        write(request(1, "fs.read", path="a.txt") * 100)


def floods_garbage_and_reads_nothing() -> None:
    while True:
        write(b"garbage\n" * 1000)


def floods_garbage_and_reads() -> None:
    swallow()
    while True:
        write(b"garbage\n" * 10)


def floods_garbage_after_an_answer() -> None:
    write(b"garbage\n" * 5000 + request(1, "fs.read", path="a.txt") + b"garbage\n" * 5000)
    swallow()
    while True:
        write(b"garbage\n" * 10)


def floods_listings() -> None:
    swallow()
    while True:
        write(request(1, "fs.list_dir", path="many") * 1000)


def floods_blank_lines() -> None:
    while True:
        write(b"\n" * MEGABYTE)


def floods_unknown_notices() -> None:
    while True:
        write(note("whatever", a=1) * 100)


def writes_half_a_line_and_sleeps() -> None:
    write(b'{"jsonrpc": "2.0", "id": 1, "meth')
    sleep()


def writes_one_byte_at_a_time() -> None:
    hear()
    for number in request(1, "fs.exists", path="a.txt"):
        write(bytes([number]))
    result(json.dumps(hear()["result"]))


def writes_an_endless_line() -> None:
    hear()
    piece = b"x" * MEGABYTE
    for _ in range(LARGE):
        write(piece)
    write(b"\n")
    code = hear()["error"]["code"]
    result(f"{code} {ask(1, 'fs.read', path='a.txt')['result']['content']}")


def writes_an_endless_request() -> None:
    hear()
    write(b'{"jsonrpc": "2.0", "id": 7, "method": "fs.write", "params": {"path": "made", "content": "')
    piece = b"x" * MEGABYTE
    for _ in range(LARGE):
        write(piece)
    write(b'"}}\n')
    answer = hear()
    result(f"{answer['id']} {answer['error']['code']} {sorted(answer['error']['data'])}")


def piles_up_large_requests() -> None:
    """Ask for something slow, and send as much as goes behind it."""
    hear()
    swallow()
    write(request(1, "process.run", program="sleep", args=["60"]))
    for number in range(LARGE):
        write(request(number + 2, "fs.exists", path="a.txt", more="x" * MEGABYTE))


def closes_its_output() -> None:
    os.close(1)
    sleep()


def closes_its_output_and_errors() -> None:
    os.close(1)
    os.close(2)
    sleep()


def closes_its_input_and_goes_on() -> None:
    hear()
    os.close(0)
    write(request(1, "fs.read", path="a.txt") * 5000)
    result()


def closes_its_input_while_answers_wait() -> None:
    """The answers are more than the pipe holds, so the host is waiting to write when nobody reads any more."""
    hear()
    write(request(1, "fs.read", path="large.txt") * 3)
    os.read(0, 1)
    os.close(0)
    for _ in range(100):
        write(request(2, "fs.exists", path="a.txt"))
    write(request(3, "fs.write", path="went-on.txt", content="x"))
    result()


def closes_everything() -> None:
    for number in range(3):
        os.close(number)
    sleep()


def _stay() -> None:
    """Be a child that goes on, and holds the pipes."""
    if os.fork() == 0:
        sleep()


def _daemonise() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            sleep()
        os._exit(0)


def forks_after_the_result() -> None:
    hear()
    result()
    _stay()


def forks_before_the_result() -> None:
    hear()
    _stay()
    result()


def leaves_a_daemon() -> None:
    hear()
    _daemonise()
    result()


def leaves_a_daemon_without_a_result() -> None:
    hear()
    _daemonise()
    sys.stderr.write("it is out there")


def leaves_a_daemon_that_floods() -> None:
    hear()
    if os.fork() == 0:
        os.setsid()
        while True:
            write(b"x" * 1000, 2)
    time.sleep(0.2)
    os._exit(3)


def writes_after_the_result() -> None:
    hear()
    write(note("result", content="done") + request(1, "fs.write", path="after.txt", content="x"))
    while True:
        write(request(2, "fs.write", path="after.txt", content="x"))


def asks_before_the_result() -> None:
    """What was asked for before the last word is done, what comes after it is not."""
    hear()
    write(
        request(1, "fs.write", path="before.txt", content="x")
        + note("result", content="done")
        + request(2, "fs.write", path="after.txt", content="x")
    )


def asks_something_slow_before_the_result() -> None:
    hear()
    write(request(1, "process.run", program="sleep", args=["60"]) + note("result", content="done"))


def asks_and_exits() -> None:
    write(request(1, "fs.write", path="before.txt", content="x") * 3)
    os._exit(7)


def has_strange_ids() -> None:
    hear()
    good = (0, -1, 1, 1, "1", "", 2**53 - 1, "x" * 256, "\u202e\0\n")
    answers = [ask(id_, "fs.exists", path="a.txt") for id_ in good]
    assert [answer["id"] for answer in answers] == list(good), answers
    assert all(answer["result"]["exists"] for answer in answers), answers
    for id_ in (None, True, False, {}, {"a": 1}, [], [1], 1.5, 2**53, 10**40, "x" * 300, "x" * 1_000_000, 10**400):
        answer = ask(id_, "fs.exists", path="a.txt")
        assert (answer["id"], answer["error"]["code"]) == (None, -32600), (str(id_)[:50], answer)
    result()


def says_what_is_no_message() -> None:
    hear()
    lines = (
        *(b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b"\xff\xfe", b"\0", b"\0" * 1000),
        *(
            b"NaN",
            b"Infinity",
            b"1",
            b"null",
            b'"x"',
            b"true",
            b"{",
            b"}",
            b"[]",
            b"{}",
            b"[{}]",
            b"9" * 5000,
            b"1e999",
        ),
        *(b'{"jsonrpc": "1.0", "id": 1, "method": "fs.read"}', b'{"jsonrpc": "2.0", "id": 1}', b"\xef\xbb\xbf{}"),
        *(b'{"jsonrpc": "2.0", "id": NaN, "method": "fs.read"}', b'{"jsonrpc": "2.0", "id": 1, "method": 1}'),
        *(b'{"jsonrpc": "2.0", "id": 1, "result": {}}', b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}'),
        b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "fs.read", "params": 1}',
        b'{"jsonrpc": "2.0", "method": "fs.read", "params": {"path": "a.txt"}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "result", "params": {"content": "no"}}',
        b'{"jsonrpc": "2.0", "method": "result", "params": {"content": 1}}',
        b'{"jsonrpc": "2.0", "method": "state", "params": {"type": "waiting"}}',
    )
    for line in lines:
        write(line + b"\n")
        answer = hear()
        assert answer["error"]["code"] in (-32600, -32602, -32700), (line[:80], answer)
    result()


def ends_lines_like_windows() -> None:
    hear()
    write(b"\r\n\r\n" + request(1, "fs.read", path="a.txt").replace(b"\n", b"\r\n"))
    content = hear()["result"]["content"]
    write(note("result", content=content).replace(b"\n", b"\r\n"))


def ends_without_a_newline() -> None:
    hear()
    write(note("result", content="done").rstrip(b"\n"))


def ends_with_half_a_result() -> None:
    hear()
    write(note("result", content="done")[:-5])
    sys.stderr.write("cut off")


def exits_0() -> None:
    """Say nothing at all."""


def exits_1_with_words() -> None:
    sys.stderr.write("it went wrong\n")
    sys.stderr.flush()
    os._exit(1)


def exits_3_without_words() -> None:
    os._exit(3)


def dies_by_a_signal() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_by_a_signal_with_words() -> None:
    write(b"last words", 2)
    ctypes.string_at(0)


def floods_stderr() -> None:
    hear()
    piece = b"e" * MEGABYTE
    for _ in range(LARGE):
        write(piece, 2)
    result()


def floods_stderr_for_ever() -> None:
    while True:
        write(b"e" * MEGABYTE, 2)


def never_reads() -> None:
    sleep()


def cancels_what_is_not_there() -> None:
    hear()
    for id_ in (1, "1", 99, -1, "x" * 1000):
        write(note("cancel", request_id=id_))
    ids: tuple[Any, ...] = (None, [], True, 1.5)
    odd: list[dict[str, Any]] = [{}, {"id": {}}, *({"request_id": id_} for id_ in ids)]
    for wrong in odd:
        write(note("cancel", **wrong))
        assert hear()["error"]["code"] == -32602
    result(ask(1, "fs.read", path="a.txt")["result"]["content"])


def cancels_what_waits_and_what_runs() -> None:
    hear()
    write(request(1, "process.run", program="sleep", args=["60"]))
    write(request(2, "fs.write", path="given-up.txt", content="x") + request(3, "fs.exists", path="a.txt"))
    write(note("cancel", request_id=2) + note("cancel", id=1))
    answers = [hear() for _ in range(3)]
    codes = [answer.get("error", {}).get("code", 0) for answer in answers]
    assert ([answer["id"] for answer in answers], codes) == ([1, 2, 3], [-32005, -32005, 0]), answers
    result()


def gives_up_again_and_again() -> None:
    hear()
    for number in range(50):
        write(request(number, "process.run", program="sleep", args=["60"]))
        time.sleep(0.005)
        write(note("cancel", request_id=number))
    answers = [hear() for _ in range(50)]
    assert [answer["error"]["code"] for answer in answers] == [-32005] * 50, answers
    result()


def asks_thousands_of_times_at_once() -> None:
    hear()
    asked = b"".join(request(number, "fs.exists", path="a.txt") for number in range(5000))
    threading.Thread(target=write, args=(asked,)).start()
    answers = [hear()["id"] for _ in range(5000)]
    result(str(answers == list(range(5000))))


def sends_everything_before_it_reads() -> None:
    """Send N requests, each K bytes long, for a file of M bytes or for a small one, and then read the answers."""
    number, length, path = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    hear()
    write(b"".join(request(each, "fs.read", path=path, more="x" * length) for each in range(number)))
    answers = [hear() for _ in range(number)]
    assert [answer["id"] for answer in answers] == list(range(number)), "the answers come in another order"
    result(str(sum(answer["result"]["size"] for answer in answers)))


def reads_and_writes_before_it_reads_an_answer() -> None:
    """Ask for large answers, and then send large requests: neither side's pipe holds them."""
    hear()
    number = int(sys.argv[2])
    for each in range(number):
        write(request(each, "fs.read", path="large.txt"))
        write(request(-each - 1, "fs.write", path=f"made/{each}", content="x" * 20_000))
    answers = [hear() for _ in range(2 * number)]
    assert [answer["id"] for answer in answers[::2]] == list(range(number))
    result(str([answer.get("error") for answer in answers if "error" in answer]))


def gives_up_for_ever_and_reads_nothing() -> None:
    hear()
    while True:
        write(
            b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"cancel","params":{"request_id":1}}\n' % n for n in range(500))
        )


def gives_up_for_ever_and_reads() -> None:
    hear()
    swallow()
    while True:
        write(note("cancel", request_id=1) * 10)


def gives_up_all_that_waits() -> None:
    """Ask for something slow, then for much more, and give all of it up."""
    hear()
    write(request(0, "process.run", program="sleep", args=["60"]))
    write(b"".join(request(number, "fs.exists", path="a.txt") for number in range(1, 3000)))
    write(b"".join(note("cancel", request_id=number) for number in range(2999, -1, -1)))
    write(request(1, "fs.exists", path="a.txt"))
    codes = [hear().get("error", {}).get("code", 0) for _ in range(3001)]
    result(str(codes == [-32005] * 3000 + [0]))


def says_how_it_stands() -> None:
    """Do as a stateful tool does, without being one."""
    hear()
    for number in range(1000):
        write(note("state", type="running", content=f"step {number}"))
    result()


def stands_and_exits() -> None:
    hear()
    write(note("state", type="running", content="here"))
    os._exit(5)


def asks_a_question() -> None:
    hear()
    write(note("state", type="waiting", question={"id": "q", "text": "Sure?"}))
    sleep()


def _wrong_params() -> Iterator[dict[str, Any]]:
    yield {}
    for name in NAMES:
        for value in WRONG:
            yield {name: value}
    for value in WRONG:
        yield {"path": "spare.txt", "content": value, "encoding": value, "exclusive": value}
        yield {"from": "spare.txt", "to": value}
        yield {"from": value, "to": "denied.txt"}
        yield {"pattern": "(", "paths": value, "extensions": value, "context": value}
        yield {"url": value, "headers": value, "body": value}
        yield {"url": "http://127.0.0.1:1/", "headers": value, "body": value}
        yield {"program": value, "args": value, "envs": value}
        yield {"program": "no-such", "args": value, "envs": value}


def has_wrong_params() -> None:
    """Call one method with everything that it cannot use, and say what came back."""
    hear()
    seen: dict[str, list[Any]] = {}
    for number, params in enumerate(_wrong_params()):
        answer = ask(number, sys.argv[2], **params)
        assert answer["id"] == number, answer
        code = str(answer["error"]["code"]) if "error" in answer else "done"
        seen.setdefault(code, []).append(params)
    for listed in ([], [1], ["a.txt"]):
        write(json.dumps({"jsonrpc": "2.0", "id": 0, "method": sys.argv[2], "params": listed}).encode() + b"\n")
        seen.setdefault(str(hear()["error"]["code"]), []).append(listed)
    result(json.dumps({code: len(all_) for code, all_ in seen.items()} | {"examples": _examples(seen)}))


def _examples(seen: dict[str, list[Any]]) -> dict[str, str]:
    expected = ("-32602", "-32601", "-32600", "-32001", "-32002", "-32003", "done")
    return {code: str(all_[0])[:200] for code, all_ in seen.items() if code not in expected}


def wants_methods_that_are_not_there() -> None:
    hear()
    for method in ("", "fs", "fs.", "fs.chmod", "FS.READ", "fs.read ", "x" * 100_000, "__class__", "serve", "\0"):
        assert ask(1, method, path="a.txt")["error"]["code"] == -32601, method[:50]
    result()


def eats_memory() -> None:
    hear()
    held = []
    try:
        while True:
            held.append(bytearray(b"x" * (16 * MEGABYTE)))
    except MemoryError:
        held.clear()
        sys.stderr.write("no more memory")


def returns_strange_content() -> None:
    hear()
    deep: Any = "x"
    for _ in range(150):
        deep = [deep]
    result([{"type": "text", "text": "\u202e\x1b[2J\0"}, {"type": "odd", "n": 10**40, "deep": deep, "f": 1e308}])


def fails_strangely() -> None:
    hear()
    write(note("error", message={"a": 1}, trace=[10**40, None, {"a": []}, "x" * MEGABYTE], transient="yes"))


def stops_for_nobody() -> None:
    """Neither the host's word nor a signal ends it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hear()
    write(request(1, "fs.write", path="ready", content="x"))
    sleep()


def stops_when_asked() -> None:
    hear()
    write(request(1, "fs.write", path="ready", content="x"))
    hear()
    told = hear()
    write(request(2, "fs.write", path="told", content=json.dumps(told)))
    hear()


def stops_when_told() -> None:
    """End by SIGTERM, and say so first."""

    def leave(_number: int, _frame: object) -> None:
        write(request(2, "fs.write", path="terminated", content="x"))
        os.read(0, 1000)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    hear()
    write(request(1, "fs.write", path="ready", content="x"))
    sleep()


def waits_for_something_slow() -> None:
    """Ask for one thing that takes long, and say how it was answered."""
    hear()
    method, params = sys.argv[2], json.loads(sys.argv[3])
    started = time.monotonic()
    write(request(0, "fs.write", path="ready", content="x"))
    hear()
    write(request(1, method, **params))
    heard = [hear()]
    while heard[-1].get("method") is not None:
        heard.append(hear())
    said = [each.get("method", each.get("error", {}).get("code", "done")) for each in heard]
    result(json.dumps([said, time.monotonic() - started]))


def gives_up_a_question() -> None:
    """Ask for what a person has to allow, give it up as soon as they are asked, and go on for a while."""
    hear()
    number, asked = 0, False
    while not asked:  # what is given up before it comes to the person is not asked
        number += 2
        write(request(number, "fs.write", path="asked/late.txt", content="x"))
        pending = hear()
        assert pending["method"] == "pending", pending
        assert pending["params"]["request_id"] == number, pending
        write(note("cancel", request_id=number))
        answer = hear()
        assert (answer["id"], answer["error"]["code"]) == (number, -32005), answer
        time.sleep(number / 50)
        asked = ask(number + 1, "fs.exists", path="is-asked")["result"]["exists"]
    ask(0, "fs.write", path="gave-up", content="x")
    while not ask(1, "fs.exists", path="answered")["result"]["exists"]:
        time.sleep(0.01)
    for later in range(20):
        ask(number + 2 + later, "fs.exists", path="a.txt")
    result()


def gives_up_many_questions() -> None:
    hear()
    for number in range(50):
        heard = ask(number, "fs.write", path=f"asked/{number}.txt", content="x")
        while heard.get("id") != number:
            write(note("cancel", request_id=number))
            heard = hear()
        assert heard["error"]["code"] in (-32001, -32005), heard
    result()


def returns_much() -> None:
    hear()
    result("x" * (8 * MEGABYTE))


def stays() -> None:
    """Be a stateful tool: answer every input until it is to stop, crash or ask."""
    started = hear()["params"]["tool"]["arguments"]
    write(note("state", type="running", content=f"started with {json.dumps(started)}"))
    for line in sys.stdin:
        told = json.loads(line)
        given = told.get("params", {}).get("input")
        if told["method"] == "cancel":
            write(note("state", type="stopped", result="as you wish"))
            return
        if isinstance(given, str) and given in _STAYING:
            _STAYING[given]()
        write(note("state", type="running", content=f"heard {json.dumps(given)}"))


def _crash() -> None:
    write(b"it broke", 2)
    os._exit(9)


def _stop() -> None:
    write(note("state", type="stopped", result="the end"))
    sleep()


def _question() -> None:
    write(note("state", type="waiting", content="hm", question={"id": "q", "text": "Go on?"}))
    write(note("state", type="running", content=f"you said {hear()['params']['input']}"))


def _flood() -> None:
    for _ in range(20_000):
        write(note("state", type="running", content="x" * 1000))


def _be_deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep()


_STAYING: dict[Any, Callable[[], None]] = {
    "crash": _crash,
    "die": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": _stop,
    "fail": lambda: write(note("state", type="stopped", error={"message": "could not"})),
    "result": lambda: result("a plain result"),
    "ask": _question,
    "hang": sleep,
    "deaf": _be_deaf,
    "flood": _flood,
    "fork": _daemonise,
}

if __name__ == "__main__":
    globals()[sys.argv[1]]()
