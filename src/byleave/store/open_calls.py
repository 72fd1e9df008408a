"""Tool calls that a hook has decided and whose outcome is not known yet. Kept in the workspace's state directory.

A hook lives for some milliseconds: what it decided is in the audit log, and here stays by which records, until the
agent reports how the call went. Nothing here is ever a reason to allow something. What cannot be kept, read or found
only means that an outcome is not recorded.

    calls/SESSION-CALL              one JSON object; both names are hashes
    calls/SESSION-CALL.requested    the agent has put its question about this call to its user

Start at `keep_open` and `close`.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from byleave.errors import StateError
from byleave.record import Record
from byleave.store.audit.records import encode
from byleave.user_files import digest, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST = 256  # calls that are open at a time; the oldest give way
LIFETIME = 86_400.0  # seconds: a person may answer after lunch, and a command may run for hours
LARGEST = 1 << 20  # bytes of one call
_DIRECTORY = "calls"
_REQUESTED = ".requested"


class OpenCall(Record):
    """A decided call: the agent's own names of its session and of the call, and the records of the decision.

    `call` is the agent's id, or a hash of the tool and its input where it has none. `marks` are hashes of what the
    agent may name in its question about the call. `actions` are those of the records, masked as they are. `asked`:
    byleave left the question to the agent, in a mode in which that asks its user. `requested`: it has.
    `suggestion` is a hash of the rule that would have allowed it.
    """

    agent: str
    session: str
    call: str
    tool: str
    marks: tuple[str, ...]
    sequences: tuple[int, ...]
    actions: tuple[Mapping[str, Any], ...] = ()
    who: tuple[str | None, str] = (None, "default")
    own_session: str = "default"
    asked: bool = False
    denied: bool = False
    suggestion: str | None = None
    created: float = 0.0
    requested: bool = False


def keep_open(directory: str, call: OpenCall) -> bool:
    """Keep a call until its outcome is reported; return whether it is kept."""
    fields = {name: getattr(call, name) for name in OpenCall.field_names() if name != "requested"}
    content = encode(fields).encode("ascii")
    if len(content) > LARGEST:
        content = encode({**fields, "actions": ()}).encode("ascii")
    try:
        place = make_private_directory(_place(directory))
        _make_room(place)
        path = os.path.join(place, _name(call.agent, call.session, call.call))
        _remove(path + _REQUESTED)
        write_private(path, content, durable=False)
    except (StateError, OSError):
        return False
    return True


def close(directory: str, agent: str, session: str, call: str) -> OpenCall | None:
    """Return an open call, which from now on is closed; None if there is none, or another process was faster."""
    path = os.path.join(_place(directory), _name(agent, session, call))
    taken = f"{path}.{os.urandom(4).hex()}"
    try:
        os.rename(path, taken)
    except OSError:
        return None
    found = _read(taken)
    requested = _remove(path + _REQUESTED)
    _remove(taken)
    if found is None or (found.agent, found.session, found.call) != (agent, session, call):
        return None
    return found.replace(requested=requested)


def note_request(directory: str, agent: str, session: str, mark: str) -> bool:
    """Keep in mind that the agent asks its user about the call with this input, and return whether there is one.

    Of several calls that are the same, it is the first that was not asked about.
    """
    place = _place(directory)
    waiting = [found for found in _of_session(place, agent, session) if mark in found.marks and not found.requested]
    for found in sorted(waiting, key=lambda each: each.created):
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            path = os.path.join(place, _name(agent, session, found.call))
            os.close(os.open(path + _REQUESTED, flags, 0o600))
        except OSError:
            continue
        return True
    return False


def open_calls(directory: str, agent: str, session: str) -> list[OpenCall]:
    """Return the open calls of one session of an agent."""
    return list(_of_session(_place(directory), agent, session))


def forget_session(directory: str, agent: str, session: str) -> None:
    """Forget the open calls of a session that has ended."""
    place, mine = _place(directory), _session_name(agent, session)
    for name in _names(place):
        if name.startswith(f"{mine}-"):
            _remove(os.path.join(place, name))


def _of_session(place: str, agent: str, session: str) -> Iterator[OpenCall]:
    names = _names(place)
    mine = _session_name(agent, session)
    for name in names:
        if name.startswith(f"{mine}-") and "." not in name:
            found = _read(os.path.join(place, name))
            if found is not None and (found.agent, found.session) == (agent, session):
                yield found.replace(requested=f"{name}{_REQUESTED}" in names)


def _place(directory: str) -> str:
    return os.path.join(directory, _DIRECTORY)


def _session_name(agent: str, session: str) -> str:
    return digest(encode([agent, session]).encode("ascii"))[:16]


def _name(agent: str, session: str, call: str) -> str:
    return f"{_session_name(agent, session)}-{digest(encode(call).encode('ascii'))[:32]}"


def _make_room(place: str) -> None:
    """Remove what is too old, and the oldest where there are too many."""
    names = _names(place)
    if len(names) < MOST:
        return
    ages: list[tuple[float, str]] = []
    for name in names:
        try:
            ages.append((os.lstat(os.path.join(place, name)).st_mtime, name))
        except OSError:
            continue
    ages.sort()
    late = time.time() - LIFETIME
    for number, (changed, name) in enumerate(ages):
        if changed < late or number <= len(ages) - MOST // 2:
            _remove(os.path.join(place, name))


def _names(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _read(path: str) -> OpenCall | None:
    try:
        tree: Any = json.loads(read_private(path, limit=LARGEST) or b"null")
        agent, identity = tree["who"]
        actions = tuple([dict(action) for action in tree["actions"]])
        found = OpenCall(
            **{
                **tree,
                "marks": tuple([str(mark) for mark in tree["marks"]]),
                "sequences": tuple([int(number) for number in tree["sequences"]]),
                "actions": actions,
                "who": (None if agent is None else str(agent), str(identity)),
                "asked": tree["asked"] is True,
                "denied": tree["denied"] is True,
                "created": float(tree["created"]),
            }
        )
    except (StateError, ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (found.agent, found.session, found.call, found.tool, found.own_session)
    return found if all(isinstance(text, str) for text in texts) else None


def _remove(path: str) -> bool:
    """Remove a file, and return whether there was one."""
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
