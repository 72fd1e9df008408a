"""Reserve names of a workspace that do not exist and must not be created while a sandbox runs.

A mount needs something to stand on. So a missing name is given an empty directory, which Git does not see, or, where
the caller says so (inside `.git`), a small file. The last one out removes what is still as it was made.

Who is in is known by a shared lock: each holder has a descriptor of its own, which a launcher may inherit, so that the
names are held as long as any of its processes lives. A process that gets the lock exclusively knows that no other is
in, and cleans up: on leaving, or on arriving after a crash. Everything that looks at the lock or at the names does it
in its turn, under a second lock that is held for a moment only. So it does not matter that a shared lock becomes an
exclusive one, and back, with a gap between.

The journal lists a name before it is made, and how it looked when it was. What has become anything else is the user's:
a directory with something in it, a file with other content, a name that was there before us. It is never removed.

The journal also says which lock it belongs to. If that lock file was removed, those who hold it are out of sight: what
the journal lists is left alone then, since it may be in use, and is forgotten.

Nothing is brought to disk by force: after a power cut an empty directory may stay behind.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import SandboxError, StateError
from byleave.sandbox.reserved_names import NoWayError, ReservedName, ReservedNames, entry_tree, is_canonical, read_entry
from byleave.text import quoted
from byleave.user_files import make_private_directory, read_private, sweep_unfinished, write_private
from byleave.workspace.openat import Closing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

_LARGEST_JOURNAL = 16 << 20
_LONGEST_WAIT = 30.0  # seconds; a turn takes milliseconds, unless the process that has it is stopped
_NAPS = (0.0002, 0.02)  # seconds: the shortest and the longest between two looks at a lock
_LOOKS, _MOMENT = 10, 0.003  # seconds; another sandbox may keep its names for as long as it likes
_OPEN_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Placeholder(Struct, frozen=True):
    """A name to be held: its canonical path in the workspace, and the content of the file. None: a directory."""

    path: str
    content: bytes | None = None


class _Sorted(Struct, frozen=True):
    """What has become of each requested name, or is to be done about it."""

    held: tuple[Placeholder, ...]
    present: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    missing: tuple[Placeholder, ...] = ()


class Hold:
    """Names that are held until `release`, also called `close`; a context manager.

    `held` are the names that stand for us now, as they are. `present` were there before us and are not ours. `skipped`
    are names that could not be held, each with the reason: their absence is not guaranteed. `descriptor` has the lock.
    It is closed on exec unless it is passed on; a process that has it holds the names as well, however we end. The
    program in the sandbox must not have it, for it could let go.
    """

    __slots__ = ("_places", "descriptor", "held", "present", "skipped")

    def __init__(self, places: Placeholders, descriptor: int, names: _Sorted) -> None:
        self._places = places
        self.descriptor = descriptor
        self.held = names.held
        self.present = names.present
        self.skipped = names.skipped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.release()

    def release(self) -> None:
        """Leave, and remove the names if no other sandbox has them. Never raises: what stays is removed by the next."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor < 0:
            return
        os.close(descriptor)
        try:
            self._places.recover()
        except StateError:
            return

    close = release


class Placeholders:
    """Names that are held while sandboxes of this workspace run. The last one out removes them, also after a crash.

    `directory` is the private directory that holds what is remembered of the workspace; `root` is canonical.
    """

    def __init__(self, directory: str, root: str) -> None:
        self._directory = directory
        self._root = root
        self._journal = os.path.join(directory, "placeholders.json")
        self._lock = os.path.join(directory, "placeholders.lock")
        self._turn = os.path.join(directory, "placeholders.turn")

    def hold(self, requested: Sequence[Placeholder]) -> Hold:
        """Hold the names, making those that are missing; a StateError if one cannot be made, and then none is."""
        odd = [each.path for each in requested if not is_canonical(each.path)]
        if odd:
            raise ValueError(f"{odd[0]!r} is no canonical path of the workspace")
        make_private_directory(self._directory)
        try:
            with _Turn(self._turn):
                return self._enter(requested)
        except OSError as error:
            raise _failed(error, self._root) from None

    def recover(self, *, patience: float | None = None) -> list[str]:
        """Remove what crashed runs left, if no process holds it; return the names. Costs one look if there is nothing.

        What cannot be removed now stays in the journal. It waits for its turn for at most `patience` seconds.
        """
        if not os.path.lexists(self._journal):
            return []
        try:
            with _Turn(self._turn, patience), Closing(os.open(self._lock, _OPEN_LOCK, 0o600)) as lock:
                return self._clean(lock) if _is_alone(lock) else []
        except OSError as error:
            raise _failed(error, self._root) from None

    def names(self) -> frozenset[str]:
        """Return the names that stand only as reservations: a plan takes them for missing.

        They may go at any moment, unless the caller holds something, be it no name at all. Then whatever exists and is
        not in here, when asked after looking at it, is not ours.
        """
        if not os.path.lexists(self._journal):
            return frozenset()
        try:
            known = self._read(os.stat(self._lock, follow_symlinks=False).st_ino)
            with ReservedNames(self._root) as names:
                return frozenset(path for path, entry in known.items() if names.is_only_held(entry, known))
        except FileNotFoundError:
            return frozenset()
        except OSError as error:
            raise _failed(error, self._root) from None

    def _enter(self, requested: Sequence[Placeholder]) -> Hold:
        lock = os.open(self._lock, _OPEN_LOCK, 0o600)
        try:
            if _is_alone(lock):
                self._clean(lock)
            _share(lock, self._lock)
            with ReservedNames(self._root) as names:
                known = self._read(os.fstat(lock).st_ino)
                found = _sort(names, requested, known)
                if found.missing:
                    found = self._make(names, found, known, lock)
            return Hold(self, lock, found)
        except BaseException:
            os.close(lock)
            raise

    def _clean(self, lock: int) -> list[str]:
        """Remove what the journal lists; the caller has the lock exclusively."""
        sweep_unfinished(self._journal)
        known = self._read(os.fstat(lock).st_ino)
        if not known:
            self._write({}, lock)
            return []
        with ReservedNames(self._root) as names:
            removed, stuck = names.remove(known.values())
        if stuck != known:
            self._write(stuck, lock)
        return removed

    def _make(self, names: ReservedNames, found: _Sorted, known: Mapping[str, ReservedName], lock: int) -> _Sorted:
        """Make what is missing, and return what has become of every name. Whatever is raised, nothing of it is left."""
        begun = {each.path: ReservedName(each.path, each.content) for each in found.missing}
        kept = {path: entry for path, entry in known.items() if path not in begun}
        made: list[Placeholder] = []
        present, skipped = list(found.present), list(found.skipped)
        try:
            self._write({**kept, **begun}, lock)
            for each in found.missing:
                try:
                    begun[each.path] = names.make(each.path, each.content)
                    made.append(each)
                except FileExistsError:  # another process was faster
                    present.append(each.path)
                except NoWayError as error:
                    skipped.append((each.path, error.reason))
            self._write({**kept, **{each.path: begun[each.path] for each in made}}, lock)
        except BaseException:
            self._undo(names, begun, kept, lock)
            raise
        return _Sorted((*found.held, *made), tuple(present), tuple(skipped))

    def _undo(
        self, names: ReservedNames, begun: Mapping[str, ReservedName], kept: Mapping[str, ReservedName], lock: int
    ) -> None:
        _removed, stuck = names.remove(begun.values())
        try:
            self._write({**kept, **stuck}, lock)
        except OSError:  # the journal lists too much then, and that does no harm
            return

    def _read(self, lock: int) -> dict[str, ReservedName]:
        """Return what the journal lists; nothing if it is damaged, or belongs to another lock than that inode."""
        content = read_private(self._journal, limit=_LARGEST_JOURNAL)
        if content is None:
            return {}
        import json

        try:
            tree = json.loads(content)
            entries = [read_entry(each) for each in tree["names"]]
            known = tree["lock"] == lock
        except (ValueError, KeyError, TypeError, RecursionError):
            return {}
        return {entry.path: entry for entry in entries} if known else {}

    def _write(self, entries: Mapping[str, ReservedName], lock: int) -> None:
        import json

        if entries:
            tree = {"lock": os.fstat(lock).st_ino, "names": [entry_tree(entry) for entry in entries.values()]}
            write_private(self._journal, json.dumps(tree).encode(), durable=False)
        elif os.path.lexists(self._journal):
            os.unlink(self._journal)


class _Turn:
    """The right to look and to change, for a moment: one process at a time, and one thread of it."""

    def __init__(self, path: str, patience: float | None = None) -> None:
        self._path = path
        self._patience = patience
        self._descriptor = -1

    def __enter__(self) -> None:
        while True:
            descriptor = os.open(self._path, _OPEN_LOCK, 0o600)
            try:
                _wait(descriptor, self._path, self._patience)
                if _is_there(descriptor, self._path):
                    self._descriptor = descriptor
                    _turns.add(descriptor)
                    return
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # the file was removed while we waited: others queue at another one

    def __exit__(self, *_raised: object) -> None:
        _turns.discard(self._descriptor)
        os.close(self._descriptor)


_turns: set[int] = set()


def _leave_to_parent() -> None:
    """After a fork: the turn is the parent's, and must end when the parent ends it."""
    while _turns:
        os.close(_turns.pop())


os.register_at_fork(after_in_child=_leave_to_parent)


def _sort(names: ReservedNames, requested: Iterable[Placeholder], known: Mapping[str, ReservedName]) -> _Sorted:
    """Sort the names: held already, there before us, without a place, missing. Directories before what is in."""
    held: list[Placeholder] = []
    present: list[str] = []
    skipped: list[tuple[str, str]] = []
    missing: dict[str, Placeholder] = {}
    for path, each in sorted({each.path: each for each in requested}.items()):
        above = missing.get(path.rpartition("/")[0])
        if above is not None and above.content is None:
            missing[path] = each
            continue
        try:
            found = names.look(path)
        except NoWayError as error:
            skipped.append((path, error.reason))
            continue
        entry = known.get(path)
        if found is None:
            missing[path] = each
        elif entry is not None and names.is_ours(entry, found):
            held.append(Placeholder(path, entry.content))
        else:
            present.append(path)
    return _Sorted(tuple(held), tuple(present), tuple(skipped), tuple(missing.values()))


def _is_alone(lock: int) -> bool:
    """Take a lock for ourselves if no other process has it; return whether that is so."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _share(lock: int, path: str) -> None:
    """Take the lock with all others who hold the names. Only who has a turn takes it alone, so it is free for that."""
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        hint = "`fuser` shows which process holds it"
        raise StateError(f"{quoted(path)} is locked by something that is not byleave", hint=hint) from None


def _wait(descriptor: int, path: str, patience: float | None) -> None:
    """Take a lock, or fail after a while if it is not released: a stopped process must not stop all others."""
    nap, longest = _NAPS
    until = time.monotonic() + (_LONGEST_WAIT if patience is None else patience)
    while not _is_alone(descriptor):
        if time.monotonic() >= until:
            hint = "`fuser` shows which process holds it; it may be stopped"
            raise StateError(f"{quoted(path)} is locked by another process for too long", hint=hint)
        time.sleep(nap)
        nap = min(nap * 2, longest)


def _is_there(descriptor: int, path: str) -> bool:
    """Whether the file that is open still stands at its path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def _failed(error: OSError, root: str) -> StateError:
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else root
    problem = f"{quoted(name)} cannot be held while the sandbox runs: {error.strerror or error}"
    return StateError(problem, hint="check the permissions there, and the free space on the disk")


class NameReservation:
    """The names that one sandbox reserves: more with each plan that needs more, until `release`."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self._hold: Hold | None = None
        self._names: tuple[Placeholder, ...] = ()

    @property
    def descriptor(self) -> int | None:
        """The lock, which a launcher inherits; None while nothing is reserved."""
        return None if self._hold is None else self._hold.descriptor

    def begin(self) -> None:
        """Take the lock, so that no name vanishes that a sandbox has reserved."""
        if self._hold is None:
            self._hold = self._placeholders.hold(())

    def present(self) -> frozenset[str]:
        """Return the names in the workspace that stand for reservations, of whichever sandbox."""
        return self._placeholders.names()

    def reserve(self, requested: Sequence[Placeholder]) -> None:
        """Reserve these names beside those of before; a SandboxError if one cannot be."""
        if self._hold is not None and set(requested) <= set(self._names):
            return
        before = self._hold
        self._hold = self._placeholders.hold(requested)
        self._names = tuple(dict.fromkeys([*self._names, *requested]))
        if before is not None:
            before.close()
        if self._hold.skipped:
            name, why = self._hold.skipped[0]
            raise SandboxError(
                f"{quoted(name)} must not be created, and its name cannot be reserved: {why}",
                hint="check the directories above it",
            )

    def wait_until_gone(self) -> None:
        """Have the released names go: a process that was killed keeps the lock for some moments more."""
        for _ in range(_LOOKS):
            if not self._placeholders.names():
                return
            time.sleep(_MOMENT)
            self._placeholders.recover()

    def release(self) -> None:
        """Release the names."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None
            self._names = ()
