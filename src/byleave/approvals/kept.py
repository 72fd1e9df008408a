"""Files of approvals: changed as a whole, by one writer at a time, or not at all."""

import os

from byleave.errors import StateError
from byleave.private import Lock, make_private_directory, sweep_unfinished, write_private
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def rewrite(path: str, lock: str, change: "Callable[[], bytes | None]", *, limit: int) -> None:
    """Replace a file by what `change` makes of it while nobody else changes it; None leaves it as it is.

    `lock` is the name of the lock beside it. Whoever dies meanwhile leaves the file as it was.
    """
    directory = make_private_directory(os.path.dirname(path))
    try:
        with Lock(os.path.join(directory, lock)):
            sweep_unfinished(path)
            content = change()
            if content is None:
                return
            if len(content) > limit:  # nobody could read it again
                raise StateError(f"{quoted(path)} would be too large", hint="revoke what is not needed")
            write_private(path, content)
    except OSError as error:
        raise StateError(
            f"{quoted(path)} cannot be written: {error.strerror}", hint="nothing was changed; make room there"
        ) from None


def stamp_of(path: str) -> tuple[int, ...]:
    """Return what changes whenever a file does."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
