"""Write `programs_table.py` from `programs.toml`: `python -m byleave.shell.knowledge.generate_programs_table`."""

import json
import os
import tomllib
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = '''"""Made from `programs.toml` by `generate_programs_table`; change it there."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# fmt: off
# ruff: noqa: E501
'''


def source() -> dict[str, Any]:
    """Return the tables as `programs.toml` has them."""
    with open(os.path.join(HERE, "programs.toml"), "rb") as file:
        return tomllib.load(file)


def rendered(tree: dict[str, Any]) -> str:
    """Return the text of `programs_table.py`."""
    return HEADER + _assigned("PROGRAMS", tree["program"]) + "\n" + _assigned("VARIABLES", tree["variables"])


def _assigned(name: str, table: dict[str, Any]) -> str:
    lines = [f"    {json.dumps(key)}: {_literal(value)},\n" for key, value in table.items()]
    return f'{name}: "dict[str, Any]" = {{\n{"".join(lines)}}}\n'


def _literal(value: Any) -> str:
    """Return a value as Python writes it, with double quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join([f"{json.dumps(key)}: {_literal(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([_literal(item) for item in value]) + "]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def main() -> None:
    with open(os.path.join(HERE, "programs_table.py"), "w") as file:
        file.write(rendered(source()))


if __name__ == "__main__":
    main()
