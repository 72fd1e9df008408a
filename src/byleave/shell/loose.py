"""Words of a text that was not understood, for rules that must hold even then."""

BREAKS = str.maketrans(dict.fromkeys("|&;()<>{}`$\n\t\r", " "))
QUOTES = str.maketrans("", "", "'\"\\")


def loose_words(text: str) -> frozenset[str]:
    """Return whatever can be taken for a word of `text`, as it stands and without quotes.

    Only good for saying no: a text that holds all the words of a deny rule is denied although nobody understood it.
    Names are also given without their directory.
    """
    joined = text.replace("\\\n", "")
    found = set(joined.translate(BREAKS).split())
    found.update(joined.translate(QUOTES).translate(BREAKS).split())
    found.update([word[word.rfind("/") + 1 :] for word in found if "/" in word])
    return frozenset(found)
