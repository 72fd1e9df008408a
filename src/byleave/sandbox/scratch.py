"""Empty directories for a program that cannot have private ones: made for one sandbox, removed with it."""

import os

from byleave.errors import SandboxError

_BASES = ("/tmp", "/var/tmp")  # noqa: S108 -- a directory with an unguessable name, of the user's own


def make_scratch() -> str:
    """Return a new directory, closed to everybody else, with `tmp` and `home` in it."""
    for base in _BASES:
        path = os.path.join(os.path.realpath(base), f"byleave-{os.urandom(12).hex()}")
        try:
            os.mkdir(path, 0o700)
        except OSError:
            continue
        for name in ("tmp", "home"):
            os.mkdir(os.path.join(path, name), 0o700)
        return path
    raise SandboxError("there is no place for temporary files", hint="make /tmp writable, or /var/tmp")


def remove_scratch(path: str) -> None:
    """Remove it with everything in it; what cannot be removed stays."""
    import shutil

    shutil.rmtree(path, ignore_errors=True)
