"""Write `program_options_table.py` from `program_options.toml`; run as a module, by hand."""

import json
import os
import tomllib
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = '''"""Made from `program_options.toml` by `generate_program_options`; change it there."""

from __future__ import annotations

from typing import Any

# fmt: off
# ruff: noqa: E501
'''


def source() -> dict[str, Any]:
    """Return the tables as `program_options.toml` has them."""
    with open(os.path.join(HERE, "program_options.toml"), "rb") as file:
        return tomllib.load(file)


def rendered(tree: dict[str, Any]) -> str:
    """Return the text of `program_options_table.py`."""
    return HEADER + _assigned("PROGRAMS", tree["program"]) + "\n" + _assigned("VARIABLES", tree["variables"])


def _assigned(name: str, table: dict[str, Any]) -> str:
    lines = [f"    {json.dumps(key)}: {_literal(value)},\n" for key, value in table.items()]
    return f"{name}: dict[str, Any] = {{\n{''.join(lines)}}}\n"


def _literal(value: Any) -> str:
    """Return a value as Python writes it, with double quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join([f"{json.dumps(key)}: {_literal(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([_literal(item) for item in value]) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def main() -> None:
    with open(os.path.join(HERE, "program_options_table.py"), "w") as file:
        file.write(rendered(source()))


if __name__ == "__main__":
    main()
