"""The files that an input names: paths, lists of them, objects about one file each, objects by path, patches."""

from itertools import islice

from byleave.translate.names import (
    DIRECTORY,
    MOST_ENDS,
    ORIGIN,
    PATH,
    PROSE,
    TARGET,
    VAGUE,
    VERB,
    VERBS,
    any_role,
    bare,
    exact_role,
)
from byleave.translate.parsed_input import (
    DELETE,
    EDIT,
    MOST,
    MOVE,
    TELLING,
    FileChange,
    InputText,
    hides_something,
    is_empty,
)
from byleave.translate.patch import UnreadablePatchError, looks_like_patch, read_patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.translate.parsed_input import ParsedInput


def read_paths(told: "ParsedInput", value: "Any", place: str, *, several: bool) -> None:
    """Take in paths: one, several, objects that name one each, or, for several, an object whose names are the paths."""
    if isinstance(value, dict):
        if several:
            _table(told, value, place)
        else:
            _named_entry(told, value, place)
        return
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            if each and not told.keep(told.paths, InputText(each, place, anywhere=True)):
                return
        elif not isinstance(each, dict):
            told.doubt(f"{place} is no path")
            return
        elif not _named_entry(told, each, place):
            return


def read_edits(told: "ParsedInput", value: "Any", place: str) -> None:
    """Take in edits: by path, as objects that may name one, or as text that is a diff or just words."""
    if isinstance(value, str):
        if value.lstrip().startswith(("[", "{")):
            told.doubt(f"{place} cannot be read")
        read_diff(told, value, place)
    elif isinstance(value, list) and any(isinstance(each, str) for each in value):
        told.doubt(f"{place} is no list of edits")
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        for each in value:
            if not _entry(told, each, place):
                return
    else:
        read_paths(told, value, place, several=True)


def read_diff(told: "ParsedInput", value: "Any", place: str) -> None:
    """Take in a diff; one without any header, such as blocks to search and replace, says nothing of paths."""
    if isinstance(value, list | dict):
        read_edits(told, value, place)
    elif not isinstance(value, str):
        told.doubt(f"{place} is no text")
    elif looks_like_patch(value):
        take_patch(told, value, place)


def take_patch(told: "ParsedInput", text: str, place: str) -> None:
    """Take in what a patch does; one that cannot be read is a doubt."""
    try:
        changes = read_patch(text, place)
    except UnreadablePatchError:
        told.doubt(f"{place} is a patch that cannot be read")
        return
    for change in changes:
        if not told.keep(told.changes, change):
            return


def _named_entry(told: "ParsedInput", tree: "dict[Any, Any]", place: str) -> bool:
    """Take in an object that must name a file."""
    before = len(told.paths)
    room = _entry(told, tree, place)
    if len(told.paths) == before:
        told.doubt(f"{place} holds something that names no file")
    return room


def _entry(told: "ParsedInput", tree: "dict[Any, Any]", place: str) -> bool:
    """Take in an object about one file; return whether there is room for another."""
    paths: list[str] = []
    targets: list[str] = []
    if len(tree) > MOST:
        told.doubt(f"{place} has too many names")
    for key, value in islice(tree.items(), MOST):
        role = any_role(key)
        if is_empty(value) or role == PROSE:
            continue
        if role in (PATH, DIRECTORY, TARGET, ORIGIN) and isinstance(value, str):
            if bare(key) not in VAGUE:
                (targets if role == TARGET else paths).append(value)
        elif role in TELLING or hides_something(value):
            told.doubt(f"{place} holds more than is understood")
    if any(_deletes(key, value) for key, value in islice(tree.items(), MOST)):
        for path in paths:
            told.keep(told.changes, FileChange(DELETE, path, "", place))
    room = all(told.keep(told.paths, InputText(path, place, anywhere=True)) for path in (*paths, *targets))
    if max(len(paths), len(targets)) > MOST_ENDS:
        told.doubt(f"{place} names too many paths")
    moves = [FileChange(MOVE, path, to, place) for path in paths[:MOST_ENDS] for to in targets[:MOST_ENDS]]
    return all(told.keep(told.changes, move) for move in moves) and room


def _deletes(key: "Any", value: "Any") -> bool:
    """Whether an object about a file says that the file goes: `"type": "delete"`, `"kind": {"type": "delete"}`."""
    if key != "kind" and exact_role(key) != VERB:
        return False
    word = value.get("type") if isinstance(value, dict) else value
    return isinstance(word, str) and VERBS.get(word.lower()) == DELETE


def _table(told: "ParsedInput", tree: "dict[Any, Any]", place: str) -> None:
    """Take in an object whose names are paths; one that looks like an object about one file may be either."""
    if any(exact_role(key) in TELLING for key in islice(tree, MOST)):
        told.doubt(f"{place} may be about one file or several")
        _entry(told, tree, place)
    for key, value in tree.items():
        if not isinstance(key, str):
            told.doubt(f"{place} has a name that is no text")
        elif key and not told.keep(told.changes, _change(told, key, value, place)):
            return


def _change(told: "ParsedInput", path: str, value: "Any", place: str) -> FileChange:
    """Return what a change says of its path: content, `{"delete": ..}` or `{"type": "update", "move_path": ..}`."""
    if not isinstance(value, dict):
        return FileChange(EDIT, path, "", place)
    if value.get("type") == DELETE or set(value) == {DELETE}:
        return FileChange(DELETE, path, "", place)
    tables = [table for table in (value, value.get("update")) if isinstance(table, dict)]
    targets = [target for table in tables for target in _targets(table)]
    if not targets:
        return FileChange(EDIT, path, "", place)
    if len(targets) > 1 or not isinstance(targets[0], str):
        told.doubt(f"{place} holds more than is understood")
    return FileChange(MOVE, path, str(targets[0]), place)


def _targets(table: "dict[Any, Any]") -> "list[Any]":
    named = [(key, value) for key, value in islice(table.items(), MOST) if exact_role(key) == TARGET]
    return [value for key, value in named if bare(key) not in VAGUE and not is_empty(value)]
