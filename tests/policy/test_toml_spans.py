"""Where things stand in a TOML file: cases by hand, then any document in any layout."""

import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.errors import SourceSpan
from byleave.policy.toml_spans import Path, Span, locate
from byleave.policy.toml_text import deep_bracket, long_key

FILE = """\
strict_links = true   # first
"a b".'c.d'."\\u0065" = 1

[tools.t]
source = "local" # a "comment"
options.deep.er = { x = [1, 2], y.z = "}" }

[[tools.t.access.fs]]
path = "src"
[[ tools . "t" . access.fs ]]
path = "#not a comment"
[tools.t.access.fs.sub]
read = true
[[tools.t.access.fs.list]]
n = 1
[[tools.t.access.fs.list]]
n = 2

[multi]
text = \"""
[not.a.table]
x = "y" \\\""" ""\"""
raw = '''
[[neither]] it's'''''
when = 1979-05-27 07:32:00
list = [ # ]
  "a]", # "x
  [1,
   2],
  {k = 'v'},
]
after = 1
"""

KEYS: list[tuple[Path, str | None]] = [
    (("strict_links",), "strict_links"),
    (("a b",), '"a b"'),
    (("a b", "c.d"), "'c.d'"),
    (("a b", "c.d", "e"), '"\\u0065"'),
    (("tools",), "tools"),
    (("tools", "t"), "t"),
    (("tools", "t", "options", "deep"), "deep"),
    (("tools", "t", "options", "deep", "er", "y", "z"), "z"),
    (("tools", "t", "access"), "access"),
    (("tools", "t", "access", "fs"), "fs"),
    (("tools", "t", "access", "fs", 1), "fs"),
    (("tools", "t", "access", "fs", 1, "path"), "path"),
    (("tools", "t", "access", "fs", 1, "sub"), "sub"),
    (("tools", "t", "access", "fs", 1, "list", 1, "n"), "n"),
    (("multi", "list", 2, "k"), "k"),
    (("multi", "list", 2), None),
    (("tools", "t", "access", "fs", 0, "sub"), None),
    (("multi", "x"), None),
    (("not",), None),
    ((), None),
]

VALUES: list[tuple[Path, str | None]] = [
    (("strict_links",), "true"),
    (("a b", "c.d", "e"), "1"),
    (("tools", "t", "source"), '"local"'),
    (("tools", "t", "options", "deep", "er"), '{ x = [1, 2], y.z = "}" }'),
    (("tools", "t", "options", "deep", "er", "x", 1), "2"),
    (("tools", "t", "access", "fs", 1, "path"), '"#not a comment"'),
    (("tools", "t", "access", "fs", 1, "list", 1, "n"), "2"),
    (("multi", "text"), '"""\n[not.a.table]\nx = "y" \\""" """""'),
    (("multi", "raw"), "'''\n[[neither]] it's'''''"),
    (("multi", "when"), "1979-05-27 07:32:00"),
    (("multi", "list", 0), '"a]"'),
    (("multi", "list", 1), "[1,\n   2]"),
    (("multi", "list", 1, 1), "2"),
    (("multi", "list", 2), "{k = 'v'}"),
    (("multi", "after"), "1"),
    (("tools", "t"), None),
    (("tools", "t", "access", "fs"), None),
    (("tools", "t", "access", "fs", 0), None),
]

LINES: list[tuple[Path, int]] = [
    ((), 1),
    (("strict_links",), 1),
    (("a b", "c.d"), 2),
    (("tools",), 4),
    (("tools", "t"), 4),
    (("tools", "t", "access"), 8),
    (("tools", "t", "access", "fs"), 8),
    (("tools", "t", "access", "fs", 1), 10),
    (("tools", "t", "access", "fs", 1, "missing", "deeper"), 10),
    (("tools", "t", "access", "fs", 1, "list", 1), 16),
    (("multi", "list", 1), 28),
    (("multi", "list", 1, 1), 29),
    (("multi", "list", 1, 7), 28),
    (("multi", "after"), 32),
    (("nothing",), 1),
]

unix_and_windows = pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])


def written(text: str, span: Span | None, newline: str = "\n") -> str | None:
    return None if span is None else locate(text).text(span).replace(newline, "\n")


@unix_and_windows
@pytest.mark.parametrize(("path", "expected"), KEYS)
def test_a_key_is_found_where_it_is_written(path: Path, expected: str | None, newline: str) -> None:
    text = FILE.replace("\n", newline)
    assert written(text, locate(text).key(path), newline) == expected


@unix_and_windows
@pytest.mark.parametrize(("path", "expected"), VALUES)
def test_a_value_is_found_where_it_is_written(path: Path, expected: str | None, newline: str) -> None:
    text = FILE.replace("\n", newline)
    assert written(text, locate(text).value(path), newline) == expected


@unix_and_windows
@pytest.mark.parametrize(("path", "expected"), LINES)
def test_the_line_is_that_of_the_item_or_its_nearest_ancestor(path: Path, expected: int, newline: str) -> None:
    assert locate(FILE.replace("\n", newline)).line(path) == expected


def test_a_table_of_its_own_beats_the_header_that_only_implies_it() -> None:
    places = locate("[a.b]\n[a]\nx = 1\n")
    assert (places.line(("a",)), places.line(("a", "b"))) == (2, 1)


def test_dotted_keys_reach_into_tables_that_other_headers_imply() -> None:
    places = locate("[a]\nb.x = 1\n[a.b.c]\ny = 2\n")
    assert (places.value(("a", "b", "x")), places.value(("a", "b", "c", "y"))) == (Span(2, 6, 1), Span(4, 4, 1))


POINTS: list[tuple[str, Path, bool, SourceSpan]] = [
    ("é = 'ü'\r\n", ("é",), False, SourceSpan("f", 1)),
    ("'é' = 'ü'\r\n", ("é",), False, SourceSpan("f", 1, 6, 3, "'é' = 'ü'")),
    ("'é' = 'ü'", ("é",), True, SourceSpan("f", 1, 0, 3, "'é' = 'ü'")),
    ("[a]\n", ("a",), False, SourceSpan("f", 1, 1, 1, "[a]")),
    ("x = [\n1]", ("x",), False, SourceSpan("f", 1, 4, 1, "x = [")),
    ("x = [\n1]", ("x", 0), True, SourceSpan("f", 2, 0, 1, "1]")),
    ("x = 1\ny = {z = 2}", ("y", "q"), True, SourceSpan("f", 2)),
    (f"x = '{'y' * 400}'", ("x",), False, SourceSpan("f", 1, 4, 402, f"x = '{'y' * 295}")),
    (f"x = ['{'y' * 400}', 1]", ("x", 1), False, SourceSpan("f", 1, 409, 1, "")),
]


@pytest.mark.parametrize(("text", "path", "at_key", "expected"), POINTS)
def test_a_point_stays_on_one_line_of_bearable_length(
    text: str, path: Path, *, at_key: bool, expected: SourceSpan
) -> None:
    assert locate(text).point(path, "f", at_key=at_key) == expected


def test_values_nested_too_deep_to_read_fall_back_to_an_ancestor() -> None:
    text = "a = 1\nb = " + "[" * 5000 + "]" * 5000 + "\nc = 2\n"
    places = locate(text)
    assert (places.line(("b", 0, 0)), places.line(("c",))) == (2, 3)


LONG_KEYS: list[tuple[str, str | None]] = [
    ("a.b.c = 1", None),
    ("a.b.c.d = 1", "a.b.c.d"),
    ("[x]\n[[a . 'b' . \"c\" .d.e]]", "a . 'b' . \"c\" .d"),
    ("x = {a.b.c.d = 1}", "a.b.c.d"),
    ("x = 'a.b.c.d' # a.b.c.d", None),
    ('x = """\na.b.c.d""" # a.b.c.d', None),
    ("x = ['a.b', 'c.d', 1.5, 2.5]", None),
    ("x = '''\n'''\ny = \"'\"\na.b.c.d = '", "a.b.c.d"),
    ('x = "unclosed \n a.b.c.d', None),
]


@pytest.mark.parametrize(("text", "expected"), LONG_KEYS)
def test_a_key_of_too_many_names_is_found_outside_strings_and_comments(text: str, expected: str | None) -> None:
    found = long_key(text, 3)
    assert (found and text[slice(*found)]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x = [[1]]", None), ("x = [[\n['[[[']]]", (7, 8)), ("x = '[[['\n# [[[\ny = {a=[{}]}", (24, 25))],
)
def test_a_bracket_too_deep_is_found_outside_strings_and_comments(text: str, expected: tuple[int, int] | None) -> None:
    assert deep_bracket(text, 2) == expected


def test_many_tables_are_located_in_order() -> None:
    text = "".join(f"[[t.fs]]\npath = 'p{number}'\nread = true\n" for number in range(3000))
    places = locate(text)
    assert [places.line(("t", "fs", number, "read")) for number in (0, 1, 2999)] == [3, 6, 9000]


names = st.text("ab-_.\"'\\ #[]=é\n", min_size=0, max_size=4) | st.sampled_from(["a", "b", "c", "tools"])
strings = st.text("ab \"'\\#[]{}=,.\n\té", max_size=12)
scalars = st.booleans() | st.integers(-99, 10**20) | st.floats(allow_nan=False, width=16) | strings
trees = st.dictionaries(
    names,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


class Writer:
    """Writes a tree as TOML, choosing at every turn one of the ways TOML has to say the same."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def document(self, tree: dict[str, Any]) -> str:
        return self._table((), tree)

    def _chance(self) -> bool:
        return bool(self._draw(st.booleans()))

    def _table(self, path: tuple[str, ...], tree: dict[str, Any]) -> str:
        """Plain pairs first: what follows a header belongs to that header."""
        pairs, tables = [], []
        for name, value in tree.items():
            inner = (*path, name)
            if isinstance(value, dict) and self._chance():
                tables.append(f"{self._header(inner)}{self._table(inner, value)}")
            elif self._is_tables(value) and self._chance():
                tables += [f"{self._header(inner, 2)}{self._table(inner, item)}" for item in value]
            else:
                pairs.append(self._pair((name,), value))
        return "".join(pairs + tables)

    def _is_tables(self, value: object) -> bool:
        return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)

    def _header(self, path: tuple[str, ...], brackets: int = 1) -> str:
        return f"{self._blank()}{'[' * brackets}{self._key(path)}{']' * brackets}{self._end()}"

    def _pair(self, path: tuple[str, ...], value: Any) -> str:
        if isinstance(value, dict) and value and self._chance():
            return "".join(self._pair((*path, name), item) for name, item in value.items())
        return f"{self._blank()}{self._assignment(path, value)}{self._end()}"

    def _assignment(self, path: tuple[str, ...], value: Any) -> str:
        return f"{self._key(path)}{self._blank()}={self._blank()}{self._value(value)}"

    def _key(self, path: tuple[str, ...]) -> str:
        return ".".join(f"{self._blank()}{self._name(name)}{self._blank()}" for name in path)

    def _name(self, name: str) -> str:
        if name and set(name) <= set("abcdefghijklmnopqrstuvwxyz-_") and self._chance():
            return name
        return f"'{name}'" if not set(name) & set("'\n") and self._chance() else self._basic(name)

    def _value(self, value: Any) -> str:
        match value:
            case bool():
                return str(value).lower()
            case str():
                return self._string(value)
            case list():
                return self._list([self._value(item) for item in value])
            case dict():
                pairs = [self._assignment((name,), item) for name, item in value.items()]
                return f"{{{self._blank()}{', '.join(pairs)}{self._blank()}}}"
            case _:
                return repr(value)

    def _list(self, items: list[str]) -> str:
        if not self._chance():
            return f"[{', '.join(items)}]"
        comma = "," if items and self._chance() else ""
        return f"[{self._end()}{f' ,{self._end()}'.join(items)}{comma}{self._end()}]"

    def _string(self, text: str) -> str:
        ways = [self._basic(text), self._long_basic(text)]
        if not set(text) & set("'\n"):
            ways.append(f"'{text}'")
        if "'''" not in text and not text.startswith("'"):
            ways.append(f"'''\n{text}'''")
        return str(self._draw(st.sampled_from(ways)))

    def _basic(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'

    def _long_basic(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
        return f'"""\n{escaped}"""'

    def _blank(self) -> str:
        return str(self._draw(st.sampled_from(["", " ", "\t"])))

    def _end(self) -> str:
        return str(self._draw(st.sampled_from(["\n", " # [x] 'y\n", "\n\n", '  # "\n'])))


@st.composite
def documents(draw: Callable[[Any], Any]) -> str:
    text = Writer(draw).document(draw(trees))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def items_of(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    pairs = list(value.items()) if isinstance(value, dict) else []
    pairs = list(enumerate(value)) if isinstance(value, list) else pairs
    return [(path, value), *[found for step, item in pairs for found in items_of(item, (*path, step))]]


def is_scalar(value: object) -> bool:
    return not isinstance(value, dict | list)


@pytest.mark.long
@settings(max_examples=amounts.of(150, 50), deadline=None)
@given(documents())
def test_every_value_of_any_document_reads_the_same_at_its_place(text: str) -> None:
    places = locate(text)
    for path, value in items_of(tomllib.loads(text)):
        span = places.value(path)
        if span is not None:
            assert tomllib.loads(f"x = {places.text(span)}")["x"] == value
        assert span is not None or not is_scalar(value)


@pytest.mark.long
@settings(max_examples=amounts.of(150, 50), deadline=None)
@given(documents())
def test_every_key_of_any_document_reads_the_same_at_its_place(text: str) -> None:
    places = locate(text)
    for path, _ in items_of(tomllib.loads(text)):
        span = places.key(path)
        if path and isinstance(path[-1], str):
            assert span is not None
            assert tomllib.loads(f"{places.text(span)} = 1") == {path[-1]: 1}
            assert span.line == places.line(path)


@given(st.text("ab.\"'[]{}=,#\\\n\r 1", max_size=60))
def test_text_that_is_no_toml_may_be_searched_for_what_makes_tomllib_slow(text: str) -> None:
    assert long_key(text, 1) is None or "." in text
    assert deep_bracket(text, 0) is None or set(text) & set("[{")
