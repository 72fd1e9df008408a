"""A machine that lets nobody make user namespaces, with or without bwrap: what containers and some systems are."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

BWRAP = "/usr/bin/bwrap"
# In a user namespace of its own, root may say that there are to be no further ones; and hide a program.
_SCRIPT = """\
if [ -n "$HIDDEN" ]; then mount --bind "$HIDDEN" "$0" || exit 99; fi
echo 0 > /proc/sys/user/max_user_namespaces || exit 99
unset HIDDEN
exec "$@"
"""


@functools.cache
def obstacle() -> str | None:
    """Return why such a machine cannot be had here, or None."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run(["unshare", "-Urm", "sh", "-c", _SCRIPT, "sh", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else f"unshare: {tried.stderr.decode().strip()}"


needs_unshare = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
needs_bwrap = pytest.mark.skipif(not os.access(BWRAP, os.X_OK), reason="bubblewrap is not installed")


def on_such_a_machine(*, bwrap: bool, place: Path) -> list[str]:
    """Return the words that run a command on such a machine."""
    hidden = ""
    if not bwrap and os.path.exists(BWRAP):
        blank = place / "no-program"
        blank.write_text("")
        blank.chmod(0o644)
        hidden = str(blank)
    return ["env", f"HIDDEN={hidden}", "unshare", "-Urm", "sh", "-c", _SCRIPT, BWRAP]
