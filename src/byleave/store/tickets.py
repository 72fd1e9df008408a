"""One-time tickets: a command that a hook allowed to run confined, until the confined run takes it up.

An agent may drop the input that a hook changed, take the answer of another hook, or run a different text. So a changed
call carries no more than a ticket. `byleave run --ticket` redeems it, once, and what runs is the text that the ticket
keeps: the one that the policy decided.

A ticket is a private file below the workspace's state directory; the first process to rename it redeems it. A ticket
for an allow that stays unredeemed is evidence that the command ran without confinement (`overdue`); where a person had
to be asked it proves nothing, because the person may have said no. `end_confining` keeps such evidence per agent, until
a person has looked (`resume_confining`).

The hook comes through here before every shell command: nothing heavy is imported.

    tickets/ID.allow, tickets/ID.asked    one JSON object each
    tickets/ID.used.RANDOM                being redeemed; gone in a moment
    tickets/ID.cwd                        the directory in which the command ended, for the agent's shell
    tickets/ended-AGENT                   why confining has ended for this agent

Start at `issue` and `redeem`.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from byleave.errors import StateError
from byleave.record import Record
from byleave.store.audit.records import encode
from byleave.text import quoted
from byleave.user_files import make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

LIFETIME = 600.0  # seconds from the hook's answer to the run, where no person stands in between
ASKED_LIFETIME = 86_400.0  # a person may answer after lunch
MOST = 1024  # of each kind: agents run many calls at once, and keep some waiting
LARGEST = 4 << 20  # bytes; an event may be larger, but no command line is
_DIRECTORY = "tickets"
_ALLOW, _ASKED, _USED, _ENDED = "allow", "asked", "used", "ended-"
_LETTERS = frozenset("0123456789abcdef")
_LENGTH = 32
_LIFETIMES = {_ALLOW: LIFETIME, _ASKED: ASKED_LIFETIME}


class Ticket(Record):
    """A command as the policy decided it, and whose it is.

    `session` is the agent's own name of its session ("" if it has none), `call` its id of the tool call,
    `agent_process` the pid and the start time of the agent's process, `sequence` the audit record of the decision.
    `asked`: a person had to be asked, so that an unredeemed ticket proves nothing. `created`: seconds since 1970.
    `profile` (the agent's name in rules), `files` (in place of the usual ones) and `store_session` are what the hook's
    command line said about the policy.
    """

    id: str
    text: str
    cwd: str
    root: str
    shell: str | None
    agent: str
    session: str = ""
    agent_process: tuple[int, int] | None = None
    call: str | None = None
    sequence: int | None = None
    asked: bool = False
    created: float = 0.0
    profile: str | None = None
    files: tuple[str, ...] = ()
    store_session: str = "default"


def new_id() -> str:
    """Return a ticket's id that cannot be guessed."""
    return os.urandom(_LENGTH // 2).hex()


def issue(directory: str, ticket: Ticket) -> None:
    """Keep a ticket in the workspace's state directory; a StateError if it cannot be redeemed later."""
    content = encode({name: getattr(ticket, name) for name in Ticket.field_names()}).encode("ascii")
    if not _is_id(ticket.id) or len(content) > LARGEST:
        raise StateError("this command cannot get a ticket", hint="its text is too long")
    kind = _ASKED if ticket.asked else _ALLOW
    try:
        place = make_private_directory(_place(directory))
        if _sweep(place, time.time()).count(kind) >= MOST and not (ticket.asked and _forget_oldest(place)):
            raise StateError(f"{MOST} confined commands are waiting to be started", hint="try again in a while")
        write_private(os.path.join(place, f"{ticket.id}.{kind}"), content, durable=False)
    except OSError as error:
        raise StateError(
            f"a ticket cannot be kept: {error.strerror}", hint="make room in the state directory"
        ) from None


def cwd_file(directory: str, ticket_id: str) -> str:
    """Return where the confined run writes the directory in which its command ended; swept after a while."""
    return os.path.join(_place(directory), f"{ticket_id}.cwd")


def redeem(directory: str, ticket_id: str, *, now: float | None = None) -> Ticket:
    """Return the ticket, which from now on is used; a StateError if it is unknown, used or too old."""
    place = _place(directory)
    for kind in (_ALLOW, _ASKED) if _is_id(ticket_id) else ():
        used = os.path.join(place, f"{ticket_id}.{_USED}.{os.urandom(4).hex()}")
        try:
            os.rename(os.path.join(place, f"{ticket_id}.{kind}"), used)  # of two, one finds it gone
        except OSError:
            continue
        ticket = _read(used)
        _remove(used)
        if ticket is None or ticket.id != ticket_id or ticket.asked != (kind == _ASKED):
            break
        if _age(ticket, now) > _LIFETIMES[kind]:
            raise StateError("the ticket is too old", hint="have the agent run the command again")
        return ticket
    raise StateError("there is no such ticket, or it was used before", hint="have the agent run the command again")


def find(directory: str, ticket_id: str, *, now: float | None = None) -> Ticket | None:
    """Return a ticket that can still be redeemed, without redeeming it; None if there is none."""
    for kind in (_ALLOW, _ASKED) if _is_id(ticket_id) else ():
        ticket = _read(os.path.join(_place(directory), f"{ticket_id}.{kind}"))
        if ticket is not None and ticket.id == ticket_id and _age(ticket, now) <= _LIFETIMES[kind]:
            return ticket
    return None


def overdue(directory: str, now: float | None = None) -> list[Ticket]:
    """Return the tickets of allowed commands that were not redeemed in time. `discard` those that are recorded."""
    place, at = _place(directory), time.time() if now is None else now
    late = [name for name, kind, age in _entries(place, at) if kind == _ALLOW and age > LIFETIME]
    found = [(name, _read(os.path.join(place, name))) for name in late]
    for name, ticket in found:
        if ticket is None:  # a power cut leaves an empty file, and nothing that ran then runs now
            _remove(os.path.join(place, name))
    return [ticket for _name, ticket in found if ticket is not None and _age(ticket, now) > LIFETIME]


def unredeemed(directory: str, agent: str, session: str, call: str) -> Ticket | None:
    """Return the ticket of this call of an agent if it is not redeemed."""
    place, sought = _place(directory), encode(call).encode("ascii")
    for name, kind, _ in _entries(place, time.time()):
        if kind in _LIFETIMES and sought in _content(os.path.join(place, name)):
            ticket = _read(os.path.join(place, name))
            if ticket is not None and (ticket.agent, ticket.session, ticket.call) == (agent, session, call):
                return ticket
    return None


def discard(directory: str, ticket: Ticket) -> None:
    """Forget a ticket, once what it says is recorded."""
    _remove(os.path.join(_place(directory), f"{ticket.id}.{_ASKED if ticket.asked else _ALLOW}"))


def end_confining(directory: str, agent: str, why: str) -> None:
    """Keep in mind that a command of this agent ran without the confinement that it needed."""
    place = make_private_directory(_place(directory))
    path = os.path.join(place, f"{_ENDED}{agent}")
    if not os.path.lexists(path):  # the first reason is the one to look at
        write_private(path, why.encode("utf-8", "backslashreplace"))


def confining_ended(directory: str, agent: str) -> str | None:
    """Return why the commands of this agent are not confined any more; None if they are."""
    path = os.path.join(_place(directory), f"{_ENDED}{agent}")
    try:
        content = read_private(path, limit=LARGEST)
    except StateError as error:
        return error.problem
    return None if content is None else content.decode("utf-8", "replace") or "a command ran unconfined"


def agents_with_ended_confining(directory: str) -> list[tuple[str, str]]:
    """Return every agent whose commands are not confined any more, and why."""
    agents = [name.removeprefix(_ENDED) for name in _names(_place(directory)) if name.startswith(_ENDED)]
    return [(agent, confining_ended(directory, agent) or "") for agent in sorted(agents)]


def resume_confining(directory: str, agent: str) -> bool:
    """Forget why confining ended for this agent, and say whether it had. Only a person may want that."""
    path = os.path.join(_place(directory), f"{_ENDED}{agent}")
    known = os.path.lexists(path)
    _remove(path)
    return known


def _place(directory: str) -> str:
    return os.path.join(directory, _DIRECTORY)


def _is_id(text: str) -> bool:
    return len(text) == _LENGTH and _LETTERS.issuperset(text)


def _age(ticket: Ticket, now: float | None) -> float:
    """Return how old a ticket is; a clock that was set back makes it too old, not young for ever."""
    age = (time.time() if now is None else now) - ticket.created
    return age if age >= -LIFETIME else ASKED_LIFETIME + 1


def _sweep(place: str, now: float) -> list[str]:
    """Remove what nothing can use any more, and return the kinds of the tickets that remain.

    The tickets of allowed commands stay, however old: they are evidence.
    """
    kinds: list[str] = []
    for name, kind, age in _entries(place, now):
        if kind in (_ASKED, _USED, "") and age > _LIFETIMES.get(kind, LIFETIME):
            _remove(os.path.join(place, name))
        else:
            kinds.append(kind)
    return kinds


def _forget_oldest(place: str) -> bool:
    """Make room for a question: the oldest one was most likely answered with no."""
    ages = [(age, name) for name, kind, age in _entries(place, time.time()) if kind == _ASKED]
    for _, name in sorted(ages, reverse=True)[: len(ages) - MOST + 1]:
        _remove(os.path.join(place, name))
    return True


def _entries(place: str, now: float) -> Iterator[tuple[str, str, float]]:
    """Yield the name, the kind and the age of every file that has to do with a ticket."""
    for name in _names(place):
        if name.startswith(_ENDED):
            continue
        kind = next((part for part in name.split(".")[1:2] if part in (_ALLOW, _ASKED, _USED)), "")
        try:
            yield name, kind, now - os.lstat(os.path.join(place, name)).st_mtime
        except OSError:  # redeemed meanwhile
            continue


def _names(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{quoted(place)} cannot be read: {error.strerror}", hint="it must be yours") from None


def _content(path: str) -> bytes:
    return read_private(path, limit=LARGEST) or b""


def _read(path: str) -> Ticket | None:
    try:
        tree: Any = json.loads(_content(path))
        process = tree["agent_process"]
        tree["agent_process"] = None if process is None else (int(process[0]), int(process[1]))
        ticket = Ticket(**{**tree, "files": tuple(tree["files"])})
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None
    return ticket if all(isinstance(getattr(ticket, name), str) for name in ("text", "cwd", "root", "agent")) else None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
