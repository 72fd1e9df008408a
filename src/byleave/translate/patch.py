"""The files that a patch touches: by its headers alone, without its content.

Two forms are read: `*** Begin Patch`, and unified diffs with the headers that git adds. Whatever could be a header for
somebody counts; a patch that can be read in another way is not read at all.
"""

from byleave.translate.parsed_input import DELETE, EDIT, GIT_HEADER, MOVE, PLAIN_HEADER, FileChange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN, END = "*** Begin Patch", "*** End Patch"
_FILES = (("*** Add File:", EDIT), ("*** Update File:", EDIT), ("*** Delete File:", DELETE))
_MOVE_TO, _END_OF_FILE = "*** Move to:", "*** End of File"
_HEADERS = ("--- ", "---\t", "+++ ", "+++\t", "***", "diff --git ", "Index:", "rename ", "copy ")
_NOWHERE = "/dev/null"
LONGEST = 8 << 20  # characters; nobody reads a longer patch


class UnreadablePatchError(ValueError):
    """A patch that we cannot read, or that can be read in two ways."""


def looks_like_patch(text: str) -> bool:
    """Whether a text has a line that could be the header of a patch."""
    return text.lstrip().startswith(_HEADERS) or any(f"\n{header}" in text for header in _HEADERS)


def begins_as_patch(text: str) -> bool:
    """Whether a text is a patch from its first line on."""
    return text.lstrip().startswith((BEGIN, "diff --git ", "--- ", "Index: "))


def read_patch(text: str, source: str) -> list[FileChange]:
    """Return what a patch does to which files, in its order; `UnreadableError` if that cannot be told."""
    if len(text) > LONGEST:
        raise UnreadablePatchError
    text = text.strip("\r\n\t ")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    changes = _read_lines(lines, source)
    others = text.splitlines()  # as those read it who know more ends of lines
    if not changes or (others != lines and _read_lines(others, source) != changes):
        raise UnreadablePatchError
    return changes


def _read_lines(lines: list[str], source: str) -> list[FileChange]:
    if not lines:
        return []
    return list(_marked(lines, source) if lines[0].rstrip() == BEGIN else _unified(lines, source))


def _marked(lines: list[str], source: str) -> "Iterator[FileChange]":
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


def _unified(lines: list[str], source: str) -> "Iterator[FileChange]":
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


def _headed(old: str, new: str, source: str, renamed: set[tuple[str, str]]) -> "Iterator[FileChange]":
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


def _git(names: str, source: str) -> "Iterator[FileChange]":
    """Yield the file of `a/NAME b/NAME`: it may be all that is said of a changed mode. Two names are told elsewhere."""
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
