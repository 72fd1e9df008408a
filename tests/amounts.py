"""How much is tried: what every change waits for, or everything (`make slow`)."""

import os

import pytest

SLOW = "BYLEAVE_SLOW_TESTS" in os.environ
slow = pytest.mark.skipif(not SLOW, reason="slow: set BYLEAVE_SLOW_TESTS to run it")


def of(everything: int, usually: int) -> int:
    """Return how many are tried of something of which there are more than every change can wait for."""
    return everything if SLOW else usually
