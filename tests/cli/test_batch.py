"""`check --batch` answers every line, in order, at once, whatever the lines hold and however many there are."""

import base64
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from byleave.cli.arguments import read_arguments
from byleave.cli.batch import LONGEST_LINE, MOST_POLICIES, BatchAnswers, LoadedPolicy
from byleave.cli.commands import COMMON, ROOT
from command import COMMAND, PATIENCE, byleave, environment, readable

THINK = {"kind": "other", "name": "think"}
TOOL = {"tools": {"t": {"source": "local", "access": {"fs": [{"path": "src", "read": True}]}}}}
READ = {"kind": "read", "path": "src/x", "tool": "t"}


def ask(*lines: bytes | dict[str, Any], cwd: Path | None = None, words: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Send lines and return the answers, of which there is one for each."""
    sent = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    done = byleave("check", "--batch", *words, cwd=cwd, feed=b"\n".join(sent) + b"\n")
    assert (done.code, "Traceback" in done.err) == (0, False), done.err
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert len(answers) == len(lines)
    return answers


def outcome(answer: dict[str, Any]) -> str:
    """Return the decision, or the code of the error."""
    found: str = answer["verdict"]["decision"] if "verdict" in answer else answer["error"]["code"]
    return found


@contextmanager
def running(*words: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a batch that is fed by hand."""
    process = subprocess.Popen(
        [*COMMAND, "check", "--batch", *words],
        cwd=cwd,
        env=environment(None),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def exchange(process: subprocess.Popen[bytes], line: bytes) -> dict[str, Any]:
    """Send one line, and wait for its answer without sending anything else."""
    assert process.stdin is not None
    process.stdin.write(line + b"\n")
    return receive(process)


def receive(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    held, deadline = b"", time.monotonic() + PATIENCE
    while not held.endswith(b"\n"):
        assert readable(process.stdout.fileno(), deadline - time.monotonic()), "no answer came"
        data = os.read(process.stdout.fileno(), 65536)
        assert data, f"the program ended instead of answering: {held!r}"
        held += data
    answer: dict[str, Any] = json.loads(held)
    return answer


def test_answers_come_in_order_and_carry_their_ids(tmp_path: Path) -> None:
    lines = [{"id": number, "root": str(tmp_path), "policy": TOOL, "action": READ} for number in range(500)]
    assert [answer["id"] for answer in ask(*lines)] == list(range(500))


def test_an_answer_arrives_before_the_next_line_is_sent(tmp_path: Path) -> None:
    with running(cwd=tmp_path) as process:
        for number in range(20):
            assert exchange(process, json.dumps({"id": number, "action": THINK}).encode())["id"] == number


IDS = {
    "a number": b"7",
    "a number with a point": b"1.0",
    "a number with an exponent": b"1E+2",
    "a number larger than any word": b"1" * 400,
    "null": b"null",
    "a truth": b"true",
    "a text": b'"a"',
    "a text with escapes": b'"\\u0041\\n\\/\xc3\xa9"',
    "a list": b"[1,  2]",
    "an object": b'{"a": {"b": []}}',
}


@pytest.mark.parametrize("written", IDS.values(), ids=IDS.keys())
def test_an_id_comes_back_exactly_as_it_was_written(written: bytes) -> None:
    done = byleave("check", "--batch", feed=b'{"id": ' + written + b', "action": {"kind": "other", "name": "think"}}')
    assert done.out.encode().startswith(b'{"id":' + written + b',"verdict":')


DEEP = b"[" * 100_000
NOT_QUESTIONS = {
    "not JSON": (b"nope", None),
    "an empty line": (b"", None),
    "blanks": (b"   ", None),
    "a list": (b"[]", None),
    "a text": (b'"x"', None),
    "half an object": (b'{"id": 1', None),
    "an object and more": (b'{"id": 1} x', None),
    "a byte order mark": (b'\xef\xbb\xbf{"id": 1}', None),
    "bytes that are not UTF-8": (b'{"id": "\xff", "action": {"kind": "other", "name": "think"}}', None),
    "not a number": (b'{"id": NaN, "action": {"kind": "other", "name": "think"}}', None),
    "brackets without end": (DEEP, None),
    "an id without end": (b'{"id": ' + DEEP, None),
    "nothing but an id": (b'{"id": 1}', 1),
    "an action that is no object": (b'{"id": 2, "action": 3}', 2),
    "an action that is null": (b'{"id": 3, "action": null}', 3),
    "an unknown kind": (b'{"id": 4, "action": {"kind": "teleport"}}', 4),
    "a kind that is no text": (b'{"id": 5, "action": {"kind": ["read"]}}', 5),
    "no kind": (b'{"id": 6, "action": {"path": "x"}}', 6),
    "a field missing": (b'{"id": 7, "action": {"kind": "read"}}', 7),
    "a field of the wrong type": (b'{"id": 8, "action": {"kind": "read", "path": 5}}', 8),
    "arguments of the wrong type": (b'{"id": 9, "action": {"kind": "spawn", "program": "x", "args": "y"}}', 9),
    "a tool nobody configured": (b'{"id": 10, "action": {"kind": "read", "path": "x", "tool": "t"}}', 10),
    "a root of the wrong type": (b'{"id": 11, "root": 5, "action": {"kind": "read", "path": "x"}}', 11),
    "a root that does not exist": (
        b'{"id": 12, "root": "/does/not/exist", "action": {"kind": "read", "path": "x"}}',
        12,
    ),
    "a root that is a file": (b'{"id": 13, "root": "/dev/null", "action": {"kind": "read", "path": "x"}}', 13),
    "an empty root": (b'{"id": 14, "root": "", "action": {"kind": "read", "path": "x"}}', 14),
    "half a surrogate pair": (b'{"id": 15, "action": {"kind": "read", "path": "\\ud800"}}', 15),
    "an id with half a surrogate pair": (b'{"id": "\\udce9", "action": {"kind": "read"}}', "\udce9"),
    "an action given twice": (b'{"id": 16, "action": {"kind": "read"}, "action": {"kind": "read"}}', 16),
    "a field given twice": (b'{"id": 17, "action": {"kind": "read", "kind": "delete", "path": "x"}}', 17),
    "a field given twice, a colon hidden": (
        b'{"id": 18, "action": {"kind": "read", "kind": "delete", "path": "a\\u003ab"}}',
        18,
    ),
    "an id given twice": (b'{"id": 19, "id": 20, "action": {"kind": "other", "name": "think"}}', None),
    "an argument given twice": (
        b'{"id": 21, "action": {"kind": "call", "server": "s", "arguments": {"a": {"b": 1, "b": 2}}}}',
        21,
    ),
    "base64 that is none": (b'{"id": 22, "action": {"kind": "read", "path_b64": "%%%"}}', 22),
}


def test_a_line_that_is_no_question_is_answered_with_an_input_error_and_the_stream_goes_on(tmp_path: Path) -> None:
    good = json.dumps({"id": "good", "action": THINK}).encode()
    lines = [line for bad, _id in NOT_QUESTIONS.values() for line in (bad, good)]
    answers = ask(*lines, cwd=tmp_path)
    found = {name: (answer["id"], outcome(answer)) for name, answer in zip(NOT_QUESTIONS, answers[::2], strict=True)}
    assert found == {name: (id_, "input") for name, (_line, id_) in NOT_QUESTIONS.items()}
    assert {(answer["id"], outcome(answer)) for answer in answers[1::2]} == {("good", "allow")}


@pytest.mark.parametrize("depth", [100, 900, 100_000])
def test_nesting_is_answered_or_refused_and_never_allowed(depth: int, tmp_path: Path) -> None:
    nested = b"[" * depth + b"]" * depth
    answers = ask(
        b'{"id": 1, "action": {"kind": "call", "server": "s", "arguments": ' + nested + b"}}",
        b'{"id": 1, "unknown": ' + nested + b', "action": {"kind": "read", "path": "x"}}',
        b'{"id": 1, "policy": ' + nested + b', "action": {"kind": "read", "path": "x"}}',
        b'{"id": 1, "policy": {"tools": ' + nested + b'}, "action": {"kind": "read", "path": "x"}}',
        cwd=tmp_path,
    )
    assert {outcome(answer) for answer in answers} <= {"ask", "input", "config"}


POLICIES: dict[str, tuple[Any, str]] = {
    "null, so that files are looked for": (None, "input"),
    "an empty tree": ({}, "input"),
    "a tree": (TOOL, "allow"),
    "a number": (3, "config"),
    "a list": ([], "config"),
    "a text": ("x", "config"),
    "a wrong type": ({"tools": 3}, "config"),
    "an unknown key": ({"toools": {}}, "config"),
    "a rule that escapes": (
        {"tools": {"t": {"source": "local", "access": {"fs": [{"path": "../x", "read": True}]}}}},
        "config",
    ),
}


@pytest.mark.parametrize(("policy", "expected"), POLICIES.values(), ids=POLICIES.keys())
def test_an_inline_policy_is_used_or_refused(policy: Any, expected: str, tmp_path: Path) -> None:
    assert outcome(ask({"root": str(tmp_path), "policy": policy, "action": READ})[0]) == expected


def test_a_key_given_twice_in_the_policy_is_refused(tmp_path: Path) -> None:
    line = b'{"id": 1, "policy": {"tools": {"t": {"source": "local", "source": "builtin"}}}, "action": %s}'
    assert outcome(ask(line % json.dumps(READ).encode(), cwd=tmp_path)[0]) == "config"


def test_an_inline_policy_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[tools.other]\nsource = "local"\n')
    byleave("trust", "--yes", cwd=tmp_path)
    other = {"kind": "read", "path": "x", "tool": "other"}
    answers = ask({"action": other}, {"policy": TOOL, "action": other}, {"policy": TOOL, "action": READ}, cwd=tmp_path)
    assert [outcome(answer) for answer in answers] == ["allow", "input", "allow"]


def test_files_are_found_for_each_root_or_named_once_for_all(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "byleave.toml").write_text(f'[tools.{name}]\nsource = "local"\n')
        byleave("trust", "--yes", cwd=tmp_path / name)
    lines = [
        {"root": str(tmp_path / root), "action": {"kind": "read", "path": "x", "tool": tool}}
        for root in ("a", "b")
        for tool in ("a", "b")
    ]
    assert [outcome(answer) for answer in ask(*lines)] == ["allow", "input", "input", "allow"]
    words = ("--policy", str(tmp_path / "a" / "byleave.toml"))
    assert [outcome(answer) for answer in ask(*lines, words=words)] == ["allow", "input", "allow", "input"]


def test_warnings_are_given_once_and_only_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[tools.t]\nsource = "local"\n')
    feed = (json.dumps({"action": THINK}) + "\n").encode() * 50
    done = byleave("check", "--batch", cwd=tmp_path, feed=feed)
    assert done.err.count("not trusted") == 1
    assert byleave("check", "--batch", "-q", cwd=tmp_path, feed=feed).err == ""
    assert byleave("check", "--batch", "-v", cwd=tmp_path, feed=feed).err.count("the workspace is") == 1


def test_line_ends_of_windows_and_a_last_line_without_an_end_are_fine() -> None:
    line = json.dumps({"id": 1, "action": THINK}).encode()
    done = byleave("check", "--batch", feed=line + b"\r\n" + line)
    assert [json.loads(answer)["id"] for answer in done.out.splitlines()] == [1, 1]


def test_nothing_in_is_nothing_out() -> None:
    done = byleave("check", "--batch", feed=b"")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_name_that_is_not_utf8_goes_in_and_out_as_base64(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    raw = base64.b64encode(b"src/caf\xe9").decode()
    action = {"kind": "read", "path_b64": raw, "tool": "t"}
    verdict = ask({"policy": TOOL, "action": action}, cwd=tmp_path)[0]["verdict"]
    canonical = os.fsencode(tmp_path.resolve()) + b"/src/caf\xe9"
    assert (verdict["decision"], base64.b64decode(verdict["canonical_b64"])) == ("allow", canonical)


def test_a_policy_file_whose_name_is_not_utf8_can_be_named_in_an_answer(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/caf\xe9.toml"
    with open(file, "wb") as opened:
        opened.write(b'[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "src"\nread = true\n')
    line = json.dumps({"id": 1, "action": READ}).encode()
    done = byleave("check", "--batch", "--policy", file, feed=line, cwd=tmp_path)
    assert json.loads(done.out)["verdict"]["because"][0]["source"].endswith("/caf\\xe9.toml:3")
    single = byleave("check", "read", "src/x", "--tool", "t", "--json", "--policy", file, cwd=tmp_path)
    assert json.loads(single.out) == json.loads(done.out)["verdict"]


def write_all(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    view = memoryview(data)
    while view:
        written = process.stdin.write(view)
        assert written
        view = view[written:]


def peak_memory(process: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))


def test_a_line_of_a_gigabyte_is_refused_in_bounded_memory_and_the_stream_goes_on(tmp_path: Path) -> None:
    if not os.path.exists("/proc/self/status"):
        pytest.skip("there is no /proc to read a process's peak of memory from")
    piece = b"x" * (1 << 20)
    with running(cwd=tmp_path) as process:
        before = exchange(process, json.dumps({"id": 1, "action": THINK}).encode())
        write_all(process, b'{"id": 2, "action": {"kind": "read", "path": "')
        for _ in range(1024):
            write_all(process, piece)
        refused = exchange(process, b'"}}')
        after = exchange(process, json.dumps({"id": 3, "action": THINK}).encode())
        peak = peak_memory(process)
    assert [outcome(answer) for answer in (before, refused, after)] == ["allow", "input", "allow"]
    assert (refused["id"], after["id"]) == (None, 3)
    assert peak < 4 * LONGEST_LINE


GIVEN = read_arguments(ROOT, COMMON, ["check", "--batch", "-q"])


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def question(root: Path, policy: Any, id_: int = 0) -> bytes:
    return json.dumps({"id": id_, "root": str(root), "policy": policy, "action": READ}).encode()


def big_policy(rules: int) -> dict[str, Any]:
    fs = [{"path": f"src/d{number}", "read": True} for number in range(rules)]
    return {"tools": {"t": {"source": "local", "access": {"fs": [{"path": "src", "read": True}, *fs]}}}}


def test_the_same_policy_is_compiled_once(tmp_path: Path) -> None:
    answers = Counted(GIVEN)
    line = question(tmp_path, big_policy(1000))
    assert {outcome(json.loads(answers.answer(line))) for _ in range(200)} == {"allow"}
    assert answers.loads == 1


class Counted(BatchAnswers):
    """Answers that count how often a policy is loaded."""

    loads = 0

    def load(self, root: str | None, policy: bytes) -> LoadedPolicy:
        self.loads += 1
        return super().load(root, policy)


def test_policies_are_kept_while_they_are_used_and_forgotten_when_there_are_too_many(tmp_path: Path) -> None:
    answers = Counted(GIVEN)
    often = question(tmp_path, TOOL)
    others = [
        question(tmp_path, {"tools": {**TOOL["tools"], f"t{number}": {"source": "local"}}})
        for number in range(MOST_POLICIES + 44)
    ]
    found = [outcome(json.loads(answer)) for line in others for answer in (answers.answer(often), answers.answer(line))]
    assert set(found) == {"allow"}
    answers.answer(others[-1])
    assert answers.loads == 1 + len(others)
    answers.answer(others[0])
    assert answers.loads == 2 + len(others)


def test_a_policy_that_failed_is_tried_again_after_a_while(tmp_path: Path) -> None:
    clock, root = Clock(), tmp_path / "later"
    answers = BatchAnswers(GIVEN, clock)
    line = question(root, TOOL)
    assert outcome(json.loads(answers.answer(line))) == "input"
    root.mkdir()
    assert outcome(json.loads(answers.answer(line))) == "input"
    clock.now += 2
    assert outcome(json.loads(answers.answer(line))) == "allow"


def test_a_file_that_changes_is_noticed_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    rules = '[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "src"\n'
    (tmp_path / "byleave.toml").write_text(rules + "read = true\n")
    byleave("trust", "--yes", cwd=tmp_path)
    clock, line = Clock(), json.dumps({"action": READ}).encode()
    answers = BatchAnswers(GIVEN, clock)
    assert outcome(json.loads(answers.answer(line))) == "allow"
    byleave("untrust", "--yes", cwd=tmp_path)
    clock.now += 2
    assert outcome(json.loads(answers.answer(line))) == "input"
    (tmp_path / "byleave.toml").write_text("not TOML")
    clock.now += 2
    assert outcome(json.loads(answers.answer(line))) == "config"


def test_a_defect_of_ours_is_a_denial(tmp_path: Path) -> None:
    def broken() -> float:
        raise KeyError("defect")

    answer = json.loads(BatchAnswers(GIVEN, broken).answer(question(tmp_path, TOOL, id_=5)))
    assert (answer["id"], answer["verdict"]["decision"]) == (5, "deny")


def test_many_lines_with_a_large_policy_finish_in_time(tmp_path: Path) -> None:
    line = question(tmp_path, big_policy(1000)) + b"\n"
    started = time.monotonic()
    done = byleave("check", "--batch", feed=line * 2000, timeout=60)
    assert time.monotonic() - started < 30  # a millisecond each is ample; to compile it again takes ten times that
    assert done.out.count('"allow"') >= 2000


def test_a_consumer_that_is_gone_ends_it_quietly() -> None:
    with running() as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(json.dumps({"action": THINK}).encode() + b"\n")
        assert process.wait(timeout=PATIENCE) == 1
        assert process.stderr.read() == b""


def test_an_interrupt_ends_it_quietly() -> None:
    with running() as process:
        exchange(process, json.dumps({"action": THINK}).encode())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_ends_that_do_not_block_are_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)  # holds for the child's copy too
        child = subprocess.Popen(
            [*COMMAND, "check", "--batch"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            env=environment(None),
        )
        ours.settimeout(PATIENCE)
        ours.sendall(json.dumps({"action": THINK}).encode() + b"\n")
        assert b'"allow"' in ours.recv(65536)
        ours.shutdown(socket.SHUT_WR)
        assert child.communicate(timeout=PATIENCE)[1] == b""
        assert child.returncode == 0


def test_standard_streams_that_are_closed_cost_no_traceback() -> None:
    shell = "exec 3>&2; " + " ".join(f"'{word}'" for word in COMMAND)
    for closing, code in (("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 1)):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{shell} check --batch {closing}"],
            input=json.dumps({"action": THINK}).encode() + b"\n",
            capture_output=True,
            env=environment(None),
            check=False,
            timeout=PATIENCE,
        )
        assert (done.returncode, b"Traceback" in done.stderr, b"internal" in done.stderr) == (code, False, False), (
            closing
        )


def test_memory_does_not_grow_with_the_number_of_roots(tmp_path: Path) -> None:
    answers = BatchAnswers(GIVEN)
    for number in range(2 * MOST_POLICIES):
        answers.answer(question(tmp_path / str(number), TOOL))
    assert len(answers._known) == MOST_POLICIES  # noqa: SLF001 -- what is kept has no other outward sign
