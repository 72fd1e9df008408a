"""Whatever way a denied request is written: no editor, however it reads JSON, gets to see it."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.acp.relay import TO_CLIENT, Relay, make_relay
from byleave.acp.requests import intercepts
from byleave.guard.evaluation import Who
from byleave.policy.dirs import UserDirs
from byleave.policy.load import Workspace

POLICY = '[[rules]]\ndeny = { command = "rm" }\n[[rules]]\ndeny = { path = "secret/**" }\n'
OPTIONS = [
    {"optionId": "y", "name": "Allow", "kind": "allow_once"},
    {"optionId": "n", "name": "Reject", "kind": "reject_once"},
]
RUN = {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "rm -rf /"}}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("session/request_permission", {"sessionId": "s", "toolCall": RUN, "options": OPTIONS}),
    ("fs/write_text_file", {"sessionId": "s", "path": "$WS/secret/x", "content": "x"}),
    ("fs/read_text_file", {"sessionId": "s", "path": "$WS/secret/x"}),
    ("terminal/create", {"sessionId": "s", "command": "rm", "args": ["x"]}),
]
IDS = (7, "7", None, 1e300, 1.5, True, [1])
OTHER_VALUES: tuple[Any, ...] = ("session/update", None, 1, {}, "x")
RUBBISH = (
    b"\xff", b"\xef\xbb\xbf", b"\r", b"\x00", b"\x0b", b"\x85", "\u2028".encode(), b"\\u0000", b"NaN", b" ", b"{}",
    b"\xed\xa0\x80", b"\xc0\xaf",
)  # fmt: skip
ENDS = re.compile("[\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
Pairs = list[tuple[str, Any]]


class Obfuscator:
    """Writes a request in ways that not everybody reads alike."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def line(self, root: str) -> bytes:
        method, params = self._chance.choice(REQUESTS)
        message = {"jsonrpc": "2.0", "id": self._chance.choice(IDS), "method": method, "params": params}
        written = self._tree(message).replace("$WS", root).encode()
        for _ in range(self._chance.choice((0, 0, 1, 1, 2))):
            at = self._chance.randrange(len(written) + 1)
            written = written[:at] + self._chance.choice(RUBBISH) + written[at:]
        return self._chance.choice((b"", b"", b"", b"", b'{"a":1}', b'{"a":1}\r')) + written + b"\n"

    def _tree(self, value: Any) -> str:
        if isinstance(value, dict) and value:
            return "{" + ",".join(self._pair(*pair) for pair in self._doubled(list(value.items()))) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(self._tree, value)) + "]"
        return f'"{self._escaped(value)}"' if isinstance(value, str) else json.dumps(value)

    def _doubled(self, pairs: Pairs) -> Pairs:
        """Give some names twice: with the same value or another one, in the same case or another one."""
        name, value = self._chance.choice(pairs)
        match self._chance.randrange(8):
            case 0:
                pairs.append((name, value))
            case 1:
                pairs.append((self._shouted(name), value))
            case 2:
                pairs.insert(0, (name, self._chance.choice(OTHER_VALUES)))
            case 3:
                pairs.append((name, self._chance.choice(OTHER_VALUES)))
            case 4:
                self._chance.shuffle(pairs)
        return pairs

    def _pair(self, name: str, value: Any) -> str:
        name = self._shouted(name) if self._chance.random() < 0.03 else name
        return (
            f'{self._blank()}"{self._escaped(name)}"{self._blank()}:{self._blank()}{self._tree(value)}{self._blank()}'
        )

    def _shouted(self, name: str) -> str:
        return "".join(letter.upper() if self._chance.random() < 0.3 else letter for letter in name)

    def _escaped(self, text: str) -> str:
        if "$WS" in text:
            return text
        return "".join(f"\\u{ord(letter):04x}" if self._chance.random() < 0.1 else letter for letter in text)

    def _blank(self) -> str:
        return self._chance.choice(("", "", "", "", " ", "\t", "\r"))


def last_wins(pairs: Pairs) -> dict[str, Any]:
    return dict(pairs)


def first_wins(pairs: Pairs) -> dict[str, Any]:
    return dict(reversed(pairs))


def in_any_case(pairs: Pairs) -> dict[str, Any]:
    return {name.casefold(): value for name, value in pairs}


def first_in_any_case(pairs: Pairs) -> dict[str, Any]:
    return {name.casefold(): value for name, value in reversed(pairs)}


HOOKS: tuple[Callable[[Pairs], dict[str, Any]], ...] = (last_wins, first_wins, in_any_case, first_in_any_case)


def readings(line: bytes) -> Iterator[Any]:
    """Yield what lenient readers make of a line: one that cuts it, one that repairs it, one that reads on."""
    text = line.decode("utf-8", "replace")
    for piece in {text, text.lstrip("\ufeff"), *ENDS.split(text), *text.split("\r")}:
        for hook in HOOKS:
            with suppress(ValueError):
                yield from values(json.JSONDecoder(strict=False, object_pairs_hook=hook), piece)


def values(decoder: json.JSONDecoder, text: str) -> Iterator[Any]:
    at = 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n"))
        value, at = decoder.raw_decode(text, at)
        yield value


def is_served(line: bytes) -> bool:
    """Whether some editor would find a request in this that is judged."""
    found = [value.get("method") for value in readings(line) if isinstance(value, dict)]
    return any(isinstance(method, str) and intercepts(method) for method in found)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("readers").resolve() / "ws"
    made.mkdir()
    return str(made)


@pytest.fixture(scope="module")
def relay(root: str) -> Iterator[Relay]:
    base = Path(root).parent
    (base / "policy.toml").write_text(POLICY)
    home = str(base / "home")
    homes = UserDirs(config=home, state=home, memory=f"{home}/cache", managed=str(base / "etc"), user=home)
    files = [str(base / "policy.toml")]
    made = make_relay(Workspace(root, homes=homes), who=Who(None, "default"), files=files, fixed=True)
    opening = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": root, "mcpServers": []}}
    made.from_client(json.dumps(opening).encode() + b"\n")
    made.from_agent(b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}\n')
    yield made
    made.close()


@settings(max_examples=amounts.of(600, 150))
@given(st.integers(0, 2**32))
def test_no_editor_sees_a_denied_request_however_it_is_written(relay: Relay, root: str, seed: int) -> None:
    line = Obfuscator(Random(seed)).line(root)  # noqa: S311 -- nothing here is a secret
    sent = relay.from_agent(line)
    passed = [line] if sent is None else [each.data for each in sent if each.to == TO_CLIENT]
    assert [each for each in passed if is_served(each)] == []
    relay.notices()
