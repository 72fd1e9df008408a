"""Test one argument of a call: a JSON pointer, and what its value must be. Pure; patterns are compiled beforehand."""

from byleave.core.fs import fold, is_under
from byleave.core.globs import name_matches
from byleave.core.paths import collapse
from byleave.core.url import BadUrl, parse_url
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

TESTS = ("equals", "prefix", "glob", "regex", "inside", "host")
_MISSING = object()
_DOUBTFUL = object()  # a value under a name that differs only in case: some readers take it for the one that is meant
_WIDEST = 4096  # bits of a number that is written out: beyond some thousand digits Python refuses to
NoneType = type(None)
ANY_TOOL = "\0"  # stands for some tool of a server, nobody knows which: no tool has that name
UNKNOWN = object()  # the arguments of a call that nobody has made yet: whatever is tested, it depends


class ArgumentTest(Record):
    """`pointer` names the argument, through a list it means any element; `test` and `value` say what it must be."""

    pointer: str
    test: str
    value: "Any"
    search: "Callable[[str], bool] | None" = (
        None  # the compiled pattern of `regex`, and that of `glob` where it is made
    )

    def holds(self, arguments: "Any", *, granting: bool) -> bool | None:
        """Whether the argument passes. A rule that allows needs every element to pass, one that denies any of them.

        What a test cannot be made of (an object, a path that climbs, a text that is no URL) passes no allow, and may
        be what a deny means.
        """
        if arguments is UNKNOWN:
            return None
        if not isinstance(
            arguments, dict | list | NoneType
        ):  # no arguments at all, or ones that are read as something else
            return False if granting else None
        answers = [self._passes(value, granting=granting) for value in _values(arguments, _steps(self.pointer))]
        if granting:
            return bool(answers) and all(answers)
        return True if True in answers else None if None in answers else False

    def _passes(self, value: "Any", *, granting: bool) -> bool | None:
        if value is _DOUBTFUL:
            return None
        if self.test == "equals":
            return _equals(value, self.value)
        text = value if isinstance(value, str) else _plain(value)
        if text is None:
            return False if value is None else None
        return _CHECKS[self.test](self, text, granting=granting)


def _equals(value: "Any", wanted: "Any") -> bool:
    """Whether two JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _prefix(test: ArgumentTest, text: str, *, granting: bool) -> bool:  # noqa: ARG001 -- a text is what it is
    return text.startswith(test.value)


def _glob(test: ArgumentTest, text: str, *, granting: bool) -> bool:  # noqa: ARG001 -- a text is what it is
    return name_matches(test.value, text) if test.search is None else test.search(text)


def _regex(test: ArgumentTest, text: str, *, granting: bool) -> bool | None:  # noqa: ARG001 -- a text is what it is
    return None if test.search is None else test.search(text)


def _inside(test: ArgumentTest, text: str, *, granting: bool) -> bool | None:
    """Whether a path stays below another by its text; what refuses also matches as forgiving file systems would.

    Where a path leads that climbs out of its start, that begins elsewhere (`~`, an absolute one for a relative place,
    a URL), or that another system would take apart differently, nobody knows.
    """
    wanted = str(test.value)
    path, place = collapse(text.lstrip("/")), collapse(wanted.lstrip("/"))
    if path is None or place is None or text.startswith("/") != wanted.startswith("/"):
        return None
    if text.startswith("~") or not _NO_PATH.isdisjoint(text) or "://" in text:
        return None
    return not place or is_under(path, place) or (not granting and is_under(fold(path), fold(place)))


_NO_PATH = frozenset("\\\0")


def _host(test: ArgumentTest, text: str, *, granting: bool) -> bool | None:
    """Whether a URL leads to the host; one that carries a user name or password passes no allow."""
    target = parse_url(text)
    if isinstance(target, BadUrl):
        return None
    return target.host == test.value and not (granting and target.userinfo)


_CHECKS: "dict[str, Callable[..., bool | None]]" = {
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


def _steps(pointer: str) -> "list[str]":
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _values(tree: "Any", steps: "list[str]") -> "Iterator[Any]":
    """Yield every value the pointer reaches; a list on the way stands for each of its elements.

    Nothing calls itself here: a call may nest deeper than Python does.
    """
    ahead: list[tuple[Any, int]] = [(tree, 0)]
    while ahead:
        value, taken = ahead.pop()
        step = steps[taken] if taken < len(steps) else None
        if isinstance(value, list):
            place = _index(step, len(value))
            ahead.extend([(each, taken) for each in reversed(value)] if place is None else [(value[place], taken + 1)])
        elif step is None:
            yield value
        elif isinstance(value, dict):
            if (found := value.get(step, _MISSING)) is not _MISSING:
                ahead.append((found, taken + 1))
            if _has_another_case(value, step):
                yield _DOUBTFUL


def _has_another_case(tree: "dict[str, Any]", step: str) -> bool:
    """Whether a name is the step but for the case of its letters: decoders that ignore case take it, and the last."""
    folded = step.casefold()
    return any(name != step and name.casefold() == folded for name in tree)


def _index(step: str | None, length: int) -> int | None:
    """Return the place in a list that a step of a pointer names, if it names one."""
    if step is None or not (step.isascii() and step.isdecimal()) or len(step) > 9 or int(step) >= length:
        return None
    return int(step)


def _plain(value: "Any") -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return None
    return str(value) if isinstance(value, int | float) else None
