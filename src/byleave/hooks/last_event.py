"""When an agent last asked byleave about a call, in any workspace: the time of a file, noted at every call."""

import os

from byleave.errors import StateError
from byleave.user_files import make_private_directory

_DIRECTORY = "asked"


def note_event(state: str, agent: str) -> None:
    """Keep that an agent asks now; what cannot be kept is no reason to stop anything."""
    path = os.path.join(state, _DIRECTORY, agent)
    try:
        os.utime(path, follow_symlinks=False)
    except FileNotFoundError:
        try:
            make_private_directory(os.path.dirname(path))
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except (StateError, OSError):
            return
    except OSError:
        return


def last_event(state: str, agent: str) -> float | None:
    """Return when an agent asked last; None if it never did."""
    try:
        return os.lstat(os.path.join(state, _DIRECTORY, agent)).st_mtime
    except OSError:
        return None
