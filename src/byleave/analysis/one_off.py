"""Words that no rule should hold, because they will not come again: messages, hashes, dates, temporary names. Pure.

It reads words, not meanings, and rather says yes too often: what it takes for a word of one occasion is left open by a
rule, or there is no rule. Secrets are `core.redact.shows_secret`'s.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 80  # characters; what is longer is no name
_SEVERAL = 2  # values, from which on a number varies
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_HASH = r"(?<![0-9a-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}(?![0-9a-z])"
_DATE = r"(?<!\d)(?:19|20)\d\d[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])(?!\d)"
_TIME = r"(?<!\d)[0-2]?\d:[0-5]\d(?::[0-5]\d)?(?!\d)"
_LONG_NUMBER = r"(?<![\d.])\d{6,}(?![\d.])"
_TEMPORARY = (
    r"(?:^|[/=:])(?:tmp|temp|\$TMPDIR)/|/var/folders/"
    r"|(?:^|[/._-])(?:tmp|temp)[._-][a-z0-9_]{4,}|(?:^|/)tmp[a-z0-9_]{8}(?![a-z0-9_])"
)
_ONE_OFF = re.compile(
    "|".join(f"(?:{each})" for each in (_UUID, _HASH, _DATE, _TIME, _LONG_NUMBER, _TEMPORARY)), re.IGNORECASE
)
_DIGITS = re.compile(r"\d+")
# Options whose value is a text that a person or an agent has made up for the occasion.
_TEXT_OPTIONS = frozenset(
    {"-m", "--message", "--title", "--body", "--notes", "--description", "--subject", "--reason", "--comment"}
)


def is_one_off(word: str) -> bool:
    """Whether a word is of one occasion by its form: a text with blanks, a hash, a date, a temporary name."""
    if len(word) > _LONGEST or any(char.isspace() or not char.isprintable() for char in word):
        return True
    return _ONE_OFF.search(word) is not None


def one_off_places(words: Sequence[str]) -> set[int]:
    """Return at which places of a command's words something stands that is of one occasion."""
    found = {place for place, word in enumerate(words) if is_one_off(word)}
    for place, word in enumerate(words):
        name, mark, _value = word.partition("=")
        if name in _TEXT_OPTIONS:
            found.add(place if mark else place + 1)
        elif word[:2] == "-m" and len(word) > 2 and not word[2:].isalpha():
            found.add(place)
    return found


class VaryingNumbers:
    """Knows, of many commands, where their words differ by nothing but numbers: those numbers are of one occasion."""

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self._seen: dict[tuple[tuple[str, ...], str], set[str]] = {}
        for words in commands:
            for place, word in enumerate(words):
                if any(char.isdigit() for char in word):
                    self._seen.setdefault((tuple(words[:place]), _DIGITS.sub("0", word)), set()).add(word)

    def places(self, words: Sequence[str]) -> set[int]:
        """Return at which places of these words a number stands that is another one elsewhere."""
        return {
            place
            for place, word in enumerate(words)
            if len(self._seen.get((tuple(words[:place]), _DIGITS.sub("0", word)), ())) >= _SEVERAL
        }
