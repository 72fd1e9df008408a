"""How much is tried: what every change waits for, or everything (`make slow`)."""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

_T = TypeVar("_T")

SLOW = "BYLEAVE_SLOW_TESTS" in os.environ
slow = pytest.mark.skipif(not SLOW, reason="slow: set BYLEAVE_SLOW_TESTS to run it")


def of(everything: int, usually: int) -> int:
    """Return how many are tried of something of which there are more than every change can wait for."""
    return everything if SLOW else usually


def some(everything: Sequence[_T], *, every: int, first: int = 0) -> Sequence[_T]:
    """Return all of them, or one of them and each `every`-th after it: the same in every run."""
    return everything if SLOW else everything[first::every]
