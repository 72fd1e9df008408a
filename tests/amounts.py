"""How much is tried: what every change waits for, or everything (`make slow`)."""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
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


def left_out(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that only `make slow` runs: of one marked `sampled(3)` all arguments but each third.

    Of the functions of a module, one begins with its first arguments, the next one with its second ones, so that
    what they have in common is tried by some of them.
    """
    if SLOW:
        return []
    modules: dict[object, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            modules[item.path][item.nodeid.partition("[")[0]].append(item)
    left = []
    for functions in modules.values():
        for number, each in enumerate(functions.values()):
            marker = each[0].get_closest_marker("sampled")
            every = int(marker.args[0]) if marker is not None else 1
            kept = each[number % min(every, len(each)) :: every]
            left += [item for item in each if item not in kept]
    return left
