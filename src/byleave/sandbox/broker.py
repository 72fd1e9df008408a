"""The host's side of `access.commands`: decides about every program that a sandboxed program asks for.

native/broker.c brings the questions and runs what is allowed; the way there and back is the control socket of the
process. A question is read once, so that what is decided is what is run. Start at `Broker.answer`.
"""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.decision import ALLOW
from byleave.sandbox.plan.plan import BIN
from byleave.text import shown, shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.net.proxy import Decide

_NUMBER = slice(1, 9)  # which request it is, behind the letter
_LONGEST = 8 << 20  # as in broker.c
_LONGEST_REASON = 4000  # bytes; broker.c takes a few more


class BrokerRequest(Struct, frozen=True):
    """What a stand-in asks for: the program as it was written, where, with which words and variables.

    The first word is the program's name, which is decided about: many programs do something else under another one.
    """

    program: str
    directory: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


def parse_request(content: bytes) -> BrokerRequest | None:
    """Read what compose() in broker.c wrote; None if it is not that."""
    program, directory, count, *rest = [os.fsdecode(part) for part in content.split(b"\0")[:-1]] or ("", "", "")
    if not count.isdecimal() or int(count) > len(rest) or not directory.startswith("/"):
        return None
    written = os.path.basename(program) if os.path.dirname(program) == BIN else program
    variables = (text.partition("=") for text in rest[int(count) :])
    return BrokerRequest(
        written,
        directory,
        (written, *rest[1 : int(count)]),
        tuple((name, value) for name, equals, value in variables if name and equals),
    )


class Broker:
    """Answers one sandbox. `program_for` returns the launcher's program for an allowed request, or None."""

    def __init__(self, decide: Decide, tool: str, program_for: Callable[[BrokerRequest], bytes | None]) -> None:
        self._decide = decide
        self._tool = tool
        self._program_for = program_for

    def answer(self, control: socket.socket, message: bytes, request: int) -> None:
        """Answer a question whose content is in the file `request`: with the steps of a start, or with a reason."""
        number = message[_NUMBER]
        try:
            found = self._evaluate(parse_request(_content(request)))
            file = _file_of(found) if isinstance(found, bytes) else None
        except Exception as error:  # noqa: BLE001 -- whatever goes wrong is a no
            found, file = f"it could not be decided: {type(error).__name__}", None
        if file is None:
            control.send(b"N" + number + str(found).encode("utf-8", "replace")[:_LONGEST_REASON])
            return
        try:
            socket.send_fds(control, [b"A" + number], [file])
        finally:
            os.close(file)

    def _evaluate(self, request: BrokerRequest | None) -> str | bytes:
        """Return the launcher's program for what is allowed, or why it is not."""
        if request is None:
            return "the request makes no sense, or its working directory is gone"
        words = list(request.words[1:])
        verdict = self._decide({"kind": "spawn", "program": request.program, "args": words, "tool": self._tool})
        if verdict.decision is not ALLOW:
            return shown_lines(verdict.reason)
        return self._program_for(request) or f"{shown(request.program)} was not found when the sandbox was made"


def _content(file: int) -> bytes:
    """Return what is in a file of ours; it is not read beyond what the launcher takes."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
        return b""
    return os.pread(file, found.st_size, 0)


def _file_of(content: bytes) -> int:
    """Return a file in memory with this content."""
    file = os.memfd_create("byleave-program")
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(file, view) :]
    except BaseException:
        os.close(file)
        raise
    return file
