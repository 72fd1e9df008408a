"""Show text from outside so that it can neither act on the reader's terminal nor pass for something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Marks that take no room, or look like a space, though Unicode counts them as printable: fillers, joiners, selectors.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\U00016fe4\U0001d159"
    "\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e\ufe0f"
)
_TAGS = "\U000e0000"  # the plane of tags and further selectors; nothing in it is seen
_LAYOUT = frozenset("\n\t\r\u00a0\u202f\u3000")  # what texts are laid out with; other spaces look alike
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def shown(text: str) -> str:
    """Return `text` with control, bidi, invisible and undecodable characters written out as escapes."""
    if text.isprintable() and text.isascii():
        return text
    return text.translate({ord(char): _escape(char) for char in set(text) if not is_seen(char)})


def shown_lines(text: str) -> str:
    """Return a text of several lines of ours, each of them as `shown`."""
    return "\n".join([shown(line) for line in text.split("\n")])


def quoted(text: str) -> str:
    """Return `text` as `shown`, between double quotes; quotes and backslashes inside cannot be mistaken for ours."""
    return f'"{shown(text.replace(_BACKSLASH, _BACKSLASH * 2).replace(_QUOTE, _BACKSLASH + _QUOTE))}"'


def speakable(tree: Any) -> Any:
    """Return a tree whose strings can all be written as UTF-8; bytes that were none are shown as escapes."""
    if isinstance(tree, str):
        try:
            tree.encode()
        except UnicodeEncodeError:
            return shown(tree)
        return tree
    if isinstance(tree, dict):
        return {speakable(key): speakable(value) for key, value in tree.items()}
    return [speakable(value) for value in tree] if isinstance(tree, list | tuple) else tree


def sentence_list(words: list[str] | tuple[str, ...], *, most: int = 8) -> str:
    """Return the words as a person would list them, cut after `most`."""
    kept = [shown(word) for word in words[:most]]
    if len(words) > most:
        return f"{', '.join(kept)} and {len(words) - most} more"
    return ", ".join([*kept[:-2], " and ".join(kept[-2:])])


def nearest_word(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant: two letters that changed places first, then the most alike."""
    from difflib import get_close_matches  # only a mistake needs it

    swapped = {f"{word[:place]}{word[place + 1]}{word[place]}{word[place + 2 :]}" for place in range(len(word) - 1)} - {
        word
    }
    near = [each for each in known if each in swapped] or get_close_matches(word, known, n=1, cutoff=cutoff)
    return near[0] if near else None


_BACKSLASH, _QUOTE = "\\", '"'


def is_seen(char: str) -> bool:
    """Whether a reader sees the character, and sees it where it stands."""
    return char.isprintable() and char not in _UNSEEN and char < _TAGS


def hidden_in(text: str) -> list[str]:
    """Return the characters of a text that carry something a reader does not see, each once.

    Line ends, tabs, and the spaces that texts are usually laid out with are none.
    """
    if text.isascii() and text.isprintable():
        return []
    found = {char for char in text if not is_seen(char) and char not in _LAYOUT}
    if "\r" in text.replace("\r\n", ""):  # by itself it has a terminal write over the line
        found.add("\r")
    return sorted(found)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, as os.fsdecode keeps it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return _SHORT.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
