"""Every link of README.md and docs leads to a file, and to a heading that every reader of Markdown names alike."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")]
PAGES += sorted((CHECKOUT / "docs").rglob("*.md"))
CODE = re.compile(r"^( *)(```+).*?^\1\2|``.+?``|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)


def without_blocks(text: str) -> str:
    return re.sub(r"^( *)(```+).*?^\1\2", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def headings(page: Path) -> frozenset[str]:
    """Return the anchors of a page: those that both GitHub and the site make of its headings."""
    plain = [
        re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(without_blocks(page.read_text()))
    ]
    return frozenset(github(title) for title in plain if github(title) == of_the_site(title))


def github(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def of_the_site(title: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def broken(page: Path, text: str) -> Iterator[str]:
    for target in LINK.findall(CODE.sub(" ", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            yield f"{target}: there is no such file"
        elif anchor and anchor not in headings(file):
            yield f"{target}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert list(broken(page, page.read_text())) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    text = (
        "[a](missing.md) [b](README.md#no-such-heading) `[c](code.md)` [d](https://example.com)\n```\n[e](e.md)\n```\n"
    )
    assert list(broken(CHECKOUT / "README.md", text)) == [
        "missing.md: there is no such file",
        "README.md#no-such-heading: there is no such heading",
    ]


def test_pages_of_the_site_link_only_within_it() -> None:
    docs = CHECKOUT / "docs"
    outside = [
        f"{page.name}: {target}"
        for page in sorted(docs.rglob("*.md"))
        for target in LINK.findall(CODE.sub(" ", page.read_text()))
        if not re.match(r"[a-z]+:", target)
        and not (page.parent / target.partition("#")[0]).resolve().is_relative_to(docs)
    ]
    assert outside == []
