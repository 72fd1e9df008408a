"""From the text of one configuration file, or a tree of the same shape, to the normal form.

The steps: `toml_text` or `mcp_json` reads the text, `diagnostics` checks the shape, `normalize` makes the normal form.
This is the slow path, for content that `user_files.ParseCache` has not seen: it may import anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.errors import ConfigError, ConfigErrors
from byleave.policy.diagnostics import check_tree
from byleave.policy.mcp_json import is_json, read_foreign
from byleave.policy.normalize import LEFT_OUT, normal_tree
from byleave.policy.toml_spans import locate
from byleave.policy.toml_text import parse_toml, read_text

if TYPE_CHECKING:
    from byleave.policy.normalize import At, Tree
    from byleave.policy.toml_spans import Spots


def parse_file(content: bytes, file: str) -> Tree:
    """Return the normal form of a TOML file, or of a JSON file; all its problems at once if it has any."""
    if is_json(file, content):
        tree, places, left_out = read_foreign(content, file)
        made = _normal(tree, file, places)
        return {**made, LEFT_OUT: left_out} if left_out else made
    text = read_text(content, file)
    return parse_table(parse_toml(text, file), file, locate(text))


def parse_table(tree: Any, file: str, places: Spots) -> Tree:
    """Return the normal form of a tree, or of a policy that is one table of another; `places` say where it stands."""
    problems = check_tree(tree, file=file, places=places)
    if problems:
        raise ConfigErrors(problems)
    return _normal(tree, file, places)


def _normal(tree: Any, file: str, places: Spots) -> Tree:
    made, found = normal_tree(tree, places.line)
    if found:
        raise ConfigErrors(
            [ConfigError(error.problem, hint=error.hint, at=places.point(at, file)) for at, error in found]
        )
    return made


def parse_tree(tree: Any) -> Tree:
    """Return the normal form of a tree that came as JSON or as a dictionary."""
    problems = check_tree(tree)
    if problems:
        raise ConfigErrors(problems)
    made, found = normal_tree(tree, _no_line)
    if found:
        raise ConfigErrors([error for _at, error in found])
    return made


def _no_line(_at: At) -> int:
    return 0
