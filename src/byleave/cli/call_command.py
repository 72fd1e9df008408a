"""`byleave call`: authorize a call of one configured tool, run it, answer its questions, and print its outcome.

A signal stops the call. Everything ends with this process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from contextlib import contextmanager, nullcontext, suppress
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING

from byleave.caller import after_answer, front, leave
from byleave.cli.mount_command import mount_first
from byleave.cli.output import complain, say, say_json, say_verbose, warn
from byleave.cli.terminal import TerminalAsker, ask_person, may_ask, started_by_agent
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.core.action import LOCAL, CallAction
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.guard.evaluation import Who
from byleave.guard.open_guard import guard_for
from byleave.protocol.content import text_block
from byleave.protocol.lines import LineBuffer, TooLong
from byleave.text import quoted, shown, shown_lines
from byleave.toolhost.authorize import EDIT, SKIP, DescribingAsker, WithRunModes, goes_on, run_mode
from byleave.toolhost.deadline import AnnouncingAsker, Deadline
from byleave.toolhost.description import description_of, input_schema
from byleave.toolhost.handles import Handles
from byleave.toolhost.host import ToolHost, ToolInvocation
from byleave.toolhost.outcome import (
    EXIT_CODES,
    CancelledOutcome,
    CompletedOutcome,
    FailedOutcome,
    NeedsInput,
    StateOutcome,
    broken,
    outcome_tree,
)
from byleave.toolhost.process import make_room_for_descriptors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any, NoReturn, Self

    from byleave.cli.arguments import ParsedArguments
    from byleave.guard.evaluation import Asker, Question
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.toolhost.outcome import Outcome

_FIRST = 1.0  # seconds
_SLOWER = 2.0  # how much longer each wait is, where lines stay: a log needs no line a second
DOOR = "call"
_MOST_QUESTIONS = 20  # of one call; a tool that asks more goes in circles
_LONGEST_LINE = 64 << 20
_LAST_WORDS = 5.0  # seconds for a call whose caller has ended
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WHO = Who(None, "default")


def run(given: ParsedArguments) -> int:
    """Run the tool, or keep running calls of it; the exit code says what came of the last one."""
    arguments, answers = read_arguments(given.words.get("ARGUMENTS", "{}")), _answers(given)
    workspace = open_workspace(given)
    policy = mount_first(given, workspace, own=False) or load_policy(given, workspace)
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    with CallRunner(given, workspace, policy, given.words["TOOL"], answers) as calls:
        if given.flag("schema"):
            say_json(calls.schema())
            return 0
        if given.flag("keep"):
            return _keep(calls, arguments if "ARGUMENTS" in given.words else None)
        outcome = calls.run(arguments)
    _show(given, outcome)
    return EXIT_CODES[type(outcome)]


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; an InputError if they are no JSON object."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("the arguments are not JSON", hint="""write an object, such as '{"path": "src"}'""") from None
    if not isinstance(tree, dict):
        raise InputError("the arguments are not a JSON object", hint="""write an object, such as '{"path": "src"}'""")
    return tree


def _answers(given: ParsedArguments) -> dict[str, str]:
    answers: dict[str, str] = {}
    for text in given.options.get("answer", ()):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{quoted(text)} is not an answer", hint="write --answer ID=VALUE")
        answers[name] = value
    return answers


def _keep(calls: CallRunner, first: dict[str, Any] | None) -> int:
    """Answer one line of arguments after the other, until there are no more."""
    code = 0
    if first is not None:
        code = _print(calls.run(first))
    for line in calls.lines():
        try:
            outcome = calls.run(read_arguments(line))
        except (ByleaveError, ConfigErrors) as error:  # of this line; the next may do
            outcome = broken(getattr(error, "problem", str(error)))
        code = _print(outcome)
    return code


def _print(outcome: Outcome) -> int:
    say_json(outcome_tree(outcome))
    sys.stdout.flush()
    return EXIT_CODES[type(outcome)]


def _show(given: ParsedArguments, outcome: Outcome) -> None:
    if given.flag("json"):
        say_json(outcome_tree(outcome))
    elif isinstance(outcome, CompletedOutcome):
        _show_content(outcome.content)
    elif isinstance(outcome, FailedOutcome):
        complain(f"byleave: {shown_lines(outcome.failure.message)}")
        for line in outcome.failure.trace:
            complain(f"  {shown(line)}")
    elif isinstance(outcome, NeedsInput):
        _show_content(outcome.content)
        complain(f"byleave: the tool has a question: {shown_lines(outcome.question['text'])}")
        complain(f"  answer with --answer {shown(outcome.question['id'])}=VALUE")
    elif isinstance(outcome, CancelledOutcome):
        complain("byleave: cancelled")
    else:
        say_json(outcome_tree(outcome))


def _show_content(content: list[dict[str, Any]]) -> None:
    """Print blocks: text as it is, where it cannot act on a terminal; of anything else, what it is."""
    for block in content:
        text = _text_of(block)
        say(shown_lines(text) if sys.stdout.isatty() else _writable(text.removesuffix("\n")))


def _text_of(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return str(block["text"])
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"[{shown(block['type'])}]"


def _writable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


class CallRunner:
    """Runs calls of one tool on behalf of the user at the command line."""

    def __init__(
        self, given: ParsedArguments, workspace: Workspace, policy: LivePolicy, tool: str, answers: dict[str, str]
    ) -> None:
        make_room_for_descriptors()
        self._given = given
        self._name = tool
        self._known_warnings = policy.warnings
        self._answers = answers
        self._cancel = Deadline()  # of the call that runs now
        self._signals = 0
        self._progress: Progress | None = None
        self._asks = may_ask(given)
        self._stop_reading, self._stop_writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        files = given.options.get("policy", ())
        session = given.one("session") or "default"
        asker = self._asker() if self._asks else None
        self._modes = WithRunModes(policy, by_hand=not started_by_agent())
        moded: Any = self._modes
        self._guard = guard_for(
            workspace,
            DOOR,
            files=files,
            session=session,
            asker=asker,
            policy=moded,
            client_approves=None,
            check_holds=True,
        )
        self._host = ToolHost(workspace, self._guard)
        self._handles = Handles(self._host)

    def __enter__(self) -> Self:
        self._watch_signals()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._handles.close()
        self._host.close()
        warn(self._given, [each for each in self._guard.warnings if each not in self._known_warnings])
        after_answer(self._guard.close)  # it folds the audit log, and the caller need not wait for that

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the tool's arguments, with what the tool is for as its description."""
        tool = self._host.tool(self._name)
        said = self._host.self_description(self._name, self._cancel)
        if said.problem is not None:
            warn(self._given, [f"the description that {shown(self._name)} prints is not used: {said.problem}"])
        schema, description = input_schema(tool, said), description_of(tool, said)
        return {**schema, "description": description} if description and "description" not in schema else schema

    def run(self, arguments: dict[str, Any]) -> Outcome:
        """Run one call, and return its outcome. The user answers the tool's questions, if there is a terminal."""
        self._cancel = Deadline()
        if self._is_stopped():  # it has not begun, and does not
            return CancelledOutcome()
        outcome = self._run(arguments)
        return CancelledOutcome() if self._is_stopped() and not isinstance(outcome, StateOutcome) else outcome

    def _is_stopped(self) -> bool:
        return self._signals > 0

    def _run(self, arguments: dict[str, Any]) -> Outcome:
        self._guard.policy.look_again()
        tool = self._host.tool(self._name)
        acts = tool.settings.get("stateful") and "action" in arguments
        if acts and arguments["action"] == "fetch":  # a look changes nothing
            return self._handles.act(tool, arguments, _WHO, self._answers)
        agreed = self._agree(arguments)
        if not isinstance(agreed, dict):
            return agreed
        tool = self._host.tool(self._name)  # as it is after the approval
        self._warn_if_weaker()
        if acts:
            return self._handles.act(tool, agreed, _WHO, self._answers)
        with Progress(self._given, self._name, self._count) as self._progress:
            return self._run_with_answers(agreed)

    def _agree(self, arguments: dict[str, Any]) -> dict[str, Any] | Outcome:
        """Return the arguments that the call runs with, or why it does not."""
        later = goes_on(self._guard.policy, self._name, arguments)
        mode = None if later else run_mode(self._guard.policy, self._name, arguments)
        if mode == SKIP:
            return CompletedOutcome([text_block(f"{shown(self._name)} was skipped: its run mode is skip")])
        if mode == EDIT:
            edited = edit_arguments(arguments) if self._asks else None
            if edited is None:
                return broken("the run mode of this tool is edit: call it at a terminal, and edit the arguments first")
            arguments = edited
        self._modes.edited = arguments if mode == EDIT else None
        pin = self._host.pin(self._name)
        answer = self._guard.check(CallAction(LOCAL, self._name, arguments), _WHO, pin=pin)
        if not answer.allowed:
            return broken(answer.verdict.reason)
        if pin != self._host.pin(self._name):
            return broken("the files of the tool changed while you were asked for approval; call it again")
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
        """Return what the person says to a tool's question; None without a terminal, or if it is known."""
        if question["id"] in known or not self._asks:
            return None
        rows = [f"    | {row}" for row in shown_lines(question["text"]).split("\n")]
        choices = question.get("options", question.get("choices"))
        if isinstance(choices, list) and choices:
            rows.append(f"  one of: {', '.join(shown(str(choice)) for choice in choices)}")
        text = "\n".join([f"byleave: {shown(self._name)} has a question for you", *rows, "> "])
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

    def _warn_if_weaker(self) -> None:
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
        Thread(target=self._watch, args=(reading,), name="byleave-signals", daemon=True).start()
        asking = front()
        if asking is not None:
            asking.pass_signals(self._stop, self._end_with_front)

    def _watch(self, reading: int) -> None:
        while received := os.read(reading, 64):
            for number in received:
                if number in _STOPPING:
                    self._stop()

    def _end_with_front(self) -> NoReturn:
        """End the call, whose caller has ended."""
        self._stop()
        self._host.end()
        sleep(_LAST_WORDS)  # what is written now has no reader: it must not keep us
        os._exit(EXIT_CODES[CancelledOutcome])

    def _stop(self) -> None:
        """Cancel the call; the second time, end it at once; the third time, exit.

        A reader that stops reading can keep this process from printing; what runs in a sandbox ends with it.
        """
        self._signals += 1
        with suppress(OSError):
            os.write(self._stop_writing, b"x")
        if self._signals == 1:
            self._cancel.cancel()
        elif self._signals == 2:
            self._host.end()
        else:
            leave(EXIT_CODES[CancelledOutcome])


def _nothing(_number: int, _frame: object) -> None:
    """Do nothing here: the thread that watches wakes up."""


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
            self._thread = Thread(target=self._report, name="byleave-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown and self._terminal:
            self._write("\r\x1b[K")

    def _report(self) -> None:
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
        """Print nothing while a question or an editor has the terminal."""
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


def edit_arguments(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments as the user edits them in their own editor; None if they leave the file empty."""
    import tempfile  # heavy: few arguments are edited

    with tempfile.TemporaryDirectory(prefix="byleave-") as directory:
        path = os.path.join(directory, "arguments.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(arguments, file, indent=2, ensure_ascii=False)
            file.write("\n")
        _edit(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    return _read_edited(text) if text.strip() else None


def _edit(path: str) -> None:
    import shlex
    import subprocess  # heavy: few arguments are edited

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), path], check=False)  # noqa: S603 -- the user's own editor
    except (OSError, ValueError):
        raise InputError(
            f"the editor {shown(editor)} cannot be started", hint="set EDITOR to an editor that can be started"
        ) from None
    if done.returncode != 0:
        raise InputError(
            "the editor failed, so nothing was run", hint="try again; to run nothing, leave the file empty"
        )


def _read_edited(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise InputError(
            "the edited arguments are not a JSON object, so nothing was run", hint="write an object: { ... }"
        )
    return tree
