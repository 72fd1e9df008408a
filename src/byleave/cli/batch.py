"""`byleave check --batch`: one JSON object a line in, one a line out, in order, flushed per line.

A policy given inline is compiled once however many lines carry it. A line that cannot be answered is answered with an
error; the stream goes on.
"""

import os
import sys
from typing import Any

import msgspec

from byleave.api import Workspace
from byleave.cli.output import warn
from byleave.core.verdict import BUILT_IN, DENY, RuleRef, Verdict, verdict_tree
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.wire.lines import LineBuffer, TooLong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.cli.arguments import Given
    from byleave.guard.judge import Policy

LONGEST_LINE = 64 << 20
MOST_POLICIES = 256  # compiled inline policies kept at a time
_CHUNK = 1 << 18
_NO_ID = msgspec.Raw(b"null")
_ABSENT = msgspec.Raw(b"")


class Question(msgspec.Struct):
    """One line of input. The id and the policy stay as they came: one is sent back, the other is a key."""

    action: Any = None
    id: msgspec.Raw = _NO_ID
    root: str | None = None
    policy: msgspec.Raw = _ABSENT


def run_batch(given: "Given") -> int:
    """Answer every line of standard input; end of input ends the program."""
    answers = Answers(given)
    lines = LineBuffer(limit=LONGEST_LINE)
    while chunk := os.read(0, _CHUNK):
        for line in lines.feed(chunk):
            _write(answers.answer(line))
    for line in lines.finish():
        _write(answers.answer(line))
    return 0


class Answers:
    """Answers lines, and remembers the policies they name."""

    def __init__(self, given: "Given") -> None:
        self._given = given
        self._workspaces: dict[str | None, Workspace] = {}
        self._policies: dict[tuple[str | None, bytes], Policy | ByleaveError | ConfigErrors] = {}
        self._decode = msgspec.json.Decoder(Question).decode
        self._encode = msgspec.json.Encoder().encode

    def answer(self, line: "bytes | TooLong") -> bytes:
        """Return the answer to one line, itself a line."""
        if isinstance(line, TooLong):
            return self._error(
                _NO_ID, InputError(f"the line is longer than {line.limit} bytes", hint="send less at once")
            )
        question = self._read(line)
        if not isinstance(question, Question):
            return question
        try:
            verdict = self._policy(question).decide(question.action)
        except (ByleaveError, ConfigErrors) as error:
            return self._error(question.id, error)
        except Exception as error:  # noqa: BLE001 -- outermost loop of a server: a defect of ours answers deny
            verdict = _defect(error)
        return self._encode({"id": question.id, "verdict": verdict_tree(verdict)}) + b"\n"

    def _read(self, line: bytes) -> Question | bytes:
        try:
            question = self._decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._error(self._id_of(line), InputError(*_NOT_A_QUESTION[:1], hint=_NOT_A_QUESTION[1]))
        if not isinstance(question.action, dict):
            return self._error(question.id, InputError("the line has no action", hint=_NOT_A_QUESTION[1]))
        return question

    @staticmethod
    def _id_of(line: bytes) -> msgspec.Raw:
        """Return the id of a line that is an object but no question, so that the asker knows which one it was."""
        try:
            return msgspec.json.decode(line, type=_OnlyId).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _NO_ID

    def _policy(self, question: Question) -> "Policy":
        key = (question.root, bytes(question.policy))
        found = self._policies.get(key)
        if found is None:
            if len(self._policies) >= MOST_POLICIES:
                self._policies.pop(next(iter(self._policies)))
            found = self._policies[key] = self._load(*key)
        if isinstance(found, ByleaveError | ConfigErrors):
            raise found
        return found

    def _load(self, root: str | None, policy: bytes) -> "Policy | ByleaveError | ConfigErrors":
        given = self._given
        try:
            workspace = self._workspaces.get(root)
            if workspace is None:
                workspace = self._workspaces[root] = Workspace(root if root is not None else given.one("root"))
            if policy not in (b"", b"null"):
                return workspace.compile_tree(_tree(policy))
            loaded = workspace.load(files=given.options.get("policy", ()), session=given.one("session") or "default")
        except (ByleaveError, ConfigErrors) as error:
            return error
        warn(given, loaded.warnings)
        return loaded

    def _error(self, id_: msgspec.Raw, error: "ByleaveError | ConfigErrors") -> bytes:
        code = "config" if error.code == "config" else "input"
        return self._encode({"id": id_, "error": {"code": code, "message": str(error)}}) + b"\n"


class _OnlyId(msgspec.Struct):
    id: msgspec.Raw = _NO_ID


_NOT_A_QUESTION = ("the line is not a JSON object with an action", 'write {"id": 1, "action": {"kind": ...}}')


def _tree(policy: bytes) -> Any:
    try:
        return msgspec.json.decode(policy)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("the inline policy is not JSON", hint="give the tree of byleave.toml as JSON") from None


def _defect(error: Exception) -> Verdict:
    ref = RuleRef("internal error", BUILT_IN, DENY)
    return Verdict(DENY, f"byleave failed to judge this ({type(error).__name__}), so it is denied", "denied", (ref,))


def _write(line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]
