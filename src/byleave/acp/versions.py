"""Which version of the protocol editor and agent agree on: one that byleave supports, or none. Sans-IO.

The editor's `initialize` asks for version 1 at most, whatever it was written with. An answer with another version
becomes an error, and nothing passes from then on: neither side comes to speak a version that byleave does not support.

Start at `Versions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from byleave.acp.requests import MalformedRequestError
from byleave.acp.unreadable_lines import decoded, may_hold
from byleave.protocol.json_members import repeats_a_name
from byleave.text import shown

if TYPE_CHECKING:
    from typing import Any

    from byleave.protocol.jsonrpc import Envelope, Id

INITIALIZE = "initialize"
NEWEST = 1  # the version of the protocol that byleave supports
_VERSION = "protocolVersion"
_LONGEST = 40  # characters of a version, in a sentence
_MOST_PENDING = 10_000
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WITH_A_MEANING = (_VERSION, "jsonrpc", "id", "method", "params", "result", "error")


class Versions:
    """Follows every `initialize`, the first one and later ones. `problem` says why nothing may pass, if so.

    A line that names no version passes as it is: what the other side believes is decided by an answer that names one.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._pending: dict[Id, _Pending] = {}

    def ask(self, envelope: Envelope, line: bytes) -> bytes:
        """Return the editor's `initialize` with a version that byleave supports; malformed ones are an error."""
        asked = line
        if _names_version(line):
            if len(self._pending) >= _MOST_PENDING:
                raise MalformedRequestError("too many of its kind are open")
            asked = _asked(line)
        if envelope.id is not None and len(self._pending) < _MOST_PENDING:
            self._pending[envelope.id] = _Pending(envelope.raw_id, is_lowered=asked is not line)
        return asked

    def concerns(self, envelope: Envelope | None, line: bytes) -> bool:
        """Whether some reader could take a line of the agent for the answer to an open `initialize`."""
        if not self._pending:
            return False
        if envelope is not None and envelope.method is None and envelope.id in self._pending:
            return True
        could_answer = envelope is None or envelope.method is None
        return could_answer and _names_version(line)

    def answer(self, envelope: Envelope | None, line: bytes) -> bytes | None:
        """Return the agent's answer to `initialize`, as the editor may see it; None for an unsupported version."""
        try:
            answered = self._answered(envelope, line)
        except MalformedRequestError as error:
            self.problem = f"the agent's answer to {INITIALIZE} is refused: {error}"
            return None
        self.problem = ""
        return answered

    def give_up(self) -> list[Any]:
        """Return the ids, as they were written, of every `initialize` that is open, and forget them."""
        open_ = [each.raw_id for each in self._pending.values()]
        self._pending.clear()
        return open_

    def _answered(self, envelope: Envelope | None, line: bytes) -> bytes:
        if envelope is None or envelope.method is not None or envelope.id is None or envelope.id not in self._pending:
            raise MalformedRequestError("not every reader reads its line alike")
        pending = self._pending[envelope.id]
        answered = _answered(line) if pending.is_lowered or _names_version(line) else line
        del self._pending[envelope.id]
        return answered


class _Pending(Struct, frozen=True):
    """An open `initialize`: its id as it was written, and whether the editor had named another version."""

    raw_id: Any
    is_lowered: bool


def _names_version(line: bytes) -> bool:
    return may_hold(line, (_VERSION.casefold(),))


def _asked(line: bytes) -> bytes:
    members = _members(line, "message")
    raw = members.get("params")
    params = {} if raw is None else _members(bytes(raw), "params")
    if _is_known(_read(params)):
        return line
    return _written({**members, "params": _raw({**params, _VERSION: msgspec.Raw(b"%d" % NEWEST)})})


def _answered(line: bytes) -> bytes:
    members = _members(line, "message")
    if "result" not in members:
        return line
    if "error" in members:
        raise MalformedRequestError("it is a result and an error")
    result = _members(bytes(members["result"]), "result")
    version = _read(result)
    if _is_known(version):
        return line
    number = NEWEST if version is None else _as_number(version)  # without one: the version that was asked for
    if number is None or not _is_known(number):
        said = shown(bytes(result[_VERSION])[:_LONGEST].decode("utf-8", "replace"))
        raise MalformedRequestError(f"its version is {said}, and byleave supports version {NEWEST} of the protocol")
    return _written({**members, "result": _raw({**result, _VERSION: msgspec.Raw(b"%d" % number)})})


def _is_known(version: Any) -> bool:
    """Whether every reader takes this for a version up to the newest that byleave supports."""
    return isinstance(version, int) and not isinstance(version, bool) and 0 <= version <= NEWEST


def _as_number(version: Any) -> int | None:
    """Return the number that another spelling of a version means: `1.0`, `"1"`."""
    if isinstance(version, float) and version.is_integer():
        return int(version)
    return int(version) if version in ("0", "1") else None


def _read(table: dict[str, msgspec.Raw]) -> Any:
    return decoded(table[_VERSION]) if _VERSION in table else None


def _members(text: bytes, name: str) -> dict[str, msgspec.Raw]:
    """Return the members of an object, if every reader sees the same ones in it."""
    try:
        if repeats_a_name(text.strip()):
            raise MalformedRequestError("it gives a name twice")
        found = _MEMBERS.decode(text)
    except (ValueError, RecursionError):
        raise MalformedRequestError(f"its {name} is no object that can be read") from None
    known = {each.casefold(): each for each in _WITH_A_MEANING}
    for key in found:
        if known.get(key.casefold(), key) != key:
            raise MalformedRequestError(f"{shown(key[:_LONGEST])} in its {name} is almost a name that has a meaning")
    return found


def _raw(members: dict[str, msgspec.Raw]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(members))


def _written(members: dict[str, msgspec.Raw]) -> bytes:
    return msgspec.json.encode(members) + b"\n"
