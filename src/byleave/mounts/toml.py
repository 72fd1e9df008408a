"""Write a tree as TOML: tables where they can stand, everything else in one line. Pure.

What it writes, tomllib reads back as the same tree. Dates and times are not written: no layer of ours holds any.
"""

from byleave.core.suggest import toml_key, toml_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def write_toml(tree: "Mapping[str, Any]") -> str:
    """Return the TOML text of a tree of tables, lists, strings, numbers and booleans."""
    return "\n".join(_table(tree, ())).strip("\n") + "\n" if tree else ""


def _table(tree: "Mapping[str, Any]", path: tuple[str, ...], header: str = "") -> "Iterator[str]":
    plain = {key: value for key, value in tree.items() if not _stands_alone(value)}
    if header and (plain or not tree or header.startswith("[[")):
        yield ""
        yield header
    for key, value in plain.items():
        yield f"{toml_key(key)} = {toml_value(value)}"
    for key, value in tree.items():
        below = (*path, toml_key(key))
        name = ".".join(below)
        if isinstance(value, dict):
            yield from _table(value, below, f"[{name}]")
        elif _stands_alone(value):
            for item in value:
                yield from _table(item, below, f"[[{name}]]")


def _stands_alone(value: object) -> bool:
    """Whether a value gets a header of its own: a table, or a list of nothing but tables."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    return isinstance(value, dict)


def toml_value(value: "Any") -> str:
    """Return a value as it stands behind the equals sign."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join([toml_value(item) for item in value])}]"
    if isinstance(value, dict):
        fields = ", ".join([f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()])
        return f"{{ {fields} }}" if fields else "{}"
    raise TypeError(f"no layer holds a {type(value).__name__}")
