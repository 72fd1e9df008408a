"""The compact notation of option tables: one word an option.

    -n,--max-count=    two spellings of an option with a value     --color[=]   a value that can only be attached
    -W*                the value is the rest of the word           -I+          the rest of the word, or the next word
    -#                 a number, as in `tail -5`                   !--exec=     known, and not harmless
    --                 what follows is harmless behind `--`, where the words go to another program
    -o=>  -f=<  -p=!   the value is a file that is written, read, executed; `=>/` and `=</`: a directory
    --tb=short|long    only these values are harmless              -c=~config   only values that `values` calls harmless

Words that begin with a colon set the table itself: `:word`, `:stops`, `:exact` (no abbreviations), `:subs` (it has
subcommands), `:safe` (no option of the program executes or writes), `:open` (what is not listed is an operand), `:at`
(operands may begin with `@`), `:slash` (an operand that begins with `/` is an option), `:inside` (operands stay below
the working directory), `:twodash` (`--name` is `-name`), `:letters` (in `-ab` every letter is an option, `a` as well if
it has a value), `:shell` (words become text of a shell's command).
"""

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FILES = {">": "write", "<": "read", "!": "exec", ">/": "write_dir", "</": "read_dir"}
SETTINGS: "Mapping[str, tuple[str, Any]]" = {
    ":word": ("style", "word"),
    ":stops": ("stops", True),
    ":exact": ("abbreviates", "no"),
    ":subs": ("subcommands", True),
    ":safe": ("safe", True),
    ":open": ("closed", False),
    ":at": ("at", True),
    ":slash": ("slash", True),
    ":inside": ("inside", True),
    ":twodash": ("twodash", True),
    ":letters": ("letters", True),
    ":shell": ("shell", True),
}


class Spec(Record):
    """What one text of the notation says. Names are the first spelling of each option."""

    settings: "Mapping[str, Any]"
    groups: tuple[tuple[str, ...], ...]
    values: frozenset[str]
    optional: frozenset[str]
    joined: frozenset[str]
    refused: frozenset[str]
    files: "Mapping[str, str]"
    checks: "Mapping[str, str]"
    passed: str | None


def read_spec(text: str) -> Spec:
    """Return the options that a text of the notation lists."""
    text, dashes, passed = " ".join(["", *text.split(), ""]).partition(" -- ")
    settings: dict[str, Any] = {}
    groups: list[tuple[str, ...]] = []
    kinds: dict[str, set[str]] = {"=": set(), "[": set(), "*": set(), "!": set()}
    files: dict[str, str] = {}
    checks: dict[str, str] = {}
    words = text.split()
    for word in words:
        if word[0] == ":":
            key, value = SETTINGS[word]
            settings[key] = value
    twodash = settings.pop("twodash", False)
    for word in words:
        if word[0] == ":":
            continue
        names, kind, rest = _parts(word.removeprefix("!"))
        first = names[0]
        groups.append((*names, *[f"-{name}" for name in names if name[1] != "-"]) if twodash else names)
        if kind in "=[+":
            kinds["[" if kind == "[" else "="].add(first)
        if kind in "*+":
            kinds["*"].add(first)
        if rest in FILES:
            files[first] = FILES[rest]
        elif rest:
            checks[first] = rest
        if word[0] == "!":
            kinds["!"].add(first)
    return Spec(
        settings,
        tuple(groups),
        frozenset(kinds["="]),
        frozenset(kinds["["]),
        frozenset(kinds["*"]),
        frozenset(kinds["!"]),
        files,
        checks,
        passed if dashes else None,
    )


def _parts(word: str) -> tuple[tuple[str, ...], str, str]:
    """Return the spellings, the sign behind them (`=`, `[`, `*`, `+` or none) and what stands behind that."""
    ends = [place for sign in "=[*+" if (place := word.find(sign, 1)) > 0]
    if not ends:
        return tuple(word.split(",")), " ", ""
    end = min(ends)
    kind, rest = word[end], word[end + 1 :]
    if kind == "[":
        rest = rest.strip("=]")
    return tuple(word[:end].split(",")), kind, rest
