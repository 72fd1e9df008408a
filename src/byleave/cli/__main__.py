"""The command line as a hook has an agent start it: by absolute path, isolated, and without what `site` would run.

`python -I -S .../byleave/cli/__main__.py [--packages DIRECTORIES] COMMAND ...`: as for the hook itself
(`hooks/__main__.py`), this file has to say where its package is, and where others are that it needs.
"""

from __future__ import annotations

import sys

_PACKAGES = "--packages"


def main(words: list[str]) -> int:
    """Run a command; `--packages`, in front of it, names directories of packages."""
    more = ""
    if words[:1] == [_PACKAGES]:
        more, words = words[1], words[2:]
    places = [__file__.rpartition("/byleave/cli/")[0], *more.split(":")]
    # Behind the standard library, and never "", which is wherever the agent happens to work.
    sys.path += [place for place in places if place.startswith("/")]
    from byleave.cli.main import main as run_command

    return run_command(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
