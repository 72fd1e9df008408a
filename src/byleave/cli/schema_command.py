"""`byleave schema`: the JSON Schema of the configuration file, as it is shipped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import say, say_verbose

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments

SHIPPED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "policy", "byleave.schema.json")


def run(given: ParsedArguments) -> int:
    """Print the schema."""
    say_verbose(given, [f"this is {SHIPPED}"])
    say(shipped_schema().rstrip("\n"))
    return 0


def shipped_schema() -> str:
    """Return the text of the schema that came with this version."""
    with open(SHIPPED, encoding="utf-8") as file:
        return file.read()
