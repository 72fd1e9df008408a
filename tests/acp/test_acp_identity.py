"""Whatever is not the proxy's business passes as the bytes it is, in order, however it is cut, both ways at once."""

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.acp.relay import TO_AGENT, TO_CLIENT, Relay, Send, make_relay
from byleave.guard.evaluation import Who
from byleave.policy.dirs import UserDirs
from byleave.policy.load import Workspace
from command import PATIENCE
from fakes.acp_parties import Party, Proxy, Scene, proxy

METHODS = (
    "session/update", "session/cancel", "session/prompt", "session/new", "session/load", "session/set_mode",
    "initialize", "terminal/output", "terminal/release", "terminal/kill", "$/cancel_request", "_vendor/thing",
    "authenticate", "", "Session/Update", "session/request_permissions", "elicitation/create", "fs", "terminal/createX",
)  # fmt: skip
ONLY_OF_AGENTS = ("session/request_permission", "fs/read_text_file", "fs/write_text_file", "terminal/create", "fs/x")
MEMBERS = (
    "jsonrpc",
    "id",
    "id",
    "method",
    "method",
    "params",
    "params",
    "result",
    "error",
    "_meta",
    "Method",
    "ID",
    "",
)
KEYS = ("sessionId", "update", "sessionUpdate", "toolCallId", "status", "kind", "rawInput", "outcome", "_meta", "x", "")
TEXTS = (
    "",
    "s",
    "tool_call",
    "completed",
    "päper",
    "\U0001f512",
    "a/b",
    'quo"te',
    "back\\slash",
    "\u2028",
    "\x7f",
    "\0",
)
ATOMS = ("null", "true", "false", "0", "-0", "1", "1.0", "7e2", "1E-400", "0.1", "-1", "1e999", f"1{'0' * 30}")
UPDATE = (
    '{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","kind":"execute","title":"ls",'
    '"rawInput":{"command":"ls","command":"rm"},"status":"completed"}}'
)
NOT_JSON = (
    b"", b"\r", b" ", b"[]", b"null", b"3", b'"text"', b'{"id":', b"{}", b"{}{}", b"\xef\xbb\xbf{}", b"\x00",
    b"\xff\xfe", b'{"method":"session/update"', b"{'method': 'x'}", b'{"id":NaN,"method":"x"}', b"Content-Length: 3",
    b'{"a":"\xff"}', b'[{"jsonrpc":"2.0","id":1,"method":"_batch"}]', b'\xed\xa0\x80{"method":"x"}',
    b"DEBUG starting\r", b'{"a":1}\r{"method":"x"}',
)  # fmt: skip


class Writer:
    """Writes messages, more or less, in all the ways in which JSON can be written, and sometimes something else."""

    def __init__(self, chance: Random, methods: tuple[str, ...]) -> None:
        self._chance = chance
        self._methods = methods

    def lines(self) -> list[bytes]:
        return [self._line() + b"\n" for _ in range(self._chance.randrange(8))]

    def _line(self) -> bytes:
        if self._chance.random() < 0.2:
            return self._chance.choice((*NOT_JSON, self._chance.randbytes(9).replace(b"\n", b"")))
        return f"{self._blank()}{self._message()}{self._chance.choice(('', '', ' ', chr(13)))}".encode()

    def _message(self) -> str:
        """Members may be there twice, and in any order."""
        names = self._chance.choices(MEMBERS, k=self._chance.randrange(1, 6))
        return self._joined("{}", [self._pair(name, self._member(name)) for name in names])

    def _member(self, name: str) -> str:
        if name.casefold() == "method":
            return self._text(self._chance.choice(self._methods))
        return UPDATE if name == "params" and self._chance.random() < 0.3 else self._tree(3)

    def _tree(self, depth: int) -> str:
        few = range(self._chance.randrange(4))
        match self._chance.randrange(4 if depth else 2):
            case 0:
                return self._chance.choice(ATOMS)
            case 1:
                return self._text(self._chance.choice(TEXTS))
            case 2:
                return self._joined("[]", [self._tree(depth - 1) for _ in few])
        return self._joined("{}", [self._pair(self._chance.choice(KEYS), self._tree(depth - 1)) for _ in few])

    def _pair(self, name: str, value: str) -> str:
        return f"{self._text(name)}{self._blank()}:{self._blank()}{value}"

    def _joined(self, brackets: str, parts: list[str]) -> str:
        inside = ",".join(f"{self._blank()}{part}{self._blank()}" for part in parts)
        return f"{brackets[0]}{inside or self._blank()}{brackets[1]}"

    def _text(self, value: str) -> str:
        written = json.dumps(value, ensure_ascii=self._chance.random() < 0.5)
        match self._chance.randrange(6):
            case 0:
                return written.replace("/", "\\/")
            case 1 if value[:1].isascii() and value[:1].isalpha():
                return f'"\\u{ord(value[0]):04X}{written[2:]}'
        return written

    def _blank(self) -> str:
        return self._chance.choice(("", "", "", "", "", " ", "  ", "\t"))


def agent_lines(chance: Random) -> list[bytes]:
    return Writer(chance, METHODS).lines()


def editor_lines(chance: Random) -> list[bytes]:
    return Writer(chance, (*METHODS, *ONLY_OF_AGENTS)).lines()


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 -- nothing here is a secret


chances = st.integers(0, 2**32).map(seeded)


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One proxy for everything here: it has heard a lot by the end."""
    base = tmp_path_factory.mktemp("identity")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BYLEAVE_HOME", str(base / "home"))
        with proxy(Scene(base), "-q") as running:
            yield running


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    base = tmp_path_factory.mktemp("relay")
    home = str(base / "home")
    homes = UserDirs(config=home, state=home, memory=f"{home}/cache", managed=str(base / "etc"), user=home)
    (base / "ws").mkdir()
    made = make_relay(Workspace(str(base / "ws"), homes=homes), who=Who(None, "default"))
    yield made
    made.close()


def pieces(data: bytes, chance: Random) -> list[bytes]:
    """Return data, cut in a few places."""
    places = sorted(chance.choices(range(len(data) + 1), k=chance.randrange(7)))
    return [data[start:end] for start, end in pairwise((0, *places, len(data)))]


def passes(speaker: Party, listener: Party, lines: list[bytes], chance: Random) -> None:
    """Say lines, cut anywhere, and let the other one hear the very same, and nothing else."""
    mark = json.dumps({"jsonrpc": "2.0", "method": "_mark", "params": uuid.uuid4().hex}).encode() + b"\n"
    said = b"".join(lines) + mark
    for piece in pieces(said, chance):
        speaker.write(piece)
    heard = b""
    while not heard.endswith(mark):
        line = listener.line()
        assert line, "the end came too early"
        heard += line
    assert heard == said


def pass_both_ways(between: Proxy, agents: list[bytes], editors: list[bytes], chance: Random) -> None:
    cuts = seeded(chance.getrandbits(32)), seeded(chance.getrandbits(32))
    with ThreadPoolExecutor(2) as both:
        jobs = [
            both.submit(passes, between.agent, between.client, agents, cuts[0]),
            both.submit(passes, between.client, between.agent, editors, cuts[1]),
        ]
        assert [job.result(PATIENCE) for job in jobs] == [None, None]  # `passes` compares what arrives


@settings(max_examples=amounts.of(200, 60))
@given(chances)
def test_both_directions_at_once_arrive_as_they_were_written(between: Proxy, chance: Random) -> None:
    pass_both_ways(between, agent_lines(chance), editor_lines(chance), chance)


def test_large_messages_pass_both_ways_at_once(between: Proxy) -> None:
    text = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"text": "päper " * 400_000}})
    lines = [text.encode() + b"\n", b'{"x":"' + b"y" * (3 << 20) + b'"}\n', b"z" * (1 << 20) + b"\n"]
    pass_both_ways(between, lines * 2, lines * 2, seeded(1))


@settings(max_examples=amounts.of(1500, 300))
@given(chances)
def test_the_relay_hands_everything_on_that_is_not_its_business(relay: Relay, chance: Random) -> None:
    for line in agent_lines(chance):
        assert relay.from_agent(line) in (None, [Send(TO_CLIENT, line)])
    for line in editor_lines(chance):
        assert relay.from_client(line) in (None, [Send(TO_AGENT, line)])
    assert relay.tick() == []


@pytest.mark.parametrize("last", [b'{"jsonrpc":"2.0","method":"_x"}', b"no JSON at all", b'{"half":'])
def test_a_last_line_without_an_end_passes_without_one(last: bytes, tmp_path: Path) -> None:
    with proxy(Scene(tmp_path)) as running:
        running.client.write(last)
        running.client.leaves()
        assert [running.agent.line(), running.agent.line()] == [last, b""]
        running.agent.write(last)
        running.agent.leaves()
        assert [running.client.line(), running.client.line()] == [last, b""]
        assert running.process.wait(PATIENCE) == 0
