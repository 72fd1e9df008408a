"""`byleave schema`: the JSON Schema of the configuration file, and how an editor finds it.

The schema belongs to the installed byleave, not to the project: a copy in each project would be shared, packed and left
behind by the next version. So an editor's own settings name the copy in the user's cache.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from byleave.cli.output import say, say_json, say_verbose
from byleave.policy.dirs import find_homes
from byleave.text import shown
from byleave.user_files import make_private_directory, write_private

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments

SHIPPED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "policy", "byleave.schema.json")
# Matched by the language server against the whole address of a file.
_FILES = r".*/(byleave|\.byleave/config|\.byleave/local|byleave/config)\.toml$"


def run(given: ParsedArguments) -> int:
    """Print the schema, or put it where editors find it."""
    if given.flag("editor"):
        return _for_editor(given)
    say_verbose(given, [f"this is {SHIPPED}"])
    say(shipped_schema().rstrip("\n"))
    return 0


def shipped_schema() -> str:
    """Return the text of the schema that came with this version."""
    with open(SHIPPED, encoding="utf-8") as file:
        return file.read()


def _for_editor(given: ParsedArguments) -> int:
    """Copy the schema into the user's cache, and print the setting that names it."""
    path = os.path.join(make_private_directory(find_homes(os.environ).memory), os.path.basename(SHIPPED))
    write_private(path, shipped_schema().encode(), durable=False)
    settings = {"evenBetterToml.schema.associations": {_FILES: f"file://{quote(path)}"}}
    if given.flag("json"):
        say_json({"file": path, "settings": settings})
        return 0
    say(json.dumps(settings, indent=2))
    if not given.flag("quiet"):
        say(f"\nThe schema is in {shown(path)}. Add the lines above to the settings of your editor:")
        say("  VS Code        settings.json, with the extension Even Better TOML")
        say("  other editors  the settings of the language server taplo, below evenBetterToml")
        say("Run this again after an upgrade of byleave.")
    return 0
