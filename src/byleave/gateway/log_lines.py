"""The log of the gateway: one line for each note to the operator, as text or as JSON, written by a thread of its own.

The program that reads standard error may be slow, or gone: lines wait in a bounded queue, and nothing else does. Lines
that find no room are dropped and counted, and a line says how many.

A line of JSON is ASCII; in a line of text, what would end a line or steer a terminal is escaped. So no caller and no
server can write a line of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
from collections import deque
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import ConfigError
from byleave.text import shown_lines, speakable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

TEXT, JSON = "text", "json"
FLUSH = 2.0  # seconds that the end of the gateway waits for lines that are not written
_MOST_LINES, _MOST_BYTES = 2000, 1 << 20  # that wait to be written
_AT_ONCE = 200  # lines that are joined for one write
_LONGEST = 8000  # letters of one note
_LOOK_AGAIN = 1.0  # seconds between two looks at whether a file was moved away
_GATHER = 0.05  # seconds in which lines gather: a thread that wakes for each costs a call more than its line
_WAIT = 1000  # milliseconds between two looks at whether it is time to stop


class RequestMark(Struct):
    """The request that is worked on: its id, and the trace that it belongs to, as soon as there is one."""

    id: str
    trace: str = ""


REQUEST: ContextVar[RequestMark | None] = ContextVar("byleave_request", default=None)


def of_no_request() -> Context:
    """Return the context for what outlives the request that begins it: what it notes later is not about that one."""
    context = copy_context()
    context.run(REQUEST.set, None)
    return context


class LineWriter:
    """Writes lines to standard error or to a file, in a thread. `put` never waits."""

    def __init__(self, dropped_line: Callable[[int], str], path: str | None = None) -> None:
        """`dropped_line` returns the line that says how many were dropped. `path` None: standard error.

        A ConfigError if the file cannot be opened. One that is moved away is made anew, so that logs can be rotated.
        """
        self._dropped_line = dropped_line
        self._path = path
        self._descriptor = 2 if path is None else _opened(path)
        self._looked = monotonic()
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._dropped = self._reported = 0
        self._lock = threading.Lock()
        self._wake, self._ending = threading.Event(), threading.Event()
        self._ends_at: float | None = None
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """How many lines found no room, or could not be written."""
        return self._dropped

    def put(self, line: str) -> None:
        """Have a line written; its end is added here."""
        data = line.encode("utf-8", "replace") + b"\n"
        with self._lock:
            if len(self._lines) >= _MOST_LINES or self._size + len(data) > _MOST_BYTES:
                self._dropped += 1
                return
            self._lines.append(data)
            self._size += len(data)
            if self._thread is None and self._ends_at is None:
                self._thread = self._started()
        if not self._wake.is_set():
            self._wake.set()

    def _started(self) -> threading.Thread | None:
        thread = threading.Thread(target=self._run, name="byleave-log", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has no thread to give: the next line tries again
            return None
        return thread

    def close(self, seconds: float = FLUSH) -> None:
        """Write what is there, for at most so long, and stop."""
        self._ends_at = monotonic() + seconds
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            is_last = self._ends_at is not None  # after the clear: an end that comes later wakes us again
            while self._lines and not self._is_over:
                self._write(self._taken())
            if is_last:
                return
            self._wake.wait()
            self._ending.wait(_GATHER)

    @property
    def _is_over(self) -> bool:
        return self._ends_at is not None and monotonic() >= self._ends_at

    def _taken(self) -> list[bytes]:
        with self._lock:
            lines = [self._lines.popleft() for _ in range(min(_AT_ONCE, len(self._lines)))]
            self._size -= sum(map(len, lines))
            if self._dropped != self._reported:
                lines.insert(0, self._dropped_line(self._dropped - self._reported).encode() + b"\n")
                self._reported = self._dropped
        return lines

    def _write(self, lines: list[bytes]) -> None:
        left = memoryview(b"".join(lines))
        try:
            self._look_at_file()
            while left and not self._is_over:
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:  # what we share it with has made it so
                    ready = select.poll()
                    ready.register(self._descriptor, select.POLLOUT)
                    ready.poll(_WAIT)
        except OSError:  # no program reads it, or the disk is full
            pass
        if left:
            with self._lock:
                self._dropped += len(lines)

    def _look_at_file(self) -> None:
        """Open the file anew, if its name leads elsewhere by now."""
        if self._path is None or monotonic() < self._looked + _LOOK_AGAIN:
            return
        self._looked = monotonic()
        ours = os.fstat(self._descriptor)
        with contextlib.suppress(OSError):  # it is gone, or cannot be reached
            there = os.stat(self._path, follow_symlinks=False)
            if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return
        with contextlib.suppress(ConfigError):  # then the old one goes on
            before, self._descriptor = self._descriptor, _opened(self._path)
            os.close(before)


def _opened(path: str) -> int:
    # Not blocking: to open a named pipe that no program reads would wait for a reader, without an end.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK
    try:
        return os.open(path, flags, 0o600)
    except OSError as problem:
        raise ConfigError(
            f"the access log cannot be written: {os.strerror(problem.errno or 0)}",
            hint="name a file in a directory that is there, and yours; symbolic links are not followed",
        ) from None


class Log:
    """Notes to the operator, on standard error."""

    def __init__(self, form: str = TEXT, *, warning: str = "byleave: warning:", is_quiet: bool = False) -> None:
        """`warning` is how a warning begins in text. With `is_quiet` none is written."""
        self.form = form
        self.writer = LineWriter(self.dropped_line)
        self._warning = warning
        self._is_quiet = is_quiet

    def note(self, sentence: str) -> None:
        """Write a warning."""
        if not self._is_quiet:
            self.writer.put(self._line("warning", sentence, self._warning))

    def say(self, sentence: str) -> None:
        """Write what every operator wants to know, such as where the gateway listens."""
        self.writer.put(self._line("info", sentence, "byleave:"))

    def dropped_line(self, count: int) -> str:
        """Return the line about lines that were dropped."""
        return self._line(
            "warning", f"{count} lines of the log were dropped: they were not read in time", self._warning
        )

    def _line(self, level: str, sentence: str, start: str) -> str:
        sentence = sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST]}..."
        if self.form == JSON:
            return json_line(level, {"message": sentence, **marked(REQUEST.get())})
        first, *rest = shown_lines(sentence).split("\n")
        indented = (row if row.startswith("  ") else f"  {row}" for row in rest)  # no row looks like a line of ours
        return "\n".join([f"{start} {first}", *indented])

    def close(self) -> None:
        """Write what is there, for a little while at most."""
        self.writer.close()


def json_line(level: str, fields: Mapping[str, Any]) -> str:
    """Return one line of JSON in ASCII, with the time."""
    return json.dumps(speakable({"time": _now(), "level": level, **fields}))


def marked(mark: RequestMark | None) -> dict[str, str]:
    """Return by what a line is found with others about the same request."""
    if mark is None:
        return {}
    return {"request_id": mark.id, "trace_id": mark.trace} if mark.trace else {"request_id": mark.id}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
