"""The picture of the terminal shows what happens: `make screenshots` draws it again."""

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from corpora.room import why_no_room

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "terminal_picture.py"
needs_programs = pytest.mark.skipif(
    why_no_room() is not None or any(shutil.which(name) is None for name in ("git", "make", "curl")),
    reason="nothing can be confined here, or git, make or curl is missing",
)

if not SCRIPT.exists():
    pytest.skip("not run from a checkout", allow_module_level=True)


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("terminal_picture", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


terminal_picture = load()


@needs_programs
def test_the_picture_shows_what_the_agent_meets() -> None:
    drawn = terminal_picture.draw(terminal_picture.capture())
    assert terminal_picture.PICTURE.read_text() == drawn, "run `make screenshots`"


def test_colours_and_long_lines_are_drawn_as_a_terminal_shows_them() -> None:
    drawn = terminal_picture.draw("\x1b[31mno\x1b[0m <b>\n" + 81 * "x")
    assert f'fill="{terminal_picture.COLOURS["31"]}" textLength="16.8">no</text>' in drawn
    assert "> &lt;b&gt;</text>" in drawn
    assert drawn.count("<text") == 4
