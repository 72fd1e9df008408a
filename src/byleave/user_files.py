"""Files that belong to the user alone: private directories, whole-or-nothing writes, locks, remembered parses.

Everything byleave keeps about a user goes through here. A directory that another user owns or can write to is refused,
because a user who can change what byleave remembers decides what it allows. `rewrite` changes a file as a whole, by one
writer at a time, or not at all.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import stat
from binascii import crc32
from errno import EAGAIN, EDQUOT, ENOSPC
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self, TypeVar

from byleave.errors import StateError
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

Value = TypeVar("Value")


_FORMAT = 4  # raise it when what a parse yields changes its shape
_LARGEST_MEMORY = 1 << 28
_LOCK_PERIOD = 0.005  # seconds between two attempts
LOCK_PATIENCE = 10.0  # seconds for a lock that others hold for moments


def digest(content: bytes) -> str:
    """Return the SHA-256 of `content` in hex."""
    hexadecimal: str = _sha256()(content).hexdigest()
    return hexadecimal


def digest_file(descriptor: int, *, limit: int) -> str | None:
    """Return the SHA-256 of what is left to read from `descriptor`, None if it is more than `limit` bytes."""
    state, size = _sha256()(), 0
    while chunk := os.read(descriptor, 1 << 20):
        size += len(chunk)
        if size > limit:
            return None
        state.update(chunk)
    hexadecimal: str = state.hexdigest()
    return hexadecimal


def _sha256() -> Any:
    """Find the hash without `hashlib`, which loads OpenSSL: every start would pay for it."""
    try:
        from _sha256 import sha256  # type: ignore[import-not-found] # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found] # Python 3.12 and later
        except ImportError:
            from hashlib import sha256
    return sha256


def make_private_directory(path: str) -> str:
    """Create `path`, and what is missing above it, with mode 0700; refuse it if others could change it; return it."""
    try:
        _make_directory(path)
        refuse_shared(path, os.stat(path))
        refuse_detours(path)
    except OSError as error:
        raise StateError(
            f"{quoted(path)} cannot be created: {error.strerror}", hint="set BYLEAVE_HOME to a directory of yours"
        ) from None
    return path


def refuse_shared(path: str, found: os.stat_result) -> None:
    """Refuse a file or directory of ours that another user owns or can write to."""
    if found.st_uid not in _owners():
        raise StateError(
            f"{quoted(path)} belongs to another user", hint=f"remove it, or `chown` it to yourself: {shown(path)}"
        )
    if found.st_mode & 0o022:
        raise StateError(f"{quoted(path)} can be written by others", hint=f"run: chmod go-w {shown(path)}")


def refuse_detours(path: str) -> None:
    """Refuse a path if another user laid a link in it, or could: in a directory that all may write to.

    In a sticky one, such as /tmp, only the owner of an entry and the owner of the directory can exchange it.
    """
    linked = False
    for name in _prefixes(os.path.abspath(path)):
        linked = _is_link(name) or linked
    if linked:
        for name in _prefixes(os.path.realpath(path)):
            _is_link(name)


def read_private(path: str, *, limit: int, links: bool = False) -> bytes | None:
    """Return the content of a file of ours, None if there is none; refuse odd files, shared ones and shared places.

    A link as the last name is refused as well, unless `links` says that users put some there themselves.
    """
    try:
        if _lstat(path) is None:
            return None
        # The path first: once no other user can change it, what is opened at its end is what was meant.
        refuse_shared(directory := os.path.dirname(path), os.stat(directory))
        refuse_detours(path)
        content = _read_plain(path, 0 if links else os.O_NOFOLLOW, limit)
    except FileNotFoundError:
        return None
    except OSError as error:
        hint = "it must be a plain file that you can read, and no link" if not links else "check its permissions"
        raise StateError(f"{quoted(path)} cannot be read: {error.strerror}", hint=hint) from None
    if len(content) > limit:
        raise StateError(f"{quoted(path)} is larger than {limit >> 20} MB", hint="move it away")
    return content


def _read_plain(path: str, flags: int, limit: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StateError(f"{quoted(path)} is not a plain file", hint="move it away")
        refuse_shared(path, found)
        return read_all(descriptor, limit + 1)
    finally:
        os.close(descriptor)


def read_all(descriptor: int, limit: int) -> bytes:
    """Read at most `limit` bytes from a descriptor."""
    chunks, left = [], limit
    while left > 0 and (chunk := os.read(descriptor, min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def first_bytes(path: str, most: int) -> bytes:
    """Return the beginning of an ordinary file; nothing of anything else, which might make us wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, most) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def write_private(path: str, content: bytes, *, durable: bool = True) -> None:
    """Replace `path` whole or not at all: a new file beside it, synced, renamed over it, the directory synced.

    What is not `durable` is not synced: after a power cut it may be damaged, which the reader must notice.
    """
    directory, name = os.path.split(path)
    fresh = os.path.join(directory, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        _forget(fresh)
        raise
    if durable:
        _sync_directory(directory)


def sweep_unfinished(path: str) -> None:
    """Remove what writers of `path` left half-written when they died. The caller holds the lock that they all take."""
    directory, name = os.path.split(path)
    try:
        for entry in os.listdir(directory):
            if entry.startswith(f".{name}."):
                os.unlink(os.path.join(directory, entry))
    except OSError:  # no program reads them
        return


class Lock:
    """An exclusive lock between processes, held as a context manager. It is a file beside what it protects.

    With `patience`, a BlockingIOError if another process has held it for so many seconds: it may have been stopped.
    """

    def __init__(self, path: str, *, patience: float | None = None) -> None:
        self._path = path
        self._patience = patience
        self._descriptor = -1

    def __enter__(self) -> Self:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        try:
            if self._patience is None:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            else:
                self._try_for(self._patience)
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def _try_for(self, seconds: float) -> None:
        end = monotonic() + seconds
        while True:
            try:
                return fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() >= end:
                    raise BlockingIOError(EAGAIN, "another program has held its lock for too long") from None
            sleep(_LOCK_PERIOD)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


class ParseCache:
    """Remembers what a slow parse of some content yielded, so that only a changed file is parsed again.

    The whole content is kept beside the value and compared: no hash, so nothing to collide. A memory that is damaged,
    foreign, of another version or not to be had costs a parse and nothing else: nothing is decoded before the name,
    the version, the content and a checksum are found to be right.

        one line: byleave 2/<version> <name> <size of the content>; then <content> <checksum> <value, marshalled>
    """

    def __init__(self, directory: str | None, version: str) -> None:
        self._directory = directory
        self._stamp = f"byleave {_FORMAT}/{version}".encode()

    def recall(self, name: str, content: bytes, parse: Callable[[bytes], Value]) -> Value:
        """Return what `parse` makes of `content`; `name` says whose content it is. Only plain values are remembered."""
        path = self._path(name)
        head = b"%b %b %d\n" % (self._stamp, os.fsencode(name), len(content))
        known: tuple[Value] | None = None if path is None else self._read(path, head, content)
        if known is not None:
            return known[0]
        made = parse(content)
        if path is not None:
            self._write(path, head + content, made)
        return made

    def _path(self, name: str) -> str | None:
        if self._directory is None:
            return None
        return os.path.join(self._directory, f"{crc32(os.fsencode(name)):08x}.parsed")

    def _read(self, path: str, head: bytes, content: bytes) -> tuple[Value] | None:
        try:
            raw = read_private(path, limit=_LARGEST_MEMORY)
        except StateError:
            return None
        body = len(head) + len(content)
        if raw is None or not raw.startswith(head) or raw[len(head) : body] != content:
            return None
        value = raw[body + _CHECKSUM :]
        if raw[body : body + _CHECKSUM] != _checksum(value):
            return None
        try:
            return (marshal.loads(value),)  # noqa: S302 -- a file of the user's own, in a place of the user's own
        except (EOFError, ValueError, TypeError, MemoryError):
            return None

    def _write(self, path: str, known: bytes, made: Any) -> None:
        try:
            value = marshal.dumps(made)
            make_private_directory(os.path.dirname(path))
            write_private(path, known + _checksum(value) + value, durable=False)
        except (StateError, OSError, ValueError):
            return


_CHECKSUM = 4


def _checksum(value: bytes) -> bytes:
    return crc32(value).to_bytes(_CHECKSUM, "little")


def _owners() -> tuple[int, ...]:
    """Return who may own the files of this user: the user, and the owner of / (in a container, perhaps not 0)."""
    return os.geteuid(), 0, os.stat("/").st_uid


def _make_directory(path: str) -> None:
    """Create a directory and those above it, each with mode 0700: `os.makedirs` would give that to the last only."""
    missing = [name for name in _prefixes(os.path.abspath(path)) if not os.path.lexists(name)]
    for name in reversed(missing):
        try:
            os.mkdir(name, 0o700)
        except FileExistsError:  # another start was faster
            continue


def _prefixes(path: str) -> list[str]:
    """Return the absolute `path` and every directory above it."""
    found = [path]
    while (parent := os.path.dirname(path)) != path:
        found.append(path := parent)
    return found


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_link(path: str) -> bool:
    """Whether a link stands at `path`; refuse one that another user made, and a directory that all may write to."""
    found = _lstat(path)
    if found is None:
        return False
    linked = stat.S_ISLNK(found.st_mode)
    own = found.st_uid in _owners()
    if linked and not own:
        raise StateError(
            f"{quoted(path)} is a link that another user made", hint="set BYLEAVE_HOME to a directory of yours"
        )
    writable_by_all = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o002
    if writable_by_all and not (own and found.st_mode & stat.S_ISVTX):
        hint = f"run: chmod o-w {shown(path)}, or set BYLEAVE_HOME to a directory of yours"
        raise StateError(f"every user can exchange what lies in {quoted(path)}", hint=hint)
    return linked


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


def rewrite(path: str, lock: str, change: Callable[[], bytes | None], *, limit: int) -> None:
    """Replace a file by what `change` makes of it while no other program changes it; None leaves it as it is.

    `lock` is the name of the lock beside it. A process that dies meanwhile leaves the file as it was.
    """
    directory = make_private_directory(os.path.dirname(path))
    try:
        with Lock(os.path.join(directory, lock), patience=LOCK_PATIENCE):
            sweep_unfinished(path)
            content = change()
            if content is None:
                return
            if len(content) > limit:  # it could not be read again
                raise StateError(f"{quoted(path)} would be too large", hint="revoke what is not needed")
            write_private(path, content)
    except OSError as error:
        raise StateError(
            f"{quoted(path)} cannot be written: {error.strerror}", hint=f"nothing was changed; {what_helps(error)}"
        ) from None


def what_helps(error: OSError) -> str:
    """Return what a person can do about an error of writing."""
    if isinstance(error, BlockingIOError):
        return "`fuser` shows which program holds it; it may be stopped"
    return "make room there" if error.errno in (ENOSPC, EDQUOT) else "check the permissions there, and the free space"


def stamp_of(path: str) -> tuple[int, ...]:
    """Return what changes whenever a file does."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
