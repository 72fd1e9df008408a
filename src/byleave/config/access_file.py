"""The file that `byleave run --access` takes: an `[access]` table alone, and `[limits]` if it likes."""

from byleave.config.layers import COMMAND_LINE, Layer, read_given_file
from byleave.errors import ConfigError, ConfigErrors
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.config.normal import At
    from byleave.config.places import Places
    from byleave.errors import Place

_KEYS = ("access", "limits")


def access_layer(tool: str, path: str | None, shown: str | None = None) -> Layer:
    """Return a layer that describes one tool, with the access of the file at `path`; without one, none of its own.

    Its rules are found in the file by line; `shown` is how the user wrote its path.
    """
    from byleave.config.normal import normal_tree
    from byleave.config.parse import parse_tree
    from byleave.config.places import locate
    from byleave.config.problems import check_tree
    from byleave.config.syntax import parse_toml, read_text

    entry: dict[str, Any] = {"source": "local", "runtime": "stdio"}
    if path is None:
        return Layer(COMMAND_LINE, parse_tree({"tools": {tool: entry}}))
    file = shown or path
    content = read_given_file(file, path)
    text = read_text(content, file)
    tree = parse_toml(text, file)
    places = _Inside(locate(text))
    unknown = [key for key in tree if key not in _KEYS]
    if unknown:
        hint = "the file holds an [access] table, and a [limits] table if it likes; see docs/sandbox.md"
        at = places.point((*_AROUND, unknown[0]), file)
        raise ConfigErrors([ConfigError(f"{quoted(unknown[0])} means nothing here", hint=hint, at=at)])
    entry |= {key: tree[key] for key in _KEYS if key in tree}
    whole = {"tools": {tool: entry}}
    problems = check_tree(whole, file=file, places=places)
    if problems:
        raise ConfigErrors(problems)
    made, found = normal_tree(whole, places.line)
    if found:
        raise ConfigErrors(
            [ConfigError(error.problem, hint=error.hint, at=places.point(at, file)) for at, error in found]
        )
    return Layer(COMMAND_LINE, made, file, content, path=path, around=len(_AROUND))


_AROUND = ("tools", "")


class _Inside:
    """Where things stand in a file that holds one tool's tables, given by their places in a whole tree."""

    def __init__(self, places: "Places") -> None:
        self._places = places

    def line(self, at: "At") -> int:
        return self._places.line(at[len(_AROUND) :])

    def point(self, at: "At", file: str, *, at_key: bool = False) -> "Place":
        return self._places.point(at[len(_AROUND) :], file, at_key=at_key)
