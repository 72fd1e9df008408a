"""Prose of the pages fits into 120 columns; examples name no machine, no home and no host that exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")]
PAGES += sorted((CHECKOUT / "docs").rglob("*.md"))
WIDEST = 120
BLOCK = re.compile(r"^( *)```\w*[^\n]*\n(.*?)^\1```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
URL_HOST = re.compile(r"\b(?:https?|postgresql)://(?:[\w.-]+@)?([\w.-]+)")
SET_HOST = re.compile(r"""\b(?:host|domain)"? ?[=:] ?"([\w.-]+\.[\w-]+)\"""")
# RFC 2606 and 6761: names that are kept for examples; and this machine.
MADE_UP = re.compile(r"(?:.*\.)?example(?:\.(?:com|org|net))?|localhost|[0-9.]+|\.+|[a-z]{1,5}|HOST|host")
HOMES = frozenset({"ana", "you"})


def wide_lines(text: str) -> Iterator[str]:
    """Yield lines of prose that are too wide; tables, code, footnotes and a line that is one link or name may be."""
    prose = BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(prose.split("\n"), 1):
        if len(line) > WIDEST and not line.startswith(("|", "[^")) and not re.fullmatch(r" *[-*] `[^`]+`", line):
            yield f"{number}: {line[:60]}"


def owned(text: str) -> Iterator[str]:
    """Yield hosts and homes of examples that are not made up."""
    code = "\n".join(found[2] or "" for found in BLOCK.finditer(text))
    hosts = [*URL_HOST.findall(code), *SET_HOST.findall(code)]
    yield from sorted({host for host in hosts if not MADE_UP.fullmatch(host)})
    yield from sorted({f"/home/{name}" for name in re.findall(r"/home/(\w+)", text) if name not in HOMES})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_prose_fits_into_120_columns(page: Path) -> None:
    assert list(wide_lines(page.read_text())) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_examples_use_made_up_hosts_and_homes(page: Path) -> None:
    assert list(owned(page.read_text())) == []


def test_a_wide_line_a_real_host_and_a_real_home_are_found() -> None:
    text = (
        f'{"word " * 25}\n| {"cell " * 30}|\n```toml\nhost = "registry.internal.shop"\nurl = "https://a.b.io/x"\n```\n'
    )
    assert [line.partition(":")[0] for line in wide_lines(text)] == ["1"]
    assert list(owned(text + "/home/bob/x")) == ["a.b.io", "registry.internal.shop", "/home/bob"]
    assert list(owned('```toml\nhost = "api.example.com"\nurl = "http://127.0.0.1:1/"\n```\n/home/ana')) == []
