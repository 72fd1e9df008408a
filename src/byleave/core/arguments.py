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
        """Whether the argument passes. A rule that allows needs every element to pass, one that denies any of them."""
        values = list(_values(arguments, _steps(self.pointer)))
        if not values:
            return False
        answers = [self._passes(value) for value in values]
        return all(answers) if granting else any(answers)

    def _passes(self, value: "Any") -> bool:
        if self.test == "equals":
            return type(value) is type(self.value) and bool(value == self.value)
        text = value if isinstance(value, str) else _plain(value)
        if text is None:
            return False
        return bool(_CHECKS[self.test](self, text))


def _prefix(test: ArgumentTest, text: str) -> bool:
    return text.startswith(test.value)


def _glob(test: ArgumentTest, text: str) -> bool:
    return name_matches(test.value, text)


def _regex(test: ArgumentTest, text: str) -> bool:
    return test.search is not None and test.search(text)


def _inside(test: ArgumentTest, text: str) -> bool:
    """Whether a path stays below another by its text; what climbs out of where it starts is not inside."""
    path = collapse(text.lstrip("/")) if text.startswith("/") == str(test.value).startswith("/") else None
    place = collapse(str(test.value).lstrip("/"))
    if path is None or place is None:
        return False
    return not place or path == place or path.startswith(f"{place}/")


def _host(test: ArgumentTest, text: str) -> bool:
    target = parse_url(text)
    return not isinstance(target, BadUrl) and target.host == test.value


_CHECKS: "dict[str, Callable[[ArgumentTest, str], bool]]" = {
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
    """Yield every value the pointer reaches; a list on the way stands for each of its elements."""
    if isinstance(tree, list):
        if steps and steps[0].isdecimal() and int(steps[0]) < len(tree):
            yield from _values(tree[int(steps[0])], steps[1:])
            return
        for element in tree:
            yield from _values(element, steps)
    elif not steps:
        yield tree
    elif isinstance(tree, dict) and (value := tree.get(steps[0], _MISSING)) is not _MISSING:
        yield from _values(value, steps[1:])


def _plain(value: "Any") -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None
