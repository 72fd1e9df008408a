"""The calls of one `byleave call`: agreed to, run, answered, stopped by a signal. Everything ends with it.

Say on standard error that a call still runs, once it takes more than a second; quietly in a pipe.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import contextmanager, nullcontext, suppress
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING

from byleave.cli.asking import TerminalAsker
from byleave.cli.output import warn
from byleave.cli.terminal import ask_person, below_a_door, may_ask
from byleave.core.action import LOCAL, CallAction
from byleave.errors import ByleaveError
from byleave.guard.asking import Who
from byleave.protocol.content import text_block
from byleave.protocol.lines import LineBuffer, TooLong
from byleave.text import shown, shown_lines
from byleave.toolhost.authorize import EDIT, SKIP, DescribingAsker, WithRunModes, goes_on, run_mode
from byleave.toolhost.deadline import AnnouncingAsker, Deadline
from byleave.toolhost.description import description_of, input_schema
from byleave.toolhost.handles import Handles
from byleave.toolhost.host import ToolHost, ToolInvocation
from byleave.toolhost.outcome import EXIT_CODES, CancelledOutcome, CompletedOutcome, NeedsInput, StateOutcome, broken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any, Self

    from byleave.api import Workspace
    from byleave.cli.arguments import ParsedArguments
    from byleave.guard.asking import Asker, Question
    from byleave.policy.live_policy import LivePolicy
    from byleave.toolhost.outcome import Outcome


_FIRST = 1.0  # seconds
_SLOWER = 2.0  # how much longer each wait is, where lines stay: nobody wants a line a second in a log


class Progress:
    """A line that grows old with the call. On a terminal it is written over, and gone in the end."""

    def __init__(self, given: ParsedArguments, name: str, count: Callable[[], int]) -> None:
        self._name = shown(name)
        self._count = count
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._silent = given.flag("quiet") or sys.stderr is None
        self._over = Event()
        self._writing = Lock()
        self._thread: Thread | None = None
        self._shown = False

    def __enter__(self) -> Self:
        if not self._silent:
            self._thread = Thread(target=self._tell, name="byleave-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown and self._terminal:
            self._write("\r\x1b[K")

    def _tell(self) -> None:
        started, wait = monotonic(), _FIRST
        while not self._over.wait(wait):
            requests = self._count()
            asked = "" if not requests else f", {requests} request{'s' if requests > 1 else ''}"
            line = f"byleave: {self._name} has been running for {monotonic() - started:.0f} s{asked}"
            if self._writing.acquire(blocking=False):
                self._write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
                self._shown = True
                self._writing.release()
            wait = _FIRST if self._terminal else wait * _SLOWER

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Say nothing for a while: somebody else has the terminal, and our line would be written over theirs."""
        with self._writing:
            if self._shown and self._terminal:
                self._write("\r\x1b[K")
                self._shown = False
            yield

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            return


class SilencingAsker:
    """Asks as another asker does, in the silence that `silence` makes."""

    def __init__(self, asker: Asker, silence: Callable[[], AbstractContextManager[object]]) -> None:
        self._asker = asker
        self._silence = silence

    @property
    def name(self) -> str:
        return self._asker.name

    def ask(self, question: Question, patience: float) -> str:
        """Return what the person says."""
        with self._silence():
            return self._asker.ask(question, patience)


DOOR = "call"
_MOST_QUESTIONS = 20  # of one call; a tool that asks more goes in circles
_LONGEST_LINE = 64 << 20
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WHO = Who(None, "default")


class CallRunner:
    """Runs calls of one tool on behalf of the user at the command line."""

    def __init__(
        self, given: ParsedArguments, workspace: Workspace, policy: LivePolicy, tool: str, answers: dict[str, str]
    ) -> None:
        self._given = given
        self._name = tool
        self._told = policy.warnings
        self._answers = answers
        self._cancel = Deadline()  # of the call that runs now
        self._signals = 0
        self._progress: Progress | None = None
        self._asks = may_ask(given)
        self._stop_reading, self._stop_writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        files = given.options.get("policy", ())
        session = given.one("session") or "default"
        asker = self._asker() if self._asks else None
        self._modes = WithRunModes(policy, by_hand=not below_a_door())
        moded: Any = self._modes
        self._guard = workspace.guard(DOOR, files=files, session=session, asker=asker, policy=moded)
        self._host = ToolHost(workspace, self._guard)
        self._handles = Handles(self._host)

    def __enter__(self) -> Self:
        self._watch_signals()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._handles.close()
        self._host.close()
        warn(self._given, [each for each in self._guard.warnings if each not in self._told])
        self._guard.close()

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the tool's arguments, with what the tool is for as its description."""
        tool = self._host.tool(self._name)
        said = self._host.self_description(self._name, self._cancel)
        if said.problem is not None:
            warn(self._given, [f"what {shown(self._name)} says of itself is not used: {said.problem}"])
        schema, description = input_schema(tool, said), description_of(tool, said)
        return {**schema, "description": description} if description and "description" not in schema else schema

    def run(self, arguments: dict[str, Any]) -> Outcome:
        """Run one call, and return what came of it; whatever the tool asks is answered where somebody is there to."""
        self._cancel = Deadline()
        if self._signals:
            self._cancel.cancel()
        outcome = self._run(arguments)
        return CancelledOutcome() if self._signals and not isinstance(outcome, StateOutcome) else outcome

    def _run(self, arguments: dict[str, Any]) -> Outcome:
        self._guard.policy.look_again()
        tool = self._host.tool(self._name)
        acts = tool.settings.get("stateful") and "action" in arguments
        if acts and arguments["action"] == "fetch":  # a look changes nothing
            return self._handles.act(tool, arguments, _WHO, self._answers)
        agreed = self._agree(arguments)
        if not isinstance(agreed, dict):
            return agreed
        tool = self._host.tool(self._name)  # as it is now that everybody has agreed
        self._say_what_is_weaker()
        if acts:
            return self._handles.act(tool, agreed, _WHO, self._answers)
        with Progress(self._given, self._name, self._count) as self._progress:
            return self._run_with_answers(agreed)

    def _agree(self, arguments: dict[str, Any]) -> dict[str, Any] | Outcome:
        """Return the arguments that the call runs with, or why it does not."""
        later = goes_on(self._guard.policy, self._name, arguments)
        mode = None if later else run_mode(self._guard.policy, self._name, arguments)
        if mode == SKIP:
            return CompletedOutcome([text_block(f"{shown(self._name)} was skipped: its run mode says so")])
        if mode == EDIT:
            from byleave.cli.asking import edit_arguments

            edited = edit_arguments(arguments) if self._asks else None
            if edited is None:
                return broken("the arguments are to be edited first, and nobody is here to do that")
            arguments = edited
        self._modes.edited = arguments if mode == EDIT else None
        pin = self._host.pin(self._name)
        answer = self._guard.check(CallAction(LOCAL, self._name, arguments), _WHO, pin=pin)
        if not answer.allowed:
            return broken(answer.verdict.reason)
        if pin != self._host.pin(self._name):
            return broken("the tool has changed while you were asked about it; call it again")
        return arguments

    def _run_with_answers(self, arguments: dict[str, Any]) -> Outcome:
        answers = dict(self._answers)
        for _ in range(_MOST_QUESTIONS):
            outcome = self._host.execute(ToolInvocation(self._name, arguments, answers, _WHO), self._cancel)
            if self._cancel.cancelled:
                return CancelledOutcome()
            if not isinstance(outcome, NeedsInput):
                return outcome
            answer = self._answer(outcome.question, answers)
            if answer is None:
                return outcome
            answers[outcome.question["id"]] = answer
        return broken(f"the tool asked more than {_MOST_QUESTIONS} questions")

    def _answer(self, question: dict[str, Any], known: dict[str, str]) -> str | None:
        """Return what the person says to a tool's question; None if nobody can be asked, or said it already."""
        if question["id"] in known or not self._asks:
            return None
        rows = [f"    | {row}" for row in shown_lines(question["text"]).split("\n")]
        choices = question.get("options", question.get("choices"))
        if isinstance(choices, list) and choices:
            rows.append(f"  one of: {', '.join(shown(str(choice)) for choice in choices)}")
        text = "\n".join([f"byleave: {shown(self._name)} asks:", *rows, "> "])
        with self._silence():
            return ask_person(text, stop=self._stop_reading) or None

    def _silence(self) -> AbstractContextManager[object]:
        return nullcontext() if self._progress is None else self._progress.silence()

    def _asker(self) -> DescribingAsker:
        terminal = AnnouncingAsker(SilencingAsker(TerminalAsker(stop=self._stop_reading), self._silence))

        def describe(action: CallAction) -> str | None:
            try:
                return self._host.describe(ToolInvocation(str(action.tool), action.arguments, {}, _WHO), self._cancel)
            except ByleaveError:
                return None

        return DescribingAsker(terminal, describe)

    def _say_what_is_weaker(self) -> None:
        weaker = self._host.weaker(self._name)
        if weaker is not None:
            warn(self._given, [weaker])

    def _count(self) -> int:
        running = self._host.running
        return 0 if running is None else running.count

    def lines(self) -> Iterator[str]:
        """Yield what comes on standard input, line by line, until its end or until we are to stop."""
        buffer = LineBuffer(limit=_LONGEST_LINE)
        while (data := self._read()) is not None:
            for line in buffer.feed(data) if data else buffer.finish():
                text = "" if isinstance(line, TooLong) else line.decode("utf-8", "replace")
                if isinstance(line, TooLong) or text.strip():
                    yield text
            if not data:
                return

    def _read(self) -> bytes | None:
        descriptor = sys.stdin.fileno()
        ready = select.select([descriptor, self._stop_reading], [], [])[0]
        return None if self._stop_reading in ready else os.read(descriptor, 1 << 16)

    def _watch_signals(self) -> None:
        """Have signals stop the call: they only wake a thread, which may take locks that a handler must not."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)
        for number in _STOPPING:
            signal.signal(number, _nothing)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        Thread(target=self._heed, args=(reading,), name="byleave-signals", daemon=True).start()

    def _heed(self, reading: int) -> None:
        while received := os.read(reading, 64):
            for number in received:
                if number in _STOPPING:
                    self._stop()

    def _stop(self) -> None:
        """Ask for an end; asked again, end at once; asked once more, without another word.

        Somebody may keep us from saying anything, by not reading it; what runs in a sandbox ends with us.
        """
        self._signals += 1
        with suppress(OSError):
            os.write(self._stop_writing, b"x")
        if self._signals == 1:
            self._cancel.cancel()
        elif self._signals == 2:
            self._host.end()
        else:
            os._exit(EXIT_CODES[CancelledOutcome])


def _nothing(_number: int, _frame: object) -> None:
    """Do nothing here: the thread that watches is awake by now."""
