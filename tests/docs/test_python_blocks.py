"""The Python of the pages runs, in a project as `byleave init` leaves it; that of docs/sdk.md is run by tests/sdk."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from command import byleave, environment
from corpora.room import why_no_room

CHECKOUT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
    if page.name != "sdk.md" and BLOCK.search(page.read_text())
]
BEFORE = 'root = "."\n'
needs_sandbox = pytest.mark.skipif(why_no_room() is not None, reason=str(why_no_room()))


def run_blocks(text: str, project: Path) -> str:
    """Run all blocks of a page as one program, and return what it wrote to standard error if it failed."""
    code = BEFORE + "\n".join(BLOCK.findall(text)).replace('__name__ == "__main__"', "False")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env=environment({"HOME": str(project.parent), "BYLEAVE_HOME": None}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stderr if done.returncode else ""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "ana" / "shop"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.rs").write_text("fn main() {}\n")
    (made / "README.md").write_text("# Shop\n")
    for words in (["init"], ["trust", "--yes"]):
        done = byleave(*words, cwd=made, env={"HOME": str(made.parent), "BYLEAVE_HOME": None})
        assert done.code == 0, done
    return made


@needs_sandbox
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_the_python_of_a_page_runs(page: Path, project: Path) -> None:
    assert run_blocks(page.read_text(), project) == ""


def test_python_that_fails_is_noticed(project: Path) -> None:
    text = "```python\nimport byleave\n```\n\n```python\nbyleave.no_such_name\n```\n"
    assert "no_such_name" in run_blocks(text, project)
