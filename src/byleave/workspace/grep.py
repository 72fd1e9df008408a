"""Search the files of a project line by line, whatever keeps them, with the answers that ripgrep gives.

Used where ripgrep cannot be: there is none, or there are no files on disk. Files below `.git`, links, odd files, files
with a NUL and very long ones are not searched. A line ends in a newline; a carriage return before it is matched like
any other character, and is not part of what is shown. Text with a UTF-16 mark is decoded, a UTF-8 mark is cut off.

Start at `search_project`. Which patterns are understood: `pattern`. What searches faster: `toolhost.ripgrep`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import FsTarget
from byleave.errors import RequestError, UnsafePathError
from byleave.protocol.jsonrpc import INVALID_PARAMS
from byleave.text import quoted
from byleave.workspace.on_disk import inside
from byleave.workspace.pattern import read_pattern, refuse
from byleave.workspace.project import DIRECTORY, FILE, FileLine, FileMatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from byleave.workspace.pattern import SearchPattern
    from byleave.workspace.project import MayRead, ProjectFiles, Query

LARGEST_SEARCHED = 64 << 20  # bytes of a file; longer ones are passed over, as by `rg --max-filesize`
LARGEST_RESULT = 10 << 20  # bytes of all lines that are found, each with what it costs to send it
MOST_PATHS = 1000  # that one search starts at
MOST_CONTEXT = 10_000  # lines
_PER_LINE = 64
_LETTERS = frozenset("_+.-")
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class SearchStart(Struct, frozen=True):
    """Where a search begins: how the tool names it ("" is all of the project), where it is, and what is there."""

    name: str
    place: FsTarget
    kind: str


def find_starts(project: ProjectFiles, query: Query) -> list[SearchStart]:
    """Return where to search. What is not there is an OSError; what is never searched is left out."""
    if len(query.paths) > MOST_PATHS:
        raise too_much(f"more than {MOST_PATHS} paths", MOST_PATHS)
    if not 0 <= query.context <= MOST_CONTEXT:
        raise too_much(f"{query.context} lines around each match", MOST_CONTEXT)
    found = []
    for path in query.paths or (".",):
        place = path if isinstance(path, FsTarget) else inside(project.find(path), path)
        metadata = project.metadata(place)
        small = metadata.kind == FILE and metadata.size <= LARGEST_SEARCHED
        if (small or metadata.kind == DIRECTORY) and is_searched(_name_of(place)):
            found.append(SearchStart(_name_of(place), place, metadata.kind))
    return found


def _name_of(place: FsTarget) -> str:
    if place.relative is not None:
        return place.relative
    return place.door if place.door is not None else place.canonical


def is_searched(path: str, endings: tuple[str, ...] = ()) -> bool:
    """Whether a file of this path is searched: not a repository's own, and its name ends as is asked for."""
    return not any(map(_is_git, path.split("/"))) and (not endings or path.endswith(endings))


def _is_git(name: str) -> bool:
    """Whether a name is that of a repository's own files, also where case does not count."""
    return name.lower() == ".git"


def endings_of(query: Query) -> tuple[str, ...]:
    """Return the extensions as the ends of names."""
    endings = []
    for extension in query.extensions:
        plain = extension.removeprefix(".")
        if not plain or not all(char.isalnum() or char in _LETTERS for char in plain):
            raise RequestError(
                f"{quoted(extension)} is no extension of a file",
                hint='write letters, digits and "_+.-" only, such as "py"',
                number=INVALID_PARAMS,
            )
        endings.append(f".{plain}")
    return tuple(endings)


def too_much(what: str, limit: int) -> RequestError:
    """Return the error that says which limit was exceeded."""
    hint = "search for something rarer, or in fewer places"
    return RequestError(f"the search is too large: {what}", hint=hint, number=INVALID_PARAMS, data={"limit": limit})


class Findings:
    """What was found so far, by the name of the file; an error when it is more than anybody reads."""

    def __init__(self, limit: int = LARGEST_RESULT) -> None:
        self._limit = limit
        self._size = 0
        self._by_path: dict[str, FileMatches] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def add(self, path: str, lines: Iterable[FileLine]) -> None:
        """Keep the lines of one file."""
        kept = []
        for line in lines:
            self._size += len(line.content) + _PER_LINE
            if self._size > self._limit:
                raise too_much(f"what it finds is longer than {self._limit} bytes", self._limit)
            kept.append(line)
        if kept:
            self._by_path[path] = FileMatches(path, tuple(kept))

    def all(self) -> list[FileMatches]:
        """Return everything, sorted by path."""
        return [self._by_path[path] for path in sorted(self._by_path)]


def shown_line(raw: bytes) -> str:
    """Return a line as text, without its end; what is not UTF-8 becomes replacement characters."""
    return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


def search_project(project: ProjectFiles, query: Query, may_read: MayRead) -> list[FileMatches]:
    """Return the files that match, sorted by path. Only files that `may_read` agrees to are opened."""
    look = _Look(read_pattern(query.pattern))
    endings = endings_of(query)
    found = Findings()
    for name, place in _walk(project, find_starts(project, query)):
        if name not in found and is_searched(name, endings) and may_read(name):
            data = _read(project, place)
            if data is not None:
                found.add(name, look.lines(name, data, query.context))
    return found.all()


def _walk(project: ProjectFiles, starts: Sequence[SearchStart]) -> Iterator[tuple[str, FsTarget]]:
    """Yield every file at or below the starts. What vanishes, or turns into a link meanwhile, is passed over."""
    waiting = [(start.name, start.place) for start in reversed(starts)]
    while waiting:
        name, place = waiting.pop()
        try:
            metadata = project.metadata(place)
            if metadata.kind == DIRECTORY:
                names = [each for each in project.list_dir(place) if not _is_git(each)]
                waiting.extend((_joined(name, each), _below(place, each)) for each in reversed(names))
        except (OSError, UnsafePathError):
            continue
        if metadata.kind == FILE and metadata.size <= LARGEST_SEARCHED:
            yield name, place


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name


def _below(place: FsTarget, name: str) -> FsTarget:
    """Return a place in a directory that was walked to: it is named as the directory is."""
    relative = None if place.relative is None else _joined(place.relative, name)
    door = None if place.door is None else _joined(place.door, name)
    return FsTarget(f"{place.canonical.rstrip('/')}/{name}", relative, door)


def _read(project: ProjectFiles, place: FsTarget) -> bytes | None:
    """Return a file as UTF-8, as far as it is text; None if it is binary or cannot be read."""
    try:
        data = project.read(place, limit=LARGEST_SEARCHED)
    except (OSError, UnsafePathError):
        return None
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            data = data[2:].decode(encoding, "replace").encode()
            break
    else:
        data = data.removeprefix(b"\xef\xbb\xbf")
    return None if b"\0" in data else data


class _Look:
    """A compiled pattern, and the lines that it finds."""

    def __init__(self, pattern: SearchPattern) -> None:
        self._only_ascii = pattern.only_ascii
        self._anywhere = _compile(f"(?m){pattern.text}")
        self._in_line = _compile(pattern.text)

    def lines(self, name: str, data: bytes, context: int) -> Iterable[FileLine]:
        """Return the lines of a file that match, and those around them."""
        # RE2's \s is not the vertical tab, ripgrep's is.
        if self._only_ascii and not (data.isascii() and b"\x0b" not in data):
            refuse(
                f"{quoted(name)} is not plain ASCII, and in such text \\w, \\d, \\s, \\b and (?i) have no one meaning"
            )
        if not data or not self._anywhere(data):
            return ()
        lines = data.removesuffix(b"\n").split(b"\n")
        matching = [number for number, line in enumerate(lines) if self._in_line(_without_invalid(line))]
        return _with_context(lines, matching, context)


def _compile(text: str) -> Callable[[bytes], object]:
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    options.never_nl = True  # [^a] is never the end of a line
    try:
        search: Callable[[bytes], object] = re2.compile(text.encode(), options).search
    except re2.error as error:
        said = error.args[0] if error.args else ""
        refuse(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said))
    return search


def _without_invalid(line: bytes) -> bytes:
    """Put what no pattern matches, the end of a line, in the place of bytes that are not UTF-8."""
    if line.isascii():
        return line
    text = line.decode("utf-8", "surrogateescape")
    return "".join(["\n" if "\udc80" <= char <= "\udcff" else char for char in text]).encode()


def _with_context(lines: list[bytes], matching: list[int], context: int) -> Iterator[FileLine]:
    """Yield the lines that match and those around them, each once."""
    hits, end = set(matching), 0
    for hit in matching:
        for number in range(max(hit - context, end), min(hit + context + 1, len(lines))):
            yield FileLine(number + 1, shown_line(lines[number]), number in hits)
        end = max(end, min(hit + context + 1, len(lines)))
