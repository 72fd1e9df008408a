"""Find every problem of a configuration file at once: where it stands, what is wrong, what would work.

`check_tree` holds a tree against the types of policy.schema_types: msgspec decides whether it fits, and only when it
does not is the tree walked once more, to say why in words. `policy.toml_text` reports what is no TOML at all, and the
compiler what a value cannot mean (a path, a host, a pattern).
"""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import msgspec.inspect
from msgspec import Struct

from byleave.errors import ConfigError
from byleave.policy.rule_types import Merge
from byleave.policy.schema_types import ConfigFile
from byleave.text import nearest_word, quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from byleave.policy.toml_spans import Path, Spots

MOST_PROBLEMS = 200  # more than a person reads; a hostile file must not cost minutes
_LONGEST_SHOWN = 60  # characters of a value worth repeating
_LONGEST_KEY = 64  # characters of a key worth comparing with the known ones


class ConfigProblem(Struct, frozen=True):
    """One thing wrong at `path`, in its value or (`at_key`) in the key itself."""

    path: Path
    text: str
    hint: str
    at_key: bool = False


def check_tree(
    tree: object, *, file: str = "", places: Spots | None = None, shape: type = ConfigFile
) -> list[ConfigError]:
    """Return all that keeps `tree` from being a `File`, or of another shape; nothing when it is one.

    With `places` (the tree was read from text) each error points into `file`.
    """
    try:
        msgspec.convert(tree, shape, strict=True)
    except ValueError as refusal:  # msgspec's own errors, and text that is no Unicode
        found = _problems(tree, refusal, shape)
    else:
        return []
    errors = [_error(problem, file, places) for problem in found[:MOST_PROBLEMS]]
    errors.sort(key=lambda error: error.at.line if error.at else 0)
    if len(found) > MOST_PROBLEMS:
        errors.append(ConfigError(f"there are more than {MOST_PROBLEMS} problems", hint="fix these first"))
    return errors


def walk(tree: object, shape: type = ConfigFile) -> Iterator[ConfigProblem]:
    """Yield each place where `tree` departs from its shape. Nothing at all exactly when msgspec takes it."""
    return _check(_root(shape), tree, ())


def _problems(tree: object, refusal: ValueError, shape: type) -> list[ConfigProblem]:
    """Return what the walk finds, up to one more than is shown. If it finds nothing, msgspec's own error counts."""
    found = list(islice(walk(tree, shape), MOST_PROBLEMS + 1))
    return found or [ConfigProblem((), shown(str(refusal)), "compare the file with the documented keys")]


def _error(problem: ConfigProblem, file: str, places: Spots | None) -> ConfigError:
    if places is None:
        where = f"{shown(file)}: " if file else ""
        return ConfigError(where + problem.text, hint=problem.hint)
    at = places.point(problem.path, file, at_key=problem.at_key)
    return ConfigError(problem.text, hint=problem.hint, at=at)


@cache
def _root(shape: type = ConfigFile) -> Any:
    """Return the kind of a whole file. Elsewhere a kind is known by its name, so only this loads msgspec.inspect."""
    return msgspec.inspect.type_info(shape)


def _check(kind: Any, value: object, path: Path) -> Iterator[ConfigProblem]:
    note, choices = _unwrapped(kind)
    fitting = next((choice for choice in choices if _accepts(choice, value)), None)
    if fitting is None:
        yield _wrong_type(choices, value, path, _example(note))
    elif check := _CHECKS.get(_name(fitting)):
        yield from check(fitting, value, path, note)


def _unwrapped(kind: Any) -> tuple[Any, list[Any]]:
    """Return what is noted about a kind (examples, hints), and the plain kinds it allows."""
    note = kind if _name(kind) == "Metadata" else None
    plain = kind.type if note else kind
    members = plain.types if _name(plain) == "UnionType" else (plain,)
    return note, [member.type if _name(member) == "Metadata" else member for member in members]


def _accepts(kind: Any, value: object) -> bool:
    accepted = _ACCEPTED[_name(kind)]
    return isinstance(value, accepted) and (accepted is bool or accepted is object or not isinstance(value, bool))


def _check_table(kind: Any, table: dict[object, object], path: Path, _note: Any) -> Iterator[ConfigProblem]:
    fields = {field.encode_name: field for field in kind.fields}
    if getattr(kind.cls, "__origin__", None) is Merge and fields.keys().isdisjoint(table):
        yield _lone_table(fields["value"].type, path)
        return
    for key, value in table.items():
        if not isinstance(key, str):
            yield _odd_key(key, path)
        elif key in fields:
            yield from _check(fields[key].type, value, (*path, key))
        else:
            yield _unknown_key(key, tuple(fields), path)
    meant = {_nearest(key, tuple(fields)) for key in table if isinstance(key, str) and key not in fields}
    for field in kind.fields:
        if field.required and field.encode_name not in table and field.encode_name not in meant:
            yield _missing_key(field, path)
    yield from _check_one_of(getattr(kind.cls, "one_of", ()), table, path)


def _check_one_of(keys: tuple[str, ...], table: dict[object, object], path: Path) -> Iterator[ConfigProblem]:
    there = [key for key in keys if key in table]
    if keys and not there:
        yield ConfigProblem(path, f"{_dotted(path)} needs one of {_either(keys)}", f"add one of {_either(keys)}")
    if len(there) > 1:
        yield ConfigProblem(
            path, f"{_dotted(path)} has {sentence_list(there)}", "keep one of them and remove the others"
        )


def _check_names(kind: Any, table: dict[object, object], path: Path, _note: Any) -> Iterator[ConfigProblem]:
    for name, value in table.items():
        if isinstance(name, str):
            yield from _check(kind.value_type, value, (*path, name))
        else:
            yield _odd_key(name, path)


def _check_items(kind: Any, items: Iterable[object], path: Path, _note: Any) -> Iterator[ConfigProblem]:
    for index, item in enumerate(items):
        yield from _check(kind.item_type, item, (*path, index))


def _check_word(kind: Any, word: str, path: Path, _note: Any) -> Iterator[ConfigProblem]:
    if word not in kind.values:
        allowed = f"write {_either([quoted(value) for value in kind.values])}"
        near = _nearest(word, kind.values)
        hint = f"did you mean {quoted(near)}? If not, {allowed}" if near else allowed
        yield ConfigProblem(path, f"{_dotted(path)}: unknown value {_brief(word)}", hint)


def _check_string(kind: Any, string: str, path: Path, note: Any) -> Iterator[ConfigProblem]:
    if kind.pattern is not None and not re.search(kind.pattern, string):
        hint = ((note and note.extra) or {}).get("hint") or f"it has to match {kind.pattern}"
        yield ConfigProblem(path, f"{_dotted(path)}: unknown value {_brief(string)}", hint)


def _check_number(kind: Any, number: float, path: Path, _note: Any) -> Iterator[ConfigProblem]:
    enough = (kind.ge is None or number >= kind.ge) and (kind.gt is None or number > kind.gt)  # never for nan
    if not enough or (kind.le is not None and number > kind.le):
        yield ConfigProblem(path, f"{_dotted(path)}: {_brief(number)} is out of range", f"write {_range(kind)}")


def _range(kind: Any) -> str:
    number = _EXPECTED[_name(kind)]
    if kind.gt is not None:
        return f"{number} above {kind.gt} and up to {kind.le}"
    return f"{number} from {kind.ge} to {kind.le}" if kind.le is not None else f"{number}, {kind.ge} or more"


_LISTS = (list, tuple, set, frozenset)  # what msgspec takes for a list
_ACCEPTED: dict[str, Any] = {
    "AnyType": object,
    "BoolType": bool,
    "DictType": dict,
    "FloatType": (int, float),
    "IntType": int,
    "ListType": _LISTS,
    "LiteralType": str,
    "StrType": str,
    "StructType": dict,
}
_CHECKS: dict[str, Callable[[Any, Any, Path, Any], Iterator[ConfigProblem]]] = {
    "DictType": _check_names,
    "FloatType": _check_number,
    "IntType": _check_number,
    "ListType": _check_items,
    "LiteralType": _check_word,
    "StrType": _check_string,
    "StructType": _check_table,
}


def _wrong_type(choices: list[Any], value: object, path: Path, example: str) -> ConfigProblem:
    expected = _either(list(dict.fromkeys(word for choice in choices for word in _expected(choice))))
    text = f"{_dotted(path)}: expected {expected}, got {_got(value)}"
    return ConfigProblem(path, text, _type_hint(choices, value, expected, example))


def _type_hint(choices: list[Any], value: object, expected: str, example: str) -> str:
    names = {_name(choice) for choice in choices}
    lists = [choice for choice in choices if _name(choice) == "ListType"]
    if isinstance(value, str) and names & {"BoolType", "IntType", "FloatType"}:
        return f"write {expected}, without quotes"
    if any(_accepts(choice, value) for each in lists for choice in _unwrapped(each.item_type)[1]):
        return f"put it in a list: [{'{...}' if isinstance(value, dict) else _toml(value)}]"
    if isinstance(value, bool | int | float) and "StrType" in names and "IntType" not in names:
        return f'put it between quotes: "{_toml(value)}"'
    return f"write {expected}, such as {example}" if example else f"write {expected}"


def _lone_table(list_kind: Any, path: Path) -> ConfigProblem:
    """Word the slip of writing `[a.b]` for `[[a.b]]`, rather than complain about each key in it."""
    text = f"{_dotted(path)}: expected a list, got a table"
    items = _unwrapped(_unwrapped(list_kind)[1][0].item_type)[1]
    if _name(items[0]) != "StructType":
        return ConfigProblem(path, text, "write [...], or {strategy = ..., value = [...]}")
    return ConfigProblem(path, text, f"write [[{_dotted(path)}]], with double brackets, once for each rule")


def _odd_key(key: object, path: Path) -> ConfigProblem:
    text = f"{_dotted(path)} has a key that is not a string: {_got(key)}"
    return ConfigProblem(path, text, "put the key between quotes")


def _missing_key(field: Any, path: Path) -> ConfigProblem:
    example = _example(_unwrapped(field.type)[0])
    text = f"missing key {quoted(field.encode_name)} in {_dotted(path)}"
    return ConfigProblem(path, text, f"add {field.encode_name} = {example}")


def _unknown_key(key: str, known: tuple[str, ...], path: Path) -> ConfigProblem:
    full = (*path, key)
    where = f"in {_dotted(path)}" if path else "at the top of the file"
    return ConfigProblem(full, f"unknown key {_brief(key)} {where}", _key_hint(key, known), at_key=True)


def _key_hint(key: str, known: tuple[str, ...]) -> str:
    hints = []
    if near := _nearest(key, known):
        hints.append(f"did you mean {quoted(near)}?")
    if homes := _homes().get(key):
        hints.append(f"{quoted(key)} is a key of {_either(homes)}")
    return " ".join(hints) or f"the keys here are {sentence_list(known, most=20)}"


@cache
def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    if len(word) > _LONGEST_KEY:
        return None
    folded = word.lower().replace("-", "_")
    longer = (name for name in known if name.startswith(f"{folded}_"))
    return nearest_word(folded, known) or next(longer, None)


@cache
def _homes() -> dict[str, list[str]]:
    """Return for each key of the shape the tables it belongs in, such as `tools.*.access.fs[]`."""
    homes: dict[str, list[str]] = {}
    for table, key in _all_keys(_root(), "", frozenset()):
        homes.setdefault(key, []).append(table)
    return homes


def _all_keys(kind: Any, table: str, above: frozenset[type]) -> Iterator[tuple[str, str]]:
    """Yield every table and key of a type; `above` are the tables it stands in, for matchers hold matchers."""
    for plain in _unwrapped(kind)[1]:
        if _name(plain) == "ListType":
            yield from _all_keys(plain.item_type, f"{table}[]", above)
        elif _name(plain) == "DictType":
            yield from _all_keys(plain.value_type, f"{table}.*", above)
        elif _name(plain) == "StructType" and not _is_merge(plain.cls) and plain.cls not in above:
            yield from _keys_of(plain, table, above | {plain.cls})


def _is_merge(cls: type) -> bool:
    return getattr(cls, "__origin__", None) is Merge


def _keys_of(struct: Any, table: str, above: frozenset[type]) -> Iterator[tuple[str, str]]:
    for field in struct.fields:
        if field.encode_name != "conversation":  # a second way to the same tables
            yield table or "the top level", field.encode_name
            if table == "servers.*" and field.encode_name in ("access", "limits", "tools"):
                continue  # the same tables as a tool's
            yield from _all_keys(field.type, f"{table}.{field.encode_name}".lstrip("."), above)


def _name(kind: object) -> str:
    return type(kind).__name__


def _expected(kind: Any) -> list[str]:
    if _name(kind) == "LiteralType":
        return [quoted(value) for value in kind.values]
    if _name(kind) != "ListType":
        return [_EXPECTED[_name(kind)]]
    items = {"StrType": "strings", "LiteralType": "strings", "ListType": "lists", "StructType": "tables"}
    return [f"a list of {items[_name(kind.item_type)]}"]


_EXPECTED = {
    "BoolType": "true or false",
    "DictType": "a table",
    "FloatType": "a number",
    "IntType": "a whole number",
    "StrType": "a string",
    "StructType": "a table",
}


def _got(value: object) -> str:
    if isinstance(value, str):
        return f"the string {_brief(value)}"
    if isinstance(value, bool):
        return _toml(value)
    if isinstance(value, int | float):
        return f"the number {_brief(value)}"
    if value is None:
        return "null"
    if isinstance(value, _LISTS):
        return "a list"
    return "a table" if isinstance(value, dict) else f"a {type(value).__name__}"


def _brief(value: str | float) -> str:
    """Show a value from the file, cut short. Huge numbers are not written out: that takes quadratic time."""
    if isinstance(value, str):
        return quoted(value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}...")
    if isinstance(value, int) and value.bit_length() > 64:
        return "a very large number"
    return str(value)


def _toml(value: object) -> str:
    """Write an example, or a short value from the file, as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, _LISTS):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(item)}' for key, item in value.items())}}}"
    return _brief(value) if isinstance(value, str | int | float) else shown(str(value))


def _example(note: Any) -> str:
    examples = ((note and note.extra_json_schema) or {}).get("examples")
    return _toml(examples[0]) if examples else ""


def _either(words: list[str] | tuple[str, ...]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _dotted(path: Path) -> str:
    """Write a path as a person would: tools.t.access.fs[0].path"""
    steps = [f"[{step}]" if isinstance(step, int) else f".{_key(step)}" for step in path]
    return "".join(steps).removeprefix(".") or "the file"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name) else _brief(name)
