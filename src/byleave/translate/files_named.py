"""The files that an input names: paths, lists of them, objects about one file each, objects by path, patches.

A patch is read by its headers alone, without its content, in two forms: `*** Begin Patch`, and unified diffs with the
headers that git adds. Each line that some tool takes for a header counts; a patch that can be read in several ways is
not read at all.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

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
    ACTED_ON,
    DELETE,
    EDIT,
    GIT_HEADER,
    MOST,
    MOVE,
    PLAIN_HEADER,
    FileChange,
    InputText,
    hides_something,
    is_empty,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.translate.parsed_input import ParsedInput


BEGIN, END = "*** Begin Patch", "*** End Patch"
_FILES = (("*** Add File:", EDIT), ("*** Update File:", EDIT), ("*** Delete File:", DELETE))
_MOVE_TO, _END_OF_FILE = "*** Move to:", "*** End of File"
_HEADERS = ("--- ", "---\t", "+++ ", "+++\t", "***", "diff --git ", "Index:", "rename ", "copy ")
_NOWHERE = "/dev/null"
LONGEST = 8 << 20  # characters; a longer patch is not read


class UnreadablePatchError(ValueError):
    """A patch that we cannot read, or that can be read in two ways."""


def looks_like_patch(text: str) -> bool:
    """Whether a text has a line that could be the header of a patch."""
    return text.lstrip().startswith(_HEADERS) or any(f"\n{header}" in text for header in _HEADERS)


def begins_as_patch(text: str) -> bool:
    """Whether a text is a patch from its first line on."""
    return text.lstrip().startswith((BEGIN, "diff --git ", "--- ", "Index: "))


def read_patch(text: str, source: str) -> list[FileChange]:
    """Return what a patch does to which files, in its order; `UnreadablePatchError` if that is not clear."""
    if len(text) > LONGEST:
        raise UnreadablePatchError
    text = text.strip("\r\n\t ")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    changes = _read_lines(lines, source)
    if not changes or any(_hides_header(line) for line in lines):
        raise UnreadablePatchError
    return changes


def _hides_header(line: str) -> bool:
    """Whether those who know more ends of lines find a header in a line, or the end of one."""
    pieces = line.splitlines()
    return len(pieces) > 1 and any(piece.lstrip().startswith(_HEADERS) for piece in pieces)


def _read_lines(lines: list[str], source: str) -> list[FileChange]:
    return list(_marked(lines, source) if lines[0].rstrip() == BEGIN else _unified(lines, source))


def _marked(lines: list[str], source: str) -> Iterator[FileChange]:
    if lines[-1].rstrip() != END:
        raise UnreadablePatchError
    last: FileChange | None = None
    movable = False
    for line in lines[1:-1]:
        if line.startswith(_MOVE_TO):
            if last is None or not movable:
                raise UnreadablePatchError
            last, movable = FileChange(MOVE, last.path, _name(line, _MOVE_TO), source), False
            continue
        movable = False
        header = next(((mark, does) for mark, does in _FILES if line.startswith(mark)), None)
        if header is None:
            _check_body(line, last)
            continue
        if last is not None:
            yield last
        mark, does = header
        last, movable = FileChange(does, _name(line, mark), "", source), mark == "*** Update File:"
    if last is not None:
        yield last


def _check_body(line: str, last: FileChange | None) -> None:
    """Refuse what is no line of a file's part, and what another reader, who trims lines, takes for a header."""
    if line.rstrip() == _END_OF_FILE:
        return
    if line.lstrip().startswith("***") or (last is None and line.strip()) or line[:1] not in ("", "+", "-", " ", "@"):
        raise UnreadablePatchError


def _name(line: str, mark: str) -> str:
    name = line[len(mark) :].strip()
    if not name:
        raise UnreadablePatchError
    return name


def _unified(lines: list[str], source: str) -> Iterator[FileChange]:
    """Yield what the headers of a unified diff say. A line of a file that looks like a header counts as one."""
    renamed_from = None
    renamed: set[tuple[str, str]] = set()
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        if line.startswith(("+++ ", "+++\t")):
            if not before.startswith(("--- ", "---\t")):
                raise UnreadablePatchError
            yield from _headed(before[4:], line[4:], source, renamed)
        elif line.startswith("rename from "):
            renamed_from = line[len("rename from ") :]
        elif line.startswith("rename to "):
            if renamed_from is None:
                raise UnreadablePatchError
            ends = _plain(renamed_from), _plain(line[len("rename to ") :])
            renamed.add(ends)
            renamed_from = None
            yield FileChange(MOVE, *ends, source)
        elif line.startswith("copy to "):
            yield FileChange(EDIT, _plain(line[len("copy to ") :]), "", source)
        elif line.startswith("Index:"):
            yield FileChange(EDIT, _plain(line[len("Index:") :]), "", source, PLAIN_HEADER)
        elif line.startswith("diff --git "):
            yield from _git(line[len("diff --git ") :], source)
        elif line.lstrip().startswith("*** "):
            raise UnreadablePatchError


def _headed(old: str, new: str, source: str, renamed: set[tuple[str, str]]) -> Iterator[FileChange]:
    """Yield the change of the two lines above a file's hunks; two names are one file only where it was renamed."""
    old, new = _plain(old.partition("\t")[0]), _plain(new.partition("\t")[0])
    has_prefix = old.startswith(("a/", _NOWHERE)) and new.startswith(("b/", _NOWHERE))
    header = GIT_HEADER if has_prefix else PLAIN_HEADER
    if has_prefix:
        old, new = old.removeprefix("a/"), new.removeprefix("b/")
    if old == new == _NOWHERE:
        raise UnreadablePatchError
    if new == _NOWHERE:
        yield FileChange(DELETE, old, "", source, header)
    elif old in (_NOWHERE, new):
        yield FileChange(EDIT, new, "", source, header)
    elif (old, new) not in renamed:
        raise UnreadablePatchError


def _git(names: str, source: str) -> Iterator[FileChange]:
    """Yield the file of `a/NAME b/NAME`: it may be the only line about a changed mode. Two names stand elsewhere."""
    half = len(names) // 2
    old, new = names[:half], names[half + 1 :]
    if names[half : half + 1] == " " and old.startswith("a/") and new.startswith("b/") and old[2:] == new[2:]:
        yield FileChange(EDIT, _plain(old[2:]), "", source, GIT_HEADER)
    elif '"' in names:
        raise UnreadablePatchError


def _plain(name: str) -> str:
    name = name.strip()
    if not name or name.startswith('"'):
        raise UnreadablePatchError
    return name


def read_paths(parsed: ParsedInput, value: Any, place: str, *, several: bool) -> None:
    """Take in paths: one, several, objects that name one each, or, for several, an object whose names are the paths."""
    if isinstance(value, dict):
        if several:
            _table(parsed, value, place)
        else:
            _named_entry(parsed, value, place)
        return
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            if each and not parsed.keep(parsed.paths, InputText(each, place, anywhere=True)):
                return
        elif not isinstance(each, dict):
            parsed.doubt(f"{place} is no path")
            return
        elif not _named_entry(parsed, each, place):
            return


def read_edits(parsed: ParsedInput, value: Any, place: str) -> None:
    """Take in edits: by path, as objects that may name one, or as text that is a diff or just words."""
    if isinstance(value, str):
        if value.lstrip().startswith(("[", "{")):
            parsed.doubt(f"{place} cannot be read")
        read_diff(parsed, value, place)
    elif isinstance(value, list) and any(isinstance(each, str) for each in value):
        parsed.doubt(f"{place} is no list of edits")
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        for each in value:
            if not _entry(parsed, each, place):
                return
    else:
        read_paths(parsed, value, place, several=True)


def read_diff(parsed: ParsedInput, value: Any, place: str) -> None:
    """Take in a diff; one without any header, such as blocks to search and replace, says nothing of paths."""
    if isinstance(value, list | dict):
        read_edits(parsed, value, place)
    elif not isinstance(value, str):
        parsed.doubt(f"{place} is no text")
    elif looks_like_patch(value):
        take_patch(parsed, value, place)


def take_patch(parsed: ParsedInput, text: str, place: str) -> None:
    """Take in what a patch does; one that cannot be read is a doubt."""
    try:
        changes = read_patch(text, place)
    except UnreadablePatchError:
        parsed.doubt(f"{place} is a patch that cannot be read")
        return
    for change in changes:
        if not parsed.keep(parsed.changes, change):
            return


def _named_entry(parsed: ParsedInput, tree: dict[Any, Any], place: str) -> bool:
    """Take in an object that must name a file."""
    before = len(parsed.paths)
    room = _entry(parsed, tree, place)
    if len(parsed.paths) == before:
        parsed.doubt(f"{place} holds something that names no file")
    return room


def _entry(parsed: ParsedInput, tree: dict[Any, Any], place: str) -> bool:
    """Take in an object about one file; return whether there is room for another."""
    paths: list[str] = []
    targets: list[str] = []
    if len(tree) > MOST:
        parsed.doubt(f"{place} has too many names")
    for key, value in islice(tree.items(), MOST):
        role = any_role(key)
        if is_empty(value) or role == PROSE:
            continue
        if role in (PATH, DIRECTORY, TARGET, ORIGIN) and isinstance(value, str):
            if bare(key) not in VAGUE:
                (targets if role == TARGET else paths).append(value)
        elif role in ACTED_ON or hides_something(value):
            parsed.doubt(f"{place} holds more than is understood")
    if any(_deletes(key, value) for key, value in islice(tree.items(), MOST)):
        for path in paths:
            parsed.keep(parsed.changes, FileChange(DELETE, path, "", place))
    room = all(parsed.keep(parsed.paths, InputText(path, place, anywhere=True)) for path in (*paths, *targets))
    if max(len(paths), len(targets)) > MOST_ENDS:
        parsed.doubt(f"{place} names too many paths")
    moves = [FileChange(MOVE, path, to, place) for path in paths[:MOST_ENDS] for to in targets[:MOST_ENDS]]
    return all(parsed.keep(parsed.changes, move) for move in moves) and room


def _deletes(key: Any, value: Any) -> bool:
    """Whether an object about a file says that the file goes: `"type": "delete"`, `"kind": {"type": "delete"}`."""
    if key != "kind" and exact_role(key) != VERB:
        return False
    word = value.get("type") if isinstance(value, dict) else value
    return isinstance(word, str) and VERBS.get(word.lower()) == DELETE


def _table(parsed: ParsedInput, tree: dict[Any, Any], place: str) -> None:
    """Take in an object whose names are paths; one that looks like an object about one file may be either."""
    if any(exact_role(key) in ACTED_ON for key in islice(tree, MOST)):
        parsed.doubt(f"{place} may be about one file or several")
        _entry(parsed, tree, place)
    for key, value in tree.items():
        if not isinstance(key, str):
            parsed.doubt(f"{place} has a name that is no text")
        elif key and not parsed.keep(parsed.changes, _change(parsed, key, value, place)):
            return


def _change(parsed: ParsedInput, path: str, value: Any, place: str) -> FileChange:
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
        parsed.doubt(f"{place} holds more than is understood")
    return FileChange(MOVE, path, str(targets[0]), place)


def _targets(table: dict[Any, Any]) -> list[Any]:
    named = [(key, value) for key, value in islice(table.items(), MOST) if exact_role(key) == TARGET]
    return [value for key, value in named if bare(key) not in VAGUE and not is_empty(value)]
