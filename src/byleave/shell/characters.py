"""Characters that a command line must not hold.

They hide what it does from a person, or different programs read them differently.
"""

# Letters and symbols by category, but shown as a blank or not at all.
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")


def refused_at(text: str) -> int:
    """Return where the first refused character stands, -1 if there is none.

    Refused are controls other than newline and tab, blanks other than the space, bidi and other format controls,
    unassigned and private characters, and halves of surrogate pairs.
    """
    if text.isprintable() and (text.isascii() or INVISIBLE.isdisjoint(text)):
        return -1
    for place, char in enumerate(text):
        if (not char.isprintable() and char not in "\n\t") or char in INVISIBLE:
            return place
    return -1


def keeps_characters(value: str | None) -> bool:
    """Return whether a locale reads UTF-8 text as it stands."""
    return value is not None and (value in ("", "C", "POSIX") or value.lower().endswith((".utf-8", ".utf8")))
