"""Write `table.py` from `programs.toml`: `python -m byleave.shell.make_table`."""

import os
import pprint
import tomllib
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = '''"""Made from `programs.toml` by `python -m byleave.shell.make_table`; change it there."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# fmt: off
'''


def source() -> dict[str, Any]:
    """Return the tables as `programs.toml` has them."""
    with open(os.path.join(HERE, "programs.toml"), "rb") as file:
        return tomllib.load(file)


def rendered(tree: dict[str, Any]) -> str:
    """Return the text of `table.py`."""
    programs = pprint.pformat(tree["program"], width=108, compact=True, sort_dicts=False)
    variables = pprint.pformat(tree["variables"], width=108, compact=True, sort_dicts=False)
    return f'{HEADER}PROGRAMS: "dict[str, Any]" = \\\n{programs}\n\nVARIABLES: "dict[str, Any]" = \\\n{variables}\n'


def main() -> None:
    with open(os.path.join(HERE, "table.py"), "w") as file:
        file.write(rendered(source()))


if __name__ == "__main__":
    main()
