"""Search files on disk with ripgrep, held by the kernel to what the tool may read.

ripgrep is given places, never what a tool wrote but for the pattern, which is one word that cannot be an option. Its
answer is bounded, and names files as the tool does. Whoever calls still drops what may not be read: the sandbox is the
first line, not the only one.

Start at `Ripgrep.search`. Where there is no ripgrep, or nothing to hold it with: `workspace.grep`.
"""

from __future__ import annotations

import os
import select
import sys
import time
from binascii import Error as NotBase64
from binascii import a2b_base64
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from byleave.core.fs_rules import is_under
from byleave.errors import RequestError, SandboxError
from byleave.protocol.jsonrpc import CANCELLED, INTERNAL_ERROR, TIMED_OUT
from byleave.sandbox.linux.backends import LACKING, LANDLOCK
from byleave.sandbox.plan.plan import nested
from byleave.sandbox.process import DEVNULL, PIPE
from byleave.text import shown_lines
from byleave.workspace.grep import LARGEST_SEARCHED, Findings, endings_of, is_searched, shown_line, too_much
from byleave.workspace.pattern import refuse, refuse_pattern
from byleave.workspace.project import DIRECTORY, FileLine, FileMatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from byleave.sandbox.process import Process
    from byleave.sandbox.sandbox import Sandbox
    from byleave.workspace.grep import SearchStart
    from byleave.workspace.project import Query

    OnCancel = Callable[[Callable[[], None]], object]  # is given what ends the search

OLDEST = (13, 0)
LARGEST_OUTPUT = 64 << 20  # bytes; it repeats every match, so it is longer than what is found
_LONGEST_COMPLAINT = 4096  # bytes
_PIECE = 1 << 16
_FLAGS = (
    "--no-config",
    "--json",
    "--hidden",
    "--no-ignore",
    "--no-messages",  # of files that are covered; what is wrong with a pattern is still said
    "--no-mmap",  # so that a NUL is seen wherever it stands, also in files that are named
    f"--max-filesize={LARGEST_SEARCHED}",
)


def find_ripgrep(*outside_of: str) -> str | None:
    """Return the program: the one that was installed with byleave, else one on PATH that is not too old.

    One in the workspace, or in another place that a sandbox may write, is neither used nor asked for its version: a
    program in a sandbox would choose what runs outside.
    """
    closed = [os.path.realpath(place) for place in outside_of]
    for path in _candidates():
        real = os.path.realpath(path)
        written = any(is_under(real, place) or is_under(path, place) for place in closed)
        if not written and os.path.isfile(real) and os.access(real, os.X_OK) and _is_new(real):
            return real
    return None


def _candidates() -> Iterator[str]:
    import sysconfig

    for directory in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        yield os.path.join(directory, "rg")
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(directory):
            yield os.path.join(directory, "rg")


@cache
def _is_new(program: str) -> bool:
    import subprocess

    try:
        asked = subprocess.run([program, "--version"], env={}, capture_output=True, timeout=10, check=False)  # noqa: S603
        word = asked.stdout.split()[1].decode()
        major, minor = word.split(".")[:2]
        return asked.stdout.startswith(b"ripgrep ") and (int(major), int(minor)) >= OLDEST
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return False


class Ripgrep:
    """ripgrep in a sandbox that reads (`Sandbox.for_reading`), which is made once and used for every search."""

    def __init__(self, program: str, sandbox: Sandbox) -> None:
        self._program = program
        self._sandbox = sandbox

    def search(
        self,
        query: Query,
        starts: Sequence[SearchStart],
        *,
        deadline: float | None = None,
        on_cancel: OnCancel | None = None,
    ) -> list[FileMatches]:
        """Return the files that match, sorted by path. A SandboxError if nothing here can hold ripgrep.

        After `deadline`, a time of the monotonic clock, the search is ended: TIMED_OUT. `on_cancel` is given a function
        that ends it from another thread: CANCELLED.
        """
        refuse_pattern(query.pattern)
        endings = endings_of(query)
        # ripgrep searches what is named whatever it is called; and without any name, it searches where it stands.
        wanted = [start for start in starts if start.kind == DIRECTORY or is_searched(start.name, endings)]
        if not wanted:
            return []
        places = [start.place.canonical for start in wanted]
        words = [self._program, *_FLAGS, *_options(query, endings), "--", *places, *self._out_of_sight(places)]
        root = self._sandbox.workspace.root.path
        process = self._sandbox.spawn(words, cwd=root, env={}, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
        with process:
            return _Run(process, wanted, endings, deadline, on_cancel).findings()

    def _out_of_sight(self, places: Sequence[str]) -> Iterator[str]:
        """Yield what may be read below these places, in directories that may not, which nobody can list."""
        prepared = self._sandbox.prepare(self._program, os.defpath)
        if prepared.backend == LANDLOCK:
            raise SandboxError(
                "Landlock alone does not list directories that hold something denied, so files would be missed",
                hint="`byleave doctor` says why there are no namespaces",
                step=LACKING,
            )
        for place, around in nested(prepared.plan.places):
            closed = around is not None and "read" not in around.capabilities
            if closed and "read" in place.capabilities and any(is_under(place.path, each) for each in places):
                yield place.path


def _options(query: Query, endings: tuple[str, ...]) -> Iterator[str]:
    for ending in endings:
        yield f"--glob=*{ending}"
    yield "--iglob=!.git"  # counts after every --glob
    if query.context:
        yield f"--context={query.context}"
    yield f"--regexp={query.pattern}"


class _Text(msgspec.Struct):
    """What ripgrep says of bytes: as text where they are UTF-8, else in base64."""

    text: str | None = None
    encoded: str | None = msgspec.field(default=None, name="bytes")

    def raw(self) -> bytes:
        return self.text.encode() if self.text is not None else a2b_base64(self.encoded or "")


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    binary_offset: int | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data


class _Run:
    """One search: what ripgrep says, until it has said everything, takes too long, or says too much."""

    def __init__(
        self,
        process: Process,
        starts: Sequence[SearchStart],
        endings: tuple[str, ...],
        deadline: float | None,
        on_cancel: OnCancel | None,
    ) -> None:
        self._process = process
        self._starts = starts
        self._endings = endings
        self._deadline = deadline
        self._cancelled = False
        self._complaint = b""
        self._finished = False
        self._lines: list[FileLine] = []
        self._found = Findings()
        if on_cancel is not None:
            on_cancel(self._cancel)

    def findings(self) -> list[FileMatches]:
        """Return what was found; an error if the search did not come to its end."""
        decoder = msgspec.json.Decoder(_Message)
        try:
            for line in _lines_of(self._pieces()):
                self._take(decoder.decode(line))
        except (msgspec.DecodeError, NotBase64):
            raise _broken("it said something that cannot be read") from None
        code = self._process.wait()
        if self._cancelled:
            raise RequestError("the search was cancelled", hint="ask again", number=CANCELLED)
        if self._process.problem is not None:
            raise self._process.problem
        if not self._finished:
            self._explain(code)
        return self._found.all()

    def _cancel(self) -> None:
        self._cancelled = True
        with suppress(OSError):  # it has ended by itself
            self._process.kill()

    def _pieces(self) -> Iterator[bytes]:
        """Yield ripgrep's output as it comes, and keep its complaints."""
        out, err = self._process.stdout, self._process.stderr
        if out is None or err is None:
            raise _broken("it has no output")
        waiting = select.poll()
        opened = {out.fileno(), err.fileno()}
        for descriptor in opened:
            waiting.register(descriptor, select.POLLIN)
        size = 0
        while opened:
            for descriptor, _event in waiting.poll(self._patience()):
                piece = os.read(descriptor, _PIECE)
                if not piece:
                    waiting.unregister(descriptor)
                    opened.remove(descriptor)
                elif descriptor == err.fileno():
                    self._complaint = (self._complaint + piece)[:_LONGEST_COMPLAINT]
                else:
                    size += len(piece)
                    if size > LARGEST_OUTPUT:
                        raise too_much(f"ripgrep says more than {LARGEST_OUTPUT} bytes about it", LARGEST_OUTPUT)
                    yield piece

    def _patience(self) -> float | None:
        """Return how many milliseconds are left, None without a deadline."""
        if self._deadline is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            hint = "search in fewer places, or raise the tool's request_timeout"
            raise RequestError("the search took too long", hint=hint, number=TIMED_OUT)
        return left * 1000 + 1

    def _take(self, message: _Message) -> None:
        kind, data = message.type, message.data
        if kind == "begin":
            self._lines = []
        elif kind in ("match", "context") and data.lines is not None and data.line_number is not None:
            self._lines.append(FileLine(data.line_number, shown_line(data.lines.raw()), kind == "match"))
        elif kind == "end" and data.path is not None and data.binary_offset is None:
            for name in self._names(os.fsdecode(data.path.raw())):
                if name not in self._found and is_searched(name, self._endings):
                    self._found.add(name, self._lines)
        elif kind == "summary":
            self._finished = True

    def _names(self, path: str) -> Iterator[str]:
        """Yield how the tool names a file: by each of the starts that it lies below."""
        for start in self._starts:
            place = start.place.canonical
            if is_under(path, place):
                yield f"{start.name}/{path[len(place) :].strip('/')}".strip("/") if path != place else start.name

    def _explain(self, code: int) -> None:
        """Say why there is no summary: mostly, the pattern is none."""
        said = shown_lines(self._complaint.decode("utf-8", "replace").strip()).removeprefix("rg: ")
        if code == 2 and said:
            refuse(said)
        raise _broken(f"it ended with code {code}")


def _lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines, however they were cut."""
    held: list[bytes] = []
    for piece in pieces:
        first, *rest = piece.split(b"\n")
        held.append(first)
        for line in rest:
            yield b"".join(held)
            held = [line]
    if any(held):
        yield b"".join(held)


def _broken(why: str) -> RequestError:
    hint = "try again; `byleave doctor` says what this machine can enforce"
    return RequestError(f"ripgrep did not finish: {why}", hint=hint, number=INTERNAL_ERROR)
