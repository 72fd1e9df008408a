"""Is a person there? Asking one through the terminal, and telling a script's consent from an agent's."""

import os
import sys

from byleave.core.selfguard import is_door
from byleave.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.cli.arguments import Given

_MOST_PARENTS = 256


def consents(given: "Given", question: str, *, about: "Sequence[str]" = ()) -> bool:
    """Return whether the user agrees: by `--yes` of a script, or in person at the terminal. The default is no.

    `about` is what the answer hangs on; it has been written to standard output, and the person at the terminal sees it
    even if that leads elsewhere. Below a door of ours nobody can agree: an agent could open a terminal of its own.
    """
    if _door_above():
        raise StateError(
            "nobody can agree to this here: a byleave door is among the parent processes",
            hint="run the command yourself, in a terminal of your own",
        )
    if given.flag("yes"):
        return True
    if given.flag("no_input"):
        raise StateError("this needs your consent, and --no-input was given", hint="add --yes to consent in a script")
    sys.stdout.flush()
    return _ask(question, () if sys.stdout.isatty() else about)


def _ask(question: str, about: "Sequence[str]") -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        raise StateError(
            "this needs a terminal: somebody has to agree in person", hint="in a script of your own, add --yes"
        ) from None
    try:
        _put(terminal, "".join(f"{line}\n" for line in about) + f"{question} [y/N] ")
        answer = os.read(terminal, 1024)
        if not answer.endswith(b"\n"):  # end of input leaves the cursor behind the question
            _put(terminal, "\n")
    except KeyboardInterrupt:
        answer = b""
        _put(terminal, "\n")
    except OSError:  # the terminal hung up
        answer = b""
    finally:
        os.close(terminal)
    return answer.strip().lower() in (b"y", b"yes")


def _put(terminal: int, text: str) -> None:
    left = text.encode("utf-8", "backslashreplace")
    while left:
        left = left[os.write(terminal, left) :]


def _door_above() -> bool:
    """Whether an ancestor of this process is one of byleave's doors; what cannot be seen counts as one."""
    process = os.getppid()
    for _ in range(_MOST_PARENTS):
        if process <= 1:
            return False
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                argv = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
            with open(f"/proc/{process}/stat", "rb") as file:
                # The name may hold anything, parentheses too; the parent is the second field after its last one.
                process = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return True
        if is_door(argv):
            return True
    return True
