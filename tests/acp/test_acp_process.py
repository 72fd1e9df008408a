"""The proxy as a process: bytes, streams, exit codes, and what an agent inherits."""

import json
import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.acp import proxy
from byleave.acp.proxy import Source, TooLongError
from byleave.acp.supervisor import GIVE_UP, KILL, TERMINATE, Shutdown, ShutdownTimes
from command import COMMAND, byleave
from fakes.acp_conversation import COMMAND_LINE, FLOOD, Conversation, agent, conversation, nothing_left, quickly
from sandbox.machine import needs_sandbox

ODD_LINES = (
    b"\n",
    b"\r\n",
    b"not JSON\n",
    b"\xff\xfe\x00\n",
    b"[1, 2]\n",
    b'"text"\n',
    b'{"jsonrpc": "2.0"\n',
    b'{"a": 1, "a": 2}\n',
    b"{}\r\r\n",
    b"\xef\xbb\xbf{}\n",
    b' {"method" : "x/y" , "id" : 1e0 }  \n',
)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversation]:
    """An agent that sends everything back, through the real command; one for all, since nothing is remembered."""
    place = tmp_path_factory.mktemp("echo")
    home = str(tmp_path_factory.mktemp("home"))
    with conversation(agent(place, "echoes"), place, env={"BYLEAVE_HOME": home}) as talk:
        talk.deadline += 600  # of all the tests together
        yield talk


@settings(max_examples=amounts.of(60, 30))
@given(st.lists(st.binary(max_size=200) | st.sampled_from(ODD_LINES), max_size=12))
def test_whatever_is_said_arrives_as_it_is_however_it_is_cut(echo: Conversation, pieces: list[bytes]) -> None:
    pieces = [*pieces, b"\n"]
    for piece in pieces:
        if piece:
            echo.send(piece)
    assert echo.hear(len(b"".join(pieces))) == b"".join(pieces)


def test_a_line_of_a_hundred_megabytes_passes_both_ways(echo: Conversation) -> None:
    line = b'{"jsonrpc":"2.0","method":"session/update","params":{"text":"' + b"x" * 100_000_000 + b'"}}\n'
    sending = echo.send_meanwhile(line)
    heard = echo.hear(len(line))
    sending.join()
    assert heard == line


def test_many_lines_at_once_arrive_in_order(echo: Conversation) -> None:
    lines = b"".join(b'{"jsonrpc":"2.0","method":"m","params":%d}\n' % number for number in range(20_000))
    sending = echo.send_meanwhile(lines)
    assert echo.hear(len(lines)) == lines
    sending.join()


def test_the_last_line_needs_no_end(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "echoes"), tmp_path) as talk:
        talk.send(b'{"id":1}\nwithout an end')
        assert talk.ends() == (0, b'{"id":1}\nwithout an end', b"")
    nothing_left(tmp_path)


def test_what_the_agent_says_after_the_client_has_closed_its_input_still_arrives(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "goes_on"), tmp_path) as talk:
        assert talk.ends() == (3, b"after the end\n", b"")


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_code_and_standard_error_are_the_agents_own(tmp_path: Path, code: int) -> None:
    with conversation(agent(tmp_path, "leaves", str(code)), tmp_path) as talk:
        assert talk.hear_all() == b"out\n"
        assert talk.code() == code
        assert talk.ends() == (code, b"", b"err \xff\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_an_agent_that_a_signal_ends_has_an_exit_code_as_in_a_shell(tmp_path: Path, number: int) -> None:
    with conversation(agent(tmp_path, "is_signalled", str(number)), tmp_path) as talk:
        assert talk.code() == 128 + number


def test_the_agent_inherits_what_it_would_have_without_us(tmp_path: Path) -> None:
    place = tmp_path / "plac\u00e9"
    place.mkdir()
    command = agent(place, "describes_itself")
    odd = {b"ODD": b"\xff\xfe", b"EMPTY": b"", b"LC_ALL": b"C"}
    env = {**{key: value for key, value in os.environb.items() if key != b"LC_CTYPE"}, **odd}
    told = []
    with open(os.devnull, "wb") as elsewhere:
        for through in ((), COMMAND_LINE):
            subprocess.run(
                [*through, *command],
                cwd=place,
                env=env,
                check=True,
                timeout=30,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[elsewhere.fileno()] if through else [],
            )
            told.append(json.loads((place / "itself").read_text()))
    direct, proxied = told
    assert proxied.pop("leads_group"), "or a signal to its group would reach byleave too"
    del direct["leads_group"]
    assert proxied.pop("stderr").startswith("pipe:")
    del direct["stderr"]
    assert proxied["descriptors"] == [0, 1, 2]
    assert proxied == direct


MISSING = ("no-such-agent", 127, "there is no such program")
NOT_A_PROGRAM = ("data.txt", 126, "permission denied")


@pytest.mark.parametrize(("name", "code", "why"), [MISSING, NOT_A_PROGRAM])
def test_an_agent_that_cannot_be_started_is_said_on_standard_error_alone(
    tmp_path: Path, name: str, code: int, why: str
) -> None:
    (tmp_path / "data.txt").write_text("x")
    done = byleave("acp", "--", str(tmp_path / name), cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert f'byleave: the agent "{tmp_path / name}" cannot be started: {why}\n  hint: ' in done.err


MISUSES = {
    "no agent": ([], "no agent was named"),
    "a tool without a sandbox": (["--tool", "t", "--", "x"], "--tool says what holds in a sandbox"),
    "an access file without a sandbox": (["--access", "f", "--", "x"], "--access says what holds in a sandbox"),
    "no name": (["--agent-profile=", "--", "x"], "the name of the agent is empty"),
    "a log that is a directory": (["--log", ".", "--", "touch", "started"], 'the log "." cannot be opened'),
    "a log in no directory": (["--log", "no/log", "--", "touch", "started"], 'the log "no/log" cannot be opened'),
    "an invalid policy": (["--policy", "bad.toml", "--", "touch", "started"], "bad.toml:1"),
    "a mount without consent": (["--mount", "t:a=/usr", "--", "touch", "started"], "byleave: "),
}


@pytest.mark.parametrize(("words", "told"), MISUSES.values(), ids=MISUSES.keys())
def test_whatever_is_wrong_at_the_start_is_said_on_standard_error_and_nothing_is_started(
    tmp_path: Path, words: list[str], told: str
) -> None:
    (tmp_path / "bad.toml").write_text("rules = 1\n")
    done = byleave("acp", "--json", *words, cwd=tmp_path)
    assert (done.code, done.out) == (2, ""), done
    assert told in done.err
    assert not (tmp_path / "started").exists()


def test_what_a_mount_has_to_say_is_no_part_of_the_conversation(tmp_path: Path, own_home: Path) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    rule = '[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "x"\nread = true\n'
    (own_home / "config.toml").write_text(rule)
    words = ["--root", str(root), "--mount", "t:fork=../outside", "--yes"]
    done = byleave("acp", *words, "--", *agent(tmp_path, "leaves", "0"), cwd=root)
    assert (done.code, done.out) == (0, "out\n"), done
    assert (root / "fork").resolve() == outside


PERMISSION = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "session/request_permission",
    "params": {
        "sessionId": "s",
        "toolCall": {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "rm -rf /"}},
        "options": [
            {"optionId": "y", "name": "Yes", "kind": "allow_once"},
            {"optionId": "n", "name": "No", "kind": "reject_once"},
        ],
    },
}


def test_what_is_judged_is_answered_and_logged_for_the_user_alone(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[[rules]]\ndeny = { command = "rm" }\n')
    asking = f"import sys; print({json.dumps(PERMISSION)!r}, flush=True); sys.stderr.write(sys.stdin.readline())"
    words = ["acp", "--policy", "p.toml", "--log", "log", "--agent-profile", "bot", "--", sys.executable, "-c", asking]
    for _ in range(2):
        with conversation(words, tmp_path, through=tuple(COMMAND)) as talk:
            assert talk.hear_all() == b""
            code, _out, err = talk.ends()
        assert (code, json.loads(err)["result"]["outcome"]["optionId"]) == (0, "n")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["verdict"]["decision"] for line in lines] == ["deny", "deny"]
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_an_agent_may_ask_on_and_on_before_it_reads_the_answers(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "asks_without_listening"), tmp_path, through=quickly("answers")) as talk:
        assert talk.hear(len(b"answered\n")) == b"answered\n"
        assert talk.ends() == (0, b"", b"closed\n")


def test_a_client_may_ask_on_and_on_before_it_reads_the_answers(tmp_path: Path) -> None:
    asked = [b"ping %d\n" % number for number in range(200_000)]
    with conversation(agent(tmp_path, "waits"), tmp_path, through=quickly("answers")) as talk:
        talk.send(b"".join(asked))
        answers = b"".join(b"pong " + line for line in asked)
        assert talk.hear(len(answers)) == answers
        assert talk.ends()[0] == 0


def test_answers_and_what_is_forwarded_keep_their_order(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "asks", "5000"), tmp_path, through=quickly("answers")) as talk:
        told = b"".join(b"told %d\n" % number for number in range(5000))
        assert talk.hear(len(told)) == told
        answers = b"".join(b"answer ask %d\n" % number for number in range(5000))
        assert talk.hear(len(answers)) == answers
        talk.send(b"one\nping\ntwo\n")
        assert sorted(talk.hear(17).splitlines()) == [b"one", b"pong ping", b"two"]
        assert talk.ends()[0] == 0


def test_what_the_relay_says_in_time_reaches_both(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "echoes"), tmp_path, through=quickly("ticks")) as talk:
        talk.send(b"begin\n")
        heard = talk.hear(len(b"begin\ntime is up\nfor you too\n"))
        assert sorted(heard.splitlines()) == [b"begin", b"for you too", b"time is up"]


@pytest.mark.parametrize("relay", ["breaks", "breaks_in_time"])
def test_a_defect_of_ours_ends_the_conversation_and_lets_nothing_through(tmp_path: Path, relay: str) -> None:
    with conversation(agent(tmp_path, "echoes"), tmp_path, through=quickly(relay)) as talk:
        if relay == "breaks":
            talk.send(b"boom\n")
        assert talk.hear_all() == b""
        code, _out, err = talk.ends()
    assert code == 1
    assert b"internal error, so the conversation was ended: RuntimeError: a " in err
    assert b"\x1b" not in err
    nothing_left(tmp_path)


def test_a_client_that_floods_an_agent_is_held_back(tmp_path: Path) -> None:
    with conversation(agent(tmp_path, "reads_late"), tmp_path) as talk:
        talk.note("ready")
        os.set_blocking(talk.sending, False)
        sent = 0
        while select.select([], [talk.sending], [], 0.5)[1]:
            sent += os.write(talk.sending, FLOOD)
            assert sent < 8 << 20, "nobody holds it back"
        (tmp_path / "read").touch()
        assert talk.ends() == (0, b"%d\n" % sent, b"")


def test_a_line_without_end_is_given_up_before_it_takes_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "LONGEST_LINE", 100_000)
    reading, writing = os.pipe()
    os.write(writing, b"x" * 60_000)
    lines = Source(reading).whole_lines()
    os.write(writing, b"\n")
    assert next(lines) == b"x" * 60_000 + b"\n"
    os.write(writing, b"x" * 60_000)
    os.close(writing)
    assert next(lines) == b"x" * 60_000
    os.close(reading)
    with open("/dev/zero", "rb") as endless, pytest.raises(TooLongError):
        next(Source(endless.fileno()).whole_lines())


def test_the_way_to_the_end_becomes_shorter_and_never_longer() -> None:
    ending = Shutdown(ShutdownTimes())
    assert (ending.next(), ending.due(100.0)) == (None, None)
    ending.begin((5.0, 8.0), 0.0)
    ending.begin((2.0, 9.0), 1.0)
    assert (ending.next(), ending.due(2.9), ending.due(3.0), ending.due(3.0)) == (3.0, None, TERMINATE, None)
    assert (ending.due(8.0), ending.due(8.5), ending.due(9.0), ending.next()) == (KILL, None, GIVE_UP, None)
    ending.begin((0.0, 0.0), 10.0)
    assert ending.due(10.5) is None, "it was killed already"


@needs_sandbox
def test_an_agent_in_a_sandbox_is_held_by_it(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    looking = 'cat; cat ../outside.txt; echo here > made.txt; echo "$SECRET"; exit 9'
    words = ["acp", "-q", "--sandbox", "--root", str(root), "--", "sh", "-c", looking]
    with conversation(words, root, through=tuple(COMMAND), env={"SECRET": "secret"}) as talk:
        talk.send(b"hello\n")
        code, out, err = talk.ends()
    assert (code, out) == (9, b"hello\n\n")
    assert b"outside.txt" in err
    assert (root / "made.txt").read_text() == "here\n"


SANDBOXED = {
    "an agent that there is not": (["--", "no-such-agent"], 127, "was not found"),
    "two ways to say what holds": (["--tool", "t", "--access", "f", "--", "sh"], 2, "--tool and --access"),
    "a tool that there is not": (["--tool", "nobody", "--", "sh"], 2, "nobody"),
    "an agent that the tool may not start": (["--access", "access.toml", "--", "sh"], 20, "sh"),
}


@needs_sandbox
@pytest.mark.parametrize(("words", "code", "told"), SANDBOXED.values(), ids=SANDBOXED.keys())
def test_an_agent_that_cannot_run_in_its_sandbox_is_said_on_standard_error(
    tmp_path: Path, words: list[str], code: int, told: str
) -> None:
    (tmp_path / "access.toml").write_text("[access.commands.git]\n")
    done = byleave("acp", "--sandbox", "--json", *words, cwd=tmp_path)
    assert (done.code, done.out) == (code, ""), done
    assert told in done.err


@needs_sandbox
def test_an_agent_in_a_sandbox_has_no_longer_than_its_limit(tmp_path: Path) -> None:
    (tmp_path / "access.toml").write_text("[limits]\nwall_time = 0.3\n")
    words = ["acp", "-q", "--sandbox", "--access", "access.toml", "--", "sleep", "60"]
    with conversation(words, tmp_path, through=tuple(COMMAND)) as talk:
        assert talk.code() == 124


@needs_sandbox
def test_an_agent_in_a_sandbox_ends_when_byleave_is_told_to(tmp_path: Path) -> None:
    looking = "trap '' TERM; touch ready; while :; do sleep 1; done"
    words = ["acp", "-q", "--sandbox", "--", "sh", "-c", looking, str(tmp_path)]
    with conversation(words, tmp_path, through=tuple(COMMAND)) as talk:
        talk.note("ready")
        talk.process.terminate()
        talk.process.terminate()
        talk.process.send_signal(signal.SIGINT)
        assert talk.code() == 137
        nothing_left(tmp_path)
