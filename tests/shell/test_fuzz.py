"""What a shell runs is what the reader said.

Bounded and with fixed seeds here; for longer: `PYTHONPATH=tests python -m shell.fuzz`.
"""

import pytest

import amounts
from byleave.shell.syntax import cursor
from shell.corpus import corpus
from shell.fuzz import fuzz
from shell.oracle import BASH, DASH, ZSH, box

pytestmark = pytest.mark.long

TEXTS = amounts.of(400, 60)
SECONDS = 60  # for a machine that is slow: the number of texts ends it


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@pytest.mark.parametrize("seed", range(amounts.of(8, 4)))
def test_the_reader_agrees_with_bash(seed: int) -> None:
    with box() as where:
        result = fuzz(seed, SECONDS, where, corpus(), most=TEXTS)
    assert result.differences == ()
    assert result.run > 0


@pytest.mark.skipif(not DASH, reason="dash is not installed")
@pytest.mark.parametrize("seed", range(amounts.of(4, 2)))
def test_the_reader_agrees_with_dash(seed: int) -> None:
    with box(cursor.POSIX) as where:
        result = fuzz(seed, SECONDS, where, corpus(), most=TEXTS)
    assert result.differences == ()
    assert result.run > 0


@pytest.mark.skipif(not ZSH, reason="zsh is not installed")
@pytest.mark.parametrize("seed", range(amounts.of(4, 2)))
def test_the_reader_agrees_with_zsh(seed: int) -> None:
    with box(cursor.ZSH) as where:
        result = fuzz(seed, SECONDS, where, corpus(), most=TEXTS)
    assert result.differences == ()
    assert result.run > 0
