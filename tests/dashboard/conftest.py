"""Fixtures of the dashboard's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.dashboard_scene import Room, room


@pytest.fixture
def served(tmp_path: Path, own_home: Path) -> Iterator[Room]:
    """Return a dashboard whose browser is not signed in yet."""
    with room(tmp_path, own_home) as opened:
        yield opened
        assert opened.warned == []


@pytest.fixture
def board(served: Room) -> Room:
    """Return a dashboard with a browser that is signed in."""
    return served.sign_in()
