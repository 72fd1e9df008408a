"""Patterns from configuration, globs and RE2's syntax: none of them takes long, whatever text it meets."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def glob_matcher(pattern: str) -> "Callable[[str], bool]":
    """Return what says whether a text, however long, matches a glob as `fnmatchcase` reads it."""
    import re
    from fnmatch import translate

    compiled = re.compile(translate(pattern))  # each `*` is passed once: it never comes back to an earlier one
    return lambda text: compiled.match(text) is not None


def searcher(pattern: str) -> "Callable[[str], bool]":
    """Return what says whether a text holds the pattern; ValueError if the pattern cannot be used."""
    import re2  # type: ignore[import-untyped] # loaded only where a pattern is

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(str(error)) from None
    return lambda text: compiled.search(text.encode("utf-8", "replace").decode()) is not None
