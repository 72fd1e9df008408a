"""Change several things together or not at all, also when the process is killed half-way.

Before the first change an intent is written down, durably: what each thing is now and what it will be. What grants
something comes last: when all else is done and verified, the intent is renamed, and that commits it. Then the grants
are made and the intent is removed. An intent with a free lock means that its writer died. One that is
committed is finished. Of any other, every thing that is still exactly as the dead process left it is put back. What
another process has changed since is left alone.

What is in the workspace is reached name by name without following a link, so no other process can lead us out of it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.paths import collapse
from byleave.errors import MountError, StateError
from byleave.store.approvals import REVOKED, Approval
from byleave.text import quoted, sentence_list
from byleave.user_files import Lock, make_private_directory, read_private, sweep_unfinished, write_private
from byleave.workspace.openat import HOLD_DIRECTORY, Closing, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    from byleave.policy.load import Workspace

# The kinds of things: a directory and a link of the workspace, by relative path; a private directory and a file of the
# user's, by absolute path; an approval, by the path of its rule.
DIRECTORY, LINK, PRIVATE_DIRECTORY, FILE, APPROVAL = "directory", "link", "private directory", "file", "approval"
_KINDS = frozenset({DIRECTORY, LINK, PRIVATE_DIRECTORY, FILE, APPROVAL})
_THERE = "there"  # all there is to say of a directory
_SOMETHING_ELSE = "\0"  # what no link, file or approval ever holds
_LARGEST = 256 << 20  # an intent holds the session's file twice


class JournalChange(Struct, frozen=True):
    """One thing, what it is before (None: not there) and after; of an approval, also when each was given.

    `revoked` is the approval that was taken back before and is given again: its target, and when it was given.
    """

    kind: str
    place: str
    before: str | None
    after: str | None
    times: tuple[str, str] = ("", "")
    revoked: tuple[str, ...] = ()


def made_directory(place: str, *, private: bool = False) -> JournalChange:
    """Return the change that makes a directory."""
    return JournalChange(PRIVATE_DIRECTORY if private else DIRECTORY, place, None, _THERE)


class MountJournal:
    """Changes things of one workspace, one set of changes at a time; a context manager that holds the lock.

    Entering it settles what a dead process left half done.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._directory = workspace.homes.workspace(workspace.root.path)
        self._intent = os.path.join(self._directory, "mounting.json")
        self._committed = os.path.join(self._directory, "mounting-committed.json")
        self._lock = Lock(os.path.join(self._directory, "mounts.lock"))

    def __enter__(self) -> Self:
        make_private_directory(self._directory)
        try:
            self._lock.__enter__()
        except OSError as error:
            raise _unwritable(self._directory, error) from None
        try:
            self._recover()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        self._lock.__exit__(None, None, None)

    @property
    def is_pending(self) -> bool:
        """Whether an intent is there: a process is at work, or died at it."""
        return os.path.lexists(self._intent) or os.path.lexists(self._committed)

    def carry_out(
        self,
        changes: Sequence[JournalChange],
        *,
        granting: Sequence[JournalChange] = (),
        verify: Callable[[], None],
    ) -> None:
        """Make all the changes, have them verified, commit, and make those that grant something.

        Whatever is raised, nothing is left of them.
        """
        first, last = [[each for each in some if each.before != each.after] for some in (changes, granting)]
        intent = json.dumps({"changes": _trees(first), "granting": _trees(last)}).encode()
        begun: list[JournalChange] = []
        try:
            write_private(self._intent, intent)
            self._make(first, begun)
            for change in last:
                self._require(change)
            verify()
            if last:
                os.replace(self._intent, self._committed)
                _sync(self._directory)
                self._make(last, begun)
            self._forget_intent()
        except OSError as error:
            self._give_up(intent, begun)
            raise _failed(error) from None
        except BaseException:
            self._give_up(intent, begun)
            raise

    def _make(self, changes: Sequence[JournalChange], begun: list[JournalChange]) -> None:
        for change in changes:
            self._require(change)
            begun.append(change)
            self._set(change, change.after, change.times[1])

    def _give_up(self, intent: bytes, begun: Sequence[JournalChange]) -> None:
        """Undo what was begun. If this process dies meanwhile, the next one that finds the intent undoes it, too."""
        try:
            if os.path.lexists(self._committed):
                os.replace(self._committed, self._intent)
            elif begun and not os.path.lexists(self._intent):
                write_private(self._intent, intent)
        except OSError:
            pass  # we are alive, and put it back anyway
        self._put_back(begun)

    def _recover(self) -> None:
        sweep_unfinished(self._intent)
        for path, settle in ((self._committed, self._finish), (self._intent, self._undo)):
            content = read_private(path, limit=_LARGEST)
            if content is not None:
                changes, granting = _read_intent(content, path)
                for change in (*changes, *granting):
                    if change.kind == FILE:
                        sweep_unfinished(change.place)
                settle(changes, granting)

    def _undo(self, changes: Sequence[JournalChange], granting: Sequence[JournalChange]) -> None:
        self._put_back([*changes, *granting])

    def _finish(self, _changes: Sequence[JournalChange], granting: Sequence[JournalChange]) -> None:
        """Make the grants that the user agreed to and that a dead process had committed."""
        stuck = []
        for change in granting:
            try:
                if self._get(change) == change.before:
                    self._set(change, change.after, change.times[1])
            except (OSError, StateError):
                stuck.append(change.place)
        self._settled(stuck, "could not be finished")

    def _put_back(self, changes: Sequence[JournalChange]) -> None:
        """Undo what is still as we left it, the last change first; keep the intent if something resists."""
        stuck = []
        for change in reversed(changes):
            try:
                if self._get(change) == change.after:
                    self._set(change, change.before, change.times[0])
            except (OSError, StateError):
                stuck.append(change.place)
        self._settled(stuck, "could not be put back as before")

    def _settled(self, stuck: list[str], what: str) -> None:
        if stuck:
            hint = "make room and check permissions; the next `byleave mount --list` tries again"
            raise StateError(f"{sentence_list(stuck)} {what}", hint=hint)
        try:
            self._forget_intent()
        except OSError as error:
            raise _unwritable(self._intent, error) from None

    def _forget_intent(self) -> None:
        for path in (self._committed, self._intent):
            if os.path.lexists(path):
                os.unlink(path)
                _sync(self._directory)

    def _require(self, change: JournalChange) -> None:
        if self._get(change) != change.before:
            raise MountError(
                f"{quoted(change.place)} changed at this very moment", hint="look at it, then try again", code="changed"
            )

    def _get(self, change: JournalChange) -> str | None:
        """Return what a thing is now."""
        match change.kind:
            case "directory" | "link":
                return self._get_inside(change.place)
            case "private directory":
                return _THERE if os.path.isdir(change.place) else None
            case "file":
                content = read_private(change.place, limit=_LARGEST, links=True)
                return None if content is None else content.decode("utf-8", "surrogateescape")
            case _:
                self._workspace.approvals.refresh()
                return self._workspace.approvals.mount_target(change.place)

    def _set(self, change: JournalChange, value: str | None, time: str) -> None:
        """Make a thing what it is to be."""
        match change.kind:
            case "directory" | "link":
                self._set_inside(change, value)
            case "private directory":
                _set_private_directory(change.place, exists=value is not None)
            case "file":
                _set_file(change.place, value)
            case _ if value is None:
                self._forget(change)
            case _:
                self._workspace.approvals.approve_mount(change.place, value, now=time)

    def _forget(self, change: JournalChange) -> None:
        """Forget an approval; what was taken back before it was given is taken back again."""
        approvals = self._workspace.approvals
        if not change.revoked:
            approvals.forget_mount(change.place, target=change.after)
            return
        target, given_at, revoked_at = change.revoked
        detail = {"rule_path": change.place, "canonical_target": target}
        approvals.revoke(Approval("mount", REVOKED, "", given_at, detail), now=revoked_at)

    def _get_inside(self, relative: str) -> str | None:
        try:
            with self._parent(relative) as parent:
                name = relative.rpartition("/")[2]
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    return os.readlink(name, dir_fd=parent)
                return _THERE if stat.S_ISDIR(mode) else _SOMETHING_ELSE
        except FileNotFoundError:
            return None
        except OSError:  # a parent is a link or a file by now: nothing in there was made by byleave
            return _SOMETHING_ELSE

    def _set_inside(self, change: JournalChange, value: str | None) -> None:
        try:
            self._set_name(change, value)
        except OSError as error:  # which names the target of a link, or a name without what lies above it
            raise OSError(error.errno, error.strerror, change.place) from None

    def _set_name(self, change: JournalChange, value: str | None) -> None:
        with self._parent(change.place) as parent:
            name = change.place.rpartition("/")[2]
            if change.kind == DIRECTORY:
                if value is None:
                    _remove_if_empty(name, parent)
                else:
                    os.mkdir(name, dir_fd=parent)
            elif value is None:
                os.unlink(name, dir_fd=parent)
            else:
                os.symlink(value, name, dir_fd=parent)
            _sync(".", parent)

    def _parent(self, relative: str) -> Closing:
        """Open the directory that holds a name of the workspace, on a way without links."""
        above = relative.rpartition("/")[0]
        root = os.open(self._workspace.root.path, HOLD_DIRECTORY | os.O_NOFOLLOW)
        if not above:
            return Closing(root)
        with Closing(root):
            return Closing(walk(root, above, HOLD_DIRECTORY))


def recover(workspace: Workspace) -> None:
    """Settle what a mount or unmount that died had begun; costs one look if there is nothing to do."""
    journal = MountJournal(workspace)
    if journal.is_pending:
        with journal:
            return


def _trees(changes: Sequence[JournalChange]) -> list[list[Any]]:
    return [list(structs.astuple(change)) for change in changes]


def _read_intent(content: bytes, path: str) -> tuple[list[JournalChange], list[JournalChange]]:
    """Return the changes of an intent, and those that grant; a detail that byleave never writes makes it damaged."""
    try:
        tree = json.loads(content)
        return [_read_change(each) for each in tree["changes"]], [_read_change(each) for each in tree["granting"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        hint = "`byleave mount --list` and the links in the workspace show what is there; then remove the file"
        raise StateError(f"{quoted(path)} is damaged: what it began cannot be settled", hint=hint) from None


def _read_change(tree: Any) -> JournalChange:
    kind, place, before, after, times, revoked = tree
    texts = (place, *times, *revoked, *(value for value in (before, after) if value is not None))
    whole = isinstance(times, list) and isinstance(revoked, list) and len(times) == 2 and len(revoked) in (0, 3)
    if kind not in _KINDS or not whole or not all(isinstance(text, str) for text in texts):
        raise ValueError(kind)
    inside = not place.startswith("/") and collapse(place) == place != ""
    if "\0" in place or inside == (kind in (PRIVATE_DIRECTORY, FILE)):
        raise ValueError(place)
    return JournalChange(kind, place, before, after, (times[0], times[1]), tuple(revoked))


def _set_private_directory(path: str, *, exists: bool) -> None:
    if exists:
        make_private_directory(path)
    else:
        _remove_if_empty(path)


def _set_file(path: str, content: str | None) -> None:
    if content is None:
        os.unlink(path)
        _sync(os.path.dirname(path))
    else:
        write_private(path, content.encode("utf-8", "surrogateescape"))


def _remove_if_empty(name: str, parent: int | None = None) -> None:
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def _sync(path: str, parent: int | None = None) -> None:
    """Bring a directory to disk, as far as it can be opened and its file system knows how."""
    try:
        with Closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)) as directory:
            os.fsync(directory)
    except OSError:
        return


def _failed(error: OSError) -> StateError:
    place = f"{quoted(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
    return StateError(f"nothing was changed: {place}{error.strerror or error}", hint="mend that, then try again")


def _unwritable(path: str, error: OSError) -> StateError:
    return StateError(f"{quoted(path)} cannot be written: {error.strerror or error}", hint="check its permissions")
