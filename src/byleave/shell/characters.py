"""Characters that a command line must not hold, because they hide what it does or are read differently by different
programs.
"""

# Letters and symbols by category, but shown as a blank or not at all.
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f")


def refused_at(text: str) -> int:
    """Return where the first refused character stands: a control other than newline and tab, a blank other than
    the space, a bidi or other format control, an unassigned or private one, half a surrogate pair. -1 if none.
    """
    if text.isprintable() and (text.isascii() or INVISIBLE.isdisjoint(text)):
        return -1
    for place, char in enumerate(text):
        if (not char.isprintable() and char not in "\n\t") or char in INVISIBLE:
            return place
    return -1
