"""Test one argument of a call: a JSON pointer, and what its value must be. Pure; patterns are compiled beforehand.

A value is tested as every reading that the server may have of it: `readings`. With the tool's schema only those count
that fit it; without, all of them. A rule that allows needs all readings to pass, one that refuses any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.fs_rules import fold, is_under
from byleave.core.input_schema import (
    DEEPEST_TEXT,
    MISSING,
    UNREADABLE,
    InputSchema,
    is_numbered,
    listed_in,
    plain_name,
    readings_of_text,
    readings_of_value,
    same,
)
from byleave.core.paths import collapse
from byleave.core.patterns import name_matches
from byleave.core.url import BadUrl, parse_url
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from byleave.core.input_schema import Nodes

    Reached = tuple[Any, int, Nodes, int, bool]  # value, steps taken, its schemas, texts that were opened, sure

TESTS = ("equals", "prefix", "glob", "regex", "inside", "host")
_DOUBTFUL = object()  # a value that some readers take for the one that is meant: under a name in another case, say
_WIDEST = 4096  # bits of a number that is written out: beyond some thousand digits Python refuses to
NoneType = type(None)
ANY_TOOL = "\0"  # stands for an unknown tool of a server: no tool has that name
UNKNOWN = object()  # the arguments of a call that is not made yet: whatever is tested, it depends
# How a server reads a value: surely so; so, if it is one of some; in another way, as it does not fit the schema.
_SURE, _UNSURE, _UNFIT = 2, 1, 0
_PROTOTYPE = "__proto__"  # to a JavaScript server its members may be those of the object that it stands in
_MOST_READINGS = 5_000  # of one argument; where there are more, it depends
_MOST_NAMED = 64  # elements of a list that a schema may describe one by one
_FINAL = DEEPEST_TEXT + 1  # opened so often that it is not read as anything else


class CallArguments(Record):
    """The arguments of a call to a tool whose input schema is known."""

    tree: Any
    schema: InputSchema


class ArgumentTest(Record):
    """`pointer` names the argument, through a list it means any element; `test` and `value` say what it must be."""

    pointer: str
    test: str
    value: Any
    search: Callable[[str], bool] | None = None  # the compiled pattern of `regex`, and that of `glob` where it is made

    def holds(self, arguments: Any, *, granting: bool) -> bool | None:
        """Whether the argument passes. A rule that allows needs every element to pass, one that denies any of them.

        What a test cannot be made of (an object, a path that climbs, a text that is no URL) passes no allow, and may
        be what a deny means.
        """
        if arguments is UNKNOWN:
            return None
        schema = None
        if isinstance(arguments, CallArguments):
            schema = arguments.schema
            arguments = {} if arguments.tree is None else arguments.tree  # who gives none gets every default
        if not isinstance(
            arguments, dict | list | NoneType
        ):  # no arguments at all, or ones that are read as something else
            return False if granting else None
        expected = self.value if self.test == "equals" and not granting else MISSING
        walk = _Walk(_steps_of(self.pointer), schema, granting=granting, expected=expected)
        answers = [self._heard(value, grade, granting=granting) for value, grade in walk.values(arguments)]
        if granting:
            return bool(answers) and all(answers)
        return True if True in answers else None if None in answers else False

    def _heard(self, value: Any, grade: int, *, granting: bool) -> bool | None:
        """Return what a reading comes to. Where only some servers read so, a clear match is worth a question."""
        answer = self._passes(value, granting=granting)
        if grade == _UNSURE:
            return None if answer else False
        return bool(answer) if grade == _UNFIT and not granting else answer

    def _passes(self, value: Any, *, granting: bool) -> bool | None:
        if value is _DOUBTFUL:
            return None
        if self.test == "equals":
            return same(value, self.value)
        text = value if isinstance(value, str) else _plain(value)
        if text is None:
            return False if value is None else None
        return _CHECKS[self.test](self, text, granting=granting)


def _prefix(test: ArgumentTest, text: str, *, granting: bool) -> bool:  # noqa: ARG001 -- a text is what it is
    return text.startswith(test.value)


def _glob(test: ArgumentTest, text: str, *, granting: bool) -> bool:  # noqa: ARG001 -- a text is what it is
    return name_matches(test.value, text) if test.search is None else test.search(text)


def _regex(test: ArgumentTest, text: str, *, granting: bool) -> bool | None:  # noqa: ARG001 -- a text is what it is
    return None if test.search is None else test.search(text)


def _inside(test: ArgumentTest, text: str, *, granting: bool) -> bool | None:
    """Whether a path stays below another by its text; what refuses also matches as forgiving file systems would.

    Where a path leads that climbs out of its start, that begins elsewhere (`~`, an absolute one for a relative place,
    a URL), or that another system would take apart differently, it depends. A pattern may be any path that it matches.
    """
    expected = str(test.value)
    path, place = collapse(text.lstrip("/")), collapse(expected.lstrip("/"))
    if path is None or place is None or text.startswith("/") != expected.startswith("/"):
        return None
    if text.startswith("~") or not _NO_PATH.isdisjoint(text) or "://" in text:
        return None
    answer = not place or is_under(path, place) or (not granting and is_under(fold(path), fold(place)))
    if _is_read_otherwise(text):
        return True if answer and not granting else None
    if not answer and not granting and _may_match(path, place):
        return None
    return answer


_NO_PATH = frozenset("\\\0")
_ELSEWHERE = ("$", "file:", "FILE:")
_PARTING = str.maketrans(dict.fromkeys(",;|&?#{}\t ", "/"))
_HEX = frozenset("0123456789abcdefABCDEF")


def _is_read_otherwise(text: str) -> bool:
    """Whether some servers take a path apart in another way: as part of a URL, as a list, as what a shell expands."""
    if not text.isprintable() or text.startswith(_ELSEWHERE):
        return True
    if any(len(code) > 1 and _HEX.issuperset(code[:2]) for code in text.split("%")[1:]):
        return True
    return ".." in text and text.translate(_PARTING).split("/").count("..") > text.split("/").count("..")


def _may_match(path: str, place: str) -> bool:
    """Whether a path may be a pattern that matches something below a place: they begin alike."""
    plain = path.partition("*")[0].partition("?")[0]
    return plain != path and fold(place).startswith(fold(plain))


def _host(test: ArgumentTest, text: str, *, granting: bool) -> bool | None:
    """Whether a URL leads to the host; one that carries a user name or password passes no allow."""
    target = parse_url(text)
    if isinstance(target, BadUrl):
        return None
    return target.host == test.value and not (granting and target.userinfo)


_CHECKS: dict[str, Callable[..., bool | None]] = {
    "prefix": _prefix,
    "glob": _glob,
    "regex": _regex,
    "inside": _inside,
    "host": _host,
}


def pointer_problem(pointer: str) -> str | None:
    """Say what is wrong with a JSON pointer, or None."""
    if pointer and not pointer.startswith("/"):
        return 'a JSON pointer starts with "/"'
    return None


_known_steps: dict[str, tuple[str, ...]] = {}  # of the pointers of rules
_MOST_POINTERS = 1024


def _steps_of(pointer: str) -> tuple[str, ...]:
    known = _known_steps.get(pointer)
    if known is None:
        if len(_known_steps) >= _MOST_POINTERS:
            _known_steps.clear()
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
        known = _known_steps[pointer] = tuple(steps)
    return known


class _Walk:
    """The way of a pointer through the arguments of a call, in every reading of what lies on it.

    A list on the way stands for each of its elements. Nothing calls itself: a call may nest deeper than Python does.
    """

    def __init__(self, steps: tuple[str, ...], schema: InputSchema | None, *, granting: bool, expected: Any) -> None:
        self._steps = steps
        self._expected = expected  # the very value that a rule refuses, if it refuses one
        self._schema = schema
        self._granting = granting
        self._readings = 0
        self._ahead: list[Reached] = []

    def values(self, tree: Any) -> Iterator[tuple[Any, int]]:
        """Yield every value that the pointer reaches, and how sure it is that a server reads it so."""
        self._ahead.append((tree, 0, None if self._schema is None else self._schema.top, 0, True))
        while self._ahead:
            here = self._ahead.pop()
            value, taken, nodes, opened, sure = here
            others = 0
            if value is UNREADABLE:
                yield _DOUBTFUL, _SURE
                continue
            if opened < DEEPEST_TEXT and not isinstance(value, list):
                waiting = len(self._ahead)
                self._read_otherwise(here)
                others = len(self._ahead) - waiting
                self._readings += others
                if self._readings > _MOST_READINGS:
                    yield _DOUBTFUL, _SURE
                    return
            elif opened == DEEPEST_TEXT and isinstance(value, str) and value.lstrip()[:1] in ("[", "{", '"'):
                yield _DOUBTFUL, _SURE
            step = self._steps[taken] if taken < len(self._steps) else None
            if isinstance(value, list):
                self._enter_list(here, step)
            elif step is None:
                if isinstance(value, str) and self._schema is not None and self._schema.is_encoded(nodes):
                    yield _DOUBTFUL, _SURE
                unfit = sure and others and nodes is not None and not self._fits(nodes, value)
                yield value, _UNFIT if unfit else _SURE if sure else _UNSURE
            elif isinstance(value, dict):
                self._enter_object(here, step)
                if self._has_a_like(value, nodes, step):
                    yield _DOUBTFUL, _SURE

    def _enter_list(self, here: Reached, step: str | None) -> None:
        value, taken, nodes, opened, sure = here
        named = _index(step, len(value))
        places = reversed(range(len(value))) if named is None else (named,)
        known: list[Nodes] = [None]
        if self._schema is not None and nodes is not None:
            known = [self._schema.element(nodes, place) for place in range(min(len(value), _MOST_NAMED))]
        if named is not None and not self._granting:  # the step may also be a name in each of the elements
            for place, each in enumerate(value):
                if isinstance(each, dict) or (isinstance(each, str) and each.lstrip()[:1] == "{"):
                    self._ahead.append((each, taken, known[min(place, len(known) - 1)], opened, sure))
        for place in places:
            schemas = known[min(place, len(known) - 1)]
            self._ahead.append((value[place], taken if named is None else taken + 1, schemas, opened, sure))

    def _enter_object(self, here: Reached, step: str) -> None:
        value, taken, nodes, opened, sure = here
        if step in value:
            schemas = None if self._schema is None else self._schema.member(nodes, step)
            self._ahead.append((value[step], taken + 1, schemas, opened, sure))
        if value.get(step) is None and self._schema is not None and not self._granting:
            for default in self._schema.defaults(
                nodes, step
            ):  # what is not given, or null, is what the server takes instead
                self._ahead.append((default, taken + 1, None, _FINAL, sure))

    def _has_a_like(self, tree: dict[str, Any], nodes: Nodes, step: str) -> bool:
        """Whether another name is like the step: decoders that ignore case, and the last of them, take it for that."""
        plain = plain_name(step)
        likes = [name for name in tree if name != step and (plain_name(name) == plain or name == _PROTOTYPE)]
        schema = self._schema
        if schema is not None and schema.declares(nodes, step):  # another member that the schema has is another one
            likes = [name for name in likes if not schema.declares(nodes, name)]
        return bool(likes)

    def _read_otherwise(self, here: Reached) -> None:
        """Put the other readings of a value on the way."""
        value, taken, nodes, _opened, _sure = here
        if isinstance(value, str):
            leads_on = taken < len(self._steps)  # a rule that points into a text means the JSON in it
            for reading in readings_of_text(value):
                if leads_on or reading is UNREADABLE or self._fits(nodes, reading) or self._is_meant(here, reading):
                    self._put(here, reading)
            if not self._granting:
                self._read_forgivingly(here, value)
        elif not self._granting or nodes is not None:
            for reading, sure in readings_of_value(value):
                if nodes is None and (self._schema is not None or not isinstance(value, bool)):
                    self._put(here, reading, sure=sure)
                elif nodes is not None and self._fits(nodes, reading):
                    self._put(here, reading)
            if not self._granting and isinstance(value, dict) and is_numbered(value):
                for each in value.values():
                    self._put(here, each, sure=False)

    def _read_forgivingly(self, here: Reached, text: str) -> None:
        """Put what only some servers make of a text on the way: they trim it, cut it at commas, or take it for true."""
        bare, nodes = text.strip(), here[2]
        if bare != text:
            self._put(here, bare, final=True)
        if nodes is None:
            for each in listed_in(text):
                self._put(here, each, sure=False)
        elif self._schema is not None and self._schema.is_javascript and self._fits(nodes, reading=True):
            self._put(here, bool(text), sure=False)

    def _is_meant(self, here: Reached, reading: Any) -> bool:
        """Whether a rule speaks of a value that the schema takes for a mere text: then the server reads it itself."""
        return same(reading, self._expected) and self._fits(here[2], here[0])

    def _fits(self, nodes: Nodes, reading: Any) -> bool:
        return self._schema is None or self._schema.admits(nodes, reading)

    def _put(self, here: Reached, reading: Any, *, sure: bool = True, final: bool = False) -> None:
        """Put a reading where the value is. What came out of a text may hold further texts; a mere value is final."""
        _value, taken, nodes, opened, was_sure = here
        nested = not final and sure and isinstance(reading, str | list | dict)
        self._ahead.append((reading, taken, nodes, opened + 1 if nested else _FINAL, was_sure and sure))


def _index(step: str | None, length: int) -> int | None:
    """Return the place in a list that a step of a pointer names, if it names one."""
    if step is None or not (step.isascii() and step.isdecimal()) or len(step) > 9 or int(step) >= length:
        return None
    return int(step)


def _plain(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return None
    return str(value) if isinstance(value, int | float) else None
