"""byleave guards itself: no agent changes what it is trusted with by running byleave's own commands.

Pure: an argument vector in, a yes or no out. Used for spawned programs and for every command a shell line contains. A
program that starts others is looked into, roughly and on the safe side; shell.read_command knows wrappers better. What
hides from both (a script, code that is put together) meets the commands themselves: they refuse below byleave itself.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Words = Sequence[str | None]

GUARDED_COMMANDS = frozenset({"trust", "untrust", "approvals", "mount", "unmount", "hook", "agents", "policy"})
DOORS = frozenset({"acp", "mcp", "hook", "run", "call"})

_GUARDED_FLAGS = ("--mount", "--no-mount")  # on other commands they do what `mount` and `unmount` do
# Commands that start something, and the flags by which the caller would bring its own policy along.
_STARTING = frozenset({"run", "call", "acp", "mcp"})
_POLICY_FLAGS = ("--policy", "--access", "--root")  # another root has another policy
_VALUE_FLAGS = frozenset({"--root", "--policy", "--session"})
_PLAIN_FLAGS = frozenset({"--json", "--no-input", "-q", "--quiet", "-v", "--verbose", "--yes"})

# Programs that start what their arguments name, as words or as a text; `python` is one by any of its names.
_LAUNCHERS = frozenset(
    (  # noqa: SIM905 -- a list would take a line for each
        "sh bash dash zsh ksh mksh ash fish busybox toybox env command exec builtin sudo doas su runuser pkexec nohup "
        "nice ionice chrt taskset setsid setarch stdbuf timeout time xargs parallel unshare nsenter chroot prlimit "
        "firejail bwrap systemd-run script strace ltrace gdb watch flock find fd entr direnv ssh docker podman ld.so "
        "uv uvx pip pipx poetry pdm hatch rye pixi conda mamba tox nox npx nix make just "
        "perl ruby node deno bun php lua awk"
    ).split()
)
_PYTHONS = ("python", "pypy")
_BLANKS = str.maketrans(dict.fromkeys("\"'`$(){}[],\t\\", " ") | dict.fromkeys(";|&\n", " ; "))
_END = ";"


def is_door(argv: "Sequence[str]") -> bool:
    """Whether this is byleave standing between an agent or a tool and the machine."""
    return any(word in DOORS for words in _own_words(argv) for word in words)


def changes_trust(argv: "Words") -> bool:
    """Whether this makes byleave change what it trusts. None is a word known only at run time."""
    if not any(word is not None and "byleave" in word.lower() for word in argv):
        return False  # nearly every command: whatever starts us has to name us
    return any(_is_guarded(words) for words in (*_own_words(argv), *_started_words(argv))) or _is_code_of_ours(argv)


def _own_words(argv: "Words") -> "Iterator[Words]":
    """Yield byleave's own arguments if the program is byleave, by any path or through Python."""
    if argv and argv[0] is not None and _is_us(argv[0]):
        yield argv[1:]
    elif _name(argv).startswith(_PYTHONS):
        yield from _python_words(argv)


def _python_words(argv: "Words") -> "Iterator[Words]":
    for position, word in enumerate(argv[1:], start=1):
        if word is None:
            continue
        module = _module(word)
        following = argv[position + 1 :]
        if module == "" and following:
            module, following = following[0] or "", following[1:]
        if (module and "byleave" in module.split(".")) or _is_us(word):
            yield following


def _module(word: str) -> str | None:
    """Return what stands behind `m` in a cluster of Python's short options, as in `-Imbyleave`; None without one."""
    if not word.startswith("-") or word.startswith("--"):
        return None
    position = next((place for place, char in enumerate(word) if char in "mcWX"), 0)
    return word[position + 1 :] if word[position] == "m" else None


def _started_words(argv: "Words") -> "Iterator[Words]":
    """Yield byleave's arguments wherever it occurs behind a program that starts others, byleave included."""
    name = _name(argv)
    ahead: Words = argv[1:]
    if name == "byleave":
        ahead = () if "--" not in ahead or "check" in ahead else ahead[ahead.index("--") + 1 :]
    elif not (name in _LAUNCHERS or name.startswith((*_PYTHONS, "ld-"))):
        return
    words = _flattened(ahead)
    for position, word in enumerate(words):
        if word is not None and _is_us(word):
            yield words[position + 1 :]
        elif word is not None and _base(word).startswith(_PYTHONS):
            yield from _python_words(words[position:])


def _flattened(words: "Words") -> "list[str | None]":
    """Return the words, and in place of each that is a whole text, the words of that text."""
    flat: list[str | None] = []
    for word in words:
        inner = [] if word is None or _is_us(word) else word.translate(_BLANKS).split()
        flat.extend([*inner, _END] if len(inner) > 1 else [word])
    return flat


def _is_code_of_ours(argv: "Words") -> bool:
    """Whether Python is given code that names both byleave and something guarded: who is to say what it calls?"""
    if not _name(argv).startswith(_PYTHONS) or not any(word and _cluster_ends_in_code(word) for word in argv[1:]):
        return False
    text = " ".join([word or "" for word in argv[1:]])
    names = set("".join([char if char.isalnum() or char == "_" else " " for char in text]).split())
    return "byleave" in names and not names.isdisjoint(GUARDED_COMMANDS)


def _cluster_ends_in_code(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and word.rstrip("c") != word


def _is_guarded(words: "Words") -> bool:
    """Find the command word behind the common flags; what is not clear counts as guarded."""
    words = words[: words.index(_END)] if _END in words else words
    own = words[: words.index("--")] if "--" in words else words
    if any(word is not None and word.startswith(_GUARDED_FLAGS) for word in own):
        return True
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
            return word in GUARDED_COMMANDS or (word in _STARTING and any(_brings_policy(each) for each in own))
    return False


def _brings_policy(word: str | None) -> bool:
    return word is None or word.startswith(_POLICY_FLAGS)


def _name(argv: "Words") -> str:
    return _base(argv[0]) if argv and argv[0] is not None else ""


def _base(program: str) -> str:
    return program.replace("\\", "/").rstrip("/").rpartition("/")[2].lower().removesuffix(".exe")


def _is_us(word: str) -> bool:
    """Whether the word names byleave: its program, its directory, its main file, or a release as in `byleave==1.0`."""
    base = _base(word)
    if base in ("__main__.py", "main.py"):
        return "byleave" in word.replace("\\", "/").lower().split("/")
    for mark in "=<>~!@[":
        base = base.partition(mark)[0]
    return base.removesuffix(".pyz") == "byleave"
