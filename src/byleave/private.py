"""Files that belong to the user alone: private directories, whole-or-nothing writes, locks, remembered parses.

Everything byleave keeps about a user goes through here. A directory that somebody else owns or can write to is refused,
because whoever can change our memory decides for us.
"""

import marshal
import os
import stat
from binascii import crc32

from byleave.errors import StateError
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self, TypeVar

    Value = TypeVar("Value")

_FORMAT = 1  # raise it when what a parse yields changes its shape


def digest(content: bytes) -> str:
    """Return the SHA-256 of `content` in hex. `hashlib` loads OpenSSL, which every start would pay for."""
    try:
        from _sha256 import sha256  # type: ignore[import-not-found] # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found] # Python 3.12 and later
        except ImportError:
            from hashlib import sha256
    hexadecimal: str = sha256(content).hexdigest()
    return hexadecimal


def make_private_directory(path: str) -> str:
    """Create `path` with mode 0700 if it is missing, refuse it if others could write to it, and return it."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.stat(path)
    except OSError as error:
        raise StateError(
            f"{quoted(path)} cannot be created: {error.strerror}", hint="set BYLEAVE_HOME to a directory of yours"
        ) from None
    refuse_shared(path, found)
    return path


def refuse_shared(path: str, found: os.stat_result) -> None:
    """Refuse a file or directory of ours that another user owns or can write to."""
    if found.st_uid not in (os.geteuid(), 0) or (found.st_uid == 0 and os.geteuid() != 0 and not _readable_only(found)):
        raise StateError(
            f"{quoted(path)} belongs to another user", hint=f"remove it, or `chown` it to yourself: {path}"
        )
    if found.st_mode & 0o022 and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        raise StateError(f"{quoted(path)} can be written by others", hint=f"run: chmod go-w {path}")


def read_private(path: str, *, limit: int) -> bytes | None:
    """Return the content of a file of ours, None if there is none; refuse links, odd files and shared ones."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be read: {error.strerror}", hint="it must be a plain file") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            raise StateError(f"{quoted(path)} is not a file of at most {limit} bytes", hint="move it away")
        refuse_shared(path, found)
        return read_all(descriptor, limit)
    finally:
        os.close(descriptor)


def read_all(descriptor: int, limit: int) -> bytes:
    """Read at most `limit` bytes from a descriptor."""
    chunks, left = [], limit
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def write_private(path: str, content: bytes) -> None:
    """Replace `path` whole or not at all: a new file beside it, synced, renamed over it, the directory synced."""
    directory, name = os.path.split(path)
    fresh = os.path.join(directory, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        _forget(fresh)
        raise
    _sync_directory(directory)


class Lock:
    """An exclusive lock between processes, held as a context manager. It is a file beside what it protects."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> "Self":
        import fcntl

        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: "TracebackType | None"
    ) -> None:
        os.close(self._descriptor)


class Memory:
    """Remembers what a slow parse of some content yielded, so that only a changed file is parsed again.

    The whole content is kept beside the value and compared: no hash, so nothing to collide. A memory that is damaged,
    foreign, of another version or not to be had costs a parse and nothing else.
    """

    def __init__(self, directory: str | None, version: str) -> None:
        self._directory = directory
        self._stamp = f"{_FORMAT}/{version}"

    def recall(self, name: str, content: bytes, parse: "Callable[[bytes], Value]") -> "Value":
        """Return what `parse` makes of `content`; `name` says whose content it is. Only plain values are remembered."""
        path = self._path(name)
        known: tuple[Value] | None = None if path is None else self._read(path, content)
        if known is not None:
            return known[0]
        made = parse(content)
        if path is not None:
            self._write(path, content, made)
        return made

    def _path(self, name: str) -> str | None:
        if self._directory is None:
            return None
        return os.path.join(self._directory, f"{crc32(os.fsencode(name)):08x}.parsed")

    def _read(self, path: str, content: bytes) -> "tuple[Value] | None":
        try:
            raw = read_private(path, limit=1 << 28)
            if raw is None:
                return None
            stamp, kept, value = marshal.loads(raw)  # noqa: S302 -- a file of the user's own, checked above
        except (StateError, OSError, EOFError, ValueError, TypeError):
            return None
        return (value,) if stamp == self._stamp and kept == content else None

    def _write(self, path: str, content: bytes, value: "Any") -> None:
        try:
            make_private_directory(os.path.dirname(path))
            write_private(path, marshal.dumps((self._stamp, content, value)))
        except (StateError, OSError, ValueError):
            return


def _readable_only(found: os.stat_result) -> bool:
    return not found.st_mode & 0o022


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def _sync_directory(path: str) -> None:
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
