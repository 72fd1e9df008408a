"""`byleave outside`: run a program as it is, outside of the sandbox.

Nothing is decided here: where an agent writes this command, the hook or the ACP proxy asks a person before it runs. In
the sandbox it would lead nowhere, so there it says what to do.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from byleave.cli.output import complain
from byleave.cli.terminal import ancestors
from byleave.core.self_protection import holds_in_sandbox
from byleave.errors import InputError, SandboxError
from byleave.sandbox.linux.steps import COVER_DIRECTORY
from byleave.text import quoted

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments

CANNOT_EXECUTE, NOT_FOUND = 126, 127  # as a shell says it


def run(given: ParsedArguments) -> int:
    """Become the program; return an exit code only where that fails."""
    if not given.rest or not given.rest[0]:
        raise InputError("no program was named", hint="byleave outside -- PROGRAM ARGS...")
    if _is_in_sandbox():
        raise SandboxError(
            "this runs in the sandbox, and no command leads out of it",
            hint="an agent asks with `byleave outside -- COMMAND` as a whole command of its own, not inside of another",
        )
    program = given.rest[0]
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and so would the program
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program, given.rest)  # noqa: S606 -- no shell: the words are the program's own
    except (FileNotFoundError, NotADirectoryError):
        complain(f"byleave: {quoted(program)} does not exist")
        return NOT_FOUND
    except (OSError, ValueError) as error:
        complain(f"byleave: {quoted(program)} cannot be executed: {getattr(error, 'strerror', None) or error}")
        return CANNOT_EXECUTE


def _is_in_sandbox() -> bool:
    """Whether a sandbox of byleave's holds this process: by its view of the files, or by what has started it."""
    return os.path.isdir(COVER_DIRECTORY) or any(argv is not None and holds_in_sandbox(argv) for argv in ancestors())
