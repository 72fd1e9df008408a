"""The bar of long commands: at a terminal only, within its width, and gone in the end."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.cli import progress
from byleave.cli.progress import ProgressBar, bar


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text(alphabet="ab ", max_size=60), st.floats(0, 1), st.integers(1, 200))
def test_the_bar_never_reaches_the_last_column(title: str, share: float, columns: int) -> None:
    assert len(bar(title, share, columns)) < max(columns, 1)


def test_nothing_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    screen = Screen()
    with ProgressBar(None, "reading", screen) as drawn:
        drawn(5, 10)
    rows = screen.getvalue().split("\r")
    assert ("50%" in rows[1], rows[-1], rows[-2].strip()) == (True, "", "")


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    stream = io.StringIO()
    with ProgressBar(None, "reading", stream) as drawn:
        drawn(5, 10)
    assert stream.getvalue() == ""


def test_what_is_done_at_once_needs_no_bar() -> None:
    screen = Screen()
    with ProgressBar(None, "reading", screen) as drawn:
        drawn(10, 10)
    assert screen.getvalue() == ""


def test_no_record_at_all_is_all_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    with (tmp_path / "file").open("w") as file:
        ProgressBar(None, "reading", file)(0, 0)
    screen = Screen()
    ProgressBar(None, "reading", screen)(0, 0)
    assert "100%" in screen.getvalue()
