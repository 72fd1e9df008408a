"""byleave guards itself: no agent changes what it is trusted with by running byleave's own commands.

Pure: an argument vector in, a yes or no out. Used for spawned programs and for every command a shell line contains.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GUARDED_COMMANDS = frozenset({"trust", "untrust", "approvals", "mount", "unmount", "hook", "agents", "policy"})
_VALUE_FLAGS = frozenset({"--root", "--policy", "--session"})
_PLAIN_FLAGS = frozenset({"--json", "--no-input", "-q", "--quiet", "-v", "--verbose", "--yes"})


DOORS = frozenset({"acp", "mcp", "hook", "run", "call"})


def is_door(argv: "Sequence[str]") -> bool:
    """Whether this is byleave standing between an agent or a tool and the machine."""
    words = _own_words(argv)
    return words is not None and any(word in DOORS for word in words)


def changes_trust(argv: "Sequence[str | None]") -> bool:
    """Whether this is byleave being told to change what it trusts. None is a word known only at run time."""
    words = _own_words(argv)
    return words is not None and _is_guarded(words)


def _own_words(argv: "Sequence[str | None]") -> "list[str | None] | None":
    """Return byleave's own arguments if the program is byleave, by any path or through `python -m`."""
    if not argv or argv[0] is None:
        return None
    name = _base(argv[0])
    if name == "byleave":
        return list(argv[1:])
    if not name.startswith(("python", "pypy")):
        return None
    for position, word in enumerate(argv[1:], start=1):
        if word is None:
            return None
        if word.startswith("-") and not word.startswith("--") and word.endswith("m") and position + 1 < len(argv):
            module = argv[position + 1]
            return list(argv[position + 2 :]) if module is not None and _is_ours(module) else None
        if word.startswith("-mbyleave"):
            return list(argv[position + 1 :])
        if _base(word) == "byleave" or word.endswith(("byleave/__main__.py", "/byleave")):
            return list(argv[position + 1 :])
    return None


def _is_guarded(words: "list[str | None]") -> bool:
    """Find the command word behind the common flags; what cannot be told apart counts as guarded."""
    position = 0
    while position < len(words):
        word = words[position]
        if word is None:
            return True
        if word in _VALUE_FLAGS:
            position += 2
        elif word in _PLAIN_FLAGS or any(word.startswith(f"{flag}=") for flag in _VALUE_FLAGS):
            position += 1
        elif word.startswith("-"):
            return any(later is None or later in GUARDED_COMMANDS for later in words[position:])
        else:
            return word in GUARDED_COMMANDS
    return False


def _base(program: str) -> str:
    return program.replace("\\", "/").rpartition("/")[2].lower().removesuffix(".exe")


def _is_ours(module: str) -> bool:
    return module == "byleave" or module.startswith("byleave.")
