"""Find every problem of a configuration file at once: where it stands, what is wrong, what would work.

Two doors. `parse_toml` reads text into a tree and reports what is no TOML. `check_tree` holds a tree against
the types of config.shape: msgspec decides whether it fits, and only when it does not is the tree walked once
more, to say why in words. What a value means (a path, a host, a pattern) is the compiler's business.
"""

import re
import tomllib
from functools import cache
from itertools import islice
from typing import Any

import msgspec

from byleave.config.places import deep_bracket, long_key, place_at
from byleave.config.shape import NOT_YET, File, Merge
from byleave.errors import ConfigError, ConfigErrors
from byleave.record import Record
from byleave.text import quoted, sentence_list, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from byleave.config.places import Path, Places, Stretch

MOST_PROBLEMS = 200  # more than anybody reads; a hostile file must not cost minutes
MOST_NAMES = 32  # in one dotted key; the longest of our own has seven
_MOST_BRACKETS = 100  # which bracket to blame when tomllib gives up, which it does some hundreds deep
_MOST_DIGITS = 4300  # sys.int_info.default_max_str_digits: int() raises above it
_LONGEST_SHOWN = 60  # characters of a value worth repeating
_LONGEST_KEY = 64  # characters of a key worth comparing with the known ones


class Problem(Record):
    """One thing wrong at `path`, in its value or (`at_key`) in the key itself."""

    path: "Path"
    text: str
    hint: str
    at_key: bool = False


def check_tree(tree: object, *, file: str = "", places: "Places | None" = None) -> list[ConfigError]:
    """Return all that keeps `tree` from being a `File`; nothing when it is one.

    With `places` (the tree was read from TOML text) each error points into `file`.
    """
    try:
        msgspec.convert(tree, File, strict=True)
    except ValueError as refusal:  # msgspec's own errors, and text that is no Unicode
        found = _problems(tree, refusal)
    else:
        return []
    errors = [_error(problem, file, places) for problem in found[:MOST_PROBLEMS]]
    errors.sort(key=lambda error: error.at.line if error.at else 0)
    if len(found) > MOST_PROBLEMS:
        errors.append(ConfigError(f"there are more than {MOST_PROBLEMS} problems", hint="mend these first"))
    return errors


def walk(tree: object) -> "Iterator[Problem]":
    """Yield each place where `tree` departs from `File`. Nothing at all exactly when msgspec takes it."""
    return _judge(_root(), tree, ())


def _problems(tree: object, refusal: ValueError) -> list[Problem]:
    """Return what the walk finds, up to one more than is told. If it finds nothing, msgspec's word counts."""
    found = list(islice(walk(tree), MOST_PROBLEMS + 1))
    return found or [Problem((), shown(str(refusal)), "compare the file with the documented keys")]


def _error(problem: Problem, file: str, places: "Places | None") -> ConfigError:
    if places is None:
        where = f"{shown(file)}: " if file else ""
        return ConfigError(where + problem.text, hint=problem.hint)
    at = places.point(problem.path, file, at_key=problem.at_key)
    return ConfigError(problem.text, hint=problem.hint, at=at)


@cache
def _root() -> Any:
    """Return the kind of a whole file. Kinds are told apart by name: only here is their module loaded."""
    import msgspec.inspect

    return msgspec.inspect.type_info(File)


def _judge(kind: Any, value: object, path: "Path") -> "Iterator[Problem]":
    note, choices = _unwrapped(kind)
    fitting = next((choice for choice in choices if _accepts(choice, value)), None)
    if fitting is None:
        yield _wrong_type(choices, value, path, _example(note))
    elif judge := _JUDGES.get(_name(fitting)):
        yield from judge(fitting, value, path, note)


def _unwrapped(kind: Any) -> tuple[Any, list[Any]]:
    """Return what is noted about a kind (examples, hints), and the plain kinds it allows."""
    note = kind if _name(kind) == "Metadata" else None
    plain = kind.type if note else kind
    members = plain.types if _name(plain) == "UnionType" else (plain,)
    return note, [member.type if _name(member) == "Metadata" else member for member in members]


def _accepts(kind: Any, value: object) -> bool:
    accepted = _ACCEPTED[_name(kind)]
    return isinstance(value, accepted) and (accepted is bool or accepted is object or not isinstance(value, bool))


def _judge_table(kind: Any, table: dict[object, object], path: "Path", _note: Any) -> "Iterator[Problem]":
    fields = {field.encode_name: field for field in kind.fields}
    if getattr(kind.cls, "__origin__", None) is Merge and fields.keys().isdisjoint(table):
        yield _lone_table(fields["value"].type, path)
        return
    for key, value in table.items():
        if not isinstance(key, str):
            yield _odd_key(key, path)
        elif key in fields:
            yield from _judge(fields[key].type, value, (*path, key))
        else:
            yield _unknown_key(key, tuple(fields), path)
    meant = {_nearest(key, tuple(fields)) for key in table if isinstance(key, str) and key not in fields}
    for field in kind.fields:
        if field.required and field.encode_name not in table and field.encode_name not in meant:
            yield _missing_key(field, path)
    yield from _judge_one_of(getattr(kind.cls, "one_of", ()), table, path)


def _judge_one_of(keys: tuple[str, ...], table: dict[object, object], path: "Path") -> "Iterator[Problem]":
    there = [key for key in keys if key in table]
    if keys and not there:
        yield Problem(path, f"{_dotted(path)} says nothing to compare with", f"add one of {_either(keys)}")
    if len(there) > 1:
        yield Problem(path, f"{_dotted(path)} has {sentence_list(there)}", "keep one of them")


def _judge_names(kind: Any, table: dict[object, object], path: "Path", _note: Any) -> "Iterator[Problem]":
    for name, value in table.items():
        if isinstance(name, str):
            yield from _judge(kind.value_type, value, (*path, name))
        else:
            yield _odd_key(name, path)


def _judge_items(kind: Any, items: "Iterable[object]", path: "Path", _note: Any) -> "Iterator[Problem]":
    for index, item in enumerate(items):
        yield from _judge(kind.item_type, item, (*path, index))


def _judge_word(kind: Any, word: str, path: "Path", _note: Any) -> "Iterator[Problem]":
    if word not in kind.values:
        allowed = f"write {_either([quoted(value) for value in kind.values])}"
        near = _nearest(word, kind.values)
        hint = f"did you mean {quoted(near)}? If not, {allowed}" if near else allowed
        yield Problem(path, f"{_dotted(path)}: unknown value {_brief(word)}", hint)


def _judge_string(kind: Any, string: str, path: "Path", note: Any) -> "Iterator[Problem]":
    if kind.pattern is not None and not re.search(kind.pattern, string):
        hint = (note.extra or {}).get("hint") or f"it has to match {kind.pattern}"
        yield Problem(path, f"{_dotted(path)}: unknown value {_brief(string)}", hint)


def _judge_number(kind: Any, number: int, path: "Path", _note: Any) -> "Iterator[Problem]":
    if (kind.ge is not None and number < kind.ge) or (kind.le is not None and number > kind.le):
        hint = f"write a whole number from {kind.ge} to {kind.le}"
        yield Problem(path, f"{_dotted(path)}: {_brief(number)} is out of range", hint)


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
_JUDGES: "dict[str, Callable[[Any, Any, Path, Any], Iterator[Problem]]]" = {
    "DictType": _judge_names,
    "IntType": _judge_number,
    "ListType": _judge_items,
    "LiteralType": _judge_word,
    "StrType": _judge_string,
    "StructType": _judge_table,
}


def _wrong_type(choices: list[Any], value: object, path: "Path", example: str) -> Problem:
    wanted = _either(list(dict.fromkeys(word for choice in choices for word in _wanted(choice))))
    text = f"{_dotted(path)}: expected {wanted}, got {_got(value)}"
    return Problem(path, text, _type_hint(choices, value, wanted, example))


def _type_hint(choices: list[Any], value: object, wanted: str, example: str) -> str:
    names = {_name(choice) for choice in choices}
    lists = [choice for choice in choices if _name(choice) == "ListType"]
    if isinstance(value, str) and names & {"BoolType", "IntType"}:
        return f"write {wanted}, without quotes"
    if any(_accepts(choice, value) for each in lists for choice in _unwrapped(each.item_type)[1]):
        return f"put it in a list: [{'{...}' if isinstance(value, dict) else _toml(value)}]"
    if isinstance(value, bool | int | float) and "StrType" in names:
        return f'put it between quotes: "{_toml(value)}"'
    return f"write {wanted}, such as {example}" if example else f"write {wanted}"


def _lone_table(list_kind: Any, path: "Path") -> Problem:
    """Word the slip of writing `[a.b]` for `[[a.b]]`, rather than complain about each key in it."""
    text = f"{_dotted(path)}: expected a list, got a table"
    items = _unwrapped(_unwrapped(list_kind)[1][0].item_type)[1]
    if _name(items[0]) != "StructType":
        return Problem(path, text, "write [...], or {strategy = ..., value = [...]}")
    return Problem(path, text, f"write [[{_dotted(path)}]], with double brackets, once for each rule")


def _odd_key(key: object, path: "Path") -> Problem:
    text = f"{_dotted(path)} has a key that is no string: {_got(key)}"
    return Problem(path, text, "put the key between quotes")


def _missing_key(field: Any, path: "Path") -> Problem:
    example = _example(_unwrapped(field.type)[0])
    text = f"missing key {quoted(field.encode_name)} in {_dotted(path)}"
    return Problem(path, text, f"add {field.encode_name} = {example}")


def _unknown_key(key: str, known: tuple[str, ...], path: "Path") -> Problem:
    full = (*path, key)
    if full in NOT_YET:
        hint = "this version does not enforce it yet: remove it, so that nobody relies on it"
        return Problem(full, f"{quoted(_dotted(full))} is not in this version", hint, at_key=True)
    where = f"in {_dotted(path)}" if path else "at the top of the file"
    return Problem(full, f"unknown key {_brief(key)} {where}", _key_hint(key, known), at_key=True)


def _key_hint(key: str, known: tuple[str, ...]) -> str:
    hints = []
    if near := _nearest(key, known):
        hints.append(f"did you mean {quoted(near)}?")
    if homes := _homes().get(key):
        hints.append(f"{quoted(key)} is a key of {_either(homes)}")
    return " ".join(hints) or f"the keys here are {sentence_list(known, most=20)}"


@cache
def _nearest(word: str, known: tuple[str, ...]) -> str | None:
    import difflib

    if len(word) > _LONGEST_KEY:
        return None
    folded = word.lower().replace("-", "_")
    near = difflib.get_close_matches(folded, known, n=1)
    longer = [name for name in known if name.startswith(f"{folded}_")]
    return next(iter(near + longer), None)


@cache
def _homes() -> dict[str, list[str]]:
    """Return for each key of the shape the tables it belongs in, such as `tools.*.access.fs[]`."""
    homes: dict[str, list[str]] = {}
    for table, key in _all_keys(_root(), ""):
        homes.setdefault(key, []).append(table)
    return homes


def _all_keys(kind: Any, table: str) -> "Iterator[tuple[str, str]]":
    for plain in _unwrapped(kind)[1]:
        if _name(plain) == "ListType":
            yield from _all_keys(plain.item_type, f"{table}[]")
        elif _name(plain) == "DictType":
            yield from _all_keys(plain.value_type, f"{table}.*")
        elif _name(plain) == "StructType" and getattr(plain.cls, "__origin__", None) is not Merge:
            yield from _keys_of(plain, table)


def _keys_of(struct: Any, table: str) -> "Iterator[tuple[str, str]]":
    for field in struct.fields:
        if field.encode_name != "conversation":  # a second way to the same tables
            yield table or "the top level", field.encode_name
            yield from _all_keys(field.type, f"{table}.{field.encode_name}".lstrip("."))


def _name(kind: object) -> str:
    return type(kind).__name__


def _wanted(kind: Any) -> list[str]:
    if _name(kind) == "LiteralType":
        return [quoted(value) for value in kind.values]
    if _name(kind) != "ListType":
        return [_WANTED[_name(kind)]]
    items = {"StrType": "strings", "ListType": "lists", "StructType": "tables"}
    return [f"a list of {items[_name(kind.item_type)]}"]


_WANTED = {
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


def _either(words: "list[str] | tuple[str, ...]") -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _dotted(path: "Path") -> str:
    """Write a path as a person would: tools.t.access.fs[0].path"""
    steps = [f"[{step}]" if isinstance(step, int) else f".{_key(step)}" for step in path]
    return "".join(steps).removeprefix(".") or "the file"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name) else _brief(name)


def parse_toml(data: bytes | str, file: str) -> dict[str, Any]:
    """Read TOML into a tree, or raise `ConfigErrors` with the place where it stops being TOML."""
    text = read_text(data, file)
    if stretch := long_key(text, MOST_NAMES):
        raise _refused("this key has too many names", stretch, text, file, hint=f"use at most {MOST_NAMES}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigErrors([_syntax_error(str(error), text, file)]) from None
    except RecursionError:
        stretch = deep_bracket(text, _MOST_BRACKETS) or (0, 1)
        raise _refused("values are nested too deep", stretch, text, file, hint="use fewer levels") from None
    except ValueError:  # from int(), which knows no place
        digits = re.search(rf"[0-9_]{{{_MOST_DIGITS},}}", text)
        stretch = digits.span() if digits else (0, 1)
        raise _refused("this number is too long", stretch, text, file, hint="write a shorter one") from None


def read_text(data: bytes | str, file: str) -> str:
    """Return the text of a file, or raise `ConfigErrors` if it is not plain UTF-8."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    if text.startswith("\ufeff"):
        hint = "save the file as UTF-8 without a byte order mark"
        raise _refused("the file begins with a byte order mark", (0, 1), text, file, hint=hint)
    if not text.isascii() and (bad := re.search(r"[\ud800-\udfff]+", text)):  # what surrogateescape leaves
        raise _refused("this is not UTF-8", bad.span(), text, file, hint="save the file as UTF-8")
    if (nul := text.find("\0")) >= 0:
        raise _refused("a NUL byte stands here", (nul, nul + 1), text, file, hint="remove it")
    return text


def _refused(problem: str, stretch: "Stretch", text: str, file: str, *, hint: str) -> ConfigErrors:
    return ConfigErrors([ConfigError(problem, hint=hint, at=place_at(text, stretch, file))])


class _Slip(Record):
    """How tomllib words a mistake, and how we do. `whole`: underline the line, its column comes too late."""

    said: str
    problem: str
    hint: str
    whole: bool = False


_QUOTES = 'put text between quotes, "like this"; true and false are written in lower case'
_BACKSLASH = "use 'single quotes', or write the backslash twice"
_CLOSED = "an inline table {...} is complete as it stands: put all its keys inside the braces"
_SLIPS = (
    _Slip("Cannot overwrite a value", "this key is set twice", "keep one of the two", whole=True),
    _Slip("Duplicate inline table key", "this key is set twice", "keep one of the two"),
    _Slip(
        "Cannot declare",
        "this table is declared twice",
        "join the two; [[...]], in double brackets, adds to a list",
        whole=True,
    ),
    _Slip("Cannot redefine namespace", "this table is declared twice", "join the two", whole=True),
    _Slip("Cannot mutate immutable namespace", "this adds to a table that is complete", _CLOSED, whole=True),
    _Slip("Invalid value", "TOML knows no such value", _QUOTES),
    _Slip("Expected newline or end of document", "the line should end here", f"one key to a line; {_QUOTES}"),
    _Slip("Expected '=' after a key", "there is no = after this key", "write key = value"),
    _Slip("Invalid statement", "this is no TOML", "a line is key = value, [table], [[list]] or # a comment"),
    _Slip("Invalid initial character for a key", "a key should stand here", "write key = value"),
    _Slip("Expected ']", "the brackets of this table are not closed", "close them: [table] or [[list]]"),
    _Slip("Unclosed array", "this list is not closed", "a comma or ] belongs here"),
    _Slip("Unclosed inline table", "this table is not closed", "a comma or } belongs here"),
    _Slip("Unterminated string", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Illegal character '\\n'", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Expected \"'", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Found invalid character '\\n'", "a string is not closed", "close it with the quotes it began with"),
    _Slip("Unescaped '\\'", "no such escape in double quotes", _BACKSLASH),
    _Slip("Invalid hex value", "no such escape in double quotes", _BACKSLASH),
    _Slip("Escaped character is not", "no such escape in double quotes", _BACKSLASH),
    _Slip("Invalid date", "there is no such date", "dates are 2024-12-31; put other text between quotes"),
    _Slip("Illegal character", "a control character stands here", "remove it, or write it as an escape"),
    _Slip("Found invalid character", "a control character stands here", "remove it"),
)


def _syntax_error(message: str, text: str, file: str) -> ConfigError:
    said, _, where = message.rpartition(" (at ") if " (at " in message else (message, "", "")
    slip = next((slip for slip in _SLIPS if said.startswith(slip.said)), None)
    slip = slip or _Slip(said, said[:1].lower() + said[1:], "see https://toml.io for how TOML is written")
    at = place_at(text, _blamed(where, text, whole=slip.whole), file)
    return ConfigError(shown(slip.problem), hint=slip.hint, at=at)


def _blamed(where: str, text: str, *, whole: bool) -> "Stretch":
    """Turn tomllib's "line 2, column 5)" or "end of document)" into what to underline."""
    found = re.match(r"line (\d+), column (\d+)", where)
    start = _offset(text, int(found[1]), int(found[2])) if found else len(text.rstrip())
    token = re.compile(r"\]*" if whole else r"[^\s,\]}#]*").match(text, start)
    end = token.end() if token else start
    if not whole:
        return start, max(start + 1, end)
    written = text[text.rfind("\n", 0, start) + 1 : start].lstrip()
    return start - len(written), end


def _offset(text: str, line: int, column: int) -> int:
    offset = 0
    for _ in range(line - 1):
        offset = text.find("\n", offset) + 1
    return offset + column - 1
