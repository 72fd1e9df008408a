"""Questions that a running process holds open until a person answers: one file each, in the workspace's private place.

The id of a question is a hash of all that is shown: another question has another id, so an answer is never for anything
else. Requests that were refused and wait for a later attempt are no files here, but pending approvals
(`store.approvals`).

    questions/ID.json      the question, written once
    questions/ID.answer    the answer, written once: the first one counts

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
from byleave.store.approvals import Approval
from byleave.user_files import digest, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

PENDING, EXPIRED = "pending", "expired"
LARGEST = 1 << 20  # bytes of a question
OPEN_FILE = "dashboard.open"
_DIRECTORY, _QUESTION, _ANSWER = "questions", ".json", ".answer"
_LOCK = struct.Struct("hhqqi4x")  # struct flock: kind, whence, start, length, process
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

    `kept`: a rule was written for it already.
    """

    id: str
    choice: str
    by: str
    reason: str = ""
    kept: bool = False


_QUESTIONS = msgspec.json.Decoder(StoredQuestion)
_ANSWERS = msgspec.json.Decoder(Answer)


def approval_of(question: StoredQuestion, status: str = PENDING, subject: str = "") -> Approval:
    """Return a question as an entry of `byleave approvals list`."""
    key = digest(msgspec.json.encode(question))
    return Approval(question.kind, status, subject, question.created, {"key": key, "session": question.session})


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
            write_private(self._path(id_), content, durable=False)
        except OSError as error:
            raise StateError(f"the question cannot be kept: {error.strerror}", hint="make room there") from None
        return id_

    def all(self) -> Iterator[StoredQuestion]:
        """Yield every question, the oldest first; what cannot be read, or was changed, is left out."""
        try:
            names = [name for name in os.listdir(self._place) if name.endswith(_QUESTION) and not name.startswith(".")]
        except OSError:
            return
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

    def answer(self, answer: Answer) -> bool:
        """Leave the answer for the process that waits; return whether it is the first one."""
        final = self._path(answer.id, _ANSWER)
        fresh = f"{final}.{os.getpid()}.{os.urandom(4).hex()}"
        reason = answer.reason[:_LONGEST_REASON]
        write_private(fresh, msgspec.json.encode(msgspec.structs.replace(answer, reason=reason)), durable=False)
        try:
            os.link(fresh, final)  # unlike a rename, it fails where an answer is already
        except FileExistsError:
            return False
        finally:
            os.unlink(fresh)
        return True

    def answer_to(self, id_: str) -> Answer | None:
        """Return the answer to a question, None as long as there is none; one that cannot be read is none."""
        try:
            content = read_private(self._path(id_, _ANSWER), limit=LARGEST)
            answer = None if content is None else _ANSWERS.decode(content)
        except (StateError, msgspec.MsgspecError):
            return None
        return answer if answer is not None and answer.id == id_ else None

    def remove(self, id_: str) -> None:
        """Show a question no more."""
        for end in (_QUESTION, _ANSWER):
            with suppress(OSError):
                os.unlink(self._path(id_, end))

    def sweep(self, now: datetime) -> None:
        """Remove questions that ended a while ago: a process that was killed leaves its own behind."""
        for question in self.all():
            if (now - read_time(question.expires)).total_seconds() > _GONE_AFTER:
                self.remove(question.id)

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
    """Return a time that a question keeps; one that cannot be read is long ago."""
    try:
        return datetime.fromisoformat(written)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


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
