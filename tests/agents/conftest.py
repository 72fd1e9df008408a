"""Real agents are driven only on demand: they are fetched from a registry, and take their time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.real_agents import model

HERE = Path(__file__).parent
WHY = "real agents are driven by `make test-agents` (BYLEAVE_AGENT_TESTS=1)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("BYLEAVE_AGENT_TESTS") != "1":
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=WHY))


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    """The address of a language model that says what its prompt tells it to."""
    with model() as url:
        yield url
