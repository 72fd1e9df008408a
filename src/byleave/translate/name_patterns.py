"""Where a pattern for names begins, and whether it may lead out of the directory that is searched. Pure.

Tools write braces out, take backslashes off or for slashes, and several patterns may stand in one text. What leads out
in one of these readings leads out. Start at `may_lead_out`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.translate.paths import plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping

PATTERN_MARKS = frozenset("*?[{")
# What ripgrep selects by `--type`, in every version alike. A name that is not here may select anything.
FILE_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("py", "python"), "*.{py,pyi}"),
    **dict.fromkeys(("ts", "typescript"), "*.{ts,tsx,cts,mts}"),
    "js": "*.{js,jsx,vue,cjs,mjs}",
    "rust": "*.rs",
    "go": "*.go",
    "java": "*.{java,jsp,jspx,properties}",
    "kotlin": "*.{kt,kts}",
    "swift": "*.swift",
}


def beginning(text: str) -> tuple[str, str | None] | None:
    """Return where a pattern begins that leads elsewhere, and the rest of it; None for one that stays below."""
    names = text.split("/")
    marked = _marked(names)
    if not text.startswith(("/", "~")) and ".." not in names[:marked]:
        return None
    return "/".join(names[:marked]), plain_text("/".join(names[marked:])) or None


def may_lead_out(text: str, *, surely_names: bool) -> bool:
    """Whether a pattern may lead further out than its plain beginning does.

    A text that need not select names (`surely_names`) may be code that is looked for: blanks and commas part nothing.
    """
    names = text.split("/")
    if ".." in names[_marked(names) :]:
        return True
    written = _written_out(text)
    if written is None:
        return surely_names or ".." in text or "/" in text
    readings = [*written, *(each.replace("\\", "") for each in written if "\\" in each)]
    if surely_names:
        readings += [part for each in readings for part in each.replace(",", " ").split()]
    swapped = [each.replace("\\", "/") for each in written if "\\" in each]
    climbs = any(".." in each.split("/") for each in swapped)
    return climbs or any(_is_further_out(each, text) for each in readings)


def _marked(names: list[str]) -> int:
    return next((at for at, name in enumerate(names) if not PATTERN_MARKS.isdisjoint(name)), len(names))


def _written_out(text: str) -> list[str] | None:
    if "{" not in text:
        return [text]
    from byleave.core.selection import without_braces  # only searches need it

    return without_braces(text)


def _is_further_out(reading: str, text: str) -> bool:
    if reading.startswith(("/", "~")):
        return not f"{_plain_start(reading)}/".startswith(f"{_plain_start(text)}/") or not text.startswith(("/", "~"))
    return reading.split("/").count("..") > text.split("/").count("..")


def _plain_start(text: str) -> str:
    names = text.split("/")
    return "/".join(names[: _marked(names)])
