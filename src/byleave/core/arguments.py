"""Test one argument of a call: a JSON pointer, and what its value must be. Pure; patterns are compiled beforehand."""

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


class ArgumentTest(Record):
    """`pointer` names the argument, through a list it means any element; `test` and `value` say what it must be."""

    pointer: str
    test: str
    value: "Any"
    search: "Callable[[str], bool] | None" = None  # the compiled pattern of `regex`

    def holds(self, arguments: "Any", *, granting: bool) -> bool | None:
        """Whether the argument passes. A rule that allows needs every element to pass, one that denies any of them.

        What a test cannot be made of (an object, a path that climbs, a text that is no URL) passes no allow, and may
        be what a deny means.
        """
        answers = [self._passes(value) for value in _values(arguments, _steps(self.pointer))]
        if granting:
            return bool(answers) and all(answers)
        return True if True in answers else None if None in answers else False

    def _passes(self, value: "Any") -> bool | None:
        if self.test == "equals":
            return _equals(value, self.value)
        text = value if isinstance(value, str) else _plain(value)
        if text is None:
            return None if isinstance(value, dict) else False
        return _CHECKS[self.test](self, text)


def _equals(value: "Any", wanted: "Any") -> bool:
    """Whether two JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _prefix(test: ArgumentTest, text: str) -> bool:
    return text.startswith(test.value)


def _glob(test: ArgumentTest, text: str) -> bool:
    return name_matches(test.value, text)


def _regex(test: ArgumentTest, text: str) -> bool | None:
    return None if test.search is None else test.search(text)


def _inside(test: ArgumentTest, text: str) -> bool | None:
    """Whether a path stays below another by its text; where it leads that climbs out of its start, nobody knows."""
    path, place = collapse(text.lstrip("/")), collapse(str(test.value).lstrip("/"))
    if path is None or place is None:
        return None
    if text.startswith("/") != str(test.value).startswith("/"):
        return False
    return not place or path == place or path.startswith(f"{place}/")


def _host(test: ArgumentTest, text: str) -> bool | None:
    target = parse_url(text)
    return None if isinstance(target, BadUrl) else target.host == test.value


_CHECKS: "dict[str, Callable[[ArgumentTest, str], bool | None]]" = {
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
        elif isinstance(value, dict) and (found := value.get(step, _MISSING)) is not _MISSING:
            ahead.append((found, taken + 1))


def _index(step: str | None, length: int) -> int | None:
    """Return the place in a list that a step of a pointer names, if it names one."""
    if step is None or not (step.isascii() and step.isdecimal()) or len(step) > 9 or int(step) >= length:
        return None
    return int(step)


def _plain(value: "Any") -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None
