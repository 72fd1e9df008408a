"""The shell's own wrappers: `command`, `builtin`, `exec`, `eval`, `trap`."""

from byleave.shell.cursor import ZSH, is_decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.shell.state import Flow
    from byleave.shell.wrapped import Wrapped


def run_command(wrapped: "Wrapped") -> "Flow":
    """`command` runs a program or builtin, never a function; with -v or -V nothing."""
    words = wrapped.words[1:]
    while words and words[0].text in ("-p", "--"):
        ended, words = words[0].text == "--", words[1:]
        if ended:
            break
    if words and words[0].text in ("-v", "-V", "-pv", "-pV"):
        return wrapped.plain()
    if not words:
        return wrapped.plain()
    if words[0].text is None or words[0].text.startswith("-"):
        wrapped.refuse("which command `command` runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    return wrapped.child(words, transparent=True, inside=wrapped.walker.dialect != ZSH)  # zsh runs only programs by it


def run_builtin(wrapped: "Wrapped") -> "Flow":
    words = wrapped.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    if not words:
        return wrapped.plain()
    if words[0].text is None or words[0].text.startswith("-"):
        wrapped.refuse("which builtin runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    return wrapped.child(words, transparent=True, inside=True)


def run_exec(wrapped: "Wrapped") -> "Flow":
    """`exec` replaces the shell; without a command it only redirects."""
    words = wrapped.words[1:]
    while words and (text := words[0].text) is not None and text.startswith("-"):
        words = words[2:] if text == "-a" else words[1:]
        if text not in ("-a", "-c", "-l", "-cl", "-lc", "--"):
            wrapped.refuse("an option of `exec` that is not known")
        if text == "--":
            break
    if not words:
        return wrapped.plain()
    if words[0].text is None and words[0].could_be_option:
        wrapped.refuse("which command `exec` runs is known only at run time", words[0])
    wrapped.list_itself(transparent=True)
    wrapped.child(words, transparent=True)
    return None, None


def run_eval(wrapped: "Wrapped") -> "Flow":
    words = wrapped.words[1:]
    if words and words[0].text == "--":
        words = words[1:]
    texts = [word.text for word in words]
    if None in texts:
        wrapped.refuse("a script known only at run time")
    wrapped.list_itself(transparent=True)
    return wrapped.evaluate(" ".join([text or "" for text in texts]), wrapped.state)[0]


def run_trap(wrapped: "Wrapped") -> "Flow":
    """`trap action signal..`: the action may run at any time, so it must leave the shell where it is."""
    words = wrapped.words[1:]
    ended = bool(words) and words[0].text == "--"
    if ended:
        words = words[1:]
    action = words[0].text if words else ""
    if action is None or any(word.text is None for word in words):
        wrapped.refuse("a script known only at run time")
    if len(words) < 2 or action in ("", "-") or (action[0] == "-" and not ended) or is_decimal(action):
        return wrapped.plain()
    wrapped.list_itself(transparent=True)
    _, moves = wrapped.evaluate(action, wrapped.state.lost())
    if moves:
        wrapped.refuse("a trap that may change the directory")
    return wrapped.state, wrapped.state
