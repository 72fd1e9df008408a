"""Ask the user: for consent to what a command changes, and for approval of an action.

Consent is given at the terminal, or by `--yes` of a script, never by an agent; `record_answers` records it.
`TerminalAsker` shows the whole action, why it needs approval, and what a yes covers.
"""

from __future__ import annotations

import os
import sys
import termios
from select import POLLIN, poll
from time import monotonic
from typing import TYPE_CHECKING
from unicodedata import bidirectional, east_asian_width

from byleave.caller import parent_process
from byleave.cli.output import paint, warn
from byleave.core.redact import Redactor
from byleave.core.self_protection import is_door
from byleave.errors import ByleaveError, StateError
from byleave.guard.evaluation import FOR_GOOD, FOR_SESSION, NO, NO_PERSON, ONCE, SILENCE
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from byleave.cli.arguments import ParsedArguments
    from byleave.guard.evaluation import Question
    from byleave.policy.load import Workspace
    from byleave.store.interfaces import RecordStore
    from byleave.store.postgres.shared_store import SharedStore


_MOST_PARENTS = 256
YES = ("y", "yes")
_NO = ("n", "no")
_MOST_TYPOS = 3
_AGAIN = "Please type y or n.\n"


def consents(given: ParsedArguments, question: str, *, about: Sequence[str] = ()) -> bool:
    """Return whether the user agrees; silence is a no."""
    return answer_of(given, question, about=about) is True


def answer_of(given: ParsedArguments, question: str, *, about: Sequence[str] = ()) -> bool | None:
    """Return a yes or a no of the user: by `--yes` of a script, or typed at the terminal. None: they did not answer.

    What is neither is a slip, and the question is put again.

    `about` is what the answer hangs on; it has been written to standard output, and the person at the terminal sees it
    even if that leads elsewhere. Below a hook, proxy, gateway or sandbox of byleave there is no consent: an agent could
    open a terminal of its own.
    """
    refuse_agents()
    if given.flag("yes"):
        return True
    if given.flag("no_input"):
        raise StateError(
            "this needs your consent, and with --no-input you are not asked", hint="add --yes to consent in a script"
        )
    sys.stdout.flush()
    seen = sys.stdout.isatty() and not given.flag("quiet") and not given.flag("json")
    lines = () if seen else about
    asked = "".join(f"{line}\n" for line in lines) + f"{question} [y/N] "
    for _ in range(_MOST_TYPOS):
        answer = ask_person(asked)
        if answer is None:
            raise _no_terminal()
        if not answer:
            return None
        if answer.lower() in (*YES, *_NO):
            return answer.lower() in YES
        asked = f"{_AGAIN}{question} [y/N] "
    return None


def requires_person(given: ParsedArguments) -> None:
    """Return if a person is at the terminal, or a script has consented by `--yes`; else an error."""
    refuse_agents()
    if given.flag("yes"):
        return
    terminal = _open_terminal()
    if terminal is None:
        raise _no_terminal()
    os.close(terminal)


def record_answers(
    given: ParsedArguments,
    workspace: Workspace,
    subjects: Iterable[str],
    *,
    choice: str = "yes",
    shared: SharedStore | None = None,
) -> None:
    """Record that the user changed something with this command, once for every subject; not where a mount leads.

    It is done by then: where it cannot be recorded, a warning says so. `shared` is the store that was changed, if it
    was not the user's own.
    """
    log: RecordStore
    if shared is None:
        log = own = workspace.audit_log(None, Redactor())
    else:
        log, own = shared.log(Redactor()), None
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
                    "answer": {"by": "--yes" if given.flag("yes") else "terminal", "choice": choice},
                }
            )
        if own is not None:
            own.fold()
    except ByleaveError as error:
        warn(given, [f"NOT RECORDED: {error}"])
    finally:
        log.close()


def may_ask(given: ParsedArguments) -> bool:
    """Whether a question would reach a person: there is a terminal, and no --no-input."""
    if given.flag("no_input") or started_by_agent():
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
    try:
        termios.tcflush(terminal, termios.TCIFLUSH)
    except termios.error as error:  # the terminal hung up; it is no OSError, though it looks like one
        raise OSError(*error.args) from None


def _no_terminal() -> StateError:
    return StateError("this needs your consent at a terminal", hint="in a script of your own, add --yes")


def refuse_agents() -> None:
    """Raise a StateError if an agent or a tool may have started this process."""
    if started_by_agent():
        raise StateError(
            "this needs your consent, and an agent or tool may have started this command",
            hint="run the command yourself, in a terminal of your own",
        )


def _put(terminal: int, text: str) -> None:
    # In another encoding, some bytes of UTF-8 are control characters of the terminal.
    left = text.encode(sys.stdin.encoding or "ascii", "backslashreplace")
    while left:
        left = left[os.write(terminal, left) :]


def started_by_agent() -> bool:
    """Whether an agent or a tool that byleave mediates may have started this process.

    It has, if an ancestor of this process is byleave's hook, proxy, gateway, tool host or sandbox. An ancestor that
    cannot be read counts as one.
    """
    return any(argv is None or is_door(argv) for argv in ancestors())


def ancestors() -> Iterator[list[str] | None]:
    """Yield the arguments of each process above this one, the nearest first; at last None, if one cannot be read."""
    process = parent_process()
    for _ in range(_MOST_PARENTS):
        if process <= 1:
            return
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                argv = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
            with open(f"/proc/{process}/stat", "rb") as file:
                # The name may hold anything, parentheses too; the parent is the second field after its last one.
                process = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        yield argv
    yield None


MOST_ROWS = 200  # what is longer cannot be read before it is answered
_NARROWEST, _USUAL = 20, 72
BAR = "    | "  # before text from outside
_TO_THE_LEFT = ("R", "AL", "AN")  # as Unicode calls the direction of such letters and digits
TURNED = "  This has letters that are read from right to left: your terminal may show its parts in another order."
_LONGEST_NAME = 40  # characters of an agent's name in a row of ours
_CHOICES = {
    "o": ONCE,
    "once": ONCE,
    "y": ONCE,
    "yes": ONCE,
    "s": FOR_SESSION,
    "session": FOR_SESSION,
    "a": FOR_GOOD,
    "always": FOR_GOOD,
    "": NO,
    "n": NO,
    "no": NO,
}
_FOR_ALL = "It applies to every agent, in all your workspaces"
# What such a rule says less about than the question did.
_WIDER = {
    "command": ", in any directory",
    "call": ", with any arguments",
    "url": ", by any method, also below that path",
}


class TerminalAsker:
    """Asks at the controlling terminal. Whatever is not a clear yes is a no.

    Once `stop`, a descriptor, can be read from, it waits no longer.
    """

    name = "terminal"

    def __init__(self, *, stop: int | None = None) -> None:
        self._stop = stop

    def ask(self, question: Question, patience: float) -> str:
        """Return what the person says; silence, if they say nothing in time."""
        until = monotonic() + patience
        rows = list(_rows(question, text_width()))
        if len(rows) > MOST_ROWS:
            return self._too_long(question, len(rows))
        offers = "[o]nce, for this [s]ession, " + ("[a]lways" if question.rule is not None else "")
        asked = "\n".join([*rows, f"{offers.rstrip(', ')} or [N]o? "])
        typed = ask_person(asked, timeout=patience, stop=self._stop)
        for _ in range(_MOST_TYPOS):
            if typed is None:
                return NO_PERSON
            if typed.lower() in _CHOICES:
                break
            left = max(0.0, until - monotonic())
            typed = ask_person(
                f"{offers.rstrip(', ')} or [N]o? Type one of the letters: ", timeout=left, stop=self._stop
            )
        if typed is None:
            return NO_PERSON
        choice = _CHOICES.get(typed.lower(), NO)
        if choice is FOR_GOOD:
            return self._for_good(question, until)
        return SILENCE if not typed and monotonic() >= until else choice

    def _for_good(self, question: Question, until: float) -> str:
        """Show the rule before it is written; a no to the rule is a no."""
        if question.rule is None:
            return NO
        rule = "\n".join(f"    {shown(line)}" for line in question.rule.split("\n"))
        wider = ", with other harmless arguments" if "subcommand = " in question.rule else ""
        holds = f"{_FOR_ALL}{_WIDER.get(question.facts['kind'], '')}{wider}."
        asked = f"This rule is added to your own configuration:\n{rule}\n{holds}\nAdd it? [y/N] "
        typed = ask_person(asked, timeout=max(0.0, until - monotonic()), stop=self._stop)
        return FOR_GOOD if typed is not None and typed.lower() in YES else NO

    def _too_long(self, question: Question, rows: int) -> str:
        """Refuse what is too long to be read before it is answered, and say so where there is a terminal."""
        kind = shown(question.facts["kind"])
        text = f"{_head(question)}\n  this {kind} is refused: its {rows} lines are too long to read. Press Enter. "
        return NO_PERSON if ask_person(text, timeout=1.0) is None else NO


def _rows(question: Question, width: int) -> Iterator[str]:
    """Yield what is asked, row by row. A bar marks text from outside, so that no row of it passes for byleave's."""
    yield _head(question)
    yield from rows_of_name(question.who.agent, width)
    for name, value in question.facts.items():
        if name != "kind":
            yield f"  {shown(name)}:"
            yield from behind_bar(value, width)
    if question.leads_to:
        yield f"  {title_of_places(question.facts['kind'])}:"
    for place in question.leads_to:
        yield from behind_bar(place, width)
    if question.note:
        yield "  in the tool's own words:"
        yield from behind_bar(question.note, width)
    why = question.resolved.verdict.because[0].rule
    if len(shown(why)) <= width:
        yield f"  why: {shown(why)}"
    else:
        yield "  why:"
        yield from behind_bar(why, width)


def _head(question: Question) -> str:
    name = name_of(question.who.agent, question.who.identity)
    return f"{paint('byleave:', 'bold')} {name} needs your approval: {shown(question.facts['kind'])}"


def name_of(agent: str | None, identity: str) -> str:
    """Return how a row of ours names an agent, which may have chosen that name: nothing that could fill a row."""
    if agent is None:
        return "an unknown agent"
    name = "an agent with a long name" if is_long_name(agent) else quoted(agent)
    return name if identity == "verified" else f"{name} (unverified)"


def rows_of_name(agent: str | None, width: int) -> Iterator[str]:
    """Yield the name of an agent that `name_of` does not say."""
    if agent is not None and is_long_name(agent):
        yield "  its name:"
        yield from behind_bar(agent, width)


def is_long_name(agent: str) -> bool:
    """Whether the name of an agent could fill a row, or pass for the end of one."""
    return len(shown(agent)) > _LONGEST_NAME or "  " in agent


def title_of_places(kind: object) -> str:
    """Return what places mean that an action of a kind reaches, and that its own words do not say."""
    return "runs in, or writes to" if kind == "command" else "which leads to"


def behind_bar(text: str, width: int) -> Iterator[str]:
    """Yield a text from outside, escaped, in rows that fit, each behind a bar."""
    for line in text.split("\n"):
        yield from (f"{BAR}{row}" for row in wrapped(shown(line), width))
    if runs_to_the_left(text):
        yield from wrapped(TURNED, width + len(BAR))


def runs_to_the_left(text: str) -> bool:
    """Whether a text has letters that are read from right to left: some terminals turn what stands between them."""
    return not text.isascii() and any(bidirectional(char) in _TO_THE_LEFT for char in text)


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield a text in rows that fit: a terminal would wrap it too, but without the bar. All of it, however narrow."""
    width = max(1, width)
    if text.isascii():
        yield from (text[start : start + width] for start in range(0, max(1, len(text)), width))
        return

    row, taken = "", 0
    for char in text:
        room = 2 if east_asian_width(char) in "WF" else 1
        if taken + room > width:
            yield row
            row, taken = "", 0
        row, taken = row + char, taken + room
    yield row


def text_width() -> int:
    """Return how many columns a text may take, with the bar before it."""
    for stream in (2, 1, 0):
        try:
            return max(_NARROWEST, os.get_terminal_size(stream).columns - len(BAR) - 1)
        except OSError:
            continue
    return _USUAL
