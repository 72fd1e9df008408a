"""The file behind `byleave acp --log`: one line of JSON for every request that was judged."""

import json
import os
from datetime import UTC, datetime

from byleave.errors import InputError
from byleave.text import quoted, speakable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class RequestLog:
    """A file that lines are appended to, each in one write, so that several programs may share it.

    What cannot be written is told once. The audit log is the one that keeps something from being allowed.
    """

    def __init__(self, path: str, tell: "Callable[[str], None]") -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            problem = f"the log {quoted(path)} cannot be opened: {(error.strerror or str(error)).lower()}"
            raise InputError(problem, hint="name a file that you may write, in a directory that exists") from None
        self._path = path
        self._tell: Callable[[str], None] | None = tell

    def write(self, tree: "Mapping[str, Any]") -> None:
        """Append one object."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps(speakable({"time": time, **tree}), default=str).encode() + b"\n"
        try:
            os.write(self._descriptor, line)
        except OSError as error:
            if self._tell is not None:
                self._tell(f"the log {quoted(self._path)} cannot be written: {(error.strerror or str(error)).lower()}")
                self._tell = None

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
