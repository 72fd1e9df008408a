"""Commands that run other commands: each child is listed as a command of its own.

Which program wraps what is data (`programs.toml`, key `wrap`; read in `wrapped`). In code are only those with a
grammar of their own: the shell's own (`inside`), those over many things (`batches`), shells (`shells`). Where the
child cannot be told for sure the text is not understood; a program without an entry is simply a command.
"""

from byleave.shell.batches import run_fd, run_find, run_parallel, run_xargs
from byleave.shell.cursor import BASH, POSIX, ZSH
from byleave.shell.inside import run_builtin, run_command, run_eval, run_exec, run_trap
from byleave.shell.options import scan_words
from byleave.shell.wrapped import Wrapped, from_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.shell.calls import Call
    from byleave.shell.state import Flow
    from byleave.shell.walk import Walker


def unwrap(walker: "Walker", name: str, call: "Call") -> "Flow":
    """List a command, and its children if it is a wrapper; return the flow behind it."""
    base = name[name.rfind("/") + 1 :]
    inside = INSIDE.get(name) if walker.frame.inside else None
    if inside is None and walker.programs.is_plain(base) and base not in SPECIAL:
        return walker.plain(call)
    special = inside or SPECIAL.get(base)
    table = walker.programs.table(base) if special is None else None
    if special is None and (table is None or not table.may_wrap(call.words)):
        return walker.plain(call)
    wrapped = Wrapped(walker, base, call)
    if special is not None:
        return special(wrapped)
    found = scan_words(call.words, table)
    wrap = found.table.wrap if found.table is not None else None
    return wrapped.plain() if wrap is None else from_table(wrapped, found, wrap)


def _env(wrapped: Wrapped) -> "Flow":
    for word in wrapped.words[1:]:
        if word.text is not None and (word.text.startswith(("-S", "--s")) or _clusters(word.text, "S")):
            wrapped.refuse("`env -S` splits words by rules of its own", word)
    table = wrapped.walker.programs.table("env")
    if table is None or table.wrap is None:
        return wrapped.plain()
    return from_table(wrapped, scan_words(wrapped.words, table), table.wrap)


def _clusters(text: str, letter: str) -> bool:
    return text.startswith("-") and not text.startswith("--") and letter in text


def _shell(wrapped: Wrapped) -> "Flow":
    from byleave.shell.shells import run_shell

    return run_shell(wrapped)


# Run by the shell itself; found only where the name has no directory.
INSIDE: "Mapping[str, Callable[[Wrapped], Flow]]" = {
    "command": run_command,
    "builtin": run_builtin,
    "exec": run_exec,
    "eval": run_eval,
    "trap": run_trap,
}
SHELLS = {
    "bash": BASH,
    "sh": POSIX,
    "dash": POSIX,
    "ash": POSIX,
    "ksh": ZSH,  # like zsh in what matters here: the last stage of a pipeline runs in the shell itself
    "mksh": ZSH,
    "zsh": ZSH,
    "rbash": BASH,
    "fish": "",
    "csh": "",
    "tcsh": "",
    "nu": "",
    "pwsh": "",
    "xonsh": "",
}
SPECIAL: "Mapping[str, Callable[[Wrapped], Flow]]" = {
    "env": _env,
    "find": run_find,
    "gfind": run_find,
    "fd": run_fd,
    "fdfind": run_fd,
    "xargs": run_xargs,
    "gxargs": run_xargs,
    "parallel": run_parallel,
    **dict.fromkeys(SHELLS, _shell),
}
