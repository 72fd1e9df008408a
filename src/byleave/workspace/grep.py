"""Search the files of a project line by line, wherever the project keeps them.

ripgrep searches. Here it receives descriptors of files that are open already, opened without following a link and only
where the caller may read: for projects in memory, for tools that run in a sandbox themselves, and for machines whose
sandbox cannot hold ripgrep. `toolhost.sandboxed_search` is faster on disk: ripgrep itself walks the directories. Where
there is no ripgrep, `workspace.line_search` reads the open files in this process.

Files below `.git`, links, files that are not regular, files with a NUL and files of more than 64 MB are not searched.

A tool's pattern is one word of the command line that cannot be an option; the files are paths that byleave names.
`SearchRun` reads the answer as it comes, within limits, here and for `toolhost.sandboxed_search`. Start at
`search_project`.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import sys
import time
from binascii import Error as NotBase64
from binascii import a2b_base64
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from byleave.core.fs_rules import FsTarget, is_under
from byleave.errors import RequestError, UnsafePathError
from byleave.protocol.jsonrpc import CANCELLED, INTERNAL_ERROR, INVALID_PARAMS, TIMED_OUT
from byleave.text import quoted, shown_lines
from byleave.workspace.line_search import LinePattern, read_all
from byleave.workspace.project import DIRECTORY, FILE, FileLine, FileMatches, inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO, NoReturn, Protocol

    from byleave.workspace.project import MayRead, ProjectFiles, Query

    OnCancel = Callable[[Callable[[], None]], object]

    class SearchProcess(Protocol):
        """A started ripgrep, in a sandbox or not."""

        @property
        def stdout(self) -> IO[bytes] | None: ...

        @property
        def stderr(self) -> IO[bytes] | None: ...

        def kill(self) -> None: ...

        def wait(self) -> int: ...


OLDEST = (13, 0)
LONGEST_PATTERN = 32_768  # bytes; it is one word of a command line, and Linux takes none beyond 128 KB
LARGEST_SEARCHED = 64 << 20  # bytes of a file; longer ones are not searched
LARGEST_RESULT = 10 << 20  # bytes of all lines found, each with what it costs to send it
LARGEST_OUTPUT = 64 << 20  # bytes; ripgrep repeats every match, so its output is longer than the result
_COST_OF_A_LINE = 64
_MOST_LINES = LARGEST_RESULT // _COST_OF_A_LINE + 1  # as many are too many
_LONGEST_COMPLAINT = 4096  # bytes
_PIECE = 1 << 16
_EXTENSION_SIGNS = frozenset("_+.-")
_FLAGS = (
    "--no-config",
    "--json",
    "--hidden",
    "--no-ignore",
    "--no-messages",  # about files that are covered; what is wrong with a pattern is still printed
    "--no-mmap",  # so that a NUL is seen wherever it stands, also in files that are named
    f"--max-filesize={LARGEST_SEARCHED}",
)


def find_ripgrep(*writable: str) -> str | None:
    """Return the program: the one installed beside byleave, else one on PATH that is new enough; None without either.

    A program below one of the `writable` places (the workspace, and what a sandbox may write) is neither used nor
    started to ask for its version: a confined program would choose what runs outside. The one beside byleave's own
    interpreter is used even there: no rule opens it for writing (`policy.machine_places`).
    """
    closed = [os.path.realpath(place) for place in writable]
    protected = _protected_program()
    for path in _candidates():
        real = os.path.realpath(path)
        written = any(is_under(real, place) or is_under(path, place) for place in closed)
        usable = os.path.isfile(real) and os.access(real, os.X_OK)
        if usable and (not written or real == protected) and _is_new(real):
            return real
    return None


def _protected_program() -> str:
    """Return where byleave's own ripgrep is in a virtual environment, "" outside of one."""
    if sys.prefix == sys.base_prefix or not sys.executable:
        return ""
    return os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(sys.executable))), "rg")


def _candidates() -> Iterator[str]:
    import sysconfig  # heavy: only for a search

    for directory in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        yield os.path.join(directory, "rg")
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(directory):
            yield os.path.join(directory, "rg")


@cache
def _is_new(program: str) -> bool:
    import subprocess  # heavy: only for a search

    try:
        done = subprocess.run([program, "--version"], env={}, capture_output=True, timeout=10, check=False)  # noqa: S603
        major, minor = done.stdout.split()[1].decode().split(".")[:2]
        return done.stdout.startswith(b"ripgrep ") and (int(major), int(minor)) >= OLDEST
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return False


def search_command(program: str, query: Query, paths: Iterable[str]) -> list[str]:
    """Return the words that search these paths, which byleave names; only the pattern is the tool's."""
    _refuse_pattern(query.pattern)
    words = [program, *_FLAGS, *[f"--glob=*{ending}" for ending in read_endings(query)]]
    words.append("--iglob=!.git")  # the last glob that matches counts
    if query.context:
        words.append(f"--context={query.context}")
    return [*words, f"--regexp={query.pattern}", "--", *paths]


def read_endings(query: Query) -> tuple[str, ...]:
    """Return the extensions as the ends of file names."""
    endings = []
    for extension in query.extensions:
        plain = extension.removeprefix(".")
        if not plain or not all(char.isalnum() or char in _EXTENSION_SIGNS for char in plain):
            raise RequestError(
                f"{quoted(extension)} is not an extension of a file",
                hint='write letters, digits and "_+.-" only, such as "py"',
                number=INVALID_PARAMS,
            )
        endings.append(f".{plain}")
    return tuple(endings)


def is_searched(path: str, endings: tuple[str, ...] = ()) -> bool:
    """Whether a file of this path is searched: it is not below `.git`, and its name has one of the endings."""
    return not any(map(is_repository, path.split("/"))) and (not endings or path.endswith(endings))


def is_repository(name: str) -> bool:
    """Whether a name is that of a repository's own directory, also where case does not count."""
    return name.lower() == ".git"


def _refuse_pattern(text: str) -> None:
    """Refuse a pattern that cannot be a word of a command line."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        _refuse("it contains half a character")
    if length > LONGEST_PATTERN:
        _refuse(f"it is longer than {LONGEST_PATTERN} bytes", limit=LONGEST_PATTERN)
    if "\0" in text:
        _refuse("it contains a NUL, and files with one are not searched")


def _refuse(why: str, *, limit: int | None = None) -> NoReturn:
    data = None if limit is None else {"limit": limit}
    hint = "write a regular expression that matches within a line: no look-around, no back-references"
    raise RequestError(f"the pattern cannot be used: {why}", hint=hint, number=INVALID_PARAMS, data=data)


def too_much(what: str, limit: int) -> RequestError:
    """Return the error that names the limit that a search exceeds."""
    hint = "search for something rarer, or in fewer places"
    return RequestError(f"the search is too large: {what}", hint=hint, number=INVALID_PARAMS, data={"limit": limit})


class Findings:
    """What a search has found so far, by the name of the file; an error once it is larger than the limit."""

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
            self._size += len(line.content) + _COST_OF_A_LINE
            if self._size > self._limit:
                raise too_much(f"what it finds is longer than {self._limit} bytes", self._limit)
            kept.append(line)
        if kept:
            self._by_path[path] = FileMatches(path, tuple(kept))

    def all(self) -> list[FileMatches]:
        """Return everything, sorted by path."""
        return [self._by_path[path] for path in sorted(self._by_path)]


class _Text(msgspec.Struct):
    """Bytes in ripgrep's output: as text where they are UTF-8, else in base64."""

    text: str | None = None
    encoded: str | None = msgspec.field(default=None, name="bytes")

    def raw(self) -> bytes:
        return self.text.encode() if self.text is not None else a2b_base64(self.encoded or "")


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    binary_offset: int | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data


class SearchRun:
    """One started ripgrep, read until it ends, takes too long, or prints too much.

    `names_of` returns how the tool names a path that ripgrep prints: never, once, or once for each start it lies below.
    After `deadline`, a time of the monotonic clock, the search is TIMED_OUT. `on_cancel` receives a function that ends
    it from another thread: CANCELLED.
    """

    def __init__(
        self,
        process: SearchProcess,
        names_of: Callable[[str], Iterable[str]],
        found: Findings,
        *,
        deadline: float | None = None,
        on_cancel: OnCancel | None = None,
    ) -> None:
        self._process = process
        self._names_of = names_of
        self._found = found
        self._deadline = deadline
        self._cancelled = False
        self._complaint = b""
        self._finished = False
        self._code = 0
        self._lines: list[FileLine] = []
        if on_cancel is not None:
            on_cancel(self._cancel)

    def read(self) -> None:
        """Read everything that ripgrep prints, and wait for its end."""
        decoder = msgspec.json.Decoder(_Message)
        try:
            for line in _lines_of(self._pieces()):
                self._take(decoder.decode(line))
        except (msgspec.DecodeError, NotBase64):
            raise _broken("its output cannot be read") from None
        self._code = self._process.wait()
        if self._cancelled:
            raise RequestError("the search was cancelled", hint="search again", number=CANCELLED)

    def check(self) -> None:
        """Raise an error if the search did not come to its end: most often, because of the pattern."""
        if self._finished:
            return
        printed = shown_lines(self._complaint.decode("utf-8", "replace").strip()).removeprefix("rg: ")
        if self._code == 2 and printed:
            _refuse(printed)
        raise _broken(f"it ended with code {self._code}")

    def _cancel(self) -> None:
        self._cancelled = True
        with suppress(OSError):  # it has ended by itself
            self._process.kill()

    def _pieces(self) -> Iterator[bytes]:
        """Yield ripgrep's output as it comes, and keep its complaints."""
        out, err = self._process.stdout, self._process.stderr
        if out is None or err is None:
            raise _broken("it has no output")
        waiting = select.poll()
        opened = {out.fileno(), err.fileno()}
        for descriptor in opened:
            waiting.register(descriptor, select.POLLIN)
        size = 0
        while opened:
            for descriptor, _event in waiting.poll(self._milliseconds_left()):
                piece = os.read(descriptor, _PIECE)
                if not piece:
                    waiting.unregister(descriptor)
                    opened.remove(descriptor)
                elif descriptor == err.fileno():
                    self._complaint = (self._complaint + piece)[:_LONGEST_COMPLAINT]
                else:
                    size += len(piece)
                    if size > LARGEST_OUTPUT:
                        raise too_much(f"ripgrep prints more than {LARGEST_OUTPUT} bytes about it", LARGEST_OUTPUT)
                    yield piece

    def _milliseconds_left(self) -> float | None:
        if self._deadline is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            hint = "search in fewer places, or raise the tool's request_timeout"
            raise RequestError("the search took too long", hint=hint, number=TIMED_OUT)
        return left * 1000 + 1

    def _take(self, message: _Message) -> None:
        kind, data = message.type, message.data
        if kind == "begin":
            self._lines = []
        elif kind in ("match", "context") and data.lines is not None and data.line_number is not None:
            text = data.lines.raw().removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
            self._lines.append(FileLine(data.line_number, text, kind == "match"))
        elif kind == "end" and data.path is not None and data.binary_offset is None:
            for name in self._names_of(os.fsdecode(data.path.raw())):
                if name not in self._found:
                    self._found.add(name, self._lines)
        elif kind == "summary":
            self._finished = True


def _lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield whole lines, however they were cut."""
    held: list[bytes] = []
    for piece in pieces:
        first, *rest = piece.split(b"\n")
        held.append(first)
        for line in rest:
            yield b"".join(held)
            held = [line]
    if any(held):
        yield b"".join(held)


def _broken(why: str) -> RequestError:
    hint = "search again; `byleave doctor` reports what this machine can enforce"
    return RequestError(f"ripgrep did not finish: {why}", hint=hint, number=INTERNAL_ERROR)


MOST_PATHS = 1000  # that one search starts at
MOST_CONTEXT = 10_000  # lines
_MOST_OPEN = 4096  # files at once, where a quarter of the process's descriptors is not fewer
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class SearchStart(Struct, frozen=True):
    """Where a search begins: how the tool names it ("" is all of the project), where it is, and what is there."""

    name: str
    place: FsTarget
    kind: str


def find_starts(project: ProjectFiles, query: Query) -> list[SearchStart]:
    """Return where to search. A place that is missing is an OSError; one that is never searched is left out."""
    if len(query.paths) > MOST_PATHS:
        raise too_much(f"more than {MOST_PATHS} paths", MOST_PATHS)
    if not 0 <= query.context <= MOST_CONTEXT:
        raise too_much(f"{query.context} lines around each match", MOST_CONTEXT)
    found = []
    for path in query.paths or (".",):
        place = path if isinstance(path, FsTarget) else inside(project.find(path), path)
        metadata = project.metadata(place)
        small = metadata.kind == FILE and metadata.size <= LARGEST_SEARCHED
        name = place.relative if place.relative is not None else place.door or place.canonical
        if (small or metadata.kind == DIRECTORY) and is_searched(name):
            found.append(SearchStart(name, place, metadata.kind))
    return found


def search_project(
    project: ProjectFiles, query: Query, may_read: MayRead, *, writable: Sequence[str] = ()
) -> list[FileMatches]:
    """Return the files that match, sorted by path. Only files that `may_read` agrees to are opened.

    `writable`: the places where confined programs may write. A ripgrep from there is not started. `may_read` is called
    before each file is opened, so it can end a search by an error.
    """
    endings = read_endings(query)
    program = find_ripgrep(*writable)
    found = Findings()
    batch = _FilesInProcess(query, found) if program is None else _Batch(search_command(program, query, ()), found)
    seen: set[str] = set()
    with batch:
        for name, place in _walk(project, find_starts(project, query)):
            if name not in seen and is_searched(name, endings) and may_read(name):
                seen.add(name)
                batch.add(name, project, place)
        batch.search()
    return found.all()


def _walk(project: ProjectFiles, starts: Sequence[SearchStart]) -> Iterator[tuple[str, FsTarget]]:
    """Yield every file at or below the starts. What vanishes, or turns into a link meanwhile, is passed over."""
    waiting = [(start.name, start.place) for start in reversed(starts)]
    while waiting:
        name, place = waiting.pop()
        try:
            metadata = project.metadata(place)
            if metadata.kind == DIRECTORY:
                names = [each for each in project.list_dir(place) if not is_repository(each)]
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


class _Batch:
    """Files that are open and wait to be searched by one ripgrep, which sees no others."""

    def __init__(self, words: list[str], found: Findings) -> None:
        self._words = words
        self._found = found
        self._names: dict[int, str] = {}
        self._ran = False
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = _MOST_OPEN if allowed == resource.RLIM_INFINITY else min(_MOST_OPEN, max(allowed // 4, 1))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_raised: object) -> None:
        self._close()

    def add(self, name: str, project: ProjectFiles, place: FsTarget) -> None:
        """Open a file; once there are many, search them."""
        if len(self._names) >= self._most:
            self.search()
        try:
            self._names[project.open_file(place)] = name
        except (OSError, UnsafePathError) as error:
            if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS:
                raise

    def search(self) -> None:
        """Search the files that are open, and close them. The first time, even without files: the pattern is read."""
        import subprocess  # heavy: only for a search

        if self._ran and not self._names:
            return
        self._ran = True
        # The path of a descriptor leads to the very file that was opened, whatever has its name by now.
        paths = [f"/proc/self/fd/{descriptor}" for descriptor in self._names] or [os.devnull]
        with subprocess.Popen(  # noqa: S603 -- the program is byleave's own choice
            [*self._words, *paths],
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(self._names),
        ) as process:
            run = SearchRun(process, self._names_of, self._found)
            try:
                run.read()
            except BaseException:
                process.kill()
                raise
        run.check()
        self._close()

    def _names_of(self, path: str) -> Iterator[str]:
        number = path.rpartition("/")[2]
        if number.isdecimal() and int(number) in self._names:
            yield self._names[int(number)]

    def _close(self) -> None:
        while self._names:
            os.close(self._names.popitem()[0])


class _FilesInProcess:
    """Files that are searched one by one in this process, each as soon as it is added."""

    def __init__(self, query: Query, found: Findings) -> None:
        _refuse_pattern(query.pattern)
        try:
            self._pattern = LinePattern(query.pattern, context=query.context, most=_MOST_LINES)
        except ValueError as error:
            _refuse(shown_lines(str(error)))
        self._found = found

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_raised: object) -> None:
        return None

    def add(self, name: str, project: ProjectFiles, place: FsTarget) -> None:
        """Open a file, search it, and close it."""
        try:
            descriptor = project.open_file(place)
        except (OSError, UnsafePathError):
            return
        try:
            content = read_all(descriptor, LARGEST_SEARCHED)
        except OSError:
            return
        finally:
            os.close(descriptor)
        if content is not None:
            self._found.add(name, self._pattern.lines_of(content))

    def search(self) -> None:
        """Return at once: every file has been searched."""
