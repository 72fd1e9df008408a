"""Change files by replacing text in them: everywhere, or nowhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from byleave.core.paths import collapse
from byleave.record import Record
from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import NotFound, NotText, VfsError
from byleave.text import quoted, shown
from byleave.tools.texts import unified

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.sdk.vfs import Host

_LONGEST_SHOWN = 80  # characters of a pattern in a message


class Pattern(Record):
    """One replacement."""

    old: Annotated[str, "the text to replace, exactly as it is in the file"]
    new: Annotated[str, "what to put in its place"]
    regex: Annotated[bool, "old is a regular expression (Python's, ^ and $ match at lines), new may hold \\1"] = False
    count: Annotated[int | None, "how many to replace in each file, from the top; without it, all"] = None


class _Change(Record):
    path: str
    before: str
    after: str


@tool
def fs_modify_file(
    host: Host,
    *,
    patterns: Annotated[list[Pattern], "the replacements, done one after the other"],
    path: Annotated[str | None, "the file, relative to the workspace"] = None,
    paths: Annotated[list[str] | None, "or several files"] = None,
) -> str:
    """Replace text in one file or in several, and show what changed as a unified diff.

    All or nothing: everything is worked out before anything is written, and if a file cannot be written, those that
    were are put back. A pattern that matches in none of the files is an error.
    """
    chosen = _chosen(path, paths)
    texts = {each: _read(host, each) for each in chosen}
    changes = [change for change in _worked_out(texts, patterns) if change.before != change.after]
    if not changes:
        return "Nothing changed: what was found is what should be there."
    shown = "".join(unified(change.path, change.before, change.after) for change in changes)
    _write(host, changes)
    return shown


def _chosen(path: str | None, paths: Sequence[str] | None) -> list[str]:
    """Return the files, each once: `a` and `./a` are one."""
    given = [*([path] if path is not None else []), *(paths or [])]
    if not given:
        raise ToolError("name a file, as path or in paths")
    known: dict[str | None, str] = {}
    for each in given:
        known.setdefault(collapse(each) or each, each)
    return list(known.values())


def _read(host: Host, path: str) -> str:
    try:
        return host.read(path)
    except NotFound:
        raise ToolError(f"{path} does not exist") from None
    except NotText:
        raise ToolError(f"{path} is not a text: it is not UTF-8") from None


def _worked_out(texts: Mapping[str, str], patterns: Sequence[Pattern]) -> list[_Change]:
    """Apply the patterns, one after the other, to all the texts."""
    if not patterns:
        raise ToolError("there is no pattern, so there is nothing to replace")
    current = dict(texts)
    for number, pattern in enumerate(patterns):
        replace = _replacing(pattern, f"patterns[{number}]")
        done = {path: replace(text) for path, text in current.items()}
        if not any(count for _text, count in done.values()):
            raise ToolError(f"patterns[{number}] matches nothing: {_brief(pattern.old)} is not in {', '.join(texts)}")
        current = {path: text for path, (text, _count) in done.items()}
    return [_Change(path, text, current[path]) for path, text in texts.items()]


def _replacing(pattern: Pattern, name: str) -> Any:
    """Return a function that replaces, and says how often it did."""
    if not pattern.old:
        raise ToolError(f"{name}.old is empty, and would match everywhere")
    if pattern.count is not None and pattern.count < 1:
        raise ToolError(f"{name}.count must be 1 or more")
    if pattern.regex:
        return _replacing_expression(pattern, name)
    most = -1 if pattern.count is None else pattern.count

    def literally(text: str) -> tuple[str, int]:
        return text.replace(pattern.old, pattern.new, most), text.count(pattern.old)

    return literally


def _replacing_expression(pattern: Pattern, name: str) -> Any:
    """Return a function that replaces by an expression.

    Python's `re` has no time bound; but it runs here, in the tool's own process, which is ended if it takes too long,
    and nothing has been written by then.
    """
    try:
        expression = re.compile(pattern.old, re.MULTILINE)
    except re.error as error:
        raise ToolError(f"{name}.old is no regular expression: {error}") from None

    def by_expression(text: str) -> tuple[str, int]:
        try:
            return expression.subn(pattern.new, text, pattern.count or 0)
        except (re.error, IndexError) as error:
            raise ToolError(f"{name}.new cannot be used: {error}") from None

    return by_expression


def _brief(text: str) -> str:
    return quoted(text) if len(text) <= _LONGEST_SHOWN else f"{quoted(text[:_LONGEST_SHOWN])}..."


def _write(host: Host, changes: Sequence[_Change]) -> None:
    """Write all the files; if one cannot be written, put those back that were."""
    for number, change in enumerate(changes):
        try:
            host.write(change.path, change.after)
        except VfsError as error:
            lost = _put_back(host, changes[: number + 1], failed=change)
            said = f"; these could not be put back, and are changed: {', '.join(lost)}" if lost else ""
            kept = "" if lost else "; nothing was changed"
            raise ToolError(f"{change.path} could not be written: {error}{said}{kept}") from None


def _put_back(host: Host, changes: Sequence[_Change], *, failed: _Change) -> list[str]:
    """Write what was there before; return the files for which that did not work.

    Also the one that failed: it may have been written all the same. Where that is refused again, it was not.
    """
    lost: list[str] = []
    for change in changes:
        try:
            host.write(change.path, change.before)
        except VfsError:
            if change is not failed:
                lost.append(change.path)
    return lost


@fs_modify_file.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    files = _chosen(arguments.get("path"), arguments.get("paths"))
    lines = [f"in {shown(', '.join(files))} replace"]
    for pattern in arguments["patterns"]:
        kind = "whatever matches " if pattern.get("regex") else ""
        lines.append(f"  {kind}{_brief(pattern['old'])} by {_brief(pattern['new'])}")
    return "\n".join(lines)
