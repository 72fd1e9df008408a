"""The host's side of `access.commands`: decides about every program that a sandboxed program asks for.

launcher/broker.c brings the questions and runs what is allowed; the way there and back is the control socket of the
process. A question is read once, so that what is judged is what is run. Start at `Broker.answer`.
"""

import os
import socket
import stat

from byleave.core.verdict import ALLOW
from byleave.record import Record
from byleave.sandbox.linux import Program, exec_step
from byleave.sandbox.plan import BIN
from byleave.sandbox.tape import write_tape
from byleave.text import shown, shown_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from byleave.sandbox.network import Decide

    # The variables of a listed program, out of those that the stand-in had.
    Environment = Callable[[str, Mapping[str, str]], Iterable[tuple[str, str]]]

_NUMBER = slice(1, 9)  # which request it is, behind the letter
_LONGEST = 8 << 20  # as in broker.c
_LONGEST_REASON = 4000  # bytes; broker.c takes a few more


class Request(Record):
    """What a stand-in asks for: the program as it was written, where, with which words and variables."""

    program: str
    directory: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


def parse_request(content: bytes) -> Request | None:
    """Read what compose() in broker.c wrote; None if it is not that."""
    program, directory, count, *rest = [os.fsdecode(part) for part in content.split(b"\0")[:-1]] or ("", "", "")
    if not count.isdecimal() or int(count) > len(rest) or not directory.startswith("/"):
        return None
    written = os.path.basename(program) if os.path.dirname(program) == BIN else program
    variables = (text.partition("=") for text in rest[int(count) :])
    return Request(
        written,
        directory,
        tuple(rest[: int(count)]) or (written,),
        tuple((name, value) for name, equals, value in variables if name and equals),
    )


class Broker:
    """Answers one sandbox. `programs` says where listed programs are; `opening` are the steps before their start."""

    def __init__(
        self, decide: "Decide", tool: str, programs: "Mapping[str, str]", opening: bytes, environment: "Environment"
    ) -> None:
        self._decide = decide
        self._tool = tool
        self._programs = programs
        self._opening = opening
        self._environment = environment

    def answer(self, control: socket.socket, message: bytes, request: int) -> None:
        """Answer a question whose content is in the file `request`: with the steps of a start, or with a reason."""
        try:
            found = self._judge(parse_request(_content(request)))
        except Exception as error:  # noqa: BLE001 -- whatever goes wrong is a no
            found = f"it could not be judged: {type(error).__name__}"
        number = message[_NUMBER]
        if isinstance(found, str):
            control.send(b"N" + number + found.encode("utf-8", "replace")[:_LONGEST_REASON])
            return
        tape = os.memfd_create("byleave-program")
        try:
            _write_all(tape, found)
            socket.send_fds(control, [b"A" + number], [tape])
        finally:
            os.close(tape)

    def _judge(self, request: Request | None) -> str | bytes:
        """Return the tape of what is allowed, or why it is not."""
        if request is None:
            return "the request makes no sense, or its working directory is gone"
        words = list(request.words[1:])
        verdict = self._decide({"kind": "spawn", "program": request.program, "args": words, "tool": self._tool})
        if verdict.decision is not ALLOW:
            return shown_lines(verdict.reason)
        path = self._programs.get(request.program)
        if path is None:
            return f"{shown(request.program)} was not found when the sandbox was made"
        variables = tuple(self._environment(request.program, dict(request.variables)))
        program = Program(path, request.directory, request.words, variables)
        return self._opening + write_tape([exec_step(program)])


def _content(file: int) -> bytes:
    """Return what is in a file of ours; it is not read beyond what the launcher takes."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
        return b""
    return os.pread(file, found.st_size, 0)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
