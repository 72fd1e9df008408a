"""What the pages show as configuration is configuration: the loader takes every block of TOML of README.md and docs."""

import re
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

from byleave.analysis.policy_tests import read_cases
from byleave.errors import ConfigErrors
from scene import Scene

CHECKOUT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```toml[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
BLOCKS = {
    f"{page.relative_to(CHECKOUT)}:{page.read_text()[: found.start()].count(chr(10)) + 1}": dedent(found[2])
    for page in PAGES
    for found in BLOCK.finditer(page.read_text())
}


def load(scene: Scene, block: str) -> None:
    """Load a block as a file of the user's own; another file has what a part of a tool leaves out: its source."""
    tools = tomllib.loads(block).get("tools", {})
    whole = "".join(f"[tools.{name}]\nsource = 'local'\n" for name, tool in tools.items() if "source" not in tool)
    scene.say("managed", whole)
    scene.say("user", block)
    scene.load()


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_what_a_page_shows_can_be_used(tmp_path: Path, block: str) -> None:
    scene = Scene.build(tmp_path)
    tree = tomllib.loads(block)
    if "case" in tree:  # of `byleave policy test`
        assert read_cases(block.encode(), "page").cases
    elif "access" in tree:  # of `byleave run --access`: what a tool has under its name
        load(scene, block.replace("[access", "[tools.t.access"))
    else:
        load(scene, block)


def test_a_key_that_does_not_exist_would_be_found(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(Scene.build(tmp_path), '[gateway.identity]\nissuer = "https://id.example.com"\n')
    assert 'unknown key "identity"' in str(caught.value)


def test_the_blocks_of_lists_are_found_too() -> None:
    assert len(BLOCKS) >= 30
    assert any("[gateway.jwt]" in block and name.startswith("docs/mcp.md") for name, block in BLOCKS.items())
