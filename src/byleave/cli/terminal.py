"""The consent of the user: at the terminal, or by `--yes` of a script, never from an agent. And the record of it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from byleave.core.self_protection import is_door
from byleave.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace

_MOST_PARENTS = 256
YES = ("y", "yes")


def consents(given: ParsedArguments, question: str, *, about: Sequence[str] = ()) -> bool:
    """Return whether the user agrees: by `--yes` of a script, or in person at the terminal. The default is no.

    `about` is what the answer hangs on; it has been written to standard output, and the person at the terminal sees it
    even if that leads elsewhere. Below a hook, proxy, gateway or sandbox of byleave there is no consent: an agent could
    open a terminal of its own.
    """
    _refuse_below_a_door()
    if given.flag("yes"):
        return True
    if given.flag("no_input"):
        raise StateError(
            "this needs your consent, and --no-input forbids the question", hint="add --yes to consent in a script"
        )
    sys.stdout.flush()
    seen = sys.stdout.isatty() and not given.flag("quiet") and not given.flag("json")
    lines = () if seen else about
    answer = ask_person("".join(f"{line}\n" for line in lines) + f"{question} [y/N] ")
    if answer is None:
        raise _no_terminal()
    return answer.lower() in YES


def requires_person(given: ParsedArguments) -> None:
    """Return if a person is at the terminal, or a script has consented by `--yes`; else an error."""
    _refuse_below_a_door()
    if given.flag("yes"):
        return
    terminal = _open_terminal()
    if terminal is None:
        raise _no_terminal()
    os.close(terminal)


def record_answers(given: ParsedArguments, workspace: Workspace, subjects: Iterable[str]) -> None:
    """Record that the user changed something with this command, once for every subject; not where a mount leads.

    It is done by then: where it cannot be recorded, a warning says so.
    """
    from byleave.cli.output import warn
    from byleave.core.redact import Redactor
    from byleave.errors import ByleaveError

    log = workspace.audit_log(None, Redactor())
    try:
        for subject in subjects:
            log.append(
                {
                    "event": "approval",
                    "session": given.one("session") or "default",
                    "door": "cli",
                    "agent": None,
                    "identity": "default",
                    "action": {"kind": "other", "name": f"byleave {' '.join(given.path)}", "title": subject},
                    "answer": {"by": "--yes" if given.flag("yes") else "terminal", "choice": "yes"},
                }
            )
        log.fold()
    except ByleaveError as error:
        warn(given, [f"NOT RECORDED: {error}"])
    finally:
        log.close()


def may_ask(given: ParsedArguments) -> bool:
    """Whether a question would reach a person: there is a terminal, and no --no-input."""
    if given.flag("no_input") or _door_above():
        return False
    terminal = _open_terminal()
    if terminal is None:
        return False
    os.close(terminal)
    return True


def ask_person(text: str, *, timeout: float | None = None, stop: int | None = None) -> str | None:
    """Put `text` to the person at the terminal and return the line they type, without blanks around it.

    Ctrl-C, end of input, a hang-up, `timeout` seconds of silence, and something to read from the descriptor `stop` are
    an empty line. None: there is no terminal.
    """
    terminal = _open_terminal()
    if terminal is None:
        return None
    try:
        _forget_typed(terminal)
        _put(terminal, text)
        answer = _typed(terminal, timeout, stop)
        if not answer.endswith(b"\n"):  # the cursor still stands behind the question
            _put(terminal, "\n")
    except KeyboardInterrupt:
        answer = b""
        _put(terminal, "\n")
    except OSError:  # the terminal hung up
        answer = b""
    finally:
        os.close(terminal)
    return answer.strip().decode("utf-8", "replace")


def _typed(terminal: int, timeout: float | None, stop: int | None) -> bytes:
    if timeout is not None or stop is not None:
        from select import POLLIN, poll  # `select` itself knows no descriptor above 1023, and a gateway has thousands

        watched = poll()
        for descriptor in [terminal] if stop is None else [terminal, stop]:
            watched.register(descriptor, POLLIN)
        ready = {descriptor for descriptor, _event in watched.poll(None if timeout is None else timeout * 1000)}
        if terminal not in ready or stop in ready:
            return b""
    return os.read(terminal, 1024)


def _open_terminal() -> int | None:
    """Open the controlling terminal, if standard input is one and we are in front: reading from behind stops us."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.tcgetpgrp(terminal) == os.getpgrp():
            return terminal
    except OSError:
        pass
    os.close(terminal)
    return None


def _forget_typed(terminal: int) -> None:
    """Drop what was typed before the question was there: it cannot be the answer."""
    import termios

    try:
        termios.tcflush(terminal, termios.TCIFLUSH)
    except termios.error as error:  # the terminal hung up; it is no OSError, though it looks like one
        raise OSError(*error.args) from None


def _no_terminal() -> StateError:
    return StateError("this needs your consent at a terminal", hint="in a script of your own, add --yes")


def below_a_door() -> bool:
    """Whether an agent or a tool that byleave mediates may have started this process."""
    return _door_above()


def _refuse_below_a_door() -> None:
    if _door_above():
        raise StateError(
            "this needs your consent, and an agent or tool may have started this command",
            hint="run the command yourself, in a terminal of your own",
        )


def _put(terminal: int, text: str) -> None:
    left = text.encode("utf-8", "backslashreplace")
    while left:
        left = left[os.write(terminal, left) :]


def _door_above() -> bool:
    """Whether an ancestor of this process is byleave before an agent or tool; an unreadable ancestor counts as one."""
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
