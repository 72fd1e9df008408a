"""Texts as the tools see them: lines end in a newline and in nothing else, and what is shown is bounded."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_LINE = 500  # characters of a line that are shown where many lines are
LONGEST_TEXT = 100_000  # characters of an output that are worth a model's while


def lines_of(text: str) -> list[str]:
    """Return the lines with their ends. Form feeds and the like are part of a line, as editors count lines."""
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def counted(number: int, word: str) -> str:
    """Return `3 files`, `1 file`, `no files`; also of a match there are matches."""
    plural = f"{word}es" if word.endswith("ch") else f"{word}s"
    return f"1 {word}" if number == 1 else f"{number or 'no'} {plural}"


def clipped(line: str) -> str:
    """Return a line that is not too long to show."""
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}... ({len(line)} characters)"


def with_note(text: str, note: str) -> "list[dict[str, Any]]":
    """Return what was found, exactly as it is, and apart from it what there is to say about it."""
    return [{"type": "text", "text": text}, {"type": "text", "text": note}]
