"""What `byleave hook --install` has agents start: the fastest way in, past the table of commands.

As a file (`python -I -S .../byleave/hooks/__main__.py hook AGENT --home DIR`): `-m` and `site` together take as long as
the interpreter itself. So this file has to say where its package is, and where (`--packages`) others are that it needs.
An error before anything is read must block the call like every other.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

gc.disable()  # the process is gone before collecting would pay

if TYPE_CHECKING:
    from byleave.hooks.event_reader import Hook

_FIELDS = {"--home": "home", "--root": "root", "--session": "session", "--agent-profile": "profile", "--only": "only"}
_PACKAGES = "--packages"


def main(words: list[str]) -> None:
    """Serve the event that the command line is about."""
    flags = dict(zip(words[2::2], words[3::2], strict=True))
    places = [__file__.rpartition("/byleave/hooks/")[0], *flags.pop(_PACKAGES, "").split(":")]
    # Behind the standard library, so that nothing takes the place of a module of its own; never "", which is wherever
    # the agent happens to work.
    sys.path += [place for place in places if place.startswith("/")]
    from byleave.hooks.hook import serve

    serve(_hook(words[:2], flags))


def _hook(words: list[str], flags: dict[str, str]) -> Hook:
    """Return what the words say. `install` writes them: what it would not write is an error."""
    from byleave.hooks.agents import AGENTS
    from byleave.hooks.event_reader import Hook

    if words not in [["hook", agent] for agent in AGENTS]:
        raise ValueError("this is not how a hook is started")
    fields: dict[str, Any] = {_FIELDS[name]: value for name, value in flags.items()}
    return Hook(words[1], **fields)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException as error:  # noqa: BLE001 -- the agent must not take it for a yes
        sys.stderr.write(f"byleave: the call is blocked, the hook cannot start: {type(error).__name__}: {error}\n")
        sys.exit(2)
