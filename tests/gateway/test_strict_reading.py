"""A name that is given twice is noticed wherever it stands and however it is spelled."""

import random

import pytest

from byleave.gateway.message import ClientMessage, RefusedMessage, read_client_message
from byleave.protocol.json_members import repeats_a_name

TEXTS = ('"a"', '":"', '"\\\\"', '"\\":\\""', '"{:}"', '"\\u003a"', '"é:"', '""')
NAMES = ('"a"', '"b"', '"\\u0061"', '"c:"', '"c\\u003a"', '""', '"\\""', '"\\\\"')
SEED = 20260728


def call(arguments: str) -> bytes:
    params = f'{{"name":"t","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()


@pytest.mark.parametrize(
    "arguments",
    ['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '{"x":[{"y":{"z:":1,"z\\u003a":2}}]}', '{"a":":","b":{"c":1,"c":":"}}'],
)
def test_a_name_given_twice_is_refused(arguments: str) -> None:
    said = read_client_message(call(arguments))
    assert isinstance(said, RefusedMessage)
    assert "twice" in said.problem


@pytest.mark.parametrize(
    "arguments",
    ['{"a":":::","b":"\\"a\\":1"}', '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}', '{"url":"http://x/:\\\\"}'],
)
def test_colons_in_texts_and_equal_names_of_different_objects_are_no_repetition(arguments: str) -> None:
    assert isinstance(read_client_message(call(arguments)), ClientMessage)


def test_it_agrees_with_a_reader_that_looks_at_every_pair() -> None:
    chance = random.Random(SEED)  # noqa: S311 -- for tests, not for secrets
    seen = set()
    for _ in range(3_000):
        arguments = f"{{{members(chance, 0)}}}"
        twice = repeats_a_name(arguments)
        assert isinstance(read_client_message(call(arguments)), RefusedMessage) is twice, arguments
        seen.add(twice)
    assert seen == {True, False}


def members(chance: random.Random, depth: int) -> str:
    blank = chance.choice(("", " "))
    given = [f"{chance.choice(NAMES)}{blank}:{blank}{value(chance, depth + 1)}" for _ in range(chance.randint(0, 3))]
    return f"{blank},".join(given)


def value(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if depth > 3 or kind < 0.4:
        return chance.choice((*TEXTS, "1", "-2.5e3", "null", "true"))
    if kind < 0.6:
        return f"[{','.join(value(chance, depth + 1) for _ in range(chance.randint(0, 3)))}]"
    return f"{{{members(chance, depth)}}}"
