"""Questions that a running process holds open until a person answers: one file each, in the workspace's private place.

The id of a question is the beginning of a hash of all that is shown. The whole hash, `fingerprint`, is in the answer:
it is never for anything else. Requests that were refused and wait for a later attempt are no files here, but pending
approvals (`store.approvals`).

    questions/ID.json        the question, written once
    questions/ID.answer      the answer, written once: the first one counts
    questions/answers.lock   held while an answer is given, and while a process stops to wait: either the answer was
                             there before, or the question is gone and cannot be answered

`dashboard.open` in the user's state is locked as long as a dashboard or a terminal view can show questions: without
one, no process waits. What a yes covers, and what is kept of it: `guard.guard`. Start at `Questions`.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from byleave.errors import StateError
from byleave.store.approvals import Approval, refuse_changed
from byleave.user_files import Lock, digest, make_private_directory, read_private, what_helps, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

PENDING, EXPIRED = "pending", "expired"
LARGEST = 1 << 20  # bytes of a question
OPEN_FILE = "dashboard.open"
_DIRECTORY, _QUESTION, _ANSWER, _LOCK_FILE = "questions", ".json", ".answer", "answers.lock"
_LOCK = struct.Struct("hhqqi4x")  # struct flock: kind, whence, start, length, process
_LOCK_PATIENCE = 5.0  # seconds: a program that answers, and was stopped meanwhile, must not stop all that ask
_GONE_AFTER = 60.0  # seconds for which a question whose asker has ended is still shown
_LONGEST_REASON = 1000  # characters of what a person says to the agent


class AskedAction(msgspec.Struct, frozen=True):
    """One action of a question: what is attempted, what the policy says, and where its paths really lead."""

    key: str
    action: dict[str, Any]
    verdict: dict[str, Any]
    exact: bool = True  # nothing of the action is masked
    leads_to: tuple[str, ...] = ()


class StoredQuestion(msgspec.Struct, frozen=True):
    """What a person is shown. `holder` is the process that waits, with its start time.

    `input` is what the agent would hand to its tool, where that says more than the actions do. `once`: a yes is for
    this one time, because it is not certain what the request does.
    """

    root: str
    door: str
    session: str
    agent: str | None
    identity: str
    why: str
    actions: tuple[AskedAction, ...]
    created: str
    expires: str
    holder: tuple[int, int]
    input: dict[str, Any] | None = None
    once: bool = False
    nonce: str = ""  # two identical requests at a time are two questions

    @property
    def kind(self) -> str:
        return "call" if self.actions[0].action.get("kind") == "call" else "action"

    @property
    def id(self) -> str:
        """The id by which `byleave approvals list` has it, too."""
        return approval_of(self).id


class Answer(msgspec.Struct, frozen=True):
    """What a person said: `choice` is a word of `guard.evaluation`, `by` where it was said, `reason` is for the agent.

    `kept`: a rule was written for it already. `of` is the fingerprint of the question; `Questions.answer` fills it in.
    """

    id: str
    choice: str
    by: str
    reason: str = ""
    kept: bool = False
    of: str = ""


_QUESTIONS = msgspec.json.Decoder(StoredQuestion)
_ANSWERS = msgspec.json.Decoder(Answer)


def fingerprint(question: StoredQuestion | Approval) -> str:
    """Return a hash of everything that is shown of a question, and of everything that a yes to it covers.

    Hand it to the function that answers, as `seen`: another question is not answered then.
    """
    if isinstance(question, Approval):
        return question.fingerprint
    return digest(msgspec.json.encode(question))


def approval_of(question: StoredQuestion, status: str = PENDING, subject: str = "") -> Approval:
    """Return a question as an entry of `byleave approvals list`."""
    detail = {"key": fingerprint(question), "session": question.session}
    return Approval(question.kind, status, subject, question.created, detail)


class Questions:
    """The questions of one workspace."""

    def __init__(self, directory: str) -> None:
        self._place = os.path.join(directory, _DIRECTORY)

    def put(self, question: StoredQuestion) -> str:
        """Have a question shown; return its id. A StateError if that cannot be."""
        content = msgspec.json.encode(question)
        if len(content) > LARGEST:
            raise StateError("the question is too long to be shown", hint="do it yourself")
        make_private_directory(self._place)
        id_ = question.id
        try:
            with self._locked():
                if os.path.lexists(self._path(id_)):
                    raise StateError("another question has the same id", hint="try again")
                self._remove(id_)  # an answer that was left behind is not for this one
                write_private(self._path(id_), content, durable=False)
        except OSError as error:
            raise StateError(f"the question cannot be kept: {error.strerror}", hint=what_helps(error)) from None
        return id_

    def all(self) -> Iterator[StoredQuestion]:
        """Yield every question, the oldest first; what cannot be read, or was changed, is left out."""
        names = [name for name in self._names() if name.endswith(_QUESTION) and not name.startswith(".")]
        found = [question for name in names if (question := self.get(name.removesuffix(_QUESTION))) is not None]
        yield from sorted(found, key=lambda each: each.created)

    def get(self, id_: str) -> StoredQuestion | None:
        """Return a question, None if there is none with this id and its own content."""
        if not id_.isalnum():
            return None
        try:
            content = read_private(self._path(id_), limit=LARGEST)
            question = None if content is None else _QUESTIONS.decode(content)
        except (StateError, msgspec.MsgspecError, RecursionError):
            return None
        return question if question is not None and question.actions and question.id == id_ else None

    def answer(self, answer: Answer, *, seen: str = "", first: Callable[[], None] | None = None) -> bool:
        """Leave the answer for the process that waits; return whether it is the first one, and that process waits.

        `seen` is the fingerprint of the question that was shown: a StateError if this is another one. `first` is done
        before the process gets the answer, while no other answer can be given, and only if none was: where it fails,
        there is no answer. A StateError if the answer cannot be kept.
        """
        final = self._path(answer.id, _ANSWER)
        fresh = f"{final}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            with self._locked():
                question = self.get(answer.id)
                if question is None:
                    return False
                refuse_changed(seen, fingerprint(question))
                if status_of(question, datetime.now(UTC)) == EXPIRED or os.path.lexists(final):
                    return False
                kept = msgspec.structs.replace(answer, reason=answer.reason[:_LONGEST_REASON], of=fingerprint(question))
                write_private(fresh, msgspec.json.encode(kept), durable=False)
                try:  # what takes room is written by now
                    if first is not None:
                        first()
                    os.rename(fresh, final)
                except BaseException:
                    os.unlink(fresh)
                    raise
        except FileNotFoundError:  # the directory: no process of this workspace ever waited
            return False
        except OSError as error:
            raise StateError(f"the answer cannot be kept: {error.strerror}", hint=what_helps(error)) from None
        return True

    def answer_to(self, id_: str) -> Answer | None:
        """Return the answer to a question, None as long as there is none; one that cannot be read is none."""
        try:
            content = read_private(self._path(id_, _ANSWER), limit=LARGEST)
            answer = None if content is None else _ANSWERS.decode(content)
        except (StateError, msgspec.MsgspecError, RecursionError):
            return None
        return answer if answer is not None and answer.id == id_ else None

    def withdraw(self, question: StoredQuestion) -> Answer | None:
        """Show a question no more, and return the answer if one came: no other can be given from now on."""
        id_ = question.id
        try:
            with self._locked():
                answer = self.answer_to(id_)
                self._remove(id_)
        except (OSError, StateError):  # without the lock, an answer may still be given: it does not count
            self._remove(id_)
            return None
        return answer if answer is not None and answer.of == fingerprint(question) else None

    def abandon(self, question: StoredQuestion) -> None:
        """Take no answer to a question any more; it is shown as expired once this process has ended.

        An empty answer says so: no other can be given, and it is none itself.
        """
        id_ = question.id
        try:
            with self._locked():
                write_private(self._path(id_, _ANSWER), b"", durable=False)
        except (OSError, StateError):
            self._remove(id_)

    def sweep(self, now: datetime) -> None:
        """Remove questions that ended a while ago, and what belongs to none: killed processes leave such files."""
        names = set(self._names())
        for name in names:
            id_, _dot, _ending = name.partition(".")
            path = os.path.join(self._place, name)
            with suppress(OSError):
                if name == _LOCK_FILE or abs(now.timestamp() - os.lstat(path).st_mtime) <= _GONE_AFTER:
                    continue  # what was written lately has not ended a while ago
                question = self.get(id_) if f"{id_}{_QUESTION}" in names else None
                if question is None:
                    os.unlink(path)
                elif (now - read_time(question.expires)).total_seconds() > _GONE_AFTER:
                    self._remove(id_)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._place)
        except OSError:
            return []

    def _locked(self) -> Lock:
        return Lock(os.path.join(self._place, _LOCK_FILE), patience=_LOCK_PATIENCE)

    def _remove(self, id_: str) -> None:
        for end in (_QUESTION, _ANSWER):
            with suppress(OSError):
                os.unlink(self._path(id_, end))

    def _path(self, id_: str, end: str = _QUESTION) -> str:
        return os.path.join(self._place, f"{id_}{end}")


def status_of(question: StoredQuestion, now: datetime) -> str:
    """Return whether a question can still be answered: its asker lives, and its time is not over."""
    if question.expires < _written(now):
        return EXPIRED
    if started_at(question.holder[0]) != question.holder[1]:
        return EXPIRED
    return PENDING


def started_at(pid: int) -> int | None:
    """Return when a process started, None if it has ended: a number that is given again has another time."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def this_process() -> tuple[int, int]:
    """Return this process as the holder of a question."""
    return os.getpid(), started_at(os.getpid()) or 0


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_after(now: datetime, seconds: float) -> str:
    """Return the time that many seconds from now, as questions keep it: never earlier."""
    return _written(datetime.fromtimestamp(int(now.timestamp() + seconds + 0.999), UTC))


def read_time(written: str) -> datetime:
    """Return a time that a question keeps; one that cannot be read, or is in no time zone, is long ago."""
    long_ago = datetime.fromtimestamp(0, UTC)
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return long_ago
    return long_ago if moment.tzinfo is None else moment


class OpenView:
    """Says to all processes of this user that questions are seen, from `enter` to `leave`. Ends with this process."""

    def __init__(self, state: str) -> None:
        self._path = os.path.join(state, OPEN_FILE)
        self._descriptor = -1

    def enter(self) -> None:
        """Be seen; nothing happens if we are."""
        if self._descriptor >= 0:
            return
        make_private_directory(os.path.dirname(self._path))
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))

    def leave(self) -> None:
        """Be seen no more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.leave()


def is_seen(state: str) -> bool:
    """Whether a dashboard or a terminal view of this user shows questions now."""
    try:
        descriptor = os.open(os.path.join(state, OPEN_FILE), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:  # a question to the kernel, which takes no lock: two processes that ask do not take each other for a view
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind = _LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0]
        return bool(kind != fcntl.F_UNLCK)
    except OSError:
        return False
    finally:
        os.close(descriptor)
