"""The two ends that a conversation holds: what waits to be written to the tool, and what other threads want done.

JSON at speed, for the host's side of a conversation.

What a tool writes may take many times its length in memory once it is read: two brackets become a list. So of a long
line only what may be long is read: the content of a file, the body of a request.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, UnsetType

from byleave.protocol.json_codec import PLAIN
from byleave.protocol.jsonrpc import Codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.toolhost.process import ToolProcess


class Outbox:
    """Lines for the tool that it has not taken yet. Writing never waits."""

    def __init__(self, started: ToolProcess) -> None:
        self._started = started
        self._lines: deque[memoryview] = deque()
        self.bytes = 0
        self.holds_answers = False  # and not only complaints

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, line: bytes, *, answers: bool) -> None:
        """Write a line, as far as the tool takes it now; the rest waits."""
        if self._started.stdin < 0:
            return
        self.holds_answers = self.holds_answers or answers
        self._lines.append(memoryview(line))
        self.bytes += len(line)
        self.write()

    def write(self) -> None:
        """Write as much as the tool takes now."""
        try:
            while self._lines:
                written = os.write(self._started.stdin, self._lines[0])
                self.bytes -= written
                rest = self._lines[0][written:]
                if rest:
                    self._lines[0] = rest
                    return
                self._lines.popleft()
            self.holds_answers = False
        except BlockingIOError:
            return
        except OSError:  # it has closed its input: it will learn nothing more from us
            self._lines.clear()
            self.bytes = 0
            self.holds_answers = False
            self._started.close_stdin()


class WakeupQueue:
    """What other threads want done by the one that owns the conversation: it wakes up, and does it."""

    def __init__(self) -> None:
        self._wanted: deque[Callable[[], None]] = deque()
        self._waking = Lock()  # so that nobody writes into what the number of the closed pipe means by then
        self.descriptor, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def post(self, do: Callable[[], None]) -> None:
        """Have `do` done soon; never, if the conversation is over."""
        self._wanted.append(do)
        with self._waking, suppress(OSError):  # full: it is awake already; closed: it is over
            os.write(self._writing, b"x")

    def heed(self) -> None:
        """Do what is wanted."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 4096)
        while self._wanted:
            self._wanted.popleft()()

    def close(self) -> None:
        """Hear nobody any more."""
        with self._waking:
            reading, writing, self.descriptor, self._writing = self.descriptor, self._writing, -1, -1
            os.close(reading)
            os.close(writing)


_LONG = 1 << 20  # bytes from which on a line is read with care
_LONGEST_REST = 16 << 20  # bytes of anything that is no content: a result with all its blocks
_CONTENTS = ("fs.write", "write", "http.post", "http.put", "http.patch")
_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


class _Message(msgspec.Struct):
    """A message whose params are not read yet."""

    jsonrpc: str | UnsetType = UNSET
    id: int | float | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


class _Content(msgspec.Struct):
    """The parameters of a method that may carry much: one long text, and little else."""

    path: str | UnsetType = UNSET
    path_b64: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    encoding: str | UnsetType | None = UNSET
    exclusive: bool | UnsetType = UNSET
    url: str | UnsetType = UNSET
    headers: Raw | UnsetType = UNSET
    body: str | UnsetType = UNSET


_messages = msgspec.json.Decoder(_Message)
_contents = msgspec.json.Decoder(_Content)


def _decode(line: bytes) -> Any:
    try:
        return _decoder.decode(line) if len(line) <= _LONG else _decode_long(line)
    except ValueError:
        if b"\\ud" not in line.lower() or len(line) > _LONGEST_REST:
            raise
        return PLAIN.decode(line)  # an escape for half of a character, which names that are no UTF-8 may hold


def _decode_long(line: bytes) -> dict[str, Any]:
    """Read a long message; a ValueError if it is long where there is no need to be."""
    message = _given(_messages.decode(line))
    if "params" in message:
        params, carries = message["params"], message.get("method") in _CONTENTS
        message["params"] = _content(params) if carries else _rest(params)
    return message


def _content(params: Raw) -> dict[str, Any]:
    given = _given(_contents.decode(params))
    if "headers" in given:
        given["headers"] = _rest(given["headers"], limit=_LONG)
    return given


def _rest(raw: Raw, limit: int = _LONGEST_REST) -> Any:
    if len(memoryview(raw)) > limit:
        raise ValueError("this is longer than there is need to be")
    return _decoder.decode(raw)


def _given(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name in struct.__struct_fields__ if (value := getattr(struct, name)) is not UNSET}


def _encode(tree: Any) -> bytes:
    try:
        return _encoder.encode(tree)
    except UnicodeEncodeError:  # half of a character: only escapes can write it
        return PLAIN.encode(tree)


FAST = Codec(_decode, _encode)
