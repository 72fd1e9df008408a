"""byleave guards itself: no agent changes what it is trusted with by running byleave's own commands.

Pure: an argument vector in, a yes or no out. Used for spawned programs and for every command a shell line contains. A
program that starts others is looked into, roughly and on the safe side; shell.read_command knows wrappers better. What
hides from both (a script, code that is put together) meets the commands themselves: they refuse below byleave itself.

`byleave outside -- COMMAND` is how an agent asks to run one command without the sandbox. `outside_command` knows the
one way to write it; `runs_outside` knows every other, which is denied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Words = Sequence[str | None]

GUARDED_COMMANDS = frozenset(
    {"trust", "untrust", "approvals", "mount", "unmount", "hook", "agents", "policy", "setup", "service"}
    | {"dashboard"}  # answers a person's questions
)
DOORS = frozenset({"acp", "mcp", "hook", "run", "call"})
OUTSIDE = "outside"
_FRONT = "front-"  # the native front begins so, and starts the command that stands behind it
_SERVICE = "/byleave/service/__main__.py"
TICKET_FLAG = "--ticket"  # of `run`: written by a hook or the ACP proxy into a call that they change, by nothing else
ADD_FLAG = "--add"  # of `check`: writes the rule that it suggests into the user's own file
HOW_TO_ASK = (
    "`byleave outside` runs one command without the sandbox: write `byleave outside -- COMMAND ARGS...` as the whole "
    "line, in literal words, with nothing before, around or behind it"
)

_GUARDED_FLAGS = ("--mount", "--no-mount")  # on other commands they do what `mount` and `unmount` do
# Commands that start something, and the flags by which the caller would bring its own policy along.
_STARTING = frozenset({"run", "call", "acp", "mcp"})
_POLICY_FLAGS = ("--policy", "--access", "--root")  # another root has another policy
_PYTHON_LETTERS = frozenset("IPEsBu")  # options of Python that leave open neither what runs nor from where
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


def is_door(argv: Sequence[str]) -> bool:
    """Whether this is byleave, its front or its service, standing between an agent or a tool and the machine."""
    return _is_service(argv) or any(word in DOORS for words in _own_words(_behind_front(argv)) for word in words)


def holds_in_sandbox(argv: Sequence[str]) -> bool:
    """Whether this is byleave, and what it starts runs in a sandbox."""
    words = [word for own in _own_words(_behind_front(argv)) for word in own]
    return _is_service(argv) or not {"run", "call", "mcp"}.isdisjoint(words) or {"acp", "--sandbox"}.issubset(words)


def changes_trust(argv: Words) -> bool:
    """Whether this makes byleave change what it trusts. None is a word known only at run time."""
    if not any(word is not None and "byleave" in word.lower() for word in argv):
        return False  # nearly every command: whatever starts us has to name us
    found = any(_is_guarded(words) for words in (*_own_words(argv), *_started_words(argv)))
    return found or _is_code_of_ours(argv, GUARDED_COMMANDS) or _is_code_that_adds(argv)


def guarded_because(argv: Words) -> str:
    """Say why a command that `changes_trust` is denied."""
    started = (*_own_words(argv), *_started_words(argv))
    if any(word is not None and word.startswith(TICKET_FLAG) for words in started for word in words):
        return "only byleave itself writes a ticket, for a command that it has evaluated: write the command as it is"
    return "this byleave command changes what is trusted: only a person may run it, in a terminal"


def runs_outside(argv: Words) -> bool:
    """Whether this may start `byleave outside`, however it is written. None is a word known only at run time."""
    if not any(word is not None and "byleave" in word.lower() for word in argv):
        return False
    if any(_command_word(words) == OUTSIDE for words in (*_own_words(argv), *_started_words(argv))):
        return True
    return _is_code_of_ours(argv, frozenset({OUTSIDE}))


def outside_command(argv: Words) -> tuple[str, ...] | None:
    """Return COMMAND ARGS... of `byleave outside -- COMMAND ARGS...`, by any path or `python -m byleave`.

    None for everything else: another option, a word known only at run time, no command.
    """
    words = tuple([word for word in argv if word is not None])
    if len(words) != len(argv) or not words:
        return None
    own = words[1:] if words[0].rpartition("/")[2] == "byleave" else _module_words(words)
    return own[2:] if own[:2] == (OUTSIDE, "--") and len(own) > 2 and own[2] else None


def _module_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what follows `python -m byleave`; nothing where Python is given anything else."""
    if not words[0].rpartition("/")[2].startswith(_PYTHONS):
        return ()
    for position, word in enumerate(words[1:-1], start=1):
        if not word.startswith("-") or not _PYTHON_LETTERS.issuperset(word[1:].removesuffix("m")):
            return ()
        if word.endswith("m"):
            return words[position + 2 :] if words[position + 1] == "byleave" else ()
    return ()


def _own_words(argv: Words) -> Iterator[Words]:
    """Yield byleave's own arguments if the program is byleave, by any path or through Python."""
    if argv and argv[0] is not None and _is_us(argv[0]):
        yield argv[1:]
    elif _name(argv).startswith(_PYTHONS):
        yield from _python_words(argv)


def _behind_front(argv: Sequence[str]) -> Sequence[str]:
    """Return the command that the native front was given; anything else as it is."""
    if not _name(argv).startswith(_FRONT):
        return argv
    return argv[3:] if list(argv[1:2]) == ["--service"] else argv[1:]


def _is_service(argv: Sequence[str]) -> bool:
    """Whether this is a process of the resident service: the tools of calls run below it."""
    return _name(argv).startswith(_PYTHONS) and any(word.endswith(_SERVICE) for word in argv[1:])


def _python_words(argv: Words) -> Iterator[Words]:
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


def _started_words(argv: Words) -> Iterator[Words]:
    """Yield byleave's arguments wherever it occurs behind a program that starts others, byleave included."""
    name = _name(argv)
    ahead: Words = argv[1:]
    if name == "byleave":
        ahead = _started_by_us(ahead)
    elif not (name in _LAUNCHERS or name.startswith((*_PYTHONS, "ld-", _FRONT))):
        return
    words = _flattened(ahead)
    for position, word in enumerate(words):
        if word is not None and _is_us(word):
            yield words[position + 1 :]
        elif word is not None and _base(word).startswith(_PYTHONS):
            yield from _python_words(words[position:])


def _started_by_us(words: Words) -> Words:
    """Return what byleave starts: what stands behind `--`, which `run` does not need."""
    if "check" in words:
        return ()
    marks = [mark for mark in ("--", "run") if mark in words]
    return words[words.index(marks[0]) + 1 :] if marks else ()


def _flattened(words: Words) -> list[str | None]:
    """Return the words, and in place of each that is a whole text, the words of that text."""
    flat: list[str | None] = []
    for word in words:
        inner = [] if word is None or _is_us(word) else word.translate(_BLANKS).split()
        flat.extend([*inner, _END] if len(inner) > 1 else [word])
    return flat


def _is_code_of_ours(argv: Words, commands: frozenset[str]) -> bool:
    """Whether Python is given code that names both byleave and one of these commands: who is to say what it calls?"""
    names = _names_in_code(argv)
    return "byleave" in names and not names.isdisjoint(commands)


def _is_code_that_adds(argv: Words) -> bool:
    """Whether Python is given code that names byleave, `check` and `--add`."""
    return _names_in_code(argv).issuperset(("byleave", "check", "add"))


def _names_in_code(argv: Words) -> set[str]:
    if not _name(argv).startswith(_PYTHONS) or not any(word and _cluster_ends_in_code(word) for word in argv[1:]):
        return set()
    text = " ".join([word or "" for word in argv[1:]])
    return set("".join([char if char.isalnum() or char == "_" else " " for char in text]).split())


def _cluster_ends_in_code(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and word.rstrip("c") != word


def _is_guarded(words: Words) -> bool:
    """Whether the command word is guarded, or a flag does what a guarded command does; what is not clear counts so."""
    words = words[: words.index(_END)] if _END in words else words
    own = words[: words.index("--")] if "--" in words else words
    if any(word is not None and word.startswith((*_GUARDED_FLAGS, TICKET_FLAG)) for word in own):
        return True
    position = _command_position(words)
    if position is None:
        return False
    word = words[position]
    if word is None:
        return True
    if word.startswith("-"):
        return any(later is None or later in GUARDED_COMMANDS for later in words[position:])
    if word == "acp" and "--yes" in own and any(each is None or each.startswith("--setup") for each in own):
        return True  # it installs the agent's hook as well
    if word == "check":  # a word known only at run time may be the flag
        return ADD_FLAG in own[position:] or None in own[position:]
    return word in GUARDED_COMMANDS or (word in _STARTING and any(_brings_policy(each) for each in own))


def _command_word(words: Words) -> str | None:
    words = words[: words.index(_END)] if _END in words else words
    position = _command_position(words)
    if position is None:
        return None
    word = words[position]
    # Behind an option that is not known, any word may be the command.
    return OUTSIDE if word is not None and word.startswith("-") and OUTSIDE in words[position:] else word


def _command_position(words: Words) -> int | None:
    """Return where the command word stands behind the common flags, or what is not known and may be it."""
    position = 0
    while position < len(words):
        word = words[position]
        if word in _VALUE_FLAGS:
            position += 2
        elif word is not None and (word in _PLAIN_FLAGS or any(word.startswith(f"{flag}=") for flag in _VALUE_FLAGS)):
            position += 1
        else:
            return position
    return None


def _brings_policy(word: str | None) -> bool:
    return word is None or word.startswith(_POLICY_FLAGS)


def _name(argv: Words) -> str:
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
