"""Damaged input breaks no promise of a reader. `make fuzz TARGET=NAME FUZZ_SECONDS=600` goes on for longer."""

import shutil

import pytest

import amounts
from byleave.sandbox.native import build
from fuzzing.__main__ import fuzz
from fuzzing.mutate import Mutator
from fuzzing.native import NATIVE
from fuzzing.targets import TARGETS, BrokenPromiseError

NUMBER = 20260101


@pytest.mark.parametrize("name", TARGETS)
def test_no_damaged_input_breaks_a_promise(name: str) -> None:
    tried, broken = fuzz(name, amounts.of(600, 10), NUMBER, most=amounts.of(1 << 60, 300))
    assert (tried > 200, broken) == (True, [])


@amounts.slow
@pytest.mark.skipif(build.find_compiler() is None or shutil.which("bwrap") is None, reason="needs cc and bwrap")
@pytest.mark.parametrize("name", NATIVE)
def test_no_damaged_input_is_an_error_to_a_sanitizer(name: str) -> None:
    tried, broken = fuzz(name, 600, NUMBER)
    assert (tried > 1000, broken) == (True, [])


def test_the_same_number_makes_the_same_inputs() -> None:
    first, second = (Mutator(NUMBER, [b"abc", b"def"]) for _ in range(2))
    assert [first.next() for _ in range(200)] == [second.next() for _ in range(200)]


def test_a_reader_that_breaks_a_promise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_data: bytes) -> None:
        raise BrokenPromiseError("it does")

    monkeypatch.setitem(TARGETS, "http", (never, lambda: [b"x"]))
    tried, broken = fuzz("http", 10, NUMBER)
    assert (tried, len(broken)) == (5, 5)
    assert "it does" in broken[0][1]
