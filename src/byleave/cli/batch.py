"""`byleave check --batch`: one JSON object a line in, one a line out, in order, flushed per line.

A policy given inline is compiled once however many lines carry it. A line that cannot be answered is answered with an
error; the stream goes on. What was found on disk, and what failed, is looked at again after a second: the stream may be
long, and the disk may change under it.
"""

from __future__ import annotations

import os
from select import select
from time import monotonic
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from byleave.cli.output import say_verbose, warn
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.core.action import CAPABILITY_OF
from byleave.core.decision import BUILT_IN, DENY, RuleRef, Verdict, verdict_tree
from byleave.errors import ByleaveError, ConfigError, ConfigErrors, InputError
from byleave.protocol.json_members import members, repeats_a_name
from byleave.protocol.lines import MOST_VALUES, LineBuffer, TooLong, has_too_many_values
from byleave.text import shown, shown_lines, speakable

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.live_policy import LivePolicy

LONGEST_LINE = 64 << 20
MOST_POLICIES = 256  # compiled policies kept at a time; the one unused longest goes first
LOOK_AGAIN_AFTER = 1.0  # seconds; longer where loading takes long, so that it never costs more than a twentieth
_SHARE = 20
_FOREVER = float("inf")
_CHUNK = 1 << 18
_NO_ID = msgspec.Raw(b"null")
_ABSENT = msgspec.Raw(b"")
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class BatchLine(msgspec.Struct):
    """One line of input. The id and the policy stay as they came: one is sent back, the other is a key."""

    action: Any = None
    id: msgspec.Raw = _NO_ID
    root: str | msgspec.UnsetType | None = msgspec.UNSET
    policy: msgspec.Raw = _ABSENT
    unconfined: bool | msgspec.UnsetType = msgspec.UNSET


class LoadedPolicy(Struct, frozen=True):
    """What loading a policy came to, and until when that holds."""

    until: float
    policy: LivePolicy | None = None
    error: ByleaveError | ConfigErrors | None = None


def run_batch(given: ParsedArguments) -> int:
    """Answer every line of standard input; end of input ends the program."""
    answers = BatchAnswers(given)
    lines = LineBuffer(limit=LONGEST_LINE)
    while chunk := _read():
        for line in lines.feed(chunk):
            _write(answers.answer(line))
    for line in lines.finish():
        _write(answers.answer(line))
    return 0


class BatchAnswers:
    """Answers lines, and remembers the policies they name."""

    def __init__(self, given: ParsedArguments, clock: Callable[[], float] = monotonic) -> None:
        self._given = given
        self._clock = clock
        self._known: dict[tuple[str | None, bytes], LoadedPolicy] = {}
        self._said: set[str] = set()
        self._decode = msgspec.json.Decoder(BatchLine).decode
        self._encode = msgspec.json.Encoder().encode

    def answer(self, line: bytes | TooLong) -> bytes:
        """Return the answer to one line, itself a line."""
        if isinstance(line, TooLong):
            problem = f"the line is longer than {line.limit >> 20} MB"
            return self._error(_NO_ID, InputError(problem, hint="send less at once"))
        if has_too_many_values(line):
            problem = f"the line holds more than {MOST_VALUES:,} values"
            return self._error(_NO_ID, InputError(problem, hint="send less at once"))
        try:
            question = self._decode(line)
            policy = bytes(question.policy)
            if not line.isascii():
                bytes(question.id).decode()  # it was passed over, and goes back as it is: it must be UTF-8
            if not isinstance(question.action, dict):
                return self._error(question.id, InputError("the line has no action", hint=_FORM))
            if _repeats(line, question, policy):
                return self._error(_plain_id(line), InputError(_TWICE, hint="keep one of the two"))
        except _UNREADABLE as error:
            return self._error(_plain_id(line), _not_a_question(line, error))
        return self._evaluate(question, policy)

    def _evaluate(self, question: BatchLine, policy: bytes) -> bytes:
        root = question.root if isinstance(question.root, str) else None
        try:
            verdict = self._policy((root, policy)).decide(question.action, confines=question.unconfined is not True)
            return self._line({"id": question.id, "verdict": verdict_tree(verdict)})
        except (ByleaveError, ConfigErrors) as error:
            return self._error(question.id, error)
        except Exception as error:  # noqa: BLE001 -- outermost loop of a server: a defect of ours answers deny
            say_verbose(self._given, _trace(error))
            return self._line({"id": question.id, "verdict": verdict_tree(_defect(error, question.action))})

    def _policy(self, key: tuple[str | None, bytes]) -> LivePolicy:
        found = self._known.pop(key, None)
        if found is None or found.until < self._clock():
            found = self.load(*key)
        self._known[key] = found
        if len(self._known) > MOST_POLICIES:
            self._known.pop(next(iter(self._known)))
        if found.policy is not None:
            return found.policy
        raise found.error.with_traceback(None)  # type: ignore[union-attr] # there is one of the two

    def load(self, root: str | None, policy: bytes) -> LoadedPolicy:
        """Compile an inline policy, or find one if there is none; what goes wrong is remembered for a while too."""
        started = self._clock()
        try:
            workspace = open_workspace(self._given, root)
            if policy not in (b"", b"null"):
                return LoadedPolicy(_FOREVER, workspace.compile_tree(_tree(policy)))
            loaded = load_policy(self._given, workspace)
        except (ByleaveError, ConfigErrors) as error:
            return LoadedPolicy(self._until(started), error=error)
        self._report_once(loaded)
        return LoadedPolicy(self._until(started), loaded)

    def _until(self, started: float) -> float:
        now = self._clock()
        return now + max(LOOK_AGAIN_AFTER, _SHARE * (now - started))

    def _report_once(self, policy: LivePolicy) -> None:
        """Say what is to be said about a policy, though it may be loaded many times."""
        say_verbose(self._given, [line for line in origins(policy) if line not in self._said])
        warn(self._given, [warning for warning in policy.warnings if warning not in self._said])
        self._said.update(origins(policy), policy.warnings)

    def _error(self, id_: msgspec.Raw, error: ByleaveError | ConfigErrors) -> bytes:
        code = "config" if error.code == "config" else "input"
        return self._line({"id": id_, "error": {"code": code, "message": shown_lines(str(error))}})

    def _line(self, tree: dict[str, Any]) -> bytes:
        try:
            return self._encode(tree) + b"\n"
        except UnicodeEncodeError:  # a file of the configuration has a name that is not UTF-8
            return self._encode({**speakable(tree), "id": tree["id"]}) + b"\n"


_FORM = 'write {"id": 1, "action": {"kind": ...}}'
_TWICE = "the line gives a name twice, so that two readers could understand two things"


def _not_a_question(line: bytes, error: Exception) -> InputError:
    why, hint = shown(str(error)), _FORM
    if not line.strip():
        why = "it is empty"
    elif isinstance(error, RecursionError):
        why = "it is nested too deep"
    elif isinstance(error, UnicodeDecodeError) or b"\\ud" in line.lower():
        why, hint = "it holds text that is not Unicode", "a path that is not UTF-8 is sent as path_b64"
    return InputError(f"the line is not a JSON object with an action: {why}", hint=hint)


def _plain_id(line: bytes) -> msgspec.Raw:
    """Return the id of an object that is no question, so that the asker knows which one it was; null if unclear."""
    try:
        ids = [text for name, text in members(line.decode()) if name == "id"]
    except (ValueError, RecursionError):
        return _NO_ID
    return msgspec.Raw(ids[0].encode()) if len(ids) == 1 else _NO_ID


def _repeats(line: bytes, question: BatchLine, policy: bytes) -> bool:
    """Whether an object gives a name twice. The policy is looked at when it is compiled, once, and not here."""
    if _counts_up(line, question, policy):
        return False
    return repeats_a_name(line.replace(policy, b"0", 1) if policy.startswith(b"{") else line)


def _counts_up(line: bytes, question: BatchLine, policy: bytes) -> bool:
    """Whether every colon is accounted for by what was read, so that no name can have been read over.

    Next to free, and enough for most lines: flat actions without a backslash, which could stand for a colon.
    """
    colons = (question.id is not _NO_ID) + (question.root is not msgspec.UNSET) + (question.policy is not _ABSENT) + 1
    colons += question.unconfined is not msgspec.UNSET
    for name, value in question.action.items():
        if type(value) is str:
            colons += 1 + name.count(":") + value.count(":")
        elif value is None:
            colons += 1 + name.count(":")
        else:
            return False
    if type(question.root) is str:
        colons += question.root.count(":")
    if line.count(b":") != colons + policy.count(b":") + bytes(question.id).count(b":"):
        return False
    return b"\\" not in line or line.count(b"\\") == policy.count(b"\\")


def _tree(policy: bytes) -> Any:
    try:
        if repeats_a_name(policy):
            raise ConfigErrors([ConfigError("the inline policy sets a key twice", hint="keep one of the two")])
        return msgspec.json.decode(policy)
    except _UNREADABLE:
        raise InputError("the inline policy is not JSON", hint="give the tree of byleave.toml as JSON") from None


def _defect(error: Exception, action: Any) -> Verdict:
    ref = RuleRef("internal error", BUILT_IN, DENY)
    reason = f"byleave failed to evaluate this ({type(error).__name__}), so it is denied"
    return Verdict(DENY, reason, "denied", (ref,), grants=() if action.get("kind") in _OF_FILES else None)


_OF_FILES = (*CAPABILITY_OF, "move", "search")


def _trace(error: Exception) -> list[str]:
    return "".join(format_exception(error)).splitlines()


def _read() -> bytes:
    while True:
        try:
            return os.read(0, _CHUNK)
        except BlockingIOError:  # a program at the other end may have made it so
            _wait(reading=(0,))


def _write(line: bytes) -> None:
    left = memoryview(line)
    while left:
        try:
            left = left[os.write(1, left) :]
        except BlockingIOError:
            _wait(writing=(1,))


def _wait(*, reading: tuple[int, ...] = (), writing: tuple[int, ...] = ()) -> None:
    select(reading, writing, ())
