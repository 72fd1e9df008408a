"""What the schema of a tool says of its arguments: whether they fit it, and what it says of one of them. Pure.

Checked is what decides the type of a value: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`,
`items`, `prefixItems`, `anyOf`, `oneOf`, `allOf`, and `$ref` within the schema. Every other keyword is the server's own
business. A value fits also where a usual server would make it fit: a number that is written as a text, JSON in a text,
null for what need not be given and a header of HTTP repeats.

A schema comes from a server and arguments come from an agent: both may be made to be slow, so the steps are counted.

Start at `InputSchema.problem`.

How a server may read a value that a call gives it: as it is written, or as another type. Pure.

Servers on the official SDKs parse JSON inside of texts, and take texts for numbers and truth values ("yes", "1e3", 1).
A rule about an argument is evaluated on every such reading, or it would be walked round by another spelling.

A reading is *sure* where common servers read so, and not sure where only some do: then a rule that refuses asks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Nodes = tuple[Any, ...] | None


DEEPEST_TEXT = 4  # levels of JSON inside of a text inside of JSON; what lies deeper may be anything
UNREADABLE = object()  # JSON in a text that nests too deeply to be read
_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "off", "f", "n", "0"), False),
}  # what pydantic takes for truth values, in any case of letters
_LONGEST_NUMBER = 4000  # digits; Python refuses to read some more than that
_NUMBER_STARTS = frozenset("+-.0123456789")
_NUMBER_WORDS = frozenset({"inf", "infinity", "nan"})
_LONGEST_LIST = 4096  # characters of a text that may be a list with commas
_WIDEST = 1 << 62  # a float beyond that is not used as a whole number


def readings_of_text(text: str) -> Iterator[Any]:
    """Yield what a text may be read as: a truth value, a number, null, or the JSON it holds.

    UNREADABLE stands for JSON that is too deep.
    """
    bare = text.strip()
    if not bare:
        return
    if bare[0] in '[{"':
        yield from _json_in(bare)
        return
    if len(bare) <= 5 and (word := _WORDS.get(bare.lower())) is not None:
        yield word
    if bare == "null":
        yield None
    if not bare[0].isalpha() or bare.lower() in _NUMBER_WORDS:
        number = _number_in(bare)
        if number is not None:
            yield number


def readings_of_value(value: Any) -> Iterator[tuple[Any, bool]]:
    """Yield what a number or a truth value may be read as, and whether that is sure where no schema says so."""
    if isinstance(value, bool):
        yield int(value), False
        return
    if not isinstance(value, int | float):
        return
    if value in (0, 1):
        yield bool(value), True
    if isinstance(value, float) and value.is_integer() and abs(value) < _WIDEST:
        yield int(value), True
        yield str(int(value)), False
    elif isinstance(value, float) or abs(value) < _WIDEST:
        yield str(value), False


def listed_in(text: str) -> list[str]:
    """Return the elements of a text that some servers take for a list with commas; none if it is no such text."""
    if "," not in text or len(text) > _LONGEST_LIST:
        return []
    return [each.strip() for each in text.split(",")]


def is_numbered(tree: dict[str, Any]) -> bool:
    """Whether an object is a list to some servers: all of its names are numbers."""
    return bool(tree) and all(name.isascii() and name.isdecimal() for name in tree)


def plain_name(name: str) -> str:
    """Return a name as forgiving readers compare it: `filePath`, `FilePath` and `file_path` are one."""
    return name.strip().casefold().replace("_", "").replace("-", "")


def _number_in(text: str) -> Any:
    """Return the number that a text is, for any of the usual readers; None if it is none."""
    if len(text) > _LONGEST_NUMBER:
        return None if text.strip("+-0123456789._eE") else UNREADABLE
    for read in (int, _with_base, float):
        try:
            number = read(text)
        except (ValueError, OverflowError):
            continue
        whole = isinstance(number, float) and number.is_integer() and abs(number) < _WIDEST
        return int(number) if whole else number
    return None


def _with_base(text: str) -> int:
    """Read `0x10` as JavaScript does."""
    return int(text, 0)


def _json_in(text: str) -> Iterator[Any]:
    """Yield what the JSON in a text holds. Of a name that is given twice some take the first value, some the last."""
    twice = False

    def last(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        made = dict(pairs)
        twice = twice or len(made) != len(pairs)
        return made

    def first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(reversed(pairs))

    try:
        yield json.loads(text, object_pairs_hook=last, parse_int=_moderate, strict=False)
        if twice:
            yield json.loads(text, object_pairs_hook=first, parse_int=_moderate, strict=False)
    except RecursionError:
        yield UNREADABLE
    except ValueError:
        return


def _moderate(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float("inf")


MISSING = object()
_MOST_STEPS = 150_000
_DEEPEST = 100  # levels of a schema, references included
_LONGEST_NAME = 100  # letters of a name from outside
_SAYS_SOMETHING = frozenset({"type", "enum", "const", "properties", "required", "items", "prefixItems"})
_CHOICES = ("anyOf", "oneOf")
_MADE_OF = frozenset({*_CHOICES, "allOf", "$ref"})
_OF_OTHERS = _MADE_OF | {"contentMediaType"}
_ENCODED = frozenset({"base64", "base64url", "base32", "base16", "byte", "quoted-printable"})


class _TooMuchError(Exception):
    """The check takes too many steps."""


class InputSchema:
    """The input schema of one tool."""

    __slots__ = ("_known", "_root", "_steps")

    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0
        self._known: dict[tuple[int, ...], Nodes] = {}  # by the identities of schemas, which are all parts of the root

    @property
    def is_javascript(self) -> bool:
        """Whether the schema looks like one that a JavaScript library wrote: there a text that is not empty is true."""
        return isinstance(self._root, dict) and "$schema" in self._root

    def problem(self, arguments: Any) -> str | None:
        """Return why arguments do not fit, in a few words; None if they do."""
        self._steps = 0
        try:
            return self._problem({} if arguments is None else arguments, self._root, "", 0, lax=False)
        except (_TooMuchError, RecursionError):
            return "they are too large, or the tool's schema is too deep, to be checked"

    @property
    def top(self) -> Nodes:
        """What is known of the arguments as a whole."""
        return self._flat(self._root)

    def admits(self, nodes: Nodes, value: Any) -> bool:
        """Whether a value fits one of some schemas as it is; what takes too long to check counts as fitting."""
        if nodes is None:
            return True
        self._steps = 0
        try:
            return any(self._problem(value, each, "", 0, lax=False) is None for each in nodes)
        except (_TooMuchError, RecursionError):
            return True

    def member(self, nodes: Nodes, name: str) -> Nodes:
        """Return what is known of a member of an object."""
        found = [_property(each, name) for each in nodes or ()]
        known = [each for each in found if each is not MISSING]
        return self._all_flat(known)

    def declares(self, nodes: Nodes, name: str) -> bool:
        """Whether an object has a member of this very name."""
        return any(name in each["properties"] for each in nodes or () if isinstance(each.get("properties"), dict))

    def defaults(self, nodes: Nodes, name: str) -> Iterator[Any]:
        """Yield what a server may take a member for that is not given, as far as the schema says."""
        for each in nodes or ():
            found = _property(each, name)
            for known in (found, *(self._flat(found) or ())):
                if isinstance(known, dict) and "default" in known:
                    yield known["default"]

    def is_encoded(self, nodes: Nodes) -> bool:
        """Whether a text stands for what another text encodes, so that a reader does not see it."""
        return any(each.get("format") in _ENCODED or each.get("contentEncoding") in _ENCODED for each in nodes or ())

    def element(self, nodes: Nodes, place: int) -> Nodes:
        """Return what is known of an element of a list."""
        found = [_item(each, place) for each in nodes or ()]
        return self._all_flat([each for each in found if each is not MISSING])

    def _all_flat(self, schemas: list[Any]) -> Nodes:
        key = tuple(map(id, schemas))
        if key not in self._known:
            each_flat = [self._flat(each) for each in schemas]
            flat = [node for nodes in each_flat for node in nodes or ()]
            self._known[key] = None if None in each_flat else tuple(flat) or None
        return self._known[key]

    def _flat(self, schema: Any, depth: int = 0) -> Nodes:
        """Return the schemas that a schema is a choice of, without references; None if they may be anything."""
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return None
        found: list[Any] = [schema] if not _SAYS_SOMETHING.isdisjoint(schema) else []
        if _OF_OTHERS.isdisjoint(schema):
            return tuple(found) or None
        branches = [each for key in (*_CHOICES, "allOf") for each in _list(schema.get(key))]
        if "$ref" in schema:
            branches.append(self._referred(schema["$ref"]))
        if "json" in str(schema.get("contentMediaType", "")).lower():
            branches.append(schema.get("contentSchema", True))  # of what the text holds
        for branch in branches[:_DEEPEST]:
            known = self._flat(branch, depth + 1)
            if known is None:
                return None
            found += known
            if len(found) > _DEEPEST:
                return None
        return tuple(found) or None

    def _referred(self, reference: Any) -> Any:
        """Return what a reference within the schema leads to; true, which everything fits, if it leads elsewhere."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return True
        found = self._root
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                return True
            found = found[name]
        return found

    def _problem(self, value: Any, schema: Any, at: str, depth: int, *, lax: bool) -> str | None:
        """Return why a value does not fit; with `lax`, none of the ways in which a server may read it."""
        self._steps += 1
        if self._steps > _MOST_STEPS or depth > _DEEPEST:
            raise _TooMuchError
        if schema is False:
            return f"{_named(at)} is not expected"
        if not isinstance(schema, dict):
            return None
        problem = self._own(value, schema, at, depth)
        if problem is not None and lax:
            self._steps += 4  # to read it otherwise takes its time
            others = other_readings(value)
            if any(self._own(each, schema, at, depth + 1) is None for each in others):
                problem = None
        return problem or self._combined(value, schema, at, depth, lax=lax)

    def _combined(self, value: Any, schema: Mapping[str, Any], at: str, depth: int, *, lax: bool) -> str | None:
        """Return why a value does not fit what a schema is made of."""
        if _MADE_OF.isdisjoint(schema):
            return None
        needed = _list(schema.get("allOf"))
        if "$ref" in schema:
            needed = [*needed, self._referred(schema["$ref"])]
        for each in needed:
            problem = self._problem(value, each, at, depth + 1, lax=lax)
            if problem is not None:
                return problem
        for key in _CHOICES:
            choices = _list(schema.get(key))
            problems = [self._problem(value, each, at, depth + 1, lax=lax) for each in choices]
            if problems and None not in problems:
                return problems[0] if len(problems) == 1 else f"{_named(at)} is nothing that the tool takes there"
        return None

    def _own(self, value: Any, schema: Mapping[str, Any], at: str, depth: int) -> str | None:
        """Return why a value does not fit what a schema says itself."""
        kinds = _kinds(schema)
        if kinds and not any(_TYPES[kind](value) for kind in kinds):
            return f"{_named(at)} is not {' or '.join(_ARTICLES[kind] for kind in kinds)}"
        if isinstance(schema.get("enum"), list) and not any(same(value, each) for each in schema["enum"]):
            return f"{_named(at)} is none of the values that the tool takes there"
        if "const" in schema and not same(value, schema["const"]):
            return f"{_named(at)} is not the value that the tool takes there"
        if isinstance(value, dict):
            return self._members(value, schema, at, depth)
        if isinstance(value, list):
            return self._elements(value, schema, at, depth)
        return None

    def _members(self, value: dict[str, Any], schema: Mapping[str, Any], at: str, depth: int) -> str | None:
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        for name in required:
            if name not in value:
                return f"{_named(_below(at, name))} is missing"
        for name, each in value.items():
            found = _property(schema, name)
            if found is MISSING or (each is None and _may_be_null(found) and name not in required):
                continue
            problem = self._problem(each, found, _below(at, name), depth + 1, lax=True)
            if problem is not None:
                return problem
        return None

    def _elements(self, value: list[Any], schema: Mapping[str, Any], at: str, depth: int) -> str | None:
        for place, each in enumerate(value):
            found = _item(schema, place)
            if found is MISSING:
                continue
            problem = self._problem(each, found, _below(at, str(place)), depth + 1, lax=True)
            if problem is not None:
                return problem
        return None


def other_readings(value: Any) -> Iterator[Any]:
    """Yield what servers may make of a value whose type does not fit. No server makes a text of a number."""
    if isinstance(value, str):
        yield from (each for each in readings_of_text(value) if each is not UNREADABLE)
    else:
        yield from (each for each, _sure in readings_of_value(value) if not isinstance(each, str))


def same(value: Any, expected: Any) -> bool:
    """Whether two JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    return isinstance(value, bool) == isinstance(expected, bool) and bool(value == expected)


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names; none where one of them is not standard, so that it may be anything."""
    given = schema.get("type")
    if type(given) is str and given in _TYPES and "nullable" not in schema:  # nearly all of them
        return [given]
    kinds: list[Any] = given if isinstance(given, list) else [given]
    if not all(isinstance(kind, str) and kind in _TYPES for kind in kinds):
        return []
    return [*kinds, "null"] if schema.get("nullable") is True else kinds


def _property(schema: Mapping[str, Any], name: str) -> Any:
    """Return what a schema says of a member; MISSING if it says nothing."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    if schema.get("patternProperties"):  # patterns of a stranger are not run
        return MISSING
    return schema.get("additionalProperties", MISSING)


def _may_be_null(schema: Any) -> bool:
    """Whether null means that a member is not given: MCP says so of one that a header repeats."""
    return isinstance(schema, dict) and "x-mcp-header" in schema


def _item(schema: Mapping[str, Any], place: int) -> Any:
    """Return what a schema says of an element; MISSING if it says nothing. Older schemas list them under `items`."""
    items = schema.get("items", MISSING)
    first = schema.get("prefixItems", items)
    if isinstance(first, list):
        if place < len(first):
            return first[place]
        return schema.get("additionalItems", MISSING) if first is items else items
    return items


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _below(at: str, name: str) -> str:
    return f"{at}/{name[:_LONGEST_NAME]}"


def _named(at: str) -> str:
    return shown(at[-3 * _LONGEST_NAME :]) if at else "the whole"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_ARTICLES = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
