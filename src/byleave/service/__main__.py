"""What the front starts as the service: `python -I -S .../byleave/service/__main__.py --directory DIR --key KEY`.

It is started with a fixed environment, and from no directory in particular. `--packages` says where the packages are
that byleave needs: without `site`, the interpreter does not look for them.
"""

from __future__ import annotations

import os
import sys

_FLAGS = ("--directory", "--key", "--packages")


def main(words: list[str]) -> int:
    """Serve until there is a reason to end."""
    flags = dict(zip(words[::2], words[1::2], strict=True))
    if not {"--directory", "--key"} <= flags.keys() <= set(_FLAGS):
        sys.stderr.write("byleave: this is how the front starts the service; `byleave service status` shows it\n")
        return 2
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [os.path.dirname(package), *flags.get("--packages", "").split(":")]
    sys.path[:] = [place for place in sys.path if place != os.path.dirname(os.path.abspath(__file__))]
    sys.path += [place for place in places if place.startswith("/")]
    # By its name: what is served are the commands, which lie above the service.
    serving = __import__("byleave.cli.service_process", fromlist=["serve"])
    code: int = serving.serve(flags["--directory"], flags["--key"], package)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
