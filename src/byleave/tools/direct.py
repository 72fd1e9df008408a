"""The methods of `vfs.Host`, performed directly, for a tool that runs as `stdio`.

Every path is checked against the context first, as `sdk.Context` does; the sandbox enforces the same. Errors are those
of the mediated host, so that a tool behaves the same in both runtimes.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from byleave.core.env_rules import MINIMAL_ENVIRONMENT, EnvRule, EnvTable
from byleave.core.fs_rules import FsTable, FsTarget
from byleave.errors import FsAccessError, RequestError, TooLargeError, UnsafePathError
from byleave.protocol.json_codec import PLAIN
from byleave.protocol.vfs import ALIASES
from byleave.sdk import vfs_results as errors
from byleave.sdk.vfs_results import Completed, Entry, Line, Listing, Match, Metadata, speakable
from byleave.text import quoted
from byleave.workspace.on_disk import ProjectOnDisk, refuse_directory_name
from byleave.workspace.project import Query
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.sdk.context import Context
    from byleave.workspace.project import FileMatches

LARGEST_FILE = 10 << 20  # bytes, as the mediated host has it
_LONGEST_RUN = 60.0  # seconds, as `request_timeout`
_MINIMAL = EnvTable([EnvRule(name, read=True) for name in MINIMAL_ENVIRONMENT])


class DirectHost:
    """One call of a stdio tool. `result` and `error` print what byleave reads."""

    def __init__(self, context: Context, tool: Mapping[str, Any]) -> None:
        self.name = str(tool.get("name", ""))
        self.arguments: Mapping[str, Any] = tool.get("arguments") or {}
        self.answers: Mapping[str, Any] = tool.get("answers") or {}
        self.options: Mapping[str, Any] = tool.get("options") or {}
        self.context = {"root": context.root, "action": context.action}
        self.action = context.action
        self.methods = (*ALIASES.values(), "process.run")
        self.protocol_version = ""
        self.ended = False
        self.cancelled = False
        self._context = context
        self._project = ProjectOnDisk(Root.at(context.root))

    def read(self, path: str) -> str:
        """Return the text of a file; NotText if it is not UTF-8."""
        try:
            return self.read_bytes(path).decode()
        except UnicodeDecodeError:
            raise errors.NotText(f"{path} is not a text in UTF-8; read its bytes instead") from None

    def read_bytes(self, path: str) -> bytes:
        """Return the bytes of a file."""
        with _Troubles(path):
            return self._project.read(self._place(path, "read"), limit=LARGEST_FILE)

    def write(self, path: str, content: str | bytes, *, exclusive: bool = False) -> None:
        """Make `content` the whole content of a file."""
        data = content.encode() if isinstance(content, str) else content
        with _Troubles(path):
            known = not exclusive and self._is_there(path)
            place = self._place(path, "update" if known else "create")
            refuse_directory_name(path, place)
            self._project.write(place, data, create=not known, update=known)

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        with _Troubles(path):
            try:
                return self._place(path, "read").exists
            except errors.NotFound:  # a file stands where a directory should be
                return False

    def list_dir(self, path: str = ".") -> Listing:
        """Return what a directory holds."""
        with _Troubles(path):
            names = self._project.list_dir(self._place(path, "read"))
        found = [self._entry(f"{path.rstrip('/')}/{name}", name) for name in names]
        entries = tuple(entry for entry in found if entry is not None)
        return Listing(entries, len(names) - len(entries))

    def _entry(self, path: str, name: str) -> Entry | None:
        try:
            place = self._place(path, "read")
        except errors.VfsError:
            return None
        return Entry(name, "dir" if place.directory else "file") if place.exists else None

    def metadata(self, path: str) -> Metadata:
        """Return kind and size of what is there."""
        with _Troubles(path):
            found = self._project.metadata(self._place(path, "read"))
        return Metadata(found.kind, found.size, found.modified)

    def delete(self, path: str) -> None:
        """Remove a file."""
        with _Troubles(path):
            self._project.delete(self._entry_at(path, "delete"))

    def rename(self, source: str, target: str, *, exclusive: bool = False) -> None:
        """Move a file, a directory or a link."""
        with _Troubles(source):
            place = self._entry_at(source, "delete")
        with _Troubles(target):
            found = self._project.root.resolve_entry(target)
            known = isinstance(found, FsTarget) and found.exists
            to = self._entry_at(target, "update" if known else "create")
        with _Troubles(source):
            try:
                self._project.rename(place, to, replace=known and not exclusive)
            except FileExistsError:
                raise errors.AlreadyExists(f"{quoted(target)} exists already") from None

    def grep(
        self,
        pattern: str,
        paths: Sequence[str] | None = None,
        extensions: Sequence[str] | None = None,
        context: int = 0,
    ) -> list[Match]:
        """Return where a regular expression matches."""
        starts = tuple([self._start(path) for path in paths or ["."]])
        with _Troubles("it"):
            query = Query(pattern, starts, tuple(extensions or ()), context)
            return [_match(found) for found in self._project.grep(query, self._may_read)]

    def _start(self, path: str) -> FsTarget:
        place = self._place(path, "read")
        if not place.exists:
            raise errors.NotFound(f"{quoted(path)} does not exist")
        return place

    def _may_read(self, path: str) -> bool:
        try:
            self._context.check_read(path)
        except FsAccessError:
            return False
        return True

    def run(self, program: str, args: Sequence[str] = (), envs: Sequence[str] = ()) -> Completed:
        """Run a program in the root, with a clean environment and nothing to read."""
        import subprocess  # heavy: few tools start programs

        if "/" in program:
            raise errors.AccessDenied(f"{quoted(program)} is a path; programs are named", code=-32001)
        passed = {name: value for name, value in os.environ.items() if name in envs or _MINIMAL.match(name) is not None}
        try:
            done = subprocess.run(  # noqa: S603 -- what may be run is for the sandbox that this tool runs in
                [program, *args],
                cwd=self._context.root,
                env=passed,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_LONGEST_RUN,
            )
        except FileNotFoundError:
            raise errors.NotFound(f"{quoted(program)} does not exist", code=-32002) from None
        except PermissionError:
            raise errors.AccessDenied(f"{quoted(program)} may not be run", code=-32001) from None
        except subprocess.TimeoutExpired:
            raise errors.TimedOut(f"{quoted(program)} took too long", code=-32004) from None
        return Completed(_said(done.stdout), _said(done.stderr), done.returncode)

    @property
    def http(self) -> NoReturn:
        """Refuse: only a mediated tool can reach servers."""
        self._only_mediated()

    def _only_mediated(self, *_values: object, **_named: object) -> NoReturn:
        raise errors.MethodNotFound('this tool was started as stdio, which has no such thing; use runtime = "vfs"')

    state = running = waiting = stopped = next_input = _only_mediated

    def ask(self, id_: str, text: str, *, options: Sequence[str] | None = None, default: str | None = None) -> Any:
        """Return the user's answer to a question, or end the call with it."""
        if id_ in self.answers:
            return self.answers[id_]
        more = {name: value for name, value in (("options", options), ("default", default)) if value is not None}
        self.result([{"type": "question", "id": id_, "text": text, **more}])
        raise errors.QuestionAsked(id_)

    def result(self, content: str | list[dict[str, Any]]) -> None:
        """Print the result."""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        self._print({"content": blocks})

    def error(self, message: str, trace: Sequence[str] = (), *, transient: bool = False) -> None:
        """Print why the tool failed."""
        self._print({"error": {"message": message, "trace": list(trace), "transient": transient}})

    def _print(self, tree: Mapping[str, Any]) -> None:
        self.ended = True
        sys.stdout.buffer.write(PLAIN.encode(speakable(tree)) + b"\n")
        sys.stdout.buffer.flush()

    def _entry_at(self, path: str, capability: str) -> FsTarget:
        """Return the place of a name itself, if that may be done to it: a link is not followed."""
        try:
            return self._context.check_entry(path, capability)
        except FsAccessError as error:
            raise self._refused(error) from None

    def _place(self, path: str, capability: str) -> FsTarget:
        """Return where a path leads, if that may be done to it."""
        check = getattr(self._context, f"check_{capability}")
        try:
            check(path)
        except FsAccessError as error:
            raise self._refused(error) from None
        place = self._project.find(path)
        if not isinstance(place, FsTarget):
            raise errors.AccessDenied(place.problem)
        return place

    def _refused(self, error: FsAccessError) -> errors.VfsError:
        """Return how a mediated host would have said it."""
        data: dict[str, Any] = {"code": error.code, "capability": error.capability}
        if self._context.access is not None and isinstance(self._context.access.fs, FsTable):
            data["grants"] = list(error.grants)
        kind = errors.NotFound if error.code == "not_a_directory" else errors.AccessDenied
        return kind(error.problem, data=data)

    def _is_there(self, path: str) -> bool:
        place = self._project.find(path)
        return isinstance(place, FsTarget) and place.exists


class _Troubles:
    """Turns what goes wrong with files into the errors that a mediated host would have answered."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, TooLargeError):
            raise errors.TooLarge(error.problem, code=-32602, data={"limit": error.limit}) from None
        if isinstance(error, UnsafePathError):
            raise errors.AccessDenied(error.problem, code=-32001) from None
        if isinstance(error, RequestError):
            raise errors.error_for(error.number, error.problem, error.data) from None
        if isinstance(error, OSError):
            raise self._as_vfs_error(error) from None

    def _as_vfs_error(self, error: OSError) -> errors.VfsError:
        for kind, error_type, text in _ERRORS:
            if isinstance(error, kind):
                return error_type(f"{quoted(self._path)} {text}")
        return errors.VfsError(f"{quoted(self._path)}: {error.strerror or 'failed'}")


_ERRORS: tuple[tuple[type[OSError], type[errors.VfsError], str], ...] = (
    (FileNotFoundError, errors.NotFound, "does not exist"),
    (FileExistsError, errors.AlreadyExists, "exists already"),
    (IsADirectoryError, errors.InvalidParams, "is a directory"),
    (NotADirectoryError, errors.InvalidParams, "is no directory"),
    (PermissionError, errors.AccessDenied, "cannot be accessed: the system refuses it"),
)


def _match(found: FileMatches) -> Match:
    return Match(found.path, tuple([Line(line.number, line.content, line.matches) for line in found.lines]))


def _said(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
